package sqlite

// The statements. docs/formats.md gives them too, and a test holds the two together. A limit is written
// +?n because a bare one makes SQLite prepare the statement again at each execution.

// Resources.
const (
	selectResource = `SELECT version, value FROM resources WHERE kind = ?1 AND id = ?2`

	selectResources = `SELECT id, version, value FROM resources
WHERE kind = ?1 AND id > ?2
ORDER BY id LIMIT +?3`

	selectNextKind = `SELECT kind FROM resources WHERE kind > ?1 ORDER BY kind LIMIT 1`

	insertResource = `INSERT INTO resources (kind, id, version, value) VALUES (?1, ?2, ?3, ?4)`

	updateResource = `UPDATE resources SET version = version + 1, value = ?4
WHERE kind = ?1 AND id = ?2 AND version = ?3`

	deleteResource = `DELETE FROM resources
WHERE kind = ?1 AND id = ?2 AND version = ?3`

	selectVersion = `SELECT version FROM resources WHERE kind = ?1 AND id = ?2`
)

// Checkpoints.
const (
	selectCheckpoint = `SELECT checkpoint FROM checkpoints WHERE pipeline = ?1`

	selectCheckpoints = `SELECT pipeline, checkpoint FROM checkpoints ORDER BY pipeline`

	upsertCheckpoint = `INSERT INTO checkpoints (pipeline, checkpoint) VALUES (?1, ?2)
ON CONFLICT (pipeline) DO UPDATE SET checkpoint = excluded.checkpoint`

	deleteCheckpoint = `DELETE FROM checkpoints WHERE pipeline = ?1`
)

// Dead letters. The condition on match_id is the expression of the index dead_letters_match_id.
const (
	selectLetter = `SELECT seq, entry FROM dead_letters
WHERE pipeline = ?1 AND json_extract(entry, '$.match_id') = ?2
ORDER BY seq LIMIT 1`

	selectLetters = `SELECT seq, entry FROM dead_letters INDEXED BY dead_letters_pipeline
WHERE pipeline = ?1 AND seq > ?2
ORDER BY seq LIMIT +?3 OFFSET +?4`

	updateLetter = `UPDATE dead_letters SET entry = ?3
WHERE pipeline = ?1 AND json_extract(entry, '$.match_id') = ?2`

	insertLetter = `INSERT INTO dead_letters (pipeline, entry) VALUES (?1, ?2)`

	selectSeqs = `SELECT seq FROM dead_letters
WHERE pipeline = ?1 AND json_extract(entry, '$.match_id') = ?2`

	deleteLetter = `DELETE FROM dead_letters
WHERE pipeline = ?1 AND json_extract(entry, '$.match_id') = ?2`

	deleteLettersThrough = `DELETE FROM dead_letters WHERE pipeline = ?1 AND seq <= ?2`

	countLettersWithin = `SELECT count(*) FROM dead_letters INDEXED BY dead_letters_pipeline
WHERE pipeline = ?1 AND seq >= ?2 AND seq <= ?3`

	countBlocks = `SELECT pipeline, seq >> 10, count(*) FROM dead_letters INDEXED BY dead_letters_pipeline
GROUP BY pipeline, seq >> 10 ORDER BY pipeline, seq >> 10`
)

// Pauses.
const (
	insertPause = `INSERT INTO pauses (target, id) VALUES (?1, ?2) ON CONFLICT (target, id) DO NOTHING`

	deletePause = `DELETE FROM pauses WHERE target = ?1 AND id = ?2`

	selectPause = `SELECT 1 FROM pauses WHERE target = ?1 AND id = ?2`

	selectPauses = `SELECT target, id FROM pauses ORDER BY target, id`
)

