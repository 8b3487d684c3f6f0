package pipeline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/types"
)

// A receiver that always asks for a pause has each match for an hour, whatever pauses these are. None is
// shorter than asked, but for one that is longer than the hour.
func TestAReceiverThatAlwaysAsksForAPauseHasAMatchForAnHour(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked    time.Duration
		attempts int
		within   time.Duration
	}{
		"a quarter of it":   {15 * time.Minute, 5, time.Hour},
		"a little less":     {59 * time.Minute, 2, 59 * time.Minute},
		"the hour":          {time.Hour, 2, time.Hour},
		"more":              {48 * time.Hour, 2, time.Hour},
		"no time at all":    {0, 361, time.Hour},
		"less than a retry": {time.Millisecond, 361, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld()
				var first, last time.Time
				attempts := 0
				w.receiver(quakes, "alerts").deciding(func(_ context.Context, e types.SinkEvent) error {
					if e.Origin().Cursor.Primary == 2 {
						return nil
					}
					if attempts++; attempts == 1 {
						first = time.Now()
					}
					last = time.Now()
					return errDown.WithRetryAfter(c.asked)
				})
				w.stream(quakes).append(many(2)...)
				w.engine(t, one(func(p *config.Pipeline) { p.Sinks[0].Retry.Min = 10 * time.Second }))
				pass(2 * time.Hour)
				synctest.Wait()
				require.Equal(t, c.attempts, attempts)
				require.Equal(t, c.within, last.Sub(first))
				require.Len(t, letters(t, w.storage, quakes), 1)
				require.Equal(t, []uint64{2}, w.receiver(quakes, "alerts").primaries())
			})
		})
	}
}

// Whoever waits for a receiver says until when, and is stopped, changed, paused and resumed as any other.
func TestWhoWaitsForAReceiverSaysUntilWhen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		put(t, w.storage, string(quakes), from5, 0)
		limited := true
		w.receiver(quakes, "alerts").deciding(func(context.Context, types.SinkEvent) error {
			if limited {
				return errDown.WithRetryAfter(time.Hour)
			}
			return nil
		})
		e := w.engine(t)
		w.stream(quakes).append(many(1)...)
		synctest.Wait()
		sink := func() types.SinkStatus { return status(t, e, quakes).Sinks[0] }
		require.Equal(t, time.Now().Add(time.Hour), sink().WaitingUntil)
		require.EqualValues(t, 1, sink().Pending)

		pass(time.Minute)
		require.NoError(t, w.storage.Pause(t.Context(), types.SinkOf(quakes, "alerts")))
		pass(time.Second)
		require.True(t, sink().Paused)
		pass(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 1, sink().Retries, "it is paused when the time has come")
		require.Zero(t, sink().WaitingUntil)
		require.NoError(t, w.storage.Resume(t.Context(), types.SinkOf(quakes, "alerts")))
		pass(time.Second)
		require.Len(t, letters(t, w.storage, quakes), 1, "the hour is over")

		w.stream(quakes).append(many(1)...)
		synctest.Wait()
		require.Equal(t, time.Now().Add(time.Hour), sink().WaitingUntil)
		began := time.Now()
		put(t, w.storage, string(quakes), `{"event_time":"missing",`+from5[1:], 1)
		require.NoError(t, e.Refresh(t.Context(), quakes))
		require.Zero(t, time.Since(began), "a change waits for none of it")
		synctest.Wait()
		require.Equal(t, types.PipelineRunning, status(t, e, quakes).State)
		require.Equal(t, time.Now().Add(time.Hour), sink().WaitingUntil, "the next run has asked again")
		limited = false
		require.NoError(t, e.Suspend(t.Context(), quakes, func(context.Context) error { return nil }))
		synctest.Wait()
		require.Equal(t, []uint64{2}, w.receiver(quakes, "alerts").primaries())
		require.Zero(t, sink().WaitingUntil)
		limited = true
		w.stream(quakes).append(many(1)...)
		synctest.Wait()
		require.NotZero(t, sink().WaitingUntil)
		require.NoError(t, e.Close(t.Context()))
		require.Zero(t, time.Since(began), "and so do a checkpoint that is set, and a stop")
	})
}

// Of several lanes to one sink the status has the first that tries again.
func TestTheFirstToTryAgainCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.receiver(quakes, "alerts").deciding(func(_ context.Context, e types.SinkEvent) error {
			if e.Origin().Monitor == "strong" {
				return errDown.WithRetryAfter(20 * time.Minute)
			}
			return errDown.WithRetryAfter(10 * time.Minute)
		})
		w.stream(quakes).append(many(1)...)
		e := w.engineWith(t, pipeline.Options{Pipelines: []config.Pipeline{one(func(p *config.Pipeline) {
			p.Monitors = append(p.Monitors, config.Monitor{ID: "all", Sinks: []types.SinkID{"alerts"}})
		})}})
		synctest.Wait()
		require.Equal(t, time.Now().Add(10*time.Minute), status(t, e, quakes).Sinks[0].WaitingUntil)
	})
}
