package localkv

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
	_, section, found := strings.Cut(string(text), "\n## localkv.v2\n")
	require.True(t, found, "docs/formats.md has no section localkv.v2")
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
	require.Equal(t, []string{
		words(sqlitefile.MetaDDL),
		words("INSERT OR IGNORE INTO meta (key, value) VALUES ('format', '" + Format + "')"),
		words(kvDDL),
		words(selectEntry),
		words(selectExpiry),
		words(deleteExpired),
		words(upsert),
		words(upsertIfAbsent),
		words(updateIfVersion),
		words(deleteIfVersion),
		words(deleteKey),
		words(selectRange),
		words(selectRangeAfter),
	}, documented)
}

func words(sql string) string { return strings.Join(strings.Fields(sql), " ") }

func TestStatementsUseTheIndexOfTheKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, open(t, Options{Dir: dir}).Close())
	for _, query := range []string{selectEntry, selectExpiry, selectRange, selectRangeAfter, updateIfVersion, deleteIfVersion, deleteKey, deleteExpired} {
		parameters := strings.Count(query, "?")
		plan := rawRows(t, dir, "EXPLAIN QUERY PLAN "+query, make([]any, parameters)...)
		require.Len(t, plan, 1, "one search and no sort: %v", plan)
		require.Contains(t, plan[0][3], "SEARCH kv USING INDEX sqlite_autoindex_kv_1", query)
	}
}
