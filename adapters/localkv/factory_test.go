package localkv

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
)

// config is a configuration by toml names, as strict as that of a catalog.
type config map[string]any

func (c config) Decode(into any) error {
	target := reflect.ValueOf(into).Elem()
	known := 0
	for i := range target.NumField() {
		value, ok := c[target.Type().Field(i).Tag.Get("toml")]
		if !ok {
			continue
		}
		known++
		target.Field(i).Set(reflect.ValueOf(value))
	}
	if known != len(c) {
		return ports.Errorf(ports.CodeInvalidConfig, "decode", "unknown key in %v", c)
	}
	return nil
}

func TestModuleOpensWhatItsPathsName(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, test := range []struct {
		name   string
		config config
		want   func(stateDir string) string
	}{
		{"default", nil, func(s string) string { return filepath.Join(s, "kv", "default") }},
		{"other", config{"data_dir": "deep/er"}, func(s string) string { return filepath.Join(s, "deep", "er") }},
		{"up", config{"data_dir": "../beside"}, func(s string) string { return filepath.Join(filepath.Dir(s), "beside") }},
		{"absolute", config{"data_dir": elsewhere + "/x/.."}, func(string) string { return elsewhere }},
		{"single", config{"mode": "single-process", "durability": "normal", "cache_bytes": 1 << 20}, func(s string) string { return filepath.Join(s, "kv", "single") }},
	} {
		env := fixture.Env(t, test.name, newClock())
		module := Module()
		paths, err := module.Paths(env, test.config)
		require.NoError(t, err)
		require.Equal(t, []string{test.want(env.StateDir)}, paths)
		require.NoDirExists(t, env.StateDir, "Paths opens nothing")

		store, err := module.Open(t.Context(), env, test.config)
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(paths[0], databaseName))
		require.NoError(t, store.Close())
	}
}

func TestModuleRefusesBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		config config
	}{
		{"default", config{"data_dri": "x"}},
		{"default", config{"mode": "many"}},
		{"default", config{"durability": "none"}},
		{"default", config{"cache_bytes": -1}},
		{"../up", nil},
		{"..", nil},
		{"", nil},
	} {
		env := fixture.Env(t, test.name, newClock())
		message := fmt.Sprint(test.name, test.config)
		_, err := Module().Paths(env, test.config)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, message)
		store, err := Module().Open(t.Context(), env, test.config)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, message)
		require.Nil(t, store)
		require.NoDirExists(t, env.StateDir)
	}
}

func TestModuleDescribesItself(t *testing.T) {
	t.Parallel()
	info := Module().ModuleInfo
	require.Equal(t, "localkv", info.Name)
	require.NotEmpty(t, info.Description)
	require.Contains(t, info.Example, `module = "localkv"`)
}
