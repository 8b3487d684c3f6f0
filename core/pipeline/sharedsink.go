package pipeline

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// sharedSink is an open sink of a pipeline, used by its lanes and by replays. Closing it waits for
// whoever is in it.
type sharedSink struct {
	sink ports.Sink
	name string // pipeline/sink

	mu     sync.RWMutex
	closed bool
}

// Deliver implements ports.Sink.
func (s *sharedSink) Deliver(ctx context.Context, event types.SinkEvent) error {
	return s.deliver(ctx, []types.SinkEvent{event})[0]
}

// batch is the most events that deliver takes.
func (s *sharedSink) batch() int {
	if batch, ok := s.sink.(ports.BatchSink); ok {
		return min(max(batch.MaxBatch(), 1), ports.MaxBatchEvents)
	}
	return 1
}

// deliver hands the events over and returns one outcome for each.
func (s *sharedSink) deliver(ctx context.Context, events []types.SinkEvent) []error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return repeat(len(events), ports.Errorf(ports.CodeStoreClosed, "sink.deliver", "the sink %s is closed, because its pipeline was stopped or configured anew", s.name))
	}
	batch, ok := s.sink.(ports.BatchSink)
	if !ok || len(events) == 1 {
		outcomes := make([]error, len(events))
		for i, event := range events {
			outcomes[i] = s.guard(func() error { return s.sink.Deliver(ctx, event) })
		}
		return outcomes
	}
	var outcomes []error
	err := s.guard(func() error {
		outcomes = batch.DeliverBatch(ctx, events)
		if len(outcomes) != len(events) {
			return ports.Errorf(ports.CodeBackendFailed, "sink.deliver", "the sink %s returned %d outcomes for %d events: this is a fault of its module", s.name, len(outcomes), len(events))
		}
		return nil
	})
	if err != nil {
		return repeat(len(events), err)
	}
	return outcomes
}

// guard turns a panic into a failure that is worth another attempt.
func (s *sharedSink) guard(deliver func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = ports.Errorf(ports.CodeBackendFailed, "sink.deliver", "the sink %s panicked: this is a fault of its module: %w", s.name, &panicked{r, debug.Stack()})
		}
	}()
	return deliver()
}

// panicked is the cause of a delivery that ended in a panic. Its text holds no value, which may be the
// event's.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("a panic of type %T", p.value) }

func repeat(n int, err error) []error {
	outcomes := make([]error, n)
	for i := range outcomes {
		outcomes[i] = err
	}
	return outcomes
}

// close waits for deliveries that are under way, then closes the sink.
func (s *sharedSink) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if closer, ok := s.sink.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
