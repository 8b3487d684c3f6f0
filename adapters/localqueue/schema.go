package localqueue

import "github.com/stowage-go/stowage/adapters/sqlitefile"

const (
	// Format is the marker of the on-disk format (R084). docs/formats.md describes it.
	Format = "localqueue.v1"
	// databaseName is the file of a queue inside its directory (R075).
	databaseName = "localqueue.sqlite"
	kind         = "local queue"
)

// The tables of the format (R076, R077). A test compares them with docs/formats.md: changing them
// means a new marker (R025).
const (
	messagesDDL = `CREATE TABLE IF NOT EXISTS messages (
id INTEGER PRIMARY KEY AUTOINCREMENT,
payload_type TEXT NOT NULL,
payload_data TEXT NOT NULL,
enqueued_at INTEGER NOT NULL,
visible_at INTEGER NOT NULL,
attempt INTEGER NOT NULL DEFAULT 0,
receipt_handle TEXT
)`
	indexDDL = `CREATE INDEX IF NOT EXISTS idx_messages_visible ON messages (visible_at, enqueued_at, id)`
)

func schema() sqlitefile.Schema { return sqlitefile.Marked(Format, messagesDDL, indexDDL) }

// The statements of the format. Each is prepared once a connection.
const (
	sqlSend      = `INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt) VALUES (?1, ?2, ?3, ?3, 0)`
	sqlSendLater = `INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt) VALUES (?1, ?2, ?3, ?4, 0)`
	sqlStage     = `INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt, receipt_handle) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`
	sqlClaim     = `UPDATE messages SET visible_at = ?1, attempt = attempt + 1, receipt_handle = ?2 WHERE id = ?3`
	sqlAck       = `DELETE FROM messages WHERE id = ?1 AND receipt_handle = ?2`
	sqlShow      = `UPDATE messages SET visible_at = ?1 WHERE id = ?2 AND receipt_handle = ?3`
	sqlDelay     = `UPDATE messages SET visible_at = ?1, receipt_handle = NULL WHERE id = ?2 AND receipt_handle = ?3`
	sqlReveal    = `UPDATE messages SET visible_at = ?1, receipt_handle = NULL WHERE id = ?2`
	sqlRemove    = `DELETE FROM messages WHERE id = ?1`
	sqlPurge     = `DELETE FROM messages`
	sqlExists    = `SELECT 1 FROM messages WHERE id = ?1`
	sqlRead      = `SELECT payload_type, payload_data, enqueued_at, visible_at, attempt, receipt_handle FROM messages WHERE id = ?1`

	// The walk over the index after a key, up to now: first what has the same times, then what has
	// later ones. In one statement SQLite would look for the times alone and pass over all that have
	// them. A row of this millisecond that claims to be enqueued later is left for later: a message
	// that is sent still in this millisecond comes before it. A bound "LIMIT ?" would be prepared
	// again at each execution; "LIMIT +?" is not.
	sqlWalkTies = `SELECT id, visible_at, enqueued_at, visible_at = enqueued_at FROM messages INDEXED BY idx_messages_visible
WHERE visible_at = ?1 AND enqueued_at = ?2 AND id > ?3
ORDER BY id LIMIT +?4`
	sqlWalkOn = `SELECT id, visible_at, enqueued_at, visible_at = enqueued_at AND typeof(visible_at) = 'integer' FROM messages INDEXED BY idx_messages_visible
WHERE (visible_at, enqueued_at) > (?1, ?2) AND (visible_at, enqueued_at) <= (?3, ?3)
ORDER BY visible_at, enqueued_at, id LIMIT +?4`

	// The statements that fill the index in memory when the queue is opened. typeof(receipt_handle)
	// reads the header of a row alone, however long its payload is.
	sqlCount = `SELECT count(*) FROM messages`
	sqlAhead = `SELECT visible_at FROM messages INDEXED BY idx_messages_visible
WHERE visible_at > ?1 AND visible_at <= ?2 AND visible_at = enqueued_at AND typeof(visible_at) = 'integer'
ORDER BY visible_at DESC LIMIT 1`
	sqlScan = `SELECT id, enqueued_at, visible_at, typeof(receipt_handle) FROM messages INDEXED BY idx_messages_visible
WHERE visible_at IS NOT enqueued_at OR typeof(visible_at) <> 'integer' OR visible_at > ?1 OR id < 1
ORDER BY visible_at, enqueued_at, id`
	sqlFirst = `SELECT id, visible_at FROM messages INDEXED BY idx_messages_visible
WHERE visible_at = enqueued_at AND typeof(visible_at) = 'integer' AND id >= 1
ORDER BY visible_at, enqueued_at, id LIMIT 1`
	sqlStaged = `SELECT id, receipt_handle FROM messages WHERE visible_at = ?1`
)
