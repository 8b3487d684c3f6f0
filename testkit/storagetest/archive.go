package storagetest

import (
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// archiver is the store as an archiver; a case skips where there is none.
func (f *fix) archiver() ports.Archiver {
	f.Helper()
	archiver, ok := f.s.(ports.Archiver)
	if !ok {
		f.Skip("the harness does not claim CanArchive")
	}
	return archiver
}

func (f *fix) export() []types.Record {
	f.Helper()
	records, err := export(f.ctx, f.archiver())
	require.NoError(f, err, "export")
	return records
}

func (f *fix) importAll(records []types.Record) {
	f.Helper()
	n, err := f.archiver().Import(f.ctx, sequence(records, nil))
	require.NoError(f, err, "import")
	require.Equal(f, int64(len(records)), n, "import: the number of records")
}

// wantUndecodableExport asserts that an export of letters that cannot be decoded says so.
func (f *fix) wantUndecodableExport() {
	f.Helper()
	if archiver, ok := f.s.(ports.Archiver); ok {
		_, err := export(f.ctx, archiver)
		require.ErrorIs(f, err, ports.ErrUndecodable, "export of a letter that cannot be decoded")
		require.ErrorIs(f, err, ports.ErrBackendFailed)
	}
}

// sequence yields the records, and then the error unless it is nil.
func sequence(records []types.Record, err error) iter.Seq2[types.Record, error] {
	return func(yield func(types.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(types.Record{}, err)
		}
	}
}

// sample has one record of each category.
func sample() []types.Record {
	return []types.Record{
		{Resource: &types.Resource{Kind: "k", ID: "a", Version: 7, Value: []byte(` {"a": 1} `)}},
		{Pipeline: "p", Checkpoint: new(aCheckpoint(1, 2))},
		{Pipeline: "p", DeadLetter: new(withMatch(letter("a"), `{"a":1}`))},
		{Pause: new(types.PipelineOf("p"))},
		{Pipeline: "p", Delivery: new(delivery(1, 1, "a"))},
		{Pipeline: "p", GateHit: new(hit(1, 1, 1, 1))},
		{Pipeline: "p", GateMeta: &types.MonitorMeta{Monitor: "m", Meta: types.GateMeta{Aux: []byte{}}}},
	}
}

// refuseImport asserts that an import stores nothing, and that a good one works after it.
func (f *fix) refuseImport(records iter.Seq2[types.Record, error], what string, check func(error)) {
	f.Helper()
	n, err := f.archiver().Import(f.ctx, records)
	require.Error(f, err, what)
	require.Zero(f, n, what)
	check(err)
	require.Empty(f, f.dump(), "%s: want nothing stored", what)
}

var errSequence = errors.New("the sequence broke")

var archiveCases = []testCase{
	{name: "an archiver is as claimed", run: func(f *fix) {
		_, ok := f.s.(ports.Archiver)
		require.Equal(f, f.h.CanArchive, ok, "the store is a ports.Archiver: want what the harness claims")
	}},
	{name: "an export of nothing is empty, and so is its import", run: func(f *fix) {
		require.Empty(f, f.export())
		f.importAll(nil)
		require.Empty(f, f.dump())
		f.importAll(sample())
	}},
	{name: "an export holds every record, in order", run: func(f *fix) {
		f.fill()
		f.fillPointers()
		records := f.export()
		require.Equal(f, f.dump(), linesOf(records), "want what the readers give")
		require.Equal(f, -1, inExportOrder(records), "records out of order")
		for _, r := range records {
			_, err := ports.CheckRecord("storage.import", r)
			require.NoError(f, err, "a record that an import takes")
		}
	}},
	{name: "an export orders every category by the bytes of its key", run: func(f *fix) {
		f.archiver()
		for _, p := range []types.PipelineID{"q", "p.", "p", "P"} {
			f.save(p, aCheckpoint(1, 1))
			f.recordIDs(p, "z", "a", "m")
			f.deliver(p, delivery(10, 0, "b"), delivery(9, 0, "z"), delivery(9, 0, "a"), delivery(9, 1, "c"))
			for _, m := range []types.MonitorID{"n", "m.", "m", "M"} {
				f.hit(p, of(m, hit(10, 0, 0, 1)), of(m, hit(9, 0, 2, 1)), of(m, hit(9, 0, 10, 1)), of(m, hit(9, 1, 0, 1)))
				f.setMeta(p, m, types.GateMeta{})
			}
			f.pause(types.PauseSink, string(p)+"/s")
			f.pause(types.PausePipeline, string(p))
			f.create(types.ResourceKind(p), "z", "a-", "a", "A")
		}
		records := f.export()
		require.Len(f, records, 4*(1+3+4+4*5+2+4))
		i := inExportOrder(records)
		require.Equal(f, -1, i, "records out of order at %d: %q", i, linesOf(records))
		letters := slices.DeleteFunc(records, func(r types.Record) bool { return r.DeadLetter == nil || r.Pipeline != "p." })
		require.Equal(f, []types.MatchID{"z", "a", "m"}, []types.MatchID{letters[0].DeadLetter.MatchID, letters[1].DeadLetter.MatchID, letters[2].DeadLetter.MatchID}, "letters in the order of arrival")
	}},
	{name: "an import into an empty store gives the same export", run: func(f *fix) {
		f.fill()
		f.fillPointers()
		f.put("k", "b", ` [ 1 ] `, 1)
		f.put("k", "b", ` [ 2 ] `, 2)
		records := f.export()
		before := f.dump()
		g := newFix(f.T, f.h, 0)
		g.importAll(records)
		g.wantState(before, "an import")
		require.Equal(f, linesOf(records), linesOf(g.export()))
		require.Equal(f, records, g.export(), "to the last byte and nil")
	}},
	{name: "an imported store goes on", run: func(f *fix) {
		f.archiver()
		f.importAll(append(sample(), types.Record{Pipeline: "p", DeadLetter: new(letter("0"))}, types.Record{Pipeline: "q", DeadLetter: new(letter("a"))}))
		f.wantResource("k", "a", 7, ` {"a": 1} `)
		f.put("k", "a", `2`, 7)
		_, err := f.s.PutResource(f.ctx, "k", "a", []byte("3"), 7)
		f.wantConflict(err, "storage.putResource", 7, 8)
		f.wantLetters("p", "a", "0")
		f.recordIDs("p", "b", "a")
		f.wantLetters("p", "a", "0", "b")
		f.apply("p", everything(5))
		f.wantCheckpoint("p", aCheckpoint(5, 1))
	}},
	{name: "an import prunes nothing; the next delivery does", depth: 10, run: func(f *fix) {
		f.archiver()
		want := []types.Delivery{delivery(1, 0, "a"), delivery(100, 0, "b"), delivery(1_000, 0, "c")}
		var records []types.Record
		for _, d := range want {
			records = append(records, types.Record{Pipeline: "p", Delivery: &d})
		}
		f.importAll(records)
		f.wantDelivered("p", want...)
		f.deliver("p", delivery(995, 0, "d"))
		f.wantDelivered("p", delivery(995, 0, "d"), delivery(1_000, 0, "c"))
	}},
	{name: "an import in any order of categories is the same", run: func(f *fix) {
		f.archiver()
		records := sample()
		slices.Reverse(records)
		f.importAll(records)
		require.Equal(f, linesOf(sample()), linesOf(f.export()))
	}},
	{name: "an import compacts and normalizes as the methods do", run: func(f *fix) {
		f.archiver()
		h := hit(1, 1, 1, 1)
		h.Event = []byte(" [ 1 ] ")
		f.importAll([]types.Record{{Pipeline: "p", DeadLetter: new(withMatch(letter("a"), ` { "a" : 1 } `))}, {Pipeline: "p", GateHit: &h}})
		f.wantLetter(withMatch(letter("a"), `{"a":1}`))
		h.Event = []byte("[1]")
		f.wantHits("p", "m", 0, h)
	}},
	{name: "a store that holds a record of any category refuses an import", run: func(f *fix) {
		f.archiver()
		for i, held := range sample() {
			g := newFix(f.T, f.h, 0)
			g.importAll([]types.Record{held})
			before := g.dump()
			for _, records := range [][]types.Record{sample(), nil, {sample()[(i+1)%7]}} {
				n, err := g.archiver().Import(f.ctx, sequence(records, nil))
				g.wantCode(err, ports.ErrAlreadyExists, "storage.import")
				require.Zero(g, n)
				g.wantState(before, "an import into a store that holds "+before[0])
			}
		}
	}},
	{name: "a store that was emptied takes an import", run: func(f *fix) {
		f.archiver()
		f.put("k", "a", "1", 0)
		f.recordIDs("p", "a")
		f.save("p", aCheckpoint(1, 1))
		require.NoError(f, f.s.DeleteResource(f.ctx, "k", "a", 1))
		f.deleteLetter("p", "a", true)
		_, err := f.s.DeleteCheckpoint(f.ctx, "p")
		require.NoError(f, err)
		f.importAll(sample())
		require.Equal(f, linesOf(sample()), linesOf(f.export()))
	}},
	{name: "a record that comes twice refuses the import", run: func(f *fix) {
		f.archiver()
		twice := []types.Record{
			{Resource: &types.Resource{Kind: "k", ID: "a", Version: 1, Value: []byte("1")}},
			{Pipeline: "p", Checkpoint: &types.Checkpoint{}},
			{Pipeline: "p", DeadLetter: new(letter("a"))},
			{Pause: new(types.PipelineOf("p"))},
			{Pipeline: "p", Delivery: new(delivery(9, 9, "a"))},
			{Pipeline: "p", GateHit: new(hit(1, 1, 1, 9))},
			{Pipeline: "p", GateMeta: &types.MonitorMeta{Monitor: "m"}},
		}
		for i, r := range twice {
			f.refuseImport(sequence(append(sample(), r), nil), line(r), func(err error) {
				f.wantCode(err, ports.ErrAlreadyExists, "storage.import")
			})
			f.refuseImport(sequence([]types.Record{sample()[i], sample()[i]}, nil), line(r), func(err error) {
				f.wantCode(err, ports.ErrAlreadyExists, "storage.import")
			})
		}
		f.importAll(sample())
	}},
	{name: "an error of the sequence is returned, and nothing is stored", run: func(f *fix) {
		f.archiver()
		for n := range len(sample()) + 1 {
			f.refuseImport(sequence(sample()[:n], errSequence), "a sequence that breaks", func(err error) {
				require.ErrorIs(f, err, errSequence)
			})
		}
		f.importAll(sample())
	}},
	{name: "a bad record refuses the import", run: func(f *fix) {
		f.archiver()
		bad := map[string]types.Record{
			"no category":          {Pipeline: "p"},
			"two categories":       {Pipeline: "q", Checkpoint: &types.Checkpoint{}, Delivery: new(delivery(1, 1, "x"))},
			"version 0":            {Resource: &types.Resource{Kind: "k", ID: "x", Value: []byte("1")}},
			"version 2^63":         {Resource: &types.Resource{Kind: "k", ID: "x", Version: 1 << 63, Value: []byte("1")}},
			"value":                {Resource: &types.Resource{Kind: "k", ID: "x", Version: 1, Value: []byte("{")}},
			"kind":                 {Resource: &types.Resource{ID: "x", Version: 1, Value: []byte("1")}},
			"pipeline":             {Checkpoint: &types.Checkpoint{}},
			"cursor":               {Pipeline: "q", Checkpoint: &types.Checkpoint{Cursor: at(1<<63, 0)}},
			"letter":               {Pipeline: "q", DeadLetter: &types.DeadLetter{}},
			"pause":                {Pause: &types.Pause{Target: "sink", ID: "/"}},
			"delivery":             {Pipeline: "q", Delivery: &types.Delivery{}},
			"delivery's cursor":    {Pipeline: "q", Delivery: new(delivery(0, math.MaxUint64, "x"))},
			"hit":                  {Pipeline: "q", GateHit: &types.GateHit{Monitor: "m"}},
			"hit's index":          {Pipeline: "q", GateHit: new(hit(1, 1, 1<<63, 1))},
			"meta":                 {Pipeline: "q", GateMeta: &types.MonitorMeta{}},
			"meta of bad pipeline": {Pipeline: "-", GateMeta: &types.MonitorMeta{Monitor: "m"}},
		}
		for name, r := range bad {
			for _, records := range [][]types.Record{{r}, append(sample(), r), append([]types.Record{r}, sample()...)} {
				f.refuseImport(sequence(records, nil), name, func(err error) { f.wantInvalid(err, "storage.import", "%s", name) })
			}
		}
		f.importAll(sample())
	}},
	{name: "an error of the yield ends an export and is returned", run: func(f *fix) {
		f.fill()
		all := len(f.export())
		for _, n := range []int{0, 1, all / 2, all - 1} {
			seen := 0
			err := f.archiver().Export(f.ctx, func(types.Record) error {
				if seen == n {
					return errSequence
				}
				seen++
				return nil
			})
			require.ErrorIs(f, err, errSequence)
			require.Equal(f, n, seen, "records before the error")
		}
		require.Len(f, f.export(), all)
		f.save("p", aCheckpoint(1, 1))
	}},
	{name: "a large import and its export", run: func(f *fix) {
		f.archiver()
		var records []types.Record
		for i := range 1200 {
			r := fixture.Resource(i)
			records = append(records, types.Record{Resource: &r})
		}
		for i := range 1200 {
			records = append(records, types.Record{Pipeline: "p", DeadLetter: new(fixture.DeadLetter(1200 - i))})
		}
		for i := range 1200 {
			records = append(records, types.Record{Pipeline: "p", Delivery: new(fixture.Delivery(i))})
		}
		f.importAll(records)
		require.Equal(f, records, f.export())
	}},
}
