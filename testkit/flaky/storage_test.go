package flaky_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/storagetest"
	"github.com/stowage-go/stowage/types"
)

func storageHarness() storagetest.Harness {
	return storagetest.Harness{
		Open: func(_ testing.TB, depth int64) storagetest.Store {
			return storagetest.Store{Storage: flaky.NewStorage(model.NewStorage(depth), flaky.New(fixture.NewClock(fixture.Epoch()), 1))}
		},
		CanArchive: true,
	}
}

const pipeline = fixture.Pipeline

func newStorage(faults ...flaky.Fault) (*flaky.Storage, *model.Storage, *flaky.Faults, *fixture.Clock) {
	clock := fixture.NewClock(fixture.Epoch())
	f := flaky.New(clock, 1, faults...)
	inner := model.NewStorage(0)
	return flaky.NewStorage(inner, f), inner, f, clock
}

// checkpointOf is the primary of the checkpoint, 0 when there is none.
func checkpointOf(t *testing.T, storage ports.CheckpointStore) uint64 {
	t.Helper()
	checkpoint, _, err := storage.LoadCheckpoint(t.Context(), pipeline)
	require.NoError(t, err)
	return checkpoint.Cursor.Primary
}

// storageCalls is every method but Close, each with input that a storage accepts when it is empty.
func storageCalls(ctx context.Context, s *flaky.Storage) map[flaky.Op]func() error {
	kind, id := fixture.Kind, fixture.Resource(1).ID
	pause := types.PipelineOf(pipeline)
	ops := map[flaky.Op]func() error{
		flaky.StorageGetResource:    func() error { _, _, err := s.GetResource(ctx, kind, id); return err },
		flaky.StorageListResources:  func() error { _, err := s.ListResources(ctx, kind, types.ResourceListOptions{}); return err },
		flaky.StorageResourceKinds:  func() error { _, err := s.ResourceKinds(ctx); return err },
		flaky.StoragePutResource:    func() error { _, err := s.PutResource(ctx, kind, id, []byte("1"), 0); return err },
		flaky.StoragePutResources:   func() error { return s.PutResources(ctx, []types.Resource{fixture.Resource(2)}) },
		flaky.StorageDeleteResource: func() error { return s.DeleteResource(ctx, kind, id, 1) },

		flaky.StorageLoadCheckpoint:   func() error { _, _, err := s.LoadCheckpoint(ctx, pipeline); return err },
		flaky.StorageSaveCheckpoint:   func() error { return s.SaveCheckpoint(ctx, pipeline, fixture.Checkpoint(1)) },
		flaky.StorageListCheckpoints:  func() error { _, err := s.ListCheckpoints(ctx); return err },
		flaky.StorageDeleteCheckpoint: func() error { _, err := s.DeleteCheckpoint(ctx, pipeline); return err },

		flaky.StorageRecordDeadLetter:     func() error { return s.RecordDeadLetter(ctx, pipeline, fixture.DeadLetter(1)) },
		flaky.StorageListDeadLetters:      func() error { _, err := s.ListDeadLetters(ctx, pipeline, types.LetterQuery{Take: 1}); return err },
		flaky.StorageGetDeadLetter:        func() error { _, _, err := s.GetDeadLetter(ctx, pipeline, fixture.MatchID(1)); return err },
		flaky.StorageCountDeadLetters:     func() error { _, err := s.CountDeadLetters(ctx); return err },
		flaky.StorageUpdateDeadLetter:     func() error { _, err := s.UpdateDeadLetter(ctx, pipeline, fixture.DeadLetter(1)); return err },
		flaky.StorageDeleteDeadLetter:     func() error { _, err := s.DeleteDeadLetter(ctx, pipeline, fixture.MatchID(1)); return err },
		flaky.StorageDeleteDeadLetters:    func() error { _, err := s.DeleteDeadLetters(ctx, pipeline, nil); return err },
		flaky.StorageDeleteAllDeadLetters: func() error { _, err := s.DeleteAllDeadLetters(ctx, pipeline, 1); return err },

		flaky.StoragePause:      func() error { return s.Pause(ctx, pause) },
		flaky.StorageResume:     func() error { return s.Resume(ctx, pause) },
		flaky.StoragePaused:     func() error { _, err := s.Paused(ctx, pause); return err },
		flaky.StorageListPauses: func() error { _, err := s.ListPauses(ctx); return err },

		flaky.StorageRecordDeliveries: func() error { return s.RecordDeliveries(ctx, pipeline, []types.Delivery{fixture.Delivery(1)}) },
		flaky.StorageDelivered:        func() error { _, err := s.Delivered(ctx, pipeline, types.Cursor{}, types.Cursor{}); return err },

		flaky.StorageAppendHits:       func() error { return s.AppendHits(ctx, pipeline, []types.GateHit{fixture.GateHit(1)}) },
		flaky.StorageHits:             func() error { _, err := s.Hits(ctx, pipeline, fixture.Monitor, 0); return err },
		flaky.StorageDeleteHitsBefore: func() error { return s.DeleteHitsBefore(ctx, pipeline, 1) },
		flaky.StorageDeleteHitsFrom:   func() error { return s.DeleteHitsFrom(ctx, pipeline, 1) },
		flaky.StorageGateMeta:         func() error { _, _, err := s.GateMeta(ctx, pipeline, fixture.Monitor); return err },
		flaky.StorageSetGateMeta:      func() error { return s.SetGateMeta(ctx, pipeline, fixture.Monitor, fixture.GateMeta(1)) },

		flaky.StorageApply:   func() error { return s.Apply(ctx, pipeline, types.Progress{Settled: []types.MatchID{"m"}}) },
		flaky.StorageQuiesce: func() error { return s.Quiesce(ctx) },
		flaky.StorageExport:  func() error { return s.Export(ctx, func(types.Record) error { return nil }) },
		flaky.StorageImport: func() error {
			_, err := s.Import(ctx, func(func(types.Record, error) bool) {})
			return err
		},
	}
	return ops
}

