package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/checkpoint"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// The sweep: a small pipeline of numbered events, whose process is stopped before and after each of
// its storage calls, and started again. Whatever was stored when it stopped, the checkpoint is not
// ahead of an event that is neither delivered, dead-lettered nor passed over, and the next process
// brings every event to one of these ends.
//
// It runs in a bubble of its own time, which passes when everybody waits for it.

const (
	sweepEvents   = 24
	sweepWorkers  = 4
	sweepAttempts = 3 // of a delivery, before it is given up

	sweepPace = 10 * time.Millisecond // of the source
)

func sweepCursor(n int) types.Cursor {
	return types.Cursor{Primary: uint64(n / 3), Secondary: uint64(n % 3)}
}

// sweepPicked is the monitor: it passes over a third of the events.
func sweepPicked(n int) bool { return n%3 != 1 }

// form is how a pipeline stores what became of an event.
type form struct {
	name string
	// applies says that an outcome is stored whole or not at all.
	applies bool
	// faults are those that may hit any call.
	faults []flaky.Fault
	// tracker keeps the watermark; early says that an event is called done before its outcome is
	// stored. Both are right in the forms that have to hold.
	tracker func() watermark
	early   bool
	// outcomes makes what stores outcomes and checkpoints.
	outcomes func(ports.Storage) outcomes
}

type watermark interface {
	Begin(types.Cursor) error
	Done(types.Cursor) error
	Safe() (types.Cursor, bool)
}

type outcomes interface {
	checkpoint.Saver
	delivered(ctx context.Context, n int) error
	gaveUp(ctx context.Context, n int) error
}

func delivery(n int) types.Delivery {
	return types.Delivery{Cursor: sweepCursor(n), MatchID: fixture.MatchID(n)}
}

func letter(n int) types.DeadLetter {
	l := fixture.DeadLetter(n)
	l.Cursor = sweepCursor(n)
	return l
}

// singly makes each change by a call of its own.
type singly struct{ ports.Storage }

func (s singly) delivered(ctx context.Context, n int) error {
	if err := s.RecordDeliveries(ctx, pipeline, []types.Delivery{delivery(n)}); err != nil {
		return err
	}
	_, err := s.DeleteDeadLetter(ctx, pipeline, fixture.MatchID(n))
	return err
}

func (s singly) gaveUp(ctx context.Context, n int) error {
	return s.RecordDeadLetter(ctx, pipeline, letter(n))
}

// stepwise makes one Apply of each outcome, and one of each checkpoint.
type stepwise struct{ ports.Storage }

func (s stepwise) delivered(ctx context.Context, n int) error {
	return s.Apply(ctx, pipeline, types.Progress{Deliveries: []types.Delivery{delivery(n)}, Settled: []types.MatchID{fixture.MatchID(n)}})
}

func (s stepwise) gaveUp(ctx context.Context, n int) error {
	return s.Apply(ctx, pipeline, types.Progress{DeadLetters: []types.DeadLetter{letter(n)}})
}

func (s stepwise) SaveCheckpoint(ctx context.Context, p types.PipelineID, c types.Checkpoint) error {
	return s.Apply(ctx, p, types.Progress{Checkpoint: &c})
}

// gathered keeps outcomes back until the next checkpoint, which is applied with all of them.
type gathered struct {
	ports.Storage
	mu      sync.Mutex
	pending types.Progress
}

func (g *gathered) delivered(_ context.Context, n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending.Deliveries = append(g.pending.Deliveries, delivery(n))
	g.pending.Settled = append(g.pending.Settled, fixture.MatchID(n))
	return nil
}

func (g *gathered) gaveUp(_ context.Context, n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending.DeadLetters = append(g.pending.DeadLetters, letter(n))
	return nil
}

