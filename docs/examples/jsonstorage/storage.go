package jsonstorage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Storage is a ports.Storage.
type Storage struct {
	path  string
	depth int64
	lock  *os.File

	mu     sync.Mutex
	closed bool
	state  *state // never changed in place: a change makes a new one, writes it, and swaps it in
	text   []byte // the file's content, which is state
}

// Open opens the store at path, made if missing, with a delivery journal of the depth; 0 is
// ports.DefaultDepth. One that is open already is ErrInUse.
func Open(path string, depth int64) (*Storage, error) {
	const op = "storage.open"
	depth, err := ports.CheckDepth(op, depth)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op, "make the directory of %s: %w", path, err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op, "open the lock of %s: %w", path, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(ports.Errorf(ports.CodeBindingSetupFailed, op,
			"%s is open already, here or in another process; close it there: %w", path, err).WithReason(ports.ReasonInUse), lock.Close())
	}
	s := &Storage{path: path, depth: depth, lock: lock}
	s.text, err = os.ReadFile(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		s.state, err = decode(s.text)
	}
	if err != nil {
		return nil, errors.Join(ports.Errorf(ports.CodeBindingSetupFailed, op, "read %s, which was left as it is: %w", path, err), lock.Close())
	}
	return s, nil
}

// read looks at the state. What look hands out is a copy.
func (s *Storage) read(ctx context.Context, op string, look func(*state)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx, op); err != nil {
		return err
	}
	look(s.state)
	return nil
}

// change makes a copy of the state, changes it by step, writes it aside, and moves it into place: what
// fails on the way, step included, leaves everything as it was.
func (s *Storage) change(ctx context.Context, op string, step func(*state) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx, op); err != nil {
		return err
	}
	next, err := decode(s.text)
	if err != nil {
		return ports.Errorf(ports.CodeBackendFailed, op, "copy the state of %s, which is as it was: %w", s.path, err)
	}
	if err := step(next); err != nil {
		return err
	}
	text, err := ports.EncodeJSON(next)
	if err == nil {
		err = os.WriteFile(s.path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(s.path+".new", s.path)
	}
	if err != nil {
		return ports.Errorf(ports.CodeBackendFailed, op, "write %s, which is as it was: %w", s.path, err)
	}
	s.state, s.text = next, text
	return nil
}

// changePipeline is change for what belongs to one pipeline and cannot fail.
func (s *Storage) changePipeline(ctx context.Context, op string, id types.PipelineID, step func(*state, *pipeline)) error {
	return s.change(ctx, op, func(st *state) error {
		p := st.Pipelines[id]
		step(st, &p)
		put(&st.Pipelines, id, p)
		if p.empty() {
			delete(st.Pipelines, id)
		}
		return nil
	})
}

// ready looks at the context once the lock is held, so that a call whose caller gave up while it waited
// does nothing.
func (s *Storage) ready(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed {
		return ports.Errorf(ports.CodeStoreClosed, op, "%s is closed", s.path)
	}
	return nil
}

// GetResource implements ports.ResourceStore.
func (s *Storage) GetResource(ctx context.Context, kind types.ResourceKind, id string) (found types.Resource, ok bool, err error) {
	const op = "storage.getResource"
	if err := ports.CheckResourceKey(op, kind, id); err != nil {
		return found, false, err
	}
	err = s.read(ctx, op, func(st *state) {
		if r, there := st.Resources[kind][id]; there {
			found, ok = r.export(kind, id), true
		}
	})
	return found, ok, err
}

// ListResources implements ports.ResourceStore.
func (s *Storage) ListResources(ctx context.Context, kind types.ResourceKind, opts types.ResourceListOptions) (page types.ResourcePage, err error) {
	const op = "storage.listResources"
	limit, err := ports.CheckResourceList(op, kind, opts)
	if err != nil {
		return page, err
	}
	err = s.read(ctx, op, func(st *state) {
		for _, id := range slices.Sorted(maps.Keys(st.Resources[kind])) {
			if id <= opts.After {
				continue
			}
			if len(page.Resources) == limit {
				page.Next = page.Resources[limit-1].ID
				return
			}
			page.Resources = append(page.Resources, st.Resources[kind][id].export(kind, id))
		}
	})
	return page, err
}

