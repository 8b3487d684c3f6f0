package pipeline_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// deaf makes the sink of a pipeline ignore its context until the returned function is called.
func (w *world) deaf(id types.PipelineID) (release func()) {
	forever := make(chan struct{})
	w.receiver(id, "alerts").deciding(func(context.Context, types.SinkEvent) error {
		<-forever
		return nil
	})
	return func() { close(forever) }
}

func TestASinkThatDoesNotReturnIsLeftBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		put(t, w.storage, string(quakes), from5, 0)
		w.stream(quakes).append(many(1)...)
		release := w.deaf(quakes)
		e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: w, SpillDir: t.TempDir(), StopTimeout: time.Second})
		require.NoError(t, err)
		require.NoError(t, e.Start(t.Context()))
		pass(time.Second)
		put(t, w.storage, string(quakes), from7, 1)
		began := time.Now()
		require.NoError(t, e.Refresh(t.Context()))
		require.LessOrEqual(t, time.Since(began), 10*time.Second, "a change of one pipeline waits no longer")
		pass(time.Second)
		require.Equal(t, types.PipelineRunning, status(t, e, quakes).State)

		w.stream(quakes).append(mags(8)...)
		pass(time.Second)
		began = time.Now()
		require.ErrorContains(t, e.Close(t.Context()), "does not return from a delivery")
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		release()
		synctest.Wait()
		journal, err := w.storage.Delivered(t.Context(), quakes, types.Cursor{}, types.Cursor{Primary: 9})
		require.NoError(t, err)
		require.Empty(t, journal, "what was left behind stores nothing")
	})
}

func TestAPauseWaitsForNoOtherPipeline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.stream("others").append(many(1)...)
		release := w.deaf("others")
		e := w.engineWith(t, pipeline.Options{
			Pipelines: []config.Pipeline{one(), one(func(p *config.Pipeline) { p.ID = "others" })}, StopTimeout: time.Minute,
		})
		pass(time.Second)
		go func() { _ = e.Suspend(context.Background(), "others", func(context.Context) error { return nil }) }()
		pass(6 * time.Second)
		require.NoError(t, w.storage.Pause(t.Context(), types.PipelineOf(quakes)))
		pass(time.Second)
		require.Equal(t, types.PipelinePaused, status(t, e, quakes).State)
		release()
		settle()
	})
}

// stuckStorage does not store checkpoints before their context ends, or stores nothing, as a full disk.
type stuckStorage struct {
	ports.Storage
	held, full bool
}

func (s stuckStorage) Apply(ctx context.Context, id types.PipelineID, p types.Progress) error {
	switch {
	case s.held && p.Checkpoint != nil:
		<-ctx.Done()
		return ctx.Err()
	case s.full && len(p.DeadLetters) > 0:
		return errDown
	}
	return s.Storage.Apply(ctx, id, p)
}

// hesitant are the parts of a world whose sources settle nothing before their context ends.
type hesitant struct{ *world }

type hesitantReader struct{ ports.Source }

func (hesitantReader) Settle(ctx context.Context, _ types.Cursor) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h hesitant) OpenSource(ctx context.Context, p config.Pipeline, from *types.Cursor) (ports.Source, error) {
	s, err := h.world.OpenSource(ctx, p, from)
	return hesitantReader{s}, err
}

func TestAStopWaitsForNoStorageThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held, full, hesitant bool
		received             []uint64
	}{
		"a checkpoint is held up":                    {held: true, received: []uint64{2}},
		"no dead letter of the source can be stored": {full: true},
		"the source does not settle":                 {hesitant: true, received: []uint64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld()
				w.storage = stuckStorage{w.storage, c.held, c.full}
				var parts pipeline.Parts = w
				if c.hesitant {
					parts = hesitant{w}
				}
				e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: parts, SpillDir: t.TempDir(), StopTimeout: time.Second, Pipelines: []config.Pipeline{one()}})
				require.NoError(t, err)
				require.NoError(t, e.Start(t.Context()))
				w.stream(quakes).append(mags(1)...)
				settle()
				if c.full {
					w.stream(quakes).append("")
				} else {
					w.stream(quakes).append(mags(5)...)
				}
				settle()
				require.Equal(t, c.received, w.receiver(quakes, "alerts").primaries(), "deliveries go on")
				began := time.Now()
				require.NoError(t, e.Close(t.Context()))
				require.LessOrEqual(t, time.Since(began), 10*time.Second)
			})
		})
	}
}

// deafSource reads, then waits whatever its context says.
type deafSource struct {
	ports.Source
	forever chan struct{}
	began   chan struct{}
}

func (s deafSource) Read(ctx context.Context, limit int) ([]types.Event, error) {
	select {
	case <-s.began:
		<-s.forever
	default:
		close(s.began)
	}
	return s.Source.Read(ctx, limit)
}

// deafParts are the parts of a world whose sources are deaf.
type deafParts struct {
	*world
	forever chan struct{}
}

func (p deafParts) OpenSource(ctx context.Context, c config.Pipeline, from *types.Cursor) (ports.Source, error) {
	s, err := p.world.OpenSource(ctx, c, from)
	return deafSource{s, p.forever, make(chan struct{})}, err
}

