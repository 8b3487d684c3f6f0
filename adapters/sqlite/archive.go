package sqlite

import (
	"context"
	"iter"
	"math"
	"slices"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Export implements [ports.Archiver]. It holds the write-ahead log back until it ends, and in memory
// everybody else. Of a dead letter that an older file holds twice, the first is given out: the port
// knows one letter a match id.
func (s *Storage) Export(ctx context.Context, yield func(types.Record) error) error {
	return s.export(ctx, "storage.export", s.exportLetters, yield)
}

// category gives out the records of one category.
type category = func(c *sqlitefile.Conn, op string, yield func(types.Record) error) error

func (s *Storage) export(ctx context.Context, op string, letters category, yield func(types.Record) error) error {
	give := func(r types.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return yield(r)
	}
	return s.snapshot(ctx, op, func(c *sqlitefile.Conn) error {
		for _, category := range []category{
			s.exportResources, s.exportCheckpoints, letters, s.exportPauses, s.exportDeliveries, s.exportHits, s.exportMetas,
		} {
			if err := category(c, op, give); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Storage) exportResources(c *sqlitefile.Conn, op string, yield func(types.Record) error) error {
	return c.Query(exportResources, func(r sqlitefile.Row) error {
		columns := columns{row: r}
		resource, err := s.resource(op, columns.text(0, "kind"), columns.text(1, "id"), &columns, 2)
		if err != nil {
			return err
		}
		return yield(types.Record{Resource: &resource})
	})
}

func (s *Storage) exportCheckpoints(c *sqlitefile.Conn, op string, yield func(types.Record) error) error {
	return s.eachCheckpoint(c, op, func(p types.PipelineCheckpoint) error {
		return yield(types.Record{Pipeline: p.Pipeline, Checkpoint: &p.Checkpoint})
	})
}

func (s *Storage) exportLetters(c *sqlitefile.Conn, op string, yield func(types.Record) error) error {
	return c.Query(exportLetters, func(r sqlitefile.Row) error {
		columns := columns{row: r}
		pipeline := columns.text(0, "pipeline")
		if columns.err != nil {
			return s.undecodable(op, "dead_letters", key(r.Int64(1)), columns.err)
		}
		letter := s.letter(op, pipeline, letterRow{r.Int64(1), r.Value(2)})
		if letter.Err != nil {
			return letter.Err
		}
		return yield(types.Record{Pipeline: types.PipelineID(pipeline), DeadLetter: &letter.Letter})
	})
}

// everyLetter gives out all letters, those that stand twice too.
func (s *Storage) everyLetter(c *sqlitefile.Conn, op string, yield func(types.Record) error) error {
	var pipelines []string
	odd := false
	err := c.Query(countBlocks, func(r sqlitefile.Row) error {
		pipeline, ok := r.Value(0).(string)
		if ok {
			pipelines = append(pipelines, pipeline)
		}
		odd = odd || !ok
		return nil
	})
	if err != nil {
		return err
	}
	for _, pipeline := range slices.Compact(pipelines) {
		err := c.Query(selectLetters, func(r sqlitefile.Row) error {
			letter := s.letter(op, pipeline, letterRow{r.Int64(0), r.Value(1)})
			if letter.Err != nil {
				return letter.Err
			}
			return yield(types.Record{Pipeline: types.PipelineID(pipeline), DeadLetter: &letter.Letter})
		}, pipeline, int64(math.MinInt64), int64(math.MaxInt64), 0)
		if err != nil {
			return err
		}
	}
	if odd {
		return s.exportLetters(c, op, yield) // names the row
	}
	return nil
}

func (s *Storage) exportPauses(c *sqlitefile.Conn, op string, yield func(types.Record) error) error {
	return s.eachPause(c, op, func(p types.Pause) error { return yield(types.Record{Pause: &p}) })
}

func (s *Storage) exportDeliveries(c *sqlitefile.Conn, op string, yield func(types.Record) error) error {
	return c.Query(exportDeliveries, func(r sqlitefile.Row) error {
		columns := columns{row: r}
		pipeline := columns.text(0, "pipeline")
		delivery, err := s.delivery(op, pipeline, &columns, 1)
		if err != nil {
			return err
		}
		return yield(types.Record{Pipeline: types.PipelineID(pipeline), Delivery: &delivery})
	})
}

func (s *Storage) exportHits(c *sqlitefile.Conn, op string, yield func(types.Record) error) error {
	return c.Query(exportHits, func(r sqlitefile.Row) error {
		columns := columns{row: r}
		pipeline := columns.text(0, "pipeline")
		hit, err := s.hit(op, pipeline, columns.text(1, "monitor"), &columns, 2)
		if err != nil {
			return err
		}
		return yield(types.Record{Pipeline: types.PipelineID(pipeline), GateHit: &hit})
	})
}

func (s *Storage) exportMetas(c *sqlitefile.Conn, op string, yield func(types.Record) error) error {
	return c.Query(exportMetas, func(r sqlitefile.Row) error {
		columns := columns{row: r}
		pipeline, monitor := columns.text(0, "pipeline"), columns.text(1, "monitor")
		meta := types.MonitorMeta{Monitor: types.MonitorID(monitor), Meta: columns.meta(2)}
		if columns.err != nil {
			return s.undecodable(op, "gate_meta", key(pipeline, monitor), columns.err)
		}
		return yield(types.Record{Pipeline: types.PipelineID(pipeline), GateMeta: &meta})
	})
}

// Import implements [ports.Archiver]. The sequence is drawn inside the transaction: all other writes
// wait for it, and it may not call the store.
func (s *Storage) Import(ctx context.Context, records iter.Seq2[types.Record, error]) (count int64, err error) {
	const op = "storage.import"
	err = s.write(ctx, op, func(tx transaction) error {
		if err := tx.refuseRecords(op); err != nil {
			return err
		}
		if err := tx.followLetters(); err != nil {
			return err
		}
		for record, err := range records {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				record, err = ports.CheckRecord(op, record)
			}
			if err == nil {
				err = tx.importRecord(op, record)
			}
			if err != nil {
				return err
			}
			count++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return count, nil
}

// refuseRecords fails unless the store is empty.
func (tx transaction) refuseRecords(op string) error {
	return tx.Query(selectAnything, func(r sqlitefile.Row) error {
		if r.Int64(0) == 0 {
			return nil
		}
		return ports.Errorf(ports.CodeAlreadyExists, op, "%s %s holds records, nothing was stored: import into an empty one", kind, tx.s.file.Path())
	})
}

func (tx transaction) importRecord(op string, r types.Record) (err error) {
	var what, name string
	switch {
	case r.Resource != nil:
		return tx.createResource(op, *r.Resource, string(r.Resource.Value))
	case r.DeadLetter != nil:
		return tx.importLetter(op, r.Pipeline, *r.DeadLetter)
	case r.Checkpoint != nil:
		what, name = "checkpoint", key(r.Pipeline)
		var text string
		if text, err = encode(op, what, ports.EncodeCheckpoint, *r.Checkpoint); err == nil {
			_, err = tx.Exec(importCheckpoint, string(r.Pipeline), text)
		}
	case r.Pause != nil:
		what, name = "pause", key(r.Pause.Target, r.Pause.ID)
		_, err = tx.Exec(importPause, string(r.Pause.Target), r.Pause.ID)
	case r.Delivery != nil:
		what, name = "delivery", key(r.Pipeline, r.Delivery.MatchID)
		_, err = tx.Exec(importDelivery, string(r.Pipeline), int64(r.Delivery.Cursor.Primary), int64(r.Delivery.Cursor.Secondary), string(r.Delivery.MatchID))
	case r.GateHit != nil:
		what, name = "gate hit", key(r.Pipeline, r.GateHit.Monitor, r.GateHit.Cursor, r.GateHit.Index)
		err = tx.putHit(importHit, r.Pipeline, *r.GateHit)
	case r.GateMeta != nil:
		what, name = "gate meta", key(r.Pipeline, r.GateMeta.Monitor)
		err = tx.setMeta(importMeta, r.Pipeline, r.GateMeta.Monitor, r.GateMeta.Meta)
	}
	if sqlitefile.IsConstraint(err) {
		return twice(op, what, name)
	}
	return err
}

func (tx transaction) importLetter(op string, pipeline types.PipelineID, letter types.DeadLetter) error {
	encoded, err := encodeLetter(op, letter)
	if err != nil {
		return err
	}
	found := false
	err = tx.Query(selectSeqs, func(sqlitefile.Row) error {
		found = true
		return nil
	}, string(pipeline), string(letter.MatchID))
	if err != nil {
		return err
	}
	if found {
		return twice(op, "dead letter", key(pipeline, letter.MatchID))
	}
	return tx.insertLetter(pipeline, encoded)
}

func twice(op, what, name string) error {
	return ports.Errorf(ports.CodeAlreadyExists, op, "the %s %s comes twice; nothing was stored: take one of them out", what, name)
}
