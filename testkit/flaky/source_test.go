package flaky_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

func newSource(faults ...flaky.Fault) (ports.Source, *model.Stream, *flaky.Faults) {
	clock := fixture.NewClock(fixture.Epoch())
	stream := model.NewStream(clock)
	f := flaky.New(clock, 1, faults...)
	return flaky.NewSource(stream.Open(nil), f), stream, f
}

func TestAReadFailsWithAndWithoutItsEffect(t *testing.T) {
	t.Parallel()
	source, stream, faults := newSource(
		flaky.Fault{Op: flaky.SourceRead, Nth: 1, Err: errFault},
		flaky.Fault{Op: flaky.SourceRead, Nth: 3, Err: errFault, AfterEffect: true},
	)
	stream.Append(`1`, `2`, `3`)
	for i, want := range []string{"", "1", "", "3"} {
		events, err := source.Read(t.Context(), 1)
		if want == "" {
			require.ErrorIs(t, err, errFault, "read %d", i)
			require.Nil(t, events)
			continue
		}
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.Equal(t, want, string(events[0].Data), "read %d", i)
	}
	require.Equal(t, 4, faults.Calls(flaky.SourceRead))
	require.Equal(t, 2, faults.Hits(""))
}

func TestSettlingAndAcceptingFail(t *testing.T) {
	t.Parallel()
	source, stream, _ := newSource(
		flaky.Fault{Op: flaky.SourceSettle, Nth: 1, Err: errFault},
		flaky.Fault{Op: flaky.SourceAccept, Nth: 1, Err: errFault},
		flaky.Fault{Op: flaky.SourceAccept, Nth: 2, Err: errFault, AfterEffect: true},
	)
	require.ErrorIs(t, source.Settle(t.Context(), types.Cursor{Primary: 1}), errFault)
	require.Nil(t, stream.Settled())
	require.NoError(t, source.Settle(t.Context(), types.Cursor{Primary: 2}))
	require.Equal(t, &types.Cursor{Primary: 2}, stream.Settled())

	acceptor, ok := source.(ports.Acceptor)
	require.True(t, ok)
	for _, data := range []string{`"none"`, `"lost answer"`} {
		require.ErrorIs(t, acceptor.Accept(t.Context(), []types.Event{{Data: []byte(data)}}), errFault)
	}
	events, err := source.Read(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, `"lost answer"`, string(events[0].Data))
}

// bare, unordered and both are sources of other abilities than the model's.
type (
	bare      struct{ ports.Source }
	unordered struct{ ports.Source }
	both      struct{ *model.Source }
)

func (unordered) Unordered() bool { return true }
func (both) Unordered() bool      { return true }

func TestAFlakySourceIsWhatItsSourceIs(t *testing.T) {
	t.Parallel()
	_, stream, faults := newSource()
	plain := stream.Open(nil)
	for _, tc := range []struct {
		source           ports.Source
		accepts, anyWise bool
	}{{bare{plain}, false, false}, {unordered{plain}, false, true}, {plain, true, false}, {both{plain}, true, true}} {
		wrapped := flaky.NewSource(tc.source, faults)
		_, accepts := wrapped.(ports.Acceptor)
		u, ok := wrapped.(ports.Unordered)
		require.Equal(t, tc.accepts, accepts, "%T", tc.source)
		require.Equal(t, tc.anyWise, ok && u.Unordered(), "%T", tc.source)
	}
}

func TestAHaltedSourceStaysOpenWithin(t *testing.T) {
	t.Parallel()
	_, stream, faults := newSource()
	inner := stream.Open(nil)
	source := flaky.NewSource(inner, faults)
	stream.Append(`1`)
	faults.Halt()
	_, err := source.Read(t.Context(), 1)
	require.ErrorIs(t, err, flaky.ErrHalted)
	require.ErrorIs(t, source.Close(), flaky.ErrHalted)
	events, err := inner.Read(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, events, 1)
}

