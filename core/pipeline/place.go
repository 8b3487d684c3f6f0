package pipeline

import (
	"context"
	"maps"
	"slices"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// place is where an engine has the pipelines of one id, one after the other. What happens at one place
// waits for no other. Its fields but the turn are guarded by the engine's mu.
type place struct {
	turn  chan struct{} // held by whoever starts and stops the pipeline
	users int           // that hold the turn, or wait for it
	unit  *unit         // nil: none
	// coming has at most two exchanges: one that has begun, and one that waits.
	coming []*exchange
}

// exchange puts a unit in the place of another.
type exchange struct {
	next  *unit // nil: none
	begun bool  // next is decided
	done  chan struct{}
}

// await waits until exchanges are done.
func await(ctx context.Context, exchanges []*exchange) error {
	for _, x := range exchanges {
		select {
		case <-x.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// plan has the unit at a place replaced by next, or by none. Of what is planned before the turn comes, the
// last counts.
func (e *Engine) plan(id types.PipelineID, next *unit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	if p, ok := e.places[id]; ok && len(p.coming) > 0 {
		if last := p.coming[len(p.coming)-1]; !last.begun {
			last.next = next
			return
		}
	}
	p := e.enter(id)
	x := &exchange{next: next, done: make(chan struct{})}
	p.coming = append(p.coming, x)
	e.working.Go(func() {
		defer close(x.done)
		e.exchange(id, p, x)
	})
}

// exchange carries out what is planned. The place was entered for it.
func (e *Engine) exchange(id types.PipelineID, p *place, x *exchange) {
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		p.coming = slices.DeleteFunc(p.coming, func(other *exchange) bool { return other == x })
		e.leave(id, p)
	}()
	select {
	case p.turn <- struct{}{}:
	case <-e.ctx.Done():
		return
	}
	defer func() { <-p.turn }()
	e.mu.Lock()
	x.begun = true
	before, next := p.unit, x.next
	e.mu.Unlock()
	if before != nil {
		if err := e.retire(before); err != nil {
			before.log.Warn("a sink was not closed cleanly", "error", err)
		}
	}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		p.unit = next
	}
	e.mu.Unlock()
	if !closed && next != nil {
		next.start()
	}
	if before != nil && e.refused() {
		e.stirUp() // perhaps for a place that is free now
	}
}

// retire stops a unit for good.
func (e *Engine) retire(u *unit) error {
	u.stop()
	limit, cancel := e.limit()
	defer cancel()
	return u.close(limit)
}

// refused reports whether there is a configuration that was not taken.
func (e *Engine) refused() bool {
	return slices.ContainsFunc(e.all(), func(u *unit) bool { return u.broken != nil || u.refuses() })
}

func (e *Engine) stirUp() {
	select {
	case e.stir <- struct{}{}:
	default:
	}
}

// take waits for the turn at a place.
func (e *Engine) take(ctx context.Context, op string, id types.PipelineID) (p *place, release func(), err error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, nil, closedError(op)
	}
	p = e.enter(id)
	e.working.Add(1)
	e.mu.Unlock()
	leave := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.leave(id, p)
		e.working.Done()
	}
	select {
	case p.turn <- struct{}{}:
	case <-e.ctx.Done():
		leave()
		return nil, nil, closedError(op)
	case <-ctx.Done():
		leave()
		return nil, nil, ctx.Err()
	}
	release = func() {
		<-p.turn
		leave()
	}
	if e.isClosed() {
		release()
		return nil, nil, closedError(op)
	}
	return p, release, nil
}

func closedError(op string) error {
	return ports.Errorf(ports.CodeStoreClosed, op, "the engine of the pipelines is closed")
}

func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// enter finds or makes a place. The caller holds mu, and leaves it in the end.
func (e *Engine) enter(id types.PipelineID) *place {
	p, ok := e.places[id]
	if !ok {
		p = &place{turn: make(chan struct{}, 1)}
		e.places[id] = p
	}
	p.users++
	return p
}

// leave lets go of a place that nobody needs. The caller holds mu.
func (e *Engine) leave(id types.PipelineID, p *place) {
	p.users--
	if p.users == 0 && p.unit == nil {
		delete(e.places, id)
	}
}

// sorted are the places, by id.
func (e *Engine) sorted() []*place {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]*place, 0, len(e.places))
	for _, id := range slices.Sorted(maps.Keys(e.places)) {
		list = append(list, e.places[id])
	}
	return list
}

// at is the unit at a place, nil for none.
func (e *Engine) at(p *place) *unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.unit
}

// ever are the unit at a place and those that are to come there.
func (e *Engine) ever(p *place) []*unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*unit
	if p.unit != nil {
		list = append(list, p.unit)
	}
	for _, x := range p.coming {
		if x.next != nil {
			list = append(list, x.next)
		}
	}
	return list
}

// latest are the units that will be there when all exchanges are done.
func (e *Engine) latest() map[types.PipelineID]*unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	units := map[types.PipelineID]*unit{}
	for id, p := range e.places {
		u := p.unit
		if n := len(p.coming); n > 0 {
			u = p.coming[n-1].next
		}
		if u != nil {
			units[id] = u
		}
	}
	return units
}

// exchanges are those that are under way, or wait, at the places of these ids, or at all.
func (e *Engine) exchanges(ids ...types.PipelineID) []*exchange {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*exchange
	for id, p := range e.places {
		if len(ids) == 0 || slices.Contains(ids, id) {
			list = append(list, p.coming...)
		}
	}
	return list
}
