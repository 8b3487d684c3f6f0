package localkv

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func newClock() *fixture.Clock { return fixture.NewClock(fixture.Epoch()) }

func testLog(t testing.TB) *slog.Logger { return fixture.Logger(t) }

// open opens a store that the test closes at its end, if it has not done so itself.
func open(t testing.TB, options Options) *Store {
	t.Helper()
	if options.Log == nil {
		options.Log = testLog(t)
	}
	store, err := Open(context.Background(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func put(t testing.TB, store *Store, key, value string, options types.PutOptions) types.KvVersion {
	t.Helper()
	result, err := store.Put(context.Background(), key, []byte(value), options)
	require.NoError(t, err)
	require.True(t, result.Applied)
	return result.Version
}

func get(t testing.TB, store *Store, key string) string {
	t.Helper()
	entry, found, err := store.Get(context.Background(), key)
	require.NoError(t, err)
	require.True(t, found, "%s is absent", key)
	return string(entry.Value)
}

// rawRows reads the file of a closed store beneath the port.
func rawRows(t testing.TB, dir, query string, args ...any) [][]any {
	t.Helper()
	file, err := openRaw(context.Background(), dir, sqlitefile.ExclusiveDirectory)
	require.NoError(t, err)
	rows := [][]any{}
	err = file.Read(context.Background(), "test", func(c *sqlitefile.Conn) error {
		return c.Query(query, func(r sqlitefile.Row) error {
			row := make([]any, len(r))
			for i := range r {
				row[i] = r.Value(i)
			}
			rows = append(rows, row)
			return nil
		}, args...)
	})
	require.NoError(t, err)
	require.NoError(t, file.Close())
	return rows
}

// plant changes the file of a closed store beneath the port, as another program could.
func plant(t testing.TB, dir string, statements ...string) {
	t.Helper()
	file, err := openRaw(context.Background(), dir, sqlitefile.ExclusiveDirectory)
	require.NoError(t, err)
	require.NoError(t, file.Write(context.Background(), "test", func(tx *sqlitefile.Tx) error {
		for _, statement := range statements {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, file.Close())
}

func TestNewStoreHasTheFormatOnDisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "with parents")
	store := open(t, Options{Dir: dir})
	require.Equal(t, filepath.Join(dir, "localkv.sqlite"), store.Path())
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(store.Path())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, store.Close())

	require.Equal(t, 1024, pageSizeOf(t, dir))
	require.Equal(t, [][]any{{"format", "localkv.v2", "text"}}, rawRows(t, dir, "SELECT key, value, typeof(value) FROM meta"))
	require.Equal(t, [][]any{
		{"index", "sqlite_autoindex_kv_1", nil},
		{"index", "sqlite_autoindex_meta_1", nil},
		{"table", "kv", stored(kvDDL)},
		{"table", "meta", stored(sqlitefile.MetaDDL)},
	}, rawRows(t, dir, "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"))
}

// stored is a CREATE statement as SQLite keeps it.
func stored(ddl string) string { return strings.Replace(ddl, "IF NOT EXISTS ", "", 1) }

// pageSizeOf reads the header of the file of a closed store.
func pageSizeOf(t testing.TB, dir string) int {
	t.Helper()
	header, err := os.ReadFile(filepath.Join(dir, databaseName))
	require.NoError(t, err)
	return int(binary.BigEndian.Uint16(header[16:]))
}

func TestPutHasTheFormatOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := newClock()
	store := open(t, Options{Dir: dir, Clock: clock})
	odd := "\x00\xff\xfe\x00"
	put(t, store, "a", odd, types.PutOptions{})
	put(t, store, "b", "", types.PutOptions{TTL: 1500*time.Millisecond + 1})
	put(t, store, "same", "x", types.PutOptions{})
	put(t, store, "same:again", "x", types.PutOptions{})
	_, err := store.Put(t.Context(), "nil", nil, types.PutOptions{})
	require.NoError(t, err)
	require.NoError(t, store.Close())

	rows := rawRows(t, dir, "SELECT key, typeof(value), value, typeof(expires_at), expires_at, typeof(version), version FROM kv ORDER BY key")
	require.Len(t, rows, 5)
	versions := map[any]bool{}
	for _, row := range rows {
		require.Equal(t, "blob", row[1], row[0])
		require.Equal(t, "text", row[5], row[0])
		require.Regexp(t, "^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$", row[6], "32 digits of a version 4 UUID")
		versions[row[6]] = true
	}
	require.Len(t, versions, 5, "every put has a version of its own")
	require.Equal(t, []byte(odd), rows[0][2])
	require.Equal(t, []any{"null", nil}, rows[0][3:5])
	require.Equal(t, []byte{}, rows[1][2])
	require.Equal(t, []any{"integer", clock.Now().UnixMilli() + 1501}, rows[1][3:5])
	require.Equal(t, []byte{}, rows[2][2], "a nil value is an empty one")
}

func TestVersionChangesOnEveryAppliedPut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, Options{Dir: dir})
	seen := map[types.KvVersion]bool{}
	version := put(t, store, "key", "same", types.PutOptions{If: types.IfAbsent()})
	for range 5 {
		require.False(t, seen[version])
		seen[version] = true
		entry, _, err := store.Get(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, version, entry.Version, "what a put returns is what a get finds")
		version = put(t, store, "key", "same", types.PutOptions{If: types.IfVersion(version)})
		version = put(t, store, "key", "same", types.PutOptions{If: types.IfVersion(version)})
	}
}

