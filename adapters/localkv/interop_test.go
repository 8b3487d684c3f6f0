package localkv

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// The engine of the original implementation, as a package of node.
const (
	tursoPackages  = "@tursodatabase/database@0.7.2 @tursodatabase/database-common@0.7.2"
	installLimit   = 2 * time.Minute
	requireTurso   = "STOWAGE_REQUIRE_TURSO" // set it to fail rather than skip without the engine
	tursoScript    = "kv.mjs"
	scriptDeadline = time.Minute
)

// turso is the folder in which the engine is installed, once for all tests. TestMain removes it.
var turso struct {
	once    sync.Once
	dir     string
	missing error // why the engine is not there
}

// runTurso runs the script on a store that nobody has open, with the real engine, and returns what
// it prints. Without node, or with no way to fetch the engine, the test is skipped.
func runTurso(t *testing.T, args ...string) []byte {
	t.Helper()
	turso.once.Do(func() { turso.dir, turso.missing = installTurso() })
	if turso.missing != nil {
		if os.Getenv(requireTurso) != "" {
			t.Fatalf("the Turso engine is not here: %v", turso.missing)
		}
		t.Skipf("the Turso engine is not here, so what it reads and writes cannot be compared: %v", turso.missing)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join(turso.dir, tursoScript)}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s", args, stderr.String())
	return out
}

func installTurso() (dir string, err error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%s is not installed", program)
		}
	}
	if dir, err = os.MkdirTemp("", "stowage-turso-"); err != nil {
		return "", err
	}
	// A package.json keeps npm from looking for one in the folders above, and a script finds the
	// packages beside itself.
	script, err := os.ReadFile(filepath.Join("testdata/turso", tursoScript))
	if err == nil {
		err = errors.Join(
			os.WriteFile(filepath.Join(dir, tursoScript), script, 0o600),
			os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o600),
		)
	}
	if err != nil {
		return dir, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installLimit)
	defer cancel()
	args := append([]string{"install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"},
		strings.Fields(tursoPackages)...)
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("npm could not install it: %w: %s", err, out)
	}
	return dir, nil
}

// tursoRow is a row as the script prints it and takes it.
type tursoRow struct {
	Key       string  `json:"key"`
	Value     string  `json:"value"`     // hexadecimal
	ExpiresAt *string `json:"expiresAt"` // decimal, since JavaScript's numbers end at 53 bits
	Version   string  `json:"version"`
	Types     string  `json:"types"` // storage classes of value, expiry and version
}

func newTursoRow(key, value string, expiresAt int64) tursoRow {
	row := tursoRow{Key: key, Value: hex.EncodeToString([]byte(value)), Version: strings.Repeat("0a", 16)}
	row.Types = "blob,null,text"
	if expiresAt != 0 {
		at := strconv.FormatInt(expiresAt, 10)
		row.ExpiresAt, row.Types = &at, "blob,integer,text"
	}
	return row
}

func encode(t *testing.T, rows ...tursoRow) string {
	t.Helper()
	text, err := json.Marshal(rows)
	require.NoError(t, err)
	return string(text)
}

// tursoRows are all rows of a store, ordered by key, as Turso reads them.
func tursoRows(t *testing.T, dir string) []tursoRow {
	t.Helper()
	var rows []tursoRow
	require.NoError(t, json.Unmarshal(runTurso(t, "read", filepath.Join(dir, databaseName)), &rows))
	return rows
}

// ourRows are the same rows as this engine reads them.
func ourRows(t *testing.T, dir string) []tursoRow {
	t.Helper()
	rows := []tursoRow{}
	for _, r := range rawRows(t, dir, `SELECT key, hex(value), CAST(expires_at AS TEXT), version,
		typeof(value) || ',' || typeof(expires_at) || ',' || typeof(version) FROM kv ORDER BY key`) {
		row := tursoRow{Key: r[0].(string), Value: strings.ToLower(r[1].(string)), Version: r[3].(string), Types: r[4].(string)}
		if at, ok := r[2].(string); ok {
			row.ExpiresAt = &at
		}
		rows = append(rows, row)
	}
	return rows
}

