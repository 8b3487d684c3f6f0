package control

import (
	"context"
	"sync"

	"github.com/stowage-go/stowage/types"
)

// claims says which letters somebody is at work on.
type claims struct {
	mu        sync.Mutex
	pipelines map[types.PipelineID]*claimed
}

type claimed struct {
	all     bool // no letter can be claimed, because all of them are
	letters map[types.MatchID]bool
}

func newClaims() *claims { return &claims{pipelines: map[types.PipelineID]*claimed{}} }

// claim takes a letter, unless somebody has it. What was taken has to be released.
func (c *claims) claim(pipeline types.PipelineID, id types.MatchID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pipelines[pipeline]
	if p == nil {
		p = &claimed{letters: map[types.MatchID]bool{}}
		c.pipelines[pipeline] = p
	}
	if p.all || p.letters[id] {
		return false
	}
	p.letters[id] = true
	return true
}

// release gives up letters that were claimed; with none it does nothing.
func (c *claims) release(pipeline types.PipelineID, ids ...types.MatchID) {
	if len(ids) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pipelines[pipeline]
	for _, id := range ids {
		delete(p.letters, id)
	}
	if len(p.letters) == 0 {
		delete(c.pipelines, pipeline)
	}
}

// claimAll takes every letter of a pipeline, unless somebody has one.
func (c *claims) claimAll(pipeline types.PipelineID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pipelines[pipeline] != nil {
		return false
	}
	c.pipelines[pipeline] = &claimed{all: true}
	return true
}

func (c *claims) releaseAll(pipeline types.PipelineID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pipelines, pipeline)
}

// turns lets one caller at a time work on a pipeline.
type turns struct {
	mu        sync.Mutex
	pipelines map[types.PipelineID]*turn
}

type turn struct {
	users int // those who have it or wait for it
	taken chan struct{}
}

func newTurns() *turns { return &turns{pipelines: map[types.PipelineID]*turn{}} }

// take waits for the turn. Unless there is an error, release has to be called.
func (t *turns) take(ctx context.Context, pipeline types.PipelineID) (release func(), err error) {
	t.mu.Lock()
	p := t.pipelines[pipeline]
	if p == nil {
		p = &turn{taken: make(chan struct{}, 1)}
		t.pipelines[pipeline] = p
	}
	p.users++
	t.mu.Unlock()

	select {
	case p.taken <- struct{}{}:
		return func() {
			<-p.taken
			t.leave(pipeline, p)
		}, nil
	case <-ctx.Done():
		t.leave(pipeline, p)
		return nil, ctx.Err()
	}
}

func (t *turns) leave(pipeline types.PipelineID, p *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(t.pipelines, pipeline)
	}
}
