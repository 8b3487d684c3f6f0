package sqlitefile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stowage-go/stowage/ports"
)

// File is an open store. Its methods may be called from many goroutines.
type File struct {
	o      Options
	path   string // absolute, or InMemory
	medium medium
	owned  *ownership
	yields bool // to an owner by lock file, who may come while this one looks
	ids    []identity

	mu      sync.Mutex // guards the fields up to the blank line; held for moments only
	pending []*write
	writing bool // somebody leads a batch, or has been told to
	idle    *sync.Cond
	closed  bool
	fault   error // STORE_REPLACED, for good
	last    error // of the latest commit, if it failed for a reason that an operator can mend
	lastAt  time.Time
	stats   Stats

	writer  *Conn      // used by whoever leads
	readers chan *Conn // nil stands for one that was not needed yet; in memory the writer is in it
	asides  sync.WaitGroup
	closing chan struct{}

	checkpoints checkpointer
	meter       meter
	extent      extent
	rows        int       // size of the batch before; only used by whoever leads, as is
	blocked     time.Time // since when another process has the lock; zero: not now
}

// Stats are counts since the file was opened.
type Stats struct {
	Commits      int64 // transactions committed
	Operations   int64 // writes in them that succeeded
	LargestBatch int   // most writes in one transaction
	Checkpoints  int64 // runs that copied the whole log into the database
	LogBytes     int64 // size of the write-ahead log at the latest commit
	Pinned       bool  // a reader outside keeps the log from being reused
}

// Open opens the store at o.Path, or makes it with its directory; [InMemory] makes one that is gone
// when it is closed. Errors are BINDING_SETUP_FAILED, with a reason: in use by another owner (the
// holder is named), unsupported (a foreign or newer format, or an older one that the schema has no
// steps for; nothing was changed), corrupt, read-only, disk full. Bad options are INVALID_CONFIG.
func Open(ctx context.Context, o Options) (*File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := newFile(o)
	if err != nil {
		return nil, err
	}
	if err := f.medium.open(f); err != nil {
		return nil, err
	}
	return f, nil
}

