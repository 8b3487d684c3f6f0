package queuehttp

import (
	"context"
	"sync"
	"time"

	"github.com/stowage-go/stowage/ports"
)

const (
	// largeBody is the size in bytes above which a request is large: every single message is below it
	// unless most of it is escaped, and so are batches of usual messages.
	largeBody = 2 * ports.MaxPayloadBytes

	// maxLarge is how many large requests one queue has in memory at a time.
	maxLarge = 4
)

// gate bounds the memory that the requests of one queue take, whose clients may be slow to send a
// large body, or to read what a peek shows. Each queue has places of its own, so that whoever has one
// token can hold up nobody else.
type gate struct {
	mu     sync.Mutex
	queues map[string]*places
}

// places are those of one queue, and are kept while anybody is at them.
type places struct {
	taken chan struct{}
	users int
}

// visit is a request that may need a place.
type visit struct {
	gate *gate
	id   string
	at   *places // nil until it has entered
}

// enter waits for a place, up to the timeout, unless the visit has one.
func (v *visit) enter(ctx context.Context, timeout time.Duration) error {
	if v.at != nil {
		return nil
	}
	at := v.gate.join(v.id)
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	select {
	case at.taken <- struct{}{}:
		v.at = at
		return nil
	case <-limit.C:
		v.gate.part(v.id, at)
		return ports.Errorf(ports.CodeQueueOperationFailed, "queue.request", "the queue had %d large requests at work for %v, and nothing was done: send fewer at a time, then repeat", maxLarge, timeout).
			WithReason(ports.ReasonBusy)
	case <-ctx.Done():
		v.gate.part(v.id, at)
		return ctx.Err()
	}
}

// leave gives the place back, if there is one.
func (v *visit) leave() {
	if v.at != nil {
		<-v.at.taken
		v.gate.part(v.id, v.at)
		v.at = nil
	}
}

func (g *gate) join(id string) *places {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.queues[id]
	if at == nil {
		at = &places{taken: make(chan struct{}, maxLarge)}
		if g.queues == nil {
			g.queues = make(map[string]*places)
		}
		g.queues[id] = at
	}
	at.users++
	return at
}

func (g *gate) part(id string, at *places) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(g.queues, id)
	}
}
