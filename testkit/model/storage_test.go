package model_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

var (
	_ ports.Storage  = (*model.Storage)(nil)
	_ ports.Archiver = (*model.Storage)(nil)
)

const pipeline = fixture.Pipeline

func newStorage(t *testing.T, depth int64) *model.Storage {
	t.Helper()
	storage := model.NewStorage(depth)
	t.Cleanup(func() { require.NoError(t, storage.Close()) })
	return storage
}

func export(t *testing.T, storage ports.Archiver) []types.Record {
	t.Helper()
	var records []types.Record
	require.NoError(t, storage.Export(t.Context(), func(r types.Record) error {
		records = append(records, r)
		return nil
	}))
	return records
}

// sequence yields the records and then err, unless that is nil.
func sequence(records []types.Record, err error) iter.Seq2[types.Record, error] {
	return func(yield func(types.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(types.Record{}, err)
		}
	}
}

// fill stores two records of every category, the later ones first.
func fill(t *testing.T, storage ports.Storage) {
	t.Helper()
	ctx := t.Context()
	for _, p := range []types.PipelineID{pipeline, "a"} {
		checkpoint, keep := fixture.Checkpoint(2), uint64(0)
		require.NoError(t, storage.Apply(ctx, p, types.Progress{
			Checkpoint:  &checkpoint,
			Deliveries:  []types.Delivery{fixture.Delivery(2), fixture.Delivery(1)},
			DeadLetters: []types.DeadLetter{fixture.DeadLetter(2), fixture.DeadLetter(1)},
			Hits:        []types.GateHit{fixture.GateHit(2), fixture.GateHit(1)},
			HitsBefore:  &keep,
			Metas: []types.MonitorMeta{
				{Monitor: fixture.Monitor, Meta: fixture.GateMeta(2)},
				{Monitor: "empty", Meta: types.GateMeta{Aux: []byte{}}},
			},
		}))
		require.NoError(t, storage.Pause(ctx, types.PipelineOf(p)))
	}
	for _, n := range []int{2, 1} {
		r := fixture.Resource(n)
		_, err := storage.PutResource(ctx, r.Kind, r.ID, r.Value, 0)
		require.NoError(t, err)
	}
}

func TestStorageRefusesANegativeDepth(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { model.NewStorage(-1) })
}

func TestStorageExportsInOrderAndImportsWhatItExported(t *testing.T) {
	t.Parallel()
	source, target := newStorage(t, 0), newStorage(t, 0)
	fill(t, source)
	records := export(t, source)
	require.Len(t, records, 2+2+4+2+4+4+4)
	require.Equal(t, fixture.Resource(1), *records[0].Resource)
	require.Equal(t, types.PipelineID("a"), records[2].Pipeline)
	require.Equal(t, fixture.Checkpoint(2), *records[2].Checkpoint)
	require.Equal(t, fixture.DeadLetter(2), *records[4].DeadLetter, "letters in the order of arrival")
	require.Equal(t, fixture.DeadLetter(1), *records[5].DeadLetter)
	require.Equal(t, types.PipelineOf("a"), *records[8].Pause)
	require.Equal(t, fixture.Delivery(1), *records[10].Delivery)
	require.Equal(t, fixture.GateHit(1), *records[14].GateHit)
	require.Equal(t, []byte{}, records[18].GateMeta.Meta.Aux)
	require.Nil(t, records[18].GateMeta.Meta.LastEmitTS)

	n, err := target.Import(t.Context(), sequence(records, nil))
	require.NoError(t, err)
	require.Equal(t, int64(len(records)), n)
	require.Equal(t, records, export(t, target))
	letters, err := target.ListDeadLetters(t.Context(), pipeline, types.LetterQuery{Take: 10})
	require.NoError(t, err)
	require.Len(t, letters, 2)
	require.Less(t, letters[0].Position, letters[1].Position)
}

func TestStorageImportsAllOrNothing(t *testing.T) {
	t.Parallel()
	source := newStorage(t, 0)
	fill(t, source)
	records := export(t, source)
	errSequence := errors.New("the sequence of this test")
	fails := func(name string, records []types.Record, sequenceErr, want error) {
		target := newStorage(t, 0)
		n, err := target.Import(t.Context(), sequence(records, sequenceErr))
		require.ErrorIs(t, err, want, name)
		require.Zero(t, n, name)
		require.Empty(t, export(t, target), name)
		_, err = target.Import(t.Context(), sequence(records[:1], nil))
		require.NoError(t, err, "%s: it is still fresh", name)
	}
	fails("an error of the sequence", records, errSequence, errSequence)
	fails("a record of no category", append(slices.Clone(records), types.Record{}), nil, ports.ErrInvalidInput)
	for i := range records {
		fails("a record twice", append(slices.Clone(records), records[i]), nil, ports.ErrAlreadyExists)
	}
	_, err := source.Import(t.Context(), sequence(nil, nil))
	require.ErrorIs(t, err, ports.ErrAlreadyExists)
	require.Equal(t, records, export(t, source))
}

