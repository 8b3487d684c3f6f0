package sqlitefile

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/stowage-go/stowage/ports"
)

const insertRow = "INSERT INTO item (name, body) VALUES (?1, ?2)"

var noBody []byte

var itemSchema = Marked("item.v1", "CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, body BLOB NOT NULL)")

func itemOptions(dir string) Options {
	return Options{Path: filepath.Join(dir, "item.sqlite"), Schema: itemSchema, Kind: "item store", Failure: ports.CodeBackendFailed}
}

func open(t *testing.T, o Options) *File {
	t.Helper()
	f, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return f
}

func insert(f *File, name string) error {
	return f.WriteOne(context.Background(), "insert", func(tx *Tx) error {
		_, err := tx.Exec(insertRow, name, noBody)
		return err
	})
}

func names(t *testing.T, f *File) []string {
	t.Helper()
	list := []string{}
	require.NoError(t, f.Read(t.Context(), "names", func(c *Conn) error {
		return c.Query("SELECT name FROM item ORDER BY id", func(r Row) error {
			list = append(list, r.Text(0))
			return nil
		})
	}))
	return list
}

// tree is every file below a directory with a digest of its bytes.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = fmt.Sprintf("%d %x", len(data), sha256.Sum256(data))
		return err
	}))
	return files
}

// raw makes a database with other means than Open.
func raw(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := dial(path, "rwc", defaultBusyTimeout)
	require.NoError(t, err)
	for _, s := range statements {
		_, err := db.Exec(s, nil)
		require.NoError(t, err, s)
	}
	require.NoError(t, db.Close())
}

func TestOpenMakesAStoreThatOthersCannotRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	f := open(t, itemOptions(dir))
	require.NoError(t, insert(f, "one"))
	for path, want := range map[string]os.FileMode{dir: 0o700, f.Path(): 0o600, f.Path() + "-wal": 0o600, f.Path() + "-shm": 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode().Perm(), path)
	}
	require.NoError(t, f.Close())
	assert.Len(t, tree(t, dir), 1, "a clean close leaves the database alone")

	again := open(t, itemOptions(dir))
	assert.Equal(t, []string{"one"}, names(t, again))
}

func TestOpenTakesAnyPath(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a?b", "a#b", "a%20b", "with space", "new\nline", "täst-日本", "invalid\xff", "file:x", "a&mode=memory", ";'\"", "-dash", "a?mode=ro#x"} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			dir := filepath.Join(root, name)
			f := open(t, itemOptions(dir))
			require.NoError(t, insert(f, "one"))
			require.NoError(t, f.Close())
			want := []string{filepath.Join(dir, "item.sqlite")}
			assert.Equal(t, want, slices.Sorted(maps.Keys(tree(t, root))), "the store lies where it was asked for, and nowhere else")
			assert.Equal(t, []string{"one"}, names(t, open(t, itemOptions(dir))))
		})
	}
	for _, bad := range []string{"", "a\x00b"} {
		o := itemOptions(t.TempDir())
		o.Path = bad
		_, err := Open(t.Context(), o)
		assert.ErrorIs(t, err, ports.ErrInvalidConfig)
	}
}

