package webhook

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// The document and the code change together: the request that the document shows is the one that is made
// of its event.
func TestDocumentShowsTheRequest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/formats.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Webhooks\n")
	require.True(t, found, "docs/formats.md has no section Webhooks")
	section, _, _ = strings.Cut(section, "\n## ")
	block := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(section)
	require.Len(t, block, 2)
	want, err := ports.CompactJSON(block[1])
	require.NoError(t, err)
	var event types.SinkEvent
	require.NoError(t, json.Unmarshal([]byte(want), &event))
	got, err := encode(event)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	for _, header := range []string{headerID, headerTimestamp, headerSignature} {
		require.Contains(t, section, "`"+strings.ToLower(header)+"`")
	}
}
