package eventlog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/stowage-go/stowage/ports"
)

// Log is an open event log. Accept and Settle may be called from many goroutines, Read from one.
type Log struct {
	o   Options
	dir string

	// life is that of the last file whose first line says it.
	life string

	mu       sync.Mutex
	segments []segment // the last one is written
	total    int64     // bytes of all
	end      uint64    // everything before it is durable
	last     uint64    // offset of the last line
	linked   bool      // there is one, or was
	settled  uint64    // everything that begins at or before it is dealt with
	settles  bool      // there is such a thing
	passed   uint64    // what lies before it has been read
	pending  []*accept
	writing  bool
	idle     sync.Cond // signalled when writing ends
	closed   bool

	// Used by the one who leads the writing.
	out      *output // nil after a failure
	group    int     // how many calls the last write held
	gathered []byte

	removing sync.Mutex    // held by the one who removes files
	lock     *lock         // nil once others may have the directory
	grown    chan struct{} // has a token when the end has moved
	done     chan struct{} // closed by Close
	closing  sync.Once
	closeErr error

	reading sync.Mutex // held by the one who reads
	reader  reader
}

// Open opens a log, made if it is missing. It looks before it writes: a directory that holds anything
// else is BINDING_SETUP_FAILED and stays as it is, and one that another opener has is
// BINDING_SETUP_FAILED/in_use. What a crash has left half-written at the end is cut off. A checkpoint
// that lies behind the end of the log is of another one: BACKEND_FAILED/undecodable.
func Open(ctx context.Context, o Options) (*Log, error) {
	o, err := o.check(opOpen)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.From != nil {
		if err := ports.CheckCursor(opOpen, *o.From); err != nil {
			return nil, err
		}
	}
	l := &Log{
		o:     o,
		dir:   filepath.Clean(o.Dir),
		grown: make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	l.idle.L = &l.mu
	if err := l.open(ctx); err != nil {
		return nil, systemError(ports.CodeBindingSetupFailed, opOpen, l.dir, err)
	}
	return l, nil
}

func (l *Log) open(ctx context.Context) error {
	if _, err := os.Stat(l.dir); errors.Is(err, os.ErrNotExist) {
		if err := l.checkFrom(firstHeaderBytes); err != nil {
			return err
		}
	}
	if err := makeDirectory(l.dir); err != nil {
		return err
	}
	held, err := take(l.dir)
	if err != nil {
		return err
	}
	l.lock = held
	if err := l.start(ctx); err != nil {
		return errors.Join(err, l.abandon())
	}
	return nil
}

// abandon gives back what an open that failed has got.
func (l *Log) abandon() error {
	var outErr error
	if l.out != nil {
		outErr = l.out.file.Close()
	}
	held := l.lock
	l.lock = nil
	return errors.Join(outErr, l.reader.close(), held.release())
}

func (l *Log) start(ctx context.Context) error {
	found, err := look(ctx, l.dir)
	if err != nil {
		return err
	}
	l.segments = found.segments
	l.last, l.linked = found.tail.last, found.tail.linked
	l.end = firstHeaderBytes
	for i := range l.segments {
		l.total += l.segments[i].size
		if life := l.segments[i].life; life != "" {
			l.life = life
		}
		l.end = l.segments[i].start + uint64(found.tail.size)
	}
	if l.life == "" {
		l.life = newLife()
	}
	if err := l.checkFrom(l.end); err != nil {
		return err
	}
	if err := l.prepare(found); err != nil {
		return err
	}
	if l.o.From != nil {
		l.settled, l.settles = l.o.From.Primary, true
	}
	return l.seek()
}

// checkFrom refuses a checkpoint at which nothing can go on.
func (l *Log) checkFrom(end uint64) error {
	if l.o.From == nil || l.o.From.Primary < end {
		return nil
	}
	return ports.Errorf(ports.CodeBackendFailed, opOpen,
		"event log %s ends at offset %d and the checkpoint of its pipeline is %d: they do not belong together; bring the directory back that belongs to the checkpoint, or delete the checkpoint to read the log from its beginning",
		l.dir, end, l.o.From.Primary).WithReason(ports.ReasonUndecodable)
}

// prepare makes the directory one that can be written: the first change that an open makes.
func (l *Log) prepare(found survey) error {
	for _, path := range found.fresh {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if len(l.segments) == 0 || l.segments[len(l.segments)-1].size == 0 {
		if len(l.segments) == 0 {
			l.end = 0
		}
		return l.roll()
	}
	last := &l.segments[len(l.segments)-1]
	path := filepath.Join(l.dir, nameOf(last.start))
	file, err := l.o.reopen(path)
	if err != nil {
		return err
	}
	l.out = &output{file: file, path: path, size: found.tail.size, empty: l.last < last.start || !l.linked}
	if l.out.info, err = file.Stat(); err != nil {
		return err
	}
	if found.tail.torn > 0 {
		l.o.Log.Warn("the end of an event log was cut off: it was being written when its process ended, and nobody was told that it is stored",
			"path", path, "offset", l.end, "bytes", found.tail.torn)
		if err := file.Truncate(found.tail.size); err != nil {
			return err
		}
		l.total -= found.tail.torn
		last.size = found.tail.size
	}
	// Readers must not see what a power cut may still take away.
	if err := file.Sync(); err != nil {
		return err
	}
	return syncDirectory(l.dir)
}

func newLife() string {
	var random [lifeBytes]byte
	rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// Close waits for the calls that are being stored, ends a Read that waits, with STORE_CLOSED, and lets
// others open the log.
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.mu.Lock()
		l.closed = true
		for l.writing {
			l.idle.Wait()
		}
		l.mu.Unlock()
		close(l.done)
		l.reading.Lock()
		defer l.reading.Unlock()
		l.removing.Lock()
		defer l.removing.Unlock()
		l.closeErr = l.abandon()
	})
	return l.closeErr
}

// eventID is the identity of the event at an offset, whatever is done to the directory: another log of
// the same name would have the same offsets again.
func eventID(life string, offset uint64) string {
	return life + "/" + strconv.FormatUint(offset, 10)
}
