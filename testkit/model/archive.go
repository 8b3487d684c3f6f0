package model

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Export implements ports.Archiver. It holds the lock until yield has had the last record.
func (m *Storage) Export(ctx context.Context, yield func(types.Record) error) error {
	if err := m.begin(ctx, "storage.export"); err != nil {
		return err
	}
	defer m.unlock()
	for _, record := range m.state.records() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := yield(record); err != nil {
			return err
		}
	}
	return nil
}

// Import implements ports.Archiver. It holds the lock until the sequence has ended, and so the
// sequence may not call the storage.
func (m *Storage) Import(ctx context.Context, records iter.Seq2[types.Record, error]) (int64, error) {
	const op = "storage.import"
	if err := m.begin(ctx, op); err != nil {
		return 0, err
	}
	defer m.unlock()
	if len(m.state.records()) > 0 {
		return 0, ports.Errorf(ports.CodeAlreadyExists, op, "the model storage is not empty: import into a fresh one")
	}
	fresh := state{positions: m.state.positions}
	n := int64(0)
	for record, err := range records {
		if err != nil {
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		stored, err := ports.CheckRecord(op, record)
		if err != nil {
			return 0, err
		}
		if !fresh.add(stored) {
			return 0, ports.Errorf(ports.CodeAlreadyExists, op, "the record number %d, of the key of an earlier one, comes twice; nothing was stored", n+1)
		}
		n++
	}
	m.state = fresh
	return n, nil
}

// records is everything there is, in the order of an export, as copies.
func (s *state) records() []types.Record {
	var records []types.Record
	for _, r := range sorted(s.resources, compareResources) {
		r = cloneResource(r)
		records = append(records, types.Record{Resource: &r})
	}
	for _, c := range sorted(s.checkpoints, compareCheckpoints) {
		checkpoint := c.Checkpoint.Clone()
		records = append(records, types.Record{Pipeline: c.Pipeline, Checkpoint: &checkpoint})
	}
	// Those of one pipeline are in their order already, and the sort is stable.
	byPipeline := func(a, b letter) int { return cmp.Compare(a.pipeline, b.pipeline) }
	for _, l := range sorted(s.letters, byPipeline) {
		content := l.content.Clone()
		records = append(records, types.Record{Pipeline: l.pipeline, DeadLetter: &content})
	}
	for _, p := range sorted(s.pauses, comparePauses) {
		records = append(records, types.Record{Pause: &p})
	}
	for _, d := range sorted(s.deliveries, compareDeliveries) {
		records = append(records, types.Record{Pipeline: d.pipeline, Delivery: &d.Delivery})
	}
	for _, h := range sorted(s.hits, compareHits) {
		h.GateHit = cloneHit(h.GateHit)
		records = append(records, types.Record{Pipeline: h.pipeline, GateHit: &h.GateHit})
	}
	for _, stored := range sorted(s.metas, compareMetas) {
		stored.Meta = stored.Meta.Clone()
		records = append(records, types.Record{Pipeline: stored.pipeline, GateMeta: &stored.MonitorMeta})
	}
	return records
}

// add stores a record as it is, and reports whether its key is new.
func (s *state) add(r types.Record) bool {
	switch {
	case r.Resource != nil:
		if s.resource(r.Resource.Kind, r.Resource.ID) >= 0 {
			return false
		}
		s.resources = append(s.resources, *r.Resource)
	case r.Checkpoint != nil:
		if s.checkpoint(r.Pipeline) >= 0 {
			return false
		}
		s.saveCheckpoint(r.Pipeline, *r.Checkpoint)
	case r.DeadLetter != nil:
		if s.letter(r.Pipeline, r.DeadLetter.MatchID) >= 0 {
			return false
		}
		s.recordLetter(r.Pipeline, *r.DeadLetter)
	case r.Pause != nil:
		if slices.Contains(s.pauses, *r.Pause) {
			return false
		}
		s.pauses = append(s.pauses, *r.Pause)
	case r.Delivery != nil:
		if s.delivery(r.Pipeline, r.Delivery.MatchID) >= 0 {
			return false
		}
		s.deliveries = append(s.deliveries, delivery{r.Pipeline, *r.Delivery})
	case r.GateHit != nil:
		if s.hit(r.Pipeline, *r.GateHit) >= 0 {
			return false
		}
		s.hits = append(s.hits, hit{r.Pipeline, *r.GateHit})
	case r.GateMeta != nil:
		if s.meta(r.Pipeline, r.GateMeta.Monitor) >= 0 {
			return false
		}
		s.metas = append(s.metas, meta{r.Pipeline, *r.GateMeta})
	}
	return true
}
