package storagetest

import (
	"math"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// of is the hit as one of another monitor.
func of(monitor types.MonitorID, h types.GateHit) types.GateHit {
	h.Monitor = monitor
	return h
}

func (f *fix) deleteBefore(primary uint64) {
	f.Helper()
	require.NoError(f, f.s.DeleteHitsBefore(f.ctx, "p", primary), "deletion of the hits before %d", primary)
}

// floors removes the hits of monitors of p by an Apply.
func (f *fix) floors(floors ...types.MonitorFloor) {
	f.Helper()
	f.apply("p", types.Progress{HitsBeforeOf: floors})
}

func (f *fix) deleteFrom(primary uint64) {
	f.Helper()
	require.NoError(f, f.s.DeleteHitsFrom(f.ctx, "p", primary), "deletion of the hits from %d", primary)
}

var gateCases = []testCase{
	{name: "what is missing is no error", run: func(f *fix) {
		f.wantHits("p", "m", math.MinInt64)
		f.wantNoMeta("p", "m")
		f.hit("p")
		f.deleteBefore(math.MaxInt64)
		f.deleteFrom(0)
		require.Empty(f, f.dump())
	}},
	{name: "hits are ordered by cursor, then index", run: func(f *fix) {
		want := []types.GateHit{hit(1, 9, 0, 50), hit(2, 0, 7, 40), hit(2, 1, 0, 30), hit(2, 1, 2, 20), hit(2, 1, 10, 10), hit(2, 10, 0, 5), hit(10, 0, 0, 1)}
		f.hit("p", want[4], want[0], want[6])
		f.hit("p", want[2], want[5])
		f.hit("p", want[1])
		f.hit("p", want[3])
		f.wantHits("p", "m", math.MinInt64, want...)
	}},
	{name: "a hit comes back in every field", run: func(f *fix) {
		want := []types.GateHit{
			{Monitor: "m", Cursor: at(0, 0), Index: 0, TS: math.MinInt64, Event: []byte(`null`)},
			{Monitor: "m", Cursor: at(1<<53+1, math.MaxInt64), Index: 1<<53 + 1, TS: -1, Event: []byte(`{"z":1,"a":9007199254740993}`)},
			{Monitor: "m", Cursor: last, Index: math.MaxInt64, TS: math.MaxInt64, Event: []byte(`"<&>\u00e9"`)},
		}
		f.hit("p", want...)
		f.wantHits("p", "m", math.MinInt64, want...)
	}},
	{name: "an event is compact, and otherwise comes back byte for byte", run: func(f *fix) {
		for i, event := range faithful {
			h := hit(1, uint64(i), 0, 0)
			h.Event = []byte(" [\n" + event + "\t] ")
			f.hit("p", h)
			h.Event = []byte("[" + event + "]")
			got, err := f.s.Hits(f.ctx, "p", "m", 0)
			require.NoError(f, err)
			require.Equal(f, h, got[len(got)-1])
		}
	}},
	{name: "a hit whose key is there stays as it is", run: func(f *fix) {
		first := hit(5, 1, 2, 100)
		f.hit("p", first)
		other := first
		other.TS, other.Event = 200, []byte(`"another"`)
		f.hit("p", other)
		f.wantHits("p", "m", math.MinInt64, first)
		f.hit("p", other, hit(5, 1, 3, 7), other, hit(5, 1, 3, 8))
		f.wantHits("p", "m", math.MinInt64, first, hit(5, 1, 3, 7))
		f.apply("p", types.Progress{Hits: []types.GateHit{other, hit(5, 1, 4, 1), hit(5, 1, 4, 2)}})
		f.wantHits("p", "m", math.MinInt64, first, hit(5, 1, 3, 7), hit(5, 1, 4, 1))
	}},
	{name: "pipeline, monitor, cursor and index together are the key", run: func(f *fix) {
		base := hit(5, 1, 2, 100)
		f.hit("p", base, hit(6, 1, 2, 1), hit(5, 2, 2, 2), hit(5, 1, 3, 3), of("n", base), of("m.", base))
		f.hit("q", base)
		f.wantHits("p", "m", math.MinInt64, base, hit(5, 1, 3, 3), hit(5, 2, 2, 2), hit(6, 1, 2, 1))
		f.wantHits("p", "n", math.MinInt64, of("n", base))
		f.wantHits("p", "m.", math.MinInt64, of("m.", base))
		f.wantHits("q", "m", math.MinInt64, base)
		f.wantHits("p", "M", math.MinInt64)
	}},
	{name: "since is inclusive", run: func(f *fix) {
		a, b, c, d := hit(1, 0, 0, 1000), hit(2, 0, 0, 999), hit(3, 0, 0, 1001), hit(4, 0, 0, -1000)
		f.hit("p", a, b, c, d)
		f.wantHits("p", "m", math.MinInt64, a, b, c, d)
		f.wantHits("p", "m", -1001, a, b, c, d)
		f.wantHits("p", "m", -1000, a, b, c, d)
		f.wantHits("p", "m", -999, a, b, c)
		f.wantHits("p", "m", 0, a, b, c)
		f.wantHits("p", "m", 999, a, b, c)
		f.wantHits("p", "m", 1000, a, c)
		f.wantHits("p", "m", 1001, c)
		f.wantHits("p", "m", 1002)
		f.wantHits("p", "m", math.MaxInt64)
	}},
	{name: "the hits below a primary are deleted, of all monitors of the pipeline", run: func(f *fix) {
		a, b, c := hit(4, math.MaxInt64, 0, 1), hit(5, 0, 0, 2), hit(6, 0, 0, 3)
		for _, p := range []types.PipelineID{"p", "q"} {
			f.hit(p, a, b, c, of("n", a), of("n", c))
		}
		f.deleteBefore(0)
		f.deleteBefore(4)
		f.wantHits("p", "m", 0, a, b, c)
		f.deleteBefore(5)
		f.wantHits("p", "m", 0, b, c)
		f.wantHits("p", "n", 0, of("n", c))
		f.wantHits("q", "m", 0, a, b, c)
		f.deleteBefore(math.MaxInt64)
		f.wantHits("p", "m", 0)
		f.wantHits("q", "n", 0, of("n", a), of("n", c))
		f.hit("p", hit(math.MaxInt64, 0, 0, 1))
		f.deleteBefore(math.MaxInt64)
		f.wantHits("p", "m", 0, hit(math.MaxInt64, 0, 0, 1))
	}},
	{name: "the hits from a primary are deleted, of all monitors of the pipeline", run: func(f *fix) {
		a, b, c := hit(4, math.MaxInt64, 0, 1), hit(5, 0, 0, 2), hit(math.MaxInt64, 0, 0, 3)
		for _, p := range []types.PipelineID{"p", "q"} {
			f.hit(p, a, b, c, of("n", a), of("n", c))
		}
		f.deleteFrom(math.MaxInt64)
		f.wantHits("p", "m", 0, a, b)
		f.deleteFrom(6)
		f.wantHits("p", "m", 0, a, b)
		f.deleteFrom(5)
		f.wantHits("p", "m", 0, a)
		f.wantHits("p", "n", 0, of("n", a))
		f.wantHits("q", "m", 0, a, b, c)
		f.deleteFrom(0)
		f.wantHits("p", "m", 0)
		f.wantHits("p", "n", 0)
		f.wantHits("q", "n", 0, of("n", a), of("n", c))
		f.hit("p", of("m", b))
		f.wantHits("p", "m", 0, b)
	}},
	{name: "a meta comes back as it was: nil is not zero, nor empty", run: func(f *fix) {
		for _, ts := range []*int64{nil, new(int64(0)), new(int64(-1)), new(int64(math.MaxInt64)), new(int64(math.MinInt64)), nil} {
			for _, aux := range [][]byte{nil, {}, {0}, []byte("text"), []byte("\x00\xff\xfe\x00"), []byte(`{"json":1}`), nil} {
				want := types.GateMeta{LastEmitTS: ts, Aux: aux}
				f.setMeta("p", "m", want)
				f.wantMeta("p", "m", want)
				f.apply("p", types.Progress{Metas: []types.MonitorMeta{{Monitor: "n", Meta: want}}})
				f.wantMeta("p", "n", want)
			}
		}
	}},
	{name: "a meta that says nothing is there all the same", run: func(f *fix) {
		f.setMeta("p", "m", types.GateMeta{})
		f.wantMeta("p", "m", types.GateMeta{})
	}},
	{name: "each monitor of each pipeline has a meta of its own", run: func(f *fix) {
		a, b, c := types.GateMeta{Aux: []byte("a")}, types.GateMeta{Aux: []byte("b")}, types.GateMeta{LastEmitTS: new(int64(3))}
		f.setMeta("p", "m", a)
		f.setMeta("p", "n", b)
		f.setMeta("q", "m", c)
		f.setMeta("p", "m", c)
		f.wantMeta("p", "m", c)
		f.wantMeta("p", "n", b)
		f.wantMeta("q", "m", c)
		f.wantNoMeta("q", "n")
		f.wantNoMeta("p", "M")
	}},
	{name: "deleting hits leaves metas, and setting metas leaves hits", run: func(f *fix) {
		f.setMeta("p", "m", types.GateMeta{Aux: []byte("a")})
		f.hit("p", hit(1, 0, 0, 0))
		f.deleteFrom(0)
		f.wantMeta("p", "m", types.GateMeta{Aux: []byte("a")})
		f.hit("p", hit(1, 0, 0, 0))
		f.setMeta("p", "m", types.GateMeta{})
		f.wantHits("p", "m", 0, hit(1, 0, 0, 0))
	}},
}
