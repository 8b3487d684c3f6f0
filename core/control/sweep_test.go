package control_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/types"
)

// Whatever call of the storage fails, before or after its effect, alone or because the process stops
// there: a letter is there, or was delivered; one that a failing sink did not take is there; and the
// next replay, of this process or of its successor, brings it to an end.
func TestNoLetterIsLostWhereverTheStorageFails(t *testing.T) {
	t.Parallel()
	actions := map[string]func(*world) error{
		"one": func(w *world) error {
			return w.ReplayLetter(context.Background(), fixture.Pipeline, fixture.MatchID(2))
		},
		"many": func(w *world) error {
			result, err := w.ReplayLetters(context.Background(), fixture.Pipeline, types.LetterSelection{})
			for _, failure := range result.Failures {
				if err == nil {
					err = failure.Err
				}
			}
			return err
		},
	}
	for name, act := range actions {
		for _, fault := range []flaky.Fault{
			{Err: errBoom}, {Err: errBoom, AfterEffect: true}, {Halt: true}, {Halt: true, AfterEffect: true},
		} {
			for _, failed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, after %v, halt %v, sink fails %v", name, fault.AfterEffect, fault.Halt, failed), func(t *testing.T) {
					t.Parallel()
					points := 0
					for hit := true; hit; points++ {
						hit = sweepOnce(t, act, fault, points+1, failed)
					}
					require.Greater(t, points, 5, "calls that were made to fail")
				})
			}
		}
	}
}

// sweepOnce makes the nth call fail, and reports whether there was one.
func sweepOnce(t *testing.T, act func(*world) error, fault flaky.Fault, nth int, failed bool) bool {
	t.Helper()
	w := newWorld(t)
	w.SetPageSize(2)
	w.record(t, numbered(1, 3)...)
	if failed {
		w.alerts.deliver = failing(errSink).deliver
	}
	fault.Nth = nth
	w.faults.Add(fault)
	err := act(w)
	hit := w.faults.Hits("") > 0
	if hit {
		require.Error(t, err, "call %d", nth)
	}

	kept, delivered := w.kept(t), w.alerts.ids()
	for _, n := range []int{1, 2, 3} {
		id := fixture.MatchID(n)
		if failed {
			require.Contains(t, kept, id, "call %d", nth)
			continue
		}
		if !slices.Contains(kept, id) {
			require.Contains(t, delivered, id, "call %d", nth)
			require.Contains(t, w.journal(t), fixture.Delivery(n), "call %d", nth)
		}
	}
	for _, l := range w.letters(t) {
		require.Equal(t, fixture.DeadLetter(1).Payload.Match.Monitor, l.Letter.Payload.Match.Monitor)
		require.LessOrEqual(t, l.Letter.Attempts, uint64(4), "call %d", nth)
	}

	// The same process goes on, or the next one comes.
	w.alerts.deliver = nil
	next := w.Handle
	if fault.Halt {
		next = w.handle(t, w.store)
	}
	w.faults.Clear()
	result, err := next.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err, "call %d", nth)
	require.EqualValues(t, len(kept), result.Done, "call %d: no letter is stuck", nth)
	require.Empty(t, w.kept(t))
	for _, n := range []int{1, 2, 3} {
		require.Contains(t, w.alerts.ids(), fixture.MatchID(n))
	}
	require.Len(t, w.journal(t), 3)
	require.LessOrEqual(t, len(w.alerts.ids()), 4, "call %d: at most the letter at which it stopped was delivered twice", nth)
	return hit
}

// A discard that fails removes all that it reported, and nothing that it should not.
func TestDiscardsWhereverTheStorageFails(t *testing.T) {
	t.Parallel()
	for _, filter := range []types.LetterFilter{{}, {Sink: fixture.Sink}} {
		for _, after := range []bool{false, true} {
			for nth, hit := 1, true; hit; nth++ {
				w := newWorld(t)
				w.SetPageSize(2)
				w.record(t, mixed(9)...)
				w.faults.Add(flaky.Fault{Nth: nth, Err: errBoom, AfterEffect: after})
				result, err := w.DiscardLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Filter: filter})
				hit = w.faults.Hits("") > 0
				require.Equal(t, hit, err != nil)
				kept := w.kept(t)
				require.LessOrEqual(t, result.Done, int64(9-len(kept)))
				if filter.Sink != "" {
					require.Subset(t, kept, ids(2, 4, 6, 8))
				}
				w.faults.Clear()
				_, err = w.DiscardLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
				require.NoError(t, err, "nothing is stuck")
				require.Empty(t, w.kept(t))
			}
		}
	}
}
