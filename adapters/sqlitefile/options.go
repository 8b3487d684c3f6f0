package sqlitefile

import (
	"log/slog"
	"time"

	"github.com/stowage-go/stowage/ports"
)

// Ownership says who else may have the store open at the same time.
type Ownership int

const (
	// ExclusiveDirectory makes one File the only one on the directory that holds it, across
	// processes: queues, and key-value stores of a single process.
	ExclusiveDirectory Ownership = iota
	// SharedDirectory lets many processes share the file, and keeps exclusive owners out.
	SharedDirectory
	// ExclusiveFile makes one File the only one on this path, by a lock file beside it (its name and
	// ".lock"), so that the directory may hold other stores. The lock file stays; what counts is
	// whether a process holds it.
	ExclusiveFile
)

// Durability says what a success means.
type Durability int

const (
	// DurabilityFull syncs the log before a commit returns: what was answered survives a power cut.
	DurabilityFull Durability = iota
	// DurabilityNormal leaves the sync to the next checkpoint: what was answered survives the end
	// of the process, and a power cut may take the latest of it back, never a part of a transaction.
	DurabilityNormal
)

// ParseDurability reads the word that a configuration uses: "full", "normal", or nothing for full.
func ParseDurability(op, word string) (Durability, error) {
	switch word {
	case "", "full":
		return DurabilityFull, nil
	case "normal":
		return DurabilityNormal, nil
	}
	return 0, ports.Errorf(ports.CodeInvalidConfig, op, "durability is %q: use \"full\" or \"normal\"", word)
}

// String gives the word of [ParseDurability].
func (d Durability) String() string {
	if d == DurabilityNormal {
		return "normal"
	}
	return "full"
}

// InMemory as [Options].Path stands for a store without a file: nothing is on the disk, nobody else
// can open it, and it is gone once it is closed. It has one connection, so that reads wait for the
// writer and for each other, and it keeps no write-ahead log (R257); Ownership, Durability and Readers
// mean nothing to it. A file of that name is "./:memory:".
const InMemory = ":memory:"

// Options open a File. Path, Schema, Kind and Failure are required.
type Options struct {
	Path       string // of the database file; any characters; or InMemory
	Schema     Schema
	Kind       string     // what the store is, for messages: "local KV", "local queue"
	Failure    ports.Code // the code of an operation that the engine fails
	Ownership  Ownership
	Durability Durability
	// BusyTimeout is how long to wait for a lock that another process holds; default 5 s (R028).
	BusyTimeout time.Duration
	// PageSize of a new file in bytes, a power of two from 512 to 65,536; default 4096. An existing
	// file keeps its own.
	PageSize int
	// CacheBytes is the page cache of each connection; default 2 MiB.
	CacheBytes int
	// Readers is the number of connections that read beside the writer; default 2.
	Readers int
	// Log takes what an operator should know: a pinned log, a leftover of another engine. Default:
	// slog.Default.
	Log *slog.Logger
}

const (
	defaultBusyTimeout = 5 * time.Second
	defaultPageSize    = 4096
	defaultCacheBytes  = 2 << 20
	defaultReaders     = 2

	minPageSize = 512 // SQLite's

	// maxPathBytes is SQLite's 512, less what it and a new store append.
	maxPathBytes = 512 - len("-journal") - len("..new")
)