func TestExpiredRowIsRemovedByGetAndExistsAndNotByScan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := newClock()
	store := open(t, Options{Dir: dir, Clock: clock})
	for _, key := range []string{"met:get", "met:exists", "met:scan"} {
		put(t, store, key, "x", types.PutOptions{TTL: time.Second})
	}
	clock.Advance(time.Second - time.Millisecond)
	require.Equal(t, "x", get(t, store, "met:get"), "present until the last millisecond")
	clock.Advance(time.Millisecond)

	page, err := store.ScanPrefix(t.Context(), "met:", types.ScanOptions{})
	require.NoError(t, err)
	require.Empty(t, page)
	_, found, err := store.Get(t.Context(), "met:get")
	require.NoError(t, err)
	require.False(t, found)
	found, err = store.Exists(t.Context(), "met:exists")
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, store.Close()) // after what is due in the background
	require.Equal(t, [][]any{{"met:scan"}}, rawRows(t, dir, "SELECT key FROM kv"))
}

func TestRemovalLeavesARowThatWasPutAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		again   types.PutOptions
		advance time.Duration
	}{
		"without expiry":                   {types.PutOptions{}, time.Minute},
		"with a later expiry":              {types.PutOptions{TTL: time.Hour}, time.Minute},
		"by a clock that has stepped back": {types.PutOptions{TTL: time.Second}, -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			clock := newClock()
			store := open(t, Options{Dir: dir, Clock: clock})
			put(t, store, "key", "old", types.PutOptions{TTL: time.Second})
			old := storedVersion(t, store, "key")
			clock.Advance(time.Minute)
			read := clock.Now()
			clock.Set(read.Add(test.advance))
			put(t, store, "key", "new", test.again)
			// The read found the old row expired; its removal runs only now.
			store.expired.offer("key", expiredRow{old, read.UnixMilli()})
			require.NoError(t, store.Close())
			require.Equal(t, [][]any{{"key", []byte("new")}}, rawRows(t, dir, "SELECT key, value FROM kv"))
		})
	}
}

func storedVersion(t *testing.T, store *Store, key string) (version string) {
	t.Helper()
	require.NoError(t, store.file.Read(t.Context(), "test", func(c *sqlitefile.Conn) error {
		return c.Query(selectEntry, func(r sqlitefile.Row) error {
			version = r.Text(2)
			return nil
		}, key)
	}))
	return version
}

