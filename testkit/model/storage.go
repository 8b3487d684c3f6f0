package model

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Storage is a ports.Storage that is also a ports.Archiver.
type Storage struct {
	depth int64
	// lock is a mutex that a waiting caller can leave, and whose callers come in turn: a channel of
	// one place serves those who wait for it in the order in which they came.
	lock   chan struct{}
	closed bool
	state  state
}

// state has one list a category, each in no order, except for the letters.
type state struct {
	resources   []types.Resource
	checkpoints []types.PipelineCheckpoint
	letters     []letter // in the order of arrival
	positions   int64    // the last one given
	pauses      []types.Pause
	deliveries  []delivery
	hits        []hit
	metas       []meta
}

type letter struct {
	pipeline types.PipelineID
	position int64
	content  types.DeadLetter
}

type delivery struct {
	pipeline types.PipelineID
	types.Delivery
}

type hit struct {
	pipeline types.PipelineID
	types.GateHit
}

type meta struct {
	pipeline types.PipelineID
	types.MonitorMeta
}

// NewStorage makes an empty storage whose delivery journal has the depth; 0 is ports.DefaultDepth. It
// panics on a negative one.
func NewStorage(depth int64) *Storage {
	depth, err := ports.CheckDepth("storage.open", depth)
	if err != nil {
		panic("model: " + err.Error())
	}
	return &Storage{depth: depth, lock: make(chan struct{}, 1)}
}

