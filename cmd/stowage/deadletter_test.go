package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// What an action did before it was cut short is printed, why it ended is said, and nothing is made up
// where nobody knows.
func TestAnActionThatWasCutShortTellsWhatItDid(t *testing.T) {
	t.Parallel()
	stops := ports.Errorf(ports.CodeStoreClosed, "control.replayLetters", "the process stops")
	unknown := ports.Errorf(ports.CodeOutcomeUnknown, "admin.replayLetters", "the connection broke")
	paused := []types.LetterFailure{{MatchID: "m-2", Err: ports.Errorf(ports.CodeInvalidInput, "", "it is paused").WithReason(ports.ReasonPaused)}}
	for name, c := range map[string]struct {
		result types.BulkResult
		err    error
		exit   int
		out    string
		says   []string
	}{
		"nobody knows":         {types.BulkResult{}, unknown, exitUnknown, "", []string{"error: the connection broke (OUTCOME_UNKNOWN)\n"}},
		"nothing was done":     {types.BulkResult{}, stops, exitUnavailable, "", []string{"error: the process stops (STORE_CLOSED)\n"}},
		"none could be done":   {types.BulkResult{Failed: 1, Failures: paused}, stops, exitUnavailable, "replayed 0, failed 1\n", []string{"m-2: it is paused", "error: the process stops (STORE_CLOSED)\n"}},
		"a part was done":      {types.BulkResult{Done: 7}, stops, exitPartly, "replayed 7, failed 0\n", []string{"error: the process stops (STORE_CLOSED)\n"}},
		"some could, some not": {types.BulkResult{Done: 7, Failed: 1, Failures: paused}, stops, exitPartly, "replayed 7, failed 1\n", []string{"m-2: it is paused", "error: the process stops (STORE_CLOSED)\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, read := filedApp(t)
			err := &ranError{bulk{verb: "replay", done: "replayed"}.cutShort(a, formatTable, c.result, c.err)}
			report(a.err, err)
			assert.Equal(t, c.exit, exitCode(err))
			out, said := read()
			assert.Equal(t, c.out, out)
			for _, want := range c.says {
				assert.Contains(t, said, want)
			}
		})
	}
}

// filedApp is an app that prints to files, and what reads them.
func filedApp(t *testing.T) (*app, func() (out, err string)) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, f.Close()) })
		return f
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	a := &app{out: open("out"), err: open("err")}
	return a, func() (string, string) { return read("out"), read("err") }
}

// pagedLetters is a daemon's answers to Letters alone.
type pagedLetters struct {
	operatorClient
	count int
	asked []types.LetterQuery
}

func (p *pagedLetters) Letters(_ context.Context, _ types.PipelineID, _ types.LetterFilter, query types.LetterQuery) (types.LetterPage, error) {
	p.asked = append(p.asked, query)
	page := types.LetterPage{}
	if query.After == 0 {
		page.Total = int64(p.count)
	}
	for n := int(query.After) + query.Skip + 1; n <= p.count && len(page.Letters) < query.Take; n++ {
		page.Letters = append(page.Letters, types.StoredLetter{Position: int64(n), Letter: fixture.DeadLetter(n)})
	}
	return page, nil
}

// A letter is replayed by its whole id, so the list has it whole.
func TestTheListHasWholeMatchIDs(t *testing.T) {
	t.Parallel()
	a, read := filedApp(t)
	id := types.NewMatchID("quakes", "strong", "alerts", "us1")
	require.Len(t, string(id), matchDigits)
	letter := fixture.DeadLetter(1)
	letter.MatchID = id
	item := newLetterItem(types.StoredLetter{Position: 1, Letter: letter})
	require.NoError(t, emit(a.out, formatTable, data{table: func(t *table) { letterTable(t, []letterItem{item}) }}))
	out, _ := read()
	assert.Contains(t, out, "\n"+string(id)+"  ")
}

// Many letters come in pages, each behind the last one, and none is looked for twice.
func TestManyLettersAreListedInPages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		skip, take, lines int
		asked             []types.LetterQuery
	}{
		"one page":     {10, 5, 5, []types.LetterQuery{{Skip: 10, Take: 5}}},
		"three pages":  {10, 2100, 2100, []types.LetterQuery{{Skip: 10, Take: 1000}, {After: 1010, Take: 1000}, {After: 2010, Take: 100}}},
		"to the end":   {2000, 5000, 500, []types.LetterQuery{{Skip: 2000, Take: 1000}, {After: 2500, Take: 1000}}},
		"past the end": {3000, 10, 0, []types.LetterQuery{{Skip: 3000, Take: 10}}},
	} {
		a, read := filedApp(t)
		client := &pagedLetters{count: 2500}
		require.NoError(t, listLetters(t.Context(), a, client, "quakes", types.LetterFilter{Sink: "alerts"}, c.skip, c.take, formatJSONL), name)
		out, _ := read()
		assert.Equal(t, c.lines, strings.Count(out, "\n"), name)
		assert.Equal(t, c.asked, client.asked, name)
	}
}
