package sqlitefile

import "slices"

// Schema says which databases are a store's own, and how a new one is made.
type Schema struct {
	marker string
	ddl    []string
	steps  []string
}

// Marked is the schema of a local store: a table meta whose row ('format', marker) names the format,
// and the tables that ddl creates, each statement with IF NOT EXISTS. A database with another marker,
// or with tables and no marker, is refused (R021 to R024, R033).
func Marked(marker string, ddl ...string) Schema {
	return Schema{marker: marker, ddl: slices.Clone(ddl)}
}

// Versioned is the schema of a store whose PRAGMA user_version counts the steps that it has taken.
// The pending ones run in one transaction; a version above their number, or below 0, is refused.
func Versioned(steps ...string) Schema {
	return Schema{steps: slices.Clone(steps)}
}

// MetaDDL is the table that holds the marker of a [Marked] schema.
const MetaDDL = `CREATE TABLE IF NOT EXISTS meta (
key TEXT PRIMARY KEY,
value TEXT NOT NULL
)`
