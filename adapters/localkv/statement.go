package localkv

import "github.com/stowage-go/stowage/adapters/sqlitefile"

// Format is the marker of the on-disk format (R039). A change of the table that an older reader would not understand needs
// another one, and code that refuses or migrates this one (R025).
const Format = "localkv.v2"

// kvDDL is the table of the format. docs/formats.md gives the same text, and a test compares them
// (R026, R036).
const kvDDL = `CREATE TABLE IF NOT EXISTS kv (
key TEXT PRIMARY KEY,
value BLOB NOT NULL,
expires_at INTEGER,
version TEXT NOT NULL
)`

func schema() sqlitefile.Schema { return sqlitefile.Marked(Format, kvDDL) }

// The statements of the format. Each is one atomic step; what a conditional one did is told by the
// number of rows that it changed. docs/formats.md gives them too.
const (
	selectEntry = `SELECT value, expires_at, version FROM kv WHERE key = ?1`

	selectExpiry = `SELECT expires_at, version FROM kv WHERE key = ?1`

	// An expiry that is no integer is let through, to be reported rather than passed over.
	selectRange = `SELECT key, value, expires_at, version FROM kv
WHERE key >= ?1 AND key < ?2
AND (expires_at IS NULL OR expires_at > ?3 OR typeof(expires_at) <> 'integer')
ORDER BY key`

	selectRangeAfter = `SELECT key, value, expires_at, version FROM kv
WHERE key > ?1 AND key < ?2
AND (expires_at IS NULL OR expires_at > ?3 OR typeof(expires_at) <> 'integer')
ORDER BY key`

	upsert = `INSERT INTO kv (key, value, expires_at, version) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(key) DO UPDATE
SET value = ?2, expires_at = ?3, version = ?4`

	upsertIfAbsent = `INSERT INTO kv (key, value, expires_at, version) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT(key) DO UPDATE
SET value = ?2, expires_at = ?3, version = ?4
WHERE kv.expires_at IS NOT NULL AND kv.expires_at <= ?5`

	updateIfVersion = `UPDATE kv SET value = ?2, expires_at = ?3, version = ?4
WHERE key = ?1 AND version = ?5 AND (expires_at IS NULL OR expires_at > ?6)`

	deleteKey = `DELETE FROM kv WHERE key = ?1`

	deleteIfVersion = `DELETE FROM kv
WHERE key = ?1 AND version = ?2 AND (expires_at IS NULL OR expires_at > ?3)`

	// The version makes sure that a row which was put again is left alone, whatever the clock did.
	deleteExpired = `DELETE FROM kv
WHERE key = ?1 AND version = ?2 AND expires_at IS NOT NULL AND expires_at <= ?3`
)