func TestReaperIsBounded(t *testing.T) {
	t.Parallel()
	r := &reaper{pending: map[string]expiredRow{}, wake: make(chan struct{}, 1)}
	for i := range maxExpired + 10 {
		r.offer(fmt.Sprint(i), expiredRow{})
	}
	require.Len(t, r.pending, maxExpired)
	rows, closed := r.take()
	require.Len(t, rows, maxExpired)
	require.False(t, closed)
	r.offer("room again", expiredRow{})
	require.Len(t, r.pending, 1)
}

func TestReadOfExpiredRowSucceedsWhenItCannotBeRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := newClock()
	store := open(t, Options{Dir: dir, Clock: clock})
	put(t, store, "key", "x", types.PutOptions{TTL: time.Second})
	require.NoError(t, store.Close())
	plant(t, dir, "CREATE TRIGGER keep BEFORE DELETE ON kv BEGIN SELECT RAISE(ABORT, 'not today'); END")

	clock.Advance(time.Second)
	var log lockedBuffer
	store = open(t, Options{Dir: dir, Clock: clock, Log: slog.New(slog.NewTextHandler(&log, nil))})
	_, found, err := store.Get(t.Context(), "key")
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, store.Close())
	require.Contains(t, log.String(), "could not be removed")
	require.Equal(t, [][]any{{"key"}}, rawRows(t, dir, "SELECT key FROM kv"))
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestWrongStorageClassesAreReportedAndCanBeMended(t *testing.T) {
	t.Parallel()
	const version = "0123456789abcdef0123456789abcdef"
	now := newClock().Now().UnixMilli()
	tests := []struct {
		key, value, expires, version string
		get, exists, scan            bool // whether it works
	}{
		{key: "value:text", value: "'secret'", expires: "NULL", version: "'" + version + "'", exists: true},
		{key: "value:int", value: "4711", expires: "NULL", version: "'" + version + "'", exists: true},
		{key: "version:blob", value: "x'00'", expires: "NULL", version: "x'00'", exists: true},
		{key: "expiry:text", value: "x'00'", expires: "'soon'", version: "'" + version + "'"},
		{key: "expiry:real", value: "x'00'", expires: "1.5", version: "'" + version + "'"},
		{key: "expiry:blob", value: "x'00'", expires: "x'00'", version: "'" + version + "'"},
		// Types come before expiry for a get; a scan passes over what has expired.
		{key: "expired:value", value: "'secret'", expires: fmt.Sprint(now), version: "'" + version + "'", exists: true, scan: true},
		{key: "expired:version", value: "x'00'", expires: fmt.Sprint(now), version: "x'00'", exists: true, scan: true},
	}
	for _, test := range tests {
		t.Run(test.key, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, open(t, Options{Dir: dir}).Close())
			plant(t, dir, fmt.Sprintf("INSERT INTO kv (key, value, expires_at, version) VALUES ('%s', %s, %s, %s)",
				test.key, test.value, test.expires, test.version))
			store := open(t, Options{Dir: dir, Clock: newClock()})
			check := func(works bool, err error) {
				t.Helper()
				if works {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, &ports.Error{Code: ports.CodeKvOperationFailed, Reason: ports.ReasonUndecodable})
				require.ErrorContains(t, err, test.key)
				require.NotContains(t, err.Error(), "secret")
				require.NotContains(t, err.Error(), "4711")
				require.False(t, ports.IsTransient(err))
			}
			_, _, err := store.Get(t.Context(), test.key)
			check(test.get, err)
			_, err = store.Exists(t.Context(), test.key)
			check(test.exists, err)
			_, err = store.ScanPrefix(t.Context(), test.key, types.ScanOptions{})
			check(test.scan, err)

			put(t, store, test.key, "mended", types.PutOptions{})
			require.Equal(t, "mended", get(t, store, test.key))
		})
	}
}

