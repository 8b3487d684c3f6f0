package ports

import (
	"context"
	"io"

	"github.com/stowage-go/stowage/types"
)

// Kv is a key-value store.
//
// Keys are 1 to 512 bytes of A-Z a-z 0-9 - _ : and dot; values are up to 24,576 bytes and may be
// empty. Anything else is INVALID_INPUT before the store is touched, and a key is checked before a
// value. Order is the order of the bytes, in every backend (R072).
//
// An entry whose time has come is absent from the very millisecond of its expiry (R047), whether or
// not it has been removed from the disk. A missing key is no error: Get and Exists say so, Delete
// succeeds.
//
// Values are copied in and out. All methods may be called from many goroutines, and each is one
// atomic step. Reads may be repeated freely; so may unconditional writes. After Close every method
// gives STORE_CLOSED. A call whose context ends before it began leaves nothing behind and returns
// the context's error.
type Kv interface {
	// Get returns the live entry of key, and whether there is one.
	Get(ctx context.Context, key string) (types.KvEntry, bool, error)

	// Exists reports whether key has a live entry.
	Exists(ctx context.Context, key string) (bool, error)

	// Put stores value under key if the condition holds: always, if there is no live entry, or if
	// the live entry is still the one of a version. It replaces value, expiry and version together;
	// a put without TTL clears an old TTL (R056). A condition that does not hold is no error: the
	// result says so, and nothing is changed. Of many racing conditional puts exactly one applies
	// (R061). A version that is malformed or of another key is INVALID_INPUT (R070).
	Put(ctx context.Context, key string, value []byte, opts types.PutOptions) (types.PutResult, error)

	// Delete removes key if the condition holds, and reports whether it held: [types.Always] holds
	// whether or not there is an entry; [types.IfVersion] only for the live entry of that version.
	// [types.IfAbsent] is INVALID_INPUT.
	Delete(ctx context.Context, key string, cond types.Condition) (bool, error)

	// ScanPrefix returns the live entries whose key starts with prefix, in the order of their keys,
	// at most opts.Limit of them. The prefix follows the rules of a key, so it is never empty. A
	// cursor comes back only if more live entries remain; it continues strictly after the last key
	// returned, whatever was put or deleted in between (R066). One that is malformed or of another
	// prefix is INVALID_INPUT (R068).
	ScanPrefix(ctx context.Context, prefix string, opts types.ScanOptions) (types.KvPage, error)
}

// KvStore is a Kv with a life of its own, as a factory returns it.
type KvStore interface {
	Kv
	io.Closer
}

// HealthChecker is implemented by stores that can tell whether they still work. A non-nil error says
// that an operator is needed: the file was replaced, the disk is full.
type HealthChecker interface {
	HealthCheck(ctx context.Context) error
}

// Backuper is implemented by stores that are kept in a file.
type Backuper interface {
	// Backup writes a consistent, verified copy of the store to path, while it is in use: one file
	// without sidecars, mode 0600. It never overwrites: a path that exists is ALREADY_EXISTS.
	Backup(ctx context.Context, path string) error
	// Verify checks the whole file and its format, and returns an error that says what is wrong.
	Verify(ctx context.Context) error
}