func TestEveryOperationOfAStorageIsHitByItsName(t *testing.T) {
	t.Parallel()
	methods := reflect.TypeFor[ports.Storage]().NumMethod() + reflect.TypeFor[ports.Archiver]().NumMethod()
	storage, inner, faults, _ := newStorage(flaky.Fault{Err: errFault})
	calls := storageCalls(t.Context(), storage)
	require.Len(t, calls, methods-1, "every method but Close")
	for op, call := range calls {
		require.ErrorIs(t, call(), errFault, op)
		require.Equal(t, 1, faults.Calls(op), op)
		require.Equal(t, 1, faults.Hits(op), op)
	}
	require.Equal(t, len(calls), faults.Hits(""))
	require.NoError(t, inner.Export(t.Context(), func(r types.Record) error { return errors.New("stored in spite of the fault") }))
}

// TestEveryOperationReachesTheStorageWithin closes the storage within, whose errors name the operation.
func TestEveryOperationReachesTheStorageWithin(t *testing.T) {
	t.Parallel()
	storage, inner, _, _ := newStorage()
	require.NoError(t, inner.Close())
	for op, call := range storageCalls(t.Context(), storage) {
		var err *ports.Error
		require.ErrorAs(t, call(), &err, op)
		require.Equal(t, ports.CodeStoreClosed, err.Code, op)
		require.Equal(t, string(op), err.Op)
	}
}

func TestAFailedApplyMayHaveBeenStored(t *testing.T) {
	t.Parallel()
	storage, inner, _, _ := newStorage(
		flaky.Fault{Op: flaky.StorageApply, Nth: 1, Err: errFault},
		flaky.Fault{Op: flaky.StorageApply, Nth: 2, Err: errFault, AfterEffect: true},
	)
	checkpoint := fixture.Checkpoint(7)
	progress := types.Progress{Checkpoint: &checkpoint}
	require.ErrorIs(t, storage.Apply(t.Context(), pipeline, progress), errFault)
	require.Zero(t, checkpointOf(t, inner))
	require.ErrorIs(t, storage.Apply(t.Context(), pipeline, progress), errFault)
	require.Equal(t, uint64(7), checkpointOf(t, inner))
}