func TestScanPassesOverKeysThatOthersWrote(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, open(t, Options{Dir: dir}).Close())
	row := func(key string) string {
		return "INSERT INTO kv (key, value, expires_at, version) VALUES (" + key + ", x'01', NULL, 'v')"
	}
	plant(t, dir,
		row("'p:a'"), row("'p:b'"), row("'p:c'"), row("'p'"), row("'q'"), row("'pz'"),
		row("x'703a61'"), // the BLOB of p:a
		row("x'703a6262'"), row("NULL"), row("42"), row("''"),
		row("'p:b b'"), row("'p:bé'"), row("'p:a' || char(0) || 'x'"), row("'p:' || CAST(x'ff' AS TEXT)"),
		row("'p:c' || char(1114111)"), row("'p:"+strings.Repeat("k", 600)+"'"),
	)
	var log lockedBuffer
	store := open(t, Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for limit := 1; limit <= 4; limit++ {
		var keys []string
		var cursor types.KvCursor
		for {
			page, err := store.ScanPrefix(t.Context(), "p:", types.ScanOptions{Limit: limit, Cursor: cursor})
			require.NoError(t, err)
			for _, entry := range page.Entries {
				keys = append(keys, entry.Key)
			}
			require.LessOrEqual(t, len(keys), 3)
			if cursor = page.Cursor; cursor == "" {
				break
			}
			require.Len(t, page.Entries, limit, "only a full page has a cursor")
		}
		require.Equal(t, []string{"p:a", "p:b", "p:c"}, keys, "limit %d", limit)
	}
	require.Equal(t, 1, strings.Count(log.String(), "breaks the rules"), "reported once: %s", log.String())
}

func TestRightMarkerWithWrongColumnsFailsInOperations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	makeDatabase(t, dir, sqlitefile.MetaDDL, "INSERT INTO meta VALUES ('format', 'localkv.v2')", "CREATE TABLE kv (name TEXT)")
	store := open(t, Options{Dir: dir})
	_, _, err := store.Get(t.Context(), "key")
	require.ErrorIs(t, err, ports.ErrKvOperationFailed)
	_, err = store.Put(t.Context(), "key", nil, types.PutOptions{})
	require.ErrorIs(t, err, ports.ErrKvOperationFailed)
}

func TestTokenOfTheOriginalImplementationApplies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, Options{Dir: dir})
	put(t, store, "key", "one", types.PutOptions{})
	// As the original writes it, from the row.
	token := ports.EncodeVersion("key", ports.VersionToken{Backend: storedVersion(t, store, "key")})
	put(t, store, "key", "two", types.PutOptions{If: types.IfVersion(token)})
}

func TestTokenWhoseEntryHasExpiredDoesNotApply(t *testing.T) {
	t.Parallel()
	clock := newClock()
	store := open(t, Options{Dir: t.TempDir(), Clock: clock})
	version := put(t, store, "key", "x", types.PutOptions{TTL: time.Second})
	clock.Advance(time.Second)
	result, err := store.Put(t.Context(), "key", nil, types.PutOptions{If: types.IfVersion(version)})
	require.NoError(t, err)
	require.Zero(t, result)
	held, err := store.Delete(t.Context(), "key", types.IfVersion(version))
	require.NoError(t, err)
	require.False(t, held)

	_, err = store.Put(fixture.Cancelled(t), "key", nil, types.PutOptions{If: types.IfVersion(version)})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, store.Close())
	_, err = store.Put(t.Context(), "key", nil, types.PutOptions{If: types.IfVersion(version)})
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	_, err = store.Delete(t.Context(), "key", types.IfVersion(version))
	require.ErrorIs(t, err, ports.ErrStoreClosed)
}

