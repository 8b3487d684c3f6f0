package sourcetest

import (
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Harness makes the streams whose sources the suite tests, and says what the sources can do.
type Harness struct {
	// New makes a fresh, empty stream. It is called from many cases at the same time.
	New func(t testing.TB) Stream

	// Ends says that a source ends behind what the stream held when it was opened: its Read returns
	// io.EOF there. Without it a Read waits for more.
	Ends bool
	// Unordered says that the source is a ports.Unordered that says so: an event that was not settled
	// may come again at a newer cursor, and then bears its ID again.
	Unordered bool
	// Accepts says that the source is a ports.Acceptor.
	Accepts bool
	// Lends says that the source lends its events out of a place from which others could take them, and
	// that Close gives back what was not settled, at once. The suite wants it of an unordered source.
	Lends bool
	// MaxEventBytes is the size of the largest event that the stream takes; 0 is 1 MiB.
	MaxEventBytes int
	// Patience is how long the suite waits, on the machine's clock, for something that must come; 0 is
	// 20 seconds.
	Patience time.Duration
}

// Stream is one stream of a harness.
type Stream struct {
	// Open opens a source of the stream that begins behind a cursor, or at the beginning for nil. At
	// any time at most one is open. The suite closes what it gets; a harness whose own clean-up closes
	// it again must bear that.
	Open func(t testing.TB, from *types.Cursor) ports.Source
	// Append adds an event at the end of the stream for each payload: JSON on one line, of which some
	// have white space. It is called while a source is open, and while none is. Nil where the source
	// is the only way into the stream: the suite calls its Accept then.
	Append func(t testing.TB, payloads ...string)
	// AppendBad adds what is no event, and holds the text; nil where no such thing can stand in the
	// stream.
	AppendBad func(t testing.TB, text string)
	// Tick is called every millisecond or so while the suite waits for a Read, as to move a clock that
	// the source polls by; nil for a source that needs no such help.
	Tick func()
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"input", inputCases},
		{"order", orderCases},
		{"event", eventCases},
		{"cursor", cursorCases},
		{"wait", waitCases},
		{"end", endCases},
		{"accept", acceptCases},
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

func follows(h Harness) bool   { return !h.Ends }
func ends(h Harness) bool      { return h.Ends }
func ordered(h Harness) bool   { return !h.Unordered }
func accepts(h Harness) bool   { return h.Accepts }
func unordered(h Harness) bool { return h.Unordered }

// fix is the stream of one case, with the steps that cases are written in.
type fix struct {
	*testing.T
	h      Harness
	stream Stream
	s      ports.Source // nil: none is open
	ctx    context.Context
}

func newFix(t *testing.T, h Harness) *fix {
	t.Helper()
	if h.MaxEventBytes == 0 {
		h.MaxEventBytes = ports.MaxJSONBytes
	}
	if h.Patience == 0 {
		h.Patience = 20 * time.Second
	}
	f := &fix{T: t, h: h, ctx: t.Context()}
	f.stream = h.New(t)
	t.Cleanup(func() {
		if f.s != nil {
			require.NoError(t, f.s.Close(), "closing the source")
		}
	})
	return f
}

// open opens a source, behind the cursor unless that is nil.
func (f *fix) open(from *types.Cursor) {
	f.Helper()
	require.Nil(f, f.s, "the suite opens one source at a time")
	f.s = f.stream.Open(f, from)
}

func (f *fix) close() {
	f.Helper()
	require.NoError(f, f.s.Close(), "closing the source")
	f.s = nil
}

func (f *fix) reopen(from *types.Cursor) {
	f.Helper()
	f.close()
	f.open(from)
}

// add appends payloads.
func (f *fix) add(payloads ...string) {
	f.Helper()
	if f.stream.Append != nil {
		f.stream.Append(f, payloads...)
		return
	}
	if f.s == nil {
		f.open(nil)
		defer f.close()
	}
	acceptor, ok := f.s.(ports.Acceptor)
	require.True(f, ok, "a stream without Append: want its source to be a ports.Acceptor, got %T", f.s)
	var events []types.Event
	for _, p := range payloads {
		events = append(events, types.Event{TS: acceptTS, Data: []byte(p)})
	}
	require.NoError(f, acceptor.Accept(f.ctx, events), "accept")
}

const acceptTS = 1_772_366_400_000

// result is what a Read came to.
type result struct {
	events []types.Event
	err    error
}

// reading is a Read in a goroutine of its own.
type reading struct {
	f      *fix
	done   chan result
	cancel context.CancelFunc
}

func (f *fix) start(limit int) *reading {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	f.Cleanup(cancel)
	r := &reading{f: f, done: make(chan result, 1), cancel: cancel}
	s := f.s
	go func() {
		events, err := s.Read(ctx, limit)
		r.done <- result{events, err}
	}()
	return r
}

// pending asserts that the Read has not ended, after it had some time to.
func (r *reading) pending() {
	r.f.Helper()
	for range 20 {
		for range 100 {
			runtime.Gosched()
		}
		r.f.tick()
	}
	select {
	case got := <-r.done:
		require.Failf(r.f, "a Read has ended", "want it to wait, got %d events and the error %v", len(got.events), got.err)
	default:
	}
}

// wait returns what the Read comes to.
func (r *reading) wait() result {
	r.f.Helper()
	limit := time.NewTimer(r.f.h.Patience)
	defer limit.Stop()
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case got := <-r.done:
			return got
		case <-ticks.C:
			r.f.tick()
		case <-limit.C:
			require.Fail(r.f, "a Read goes on waiting", "want it to end; %v have passed", r.f.h.Patience)
		}
	}
}

