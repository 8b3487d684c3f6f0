package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Engine runs pipelines. All methods may be called from many goroutines.
type Engine struct {
	opts   Options
	pauses *pauses

	// deciding is held by whoever reads the resources and decides what becomes of the pipelines: what was
	// read later is decided later.
	deciding chan struct{}
	// stir holds a token when the resources have to be looked at again.
	stir chan struct{}

	working sync.WaitGroup  // all that Close waits for. It grows under mu, and not once the engine is closed
	ctx     context.Context // ends when the engine is closed
	end     context.CancelFunc
	hurry   context.Context // ends when a Close waits no longer
	press   context.CancelFunc

	spill       string
	removeSpill func() error

	mu      sync.Mutex
	started bool
	closed  bool
	places  map[types.PipelineID]*place
}

// NewEngine makes an engine. It opens nothing before Start.
func NewEngine(opts Options) (*Engine, error) {
	opts, err := opts.check("pipeline.new")
	if err != nil {
		return nil, err
	}
	e := &Engine{
		opts:     opts,
		pauses:   newPauses(opts.Storage, opts.Log),
		deciding: make(chan struct{}, 1),
		stir:     make(chan struct{}, 1),
		places:   map[types.PipelineID]*place{},
	}
	e.ctx, e.end = context.WithCancel(context.Background())
	e.hurry, e.press = context.WithCancel(context.Background())
	return e, nil
}

// Start starts the pipelines of the file and of the resources, in the background. A pipeline of the file
// whose configuration cannot be used is INVALID_CONFIG, and nothing runs; one of a resource has a status
// that says so. What fails later is started again, with growing pauses. ctx bounds the start only.
func (e *Engine) Start(ctx context.Context) error {
	const op = "pipeline.start"
	done, err := e.decide(ctx, op)
	if err != nil {
		return err
	}
	defer done()
	if e.isStarted() {
		return ports.Errorf(ports.CodeInvalidInput, op, "the engine was started before: start it once")
	}
	exchanges, err := e.begin(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.started = true
	e.mu.Unlock()
	return await(ctx, exchanges)
}

func (e *Engine) isStarted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started
}

func (e *Engine) begin(ctx context.Context) ([]*exchange, error) {
	for _, p := range e.opts.Pipelines {
		if err := e.opts.Parts.CheckPipeline(p); err != nil {
			return nil, err
		}
	}
	resources, err := e.resources(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the pipelines that are resources: %w", err)
	}
	if e.spill, e.removeSpill, err = e.opts.spillDir(); err != nil {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, "pipeline.start", "the directory for what waits for slow sinks cannot be made: %w; give the engine one that it can write", err)
	}
	e.pauses.refresh(ctx)
	for _, p := range e.opts.Pipelines {
		e.plan(p.ID, e.unit(p, types.OriginFile, nil))
	}
	e.follow(resources)
	e.background(e.watchPauses)
	e.background(e.watchResources)
	return e.exchanges(), nil
}

// background runs f beside all else. Close waits for it.
func (e *Engine) background(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.working.Go(f)
	}
}

// unit makes a unit of a configuration. Its counters go on where those of one that it replaces were.
func (e *Engine) unit(p config.Pipeline, origin types.PipelineOrigin, before *unit) *unit {
	u := &unit{
		engine: e, config: p, origin: origin, log: e.opts.Log.With(slog.String("pipeline", string(p.ID))),
		sinks: map[types.SinkID]*sharedSink{}, counters: newCounters(),
	}
	if before != nil {
		u.counters = before.counters
	}
	return u
}

// watchPauses keeps up with pauses.
func (e *Engine) watchPauses() {
	for e.rest(pausePoll, nil) {
		e.pauses.refresh(e.ctx)
	}
}

// watchResources keeps up with resources that others have changed. It waits for no pipeline that takes its
// time to stop.
func (e *Engine) watchResources() {
	failing := false
	for e.rest(refreshPoll, e.stir) {
		_, err := e.revise(e.ctx)
		if err != nil && !failing && e.ctx.Err() == nil {
			e.opts.Log.Warn("the pipelines that are resources cannot be read; those that run go on", "error", err)
		}
		failing = err != nil
	}
}

// rest waits, unless it is stirred. It is false when the engine is closed.
func (e *Engine) rest(d time.Duration, stir <-chan struct{}) bool {
	timer := e.opts.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-stir:
	case <-e.ctx.Done():
	}
	return e.ctx.Err() == nil
}

// limit is the time that a stop has for what is under way.
func (e *Engine) limit() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(e.hurry)
	timer := e.opts.Clock.NewTimer(e.opts.StopTimeout)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Close stops all pipelines at the same time: each finishes the sends that are under way, for at most
