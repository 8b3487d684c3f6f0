package control_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/types"
)

func TestReplayLettersGoesInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetPageSize(4)
	mail := &sink{}
	w.resolver.sinks["mail"] = mail
	w.record(t, mixed(10)...)

	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Filter: types.LetterFilter{Sink: "mail"}})
	require.NoError(t, err)
	require.Equal(t, types.BulkResult{Done: 5}, result)
	require.Equal(t, ids(2, 4, 6, 8, 10), mail.ids())
	require.Equal(t, ids(1, 3, 5, 7, 9), w.kept(t))
	require.Empty(t, w.alerts.taken)

	result, err = w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.Equal(t, types.BulkResult{Done: 5}, result)
	require.Equal(t, ids(1, 3, 5, 7, 9), w.alerts.ids())
	require.Empty(t, w.kept(t))
	require.Len(t, w.journal(t), 10)
	require.Equal(t, map[types.SinkID]int{"mail": 1, fixture.Sink: 1}, w.resolver.asked, "a sink is resolved once an action")
}

func TestReplayLettersGoesOnAfterFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetPageSize(50)
	w.record(t, numbered(1, 250)...)
	bare := fixture.DeadLetter(2)
	bare.Payload = nil
	w.record(t, bare)
	w.alerts.deliver = func(_ context.Context, event types.SinkEvent) error {
		if event.Match.Cursor.Primary > 10 {
			return errBoom
		}
		return nil
	}
	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 9, result.Done)
	require.EqualValues(t, 241, result.Failed)
	require.Len(t, result.Failures, 100, "the first hundred")
	require.Equal(t, fixture.MatchID(2), result.Failures[0].MatchID)
	require.ErrorIs(t, result.Failures[0].Err, ports.ErrNoPayload)
	for i, failure := range result.Failures[1:] {
		require.Equal(t, fixture.MatchID(11+i), failure.MatchID)
		require.ErrorIs(t, failure.Err, errBoom)
	}
	for _, l := range w.letters(t)[1:] {
		require.EqualValues(t, 4, l.Letter.Attempts, "each was tried once")
	}
}

// What was refused once is not asked about again; what it does not concern goes on.
func TestReplayLettersRemembersRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetPageSize(4)
	w.record(t, mixed(30)...)
	require.NoError(t, w.Pause(t.Context(), types.MonitorOf(fixture.Pipeline, "weak")))

	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 10, result.Done, "neither mail nor weak")
	require.EqualValues(t, 20, result.Failed)
	for _, failure := range result.Failures {
		if stored, _, _ := w.store.GetDeadLetter(t.Context(), fixture.Pipeline, failure.MatchID); stored.Letter.Monitor == "weak" {
			require.ErrorIs(t, failure.Err, ports.ErrPaused)
		} else {
			require.ErrorIs(t, failure.Err, ports.ErrNotFound)
		}
	}
	require.Equal(t, 1, w.resolver.asked["mail"])
	require.Equal(t, 12, w.faults.Calls(flaky.StorageGetDeadLetter), "ten that went, and one for each refusal")
}

func TestReplayLettersOfAPausedPipelineOnlyCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 30)...)
	require.NoError(t, w.Pause(t.Context(), types.PipelineOf(fixture.Pipeline)))
	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 30, result.Failed)
	require.Equal(t, 1, w.faults.Calls(flaky.StoragePaused))
	require.Equal(t, 1, w.faults.Calls(flaky.StorageGetDeadLetter))
	require.Len(t, w.kept(t), 30)
}

// A pause is effective at once, also in the middle of an action.
func TestAPauseStopsReplayLettersAtTheNextLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 9)...)
	w.alerts.deliver = func(ctx context.Context, event types.SinkEvent) error {
		if event.Match.ID == fixture.MatchID(4) {
			return w.Pause(ctx, types.SinkOf(fixture.Pipeline, fixture.Sink))
		}
		return nil
	}
	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 4, result.Done, "the delivery that had begun is done")
	require.EqualValues(t, 5, result.Failed)
	require.Equal(t, ids(1, 2, 3, 4), w.alerts.ids())
}

// Sinks that fail by themselves do not make the failure of one the failure of all.
func TestASinkThatCannotBeOpenedIsAskedForEachLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 3)...)
	w.resolver.errs[fixture.Sink] = errBoom
	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 3, result.Failed)
	require.Equal(t, 3, w.resolver.asked[fixture.Sink])
}

func TestReplayLettersStopsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 9)...)
	ctx, cancel := context.WithCancel(t.Context())
	w.alerts.deliver = func(ctx context.Context, event types.SinkEvent) error {
		if event.Match.ID == fixture.MatchID(5) {
			cancel()
			return ctx.Err()
		}
		return nil
	}
	result, err := w.ReplayLetters(ctx, fixture.Pipeline, types.LetterSelection{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, types.BulkResult{Done: 4}, result)
	require.Equal(t, ids(5, 6, 7, 8, 9), w.kept(t))
	require.EqualValues(t, 3, w.letters(t)[0].Letter.Attempts)
}

