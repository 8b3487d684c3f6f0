package memory

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
)

// strayKey is a configuration with a key that none of the modules has.
type strayKey struct {
	t      *testing.T
	fields int // how many keys the module has
}

func (c strayKey) Decode(into any) error {
	require.Equal(c.t, c.fields, reflect.TypeOf(into).Elem().NumField(), "the keys of the module")
	return ports.Errorf(ports.CodeInvalidConfig, "config.decode", "the key %q is unknown", "path")
}

func TestModulesRefuseKeys(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "default", ports.SystemClock())
	_, err := KvModule().Open(t.Context(), env, strayKey{t: t})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	_, err = KvModule().Paths(env, strayKey{t: t})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	_, err = QueueModule().Open(t.Context(), env, strayKey{t: t})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	_, err = QueueModule().Paths(env, strayKey{t: t})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	storage, err := StorageModule().Open(t.Context(), env, strayKey{t: t, fields: 1})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.Nil(t, storage)
	_, err = StorageModule().Paths(env, strayKey{t: t, fields: 1})
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
	paths, err = StorageModule().Paths(env, fixture.NoConfig{})
	require.NoError(t, err)
	require.Empty(t, paths)
	store, err := KvModule().Open(t.Context(), env, fixture.NoConfig{})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.NoDirExists(t, env.StateDir)
}

func TestModulesDescribeThemselves(t *testing.T) {
	t.Parallel()
	for _, info := range []ports.ModuleInfo{KvModule().ModuleInfo, QueueModule().ModuleInfo, StorageModule().ModuleInfo} {
		require.Equal(t, "memory", info.Name)
		require.NotEmpty(t, info.Description)
		require.Contains(t, info.Example, `module = "memory"`)
	}
	require.Contains(t, StorageModule().Example, "[storage]")
	require.Nil(t, QueueModule().OpenOwner, "a module opens queues in one way")
}

func TestStorageModuleReadsItsDepth(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "storage", ports.SystemClock())
	for _, c := range []struct {
		config ports.ModuleConfig
		depth  int64
	}{
		{fixture.NoConfig{}, ports.DefaultDepth},
		{journalDepth(1), 1},
		{journalDepth(20), 20},
	} {
		storage, err := StorageModule().Open(t.Context(), env, c.config)
		require.NoError(t, err)
		require.Equal(t, c.depth, storage.(*Storage).depth)
		require.NoError(t, storage.Close())
	}
	for _, depth := range []journalDepth{0, -1} {
		_, err := StorageModule().Open(t.Context(), env, depth)
		require.ErrorIs(t, err, ports.ErrInvalidConfig)
		require.ErrorContains(t, err, "journal_depth")
		_, err = StorageModule().Paths(env, depth)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, "before anything is opened")
	}
}
