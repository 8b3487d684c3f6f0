package control_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errBoom = errors.New("boom")
	errSink = errors.New("the receiver is away")
)

// patience is how long a test waits for what is about to happen.
const patience = 30 * time.Second

// sink notes what it takes, and fails, blocks or panics as the test says.
type sink struct {
	// deliver, unless nil, is asked for every event before it is noted; an error keeps it out.
	deliver func(ctx context.Context, event types.SinkEvent) error

	mu    sync.Mutex
	taken []types.SinkEvent
}

func (s *sink) Deliver(ctx context.Context, event types.SinkEvent) error {
	if s.deliver != nil {
		if err := s.deliver(ctx, event); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, event)
	return nil
}

// ids are the matches that were taken, in order.
func (s *sink) ids() []types.MatchID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := []types.MatchID{}
	for _, event := range s.taken {
		ids = append(ids, event.Origin().ID)
	}
	return ids
}

func failing(err error) *sink {
	return &sink{deliver: func(context.Context, types.SinkEvent) error { return err }}
}

// resolver knows sinks by name, whatever the pipeline, and counts how often it is asked.
type resolver struct {
	mu    sync.Mutex
	sinks map[types.SinkID]ports.Sink
	errs  map[types.SinkID]error
	asked map[types.SinkID]int
}

func (r *resolver) Sink(_ context.Context, pipeline types.PipelineID, name types.SinkID) (ports.Sink, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[name]++
	if err, ok := r.errs[name]; ok {
		return nil, err
	}
	if s, ok := r.sinks[name]; ok {
		return s, nil
	}
	return nil, ports.Errorf(ports.CodeNotFound, "test.sink", "the pipeline %q has no sink %q", pipeline, name)
}

// world is a handle over a model store, with faults in between and the sink "alerts".
type world struct {
	*control.Handle
	store    *model.Storage // without the faults
	storage  *flaky.Storage
	faults   *flaky.Faults
	alerts   *sink
	resolver *resolver
	clock    *fixture.Clock
	log      *logBuffer
	stop     chan struct{} // closed, the process stops
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOver(t, func(s ports.Storage) control.Storage { return s })
}

func newWorldOver(t testing.TB, wrap func(ports.Storage) control.Storage) *world {
	t.Helper()
	w := &world{
		store:  model.NewStorage(0),
		alerts: &sink{},
		clock:  fixture.NewClock(fixture.Epoch()),
		log:    &logBuffer{},
		stop:   make(chan struct{}),
	}
	w.faults = flaky.New(w.clock, 1)
	w.storage = flaky.NewStorage(w.store, w.faults)
	w.resolver = &resolver{
		sinks: map[types.SinkID]ports.Sink{fixture.Sink: w.alerts},
		errs:  map[types.SinkID]error{},
		asked: map[types.SinkID]int{},
	}
	w.Handle = w.handle(t, wrap(w.storage))
	return w
}

func (w *world) handle(t testing.TB, storage control.Storage) *control.Handle {
	t.Helper()
	h, err := control.New(control.Options{Storage: storage, Sinks: w.resolver, Stopping: w.stop, Clock: w.clock, Log: slog.New(slog.NewTextHandler(w.log, nil))})
	require.NoError(t, err)
	return h
}

// record puts letters into the store, past the faults.
func (w *world) record(t testing.TB, letters ...types.DeadLetter) {
	t.Helper()
	for _, l := range letters {
		require.NoError(t, w.store.RecordDeadLetter(context.Background(), fixture.Pipeline, l))
	}
}

// letters are those of the store, in order, past the faults.
func (w *world) letters(t testing.TB) []types.StoredLetter {
	t.Helper()
	letters, err := w.store.ListDeadLetters(context.Background(), fixture.Pipeline, types.LetterQuery{Take: ports.MaxPageLimit})
	require.NoError(t, err)
	return letters
}

// kept are the ids of the letters of the store, in order.
func (w *world) kept(t testing.TB) []types.MatchID {
	t.Helper()
	ids := []types.MatchID{}
	for _, l := range w.letters(t) {
		ids = append(ids, l.Letter.MatchID)
	}
	return ids
}

// journal is what the store knows as delivered.
func (w *world) journal(t testing.TB) []types.Delivery {
	t.Helper()
	all, err := w.store.Delivered(context.Background(), fixture.Pipeline, types.Cursor{}, types.Cursor{Primary: ports.MaxStoredInteger})
	require.NoError(t, err)
	return all
}

// everything is all that the store holds.
func (w *world) everything(t testing.TB) []types.Record {
	t.Helper()
	var records []types.Record
	require.NoError(t, w.store.Export(context.Background(), func(r types.Record) error {
		records = append(records, r)
		return nil
	}))
	return records
}

func numbered(from, to int) []types.DeadLetter {
	var letters []types.DeadLetter
	for n := from; n <= to; n++ {
		letters = append(letters, fixture.DeadLetter(n))
	}
	return letters
}

func ids(numbers ...int) []types.MatchID {
	list := []types.MatchID{}
	for _, n := range numbers {
		list = append(list, fixture.MatchID(n))
	}
	return list
}

// receive waits for a value.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came", "after %v", patience)
		panic("unreachable")
	}
}

// logBuffer is a log that many goroutines may write to.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
