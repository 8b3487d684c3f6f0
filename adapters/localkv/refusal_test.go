package localkv

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// makeDatabase makes a database out of statements, under the name of a store.
func makeDatabase(t *testing.T, dir string, statements ...string) {
	t.Helper()
	file, err := sqlitefile.Open(context.Background(), sqlitefile.Options{
		Path:    filepath.Join(dir, databaseName),
		Schema:  sqlitefile.Versioned(statements...),
		Kind:    "test database",
		Failure: ports.CodeBackendFailed,
		Log:     testLog(t),
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
	untyped := func(value string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			makeDatabase(t, dir, "CREATE TABLE meta (key PRIMARY KEY, value)", "INSERT INTO meta (key, value) VALUES ('format', "+value+")")
		}
	}
	store := func(t *testing.T, dir string) {
		require.NoError(t, open(t, Options{Dir: dir}).Close())
	}
	for name, test := range map[string]struct {
		plant func(*testing.T, string)
		names string // what the message has to name beside the supported format
	}{
		"older marker":       {marked("'localkv.v1'"), "localkv.v1"},
		"newer marker":       {marked("'localkv.v3'"), "localkv.v3"},
		"marker of a queue":  {marked("'localqueue.v1'"), "localqueue.v1"},
		"marker in capitals": {marked("'LOCALKV.V2'"), "LOCALKV.V2"},
		"marker and a space": {marked("'localkv.v2 '"), "localkv.v2 "},
		"empty marker":       {marked("''"), `""`},
		"garbage marker":     {marked("'%00\x01\x7f'"), ""},
		"endless marker":     {marked("'" + strings.Repeat("x", 100_000) + "'"), "xxx"},
		"integer marker":     {untyped("2"), ""},
		"BLOB marker":        {marked("CAST('localkv.v2' AS BLOB)"), ""},
		"no meta table": {func(t *testing.T, dir string) {
			makeDatabase(t, dir, "CREATE TABLE notes (text TEXT)", "INSERT INTO notes VALUES ('mine')")
		}, ""},
		"no format row": {func(t *testing.T, dir string) {
			makeDatabase(t, dir, sqlitefile.MetaDDL, "INSERT INTO meta VALUES ('other', 'localkv.v2')")
		}, ""},
		"meta with other columns": {func(t *testing.T, dir string) {
			makeDatabase(t, dir, "CREATE TABLE meta (name TEXT, text TEXT)")
		}, ""},
		"meta as a view": {func(t *testing.T, dir string) {
			makeDatabase(t, dir, "CREATE VIEW meta AS SELECT 'format' AS key, 'localkv.v2' AS value")
		}, ""},
		"UTF-16": {func(t *testing.T, dir string) {
			copyFile(t, "testdata/utf16.sqlite", filepath.Join(dir, databaseName))
		}, "UTF-16"},
		"not a database": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName), []byte(strings.Repeat("no database\n", 1000)), 0o600))
		}, ""},
		"truncated": {func(t *testing.T, dir string) {
			store(t, dir)
			require.NoError(t, os.Truncate(filepath.Join(dir, databaseName), 1500))
		}, ""},
		"truncated in the header": {func(t *testing.T, dir string) {
			store(t, dir)
			require.NoError(t, os.Truncate(filepath.Join(dir, databaseName), 50))
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
			for _, mode := range []Mode{MultiProcess, SingleProcess} {
				_, err := Open(t.Context(), Options{Dir: dir, Mode: mode, Log: testLog(t)})
				require.ErrorIs(t, err, ports.ErrBindingSetupFailed, mode)
				require.ErrorContains(t, err, filepath.Join(dir, databaseName))
				require.ErrorContains(t, err, test.names)
				if test.names != "" && strings.Contains(name, "marker") {
					require.ErrorContains(t, err, `"localkv.v2"`)
				}
				require.Less(t, len(err.Error()), 1000)
				require.Equal(t, before, contents(t, dir), mode)
			}
		})
	}
}

func TestReopenKeepsMarkerAndRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeDatabase(t, dir,
		"CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
		"INSERT INTO meta VALUES ('format', 'localkv.v2'), ('note', 'of somebody')")
	for range 3 {
		require.NoError(t, open(t, Options{Dir: dir}).Close())
	}
	require.Equal(t, [][]any{{"format", "localkv.v2"}, {"note", "of somebody"}}, rawRows(t, dir, "SELECT key, value FROM meta ORDER BY key"))
}

func TestZeroByteFileIsANewStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName), nil, 0o600))
	require.NoError(t, open(t, Options{Dir: dir}).Close())
	require.Equal(t, 1024, pageSizeOf(t, dir))
}

func TestOddPathsWork(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a?b=c", "x#y", "100%", "%41", "with space", "ünï", "-dash", "a&mode=ro", "quote'\"", "back\\slash", "line\nbreak"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			dir := filepath.Join(root, name)
			store := open(t, Options{Dir: dir})
			put(t, store, "key", "here", types.PutOptions{})
			require.NoError(t, store.Close())
			require.FileExists(t, filepath.Join(dir, databaseName))
			require.Equal(t, "here", get(t, open(t, Options{Dir: dir, Mode: SingleProcess}), "key"))
			entries, err := os.ReadDir(root)
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
}

// contents is everything in a directory: names, modes and bytes.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[path] = info.Mode().String()
		if d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		all[path] += " " + string(text)
		return err
	}))
	return all
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}
