package localqueue

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// look reads rows of an open queue beneath the port.
func look(t *testing.T, q *Queue, query string) [][]any {
	t.Helper()
	rows := [][]any{}
	require.NoError(t, q.file.Read(t.Context(), "look", func(c *sqlitefile.Conn) error {
		return c.Query(query, func(r sqlitefile.Row) error {
			row := make([]any, len(r))
			for i := range r {
				row[i] = r.Value(i)
			}
			rows = append(rows, row)
			return nil
		})
	}))
	return rows
}

// The tables that belong to the marker, written out. Whoever changes them changes the format: that
// needs a marker of its own, with its own entry here, and code that refuses or migrates this one
// (R025, R076, R077). Changing an entry is never right.
var tablesOf = map[string][][]any{
	"localqueue.v1": {
		{"idx_messages_visible", "CREATE INDEX idx_messages_visible ON messages (visible_at, enqueued_at, id)"},
		{"messages", "CREATE TABLE messages (\nid INTEGER PRIMARY KEY AUTOINCREMENT,\npayload_type TEXT NOT NULL,\npayload_data TEXT NOT NULL,\n" +
			"enqueued_at INTEGER NOT NULL,\nvisible_at INTEGER NOT NULL,\nattempt INTEGER NOT NULL DEFAULT 0,\nreceipt_handle TEXT\n)"},
		{"meta", "CREATE TABLE meta (\nkey TEXT PRIMARY KEY,\nvalue TEXT NOT NULL\n)"},
	},
}

func TestTablesAreThoseOfTheMarker(t *testing.T) {
	t.Parallel()
	q := openQueue(t, Options{})
	marker := look(t, q, "SELECT value FROM meta WHERE key = 'format'")[0][0].(string)
	require.Contains(t, tablesOf, marker)
	require.Equal(t, tablesOf[marker], look(t, q, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY name"))
}

// The owner's default is to sync each commit (R086).
func TestCommitsAreSyncedByDefault(t *testing.T) {
	t.Parallel()
	q := openQueue(t, Options{})
	require.NoError(t, q.stepOne(t.Context(), "look", func(s *step) error {
		return s.Query("PRAGMA synchronous", func(r sqlitefile.Row) error {
			require.EqualValues(t, 2, r.Int64(0), "FULL")
			return nil
		})
	}))
}

// The payload stands in its columns as it was sent, JSON compacted, each column in the storage class
// of the format (R078, R079).
func TestPayloadsStandInTheirColumnsAsSent(t *testing.T) {
	t.Parallel()
	q := openQueue(t, Options{})
	require.NoError(t, q.Send(t.Context(), types.JSON([]byte(` { "z" : 9007199254740993, "a" : "<&>\u00e9" } `)), types.SendOptions{}))
	send(t, q, "as\x00it is \n", "")
	require.Equal(t, [][]any{
		{"json", `{"z":9007199254740993,"a":"<&>\u00e9"}`},
		{"text", "as\x00it is \n"},
		{"text", ""},
	}, look(t, q, "SELECT payload_type, payload_data FROM messages ORDER BY id"))
	require.Len(t, receiveOne(t, q), 1)
	const classes = `SELECT DISTINCT typeof(payload_type) || ',' || typeof(payload_data) || ',' || typeof(enqueued_at) || ',' ||
typeof(visible_at) || ',' || typeof(attempt) || ',' || typeof(receipt_handle) FROM messages ORDER BY 1`
	require.Equal(t, [][]any{{"text,text,integer,integer,integer,null"}, {"text,text,integer,integer,integer,text"}}, look(t, q, classes))
}

// What a token is checked against is its digest; the token itself is not kept in memory (R145).
func TestTokensAreCheckedByTheirDigests(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "q"))
	first, err := owner.Token(t.Context(), "q")
	require.NoError(t, err)
	second, err := owner.Rotate(t.Context(), "q", time.Hour)
	require.NoError(t, err)
	cred := owner.credentials.byID["q"]
	require.Equal(t, sha256.Sum256([]byte(second)), cred.current)
	require.Len(t, cred.old, 1)
	require.Equal(t, sha256.Sum256([]byte(first)), cred.old[0].digest)
	cred.current = sha256.Sum256([]byte("another"))
	require.ErrorIs(t, owner.Authenticate(t.Context(), "q", second), ports.ErrAuthenticationFailed, "nothing else decides")
}
