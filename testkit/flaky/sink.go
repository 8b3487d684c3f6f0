package flaky

import (
	"context"
	"io"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Sink is a ports.Sink that fails as its Faults say.
type Sink struct {
	inner  ports.Sink
	faults *Faults
}

// NewSink wraps a sink. The wrapper is a ports.BatchSink or an io.Closer if the sink is: ask it with a
// type assertion, as one would ask the sink.
func NewSink(inner ports.Sink, faults *Faults) ports.Sink {
	s := &Sink{inner, faults}
	batch, batches := inner.(ports.BatchSink)
	closer, closes := inner.(io.Closer)
	switch {
	case batches && closes:
		return struct {
			*Sink
			flakyBatch
			flakyCloser
		}{s, flakyBatch{batch, faults}, flakyCloser{closer, faults}}
	case batches:
		return struct {
			*Sink
			flakyBatch
		}{s, flakyBatch{batch, faults}}
	case closes:
		return struct {
			*Sink
			flakyCloser
		}{s, flakyCloser{closer, faults}}
	}
	return s
}

// Deliver implements ports.Sink.
func (s *Sink) Deliver(ctx context.Context, event types.SinkEvent) error {
	return s.faults.around(ctx, SinkDeliver, func(ctx context.Context) error { return s.inner.Deliver(ctx, event) })
}

type flakyBatch struct {
	inner  ports.BatchSink
	faults *Faults
}

// MaxBatch implements ports.BatchSink.
func (b flakyBatch) MaxBatch() int { return b.inner.MaxBatch() }

// DeliverBatch implements ports.BatchSink. A call that fails has the error of the fault as the outcome of
// every event.
func (b flakyBatch) DeliverBatch(ctx context.Context, events []types.SinkEvent) []error {
	outcomes, err := result(ctx, b.faults.around, SinkDeliverBatch, func(ctx context.Context) ([]error, error) {
		return b.inner.DeliverBatch(ctx, events), nil
	})
	if err == nil {
		return outcomes
	}
	outcomes = make([]error, len(events))
	for i := range outcomes {
		outcomes[i] = err
	}
	return outcomes
}

type flakyCloser struct {
	inner  io.Closer
	faults *Faults
}

// Close closes the sink within, unless the faults have halted.
func (c flakyCloser) Close() error { return c.faults.close(c.inner.Close) }
