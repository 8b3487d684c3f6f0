package sinktest

import (
	"context"
	"io"
	"math"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

var inputCases = []testCase{
	{name: "an event of no type, and one of both, is refused without effect", run: func(f *fix) {
		f.deliver(event(0))
		for name, bad := range map[string]types.SinkEvent{
			"no type": {}, "a trace only": {Traceparent: traceparent}, "both types": {Match: event(1).Match, Emission: emission(2).Emission},
		} {
			f.wantInvalid(f.sink.Sink.Deliver(f.ctx, bad), "%s", name)
		}
		f.deliver(event(3))
		f.wantReceived(event(0), event(3))
	}},
	{name: "an event of no type in a batch is refused alone", applies: batches, run: func(f *fix) {
		if f.most() < 3 {
			f.Skip("the sink takes fewer than three events at once")
		}
		outcomes := f.deliverBatch([]types.SinkEvent{event(0), {}, event(1)})
		require.NoError(f, outcomes[0])
		f.wantInvalid(outcomes[1], "an event of no type")
		require.NoError(f, outcomes[2])
		f.wantReceived(event(0), event(1))
	}},
}

// odd are events of every kind of JSON, compact.
var odd = []string{
	`{"b":1.50,"a":[]}`, `{"n":9007199254740993,"big":1e400,"neg":-0.0}`, `"\u00e9 é <&> \u2028 \" \\ \/ \n"`, `"` + "\u2028\U0001f30b" + `"`,
	`null`, `true`, `0`, `{}`, `[]`, `""`, `{"a":{"b":[{"c":null}]}}`, `{"type":"match","data":{}}`, `{"match_id":"another"}`,
}

var deliverCases = []testCase{
	{name: "a match arrives with all that it has", run: func(f *fix) {
		traced := event(1)
		traced.Traceparent = traceparent
		extreme := event(2)
		extreme.Match.Cursor = types.Cursor{Primary: math.MaxInt64, Secondary: 1<<53 + 1}
		extreme.Match.Index, extreme.Match.TS = math.MaxInt64, -1
		f.deliver(event(0), traced, extreme)
		f.wantReceived(event(0), traced, extreme)
	}},
	{name: "an emission arrives with all that it has", run: func(f *fix) {
		plain := emission(1)
		plain.Emission.Key, plain.Emission.Hits = "", 1
		traced := emission(2)
		traced.Traceparent = traceparent
		f.deliver(emission(0), plain, traced)
		f.wantReceived(emission(0), plain, traced)
	}},
	{name: "an event arrives byte for byte", run: func(f *fix) {
		var all []types.SinkEvent
		for i, text := range odd {
			all = append(all, withEvent(i, text))
		}
		f.deliver(all...)
		f.wantReceived(all...)
	}},
	{name: "the largest event arrives whole, with others around it", run: func(f *fix) {
		all := []types.SinkEvent{event(0), withEvent(1, large(f.h.MaxEventBytes)), event(2)}
		f.deliver(all...)
		f.wantReceived(all...)
	}},
	{name: "events that are delivered one by one arrive in order", run: func(f *fix) {
		f.deliver(events(0, 40)...)
		f.wantReceived(events(0, 40)...)
	}},
	{name: "an event that is delivered again bears its match id again", run: func(f *fix) {
		f.deliver(event(0), event(0), event(1), event(0))
		got := f.sink.Received(f)
		seen := map[types.MatchID]int{}
		for _, e := range got { // a receiver may keep one of them
			require.NotNil(f, e.Origin())
			seen[e.Origin().ID]++
		}
		require.Len(f, seen, 2)
		require.GreaterOrEqual(f, seen[event(0).Match.ID], 1)
		require.LessOrEqual(f, seen[event(0).Match.ID], 3)
		require.Equal(f, 1, seen[event(1).Match.ID])
	}},
	{name: "the event stays the caller's", run: func(f *fix) {
		for i, e := range []types.SinkEvent{event(0), emission(1)} {
			before := e.Clone()
			f.deliver(e)
			require.Equal(f, before, e, "the event number %d that was delivered: want the sink to leave it as it was", i)
			origin := e.Origin()
			for j := range origin.Event {
				origin.Event[j] = 'X'
			}
			origin.ID, origin.TS = "spoilt", 99
			if e.Emission != nil {
				e.Emission.Key = "spoilt"
			}
		}
		f.wantReceived(event(0), emission(1))
	}},
	{name: "many deliver at the same time", run: func(f *fix) {
		const givers, each = 8, 15
		errs := make(chan error, givers*each)
		var wait sync.WaitGroup
		for giver := range givers {
			wait.Go(func() {
				for i := range each {
					errs <- f.sink.Sink.Deliver(f.ctx, event(giver*each+i))
				}
			})
		}
		wait.Wait()
		close(errs)
		for err := range errs {
			require.NoError(f, err)
		}
		f.wantAll(givers*each, each)
	}},
	{name: "a delivery whose context has ended is not made", run: func(f *fix) {
		f.wantContext(context.Canceled, f.sink.Sink.Deliver(fixture.Cancelled(f), event(0)))
		ctx, cancel := context.WithDeadline(f.ctx, time.Unix(0, 0))
		defer cancel()
		f.wantContext(context.DeadlineExceeded, f.sink.Sink.Deliver(ctx, event(1)))
		f.deliver(event(2))
		f.wantReceived(event(2))
	}},
}

// wantAll asserts that the receiver has got the events 0 to n-1, whole, and in their order within each
// group of so many.
func (f *fix) wantAll(n, group int) {
	f.Helper()
	got := f.sink.Received(f)
	require.Len(f, got, n)
	byID := map[types.MatchID]int{}
	for i, e := range got {
		require.NotNil(f, e.Match)
		byID[e.Match.ID] = i
	}
	for i := range n {
		at, ok := byID[event(i).Match.ID]
		require.True(f, ok, "the event %d has not arrived", i)
		require.Equal(f, event(i), got[at])
		if i%group > 0 {
			require.Greater(f, at, byID[event(i-1).Match.ID], "the event %d came before the one in front of it", i)
		}
	}
}

var failureCases = []testCase{
	{name: "a transient failure goes away", applies: fails(Transient), run: func(f *fix) { f.failsAndWorks(Transient) }},
	{name: "a receiver that asks for a pause is left alone for that time", applies: fails(RateLimited), run: func(f *fix) { f.failsAndWorks(RateLimited) }},
	{name: "a permanent failure says so", applies: fails(Permanent), run: func(f *fix) { f.failsAndWorks(Permanent) }},
	{name: "a receiver that fails for one match takes the others", applies: func(h Harness) bool { return h.FailsOne }, run: func(f *fix) {
		for _, how := range f.h.Fails {
			n := 10 * len(f.sink.Received(f))
			f.fail(how, event(n+1).Match.ID)
			before := f.sink.Received(f)
			f.deliver(event(n))
			f.wantFailure(how, f.sink.Sink.Deliver(f.ctx, event(n+1)))
			f.deliver(event(n + 2))
			f.wantReceived(append(before, event(n), event(n+2))...)
		}
	}},
}

// failsAndWorks delivers to a receiver that works, fails, and works again.
func (f *fix) failsAndWorks(how Failure) {
	f.Helper()
	f.deliver(event(0))
	f.fail(how)
	for range 2 {
		f.wantFailure(how, f.sink.Sink.Deliver(f.ctx, secretEvent(1)))
	}
	f.wantReceived(event(0))
	f.fail(Works)
	f.deliver(secretEvent(1), event(2))
	f.wantReceived(event(0), secretEvent(1), event(2))
}

var lifeCases = []testCase{
	{name: "a sink is what its harness claims", run: func(f *fix) {
		_, isBatch := f.sink.Sink.(ports.BatchSink)
		require.Equal(f, f.h.Batches, isBatch, "the harness says whether its sink is a ports.BatchSink: want the sink to be the same, got %T", f.sink.Sink)
		_, isCloser := f.sink.Sink.(io.Closer)
		require.Equal(f, f.h.Closes, isCloser, "the harness says whether its sink is an io.Closer: want the sink to be the same, got %T", f.sink.Sink)
	}},
	{name: "a closed sink takes nothing", applies: closes, run: func(f *fix) {
		closer, ok := f.sink.Sink.(io.Closer)
		require.True(f, ok, "the harness claims Closes: want an io.Closer, got %T", f.sink.Sink)
		f.deliver(event(0))
		for range 2 {
			require.NoError(f, closer.Close())
			err := f.sink.Sink.Deliver(f.ctx, event(1))
			require.ErrorIs(f, err, ports.ErrStoreClosed)
			require.True(f, ports.IsTransient(err), "another sink of the same name may take it later")
			if f.h.Batches {
				for _, err := range f.deliverBatch([]types.SinkEvent{event(2)}) {
					require.ErrorIs(f, err, ports.ErrStoreClosed)
				}
			}
		}
		f.wantReceived(event(0))
	}},
	{name: "closing beside deliveries loses none that was taken", applies: closes, run: func(f *fix) {
		closer, ok := f.sink.Sink.(io.Closer)
		require.True(f, ok, "the harness claims Closes: want an io.Closer, got %T", f.sink.Sink)
		const givers, each = 4, 10
		taken := make([][]error, givers)
		var wait sync.WaitGroup
		for giver := range givers {
			taken[giver] = make([]error, each)
			wait.Go(func() {
				for i := range each {
					taken[giver][i] = f.sink.Sink.Deliver(f.ctx, event(giver*each+i))
				}
			})
		}
		closed := make(chan error, 1)
		wait.Go(func() { closed <- closer.Close() })
		wait.Wait()
		require.NoError(f, <-closed)
		got := map[types.MatchID]bool{}
		for _, e := range f.sink.Received(f) {
			got[e.Origin().ID] = true
		}
		for giver := range givers {
			for i, err := range taken[giver] {
				if err == nil {
					require.True(f, got[event(giver*each+i).Match.ID], "the event %d of %d was taken: want it to have arrived", i, giver)
					continue
				}
				require.ErrorIs(f, err, ports.ErrStoreClosed)
			}
		}
	}},
}