func (g *gathered) SaveCheckpoint(ctx context.Context, p types.PipelineID, c types.Checkpoint) error {
	g.mu.Lock()
	step := g.pending
	g.mu.Unlock()
	step.Checkpoint = &c
	if err := g.Apply(ctx, p, step); err != nil {
		return err // all of it stays for the next time
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending.Deliveries = g.pending.Deliveries[len(step.Deliveries):]
	g.pending.Settled = g.pending.Settled[len(step.Settled):]
	g.pending.DeadLetters = g.pending.DeadLetters[len(step.DeadLetters):]
	return nil
}

// world is what outlives a process: the storage, and what the receiver of the sink has.
type world struct {
	storage ports.Storage

	mu       sync.Mutex
	received map[types.MatchID]int
}

func newWorld() *world {
	return &world{storage: model.NewStorage(0), received: map[types.MatchID]int{}}
}

// sink delivers to the world's receiver, and fails by the seed of its process: for good with some
// events, in passing with others, now and then after the receiver had the event.
type sink struct {
	world *world
	seed  uint64

	mu       sync.Mutex
	attempts map[types.MatchID]int
}

func (s *sink) Deliver(_ context.Context, event types.SinkEvent) error {
	id := event.Origin().ID
	s.mu.Lock()
	s.attempts[id]++
	attempt := s.attempts[id]
	s.mu.Unlock()
	var n int
	if _, err := fmt.Sscanf(string(id), "match-%d", &n); err != nil {
		return err
	}
	chance := rand.New(rand.NewPCG(s.seed, uint64(n)))
	switch failures := chance.IntN(sweepAttempts + 2); {
	case n%7 == 3:
		return errPermanent
	case attempt > failures:
	case chance.IntN(4) == 0:
		s.receive(id)
		return errUnknown
	default:
		return errTransient
	}
	s.receive(id)
	return nil
}

func (s *sink) receive(id types.MatchID) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.received[id]++
}

var errHalted = errors.New("the process was stopped")

// halting is a storage whose process stops at the call number at, before it or after it.
type halting struct {
	ports.Storage
	at    int
	after bool
	halt  context.CancelCauseFunc // stops the process

	mu     sync.Mutex
	calls  int
	halted bool
}

func (h *halting) do(call func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.halted {
		return errHalted
	}
	h.calls++
	if h.calls != h.at {
		return call()
	}
	if h.after {
		_ = call() // its answer comes too late
	}
	h.halted = true
	h.halt(errHalted)
	return errHalted
}

func (h *halting) LoadCheckpoint(ctx context.Context, p types.PipelineID) (c types.Checkpoint, found bool, err error) {
	err = h.do(func() (err error) { c, found, err = h.Storage.LoadCheckpoint(ctx, p); return err })
	return c, found, err
}

func (h *halting) SaveCheckpoint(ctx context.Context, p types.PipelineID, c types.Checkpoint) error {
	return h.do(func() error { return h.Storage.SaveCheckpoint(ctx, p, c) })
}

func (h *halting) Delivered(ctx context.Context, p types.PipelineID, from, to types.Cursor) (all []types.Delivery, err error) {
	err = h.do(func() (err error) { all, err = h.Storage.Delivered(ctx, p, from, to); return err })
	return all, err
}

func (h *halting) RecordDeliveries(ctx context.Context, p types.PipelineID, all []types.Delivery) error {
	return h.do(func() error { return h.Storage.RecordDeliveries(ctx, p, all) })
}

func (h *halting) RecordDeadLetter(ctx context.Context, p types.PipelineID, l types.DeadLetter) error {
	return h.do(func() error { return h.Storage.RecordDeadLetter(ctx, p, l) })
}

func (h *halting) DeleteDeadLetter(ctx context.Context, p types.PipelineID, id types.MatchID) (deleted bool, err error) {
	err = h.do(func() (err error) { deleted, err = h.Storage.DeleteDeadLetter(ctx, p, id); return err })
	return deleted, err
}

func (h *halting) Apply(ctx context.Context, p types.PipelineID, step types.Progress) error {
	return h.do(func() error { return h.Storage.Apply(ctx, p, step) })
}

