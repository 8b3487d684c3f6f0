package sqlite

import (
	"context"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Pause implements [ports.PauseStore].
func (s *Storage) Pause(ctx context.Context, pause types.Pause) error {
	const op = "storage.pause"
	if err := ports.CheckPause(op, pause); err != nil {
		return err
	}
	_, err := s.execOne(ctx, op, insertPause, string(pause.Target), pause.ID)
	return err
}

// Resume implements [ports.PauseStore].
func (s *Storage) Resume(ctx context.Context, pause types.Pause) error {
	const op = "storage.resume"
	if err := ports.CheckPause(op, pause); err != nil {
		return err
	}
	_, err := s.execOne(ctx, op, deletePause, string(pause.Target), pause.ID)
	return err
}

// Paused implements [ports.PauseStore].
func (s *Storage) Paused(ctx context.Context, pause types.Pause) (paused bool, err error) {
	const op = "storage.paused"
	if err := ports.CheckPause(op, pause); err != nil {
		return false, err
	}
	err = s.read(ctx, op, func(c *sqlitefile.Conn) error {
		return c.Query(selectPause, func(sqlitefile.Row) error {
			paused = true
			return nil
		}, string(pause.Target), pause.ID)
	})
	return err == nil && paused, err
}

// ListPauses implements [ports.PauseStore].
func (s *Storage) ListPauses(ctx context.Context) (list []types.Pause, err error) {
	const op = "storage.listPauses"
	err = s.read(ctx, op, func(c *sqlitefile.Conn) error {
		return s.eachPause(c, op, func(p types.Pause) error {
			list = append(list, p)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s *Storage) eachPause(c *sqlitefile.Conn, op string, each func(types.Pause) error) error {
	return c.Query(selectPauses, func(r sqlitefile.Row) error {
		columns := columns{row: r}
		pause := types.Pause{Target: types.PauseTarget(columns.text(0, "target")), ID: columns.text(1, "id")}
		if columns.err != nil {
			return s.undecodable(op, "pauses", key(pause.Target, pause.ID), columns.err)
		}
		return each(pause)
	})
}
