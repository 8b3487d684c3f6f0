package eventlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// The document and the code change together: the lines that it shows are those that a log writes and
// reads.
func TestDocumentShowsTheLines(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/formats.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Event log\n")
	require.True(t, found, "docs/formats.md has no section Event log")
	_, block, _ := strings.Cut(section, "```\n")
	shown, _, found := strings.Cut(block, "```\n")
	require.True(t, found)

	events := []types.Event{
		{TS: 1772366400000, Data: []byte(`{"order": 1, "total": 20}`), Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		{TS: 1772366400000, Data: []byte(`{"order": 2, "total": 1500}`)},
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, nameOf(0)), []byte(shown))
	log := open(t, Options{Dir: dir})
	read := drain(t, log)
	require.Equal(t, []string{`{"order":1,"total":20}`, `{"order":2,"total":1500}`}, data(read))
	require.Equal(t, "9f86d081884c7d65/40", read[0].Identity())
	require.Equal(t, events[0].Traceparent, read[0].Traceparent)

	hand(t, log, events...)
	first, lines, _ := strings.Cut(shown, "\n")
	require.Equal(t, first+"\n"+lines+lines, string(readFile(t, lastFile(t, dir))))
}
