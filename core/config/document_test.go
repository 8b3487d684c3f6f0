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
	var whole, pipelines int
	for _, text := range blocks(string(page), "toml") {
		c, err := config.Parse("stowage.toml", []byte(text))
		require.NoError(t, err, text)
		if len(c.Kv) > 0 && len(c.Queue) > 0 {
			whole++
		}
		pipelines += len(c.Pipelines)
	}
	require.Positive(t, whole, "a whole file")
	require.Positive(t, pipelines)
	resources := blocks(string(page), "json")
	require.NotEmpty(t, resources)
	for _, text := range resources {
		_, err := config.ParsePipeline("p", []byte(text))
		require.NoError(t, err, text)
	}
}

// blocks are the examples of a page in a language.
func blocks(page, language string) (texts []string) {
	for _, block := range strings.Split(page, "```"+language+"\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		texts = append(texts, text)
	}
	return texts
}
