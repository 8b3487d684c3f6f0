package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
)

// TestDocumentedConfigurationParses reads the examples of docs/configuration.md. Inside a released
// module the document is not there.
func TestDocumentedConfigurationParses(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../../docs"); err != nil {
		t.Skip("docs/ is not part of the module; the test runs in the repository")
	}
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```toml\n")[1:]
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		c, err := config.Parse("stowage.toml", []byte(text))
		require.NoError(t, err, text)
		require.NotEmpty(t, c.Kv)
		require.NotEmpty(t, c.Queue)
	}
}
