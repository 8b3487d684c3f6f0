package sqlite

import (
	"context"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// AppendHits implements [ports.GateJournal].
func (s *Storage) AppendHits(ctx context.Context, pipeline types.PipelineID, hits []types.GateHit) error {
	const op = "storage.appendHits"
	hits, err := ports.CheckHits(op, pipeline, hits)
	if err != nil {
		return err
	}
	return s.write(ctx, op, func(tx transaction) error { return tx.appendHits(pipeline, hits) })
}

func (tx transaction) appendHits(pipeline types.PipelineID, hits []types.GateHit) error {
	for _, hit := range hits {
		if err := tx.putHit(insertHit, pipeline, hit); err != nil {
			return err
		}
	}
	return nil
}

func (tx transaction) putHit(statement string, pipeline types.PipelineID, hit types.GateHit) error {
	_, err := tx.Exec(statement, string(pipeline), string(hit.Monitor), int64(hit.Cursor.Primary), int64(hit.Cursor.Secondary),
		int64(hit.Index), hit.TS, string(hit.Event))
	return err
}

// Hits implements [ports.GateJournal].
func (s *Storage) Hits(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID, since int64) (list []types.GateHit, err error) {
	const op = "storage.hits"
	if err := ports.CheckMonitor(op, pipeline, monitor); err != nil {
		return nil, err
	}
	err = s.read(ctx, op, func(c *sqlitefile.Conn) error {
		return c.Query(selectHits, func(r sqlitefile.Row) error {
			hit, err := s.hit(op, string(pipeline), string(monitor), &columns{row: r}, 0)
			list = append(list, hit)
			return err
		}, string(pipeline), string(monitor), since)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// hit decodes cursor, index, time and event, which stand from column i on.
func (s *Storage) hit(op, pipeline, monitor string, c *columns, i int) (types.GateHit, error) {
	hit := types.GateHit{
		Monitor: types.MonitorID(monitor),
		Cursor:  c.cursor(i),
		Index:   c.natural(i+2, "event_index"),
		TS:      c.integer(i+3, "event_ts"),
		Event:   c.json(i+4, "event_json"),
	}
	if c.err != nil {
		return types.GateHit{}, s.undecodable(op, "gate_hits", key(pipeline, monitor, hit.Cursor, hit.Index), c.err)
	}
	return hit, nil
}

// DeleteHitsBefore implements [ports.GateJournal].
func (s *Storage) DeleteHitsBefore(ctx context.Context, pipeline types.PipelineID, primary uint64) error {
	return s.deleteHits(ctx, "storage.deleteHitsBefore", deleteHitsBefore, pipeline, primary)
}

// DeleteHitsFrom implements [ports.GateJournal].
func (s *Storage) DeleteHitsFrom(ctx context.Context, pipeline types.PipelineID, primary uint64) error {
	return s.deleteHits(ctx, "storage.deleteHitsFrom", deleteHitsFrom, pipeline, primary)
}

func (s *Storage) deleteHits(ctx context.Context, op, statement string, pipeline types.PipelineID, primary uint64) error {
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return err
	}
	if err := ports.CheckPrimary(op, primary); err != nil {
		return err
	}
	_, err := s.execOne(ctx, op, statement, string(pipeline), int64(primary))
	return err
}

// GateMeta implements [ports.GateJournal].
func (s *Storage) GateMeta(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID) (meta types.GateMeta, found bool, err error) {
	const op = "storage.gateMeta"
	if err := ports.CheckMonitor(op, pipeline, monitor); err != nil {
		return types.GateMeta{}, false, err
	}
	err = s.read(ctx, op, func(c *sqlitefile.Conn) error {
		return c.Query(selectMeta, func(r sqlitefile.Row) error {
			columns := columns{row: r}
			meta, found = columns.meta(0), true
			if columns.err != nil {
				return s.undecodable(op, "gate_meta", key(pipeline, monitor), columns.err)
			}
			return nil
		}, string(pipeline), string(monitor))
	})
	if err != nil {
		return types.GateMeta{}, false, err
	}
	return meta, found, nil
}

// SetGateMeta implements [ports.GateJournal].
func (s *Storage) SetGateMeta(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID, meta types.GateMeta) error {
	const op = "storage.setGateMeta"
	meta, err := ports.CheckGateMeta(op, pipeline, monitor, meta)
	if err != nil {
		return err
	}
	return s.writeOne(ctx, op, func(tx transaction) error { return tx.setMeta(upsertMeta, pipeline, monitor, meta) })
}

func (tx transaction) setMeta(statement string, pipeline types.PipelineID, monitor types.MonitorID, meta types.GateMeta) error {
	var aux any // NULL and the empty BLOB are different
	if meta.Aux != nil {
		aux = meta.Aux
	}
	_, err := tx.Exec(statement, string(pipeline), string(monitor), meta.LastEmitTS, aux)
	return err
}
