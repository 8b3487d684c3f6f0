package checkpoint_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/core/checkpoint"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]checkpoint.Options{
		"no pipeline":              {},
		"a bad pipeline":           {Pipeline: "a/b"},
		"a module of no UTF-8":     {Pipeline: pipeline, Module: new("\xff")},
		"a negative interval":      {Pipeline: pipeline, Interval: -1},
		"a negative pause":         {Pipeline: pipeline, RetryMin: -1},
		"pauses that shrink":       {Pipeline: pipeline, RetryMin: time.Second, RetryMax: time.Millisecond},
		"less than the default":    {Pipeline: pipeline, RetryMax: time.Millisecond},
		"negative patience":        {Pipeline: pipeline, UnhealthyAfter: -1},
		"a negative failure count": {Pipeline: pipeline, UnhealthyFailures: -1},
	} {
		_, err := checkpoint.New(model.NewStorage(0), opts)
		var e *ports.Error
		require.ErrorAs(t, err, &e, name)
		require.False(t, e.Retryable(), name)
	}
	_, err := checkpoint.New(model.NewStorage(0), checkpoint.Options{Pipeline: pipeline, RetryMin: time.Hour})
	require.NoError(t, err, "a RetryMin above the default RetryMax raises that")
}

func TestStartLoadsWhatIsStored(t *testing.T) {
	t.Parallel()
	d := newDesk(t, checkpoint.Options{})
	_, found, err := d.Start(t.Context(), d.model)
	require.NoError(t, err)
	require.False(t, found)
	_, known := d.Saved()
	require.False(t, known)
	require.NoError(t, d.Stop(t.Context()))
	require.Empty(t, d.tried())

	d = newDesk(t, checkpoint.Options{Module: new("ndjson")})
	stored := types.Checkpoint{Cursor: at(10), UpdatedAt: fixture.Epoch().Add(-time.Hour)}
	require.NoError(t, d.model.SaveCheckpoint(t.Context(), pipeline, stored))
	got, found, err := d.Start(t.Context(), d.model)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, stored, got)
	saved, known := d.Saved()
	require.True(t, known)
	require.Equal(t, at(10), saved)
	d.Advance(at(9))
	d.Advance(at(10))
	require.NoError(t, d.Stop(t.Context()))
	require.Empty(t, d.tried(), "what is stored already, or behind it, is not saved")
	require.Equal(t, stored, d.stored(t))
}

func TestStartRefusesTheCheckpointOfAnotherModule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stored, own *string
		fine        bool
	}{
		{nil, nil, true},
		{nil, new("ndjson"), true},
		{new("ndjson"), new("ndjson"), true},
		{new("ndjson"), new("webhook"), false},
		{new("ndjson"), nil, false},
		{new(""), new("webhook"), false},
	} {
		d := newDesk(t, checkpoint.Options{Module: c.own})
		require.NoError(t, d.model.SaveCheckpoint(t.Context(), pipeline, types.Checkpoint{Cursor: at(1), Module: c.stored}))
		_, _, err := d.Start(t.Context(), d.model)
		if c.fine {
			require.NoError(t, err)
			d.Advance(at(2))
			require.NoError(t, d.Stop(t.Context()))
			require.Equal(t, c.own, d.stored(t).Module)
			continue
		}
		require.ErrorIs(t, err, ports.ErrCheckpointProvenance)
		require.ErrorContains(t, err, string(pipeline))
		require.NoError(t, d.Stop(t.Context()))
	}
}

func TestStartRunsOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, checkpoint.Options{})
	d.faults.Add(flaky.Fault{Op: flaky.StorageLoadCheckpoint, Limit: 1, Err: errTransient})
	_, _, err := d.Start(t.Context(), d.flaky)
	require.ErrorIs(t, err, errTransient)
	_, _, err = d.Start(fixture.Cancelled(t), d.flaky)
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = d.Start(t.Context(), d.flaky)
	require.NoError(t, err, "one that failed may be repeated")
	_, _, err = d.Start(t.Context(), d.flaky)
	require.ErrorIs(t, err, ports.ErrInvalidInput)
	require.NoError(t, d.Stop(t.Context()))
	_, _, err = d.Start(t.Context(), d.flaky)
	require.ErrorIs(t, err, ports.ErrStoreClosed)
}

