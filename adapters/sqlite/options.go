package sqlite

import (
	"log/slog"
	"strings"
	"time"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
)

// Options open a Storage. Path is required; the zero value of everything else is its default.
type Options struct {
	// Path is that of the database file, made with its directory if missing, or sqlitefile.InMemory.
	Path string
	// JournalDepth is how far below the highest primary the delivery journal of a pipeline reaches; 1
	// or above, default ports.DefaultDepth.
	JournalDepth int64
	// BusyTimeout is how long to wait for a lock that another program holds, such as one that looks at
	// the file; a whole number of milliseconds from 1 ms to MaxBusyTimeout, default DefaultBusyTimeout
	// (R258).
	BusyTimeout time.Duration
	// Durability is sqlitefile.DurabilityFull by default.
	Durability sqlitefile.Durability
	// CacheBytes caps the page cache of each connection, of which a store has one that writes and a few
	// that read. Default 8 MiB.
	CacheBytes int
	// Log takes what an operator should know; default slog.Default.
	Log *slog.Logger
}

// Bounds of the busy timeout.
const (
	DefaultBusyTimeout = 5 * time.Second
	MaxBusyTimeout     = 10 * time.Minute
)

const (
	defaultCacheBytes = 8 << 20
	minCacheBytes     = 64 << 10
)

func (o Options) check(op string) (Options, error) {
	if o.Path == "" || strings.ContainsRune(o.Path, 0) {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the path is %q: give that of the database file, or %q", o.Path, sqlitefile.InMemory)
	}
	depth, err := ports.CheckDepth(op, o.JournalDepth)
	if err != nil {
		return o, err
	}
	o.JournalDepth = depth
	if o.BusyTimeout == 0 {
		o.BusyTimeout = DefaultBusyTimeout
	}
	if o.BusyTimeout < time.Millisecond || o.BusyTimeout > MaxBusyTimeout {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the busy timeout is %v: give 1ms to %v", o.BusyTimeout, MaxBusyTimeout)
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.CacheBytes < minCacheBytes {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the cache is %d bytes: give at least %d, or 0 for %d", o.CacheBytes, minCacheBytes, defaultCacheBytes)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o, nil
}