func TestOpenRefusesWhatIsNotItsOwnAndChangesNothing(t *testing.T) {
	t.Parallel()
	meta := MetaDDL
	marker := func(value string) string { return "INSERT INTO meta VALUES ('format', " + value + ")" }
	wal := "PRAGMA journal_mode = WAL"
	cases := map[string]struct {
		schema Schema
		make   func(t *testing.T, path string)
		says   string
		reason ports.Reason
	}{
		"older marker":        {itemSchema, statements(meta, marker("'item.v0'")), `found the format "item.v0", this build supports "item.v1"`, ports.ReasonUnsupported},
		"newer marker":        {itemSchema, statements(wal, meta, marker("'item.v2'")), `"item.v2"`, ports.ReasonUnsupported},
		"empty marker":        {itemSchema, statements(meta, marker("''")), `""`, ports.ReasonUnsupported},
		"integer marker":      {itemSchema, statements("CREATE TABLE meta (key TEXT PRIMARY KEY, value)", marker("1")), "not text", ports.ReasonUnsupported},
		"blob marker":         {itemSchema, statements(meta, marker("x'00'")), "not text", ports.ReasonUnsupported},
		"no marker":           {itemSchema, statements(meta), "no format row", ports.ReasonUnsupported},
		"another program's":   {itemSchema, statements(wal, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)"), "without a format marker", ports.ReasonUnsupported},
		"other meta columns":  {itemSchema, statements("CREATE TABLE meta (a, b)"), "without a format marker", ports.ReasonUnsupported},
		"meta is a view":      {itemSchema, statements("CREATE VIEW meta AS SELECT 'format' AS key, 'item.v1' AS value"), "without a format marker", ports.ReasonUnsupported},
		"an application's id": {itemSchema, statements("PRAGMA application_id = 7"), "without a format marker", ports.ReasonUnsupported},
		"UTF-16":              {itemSchema, statements("PRAGMA encoding = 'UTF-16'", meta, marker("'item.v1'")), "UTF-16", ports.ReasonUnsupported},
		"no database":         {itemSchema, bytes("this is no database, but it is long enough to look like a page of one" + strings.Repeat(".", 5000)), "not a SQLite database", ports.ReasonCorrupt},
		"a short file":        {itemSchema, bytes("x"), "not a SQLite database", ports.ReasonCorrupt},
		"truncated": {itemSchema, func(t *testing.T, path string) {
			raw(t, path, meta, marker("'item.v1'"), "CREATE TABLE item (id INTEGER PRIMARY KEY, name, body)", "INSERT INTO item VALUES (1, 'a', zeroblob(100000))")
			require.NoError(t, os.Truncate(path, 8192))
		}, "damaged", ports.ReasonCorrupt},
		"empty beside a log": {itemSchema, func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			require.NoError(t, os.WriteFile(path+"-wal", nil, 0o600))
		}, "-wal is there", ports.ReasonUnsupported},
		"missing beside a log": {itemSchema, func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path+"-wal", []byte("rows"), 0o600))
		}, "-wal is there", ports.ReasonUnsupported},
		"a rollback journal": {itemSchema, func(t *testing.T, path string) {
			raw(t, path, meta, marker("'item.v1'"))
			require.NoError(t, os.WriteFile(path+"-journal", []byte("rows"), 0o600))
		}, "rollback journal", ports.ReasonUnsupported},
		"a directory":       {itemSchema, func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "not a regular file", ports.ReasonUnsupported},
		"version 3 of 2":    {Versioned("CREATE TABLE a (x)", "CREATE TABLE b (x)"), statements(wal, "CREATE TABLE a (x)", "PRAGMA user_version = 3"), "found schema version 3", ports.ReasonUnsupported},
		"version 99":        {Versioned("CREATE TABLE a (x)"), statements("CREATE TABLE a (x)", "PRAGMA user_version = 99"), "found schema version 99", ports.ReasonUnsupported},
		"version -1":        {Versioned("CREATE TABLE a (x)"), statements("CREATE TABLE a (x)", "PRAGMA user_version = -1"), "found schema version -1", ports.ReasonUnsupported},
		"version 0, tables": {Versioned("CREATE TABLE a (x)"), statements(wal, meta, marker("'item.v1'")), "no schema version", ports.ReasonUnsupported},
	}
	for name, c := range cases {
		for _, owns := range []Ownership{ExclusiveDirectory, SharedDirectory, ExclusiveFile} {
			t.Run(fmt.Sprintf("%s/%d", name, owns), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				o := itemOptions(dir)
				o.Schema, o.Ownership = c.schema, owns
				c.make(t, o.Path)
				before := tree(t, dir)
				_, err := Open(t.Context(), o)
				var e *ports.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, ports.CodeBindingSetupFailed, e.Code)
				assert.Equal(t, c.reason, e.Reason, err)
				assert.Contains(t, err.Error(), c.says)
				assert.Contains(t, err.Error(), o.Path)
				assert.Equal(t, before, tree(t, dir))
			})
		}
	}
}

func statements(list ...string) func(*testing.T, string) {
	return func(t *testing.T, path string) { t.Helper(); raw(t, path, list...) }
}

