package ndjson

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// maxBatchBytes is how much data one Read returns before it leaves the rest to the next.
const maxBatchBytes = 1 << 20

const opRead = "source.read"

// Source follows a file of lines. It is a [ports.Source].
type Source struct {
	o SourceOptions

	closeOnce sync.Once
	closeErr  error
	closing   chan struct{}

	// mu is held by a Read, also while it waits; what follows belongs to it.
	mu     sync.Mutex
	from   *types.Cursor // where to begin behind; nil once that is past
	target *target       // where to go on while there is no leg
	leg    *leg          // nil until there is a file
	lines  window        // what was read of it
	gaps   []types.Event // what to report before the next line
	floor  uint64        // above the primary of every event that another run may have returned
	failed error         // ends this source
	ended  bool

	// ledger is shared with Settle, by its own lock.
	ledger *ledger
}

// leg is the file that is being read.
type leg struct {
	file *os.File
	name string // as it was opened
	gen  *generation
	// limit is the offset at which a generation ends behind which another is known; -1: the file's end.
	limit int64
	pos   int64  // offset of the next byte to read from the file
	head  []byte // how it begins, as seen last
	info  os.FileInfo
	// renamed says that path named another file when it was looked at last.
	renamed bool
}

// OpenSource opens a source that begins behind the cursor from: at the first line that starts after
// from.Primary. So from may also lie in the middle of a line. Where from is nil it begins at the first
// file that the state file still knows, or else at the start of the file.
//
// A file that is not there is waited for; with Once it is BACKEND_FAILED. A cursor at or beyond the end
// of what was ever there is BACKEND_FAILED/undecodable.
func OpenSource(ctx context.Context, options SourceOptions, from *types.Cursor) (*Source, error) {
	const op = "source.open"
	o, err := options.check(op)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if from != nil {
		if err := ports.CheckCursor(op, *from); err != nil {
			return nil, err
		}
		copied := *from
		from = &copied
	}
	known, err := openLedger(op, o.StateDir, o.Pipeline)
	if err != nil {
		return nil, err
	}
	s := &Source{o: o, closing: make(chan struct{}), from: from, ledger: known, floor: known.reserved}
	started, err := s.begin(op)
	if err == nil && !started && o.Once {
		err = s.missing(op)
	}
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (s *Source) missing(op string) error {
	return ports.Errorf(ports.CodeBackendFailed, op, "the file %s is not there: put it there, or follow the path to wait for it", s.o.Path)
}

// Read returns the next lines; see [ports.Source]. It returns at most about a MiB of data at once.
func (s *Source) Read(ctx context.Context, limit int) ([]types.Event, error) {
	if limit < 1 || limit > ports.MaxReadEvents {
		return nil, ports.Errorf(ports.CodeInvalidInput, opRead, "%d events are asked for: ask for 1 to %d", limit, ports.MaxReadEvents)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		select {
		case <-s.closing:
			return nil, closed(opRead, "the source "+s.o.Path)
		default:
		}
		if s.failed != nil {
			return nil, s.failed
		}
		events, err := s.gather(ctx, limit)
		if err == nil && len(events) > 0 {
			err = s.keep()
		} else if err != nil && len(events) > 0 {
			// What comes before a failure is good; the failure waits for the next call.
			s.failed = err
			if err = s.keep(); err == nil {
				return events, nil
			}
		}
		if err != nil {
			s.failed = err
			return nil, err
		}
		if len(events) > 0 {
			return events, nil
		}
		if s.ended {
			return nil, io.EOF
		}
		if err := s.wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Source) wait(ctx context.Context) error {
	timer := s.o.Clock.NewTimer(s.o.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return closed(opRead, "the source "+s.o.Path)
	case <-timer.C():
		return nil
	}
}

// Settle lets the source forget the files before the one in which through lies; see [ports.Source].
func (s *Source) Settle(ctx context.Context, through types.Cursor) error {
	const op = "source.settle"
	if err := ports.CheckCursor(op, through); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.closing:
		return closed(op, "the source "+s.o.Path)
	default:
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.ledger.forget(through.Primary)
	if !s.ledger.stale {
		return nil
	}
	return s.saveError(op, s.ledger.save())
}

// Close ends a Read that waits, and stores how far the source came, so that the next one knows exactly.
func (s *Source) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closeErr = errors.Join(s.part(), s.release())
	})
	return s.closeErr
}

// part stores the exact end of what was returned.
func (s *Source) part() error {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	last := s.ledger.last()
	if last == nil {
		return nil
	}
	reserved := max(s.floor, last.Read)
	if reserved == s.ledger.reserved && !s.ledger.stale {
		return nil
	}
	s.ledger.reserved = reserved
	s.noteLeg(last)
	if err := s.noteTail(last); err != nil {
		return s.fileFailed("read", err)
	}
	return s.saveError("source.close", s.ledger.save())
}

