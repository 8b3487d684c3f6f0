package checkpoint_test

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/core/checkpoint"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func TestSafeFollowsTheSlowest(t *testing.T) {
	t.Parallel()
	var tracker checkpoint.Tracker
	_, known := tracker.Safe()
	require.False(t, known, "nothing is safe before the first is done")
	for n := range 5 {
		require.NoError(t, tracker.Begin(at(n)))
	}
	require.Equal(t, 5, tracker.Pending())
	for _, step := range []struct {
		done int
		safe int // -1 for none
	}{{3, -1}, {1, -1}, {0, 1}, {4, 1}, {2, 4}} {
		require.NoError(t, tracker.Done(at(step.done)))
		safe, known := tracker.Safe()
		require.Equal(t, step.safe >= 0, known, "after %d", step.done)
		if known {
			require.Equal(t, at(step.safe), safe, "after %d", step.done)
		}
	}
	require.Zero(t, tracker.Pending())
}

func TestTrackerRefusesWhatIsOutOfOrder(t *testing.T) {
	t.Parallel()
	var tracker checkpoint.Tracker
	begun := types.Cursor{Primary: 7, Secondary: 3}
	require.NoError(t, tracker.Begin(begun))
	for _, c := range []types.Cursor{begun, {Primary: 7, Secondary: 2}, {Primary: 6, Secondary: 9}, {}, {Primary: math.MaxInt64 + 1}, {Primary: 8, Secondary: math.MaxUint64}} {
		require.ErrorIs(t, tracker.Begin(c), ports.ErrInvalidInput, "begin %v", c)
	}
	for _, c := range []types.Cursor{{}, {Primary: 7, Secondary: 4}} {
		require.ErrorIs(t, tracker.Done(c), ports.ErrInvalidInput, "done %v", c)
	}
	require.Equal(t, 1, tracker.Pending())
	require.NoError(t, tracker.Done(begun))
	require.ErrorIs(t, tracker.Done(begun), ports.ErrInvalidInput, "done twice")
	safe, known := tracker.Safe()
	require.True(t, known)
	require.Equal(t, begun, safe)
	require.NoError(t, tracker.Begin(types.Cursor{Primary: math.MaxInt64, Secondary: math.MaxInt64}))
}

// TestSafeIsTheLowWatermark compares random histories with the definition.
func TestSafeIsTheLowWatermark(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var tracker checkpoint.Tracker
		type event struct {
			cursor types.Cursor
			done   bool
		}
		var events []event
		var undone []int
		var next types.Cursor
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(undone) == 0 || rapid.Bool().Draw(t, "begin") {
				if rapid.Bool().Draw(t, "new primary") {
					next = types.Cursor{Primary: next.Primary + rapid.Uint64Range(1, 9).Draw(t, "gap")}
				} else {
					next.Secondary += rapid.Uint64Range(1, 9).Draw(t, "gap")
				}
				require.NoError(t, tracker.Begin(next))
				undone = append(undone, len(events))
				events = append(events, event{cursor: next})
			} else {
				i := rapid.IntRange(0, len(undone)-1).Draw(t, "done")
				e := &events[undone[i]]
				undone = append(undone[:i:i], undone[i+1:]...)
				e.done = true
				require.NoError(t, tracker.Done(e.cursor))
			}

			var want types.Cursor
			known := false
			for _, e := range events {
				if !e.done {
					break
				}
				want, known = e.cursor, true
			}
			got, ok := tracker.Safe()
			require.Equal(t, known, ok)
			require.Equal(t, want, got)
			require.Equal(t, len(undone), tracker.Pending())
			require.LessOrEqual(t, checkpoint.Spans(&tracker), 2*len(undone), "what is kept is bounded by what is undone")
		}
	})
}

func TestASlowEventHoldsBackTheCheckpointAndNoMemory(t *testing.T) {
	t.Parallel()
	var tracker checkpoint.Tracker
	require.NoError(t, tracker.Begin(at(0)))
	const events = 100_000
	for n := 1; n <= events; n++ {
		require.NoError(t, tracker.Begin(at(n)))
		require.NoError(t, tracker.Done(at(n)))
	}
	_, known := tracker.Safe()
	require.False(t, known)
	require.LessOrEqual(t, checkpoint.Spans(&tracker), 2)
	require.NoError(t, tracker.Done(at(0)))
	safe, _ := tracker.Safe()
	require.Equal(t, at(events), safe)
	require.Zero(t, checkpoint.Spans(&tracker))
}

func TestTrackerServesManyGoroutines(t *testing.T) {
	t.Parallel()
	var tracker checkpoint.Tracker
	begun := make(chan types.Cursor)
	const events = 2000
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var last types.Cursor
			for c := range begun {
				if err := tracker.Done(c); err != nil {
					t.Errorf("done %v: %v", c, err)
				}
				safe, _ := tracker.Safe()
				if safe.Compare(last) < 0 {
					t.Errorf("safe went from %v back to %v", last, safe)
				}
				last = safe
			}
		})
	}
	for n := range events {
		if err := tracker.Begin(at(n)); err != nil {
			t.Errorf("begin %v: %v", at(n), err)
		}
		begun <- at(n)
	}
	close(begun)
	wg.Wait()
	safe, _ := tracker.Safe()
	require.Equal(t, at(events-1), safe)
}

func BenchmarkTracker(b *testing.B) {
	var tracker checkpoint.Tracker
	const window = 256
	for n := range b.N {
		_ = tracker.Begin(at(n))
		if n >= window {
			_ = tracker.Done(at(n - window))
		}
	}
}
