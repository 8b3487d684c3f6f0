package pipeline

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/stowage-go/stowage/core/checkpoint"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// unit is a pipeline of an engine in one configuration: its sinks, and one run after the other.
type unit struct {
	engine   *Engine
	log      *slog.Logger
	config   config.Pipeline
	origin   types.PipelineOrigin
	version  uint64 // of the resource
	text     string // of the resource
	broken   error  // why the configuration cannot be used; then nothing runs
	counters *counters

	// Who has the turn at the unit's place starts and stops it.
	cancel context.CancelFunc // ends the goroutine; nil while there is none
	done   chan struct{}

	opening sync.Mutex // one opens sinks at a time

	mu       sync.Mutex
	sinks    map[types.SinkID]*sharedSink
	closed   bool
	state    types.PipelineState
	stopping bool // it is to become stopped
	failure  error
	problem  error // why a newer configuration is refused
	retryAt  time.Time
	run      *run
}

// start runs the pipeline until stop.
func (u *unit) start() {
	if u.broken != nil {
		u.become(types.PipelineFailed, u.broken, time.Time{})
		return
	}
	u.counters.keep(u.config)
	if u.config.Source == nil {
		u.become(types.PipelineIdle, nil, time.Time{})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	u.cancel, u.done = cancel, make(chan struct{})
	u.become(types.PipelineStarting, nil, time.Time{})
	go func() {
		defer close(u.done)
		u.loop(ctx)
	}()
}

// stop ends the run, if there is one, and waits until nothing of it is under way. The sinks stay open.
func (u *unit) stop() {
	if u.cancel == nil {
		return
	}
	u.setStopping(true)
	u.cancel()
	<-u.done
	u.cancel = nil
	u.setStopping(false)
}

func (u *unit) setStopping(is bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopping = is
}

// loop starts the pipeline again whenever it fails.
func (u *unit) loop(ctx context.Context) {
	for n := 1; ; n++ {
		began := u.engine.opts.Clock.Now()
		err := u.once(ctx)
		switch {
		case ctx.Err() != nil:
			u.become(types.PipelineStopped, err, time.Time{})
			return
		case err == nil:
			u.become(types.PipelineFinished, nil, time.Time{})
			<-ctx.Done()
			return
		}
		now := u.engine.opts.Clock.Now()
		if now.Sub(began) > restartMax {
			n = 1 // it had run well
		}
		pause := checkpoint.BackOff(restartMin, restartMax, n, u.engine.opts.Random())
		u.become(types.PipelineFailed, err, now.Add(pause))
		u.log.Error("the pipeline failed; it is started again", "in", pause.String(), "error", err)
		timer := u.engine.opts.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			u.become(types.PipelineStopped, err, time.Time{})
			return
		}
		u.counters.restarts.Add(1)
		u.become(types.PipelineStarting, err, time.Time{})
	}
}

// once is one run. Without an error the source has ended and all of it is dealt with, or ctx has ended.
func (u *unit) once(ctx context.Context) error {
	sinks, err := u.openSinks(ctx)
	if err != nil {
		return err
	}
	e := u.engine
	r := &run{
		id: u.config.ID, config: u.config, storage: e.opts.Storage, clock: e.opts.Clock, log: u.log,
		random: e.opts.Random, pauses: e.pauses, tracing: tracing{e.opts.Tracer}, counters: u.counters,
		room: make(chan struct{}, 1),
	}
	r.stopping, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.aborted, r.abort = context.WithCancel(context.WithoutCancel(ctx))
	defer r.abort()
	if err := r.prepare(ctx, e.opts.Parts, sinks, e.spill); err != nil {
		return err
	}
	u.mu.Lock()
	u.run = r
	u.mu.Unlock()
	u.become(types.PipelineRunning, nil, time.Time{})
	u.log.Info("the pipeline runs", "source", u.config.Source.Module, "behind", r.behind())
	err = r.read(e.limit)
	r.finish(e.limit)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil {
		err = r.failed()
	}
	return err
}

// behind is the cursor behind which a run began, for the log.
func (r *run) behind() string {
	r.marks.mu.Lock()
	defer r.marks.mu.Unlock()
	if r.marks.saved == nil {
		return "nothing"
	}
	return r.marks.saved.String()
}

// openSinks opens those that are not open.
func (u *unit) openSinks(ctx context.Context) (map[types.SinkID]*sharedSink, error) {
	all := make(map[types.SinkID]*sharedSink, len(u.config.Sinks))
	for _, s := range u.config.Sinks {
		sink, err := u.sink(ctx, s)
		if err != nil {
			return nil, err
		}
		all[s.ID] = sink
	}
	return all, nil
}

