package pipeline

import (
	"context"
	"sync"

	"github.com/stowage-go/stowage/core/checkpoint"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// ledger knows which events of a run are settled, and stores the checkpoint together with the gates'
// state at its very place.
//
// Each read is a step. A step is settled when each of its matches is recorded as delivered or
// dead-lettered; the checkpoint is the last cursor of the last step before which all are settled.
type ledger struct {
	pipeline types.PipelineID
	storage  ports.Storage
	saved    func(ctx context.Context, cursor types.Cursor) // is told of each checkpoint that is stored

	tracker checkpoint.Tracker
	writer  *checkpoint.Writer

	storing chan struct{} // holds a token while somebody stores hits

	mu        sync.Mutex
	next      uint64
	steps     map[uint64]*step
	hits      []types.GateHit // counted and not stored. Those ahead of the checkpoint do no harm: a gate that is restored passes over them
	markBytes int             // of the metas in marks
	marks     []mark          // the state of gates after steps, in order
}

type step struct {
	last types.Cursor
	open int // matches that are not settled, and one while the step is being filled
}

// mark is what has to be stored with a checkpoint at or behind the cursor.
type mark struct {
	cursor types.Cursor
	metas  []types.MonitorMeta
	floors []types.MonitorFloor
}

func (m mark) size() int {
	bytes := 0
	for _, meta := range m.metas {
		bytes += len(meta.Meta.Aux)
	}
	return bytes
}

// begin opens a step. Its first match may be settled before it is filled, so it stays open until filled.
func (l *ledger) begin(last types.Cursor) (uint64, error) {
	if err := l.tracker.Begin(last); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	l.steps[l.next] = &step{last: last, open: 1}
	return l.next, nil
}

// counted keeps what the gates have counted in a step, and what has changed of them, unless nil.
func (l *ledger) counted(hits []types.GateHit, m *mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hits = append(l.hits, hits...)
	if m != nil {
		l.marks = append(l.marks, *m)
		l.markBytes += m.size()
	}
}

// expect says that a step has so many matches more.
func (l *ledger) expect(number uint64, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps[number].open += n
}

// settle says that n matches of a step are dealt with, durably.
func (l *ledger) settle(number uint64, n int) error {
	l.mu.Lock()
	s := l.steps[number]
	s.open -= n
	settled := s.open == 0
	if settled {
		delete(l.steps, number)
	}
	l.mu.Unlock()
	if !settled {
		return nil
	}
	if err := l.tracker.Done(s.last); err != nil {
		return err
	}
	if safe, ok := l.tracker.Safe(); ok {
		l.writer.Advance(safe)
	}
	return nil
}

// relieve stores the hits ahead of their checkpoint if there are many.
func (l *ledger) relieve(ctx context.Context) error {
	l.mu.Lock()
	_, full := l.batch()
	l.mu.Unlock()
	if !full {
		return nil // without a wait for a checkpoint that is being stored
	}
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.release()
	return l.storeHits(ctx)
}

// take waits for the turn to store hits.
func (l *ledger) take(ctx context.Context) error {
	select {
	case l.storing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *ledger) release() { <-l.storing }

// storeHits stores hits until those that are left fit into one call. The caller has the turn.
func (l *ledger) storeHits(ctx context.Context) error {
	for {
		l.mu.Lock()
		n, full := l.batch()
		batch := l.hits[:n:n]
		l.mu.Unlock()
		if !full {
			return nil
		}
		if err := l.storage.Apply(ctx, l.pipeline, types.Progress{Hits: batch}); err != nil {
			return err
		}
		l.drop(n)
	}
}

// batch is how many of the hits go into one call, and whether they fill it. The caller holds mu.
func (l *ledger) batch() (n int, full bool) {
	bytes := 0
	for n < len(l.hits) && n < hitsPerApply && bytes < hitsMemory {
		bytes += len(l.hits[n].Event)
		n++
	}
	return n, n == hitsPerApply || bytes >= hitsMemory
}

// heavy reports whether the states of gates that wait for their checkpoint are too much to keep more.
func (l *ledger) heavy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.markBytes >= marksMemory
}

// drop forgets the first n hits, which are stored.
func (l *ledger) drop(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hits = l.hits[n:]
	if len(l.hits) == 0 {
		l.hits = nil // the memory behind what was cut off
	}
}

// SaveCheckpoint implements checkpoint.Saver: one Apply of the checkpoint and of what the gates are at
// it. Only the state at this very cursor will do, since the events behind it come again.
func (l *ledger) SaveCheckpoint(ctx context.Context, pipeline types.PipelineID, cp types.Checkpoint) error {
	if err := l.store(ctx, pipeline, cp); err != nil {
		return err
	}
	l.saved(ctx, cp.Cursor) // a source that takes its time to settle holds up nobody who stores hits
	return nil
}

func (l *ledger) store(ctx context.Context, pipeline types.PipelineID, cp types.Checkpoint) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.release()
	if err := l.storeHits(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	progress := types.Progress{Checkpoint: &cp, Hits: l.hits[:len(l.hits):len(l.hits)]}
	metas := map[types.MonitorID]types.GateMeta{}
	floors := map[types.MonitorID]uint64{}
	passed := 0
	for passed < len(l.marks) && l.marks[passed].cursor.Compare(cp.Cursor) <= 0 {
		m := l.marks[passed]
		for _, meta := range m.metas {
			metas[meta.Monitor] = meta.Meta
		}
		for _, f := range m.floors {
			floors[f.Monitor] = f.Primary
		}
		passed++
	}
	l.mu.Unlock()
	for id, primary := range floors {
		progress.HitsBeforeOf = append(progress.HitsBeforeOf, types.MonitorFloor{Monitor: id, Primary: primary})
	}
	for id, meta := range metas {
		progress.Metas = append(progress.Metas, types.MonitorMeta{Monitor: id, Meta: meta})
	}
	if err := l.storage.Apply(ctx, pipeline, progress); err != nil {
		return err
	}
	l.drop(len(progress.Hits))
	l.mu.Lock()
	for _, m := range l.marks[:passed] {
		l.markBytes -= m.size()
	}
	l.marks = l.marks[passed:]
	if len(l.marks) == 0 {
		l.marks = nil
	}
	l.mu.Unlock()
	return nil
}

// holdFrom is the primary from which on the delivery journal has to be kept.
func (l *ledger) holdFrom() uint64 {
	saved, _ := l.writer.Saved()
	return saved.Primary
}

// open is the number of steps that are not settled.
func (l *ledger) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.steps)
}