func TestBackupIsAStore(t *testing.T) {
	t.Parallel()
	store := open(t, Options{Dir: t.TempDir()})
	for i := range 300 {
		put(t, store, fmt.Sprintf("key:%d", i), strings.Repeat("v", i*10), types.PutOptions{})
	}
	dir := t.TempDir()
	path := filepath.Join(dir, databaseName)
	require.NoError(t, store.HealthCheck(t.Context()))
	require.NoError(t, store.Verify(t.Context()))
	require.NoError(t, store.Backup(t.Context(), path))
	require.ErrorIs(t, store.Backup(t.Context(), path), ports.ErrAlreadyExists)

	backup := open(t, Options{Dir: dir})
	require.NoError(t, backup.Verify(t.Context()))
	page, err := backup.ScanPrefix(t.Context(), "key:", types.ScanOptions{})
	require.NoError(t, err)
	require.Len(t, page.Entries, 300)
	put(t, backup, "key:new", "in the copy", types.PutOptions{})
	found, err := store.Exists(t.Context(), "key:new")
	require.NoError(t, err)
	require.False(t, found)
}

func TestReplacedFileIsNeverWrittenForASuccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := Open(t.Context(), Options{Dir: dir, Log: testLog(t)})
	require.NoError(t, err)
	put(t, store, "key", "x", types.PutOptions{})
	require.NoError(t, os.Rename(store.Path(), store.Path()+".moved"))
	_, err = store.Put(t.Context(), "key", nil, types.PutOptions{})
	require.ErrorIs(t, err, ports.ErrStoreReplaced)
	require.ErrorIs(t, store.HealthCheck(t.Context()), ports.ErrStoreReplaced)
	_ = store.Close() // may report what it found
}

func TestVersionsAreRandomUUIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		version, err := newVersion()
		require.NoError(t, err)
		digits, err := hex.DecodeString(version)
		require.NoError(t, err)
		require.Len(t, digits, 16)
		require.False(t, seen[version])
		seen[version] = true
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not made")
	for name, options := range map[string]Options{
		"no directory": {},
		"odd mode":     {Dir: dir, Mode: 7},
		"tiny cache":   {Dir: dir, CacheBytes: 1},
	} {
		_, err := Open(t.Context(), options)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, name)
	}
	require.NoDirExists(t, dir)
	_, err := Open(fixture.Cancelled(t), Options{Dir: dir})
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, dir)
}

func TestMultiProcessModeNeedsA64BitUnix(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		goos string
		bits int
		ok   bool
	}{
		{"linux", 64, true}, {"darwin", 64, true}, {"freebsd", 64, true},
		{"linux", 32, false}, {"windows", 64, false}, {"wasip1", 64, false}, {"plan9", 64, false},
	} {
		err := checkPlatform("kv.open", MultiProcess, test.goos, test.bits)
		require.NoError(t, checkPlatform("kv.open", SingleProcess, test.goos, test.bits))
		if test.ok {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, &ports.Error{Code: ports.CodeBindingSetupFailed, Reason: ports.ReasonUnsupported})
		require.ErrorContains(t, err, test.goos)
	}
}

func TestConcurrentCloseAndOperations(t *testing.T) {
	t.Parallel()
	store := open(t, Options{Dir: t.TempDir()})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for {
				_, err := store.Put(t.Context(), fmt.Sprintf("key:%d", i), nil, types.PutOptions{TTL: 1})
				if err == nil {
					_, _, err = store.Get(t.Context(), fmt.Sprintf("key:%d", i))
				}
				if err != nil {
					require.ErrorIs(t, err, ports.ErrStoreClosed)
					return
				}
			}
		})
	}
	for i := range 2 {
		wg.Go(func() {
			put(t, store, fmt.Sprintf("closer:%d", i), "", types.PutOptions{})
		})
	}
	require.Eventually(t, func() bool { return store.file.Stats().Operations > 50 }, time.Minute, time.Millisecond)
	require.NoError(t, store.Close())
	wg.Wait()
	require.NoError(t, store.Close(), "closing again gives the first result")
}
