package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/types"
)

func TestMatchesAreDeliveredInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.stream(quakes).append(mags(5, 1, 6, 4.9, 7)...)
		e := w.engine(t, one())
		settle()
		require.Equal(t, []uint64{1, 3, 5}, w.receiver(quakes, "alerts").primaries())
		w.stream(quakes).append(mags(2, 8)...)
		settle()
		require.Equal(t, []uint64{1, 3, 5, 7}, w.receiver(quakes, "alerts").primaries())
		first := w.receiver(quakes, "alerts").has()[0]
		require.Equal(t, types.SinkEvent{Match: &types.Match{
			ID: types.NewMatchID(quakes, "strong", "alerts", "1/0/0"), Pipeline: quakes, Monitor: "strong",
			Cursor: types.Cursor{Primary: 1}, TS: 1000, Event: []byte(`{"mag":5}`),
		}}, first)

		s := status(t, e, quakes)
		require.Equal(t, types.PipelineRunning, s.State)
		require.EqualValues(t, 7, s.Events)
		require.EqualValues(t, 4, s.Monitors[0].Matches)
		require.EqualValues(t, 4, s.Sinks[0].Delivered)
		require.EqualValues(t, 4, s.Sinks[0].Latency.Count())
		require.Equal(t, &types.Cursor{Primary: 7}, s.Read)
		require.Equal(t, &types.Cursor{Primary: 7}, s.Checkpoint)
		require.Zero(t, s.LagSeconds)
		require.Zero(t, s.Pending)
		require.Equal(t, types.Cursor{Primary: 7}, w.stream(quakes).settledTo())
	})
}

func TestBatchesKeepTheOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.stream(quakes).append(many(1234)...)
		w.stream(quakes).end()
		failures := 0
		w.receiver(quakes, "alerts").deciding(func(_ context.Context, e types.SinkEvent) error {
			if n := e.Origin().Cursor.Primary; n%100 == 7 && failures < 30 {
				failures++
				return errDown
			}
			return nil
		})
		e := w.engine(t, one(func(p *config.Pipeline) { p.Sinks[0].Module = "batch" }))
		settle()
		got := w.receiver(quakes, "alerts").primaries()
		require.IsIncreasing(t, got)
		s := status(t, e, quakes)
		require.Equal(t, types.PipelineFinished, s.State)
		require.EqualValues(t, 1234, s.Sinks[0].Delivered+s.Sinks[0].DeadLettered)
		require.Len(t, letters(t, w.storage, quakes), int(s.Sinks[0].DeadLettered))
		require.Len(t, got, int(s.Sinks[0].Delivered))
		require.EqualValues(t, 6, s.Sinks[0].DeadLettered, "thirty failures of one after the other, five attempts each")
	})
}

func TestFailuresAreTriedAgainThenDeadLettered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		var attempts []time.Time
		w.receiver(quakes, "alerts").deciding(func(_ context.Context, e types.SinkEvent) error {
			switch e.Origin().Cursor.Primary {
			case 1:
				attempts = append(attempts, time.Now())
				return errDown
			case 2:
				return errRefused
			}
			return nil
		})
		w.stream(quakes).append(many(3)...)
		e := w.engine(t, one(func(p *config.Pipeline) {
			p.Sinks[0].Retry = config.Retry{Attempts: 4, Min: time.Second, Max: 3 * time.Second}
		}))
		settle()
		require.Equal(t, []uint64{3}, w.receiver(quakes, "alerts").primaries())
		require.Len(t, attempts, 4)
		for i, longest := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
			pause := attempts[i+1].Sub(attempts[i])
			require.LessOrEqual(t, pause, longest)
			require.GreaterOrEqual(t, pause, longest/2)
		}
		list := letters(t, w.storage, quakes)
		require.Len(t, list, 2)
		require.EqualValues(t, 4, list[0].Attempts)
		require.EqualValues(t, 1, list[1].Attempts)
		require.Contains(t, list[0].Reason, "the receiver is down")
		require.Equal(t, types.SinkID("alerts"), list[0].Sink)
		require.Equal(t, []byte(`{"mag":5}`), []byte(list[0].Payload.Match.Event))
		s := status(t, e, quakes)
		require.EqualValues(t, 2, s.Sinks[0].DeadLettered)
		require.EqualValues(t, 3, s.Sinks[0].Retries)
		require.Contains(t, s.Sinks[0].LastError, "the receiver refuses it")
		require.Equal(t, &types.Cursor{Primary: 3}, s.Checkpoint)
	})
}

func TestARateLimitIsNoFailedAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		began, calls := time.Now(), 0
		w.receiver(quakes, "alerts").deciding(func(_ context.Context, e types.SinkEvent) error {
			if e.Origin().Cursor.Primary == 2 {
				return errDown.WithRetryAfter(10 * time.Minute) // for ever
			}
			if calls++; calls <= 20 {
				return errDown.WithRetryAfter(time.Minute)
			}
			return nil
		})
		w.stream(quakes).append(many(3)...)
		w.engine(t, one())
		pass(19*time.Minute + 59*time.Second)
		synctest.Wait()
		require.Empty(t, w.receiver(quakes, "alerts").has())
		pass(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []uint64{1}, w.receiver(quakes, "alerts").primaries())
		require.Empty(t, letters(t, w.storage, quakes))
		pass(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, []uint64{1, 3}, w.receiver(quakes, "alerts").primaries())
		require.Len(t, letters(t, w.storage, quakes), 1, "an hour is enough; began %v", began)
	})
}

func TestWhatIsNoEventIsADeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.stream(quakes).append(`{"mag":5}`, "", `{"mag":6}`, "")
		e := w.engine(t, one())
		settle()
		require.Equal(t, []uint64{1, 3}, w.receiver(quakes, "alerts").primaries())
		list := letters(t, w.storage, quakes)
		require.Len(t, list, 2)
		require.Equal(t, types.MonitorID("_source"), list[0].Monitor)
		require.Equal(t, types.SinkID("_source"), list[0].Sink)
		require.Equal(t, types.Cursor{Primary: 2}, list[0].Cursor)
		require.Equal(t, "the line 2 is no JSON", list[0].Reason)
		require.Equal(t, `{"line":"?"}`, string(list[0].Payload.Match.Event))
		require.EqualValues(t, 2, status(t, e, quakes).BadEvents)
		handle, err := control.New(control.Options{Storage: w.storage, Sinks: e})
		require.NoError(t, err)
		require.ErrorIs(t, handle.ReplayLetter(t.Context(), quakes, list[0].MatchID), ports.ErrNotFound, "there is nowhere to deliver it")
		require.Len(t, letters(t, w.storage, quakes), 2)
		require.Equal(t, &types.Cursor{Primary: 4}, status(t, e, quakes).Checkpoint)
	})
}

func TestARestartRepeatsNothingThatIsRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		slow := make(chan struct{})
		p := one(func(p *config.Pipeline) {
			p.Monitors = append(p.Monitors, config.Monitor{ID: "all", Sinks: []types.SinkID{"slow"}})
			p.Sinks = append(p.Sinks, config.Sink{ID: "slow", Store: config.Store{Module: "receiver"}})
		})
		w.receiver(quakes, "slow").deciding(func(ctx context.Context, _ types.SinkEvent) error {
			select {
			case <-slow:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		w.stream(quakes).append(many(100)...)
		e := w.engine(t, p)
		settle()
		require.Len(t, w.receiver(quakes, "alerts").has(), 100, "the other sink is not held up")
		require.Nil(t, status(t, e, quakes).Checkpoint, "nothing is settled")
		require.InDelta(t, 60, status(t, e, quakes).LagSeconds, 1)
		require.NoError(t, e.Close(t.Context()))
		close(slow)
		again := w.engine(t, p)
		settle()
		require.Equal(t, count(100), w.receiver(quakes, "alerts").primaries(), "each once")
		require.Equal(t, count(100), w.receiver(quakes, "slow").primaries())
		require.EqualValues(t, 100, status(t, again, quakes).Sinks[0].Duplicates)
		require.Equal(t, &types.Cursor{Primary: 100}, status(t, again, quakes).Checkpoint)
	})
}

func TestPausesHold(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]types.Pause{
		"pipeline": types.PipelineOf(quakes), "monitor": types.MonitorOf(quakes, "strong"), "sink": types.SinkOf(quakes, "alerts"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld()
				e := w.engine(t, one())
				w.stream(quakes).append(many(2)...)
				settle()
				require.NoError(t, w.storage.Pause(t.Context(), pause))
				pass(time.Second)
				synctest.Wait()
				w.stream(quakes).append(many(3)...)
				settle()
				require.Equal(t, count(2), w.receiver(quakes, "alerts").primaries())
				require.Equal(t, pause.Target == types.PausePipeline, status(t, e, quakes).State == types.PipelinePaused)
				require.Equal(t, pause.Target == types.PauseMonitor, status(t, e, quakes).Monitors[0].Paused)
				require.Equal(t, pause.Target == types.PauseSink, status(t, e, quakes).Sinks[0].Paused)

				require.NoError(t, e.Close(t.Context()))
				again := w.engine(t, one())
				settle()
				require.Equal(t, count(2), w.receiver(quakes, "alerts").primaries(), "a pause survives a restart")
				require.NoError(t, w.storage.Resume(t.Context(), pause))
				pass(time.Second)
				synctest.Wait()
				require.Equal(t, count(5), w.receiver(quakes, "alerts").primaries())
				require.Equal(t, types.PipelineRunning, status(t, again, quakes).State)
			})
		})
	}
}

func TestAPauseEndsTheAttemptsOfAMatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		calls := 0
		w.receiver(quakes, "alerts").deciding(func(context.Context, types.SinkEvent) error { calls++; return errDown })
		w.stream(quakes).append(many(1)...)
		w.engine(t, one(func(p *config.Pipeline) {
			p.Sinks[0].Retry = config.Retry{Attempts: 100, Min: 4 * time.Second, Max: 4 * time.Second}
		}))
		pass(time.Second)
		synctest.Wait()
		require.Equal(t, 1, calls)
		require.NoError(t, w.storage.Pause(t.Context(), types.SinkOf(quakes, "alerts")))
		settle()
		require.Equal(t, 1, calls)
		require.NoError(t, w.storage.Resume(t.Context(), types.SinkOf(quakes, "alerts")))
		settle()
		require.Greater(t, calls, 10)
		require.Empty(t, letters(t, w.storage, quakes))
	})
}

func TestAFailedPipelineIsStartedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.stream(quakes).append(many(3)...)
		w.stream("others").append(many(3)...)
		others := one(func(p *config.Pipeline) { p.ID = "others" })
		e := w.engine(t, one(), others)
		settle()
		w.stream(quakes).fail(errors.New("the disk is gone"))
		pass(100 * time.Millisecond)
		synctest.Wait()
		s := status(t, e, quakes)
		require.Equal(t, types.PipelineFailed, s.State)
		require.Contains(t, s.Error, "the disk is gone")
		require.True(t, s.RetryAt.After(time.Now()))
		require.Error(t, e.HealthCheck(t.Context()))
		require.Equal(t, types.PipelineRunning, status(t, e, "others").State, "each fails for itself")
		w.stream("others").append(many(1)...)
		pass(10 * time.Minute)
		w.stream(quakes).append(many(2)...)
		w.stream(quakes).fail(nil)
		pass(time.Minute)
		synctest.Wait()
		require.Equal(t, count(5), w.receiver(quakes, "alerts").primaries())
		require.Equal(t, count(4), w.receiver("others", "alerts").primaries())
		s = status(t, e, quakes)
		require.Equal(t, types.PipelineRunning, s.State)
		require.Empty(t, s.Error)
		require.Greater(t, s.Restarts, uint64(8))
		require.Less(t, s.Restarts, uint64(40), "with growing pauses")
		require.NoError(t, e.HealthCheck(t.Context()))
	})
}

func TestACheckpointOfAnotherModuleStopsThePipeline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		module := "another"
		require.NoError(t, w.storage.SaveCheckpoint(t.Context(), quakes, types.Checkpoint{Cursor: types.Cursor{Primary: 2}, Module: &module}))
		w.stream(quakes).append(many(3)...)
		e := w.engine(t, one())
		settle()
		require.Equal(t, types.PipelineFailed, status(t, e, quakes).State)
		require.ErrorIs(t, e.HealthCheck(t.Context()), ports.ErrCheckpointProvenance)
		require.Empty(t, w.receiver(quakes, "alerts").has())
	})
}

func TestSuspendHandsThePipelineOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.stream(quakes).append(many(5)...)
		e := w.engine(t, one())
		settle()
		err := e.Suspend(t.Context(), quakes, func(ctx context.Context) error {
			w.stream(quakes).append(many(5)...)
			settle()
			require.Len(t, w.receiver(quakes, "alerts").has(), 5, "nothing runs")
			module := "stream"
			return w.storage.SaveCheckpoint(ctx, quakes, types.Checkpoint{Cursor: types.Cursor{Primary: 8}, Module: &module})
		})
		require.NoError(t, err)
		settle()
		require.Equal(t, []uint64{1, 2, 3, 4, 5, 9, 10}, w.receiver(quakes, "alerts").primaries())
		failed := errors.New("no")
		require.ErrorIs(t, e.Suspend(t.Context(), quakes, func(context.Context) error { return failed }), failed)
		require.ErrorIs(t, e.Suspend(t.Context(), "unknown", func(context.Context) error { return failed }), failed)
		w.stream(quakes).append(many(1)...)
		settle()
		require.Len(t, w.receiver(quakes, "alerts").has(), 8)
	})
}

func TestAStopFinishesWhatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.receiver(quakes, "alerts").deciding(func(ctx context.Context, e types.SinkEvent) error {
			wait := 3 * time.Second
			if e.Origin().Cursor.Primary == 2 {
				wait = time.Hour
			}
			select {
			case <-time.After(wait):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		w.stream(quakes).append(many(3)...)
		e := w.engine(t, one())
		pass(time.Second)
		began := time.Now()
		require.NoError(t, e.Close(t.Context()))
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Equal(t, count(1), w.receiver(quakes, "alerts").primaries())
		checkpoint, found, err := w.storage.LoadCheckpoint(t.Context(), quakes)
		require.NoError(t, err)
		require.False(t, found, "the step has matches that are not settled: %v", checkpoint)

		again := w.engine(t, one())
		pass(time.Second)
		began = time.Now()
		require.NoError(t, again.Close(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(began), "what takes too long is given up")
		require.Equal(t, count(1), w.receiver(quakes, "alerts").primaries())
		require.NoError(t, again.Close(t.Context()), "closing again does nothing")
		require.ErrorIs(t, again.Refresh(t.Context()), ports.ErrStoreClosed)
		require.Empty(t, letters(t, w.storage, quakes))
	})
}

func TestOutcomesAreStoredOnceTheStorageWorksAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		faults := flaky.New(ports.SystemClock(), 1, flaky.Fault{Op: flaky.StorageApply, Limit: 7, Err: errDown})
		w.storage = flaky.NewStorage(w.storage, faults)
		w.stream(quakes).append(many(3)...)
		e := w.engine(t, one())
		settle()
		require.Equal(t, count(3), w.receiver(quakes, "alerts").primaries(), "each once, though its record failed")
		require.Equal(t, &types.Cursor{Primary: 3}, status(t, e, quakes).Checkpoint)
		require.Zero(t, status(t, e, quakes).Restarts)
	})
}

func TestASinkThatPanicsFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.receiver(quakes, "alerts").deciding(func(_ context.Context, e types.SinkEvent) error {
			if e.Origin().Cursor.Primary == 1 {
				panic("secret content")
			}
			return nil
		})
		w.stream(quakes).append(many(2)...)
		w.engine(t, one())
		settle()
		require.Equal(t, []uint64{2}, w.receiver(quakes, "alerts").primaries())
		list := letters(t, w.storage, quakes)
		require.Len(t, list, 1)
		require.Contains(t, list[0].Reason, "panicked")
		require.NotContains(t, list[0].Reason, "secret")
	})
}

func TestTheLogSaysOnceThatASinkFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var said bytes.Buffer
		w := newWorld()
		w.receiver(quakes, "alerts").deciding(func(_ context.Context, e types.SinkEvent) error {
			if e.Origin().Cursor.Primary <= 5 {
				return errDown
			}
			return nil
		})
		w.stream(quakes).append(many(8)...)
		w.stream(quakes).append("", "")
		e := w.engineWith(t, pipeline.Options{Pipelines: []config.Pipeline{one()}, Log: slog.New(slog.NewTextHandler(&said, nil))})
		settle()
		require.NoError(t, e.Close(t.Context()))
		require.Equal(t, 1, strings.Count(said.String(), "deliveries fail"))
		require.Equal(t, 1, strings.Count(said.String(), "deliveries succeed again"))
		require.Contains(t, said.String(), "dead_lettered=5")
		require.Equal(t, 1, strings.Count(said.String(), "is no event"))
		require.NotContains(t, said.String(), "mag")
	})
}

func TestReplaysCountAsDeliveries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.receiver(quakes, "alerts").deciding(func(context.Context, types.SinkEvent) error { return errRefused })
		w.stream(quakes).append(many(3)...)
		e := w.engine(t, one())
		settle()
		handle, err := control.New(control.Options{Storage: w.storage, Sinks: e})
		require.NoError(t, err)
		_, err = handle.ReplayLetters(t.Context(), quakes, types.LetterSelection{})
		require.NoError(t, err)
		require.Zero(t, status(t, e, quakes).Sinks[0].Delivered)
		w.receiver(quakes, "alerts").deciding(nil)
		_, err = handle.ReplayLetters(t.Context(), quakes, types.LetterSelection{})
		require.NoError(t, err)
		s := status(t, e, quakes).Sinks[0]
		require.EqualValues(t, 3, s.Delivered)
		require.EqualValues(t, 3, s.DeadLettered)
		require.EqualValues(t, 9, s.Latency.Count())
	})
}
