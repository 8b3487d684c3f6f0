package sinktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Failure is a way in which a receiver fails.
type Failure string

// The failures.
const (
	Works       Failure = ""             // it takes what it gets
	Transient   Failure = "transient"    // it takes nothing now, but may later
	Permanent   Failure = "permanent"    // it will never take this
	RateLimited Failure = "rate limited" // it asks for a pause
)

// Harness makes the sinks that the suite tests, and says what they and their receivers can do.
type Harness struct {
	// Open makes a sink with a fresh receiver that works. It is called from many cases at the same
	// time.
	Open func(t testing.TB) Sink

	// Batches says that the sink is a ports.BatchSink.
	Batches bool
	// Closes says that the sink is an io.Closer.
	Closes bool
	// Fails are the ways in which Sink.Fail can make a receiver fail.
	Fails []Failure
	// FailsOne says that Sink.Fail can make a receiver fail for single matches.
	FailsOne bool
	// Pause is what a receiver that is RateLimited asks for.
	Pause time.Duration
	// MaxEventBytes is the size of the largest event (the member Event of a match) that the sink takes;
	// 0 is 1 MiB.
	MaxEventBytes int
}

// Sink is one sink of a harness.
type Sink struct {
	Sink ports.Sink
	// Received returns what the receiver has got so far, in order, as it reads it: the suite compares
	// all of it with what was delivered. It is called while no delivery is under way.
	Received func(t testing.TB) []types.SinkEvent
	// Fail makes the receiver fail from now on: for the given matches, or for all where none is given.
	// Each call stands in place of the one before. Nil with a harness that claims no failures.
	Fail func(t testing.TB, how Failure, only ...types.MatchID)
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"input", inputCases},
		{"deliver", deliverCases},
		{"failure", failureCases},
		{"batch", batchCases},
		{"life", lifeCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					if c.applies != nil && !c.applies(h) {
						t.Skip("the case is about a capability that the harness does not claim")
					}
					c.run(newFix(t, h))
				})
			}
		})
	}
}

type testCase struct {
	name    string
	applies func(Harness) bool // nil: to all
	run     func(*fix)
}

func batches(h Harness) bool { return h.Batches }
func closes(h Harness) bool  { return h.Closes }

func fails(how Failure) func(Harness) bool {
	return func(h Harness) bool { return slices.Contains(h.Fails, how) }
}

func both(conditions ...func(Harness) bool) func(Harness) bool {
	return func(h Harness) bool {
		for _, holds := range conditions {
			if !holds(h) {
				return false
			}
		}
		return true
	}
}

// fix is the sink of one case, with the steps that cases are written in.
type fix struct {
	*testing.T
	h    Harness
	sink Sink
	ctx  context.Context
}

func newFix(t *testing.T, h Harness) *fix {
	t.Helper()
	if h.MaxEventBytes == 0 {
		h.MaxEventBytes = ports.MaxJSONBytes
	}
	f := &fix{T: t, h: h, ctx: t.Context(), sink: h.Open(t)}
	t.Cleanup(func() {
		if closer, ok := f.sink.Sink.(io.Closer); ok {
			require.NoError(t, closer.Close(), "closing the sink")
		}
	})
	return f
}

// A W3C trace context.
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// event is the match number n.
func event(n int) types.SinkEvent {
	cursor := types.Cursor{Primary: uint64(n) + 1, Secondary: uint64(n % 2)}
	return types.SinkEvent{Match: &types.Match{
		ID:       types.NewMatchID("earthquakes", "strong", "alerts", fmt.Sprint(n)),
		Pipeline: "earthquakes",
		Monitor:  "strong",
		Cursor:   cursor,
		Index:    uint64(n % 3),
		TS:       1_772_366_400_000 + int64(n),
		Event:    fmt.Appendf(nil, `{"n":%d,"mag":4.50}`, n),
	}}
}

func events(from, n int) []types.SinkEvent {
	var all []types.SinkEvent
	for i := range n {
		all = append(all, event(from+i))
	}
	return all
}

// withEvent is the match number n with another event.
func withEvent(n int, text string) types.SinkEvent {
	e := event(n)
	e.Match.Event = []byte(text)
	return e
}