func TestAWriterThatIsStoppedWhileItLoadsDoesNotRun(t *testing.T) {
	t.Parallel()
	d := newDesk(t, checkpoint.Options{})
	loads := loader(func(ctx context.Context) (types.Checkpoint, bool, error) {
		d.Advance(at(1))
		return types.Checkpoint{}, false, d.Stop(ctx)
	})
	_, _, err := d.Start(t.Context(), loads)
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.Empty(t, d.tried())
}

type loader func(context.Context) (types.Checkpoint, bool, error)

func (l loader) LoadCheckpoint(ctx context.Context, _ types.PipelineID) (types.Checkpoint, bool, error) {
	return l(ctx)
}

func TestSavesAreCoalesced(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{Module: new("ndjson")})
	d.Advance(at(1))
	d.settle()
	require.Equal(t, []types.Cursor{at(1)}, d.tried(), "after a silence at once")
	require.Equal(t, types.Checkpoint{Cursor: at(1), Module: new("ndjson"), UpdatedAt: d.clock.Now()}, d.stored(t))
	for n := 2; n <= 100; n++ {
		d.Advance(at(n))
	}
	d.clock.Advance(checkpoint.DefaultInterval - 1)
	require.Len(t, d.tried(), 1)
	d.pass(1)
	require.Equal(t, []types.Cursor{at(1), at(100)}, d.tried())
	require.Equal(t, []time.Duration{checkpoint.DefaultInterval}, d.pauses())
}

func TestAnIdleWriterDoesNotSave(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{})
	d.Advance(at(1))
	d.settle()
	d.clock.Advance(time.Hour)
	d.Advance(at(1))
	d.Advance(at(0))
	require.Zero(t, d.clock.Timers())
	require.NoError(t, d.HealthCheck(t.Context()))
	require.NoError(t, d.Stop(t.Context()))
	require.Equal(t, []types.Cursor{at(1)}, d.tried())
}

func TestTheZeroCursorIsACheckpointToo(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{})
	d.Advance(types.Cursor{})
	require.NoError(t, d.Stop(t.Context()))
	require.Equal(t, types.Cursor{}, d.stored(t).Cursor)
}

func TestAFailedSaveIsRepeatedWithGrowingPausesAndTheNewestCursor(t *testing.T) {
	t.Parallel()
	log := &records{}
	d := started(t, checkpoint.Options{RetryMin: time.Second, RetryMax: 5 * time.Second, Log: slog.New(log)}, failing(errTransient, 5))
	d.Advance(at(1))
	d.settle()
	want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}
	for i, pause := range want {
		d.Advance(at(10 * (i + 1)))
		d.pass(pause)
	}
	require.Equal(t, want, d.pauses())
	require.Equal(t, []types.Cursor{at(1), at(10), at(20), at(30), at(40), at(50)}, d.tried())
	require.Equal(t, at(50), d.stored(t).Cursor)
	require.Equal(t, 1, log.count(slog.LevelWarn), "the first failure of a row is logged")
	require.Equal(t, 1, log.count(slog.LevelInfo), "and its end")

	d.faults.Add(failing(errTransient, 1))
	d.Advance(at(60))
	d.pass(checkpoint.DefaultInterval)
	d.pass(time.Second)
	require.Equal(t, time.Second, d.pauses()[6], "after a success pauses are short again")
	require.Equal(t, at(60), d.stored(t).Cursor)
}

func TestPausesAreShortenedByChance(t *testing.T) {
	t.Parallel()
	seed := func() *rand.Rand { return rand.New(rand.NewPCG(7, 7)) }
	d := started(t, checkpoint.Options{RetryMin: time.Second, RetryMax: time.Hour, Random: seed().Float64}, failing(errTransient, 0))
	same := seed()
	d.Advance(at(1))
	full := time.Second
	for range 8 {
		d.settle()
		pause := full - time.Duration(same.Float64()*float64(full)/2)
		require.LessOrEqual(t, pause, full)
		require.GreaterOrEqual(t, pause, full/2)
		before := len(d.tried())
		d.clock.Advance(pause - 1)
		require.Len(t, d.tried(), before, "%v is not over", pause)
		d.clock.Advance(1)
		full *= 2
	}
	d.settle()
	require.Len(t, d.tried(), 9)
}

