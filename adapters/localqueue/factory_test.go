package localqueue

import (
	"os"
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
	env := fixture.Env(t, "orders", fixture.NewClock(fixture.Epoch()))
	orders := config{"max_receives": 5, "dead_letter_queue": "orders-dead", "durability": "normal", "cache_bytes": 1 << 20}
	module := Module()
	require.Nil(t, module.Open, "queues of this module share an owner")
	paths, err := module.Paths(env, orders)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(env.StateDir, "queue-owned", "orders")}, paths)
	require.NoDirExists(t, env.StateDir, "Paths opens nothing")

	env.Name = ""
	owner, err := module.OpenOwner(t.Context(), env, map[string]ports.ModuleConfig{"orders": orders, "plain": config{}})
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(paths[0], databaseName))
	infos, err := owner.List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 3)
	queue, err := owner.Queue(t.Context(), "orders")
	require.NoError(t, err)
	require.EqualValues(t, 5, queue.(*Queue).maxReceives)
	require.NoError(t, owner.Close())
}

func TestModuleRefusesBadConfigurationBeforeAnythingIsTouched(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]config{
		"unknown key":     {"max_recieves": 5},
		"durability":      {"durability": "perhaps"},
		"limit alone":     {"max_receives": 5},
		"own dead letter": {"max_receives": 5, "dead_letter_queue": "orders"},
		"cache":           {"cache_bytes": -1},
	} {
		env := fixture.Env(t, "orders", fixture.NewClock(fixture.Epoch()))
		_, err := Module().Paths(env, c)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, name)
		env.Name = ""
		owner, err := Module().OpenOwner(t.Context(), env, map[string]ports.ModuleConfig{"orders": c})
		require.ErrorIs(t, err, ports.ErrInvalidConfig, name)
		require.Nil(t, owner)
		require.NoDirExists(t, env.StateDir)
	}
	_, err := Module().Paths(fixture.Env(t, "../orders", nil), config{})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
}

func TestModuleShowsItsExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("registry_examples/localqueue.toml")
	require.NoError(t, err)
	require.Equal(t, string(text), Module().Example)
	require.NotEmpty(t, Module().Description)
}
