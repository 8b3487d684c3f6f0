package storagetest

import (
	"math"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// spoil overwrites every byte, and what an append would reach.
func spoil[B ~[]byte](b B) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = 'X'
	}
}

func spoilCheckpoint(c *types.Checkpoint) { *c.Module = "spoilt" }

func spoilLetter(l *types.DeadLetter) {
	if m := l.Payload.Match; m != nil {
		spoil(m.Event)
		*m = types.Match{}
	}
	if m := l.Payload.Emission; m != nil {
		spoil(m.Match.Event)
		*m = types.Emission{}
	}
	*l.Payload = types.SinkEvent{}
	*l = types.DeadLetter{}
}

func spoilHits(hits []types.GateHit) {
	for i := range hits {
		spoil(hits[i].Event)
		hits[i] = types.GateHit{}
	}
}

func spoilMeta(m *types.GateMeta) {
	*m.LastEmitTS = 99
	spoil(m.Aux)
}

func spoilProgress(p *types.Progress) {
	spoilCheckpoint(p.Checkpoint)
	*p.Checkpoint = types.Checkpoint{}
	for i := range p.Deliveries {
		p.Deliveries[i] = types.Delivery{}
	}
	for i := range p.Settled {
		p.Settled[i] = "spoilt"
	}
	for i := range p.DeadLetters {
		spoilLetter(&p.DeadLetters[i])
	}
	*p.HitsFrom, *p.HitsBefore = 99, 99
	for i := range p.HitsBeforeOf {
		p.HitsBeforeOf[i] = types.MonitorFloor{Monitor: "m", Primary: 99}
	}
	spoilHits(p.Hits)
	for i := range p.Metas {
		spoilMeta(&p.Metas[i].Meta)
		p.Metas[i] = types.MonitorMeta{}
	}
}

func spoilRecord(r types.Record) {
	switch {
	case r.Resource != nil:
		spoil(r.Resource.Value)
		*r.Resource = types.Resource{}
	case r.Checkpoint != nil:
		spoilCheckpoint(r.Checkpoint)
		*r.Checkpoint = types.Checkpoint{}
	case r.DeadLetter != nil:
		spoilLetter(r.DeadLetter)
	case r.Pause != nil:
		*r.Pause = types.Pause{}
	case r.Delivery != nil:
		*r.Delivery = types.Delivery{}
	case r.GateHit != nil:
		spoil(r.GateHit.Event)
		*r.GateHit = types.GateHit{}
	case r.GateMeta != nil:
		spoilMeta(&r.GateMeta.Meta)
		*r.GateMeta = types.MonitorMeta{}
	}
}

// fillPointers stores something of every category that has memory to share: slices and pointers
// everywhere. It returns how to spoil what the caller has kept.
func (f *fix) fillPointers() (spoilAll func()) {
	f.Helper()
	value, updated := []byte(` {"a":1} `), []byte(` {"a":2} `)
	_, err := f.s.PutResource(f.ctx, "k", "a", value, 0)
	require.NoError(f, err)
	_, err = f.s.PutResource(f.ctx, "k", "a", updated, 1)
	require.NoError(f, err)
	batch := []types.Resource{{Kind: "k", ID: "b", Value: []byte(`"b"`)}, {Kind: "k", ID: "c", Value: []byte(`"c"`)}}
	require.NoError(f, f.s.PutResources(f.ctx, batch))
	checkpoint := aCheckpoint(1, 1)
	f.save("p", checkpoint)
	// Compact events, which a store might keep as they are.
	recorded, changed := withMatch(letter("a"), `{"a":1}`), withEmission(letter("b"), `{"b":1}`)
	f.record("p", recorded, letter("b"))
	f.wantUpdate("p", changed, true)
	pause := types.PipelineOf("p")
	require.NoError(f, f.s.Pause(f.ctx, pause))
	deliveries := []types.Delivery{delivery(1, 1, "a"), delivery(2, 1, "b")}
	f.deliver("p", deliveries...)
	hits := []types.GateHit{hit(1, 1, 1, 1), hit(2, 1, 1, 2)}
	f.hit("p", hits...)
	meta := types.GateMeta{LastEmitTS: new(int64(7)), Aux: []byte("aux")}
	f.setMeta("p", "m", meta)
	progress := everything(5)
	for i := range progress.Metas {
		progress.Metas[i].Meta = types.GateMeta{LastEmitTS: new(int64(i)), Aux: []byte("of a progress")}
	}
	progress.DeadLetters = append(progress.DeadLetters, withMatch(letter("l3"), `{"compact":true}`))
	f.apply("q", progress)
	return func() {
		spoil(value)
		spoil(updated)
		for i := range batch {
			spoil(batch[i].Value)
			batch[i] = types.Resource{}
		}
		spoilCheckpoint(&checkpoint)
		spoilLetter(&recorded)
		spoilLetter(&changed)
		for i := range deliveries {
			deliveries[i] = types.Delivery{}
		}
		spoilHits(hits)
		spoilMeta(&meta)
		spoilProgress(&progress)
	}
}

