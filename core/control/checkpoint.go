package control

import (
	"context"
	"errors"
	"log/slog"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Checkpoints returns all checkpoints, ordered by pipeline.
func (h *Handle) Checkpoints(ctx context.Context) ([]types.PipelineCheckpoint, error) {
	return h.storage.ListCheckpoints(ctx)
}

// Checkpoint returns the checkpoint of the pipeline, and whether there is one.
func (h *Handle) Checkpoint(ctx context.Context, pipeline types.PipelineID) (types.Checkpoint, bool, error) {
	return h.storage.LoadCheckpoint(ctx, pipeline)
}

// SetCheckpoint puts the pipeline at a position and returns the checkpoint as it was stored. A pipeline
// that runs is stopped meanwhile, and goes on behind the new position.
//
// A checkpoint that a module wrote is CHECKPOINT_PROVENANCE unless the change names the same module,
// or overrides it (R272): a position of one source means something else to another. An override also
// replaces a checkpoint that cannot be decoded. A change without a module keeps the one that is there.
//
// When the stream goes back, or nothing says where it was, the gate hits behind the new position are
// removed in the same step, so that gates do not count events before they come again. Those of the
// very primary of the cursor stay, since gates know a hit that comes again by its key.
func (h *Handle) SetCheckpoint(ctx context.Context, pipeline types.PipelineID, change types.CheckpointChange) (types.Checkpoint, error) {
	const op = "control.setCheckpoint"
	none := types.Checkpoint{}
	next, err := ports.CheckCheckpoint(op, pipeline, types.Checkpoint{
		Cursor: change.Cursor, Module: change.Module, UpdatedAt: h.clock.Now(),
	})
	if err != nil {
		return none, err
	}
	release, err := h.checkpoints.take(ctx, pipeline)
	if err != nil {
		return none, err
	}
	defer release()
	var stored types.Checkpoint
	err = h.suspend(ctx, pipeline, func(ctx context.Context) error {
		var err error
		stored, err = h.setCheckpoint(ctx, op, pipeline, next, change)
		return err
	})
	return stored, err
}

func (h *Handle) setCheckpoint(ctx context.Context, op string, pipeline types.PipelineID, next types.Checkpoint, change types.CheckpointChange) (types.Checkpoint, error) {
	none := types.Checkpoint{}
	stored, found, err := h.storage.LoadCheckpoint(ctx, pipeline)
	if err != nil && !(change.Override && errors.Is(err, ports.ErrUndecodable)) {
		return none, err
	}
	if found && !change.Override && !sameModule(stored.Module, change.Module) {
		return none, provenanceError(op, pipeline, stored, change)
	}
	if found && next.Module == nil {
		next.Module = stored.Module
	}
	progress := types.Progress{Checkpoint: &next}
	if back := !found || next.Cursor.Compare(stored.Cursor) < 0; back && next.Cursor.Primary < ports.MaxStoredInteger {
		from := next.Cursor.Primary + 1
		progress.HitsFrom = &from
	}
	if err := h.storage.Apply(ctx, pipeline, progress); err != nil {
		return none, err
	}
	if found && !sameModule(stored.Module, change.Module) {
		h.log.WarnContext(ctx, "a checkpoint was set over that of another module",
			slog.String("pipeline", string(pipeline)), slog.String("was_module", *stored.Module),
			slog.String("was_cursor", stored.Cursor.String()), slog.String("cursor", next.Cursor.String()))
	}
	return next.Clone(), nil
}

// sameModule reports whether a change in the name of given may follow a checkpoint of the module
// stored.
func sameModule(stored, given *string) bool {
	return stored == nil || given != nil && *given == *stored
}

func provenanceError(op string, pipeline types.PipelineID, stored types.Checkpoint, change types.CheckpointChange) error {
	if change.Module == nil {
		return ports.Errorf(ports.CodeCheckpointProvenance, op,
			"the checkpoint %v of pipeline %q was written by the module %q, and the change names no module; name that module, or set override to write over it",
			stored.Cursor, pipeline, *stored.Module)
	}
	return ports.Errorf(ports.CodeCheckpointProvenance, op,
		"the checkpoint %v of pipeline %q was written by the module %q, and the change is for the module %q, to which that position may mean something else; set override to write over it",
		stored.Cursor, pipeline, *stored.Module, *change.Module)
}

// DeleteCheckpoint removes the checkpoint and reports whether there was one. Without one a pipeline
// begins where its source does; one that runs is stopped meanwhile. Whoever wrote it is not asked. What
// gates have counted is kept, and not counted: a gate begins anew where there is no checkpoint.
func (h *Handle) DeleteCheckpoint(ctx context.Context, pipeline types.PipelineID) (bool, error) {
	if err := ports.CheckPipeline("control.deleteCheckpoint", pipeline); err != nil {
		return false, err
	}
	release, err := h.checkpoints.take(ctx, pipeline)
	if err != nil {
		return false, err
	}
	defer release()
	var there bool
	err = h.suspend(ctx, pipeline, func(ctx context.Context) error {
		var err error
		there, err = h.storage.DeleteCheckpoint(ctx, pipeline)
		return err
	})
	return there, err
}