// begin locks the storage for one step. The caller unlocks, unless there is an error. The context is
// looked at under the lock, so that nothing is done for a caller who gave up while it waited.
func (m *Storage) begin(ctx context.Context, op string) error {
	select {
	case m.lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := ctx.Err()
	if err == nil && m.closed {
		err = ports.Errorf(ports.CodeStoreClosed, op, "the model storage is closed")
	}
	if err != nil {
		m.unlock()
	}
	return err
}

func (m *Storage) unlock() { <-m.lock }

// GetResource implements ports.ResourceStore.
func (m *Storage) GetResource(ctx context.Context, kind types.ResourceKind, id string) (types.Resource, bool, error) {
	const op = "storage.getResource"
	if err := ports.CheckResourceKey(op, kind, id); err != nil {
		return types.Resource{}, false, err
	}
	if err := m.begin(ctx, op); err != nil {
		return types.Resource{}, false, err
	}
	defer m.unlock()
	i := m.state.resource(kind, id)
	if i < 0 {
		return types.Resource{}, false, nil
	}
	return cloneResource(m.state.resources[i]), true, nil
}

// ListResources implements ports.ResourceStore.
func (m *Storage) ListResources(ctx context.Context, kind types.ResourceKind, opts types.ResourceListOptions) (types.ResourcePage, error) {
	const op = "storage.listResources"
	limit, err := ports.CheckResourceList(op, kind, opts)
	if err != nil {
		return types.ResourcePage{}, err
	}
	if err := m.begin(ctx, op); err != nil {
		return types.ResourcePage{}, err
	}
	defer m.unlock()
	page := types.ResourcePage{Resources: []types.Resource{}}
	for _, r := range sorted(m.state.resources, compareResources) {
		if r.Kind != kind || r.ID <= opts.After {
			continue
		}
		if len(page.Resources) == limit {
			page.Next = page.Resources[limit-1].ID
			break
		}
		page.Resources = append(page.Resources, cloneResource(r))
	}
	return page, nil
}

// ResourceKinds implements ports.ResourceStore.
func (m *Storage) ResourceKinds(ctx context.Context) ([]types.ResourceKind, error) {
	if err := m.begin(ctx, "storage.resourceKinds"); err != nil {
		return nil, err
	}
	defer m.unlock()
	kinds := []types.ResourceKind{}
	for _, r := range m.state.resources {
		if !slices.Contains(kinds, r.Kind) {
			kinds = append(kinds, r.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds, nil
}

// PutResource implements ports.ResourceStore.
func (m *Storage) PutResource(ctx context.Context, kind types.ResourceKind, id string, value []byte, expected uint64) (uint64, error) {
	const op = "storage.putResource"
	if err := ports.CheckResource(op, kind, id, value, expected); err != nil {
		return 0, err
	}
	if err := m.begin(ctx, op); err != nil {
		return 0, err
	}
	defer m.unlock()
	i := m.state.resource(kind, id)
	if expected == 0 {
		if i >= 0 {
			return 0, resourceExists(op, kind, id)
		}
		m.state.resources = append(m.state.resources, types.Resource{Kind: kind, ID: id, Version: 1, Value: bytes.Clone(value)})
		return 1, nil
	}
	if err := m.state.expect(op, kind, id, expected); err != nil {
		return 0, err
	}
	m.state.resources[i].Version++
	m.state.resources[i].Value = bytes.Clone(value)
	return m.state.resources[i].Version, nil
}

// PutResources implements ports.ResourceStore.
func (m *Storage) PutResources(ctx context.Context, resources []types.Resource) error {
	const op = "storage.putResources"
	if err := ports.CheckResourceBatch(op, resources); err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	for _, r := range resources {
		if m.state.resource(r.Kind, r.ID) >= 0 {
			return resourceExists(op, r.Kind, r.ID)
		}
	}
	for _, r := range resources {
		created := cloneResource(r)
		created.Version = 1
		m.state.resources = append(m.state.resources, created)
	}
	return nil
}

// DeleteResource implements ports.ResourceStore.
func (m *Storage) DeleteResource(ctx context.Context, kind types.ResourceKind, id string, expected uint64) error {
	const op = "storage.deleteResource"
	if err := ports.CheckResourceDelete(op, kind, id, expected); err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	if err := m.state.expect(op, kind, id, expected); err != nil {
		return err
	}
	i := m.state.resource(kind, id)
	m.state.resources = slices.Delete(m.state.resources, i, i+1)
	return nil
}

func (s *state) resource(kind types.ResourceKind, id string) int {
	return slices.IndexFunc(s.resources, func(r types.Resource) bool { return r.Kind == kind && r.ID == id })
}

// expect is nil if there is a resource of that version.
func (s *state) expect(op string, kind types.ResourceKind, id string, version uint64) error {
	i := s.resource(kind, id)
	if i < 0 {
		return ports.Errorf(ports.CodeNotFound, op, "there is no resource %s/%s", kind, id)
	}
	if actual := s.resources[i].Version; actual != version {
		return &ports.VersionConflictError{Op: op, Key: string(kind) + "/" + id, Expected: version, Actual: actual}
	}
	return nil
}

func resourceExists(op string, kind types.ResourceKind, id string) error {
	return ports.Errorf(ports.CodeAlreadyExists, op, "there is a resource %s/%s already", kind, id)
}

// LoadCheckpoint implements ports.CheckpointStore.
func (m *Storage) LoadCheckpoint(ctx context.Context, pipeline types.PipelineID) (types.Checkpoint, bool, error) {
	const op = "storage.loadCheckpoint"
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return types.Checkpoint{}, false, err
	}
	if err := m.begin(ctx, op); err != nil {
		return types.Checkpoint{}, false, err
	}
	defer m.unlock()
	i := m.state.checkpoint(pipeline)
	if i < 0 {
		return types.Checkpoint{}, false, nil
	}
	return m.state.checkpoints[i].Checkpoint.Clone(), true, nil
}

// SaveCheckpoint implements ports.CheckpointStore.
func (m *Storage) SaveCheckpoint(ctx context.Context, pipeline types.PipelineID, checkpoint types.Checkpoint) error {
	const op = "storage.saveCheckpoint"
	stored, err := ports.CheckCheckpoint(op, pipeline, checkpoint)
	if err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	m.state.saveCheckpoint(pipeline, stored)
	return nil
}

// ListCheckpoints implements ports.CheckpointStore.
func (m *Storage) ListCheckpoints(ctx context.Context) ([]types.PipelineCheckpoint, error) {
	if err := m.begin(ctx, "storage.listCheckpoints"); err != nil {
		return nil, err
	}
	defer m.unlock()
	list := sorted(m.state.checkpoints, compareCheckpoints)
	for i := range list {
		list[i].Checkpoint = list[i].Checkpoint.Clone()
	}
	return list, nil
}

// DeleteCheckpoint implements ports.CheckpointStore.
func (m *Storage) DeleteCheckpoint(ctx context.Context, pipeline types.PipelineID) (bool, error) {
	const op = "storage.deleteCheckpoint"
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return false, err
	}
	if err := m.begin(ctx, op); err != nil {
		return false, err
	}
	defer m.unlock()
	i := m.state.checkpoint(pipeline)
	if i < 0 {
		return false, nil
	}
	m.state.checkpoints = slices.Delete(m.state.checkpoints, i, i+1)
	return true, nil
}

func (s *state) checkpoint(pipeline types.PipelineID) int {
	return slices.IndexFunc(s.checkpoints, func(c types.PipelineCheckpoint) bool { return c.Pipeline == pipeline })
}

func (s *state) saveCheckpoint(pipeline types.PipelineID, c types.Checkpoint) {
	if i := s.checkpoint(pipeline); i >= 0 {
		s.checkpoints[i].Checkpoint = c
		return
	}
	s.checkpoints = append(s.checkpoints, types.PipelineCheckpoint{Pipeline: pipeline, Checkpoint: c})
}

// RecordDeadLetter implements ports.DeadLetterStore.
func (m *Storage) RecordDeadLetter(ctx context.Context, pipeline types.PipelineID, letter types.DeadLetter) error {
	const op = "storage.recordDeadLetter"
	stored, err := ports.CheckDeadLetter(op, pipeline, letter)
	if err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	m.state.recordLetter(pipeline, stored)
	return nil
}

// ListDeadLetters implements ports.DeadLetterStore.
func (m *Storage) ListDeadLetters(ctx context.Context, pipeline types.PipelineID, query types.LetterQuery) ([]types.StoredLetter, error) {
	const op = "storage.listDeadLetters"
	if err := ports.CheckLetterQuery(op, pipeline, query); err != nil {
		return nil, err
	}
	if err := m.begin(ctx, op); err != nil {
		return nil, err
	}
	defer m.unlock()
	page := []types.StoredLetter{}
	skipped := 0
	for _, l := range m.state.letters {
		switch {
		case l.pipeline != pipeline || l.position <= query.After:
		case skipped < query.Skip:
			skipped++
		case len(page) < query.Take:
			page = append(page, l.export())
		}
	}
	return page, nil
}

// GetDeadLetter implements ports.DeadLetterStore.
func (m *Storage) GetDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (types.StoredLetter, bool, error) {
	const op = "storage.getDeadLetter"
	if err := checkLetterKey(op, pipeline, id); err != nil {
		return types.StoredLetter{}, false, err
	}
	if err := m.begin(ctx, op); err != nil {
		return types.StoredLetter{}, false, err
	}
	defer m.unlock()
	i := m.state.letter(pipeline, id)
	if i < 0 {
		return types.StoredLetter{}, false, nil
	}
	return m.state.letters[i].export(), true, nil
}

// CountDeadLetters implements ports.DeadLetterStore.
func (m *Storage) CountDeadLetters(ctx context.Context) ([]types.LetterCount, error) {
	if err := m.begin(ctx, "storage.countDeadLetters"); err != nil {
		return nil, err
	}
	defer m.unlock()
	counts := []types.LetterCount{}
	for _, l := range m.state.letters {
		i := slices.IndexFunc(counts, func(c types.LetterCount) bool { return c.Pipeline == l.pipeline })
		if i < 0 {
			i = len(counts)
			counts = append(counts, types.LetterCount{Pipeline: l.pipeline})
		}
		counts[i].Count++
	}
	return sorted(counts, func(a, b types.LetterCount) int { return cmp.Compare(a.Pipeline, b.Pipeline) }), nil
}

// UpdateDeadLetter implements ports.DeadLetterStore.
func (m *Storage) UpdateDeadLetter(ctx context.Context, pipeline types.PipelineID, letter types.DeadLetter) (bool, error) {
	const op = "storage.updateDeadLetter"
	stored, err := ports.CheckDeadLetter(op, pipeline, letter)
	if err != nil {
		return false, err
	}
	if err := m.begin(ctx, op); err != nil {
		return false, err
	}
	defer m.unlock()
	i := m.state.letter(pipeline, stored.MatchID)
	if i < 0 {
		return false, nil
	}
	m.state.letters[i].content = stored
	return true, nil
}

// DeleteDeadLetter implements ports.DeadLetterStore.
func (m *Storage) DeleteDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (bool, error) {
	const op = "storage.deleteDeadLetter"
	if err := checkLetterKey(op, pipeline, id); err != nil {
		return false, err
	}
	if err := m.begin(ctx, op); err != nil {
		return false, err
	}
	defer m.unlock()
	return m.state.deleteLetters(pipeline, []types.MatchID{id}) > 0, nil
}

// DeleteDeadLetters implements ports.DeadLetterStore.
func (m *Storage) DeleteDeadLetters(ctx context.Context, pipeline types.PipelineID, ids []types.MatchID) (int64, error) {
	const op = "storage.deleteDeadLetters"
	if err := ports.CheckMatchIDs(op, pipeline, ids); err != nil {
		return 0, err
	}
	if err := m.begin(ctx, op); err != nil {
		return 0, err
	}
	defer m.unlock()
	return m.state.deleteLetters(pipeline, ids), nil
}

// DeleteAllDeadLetters implements ports.DeadLetterStore.
func (m *Storage) DeleteAllDeadLetters(ctx context.Context, pipeline types.PipelineID, through int64) (int64, error) {
	const op = "storage.deleteAllDeadLetters"
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return 0, err
	}
	if err := m.begin(ctx, op); err != nil {
		return 0, err
	}
	defer m.unlock()
	before := len(m.state.letters)
	m.state.letters = slices.DeleteFunc(m.state.letters, func(l letter) bool { return l.pipeline == pipeline && l.position <= through })
	return int64(before - len(m.state.letters)), nil
}

func checkLetterKey(op string, pipeline types.PipelineID, id types.MatchID) error {
	return ports.CheckMatchIDs(op, pipeline, []types.MatchID{id})
}

func (s *state) letter(pipeline types.PipelineID, id types.MatchID) int {
	return slices.IndexFunc(s.letters, func(l letter) bool { return l.pipeline == pipeline && l.content.MatchID == id })
}

func (s *state) recordLetter(pipeline types.PipelineID, content types.DeadLetter) {
	if i := s.letter(pipeline, content.MatchID); i >= 0 {
		s.letters[i].content = content
		return
	}
	s.positions++
	s.letters = append(s.letters, letter{pipeline, s.positions, content})
}

func (s *state) deleteLetters(pipeline types.PipelineID, ids []types.MatchID) int64 {
	before := len(s.letters)
	s.letters = slices.DeleteFunc(s.letters, func(l letter) bool {
		return l.pipeline == pipeline && slices.Contains(ids, l.content.MatchID)
	})
	return int64(before - len(s.letters))
}

func (l letter) export() types.StoredLetter {
	return types.StoredLetter{Position: l.position, Letter: l.content.Clone()}
}

// Pause implements ports.PauseStore.
func (m *Storage) Pause(ctx context.Context, pause types.Pause) error {
	const op = "storage.pause"
	if err := ports.CheckPause(op, pause); err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	if !slices.Contains(m.state.pauses, pause) {
		m.state.pauses = append(m.state.pauses, pause)
	}
	return nil
}

// Resume implements ports.PauseStore.
func (m *Storage) Resume(ctx context.Context, pause types.Pause) error {
	const op = "storage.resume"
	if err := ports.CheckPause(op, pause); err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	m.state.pauses = slices.DeleteFunc(m.state.pauses, func(p types.Pause) bool { return p == pause })
	return nil
}

// Paused implements ports.PauseStore.
func (m *Storage) Paused(ctx context.Context, pause types.Pause) (bool, error) {
	const op = "storage.paused"
	if err := ports.CheckPause(op, pause); err != nil {
		return false, err
	}
	if err := m.begin(ctx, op); err != nil {
		return false, err
	}
	defer m.unlock()
	return slices.Contains(m.state.pauses, pause), nil
}

// ListPauses implements ports.PauseStore.
func (m *Storage) ListPauses(ctx context.Context) ([]types.Pause, error) {
	if err := m.begin(ctx, "storage.listPauses"); err != nil {
		return nil, err
	}
	defer m.unlock()
	return sorted(m.state.pauses, comparePauses), nil
}

// RecordDeliveries implements ports.DeliveryJournal.
func (m *Storage) RecordDeliveries(ctx context.Context, pipeline types.PipelineID, deliveries []types.Delivery) error {
	const op = "storage.recordDeliveries"
	if err := ports.CheckDeliveries(op, pipeline, deliveries); err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	m.state.recordDeliveries(pipeline, deliveries, m.depth, nil)
	return nil
}

// Delivered implements ports.DeliveryJournal.
func (m *Storage) Delivered(ctx context.Context, pipeline types.PipelineID, from, to types.Cursor) ([]types.Delivery, error) {
	const op = "storage.delivered"
	if err := ports.CheckDelivered(op, pipeline, from, to); err != nil {
		return nil, err
	}
	if err := m.begin(ctx, op); err != nil {
		return nil, err
	}
	defer m.unlock()
	window := []types.Delivery{}
	for _, d := range sorted(m.state.deliveries, compareDeliveries) {
		if d.pipeline == pipeline && d.Cursor.Compare(from) >= 0 && d.Cursor.Compare(to) <= 0 {
			window = append(window, d.Delivery)
		}
	}
	return window, nil
}

// CountDeliveries implements ports.JournalCounter.
func (m *Storage) CountDeliveries(ctx context.Context) ([]types.JournalCount, error) {
	if err := m.begin(ctx, "storage.countDeliveries"); err != nil {
		return nil, err
	}
	defer m.unlock()
	counts := []types.JournalCount{}
	for _, d := range m.state.deliveries {
		i := slices.IndexFunc(counts, func(c types.JournalCount) bool { return c.Pipeline == d.pipeline })
		if i < 0 {
			i = len(counts)
			counts = append(counts, types.JournalCount{Pipeline: d.pipeline})
		}
		counts[i].Count++
	}
	return sorted(counts, func(a, b types.JournalCount) int { return cmp.Compare(a.Pipeline, b.Pipeline) }), nil
}

func (s *state) delivery(pipeline types.PipelineID, id types.MatchID) int {
	return slices.IndexFunc(s.deliveries, func(d delivery) bool { return d.pipeline == pipeline && d.MatchID == id })
}

// recordDeliveries prunes only when there is something to record: a step without deliveries changes
// nothing.
func (s *state) recordDeliveries(pipeline types.PipelineID, deliveries []types.Delivery, depth int64, from *uint64) {
	if len(deliveries) == 0 {
		return
	}
	for _, d := range deliveries {
		switch i := s.delivery(pipeline, d.MatchID); {
		case i < 0:
			s.deliveries = append(s.deliveries, delivery{pipeline, d})
		case s.deliveries[i].Cursor.Compare(d.Cursor) < 0:
			s.deliveries[i].Cursor = d.Cursor
		}
	}
	highest := uint64(0)
	for _, d := range s.deliveries {
		if d.pipeline == pipeline {
			highest = max(highest, d.Cursor.Primary)
		}
	}
	s.deliveries = slices.DeleteFunc(s.deliveries, func(d delivery) bool {
		kept := from != nil && d.Cursor.Primary >= *from
		return d.pipeline == pipeline && highest-d.Cursor.Primary > uint64(depth) && !kept
	})
}

// AppendHits implements ports.GateJournal.
func (m *Storage) AppendHits(ctx context.Context, pipeline types.PipelineID, hits []types.GateHit) error {
	const op = "storage.appendHits"
	stored, err := ports.CheckHits(op, pipeline, hits)
	if err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	m.state.appendHits(pipeline, stored)
	return nil
}

// Hits implements ports.GateJournal.
func (m *Storage) Hits(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID, since int64) ([]types.GateHit, error) {
	const op = "storage.hits"
	if err := ports.CheckMonitor(op, pipeline, monitor); err != nil {
		return nil, err
	}
	if err := m.begin(ctx, op); err != nil {
		return nil, err
	}
	defer m.unlock()
	hits := []types.GateHit{}
	for _, h := range sorted(m.state.hits, compareHits) {
		if h.pipeline == pipeline && h.Monitor == monitor && h.TS >= since {
			hits = append(hits, cloneHit(h.GateHit))
		}
	}
	return hits, nil
}

// DeleteHitsBefore implements ports.GateJournal.
func (m *Storage) DeleteHitsBefore(ctx context.Context, pipeline types.PipelineID, primary uint64) error {
	return m.deleteHits(ctx, "storage.deleteHitsBefore", pipeline, primary, (*state).deleteHitsBefore)
}

// DeleteHitsFrom implements ports.GateJournal.
func (m *Storage) DeleteHitsFrom(ctx context.Context, pipeline types.PipelineID, primary uint64) error {
	return m.deleteHits(ctx, "storage.deleteHitsFrom", pipeline, primary, (*state).deleteHitsFrom)
}

func (m *Storage) deleteHits(ctx context.Context, op string, pipeline types.PipelineID, primary uint64, remove func(*state, types.PipelineID, uint64)) error {
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return err
	}
	if err := ports.CheckPrimary(op, primary); err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	remove(&m.state, pipeline, primary)
	return nil
}

