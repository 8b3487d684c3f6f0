package control_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/types"
)

func TestSetCheckpointStoresWhatItReturns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	_, found, err := w.Checkpoint(ctx, fixture.Pipeline)
	require.NoError(t, err)
	require.False(t, found)

	w.clock.Advance(time.Minute)
	module := "ndjson"
	set, err := w.SetCheckpoint(ctx, fixture.Pipeline, types.CheckpointChange{Cursor: types.Cursor{Primary: 7, Secondary: 3}, Module: &module})
	require.NoError(t, err)
	module = "changed by its owner"
	want := types.Checkpoint{Cursor: types.Cursor{Primary: 7, Secondary: 3}, Module: new("ndjson"), UpdatedAt: fixture.Epoch().Add(time.Minute)}
	require.Equal(t, want, set)

	stored, found, err := w.Checkpoint(ctx, fixture.Pipeline)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, want, stored)
	all, err := w.Checkpoints(ctx)
	require.NoError(t, err)
	require.Equal(t, []types.PipelineCheckpoint{{Pipeline: fixture.Pipeline, Checkpoint: want}}, all)

	for _, there := range []bool{true, false} {
		deleted, err := w.DeleteCheckpoint(ctx, fixture.Pipeline)
		require.NoError(t, err)
		require.Equal(t, there, deleted)
	}
}

func TestSetCheckpointAsksWhoWroteTheOneThatIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stored   *string
		given    *string
		override bool
		refused  bool
		want     *string // the module afterwards
	}{
		"nobody said, nobody says":          {},
		"nobody said, one says":             {given: new("b"), want: new("b")},
		"the same":                          {stored: new("a"), given: new("a"), want: new("a")},
		"another":                           {stored: new("a"), given: new("b"), refused: true, want: new("a")},
		"the change does not say":           {stored: new("a"), refused: true, want: new("a")},
		"an empty name is a name":           {stored: new("a"), given: new(""), refused: true, want: new("a")},
		"another, overridden":               {stored: new("a"), given: new("b"), override: true, want: new("b")},
		"the change does not say, override": {stored: new("a"), override: true, want: new("a")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			before := types.Checkpoint{Cursor: fixture.Cursor(9), Module: c.stored, UpdatedAt: fixture.Time(0)}
			require.NoError(t, w.store.SaveCheckpoint(t.Context(), fixture.Pipeline, before))
			_, err := w.SetCheckpoint(t.Context(), fixture.Pipeline, types.CheckpointChange{Cursor: fixture.Cursor(20), Module: c.given, Override: c.override})

			after, _, loadErr := w.store.LoadCheckpoint(t.Context(), fixture.Pipeline)
			require.NoError(t, loadErr)
			require.Equal(t, c.want, after.Module)
			if !c.refused {
				require.NoError(t, err)
				require.Equal(t, fixture.Cursor(20), after.Cursor)
				return
			}
			require.ErrorIs(t, err, ports.ErrCheckpointProvenance)
			require.Equal(t, 409, ports.NewWireError(err).HTTPStatusCode)
			require.ErrorContains(t, err, string(fixture.Pipeline))
			require.ErrorContains(t, err, `"a"`)
			require.ErrorContains(t, err, "override")
			if c.given != nil {
				require.ErrorContains(t, err, `"`+*c.given+`"`)
			}
			require.Equal(t, before, after)
		})
	}
}

func TestAnOverrideIsNoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.store.SaveCheckpoint(t.Context(), fixture.Pipeline, fixture.Checkpoint(9)))
	_, err := w.SetCheckpoint(t.Context(), fixture.Pipeline, types.CheckpointChange{Cursor: fixture.Cursor(1), Override: true})
	require.NoError(t, err)
	require.Contains(t, w.log.String(), "was_module="+fixture.Module)
	require.Contains(t, w.log.String(), "was_cursor=9/0")
}