// StopTimeout or until ctx ends, saves its last checkpoint, and has nothing under way in the storage any
// more. Then it closes the sinks. The storage stays open. Closing again does nothing.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	if !first {
		return nil
	}
	defer e.press()
	defer context.AfterFunc(ctx, e.press)()
	e.end()
	places := e.sorted()
	errs := make([]error, len(places), len(places)+1)
	var stopping sync.WaitGroup
	for i, p := range places {
		stopping.Go(func() {
			p.turn <- struct{}{} // whoever has it ends soon, and nobody gets it any more
			if u := e.at(p); u != nil {
				errs[i] = e.retire(u)
			}
		})
	}
	stopping.Wait()
	e.working.Wait()
	if e.removeSpill != nil {
		errs = append(errs, e.removeSpill())
	}
	return errors.Join(errs...)
}

// all are the pipelines that are there, by id.
func (e *Engine) all() []*unit {
	var units []*unit
	for _, p := range e.sorted() {
		if u := e.at(p); u != nil {
			units = append(units, u)
		}
	}
	return units
}

func (e *Engine) find(op string, id types.PipelineID) (*unit, error) {
	if err := ports.CheckPipeline(op, id); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p, ok := e.places[id]; ok && p.unit != nil {
		return p.unit, nil
	}
	there := map[types.PipelineID]bool{}
	for other, p := range e.places {
		if p.unit != nil {
			there[other] = true
		}
	}
	return nil, ports.Errorf(ports.CodeNotFound, op, "there is no pipeline %q: %s", id, among(there))
}

// among lists what there is, for an error.
func among[K ~string, V any](named map[K]V) string {
	if len(named) == 0 {
		return "there is none"
	}
	names := make([]string, 0, len(named))
	for name := range named {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return "there are " + strings.Join(names, ", ")
}

// Pipelines returns all pipelines as they stand, ordered by id.
func (e *Engine) Pipelines(context.Context) ([]types.PipelineStatus, error) {
	units := e.all()
	list := make([]types.PipelineStatus, 0, len(units))
	for _, u := range units {
		list = append(list, u.status())
	}
	return list, nil
}

// Pipeline returns one pipeline as it stands. A missing one is NOT_FOUND.
func (e *Engine) Pipeline(_ context.Context, id types.PipelineID) (types.PipelineStatus, error) {
	u, err := e.find("pipeline.get", id)
	if err != nil {
		return types.PipelineStatus{}, err
	}
	return u.status(), nil
}

// Sink implements ports.SinkResolver with the sinks that the pipelines deliver to. What it returns is
// STORE_CLOSED once the pipeline is stopped or configured anew.
func (e *Engine) Sink(ctx context.Context, id types.PipelineID, sink types.SinkID) (ports.Sink, error) {
	const op = "pipeline.sink"
	u, err := e.find(op, id)
	if err != nil {
		return nil, err
	}
	if sink == SourceName {
		return nil, ports.Errorf(ports.CodeNotFound, op, "what the source found is no event, so it cannot be delivered: mend it where it came from, and discard the letter")
	}
	names := map[types.SinkID]bool{}
	for _, s := range u.config.Sinks {
		if s.ID == sink {
			return u.sink(ctx, s)
		}
		names[s.ID] = true
	}
	return nil, ports.Errorf(ports.CodeNotFound, op, "the pipeline %q has no sink %q: %s", id, sink, among(names))
}

// Accept hands events to the source of a pipeline, which stores them durably, all or none. A pipeline
// that is not there is NOT_FOUND, one whose source takes no events INVALID_INPUT, and one that does not
// run just now STORE_CLOSED, which is transient.
func (e *Engine) Accept(ctx context.Context, id types.PipelineID, events []types.Event) error {
	const op = "pipeline.accept"
	u, err := e.find(op, id)
	if err != nil {
		return err
	}
	r := u.current()
	if r == nil {
		return ports.Errorf(ports.CodeStoreClosed, op, "the pipeline %q does not run just now: %s; send the events again later", id, u.status().State)
	}
	acceptor, ok := r.source.(ports.Acceptor)
	if !ok {
		return ports.Errorf(ports.CodeInvalidInput, op, "the source of pipeline %q is of module %s, which takes no events from outside", id, u.config.Source.Module)
	}
	return acceptor.Accept(ctx, events)
}

// Suspend stops a pipeline, waits until nothing of it is under way, calls fn, and starts it again behind
// the checkpoint that is stored then. Where there is no such pipeline it only calls fn, and none begins
// meanwhile. It waits for no other pipeline.
func (e *Engine) Suspend(ctx context.Context, id types.PipelineID, fn func(context.Context) error) error {
	p, release, err := e.take(ctx, "pipeline.suspend", id)
	if err != nil {
		return err
	}
	defer release()
	u := e.at(p)
	if u == nil {
		return fn(ctx)
	}
	u.stop()
	defer u.start()
	return fn(ctx)
}

// HealthCheck says which pipelines do not run as they should.
func (e *Engine) HealthCheck(ctx context.Context) error {
	var errs []error
	for _, u := range e.all() {
		if err := u.health(ctx); err != nil {
			errs = append(errs, fmt.Errorf("pipeline %s: %w", u.config.ID, err))
		}
	}
	return errors.Join(errs...)
}