func newFile(o Options) (*File, error) {
	if o.Path == "" || strings.ContainsRune(o.Path, 0) {
		return nil, ports.Errorf(ports.CodeInvalidConfig, "open", "the path of a %s is %q: give the path of a file", o.Kind, o.Path)
	}
	path, on, err := o.Path, medium(memory{}), error(nil)
	if path != InMemory {
		on = disk{}
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, ports.Errorf(ports.CodeInvalidConfig, "open", "the path %q of a %s cannot be made absolute: %w", o.Path, o.Kind, err)
	}
	if len(path) > maxPathBytes {
		return nil, ports.Errorf(ports.CodeInvalidConfig, "open", "the path %q of a %s has %d bytes, made absolute: the engine opens at most %d", path, o.Kind, len(path), maxPathBytes)
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = defaultBusyTimeout
	}
	if o.PageSize == 0 {
		o.PageSize = defaultPageSize
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.Readers == 0 {
		o.Readers = max(defaultReaders, min(4, runtime.GOMAXPROCS(0)))
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.PageSize < minPageSize || o.PageSize > 65_536 || o.PageSize&(o.PageSize-1) != 0 || o.CacheBytes < 0 || o.Readers < 1 || o.BusyTimeout < 0 {
		return nil, ports.Errorf(ports.CodeInvalidConfig, "open",
			"%s %s: page size %d, cache %d, readers %d, busy timeout %v: the page size is a power of two from 512 to 65536, the others are positive",
			o.Kind, path, o.PageSize, o.CacheBytes, o.Readers, o.BusyTimeout)
	}
	f := &File{o: o, path: path, medium: on, closing: make(chan struct{}), readers: make(chan *Conn, o.Readers)}
	f.idle = sync.NewCond(&f.mu)
	for range o.Readers {
		f.readers <- nil
	}
	f.checkpoints.threshold.Store(checkpointBytes)
	return f, nil
}

// sidecars are what the name of a store is lengthened by for the files beside it.
var sidecars = []string{"-wal", "-shm", "-journal", ".lock"}

// ownerOf names the store to whose files a path belongs by its name, "" if there is none.
func ownerOf(path string) string {
	for _, suffix := range sidecars {
		owner, found := strings.CutSuffix(path, suffix)
		if !found {
			continue
		}
		if info, err := os.Stat(owner); err == nil && info.Mode().IsRegular() {
			return owner
		}
	}
	return ""
}

// checkKind refuses what is there unless it is a regular file of one name. The engine keeps its log
// beside the name by which it finds a file, and the lock is on that name's directory, so that owners
// who come by different names would neither see each other nor each other's log.
func (f *File) checkKind() error {
	// A lock file is empty, and would be taken for a new store.
	if owner := ownerOf(f.path); owner != "" {
		return f.refuse("it has the name of a file that belongs to the store %s: use another path", owner)
	}
	var st unix.Stat_t
	err := unix.Lstat(f.path, &st)
	switch kind := st.Mode & unix.S_IFMT; {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return f.setupError(fmt.Errorf("%s cannot be looked at: %w", f.path, err))
	case kind == unix.S_IFLNK:
		return f.refuse("it is a symbolic link: name the directory that holds the file itself")
	case kind != unix.S_IFREG:
		return f.refuse("it is not a regular file")
	case st.Nlink > 1:
		return f.refuse("it has %d names, and whoever opens it by another one would damage it: remove the other names, or make a copy of it", st.Nlink)
	}
	return nil
}

// start does what has to be done under the lock.
func (f *File) start() (err error) {
	if err := f.prepare(); err != nil {
		return err
	}
	if _, err := os.Lstat(f.path + "-tshm"); err == nil {
		f.o.Log.Warn("a coordination file of the Turso engine lies beside the store: make sure that no such process uses it",
			"store", f.o.Kind, "path", f.path+"-tshm")
	}
	// The engine would open a file that it cannot write, and fail at the first operation.
	for _, path := range []string{f.path, filepath.Dir(f.path)} {
		if err := unix.Access(path, unix.W_OK); err != nil {
			return f.setupError(fmt.Errorf("%s cannot be written: %w", path, err))
		}
	}
	if f.writer, err = f.connect(false); err != nil {
		return f.setupError(err)
	}
	if err := errors.Join(f.writer.switchToWAL(f.o.BusyTimeout), f.writer.bringUp(f.o.Schema)); err != nil {
		return f.setupError(err)
	}
	return f.identify()
}

// abandon undoes a failed open.
func (f *File) abandon() error {
	var errs []error
	if f.writer != nil {
		errs = append(errs, f.writer.close())
	}
	if f.owned.made {
		errs = append(errs, os.Remove(f.owned.path))
	}
	return errors.Join(append(errs, f.owned.release())...)
}

// Path is the absolute path of the database file, or [InMemory].
func (f *File) Path() string { return f.path }

// inMemory reports whether the store has no file. The path of one that has is absolute.
func (f *File) inMemory() bool { return f.path == InMemory }

// Stats returns the counts.
func (f *File) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// HealthCheck says whether the store can work: nil, or the error that an operator has to see to.
func (f *File) HealthCheck(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	err := f.refusal("health")
	last := f.last
	stale := time.Since(f.lastAt) > probeAfter
	f.mu.Unlock()
	if err != nil {
		return err
	}
	if err := f.checkIdentity("health"); err != nil {
		return err
	}
	if err := f.checkExtentAside("health"); err != nil {
		return err
	}
	if last == nil || !stale || errors.Is(last, ports.ErrCorrupt) {
		return last
	}
	return f.probe(ctx)
}

// probeAfter is how long the failure of a commit is believed while nobody writes.
const probeAfter = 10 * time.Second

// probe finds out whether the disk takes writes again, by writing what is there: a store whose callers
// stay away while it is ill would never be found well.
func (f *File) probe(ctx context.Context) error {
	return f.Write(ctx, "health", func(tx *Tx) error {
		version, err := scalar[int64](tx.db, "PRAGMA user_version")
		if err == nil {
			err = tx.run("PRAGMA user_version = " + strconv.FormatInt(version, 10))
		}
		if err == nil {
			tx.writes++
		}
		return f.engineError("health", err)
	})
}

// Close waits for the operations that are under way, copies the log into the database, and gives the
// store free; one in memory is gone. Later calls give STORE_CLOSED; closing again does nothing.
func (f *File) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	close(f.closing)
	for f.writing {
		f.idle.Wait()
	}
	f.mu.Unlock()

	f.asides.Wait()
	return f.wrap(f.o.Failure, "close", f.medium.close(f))
}

// refusal says why no operation can begin. The caller holds mu.
func (f *File) refusal(op string) error {
	switch {
	case f.closed:
		return ports.Errorf(ports.CodeStoreClosed, op, "%s %s is closed; nothing was done", f.o.Kind, f.path)
	case f.fault != nil:
		return f.fault
	}
	return nil
}

// Read lends a reading connection to fn. Each statement sees the store at the instant at which it
// begins; none sees a transaction that is not committed, and none can write. No lock of a writer is
// taken (R052), but in memory reads and writes take turns. An error of fn is returned as it is. fn
// may not keep the connection, nor call the File: there may be no other connection to wait for.
func (f *File) Read(ctx context.Context, op string, fn func(*Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	err := f.refusal(op)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	var c *Conn
	select {
	case c = <-f.readers:
	case <-ctx.Done():
		return ctx.Err()
	case <-f.closing:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.refusal(op)
	}
	defer func() { f.readers <- c }()
	if c == nil {
		fresh, err := f.connect(true)
		if err != nil {
			return f.engineError(op, err)
		}
		c = fresh
	}
	if err := c.queryOnly(true); err != nil {
		return f.engineError(op, err)
	}
	c.op = op
	return fn(c)
}

// Snapshot is a Read in which all statements see the store at one instant. It holds the log back for
// as long as fn runs, in memory all others.
func (f *File) Snapshot(ctx context.Context, op string, fn func(*Conn) error) error {
	return f.Read(ctx, op, func(c *Conn) (err error) {
		if err := c.control("BEGIN"); err != nil {
			return err
		}
		// Deferred, because fn may panic.
		defer func() {
			err = errors.Join(err, c.control("ROLLBACK"))
		}()
		return fn(c)
	})
}

// identity is what a path led to when the store was opened.
type identity struct {
	path string
	what string
	id   fileID
}

// identify remembers the files that make up the store. One that is deleted, moved or replaced while
// the store is open would take its writes to a place that nobody finds again.
func (f *File) identify() error {
	list := []identity{{path: f.path, what: "its file"}, {path: f.path + "-wal", what: "its log"}, {path: f.owned.path, what: "its lock"}}
	if f.o.Ownership == SharedDirectory {
		list = append(list, identity{path: f.path + "-shm", what: "its shared memory"})
	}
	for i := range list {
		list[i].id = idOf(list[i].path)
		if list[i].id == (fileID{}) {
			return f.replacedError("open", list[i].what+" was deleted")
		}
	}
	f.ids = list
	f.measureLog()
	f.meter.logBytes(sizeOf(f.path + "-wal"))
	f.meter.dataBytes(sizeOf(f.path))
	return f.setupError(f.measureDatabase())
}

// checkIdentity makes the store unhealthy for good when a file of it is not what it was.
func (f *File) checkIdentity(op string) error {
	for _, known := range f.ids {
		now := idOf(known.path)
		if now == known.id {
			continue
		}
		what := known.what + " was replaced"
		if now == (fileID{}) {
			what = known.what + " was deleted or moved"
		}
		return f.fail(op, what)
	}
	return nil
}

// fail makes the store unhealthy for good.
func (f *File) fail(op, what string) error {
	err := f.replacedError(op, what)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = err
	return err
}

var _ interface {
	ports.HealthChecker
	ports.Backuper
	ports.Meter
} = (*File)(nil)