// emission is what a gate makes of the match number n.
func emission(n int) types.SinkEvent {
	return types.SinkEvent{Emission: &types.Emission{
		Match: *event(n).Match, Key: "Ätna <&> \"x\"", Hits: 1<<63 - 1, FirstTS: -1, LastTS: 1_772_366_400_000,
	}}
}

func (f *fix) deliver(all ...types.SinkEvent) {
	f.Helper()
	for _, e := range all {
		require.NoError(f, f.sink.Sink.Deliver(f.ctx, e), "delivering the match %s", e.Origin().ID)
	}
}

// wantReceived asserts that the receiver has got these events, in this order, and no others.
func (f *fix) wantReceived(want ...types.SinkEvent) {
	f.Helper()
	got := f.sink.Received(f)
	f.sameIDs(want, got)
	for i := range want {
		require.Equal(f, want[i], got[i], "the event number %d of the receiver", i)
	}
}

func (f *fix) sameIDs(want, got []types.SinkEvent) {
	f.Helper()
	require.Equal(f, idsOf(want), idsOf(got), "the match ids of the receiver")
}

func idsOf(all []types.SinkEvent) []types.MatchID {
	ids := make([]types.MatchID, 0, len(all))
	for _, e := range all {
		if origin := e.Origin(); origin != nil {
			ids = append(ids, origin.ID)
			continue
		}
		ids = append(ids, "(none)")
	}
	return ids
}

func (f *fix) fail(how Failure, only ...types.MatchID) {
	f.Helper()
	require.NotNil(f, f.sink.Fail, "the harness claims failures: want it to have Fail")
	f.sink.Fail(f, how, only...)
}

// batch is the sink as one of batches.
func (f *fix) batch() ports.BatchSink {
	f.Helper()
	sink, ok := f.sink.Sink.(ports.BatchSink)
	require.True(f, ok, "the harness claims Batches: want a ports.BatchSink, got %T", f.sink.Sink)
	return sink
}

func (f *fix) deliverBatch(all []types.SinkEvent) []error {
	f.Helper()
	outcomes := f.batch().DeliverBatch(f.ctx, all)
	require.Len(f, outcomes, len(all), "the outcomes of a batch: want one an event")
	return outcomes
}

// most is the size of the largest batch that the suite makes.
func (f *fix) most() int { return min(f.batch().MaxBatch(), 50) }

// wantFailure asserts that an error is what the failure of a receiver gives, and names no content.
func (f *fix) wantFailure(how Failure, err error) {
	f.Helper()
	require.Error(f, err, "delivering to a receiver that fails (%s)", how)
	require.False(f, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), "the failure of a receiver is none of a context, got %v", err)
	require.Equal(f, how != Permanent, ports.IsTransient(err), "is it transient that a receiver fails (%s)? got %v", how, err)
	pause, limited := ports.RetryAfter(err)
	require.Equal(f, how == RateLimited, limited, "does the error of a receiver that fails (%s) ask for a pause? got %v", how, err)
	if limited {
		require.Equal(f, f.h.Pause, pause, "the pause that a receiver asks for")
	}
	require.NotContains(f, err.Error(), secret, "an error holds no payload")
}

// secret stands in the events that no error may show.
const secret = "canary-of-the-suite"

func secretEvent(n int) types.SinkEvent { return withEvent(n, `{"token":"`+secret+`"}`) }

// wantInvalid asserts that an error is what a bad input gives.
func (f *fix) wantInvalid(err error, format string, args ...any) {
	f.Helper()
	require.ErrorIs(f, err, ports.ErrInvalidInput, append([]any{format}, args...)...)
	var e *ports.Error
	require.ErrorAs(f, err, &e)
	require.NotEmpty(f, e.Message, "an error says what is wrong")
	require.False(f, ports.IsTransient(err), "bad input stays bad: want a permanent error")
}

// wantContext asserts that an error is the context's own.
func (f *fix) wantContext(want, err error) {
	f.Helper()
	require.ErrorIs(f, err, want)
	require.False(f, ports.IsTransient(err), "an error of the context is not transient: its caller gave up")
}

func large(size int) string { return `"` + strings.Repeat("j", size-2) + `"` }