var valueCases = []testCase{
	{name: "what a caller handed in stays the caller's", run: func(f *fix) {
		spoilAll := f.fillPointers()
		before := f.dump()
		spoilAll()
		f.wantState(before, "what the caller handed in was changed")
	}},
	{name: "a store changes nothing of what is handed in", run: func(f *fix) {
		l, h := withMatch(letter("a"), ` { "a" : 1 } `), hit(1, 1, 1, 1)
		h.Event = []byte(` [ 1 ] `)
		east := aCheckpoint(1, 1)
		progress := types.Progress{Checkpoint: &east, DeadLetters: []types.DeadLetter{l}, Hits: []types.GateHit{h}, Deliveries: []types.Delivery{delivery(9, 0, "z"), delivery(1, 0, "a")}}
		f.record("p", l)
		f.hit("p", h)
		f.apply("q", progress)
		require.Equal(f, withMatch(letter("a"), ` { "a" : 1 } `), l)
		require.Equal(f, ` [ 1 ] `, string(h.Event))
		require.Equal(f, []types.Delivery{delivery(9, 0, "z"), delivery(1, 0, "a")}, progress.Deliveries)
	}},
	{name: "what a store hands out is the caller's own", run: func(f *fix) {
		f.fillPointers()
		before := f.dump()
		r, _, err := f.s.GetResource(f.ctx, "k", "a")
		require.NoError(f, err)
		spoil(r.Value)
		page := f.list("k", "", 0)
		for i := range page.Resources {
			spoil(page.Resources[i].Value)
		}
		kinds, err := f.s.ResourceKinds(f.ctx)
		require.NoError(f, err)
		kinds[0] = "spoilt"
		c, _, err := f.s.LoadCheckpoint(f.ctx, "p")
		require.NoError(f, err)
		spoilCheckpoint(&c)
		checkpoints, err := f.s.ListCheckpoints(f.ctx)
		require.NoError(f, err)
		for i := range checkpoints {
			spoilCheckpoint(&checkpoints[i].Checkpoint)
		}
		for _, id := range []types.MatchID{"a", "b"} {
			l := f.stored("p", id)
			spoilLetter(&l.Letter)
		}
		for _, p := range []types.PipelineID{"p", "q"} {
			letters := f.letters(p)
			for i := range letters {
				spoilLetter(&letters[i].Letter)
			}
			window := f.window(p, at(0, 0), last)
			for i := range window {
				window[i] = types.Delivery{}
			}
			hits, err := f.s.Hits(f.ctx, p, "m", math.MinInt64)
			require.NoError(f, err)
			spoilHits(hits)
			meta, _, err := f.s.GateMeta(f.ctx, p, "m")
			require.NoError(f, err)
			spoilMeta(&meta)
		}
		pauses, err := f.s.ListPauses(f.ctx)
		require.NoError(f, err)
		pauses[0] = types.Pause{}
		counts, err := f.s.CountDeadLetters(f.ctx)
		require.NoError(f, err)
		counts[0] = types.LetterCount{}
		f.wantState(before, "what the store handed out was changed")
	}},
	{name: "what an export hands out is the caller's own", run: func(f *fix) {
		f.fillPointers()
		before := f.dump()
		archiver, ok := f.s.(ports.Archiver)
		if !ok {
			f.Skip("the harness does not claim CanArchive")
		}
		require.NoError(f, archiver.Export(f.ctx, func(r types.Record) error {
			spoilRecord(r)
			return nil
		}))
		f.wantState(before, "what an export handed out was changed")
	}},
	{name: "what an import took stays the caller's", run: func(f *fix) {
		f.fillPointers()
		from, ok := f.s.(ports.Archiver)
		if !ok {
			f.Skip("the harness does not claim CanArchive")
		}
		records, err := export(f.ctx, from)
		require.NoError(f, err)
		before := f.dump()
		g := newFix(f.T, f.h, 0)
		_, err = g.s.(ports.Archiver).Import(f.ctx, func(yield func(types.Record, error) bool) {
			for _, r := range records {
				ok := yield(r, nil)
				spoilRecord(r)
				if !ok {
					return
				}
			}
		})
		require.NoError(f, err)
		g.wantState(before, "what the import took was changed")
	}},
}
