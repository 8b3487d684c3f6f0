package memory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// state is what a Storage holds: one collection a category (R228). Stored values are never changed,
// only replaced.
type state struct {
	resources   map[resourceKey]types.Resource
	checkpoints map[types.PipelineID]types.Checkpoint
	letters     map[types.PipelineID]*letters // never an empty one
	position    int64                         // the last that was given to a letter, of any pipeline
	pauses      map[types.Pause]struct{}
	journals    map[types.PipelineID]*journal  // never an empty one
	hits        map[monitorKey][]types.GateHit // never an empty one; ordered by cursor, then index
	metas       map[monitorKey]types.GateMeta
}

func newState() state {
	return state{
		resources:   map[resourceKey]types.Resource{},
		checkpoints: map[types.PipelineID]types.Checkpoint{},
		letters:     map[types.PipelineID]*letters{},
		pauses:      map[types.Pause]struct{}{},
		journals:    map[types.PipelineID]*journal{},
		hits:        map[monitorKey][]types.GateHit{},
		metas:       map[monitorKey]types.GateMeta{},
	}
}

type resourceKey struct {
	kind types.ResourceKind
	id   string
}

// expect compares the version that a caller expects with the one that is there; 0 stands for none on
// both sides (R230).
func (k resourceKey) expect(op string, expected, actual uint64) error {
	switch {
	case expected == actual:
		return nil
	case expected == 0:
		return ports.Errorf(ports.CodeAlreadyExists, op, "the resource %s/%s is there, at version %d; nothing was stored", k.kind, k.id, actual)
	case actual == 0:
		return ports.Errorf(ports.CodeNotFound, op, "there is no resource %s/%s: create it without an expected version", k.kind, k.id)
	default:
		return &ports.VersionConflictError{Op: op, Key: fmt.Sprintf("%s/%s", k.kind, k.id), Expected: expected, Actual: actual}
	}
}

func compareResourceKeys(a, b resourceKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
}

type monitorKey struct {
	pipeline types.PipelineID
	monitor  types.MonitorID
}

func compareMonitorKeys(a, b monitorKey) int {
	return cmp.Or(cmp.Compare(a.pipeline, b.pipeline), cmp.Compare(a.monitor, b.monitor))
}

func comparePauses(a, b types.Pause) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.ID, b.ID))
}

// letters are the dead letters of one pipeline, found by position and by match id, so that no call
// walks all of them. Pointers make a deletion in the midst move 8 bytes a letter.
type letters struct {
	order []*types.StoredLetter // by position
	byID  map[types.MatchID]*types.StoredLetter
}

// lettersOf returns the letters of a pipeline, which may be none, to look at.
func (s *state) lettersOf(pipeline types.PipelineID) *letters {
	if l, ok := s.letters[pipeline]; ok {
		return l
	}
	return &letters{}
}

func (s *state) recordLetter(pipeline types.PipelineID, letter types.DeadLetter) {
	l, ok := s.letters[pipeline]
	if !ok {
		l = &letters{byID: map[types.MatchID]*types.StoredLetter{}}
		s.letters[pipeline] = l
	}
	if l.replace(letter) {
		return
	}
	s.position++
	stored := &types.StoredLetter{Position: s.position, Letter: letter}
	l.order = append(l.order, stored)
	l.byID[letter.MatchID] = stored
}

// deleteLetters removes the letters of the match ids and returns how many there were.
func (s *state) deleteLetters(pipeline types.PipelineID, ids []types.MatchID) int64 {
	l := s.lettersOf(pipeline)
	var gone []int
	for _, id := range ids {
		if stored, ok := l.byID[id]; ok {
			gone = append(gone, l.index(stored.Position))
			delete(l.byID, id)
		}
	}
	slices.Sort(gone)
	l.order = cut(l.order, gone)
	s.dropEmpty(pipeline)
	return int64(len(gone))
}