// ResourceKinds implements ports.ResourceStore.
func (s *Storage) ResourceKinds(ctx context.Context) (kinds []types.ResourceKind, err error) {
	err = s.read(ctx, "storage.resourceKinds", func(st *state) { kinds = slices.Sorted(maps.Keys(st.Resources)) })
	return kinds, err
}

// PutResource implements ports.ResourceStore.
func (s *Storage) PutResource(ctx context.Context, kind types.ResourceKind, id string, value []byte, expected uint64) (uint64, error) {
	const op = "storage.putResource"
	if err := ports.CheckResource(op, kind, id, value, expected); err != nil {
		return 0, err
	}
	err := s.change(ctx, op, func(st *state) error {
		if err := st.expect(op, kind, id, expected); err != nil {
			return err
		}
		st.putResource(kind, id, resource{expected + 1, string(value)})
		return nil
	})
	if err != nil {
		return 0, err
	}
	return expected + 1, nil
}

// PutResources implements ports.ResourceStore.
func (s *Storage) PutResources(ctx context.Context, resources []types.Resource) error {
	const op = "storage.putResources"
	if err := ports.CheckResourceBatch(op, resources); err != nil {
		return err
	}
	return s.change(ctx, op, func(st *state) error {
		for _, r := range resources {
			if err := st.expect(op, r.Kind, r.ID, 0); err != nil {
				return err
			}
			st.putResource(r.Kind, r.ID, resource{1, string(r.Value)})
		}
		return nil
	})
}

// DeleteResource implements ports.ResourceStore.
func (s *Storage) DeleteResource(ctx context.Context, kind types.ResourceKind, id string, expected uint64) error {
	const op = "storage.deleteResource"
	if err := ports.CheckResourceDelete(op, kind, id, expected); err != nil {
		return err
	}
	return s.change(ctx, op, func(st *state) error {
		if err := st.expect(op, kind, id, expected); err != nil {
			return err
		}
		delete(st.Resources[kind], id)
		if len(st.Resources[kind]) == 0 {
			delete(st.Resources, kind)
		}
		return nil
	})
}

// LoadCheckpoint implements ports.CheckpointStore.
func (s *Storage) LoadCheckpoint(ctx context.Context, id types.PipelineID) (checkpoint types.Checkpoint, ok bool, err error) {
	const op = "storage.loadCheckpoint"
	if err := ports.CheckPipeline(op, id); err != nil {
		return checkpoint, false, err
	}
	err = s.read(ctx, op, func(st *state) {
		if stored := st.Pipelines[id].Checkpoint; stored != nil {
			checkpoint, ok = stored.Clone(), true
		}
	})
	return checkpoint, ok, err
}

// SaveCheckpoint implements ports.CheckpointStore.
func (s *Storage) SaveCheckpoint(ctx context.Context, id types.PipelineID, checkpoint types.Checkpoint) error {
	const op = "storage.saveCheckpoint"
	checkpoint, err := ports.CheckCheckpoint(op, id, checkpoint)
	if err != nil {
		return err
	}
	return s.changePipeline(ctx, op, id, func(_ *state, p *pipeline) { p.Checkpoint = &checkpoint })
}

// ListCheckpoints implements ports.CheckpointStore.
func (s *Storage) ListCheckpoints(ctx context.Context) (list []types.PipelineCheckpoint, err error) {
	err = s.read(ctx, "storage.listCheckpoints", func(st *state) {
		for _, id := range slices.Sorted(maps.Keys(st.Pipelines)) {
			if stored := st.Pipelines[id].Checkpoint; stored != nil {
				list = append(list, types.PipelineCheckpoint{Pipeline: id, Checkpoint: stored.Clone()})
			}
		}
	})
	return list, err
}

// DeleteCheckpoint implements ports.CheckpointStore.
func (s *Storage) DeleteCheckpoint(ctx context.Context, id types.PipelineID) (ok bool, err error) {
	const op = "storage.deleteCheckpoint"
	if err := ports.CheckPipeline(op, id); err != nil {
		return false, err
	}
	err = s.changePipeline(ctx, op, id, func(_ *state, p *pipeline) { ok, p.Checkpoint = p.Checkpoint != nil, nil })
	return ok && err == nil, err
}

