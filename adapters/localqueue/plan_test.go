package localqueue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
)

// The cost of a receive does not grow with the backlog as long as SQLite answers from the index.
func TestStatementsAreAnsweredFromTheIndex(t *testing.T) {
	t.Parallel()
	file := openRaw(t, t.TempDir())
	defer func() { require.NoError(t, file.Close()) }()
	for statement, want := range map[string]string{
		sqlWalkTies: "SEARCH messages USING COVERING INDEX idx_messages_visible (visible_at=? AND enqueued_at=? AND id>?)",
		sqlWalkOn:   "SEARCH messages USING COVERING INDEX idx_messages_visible ((visible_at,enqueued_at)>(?,?) AND (visible_at,enqueued_at)<(?,?))",
		sqlAhead:    "SEARCH messages USING COVERING INDEX idx_messages_visible (visible_at>? AND visible_at<?)",
		sqlFirst:    "SCAN messages USING COVERING INDEX idx_messages_visible",
		sqlCount:    "SCAN messages USING COVERING INDEX idx_messages_visible",
		sqlStaged:   "SEARCH messages USING INDEX idx_messages_visible (visible_at=?)",
		sqlScan:     "SCAN messages USING INDEX idx_messages_visible", // the table only for rows that are not plain
		sqlRead:     "SEARCH messages USING INTEGER PRIMARY KEY (rowid=?)",
		sqlClaim:    "SEARCH messages USING INTEGER PRIMARY KEY (rowid=?)",
		sqlAck:      "SEARCH messages USING INTEGER PRIMARY KEY (rowid=?)",
		sqlShow:     "SEARCH messages USING INTEGER PRIMARY KEY (rowid=?)",
		sqlDelay:    "SEARCH messages USING INTEGER PRIMARY KEY (rowid=?)",
	} {
		var plan []string
		require.NoError(t, file.Read(t.Context(), "plan", func(c *sqlitefile.Conn) error {
			return c.Query("EXPLAIN QUERY PLAN "+statement, func(row sqlitefile.Row) error {
				plan = append(plan, row.Text(3))
				return nil
			})
		}))
		require.Equal(t, []string{want}, plan, statement)
	}
}
