package eventlog

import (
	"context"
	"path/filepath"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Settle removes the files that hold only events up to the cursor, as far as they have been read. The
// last file stays: its name carries the offset at which the log goes on.
func (l *Log) Settle(ctx context.Context, through types.Cursor) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ports.CheckCursor(opSettle, through); err != nil {
		return err
	}
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.settled, l.settles = max(l.settled, through.Primary), true
	}
	l.mu.Unlock()
	if closed {
		return closedError(opSettle, l.dir)
	}
	return systemError(ports.CodeBackendFailed, opSettle, l.dir, l.remove())
}

// reclaim makes room where it can: it removes what is settled, the file that is being written among it
// if nothing in it is needed any more. Only the one who leads calls it.
func (l *Log) reclaim() error {
	l.mu.Lock()
	idle := l.settles && l.linked && l.settled >= l.last && l.passed >= l.end
	l.mu.Unlock()
	if idle && l.out != nil && !l.out.empty {
		if err := l.roll(); err != nil {
			return systemError(ports.CodeBackendFailed, opAccept, l.dir, err)
		}
	}
	return systemError(ports.CodeBackendFailed, opAccept, l.dir, l.remove())
}

// remove takes the settled files away, the oldest first, so that a log never has a hole.
func (l *Log) remove() error {
	l.removing.Lock()
	defer l.removing.Unlock()
	if l.lock == nil {
		return closedError(opSettle, l.dir)
	}
	removed := false
	for {
		oldest, ok := l.removable()
		if !ok {
			break
		}
		if err := removeIfThere(filepath.Join(l.dir, nameOf(oldest.start))); err != nil {
			return err
		}
		removed = true
		l.mu.Lock()
		l.segments = l.segments[1:]
		l.total -= oldest.size
		l.mu.Unlock()
	}
	if !removed {
		return nil
	}
	return syncDirectory(l.dir)
}

// removable returns the oldest file, if it is not needed any more.
func (l *Log) removable() (segment, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) < 2 || !l.settles {
		return segment{}, false
	}
	next := l.segments[1]
	settled := l.settled >= next.start || next.linked && l.settled >= next.prev
	return l.segments[0], settled && l.passed >= next.start
}