// RecordDeadLetter implements ports.DeadLetterStore.
func (s *Storage) RecordDeadLetter(ctx context.Context, id types.PipelineID, l types.DeadLetter) error {
	const op = "storage.recordDeadLetter"
	l, err := ports.CheckDeadLetter(op, id, l)
	if err != nil {
		return err
	}
	return s.changePipeline(ctx, op, id, func(st *state, p *pipeline) { st.recordLetter(p, l) })
}

// ListDeadLetters implements ports.DeadLetterStore.
func (s *Storage) ListDeadLetters(ctx context.Context, id types.PipelineID, query types.LetterQuery) (page []types.StoredLetter, err error) {
	const op = "storage.listDeadLetters"
	if err := ports.CheckLetterQuery(op, id, query); err != nil {
		return nil, err
	}
	err = s.read(ctx, op, func(st *state) {
		letters := slices.SortedFunc(maps.Values(st.Pipelines[id].Letters), func(a, b letter) int { return cmp.Compare(a.Position, b.Position) })
		letters = slices.DeleteFunc(letters, func(l letter) bool { return l.Position <= query.After })
		letters = letters[min(query.Skip, len(letters)):]
		for _, l := range letters[:min(query.Take, len(letters))] {
			page = append(page, l.export())
		}
	})
	return page, err
}

// GetDeadLetter implements ports.DeadLetterStore.
func (s *Storage) GetDeadLetter(ctx context.Context, id types.PipelineID, match types.MatchID) (found types.StoredLetter, ok bool, err error) {
	const op = "storage.getDeadLetter"
	if err := ports.CheckMatchIDs(op, id, []types.MatchID{match}); err != nil {
		return found, false, err
	}
	err = s.read(ctx, op, func(st *state) {
		if l, there := st.Pipelines[id].Letters[match]; there {
			found, ok = l.export(), true
		}
	})
	return found, ok, err
}

// CountDeadLetters implements ports.DeadLetterStore.
func (s *Storage) CountDeadLetters(ctx context.Context) (counts []types.LetterCount, err error) {
	err = s.read(ctx, "storage.countDeadLetters", func(st *state) {
		for _, id := range slices.Sorted(maps.Keys(st.Pipelines)) {
			if n := len(st.Pipelines[id].Letters); n > 0 {
				counts = append(counts, types.LetterCount{Pipeline: id, Count: int64(n)})
			}
		}
	})
	return counts, err
}

// UpdateDeadLetter implements ports.DeadLetterStore.
func (s *Storage) UpdateDeadLetter(ctx context.Context, id types.PipelineID, l types.DeadLetter) (ok bool, err error) {
	const op = "storage.updateDeadLetter"
	l, err = ports.CheckDeadLetter(op, id, l)
	if err != nil {
		return false, err
	}
	err = s.changePipeline(ctx, op, id, func(st *state, p *pipeline) {
		if _, ok = p.Letters[l.MatchID]; ok {
			st.recordLetter(p, l)
		}
	})
	return ok && err == nil, err
}

// DeleteDeadLetter implements ports.DeadLetterStore.
func (s *Storage) DeleteDeadLetter(ctx context.Context, id types.PipelineID, match types.MatchID) (bool, error) {
	n, err := s.deleteDeadLetters(ctx, "storage.deleteDeadLetter", id, []types.MatchID{match})
	return n == 1, err
}

// DeleteDeadLetters implements ports.DeadLetterStore.
func (s *Storage) DeleteDeadLetters(ctx context.Context, id types.PipelineID, matches []types.MatchID) (int64, error) {
	return s.deleteDeadLetters(ctx, "storage.deleteDeadLetters", id, matches)
}

func (s *Storage) deleteDeadLetters(ctx context.Context, op string, id types.PipelineID, matches []types.MatchID) (n int64, err error) {
	if err := ports.CheckMatchIDs(op, id, matches); err != nil {
		return 0, err
	}
	if err := s.changePipeline(ctx, op, id, func(_ *state, p *pipeline) { n = p.deleteLetters(matches...) }); err != nil {
		return 0, err
	}
	return n, nil
}