func (s *Source) release() error {
	if s.leg == nil {
		return nil
	}
	file := s.leg.file
	s.leg = nil
	return file.Close()
}

// interrupted reports whether nobody wants more: what holds no event, as a hole of a terabyte, is passed over
// for a long time otherwise.
func (s *Source) interrupted(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-s.closing:
		return true
	default:
		return false
	}
}

// gather takes what is there, without waiting, until it is interrupted.
func (s *Source) gather(ctx context.Context, limit int) ([]types.Event, error) {
	now := s.o.Clock.Now().UnixMilli()
	var events []types.Event
	size := 0
	for len(events) < limit && size < maxBatchBytes {
		if len(s.gaps) > 0 {
			gap := s.gaps[0]
			gap.TS = now
			events, s.gaps = append(events, gap), s.gaps[1:]
			continue
		}
		if s.ended {
			return events, nil
		}
		if s.leg == nil {
			started, err := s.begin(opRead)
			if err == nil && !started && s.o.Once {
				err = s.missing(opRead)
			}
			if err != nil || !started && len(s.gaps) == 0 {
				return events, err
			}
			continue
		}
		l, state := s.lines.next()
		switch state {
		case lineWhole:
			if event, ok := s.event(l, now); ok {
				if events == nil {
					events = make([]types.Event, 0, min(limit, s.lines.atMost()+1))
				}
				events = append(events, event)
				size += len(event.Data)
			}
			continue
		case linePassed:
			continue
		case lineMissing:
		}
		if s.interrupted(ctx) {
			return events, nil
		}
		on, err := s.fill()
		if err != nil {
			return events, err
		}
		if on {
			continue
		}
		if len(events) > 0 {
			return events, nil
		}
		on, err = s.atEnd()
		if err != nil || !on {
			return events, err
		}
	}
	return events, nil
}

// event makes an event of a line; none of a blank one.
func (s *Source) event(l line, now int64) (types.Event, bool) {
	gen := s.leg.gen
	start := gen.Base + uint64(l.start)
	event := types.Event{Cursor: types.Cursor{Primary: start}, TS: now}
	l.unmark()
	if l.blank() {
		return event, false
	}
	s.ledger.mu.Lock() // a Settle may be storing it
	gen.returned(start, gen.Base+uint64(l.end))
	s.ledger.mu.Unlock()
	text, err := l.json()
	if err != nil {
		event.Err = fmt.Errorf("%s: the line at byte offset %d, of %d bytes, is not taken: %w", s.leg.name, l.start, l.length, err)
		event.Data = l.describe()
		return event, true
	}
	event.Data = text
	return event, true
}

// keep stores what has to be known before the events that were gathered are returned.
func (s *Source) keep() error {
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last()
	if last == nil {
		return nil
	}
	// What tells the file from others covers what was returned of it, up to its limit.
	if s.leg != nil && s.leg.gen == last && len(s.leg.head) > last.HeadBytes {
		l.stale = true
	}
	if !l.stale && last.Read <= l.reserved {
		return nil
	}
	if l.reserved = max(l.reserved, last.Read+reserveAhead); l.reserved > ports.MaxStoredInteger {
		return ports.Errorf(ports.CodeBackendFailed, opRead, "the count of bytes of the pipeline %s has reached its limit of %d: give the pipeline another id", s.o.Pipeline, uint64(ports.MaxStoredInteger))
	}
	s.noteLeg(last)
	if err := s.noteTail(last); err != nil {
		return s.fileFailed("read", err)
	}
	return s.saveError(opRead, l.save())
}

// noteLeg takes over what the open file has become.
func (s *Source) noteLeg(last *generation) {
	if s.leg == nil || s.leg.gen != last {
		return
	}
	last.setHead(s.leg.head)
	last.End = max(last.Read, last.Base+uint64(s.leg.info.Size()))
}

// noteTail takes over what lies before the place to which events of the open file were returned.
func (s *Source) noteTail(last *generation) error {
	if s.leg == nil || s.leg.gen != last {
		return nil
	}
	end := int64(last.Read - last.Base)
	tail, err := readTail(s.leg.file, end)
	if err == nil {
		last.setTail(end, tail)
	}
	return err
}

func (s *Source) saveError(op string, err error) error {
	if err == nil {
		return nil
	}
	return fileError(ports.CodeBackendFailed, op, "the source's state file %s cannot be written: %w", s.ledger.name, err)
}

