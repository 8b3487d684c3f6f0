package memory

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// StorageOptions say how a Storage is made.
type StorageOptions struct {
	// JournalDepth is how far, counted in primaries below the highest one, the delivery journal of a
	// pipeline reaches. Zero means ports.DefaultDepth.
	JournalDepth int64
}

// Storage is a ports.Storage and a ports.Archiver in plain collections, one a category, behind one
// mutex: every method is lock, look or change, unlock (R229). A call begins when it gets the lock.
type Storage struct {
	depth int64

	mu     sync.Mutex
	state  state
	closed bool
	// running has the exports and imports, which let the lock go on their way: Quiesce and Close wait
	// for them. Each closes its channel at its end.
	running map[chan struct{}]struct{}
}

// NewStorage makes an empty store. A negative depth is INVALID_CONFIG.
func NewStorage(opts StorageOptions) (*Storage, error) {
	depth, err := ports.CheckDepth("storage.open", opts.JournalDepth)
	if err != nil {
		return nil, err
	}
	return &Storage{depth: depth, state: newState(), running: map[chan struct{}]struct{}{}}, nil
}

// GetResource returns the record, and whether there is one.
func (s *Storage) GetResource(ctx context.Context, kind types.ResourceKind, id string) (types.Resource, bool, error) {
	const op = "storage.getResource"
	if err := ports.CheckResourceKey(op, kind, id); err != nil {
		return types.Resource{}, false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return types.Resource{}, false, err
	}
	defer s.mu.Unlock()
	resource, ok := s.state.resources[resourceKey{kind, id}]
	return cloneResource(resource), ok, nil
}

// ListResources returns a page of the records of a kind, ordered by id.
func (s *Storage) ListResources(ctx context.Context, kind types.ResourceKind, opts types.ResourceListOptions) (types.ResourcePage, error) {
	const op = "storage.listResources"
	limit, err := ports.CheckResourceList(op, kind, opts)
	if err != nil {
		return types.ResourcePage{}, err
	}
	if err := s.lock(ctx, op); err != nil {
		return types.ResourcePage{}, err
	}
	defer s.mu.Unlock()
	var ids []string
	for key := range s.state.resources {
		if key.kind == kind && key.id > opts.After {
			ids = append(ids, key.id)
		}
	}
	slices.Sort(ids)
	var page types.ResourcePage
	if len(ids) > limit {
		ids = ids[:limit]
		page.Next = ids[limit-1]
	}
	for _, id := range ids {
		page.Resources = append(page.Resources, cloneResource(s.state.resources[resourceKey{kind, id}]))
	}
	return page, nil
}

// ResourceKinds returns the kinds that have a record, ordered.
func (s *Storage) ResourceKinds(ctx context.Context) ([]types.ResourceKind, error) {
	if err := s.lock(ctx, "storage.resourceKinds"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	kinds := map[types.ResourceKind]struct{}{}
	for key := range s.state.resources {
		kinds[key.kind] = struct{}{}
	}
	return slices.Sorted(maps.Keys(kinds)), nil
}

// PutResource creates the record, or replaces the value of the version expected.
func (s *Storage) PutResource(ctx context.Context, kind types.ResourceKind, id string, value []byte, expected uint64) (uint64, error) {
	const op = "storage.putResource"
	if err := ports.CheckResource(op, kind, id, value, expected); err != nil {
		return 0, err
	}
	if err := s.lock(ctx, op); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	key := resourceKey{kind, id}
	if err := key.expect(op, expected, s.state.resources[key].Version); err != nil {
		return 0, err
	}
	next := types.Resource{Kind: kind, ID: id, Version: expected + 1, Value: slices.Clone(value)}
	s.state.resources[key] = next
	return next.Version, nil
}

// PutResources creates all records or none: each is looked for before the first is stored (R231).
func (s *Storage) PutResources(ctx context.Context, resources []types.Resource) error {
	const op = "storage.putResources"
	if err := ports.CheckResourceBatch(op, resources); err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, r := range resources {
		key := resourceKey{r.Kind, r.ID}
		if err := key.expect(op, 0, s.state.resources[key].Version); err != nil {
			return err
		}
	}
	for _, r := range resources {
		r = cloneResource(r)
		r.Version = 1
		s.state.resources[resourceKey{r.Kind, r.ID}] = r
	}
	return nil
}

// DeleteResource removes the record of the version expected.
func (s *Storage) DeleteResource(ctx context.Context, kind types.ResourceKind, id string, expected uint64) error {
	const op = "storage.deleteResource"
	if err := ports.CheckResourceDelete(op, kind, id, expected); err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	key := resourceKey{kind, id}
	if err := key.expect(op, expected, s.state.resources[key].Version); err != nil {
		return err
	}
	delete(s.state.resources, key)
	return nil
}

// LoadCheckpoint returns the checkpoint, and whether there is one.
func (s *Storage) LoadCheckpoint(ctx context.Context, pipeline types.PipelineID) (types.Checkpoint, bool, error) {
	const op = "storage.loadCheckpoint"
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return types.Checkpoint{}, false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return types.Checkpoint{}, false, err
	}
	defer s.mu.Unlock()
	checkpoint, ok := s.state.checkpoints[pipeline]
	return checkpoint.Clone(), ok, nil
}

