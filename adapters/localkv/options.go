package localkv

import (
	"fmt"
	"log/slog"
	"runtime"
	"strconv"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
)

// Mode says who may have the store open at the same time (R041).
type Mode int

const (
	// MultiProcess lets any number of processes on one machine share the store, each through one
	// Store. It needs a 64-bit Unix and a local file system (R042).
	MultiProcess Mode = iota
	// SingleProcess keeps every other opener out: whoever comes second is refused.
	SingleProcess
)

// ParseMode reads the word that a configuration uses: "multi-process", "single-process", or nothing
// for multi-process.
func ParseMode(op, word string) (Mode, error) {
	switch word {
	case "", "multi-process":
		return MultiProcess, nil
	case "single-process":
		return SingleProcess, nil
	}
	return 0, ports.Errorf(ports.CodeInvalidConfig, op, "mode is %q: use \"multi-process\" or \"single-process\"", word)
}

// String gives the word of [ParseMode].
func (m Mode) String() string {
	switch m {
	case MultiProcess:
		return "multi-process"
	case SingleProcess:
		return "single-process"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// Options open a Store. Dir is required; the zero value of everything else is its default.
type Options struct {
	// Dir is the data directory, made with its parents if missing. The store is the file
	// localkv.sqlite in it (R035), and its sidecars.
	Dir string
	// Mode is MultiProcess by default.
	Mode Mode
	// Durability is sqlitefile.DurabilityFull by default.
	Durability sqlitefile.Durability
	// CacheBytes caps the page cache of each connection, of which a store has one that writes and
	// a few that read. It fills as pages are used, so a small store never comes near. Default 16
	// MiB: a store of 56 MiB under random reads and writes then took 78 MiB of memory, against 27
	// with 2 MiB, and answered a fifth faster.
	CacheBytes int
	// Clock is what entries expire by; default the system's.
	Clock ports.Clock
	// Log takes what an operator should know; default slog.Default.
	Log *slog.Logger
}

const (
	databaseName = "localkv.sqlite"

	// pageSize of a new store. Puts at random keys are bound by the pages that they write, so small
	// ones pay; a value that does not fit goes on in overflow pages.
	pageSize = 1024

	defaultCacheBytes = 16 << 20
	minCacheBytes     = 64 << 10
)

func (o Options) check(op string) (Options, error) {
	if o.Dir == "" {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "no data directory is given: set Dir")
	}
	if o.Mode != MultiProcess && o.Mode != SingleProcess {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the mode is %v: use MultiProcess or SingleProcess", o.Mode)
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
	return o, checkPlatform(op, o.Mode, runtime.GOOS, strconv.IntSize)
}

// checkPlatform refuses multi-process mode where the locks and the shared memory that it stands on
// are not known to work (R042).
func checkPlatform(op string, mode Mode, goos string, bits int) error {
	if mode == SingleProcess || bits == 64 && isUnix(goos) {
		return nil
	}
	return ports.Errorf(ports.CodeBindingSetupFailed, op,
		"multi-process mode needs a 64-bit Unix and this is %s with %d bits: open the store in single-process mode", goos, bits).
		WithReason(ports.ReasonUnsupported)
}

func isUnix(goos string) bool {
	switch goos {
	case "aix", "android", "darwin", "dragonfly", "freebsd", "illumos", "linux", "netbsd", "openbsd", "solaris":
		return true
	}
	return false
}