func (f *fix) tick() {
	if f.stream.Tick != nil {
		f.stream.Tick()
	}
}

// read makes one Read that must bring events, and checks what holds of each Read.
func (f *fix) read(limit int) []types.Event {
	f.Helper()
	got := f.start(limit).wait()
	require.NoError(f, got.err, "read of at most %d", limit)
	f.checkBatch(got.events, limit)
	return got.events
}

func (f *fix) checkBatch(events []types.Event, limit int) {
	f.Helper()
	require.NotEmpty(f, events, "a Read without an error: want events")
	if len(events) > limit {
		require.Equal(f, events[len(events)-1].Cursor, events[limit-1].Cursor, "a Read of at most %d gave %d events: want no more, but for those of the last cursor", limit, len(events))
	}
	for i, e := range events {
		require.LessOrEqual(f, e.Cursor.Primary, uint64(ports.MaxStoredInteger), "a cursor's part")
		require.LessOrEqual(f, e.Cursor.Secondary, uint64(ports.MaxStoredInteger), "a cursor's part")
		if i > 0 {
			before := events[i-1]
			order := e.Cursor.Compare(before.Cursor)
			require.True(f, order > 0 || order == 0 && e.Index > before.Index, "the event at %v, %d comes behind the one at %v, %d: want cursors, then indexes, to grow", e.Cursor, e.Index, before.Cursor, before.Index)
		}
	}
}

// readAll reads until there are n events, a few at a time, and asserts that their cursors grow.
func (f *fix) readAll(n, limit int) []types.Event {
	f.Helper()
	var all []types.Event
	for len(all) < n {
		events := f.read(limit)
		if len(all) > 0 {
			last := all[len(all)-1].Cursor
			require.Positive(f, events[0].Cursor.Compare(last), "a Read began at the cursor %v: want one behind all that were returned before, up to %v", events[0].Cursor, last)
		}
		all = append(all, events...)
	}
	require.Len(f, all, n, "the events of the stream")
	return all
}

// nothingMore asserts that the source has no more events yet.
func (f *fix) nothingMore() {
	f.Helper()
	r := f.start(ports.MaxReadEvents)
	if f.h.Ends {
		got := r.wait()
		require.ErrorIs(f, got.err, io.EOF, "read behind the last event: want io.EOF, got %d events", len(got.events))
		return
	}
	r.pending()
	r.cancel()
	got := r.wait()
	require.ErrorIs(f, got.err, context.Canceled, "a Read whose context was cancelled, got %d events", len(got.events))
}

func (f *fix) settle(e types.Event) {
	f.Helper()
	require.NoError(f, f.s.Settle(f.ctx, e.Cursor), "settling through %v", e.Cursor)
}

// wantData asserts that events have the data of the payloads, in this order unless they are unordered
// and come again.
func (f *fix) wantData(payloads []string, events []types.Event, again bool) {
	f.Helper()
	want, got := make([]string, 0, len(payloads)), make([]string, 0, len(events))
	for _, p := range payloads {
		compact, err := ports.CompactJSON(p)
		require.NoError(f, err, "the suite's own payload %s", p)
		want = append(want, compact)
	}
	for _, e := range events {
		require.NoError(f, e.Err, "an event")
		got = append(got, string(e.Data))
	}
	if f.h.Unordered && again {
		require.ElementsMatch(f, want, got, "the data of events that come again")
		return
	}
	require.Equal(f, want, got, "the data of the events, in order")
}

// wantSame asserts that events are those of before, come again: as they were, but for the cursors of an
// unordered source, which are newer, and for the time, which may be that of the arrival.
func (f *fix) wantSame(before, now []types.Event) {
	f.Helper()
	type kept struct {
		Cursor   types.Cursor
		Index    uint64
		Identity string
		Data     string
		Trace    string
	}
	keep := func(events []types.Event) []kept {
		all := make([]kept, 0, len(events))
		for _, e := range events {
			k := kept{e.Cursor, e.Index, e.Identity(), string(e.Data), e.Traceparent}
			if f.h.Unordered {
				k.Cursor, k.Index = types.Cursor{}, 0
			}
			all = append(all, k)
		}
		return all
	}
	if f.h.Unordered {
		require.ElementsMatch(f, keep(before), keep(now), "events that come again")
		return
	}
	require.Equal(f, keep(before), keep(now), "events that come again")
}

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
	var e *ports.Error
	require.NotErrorAs(f, err, &e, "want the context's own error")
}
