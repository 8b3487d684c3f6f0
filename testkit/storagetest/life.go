package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// method is one call of the port, with input that is good and that changes a store after [fix.fill].
type method struct {
	name string
	call func(context.Context, ports.Storage) error
}

func (f *fix) methods() []method {
	all := []method{
		{"getResource", func(ctx context.Context, s ports.Storage) error {
			_, _, err := s.GetResource(ctx, "pipeline", "p")
			return err
		}},
		{"listResources", func(ctx context.Context, s ports.Storage) error {
			_, err := s.ListResources(ctx, "pipeline", types.ResourceListOptions{})
			return err
		}},
		{"resourceKinds", func(ctx context.Context, s ports.Storage) error { _, err := s.ResourceKinds(ctx); return err }},
		{"putResource", func(ctx context.Context, s ports.Storage) error {
			_, err := s.PutResource(ctx, "k", "new", []byte("1"), 0)
			return err
		}},
		{"putResource of a version", func(ctx context.Context, s ports.Storage) error {
			_, err := s.PutResource(ctx, "pipeline", "p", []byte("1"), 2)
			return err
		}},
		{"putResources", func(ctx context.Context, s ports.Storage) error {
			return s.PutResources(ctx, []types.Resource{{Kind: "k", ID: "new2", Value: []byte("1")}})
		}},
		{"deleteResource", func(ctx context.Context, s ports.Storage) error { return s.DeleteResource(ctx, "sink", "p", 1) }},
		{"loadCheckpoint", func(ctx context.Context, s ports.Storage) error { _, _, err := s.LoadCheckpoint(ctx, "p"); return err }},
		{"saveCheckpoint", func(ctx context.Context, s ports.Storage) error {
			return s.SaveCheckpoint(ctx, "p", aCheckpoint(900, 0))
		}},
		{"listCheckpoints", func(ctx context.Context, s ports.Storage) error { _, err := s.ListCheckpoints(ctx); return err }},
		{"deleteCheckpoint", func(ctx context.Context, s ports.Storage) error { _, err := s.DeleteCheckpoint(ctx, "q"); return err }},
		{"recordDeadLetter", func(ctx context.Context, s ports.Storage) error { return s.RecordDeadLetter(ctx, "p", letter("new")) }},
		{"listDeadLetters", func(ctx context.Context, s ports.Storage) error {
			_, err := s.ListDeadLetters(ctx, "p", types.LetterQuery{Take: 10})
			return err
		}},
		{"getDeadLetter", func(ctx context.Context, s ports.Storage) error {
			_, _, err := s.GetDeadLetter(ctx, "p", "a")
			return err
		}},
		{"countDeadLetters", func(ctx context.Context, s ports.Storage) error { _, err := s.CountDeadLetters(ctx); return err }},
		{"updateDeadLetter", func(ctx context.Context, s ports.Storage) error {
			_, err := s.UpdateDeadLetter(ctx, "p", letter("a"))
			return err
		}},
		{"deleteDeadLetter", func(ctx context.Context, s ports.Storage) error {
			_, err := s.DeleteDeadLetter(ctx, "p", "b")
			return err
		}},
		{"deleteDeadLetters", func(ctx context.Context, s ports.Storage) error {
			_, err := s.DeleteDeadLetters(ctx, "p", []types.MatchID{"c"})
			return err
		}},
		{"deleteAllDeadLetters", func(ctx context.Context, s ports.Storage) error {
			_, err := s.DeleteAllDeadLetters(ctx, "q", math.MaxInt64)
			return err
		}},
		{"pause", func(ctx context.Context, s ports.Storage) error { return s.Pause(ctx, types.PipelineOf("p")) }},
		{"resume", func(ctx context.Context, s ports.Storage) error { return s.Resume(ctx, types.PipelineOf("q")) }},
		{"paused", func(ctx context.Context, s ports.Storage) error {
			_, err := s.Paused(ctx, types.PipelineOf("q"))
			return err
		}},
		{"listPauses", func(ctx context.Context, s ports.Storage) error { _, err := s.ListPauses(ctx); return err }},
		{"recordDeliveries", func(ctx context.Context, s ports.Storage) error {
			return s.RecordDeliveries(ctx, "p", []types.Delivery{delivery(900, 0, "new")})
		}},
		{"delivered", func(ctx context.Context, s ports.Storage) error {
			_, err := s.Delivered(ctx, "p", at(0, 0), last)
			return err
		}},
		{"appendHits", func(ctx context.Context, s ports.Storage) error {
			return s.AppendHits(ctx, "p", []types.GateHit{hit(900, 0, 0, 0)})
		}},
		{"hits", func(ctx context.Context, s ports.Storage) error { _, err := s.Hits(ctx, "p", "m", 0); return err }},
		{"deleteHitsBefore", func(ctx context.Context, s ports.Storage) error { return s.DeleteHitsBefore(ctx, "p", 100) }},
		{"deleteHitsFrom", func(ctx context.Context, s ports.Storage) error { return s.DeleteHitsFrom(ctx, "q", 100) }},
		{"gateMeta", func(ctx context.Context, s ports.Storage) error { _, _, err := s.GateMeta(ctx, "p", "m"); return err }},
		{"setGateMeta", func(ctx context.Context, s ports.Storage) error {
			return s.SetGateMeta(ctx, "p", "m", types.GateMeta{})
		}},
		{"apply", func(ctx context.Context, s ports.Storage) error { return s.Apply(ctx, "p", everything(900)) }},
		{"quiesce", func(ctx context.Context, s ports.Storage) error { return s.Quiesce(ctx) }},
	}
	if f.h.CanCountDeliveries {
		all = append(all, method{"countDeliveries", func(ctx context.Context, s ports.Storage) error {
			_, err := s.(ports.JournalCounter).CountDeliveries(ctx)
			return err
		}})
	}
	if f.h.CanArchive {
		all = append(all, method{"export", func(ctx context.Context, s ports.Storage) error {
			return s.(ports.Archiver).Export(ctx, func(types.Record) error { return nil })
		}}, method{"import", func(ctx context.Context, s ports.Storage) error {
			_, err := s.(ports.Archiver).Import(ctx, sequence(sample(), nil))
			return err
		}})
	}
	return all
}

