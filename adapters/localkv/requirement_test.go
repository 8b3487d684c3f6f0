package localkv

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// The tables that belong to the marker, written out. Whoever changes them changes the format: that
// needs a marker of its own, with its own entry here, and code that refuses or migrates this one
// (R025, R036). Changing an entry is never right.
var tablesOf = map[string][][]any{
	"localkv.v2": {
		{"kv", "CREATE TABLE kv (\nkey TEXT PRIMARY KEY,\nvalue BLOB NOT NULL,\nexpires_at INTEGER,\nversion TEXT NOT NULL\n)"},
		{"meta", "CREATE TABLE meta (\nkey TEXT PRIMARY KEY,\nvalue TEXT NOT NULL\n)"},
	},
}

func TestTablesAreThoseOfTheMarker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, open(t, Options{Dir: dir}).Close())
	marker := rawRows(t, dir, "SELECT value FROM meta WHERE key = 'format'")[0][0].(string)
	require.Contains(t, tablesOf, marker)
	require.Equal(t, tablesOf[marker], rawRows(t, dir, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"))
}

// Every write is one statement that changes one row, or none where its condition does not hold
// (R055, R057, R060, R062, R063): triggers of the database note each change of a row.
func TestAWriteIsOneChangeOfOneRow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := newClock()
	require.NoError(t, open(t, Options{Dir: dir}).Close())
	plant(t, dir,
		"CREATE TABLE note (what TEXT)",
		"CREATE TRIGGER inserted AFTER INSERT ON kv BEGIN INSERT INTO note VALUES ('insert ' || NEW.key); END",
		"CREATE TRIGGER updated AFTER UPDATE ON kv BEGIN INSERT INTO note VALUES ('update ' || NEW.key); END",
		"CREATE TRIGGER deleted AFTER DELETE ON kv BEGIN INSERT INTO note VALUES ('delete ' || OLD.key); END")
	store := open(t, Options{Dir: dir, Clock: clock})
	lose := func(key string, cond types.Condition) {
		t.Helper()
		result, err := store.Put(t.Context(), key, []byte("loser"), types.PutOptions{If: cond})
		require.NoError(t, err)
		require.False(t, result.Applied)
	}
	remove := func(key string, cond types.Condition, want bool) {
		t.Helper()
		held, err := store.Delete(t.Context(), key, cond)
		require.NoError(t, err)
		require.Equal(t, want, held)
	}

	stale := put(t, store, "always", "1", types.PutOptions{})
	live := put(t, store, "always", "2", types.PutOptions{})
	put(t, store, "absent", "1", types.PutOptions{If: types.IfAbsent(), TTL: time.Second})
	lose("absent", types.IfAbsent())
	lose("always", types.IfVersion(stale))
	remove("always", types.IfVersion(stale), false)
	live = put(t, store, "always", "3", types.PutOptions{If: types.IfVersion(live)})
	clock.Advance(time.Second)
	put(t, store, "absent", "2", types.PutOptions{If: types.IfAbsent()}) // takes the expired row over
	remove("always", types.IfVersion(live), true)
	lose("always", types.IfVersion(live))
	remove("absent", types.Always(), true)
	remove("absent", types.Always(), true)
	require.NoError(t, store.Close())

	require.Equal(t, [][]any{
		{"insert always"}, {"update always"}, {"insert absent"}, {"update always"}, {"update absent"}, {"delete always"}, {"delete absent"},
	}, rawRows(t, dir, "SELECT what FROM note ORDER BY rowid"))
}