func bytes(content string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

func TestOpenTakesWhatHoldsNothingForANewStore(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T, string){
		"zero bytes":         bytes(""),
		"a database without": statements("PRAGMA user_version = 0", "CREATE TABLE t (x)", "DROP TABLE t"),
		"a half-made store": func(t *testing.T, path string) {
			bytes("half")(t, filepath.Join(filepath.Dir(path), ".item.sqlite.new"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := itemOptions(t.TempDir())
			make(t, o.Path)
			f := open(t, o)
			require.NoError(t, insert(f, "one"))
			require.NoError(t, f.Close())
			assert.Len(t, tree(t, filepath.Dir(o.Path)), 1)
			assert.Equal(t, []string{"one"}, names(t, open(t, o)))
		})
	}
}

func TestOpenOfAStoreWrittenInAnotherJournalMode(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	raw(t, o.Path, MetaDDL, "INSERT INTO meta VALUES ('format', 'item.v1')")
	f := open(t, o)
	require.NoError(t, insert(f, "one"), "tables that a crash kept from being made are made")
	assert.Equal(t, []string{"one"}, names(t, f))
}

func TestConnectionsHaveTheSettingsThatTheFormatsAsk(t *testing.T) {
	t.Parallel()
	for durability, want := range map[Durability]int64{DurabilityFull: 2, DurabilityNormal: 1} {
		o := itemOptions(t.TempDir())
		o.Durability = durability
		o.PageSize = 1024
		f := open(t, o)
		check := func(c *Conn) error {
			for query, want := range map[string]any{"PRAGMA synchronous": want, "PRAGMA journal_mode": "wal", "PRAGMA busy_timeout": int64(5000), "PRAGMA page_size": int64(1024), "PRAGMA wal_autocheckpoint": int64(0)} {
				assert.NoError(t, c.Query(query, func(r Row) error {
					assert.Equal(t, want, r.Value(0), query)
					return nil
				}))
			}
			return nil
		}
		require.NoError(t, f.Write(t.Context(), "check", func(tx *Tx) error { return check(tx.Conn) }))
		require.NoError(t, f.Read(t.Context(), "check", check))
		assert.Error(t, f.Read(t.Context(), "write by a reader", func(c *Conn) error {
			_, err := c.Exec(insertRow, "x", noBody)
			return err
		}))
	}
}

func TestVersionedStepsRunOnceAndTogether(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Ownership = ExclusiveFile
	steps := []string{"CREATE TABLE a (x); INSERT INTO a VALUES (1)", "CREATE TABLE b (x)"}
	o.Schema = Versioned(steps[:1]...)
	require.NoError(t, open(t, o).Close())
	o.Schema = Versioned(steps...)
	require.NoError(t, open(t, o).Close())

	before := tree(t, filepath.Dir(o.Path))
	o.Schema = Versioned(append(steps, "CREATE TABLE c (x)", "CREATE TABLE b (fails)")...)
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	delete(before, o.Path+".lock")
	after := tree(t, filepath.Dir(o.Path))
	delete(after, o.Path+".lock")
	assert.Equal(t, before, after, "no step of a failed migration remains")

	o.Schema = Versioned(steps...)
	f := open(t, o)
	require.NoError(t, f.Read(t.Context(), "check", func(c *Conn) error {
		return c.Query("SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)", func(r Row) error {
			assert.Equal(t, Row{int64(1), int64(0)}, r)
			return nil
		})
	}))
}

// A version is a small number that any program may count with.
func TestADatabaseOfTheSameVersionAndOtherTablesIsAnotherPrograms(t *testing.T) {
	t.Parallel()
	ours := Versioned("CREATE TABLE a (x, y)", "CREATE TABLE b (x); CREATE INDEX b_x ON b (x)")
	for name, c := range map[string]struct {
		theirs Schema
		lacks  string
	}{
		"other tables":              {Versioned("CREATE TABLE z (x)"), "column a.x"},
		"a table of another form":   {Versioned("CREATE TABLE a (x, z)"), "column a.y"},
		"a table of an older step":  {Versioned("CREATE TABLE a (x, y)", "CREATE TABLE c (x)"), "column b.x"},
		"names that look like ours": {Versioned(`CREATE TABLE "a.x" (y)`, "SELECT 1"), "column a.x"},
		"an index that was dropped": {Versioned("CREATE TABLE a (x, y)", "CREATE TABLE b (x)"), "index b_x"},
	} {
		o := itemOptions(t.TempDir())
		o.Ownership, o.Schema = ExclusiveFile, c.theirs
		require.NoError(t, open(t, o).Close(), name)
		before := tree(t, filepath.Dir(o.Path))
		o.Schema = ours
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, ports.ErrUnsupported, name)
		require.ErrorContains(t, err, "without the "+c.lacks, name)
		require.ErrorIs(t, VerifyFile(t.Context(), o), ports.ErrUnsupported, name)
		assert.Equal(t, before, tree(t, filepath.Dir(o.Path)), name)
	}
}

func TestOwnershipKeepsOthersOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second Ownership
		admits        bool
	}{
		"two owners":              {ExclusiveDirectory, ExclusiveDirectory, false},
		"an owner beside sharers": {SharedDirectory, ExclusiveDirectory, false},
		"a sharer beside owner":   {ExclusiveDirectory, SharedDirectory, false},
		"two sharers":             {SharedDirectory, SharedDirectory, true},
		"two owners of a file":    {ExclusiveFile, ExclusiveFile, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := itemOptions(t.TempDir())
			o.BusyTimeout = 50 * time.Millisecond
			o.Ownership = c.first
			first := open(t, o)
			require.NoError(t, insert(first, "one"))
			o.Ownership = c.second
			second, err := Open(t.Context(), o)
			if c.admits {
				require.NoError(t, err)
				require.NoError(t, insert(second, "two"))
				assert.Equal(t, []string{"one", "two"}, names(t, first))
				require.NoError(t, second.Close())
				require.NoError(t, insert(first, "three"))
				return
			}
			require.ErrorIs(t, err, ports.ErrInUse)
			require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
			assert.Contains(t, err.Error(), o.Path)
			if c.second == SharedDirectory {
				// Nobody can be making a store that is an hour old, so there is nothing to wait for.
				o.BusyTimeout = time.Minute
				hourAgo := time.Now().Add(-time.Hour)
				require.NoError(t, os.Chtimes(o.Path, hourAgo, hourAgo))
				begun := time.Now()
				_, err := Open(t.Context(), o)
				require.ErrorIs(t, err, ports.ErrInUse)
				assert.Less(t, time.Since(begun), o.BusyTimeout)
			}
			require.NoError(t, first.Close())
			after := open(t, o)
			assert.Equal(t, []string{"one"}, names(t, after))
		})
	}
}

func TestAStoreWhoseFilesAreTakenAwayNeverReportsSuccess(t *testing.T) {
	t.Parallel()
	move := func(suffix string) func(t *testing.T, o Options) {
		return func(t *testing.T, o Options) {
			t.Helper()
			require.NoError(t, os.Rename(o.Path+suffix, o.Path+suffix+".moved"))
		}
	}
	for name, c := range map[string]struct {
		owns Ownership
		take func(t *testing.T, o Options)
	}{
		"deleted": {ExclusiveDirectory, func(t *testing.T, o Options) { t.Helper(); require.NoError(t, os.Remove(o.Path)) }},
		"moved":   {SharedDirectory, move("")},
		"replaced by a copy": {ExclusiveDirectory, func(t *testing.T, o Options) {
			data, err := os.ReadFile(o.Path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(o.Path+".copy", data, 0o600))
			require.NoError(t, os.Rename(o.Path+".copy", o.Path))
		}},
		"log moved":           {ExclusiveDirectory, move("-wal")},
		"shared memory moved": {SharedDirectory, move("-shm")},
		"lock file moved":     {ExclusiveFile, move(".lock")},
		"directory moved": {ExclusiveDirectory, func(t *testing.T, o Options) {
			dir := filepath.Dir(o.Path)
			require.NoError(t, os.Rename(dir, dir+".moved"))
			require.NoError(t, os.Mkdir(dir, 0o700))
			for _, suffix := range []string{"", "-wal", "-shm"} {
				require.NoError(t, os.Rename(filepath.Join(dir+".moved", "item.sqlite"+suffix), o.Path+suffix))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := itemOptions(filepath.Join(t.TempDir(), "data"))
			o.Ownership = c.owns
			o.Log = slog.New(slog.DiscardHandler)
			f, err := Open(t.Context(), o)
			require.NoError(t, err)
			require.NoError(t, insert(f, "one"))
			require.NoError(t, f.HealthCheck(t.Context()))
			c.take(t, o)
			require.ErrorIs(t, f.HealthCheck(t.Context()), ports.ErrStoreReplaced)
			require.ErrorIs(t, insert(f, "two"), ports.ErrStoreReplaced)
			require.ErrorIs(t, insert(f, "three"), ports.ErrStoreReplaced)
			require.NoError(t, f.Close())
		})
	}
}

func TestCloseWaitsAndThenRefuses(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	begun, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.NoError(t, f.Write(context.Background(), "slow", func(tx *Tx) error {
			close(begun)
			<-release
			_, err := tx.Exec(insertRow, "slow", noBody)
			return err
		}))
	})
	<-begun
	wg.Go(func() { assert.NoError(t, f.Close()) })
	close(release)
	wg.Wait()
	for name, err := range map[string]error{
		"write":  insert(f, "late"),
		"read":   f.Read(t.Context(), "late", func(*Conn) error { return nil }),
		"backup": f.Backup(t.Context(), filepath.Join(t.TempDir(), "b")),
		"verify": f.Verify(t.Context()),
		"health": f.HealthCheck(t.Context()),
	} {
		require.ErrorIs(t, err, ports.ErrStoreClosed, name)
	}
	require.NoError(t, f.Close())
}

