package pipeline_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// twoSinks delivers every event to "alerts" and to "slow".
func twoSinks() config.Pipeline {
	return one(func(p *config.Pipeline) {
		p.Monitors[0].When = ""
		p.Monitors[0].Sinks = []types.SinkID{"alerts", "slow"}
		p.Sinks[0].Module = "batch"
		p.Sinks = append(p.Sinks, config.Sink{ID: "slow", Store: config.Store{Module: "receiver"}})
	})
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestASlowSinkHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		release := make(chan struct{})
		w.receiver(quakes, "slow").deciding(func(ctx context.Context, _ types.SinkEvent) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		delivered := 0
		w.receiver(quakes, "alerts").deciding(func(context.Context, types.SinkEvent) error {
			delivered++
			return errRefused // so that the receiver keeps none
		})
		dir := t.TempDir()
		w.storage = forgetful{w.storage}
		w.stream(quakes).append(many(pipeline.MaxBehind + 20_000)...)
		before := heap()
		e := w.engineWith(t, pipeline.Options{Pipelines: []config.Pipeline{twoSinks()}, SpillDir: dir})
		settle()
		s := status(t, e, quakes)
		require.GreaterOrEqual(t, s.Sinks[1].Pending, uint64(pipeline.MaxBehind))
		require.Less(t, s.Sinks[1].Pending, uint64(pipeline.MaxBehind+501), "at the bound nothing more is read")
		require.EqualValues(t, s.Events, delivered, "the other has all that was read")
		require.Nil(t, s.Checkpoint)
		require.Less(t, int64(heap()-before), int64(24<<20), "what waits is on the disk")
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.NotEmpty(t, files)

		w.receiver(quakes, "slow").deciding(func(context.Context, types.SinkEvent) error { return errRefused })
		close(release)
		pass(time.Hour)
		s = status(t, e, quakes)
		require.EqualValues(t, pipeline.MaxBehind+20_000, s.Events)
		require.Zero(t, s.Pending)
		require.NoError(t, e.Close(t.Context()))
		files, err = filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Empty(t, files)
	})
}

// A lane without anything to deliver costs next to nothing: it has no goroutine, before its first match and
// after its last.
func TestOnlyLanesWithSomethingToDeliverHaveAGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		release := make(chan struct{})
		w.receiver("p000", "s1").deciding(func(ctx context.Context, _ types.SinkEvent) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		e := w.engine(t, grid(2, 10, 2)...)
		settle()
		lanes := func() [2]int {
			all, busy := pipeline.Lanes(e)
			return [2]int{all, busy}
		}
		require.Equal(t, [2]int{40, 0}, lanes())
		w.stream("p000").append(mags(3, 4, 3)...)
		w.stream("p001").append(mags(3, 4, 3)...)
		settle()
		require.Equal(t, [2]int{40, 2}, lanes(), "those to the slow sink")
		close(release)
		settle()
		require.Equal(t, [2]int{40, 0}, lanes())
		require.ElementsMatch(t, count(3), w.receiver("p001", "s1").primaries())
		w.stream("p000").append(mags(3)...)
		settle()
		require.Len(t, w.receiver("p000", "s1").has(), 4)
	})
}

// forgetful is a storage that keeps no outcomes, so that a test of memory sees the engine's alone.
type forgetful struct{ ports.Storage }

func (f forgetful) Apply(ctx context.Context, id types.PipelineID, p types.Progress) error {
	p.Deliveries, p.DeadLetters = nil, nil
	return f.Storage.Apply(ctx, id, p)
}

func TestABacklogThatCannotBeWrittenLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		open := make(chan struct{})
		w.receiver(quakes, "slow").deciding(func(ctx context.Context, _ types.SinkEvent) error {
			select {
			case <-open:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		w.storage = forgetful{w.storage}
		dir := filepath.Join(t.TempDir(), "spill")
		e := w.engineWith(t, pipeline.Options{Pipelines: []config.Pipeline{twoSinks()}, SpillDir: dir})
		require.NoError(t, os.RemoveAll(dir))
		w.stream(quakes).append(many(40_000)...)
		settle()
		s := status(t, e, quakes)
		require.Equal(t, types.PipelineRunning, s.State)
		require.Less(t, s.Events, uint64(40_000), "reading has stopped")
		close(open)
		settle()
		require.Equal(t, count(40_000), w.receiver(quakes, "slow").primaries())
		require.Equal(t, count(40_000), w.receiver(quakes, "alerts").primaries())
	})
}

// lender is a source whose events come again at newer cursors when it is opened anew, as messages of a
// queue do.
type lender struct {
	*reader
	base uint64
}

func (lender) Unordered() bool { return true }

func (l lender) Read(ctx context.Context, most int) ([]types.Event, error) {
	events, err := l.reader.Read(ctx, most)
	for i := range events {
		events[i].ID = events[i].Identity()
		events[i].Cursor.Primary += l.base
	}
	return events, err
}

type lending struct{ *world }

func (l lending) OpenSource(ctx context.Context, p config.Pipeline, from *types.Cursor) (ports.Source, error) {
	s, err := l.world.OpenSource(ctx, p, nil)
	base := uint64(0)
	if from != nil {
		base = from.Primary
	}
	return lender{s.(*reader), base}, err
}

func TestEventsThatComeAgainAtNewerCursorsAreKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		stopped := errors.New("enough")
		w.stream(quakes).append(many(700)...)
		for range 3 {
			e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: lending{w}, Pipelines: []config.Pipeline{one()}, SpillDir: t.TempDir()})
			require.NoError(t, err)
			require.NoError(t, e.Start(t.Context()))
			settle()
			require.Len(t, w.receiver(quakes, "alerts").has(), 700, "each once")
			w.stream(quakes).fail(stopped)
			w.stream(quakes).fail(nil)
			require.NoError(t, e.Close(context.Background()))
		}
	})
}

func TestOnlySoManyEventsAreLentAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.receiver(quakes, "alerts").deciding(func(ctx context.Context, _ types.SinkEvent) error {
			<-ctx.Done()
			return ctx.Err()
		})
		w.stream(quakes).append(many(10_000)...)
		e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: lending{w}, Pipelines: []config.Pipeline{one()}, SpillDir: t.TempDir()})
		require.NoError(t, err)
		require.NoError(t, e.Start(t.Context()))
		settle()
		s := status(t, e, quakes)
		require.GreaterOrEqual(t, s.Pending, uint64(pipeline.MaxUnsettled))
		require.Less(t, s.Pending, uint64(pipeline.MaxUnsettled+500))
		require.NoError(t, e.Close(context.Background()))
	})
}