func TestALostAnswerShowsNothing(t *testing.T) {
	t.Parallel()
	storage, inner, _, _ := newStorage(flaky.Fault{Err: errFault, AfterEffect: true})
	require.NoError(t, inner.SaveCheckpoint(t.Context(), pipeline, fixture.Checkpoint(7)))
	checkpoint, found, err := storage.LoadCheckpoint(t.Context(), pipeline)
	require.ErrorIs(t, err, errFault)
	require.False(t, found)
	require.Zero(t, checkpoint)
}

// plainStorage hides what a storage can do beyond the port.
type plainStorage struct{ ports.Storage }

func TestAStorageThatCannotBeExportedSaysSo(t *testing.T) {
	t.Parallel()
	storage := flaky.NewStorage(plainStorage{model.NewStorage(0)}, flaky.New(fixture.NewClock(fixture.Epoch()), 1))
	require.ErrorIs(t, storage.Export(t.Context(), nil), ports.ErrUnsupported)
	_, err := storage.Import(t.Context(), nil)
	require.ErrorIs(t, err, ports.ErrUnsupported)
}

// heldSave starts a save of the checkpoint 7 whose caller gives up while it is held.
func heldSave(t *testing.T, afterEffect bool) (storage *flaky.Storage, inner *model.Storage, faults *flaky.Faults, release func(), saved <-chan error) {
	t.Helper()
	held := make(chan struct{})
	storage, inner, faults, _ = newStorage(flaky.Fault{Op: flaky.StorageSaveCheckpoint, Hold: held, AfterEffect: afterEffect})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- storage.SaveCheckpoint(ctx, pipeline, fixture.Checkpoint(7)) }()
	require.NoError(t, faults.WaitForHeld(t.Context(), 1))
	cancel()
	return storage, inner, faults, func() { close(held) }, done
}

func TestAHeldCallHasItsEffectWhenItIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, afterEffect := range []bool{false, true} {
			storage, inner, faults, release, saved := heldSave(t, afterEffect)
			if afterEffect {
				require.Equal(t, uint64(7), checkpointOf(t, inner))
			} else {
				require.Zero(t, checkpointOf(t, inner))
			}
			synctest.Wait()
			require.Empty(t, saved, "the end of its context does not end it")
			require.Equal(t, 1, faults.Hits(flaky.StorageSaveCheckpoint))
			release()
			require.NoError(t, <-saved)
			require.Equal(t, uint64(7), checkpointOf(t, storage))
			require.ErrorIs(t, faults.WaitForHeld(fixture.Cancelled(t), 1), context.Canceled, "none is held any more")
		}
	})
}

func TestACallWhoseContextHasEndedIsNotHeld(t *testing.T) {
	t.Parallel()
	storage, inner, _, _ := newStorage(flaky.Fault{Hold: make(chan struct{})})
	require.ErrorIs(t, storage.SaveCheckpoint(fixture.Cancelled(t), pipeline, fixture.Checkpoint(7)), context.Canceled)
	require.Zero(t, checkpointOf(t, inner))
}

func TestQuiesceWaitsForHeldCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, afterEffect := range []bool{false, true} {
			storage, inner, _, release, saved := heldSave(t, afterEffect)
			require.ErrorIs(t, storage.Quiesce(fixture.Cancelled(t)), context.Canceled)
			quiesced := make(chan uint64, 1)
			go func() {
				if storage.Quiesce(t.Context()) == nil {
					quiesced <- checkpointOf(t, inner)
				}
			}()
			require.NoError(t, storage.Pause(t.Context(), types.PipelineOf(pipeline)), "later calls go on")
			synctest.Wait()
			require.Empty(t, quiesced)
			release()
			require.Equal(t, uint64(7), <-quiesced, "what the call stored is there")
			require.NoError(t, <-saved)
		}
	})
}

func TestQuiesceWaitsForDelayedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage, inner, _, clock := newStorage(flaky.Fault{Op: flaky.StorageSaveCheckpoint, Delay: time.Second})
		saved := make(chan error, 1)
		go func() { saved <- storage.SaveCheckpoint(t.Context(), pipeline, fixture.Checkpoint(7)) }()
		clock.BlockUntilTimers(1)
		require.ErrorIs(t, storage.Quiesce(fixture.Cancelled(t)), context.Canceled)
		quiesced := make(chan error, 1)
		go func() { quiesced <- storage.Quiesce(t.Context()) }()
		synctest.Wait()
		require.Empty(t, quiesced)
		clock.Advance(time.Second)
		require.NoError(t, <-quiesced)
		require.Equal(t, uint64(7), checkpointOf(t, inner))
		require.NoError(t, <-saved)
	})
}

func TestCloseWaitsForHeldCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage, _, _, release, saved := heldSave(t, false)
		closed := make(chan error, 1)
		go func() { closed <- storage.Close() }()
		synctest.Wait()
		require.Empty(t, closed)
		release()
		require.NoError(t, <-saved, "the storage within was open")
		require.NoError(t, <-closed)
		require.NoError(t, storage.Close())
		_, err := storage.ListPauses(t.Context())
		require.ErrorIs(t, err, ports.ErrStoreClosed)
	})
}

func TestAHaltStopsEverythingInTheMiddleOfTheNthCall(t *testing.T) {
	t.Parallel()
	for _, afterEffect := range []bool{false, true} {
		clock := fixture.NewClock(fixture.Epoch())
		faults := flaky.New(clock, 1, flaky.Fault{Nth: 3, Halt: true, AfterEffect: afterEffect})
		within, kvWithin, queueWithin := model.NewStorage(0), model.NewKv(clock), model.NewQueue(clock)
		storage, kv, queue := flaky.NewStorage(within, faults), flaky.NewKv(kvWithin, faults), flaky.NewQueue(queueWithin, faults)
		ctx := t.Context()
		require.NoError(t, storage.SaveCheckpoint(ctx, pipeline, fixture.Checkpoint(1)))
		require.NoError(t, storage.SaveCheckpoint(ctx, pipeline, fixture.Checkpoint(2)))
		require.Empty(t, faults.Halted())
		require.ErrorIs(t, storage.SaveCheckpoint(ctx, pipeline, fixture.Checkpoint(3)), flaky.ErrHalted)
		<-faults.Halted()
		want := uint64(2)
		if afterEffect {
			want = 3
		}
		require.Equal(t, want, checkpointOf(t, within))

		faults.Clear()
		for op, call := range storageCalls(ctx, storage) {
			require.ErrorIs(t, call(), flaky.ErrHalted, op)
		}
		_, err := kv.Put(ctx, "k", nil, types.PutOptions{})
		require.ErrorIs(t, err, flaky.ErrHalted)
		require.ErrorIs(t, queue.Send(ctx, types.Text("m"), types.SendOptions{}), flaky.ErrHalted)
		require.ErrorIs(t, storage.Close(), flaky.ErrHalted)
		require.ErrorIs(t, kv.Close(), flaky.ErrHalted)
		require.ErrorIs(t, queue.Close(), flaky.ErrHalted)

		require.Equal(t, want, checkpointOf(t, flaky.NewStorage(within, flaky.New(clock, 1))), "the successor finds it as it was left")
		found, err := kvWithin.Exists(ctx, "k")
		require.NoError(t, err)
		require.False(t, found)
		stats, err := queueWithin.Stats(ctx)
		require.NoError(t, err)
		require.Zero(t, stats.Total)
	}
}

func TestAHaltWinsOverOtherFaults(t *testing.T) {
	t.Parallel()
	errHalt := errors.New("the halt of this test")
	for _, faults := range [][]flaky.Fault{
		{{Err: errFault}, {Halt: true, Err: errHalt}},
		{{Err: errFault, AfterEffect: true}, {Halt: true, Err: errHalt}},
		{{Halt: true, Err: errHalt}, {Err: errFault}},
		{{Err: errFault}, {Halt: true, Err: errHalt, AfterEffect: true}},
	} {
		storage, inner, f, _ := newStorage(faults...)
		for range 2 {
			require.ErrorIs(t, storage.SaveCheckpoint(t.Context(), pipeline, fixture.Checkpoint(1)), errHalt)
		}
		require.Zero(t, checkpointOf(t, inner))
		require.Equal(t, 2, f.Hits(flaky.StorageSaveCheckpoint))
	}
	storage, _, _, _ := newStorage(flaky.Fault{Halt: true, AfterEffect: true}) //nolint:dogsled // the wrapper alone
	require.ErrorIs(t, storage.SaveCheckpoint(t.Context(), "bad id", fixture.Checkpoint(1)), flaky.ErrHalted, "over a call's own error too")
}

