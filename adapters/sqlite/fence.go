package sqlite

import (
	"context"
	"sync"
)

// fence knows the calls that are under way. It is fair: whoever waits at it waits for those that began
// before, and holds nobody up (R255, R256).
type fence struct {
	mu      sync.Mutex
	current *epoch
}

// epoch is the calls that began between two waits.
type epoch struct {
	calls  int           // that have not ended; guarded by fence.mu, as are all fields but ended
	sealed bool          // no more calls begin in it
	ended  chan struct{} // closed when it is sealed and its calls have ended
	before *epoch        // nil if all earlier calls have ended
}

func newEpoch(before *epoch) *epoch { return &epoch{ended: make(chan struct{}), before: before} }

func newFence() *fence { return &fence{current: newEpoch(nil)} }

// enter notes the beginning of a call; leave takes what it returned.
func (f *fence) enter() *epoch {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current.calls++
	return f.current
}

func (f *fence) leave(e *epoch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.calls--
	if e.sealed && e.calls == 0 {
		close(e.ended)
	}
}

// wait returns when every call that began before it has ended, or with the error of ctx.
func (f *fence) wait(ctx context.Context) error {
	for e := f.seal(); e != nil; e = f.previous(e) {
		select {
		case <-e.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// seal ends the current epoch, if it has calls, and returns the latest that ended.
func (f *fence) seal() *epoch {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.current
	if e.calls == 0 {
		return e.before
	}
	e.sealed = true
	f.current = newEpoch(e)
	return e
}

// previous is the epoch before one that has ended, and forgets those in between that have ended too.
func (f *fence) previous(e *epoch) *epoch {
	f.mu.Lock()
	defer f.mu.Unlock()
	for e.before != nil && e.before.sealed && e.before.calls == 0 {
		e.before = e.before.before
	}
	if f.current.before == e {
		f.current.before = e.before
	}
	return e.before
}
