package sqlite

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func TestModuleOpensWhatItsPathsName(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere.sqlite")
	for name, test := range map[string]struct {
		config config
		want   func(stateDir string) string
	}{
		"default":                      {nil, func(s string) string { return filepath.Join(s, "storage", "storage.sqlite") }},
		"relative":                     {config{"path": "deep/er.db"}, func(s string) string { return filepath.Join(s, "deep", "er.db") }},
		"up":                           {config{"path": "../beside.db"}, func(s string) string { return filepath.Join(filepath.Dir(s), "beside.db") }},
		"absolute":                     {config{"path": filepath.Dir(elsewhere) + "/x/../elsewhere.sqlite"}, func(string) string { return elsewhere }},
		"a file of the name of memory": {config{"path": "./:memory:"}, func(s string) string { return filepath.Join(s, ":memory:") }},
		"all keys": {config{"journal_depth": int64(7), "busy_timeout_ms": int64(250), "durability": "normal", "cache_bytes": 1 << 20},
			func(s string) string { return filepath.Join(s, "storage", "storage.sqlite") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := fixture.Env(t, "", fixture.NewClock(fixture.Epoch()))
			paths, err := Module().Paths(env, test.config)
			require.NoError(t, err)
			require.Equal(t, []string{test.want(env.StateDir)}, paths)
			require.NoDirExists(t, env.StateDir, "Paths opens nothing")
			storage, err := Module().Open(t.Context(), env, test.config)
			require.NoError(t, err)
			require.FileExists(t, paths[0])
			require.NoError(t, storage.Close())
		})
	}
}

func TestModuleOpensAStorageInMemory(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "", fixture.NewClock(fixture.Epoch()))
	memory := config{"path": sqlitefile.InMemory}
	paths, err := Module().Paths(env, memory)
	require.NoError(t, err)
	require.Empty(t, paths)
	for range 2 {
		storage, err := Module().Open(t.Context(), env, memory)
		require.NoError(t, err)
		pauses, err := storage.ListPauses(t.Context())
		require.NoError(t, err)
		require.Empty(t, pauses, "each is its own")
		require.NoError(t, storage.Pause(t.Context(), types.PipelineOf("p")))
		defer func() { require.NoError(t, storage.Close()) }()
	}
	require.NoDirExists(t, env.StateDir)
}

func TestModuleRefusesBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, bad := range []config{
		{"paht": "x"},
		{"path": ""},
		{"path": "nul\x00"},
		{"journal_depth": int64(0)},
		{"journal_depth": int64(-1)},
		{"busy_timeout_ms": int64(0)},
		{"busy_timeout_ms": int64(-1)},
		{"busy_timeout_ms": int64(600_001)},
		{"busy_timeout_ms": int64(math.MaxInt64)},
		{"durability": "none"},
		{"cache_bytes": -1},
		{"cache_bytes": 1},
	} {
		env := fixture.Env(t, "", fixture.NewClock(fixture.Epoch()))
		_, err := Module().Paths(env, bad)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, fmt.Sprint(bad))
		storage, err := Module().Open(t.Context(), env, bad)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, fmt.Sprint(bad))
		require.Nil(t, storage)
		require.NoDirExists(t, env.StateDir)
	}
}

func TestOptionsHaveDefaultsAndBounds(t *testing.T) {
	t.Parallel()
	o, err := Options{Path: "x"}.check("op")
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, o.BusyTimeout)
	require.EqualValues(t, ports.DefaultDepth, o.JournalDepth)
	for _, bad := range []Options{
		{},
		{Path: "x", JournalDepth: -1},
		{Path: "x", BusyTimeout: -1},
		{Path: "x", BusyTimeout: time.Microsecond},
		{Path: "x", BusyTimeout: math.MaxInt64},
		{Path: "x", CacheBytes: 1},
	} {
		_, err := Open(t.Context(), bad)
		require.ErrorIs(t, err, ports.ErrInvalidConfig)
	}
}

// The busy timeout reaches the engine (R258).
func TestTheBusyTimeoutIsTheEngines(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", sqlitefile.InMemory} {
		for given, want := range map[time.Duration]int64{0: 5000, 250 * time.Millisecond: 250} {
			s := open(t, Options{Path: path, BusyTimeout: given})
			require.Equal(t, [][]any{{want}}, queryRows(t, s.file, "PRAGMA busy_timeout"))
		}
	}
}

// The example is a whole configuration, and says the defaults (R264, R265).
func TestTheExampleNamesEveryKeyWithItsDefault(t *testing.T) {
	t.Parallel()
	var file struct {
		Storage struct {
			Module string   `toml:"module"`
			Config settings `toml:"config"`
		} `toml:"storage"`
	}
	require.NoError(t, toml.Unmarshal([]byte(Module().Example), &file))
	require.Equal(t, ModuleName, file.Storage.Module)
	want := defaults()
	want.Durability = "full"
	require.Equal(t, want, file.Storage.Config)
	require.Equal(t, "sqlite", Module().Name)
	require.NotEmpty(t, Module().Description)
}