// fill reads on. It reports whether there is anything new to look at.
func (s *Source) fill() (bool, error) {
	room := s.lines.room()
	if s.leg.limit >= 0 {
		room = room[:min(int64(len(room)), s.leg.limit-s.leg.pos)]
	}
	if len(room) == 0 {
		return false, nil
	}
	n, err := s.leg.file.ReadAt(room, s.leg.pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, s.fileFailed("read", err)
	}
	if n == 0 {
		return false, nil
	}
	// A truncation before the read would show in the head or in the size now. Looking after the read
	// leaves no moment in between.
	same, err := s.leg.verify(s.leg.pos + int64(n))
	if err != nil {
		return false, s.fileFailed("read", err)
	}
	if !same {
		return true, s.truncated()
	}
	s.leg.pos += int64(n)
	s.lines.add(n)
	return true, nil
}

// verify reports whether the file still begins as it did and reaches to end, and takes note of how it
// has grown.
func (l *leg) verify(end int64) (bool, error) {
	info, err := l.file.Stat()
	if err != nil || info.Size() < end {
		return false, err
	}
	head, err := readHead(l.file)
	if err != nil || !bytes.HasPrefix(head, l.head) {
		return false, err
	}
	l.info = info
	if len(head) > len(l.head) {
		l.head = head
	}
	return true, nil
}

func readHead(file *os.File) ([]byte, error) {
	var head [headBytes]byte
	n, err := file.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return bytes.Clone(head[:n]), nil
}

// atEnd looks around at the end of the file. It reports whether there is anything new to read.
func (s *Source) atEnd() (bool, error) {
	l := s.leg
	if l.limit >= 0 {
		return s.turn()
	}
	info, err := l.file.Stat()
	if err != nil {
		return false, s.fileFailed("look at", err)
	}
	if info.Size() != l.info.Size() || !info.ModTime().Equal(l.info.ModTime()) {
		same, err := l.verify(l.pos)
		if err != nil {
			return false, s.fileFailed("look at", err)
		}
		if !same {
			return true, s.truncated()
		}
		if l.info.Size() > l.pos {
			return true, nil
		}
	}
	named, err := os.Stat(s.o.Path)
	if ignoreMissing(err) != nil {
		return false, s.fileFailed("look at", err)
	}
	missing := err != nil
	here := !missing && os.SameFile(named, info)
	if s.o.Once && (missing || here) {
		if s.lines.pending() {
			s.lines.final()
		} else {
			s.ended = true
		}
		return true, nil
	}
	// Whoever writes may still have the old file open: it gets one poll more.
	wait := missing || here || !l.renamed && !s.o.Once
	l.renamed = !missing && !here
	if wait {
		return false, nil
	}
	return s.turn()
}

// turn goes on to the next file once the rest of this one is used up.
func (s *Source) turn() (bool, error) {
	if s.leg.limit < 0 {
		if copied, err := s.swap(); copied || err != nil {
			return copied, err
		}
	}
	if s.lines.pending() {
		s.lines.final()
		return true, nil
	}
	l := s.leg
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if next := s.ledger.after(l.gen); next != nil {
		if l.pos < l.limit && l.gen.Base+uint64(l.pos) <= l.gen.Last {
			// An archive has become shorter than it was.
			s.gap(l.gen.Last, "%s: %d bytes from byte offset %d on are gone: the file was cut off after it was read to there", l.name, l.limit-l.pos, l.pos)
		}
		s.aimAt(next)
		return true, s.release()
	}
	file, info, packed, err := openSuccessor(s.o.Path, l.info)
	if err != nil {
		return false, s.fileFailed("open what followed", err)
	}
	if file == nil {
		return false, nil
	}
	if os.SameFile(info, l.info) { // it was renamed back
		return false, file.Close()
	}
	end := l.gen.Base + uint64(l.pos)
	if len(packed) > 0 {
		s.gap(end, "%s: it was rotated and compressed before it was read, and its lines are missing here", strings.Join(packed, ", "))
		l.gen.returned(end, end+1)
		end++
	}
	return true, s.enter(file, info, end)
}

// swap goes on in the file that the path names if that is a copy of the open one, which is gone: an editor,
// or a tool that copies files, has written the whole anew and renamed it over the old one.
func (s *Source) swap() (bool, error) {
	l := s.leg
	if l.pos < headBytes {
		return false, nil
	}
	all, err := archives(s.o.Path)
	if err != nil {
		return false, s.fileFailed("look at what lies beside", err)
	}
	if slices.ContainsFunc(all, func(a archive) bool { return os.SameFile(a.info, l.info) }) {
		return false, nil // it was rotated
	}
	tail, err := readTail(l.file, l.pos)
	if err != nil {
		return false, s.fileFailed("read", err)
	}
	copied, err := openIf(s.o.Path, func(_ os.FileInfo, head []byte) bool { return bytes.Equal(head, l.head) })
	if err != nil || copied == nil || tail == nil {
		return false, errors.Join(err, copied.close())
	}
	other, err := readTail(copied.file, l.pos)
	if err != nil || !bytes.Equal(tail, other) {
		return false, errors.Join(err, copied.close())
	}
	s.o.Log.Info("a source's file was replaced by a copy; the source goes on in it", "pipeline", string(s.o.Pipeline), "file", s.o.Path, "offset", l.pos)
	old := l.file
	l.file, l.name, l.info, l.renamed = copied.file, copied.name, copied.info, false
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	l.gen.Device, l.gen.Inode = identity(l.info)
	err = s.noteTail(l.gen)
	if err == nil {
		err = s.saveError(opRead, s.ledger.save())
	}
	return true, errors.Join(err, old.Close())
}

