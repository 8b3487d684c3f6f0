package sqlite

import (
	"context"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// LoadCheckpoint implements [ports.CheckpointStore].
func (s *Storage) LoadCheckpoint(ctx context.Context, pipeline types.PipelineID) (checkpoint types.Checkpoint, found bool, err error) {
	const op = "storage.loadCheckpoint"
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return types.Checkpoint{}, false, err
	}
	err = s.read(ctx, op, func(c *sqlitefile.Conn) error {
		return c.Query(selectCheckpoint, func(r sqlitefile.Row) (err error) {
			found = true
			checkpoint, err = s.checkpoint(op, string(pipeline), &columns{row: r}, 0)
			return err
		}, string(pipeline))
	})
	if err != nil {
		return types.Checkpoint{}, false, err
	}
	return checkpoint, found, nil
}

func (s *Storage) checkpoint(op, pipeline string, c *columns, i int) (types.Checkpoint, error) {
	text := c.text(i, "checkpoint")
	if c.err != nil {
		return types.Checkpoint{}, s.undecodable(op, "checkpoints", key(pipeline), c.err)
	}
	checkpoint, err := ports.DecodeCheckpoint(text)
	if err != nil {
		return types.Checkpoint{}, s.undecodable(op, "checkpoints", key(pipeline), err)
	}
	return checkpoint, nil
}

// SaveCheckpoint implements [ports.CheckpointStore].
func (s *Storage) SaveCheckpoint(ctx context.Context, pipeline types.PipelineID, checkpoint types.Checkpoint) error {
	const op = "storage.saveCheckpoint"
	checkpoint, err := ports.CheckCheckpoint(op, pipeline, checkpoint)
	if err != nil {
		return err
	}
	text, err := encode(op, "checkpoint", ports.EncodeCheckpoint, checkpoint)
	if err != nil {
		return err
	}
	_, err = s.execOne(ctx, op, upsertCheckpoint, string(pipeline), text)
	return err
}

// ListCheckpoints implements [ports.CheckpointStore].
func (s *Storage) ListCheckpoints(ctx context.Context) (list []types.PipelineCheckpoint, err error) {
	const op = "storage.listCheckpoints"
	err = s.read(ctx, op, func(c *sqlitefile.Conn) error {
		return s.eachCheckpoint(c, op, func(p types.PipelineCheckpoint) error {
			list = append(list, p)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s *Storage) eachCheckpoint(c *sqlitefile.Conn, op string, each func(types.PipelineCheckpoint) error) error {
	return c.Query(selectCheckpoints, func(r sqlitefile.Row) error {
		columns := columns{row: r}
		pipeline := columns.text(0, "pipeline")
		checkpoint, err := s.checkpoint(op, pipeline, &columns, 1)
		if err != nil {
			return err
		}
		return each(types.PipelineCheckpoint{Pipeline: types.PipelineID(pipeline), Checkpoint: checkpoint})
	})
}

// DeleteCheckpoint implements [ports.CheckpointStore].
func (s *Storage) DeleteCheckpoint(ctx context.Context, pipeline types.PipelineID) (bool, error) {
	const op = "storage.deleteCheckpoint"
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return false, err
	}
	changed, err := s.execOne(ctx, op, deleteCheckpoint, string(pipeline))
	return changed > 0, err
}