// The delivery journal.
const (
	upsertDelivery = `INSERT INTO delivery_journal (pipeline, cursor_primary, cursor_secondary, match_id) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (pipeline, match_id) DO UPDATE
SET cursor_primary = excluded.cursor_primary, cursor_secondary = excluded.cursor_secondary
WHERE (excluded.cursor_primary, excluded.cursor_secondary) > (delivery_journal.cursor_primary, delivery_journal.cursor_secondary)`

	// Text and BLOBs, which only another program can have put there, are above every number.
	selectHighest = `SELECT cursor_primary FROM delivery_journal INDEXED BY delivery_journal_pipeline_primary
WHERE pipeline = ?1 AND cursor_primary <= 9223372036854775807
ORDER BY cursor_primary DESC LIMIT 1`

	pruneDeliveries = `DELETE FROM delivery_journal WHERE pipeline = ?1 AND cursor_primary < ?2`

	selectDeliveries = `SELECT cursor_primary, cursor_secondary, match_id FROM delivery_journal INDEXED BY delivery_journal_pipeline_primary
WHERE pipeline = ?1 AND cursor_primary >= ?2 AND cursor_primary <= ?4
AND (cursor_primary, cursor_secondary) >= (?2, ?3) AND (cursor_primary, cursor_secondary) <= (?4, ?5)
ORDER BY cursor_primary, cursor_secondary, match_id`

	countDeliveries = `SELECT pipeline, count(*) FROM delivery_journal INDEXED BY delivery_journal_pipeline_primary
GROUP BY pipeline ORDER BY pipeline`
)

// The gate journal.
const (
	insertHit = `INSERT INTO gate_hits (pipeline, monitor, cursor_primary, cursor_secondary, event_index, event_ts, event_json) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (pipeline, monitor, cursor_primary, cursor_secondary, event_index) DO NOTHING`

	selectHits = `SELECT cursor_primary, cursor_secondary, event_index, event_ts, event_json FROM gate_hits
WHERE pipeline = ?1 AND monitor = ?2 AND event_ts >= ?3
ORDER BY cursor_primary, cursor_secondary, event_index`

	deleteHitsBefore = `DELETE FROM gate_hits WHERE pipeline = ?1 AND cursor_primary < ?2`

	deleteHitsBeforeOf = `DELETE FROM gate_hits WHERE pipeline = ?1 AND monitor = ?2 AND cursor_primary < ?3`

	deleteHitsFrom = `DELETE FROM gate_hits WHERE pipeline = ?1 AND cursor_primary >= ?2`

	selectMeta = `SELECT last_emit_ts, aux FROM gate_meta WHERE pipeline = ?1 AND monitor = ?2`

	upsertMeta = `INSERT INTO gate_meta (pipeline, monitor, last_emit_ts, aux) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (pipeline, monitor) DO UPDATE SET last_emit_ts = excluded.last_emit_ts, aux = excluded.aux`
)

// Export, in the order of the port, and import.
const (
	selectAnything = `SELECT EXISTS (SELECT 1 FROM resources) OR EXISTS (SELECT 1 FROM checkpoints) OR EXISTS (SELECT 1 FROM dead_letters)
OR EXISTS (SELECT 1 FROM pauses) OR EXISTS (SELECT 1 FROM delivery_journal) OR EXISTS (SELECT 1 FROM gate_hits) OR EXISTS (SELECT 1 FROM gate_meta)`

	exportResources = `SELECT kind, id, version, value FROM resources ORDER BY kind, id`

	// Of a letter that is there twice, the first.
	exportLetters = `SELECT pipeline, seq, entry FROM dead_letters AS l INDEXED BY dead_letters_pipeline
WHERE NOT EXISTS (SELECT 1 FROM dead_letters AS d INDEXED BY dead_letters_match_id
WHERE d.pipeline = l.pipeline AND json_extract(d.entry, '$.match_id') = json_extract(l.entry, '$.match_id') AND d.seq < l.seq)
ORDER BY pipeline, seq`

	exportDeliveries = `SELECT pipeline, cursor_primary, cursor_secondary, match_id FROM delivery_journal
ORDER BY pipeline, cursor_primary, cursor_secondary, match_id`

	exportHits = `SELECT pipeline, monitor, cursor_primary, cursor_secondary, event_index, event_ts, event_json FROM gate_hits
ORDER BY pipeline, monitor, cursor_primary, cursor_secondary, event_index`

	exportMetas = `SELECT pipeline, monitor, last_emit_ts, aux FROM gate_meta ORDER BY pipeline, monitor`

	importCheckpoint = `INSERT INTO checkpoints (pipeline, checkpoint) VALUES (?1, ?2)`

	importPause = `INSERT INTO pauses (target, id) VALUES (?1, ?2)`

	importDelivery = `INSERT INTO delivery_journal (pipeline, cursor_primary, cursor_secondary, match_id) VALUES (?1, ?2, ?3, ?4)`

	importHit = `INSERT INTO gate_hits (pipeline, monitor, cursor_primary, cursor_secondary, event_index, event_ts, event_json) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`

	importMeta = `INSERT INTO gate_meta (pipeline, monitor, last_emit_ts, aux) VALUES (?1, ?2, ?3, ?4)`
)
