package eventlog

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
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

func TestModuleOpensTheDirectoryThatIsConfigured(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, test := range []struct {
		name   string
		config config
		want   func(stateDir string) string
	}{
		{"orders", nil, func(s string) string { return filepath.Join(s, "events", "orders") }},
		{"a:b.c", nil, func(s string) string { return filepath.Join(s, "events", "a:b.c") }},
		{"other", config{"path": "deep/er"}, func(s string) string { return filepath.Join(s, "deep", "er") }},
		{"up", config{"path": "../beside"}, func(s string) string { return filepath.Join(filepath.Dir(s), "beside") }},
		{"absolute", config{"path": elsewhere + "/x/.."}, func(string) string { return elsewhere }},
		{"small", config{"max_bytes": int64(1 << 20), "segment_bytes": int64(64 << 10)}, func(s string) string { return filepath.Join(s, "events", "small") }},
	} {
		env := fixture.Env(t, test.name, fixture.NewClock(fixture.Epoch()))
		require.NoError(t, Module().Check(env, test.config))
		require.NoDirExists(t, env.StateDir, "Check opens nothing")

		source, err := Module().Open(t.Context(), env, test.config, nil, nil)
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(test.want(env.StateDir), nameOf(0)))
		require.NoError(t, source.Close())
	}
}

func TestModuleRefusesBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		config config
	}{
		{"orders", config{"pahts": "x"}},
		{"orders", config{"max_bytes": int64(-1)}},
		{"orders", config{"max_bytes": int64(minMaxBytes - 1)}},
		{"orders", config{"segment_bytes": int64(minSegmentBytes - 1)}},
		{"orders", config{"max_bytes": int64(1 << 20), "segment_bytes": int64(1<<19 + 1)}},
		{strings.Repeat("x", 256), nil},
		{"../up", nil},
		{"..", nil},
		{"", nil},
	} {
		env := fixture.Env(t, test.name, fixture.NewClock(fixture.Epoch()))
		message := fmt.Sprint(test.name, test.config)
		require.ErrorIs(t, Module().Check(env, test.config), ports.ErrInvalidConfig, message)
		source, err := Module().Open(t.Context(), env, test.config, nil, nil)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, message)
		require.Nil(t, source)
		require.NoDirExists(t, env.StateDir)
	}
}

func TestModuleDescribesItself(t *testing.T) {
	t.Parallel()
	info := Module().ModuleInfo
	require.Equal(t, "http", info.Name)
	require.NotEmpty(t, info.Description)
	require.Contains(t, info.Example, `module = "http"`)
	for _, key := range []string{"path", "max_bytes", "segment_bytes"} {
		require.Contains(t, info.Example, "\n"+key+" = ")
	}
}