// deleteLettersThrough removes the letters up to and including a position.
func (s *state) deleteLettersThrough(pipeline types.PipelineID, through int64) int64 {
	l := s.lettersOf(pipeline)
	n := len(l.order) - len(l.after(through))
	for _, stored := range l.order[:n] {
		delete(l.byID, stored.Letter.MatchID)
	}
	l.order = behead(l.order, n)
	s.dropEmpty(pipeline)
	return int64(n)
}

func (s *state) dropEmpty(pipeline types.PipelineID) {
	if len(s.lettersOf(pipeline).order) == 0 {
		delete(s.letters, pipeline)
	}
}

// after returns the letters behind a position.
func (l *letters) after(position int64) []*types.StoredLetter {
	i, found := slices.BinarySearchFunc(l.order, position, comparePosition)
	if found {
		i++
	}
	return l.order[i:]
}

func (l *letters) index(position int64) int {
	i, _ := slices.BinarySearchFunc(l.order, position, comparePosition)
	return i
}

func comparePosition(l *types.StoredLetter, position int64) int {
	return cmp.Compare(l.Position, position)
}

// replace puts the letter into the place of the one of its match id, if there is one.
func (l *letters) replace(letter types.DeadLetter) bool {
	old, ok := l.byID[letter.MatchID]
	if !ok {
		return false
	}
	stored := &types.StoredLetter{Position: old.Position, Letter: letter}
	l.order[l.index(old.Position)] = stored
	l.byID[letter.MatchID] = stored
	return true
}

// cut removes the elements at the indices gone, which are ordered, moving each of the others at most
// once, and none when those at the front go: letters are replayed and discarded from there.
func cut[E any](list []E, gone []int) []E {
	n := len(gone)
	if n == 0 || gone[n-1] == n-1 {
		return behead(list, n)
	}
	kept := gone[0]
	for i, hole := range gone {
		end := len(list)
		if i+1 < n {
			end = gone[i+1]
		}
		kept += copy(list[kept:], list[hole+1:end])
	}
	clear(list[kept:])
	return list[:kept]
}

// behead removes the first n elements without moving the others. They are cleared, since their memory
// is held by the rest.
func behead[E any](list []E, n int) []E {
	clear(list[:n])
	return list[n:]
}

// journal is the delivery journal of one pipeline.
type journal struct {
	entries []types.Delivery // ordered by cursor, then match id
	cursors map[types.MatchID]types.Cursor
}

func compareDeliveries(a, b types.Delivery) int {
	return cmp.Or(a.Cursor.Compare(b.Cursor), cmp.Compare(a.MatchID, b.MatchID))
}

// journalOf returns the journal of a pipeline, which may be empty, to look at.
func (s *state) journalOf(pipeline types.PipelineID) *journal {
	if j, ok := s.journals[pipeline]; ok {
		return j
	}
	return &journal{}
}

// recordDeliveries stores the deliveries, then forgets what lies behind the depth and below from, which
// is the progress's JournalFrom. None of them forget nothing.
func (s *state) recordDeliveries(pipeline types.PipelineID, deliveries []types.Delivery, depth int64, from *uint64) {
	if len(deliveries) == 0 {
		return
	}
	for _, d := range deliveries {
		s.recordDelivery(pipeline, d)
	}
	s.journals[pipeline].prune(depth, from)
}

func (s *state) recordDelivery(pipeline types.PipelineID, d types.Delivery) {
	j, ok := s.journals[pipeline]
	if !ok {
		j = &journal{cursors: map[types.MatchID]types.Cursor{}}
		s.journals[pipeline] = j
	}
	if known, ok := j.cursors[d.MatchID]; ok {
		if d.Cursor.Compare(known) <= 0 {
			return
		}
		i, _ := slices.BinarySearchFunc(j.entries, types.Delivery{Cursor: known, MatchID: d.MatchID}, compareDeliveries)
		j.entries = slices.Delete(j.entries, i, i+1)
	}
	i, _ := slices.BinarySearchFunc(j.entries, d, compareDeliveries)
	j.entries = slices.Insert(j.entries, i, d)
	j.cursors[d.MatchID] = d.Cursor
}

