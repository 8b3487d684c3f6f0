package control_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/types"
)

// An engine that gives up on its callers waits, by Quiesce, for the calls of the storage that they
// left running; then its successor finds a store that stands still (R271).
func TestASuccessorStartsBehindTheLastWrite(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]bool{"settling": false, "noting a failure": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.record(t, numbered(1, 2)...)
			op := flaky.StorageApply
			if failed {
				op, w.alerts.deliver = flaky.StorageUpdateDeadLetter, failing(errSink).deliver
			}
			release := make(chan struct{})
			w.faults.Add(flaky.Fault{Op: op, Hold: release})
			before := w.everything(t)

			caller, abort := context.WithCancel(t.Context())
			replayed := make(chan error, 1)
			go func() { replayed <- w.ReplayLetter(caller, fixture.Pipeline, fixture.MatchID(1)) }()
			waiting, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, w.faults.WaitForHeld(waiting, 1))
			abort()

			quiet := make(chan []types.Record, 1)
			go func() {
				mustDo(w.storage.Quiesce(context.Background()))
				quiet <- w.everything(t)
			}()
			select {
			case <-quiet:
				require.FailNow(t, "Quiesce did not wait for the call that is under way")
			default:
			}
			require.Equal(t, before, w.everything(t))
			close(release)

			seen := receive(t, quiet)
			require.NotEqual(t, before, seen, "the write was over when Quiesce returned")
			err := receive(t, replayed)
			if failed {
				require.ErrorIs(t, err, errSink)
			} else {
				require.NoError(t, err, "a write that had begun has its true outcome")
			}
			require.Equal(t, seen, w.everything(t), "nothing was written afterwards")

			w.alerts.deliver = nil
			result, err := w.handle(t, w.store).ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
			require.NoError(t, err)
			require.Zero(t, result.Failed)
			require.Empty(t, w.kept(t))
		})
	}
}

// A caller that was given up while its sink was at work writes nothing when the sink comes back, with
// whatever answer: the letter is its successor's.
func TestNothingIsWrittenForACallerThatWasGivenUp(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"delivered": nil, "failed": errSink} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.record(t, numbered(1, 2)...)
			began, release := make(chan struct{}, 2), make(chan struct{})
			w.alerts.deliver = func(context.Context, types.SinkEvent) error { // does not mind its context
				began <- struct{}{}
				<-release
				return answer
			}
			caller, abort := context.WithCancel(t.Context())
			one, many := make(chan error, 1), make(chan error, 1)
			go func() { one <- w.ReplayLetter(caller, fixture.Pipeline, fixture.MatchID(2)) }()
			receive(t, began)
			go func() {
				_, err := w.ReplayLetters(caller, fixture.Pipeline, types.LetterSelection{})
				many <- err
			}()
			receive(t, began)
			abort()
			require.NoError(t, w.storage.Quiesce(t.Context()), "which waits for no sink")

			successor := w.handle(t, w.store)
			require.NoError(t, successor.DiscardLetter(t.Context(), fixture.Pipeline, fixture.MatchID(2)))
			quiet := w.everything(t)
			close(release)
			for _, c := range []chan error{one, many} {
				err := receive(t, c)
				require.ErrorIs(t, err, context.Canceled)
				if answer == nil {
					require.ErrorContains(t, err, "was delivered")
				}
			}
			require.Equal(t, quiet, w.everything(t))
			require.Equal(t, ids(1), w.kept(t))
			require.Empty(t, w.journal(t))
		})
	}
}

// A pause outlives the handle that made it, for as long as the storage keeps it (R212).
func TestAPauseHoldsForTheSuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, fixture.DeadLetter(1))
	require.NoError(t, w.Pause(t.Context(), types.PipelineOf(fixture.Pipeline)))
	successor := w.handle(t, w.store)
	require.ErrorIs(t, successor.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)), ports.ErrPaused)
	require.NoError(t, successor.Resume(t.Context(), types.PipelineOf(fixture.Pipeline)))
	require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)))
}
