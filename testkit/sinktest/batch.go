package sinktest

import (
	"context"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

var batchCases = []testCase{
	{name: "the most events of a batch are 1 to 1000, and always the same", applies: batches, run: func(f *fix) {
		most := f.batch().MaxBatch()
		require.GreaterOrEqual(f, most, 1)
		require.LessOrEqual(f, most, ports.MaxBatchEvents)
		f.deliverBatch(events(0, 1))
		require.Equal(f, most, f.batch().MaxBatch())
	}},
	{name: "a batch of any size arrives in order, with all that it has", applies: batches, run: func(f *fix) {
		most := f.batch().MaxBatch()
		var want []types.SinkEvent
		for _, size := range []int{1, min(2, most), min(10, most), most} {
			all := events(len(want), size)
			all[0].Traceparent = traceparent
			if size > 2 {
				all[1] = emission(len(want) + 1)
				all[2] = withEvent(len(want)+2, odd[len(want)%len(odd)])
			}
			for i, err := range f.deliverBatch(all) {
				require.NoError(f, err, "the event %d of a batch of %d", i, size)
			}
			want = append(want, all...)
		}
		f.wantReceived(want...)
	}},
	{name: "a batch of none does nothing", applies: batches, run: func(f *fix) {
		f.deliverBatch(nil)
		f.deliverBatch([]types.SinkEvent{})
		f.wantReceived()
	}},
	{name: "batches and single deliveries keep their order", applies: batches, run: func(f *fix) {
		n := f.most()
		f.deliver(event(0))
		f.deliverBatch(events(1, n))
		f.deliver(event(n + 1))
		f.wantReceived(events(0, n+2)...)
	}},
	{name: "the events of a batch stay the caller's", applies: batches, run: func(f *fix) {
		all := events(0, f.most())
		before := make([]types.SinkEvent, 0, len(all))
		for _, e := range all {
			before = append(before, e.Clone())
		}
		f.deliverBatch(all)
		require.Equal(f, before, all, "the events that were delivered: want the sink to leave them as they were")
		for i := range all {
			all[i].Match.Event[0] = 'X'
			all[i].Match.ID = "spoilt"
			all[i] = types.SinkEvent{}
		}
		f.wantReceived(before...)
	}},
	{name: "a batch whose context has ended is not delivered", applies: batches, run: func(f *fix) {
		all := events(0, f.most())
		outcomes := f.batch().DeliverBatch(fixture.Cancelled(f), all)
		require.Len(f, outcomes, len(all))
		for _, err := range outcomes {
			f.wantContext(context.Canceled, err)
		}
		f.deliverBatch(all[:1])
		f.wantReceived(all[0])
	}},
	{name: "many deliver batches at the same time", applies: batches, run: func(f *fix) {
		const givers, rounds = 4, 5
		size := min(f.most(), 10)
		outcomes := make(chan []error, givers*rounds)
		sink := f.batch()
		var wait sync.WaitGroup
		for giver := range givers {
			wait.Go(func() {
				for round := range rounds {
					outcomes <- sink.DeliverBatch(f.ctx, events((giver*rounds+round)*size, size))
				}
			})
		}
		wait.Wait()
		close(outcomes)
		for errs := range outcomes {
			require.Len(f, errs, size)
			for _, err := range errs {
				require.NoError(f, err)
			}
		}
		f.wantAll(givers*rounds*size, size)
	}},
	{name: "a batch to a receiver that fails has the outcomes of single deliveries", applies: batches, run: func(f *fix) {
		for _, how := range f.h.Fails {
			f.fail(how)
			f.wantFailure(how, f.sink.Sink.Deliver(f.ctx, secretEvent(0)))
			all := events(0, f.most())
			all[0] = secretEvent(0)
			for _, err := range f.deliverBatch(all) {
				f.wantFailure(how, err)
			}
			f.wantReceived()
		}
	}},
	{name: "a permanent failure in a batch is that of its event alone", applies: both(batches, fails(Permanent), failsOne), run: func(f *fix) {
		n := f.most()
		all := events(0, n)
		bad := n / 2
		f.fail(Permanent, all[bad].Match.ID)
		for i, err := range f.deliverBatch(all) {
			if i == bad {
				f.wantFailure(Permanent, err)
				continue
			}
			require.NoError(f, err, "the event %d of %d, of which %d is refused", i, n, bad)
		}
		f.wantReceived(slices.Delete(slices.Clone(all), bad, bad+1)...)
	}},
	{name: "a transient failure in a batch says what has arrived, and the rest can follow", applies: both(batches, fails(Transient), failsOne), run: func(f *fix) {
		f.failsInBatch(Transient)
	}},
	{name: "a receiver that asks for a pause in a batch has what came before", applies: both(batches, fails(RateLimited), failsOne), run: func(f *fix) {
		f.failsInBatch(RateLimited)
	}},
}

func failsOne(h Harness) bool { return h.FailsOne }

// failsInBatch has the receiver fail for an event in the middle of a batch, and deliver once more what
// did not arrive.
func (f *fix) failsInBatch(how Failure) {
	f.Helper()
	n := f.most()
	all := events(0, n)
	bad := n / 2
	f.fail(how, all[bad].Match.ID)
	var arrived, rest []types.SinkEvent
	for i, err := range f.deliverBatch(all) {
		switch {
		case i == bad:
			f.wantFailure(how, err)
			rest = append(rest, all[i])
		case err == nil:
			arrived = append(arrived, all[i])
		default:
			require.Greater(f, i, bad, "an event in front of the one that fails: got %v", err)
			require.True(f, ports.IsTransient(err), "an event behind one that fails has its outcome, or has arrived, got %v", err)
			rest = append(rest, all[i])
		}
	}
	f.wantReceived(arrived...)
	f.fail(Works)
	for _, err := range f.deliverBatch(rest) {
		require.NoError(f, err)
	}
	f.wantReceived(append(arrived, rest...)...)
}