// What a stop finds undone is left for the next run, with the reasons that the letters have.
func TestActionsOnManyEndBetweenTwoLettersWhenTheProcessStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 9)...)
	w.alerts.deliver = func(_ context.Context, event types.SinkEvent) error {
		if event.Match.ID == fixture.MatchID(5) {
			close(w.stop)
		}
		return nil
	}
	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.True(t, ports.IsTransient(err))
	require.Equal(t, types.BulkResult{Done: 5}, result, "the letter that was under way is settled")
	require.Equal(t, ids(6, 7, 8, 9), w.kept(t))

	result, err = w.DiscardLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Filter: types.LetterFilter{Sink: fixture.Sink}})
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.Zero(t, result)
	require.Equal(t, ids(6, 7, 8, 9), w.kept(t))
}

// A sink that the stop has closed says nothing about a letter.
func TestASinkThatTheStopHasClosedFailsNoLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 3)...)
	before := w.letters(t)
	closed := ports.Errorf(ports.CodeStoreClosed, "test.send", "the queue is closed")
	w.alerts.deliver = func(context.Context, types.SinkEvent) error { return closed }

	require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(3)), ports.ErrBackendFailed, "while the process goes on it is a failure like any other")
	require.Equal(t, before[2].Letter.Attempts+1, w.letters(t)[2].Letter.Attempts)

	w.alerts.deliver = func(context.Context, types.SinkEvent) error {
		close(w.stop)
		return closed
	}
	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.ErrorContains(t, err, "as it was")
	require.Zero(t, result)
	require.Equal(t, before[:2], w.letters(t)[:2])
}

// With a storage that fails, each further letter would be delivered and come again.
func TestReplayLettersStopsWhenTheStorageFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 9)...)
	w.faults.Add(flaky.Fault{Op: flaky.StorageApply, Nth: 4, Err: errBoom})
	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.ErrorIs(t, err, errBoom)
	require.ErrorContains(t, err, "was delivered")
	require.EqualValues(t, 3, result.Done)
	require.Equal(t, ids(1, 2, 3, 4), w.alerts.ids())
	require.Equal(t, ids(4, 5, 6, 7, 8, 9), w.kept(t))
}

func TestDiscardRemovesForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 3)...)
	require.NoError(t, w.DiscardLetter(t.Context(), fixture.Pipeline, fixture.MatchID(2)))
	require.Equal(t, ids(1, 3), w.kept(t))
	require.Empty(t, w.journal(t), "it was not delivered")
	require.ErrorIs(t, w.DiscardLetter(t.Context(), fixture.Pipeline, fixture.MatchID(2)), ports.ErrNotFound)
}

func TestDiscardLettersByFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetPageSize(4)
	w.record(t, mixed(30)...)
	result, err := w.DiscardLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Filter: types.LetterFilter{Sink: "mail", Reason: "timed"}})
	require.NoError(t, err)
	require.Equal(t, types.BulkResult{Done: 3}, result)
	require.Len(t, w.kept(t), 27)
	require.NotContains(t, w.kept(t), fixture.MatchID(20))
	require.Zero(t, w.faults.Calls(flaky.StorageDeleteAllDeadLetters))
	require.Equal(t, 3, w.faults.Calls(flaky.StorageDeleteDeadLetters))
}

func TestDiscardLettersWithoutAFilterIsOneStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.store.RecordDeadLetter(t.Context(), "volcanoes", fixture.DeadLetter(1)))
	w.record(t, numbered(1, 30)...)
	seen := w.letters(t)[9].Position
	result, err := w.DiscardLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Through: seen})
	require.NoError(t, err)
	require.Equal(t, types.BulkResult{Done: 10}, result)
	require.Equal(t, fixture.MatchID(11), w.kept(t)[0])
	require.Equal(t, 1, w.faults.Calls(flaky.StorageDeleteAllDeadLetters))

	result, err = w.DiscardLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.Equal(t, types.BulkResult{Done: 20}, result)
	result, err = w.DiscardLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.Zero(t, result)
	require.Len(t, w.everything(t), 1, "that of another pipeline")
}

