package sqlite

import "github.com/stowage-go/stowage/adapters/sqlitefile"

// migrations has the batch of each schema version; a file says in its PRAGMA user_version how many it
// has taken. A new version is one more entry at the end, and nothing else (R235, R251). docs/formats.md
// gives the same text, and a test compares them. Changing an entry is never right.
var migrations = []string{
	// 1
	`CREATE TABLE resources (
  kind    TEXT NOT NULL,
  id      TEXT NOT NULL,
  version INTEGER NOT NULL,
  value   TEXT NOT NULL,
  PRIMARY KEY (kind, id)
);
CREATE TABLE checkpoints (
  pipeline   TEXT NOT NULL,
  checkpoint TEXT NOT NULL,
  PRIMARY KEY (pipeline)
);
CREATE TABLE dead_letters (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  pipeline TEXT NOT NULL,
  entry    TEXT NOT NULL
);
CREATE INDEX dead_letters_pipeline ON dead_letters (pipeline, seq);`,

	// 2
	`CREATE TABLE delivery_journal (
  pipeline         TEXT NOT NULL,
  cursor_primary   INTEGER NOT NULL,
  cursor_secondary INTEGER NOT NULL,
  match_id         TEXT NOT NULL,
  PRIMARY KEY (pipeline, match_id)
);
CREATE INDEX delivery_journal_pipeline_primary
  ON delivery_journal (pipeline, cursor_primary);`,

	// 3
	`CREATE TABLE pauses (
  target TEXT NOT NULL,
  id     TEXT NOT NULL,
  PRIMARY KEY (target, id)
);`,

	// 4
	`CREATE TABLE gate_hits (
  pipeline         TEXT NOT NULL,
  monitor          TEXT NOT NULL,
  cursor_primary   INTEGER NOT NULL,
  cursor_secondary INTEGER NOT NULL,
  event_index      INTEGER NOT NULL,
  event_ts         INTEGER NOT NULL,
  event_json       TEXT NOT NULL,
  PRIMARY KEY (pipeline, monitor, cursor_primary, cursor_secondary, event_index)
);
CREATE INDEX gate_hits_pipeline_primary ON gate_hits (pipeline, cursor_primary);
CREATE TABLE gate_meta (
  pipeline      TEXT NOT NULL,
  monitor       TEXT NOT NULL,
  last_emit_ts  INTEGER,
  aux           BLOB,
  PRIMARY KEY (pipeline, monitor)
);`,

	// 5: a letter is found by its match id (R200). The index is not unique, since older files may hold a
	// letter twice. An entry that is not JSON cannot be in it: it is kept, as the JSON string of its text
	// (of its hexadecimal digits, if it is a BLOB), and stays as undecodable as it was.
	`UPDATE dead_letters
SET entry = json_quote(CASE typeof(entry) WHEN 'blob' THEN hex(entry) ELSE entry END)
WHERE json_error_position(entry) <> 0;
CREATE INDEX dead_letters_match_id
  ON dead_letters (pipeline, json_extract(entry, '$.match_id'));`,
}

// SchemaVersion is the version of the files that this package writes. It opens all from 0 up to it.
var SchemaVersion = len(migrations)

// Schema is how a file of this package is known and made, for whoever checks one without opening it, by
// sqlitefile.VerifyFile.
func Schema() sqlitefile.Schema { return sqlitefile.Versioned(migrations...) }
