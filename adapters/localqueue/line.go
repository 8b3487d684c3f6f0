package localqueue

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stowage-go/stowage/ports"
)

// line is where receives wait for a message, in the order in which they came. One that is called
// tries to claim; if others were faster it waits on, in its old place. The first that waits also
// watches the clock for the rest: it wakes when the next hidden message becomes due.
type line struct {
	length atomic.Int64 // of places

	mu     sync.Mutex
	places []*place
	due    int64     // messages that are due, as of the latest commit
	next   time.Time // when the next hidden one becomes due, as of the latest commit; zero: not soon
}

// place is that of one receive.
type place struct {
	deadline time.Time
	call     chan struct{}
	over     bool // its deadline has come; set between its tries

	// The fields below are guarded by the line.
	waiting bool      // it has found nothing and was not called since
	until   time.Time // when it wakes by itself
}

func (l *line) join(deadline time.Time) *place {
	p := &place{deadline: deadline, call: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places = append(l.places, p)
	l.length.Add(1)
	return p
}

// part leaves the line. A call that the place had and did not use goes to the next one.
func (l *line) part(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places = slices.DeleteFunc(l.places, func(other *place) bool { return other == p })
	l.length.Add(-1)
	l.callOut()
}

// wait notes that the place has found nothing, and sets when it wakes. It runs under the queue's
// writer, so that no commit comes between the look and the note.
func (l *line) wait(p *place, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = next
	p.waiting, p.until = true, p.deadline
	if l.head() == p && !next.IsZero() && next.Before(p.deadline) {
		p.until = next
	}
}

// rest waits until the place is called, its time has come, or one of the channels says so.
func (l *line) rest(p *place, clock ports.Clock, ends ...<-chan struct{}) {
	l.mu.Lock()
	until := p.until
	l.mu.Unlock()
	// The timer decides when the deadline has come: it goes on when the clock steps.
	timer := clock.NewTimer(until.Sub(clock.Now()))
	select {
	case <-p.call:
	case <-timer.C():
		p.over = !until.Before(p.deadline)
	case <-ends[0]:
	case <-ends[1]:
	}
	timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	p.waiting = false
	select {
	case <-p.call: // it came together with something else
	default:
	}
}

// publish takes the state after a commit.
func (l *line) publish(due int64, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due, l.next = due, next
	l.callOut()
}

// empty reports whether nobody is in the line. Who joins after that will see the state as it is then.
func (l *line) empty() bool { return l.length.Load() == 0 }

// callOut calls as many as there are messages, from the front; those that are trying already count.
// It also calls the first that waits if it would wake too late for the next message.
func (l *line) callOut() {
	for _, p := range l.places[:min(int64(len(l.places)), l.due)] {
		p.callIfWaiting()
	}
	if head := l.head(); head != nil && !l.next.IsZero() && l.next.Before(head.until) {
		head.callIfWaiting()
	}
}

// head is the first that waits, nil if nobody does.
func (l *line) head() *place {
	for _, p := range l.places {
		if p.waiting {
			return p
		}
	}
	return nil
}

func (p *place) callIfWaiting() {
	if p.waiting {
		p.waiting = false
		p.call <- struct{}{} // never blocks: the channel was emptied before the place waited again
	}
}