func TestTheLongestPauseMayBeAnyTime(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{RetryMin: 1 << 61, RetryMax: math.MaxInt64}, failing(errTransient, 0))
	d.Advance(at(1))
	d.settle()
	d.clock.Advance(1<<61 - 1)
	require.Len(t, d.tried(), 1)
	d.pass(1)
	d.pass(1 << 62)
	require.Len(t, d.tried(), 3)
	require.Equal(t, 1, d.clock.Timers(), "the next one has not gone over into a pause of no time")
}

func TestAPermanentFailureIsRepeatedAtTheSlowestPaceAndReported(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{}, failing(errPermanent, 2))
	d.Advance(at(1))
	d.settle()
	err := d.HealthCheck(t.Context())
	require.ErrorIs(t, err, ports.ErrReadOnly, "after the first already")
	for i := range 2 {
		d.pass(checkpoint.DefaultRetryMax / 2)
		require.Len(t, d.tried(), 1+i)
		d.pass(checkpoint.DefaultRetryMax / 2)
	}
	require.Equal(t, []time.Duration{checkpoint.DefaultRetryMax, checkpoint.DefaultRetryMax}, d.pauses())
	require.NoError(t, d.HealthCheck(t.Context()))
	require.Equal(t, at(1), d.stored(t).Cursor)
}

func TestATimeOutOfTheStorageIsNotPermanent(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{}, failing(context.DeadlineExceeded, 1))
	d.Advance(at(1))
	d.settle()
	require.NoError(t, d.HealthCheck(t.Context()))
	d.pass(checkpoint.DefaultRetryMin)
	require.Equal(t, at(1), d.stored(t).Cursor)
}

func TestAFailureAfterTheEffectDoesNotLeadBack(t *testing.T) {
	t.Parallel()
	for _, lost := range []error{errUnknown, errTransient, errPermanent} {
		d := started(t, checkpoint.Options{RetryMin: time.Second, RetryMax: time.Second},
			flaky.Fault{Op: flaky.StorageSaveCheckpoint, Limit: 1, Err: lost, AfterEffect: true})
		d.Advance(at(5))
		d.settle()
		require.Equal(t, at(5), d.stored(t).Cursor)
		_, known := d.Saved()
		require.False(t, known, "it is not known to be stored")
		d.Advance(at(3))
		d.pass(time.Second)
		require.Equal(t, []types.Cursor{at(5), at(5)}, d.tried(), "it is saved again, and nothing behind it")
		saved, _ := d.Saved()
		require.Equal(t, at(5), saved)
	}
}

func TestAWriterIsUnhealthyAfterSoManyFailures(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{UnhealthyFailures: 3, RetryMin: time.Second, RetryMax: time.Second})
	require.NoError(t, d.HealthCheck(t.Context()), "before the first save")
	d.Advance(at(1))
	d.settle()
	d.faults.Add(failing(errTransient, 3))
	d.Advance(at(20))
	d.pass(time.Second)
	require.NoError(t, d.HealthCheck(t.Context()))
	d.pass(time.Second)
	require.NoError(t, d.HealthCheck(t.Context()))
	d.Advance(at(30))
	d.pass(time.Second)
	err := d.HealthCheck(t.Context())
	require.ErrorIs(t, err, errTransient)
	require.ErrorIs(t, err, ports.ErrBackendFailed)
	for _, part := range []string{string(pipeline), "2026-03-01T12:00:01Z", "at 1/0", "safe is 30/0", "in a row: 3"} {
		require.ErrorContains(t, err, part)
	}
	d.pass(time.Second)
	require.NoError(t, d.HealthCheck(t.Context()), "after a success it is well again")
}

func TestAWriterIsUnhealthyAfterSoLong(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{UnhealthyFailures: 1000, UnhealthyAfter: time.Minute, RetryMin: 40 * time.Second, RetryMax: 40 * time.Second}, failing(errTransient, 2))
	d.Advance(at(1))
	d.settle()
	d.pass(40 * time.Second)
	require.NoError(t, d.HealthCheck(t.Context()))
	d.clock.Advance(20 * time.Second)
	require.ErrorIs(t, d.HealthCheck(t.Context()), errTransient)
	d.pass(20 * time.Second)
	require.NoError(t, d.HealthCheck(t.Context()))
}

