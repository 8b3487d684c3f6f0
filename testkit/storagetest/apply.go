package storagetest

import (
	"math"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// everything is a progress with all of its fields, which can be told from another number's.
func everything(n uint64) types.Progress {
	return types.Progress{
		Checkpoint:   new(aCheckpoint(n, 1)),
		Deliveries:   []types.Delivery{delivery(n, 0, "d1"), delivery(n, 1, "d2")},
		Settled:      []types.MatchID{"settled", "never.there"},
		DeadLetters:  []types.DeadLetter{withMatch(letter("l1"), ` { "n" : 1 } `), withEmission(letter("l2"), `[ ]`)},
		HitsFrom:     new(n),
		Hits:         []types.GateHit{hit(n, 0, 0, int64(n)), hit(n, 0, 1, int64(n))},
		HitsBefore:   new(n - 1),
		HitsBeforeOf: []types.MonitorFloor{{Monitor: "n", Primary: n}, {Monitor: "none", Primary: n + 1}},
		Metas:        []types.MonitorMeta{{Monitor: "m", Meta: types.GateMeta{LastEmitTS: new(int64(n))}}, {Monitor: "n", Meta: types.GateMeta{Aux: []byte{}}}},
	}
}

var applyCases = []testCase{
	{name: "an empty progress changes nothing", run: func(f *fix) {
		f.apply("p", types.Progress{})
		f.apply("p", types.Progress{Deliveries: []types.Delivery{}, Settled: []types.MatchID{}, DeadLetters: []types.DeadLetter{}, Hits: []types.GateHit{}, HitsBeforeOf: []types.MonitorFloor{}, Metas: []types.MonitorMeta{}})
		require.Empty(f, f.dump())
		f.fill()
		before := f.dump()
		f.apply("p", types.Progress{})
		f.wantState(before, "an empty progress")
	}},
	{name: "each part has the effect of the method that does it alone", depth: 10, run: func(f *fix) {
		all := everything(105)
		parts := map[string]struct {
			progress types.Progress
			alone    func(g *fix)
		}{
			"checkpoint":   {types.Progress{Checkpoint: all.Checkpoint}, func(g *fix) { g.save("p", *all.Checkpoint) }},
			"deliveries":   {types.Progress{Deliveries: all.Deliveries}, func(g *fix) { g.deliver("p", all.Deliveries...) }},
			"deep prune":   {types.Progress{Deliveries: []types.Delivery{delivery(110, 0, "d9")}}, func(g *fix) { g.deliver("p", delivery(110, 0, "d9")) }},
			"settled":      {types.Progress{Settled: []types.MatchID{"c", "missing"}}, func(g *fix) { g.deleteLetters("p", 1, "c", "missing") }},
			"dead letters": {types.Progress{DeadLetters: all.DeadLetters}, func(g *fix) { g.record("p", all.DeadLetters...) }},
			"old letter":   {types.Progress{DeadLetters: []types.DeadLetter{letter("b")}}, func(g *fix) { g.record("p", letter("b")) }},
			"hits from":    {types.Progress{HitsFrom: new(uint64(100))}, func(g *fix) { g.deleteFrom(100) }},
			"hits":         {types.Progress{Hits: all.Hits}, func(g *fix) { g.hit("p", all.Hits...) }},
			"hits before":  {types.Progress{HitsBefore: new(uint64(100))}, func(g *fix) { g.deleteBefore(100) }},
			"from 0":       {types.Progress{HitsFrom: new(uint64(0))}, func(g *fix) { g.deleteFrom(0) }},
			"before 0":     {types.Progress{HitsBefore: new(uint64(0))}, func(g *fix) { g.deleteBefore(0) }},
			"metas": {types.Progress{Metas: all.Metas}, func(g *fix) {
				for _, m := range all.Metas {
					g.setMeta("p", m.Monitor, m.Meta)
				}
			}},
		}
		f.fill()
		before := f.dump()
		for name, part := range parts {
			g, h := newFix(f.T, f.h, 10), newFix(f.T, f.h, 10)
			g.fill()
			h.fill()
			g.apply("p", part.progress)
			part.alone(h)
			require.Equal(f, h.dump(), g.dump(), "%s: want what its method does", name)
			if name != "before 0" {
				require.NotEqual(f, before, g.dump(), "%s: want an effect", name)
			}
		}
	}},
	{name: "all parts are stored together, for one pipeline", run: func(f *fix) {
		f.recordIDs("p", "first", "settled", "l2")
		f.recordIDs("q", "settled")
		f.hit("p", hit(7, 0, 0, 1), hit(9, 0, 0, 1), hit(10, 0, 0, 99), hit(11, 0, 0, 1), of("n", hit(9, 0, 0, 1)))
		f.hit("q", hit(7, 0, 0, 1), hit(11, 0, 0, 1), of("n", hit(9, 0, 0, 1)))
		f.apply("p", everything(10))
		f.wantCheckpoint("p", aCheckpoint(10, 1))
		f.wantDelivered("p", delivery(10, 0, "d1"), delivery(10, 1, "d2"))
		f.wantLetters("p", "first", "l2", "l1")
		f.wantLetter(withMatch(letter("l1"), `{"n":1}`))
		f.wantLetter(withEmission(letter("l2"), `[]`))
		f.wantHits("p", "m", math.MinInt64, hit(9, 0, 0, 1), hit(10, 0, 0, 10), hit(10, 0, 1, 10))
		f.wantHits("p", "n", math.MinInt64)
		f.wantMeta("p", "m", types.GateMeta{LastEmitTS: new(int64(10))})
		f.wantMeta("p", "n", types.GateMeta{Aux: []byte{}})

		f.wantNoCheckpoint("q")
		f.wantDelivered("q")
		f.wantLetters("q", "settled")
		f.wantHits("q", "m", math.MinInt64, hit(7, 0, 0, 1), hit(11, 0, 0, 1))
		f.wantHits("q", "n", math.MinInt64, of("n", hit(9, 0, 0, 1)))
		f.wantNoMeta("q", "m")
	}},
	{name: "a letter that is settled and recorded is a new one at the end", run: func(f *fix) {
		f.record("p", letter("a"), withMatch(letter("b"), "1"), letter("c"))
		f.apply("p", types.Progress{Settled: []types.MatchID{"b"}, DeadLetters: []types.DeadLetter{letter("b")}})
		f.wantLetters("p", "a", "c", "b")
		f.wantLetter(letter("b"))
	}},
	{name: "hits from a primary are removed before new ones are appended", run: func(f *fix) {
		f.hit("p", hit(5, 0, 0, 1), hit(6, 0, 0, 1))
		f.apply("p", types.Progress{HitsFrom: new(uint64(5)), Hits: []types.GateHit{hit(5, 0, 0, 2), hit(7, 0, 0, 2)}})
		f.wantHits("p", "m", 0, hit(5, 0, 0, 2), hit(7, 0, 0, 2))
	}},
	{name: "hits before a primary are removed after new ones were appended", run: func(f *fix) {
		f.hit("p", hit(3, 0, 0, 1), hit(6, 0, 0, 1))
		f.apply("p", types.Progress{Hits: []types.GateHit{hit(4, 0, 0, 2), hit(5, 0, 0, 2)}, HitsBefore: new(uint64(5))})
		f.wantHits("p", "m", 0, hit(5, 0, 0, 2), hit(6, 0, 0, 1))
		f.apply("p", types.Progress{HitsFrom: new(uint64(6)), Hits: []types.GateHit{hit(9, 0, 0, 3)}, HitsBefore: new(uint64(10))})
		f.wantHits("p", "m", 0)
	}},
	{name: "the hits of a monitor below its floor are removed, and no others", run: func(f *fix) {
		a, b, c := hit(4, math.MaxInt64, 0, 1), hit(5, 0, 0, 2), hit(6, 0, 0, 3)
		for _, p := range []types.PipelineID{"p", "q"} {
			f.hit(p, a, b, c, of("m.", a), of("n", a), of("n", b), of("n", c))
		}
		f.floors(types.MonitorFloor{Monitor: "m", Primary: 0}, types.MonitorFloor{Monitor: "m", Primary: 4}, types.MonitorFloor{Monitor: "none", Primary: math.MaxInt64})
		f.wantHits("p", "m", 0, a, b, c)
		f.floors(types.MonitorFloor{Monitor: "m", Primary: 5})
		f.wantHits("p", "m", 0, b, c)
		f.floors(types.MonitorFloor{Monitor: "m", Primary: 6}, types.MonitorFloor{Monitor: "n", Primary: 5})
		f.wantHits("p", "m", 0, c)
		f.wantHits("p", "n", 0, of("n", b), of("n", c))
		f.floors(types.MonitorFloor{Monitor: "n", Primary: 6}, types.MonitorFloor{Monitor: "n", Primary: 4}) // the higher counts
		f.wantHits("p", "n", 0, of("n", c))
		f.floors(types.MonitorFloor{Monitor: "n", Primary: math.MaxInt64})
		f.wantHits("p", "n", 0)
		f.wantHits("p", "m", 0, c)
		f.wantHits("p", "m.", 0, of("m.", a))
		f.wantHits("q", "m", 0, a, b, c)
		f.wantHits("q", "m.", 0, of("m.", a))
		f.wantHits("q", "n", 0, of("n", a), of("n", b), of("n", c))
		f.hit("p", hit(math.MaxInt64, 0, 0, 1))
		f.floors(types.MonitorFloor{Monitor: "m", Primary: math.MaxInt64})
		f.wantHits("p", "m", 0, hit(math.MaxInt64, 0, 0, 1))
	}},
	{name: "hits below the floor of a monitor are removed after new ones were appended", run: func(f *fix) {
		f.hit("p", hit(3, 0, 0, 1), hit(6, 0, 0, 1), of("n", hit(3, 0, 0, 1)), of("n", hit(6, 0, 0, 1)))
		f.apply("p", types.Progress{
			Hits:         []types.GateHit{hit(4, 0, 0, 2), hit(5, 0, 0, 2), of("n", hit(4, 0, 0, 2))},
			HitsBefore:   new(uint64(4)),
			HitsBeforeOf: []types.MonitorFloor{{Monitor: "m", Primary: 5}},
		})
		f.wantHits("p", "m", 0, hit(5, 0, 0, 2), hit(6, 0, 0, 1))
		f.wantHits("p", "n", 0, of("n", hit(4, 0, 0, 2)), of("n", hit(6, 0, 0, 1)))
		f.apply("p", types.Progress{
			HitsFrom:     new(uint64(6)),
			Hits:         []types.GateHit{hit(6, 0, 0, 3), hit(9, 0, 0, 3), of("n", hit(9, 0, 0, 3))},
			HitsBefore:   new(uint64(5)),
			HitsBeforeOf: []types.MonitorFloor{{Monitor: "m", Primary: 10}, {Monitor: "n", Primary: 3}},
		})
		f.wantHits("p", "m", 0)
		f.wantHits("p", "n", 0, of("n", hit(9, 0, 0, 3)))
	}},
	{name: "of what comes twice in a list the last counts, in the place of the first", run: func(f *fix) {
		f.apply("p", types.Progress{
			Deliveries:  []types.Delivery{delivery(5, 0, "d"), delivery(7, 0, "d"), delivery(6, 0, "d")},
			DeadLetters: []types.DeadLetter{letter("a"), letter("b"), withMatch(letter("a"), "2")},
			Metas:       []types.MonitorMeta{{Monitor: "m", Meta: types.GateMeta{Aux: []byte("1")}}, {Monitor: "m", Meta: types.GateMeta{Aux: []byte("2")}}},
		})
		f.wantDelivered("p", delivery(7, 0, "d"))
		f.wantLetters("p", "a", "b")
		f.wantLetter(withMatch(letter("a"), "2"))
		f.wantMeta("p", "m", types.GateMeta{Aux: []byte("2")})
	}},
	{name: "applying again changes nothing", depth: 10, run: func(f *fix) {
		f.fill()
		f.recordIDs("p", "settled", "l2")
		for range 3 {
			f.apply("p", everything(105))
			before, letters := f.dump(), f.letters("p")
			f.apply("p", everything(105))
			f.wantState(before, "a progress applied again")
			require.Equal(f, letters, f.letters("p"), "letters and their positions")
		}
	}},
	{name: "a bad part stops all of them", run: func(f *fix) {
		f.fill()
		f.recordIDs("p", "settled")
		before := f.dump()
		bad := map[string]func(*types.Progress){
			"checkpoint":            func(p *types.Progress) { p.Checkpoint.Cursor.Primary = 1 << 63 },
			"last delivery":         func(p *types.Progress) { p.Deliveries[1].MatchID = "" },
			"last settled":          func(p *types.Progress) { p.Settled[1] = "/" },
			"last letter":           func(p *types.Progress) { p.DeadLetters[1].Sink = "" },
			"event of a letter":     func(p *types.Progress) { p.DeadLetters[0].Payload.Match.Event = []byte(`{"a":1,"a":2}`) },
			"payload of a letter":   func(p *types.Progress) { p.DeadLetters[1].Payload = &types.SinkEvent{} },
			"hits from":             func(p *types.Progress) { p.HitsFrom = new(uint64(1 << 63)) },
			"last hit":              func(p *types.Progress) { p.Hits[1].Event = nil },
			"hits before":           func(p *types.Progress) { p.HitsBefore = new(uint64(math.MaxUint64)) },
			"monitor of last floor": func(p *types.Progress) { p.HitsBeforeOf[1].Monitor = "" },
			"last floor":            func(p *types.Progress) { p.HitsBeforeOf[1].Primary = 1 << 63 },
			"monitor of last meta":  func(p *types.Progress) { p.Metas[1].Monitor = "" },
			"aux of the last meta":  func(p *types.Progress) { p.Metas[1].Meta.Aux = make([]byte, 64<<10+1) },
			"cursor of a last hit":  func(p *types.Progress) { p.Hits[1].Cursor.Secondary = 1 << 63 },
			"module of the module":  func(p *types.Progress) { p.Checkpoint.Module = new("\xff") },
			"attempts of a letter":  func(p *types.Progress) { p.DeadLetters[0].Attempts = 1 << 63 },
			"secondary of delivery": func(p *types.Progress) { p.Deliveries[0].Cursor.Secondary = 1 << 63 },
		}
		for name, spoil := range bad {
			progress := everything(200)
			spoil(&progress)
			f.wantInvalid(f.s.Apply(f.ctx, "p", progress), "storage.apply", "%s", name)
			f.wantState(before, name)
		}
	}},
}
