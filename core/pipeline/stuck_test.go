package pipeline_test

import (
	"context"
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
