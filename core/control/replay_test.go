package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/types"
)

func TestReplayDeliversAndSettles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 3)...)
	// The journal knows the match, and does not swallow the replay.
	require.NoError(t, w.store.RecordDeliveries(t.Context(), fixture.Pipeline, []types.Delivery{fixture.Delivery(2)}))

	require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(2)))

	require.Equal(t, []types.SinkEvent{*fixture.DeadLetter(2).Payload}, w.alerts.taken)
	require.Equal(t, ids(1, 3), w.kept(t))
	require.Equal(t, []types.Delivery{fixture.Delivery(2)}, w.journal(t))
	require.Equal(t, 1, w.faults.Calls(flaky.StorageApply), "journal and letter change in one step")

	require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)))
	require.Equal(t, []types.Delivery{fixture.Delivery(1), fixture.Delivery(2)}, w.journal(t), "so that the pipeline does not deliver it again")
	require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)), ports.ErrNotFound)
}

func TestReplayOfAnEmission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	letter := fixture.DeadLetter(1)
	letter.Payload = &types.SinkEvent{Emission: &types.Emission{Match: fixture.Match(1), Hits: 3}}
	w.record(t, letter)
	require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, letter.MatchID))
	require.Equal(t, []types.SinkEvent{*letter.Payload}, w.alerts.taken)
}

// The bare match of an older file may lack what its letter knows: a receiver gets the same id as ever.
func TestReplayCompletesABareMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	letter := fixture.DeadLetter(1)
	letter.Payload = &types.SinkEvent{Match: &types.Match{Event: json.RawMessage(`{"mag":5}`)}}
	w.record(t, letter)
	require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, letter.MatchID))
	require.Equal(t, []types.SinkEvent{{Match: &types.Match{
		ID: letter.MatchID, Pipeline: fixture.Pipeline, Monitor: letter.Monitor, Cursor: letter.Cursor, Event: json.RawMessage(`{"mag":5}`),
	}}}, w.alerts.taken)
}

func TestReplayRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(*world)
		is      []error
		status  int
		says    []string
	}{
		"there is no such letter": {
			arrange: func(w *world) {
				must(w.store.DeleteDeadLetter(context.Background(), fixture.Pipeline, fixture.MatchID(1)))
			},
			is: []error{ports.ErrNotFound}, status: 404, says: []string{"match-000001", "earthquakes"},
		},
		"no payload": {
			arrange: func(w *world) {
				bare := fixture.DeadLetter(1)
				bare.Payload = nil
				w.record(t, bare)
			},
			is: []error{ports.ErrInvalidInput, ports.ErrNoPayload}, status: 409, says: []string{"match-000001", "1/0"},
		},
		"the pipeline is paused": {
			arrange: func(w *world) { mustDo(w.Pause(context.Background(), types.PipelineOf(fixture.Pipeline))) },
			is:      []error{ports.ErrInvalidInput, ports.ErrPaused}, status: 409, says: []string{`pipeline "earthquakes"`, "resume"},
		},
		"the monitor is paused": {
			arrange: func(w *world) {
				mustDo(w.Pause(context.Background(), types.MonitorOf(fixture.Pipeline, fixture.Monitor)))
			},
			is: []error{ports.ErrInvalidInput, ports.ErrPaused}, status: 409, says: []string{`monitor "earthquakes/strong"`},
		},
		"the sink is paused": {
			arrange: func(w *world) { mustDo(w.Pause(context.Background(), types.SinkOf(fixture.Pipeline, fixture.Sink))) },
			is:      []error{ports.ErrInvalidInput, ports.ErrPaused}, status: 409, says: []string{`sink "earthquakes/alerts"`},
		},
		"the sink is not configured": {
			arrange: func(w *world) { delete(w.resolver.sinks, fixture.Sink) },
			is:      []error{ports.ErrNotFound}, status: 404, says: []string{`"alerts"`, `"earthquakes"`},
		},
		"the sink cannot be opened": {
			arrange: func(w *world) { w.resolver.errs[fixture.Sink] = errBoom },
			is:      []error{ports.ErrBackendFailed, errBoom}, status: 502, says: []string{`"alerts"`},
		},
		"the resolver is at fault": {
			arrange: func(w *world) { w.resolver.sinks[fixture.Sink] = nil },
			is:      []error{ports.ErrBackendFailed}, status: 502, says: []string{"resolver"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.record(t, fixture.DeadLetter(1))
			c.arrange(w)
			before := w.everything(t)
			err := w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1))
			for _, target := range c.is {
				require.ErrorIs(t, err, target)
			}
			for _, want := range c.says {
				require.ErrorContains(t, err, want)
			}
			require.Equal(t, c.status, ports.NewWireError(err).HTTPStatusCode)
			require.Empty(t, w.alerts.taken)
			require.Equal(t, before, w.everything(t), "a refusal touches nothing")
		})
	}
}