// close closes the file, if there is one.
func (l *leg) close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

// enter makes a file the one that is read, from its start, as a new generation at a place in the count.
// The caller holds the ledger's lock.
func (s *Source) enter(file *os.File, info os.FileInfo, base uint64) error {
	head, err := readHead(file)
	if err != nil {
		if s.leg == nil || s.leg.file != file {
			err = errors.Join(err, file.Close())
		}
		return s.fileFailed("read", err)
	}
	gen := newGeneration(base, info, head)
	if last := s.ledger.last(); last != nil {
		s.noteLeg(last)
	}
	s.ledger.follow(gen)
	return s.open(&leg{file: file, name: file.Name(), gen: gen, limit: -1, head: head, info: info}, 0, false)
}

// open makes a file the one that is read, from an offset on.
func (s *Source) open(l *leg, offset int64, skip bool) error {
	old := s.leg
	l.pos = offset
	s.leg, s.from, s.target = l, nil, nil
	s.lines.reset(offset, skip)
	s.o.Log.Debug("a source reads a file", "pipeline", string(s.o.Pipeline), "file", l.name, "offset", offset, "base", l.gen.Base)
	if old == nil || old.file == l.file {
		return nil
	}
	return old.file.Close()
}

// truncated deals with a file that is shorter than what was read of it, or begins in another way.
func (s *Source) truncated() error {
	l := s.leg
	start := s.lines.offset()
	lost := max(l.info.Size()-start, 0)
	if l.limit >= 0 {
		lost = l.limit - start
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	var found *leg
	if copyCounts(len(l.head), start) {
		var err error
		found, err = s.findArchive(func(info os.FileInfo, head []byte) bool {
			return !os.SameFile(info, l.info) && info.Size() >= start && bytes.HasPrefix(head, l.head)
		})
		if err != nil {
			return s.fileFailed("look for a copy of", err)
		}
	}
	if found != nil {
		found.gen, found.limit = l.gen, l.limit
		return s.open(found, start, s.lines.skipping())
	}
	if next := s.ledger.after(l.gen); next != nil {
		if l.gen.Base+uint64(start) <= l.gen.Last {
			s.gap(l.gen.Last, "%s: %d bytes from byte offset %d on are gone: the file was truncated before they were read", l.name, lost, start)
		}
		s.aimAt(next)
		return s.release()
	}
	end := max(s.floor, l.gen.Base+uint64(max(l.pos, l.info.Size())))
	if lost > 0 {
		s.gap(end, "%s: %d bytes from byte offset %d on are gone: the file was truncated before they were read", l.name, lost, start)
		l.gen.returned(end, end+1)
		end++
	}
	info, err := l.file.Stat()
	if err != nil {
		return s.fileFailed("look at", err)
	}
	return s.enter(l.file, info, end)
}

// copyCounts says whether a head tells that a file is a copy: it is long, or holds all that was read.
func copyCounts(head int, offset int64) bool {
	return head >= headBytes || int64(head) >= offset && head > 0
}

// findArchive opens the archive that is as wanted; nil if there is none.
func (s *Source) findArchive(wanted func(info os.FileInfo, head []byte) bool) (*leg, error) {
	all, err := archives(s.o.Path)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	for _, a := range all {
		if a.packed {
			continue
		}
		found, err := openIf(a.name, wanted)
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// openIf opens a file if it is as wanted; nil if it is not, or not there.
func openIf(name string, wanted func(info os.FileInfo, head []byte) bool) (*leg, error) {
	file, info, err := openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	head, err := readHead(file)
	if err == nil && wanted(info, head) {
		return &leg{file: file, name: name, limit: -1, head: head, info: info}, nil
	}
	return nil, errors.Join(err, file.Close())
}

// gap reports what is lost, at a place in the count.
func (s *Source) gap(primary uint64, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	s.o.Log.Warn("lines are lost to a source", "pipeline", string(s.o.Pipeline), "what", err)
	s.gaps = append(s.gaps, types.Event{Cursor: types.Cursor{Primary: primary}, Err: err})
}

func (s *Source) fileFailed(what string, err error) error {
	return fileError(ports.CodeBackendFailed, opRead, "the source cannot %s %s: %w", what, s.o.Path, err)
}
