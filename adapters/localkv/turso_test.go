package localkv

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// fixtureRow is a row of testdata/turso/expected.json, which describes the store beside it that the
// Turso engine wrote.
type fixtureRow struct {
	Key            string          `json:"key"`
	ValueHex       *string         `json:"valueHex"`
	ValueHexBytes  int             `json:"valueHexBytes"`
	ValueHexSha256 string          `json:"valueHexSha256"`
	ExpiresAt      json.RawMessage `json:"expiresAt"` // a number, one in quotes if it is large, or null
	Version        string          `json:"version"`
}

func (r fixtureRow) expiry(t *testing.T) *int64 {
	t.Helper()
	text := strings.Trim(string(r.ExpiresAt), `"`)
	if text == "null" {
		return nil
	}
	at, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return &at
}

func (r fixtureRow) requireValue(t *testing.T, value []byte) {
	t.Helper()
	if r.ValueHex != nil {
		require.Equal(t, *r.ValueHex, hex.EncodeToString(value), r.Key)
		return
	}
	require.Len(t, value, r.ValueHexBytes, r.Key)
	sum := sha256.Sum256(value)
	require.Equal(t, r.ValueHexSha256, hex.EncodeToString(sum[:]), r.Key)
}

func tursoStore(t *testing.T) (dir string, rows []fixtureRow) {
	t.Helper()
	text, err := os.ReadFile("testdata/turso/expected.json")
	require.NoError(t, err)
	var expected struct {
		Kv []fixtureRow `json:"kv"`
	}
	require.NoError(t, json.Unmarshal(text, &expected))
	require.NotEmpty(t, expected.Kv)
	dir = t.TempDir()
	for _, name := range []string{databaseName, databaseName + "-wal"} {
		copyFile(t, filepath.Join("testdata/turso/kv-clean", name), filepath.Join(dir, name))
	}
	return dir, expected.Kv
}

func TestStoreThatTursoWroteIsReadWhole(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{MultiProcess, SingleProcess} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			dir, rows := tursoStore(t)
			store := open(t, Options{Dir: dir, Mode: mode, Clock: newClock()})
			live := map[string]fixtureRow{}
			for _, row := range rows {
				at := row.expiry(t)
				entry, found, err := store.Get(t.Context(), row.Key)
				require.NoError(t, err)
				exists, err := store.Exists(t.Context(), row.Key)
				require.NoError(t, err)
				alive := at == nil || *at > newClock().Now().UnixMilli()
				require.Equal(t, alive, found, row.Key)
				require.Equal(t, alive, exists, row.Key)
				if !alive {
					continue
				}
				live[row.Key] = row
				require.Equal(t, row.Key, entry.Key)
				row.requireValue(t, entry.Value)
				if at == nil {
					require.Zero(t, entry.ExpiresAt)
				} else {
					require.Equal(t, *at, entry.ExpiresAt.UnixMilli())
				}
			}
			require.Less(t, len(live), len(rows), "some have expired")

			var scanned []string
			for _, prefix := range []string{"app:", "k", "ord:", "ttl:"} {
				var cursor types.KvCursor
				for more := true; more; more = cursor != "" {
					page, err := store.ScanPrefix(t.Context(), prefix, types.ScanOptions{Limit: 3, Cursor: cursor})
					require.NoError(t, err)
					for _, entry := range page.Entries {
						scanned = append(scanned, entry.Key)
						live[entry.Key].requireValue(t, entry.Value)
					}
					cursor = page.Cursor
				}
			}
			require.Len(t, scanned, len(live))
			require.IsIncreasing(t, scanned)
			require.NoError(t, store.Verify(t.Context()))
		})
	}
}

func TestStoreThatTursoWroteGoesOn(t *testing.T) {
	t.Parallel()
	dir, rows := tursoStore(t)
	clock := newClock()
	store := open(t, Options{Dir: dir, Clock: clock})

	entry, found, err := store.Get(t.Context(), "app:alpha")
	require.NoError(t, err)
	require.True(t, found)
	put(t, store, "app:alpha", "by version", types.PutOptions{If: types.IfVersion(entry.Version), TTL: time.Minute})
	put(t, store, "app:new", "created", types.PutOptions{If: types.IfAbsent()})
	put(t, store, "ttl:zero", "taken over", types.PutOptions{If: types.IfAbsent()})
	result, err := store.Put(t.Context(), "app:beta", nil, types.PutOptions{If: types.IfAbsent()})
	require.NoError(t, err)
	require.False(t, result.Applied)
	entry, _, err = store.Get(t.Context(), "app:cas")
	require.NoError(t, err)
	held, err := store.Delete(t.Context(), "app:cas", types.IfVersion(entry.Version))
	require.NoError(t, err)
	require.True(t, held)
	require.NoError(t, store.Close())

	require.Equal(t, 4096, pageSizeOf(t, dir), "an existing file keeps its pages")
	require.Equal(t, [][]any{{"localkv.v2"}}, rawRows(t, dir, "SELECT value FROM meta"))
	after := map[string][]any{}
	for _, row := range rawRows(t, dir, "SELECT key, value, expires_at, version FROM kv") {
		after[row[0].(string)] = row
	}
	require.Len(t, after, len(rows)) // one more, one less
	require.Equal(t, []any{[]byte("by version"), clock.Now().Add(time.Minute).UnixMilli()}, after["app:alpha"][1:3])
	require.Equal(t, []any{[]byte("created"), nil}, after["app:new"][1:3])
	require.Equal(t, []any{[]byte("taken over"), nil}, after["ttl:zero"][1:3])
	require.NotContains(t, after, "app:cas")
	for _, row := range rows {
		switch row.Key {
		case "app:alpha", "app:cas", "ttl:zero":
			continue
		}
		// The others are as they were, the expired one that nobody met included.
		require.Contains(t, after, row.Key)
		row.requireValue(t, after[row.Key][1].([]byte))
		require.Equal(t, row.Version, after[row.Key][3])
	}
}