// process is one run of the pipeline.
type process struct {
	form     form
	clock    ports.Clock
	sink     ports.Sink
	storage  *halting
	outcomes outcomes
	tracker  watermark
	writer   *checkpoint.Writer
	journal  map[types.MatchID]bool
	handled  [sweepEvents]chan struct{}
}

// run runs a process in the world until all events are dealt with, or until the storage call number
// halt, if that is above 0. The error is errHalted then.
func (w *world) run(f form, seed uint64, halt int, after bool) error {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	clock := ports.SystemClock() // that of the bubble
	storage := &halting{Storage: flaky.NewStorage(w.storage, flaky.New(clock, seed, f.faults...)), at: halt, after: after, halt: stop}
	p := &process{
		form:     f,
		clock:    clock,
		sink:     &sink{world: w, seed: seed, attempts: map[types.MatchID]int{}},
		storage:  storage,
		outcomes: f.outcomes(storage),
		tracker:  f.tracker(),
		journal:  map[types.MatchID]bool{},
	}
	for n := range p.handled {
		p.handled[n] = make(chan struct{})
	}
	writer, err := checkpoint.New(p.outcomes, checkpoint.Options{
		Pipeline: pipeline,
		Interval: sweepPace / 2,
		RetryMin: sweepPace,
		RetryMax: 4 * sweepPace,
		Random:   rand.New(rand.NewPCG(seed, 0)).Float64,
		Clock:    clock,
	})
	if err != nil {
		return err
	}
	p.writer = writer
	err = p.work(ctx)
	if ctx.Err() != nil { // the whole process is gone, whatever its parts say
		err = context.Cause(ctx)
	}
	writer.Abort()
	if stopped := writer.Stop(context.Background()); err == nil {
		err = stopped
	}
	return err
}