func (s *state) hit(pipeline types.PipelineID, h types.GateHit) int {
	return slices.IndexFunc(s.hits, func(other hit) bool {
		return other.pipeline == pipeline && other.Monitor == h.Monitor && other.Cursor == h.Cursor && other.Index == h.Index
	})
}

func (s *state) appendHits(pipeline types.PipelineID, hits []types.GateHit) {
	for _, h := range hits {
		if s.hit(pipeline, h) < 0 {
			s.hits = append(s.hits, hit{pipeline, h})
		}
	}
}

func (s *state) deleteHitsBefore(pipeline types.PipelineID, primary uint64) {
	s.hits = slices.DeleteFunc(s.hits, func(h hit) bool { return h.pipeline == pipeline && h.Cursor.Primary < primary })
}

func (s *state) deleteHitsBeforeOf(pipeline types.PipelineID, f types.MonitorFloor) {
	s.hits = slices.DeleteFunc(s.hits, func(h hit) bool {
		return h.pipeline == pipeline && h.Monitor == f.Monitor && h.Cursor.Primary < f.Primary
	})
}

func (s *state) deleteHitsFrom(pipeline types.PipelineID, primary uint64) {
	s.hits = slices.DeleteFunc(s.hits, func(h hit) bool { return h.pipeline == pipeline && h.Cursor.Primary >= primary })
}