// fill puts what stresses the file: empty and odd values, the largest ones, long keys, many rows,
// expiries up to the limit, and deletes that leave free pages.
func fill(t *testing.T, store *Store) {
	t.Helper()
	var all strings.Builder
	for b := range 256 {
		all.WriteByte(byte(b))
	}
	put(t, store, "odd:empty", "", types.PutOptions{})
	put(t, store, "odd:bytes", all.String(), types.PutOptions{})
	put(t, store, "odd:large", strings.Repeat(all.String(), 96), types.PutOptions{})
	put(t, store, strings.Repeat("k", 512), "long key", types.PutOptions{})
	put(t, store, "odd:hour", "x", types.PutOptions{TTL: time.Hour})
	put(t, store, "odd:max", "x", types.PutOptions{TTL: 1<<63 - 1})
	put(t, store, "odd:expired", "x", types.PutOptions{TTL: 1})
	for i := range 400 {
		put(t, store, fmt.Sprintf("many:%03d", i), strings.Repeat("v", i*i%3000), types.PutOptions{})
	}
	for i := 0; i < 400; i += 3 {
		held, err := store.Delete(t.Context(), fmt.Sprintf("many:%03d", i), types.Always())
		require.NoError(t, err)
		require.True(t, held)
	}
}

func TestTursoReadsAndContinuesOurStore(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{MultiProcess, SingleProcess} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := open(t, Options{Dir: dir, Mode: mode})
			fill(t, store)
			require.NoError(t, store.Close())
			require.Equal(t, 1024, pageSizeOf(t, dir))

			written := ourRows(t, dir)
			require.Equal(t, written, tursoRows(t, dir))

			// Turso writes one row more, and takes one over.
			added := newTursoRow("turso:new", "from the other engine", 4102444800000)
			replaced := newTursoRow("odd:bytes", "", 0)
			runTurso(t, "put", filepath.Join(dir, databaseName), encode(t, added, replaced))

			store = open(t, Options{Dir: dir, Mode: mode})
			require.NoError(t, store.Verify(t.Context()))
			entry, found, err := store.Get(t.Context(), added.Key)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, "from the other engine", string(entry.Value))
			require.Equal(t, int64(4102444800000), entry.ExpiresAt.UnixMilli())
			require.Empty(t, get(t, store, replaced.Key))
			put(t, store, added.Key, "and back", types.PutOptions{If: types.IfVersion(entry.Version)})
			require.NoError(t, store.Close())
			require.Len(t, ourRows(t, dir), len(written)+1)
			require.Equal(t, ourRows(t, dir), tursoRows(t, dir))
			require.Equal(t, 1024, pageSizeOf(t, dir))
		})
	}
}

func TestTursoReadsAStoreWhoseWriterWasKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writer := startChild(t)
	writer.do("open %s multi-process", dir)
	writer.send("flood key: 2")
	stored := readUntilKilled(t, writer, 100)
	require.FileExists(t, filepath.Join(dir, databaseName+"-wal"), "the rows are still in the log")

	read := map[string]string{}
	for _, row := range tursoRows(t, dir) {
		read[row.Key] = row.Value
	}
	for _, key := range stored {
		require.Equal(t, hex.EncodeToString([]byte(key)), read[key])
	}
}

func TestOurStoreContinuesOneThatTursoMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rows := []tursoRow{
		newTursoRow("a:bytes", "\x00\xff\x80", 0),
		newTursoRow("a:empty", "", 0),
		newTursoRow("a:future", "x", 4102444800000),
		newTursoRow("a:max", "x", 1<<63-1),
		newTursoRow("a:past", "x", 1),
	}
	for i := range 300 {
		rows = append(rows, newTursoRow(fmt.Sprintf("b:%03d", i), strings.Repeat("v", i*i%5000), 0))
	}
	// The rows go through a file: there are more than a command line takes.
	path := filepath.Join(t.TempDir(), "rows.json")
	require.NoError(t, os.WriteFile(path, []byte(encode(t, rows...)), 0o600))
	runTurso(t, "make", filepath.Join(dir, databaseName), "@"+path)

	store := open(t, Options{Dir: dir})
	for _, row := range rows {
		entry, found, err := store.Get(t.Context(), row.Key)
		require.NoError(t, err)
		require.Equal(t, row.Key != "a:past", found, row.Key)
		if found {
			require.Equal(t, row.Value, hex.EncodeToString(entry.Value), row.Key)
		}
	}
	put(t, store, "c:new", "ours", types.PutOptions{TTL: time.Hour})
	require.NoError(t, store.Verify(t.Context()))
	require.NoError(t, store.Close())
	require.Equal(t, 4096, pageSizeOf(t, dir), "Turso's page size stays")
	require.Len(t, ourRows(t, dir), len(rows)) // one more, and the expired one that was met is gone
	require.Equal(t, ourRows(t, dir), tursoRows(t, dir))
}