func TestADeliveryFailsWithAndWithoutItsEffect(t *testing.T) {
	t.Parallel()
	inner := model.NewBatchSink(10)
	hold := make(chan struct{})
	faults := flaky.New(fixture.NewClock(fixture.Epoch()), 1,
		flaky.Fault{Op: flaky.SinkDeliver, Nth: 1, Err: errFault},
		flaky.Fault{Op: flaky.SinkDeliver, Nth: 2, Err: errFault, AfterEffect: true},
		flaky.Fault{Op: flaky.SinkDeliverBatch, Nth: 1, Err: errFault},
		flaky.Fault{Op: flaky.SinkDeliverBatch, Nth: 2, Err: errFault, AfterEffect: true},
		flaky.Fault{Op: flaky.SinkDeliverBatch, Nth: 4, Hold: hold},
	)
	sink := flaky.NewSink(inner, faults)
	batch, ok := sink.(ports.BatchSink)
	require.True(t, ok)
	require.Equal(t, 10, batch.MaxBatch())
	n := 0
	next := func() types.SinkEvent {
		n++
		match := fixture.Match(n)
		return types.SinkEvent{Match: &match}
	}
	received := func() (ids []types.MatchID) {
		for _, e := range inner.Received() {
			ids = append(ids, e.Origin().ID)
		}
		return ids
	}
	require.ErrorIs(t, sink.Deliver(t.Context(), next()), errFault)
	require.ErrorIs(t, sink.Deliver(t.Context(), next()), errFault)
	require.NoError(t, sink.Deliver(t.Context(), next()))
	require.Equal(t, []types.MatchID{fixture.MatchID(2), fixture.MatchID(3)}, received())

	require.Equal(t, []error{errFault, errFault}, batch.DeliverBatch(t.Context(), []types.SinkEvent{next(), next()}))
	require.Equal(t, []error{errFault, errFault}, batch.DeliverBatch(t.Context(), []types.SinkEvent{next(), next()}))
	require.Equal(t, []error{nil}, batch.DeliverBatch(t.Context(), []types.SinkEvent{next()}))
	require.Equal(t, []types.MatchID{fixture.MatchID(2), fixture.MatchID(3), fixture.MatchID(6), fixture.MatchID(7), fixture.MatchID(8)}, received())

	done := make(chan []error, 1)
	go func() { done <- batch.DeliverBatch(t.Context(), []types.SinkEvent{next()}) }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, faults.WaitForHeld(ctx, 1))
	require.Len(t, received(), 5)
	close(hold)
	require.Equal(t, []error{nil}, <-done)
	require.Len(t, received(), 6)
}

// one, many and closing are sinks of other abilities than the model's.
type (
	one     struct{ ports.Sink }
	many    struct{ ports.BatchSink }
	closing struct{ *model.Sink }
)

func TestAFlakySinkIsWhatItsSinkIs(t *testing.T) {
	t.Parallel()
	faults := flaky.New(fixture.NewClock(fixture.Epoch()), 1)
	inner := model.NewBatchSink(10)
	for _, tc := range []struct {
		sink            ports.Sink
		batches, closes bool
	}{{one{inner}, false, false}, {many{inner}, true, false}, {closing{inner.Sink}, false, true}, {inner, true, true}} {
		wrapped := flaky.NewSink(tc.sink, faults)
		_, batches := wrapped.(ports.BatchSink)
		_, closes := wrapped.(io.Closer)
		require.Equal(t, tc.batches, batches, "%T", tc.sink)
		require.Equal(t, tc.closes, closes, "%T", tc.sink)
	}
	closer, ok := flaky.NewSink(inner, faults).(io.Closer)
	require.True(t, ok)
	require.NoError(t, closer.Close())
	require.ErrorIs(t, inner.Deliver(t.Context(), types.SinkEvent{Match: &types.Match{}}), ports.ErrStoreClosed)
}
