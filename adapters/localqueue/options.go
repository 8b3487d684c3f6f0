package localqueue

import (
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
)

// Options open a Queue. Dir is required; the zero value of everything else is its default.
type Options struct {
	// Dir is the data directory, made with its parents if missing. The queue is the file
	// localqueue.sqlite in it.
	Dir string
	// Durability says what a success means; default sqlitefile.DurabilityFull.
	Durability sqlitefile.Durability
	// MaxReceives is how often a message is delivered before the next receive hands it to
	// DeadLetters instead. Zero means without limit; otherwise DeadLetters is required.
	MaxReceives int
	// DeadLetters takes the messages that were received too often.
	DeadLetters DeadLetterSink
	// CacheBytes is the page cache of a connection, of which a queue has one; default 4 MiB.
	CacheBytes int
	// Clock tells the time; default ports.SystemClock. The queue makes it steady: a step back of it
	// neither reorders messages nor keeps them hidden longer (R111).
	Clock ports.Clock
	// Log takes what an operator should know; default slog.Default.
	Log *slog.Logger
}

const (
	defaultCacheBytes = 4 << 20
	minCacheBytes     = 64 << 10
)

func (o Options) check(op string) (Options, error) {
	if o.Dir == "" || strings.ContainsRune(o.Dir, 0) {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the data directory of a queue is %q: name one", o.Dir)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the data directory %q of a queue cannot be made absolute: %w", o.Dir, err)
	}
	o.Dir = dir
	if o.MaxReceives < 0 || o.MaxReceives > maxMaxReceives {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "max_receives is %d: give 1 to %d, or 0 for no limit", o.MaxReceives, maxMaxReceives)
	}
	if (o.MaxReceives > 0) != (o.DeadLetters != nil) {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "a limit of receives and a place for dead letters go together: give both or neither")
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.CacheBytes < minCacheBytes {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the cache is %d bytes: give at least %d, or 0 for %d", o.CacheBytes, minCacheBytes, defaultCacheBytes)
	}
	if o.Clock == nil {
		o.Clock = ports.SystemClock()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o, nil
}

// maxMaxReceives keeps the limit far from the largest attempt that the format can hold.
const maxMaxReceives = 1_000_000
