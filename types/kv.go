package types

import "time"

// KvVersion is the opaque token of one value under one key. It is handed out by Get, Put and
// ScanPrefix and taken by [IfVersion]. Never parse or change one (R054).
type KvVersion string

// KvCursor is the opaque position of a scan. It is bound to the prefix that it came from; the empty
// cursor starts at the front (R066).
type KvCursor string

// KvEntry is a live entry of a key-value store. Value is the caller's own copy.
type KvEntry struct {
	Key     string
	Value   []byte
	Version KvVersion
	// ExpiresAt is the first instant at which the entry is absent, to the millisecond; the zero
	// time means that it does not expire.
	ExpiresAt time.Time
}

// KvPage is one page of a scan, ordered by the bytes of the keys.
type KvPage struct {
	Entries []KvEntry
	// Cursor is where the next page starts. It is empty when no live entry remained at the time of
	// the scan.
	Cursor KvCursor
}

// Condition says when a put or a delete applies. The zero value is [Always].
type Condition struct {
	kind    conditionKind
	version KvVersion
}

type conditionKind uint8

const (
	conditionAlways conditionKind = iota
	conditionAbsent
	conditionVersion
)

// Always applies whatever is stored.
func Always() Condition { return Condition{} }

// IfAbsent applies when the key has no live value; an expired one counts as absent (R058 to R060).
func IfAbsent() Condition { return Condition{kind: conditionAbsent} }

// IfVersion applies when the live value is still the one that v was handed out for (R062, R063). An
// empty v is refused, so that a version that was never read cannot become an unconditional write.
func IfVersion(v KvVersion) Condition { return Condition{kind: conditionVersion, version: v} }

// Absent reports whether c was made by [IfAbsent].
func (c Condition) Absent() bool { return c.kind == conditionAbsent }

// Version returns the token given to [IfVersion], and whether c was made by it.
func (c Condition) Version() (KvVersion, bool) { return c.version, c.kind == conditionVersion }

// PutOptions refine a put. The zero value writes whatever is stored, without expiry.
type PutOptions struct {
	// TTL is how long the value lives. Zero means for ever, and clears an earlier TTL; a negative
	// one is refused. It is rounded up to a millisecond, and saturates.
	TTL time.Duration
	// If is the condition; the zero value is [Always].
	If Condition
}

// PutResult is what a put did.
type PutResult struct {
	// Applied is false when the condition did not hold; nothing was changed then.
	Applied bool
	// Version is the token of the value just written, empty unless Applied.
	Version KvVersion
}

// ScanOptions bound a scan.
type ScanOptions struct {
	// Limit is the most entries to return, 1 to 1000; zero means 1000.
	Limit int
	// Cursor continues an earlier scan of the same prefix.
	Cursor KvCursor
}
