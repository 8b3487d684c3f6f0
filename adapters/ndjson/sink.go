package ndjson

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const opDeliver = "sink.deliver"

// errInUse is the cause where another sink has the file.
var errInUse = errors.New("another sink, of this process or of another one, has it open: give each a file of its own")

// Sink appends events to a file, one JSON object a line. It is a [ports.BatchSink]: a batch is one
// write and one sync.
//
// A delivery is whole or not there: what a failed write or sync has left is taken away again. A line
// that a crash has cut off is closed by a line end before anything follows it. When the path names
// another file than the open one, or none, as after a rotation, the next delivery opens it anew.
//
// A full disk and other failures of the file are transient. A file or directory that may not be written
// is permanent.
type Sink struct {
	o    SinkOptions
	wake chan struct{} // something waits for a sync
	done chan struct{} // closed with the sink
	loop sync.WaitGroup

	mu     sync.Mutex
	file   sinkFile // nil: to be opened by the next delivery
	torn   bool     // the file ends in the middle of a line
	writes uint64   // to this and to earlier files
	synced uint64   // so many of the writes
	failed error    // what a sync in the background found; the next delivery fails by it
	closed bool
}

// sinkFile is what a sink needs of a file.
type sinkFile interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Stat() (os.FileInfo, error)
	Sync() error
	Truncate(size int64) error
}

// OpenSink opens the file and takes it for this sink: a file that another sink has is
// BINDING_SETUP_FAILED/in_use. It writes nothing.
func OpenSink(ctx context.Context, options SinkOptions) (*Sink, error) {
	const op = "sink.open"
	o, err := options.check(op)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &Sink{o: o, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, openSinkError(ports.CodeBindingSetupFailed, op, o.Path, err)
	}
	if o.Fsync == FsyncInterval {
		s.loop.Go(s.syncByInterval)
	}
	return s, nil
}

func openSinkError(code ports.Code, op, path string, err error) *ports.Error {
	e := fileError(code, op, "the sink cannot open %s: %w", path, err)
	if errors.Is(err, errInUse) {
		return e.WithReason(ports.ReasonInUse)
	}
	return e
}

