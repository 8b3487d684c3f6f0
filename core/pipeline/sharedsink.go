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
// whoever is in it, for a while.
type sharedSink struct {
	sink     ports.Sink
	name     string // pipeline/sink
	counters *sinkCounters
	clock    ports.Clock

	mu     sync.Mutex
	users  int
	closed bool
	left   bool          // whoever closed it waits no longer: its last user closes it
	idle   chan struct{} // closed when it is closed and nobody is in it
}

func newSharedSink(sink ports.Sink, name string, counters *sinkCounters, clock ports.Clock) *sharedSink {
	return &sharedSink{sink: sink, name: name, counters: counters, clock: clock, idle: make(chan struct{})}
}

// enter reports whether the sink may be used. If so, leave has to be called.
func (s *sharedSink) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.users++
	return true
}

func (s *sharedSink) leave() {
	s.mu.Lock()
	s.users--
	last, left := s.closed && s.users == 0, s.left
	s.mu.Unlock()
	switch {
	case last && left:
		_ = s.release() // its owner, who could report it, was told that it is left open
	case last:
		close(s.idle)
	}
}

// Deliver implements ports.Sink, for replays. They count as other deliveries do.
func (s *sharedSink) Deliver(ctx context.Context, event types.SinkEvent) error {
	began := s.clock.Now()
	err := s.deliver(ctx, []types.SinkEvent{event})[0]
	now := s.clock.Now()
	s.counters.took(now.Sub(began))
	switch {
	case err == nil:
		s.counters.delivered.Add(1)
	case ctx.Err() == nil:
		s.counters.failed(err, now)
	}
	return err
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
	if !s.enter() {
		return repeat(len(events), ports.Errorf(ports.CodeStoreClosed, "sink.deliver", "the sink %s is closed, because its pipeline was stopped or configured anew", s.name))
	}
	defer s.leave()
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

// close refuses further deliveries, waits for those that are under way until limit ends, and closes the
// sink. One that does not return by then is left behind: it is closed when it does.
func (s *sharedSink) close(limit context.Context) error {
	s.mu.Lock()
	again, free := s.closed, s.users == 0
	s.closed = true
	s.mu.Unlock()
	switch {
	case again:
		return nil
	case free:
		return s.release()
	}
	select {
	case <-s.idle:
		return s.release()
	case <-limit.Done():
	}
	s.mu.Lock()
	s.left = s.users > 0
	left := s.left
	s.mu.Unlock()
	if !left {
		return s.release()
	}
	return ports.Errorf(ports.CodeBackendFailed, "sink.close", "the sink %s does not return from a delivery, and is left open until it does: see to its receiver", s.name)
}

func (s *sharedSink) release() error {
	if closer, ok := s.sink.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