// prune forgets what lies more than depth below the highest primary, and below from. The highest is the
// last entry's, and was never higher: entries go only from the front, and move only up (R214).
func (j *journal) prune(depth int64, from *uint64) {
	floor := ports.JournalFloorFrom(j.entries[len(j.entries)-1].Cursor.Primary, depth, from)
	n := j.index(types.Cursor{Primary: floor})
	for _, d := range j.entries[:n] {
		delete(j.cursors, d.MatchID)
	}
	j.entries = behead(j.entries, n)
}

// window returns the entries from cursor to cursor, both included.
func (j *journal) window(from, to types.Cursor) []types.Delivery {
	rest := j.entries[j.index(from):]
	for i, d := range rest {
		if d.Cursor.Compare(to) > 0 {
			return rest[:i]
		}
	}
	return rest
}

// index is the place of the first entry at or after the cursor.
func (j *journal) index(at types.Cursor) int {
	i, _ := slices.BinarySearchFunc(j.entries, at, func(d types.Delivery, at types.Cursor) int { return d.Cursor.Compare(at) })
	return i
}

func compareHits(a, b types.GateHit) int {
	return cmp.Or(a.Cursor.Compare(b.Cursor), cmp.Compare(a.Index, b.Index))
}

func (s *state) appendHits(pipeline types.PipelineID, hits []types.GateHit) {
	for _, hit := range hits {
		s.appendHit(pipeline, hit)
	}
}

// appendHit stores the hit and reports true, unless its key is there.
func (s *state) appendHit(pipeline types.PipelineID, hit types.GateHit) bool {
	key := monitorKey{pipeline, hit.Monitor}
	hits := s.hits[key]
	i, found := slices.BinarySearchFunc(hits, hit, compareHits)
	if !found {
		s.hits[key] = slices.Insert(hits, i, hit)
	}
	return !found
}

func (s *state) deleteHitsBefore(pipeline types.PipelineID, primary uint64) {
	s.keepHits(pipeline, primary, behead[types.GateHit])
}

func (s *state) deleteHitsBeforeOf(pipeline types.PipelineID, f types.MonitorFloor) {
	s.keepHitsOf(monitorKey{pipeline, f.Monitor}, f.Primary, behead[types.GateHit])
}

func (s *state) deleteHitsFrom(pipeline types.PipelineID, primary uint64) {
	s.keepHits(pipeline, primary, func(hits []types.GateHit, i int) []types.GateHit { return slices.Delete(hits, i, len(hits)) })
}

// keepHits replaces the hits of each monitor of a pipeline by what keep returns. It gets the hits and
// the place of the first whose primary is the given one or above.
func (s *state) keepHits(pipeline types.PipelineID, primary uint64, keep func(hits []types.GateHit, i int) []types.GateHit) {
	for key := range s.hits {
		if key.pipeline == pipeline {
			s.keepHitsOf(key, primary, keep)
		}
	}
}

// keepHitsOf is keepHits for one monitor, which may have none.
func (s *state) keepHitsOf(key monitorKey, primary uint64, keep func(hits []types.GateHit, i int) []types.GateHit) {
	hits := s.hits[key]
	i, _ := slices.BinarySearchFunc(hits, primary, func(h types.GateHit, primary uint64) int { return cmp.Compare(h.Cursor.Primary, primary) })
	if hits = keep(hits, i); len(hits) > 0 {
		s.hits[key] = hits
	} else {
		delete(s.hits, key)
	}
}

// checkHitDeletion checks the input of a deletion of hits.
func checkHitDeletion(op string, pipeline types.PipelineID, primary uint64) error {
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return err
	}
	return ports.CheckPrimary(op, primary)
}

// What goes out is a copy (R234).

func cloneResource(r types.Resource) types.Resource {
	r.Value = slices.Clone(r.Value)
	return r
}

func cloneLetter(l *types.StoredLetter) types.StoredLetter {
	return types.StoredLetter{Position: l.Position, Letter: l.Letter.Clone()}
}

func cloneHit(h types.GateHit) types.GateHit {
	h.Event = slices.Clone(h.Event)
	return h
}
