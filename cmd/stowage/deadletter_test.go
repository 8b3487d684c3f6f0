package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
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
