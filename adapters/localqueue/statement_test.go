package localqueue

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
)

// The document and the code change together (R026): every statement that runs stands in the
// document, and every statement of the document runs.
func TestDocumentHasTheStatements(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/formats.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## localqueue.v1\n")
	require.True(t, found, "docs/formats.md has no section localqueue.v1")
	section, _, _ = strings.Cut(section, "\n## ")

	var documented []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(section, -1) {
		sql := regexp.MustCompile(`--[^\n]*`).ReplaceAllString(block[1], "")
		for statement := range strings.SplitSeq(sql, ";") {
			if statement = words(statement); statement != "" {
				documented = append(documented, statement)
			}
		}
	}
	var running []string
	for _, statement := range []string{
		sqlitefile.MetaDDL,
		"INSERT OR IGNORE INTO meta (key, value) VALUES ('format', '" + Format + "')",
		messagesDDL, indexDDL,
		sqlSend, sqlSendLater, sqlRead, sqlClaim, sqlWalkTies, sqlWalkOn,
		sqlAck, sqlShow, sqlDelay, sqlExists, sqlPurge, sqlRemove,
		sqlAhead, sqlCount, sqlScan, sqlFirst, sqlStaged,
		sqlStage, sqlReveal,
	} {
		running = append(running, words(statement))
	}
	require.Equal(t, running, documented)
}

func words(sql string) string { return strings.Join(strings.Fields(sql), " ") }

// What SQLite keeps of a new store's tables is the format to the letter (R021, R076, R077).
func TestNewStoreHasTheTablesOfTheFormat(t *testing.T) {
	t.Parallel()
	q := openQueue(t, Options{})
	var objects, settings []string
	require.NoError(t, q.file.Read(t.Context(), "look", func(c *sqlitefile.Conn) error {
		for statement, list := range map[string]*[]string{
			"SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid": &objects,
			"SELECT key || '=' || value FROM meta UNION ALL SELECT 'pages=' || page_size FROM pragma_page_size" +
				" UNION ALL SELECT 'busy=' || timeout FROM pragma_busy_timeout UNION ALL SELECT 'mode=' || journal_mode FROM pragma_journal_mode": &settings,
		} {
			if err := c.Query(statement, func(r sqlitefile.Row) error {
				*list = append(*list, words(r.Text(0)))
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}))
	want := []string{sqlitefile.MetaDDL, messagesDDL, indexDDL}
	for i := range want {
		want[i] = strings.Replace(words(want[i]), " IF NOT EXISTS", "", 1)
	}
	require.Equal(t, want, objects)
	require.Equal(t, []string{"format=" + Format, "pages=4096", "busy=5000", "mode=wal"}, settings)
}