func must[T any](_ T, err error) { mustDo(err) }

func mustDo(err error) {
	if err != nil {
		panic(err)
	}
}

// A pause of something else stops nothing, and one that is resumed stops nothing any more.
func TestReplayMindsOnlyThePausesThatCoverIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, fixture.DeadLetter(1))
	for _, p := range []types.Pause{types.PipelineOf("volcanoes"), types.SinkOf("volcanoes", fixture.Sink), types.SinkOf(fixture.Pipeline, "mail"), types.MonitorOf(fixture.Pipeline, "weak")} {
		require.NoError(t, w.Pause(t.Context(), p))
	}
	mine := types.SinkOf(fixture.Pipeline, fixture.Sink)
	require.NoError(t, w.Pause(t.Context(), mine))
	require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)), ports.ErrPaused)
	require.NoError(t, w.Resume(t.Context(), mine))
	require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)))
}

func TestAFailedReplayKeepsTheLetterInItsPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err       error
		transient bool
	}{
		"transient":             {ports.Errorf(ports.CodeBackendFailed, "webhook.deliver", "the receiver answered 503"), true},
		"permanent":             {ports.Errorf(ports.CodeInvalidInput, "webhook.deliver", "the receiver answered 400"), false},
		"of no class":           {errBoom, false},
		"a deadline of its own": {context.DeadlineExceeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.record(t, numbered(1, 3)...)
			w.alerts.deliver = failing(c.err).deliver
			before := w.letters(t)

			err := w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(2))
			require.ErrorIs(t, err, c.err)
			require.ErrorIs(t, err, ports.ErrBackendFailed)
			require.ErrorContains(t, err, "match-000002")
			require.Equal(t, c.transient, ports.NewWireError(err).Retryable)
			require.Equal(t, c.transient, ports.IsTransient(err))

			before[1].Letter.Attempts++
			before[1].Letter.Reason = c.err.Error()
			require.Equal(t, before, w.letters(t))
			require.Empty(t, w.journal(t))
		})
	}
}

// Whatever a sink says, the letter takes it: cut at the limit, and made valid.
func TestTheReasonOfAFailedReplayFits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ said, want string }{
		{strings.Repeat("a", ports.MaxReasonBytes), strings.Repeat("a", ports.MaxReasonBytes)},
		{strings.Repeat("a", ports.MaxReasonBytes+1), strings.Repeat("a", ports.MaxReasonBytes-3) + "…"},
		{"a" + strings.Repeat("ü", ports.MaxReasonBytes), "a" + strings.Repeat("ü", (ports.MaxReasonBytes-4)/2) + "…"},
		{"ab" + strings.Repeat("𝄞", ports.MaxReasonBytes), "ab" + strings.Repeat("𝄞", (ports.MaxReasonBytes-5)/4) + "…"},
		{"not \xff valid", "not \uFFFD valid"},
		{"", ""},
	} {
		w := newWorld(t)
		w.record(t, fixture.DeadLetter(1))
		w.alerts.deliver = failing(errors.New(c.said)).deliver
		require.Error(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)))
		got := w.letters(t)[0].Letter.Reason
		require.True(t, utf8.ValidString(got))
		require.Equal(t, c.want, got)
	}
}

func TestAttemptsStopAtTheGreatestNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	letter := fixture.DeadLetter(1)
	letter.Attempts = math.MaxInt64 - 1
	w.record(t, letter)
	for _, err := range []error{errBoom, errSink} {
		w.alerts.deliver = failing(err).deliver
		require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, letter.MatchID), err)
		require.EqualValues(t, math.MaxInt64, w.letters(t)[0].Letter.Attempts)
		require.Equal(t, err.Error(), w.letters(t)[0].Letter.Reason)
	}
}