func TestOpenRefusesWhatIsNotARegularFileOfOneName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(t *testing.T, path, elsewhere string)
		says string
	}{
		"a symbolic link": {func(t *testing.T, path, elsewhere string) { require.NoError(t, os.Symlink(elsewhere, path)) }, "symbolic link"},
		"a dangling one":  {func(t *testing.T, path, _ string) { require.NoError(t, os.Symlink("nowhere", path)) }, "symbolic link"},
		"a second name":   {func(t *testing.T, path, elsewhere string) { require.NoError(t, os.Link(elsewhere, path)) }, "2 names"},
		"a directory":     {func(t *testing.T, path, _ string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "not a regular file"},
		"a named pipe":    {func(t *testing.T, path, _ string) { require.NoError(t, unix.Mkfifo(path, 0o600)) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			elsewhere := itemOptions(t.TempDir())
			require.NoError(t, open(t, elsewhere).Close())
			dir := t.TempDir()
			for _, owns := range []Ownership{ExclusiveDirectory, SharedDirectory, ExclusiveFile} {
				o := itemOptions(filepath.Join(dir, fmt.Sprint(owns)))
				o.Ownership = owns
				require.NoError(t, os.Mkdir(filepath.Dir(o.Path), 0o700))
				c.make(t, o.Path, elsewhere.Path)
				before, err := os.Lstat(o.Path)
				require.NoError(t, err)
				_, openErr := Open(t.Context(), o)
				for _, err := range []error{openErr, VerifyFile(t.Context(), o)} {
					require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
					require.ErrorIs(t, err, ports.ErrUnsupported)
					assert.Contains(t, err.Error(), c.says)
				}
				after, err := os.Lstat(o.Path)
				require.NoError(t, err)
				assert.Equal(t, before, after)
				entries, err := os.ReadDir(filepath.Dir(o.Path))
				require.NoError(t, err)
				assert.Len(t, entries, 1, "nothing was made beside it")
				require.NoError(t, os.Remove(o.Path))
			}
		})
	}
}

func TestASnapshotThatPanicsIsOver(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Readers = 1
	f := open(t, o)
	assert.PanicsWithValue(t, "planned", func() {
		_ = f.Snapshot(t.Context(), "panic", func(*Conn) error { panic("planned") })
	})
	require.NoError(t, insert(f, "after"))
	require.NoError(t, f.Snapshot(t.Context(), "look", func(c *Conn) error {
		count, err := scalar[int64](c.db, "SELECT count(*) FROM item")
		assert.Equal(t, int64(1), count, "the reader does not stand where it was")
		return err
	}))
}

func TestAProcessOutOfFilesIsNotTakenForAReadOnlyStore(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE} {
		for _, cause := range []error{sqlite3.Error{Code: sqlite3.ErrCantOpen, SystemErrno: errno}, fmt.Errorf("open: %w", errno)} {
			err := f.engineError("op", cause)
			assert.NotErrorIs(t, err, ports.ErrReadOnly)
			assert.True(t, ports.IsTransient(err), err)
			assert.Contains(t, err.Error(), "limit of open")
		}
	}
}