// Gates do not count what will come again; what lies before the cursor they keep.
func TestGoingBackForgetsTheHitsBehindIt(t *testing.T) {
	t.Parallel()
	all := []uint64{1, 2, 3, 4}
	for name, c := range map[string]struct {
		stored *types.Cursor
		to     types.Cursor
		want   []uint64
	}{
		"back":                        {stored: &types.Cursor{Primary: 4}, to: types.Cursor{Primary: 2}, want: all[:2]},
		"back within a primary":       {stored: &types.Cursor{Primary: 2, Secondary: 5}, to: types.Cursor{Primary: 2, Secondary: 1}, want: all[:2]},
		"back to the start":           {stored: &types.Cursor{Primary: 4}, to: types.Cursor{}, want: nil},
		"the same":                    {stored: &types.Cursor{Primary: 2}, to: types.Cursor{Primary: 2}, want: all},
		"forward":                     {stored: &types.Cursor{Primary: 2}, to: types.Cursor{Primary: 3}, want: all},
		"nothing says where it was":   {to: types.Cursor{Primary: 3}, want: all[:3]},
		"the greatest primary":        {to: types.Cursor{Primary: ports.MaxStoredInteger}, want: all},
		"back within the greatest":    {stored: &types.Cursor{Primary: ports.MaxStoredInteger, Secondary: 2}, to: types.Cursor{Primary: ports.MaxStoredInteger}, want: all},
		"forward to the greatest one": {stored: &types.Cursor{Primary: 2}, to: types.Cursor{Primary: ports.MaxStoredInteger, Secondary: ports.MaxStoredInteger}, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, primary := range all {
				require.NoError(t, w.store.AppendHits(t.Context(), fixture.Pipeline, []types.GateHit{fixture.GateHit(int(primary))}))
			}
			if c.stored != nil {
				require.NoError(t, w.store.SaveCheckpoint(t.Context(), fixture.Pipeline, types.Checkpoint{Cursor: *c.stored}))
			}
			_, err := w.SetCheckpoint(t.Context(), fixture.Pipeline, types.CheckpointChange{Cursor: c.to})
			require.NoError(t, err)
			hits, err := w.store.Hits(t.Context(), fixture.Pipeline, fixture.Monitor, 0)
			require.NoError(t, err)
			var kept []uint64
			for _, hit := range hits {
				kept = append(kept, hit.Cursor.Primary)
			}
			require.Equal(t, c.want, kept)
		})
	}
}

// unreadable is a storage whose checkpoints cannot be decoded.
type unreadable struct{ ports.Storage }

func (unreadable) LoadCheckpoint(context.Context, types.PipelineID) (types.Checkpoint, bool, error) {
	return types.Checkpoint{}, false, ports.Errorf(ports.CodeBackendFailed, "storage.loadCheckpoint", "the checkpoint cannot be decoded").WithReason(ports.ReasonUndecodable)
}

func TestOnlyAnOverrideReplacesACheckpointThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	w := newWorldOver(t, func(s ports.Storage) control.Storage { return unreadable{s} })
	_, err := w.SetCheckpoint(t.Context(), fixture.Pipeline, types.CheckpointChange{Cursor: fixture.Cursor(1)})
	require.ErrorIs(t, err, ports.ErrUndecodable)
	require.Empty(t, w.everything(t))
	_, err = w.SetCheckpoint(t.Context(), fixture.Pipeline, types.CheckpointChange{Cursor: fixture.Cursor(1), Override: true})
	require.NoError(t, err)
	require.Len(t, w.everything(t), 1)
}

// The look at who wrote the checkpoint and the writing of the next are one step: of many who bring a
// module where there was none, one wins, and the others see it.
func TestChangesOfOneCheckpointExcludeEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	w.faults.Add(flaky.Fault{Op: flaky.StorageApply, Nth: 1, Hold: release})
	const callers = 8
	results := make(chan error, callers)
	for i := range callers {
		go func() {
			_, err := w.SetCheckpoint(context.Background(), fixture.Pipeline, types.CheckpointChange{Cursor: fixture.Cursor(i), Module: new(string(rune('a' + i)))})
			results <- err
		}()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, w.faults.WaitForHeld(ctx, 1))

	waiting, giveUp := context.WithCancel(t.Context())
	giveUp()
	_, err := w.DeleteCheckpoint(waiting, fixture.Pipeline)
	require.ErrorIs(t, err, context.Canceled, "whoever waits may leave")
	_, err = w.SetCheckpoint(t.Context(), "volcanoes", types.CheckpointChange{})
	require.NoError(t, err, "another pipeline does not wait")

	close(release)
	won := 0
	for range callers {
		if err := receive(t, results); err == nil {
			won++
		} else {
			require.ErrorIs(t, err, ports.ErrCheckpointProvenance)
		}
	}
	require.Equal(t, 1, won)
}

func TestAFailedSaveChangesNothing(t *testing.T) {
	t.Parallel()
	for _, op := range []flaky.Op{flaky.StorageLoadCheckpoint, flaky.StorageApply} {
		w := newWorld(t)
		require.NoError(t, w.store.SaveCheckpoint(t.Context(), fixture.Pipeline, fixture.Checkpoint(9)))
		before := w.everything(t)
		w.faults.Add(flaky.Fault{Op: op, Err: errBoom})
		_, err := w.SetCheckpoint(t.Context(), fixture.Pipeline, types.CheckpointChange{Override: true})
		require.ErrorIs(t, err, errBoom, op)
		require.Equal(t, before, w.everything(t), op)
	}
}