// GateMeta implements ports.GateJournal.
func (m *Storage) GateMeta(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID) (types.GateMeta, bool, error) {
	const op = "storage.gateMeta"
	if err := ports.CheckMonitor(op, pipeline, monitor); err != nil {
		return types.GateMeta{}, false, err
	}
	if err := m.begin(ctx, op); err != nil {
		return types.GateMeta{}, false, err
	}
	defer m.unlock()
	i := m.state.meta(pipeline, monitor)
	if i < 0 {
		return types.GateMeta{}, false, nil
	}
	return m.state.metas[i].Meta.Clone(), true, nil
}

// SetGateMeta implements ports.GateJournal.
func (m *Storage) SetGateMeta(ctx context.Context, pipeline types.PipelineID, monitor types.MonitorID, gateMeta types.GateMeta) error {
	const op = "storage.setGateMeta"
	stored, err := ports.CheckGateMeta(op, pipeline, monitor, gateMeta)
	if err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	m.state.setMeta(pipeline, types.MonitorMeta{Monitor: monitor, Meta: stored})
	return nil
}

func (s *state) meta(pipeline types.PipelineID, monitor types.MonitorID) int {
	return slices.IndexFunc(s.metas, func(other meta) bool { return other.pipeline == pipeline && other.Monitor == monitor })
}