// What arrives while an action is under way is not touched, whatever position it was given to go
// through.
func TestWhatArrivesDuringAnActionIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, through := range []int64{0, 9, 1 << 62} {
		for _, filter := range []types.LetterFilter{{}, {Sink: fixture.Sink}} {
			hook := &hooked{}
			w := newWorldOver(t, func(s ports.Storage) control.Storage { hook.Storage = s; return hook })
			w.SetPageSize(4)
			next := 10
			arrive := func() {
				w.record(t, fixture.DeadLetter(next))
				next++
			}
			w.record(t, numbered(1, 9)...)
			hook.beforeList = func(q types.LetterQuery) {
				if q.Skip == 0 {
					arrive()
				}
			}
			w.alerts.deliver = func(context.Context, types.SinkEvent) error { arrive(); return nil }
			result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Filter: filter, Through: through})
			require.NoError(t, err)
			require.Equal(t, types.BulkResult{Done: 9}, result)
			require.Equal(t, ids(1, 2, 3, 4, 5, 6, 7, 8, 9), w.alerts.ids())

			from, before := next, w.kept(t)
			result, err = w.DiscardLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Filter: filter})
			require.NoError(t, err)
			require.EqualValues(t, len(before), result.Done)
			require.Len(t, w.kept(t), next-from)
		}
	}
}

// Letters that somebody else has dealt with are neither done nor failed.
func TestLettersThatVanishAreNotCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 9)...)
	w.alerts.deliver = func(ctx context.Context, event types.SinkEvent) error {
		switch event.Match.ID {
		case fixture.MatchID(1): // the next one goes, and comes again
			must(w.store.DeleteDeadLetter(ctx, fixture.Pipeline, fixture.MatchID(2)))
			w.record(t, fixture.DeadLetter(2))
			must(w.store.DeleteDeadLetter(ctx, fixture.Pipeline, fixture.MatchID(3)))
		case fixture.MatchID(4): // goes itself, while it fails
			must(w.store.DeleteDeadLetter(ctx, fixture.Pipeline, fixture.MatchID(4)))
			return errBoom
		}
		return nil
	}
	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.Equal(t, types.BulkResult{Done: 6}, result)
	require.Equal(t, ids(2), w.kept(t))
}

// A letter that the pipeline has written again is replayed only if the filter still picks it.
func TestReplayLettersPicksByWhatALetterHasBecome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 3)...)
	w.alerts.deliver = func(_ context.Context, event types.SinkEvent) error {
		if event.Match.ID == fixture.MatchID(1) {
			other := fixture.DeadLetter(2)
			other.Reason = "the name of the receiver is unknown"
			w.record(t, other)
		}
		return nil
	}
	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Filter: types.LetterFilter{Reason: "503"}})
	require.NoError(t, err)
	require.Equal(t, types.BulkResult{Done: 2}, result)
	require.Equal(t, ids(2), w.kept(t))
}

// late is a resolver whose context ends while it is asked.
type late struct{ cancel context.CancelFunc }

func (l late) Sink(ctx context.Context, _ types.PipelineID, _ types.SinkID) (ports.Sink, error) {
	l.cancel()
	return nil, ctx.Err()
}

func TestASinkThatWasNotFoundInTimeFailsNoLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 3)...)
	ctx, cancel := context.WithCancel(t.Context())
	h, err := control.New(control.Options{Storage: w.storage, Sinks: late{cancel}})
	require.NoError(t, err)
	result, err := h.ReplayLetters(ctx, fixture.Pipeline, types.LetterSelection{})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, result)
}

func TestDiscardLettersCountsWhatWasThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 9)...)
	release := make(chan struct{})
	w.faults.Add(flaky.Fault{Op: flaky.StorageDeleteDeadLetters, Hold: release})
	done := make(chan types.BulkResult, 1)
	go func() {
		result, err := w.DiscardLetters(context.Background(), fixture.Pipeline, types.LetterSelection{Filter: types.LetterFilter{Sink: fixture.Sink}})
		mustDo(err)
		done <- result
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, w.faults.WaitForHeld(ctx, 1))
	must(w.store.DeleteDeadLetter(t.Context(), fixture.Pipeline, fixture.MatchID(3)))
	require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(4)), ports.ErrBusy)
	close(release)
	require.Equal(t, types.BulkResult{Done: 8}, receive(t, done))
	require.Empty(t, w.kept(t))
	require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(4)), ports.ErrNotFound)
}

func TestDiscardLettersStopsWhenTheStorageFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetPageSize(4)
	w.record(t, numbered(1, 9)...)
	w.faults.Add(flaky.Fault{Op: flaky.StorageDeleteDeadLetters, Nth: 2, Err: errBoom})
	result, err := w.DiscardLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Filter: types.LetterFilter{Sink: fixture.Sink}})
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, types.BulkResult{Done: 4}, result)
	require.Equal(t, ids(5, 6, 7, 8, 9), w.kept(t))
	result, err = w.DiscardLetters(fixture.Cancelled(t), fixture.Pipeline, types.LetterSelection{})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, result)
}