// A sink that keeps or changes what it was given reaches no letter.
func TestASinkSharesNoMemoryWithTheLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, fixture.DeadLetter(1))
	w.alerts.deliver = func(_ context.Context, event types.SinkEvent) error {
		event.Match.Event[0] = 'X'
		event.Match.ID = "other"
		return errBoom
	}
	require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)), errBoom)
	require.Equal(t, fixture.DeadLetter(1).Payload, w.letters(t)[0].Letter.Payload)
}

// What the pipeline wrote while the sink was failing is kept, and counted on.
func TestAFailedReplayGoesOnFromWhatTheLetterHasBecome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, fixture.DeadLetter(1))
	w.alerts.deliver = func(context.Context, types.SinkEvent) error {
		newer := fixture.DeadLetter(1)
		newer.Attempts, newer.Cursor = 40, types.Cursor{Primary: 1, Secondary: 9}
		w.record(t, newer)
		return errBoom
	}
	require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)), errBoom)
	got := w.letters(t)[0].Letter
	require.EqualValues(t, 41, got.Attempts)
	require.Equal(t, types.Cursor{Primary: 1, Secondary: 9}, got.Cursor)
	require.Equal(t, "boom", got.Reason)
}

// A letter that somebody took away meanwhile does not come back, and one that came in its stead is
// another letter.
func TestAFailedReplayBringsNoLetterBack(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"gone": false, "gone and come again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.record(t, fixture.DeadLetter(1))
			w.alerts.deliver = func(ctx context.Context, _ types.SinkEvent) error {
				must(w.store.DeleteDeadLetter(ctx, fixture.Pipeline, fixture.MatchID(1)))
				if again {
					w.record(t, fixture.DeadLetter(1))
				}
				return errBoom
			}
			require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)), errBoom)
			if !again {
				require.Empty(t, w.letters(t))
				return
			}
			require.Equal(t, fixture.DeadLetter(1), w.letters(t)[0].Letter)
		})
	}
}

func TestAPanicOfASinkIsAFailureOfIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		panics func()
		says   string
	}{
		"a fault of the runtime": {func() { var m map[string]int; m["a"] = 1 }, //nolint:staticcheck // the fault is the point
			"assignment to entry in nil map"},
		"a value": {func() { panic("secret of the event") }, "string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.record(t, fixture.DeadLetter(1))
			w.alerts.deliver = func(context.Context, types.SinkEvent) error { c.panics(); return nil }
			err := w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1))
			require.ErrorIs(t, err, ports.ErrBackendFailed)
			require.ErrorContains(t, err, c.says)
			require.False(t, ports.IsTransient(err))
			require.Contains(t, w.log.String(), "replay_test.go", "the stack is in the log")
			letter := w.letters(t)[0].Letter
			require.Contains(t, letter.Reason, "panicked")
			require.EqualValues(t, 4, letter.Attempts)
			for _, text := range []string{err.Error(), letter.Reason, w.log.String()} {
				require.NotContains(t, text, "secret")
			}

			w.alerts.deliver = nil
			require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)), "the letter is not stuck")
		})
	}
}

// A sink that ends its goroutine leaves the letter free too.
func TestASinkThatLeavesForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, fixture.DeadLetter(1))
	w.alerts.deliver = func(context.Context, types.SinkEvent) error { runtime.Goexit(); return nil }
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = w.ReplayLetter(context.Background(), fixture.Pipeline, fixture.MatchID(1))
	}()
	receive(t, gone)
	require.Equal(t, ids(1), w.kept(t))
	w.alerts.deliver = nil
	require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)))
}

func TestOneActionOnALetterAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 3)...)
	began, release := make(chan struct{}), make(chan struct{})
	w.alerts.deliver = func(_ context.Context, event types.SinkEvent) error {
		if event.Origin().ID == fixture.MatchID(2) {
			close(began)
			<-release
		}
		return nil
	}
	first := make(chan error, 1)
	go func() { first <- w.ReplayLetter(context.Background(), fixture.Pipeline, fixture.MatchID(2)) }()
	receive(t, began)

	for _, second := range []error{
		w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(2)),
		w.DiscardLetter(t.Context(), fixture.Pipeline, fixture.MatchID(2)),
	} {
		require.ErrorIs(t, second, ports.ErrBusy)
		require.ErrorIs(t, second, ports.ErrBackendFailed)
		require.True(t, ports.IsTransient(second))
		require.ErrorContains(t, second, "match-000002")
	}
	require.ErrorIs(t, w.ReplayLetter(t.Context(), "volcanoes", fixture.MatchID(2)), ports.ErrNotFound, "a letter of another pipeline is another")
	replayed, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 2, replayed.Done)
	require.EqualValues(t, 1, replayed.Failed)
	require.ErrorIs(t, replayed.Failures[0].Err, ports.ErrBusy)

	// All letters are discarded, but for the one that is being replayed.
	w.record(t, numbered(4, 6)...)
	discarded, err := w.DiscardLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 3, discarded.Done)
	require.EqualValues(t, 1, discarded.Failed)
	require.Equal(t, fixture.MatchID(2), discarded.Failures[0].MatchID)
	require.ErrorIs(t, discarded.Failures[0].Err, ports.ErrBusy)
	require.Equal(t, ids(2), w.kept(t))

	close(release)
	require.NoError(t, receive(t, first))
	require.ErrorIs(t, w.DiscardLetter(t.Context(), fixture.Pipeline, fixture.MatchID(2)), ports.ErrNotFound)
}

// While all letters are being discarded, none of them is replayed.
func TestNoReplayDuringADiscardOfAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 3)...)
	release := make(chan struct{})
	w.faults.Add(flaky.Fault{Op: flaky.StorageDeleteAllDeadLetters, Hold: release})
	done := make(chan types.BulkResult, 1)
	go func() {
		result, err := w.DiscardLetters(context.Background(), fixture.Pipeline, types.LetterSelection{})
		mustDo(err)
		done <- result
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, w.faults.WaitForHeld(ctx, 1))
	require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)), ports.ErrBusy)
	close(release)
	require.Equal(t, types.BulkResult{Done: 3}, receive(t, done))
	require.Empty(t, w.alerts.taken)
	require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)), ports.ErrNotFound)
}

// When the context ends, the sink sees it, the caller gets the context's error, and the letter is as it
// was.
func TestAReplayThatIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, sinksOwn := range map[string]error{"the sink passes it on": nil, "the sink has an error of its own": errBoom} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.record(t, fixture.DeadLetter(1))
			ctx, cancel := context.WithCancel(t.Context())
			w.alerts.deliver = func(ctx context.Context, _ types.SinkEvent) error {
				cancel()
				<-ctx.Done()
				if sinksOwn != nil {
					return sinksOwn
				}
				return ctx.Err()
			}
			before := w.everything(t)
			err := w.ReplayLetter(ctx, fixture.Pipeline, fixture.MatchID(1))
			require.ErrorIs(t, err, context.Canceled)
			if sinksOwn != nil {
				require.ErrorIs(t, err, sinksOwn)
			}
			require.Equal(t, before, w.everything(t))
			w.alerts.deliver = nil
			require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)))
		})
	}
}

// A delivery that cannot be stored is told as what it is.
func TestADeliveryThatCannotBeStoredSaysSo(t *testing.T) {
	t.Parallel()
	full := ports.Errorf(ports.CodeBackendFailed, "storage.apply", "no space").WithReason(ports.ReasonDiskFull)
	w := newWorld(t)
	w.record(t, fixture.DeadLetter(1))
	w.faults.Add(flaky.Fault{Op: flaky.StorageApply, Err: full})
	err := w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1))
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, err, ports.ErrDiskFull)
	for _, want := range []string{"was delivered", "delivers it again", "match-000001", "alerts"} {
		require.Contains(t, ports.NewWireError(err).Message, want)
	}
	require.Equal(t, ids(1), w.alerts.ids())
	require.Equal(t, ids(1), w.kept(t))

	w.faults.Clear()
	require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)))
	require.Equal(t, ids(1, 1), w.alerts.ids(), "at least once")
}

func TestAFailureThatCannotBeNotedTellsBoth(t *testing.T) {
	t.Parallel()
	for _, fault := range []flaky.Fault{{Op: flaky.StorageGetDeadLetter, Nth: 2}, {Op: flaky.StorageUpdateDeadLetter}} {
		w := newWorld(t)
		w.record(t, fixture.DeadLetter(1))
		w.alerts.deliver = failing(errBoom).deliver
		closed := ports.Errorf(ports.CodeStoreClosed, string(fault.Op), "the storage is closed")
		fault.Err = closed
		w.faults.Add(fault)
		err := w.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1))
		require.ErrorIs(t, err, errBoom)
		require.ErrorIs(t, err, ports.ErrStoreClosed)
		require.Equal(t, ports.CodeStoreClosed, ports.NewWireError(err).Code)
		require.Equal(t, fixture.DeadLetter(1), w.letters(t)[0].Letter)
	}
}

