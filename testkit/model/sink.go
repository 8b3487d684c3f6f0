package model

import (
	"context"
	"sync"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Sink is a ports.Sink, and an io.Closer, that keeps what it gets.
type Sink struct {
	mu       sync.Mutex
	received []types.SinkEvent
	fail     func(types.SinkEvent) error
	closed   bool
}

// NewSink makes a sink that takes everything.
func NewSink() *Sink { return &Sink{} }

// Fail has each delivery ask the function whether it fails; nil takes that back. It is called by one
// goroutine at a time, and may not call the sink.
func (s *Sink) Fail(fail func(types.SinkEvent) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// Received is what was delivered, in order, as a copy.
func (s *Sink) Received() []types.SinkEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]types.SinkEvent, 0, len(s.received))
	for _, e := range s.received {
		all = append(all, e.Clone())
	}
	return all
}

// Deliver implements ports.Sink.
func (s *Sink) Deliver(ctx context.Context, event types.SinkEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deliver(ctx, event)
}

func (s *Sink) deliver(ctx context.Context, event types.SinkEvent) error {
	const op = "sink.deliver"
	if err := ports.CheckSinkEvent(op, event); err != nil {
		return err
	}
	if s.closed {
		return ports.Errorf(ports.CodeStoreClosed, op, "the model sink is closed")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.fail != nil {
		if err := s.fail(event); err != nil {
			return err
		}
	}
	s.received = append(s.received, event.Clone())
	return nil
}

// Close makes every later delivery STORE_CLOSED.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// BatchSink is a [Sink] that is also a ports.BatchSink, whose receiver wants the order kept.
type BatchSink struct {
	*Sink
	most int
}

// NewBatchSink makes a sink that takes up to most events at once.
func NewBatchSink(most int) *BatchSink { return &BatchSink{NewSink(), most} }

// MaxBatch implements ports.BatchSink.
func (s *BatchSink) MaxBatch() int { return s.most }

// DeliverBatch implements ports.BatchSink. Of a batch that is too large none is taken.
func (s *BatchSink) DeliverBatch(ctx context.Context, events []types.SinkEvent) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	outcomes := make([]error, len(events))
	var stop error // what all the rest comes to
	if len(events) > s.most {
		stop = ports.Errorf(ports.CodeInvalidInput, "sink.deliverBatch", "a batch of %d events: give at most %d", len(events), s.most)
	}
	for i, e := range events {
		if outcomes[i] = stop; stop != nil {
			continue
		}
		outcomes[i] = s.deliver(ctx, e)
		if ports.IsTransient(outcomes[i]) {
			stop = outcomes[i]
		}
	}
	return outcomes
}