// gate is a storage whose saves wait, after they have begun, until they are let through.
type gate struct {
	inner   ports.Storage
	entered chan types.Cursor
	pass    chan struct{}
	running sync.WaitGroup
}

func newGate() *gate {
	return &gate{inner: model.NewStorage(0), entered: make(chan types.Cursor, 1), pass: make(chan struct{})}
}

// SaveCheckpoint has begun once it said so: from then on the end of ctx does not stop it.
func (g *gate) SaveCheckpoint(ctx context.Context, p types.PipelineID, c types.Checkpoint) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	g.running.Add(1)
	defer g.running.Done()
	g.entered <- c.Cursor
	<-g.pass
	return g.inner.SaveCheckpoint(context.WithoutCancel(ctx), p, c)
}

func (g *gate) stored(t *testing.T) (types.Cursor, bool) {
	t.Helper()
	c, found, err := g.inner.LoadCheckpoint(t.Context(), pipeline)
	require.NoError(t, err)
	return c.Cursor, found
}

func startGated(t *testing.T) (*gate, *checkpoint.Writer, *fixture.Clock) {
	t.Helper()
	g, clock := newGate(), fixture.NewClock(fixture.Epoch())
	w, err := checkpoint.New(g, checkpoint.Options{Pipeline: pipeline, Clock: clock})
	require.NoError(t, err)
	_, _, err = w.Start(t.Context(), g.inner)
	require.NoError(t, err)
	return g, w, clock
}

func TestASaveThatDoesNotComeBackIsUnhealthy(t *testing.T) {
	t.Parallel()
	g, w, clock := startGated(t)
	w.Advance(at(1))
	require.Equal(t, at(1), <-g.entered)
	require.NoError(t, w.HealthCheck(t.Context()))
	clock.Advance(checkpoint.DefaultUnhealthyAfter)
	err := w.HealthCheck(t.Context())
	require.ErrorIs(t, err, ports.ErrBackendFailed)
	require.ErrorContains(t, err, "does not come back")
	require.ErrorContains(t, err, "it is at none, safe is 1/0")
	close(g.pass)
	require.NoError(t, w.Stop(t.Context()))
	require.NoError(t, w.HealthCheck(t.Context()))
}

func TestStopSavesTheLastSafeCursor(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{})
	d.Advance(at(1))
	d.settle()
	d.Advance(at(2))
	require.NoError(t, d.Stop(t.Context()), "without waiting for the interval")
	require.Equal(t, []types.Cursor{at(1), at(2)}, d.tried())
	require.Equal(t, at(2), d.stored(t).Cursor)
	require.Zero(t, d.clock.Timers())

	d.Advance(at(3))
	require.NoError(t, d.Stop(t.Context()), "again")
	d.clock.Advance(time.Hour)
	require.Equal(t, at(2), d.stored(t).Cursor, "nothing is saved after Stop")
	require.NoError(t, d.Stop(fixture.Cancelled(t)), "there is nothing to wait for")
}

func TestStopRepeatsAFailedSave(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{}, failing(errUnknown, 4))
	defer drive(d.clock, time.Second)()
	d.Advance(at(1))
	require.NoError(t, d.Stop(t.Context()))
	require.Len(t, d.tried(), 5)
	require.Equal(t, at(1), d.stored(t).Cursor)
	require.NoError(t, d.HealthCheck(t.Context()))
}

func TestStopDoesNotWaitOutAPause(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{RetryMin: time.Hour, RetryMax: time.Hour}, failing(errTransient, 1))
	d.Advance(at(1))
	d.settle()
	require.NoError(t, d.Stop(t.Context()))
	require.Equal(t, []time.Duration{0}, d.pauses())
	require.Equal(t, at(1), d.stored(t).Cursor)
}

