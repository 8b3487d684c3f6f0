package memory

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// records returns everything, in the order of an export. It shares the memory of the values, which are
// never changed: what goes out is a clone of each.
func (s *state) records() []types.Record {
	var records []types.Record
	for _, key := range slices.SortedFunc(maps.Keys(s.resources), compareResourceKeys) {
		resource := s.resources[key]
		records = append(records, types.Record{Resource: &resource})
	}
	for _, pipeline := range slices.Sorted(maps.Keys(s.checkpoints)) {
		checkpoint := s.checkpoints[pipeline]
		records = append(records, types.Record{Pipeline: pipeline, Checkpoint: &checkpoint})
	}
	for _, pipeline := range slices.Sorted(maps.Keys(s.letters)) {
		for _, stored := range s.letters[pipeline].order {
			records = append(records, types.Record{Pipeline: pipeline, DeadLetter: &stored.Letter})
		}
	}
	for _, pause := range slices.SortedFunc(maps.Keys(s.pauses), comparePauses) {
		records = append(records, types.Record{Pause: &pause})
	}
	for _, pipeline := range slices.Sorted(maps.Keys(s.journals)) {
		for _, delivery := range s.journals[pipeline].entries {
			records = append(records, types.Record{Pipeline: pipeline, Delivery: &delivery})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.hits), compareMonitorKeys) {
		for _, hit := range s.hits[key] {
			records = append(records, types.Record{Pipeline: key.pipeline, GateHit: &hit})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.metas), compareMonitorKeys) {
		meta := types.MonitorMeta{Monitor: key.monitor, Meta: s.metas[key]}
		records = append(records, types.Record{Pipeline: key.pipeline, GateMeta: &meta})
	}
	return records
}

// cloneRecord is a copy that shares no memory with r.
func cloneRecord(r types.Record) types.Record {
	switch {
	case r.Resource != nil:
		resource := cloneResource(*r.Resource)
		r.Resource = &resource
	case r.Checkpoint != nil:
		checkpoint := r.Checkpoint.Clone()
		r.Checkpoint = &checkpoint
	case r.DeadLetter != nil:
		letter := r.DeadLetter.Clone()
		r.DeadLetter = &letter
	case r.GateHit != nil:
		hit := cloneHit(*r.GateHit)
		r.GateHit = &hit
	case r.GateMeta != nil:
		r.GateMeta = &types.MonitorMeta{Monitor: r.GateMeta.Monitor, Meta: r.GateMeta.Meta.Clone()}
	}
	return r
}

// empty reports whether there is no record of any category.
func (s *state) empty() bool {
	return len(s.resources)+len(s.checkpoints)+len(s.letters)+len(s.pauses)+
		len(s.journals)+len(s.hits)+len(s.metas) == 0
}

// add stores a record of an import as it is. It reports false for one that is there.
func (s *state) add(r types.Record) bool {
	switch {
	case r.Resource != nil:
		return insert(s.resources, resourceKey{r.Resource.Kind, r.Resource.ID}, *r.Resource)
	case r.Checkpoint != nil:
		return insert(s.checkpoints, r.Pipeline, *r.Checkpoint)
	case r.DeadLetter != nil:
		_, there := s.lettersOf(r.Pipeline).byID[r.DeadLetter.MatchID]
		s.recordLetter(r.Pipeline, *r.DeadLetter)
		return !there
	case r.Pause != nil:
		return insert(s.pauses, *r.Pause, struct{}{})
	case r.Delivery != nil:
		_, there := s.journalOf(r.Pipeline).cursors[r.Delivery.MatchID]
		s.recordDelivery(r.Pipeline, *r.Delivery)
		return !there
	case r.GateHit != nil:
		return s.appendHit(r.Pipeline, *r.GateHit)
	default:
		return insert(s.metas, monitorKey{r.Pipeline, r.GateMeta.Monitor}, r.GateMeta.Meta)
	}
}

func insert[K comparable, V any](into map[K]V, key K, value V) bool {
	if _, there := into[key]; there {
		return false
	}
	into[key] = value
	return true
}

// describe names a record by category and key.
func describe(r types.Record) string {
	switch {
	case r.Resource != nil:
		return fmt.Sprintf("resource %s/%s", r.Resource.Kind, r.Resource.ID)
	case r.Checkpoint != nil:
		return fmt.Sprintf("checkpoint %s", r.Pipeline)
	case r.DeadLetter != nil:
		return fmt.Sprintf("dead letter %s/%s", r.Pipeline, r.DeadLetter.MatchID)
	case r.Pause != nil:
		return fmt.Sprintf("pause %s %s", r.Pause.Target, r.Pause.ID)
	case r.Delivery != nil:
		return fmt.Sprintf("delivery %s/%s", r.Pipeline, r.Delivery.MatchID)
	case r.GateHit != nil:
		return fmt.Sprintf("gate hit %s/%s at %v, index %d", r.Pipeline, r.GateHit.Monitor, r.GateHit.Cursor, r.GateHit.Index)
	default:
		return fmt.Sprintf("gate meta %s/%s", r.Pipeline, r.GateMeta.Monitor)
	}
}

func notEmpty(op string) error {
	return ports.Errorf(ports.CodeAlreadyExists, op, "the storage in memory holds records already: import into an empty one; nothing was stored")
}
