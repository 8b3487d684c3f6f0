package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const quakes types.PipelineID = "quakes"

// world is what outlives an engine: the storage, the streams, and what receivers have.
type world struct {
	storage ports.Storage

	mu      sync.Mutex
	streams map[types.PipelineID]*stream
	sinks   map[string]*receiver // pipeline/sink
	refuse  error                // of CheckPipeline
}

func newWorld() *world {
	return &world{storage: model.NewStorage(0), streams: map[types.PipelineID]*stream{}, sinks: map[string]*receiver{}}
}

func (w *world) stream(id types.PipelineID) *stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.streams[id]
	if !ok {
		s = &stream{grown: make(chan struct{})}
		w.streams[id] = s
	}
	return s
}

func (w *world) receiver(pipeline types.PipelineID, sink types.SinkID) *receiver {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := string(pipeline) + "/" + string(sink)
	r, ok := w.sinks[name]
	if !ok {
		r = &receiver{changed: make(chan struct{})}
		w.sinks[name] = r
	}
	return r
}

// The parts of an engine are those of the world.

// A sink of the module "alone" wants no other of its kind in the pipelines beside its own.
func (w *world) CheckPipeline(p config.Pipeline, beside ...config.Pipeline) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	alone := func(p config.Pipeline) bool {
		return slices.ContainsFunc(p.Sinks, func(s config.Sink) bool { return s.Module == "alone" })
	}
	for _, other := range beside {
		if other.ID != p.ID && alone(p) && alone(other) {
			return ports.Errorf(ports.CodeInvalidConfig, "test.check", "the place is taken by %s", other.ID)
		}
	}
	return w.refuse
}

func (w *world) OpenSource(_ context.Context, p config.Pipeline, from *types.Cursor) (ports.Source, error) {
	s := w.stream(p.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return nil, s.broken
	}
	position := 0
	if from != nil {
		position = int(from.Primary)
	}
	return &reader{stream: s, position: position, closed: make(chan struct{})}, nil
}

func (w *world) OpenSink(_ context.Context, pipeline types.PipelineID, s config.Sink) (ports.Sink, error) {
	r := w.receiver(pipeline, s.ID)
	if s.Module == "batch" {
		return batchSink{r}, nil
	}
	return r, nil
}

// engine makes an engine of the pipelines; it is closed when the test ends.
func (w *world) engine(t *testing.T, pipelines ...config.Pipeline) *pipeline.Engine {
	t.Helper()
	return w.engineWith(t, pipeline.Options{Pipelines: pipelines})
}

func (w *world) engineWith(t *testing.T, opts pipeline.Options) *pipeline.Engine {
	t.Helper()
	if opts.Storage == nil {
		opts.Storage = w.storage
	}
	opts.Parts = w
	if opts.SpillDir == "" {
		opts.SpillDir = t.TempDir()
	}
	if opts.Log == nil {
		opts.Log = fixture.Logger(t)
	}
	e, err := pipeline.NewEngine(opts)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e
}

// stream is what a source reads: event n has the cursor n/0, from 1.
type stream struct {
	mu      sync.Mutex
	events  []types.Event
	ended   bool
	broken  error
	settled types.Cursor
	grown   chan struct{} // closed when there is more
}

func (s *stream) append(payloads ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range payloads {
		n := len(s.events) + 1
		e := types.Event{Cursor: types.Cursor{Primary: uint64(n)}, TS: int64(n) * 1000, Data: json.RawMessage(p)}
		if p == "" {
			e.Data = json.RawMessage(`{"line":"?"}`)
			e.Err = fmt.Errorf("the line %d is no JSON", n)
		}
		s.events = append(s.events, e)
	}
	s.wake()
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

// fail makes readers fail, and openings too, until it is called with nil.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
	s.wake()
}

func (s *stream) wake() {
	close(s.grown)
	s.grown = make(chan struct{})
}

func (s *stream) settledTo() types.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}

// reader is an open source.
type reader struct {
	stream   *stream
	position int
	once     sync.Once
	closed   chan struct{}
}