// odd is a storage with letters as older files may hold them, beside the ordinary ones.
type odd struct {
	ports.Storage
	letters []types.StoredLetter
}

func (o *odd) ListDeadLetters(_ context.Context, _ types.PipelineID, q types.LetterQuery) ([]types.StoredLetter, error) {
	var page []types.StoredLetter
	for _, l := range o.letters {
		if l.Position > q.After {
			page = append(page, l)
		}
	}
	page = page[min(q.Skip, len(page)):]
	return page[:min(q.Take, len(page))], nil
}

func (o *odd) GetDeadLetter(_ context.Context, _ types.PipelineID, id types.MatchID) (types.StoredLetter, bool, error) {
	if err := ports.CheckMatchID("storage.getDeadLetter", id); err != nil {
		return types.StoredLetter{}, false, err
	}
	for _, l := range o.letters {
		if l.Letter.MatchID == id {
			return l, true, nil
		}
	}
	return types.StoredLetter{}, false, nil
}

func (o *odd) CountDeadLetters(context.Context) ([]types.LetterCount, error) {
	return []types.LetterCount{{Pipeline: fixture.Pipeline, Count: int64(len(o.letters))}}, nil
}

func (o *odd) UpdateDeadLetter(_ context.Context, pipeline types.PipelineID, l types.DeadLetter) (bool, error) {
	_, err := ports.CheckDeadLetter("storage.updateDeadLetter", pipeline, l)
	return err == nil, err
}

func newOddWorld(t *testing.T, letters ...types.StoredLetter) *world {
	t.Helper()
	return newWorldOver(t, func(s ports.Storage) control.Storage { return &odd{s, letters} })
}

func TestALetterThatCannotBeDecodedIsNotReplayed(t *testing.T) {
	t.Parallel()
	w := newOddWorld(t, types.StoredLetter{Position: 5, Letter: types.DeadLetter{MatchID: "damaged"}, Err: errBoom})
	err := w.ReplayLetter(t.Context(), fixture.Pipeline, "damaged")
	require.ErrorIs(t, err, ports.ErrUndecodable)
	require.ErrorIs(t, err, errBoom)
	require.ErrorContains(t, err, "position 5")
	require.False(t, ports.IsTransient(err))

	shown, err := w.Letter(t.Context(), fixture.Pipeline, "damaged")
	require.NoError(t, err)
	require.Equal(t, errBoom, shown.Err)
}

// A letter whose delivery could not be written down is not delivered, else each replay would.
func TestALetterThatCouldNotBeSettledIsNotDelivered(t *testing.T) {
	t.Parallel()
	letter := fixture.DeadLetter(1)
	letter.Cursor.Primary = math.MaxUint64
	w := newOddWorld(t, types.StoredLetter{Position: 1, Letter: letter})
	require.ErrorIs(t, w.ReplayLetter(t.Context(), fixture.Pipeline, letter.MatchID), ports.ErrInvalidInput)
	require.Empty(t, w.alerts.taken)
}

// Names that no pause can have are of no hindrance to a replay; a failure of such a letter cannot be
// noted, and is told all the same.
func TestALetterWithNamesOfAnOlderFile(t *testing.T) {
	t.Parallel()
	letter := fixture.DeadLetter(1)
	letter.Monitor = "all events/today"
	w := newOddWorld(t, types.StoredLetter{Position: 1, Letter: letter})
	require.NoError(t, w.ReplayLetter(t.Context(), fixture.Pipeline, letter.MatchID))
	require.Equal(t, ids(1), w.alerts.ids())

	w.alerts.deliver = failing(errBoom).deliver
	err := w.ReplayLetter(t.Context(), fixture.Pipeline, letter.MatchID)
	require.ErrorIs(t, err, errBoom)
	require.ErrorContains(t, err, "could not be noted")
	result, err := w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err, "one odd letter does not stop the others")
	require.EqualValues(t, 1, result.Failed)
}