func TestStopSaysWhatItCouldNotSave(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{})
	d.Advance(at(1))
	d.settle()
	d.faults.Add(failing(errTransient, 0))
	d.Advance(at(7))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- d.Stop(ctx) }()
	require.Eventually(t, d.Closed, 30*time.Second, time.Millisecond)
	for range 4 { // whichever timers it waits for, it goes on trying
		d.pass(checkpoint.DefaultRetryMax)
	}
	cancel()
	err := <-stopped
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errTransient)
	for _, part := range []string{string(pipeline), "at 1/0", "safe is 7/0"} {
		require.ErrorContains(t, err, part)
	}
	calls := len(d.tried())
	d.clock.Advance(time.Hour)
	require.Len(t, d.tried(), calls)
	require.Zero(t, d.clock.Timers())
	require.Equal(t, err, d.Stop(t.Context()), "asked again it says the same")
}

func TestStopDoesNotRepeatAPermanentFailure(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{}, failing(errPermanent, 0))
	d.Advance(at(1))
	d.settle()
	err := d.Stop(t.Context())
	require.ErrorIs(t, err, ports.ErrReadOnly)
	require.NotErrorIs(t, err, context.Canceled)
	require.Len(t, d.tried(), 2, "once more, and no longer")
}

func TestStopWithoutTimeSavesNothing(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{})
	d.Advance(at(1))
	d.settle()
	d.Advance(at(2))
	require.ErrorIs(t, d.Stop(fixture.Cancelled(t)), context.Canceled)
	require.Equal(t, at(1), d.stored(t).Cursor)
}

func TestStopWaitsForTheSaveThatIsUnderWay(t *testing.T) {
	t.Parallel()
	g, w, _ := startGated(t)
	w.Advance(at(1))
	<-g.entered
	w.Advance(at(2))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(ctx) }()
	require.Eventually(t, w.Closed, 30*time.Second, time.Millisecond)
	cancel()
	select {
	case err := <-stopped:
		t.Fatalf("Stop returned %v while a save was under way", err)
	default:
	}
	close(g.pass)
	err := <-stopped
	cursor, _ := g.stored(t)
	if err == nil { // the loop may have been ahead of the context's end
		require.Equal(t, at(2), cursor)
	} else {
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, at(1), cursor)
	}
	require.Equal(t, err, w.Stop(fixture.Cancelled(t)), "a second one says the same")
}

func TestAnotherStopWaitsForItsOwnContext(t *testing.T) {
	t.Parallel()
	g, w, _ := startGated(t)
	w.Advance(at(1))
	<-g.entered
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	require.Eventually(t, w.Closed, 30*time.Second, time.Millisecond, "the first Stop comes first")
	require.ErrorIs(t, w.Stop(fixture.Cancelled(t)), context.Canceled)
	close(g.pass)
	require.NoError(t, <-stopped)
}

func TestNothingIsWrittenAfterAbortAndQuiesce(t *testing.T) {
	t.Parallel()
	g, w, clock := startGated(t)
	w.Advance(at(1))
	<-g.entered
	w.Advance(at(2))
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	w.Abort()
	w.Abort()
	require.ErrorIs(t, <-stopped, context.Canceled, "Abort releases a Stop, though a save is under way")
	_, found := g.stored(t)
	require.False(t, found)

	g.pass <- struct{}{}
	g.running.Wait() // as Quiesce does
	cursor, _ := g.stored(t)
	require.Equal(t, at(1), cursor, "what was under way has its effect")
	w.Advance(at(3))
	clock.Advance(time.Hour)
	w.Wait()
	require.Error(t, w.Stop(t.Context()))
	cursor, _ = g.stored(t)
	require.Equal(t, at(1), cursor)
	require.NoError(t, w.HealthCheck(t.Context()))
}

func TestAbortCancelsASaveThatHasNotBegun(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{}, flaky.Fault{Op: flaky.StorageSaveCheckpoint, Delay: time.Hour})
	d.Advance(at(1))
	d.settle() // the storage holds the call up
	d.Abort()
	require.NoError(t, d.flaky.Quiesce(t.Context()))
	d.clock.Advance(2 * time.Hour)
	_, found, err := d.model.LoadCheckpoint(t.Context(), pipeline)
	require.NoError(t, err)
	require.False(t, found)
	require.ErrorIs(t, d.Stop(t.Context()), context.Canceled)
	d.Wait()
	require.NoError(t, d.HealthCheck(t.Context()), "that it gave up says nothing about the storage")
}

