package sqlite

import (
	"context"
	"slices"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// RecordDeliveries implements [ports.DeliveryJournal].
func (s *Storage) RecordDeliveries(ctx context.Context, pipeline types.PipelineID, deliveries []types.Delivery) error {
	const op = "storage.recordDeliveries"
	if err := ports.CheckDeliveries(op, pipeline, deliveries); err != nil {
		return err
	}
	deliveries = slices.Clone(deliveries)
	return s.write(ctx, op, func(tx transaction) error { return tx.recordDeliveries(op, pipeline, deliveries, nil) })
}

// recordDeliveries stores, then prunes. The highest primary that is there is the highest that ever was:
// it is never pruned, and a delivery moves to a newer cursor only. From is the progress's JournalFrom.
func (tx transaction) recordDeliveries(op string, pipeline types.PipelineID, deliveries []types.Delivery, from *uint64) error {
	if len(deliveries) == 0 {
		return nil
	}
	for _, d := range deliveries {
		if _, err := tx.Exec(upsertDelivery, string(pipeline), int64(d.Cursor.Primary), int64(d.Cursor.Secondary), string(d.MatchID)); err != nil {
			return err
		}
	}
	var highest uint64
	err := tx.Query(selectHighest, func(r sqlitefile.Row) error {
		columns := columns{row: r}
		highest = columns.natural(0, "cursor_primary")
		if columns.err != nil {
			return tx.s.undecodable(op, "delivery_journal", key(pipeline), columns.err)
		}
		return nil
	}, string(pipeline))
	if err != nil {
		return err
	}
	floor := ports.JournalFloorFrom(highest, tx.s.depth, from)
	if floor == 0 {
		return nil
	}
	_, err = tx.Exec(pruneDeliveries, string(pipeline), int64(floor))
	return err
}

// Delivered implements [ports.DeliveryJournal].
func (s *Storage) Delivered(ctx context.Context, pipeline types.PipelineID, from, to types.Cursor) (list []types.Delivery, err error) {
	const op = "storage.delivered"
	if err := ports.CheckDelivered(op, pipeline, from, to); err != nil {
		return nil, err
	}
	err = s.read(ctx, op, func(c *sqlitefile.Conn) error {
		return c.Query(selectDeliveries, func(r sqlitefile.Row) error {
			delivery, err := s.delivery(op, string(pipeline), &columns{row: r}, 0)
			list = append(list, delivery)
			return err
		}, string(pipeline), int64(from.Primary), int64(from.Secondary), int64(to.Primary), int64(to.Secondary))
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// CountDeliveries implements [ports.JournalCounter], from an index alone.
func (s *Storage) CountDeliveries(ctx context.Context) (counts []types.JournalCount, err error) {
	err = s.read(ctx, "storage.countDeliveries", func(c *sqlitefile.Conn) error {
		return c.Query(countDeliveries, func(r sqlitefile.Row) error {
			// Entries of a pipeline whose name is no text can be asked for by nobody.
			if pipeline, ok := r.Value(0).(string); ok {
				counts = append(counts, types.JournalCount{Pipeline: types.PipelineID(pipeline), Count: r.Int64(1)})
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// delivery decodes a cursor and a match id, which stand from column i on.
func (s *Storage) delivery(op, pipeline string, c *columns, i int) (types.Delivery, error) {
	delivery := types.Delivery{Cursor: c.cursor(i), MatchID: types.MatchID(c.text(i+2, "match_id"))}
	if c.err != nil {
		return types.Delivery{}, s.undecodable(op, "delivery_journal", key(pipeline, delivery.MatchID), c.err)
	}
	return delivery, nil
}
