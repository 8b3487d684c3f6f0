package localqueue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// makeDatabase makes a database out of statements, under the name of a queue.
func makeDatabase(t *testing.T, dir string, statements ...string) {
	t.Helper()
	file, err := sqlitefile.Open(t.Context(), sqlitefile.Options{
		Path:    filepath.Join(dir, databaseName),
		Schema:  sqlitefile.Versioned(statements...),
		Kind:    "test database",
		Failure: ports.CodeBackendFailed,
		Log:     fixture.Logger(t),
	})
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

func TestForeignFilesAreRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	marked := func(value string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			makeDatabase(t, dir, sqlitefile.MetaDDL, "INSERT INTO meta (key, value) VALUES ('format', "+value+")")
		}
	}
	for name, test := range map[string]struct {
		plant func(*testing.T, string)
		names string // what the message has to name beside the supported format
	}{
		"newer marker":       {marked("'localqueue.v2'"), "localqueue.v2"},
		"marker of a KV":     {marked("'localkv.v2'"), "localkv.v2"},
		"marker in capitals": {marked("'LOCALQUEUE.V1'"), "LOCALQUEUE.V1"},
		"empty marker":       {marked("''"), `""`},
		"garbage marker":     {marked("'%00\x01\x7f'"), "%00"},
		"BLOB marker":        {marked("CAST('localqueue.v1' AS BLOB)"), "not text"},
		"no marker": {func(t *testing.T, dir string) {
			makeDatabase(t, dir, messagesDDL, indexDDL)
		}, "without a format marker"},
		"not a database": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName), []byte(strings.Repeat("no database\n", 1000)), 0o600))
		}, ""},
		"truncated": {func(t *testing.T, dir string) {
			q, err := Open(t.Context(), Options{Dir: dir})
			require.NoError(t, err)
			require.NoError(t, q.Close())
			require.NoError(t, os.Truncate(filepath.Join(dir, databaseName), 5000))
		}, ""},
		"empty beside a log": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName), nil, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName+"-wal"), []byte("rows of somebody"), 0o600))
		}, "-wal"},
		"directory in its place": {func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, databaseName), 0o700))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			test.plant(t, dir)
			before := contents(t, dir)
			_, err := Open(t.Context(), Options{Dir: dir, Log: fixture.Logger(t)})
			require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
			require.ErrorContains(t, err, filepath.Join(dir, databaseName))
			require.ErrorContains(t, err, test.names)
			if strings.Contains(name, "marker") {
				require.ErrorContains(t, err, `"localqueue.v1"`)
			}
			require.Equal(t, before, contents(t, dir))
		})
	}
}

func TestReopenKeepsMarkerAndRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeDatabase(t, dir, sqlitefile.MetaDDL, "INSERT INTO meta VALUES ('format', 'localqueue.v1'), ('note', 'of somebody')")
	for range 3 {
		q, err := Open(t.Context(), Options{Dir: dir, Log: fixture.Logger(t)})
		require.NoError(t, err)
		require.NoError(t, q.Close())
	}
	file := openRaw(t, dir)
	defer func() { require.NoError(t, file.Close()) }()
	var rows []string
	require.NoError(t, file.Read(t.Context(), "look", func(c *sqlitefile.Conn) error {
		return c.Query("SELECT key, value FROM meta ORDER BY key", func(r sqlitefile.Row) error {
			rows = append(rows, r.Text(0)+"="+r.Text(1))
			return nil
		})
	}))
	require.Equal(t, []string{"format=localqueue.v1", "note=of somebody"}, rows)
}

// A file with the right marker and other columns opens as far as it can, and says what is wrong.
func TestWrongColumnsAreReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeDatabase(t, dir, sqlitefile.MetaDDL, "INSERT INTO meta VALUES ('format', 'localqueue.v1')", "CREATE TABLE messages (id INTEGER PRIMARY KEY)")
	before := contents(t, dir)
	_, err := Open(t.Context(), Options{Dir: dir, Log: fixture.Logger(t)})
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	require.ErrorContains(t, err, dir)
	require.Equal(t, before, contents(t, dir))
}

func TestQueueWhoseRowsAreDamagedIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q := openQueue(t, Options{Dir: dir})
	for range 40 {
		require.NoError(t, q.Send(t.Context(), fixture.TextOfSize(3000), types.SendOptions{}))
	}
	require.NoError(t, q.Close())
	path := filepath.Join(dir, databaseName)
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	clear(file[4096*4:]) // past the schema
	require.NoError(t, os.WriteFile(path, file, 0o600))
	_, err = Open(t.Context(), Options{Dir: dir, Log: fixture.Logger(t)})
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	require.ErrorIs(t, err, ports.ErrCorrupt)
	require.ErrorContains(t, err, dir)
}

func TestBadOptionsTouchNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "q")
	for _, o := range []Options{
		{},
		{Dir: dir, MaxReceives: 3},
		{Dir: dir, MaxReceives: -1, DeadLetters: queueSink{}},
		{Dir: dir, DeadLetters: queueSink{}},
		{Dir: dir, CacheBytes: 1},
	} {
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, ports.ErrInvalidConfig)
	}
	require.NoDirExists(t, dir)
}
