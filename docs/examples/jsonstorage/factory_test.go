package jsonstorage_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/jsonstorage"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// compose registers the module as a program would, and composes from a configuration.
func compose(t *testing.T, text string) (*catalog.Composition, string, error) {
	t.Helper()
	dir := t.TempDir()
	cfg, err := config.Parse(filepath.Join(dir, "stowage.toml"), []byte(text))
	require.NoError(t, err)
	modules := catalog.New()
	require.NoError(t, modules.RegisterStorage(jsonstorage.Module()))
	stores, err := modules.Compose(cfg, catalog.Options{})
	if err == nil {
		t.Cleanup(func() { require.NoError(t, stores.Close(context.Background())) })
	}
	return stores, dir, err
}

func TestModuleOpensFromItsExample(t *testing.T) {
	t.Parallel()
	stores, dir, err := compose(t, jsonstorage.Module().Example)
	require.NoError(t, err)
	storage, err := stores.Storage(t.Context())
	require.NoError(t, err)
	require.NoError(t, storage.Pause(t.Context(), types.PipelineOf("quakes")))
	text, err := os.ReadFile(filepath.Join(dir, "stowage-data", "state.json"))
	require.NoError(t, err)
	require.Contains(t, string(text), `{"target":"pipeline","id":"quakes"}`)
}

func TestModuleRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"ptah": `"x"`, "journal_depth": "0"} {
		_, _, err := compose(t, "[storage]\nmodule = \"jsonstorage\"\n[storage.config]\n"+key+" = "+value+"\n")
		require.ErrorIs(t, err, ports.ErrInvalidConfig)
		require.ErrorContains(t, err, key)
	}
}

func TestOpenLeavesAFileThatIsNoStoreAsItIs(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"no JSON", `{"settings":{}}`} {
		path := filepath.Join(t.TempDir(), "storage.json")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := jsonstorage.Open(path, 0)
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(text))
	}
}

// A file that cannot be written changes nothing: the next call finds the store as it was.
func TestAChangeThatCannotBeWrittenIsNone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "storage.json")
	store, err := jsonstorage.Open(path, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, store.RecordDeadLetter(t.Context(), "quakes", fixture.DeadLetter(1)))

	require.NoError(t, os.Mkdir(path+".new", 0o700)) // where the new content would be written
	_, err = store.DeleteDeadLetter(t.Context(), "quakes", fixture.DeadLetter(1).MatchID)
	require.ErrorIs(t, err, ports.ErrBackendFailed)
	found, ok, err := store.GetDeadLetter(t.Context(), "quakes", fixture.DeadLetter(1).MatchID)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, fixture.DeadLetter(1), found.Letter)
}