// SaveCheckpoint stores the checkpoint in place of an earlier one.
func (s *Storage) SaveCheckpoint(ctx context.Context, pipeline types.PipelineID, checkpoint types.Checkpoint) error {
	const op = "storage.saveCheckpoint"
	checkpoint, err := ports.CheckCheckpoint(op, pipeline, checkpoint)
	if err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.state.checkpoints[pipeline] = checkpoint
	return nil
}

// ListCheckpoints returns all checkpoints, ordered by pipeline.
func (s *Storage) ListCheckpoints(ctx context.Context) ([]types.PipelineCheckpoint, error) {
	if err := s.lock(ctx, "storage.listCheckpoints"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var list []types.PipelineCheckpoint
	for _, pipeline := range slices.Sorted(maps.Keys(s.state.checkpoints)) {
		list = append(list, types.PipelineCheckpoint{Pipeline: pipeline, Checkpoint: s.state.checkpoints[pipeline].Clone()})
	}
	return list, nil
}

// DeleteCheckpoint removes the checkpoint and reports whether there was one.
func (s *Storage) DeleteCheckpoint(ctx context.Context, pipeline types.PipelineID) (bool, error) {
	const op = "storage.deleteCheckpoint"
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	_, ok := s.state.checkpoints[pipeline]
	delete(s.state.checkpoints, pipeline)
	return ok, nil
}

// RecordDeadLetter adds the letter at the end, or replaces the one of its match id in its place.
func (s *Storage) RecordDeadLetter(ctx context.Context, pipeline types.PipelineID, letter types.DeadLetter) error {
	const op = "storage.recordDeadLetter"
	letter, err := ports.CheckDeadLetter(op, pipeline, letter)
	if err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.state.recordLetter(pipeline, letter)
	return nil
}

// ListDeadLetters returns a page, in the order of arrival.
func (s *Storage) ListDeadLetters(ctx context.Context, pipeline types.PipelineID, query types.LetterQuery) ([]types.StoredLetter, error) {
	const op = "storage.listDeadLetters"
	if err := ports.CheckLetterQuery(op, pipeline, query); err != nil {
		return nil, err
	}
	if err := s.lock(ctx, op); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	rest := s.state.lettersOf(pipeline).after(query.After)
	rest = rest[min(query.Skip, len(rest)):]
	page := make([]types.StoredLetter, min(query.Take, len(rest)))
	for i := range page {
		page[i] = cloneLetter(rest[i])
	}
	return page, nil
}

// GetDeadLetter returns the letter of the match id, and whether there is one.
func (s *Storage) GetDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (types.StoredLetter, bool, error) {
	const op = "storage.getDeadLetter"
	if err := ports.CheckMatchIDs(op, pipeline, []types.MatchID{id}); err != nil {
		return types.StoredLetter{}, false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return types.StoredLetter{}, false, err
	}
	defer s.mu.Unlock()
	letter, ok := s.state.lettersOf(pipeline).byID[id]
	if !ok {
		return types.StoredLetter{}, false, nil
	}
	return cloneLetter(letter), true, nil
}

// CountDeadLetters returns the number of letters of each pipeline that has one, ordered.
func (s *Storage) CountDeadLetters(ctx context.Context) ([]types.LetterCount, error) {
	if err := s.lock(ctx, "storage.countDeadLetters"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var counts []types.LetterCount
	for _, pipeline := range slices.Sorted(maps.Keys(s.state.letters)) {
		counts = append(counts, types.LetterCount{Pipeline: pipeline, Count: int64(len(s.state.letters[pipeline].order))})
	}
	return counts, nil
}

// UpdateDeadLetter replaces the content of the letter of that match id in its place, and reports
// whether there is one.
func (s *Storage) UpdateDeadLetter(ctx context.Context, pipeline types.PipelineID, letter types.DeadLetter) (bool, error) {
	const op = "storage.updateDeadLetter"
	letter, err := ports.CheckDeadLetter(op, pipeline, letter)
	if err != nil {
		return false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	return s.state.lettersOf(pipeline).replace(letter), nil
}

// DeleteDeadLetter removes the letter and reports whether there was one.
func (s *Storage) DeleteDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (bool, error) {
	const op = "storage.deleteDeadLetter"
	ids := []types.MatchID{id}
	if err := ports.CheckMatchIDs(op, pipeline, ids); err != nil {
		return false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	return s.state.deleteLetters(pipeline, ids) == 1, nil
}

// DeleteDeadLetters removes the letters of the match ids and returns how many there were.
func (s *Storage) DeleteDeadLetters(ctx context.Context, pipeline types.PipelineID, ids []types.MatchID) (int64, error) {
	const op = "storage.deleteDeadLetters"
	if err := ports.CheckMatchIDs(op, pipeline, ids); err != nil {
		return 0, err
	}
	if err := s.lock(ctx, op); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return s.state.deleteLetters(pipeline, ids), nil
}

// DeleteAllDeadLetters removes the letters up to and including a position and returns how many there
// were.
func (s *Storage) DeleteAllDeadLetters(ctx context.Context, pipeline types.PipelineID, through int64) (int64, error) {
	const op = "storage.deleteAllDeadLetters"
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return 0, err
	}
	if err := s.lock(ctx, op); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return s.state.deleteLettersThrough(pipeline, through), nil
}

// Pause stores the pause; one that is there stays.
func (s *Storage) Pause(ctx context.Context, pause types.Pause) error {
	const op = "storage.pause"
	if err := ports.CheckPause(op, pause); err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.state.pauses[pause] = struct{}{}
	return nil
}

// Resume removes the pause, if it is there.
func (s *Storage) Resume(ctx context.Context, pause types.Pause) error {
	const op = "storage.resume"
	if err := ports.CheckPause(op, pause); err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	delete(s.state.pauses, pause)
	return nil
}

// Paused reports whether the pause is there.
func (s *Storage) Paused(ctx context.Context, pause types.Pause) (bool, error) {
	const op = "storage.paused"
	if err := ports.CheckPause(op, pause); err != nil {
		return false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	_, ok := s.state.pauses[pause]
	return ok, nil
}

// ListPauses returns all pauses, ordered by target, then id.
func (s *Storage) ListPauses(ctx context.Context) ([]types.Pause, error) {
	if err := s.lock(ctx, "storage.listPauses"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.state.pauses), comparePauses), nil
}

// RecordDeliveries stores the deliveries, then forgets what lies behind the depth.
func (s *Storage) RecordDeliveries(ctx context.Context, pipeline types.PipelineID, deliveries []types.Delivery) error {
	const op = "storage.recordDeliveries"
	if err := ports.CheckDeliveries(op, pipeline, deliveries); err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.state.recordDeliveries(pipeline, deliveries, s.depth, nil)
	return nil
}

// Delivered returns the deliveries from cursor to cursor, both included, ordered by cursor, then match
// id.
func (s *Storage) Delivered(ctx context.Context, pipeline types.PipelineID, from, to types.Cursor) ([]types.Delivery, error) {
	const op = "storage.delivered"
	if err := ports.CheckDelivered(op, pipeline, from, to); err != nil {
		return nil, err
	}
	if err := s.lock(ctx, op); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return slices.Clone(s.state.journalOf(pipeline).window(from, to)), nil
}

// AppendHits stores the hits; one whose key is there stays as it is.
func (s *Storage) AppendHits(ctx context.Context, pipeline types.PipelineID, hits []types.GateHit) error {
	const op = "storage.appendHits"
	hits, err := ports.CheckHits(op, pipeline, hits)
	if err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.state.appendHits(pipeline, hits)
	return nil
}

// Hits returns the hits of a monitor whose TS is at or after since, ordered by cursor, then index.
func (s *Storage) Hits(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID, since int64) ([]types.GateHit, error) {
	const op = "storage.hits"
	if err := ports.CheckMonitor(op, pipeline, monitor); err != nil {
		return nil, err
	}
	if err := s.lock(ctx, op); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var hits []types.GateHit
	for _, hit := range s.state.hits[monitorKey{pipeline, monitor}] {
		if hit.TS >= since {
			hits = append(hits, cloneHit(hit))
		}
	}
	return hits, nil
}

// DeleteHitsBefore removes the hits of a pipeline whose primary is below the given one.
func (s *Storage) DeleteHitsBefore(ctx context.Context, pipeline types.PipelineID, primary uint64) error {
	const op = "storage.deleteHitsBefore"
	if err := checkHitDeletion(op, pipeline, primary); err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.state.deleteHitsBefore(pipeline, primary)
	return nil
}

// DeleteHitsFrom removes the hits of a pipeline whose primary is the given one or above.
func (s *Storage) DeleteHitsFrom(ctx context.Context, pipeline types.PipelineID, primary uint64) error {
	const op = "storage.deleteHitsFrom"
	if err := checkHitDeletion(op, pipeline, primary); err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.state.deleteHitsFrom(pipeline, primary)
	return nil
}

// GateMeta returns what is kept for a monitor, and whether there is anything.
func (s *Storage) GateMeta(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID) (types.GateMeta, bool, error) {
	const op = "storage.gateMeta"
	if err := ports.CheckMonitor(op, pipeline, monitor); err != nil {
		return types.GateMeta{}, false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return types.GateMeta{}, false, err
	}
	defer s.mu.Unlock()
	meta, ok := s.state.metas[monitorKey{pipeline, monitor}]
	return meta.Clone(), ok, nil
}

// SetGateMeta stores what is kept for a monitor in place of what was there.
func (s *Storage) SetGateMeta(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID, meta types.GateMeta) error {
	const op = "storage.setGateMeta"
	meta, err := ports.CheckGateMeta(op, pipeline, monitor, meta)
	if err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.state.metas[monitorKey{pipeline, monitor}] = meta
	return nil
}

// Apply stores everything that one step changed. It is whole because nothing in it can fail once the
// input is checked.
func (s *Storage) Apply(ctx context.Context, pipeline types.PipelineID, progress types.Progress) error {
	const op = "storage.apply"
	progress, err := ports.CheckProgress(op, pipeline, progress)
	if err != nil {
		return err
	}
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if progress.Checkpoint != nil {
		s.state.checkpoints[pipeline] = *progress.Checkpoint
	}
	s.state.recordDeliveries(pipeline, progress.Deliveries, s.depth, progress.JournalFrom)
	s.state.deleteLetters(pipeline, progress.Settled)
	for _, letter := range progress.DeadLetters {
		s.state.recordLetter(pipeline, letter)
	}
	if progress.HitsFrom != nil {
		s.state.deleteHitsFrom(pipeline, *progress.HitsFrom)
	}
	s.state.appendHits(pipeline, progress.Hits)
	if progress.HitsBefore != nil {
		s.state.deleteHitsBefore(pipeline, *progress.HitsBefore)
	}
	for _, f := range progress.HitsBeforeOf {
		s.state.deleteHitsBeforeOf(pipeline, f)
	}
	for _, m := range progress.Metas {
		s.state.metas[monitorKey{pipeline, m.Monitor}] = m.Meta
	}
	return nil
}

// Quiesce returns when every call that began before it has ended. Whoever has the lock is the only one
// inside, but for the exports and imports, for which it waits.
func (s *Storage) Quiesce(ctx context.Context) error {
	if err := s.lock(ctx, "storage.quiesce"); err != nil {
		return err
	}
	running := slices.Collect(maps.Keys(s.running))
	s.mu.Unlock()
	for _, ended := range running {
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Close drops everything. Later calls give STORE_CLOSED; closing again does nothing. It waits for
// exports and imports that are under way.
func (s *Storage) Close() error {
	s.mu.Lock()
	s.closed = true
	s.state = state{}
	running := slices.Collect(maps.Keys(s.running))
	s.mu.Unlock()
	for _, ended := range running {
		<-ended
	}
	return nil
}

// CountDeliveries returns the number of entries of each journal, ordered by pipeline.
func (s *Storage) CountDeliveries(ctx context.Context) ([]types.JournalCount, error) {
	if err := s.lock(ctx, "storage.countDeliveries"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var counts []types.JournalCount
	for _, pipeline := range slices.Sorted(maps.Keys(s.state.journals)) {
		counts = append(counts, types.JournalCount{Pipeline: pipeline, Count: int64(len(s.state.journals[pipeline].entries))})
	}
	return counts, nil
}

// Export lists everything under the lock, then calls yield for a copy of one record after the other
// without it.
func (s *Storage) Export(ctx context.Context, yield func(types.Record) error) error {
	if err := s.lock(ctx, "storage.export"); err != nil {
		return err
	}
	defer s.enter()()
	records := s.state.records()
	s.mu.Unlock()
	for _, record := range records {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := yield(cloneRecord(record)); err != nil {
			return err
		}
	}
	return nil
}

// Import takes in the sequence without the lock, then stores all of it under the lock.
func (s *Storage) Import(ctx context.Context, records iter.Seq2[types.Record, error]) (int64, error) {
	const op = "storage.import"
	if err := s.lock(ctx, op); err != nil {
		return 0, err
	}
	defer s.enter()()
	empty := s.state.empty()
	s.mu.Unlock()
	if !empty {
		return 0, notEmpty(op)
	}
	var taken []types.Record
	for record, err := range records {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			record, err = ports.CheckRecord(op, record)
		}
		if err != nil {
			return 0, err
		}
		taken = append(taken, record)
	}
	if err := s.lock(ctx, op); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if !s.state.empty() {
		return 0, notEmpty(op)
	}
	next := newState()
	next.position = s.state.position // positions of letters that are gone are not given again
	for _, record := range taken {
		if !next.add(record) {
			return 0, ports.Errorf(ports.CodeAlreadyExists, op, "the %s comes twice in the import; nothing was stored", describe(record))
		}
	}
	s.state = next
	return int64(len(taken)), nil
}

// lock begins a call. The caller unlocks, unless there is an error. The context is looked at under the
// lock, so that a call whose caller gave up while it waited does nothing.
func (s *Storage) lock(ctx context.Context, op string) error {
	s.mu.Lock()
	err := ctx.Err()
	if err == nil && s.closed {
		err = ports.Errorf(ports.CodeStoreClosed, op, "the storage in memory is closed: open a new one")
	}
	if err != nil {
		s.mu.Unlock()
	}
	return err
}

// enter registers a call that goes on without the lock, which the caller holds. What it returns is
// called, without the lock, at the end of the call.
func (s *Storage) enter() (leave func()) {
	ended := make(chan struct{})
	s.running[ended] = struct{}{}
	return func() {
		s.mu.Lock()
		delete(s.running, ended)
		s.mu.Unlock()
		close(ended)
	}
}
