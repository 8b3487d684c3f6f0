package jsonstorage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// format is the first member of the file, by which a store is told from other JSON.
const format = "jsonstorage.v1"

// state is the content of the file.
type state struct {
	Format    string                                     `json:"format"`
	Resources map[types.ResourceKind]map[string]resource `json:"resources"`
	Pauses    []types.Pause                              `json:"pauses"` // ordered
	Position  int64                                      `json:"last_position"`
	Pipelines map[types.PipelineID]pipeline              `json:"pipelines"`
}

type resource struct {
	Version uint64 `json:"version"`
	Value   string `json:"value"` // JSON in a string, because it comes back byte for byte
}

type pipeline struct {
	Checkpoint *types.Checkpoint                  `json:"checkpoint,omitempty"`
	Letters    map[types.MatchID]letter           `json:"dead_letters,omitempty"`
	Deliveries map[types.MatchID]types.Cursor     `json:"deliveries,omitempty"`
	Hits       []types.GateHit                    `json:"gate_hits,omitempty"` // ordered by key
	Metas      map[types.MonitorID]types.GateMeta `json:"gate_metas,omitempty"`
}

type letter struct {
	Position int64            `json:"position"`
	Letter   types.DeadLetter `json:"letter"`
}

// decode makes a state of its own from the content of a file; from nothing, an empty one.
func decode(text []byte) (*state, error) {
	s := &state{Format: format}
	if len(text) > 0 {
		s.Format = ""
		if err := json.Unmarshal(text, s); err != nil {
			return nil, err
		}
	}
	if s.Format != format {
		return nil, fmt.Errorf("the member \"format\" is %q, not %q", s.Format, format)
	}
	return s, nil
}

// expect compares the version that a caller expects with that of the record; 0 stands for none.
func (s *state) expect(op string, kind types.ResourceKind, id string, expected uint64) error {
	switch actual := s.Resources[kind][id].Version; {
	case actual == expected:
		return nil
	case expected == 0:
		return ports.Errorf(ports.CodeAlreadyExists, op, "the resource %s/%s is there, at version %d; nothing was stored", kind, id, actual)
	case actual == 0:
		return ports.Errorf(ports.CodeNotFound, op, "there is no resource %s/%s", kind, id)
	default:
		return &ports.VersionConflictError{Op: op, Key: fmt.Sprintf("%s/%s", kind, id), Expected: expected, Actual: actual}
	}
}

func (s *state) putResource(kind types.ResourceKind, id string, r resource) {
	ids := s.Resources[kind]
	put(&ids, id, r)
	put(&s.Resources, kind, ids)
}

func (s *state) recordLetter(p *pipeline, l types.DeadLetter) {
	position := p.Letters[l.MatchID].Position
	if position == 0 {
		s.Position++
		position = s.Position
	}
	put(&p.Letters, l.MatchID, letter{position, l})
}

// deleteLetters removes the letters of the match ids and returns how many there were.
func (p *pipeline) deleteLetters(ids ...types.MatchID) int64 {
	before := len(p.Letters)
	for _, id := range ids {
		delete(p.Letters, id)
	}
	return int64(before - len(p.Letters))
}

func (p *pipeline) empty() bool {
	return p.Checkpoint == nil && len(p.Letters)+len(p.Deliveries)+len(p.Hits)+len(p.Metas) == 0
}

// recordDeliveries stores the deliveries, then forgets what lies behind the depth and below from, which
// may be nil. A match that is there only moves up, so the highest primary never falls.
func (p *pipeline) recordDeliveries(deliveries []types.Delivery, depth int64, from *uint64) {
	if len(deliveries) == 0 {
		return
	}
	for _, d := range deliveries {
		if known, ok := p.Deliveries[d.MatchID]; !ok || known.Compare(d.Cursor) < 0 {
			put(&p.Deliveries, d.MatchID, d.Cursor)
		}
	}
	highest := slices.MaxFunc(slices.Collect(maps.Values(p.Deliveries)), types.Cursor.Compare)
	floor := ports.JournalFloorFrom(highest.Primary, depth, from)
	maps.DeleteFunc(p.Deliveries, func(_ types.MatchID, c types.Cursor) bool { return c.Primary < floor })
}

// appendHits stores the hits. The sort is stable, so that of those of one key the first stays.
func (p *pipeline) appendHits(hits []types.GateHit) {
	p.Hits = append(p.Hits, hits...)
	slices.SortStableFunc(p.Hits, compareHits)
	p.Hits = slices.CompactFunc(p.Hits, func(a, b types.GateHit) bool { return compareHits(a, b) == 0 })
}

func (p *pipeline) deleteHitsBefore(primary uint64) {
	p.Hits = slices.DeleteFunc(p.Hits, func(h types.GateHit) bool { return h.Cursor.Primary < primary })
}

func (p *pipeline) deleteHitsBeforeOf(f types.MonitorFloor) {
	p.Hits = slices.DeleteFunc(p.Hits, func(h types.GateHit) bool { return h.Monitor == f.Monitor && h.Cursor.Primary < f.Primary })
}

func (p *pipeline) deleteHitsFrom(primary uint64) {
	p.Hits = slices.DeleteFunc(p.Hits, func(h types.GateHit) bool { return h.Cursor.Primary >= primary })
}

func compareHits(a, b types.GateHit) int {
	return cmp.Or(cmp.Compare(a.Monitor, b.Monitor), a.Cursor.Compare(b.Cursor), cmp.Compare(a.Index, b.Index))
}

func comparePauses(a, b types.Pause) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.ID, b.ID))
}

func compareDeliveries(a, b types.Delivery) int {
	return cmp.Or(a.Cursor.Compare(b.Cursor), cmp.Compare(a.MatchID, b.MatchID))
}

// put stores into a map that may be nil.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}