func (r *reader) Read(ctx context.Context, most int) ([]types.Event, error) {
	for {
		s := r.stream
		s.mu.Lock()
		grown, broken, ended := s.grown, s.broken, s.ended
		events := slices.Clone(s.events[r.position:min(r.position+most, len(s.events))])
		s.mu.Unlock()
		switch {
		case broken != nil:
			return nil, broken
		case len(events) > 0:
			r.position += len(events)
			return events, nil
		case ended:
			return nil, io.EOF
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.closed:
			return nil, ports.Errorf(ports.CodeStoreClosed, "test.read", "closed")
		}
	}
}

func (r *reader) Settle(_ context.Context, through types.Cursor) error {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	if through.Compare(r.stream.settled) > 0 {
		r.stream.settled = through
	}
	return nil
}

func (r *reader) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}

// receiver is a sink and what it has. decide says what becomes of a delivery; nil takes it.
type receiver struct {
	mu      sync.Mutex
	events  []types.SinkEvent
	decide  func(ctx context.Context, event types.SinkEvent) error
	changed chan struct{} // closed at each delivery
}

func (r *receiver) Deliver(ctx context.Context, event types.SinkEvent) error {
	r.mu.Lock()
	decide := r.decide
	r.mu.Unlock()
	if decide != nil {
		if err := decide(ctx, event); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

func (r *receiver) deciding(decide func(context.Context, types.SinkEvent) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decide = decide
}

func (r *receiver) has() []types.SinkEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// primaries are the positions of what was received, in order.
func (r *receiver) primaries() []uint64 {
	var list []uint64
	for _, e := range r.has() {
		list = append(list, e.Origin().Cursor.Primary)
	}
	return list
}

// batchSink takes up to ten at once.
type batchSink struct{ *receiver }

func (batchSink) MaxBatch() int { return 10 }

func (s batchSink) DeliverBatch(ctx context.Context, events []types.SinkEvent) []error {
	outcomes := make([]error, len(events))
	for i, e := range events {
		if outcomes[i] = s.Deliver(ctx, e); outcomes[i] != nil && ports.IsTransient(outcomes[i]) {
			for j := i + 1; j < len(events); j++ {
				outcomes[j] = outcomes[i]
			}
			break
		}
	}
	return outcomes
}

var (
	errDown    = ports.Errorf(ports.CodeBackendFailed, "test.deliver", "the receiver is down")
	errRefused = ports.Errorf(ports.CodeBackendFailed, "test.deliver", "the receiver refuses it").WithClass(ports.Permanent)
)

// one is a pipeline with a monitor "strong" (mag >= 5) that delivers to the sink "alerts".
func one(change ...func(*config.Pipeline)) config.Pipeline {
	p := config.Pipeline{
		ID:       quakes,
		Source:   &config.Source{Store: config.Store{Module: "stream"}},
		Monitors: []config.Monitor{{ID: "strong", When: "mag >= 5", Sinks: []types.SinkID{"alerts"}}},
		Sinks:    []config.Sink{{ID: "alerts", Store: config.Store{Module: "receiver"}}},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func mags(values ...float64) []string {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprintf(`{"mag":%v}`, v))
	}
	return list
}

// many are n events of magnitude 5.
func many(n int) []string { return slices.Repeat(mags(5), n) }

func count(n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i + 1)
	}
	return list
}

// bubble runs a test in a time of its own, which passes when everybody waits.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	inBubble(t, f)
}

func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// pass lets time pass in a bubble, where it passes at once when all wait.
func pass(d time.Duration) { <-time.After(d) }

// settle lets a minute pass, in which everything that can happen has happened.
func settle() {
	pass(time.Minute)
	synctest.Wait()
}

func status(t *testing.T, e *pipeline.Engine, id types.PipelineID) types.PipelineStatus {
	t.Helper()
	s, err := e.Pipeline(t.Context(), id)
	require.NoError(t, err)
	return s
}

func letters(t *testing.T, s ports.Storage, id types.PipelineID) []types.DeadLetter {
	t.Helper()
	stored, err := s.ListDeadLetters(t.Context(), id, types.LetterQuery{Take: 1000})
	require.NoError(t, err)
	var list []types.DeadLetter
	for _, l := range stored {
		require.NoError(t, l.Err)
		list = append(list, l.Letter)
	}
	return list
}

// ids of match ids, sorted.
func ids(events []types.SinkEvent) []types.MatchID {
	set := map[types.MatchID]bool{}
	for _, e := range events {
		set[e.Origin().ID] = true
	}
	return slices.Sorted(maps.Keys(set))
}
