package adminhttp

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// gate bounds the memory that requests with events take, whose clients may be as slow as they like. A
// pipeline has a share of the places, so that whoever has its token holds up no other.
type gate struct {
	above  int64         // the bytes of a request from which on it needs a place
	each   int           // the places of one pipeline
	places chan struct{} // of all; holds a token for each that is taken

	mu        sync.Mutex
	pipelines map[types.PipelineID]*share
}

// share is that of one pipeline, and is kept while anybody is at it.
type share struct {
	taken chan struct{}
	users int
}

func newGate(above int64, places int) *gate {
	return &gate{above: above, each: places / 2, places: make(chan struct{}, places), pipelines: map[types.PipelineID]*share{}}
}

// enter waits for a place, up to the timeout.
func (g *gate) enter(ctx context.Context, op string, id types.PipelineID, timeout time.Duration) (leave func(), err error) {
	own := g.join(id)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// The own share comes first: who waits for that takes nothing from the others.
	for _, places := range []chan struct{}{own.taken, g.places} {
		select {
		case places <- struct{}{}:
			continue
		case <-limited.Done():
		}
		if places == g.places {
			<-own.taken
		}
		g.part(id, own)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, ports.Errorf(ports.CodeBackendFailed, op, "for %v there was no place for another request with events above %d bytes, of which a pipeline has %d at a time, and all have %d; nothing was accepted: send fewer at a time, then repeat", timeout, g.above, g.each, cap(g.places)).
			WithReason(ports.ReasonBusy)
	}
	return func() { <-g.places; <-own.taken; g.part(id, own) }, nil
}

func (g *gate) join(id types.PipelineID) *share {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.pipelines[id]
	if s == nil {
		s = &share{taken: make(chan struct{}, g.each)}
		g.pipelines[id] = s
	}
	s.users++
	return s
}

func (g *gate) part(id types.PipelineID, s *share) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(g.pipelines, id)
	}
}

// gatedBody is a body that passes through gates as it grows. What has not arrived takes no place.
type gatedBody struct {
	io.ReadCloser
	enter func(*gate) (leave func(), err error)
	gates []*gate // those that are still ahead, the lowest first
	read  int64
	left  []func()
	err   error // of a gate that let nobody in
}

// Read implements io.Reader.
func (b *gatedBody) Read(p []byte) (int, error) {
	for len(b.gates) > 0 && b.read >= b.gates[0].above {
		leave, err := b.enter(b.gates[0])
		if err != nil {
			b.err = err
			return 0, err
		}
		b.left, b.gates = append(b.left, leave), b.gates[1:]
	}
	if len(b.gates) > 0 {
		p = p[:min(int64(len(p)), b.gates[0].above-b.read)]
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	return n, err
}

// leave gives the places back.
func (b *gatedBody) leave() {
	for _, leave := range b.left {
		leave()
	}
}
