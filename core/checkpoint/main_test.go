package checkpoint_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/core/checkpoint"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const pipeline = types.PipelineID("earthquakes")

var (
	errTransient = ports.Errorf(ports.CodeBackendFailed, "storage.saveCheckpoint", "the test says so")
	errPermanent = ports.Errorf(ports.CodeBackendFailed, "storage.saveCheckpoint", "the test says so").WithReason(ports.ReasonReadOnly)
	errUnknown   = ports.Errorf(ports.CodeOutcomeUnknown, "storage.saveCheckpoint", "the answer was lost")
)

func at(n int) types.Cursor { return types.Cursor{Primary: uint64(n)} }

// call is one that reached the storage.
type call struct {
	at     time.Time
	cursor types.Cursor
}

// desk is a writer on a flaky model of a storage, with all that was asked of it.
type desk struct {
	*checkpoint.Writer
	clock  *fixture.Clock
	model  ports.Storage
	faults *flaky.Faults
	flaky  ports.Storage

	mu    sync.Mutex
	calls []call
}

func (d *desk) SaveCheckpoint(ctx context.Context, p types.PipelineID, c types.Checkpoint) error {
	d.mu.Lock()
	d.calls = append(d.calls, call{d.clock.Now(), c.Cursor})
	d.mu.Unlock()
	return d.flaky.SaveCheckpoint(ctx, p, c)
}

// tried are the cursors that the storage was asked to save, in order.
func (d *desk) tried() []types.Cursor {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []types.Cursor
	for _, c := range d.calls {
		all = append(all, c.cursor)
	}
	return all
}

// pauses are the times between the calls.
func (d *desk) pauses() []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []time.Duration
	for i := 1; i < len(d.calls); i++ {
		all = append(all, d.calls[i].at.Sub(d.calls[i-1].at))
	}
	return all
}

func (d *desk) stored(t require.TestingT) types.Checkpoint {
	c, found, err := d.model.LoadCheckpoint(context.Background(), pipeline)
	require.NoError(t, err)
	require.True(t, found, "a checkpoint is stored")
	return c
}

// settle waits until the writer rests after a call. An idle writer has no timer.
func (d *desk) settle() { d.clock.BlockUntilTimers(1) }

// pass lets the pause of the writer end, and waits for the next one.
func (d *desk) pass(pause time.Duration) {
	d.clock.Advance(pause)
	d.settle()
}

func newDesk(t require.TestingT, opts checkpoint.Options, faults ...flaky.Fault) *desk {
	clock := fixture.NewClock(fixture.Epoch())
	d := &desk{clock: clock, model: model.NewStorage(0), faults: flaky.New(clock, 1, faults...)}
	d.flaky = flaky.NewStorage(d.model, d.faults)
	opts.Pipeline, opts.Clock = pipeline, clock
	if opts.Random == nil {
		opts.Random = func() float64 { return 0 }
	}
	w, err := checkpoint.New(d, opts)
	require.NoError(t, err)
	d.Writer = w
	return d
}

// started is a writer that runs until the end of the test.
func started(t *testing.T, opts checkpoint.Options, faults ...flaky.Fault) *desk {
	t.Helper()
	d := newDesk(t, opts, faults...)
	_, _, err := d.Start(t.Context(), d.model)
	require.NoError(t, err)
	t.Cleanup(func() {
		d.Abort()
		_ = d.Stop(context.Background())
	})
	return d
}

func failing(err error, times int) flaky.Fault {
	return flaky.Fault{Op: flaky.StorageSaveCheckpoint, Limit: times, Err: err}
}

// drive lets time pass, in steps, whenever somebody waits for it. It ends with the function that it
// returns.
func drive(clock *fixture.Clock, step time.Duration) func() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for clock.WaitForTimers(ctx, 1) == nil {
			clock.Advance(step)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// records counts what is logged, by level.
type records struct {
	mu     sync.Mutex
	levels map[slog.Level]int
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }
func (r *records) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.levels == nil {
		r.levels = map[slog.Level]int{}
	}
	r.levels[rec.Level]++
	return nil
}

func (r *records) count(level slog.Level) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.levels[level]
}