func (s *state) setMeta(pipeline types.PipelineID, stored types.MonitorMeta) {
	if i := s.meta(pipeline, stored.Monitor); i >= 0 {
		s.metas[i].Meta = stored.Meta
		return
	}
	s.metas = append(s.metas, meta{pipeline, stored})
}

// Apply implements ports.Storage. Once the progress is checked, no part of it can fail.
func (m *Storage) Apply(ctx context.Context, pipeline types.PipelineID, progress types.Progress) error {
	const op = "storage.apply"
	p, err := ports.CheckProgress(op, pipeline, progress)
	if err != nil {
		return err
	}
	if err := m.begin(ctx, op); err != nil {
		return err
	}
	defer m.unlock()
	if p.Checkpoint != nil {
		m.state.saveCheckpoint(pipeline, *p.Checkpoint)
	}
	m.state.recordDeliveries(pipeline, p.Deliveries, m.depth, p.JournalFrom)
	m.state.deleteLetters(pipeline, p.Settled)
	for _, l := range p.DeadLetters {
		m.state.recordLetter(pipeline, l)
	}
	if p.HitsFrom != nil {
		m.state.deleteHitsFrom(pipeline, *p.HitsFrom)
	}
	m.state.appendHits(pipeline, p.Hits)
	if p.HitsBefore != nil {
		m.state.deleteHitsBefore(pipeline, *p.HitsBefore)
	}
	for _, floor := range p.HitsBeforeOf {
		m.state.deleteHitsBeforeOf(pipeline, floor)
	}
	for _, stored := range p.Metas {
		m.state.setMeta(pipeline, stored)
	}
	return nil
}