var lifeCases = []testCase{
	{name: "a call whose context was cancelled leaves nothing behind", run: func(f *fix) {
		f.fill()
		before := f.dump()
		for _, m := range f.methods() {
			require.ErrorIs(f, m.call(fixture.Cancelled(f), f.s), context.Canceled, m.name)
			f.wantState(before, m.name)
		}
	}},
	{name: "a call whose deadline has passed leaves nothing behind", run: func(f *fix) {
		f.fill()
		before := f.dump()
		ctx, cancel := context.WithDeadline(f.ctx, time.Unix(0, 0))
		defer cancel()
		for _, m := range f.methods() {
			require.ErrorIs(f, m.call(ctx, f.s), context.DeadlineExceeded, m.name)
		}
		f.wantState(before, "calls whose deadline has passed")
	}},
	{name: "an import that was cancelled leaves an empty store empty", run: func(f *fix) {
		_, err := f.archiver().Import(fixture.Cancelled(f), sequence(sample(), nil))
		require.ErrorIs(f, err, context.Canceled)
		require.Empty(f, f.dump())
		f.importAll(sample())
	}},
	{name: "an import whose context ends on the way stores all or nothing", run: func(f *fix) {
		archiver := f.archiver()
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		n, err := archiver.Import(ctx, func(yield func(types.Record, error) bool) {
			for i, r := range sample() {
				if i == 3 {
					cancel()
				}
				if !yield(r, nil) {
					return
				}
			}
		})
		if err == nil {
			require.Equal(f, int64(len(sample())), n)
			require.Equal(f, linesOf(sample()), f.dump())
			return
		}
		require.ErrorIs(f, err, context.Canceled)
		require.Zero(f, n)
		require.Empty(f, f.dump())
	}},
	{name: "a closed store says so", run: func(f *fix) {
		g := newFix(f.T, f.h, 0)
		g.fill()
		closeStorage(f, g.s)
		for _, m := range f.methods() {
			err := m.call(f.ctx, g.s)
			require.ErrorIs(f, err, ports.ErrStoreClosed, m.name)
			require.True(f, ports.IsTransient(err), m.name)
		}
	}},
	{name: "closing twice is closing once", run: func(f *fix) {
		g := newFix(f.T, f.h, 0)
		closeStorage(f, g.s)
		closeStorage(f, g.s)
	}},
	{name: "calls that race with a close are done whole or refused", run: func(f *fix) {
		const callers, each = 8, 50
		g := newFix(f.T, f.h, 0)
		done := make([]int, callers)
		errs := make([]error, callers)
		started := make(chan struct{}, callers)
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := range each {
					p := types.PipelineID(fmt.Sprintf("c%d", c))
					errs[c] = g.s.Apply(g.ctx, p, everything(uint64(i+1)))
					if i == 0 {
						started <- struct{}{}
					}
					if errs[c] != nil {
						break
					}
					done[c] = i + 1
				}
			})
		}
		for range callers {
			<-started
		}
		closeStorage(f, g.s)
		wg.Wait()
		for c := range callers {
			if errs[c] != nil {
				require.ErrorIs(f, errs[c], ports.ErrStoreClosed)
			}
		}
		if !f.h.Durable {
			return
		}
		g.s = g.store.Reopen(f)
		for c := range callers {
			p := types.PipelineID(fmt.Sprintf("c%d", c))
			n := uint64(done[c])
			g.wantCheckpoint(p, aCheckpoint(n, 1))
			g.wantDelivered(p, delivery(n, 0, "d1"), delivery(n, 1, "d2"))
			g.wantMeta(p, "m", types.GateMeta{LastEmitTS: new(int64(n))})
		}
	}},
	{name: "two fresh stores share nothing", run: func(f *fix) {
		g := newFix(f.T, f.h, 0)
		f.fill()
		require.Empty(g, g.dump())
		g.fill()
		before := g.dump()
		f.deleteThrough("p", math.MaxInt64, 3)
		f.deleteFrom(0)
		g.wantState(before, "changes of another store")
	}},
	{name: "durability is as claimed", depth: 10, run: func(f *fix) {
		if !f.h.Durable && f.store.Reopen == nil {
			f.Skip("the harness claims no durability and cannot reopen")
		}
		require.NotNil(f, f.store.Reopen, "a durable harness reopens")
		f.fill()
		f.fillPointers()
		f.apply("p.", everything(50))
		f.deleteLetter("q", "l2", true) // the newest letter of all
		before, letters := f.dump(), f.letters("q")
		highest := int64(0)
		for _, l := range f.letters("p.") {
			highest = max(highest, l.Position)
		}

		f.reopen()
		if !f.h.Durable {
			require.Empty(f, f.dump(), "durability is not claimed: want nothing after a reopen")
			return
		}
		f.wantState(before, "a reopen")
		require.Equal(f, letters, f.letters("q"), "positions stay")
		f.put("pipeline", "p", `3`, 2)
		_, err := f.s.PutResource(f.ctx, "pipeline", "p", []byte("0"), 2)
		f.wantConflict(err, "storage.putResource", 2, 3)
		f.deliver("p", delivery(89, 0, "late"), delivery(90, 0, "edge"))
		require.Equal(f, at(90, 0), f.window("p", at(0, 0), last)[0].Cursor, "the journal still knows its highest primary")
		f.recordIDs("p.", "l1", "new")
		f.wantLetters("p.", "l1", "l2", "new")
		require.Greater(f, f.stored("p.", "new").Position, highest)
		highest = f.stored("p.", "new").Position
		f.deleteThrough("p.", math.MaxInt64, 3)
		before = f.dump()

		f.reopen()
		f.wantState(before, "another reopen")
		f.recordIDs("p.", "newer")
		require.Greater(f, f.stored("p.", "newer").Position, highest, "a position is not given again after a reopen either")
	}},
	{name: "each category by itself is as durable as claimed", run: func(f *fix) {
		if !f.h.Durable || !f.h.CanArchive {
			f.Skip("the harness does not claim Durable and CanArchive")
		}
		for _, r := range sample() {
			g := newFix(f.T, f.h, 0)
			g.importAll([]types.Record{r})
			g.reopen()
			require.Equal(g, []types.Record{r}, g.export())
		}
	}},
	{name: "a second handle is as claimed", run: func(f *fix) {
		if !f.h.MultiHandle && f.store.Second == nil {
			f.Skip("the harness claims no second handle and cannot try one")
		}
		require.NotNil(f, f.store.Second, "a harness with MultiHandle opens a second handle")
		f.fill()
		before := f.dump()
		second, err := f.store.Second(f)
		if !f.h.MultiHandle {
			require.ErrorIs(f, err, ports.ErrInUse, "a second handle that is not claimed")
			f.wantState(before, "a second handle that was refused")
			f.save("p", aCheckpoint(7, 7))
			return
		}
		require.NoError(f, err)
		first := f.s
		f.s = second
		f.wantState(before, "a second handle")
		f.apply("p", everything(200))
		changed := f.dump()
		f.s = first
		f.wantState(changed, "what the second handle has changed")
		closeStorage(f, second)
		f.save("p", aCheckpoint(7, 7))
	}},
	{name: "backup is as claimed", run: func(f *fix) {
		store, ok := f.s.(ports.Backuper)
		require.Equal(f, f.h.CanBackup, ok, "the store is a ports.Backuper: want what the harness claims")
		if !ok {
			return
		}
		f.fill()
		before := f.dump()
		path := filepath.Join(f.TempDir(), "copy")
		require.NoError(f, store.Backup(f.ctx, path))
		require.FileExists(f, path)
		require.ErrorIs(f, store.Backup(f.ctx, path), ports.ErrAlreadyExists, "a backup never overwrites")
		require.NoError(f, store.Verify(f.ctx))
		require.ErrorIs(f, store.Backup(fixture.Cancelled(f), path+"2"), context.Canceled)
		require.NoFileExists(f, path+"2")
		f.wantState(before, "a backup")
	}},
	{name: "a health check is as claimed", run: func(f *fix) {
		store, ok := f.s.(ports.HealthChecker)
		require.Equal(f, f.h.CanCheckHealth, ok, "the store is a ports.HealthChecker: want what the harness claims")
		if ok {
			f.fill()
			require.NoError(f, store.HealthCheck(f.ctx))
		}
	}},
}

// gaveUp reports whether an error is that of a caller who gave up.
func gaveUp(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
