package checkpoint

import (
	"sync"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Tracker keeps the low watermark of a stream: the highest cursor such that it and all that were begun
// before it are done. Its zero value is ready, and is used for one run of a pipeline. Its methods may
// be called from many goroutines.
//
// A cursor stands for all events that bear it: it is done when the last of them is.
//
// Each call takes constant time. What is kept grows with the number of cursors that are begun and not
// done, never with the number of those that are done behind a slow one.
type Tracker struct {
	mu     sync.Mutex
	undone map[types.Cursor]*span

	// The list of spans, in stream order, from the first that is not done. Of done cursors beside each
	// other only the last is kept, so no two neighbours are done.
	first, last *span

	begun mark
	safe  mark
}

type span struct {
	cursor     types.Cursor
	done       bool
	prev, next *span
}

// mark is a position that may not be there yet.
type mark struct {
	cursor types.Cursor
	known  bool
}

func (m mark) before(c types.Cursor) bool { return !m.known || m.cursor.Compare(c) < 0 }

func (m mark) String() string {
	if !m.known {
		return "none"
	}
	return m.cursor.String()
}

// Begin says that the pipeline takes up a cursor. Cursors are begun in the order of the stream, one
// call after the other: one that is not after the last is INVALID_INPUT, and so is one that no storage
// could keep. Nothing is changed then.
func (t *Tracker) Begin(cursor types.Cursor) error {
	const op = "checkpoint.begin"
	if err := ports.CheckCursor(op, cursor); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.begun.before(cursor) {
		return ports.Errorf(ports.CodeInvalidInput, op, "the cursor is %v, after %v: begin each cursor once, in the order of the stream", cursor, t.begun)
	}
	t.begun = mark{cursor, true}
	s := &span{cursor: cursor, prev: t.last}
	if t.last == nil {
		t.first = s
	} else {
		t.last.next = s
	}
	t.last = s
	if t.undone == nil {
		t.undone = map[types.Cursor]*span{}
	}
	t.undone[cursor] = s
	return nil
}

// Done says that a cursor is delivered, dead-lettered or passed over. Cursors are done in any order,
// each once: one that is not begun, or is done already, is INVALID_INPUT, and nothing is changed.
func (t *Tracker) Done(cursor types.Cursor) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.undone[cursor]
	if !ok {
		return ports.Errorf(ports.CodeInvalidInput, "checkpoint.done", "the cursor %v is done already or was never begun; the last one begun is %v", cursor, t.begun)
	}
	delete(t.undone, cursor)
	s.done = true
	if s.prev != nil && s.prev.done {
		t.remove(s.prev)
	}
	if s.next != nil && s.next.done {
		t.remove(s)
	}
	if t.first.done {
		t.safe = mark{t.first.cursor, true}
		t.remove(t.first)
	}
	return nil
}

// Safe is the highest cursor such that it and all begun before it are done, and whether there is one.
// It never goes back.
func (t *Tracker) Safe() (types.Cursor, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.safe.cursor, t.safe.known
}

// Pending is the number of cursors that are begun and not done.
func (t *Tracker) Pending() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.undone)
}

func (t *Tracker) remove(s *span) {
	if s.prev == nil {
		t.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		t.last = s.prev
	} else {
		s.next.prev = s.prev
	}
}