func (u *unit) sink(ctx context.Context, s config.Sink) (*sharedSink, error) {
	u.opening.Lock()
	defer u.opening.Unlock()
	name := string(u.config.ID) + "/" + string(s.ID)
	u.mu.Lock()
	open, closed := u.sinks[s.ID], u.closed
	u.mu.Unlock()
	if closed {
		return nil, ports.Errorf(ports.CodeStoreClosed, "sink.open", "the sink %s is closed, because its pipeline was stopped or configured anew", name)
	}
	if open != nil {
		return open, nil
	}
	sink, err := u.engine.opts.Parts.OpenSink(ctx, u.config.ID, s)
	if err != nil {
		return nil, err
	}
	shared := newSharedSink(sink, name, u.counters.sink(s.ID), u.engine.opts.Clock)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sinks[s.ID] = shared
	return shared, nil
}

// close closes the sinks of a unit that is stopped. One that is used until limit ends is closed later, by
// whoever uses it last.
func (u *unit) close(limit context.Context) error {
	u.opening.Lock()
	defer u.opening.Unlock()
	u.mu.Lock()
	u.closed = true
	sinks := u.sinks
	u.sinks = nil
	u.mu.Unlock()
	var errs []error
	for _, s := range sinks {
		errs = append(errs, s.close(limit))
	}
	return errors.Join(errs...)
}

func (u *unit) become(state types.PipelineState, failure error, retryAt time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.state, u.failure, u.retryAt = state, failure, retryAt
	if state != types.PipelineRunning && state != types.PipelineFinished {
		u.run = nil
	}
}

// refuse keeps why a newer configuration is not taken; nil takes it back.
func (u *unit) refuse(problem error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.problem = problem
}

// refuses reports whether there is a newer configuration that is not taken.
func (u *unit) refuses() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.problem != nil
}

// current is the run that is under way, nil if there is none.
func (u *unit) current() *run {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.state != types.PipelineRunning {
		return nil
	}
	return u.run
}

// status is the pipeline as it stands.
func (u *unit) status() types.PipelineStatus {
	u.mu.Lock()
	state, failure, problem, retryAt, r := u.state, u.failure, u.problem, u.retryAt, u.run
	if u.stopping && state != types.PipelineStopped {
		state, retryAt = types.PipelineStopping, time.Time{}
	}
	u.mu.Unlock()
	id := u.config.ID
	paused := func(target types.Pause) bool {
		is, _ := u.engine.pauses.paused(target)
		return is
	}
	s := types.PipelineStatus{
		ID: id, State: state, Origin: u.origin, Version: u.version, RetryAt: retryAt,
		Restarts: u.counters.restarts.Load(), Events: u.counters.events.Load(), BadEvents: u.counters.bad.Load(),
		Monitors: []types.MonitorStatus{}, Sinks: []types.SinkStatus{},
	}
	for _, err := range []error{failure, problem} {
		if err != nil {
			s.Error = err.Error()
		}
	}
	if state == types.PipelineRunning && paused(types.PipelineOf(id)) {
		s.State = types.PipelinePaused
	}
	if u.config.Source != nil {
		s.Source = u.config.Source.Module
	}
	pending, waiting := map[types.SinkID]int{}, map[types.SinkID]time.Time{}
	if r != nil {
		r.marks.report(&s, u.engine.opts.Clock)
		for key, l := range r.lanes {
			pending[key.sink] += l.pending()
			if until, first := l.nextTry(), waiting[key.sink]; first.IsZero() || !until.IsZero() && until.Before(first) {
				waiting[key.sink] = until
			}
		}
	}
	for _, m := range u.config.Monitors {
		s.Monitors = append(s.Monitors, u.counters.monitor(m.ID).status(m.ID, paused(types.MonitorOf(id, m.ID))))
	}
	for _, sink := range u.config.Sinks {
		of := u.counters.sink(sink.ID).status(sink, paused(types.SinkOf(id, sink.ID)), pending[sink.ID])
		of.WaitingUntil = waiting[sink.ID]
		s.Sinks = append(s.Sinks, of)
	}
	return s
}

// health is nil unless the pipeline failed, or cannot store how far it is.
func (u *unit) health(ctx context.Context) error {
	u.mu.Lock()
	state, failure, r := u.state, u.failure, u.run
	u.mu.Unlock()
	switch {
	case state == types.PipelineFailed:
		return failure
	case r != nil:
		return r.ledger.writer.HealthCheck(ctx)
	}
	return nil
}