func (p *process) work(ctx context.Context) error {
	var from types.Cursor
	var found bool
	err := insist(ctx, func() error {
		stored, there, err := p.writer.Start(ctx, p.storage)
		from, found = stored.Cursor, there
		return err
	})
	if err != nil {
		return err
	}
	err = insist(ctx, func() error {
		all, err := p.storage.Delivered(ctx, pipeline, from, types.Cursor{Primary: math.MaxInt64, Secondary: math.MaxInt64})
		for _, d := range all {
			p.journal[d.MatchID] = true
		}
		return err
	})
	if err != nil {
		return err
	}

	var wg sync.WaitGroup
	places := make(chan struct{}, sweepWorkers)
	failed := make(chan error, sweepEvents)
	for n := range sweepEvents {
		if found && sweepCursor(n).Compare(from) <= 0 {
			continue
		}
		if err := p.tracker.Begin(sweepCursor(n)); err != nil {
			failed <- err
			break
		}
		p.pace(ctx)
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if err := p.handle(ctx, n); err != nil {
				failed <- err
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return p.writer.Stop(ctx)
	}
}

// pace lets events come one by one, so that there is much to save.
func (p *process) pace(ctx context.Context) {
	timer := p.clock.NewTimer(sweepPace)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

func (p *process) handle(ctx context.Context, n int) error {
	defer close(p.handled[n])
	if later := n + 2; n%5 == 0 && later < sweepEvents {
		// Some are slow, so that events are done out of order in every run.
		select {
		case <-p.handled[later]:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if !sweepPicked(n) || p.journal[fixture.MatchID(n)] {
		return p.done(n)
	}
	match := fixture.Match(n)
	match.Cursor = sweepCursor(n)
	var failure error
	for range sweepAttempts {
		failure = p.sink.Deliver(ctx, types.SinkEvent{Match: &match})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if failure == nil || !ports.IsTransient(failure) {
			break
		}
	}
	if p.form.early {
		if err := p.done(n); err != nil {
			return err
		}
		p.pace(ctx)
	}
	err := insist(ctx, func() error {
		if failure == nil {
			return p.outcomes.delivered(ctx, n)
		}
		return p.outcomes.gaveUp(ctx, n)
	})
	if err != nil || p.form.early {
		return err
	}
	return p.done(n)
}

func (p *process) done(n int) error {
	if err := p.tracker.Done(sweepCursor(n)); err != nil {
		return err
	}
	if safe, known := p.tracker.Safe(); known {
		p.writer.Advance(safe)
	}
	return nil
}

// insist repeats a call until it succeeds or its process stops.
func insist(ctx context.Context, call func() error) error {
	for {
		if err := call(); err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// check looks at what is stored, and returns the journal.
func (w *world) check(f form) (map[types.MatchID]bool, error) {
	ctx := context.Background()
	stored, found, err := w.storage.LoadCheckpoint(ctx, pipeline)
	if err != nil {
		return nil, err
	}
	deliveries, err := w.storage.Delivered(ctx, pipeline, types.Cursor{}, types.Cursor{Primary: math.MaxInt64, Secondary: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	letters, err := w.storage.ListDeadLetters(ctx, pipeline, types.LetterQuery{Take: ports.MaxPageLimit})
	if err != nil {
		return nil, err
	}
	journal, lettered := map[types.MatchID]bool{}, map[types.MatchID]bool{}
	for _, d := range deliveries {
		journal[d.MatchID] = true
		if w.received[d.MatchID] == 0 {
			return nil, fmt.Errorf("the journal has %s, which the receiver never got", d.MatchID)
		}
	}
	for _, l := range letters {
		if lettered[l.Letter.MatchID] {
			return nil, fmt.Errorf("the dead letter %s is there twice", l.Letter.MatchID)
		}
		lettered[l.Letter.MatchID] = true
	}
	for n := range sweepEvents {
		id := fixture.MatchID(n)
		if f.applies && journal[id] && lettered[id] {
			return nil, fmt.Errorf("%s is delivered and dead-lettered", id)
		}
		if found && sweepCursor(n).Compare(stored.Cursor) <= 0 && sweepPicked(n) && !journal[id] && !lettered[id] {
			return nil, fmt.Errorf("the checkpoint %v is ahead of event %d at %v, which is neither delivered, dead-lettered nor passed over", stored.Cursor, n, sweepCursor(n))
		}
	}
	return journal, nil
}

// sweep stops a process at each of its storage calls, and returns the number of stops and the first
// violation.
func sweep(f form, seed uint64) (stops int, err error) {
	for at := 1; ; at++ {
		halted := false
		for _, after := range [...]bool{false, true} {
			w := newWorld()
			err := w.run(f, seed, at, after)
			if err != nil && !errors.Is(err, errHalted) && !errors.Is(err, errPermanent) {
				return stops, fmt.Errorf("a process that was not stopped failed: %w", err)
			}
			if errors.Is(err, errHalted) {
				halted = true
				stops++
			}
			if err := w.resume(f, seed, at); err != nil {
				return stops, fmt.Errorf("seed %d, stopped at storage call %d (after it: %v): %w", seed, at, after, err)
			}
		}
		if !halted {
			return stops, nil
		}
	}
}

// resume checks the world after a stop, lets a second process stop too, and a third one run to the
// end.
func (w *world) resume(f form, seed uint64, at int) error {
	journal, err := w.check(f)
	if err != nil {
		return err
	}
	before := maps.Clone(w.received)
	if err := w.run(f, seed+1000, 1+(at+int(seed))%11, at%2 == 0); err != nil && !errors.Is(err, errHalted) && !errors.Is(err, errPermanent) {
		return fmt.Errorf("the second process failed: %w", err)
	}
	if _, err := w.check(f); err != nil {
		return fmt.Errorf("after a second stop: %w", err)
	}
	last := w.run(f, seed+2000, 0, false)
	for again := seed + 2001; errors.Is(last, errPermanent); again++ {
		// The last save of a stop failed for good; whatever was not saved comes again.
		if _, err := w.check(f); err != nil {
			return fmt.Errorf("after a stop that could not save: %w", err)
		}
		last = w.run(f, again, 0, false)
	}
	if last != nil {
		return fmt.Errorf("the last process failed: %w", last)
	}
	if _, err := w.check(f); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	for id := range journal {
		if w.received[id] != before[id] {
			return fmt.Errorf("%s was in the journal, and was delivered again", id)
		}
	}
	stored, found, err := w.storage.LoadCheckpoint(context.Background(), pipeline)
	if err != nil {
		return err
	}
	if want := sweepCursor(sweepEvents - 1); !found || stored.Cursor != want {
		return fmt.Errorf("the last checkpoint is %v (found: %v), want %v", stored.Cursor, found, want)
	}
	return nil
}

func newTracker() watermark { return &checkpoint.Tracker{} }

// sweepForms are the forms in which a pipeline may work, at rest and with failing calls.
func sweepForms() []form {
	failing := []flaky.Fault{
		{Chance: 0.1, Err: errTransient},
		{Chance: 0.1, Err: errUnknown, AfterEffect: true},
		{Op: flaky.StorageSaveCheckpoint, Chance: 0.3, Err: errTransient},
		{Op: flaky.StorageSaveCheckpoint, Chance: 0.2, Err: errPermanent},
	}
	singles := func(s ports.Storage) outcomes { return singly{s} }
	steps := func(s ports.Storage) outcomes { return stepwise{s} }
	gathers := func(s ports.Storage) outcomes { return &gathered{Storage: s} }
	return []form{
		{name: "single calls", tracker: newTracker, outcomes: singles},
		{name: "single calls that fail", tracker: newTracker, outcomes: singles, faults: failing},
		{name: "one Apply an event", tracker: newTracker, outcomes: steps, applies: true},
		{name: "one Apply an event that fails", tracker: newTracker, outcomes: steps, applies: true, faults: failing[:2]},
		{name: "one Apply a checkpoint", tracker: newTracker, outcomes: gathers, applies: true},
		{name: "one Apply a checkpoint that fails", tracker: newTracker, outcomes: gathers, applies: true, faults: failing[:2]},
	}
}

func TestACheckpointIsNeverAheadOfAnEventThatNobodyDealtWith(t *testing.T) {
	t.Parallel()
	const seeds = 10
	for _, f := range sweepForms() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				total := 0
				for seed := range uint64(seeds) {
					stops, err := sweep(f, seed)
					require.NoError(t, err)
					total += stops
				}
				t.Logf("%d stops", total)
				require.Greater(t, total, 20*seeds, "a sweep that hardly stops shows nothing")
			})
		})
	}
}

// highest is a tracker as it must not be: the last cursor that is done, whatever lies before it.
type highest struct {
	checkpoint.Tracker
	mu   sync.Mutex
	done types.Cursor
	any  bool
}

func (h *highest) Done(c types.Cursor) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.any || h.done.Compare(c) < 0 {
		h.done, h.any = c, true
	}
	return h.Tracker.Done(c)
}

func (h *highest) Safe() (types.Cursor, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.done, h.any
}

// forgetful gathers outcomes, and drops them also when they could not be applied.
type forgetful struct{ gathered }

func (g *forgetful) SaveCheckpoint(ctx context.Context, p types.PipelineID, c types.Checkpoint) error {
	err := g.gathered.SaveCheckpoint(ctx, p, c)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = types.Progress{}
	return err
}

func TestTheSweepFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	const ahead = "neither delivered, dead-lettered nor passed over"
	forms := sweepForms()
	highestDone, early, drops := forms[0], forms[0], forms[5]
	highestDone.tracker = func() watermark { return &highest{} }
	early.early = true
	drops.outcomes = func(s ports.Storage) outcomes { return &forgetful{gathered{Storage: s}} }
	for name, f := range map[string]form{
		"the highest cursor is taken for safe":              highestDone,
		"done is said before it is stored":                  early,
		"outcomes are dropped with a checkpoint that fails": drops,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for seed := range uint64(20) {
					if _, err := sweep(f, seed); err != nil {
						t.Logf("found with seed %d", seed)
						require.ErrorContains(t, err, ahead)
						return
					}
				}
				t.Fatal("20 sweeps did not find it")
			})
		})
	}
}