// Letters that cannot be decoded, and a letter that an older file holds twice.
func TestActionsOnOddLetters(t *testing.T) {
	t.Parallel()
	letters := []types.StoredLetter{
		{Position: 1, Letter: fixture.DeadLetter(1)},
		{Position: 2, Letter: types.DeadLetter{MatchID: "damaged"}, Err: errBoom},
		{Position: 3, Err: errBoom},
		{Position: 4, Letter: fixture.DeadLetter(1)},
	}
	w := newOddWorld(t, letters...)
	replayed, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Through: 3})
	require.NoError(t, err)
	require.EqualValues(t, 1, replayed.Done)
	require.EqualValues(t, 2, replayed.Failed)
	for i, id := range []types.MatchID{"damaged", ""} {
		require.Equal(t, id, replayed.Failures[i].MatchID)
		require.ErrorIs(t, replayed.Failures[i].Err, ports.ErrUndecodable)
		require.ErrorContains(t, replayed.Failures[i].Err, fmt.Sprintf("position %d", 2+i))
	}
	page, err := w.Letters(t.Context(), fixture.Pipeline, types.LetterFilter{}, types.LetterQuery{Take: 10})
	require.NoError(t, err)
	require.Equal(t, letters, page.Letters)
	for _, filter := range []types.LetterFilter{{Reason: "503"}, {Sink: fixture.Sink}, {Monitor: fixture.Monitor}} {
		preview, err := w.PreviewLetters(t.Context(), fixture.Pipeline, filter)
		require.NoError(t, err)
		require.Equal(t, types.LetterPreview{Count: 2, Through: 4}, preview, "what cannot be decoded has nothing to be picked by")
	}
}

// deletions notes what is deleted by name.
type deletions struct {
	*odd
	ids []types.MatchID
}

func (d *deletions) DeleteDeadLetters(_ context.Context, _ types.PipelineID, ids []types.MatchID) (int64, error) {
	d.ids = append(d.ids, ids...)
	return int64(len(ids)), nil
}

// While a letter is being replayed, those that have no id to remove them by have to wait.
func TestDiscardLettersAroundAReplayCannotNameAllLetters(t *testing.T) {
	t.Parallel()
	storage := &deletions{odd: &odd{letters: []types.StoredLetter{
		{Position: 1, Letter: fixture.DeadLetter(1)},
		{Position: 2, Letter: types.DeadLetter{MatchID: "damaged"}, Err: errBoom},
		{Position: 3, Err: errBoom},
		{Position: 4, Err: errBoom},
		{Position: 5, Letter: fixture.DeadLetter(2)},
		{Position: 6, Letter: fixture.DeadLetter(2)},
	}}}
	w := newWorldOver(t, func(s ports.Storage) control.Storage { storage.Storage = s; return storage })
	var result types.BulkResult
	w.alerts.deliver = func(ctx context.Context, _ types.SinkEvent) error {
		var err error
		result, err = w.DiscardLetters(ctx, fixture.Pipeline, types.LetterSelection{})
		return err
	}
	require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)))
	require.Equal(t, []types.MatchID{"damaged", fixture.MatchID(2)}, storage.ids)
	require.EqualValues(t, 2, result.Done)
	require.EqualValues(t, 3, result.Failed, "the one that is being replayed, and two without a name")
	require.ErrorContains(t, result.Failures[1].Err, "position 3")
}

// Many callers at once: each letter is delivered once, or discarded.
func TestActionsFromManyCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetPageSize(7)
	w.record(t, numbered(1, 60)...)
	var callers sync.WaitGroup
	var mu sync.Mutex
	var discarded, replayed int64
	add := func(sum *int64, n int64) {
		mu.Lock()
		defer mu.Unlock()
		*sum += n
	}
	for i := range 4 {
		callers.Go(func() {
			result, err := w.ReplayLetters(context.Background(), fixture.Pipeline, types.LetterSelection{})
			mustDo(err)
			add(&replayed, result.Done)
		})
		callers.Go(func() {
			for n := 1 + i; n <= 60; n += 3 {
				if w.DiscardLetter(context.Background(), fixture.Pipeline, fixture.MatchID(n)) == nil {
					add(&discarded, 1)
				}
			}
		})
		callers.Go(func() {
			result, err := w.DiscardLetters(context.Background(), fixture.Pipeline, types.LetterSelection{Filter: types.LetterFilter{Reason: "503"}, Through: 30})
			mustDo(err)
			add(&discarded, result.Done)
		})
	}
	callers.Wait()
	last, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	replayed += last.Done
	require.Empty(t, w.kept(t))
	require.EqualValues(t, 60, replayed+discarded)
	require.Len(t, w.alerts.ids(), int(replayed))
	require.Len(t, w.journal(t), int(replayed))
}