func TestStorageImportsWithoutPruning(t *testing.T) {
	t.Parallel()
	storage := newStorage(t, 1)
	old, recent := fixture.Delivery(1), fixture.Delivery(9)
	records := []types.Record{{Pipeline: pipeline, Delivery: &old}, {Pipeline: pipeline, Delivery: &recent}}
	_, err := storage.Import(t.Context(), sequence(records, nil))
	require.NoError(t, err)
	delivered := func() []types.Delivery {
		window, err := storage.Delivered(t.Context(), pipeline, fixture.Cursor(0), fixture.Cursor(100))
		require.NoError(t, err)
		return window
	}
	require.Equal(t, []types.Delivery{old, recent}, delivered())
	require.NoError(t, storage.Apply(t.Context(), pipeline, types.Progress{}))
	require.Equal(t, []types.Delivery{old, recent}, delivered(), "an empty step changes nothing")
	require.NoError(t, storage.RecordDeliveries(t.Context(), pipeline, []types.Delivery{fixture.Delivery(8)}))
	require.Equal(t, []types.Delivery{fixture.Delivery(8), recent}, delivered())
}

func TestStorageEndsAnExportWithItsError(t *testing.T) {
	t.Parallel()
	storage := newStorage(t, 0)
	fill(t, storage)
	errYield := errors.New("the yield of this test")
	calls := 0
	require.ErrorIs(t, storage.Export(t.Context(), func(types.Record) error { calls++; return errYield }), errYield)
	require.Equal(t, 1, calls)
}

func TestStorageSharesNoMemory(t *testing.T) {
	t.Parallel()
	storage := newStorage(t, 0)
	fill(t, storage)
	want := export(t, storage)
	for _, r := range export(t, storage) {
		switch {
		case r.Resource != nil:
			r.Resource.Value[0] = 'x'
		case r.Checkpoint != nil:
			*r.Checkpoint.Module = "x"
		case r.DeadLetter != nil:
			r.DeadLetter.Payload.Match.Event[0] = 'x'
		case r.GateHit != nil:
			r.GateHit.Event[0] = 'x'
		case r.GateMeta != nil && r.GateMeta.Meta.LastEmitTS != nil:
			*r.GateMeta.Meta.LastEmitTS = 0
			r.GateMeta.Meta.Aux[0] = 'x'
		}
	}
	require.Equal(t, want, export(t, storage))
}

// TestStorageQuiescesBehindCallsThatBegan has a call that waits for a lock, and a Quiesce after it.
func TestStorageQuiescesBehindCallsThatBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := newStorage(t, 0)
		fill(t, storage)
		ctx, cancel := context.WithCancel(t.Context())
		quiesced := make(chan error, 1)
		exported := make(chan error, 1)
		release := make(chan struct{})
		go func() {
			exported <- storage.Export(ctx, func(types.Record) error { <-release; return nil })
		}()
		synctest.Wait()
		saved := make(chan error, 1)
		go func() { saved <- storage.SaveCheckpoint(ctx, pipeline, fixture.Checkpoint(9)) }()
		synctest.Wait()
		go func() { quiesced <- storage.Quiesce(t.Context()) }()
		synctest.Wait()

		short, giveUp := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- storage.Quiesce(short) }()
		giveUp()
		require.ErrorIs(t, <-gaveUp, context.Canceled)

		cancel()
		require.ErrorIs(t, <-saved, context.Canceled, "a caller that waits may leave")
		require.Empty(t, quiesced, "the export is under way, although its caller gave up")
		close(release)
		require.ErrorIs(t, <-exported, context.Canceled)
		require.NoError(t, <-quiesced)
		checkpoint, _, err := storage.LoadCheckpoint(t.Context(), pipeline)
		require.NoError(t, err)
		require.Equal(t, fixture.Checkpoint(2), checkpoint)
	})
}

func TestAClosedStorageSaysSo(t *testing.T) {
	t.Parallel()
	storage := model.NewStorage(0)
	require.NoError(t, storage.Close())
	require.NoError(t, storage.Close())
	ctx := t.Context()
	_, _, err := storage.LoadCheckpoint(ctx, pipeline)
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.ErrorIs(t, storage.Apply(ctx, pipeline, types.Progress{}), ports.ErrStoreClosed)
	require.ErrorIs(t, storage.Quiesce(ctx), ports.ErrStoreClosed)
	require.ErrorIs(t, storage.Export(ctx, func(types.Record) error { return nil }), ports.ErrStoreClosed)
	require.ErrorIs(t, storage.Apply(fixture.Cancelled(t), pipeline, types.Progress{}), context.Canceled)
}
