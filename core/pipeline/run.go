package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/stowage-go/stowage/core/checkpoint"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// run is a pipeline between a start and a stop: it begins behind the stored checkpoint, with the gates as
// they were there.
type run struct {
	id       types.PipelineID
	config   config.Pipeline
	storage  ports.Storage
	clock    ports.Clock
	log      *slog.Logger
	random   func() float64
	pauses   *pauses
	tracing  tracing
	counters *counters

	source    ports.Source
	unordered bool
	rules     *rules
	known     *known
	ledger    *ledger
	marks     progressMarks
	lanes     map[laneKey]*lane

	// stopping ends first: nothing new is begun. aborted ends what is under way.
	stopping context.Context
	stop     context.CancelFunc
	aborted  context.Context
	abort    context.CancelFunc

	room chan struct{} // holds a token when the reader may go on
	talk talk          // of what is no event

	mu      sync.Mutex
	failure error
	spill   error // a backlog's file cannot be written
	timeErr bool  // that an event has no time was reported
}

type laneKey struct {
	monitor types.MonitorID
	sink    types.SinkID
}

// prepare loads what the pipeline was, opens its source and makes its lanes. After an error nothing of
// it is left.
func (r *run) prepare(ctx context.Context, parts Parts, sinks map[types.SinkID]*sharedSink, spillDir string) error {
	module := r.config.Source.Module
	r.ledger = &ledger{pipeline: r.id, storage: r.storage, steps: map[uint64]*step{}, saved: r.saved, storing: make(chan struct{}, 1)}
	writer, err := checkpoint.New(r.ledger, checkpoint.Options{
		Pipeline: r.id, Module: &module, Interval: saveInterval, Random: r.random, Clock: r.clock, Log: r.log,
	})
	if err != nil {
		return err
	}
	r.ledger.writer = writer
	stored, found, err := writer.Start(ctx, r.storage)
	if err != nil {
		return err
	}
	var from *types.Cursor
	if found {
		from = &stored.Cursor
		r.marks.didSave(stored.Cursor)
	}
	if err := r.open(ctx, parts, from); err != nil {
		writer.Abort()
		return err
	}
	r.makeLanes(sinks, spillDir)
	return nil
}

func (r *run) open(ctx context.Context, parts Parts, from *types.Cursor) error {
	var err error
	if r.rules, err = compile(r.config, r.counters); err != nil {
		return err
	}
	if r.rules.gated() {
		if err := r.forgetAhead(ctx, from); err != nil {
			return err
		}
	}
	if err := r.rules.restore(ctx, r.storage, r.id, from, r.clock.Now().UnixMilli()); err != nil {
		return err
	}
	if r.source, err = parts.OpenSource(ctx, r.config, from); err != nil {
		return err
	}
	if u, ok := r.source.(ports.Unordered); ok {
		r.unordered = u.Unordered()
	}
	if r.known, err = r.settledBefore(ctx, from); err != nil {
		return errors.Join(err, r.source.Close())
	}
	return nil
}

// forgetAhead removes the hits that an earlier run stored ahead of the checkpoint: a source that lends its
// events out gives others at those cursors.
func (r *run) forgetAhead(ctx context.Context, checkpoint *types.Cursor) error {
	from := uint64(0)
	if checkpoint != nil {
		if checkpoint.Primary == ports.MaxStoredInteger {
			return nil
		}
		from = checkpoint.Primary + 1
	}
	return r.storage.Apply(ctx, r.id, types.Progress{HitsFrom: &from})
}