func TestASourceThatDoesNotReturnIsLeftBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		put(t, w.storage, string(quakes), from5, 0)
		w.stream(quakes).append(mags(5)...)
		forever := make(chan struct{})
		e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: deafParts{w, forever}, SpillDir: t.TempDir(), StopTimeout: time.Second})
		require.NoError(t, err)
		require.NoError(t, e.Start(t.Context()))
		pass(time.Second)
		require.Equal(t, []uint64{1}, w.receiver(quakes, "alerts").primaries())

		w.stream(quakes).append(mags(6, 8)...)
		put(t, w.storage, string(quakes), from7, 1)
		began := time.Now()
		require.NoError(t, e.Refresh(t.Context()))
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		pass(10 * time.Second)
		require.EqualValues(t, 2, status(t, e, quakes).Version)
		require.Equal(t, []uint64{1, 3}, w.receiver(quakes, "alerts").primaries(), "the successor has a source of its own")

		began = time.Now()
		require.NoError(t, e.Close(t.Context()))
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		close(forever)
		synctest.Wait()
		require.Equal(t, []uint64{1, 3}, w.receiver(quakes, "alerts").primaries())
	})
}

// Expressions that cost as much as they may, on a batch of events, hold up no stop.
func TestAStopWaitsForNoBatchThatIsDear(t *testing.T) {
	t.Parallel()
	w := newWorld()
	dear := one(func(p *config.Pipeline) { p.Monitors[0].When = `any(list, not all(list, none(list, # == "x")))` })
	e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: w, SpillDir: t.TempDir(), Pipelines: []config.Pipeline{dear}})
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context()))
	event := `{"list":[` + strings.TrimSuffix(strings.Repeat("1,", 165), ",") + `]}`
	w.stream(quakes).append(slices.Repeat([]string{event}, 500)...) // one batch, and many seconds of work
	require.Eventually(t, func() bool { return status(t, e, quakes).State == types.PipelineRunning }, time.Minute, time.Millisecond)
	require.NoError(t, e.Close(t.Context()))
	require.Zero(t, status(t, e, quakes).Events, "the batch was left off, and comes again")
}

// A source that gives events again may give one while it waits for its delivery.
func TestAnEventThatComesAgainInABatchIsSentOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ attempts, failing, received int }{
		"and fails the second time": {5, 3, 2}, "and is given up": {1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld()
				s := w.stream(quakes)
				s.append(many(3)...)
				s.events[0].ID, s.events[1].ID, s.events[2].ID = "a", "b", "a"
				calls := 0
				w.receiver(quakes, "alerts").deciding(func(context.Context, types.SinkEvent) error {
					if calls++; calls == c.failing {
						return errDown
					}
					return nil
				})
				e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: repeating{w}, SpillDir: t.TempDir(), Pipelines: []config.Pipeline{
					one(func(p *config.Pipeline) { p.Sinks[0].Module, p.Sinks[0].Retry.Attempts = "batch", c.attempts }),
				}})
				require.NoError(t, err)
				require.NoError(t, e.Start(t.Context()))
				settle()
				require.Equal(t, &types.Cursor{Primary: 3}, status(t, e, quakes).Checkpoint)
				require.Zero(t, status(t, e, quakes).Sinks[0].Pending)
				require.Len(t, w.receiver(quakes, "alerts").has(), c.received)
				require.EqualValues(t, 1, status(t, e, quakes).Sinks[0].Duplicates)
				require.NoError(t, e.Close(context.Background()))
			})
		})
	}
}

// repeating are the parts of a world whose streams give events again.
type repeating struct{ *world }

type repeater struct{ ports.Source }

func (repeater) Unordered() bool { return true }

func (r repeating) OpenSource(ctx context.Context, p config.Pipeline, from *types.Cursor) (ports.Source, error) {
	s, err := r.world.OpenSource(ctx, p, from)
	return repeater{s}, err
}

// wilful is a source that panics at a read, or does not close.
type wilful struct {
	ports.Source
	panics bool
	closes <-chan struct{}
}

func (w wilful) Read(ctx context.Context, most int) ([]types.Event, error) {
	if w.panics {
		panic("secret content")
	}
	return w.Source.Read(ctx, most)
}

func (w wilful) Close() error {
	<-w.closes
	return w.Source.Close()
}

type wilfulParts struct {
	*world
	source wilful
}

func (p wilfulParts) OpenSource(ctx context.Context, c config.Pipeline, from *types.Cursor) (ports.Source, error) {
	s, err := p.world.OpenSource(ctx, c, from)
	p.source.Source = s
	return p.source, err
}

func TestASourceThatPanicsOrDoesNotCloseStopsNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		closes := make(chan struct{})
		w := newWorld()
		e, err := pipeline.NewEngine(pipeline.Options{
			Storage: w.storage, Parts: wilfulParts{w, wilful{panics: true, closes: closes}}, SpillDir: t.TempDir(), StopTimeout: time.Second,
			Pipelines: []config.Pipeline{one()},
		})
		require.NoError(t, err)
		require.NoError(t, e.Start(t.Context()))
		s := status(t, e, quakes)
		for range 100 {
			if s = status(t, e, quakes); s.State == types.PipelineFailed {
				break
			}
			pass(100 * time.Millisecond)
		}
		require.Equal(t, types.PipelineFailed, s.State)
		require.Contains(t, s.Error, "panicked")
		require.NotContains(t, s.Error, "secret")
		began := time.Now()
		require.NoError(t, e.Close(t.Context()))
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		close(closes)
		synctest.Wait()
	})
}
