package memory

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
)

// strayKey is a configuration with a key, which no struct without fields has.
type strayKey struct{ t *testing.T }

func (c strayKey) Decode(into any) error {
	require.Zero(c.t, reflect.TypeOf(into).Elem().NumField(), "the module has no keys")
	return ports.Errorf(ports.CodeInvalidConfig, "config.decode", "the key %q is unknown", "path")
}

func TestModulesRefuseKeys(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "default", ports.SystemClock())
	_, err := KvModule().Open(t.Context(), env, strayKey{t})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	_, err = KvModule().Paths(env, strayKey{t})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	_, err = QueueModule().Open(t.Context(), env, strayKey{t})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	_, err = QueueModule().Paths(env, strayKey{t})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
}

func TestModulesOwnNoFiles(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "default", ports.SystemClock())
	paths, err := KvModule().Paths(env, fixture.NoConfig{})
	require.NoError(t, err)
	require.Empty(t, paths)
	paths, err = QueueModule().Paths(env, fixture.NoConfig{})
	require.NoError(t, err)
	require.Empty(t, paths)
	store, err := KvModule().Open(t.Context(), env, fixture.NoConfig{})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.NoDirExists(t, env.StateDir)
}

func TestModulesDescribeThemselves(t *testing.T) {
	t.Parallel()
	for _, info := range []ports.ModuleInfo{KvModule().ModuleInfo, QueueModule().ModuleInfo} {
		require.Equal(t, "memory", info.Name)
		require.NotEmpty(t, info.Description)
		require.Contains(t, info.Example, `module = "memory"`)
	}
	require.Nil(t, QueueModule().OpenOwner, "a module opens queues in one way")
}
