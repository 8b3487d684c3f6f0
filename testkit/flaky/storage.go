package flaky

import (
	"context"
	"iter"
	"sync"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Storage is a ports.Storage that fails as its Faults say. A call that fails returns no result, also
// when it had its effect.
//
// It is a ports.Archiver whatever the storage within can do; where that is none, Export and Import are
// BACKEND_FAILED/unsupported.
type Storage struct {
	inner  ports.Storage
	faults *Faults
	calls  calls
}

// NewStorage wraps a storage.
func NewStorage(inner ports.Storage, faults *Faults) *Storage {
	return &Storage{inner: inner, faults: faults, calls: calls{open: map[chan struct{}]bool{}}}
}

// around is a caller whose calls Quiesce and Close wait for.
func (s *Storage) around(ctx context.Context, op Op, call func(context.Context) error) error {
	end := s.calls.begin()
	defer end()
	return s.faults.around(ctx, op, call)
}

// GetResource implements ports.ResourceStore.
func (s *Storage) GetResource(ctx context.Context, kind types.ResourceKind, id string) (types.Resource, bool, error) {
	return lookup(ctx, s.around, StorageGetResource, func(ctx context.Context) (types.Resource, bool, error) {
		return s.inner.GetResource(ctx, kind, id)
	})
}

// ListResources implements ports.ResourceStore.
func (s *Storage) ListResources(ctx context.Context, kind types.ResourceKind, opts types.ResourceListOptions) (types.ResourcePage, error) {
	return result(ctx, s.around, StorageListResources, func(ctx context.Context) (types.ResourcePage, error) {
		return s.inner.ListResources(ctx, kind, opts)
	})
}

// ResourceKinds implements ports.ResourceStore.
func (s *Storage) ResourceKinds(ctx context.Context) ([]types.ResourceKind, error) {
	return result(ctx, s.around, StorageResourceKinds, func(ctx context.Context) ([]types.ResourceKind, error) {
		return s.inner.ResourceKinds(ctx)
	})
}

// PutResource implements ports.ResourceStore.
func (s *Storage) PutResource(ctx context.Context, kind types.ResourceKind, id string, value []byte, expected uint64) (uint64, error) {
	return result(ctx, s.around, StoragePutResource, func(ctx context.Context) (uint64, error) {
		return s.inner.PutResource(ctx, kind, id, value, expected)
	})
}

// PutResources implements ports.ResourceStore.
func (s *Storage) PutResources(ctx context.Context, resources []types.Resource) error {
	return s.around(ctx, StoragePutResources, func(ctx context.Context) error { return s.inner.PutResources(ctx, resources) })
}

// DeleteResource implements ports.ResourceStore.
func (s *Storage) DeleteResource(ctx context.Context, kind types.ResourceKind, id string, expected uint64) error {
	return s.around(ctx, StorageDeleteResource, func(ctx context.Context) error { return s.inner.DeleteResource(ctx, kind, id, expected) })
}

// LoadCheckpoint implements ports.CheckpointStore.
func (s *Storage) LoadCheckpoint(ctx context.Context, pipeline types.PipelineID) (types.Checkpoint, bool, error) {
	return lookup(ctx, s.around, StorageLoadCheckpoint, func(ctx context.Context) (types.Checkpoint, bool, error) {
		return s.inner.LoadCheckpoint(ctx, pipeline)
	})
}

// SaveCheckpoint implements ports.CheckpointStore.
func (s *Storage) SaveCheckpoint(ctx context.Context, pipeline types.PipelineID, checkpoint types.Checkpoint) error {
	return s.around(ctx, StorageSaveCheckpoint, func(ctx context.Context) error { return s.inner.SaveCheckpoint(ctx, pipeline, checkpoint) })
}

// ListCheckpoints implements ports.CheckpointStore.
func (s *Storage) ListCheckpoints(ctx context.Context) ([]types.PipelineCheckpoint, error) {
	return result(ctx, s.around, StorageListCheckpoints, func(ctx context.Context) ([]types.PipelineCheckpoint, error) {
		return s.inner.ListCheckpoints(ctx)
	})
}

// DeleteCheckpoint implements ports.CheckpointStore.
func (s *Storage) DeleteCheckpoint(ctx context.Context, pipeline types.PipelineID) (bool, error) {
	return result(ctx, s.around, StorageDeleteCheckpoint, func(ctx context.Context) (bool, error) {
		return s.inner.DeleteCheckpoint(ctx, pipeline)
	})
}

// RecordDeadLetter implements ports.DeadLetterStore.
func (s *Storage) RecordDeadLetter(ctx context.Context, pipeline types.PipelineID, letter types.DeadLetter) error {
	return s.around(ctx, StorageRecordDeadLetter, func(ctx context.Context) error { return s.inner.RecordDeadLetter(ctx, pipeline, letter) })
}

// ListDeadLetters implements ports.DeadLetterStore.
func (s *Storage) ListDeadLetters(ctx context.Context, pipeline types.PipelineID, query types.LetterQuery) ([]types.StoredLetter, error) {
	return result(ctx, s.around, StorageListDeadLetters, func(ctx context.Context) ([]types.StoredLetter, error) {
		return s.inner.ListDeadLetters(ctx, pipeline, query)
	})
}

// GetDeadLetter implements ports.DeadLetterStore.
func (s *Storage) GetDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (types.StoredLetter, bool, error) {
	return lookup(ctx, s.around, StorageGetDeadLetter, func(ctx context.Context) (types.StoredLetter, bool, error) {
		return s.inner.GetDeadLetter(ctx, pipeline, id)
	})
}

// CountDeadLetters implements ports.DeadLetterStore.
func (s *Storage) CountDeadLetters(ctx context.Context) ([]types.LetterCount, error) {
	return result(ctx, s.around, StorageCountDeadLetters, func(ctx context.Context) ([]types.LetterCount, error) {
		return s.inner.CountDeadLetters(ctx)
	})
}

// UpdateDeadLetter implements ports.DeadLetterStore.
func (s *Storage) UpdateDeadLetter(ctx context.Context, pipeline types.PipelineID, letter types.DeadLetter) (bool, error) {
	return result(ctx, s.around, StorageUpdateDeadLetter, func(ctx context.Context) (bool, error) {
		return s.inner.UpdateDeadLetter(ctx, pipeline, letter)
	})
}

// DeleteDeadLetter implements ports.DeadLetterStore.
func (s *Storage) DeleteDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (bool, error) {
	return result(ctx, s.around, StorageDeleteDeadLetter, func(ctx context.Context) (bool, error) {
		return s.inner.DeleteDeadLetter(ctx, pipeline, id)
	})
}

// DeleteDeadLetters implements ports.DeadLetterStore.
func (s *Storage) DeleteDeadLetters(ctx context.Context, pipeline types.PipelineID, ids []types.MatchID) (int64, error) {
	return result(ctx, s.around, StorageDeleteDeadLetters, func(ctx context.Context) (int64, error) {
		return s.inner.DeleteDeadLetters(ctx, pipeline, ids)
	})
}

// DeleteAllDeadLetters implements ports.DeadLetterStore.
func (s *Storage) DeleteAllDeadLetters(ctx context.Context, pipeline types.PipelineID, through int64) (int64, error) {
	return result(ctx, s.around, StorageDeleteAllDeadLetters, func(ctx context.Context) (int64, error) {
		return s.inner.DeleteAllDeadLetters(ctx, pipeline, through)
	})
}

// Pause implements ports.PauseStore.
func (s *Storage) Pause(ctx context.Context, pause types.Pause) error {
	return s.around(ctx, StoragePause, func(ctx context.Context) error { return s.inner.Pause(ctx, pause) })
}

// Resume implements ports.PauseStore.
func (s *Storage) Resume(ctx context.Context, pause types.Pause) error {
	return s.around(ctx, StorageResume, func(ctx context.Context) error { return s.inner.Resume(ctx, pause) })
}

// Paused implements ports.PauseStore.
func (s *Storage) Paused(ctx context.Context, pause types.Pause) (bool, error) {
	return result(ctx, s.around, StoragePaused, func(ctx context.Context) (bool, error) {
		return s.inner.Paused(ctx, pause)
	})
}

// ListPauses implements ports.PauseStore.
func (s *Storage) ListPauses(ctx context.Context) ([]types.Pause, error) {
	return result(ctx, s.around, StorageListPauses, func(ctx context.Context) ([]types.Pause, error) {
		return s.inner.ListPauses(ctx)
	})
}

// RecordDeliveries implements ports.DeliveryJournal.
func (s *Storage) RecordDeliveries(ctx context.Context, pipeline types.PipelineID, deliveries []types.Delivery) error {
	return s.around(ctx, StorageRecordDeliveries, func(ctx context.Context) error { return s.inner.RecordDeliveries(ctx, pipeline, deliveries) })
}

// Delivered implements ports.DeliveryJournal.
func (s *Storage) Delivered(ctx context.Context, pipeline types.PipelineID, from, to types.Cursor) ([]types.Delivery, error) {
	return result(ctx, s.around, StorageDelivered, func(ctx context.Context) ([]types.Delivery, error) {
		return s.inner.Delivered(ctx, pipeline, from, to)
	})
}

// AppendHits implements ports.GateJournal.
func (s *Storage) AppendHits(ctx context.Context, pipeline types.PipelineID, hits []types.GateHit) error {
	return s.around(ctx, StorageAppendHits, func(ctx context.Context) error { return s.inner.AppendHits(ctx, pipeline, hits) })
}

// Hits implements ports.GateJournal.
func (s *Storage) Hits(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID, since int64) ([]types.GateHit, error) {
	return result(ctx, s.around, StorageHits, func(ctx context.Context) ([]types.GateHit, error) {
		return s.inner.Hits(ctx, pipeline, monitor, since)
	})
}

// DeleteHitsBefore implements ports.GateJournal.
func (s *Storage) DeleteHitsBefore(ctx context.Context, pipeline types.PipelineID, primary uint64) error {
	return s.around(ctx, StorageDeleteHitsBefore, func(ctx context.Context) error { return s.inner.DeleteHitsBefore(ctx, pipeline, primary) })
}

// DeleteHitsFrom implements ports.GateJournal.
func (s *Storage) DeleteHitsFrom(ctx context.Context, pipeline types.PipelineID, primary uint64) error {
	return s.around(ctx, StorageDeleteHitsFrom, func(ctx context.Context) error { return s.inner.DeleteHitsFrom(ctx, pipeline, primary) })
}

// GateMeta implements ports.GateJournal.
func (s *Storage) GateMeta(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID) (types.GateMeta, bool, error) {
	return lookup(ctx, s.around, StorageGateMeta, func(ctx context.Context) (types.GateMeta, bool, error) {
		return s.inner.GateMeta(ctx, pipeline, monitor)
	})
}

// SetGateMeta implements ports.GateJournal.
func (s *Storage) SetGateMeta(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID, meta types.GateMeta) error {
	return s.around(ctx, StorageSetGateMeta, func(ctx context.Context) error { return s.inner.SetGateMeta(ctx, pipeline, monitor, meta) })
}

// Apply implements ports.Storage.
func (s *Storage) Apply(ctx context.Context, pipeline types.PipelineID, progress types.Progress) error {
	return s.around(ctx, StorageApply, func(ctx context.Context) error { return s.inner.Apply(ctx, pipeline, progress) })
}

// Quiesce implements ports.Storage. It waits for the calls of this wrapper first, those that a fault
// delays or holds among them and also when it fails itself, so that it serves after a halt: nothing is
// under way any more when it returns, unless its context ended.
func (s *Storage) Quiesce(ctx context.Context) error {
	if err := s.calls.wait(ctx); err != nil {
		return err
	}
	return s.faults.around(ctx, StorageQuiesce, s.inner.Quiesce)
}

// Close waits for the calls that are under way and closes the storage within, unless the faults have
// halted.
func (s *Storage) Close() error {
	if err := s.calls.wait(context.Background()); err != nil {
		return err
	}
	return s.faults.close(s.inner.Close)
}

// Export implements ports.Archiver.
func (s *Storage) Export(ctx context.Context, yield func(types.Record) error) error {
	return s.around(ctx, StorageExport, func(ctx context.Context) error {
		archiver, err := s.archiver(StorageExport)
		if err != nil {
			return err
		}
		return archiver.Export(ctx, yield)
	})
}

// Import implements ports.Archiver.
func (s *Storage) Import(ctx context.Context, records iter.Seq2[types.Record, error]) (int64, error) {
	return result(ctx, s.around, StorageImport, func(ctx context.Context) (int64, error) {
		archiver, err := s.archiver(StorageImport)
		if err != nil {
			return 0, err
		}
		return archiver.Import(ctx, records)
	})
}

func (s *Storage) archiver(op Op) (ports.Archiver, error) {
	if archiver, ok := s.inner.(ports.Archiver); ok {
		return archiver, nil
	}
	return nil, ports.Errorf(ports.CodeBackendFailed, string(op), "the storage within (%T) has no export and no import", s.inner).
		WithReason(ports.ReasonUnsupported)
}

// calls are those that are under way, each by a channel that is closed at its end.
type calls struct {
	mu   sync.Mutex
	open map[chan struct{}]bool
}

func (c *calls) begin() (end func()) {
	ended := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[ended] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, ended)
		close(ended)
	}
}

// wait returns when the calls that are under way now have ended.
func (c *calls) wait(ctx context.Context) error {
	c.mu.Lock()
	earlier := make([]chan struct{}, 0, len(c.open))
	for ended := range c.open {
		earlier = append(earlier, ended)
	}
	c.mu.Unlock()
	for _, ended := range earlier {
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