// settledBefore reads from the journal which matches of events that come again are settled already. An
// ordered source gives again what lies behind the checkpoint; another one may give anything.
func (r *run) settledBefore(ctx context.Context, from *types.Cursor) (*known, error) {
	first := types.Cursor{}
	if from != nil && !r.unordered {
		first = *from
	}
	journal, err := r.storage.Delivered(ctx, r.id, first, types.Cursor{Primary: math.MaxInt64, Secondary: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	k := &known{ids: make(map[types.MatchID]struct{}, len(journal)), bounded: r.unordered}
	for _, d := range journal {
		k.add(d.MatchID)
	}
	return k, nil
}

func (r *run) makeLanes(sinks map[types.SinkID]*sharedSink, spillDir string) {
	retries := map[types.SinkID]config.Retry{}
	for _, s := range r.config.Sinks {
		retries[s.ID] = withDefaults(s.Retry)
	}
	r.lanes = map[laneKey]*lane{}
	for _, m := range r.config.Monitors {
		for _, id := range m.Sinks {
			l := &lane{
				run: r, monitor: m.ID, id: id, sink: sinks[id], retry: retries[id], counters: r.counters.sink(id),
				needs:   []types.Pause{types.PipelineOf(r.id), types.MonitorOf(r.id, m.ID), types.SinkOf(r.id, id)},
				backlog: newBacklog(spillDir, fmt.Sprintf("%s-%s-%s", r.id, m.ID, id), laneMemory),
			}
			r.lanes[laneKey{m.ID, id}] = l
		}
	}
}

func withDefaults(r config.Retry) config.Retry {
	if r.Attempts == 0 {
		r.Attempts = DefaultAttempts
	}
	if r.Min == 0 {
		r.Min = DefaultRetryMin
	}
	if r.Max == 0 {
		r.Max = max(DefaultRetryMax, r.Min)
	}
	return r
}

// read is the run: it takes up events until the source has ended and all is settled (io.EOF), until it is
// stopped (nil), or until something fails. limit gives a source the time to return from a Read that is
// stopped.
func (r *run) read(limit func() (context.Context, context.CancelFunc)) error {
	for r.ready() {
		events, err := r.next(limit)
		switch {
		case len(events) > 0:
			err = r.takeUp(events)
		case err == nil:
			err = ports.Errorf(ports.CodeBackendFailed, "source.read", "the source of pipeline %q returned neither events nor an error: this is a fault of its module %s", r.id, r.config.Source.Module)
		}
		switch {
		case r.stopping.Err() != nil:
			return r.failed()
		case errors.Is(err, io.EOF):
			if r.settledAll() {
				return io.EOF
			}
			return r.failed()
		case err != nil:
			return err
		}
	}
	return r.failed()
}

// next reads from the source. A Read that does not end with its context is left behind, so that it holds
// up no stop.
func (r *run) next(limit func() (context.Context, context.CancelFunc)) ([]types.Event, error) {
	type result struct {
		events []types.Event
		err    error
	}
	read := make(chan result, 1)
	go func() {
		events, err := r.guardedRead()
		read <- result{events, err}
	}()
	select {
	case got := <-read:
		return got.events, got.err
	case <-r.stopping.Done():
	}
	patience, cancel := limit()
	defer cancel()
	select {
	case got := <-read:
		return got.events, got.err
	case <-patience.Done():
		r.log.Error("the source does not return from a read that was stopped; it is left behind", "module", r.config.Source.Module)
		return nil, errStopped
	}
}

// guardedRead reads from the source. A panic of its module fails this run, and no other.
func (r *run) guardedRead() (events []types.Event, err error) {
	defer func() {
		if v := recover(); v != nil {
			r.log.Error("a source panicked", "stack", string(debug.Stack()))
			events, err = nil, ports.Errorf(ports.CodeBackendFailed, "source.read", "the source of pipeline %q panicked: this is a fault of its module %s: %w", r.id, r.config.Source.Module, &panicked{value: v})
		}
	}()
	return r.source.Read(r.stopping, readBatch)
}

// ready waits until the next events may be read. It is false when the run stops.
func (r *run) ready() bool {
	for {
		if r.stopping.Err() != nil {
			return false
		}
		paused, changed := r.pauses.paused(types.PipelineOf(r.id))
		if !paused && !r.crowded() {
			return true
		}
		select {
		case <-r.room:
		case <-changed:
		case <-r.stopping.Done():
		}
	}
}

// crowded reports whether so much is under way that nothing more may be read.
func (r *run) crowded() bool {
	if r.marks.steps() >= maxOpenSteps || r.marks.unsaved() >= maxOpenEvents || r.ledger.heavy() || r.unordered && r.marks.unsaved() >= MaxUnsettled {
		return true
	}
	longest := 0
	for _, l := range r.lanes {
		longest = max(longest, l.pending())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spill != nil && longest <= laneMemory {
		r.log.Info("what waits for a slow lane can be kept again", "after", r.spill)
		r.spill = nil
	}
	return longest >= MaxBehind || r.spill != nil
}

// settledAll waits until everything that was read is settled. It is false when the run stops before.
func (r *run) settledAll() bool {
	for r.ledger.open() > 0 {
		select {
		case <-r.room:
		case <-r.stopping.Done():
			return false
		}
	}
	return true
}

// takeUp brings events through the monitors and gates to the lanes.
func (r *run) takeUp(events []types.Event) error {
	verdicts := r.judge(events)
	select {
	case <-r.stopping.Done():
		return nil // they come again
	default:
	}
	last := events[len(events)-1].Cursor
	number, err := r.ledger.begin(last)
	if err != nil {
		return err
	}
	r.marks.didRead(readMark{through: last, events: len(events), at: r.clock.Now()})
	r.counters.events.Add(uint64(len(events)))
	batches := map[*lane][]entry{}
	matches := 0
	var hits []types.GateHit
	var bad []types.Event
	for i, event := range events {
		if event.Err != nil {
			bad = append(bad, event)
			continue
		}
		event.TS = verdicts[i].ts
		r.reportTime(verdicts[i].timeErr, event)
		for j, rule := range r.rules.list {
			event, emission, hit := rule.offer(event, verdicts[i].picked[j])
			if hit != nil {
				hits = append(hits, *hit)
			}
			if event == nil {
				continue
			}
			for _, sink := range rule.sinks {
				if e, fresh := r.entry(number, rule, sink, *event, emission); fresh {
					l := r.lanes[laneKey{rule.id, sink}]
					batches[l] = append(batches[l], e)
					matches++
				}
			}
		}
	}
	if r.rules.gated() {
		r.ledger.counted(hits, r.mark(last))
	}
	if err := r.ledger.relieve(r.stopping); err != nil {
		return err
	}
	if err := r.refuse(bad); err != nil {
		return err
	}
	r.ledger.expect(number, matches)
	for l, entries := range batches {
		if err := l.push(entries); err != nil {
			r.cannotSpill(l, err)
		}
	}
	return r.ledger.settle(number, 1)
}

// judge evaluates the expressions, on several processors where that is worth it. It leaves off when the run
// stops: a batch of events that cost what one may takes many seconds.
func (r *run) judge(events []types.Event) []verdict {
	const chunk = 64
	verdicts := make([]verdict, len(events))
	one := func(from int) {
		for i := from; i < min(from+chunk, len(events)); i++ {
			if events[i].Err == nil && r.stopping.Err() == nil {
				verdicts[i] = r.rules.judge(events[i])
			}
		}
	}
	if len(events) <= chunk || runtime.GOMAXPROCS(0) == 1 {
		for from := 0; from < len(events); from += chunk {
			one(from)
		}
		return verdicts
	}
	var wg sync.WaitGroup
	for from := 0; from < len(events); from += chunk {
		wg.Go(func() { one(from) })
	}
	wg.Wait()
	return verdicts
}

// offer gives an event that was picked to the gate. event is nil unless something is let through.
func (r *rule) offer(event types.Event, p pick) (let *types.Event, emission *types.Emission, hit *types.GateHit) {
	if p.err != nil {
		r.counters.failed(p.err)
		return nil, nil, nil
	}
	if !p.matched {
		return nil, nil, nil
	}
	r.counters.matches.Add(1)
	if r.gate == nil {
		return &event, nil, nil
	}
	hit, emission = r.gate.Offer(event, p.key)
	if emission == nil {
		return nil, nil, hit
	}
	r.counters.emissions.Add(1)
	return &event, emission, hit
}

// entry makes what a lane delivers, unless the journal knows it.
func (r *run) entry(step uint64, rule *rule, sink types.SinkID, event types.Event, emission *types.Emission) (entry, bool) {
	id := types.NewMatchID(r.id, rule.id, sink, event.Identity())
	if r.known.has(id) {
		r.counters.sink(sink).duplicates.Add(1)
		return entry{}, false
	}
	match := types.Match{ID: id, Pipeline: r.id, Monitor: rule.id, Cursor: event.Cursor, Index: event.Index, TS: event.TS, Event: event.Data}
	e := entry{step: step, cursor: event.Cursor, event: types.SinkEvent{Match: &match}}
	if emission != nil {
		filled := *emission
		filled.Match = match
		e.event = types.SinkEvent{Emission: &filled}
	}
	e.event.Traceparent = r.tracing.match(event, r.id, rule.id)
	return e, true
}

// mark is what has changed of the gates with a step, nil for nothing.
func (r *run) mark(last types.Cursor) *mark {
	m := &mark{cursor: last, metas: r.rules.metas(), floors: r.rules.floors(last.Primary)}
	if len(m.metas)+len(m.floors) == 0 {
		return nil
	}
	return m
}

// refuse makes dead letters of what stood in the stream and is no event.
func (r *run) refuse(bad []types.Event) error {
	var progress types.Progress
	for _, event := range bad {
		id := types.NewMatchID(r.id, SourceName, SourceName, event.Identity())
		if r.known.has(id) {
			continue
		}
		letter := types.DeadLetter{
			MatchID: id, Monitor: SourceName, Sink: SourceName, Cursor: event.Cursor, Attempts: 1, Reason: reason(event.Err),
		}
		if event.Data != nil {
			letter.Payload = &types.SinkEvent{Match: &types.Match{
				ID: id, Pipeline: r.id, Monitor: SourceName, Cursor: event.Cursor, Index: event.Index, TS: event.TS, Event: event.Data,
			}}
		}
		progress.DeadLetters = append(progress.DeadLetters, letter)
		progress.Deliveries = append(progress.Deliveries, types.Delivery{Cursor: event.Cursor, MatchID: id})
	}
	if len(progress.DeadLetters) == 0 {
		return nil
	}
	if err := r.apply(r.stopping, progress); err != nil { // it was not sent anywhere: it may come again
		return err
	}
	r.counters.bad.Add(uint64(len(progress.DeadLetters)))
	r.talk.failing(r.clock.Now(), func() {
		first := progress.DeadLetters[0]
		r.log.Warn("what stands in the stream is no event; it is a dead letter", "cursor", first.Cursor.String(), "reason", first.Reason)
	})
	r.talk.works(func() {})
	return nil
}

// reportTime says once a run that events have no time.
func (r *run) reportTime(err error, event types.Event) {
	if err == nil || r.timeErr {
		return
	}
	r.timeErr = true
	r.log.Warn("an event has no time by event_time; the time of its arrival counts for it, and for others like it", "cursor", event.Cursor.String(), "error", err)
}

func (r *run) cannotSpill(l *lane, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spill == nil {
		r.log.Warn("what waits for a slow lane cannot be written to its file; the source is read no further until it has drained", "monitor", l.monitor, "sink", l.id, "error", err)
	}
	r.spill = err
}

// apply stores an outcome. What was sent has to be recorded, so a failure that may pass is tried again
// until ctx ends.
func (r *run) apply(ctx context.Context, progress types.Progress) error {
	hold := r.ledger.holdFrom()
	if r.unordered {
		// What is settled and not yet acked may come again, and lies before the checkpoint.
		hold -= min(hold, unorderedHold)
	}
	progress.JournalFrom = &hold
	for n := 1; ; n++ {
		err := r.storage.Apply(ctx, r.id, progress)
		switch {
		case err == nil:
			if n > 1 {
				r.log.Info("outcomes are stored again", "failures", n-1)
			}
			return nil
		case ctx.Err() != nil:
			return errStopped
		case !ports.IsTransient(err):
			return err
		}
		if n == 1 {
			r.log.Warn("outcomes of deliveries cannot be stored; this is tried again, and nothing is sent meanwhile", "error", err)
		}
		if !r.pauseFor(checkpoint.BackOff(DefaultRetryMin, 10*time.Second, n, r.random()), ctx) {
			return errStopped
		}
	}
}

// wait waits. It is false when the run stops.
func (r *run) wait(d time.Duration) bool { return r.pauseFor(d, r.stopping) }

func (r *run) pauseFor(d time.Duration, end context.Context) bool {
	timer := r.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return end.Err() == nil
	case <-end.Done():
		return false
	}
}

// signal wakes the reader; a token that is there already serves.
func (r *run) signal() {
	select {
	case r.room <- struct{}{}:
	default:
	}
}

// saved is told of a checkpoint that is stored: the source may forget what lies before it.
func (r *run) saved(ctx context.Context, cursor types.Cursor) {
	r.marks.didSave(cursor)
	if err := r.source.Settle(ctx, cursor); err != nil && ctx.Err() == nil {
		r.log.Warn("the source cannot be told what is settled; it is told again with the next checkpoint", "cursor", cursor.String(), "error", err)
	}
	r.signal()
}

// fail ends the run with the first error.
func (r *run) fail(err error) {
	r.mu.Lock()
	if r.failure == nil {
		r.failure = err
	}
	r.mu.Unlock()
	r.stop()
}

func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// finish ends the run: the sends that are under way are finished, or given up after the time that limit
// leaves them; the last checkpoint is saved; and when it returns nothing of the run is under way in the
// storage.
func (r *run) finish(limit func() (context.Context, context.CancelFunc)) {
	r.stop()
	drain, cancel := limit()
	r.awaitLanes(drain)
	cancel()
	r.abort()

	// What ignores its context is left behind after a while; the storage takes nothing of it any more.
	grace, cancel := limit()
	r.awaitLanes(grace)
	if grace.Err() != nil {
		r.log.Error("a sink does not return; it is left behind")
	}
	cancel()

	saving, cancel := limit()
	if err := r.ledger.writer.Stop(saving); err != nil {
		r.log.Warn("the last checkpoint was not saved; some events come again", "error", err)
	}
	cancel()
	r.ledger.writer.Abort()
	quiet, cancel := limit()
	if err := r.storage.Quiesce(quiet); err != nil {
		r.log.Error("the storage does not come to rest", "error", err)
	}
	cancel()
	closing, cancel := limit()
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- r.source.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			r.log.Warn("the source was not closed cleanly", "error", err)
		}
	case <-closing.Done():
		r.log.Error("the source does not close; it is left behind")
	}
}

func (r *run) awaitLanes(ctx context.Context) {
	for _, l := range r.lanes {
		l.await(ctx)
	}
}

// known are match ids that are settled.
type known struct {
	mu      sync.Mutex
	ids     map[types.MatchID]struct{}
	bounded bool            // forget the oldest beyond maxKnown
	order   []types.MatchID // a ring, if bounded
	oldest  int
}

func (k *known) has(id types.MatchID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.ids[id]
	return ok
}

func (k *known) add(id types.MatchID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.ids[id]; ok {
		return
	}
	k.ids[id] = struct{}{}
	if !k.bounded {
		return
	}
	if len(k.order) < maxKnown {
		k.order = append(k.order, id)
		return
	}
	delete(k.ids, k.order[k.oldest])
	k.order[k.oldest] = id
	k.oldest = (k.oldest + 1) % maxKnown
}