// openSinkFile opens a file to append to, and locks it.
func openSinkFile(name string, sync bool) (sinkFile, error) {
	dir := filepath.Dir(name)
	if err := makeDirectory(dir); err != nil {
		return nil, err
	}
	file, _, err := openRegular(name, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errInUse
	}
	if err == nil && sync {
		err = syncDirectory(dir) // a file of which the directory does not know is gone after a power cut
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// open opens the file anew and looks how it ends.
func (s *Sink) open() error {
	file, err := s.o.open(s.o.Path, s.o.Fsync != FsyncNever)
	if err != nil {
		return err
	}
	if err := s.recognise(file); err != nil {
		return errors.Join(err, file.Close())
	}
	torn, err := endsTorn(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if torn {
		s.o.Log.Warn("a sink's file ends in the middle of a line: the line is closed as it is", "file", s.o.Path)
	}
	s.file, s.torn = file, torn
	return nil
}

// recognise refuses a file that holds something else than lines of JSON objects, such as a database or a
// token: a path that is wrong by one word does not spoil it.
func (s *Sink) recognise(file sinkFile) error {
	var head [512]byte
	n, err := file.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if text := bytes.TrimLeft(head[:n], " \t\r\n"); len(text) > 0 && text[0] != '{' {
		return ports.Errorf(ports.CodeBindingSetupFailed, "sink.open", "the file %s holds something else than lines of JSON objects, and was left alone: give the sink a file of its own", s.o.Path).
			WithReason(ports.ReasonUnsupported)
	}
	return nil
}

func endsTorn(file sinkFile) (bool, error) {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// MaxBatch is 1000.
func (s *Sink) MaxBatch() int { return ports.MaxBatchEvents }

// Deliver appends one event.
func (s *Sink) Deliver(ctx context.Context, event types.SinkEvent) error {
	return s.DeliverBatch(ctx, []types.SinkEvent{event})[0]
}

// DeliverBatch appends events, all that can be encoded or none.
func (s *Sink) DeliverBatch(ctx context.Context, events []types.SinkEvent) []error {
	text, outcomes := encode(ctx, events)
	if len(text) == 0 {
		return outcomes
	}
	return share(outcomes, s.write(text))
}

// encode makes the lines of a batch. An event that cannot be encoded has an outcome already.
func encode(ctx context.Context, events []types.SinkEvent) ([]byte, []error) {
	outcomes := make([]error, len(events))
	if err := ctx.Err(); err != nil {
		return nil, share(outcomes, err)
	}
	if len(events) > ports.MaxBatchEvents {
		return nil, share(outcomes, ports.Errorf(ports.CodeInvalidInput, opDeliver, "the batch has %d events: give at most %d", len(events), ports.MaxBatchEvents))
	}
	var text bytes.Buffer
	for i, event := range events {
		encoded, err := event.MarshalJSON() // by an encoder it would be compacted once more
		if err != nil {
			// The cause may show a character of the event.
			outcomes[i] = ports.Errorf(ports.CodeInvalidInput, opDeliver, "the event is not exactly one of a match and an emission, or holds what is no JSON")
			continue
		}
		text.Write(encoded)
		text.WriteByte('\n')
	}
	return text.Bytes(), outcomes
}

// share gives an error to all that have none.
func share(outcomes []error, err error) []error {
	for i := range outcomes {
		if outcomes[i] == nil {
			outcomes[i] = err
		}
	}
	return outcomes
}

func (s *Sink) write(text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return closed(opDeliver, "the sink "+s.o.Path)
	}
	if err := s.failed; err != nil {
		s.failed = nil
		return s.fileFailed("the sync of what was delivered before failed, and some of it may be lost", err)
	}
	if err := s.current(); err != nil {
		return err
	}
	before, err := s.file.Stat()
	if err != nil {
		return s.fileFailed("cannot be looked at", errors.Join(err, s.leave()))
	}
	if s.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := s.file.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err != nil {
		if undo := s.undo(before.Size(), n); undo != nil {
			err = errors.Join(err, undo, s.leave()) // the next open looks how the file ends
		}
		return s.fileFailed("cannot be written", err)
	}
	if s.o.Fsync == FsyncAlways {
		if err := s.file.Sync(); err != nil {
			// The system may take for synced from now on what is lost: this handle is not trusted again.
			err = errors.Join(err, s.undo(before.Size(), n), s.file.Close())
			s.file = nil
			return s.fileFailed("cannot be synced", err)
		}
	}
	s.torn = false
	if s.o.Fsync == FsyncInterval {
		s.writes++
		select {
		case s.wake <- struct{}{}:
		default: // it is awake
		}
	}
	return nil
}

// undo takes away what a failed delivery wrote, so that it does not stand there twice after the next
// try. It touches nothing if somebody else wrote as well.
func (s *Sink) undo(size int64, wrote int) error {
	if wrote == 0 {
		return nil
	}
	after, err := s.file.Stat()
	if err == nil && after.Size() != size+int64(wrote) {
		err = fmt.Errorf("it has %d bytes where %d were expected", after.Size(), size+int64(wrote))
	}
	if err == nil {
		err = s.file.Truncate(size)
	}
	if err != nil {
		return fmt.Errorf("what was written of it stays: %w", err)
	}
	return nil
}

// current opens the file anew if the path names another one by now.
func (s *Sink) current() error {
	if s.file != nil {
		named, err := os.Stat(s.o.Path)
		if ignoreMissing(err) != nil {
			return s.fileFailed("cannot be looked at", err)
		}
		if err == nil {
			mine, err := s.file.Stat()
			if err != nil {
				return s.fileFailed("cannot be looked at", errors.Join(err, s.leave()))
			}
			if os.SameFile(named, mine) {
				return nil
			}
		}
		if err := s.leave(); err != nil {
			return s.fileFailed("was rotated, and its last lines cannot be synced", err)
		}
	}
	if err := s.open(); err != nil {
		e := openSinkError(ports.CodeBackendFailed, opDeliver, s.o.Path, err)
		if errors.Is(err, errInUse) {
			return e.WithClass(ports.Transient) // whoever has it lets go of it some time
		}
		return e
	}
	return nil
}

// leave syncs and closes the file.
func (s *Sink) leave() error {
	var err error
	if s.writes > s.synced {
		err = s.file.Sync()
		s.synced = s.writes
	}
	err = errors.Join(err, s.file.Close())
	s.file = nil
	return err
}

func (s *Sink) fileFailed(what string, err error) error {
	return fileError(ports.CodeBackendFailed, opDeliver, "the sink's file %s %s: %w", s.o.Path, what, err)
}

// syncByInterval syncs what was written an interval ago.
func (s *Sink) syncByInterval() {
	for {
		select {
		case <-s.done:
			return
		case <-s.wake:
		}
		timer := s.o.Clock.NewTimer(s.o.Interval)
		select {
		case <-s.done:
			timer.Stop()
			return
		case <-timer.C():
		}
		s.syncNow()
	}
}

// syncNow syncs without keeping deliveries waiting.
func (s *Sink) syncNow() {
	s.mu.Lock()
	file, writes := s.file, s.writes
	clean := s.writes == s.synced
	s.mu.Unlock()
	if file == nil || clean {
		return
	}
	err := file.Sync()
	if errors.Is(err, fs.ErrClosed) {
		return // whoever closed it synced it before
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = max(s.synced, writes)
	if err == nil {
		return
	}
	s.failed = err
	if s.file == file {
		s.failed = errors.Join(err, s.file.Close())
		s.file, s.synced = nil, s.writes
	}
}

// Close syncs what was written, unless nothing is ever synced, and lets go of the file. Closing again
// does nothing.
func (s *Sink) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	s.mu.Unlock()
	s.loop.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.failed
	if s.file != nil {
		err = errors.Join(err, s.leave())
	}
	if err != nil {
		return fileError(ports.CodeBackendFailed, "sink.close", "the sink's file %s cannot be closed: %w; the latest events may be lost", s.o.Path, err)
	}
	return nil
}
