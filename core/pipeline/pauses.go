package pipeline

import (
	"context"
	"log/slog"
	"maps"
	"sync"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// pauses knows what an operator has paused. It is read anew again and again, so that a pause takes
// effect whoever stored it.
type pauses struct {
	store ports.PauseStore
	log   *slog.Logger

	mu      sync.Mutex
	known   bool // the store has been read once
	failing bool // the last reading failed
	set     map[types.Pause]bool
	changed chan struct{} // closed at the next change
}

func newPauses(store ports.PauseStore, log *slog.Logger) *pauses {
	return &pauses{store: store, log: log, changed: make(chan struct{})}
}

// refresh reads the store. When that fails, what was known stays; before anything was known all is
// paused.
func (p *pauses) refresh(ctx context.Context) {
	list, err := p.store.ListPauses(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if !p.failing && ctx.Err() == nil {
			p.log.Warn("the pauses cannot be read; those known so far hold until they can", "error", err)
		}
		p.failing = true
		return
	}
	p.failing = false
	set := make(map[types.Pause]bool, len(list))
	for _, pause := range list {
		set[pause] = true
	}
	if p.known && maps.Equal(set, p.set) {
		return
	}
	p.known, p.set = true, set
	close(p.changed)
	p.changed = make(chan struct{})
}

// paused reports whether one of these is paused, and what is closed when that may change.
func (p *pauses) paused(targets ...types.Pause) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return true, p.changed
	}
	for _, pause := range targets {
		if p.set[pause] {
			return true, p.changed
		}
	}
	return false, p.changed
}