// DeleteAllDeadLetters implements ports.DeadLetterStore.
func (s *Storage) DeleteAllDeadLetters(ctx context.Context, id types.PipelineID, through int64) (n int64, err error) {
	const op = "storage.deleteAllDeadLetters"
	if err := ports.CheckPipeline(op, id); err != nil {
		return 0, err
	}
	err = s.changePipeline(ctx, op, id, func(_ *state, p *pipeline) {
		before := len(p.Letters)
		maps.DeleteFunc(p.Letters, func(_ types.MatchID, l letter) bool { return l.Position <= through })
		n = int64(before - len(p.Letters))
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Pause implements ports.PauseStore.
func (s *Storage) Pause(ctx context.Context, pause types.Pause) error {
	return s.setPause(ctx, "storage.pause", pause, true)
}

// Resume implements ports.PauseStore.
func (s *Storage) Resume(ctx context.Context, pause types.Pause) error {
	return s.setPause(ctx, "storage.resume", pause, false)
}

func (s *Storage) setPause(ctx context.Context, op string, pause types.Pause, paused bool) error {
	if err := ports.CheckPause(op, pause); err != nil {
		return err
	}
	return s.change(ctx, op, func(st *state) error {
		st.Pauses = slices.DeleteFunc(st.Pauses, func(p types.Pause) bool { return p == pause })
		if paused {
			st.Pauses = append(st.Pauses, pause)
			slices.SortFunc(st.Pauses, comparePauses)
		}
		return nil
	})
}

// Paused implements ports.PauseStore.
func (s *Storage) Paused(ctx context.Context, pause types.Pause) (paused bool, err error) {
	const op = "storage.paused"
	if err := ports.CheckPause(op, pause); err != nil {
		return false, err
	}
	err = s.read(ctx, op, func(st *state) { paused = slices.Contains(st.Pauses, pause) })
	return paused, err
}

// ListPauses implements ports.PauseStore.
func (s *Storage) ListPauses(ctx context.Context) (pauses []types.Pause, err error) {
	err = s.read(ctx, "storage.listPauses", func(st *state) { pauses = slices.Clone(st.Pauses) })
	return pauses, err
}

// RecordDeliveries implements ports.DeliveryJournal.
func (s *Storage) RecordDeliveries(ctx context.Context, id types.PipelineID, deliveries []types.Delivery) error {
	const op = "storage.recordDeliveries"
	if err := ports.CheckDeliveries(op, id, deliveries); err != nil {
		return err
	}
	return s.changePipeline(ctx, op, id, func(_ *state, p *pipeline) { p.recordDeliveries(deliveries, s.depth, nil) })
}

// Delivered implements ports.DeliveryJournal.
func (s *Storage) Delivered(ctx context.Context, id types.PipelineID, from, to types.Cursor) (window []types.Delivery, err error) {
	const op = "storage.delivered"
	if err := ports.CheckDelivered(op, id, from, to); err != nil {
		return nil, err
	}
	err = s.read(ctx, op, func(st *state) {
		for match, cursor := range st.Pipelines[id].Deliveries {
			if cursor.Compare(from) >= 0 && cursor.Compare(to) <= 0 {
				window = append(window, types.Delivery{Cursor: cursor, MatchID: match})
			}
		}
		slices.SortFunc(window, compareDeliveries)
	})
	return window, err
}

// AppendHits implements ports.GateJournal.
func (s *Storage) AppendHits(ctx context.Context, id types.PipelineID, hits []types.GateHit) error {
	const op = "storage.appendHits"
	hits, err := ports.CheckHits(op, id, hits)
	if err != nil {
		return err
	}
	return s.changePipeline(ctx, op, id, func(_ *state, p *pipeline) { p.appendHits(hits) })
}

// Hits implements ports.GateJournal.
func (s *Storage) Hits(ctx context.Context, id types.PipelineID, monitor types.MonitorID, since int64) (hits []types.GateHit, err error) {
	const op = "storage.hits"
	if err := ports.CheckMonitor(op, id, monitor); err != nil {
		return nil, err
	}
	err = s.read(ctx, op, func(st *state) {
		for _, h := range st.Pipelines[id].Hits {
			if h.Monitor == monitor && h.TS >= since {
				h.Event = bytes.Clone(h.Event)
				hits = append(hits, h)
			}
		}
	})
	return hits, err
}

// DeleteHitsBefore implements ports.GateJournal.
func (s *Storage) DeleteHitsBefore(ctx context.Context, id types.PipelineID, primary uint64) error {
	return s.deleteHits(ctx, "storage.deleteHitsBefore", id, primary, (*pipeline).deleteHitsBefore)
}

// DeleteHitsFrom implements ports.GateJournal.
func (s *Storage) DeleteHitsFrom(ctx context.Context, id types.PipelineID, primary uint64) error {
	return s.deleteHits(ctx, "storage.deleteHitsFrom", id, primary, (*pipeline).deleteHitsFrom)
}

func (s *Storage) deleteHits(ctx context.Context, op string, id types.PipelineID, primary uint64, from func(*pipeline, uint64)) error {
	if err := ports.CheckPipeline(op, id); err != nil {
		return err
	}
	if err := ports.CheckPrimary(op, primary); err != nil {
		return err
	}
	return s.changePipeline(ctx, op, id, func(_ *state, p *pipeline) { from(p, primary) })
}

// GateMeta implements ports.GateJournal.
func (s *Storage) GateMeta(ctx context.Context, id types.PipelineID, monitor types.MonitorID) (meta types.GateMeta, ok bool, err error) {
	const op = "storage.gateMeta"
	if err := ports.CheckMonitor(op, id, monitor); err != nil {
		return meta, false, err
	}
	err = s.read(ctx, op, func(st *state) {
		meta, ok = st.Pipelines[id].Metas[monitor]
		meta = meta.Clone()
	})
	return meta, ok, err
}

// SetGateMeta implements ports.GateJournal.
func (s *Storage) SetGateMeta(ctx context.Context, id types.PipelineID, monitor types.MonitorID, meta types.GateMeta) error {
	const op = "storage.setGateMeta"
	meta, err := ports.CheckGateMeta(op, id, monitor, meta)
	if err != nil {
		return err
	}
	return s.changePipeline(ctx, op, id, func(_ *state, p *pipeline) { put(&p.Metas, monitor, meta) })
}

// Apply implements ports.Storage.
func (s *Storage) Apply(ctx context.Context, id types.PipelineID, progress types.Progress) error {
	const op = "storage.apply"
	progress, err := ports.CheckProgress(op, id, progress)
	if err != nil {
		return err
	}
	return s.changePipeline(ctx, op, id, func(st *state, p *pipeline) {
		if progress.Checkpoint != nil {
			p.Checkpoint = progress.Checkpoint
		}
		p.recordDeliveries(progress.Deliveries, s.depth, progress.JournalFrom)
		p.deleteLetters(progress.Settled...)
		for _, l := range progress.DeadLetters {
			st.recordLetter(p, l)
		}
		if progress.HitsFrom != nil {
			p.deleteHitsFrom(*progress.HitsFrom)
		}
		p.appendHits(progress.Hits)
		if progress.HitsBefore != nil {
			p.deleteHitsBefore(*progress.HitsBefore)
		}
		for _, f := range progress.HitsBeforeOf {
			p.deleteHitsBeforeOf(f)
		}
		for _, m := range progress.Metas {
			put(&p.Metas, m.Monitor, m.Meta)
		}
	})
}

// Quiesce implements ports.Storage. A call begins when it has the lock, so that whoever gets the lock
// finds none under way.
func (s *Storage) Quiesce(ctx context.Context) error {
	return s.read(ctx, "storage.quiesce", func(*state) {})
}

// Close gives the file free. It may be called again.
func (s *Storage) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.lock.Close()
}

func (r resource) export(kind types.ResourceKind, id string) types.Resource {
	return types.Resource{Kind: kind, ID: id, Version: r.Version, Value: []byte(r.Value)}
}

func (l letter) export() types.StoredLetter {
	return types.StoredLetter{Position: l.Position, Letter: l.Letter.Clone()}
}
