package sqlite

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// statements are those that run, in the order of the document.
var statements = []string{
	selectResource,
	selectResources,
	selectNextKind,
	insertResource,
	updateResource,
	deleteResource,
	selectVersion,
	selectCheckpoint,
	selectCheckpoints,
	upsertCheckpoint,
	deleteCheckpoint,
	selectLetter,
	selectLetters,
	updateLetter,
	insertLetter,
	selectSeqs,
	deleteLetter,
	deleteLettersThrough,
	countLettersWithin,
	countBlocks,
	insertPause,
	deletePause,
	selectPause,
	selectPauses,
	upsertDelivery,
	selectHighest,
	pruneDeliveries,
	selectDeliveries,
	countDeliveries,
	insertHit,
	selectHits,
	deleteHitsBefore,
	deleteHitsBeforeOf,
	deleteHitsFrom,
	selectMeta,
	upsertMeta,
	selectAnything,
	exportResources,
	exportLetters,
	exportDeliveries,
	exportHits,
	exportMetas,
	importCheckpoint,
	importPause,
	importDelivery,
	importHit,
	importMeta,
}

// The document and the code change together (R286): every statement that runs stands in the document,
// and every statement of the document runs.
func TestDocumentHasTheStatements(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/formats.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## storage\n")
	require.True(t, found, "docs/formats.md has no section storage")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(section, -1) {
		documented = append(documented, split(block[1])...)
	}
	var want []string
	for _, batch := range migrations {
		want = append(want, split(batch)...)
	}
	for _, statement := range statements {
		want = append(want, words(statement))
	}
	require.Equal(t, want, documented)
}

func split(batch string) (list []string) {
	for statement := range strings.SplitSeq(batch, ";") {
		if statement = words(statement); statement != "" {
			list = append(list, statement)
		}
	}
	return list
}

// The list above is whole: what the code names as a statement is in it.
func TestTheListOfStatementsIsWhole(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile("statement.go")
	require.NoError(t, err)
	var named []string
	for _, match := range regexp.MustCompile("(?s)= `([^`]*)`").FindAllStringSubmatch(string(code), -1) {
		named = append(named, match[1])
	}
	require.ElementsMatch(t, named, statements)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "statement.go" || name == "schema.go" {
			continue
		}
		code, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NotRegexp(t, `"(SELECT|INSERT|UPDATE|DELETE) `, string(code), "%s has a statement of its own", name)
	}
}

// The statements that the specification gives word for word (R199, R239).
func TestStatementsOfTheSpecification(t *testing.T) {
	t.Parallel()
	require.Equal(t, "UPDATE resources SET version = version + 1, value = ?4\nWHERE kind = ?1 AND id = ?2 AND version = ?3", updateResource)
	require.Equal(t, "DELETE FROM dead_letters\nWHERE pipeline = ?1 AND json_extract(entry, '$.match_id') = ?2", deleteLetter)
	require.Equal(t, "DELETE FROM resources\nWHERE kind = ?1 AND id = ?2 AND version = ?3", deleteResource)
}

// No statement that runs for a caller walks a table or sorts more than it returns.
func TestStatementsAreSearches(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	// Lists of everything, and the counts of an open, walk what they return.
	walks := []string{selectCheckpoints, selectPauses, countBlocks, countDeliveries, selectAnything, exportResources, exportLetters, exportDeliveries, exportHits, exportMetas}
	index := map[string]string{
		selectLetter:         "INDEX dead_letters_match_id (pipeline=? AND <expr>=?)",
		updateLetter:         "INDEX dead_letters_match_id (pipeline=? AND <expr>=?)",
		deleteLetter:         "INDEX dead_letters_match_id (pipeline=? AND <expr>=?)",
		selectSeqs:           "COVERING INDEX dead_letters_match_id (pipeline=? AND <expr>=?)",
		selectLetters:        "INDEX dead_letters_pipeline (pipeline=? AND seq>?)",
		countLettersWithin:   "COVERING INDEX dead_letters_pipeline (pipeline=? AND seq>? AND seq<?)",
		deleteLettersThrough: "INDEX dead_letters_pipeline (pipeline=? AND seq<?)",
		selectHighest:        "COVERING INDEX delivery_journal_pipeline_primary (pipeline=? AND cursor_primary<?)",
		pruneDeliveries:      "INDEX delivery_journal_pipeline_primary (pipeline=? AND cursor_primary<?)",
		selectDeliveries:     "INDEX delivery_journal_pipeline_primary (pipeline=? AND cursor_primary>? AND cursor_primary<?)",
		deleteHitsBefore:     "INDEX gate_hits_pipeline_primary (pipeline=? AND cursor_primary<?)",
		deleteHitsBeforeOf:   "INDEX sqlite_autoindex_gate_hits_1 (pipeline=? AND monitor=? AND cursor_primary<?)", // the primary key
		deleteHitsFrom:       "INDEX gate_hits_pipeline_primary (pipeline=? AND cursor_primary>?)",
	}
	plan := func(statement string, args ...any) string {
		var plan strings.Builder
		for _, row := range queryRows(t, s.file, "EXPLAIN QUERY PLAN "+statement, args...) {
			plan.WriteString(row[3].(string) + "\n")
		}
		return plan.String()
	}
	// Each scrape of the metrics counts the journals: from an index alone, without sorting.
	require.Equal(t, "SCAN delivery_journal USING COVERING INDEX delivery_journal_pipeline_primary\n", plan(countDeliveries))
	for _, statement := range statements {
		if strings.HasPrefix(statement, "INSERT") || slices.Contains(walks, statement) {
			continue
		}
		parameters := map[string]bool{}
		for _, p := range regexp.MustCompile(`\?\d`).FindAllString(statement, -1) {
			parameters[p] = true
		}
		plan := plan(statement, make([]any, len(parameters))...)
		require.Contains(t, plan, "SEARCH ", statement)
		require.NotContains(t, plan, "SCAN ", statement)
		require.Contains(t, plan, index[statement], statement)
		if statement != selectDeliveries { // the index has the primary only
			require.NotContains(t, plan, "TEMP B-TREE", statement)
		}
	}
}