// Quiesce implements ports.Storage. It takes its turn at the lock, behind all calls that began.
func (m *Storage) Quiesce(ctx context.Context) error {
	if err := m.begin(ctx, "storage.quiesce"); err != nil {
		return err
	}
	m.unlock()
	return nil
}

// Close makes every later call STORE_CLOSED.
func (m *Storage) Close() error {
	m.lock <- struct{}{}
	defer m.unlock()
	m.closed = true
	return nil
}

// sorted is an ordered copy, never nil.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	ordered := append([]T{}, list...)
	slices.SortStableFunc(ordered, compare)
	return ordered
}

func cloneResource(r types.Resource) types.Resource {
	r.Value = bytes.Clone(r.Value)
	return r
}

func cloneHit(h types.GateHit) types.GateHit {
	h.Event = bytes.Clone(h.Event)
	return h
}

func compareResources(a, b types.Resource) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
}

func compareCheckpoints(a, b types.PipelineCheckpoint) int {
	return cmp.Compare(a.Pipeline, b.Pipeline)
}

func comparePauses(a, b types.Pause) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), strings.Compare(a.ID, b.ID))
}

func compareDeliveries(a, b delivery) int {
	return cmp.Or(cmp.Compare(a.pipeline, b.pipeline), a.Cursor.Compare(b.Cursor), cmp.Compare(a.MatchID, b.MatchID))
}

func compareHits(a, b hit) int {
	return cmp.Or(cmp.Compare(a.pipeline, b.pipeline), cmp.Compare(a.Monitor, b.Monitor), a.Cursor.Compare(b.Cursor), cmp.Compare(a.Index, b.Index))
}

func compareMetas(a, b meta) int {
	return cmp.Or(cmp.Compare(a.pipeline, b.pipeline), cmp.Compare(a.Monitor, b.Monitor))
}