func TestAHaltEndsCallsThatAreDelayedOrHeld(t *testing.T) {
	t.Parallel()
	storage, inner, faults, clock := newStorage(
		flaky.Fault{Op: flaky.StorageSaveCheckpoint, Delay: time.Hour},
		flaky.Fault{Op: flaky.StoragePause, Hold: make(chan struct{})},
		flaky.Fault{Op: flaky.StorageSetGateMeta, Hold: make(chan struct{}), AfterEffect: true},
	)
	calls := storageCalls(t.Context(), storage)
	ended := make(chan error, 3)
	for _, op := range []flaky.Op{flaky.StorageSaveCheckpoint, flaky.StoragePause, flaky.StorageSetGateMeta} {
		go func() { ended <- calls[op]() }()
	}
	clock.BlockUntilTimers(1)
	require.NoError(t, faults.WaitForHeld(t.Context(), 2))
	faults.Halt()
	require.ErrorIs(t, storage.Quiesce(t.Context()), flaky.ErrHalted)
	require.Zero(t, checkpointOf(t, inner))
	paused, err := inner.ListPauses(t.Context())
	require.NoError(t, err)
	require.Empty(t, paused)
	_, found, err := inner.GateMeta(t.Context(), pipeline, fixture.Monitor)
	require.NoError(t, err)
	require.True(t, found, "it was held after its effect")
	for range 3 {
		require.ErrorIs(t, <-ended, flaky.ErrHalted)
	}
	require.Zero(t, clock.Timers())
}

// blockedStorage holds each save inside, until it is released.
type blockedStorage struct {
	*model.Storage
	entered, release chan struct{}
}

func (b blockedStorage) SaveCheckpoint(ctx context.Context, p types.PipelineID, c types.Checkpoint) error {
	b.entered <- struct{}{}
	<-b.release
	return b.Storage.SaveCheckpoint(ctx, p, c)
}

func TestAHaltLosesTheAnswerOfACallWithin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := flaky.New(fixture.NewClock(fixture.Epoch()), 1)
		inner := blockedStorage{model.NewStorage(0), make(chan struct{}), make(chan struct{})}
		storage := flaky.NewStorage(inner, faults)
		saved := make(chan error, 1)
		go func() { saved <- storage.SaveCheckpoint(t.Context(), pipeline, fixture.Checkpoint(7)) }()
		<-inner.entered
		faults.Halt()
		quiesced := make(chan error, 1)
		go func() { quiesced <- storage.Quiesce(t.Context()) }()
		synctest.Wait()
		require.Empty(t, quiesced)
		close(inner.release)
		require.ErrorIs(t, <-quiesced, flaky.ErrHalted)
		require.Equal(t, uint64(7), checkpointOf(t, inner), "after Quiesce, what the call did is seen")
		require.ErrorIs(t, <-saved, flaky.ErrHalted)
	})
}

// TestASweepOfHaltsLeavesEveryPrefix is how a test of a crash uses the halt: once without, to count the
// calls; then once for each of them, before and after its effect.
func TestASweepOfHaltsLeavesEveryPrefix(t *testing.T) {
	t.Parallel()
	run := func(faults ...flaky.Fault) (stored uint64, calls int) {
		storage, inner, f, _ := newStorage(faults...)
		for n := 1; n <= 5; n++ {
			if storage.SaveCheckpoint(t.Context(), pipeline, fixture.Checkpoint(n)) != nil {
				break
			}
		}
		return checkpointOf(t, inner), f.Calls("")
	}
	_, calls := run()
	require.Equal(t, 5, calls)
	var found []uint64
	for n := 1; n <= calls; n++ {
		for _, afterEffect := range []bool{false, true} {
			stored, _ := run(flaky.Fault{Nth: n, Halt: true, AfterEffect: afterEffect})
			found = append(found, stored)
		}
	}
	require.Equal(t, []uint64{0, 1, 1, 2, 2, 3, 3, 4, 4, 5}, found)
}
