package jsonkv_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/jsonkv"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// compose registers the module as a program would, and composes from a configuration.
func compose(t *testing.T, text string) (*catalog.Composition, string, error) {
	t.Helper()
	dir := t.TempDir()
	cfg, err := config.Parse(filepath.Join(dir, "stowage.toml"), []byte(text))
	require.NoError(t, err)
	modules := catalog.New()
	require.NoError(t, modules.RegisterKv(jsonkv.Module()))
	stores, err := modules.Compose(cfg, catalog.Options{})
	if err == nil {
		t.Cleanup(func() { require.NoError(t, stores.Close(context.Background())) })
	}
	return stores, dir, err
}

func TestModuleOpensFromItsExample(t *testing.T) {
	t.Parallel()
	stores, dir, err := compose(t, jsonkv.Module().Example)
	require.NoError(t, err)
	kv, err := stores.Kv(t.Context(), "settings")
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "theme", []byte("dark"), types.PutOptions{})
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "stowage-data", "settings.json"))
	require.NoError(t, err)
	require.Contains(t, string(text), `"theme"`)
}

func TestModuleRefusesAKeyThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	_, _, err := compose(t, "[kv.settings]\nmodule = \"jsonkv\"\n[kv.settings.config]\nptah = \"x\"\n")
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorContains(t, err, "ptah")
}

func TestOpenLeavesAFileThatIsNoStoreAsItIs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kv.json")
	require.NoError(t, os.WriteFile(path, []byte("no JSON"), 0o600))
	_, err := jsonkv.Open(path, ports.SystemClock())
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "no JSON", string(text))
}
