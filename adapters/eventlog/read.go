package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// maxReadBytes is how much of the log one Read takes at most, and one event.
const maxReadBytes = 8 << 20

// reader goes through the files of a log.
type reader struct {
	lines
	file *os.File // nil before the first and between two
	seg  segment
	// lost is how many bytes before the first file a checkpoint has not seen; 0 for none.
	lost uint64
}

func (r *reader) close() error {
	if r.file == nil {
		return nil
	}
	file := r.file
	r.file = nil
	return file.Close()
}

// Read returns what there is behind the last event that it returned: up to most events, but no more than
// about 8 MiB. See [ports.Source].
func (l *Log) Read(ctx context.Context, most int) ([]types.Event, error) {
	if most < 1 || most > ports.MaxReadEvents {
		return nil, ports.Errorf(ports.CodeInvalidInput, opRead, "max is %d: give 1 to %d", most, ports.MaxReadEvents)
	}
	l.reading.Lock()
	defer l.reading.Unlock()
	for {
		select {
		case <-l.done:
			return nil, closedError(opRead, l.dir)
		default:
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		events, err := l.read(most)
		if len(events) > 0 {
			return events, nil
		}
		if err != nil {
			return nil, systemError(ports.CodeBackendFailed, opRead, l.dir, err)
		}
		select {
		case <-l.grown:
		case <-l.done:
		case <-ctx.Done():
		}
	}
}

// read returns what there is. An error comes after the events before it.
func (l *Log) read(most int) (events []types.Event, err error) {
	r := &l.reader
	defer l.pass()
	if r.lost > 0 {
		events = append(events, l.gap())
		r.lost = 0
	}
	from := r.pos
	for len(events) < most && r.pos-from < maxReadBytes {
		found, ok, err := l.next()
		if err != nil || !ok {
			return events, err
		}
		if e, ok := l.event(found); ok {
			events = append(events, e)
		}
	}
	return events, nil
}

// pass notes how far the log has been read.
func (l *Log) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passed = l.reader.pos
}

// next returns the next line of the log, whichever file it is in.
func (l *Log) next() (line, bool, error) {
	r := &l.reader
	for {
		if r.pos >= r.limit {
			if ok, err := l.advance(); !ok {
				return line{}, false, err
			}
		}
		if found, ok, err := r.next(); ok || err != nil {
			return found, ok, err
		}
	}
}

// advance finds out where the log goes on, and opens the file there. It reports false at the end.
func (l *Log) advance() (bool, error) {
	r := &l.reader
	seg, limit := l.place(r.pos)
	if r.pos >= limit {
		return false, nil
	}
	if r.file != nil && seg.start == r.seg.start {
		r.limit = limit
		return true, nil
	}
	file, err := os.Open(filepath.Join(l.dir, nameOf(seg.start)))
	if err != nil {
		return false, err
	}
	err = r.close()
	r.file, r.seg = file, seg
	r.reset(file, seg.start, r.pos, limit)
	return err == nil, err
}

// place returns the file that holds an offset, or that will, and where the log leaves it or ends so far.
func (l *Log) place(pos uint64) (segment, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.end
	for i := len(l.segments) - 1; i > 0; i-- {
		if l.segments[i].start <= pos {
			return l.segments[i], limit
		}
		limit = l.segments[i].start
	}
	return l.segments[0], limit
}

// seek goes behind the checkpoint.
func (l *Log) seek() error {
	r := &l.reader
	oldest := l.segments[0]
	defer l.pass()
	switch from := l.o.From; {
	case from == nil:
		r.pos = oldest.start
	case from.Primary < oldest.start:
		r.pos = oldest.start
		if oldest.linked && from.Primary >= oldest.prev {
			return nil // what it names was the last line before
		}
		r.lost = oldest.start - from.Primary - 1
	default:
		// What is left of the line there, or behind it, is no line: the one after it is wanted.
		r.pos = from.Primary
		_, _, err := l.next()
		return err
	}
	return nil
}

// event makes the event of a line. The first line of a file is none.
func (l *Log) event(found line) (types.Event, bool) {
	life := l.reader.seg.life
	if found.fault == whole {
		if r, ok := parseRecord(found.text); ok {
			return types.Event{
				Cursor:      types.Cursor{Primary: found.offset},
				ID:          eventID(l.lifeOr(life), found.offset),
				TS:          r.ts,
				Data:        bytes.Clone(r.event),
				Traceparent: r.traceparent,
			}, true
		}
		if found.offset == l.reader.seg.start && life != "" {
			return types.Event{}, false
		}
	}
	name := nameOf(l.reader.seg.start)
	size := found.end - found.offset
	return l.bad(found.offset, name, size, fmt.Errorf("event log %s: %s holds no event at offset %d, byte %d of the file: %s; these %d bytes are passed over",
		l.dir, name, found.offset, found.offset-l.reader.seg.start, faultText(found), size)), true
}

func faultText(found line) string {
	switch found.fault {
	case tooLong:
		return "the line is longer than any event"
	case cut:
		return "the line has no end"
	case missing:
		return "the file is shorter than it was"
	case whole:
	}
	return "the line is damaged, its checksum does not match"
}

// gap is the event that stands for what a checkpoint has not seen and the log has not any more. Its
// cursor is the last byte of it, behind which the log goes on.
func (l *Log) gap() types.Event {
	r := &l.reader
	name := nameOf(r.pos)
	return l.bad(r.pos-1, name, r.lost, fmt.Errorf("event log %s: it begins at offset %d with %s, and the checkpoint is %d: the %d bytes between are gone, and the events in them",
		l.dir, r.pos, name, r.pos-1-r.lost, r.lost))
}

func (l *Log) bad(offset uint64, name string, size uint64, err error) types.Event {
	return types.Event{
		Cursor: types.Cursor{Primary: offset},
		ID:     eventID(l.lifeOr(l.reader.seg.life), offset),
		TS:     l.o.Clock.Now().UnixMilli(),
		Data:   fmt.Appendf(nil, `{"file":%q,"offset":%d,"bytes":%d}`, name, offset, size),
		Err:    err,
	}
}

func (l *Log) lifeOr(life string) string {
	if life == "" {
		return l.life
	}
	return life
}