func TestAbortEndsAPause(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{}, failing(errTransient, 0))
	d.Advance(at(1))
	d.settle()
	d.Abort()
	d.Wait()
	require.Zero(t, d.clock.Timers())
	require.Len(t, d.tried(), 1)
	require.ErrorIs(t, d.Stop(t.Context()), errTransient)
}

func TestAWriterThatNeverRanStops(t *testing.T) {
	t.Parallel()
	d := newDesk(t, checkpoint.Options{})
	d.Advance(at(1))
	require.NoError(t, d.Stop(t.Context()))
	d = newDesk(t, checkpoint.Options{})
	d.Abort()
	require.NoError(t, d.Stop(t.Context()))
	_, _, err := d.Start(t.Context(), d.model)
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.Empty(t, d.tried())
}

func TestAdvancesOfManyGoroutinesNeverLeadBack(t *testing.T) {
	t.Parallel()
	d := started(t, checkpoint.Options{Interval: 1})
	d.faults.Add(
		flaky.Fault{Op: flaky.StorageSaveCheckpoint, Chance: 0.3, Err: errTransient},
		flaky.Fault{Op: flaky.StorageSaveCheckpoint, Chance: 0.3, Err: errUnknown, AfterEffect: true})
	defer drive(d.clock, time.Second)()
	const goroutines, cursors = 8, 250
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for n := range cursors {
				d.Advance(at(n*goroutines + g))
			}
		})
	}
	wg.Wait()
	require.NoError(t, d.Stop(t.Context()))
	require.True(t, slices.IsSortedFunc(d.tried(), types.Cursor.Compare), "what is saved never goes back")
	require.Equal(t, at(goroutines*cursors-1), d.stored(t).Cursor)
}

// TestRandomHistoriesOfAWriter: whatever comes, the stored checkpoint never goes back, is always one
// that was safe, and is the last safe one after a stop that succeeded.
func TestRandomHistoriesOfAWriter(t *testing.T) {
	t.Parallel()
	faults := []error{errTransient, errPermanent, errUnknown, context.DeadlineExceeded, errors.New("no error of a port")}
	rapid.Check(t, func(t *rapid.T) {
		d := newDesk(t, checkpoint.Options{})
		highest := -1
		if rapid.Bool().Draw(t, "stored") {
			highest = rapid.IntRange(0, 50).Draw(t, "stored at")
			require.NoError(t, d.model.SaveCheckpoint(context.Background(), pipeline, types.Checkpoint{Cursor: at(highest)}))
		}
		start := highest
		safe := map[types.Cursor]bool{}
		_, _, err := d.Start(context.Background(), d.model)
		require.NoError(t, err)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				n := rapid.IntRange(0, 100).Draw(t, "cursor")
				highest = max(highest, n)
				safe[at(n)] = true
				d.Advance(at(n))
			case 2:
				d.clock.Advance(rapid.SampledFrom([]time.Duration{1, 50 * time.Millisecond, time.Second, time.Minute}).Draw(t, "time"))
			case 3:
				d.faults.Add(flaky.Fault{
					Op:          flaky.StorageSaveCheckpoint,
					Limit:       rapid.IntRange(1, 3).Draw(t, "times"),
					Err:         rapid.SampledFrom(faults).Draw(t, "fault"),
					AfterEffect: rapid.Bool().Draw(t, "after effect"),
				})
			case 4:
				_ = d.HealthCheck(context.Background())
			}
		}
		if rapid.Bool().Draw(t, "abort") {
			d.Abort()
			d.Wait()
		} else {
			d.faults.Clear()
			end := drive(d.clock, time.Second)
			require.NoError(t, d.Stop(context.Background()))
			end()
			if highest >= 0 {
				require.Equal(t, at(highest), d.stored(t).Cursor)
			}
			require.NoError(t, d.HealthCheck(context.Background()))
		}
		tried := d.tried()
		require.True(t, slices.IsSortedFunc(tried, types.Cursor.Compare), "%v", tried)
		for _, c := range tried {
			require.True(t, safe[c], "%v was never safe", c)
			require.True(t, start < 0 || c.Compare(at(start)) > 0, "%v is not ahead of the start", c)
		}
	})
}
