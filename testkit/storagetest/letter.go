package storagetest

import (
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func (f *fix) deleteLetters(pipeline types.PipelineID, want int64, ids ...types.MatchID) {
	f.Helper()
	n, err := f.s.DeleteDeadLetters(f.ctx, pipeline, ids)
	require.NoError(f, err, "deletion of the letters %q", ids)
	require.Equal(f, want, n, "deletion of the letters %q: how many there were", ids)
}

func (f *fix) deleteThrough(pipeline types.PipelineID, through, want int64) {
	f.Helper()
	n, err := f.s.DeleteAllDeadLetters(f.ctx, pipeline, through)
	require.NoError(f, err, "deletion of the letters through %d", through)
	require.Equal(f, want, n, "deletion of the letters through %d: how many there were", through)
}

func (f *fix) wantUpdate(pipeline types.PipelineID, l types.DeadLetter, want bool) {
	f.Helper()
	found, err := f.s.UpdateDeadLetter(f.ctx, pipeline, l)
	require.NoError(f, err, "update of the letter %s", l.MatchID)
	require.Equal(f, want, found, "update of the letter %s: whether there is one", l.MatchID)
}

var letterCases = []testCase{
	{name: "what is missing is no error", run: func(f *fix) {
		f.wantNoLetter("p", "a")
		f.wantLetters("p")
		f.wantUpdate("p", letter("a"), false)
		f.deleteLetter("p", "a", false)
		f.deleteLetters("p", 0, "a", "b")
		f.deleteLetters("p", 0)
		f.deleteThrough("p", math.MaxInt64, 0)
		counts, err := f.s.CountDeadLetters(f.ctx)
		require.NoError(f, err)
		require.Empty(f, counts)
		require.Empty(f, f.dump(), "none of this creates anything")
	}},
	{name: "a letter comes back in every field", run: func(f *fix) {
		for i := range 3 {
			f.record("p", fixture.DeadLetter(i))
			f.wantLetter(fixture.DeadLetter(i))
		}
		f.record("p", types.DeadLetter{MatchID: "plain", Monitor: "m", Sink: "s"})
		f.wantLetter(types.DeadLetter{MatchID: "plain", Monitor: "m", Sink: "s"})
		odd := types.DeadLetter{MatchID: "odd", Monitor: "a.b:c", Sink: "_", Cursor: at(1<<53+1, math.MaxInt64), Attempts: 1<<53 + 1, Reason: "a \"reason\",\na\ttab, <&>, é 😀 \u2028 and \x00"}
		f.record("p", odd)
		f.wantLetter(odd)
	}},
	{name: "a letter without a payload has none again", run: func(f *fix) {
		f.record("p", letter("a"))
		require.Nil(f, f.stored("p", "a").Letter.Payload)
		f.record("p", withMatch(letter("a"), "1"))
		f.record("p", letter("a"))
		require.Nil(f, f.stored("p", "a").Letter.Payload, "one without a payload replaces one that had it")
	}},
	{name: "a payload is a match or an emission, and comes back in every field", run: func(f *fix) {
		want := withMatch(letter("match"), `{"mag":4.5}`)
		want.Payload.Match.Cursor = at(math.MaxInt64, 1<<53+1)
		want.Payload.Match.Index, want.Payload.Match.TS = math.MaxUint64, math.MinInt64
		want.Payload.Match.ID = "another id / with\na \"line\""
		f.record("p", want)
		f.wantLetter(want)
		for _, key := range []string{"", "région/7", "\x00\u2028<&>"} {
			want = withEmission(letter("emission"), `[1]`)
			want.Payload.Emission.Key, want.Payload.Emission.Hits = key, math.MaxUint64
			f.record("p", want)
			f.wantLetter(want)
		}
		f.record("p", letterWith(func(l *types.DeadLetter) {
			l.MatchID = "empty"
			l.Payload = &types.SinkEvent{Match: &types.Match{Event: []byte("null")}}
		}))
		require.Equal(f, &types.SinkEvent{Match: &types.Match{Event: []byte("null")}}, f.stored("p", "empty").Letter.Payload)
	}},
	{name: "an event is compact, and otherwise comes back byte for byte", run: func(f *fix) {
		for _, event := range faithful {
			f.record("p", withMatch(letter("a"), event))
			f.wantLetter(withMatch(letter("a"), event))
			f.record("p", withEmission(letter("a"), " { \"v\" :\n[ "+event+" ]\t} "))
			f.wantLetter(withEmission(letter("a"), `{"v":[`+event+`]}`))
		}
		f.record("p", withMatch(letter("a"), ` { "z" : 1.50 , "a" : " two  spaces " } `))
		f.wantLetter(withMatch(letter("a"), `{"z":1.50,"a":" two  spaces "}`))
		// An event that looks like what stands around it.
		tagged := `{"type":"emission","data":{"match_id":"b","payload":null}}`
		f.record("p", withMatch(letter("a"), tagged))
		f.wantLetter(withMatch(letter("a"), tagged))
	}},
	{name: "letters are in the order of arrival", run: func(f *fix) {
		ids := []types.MatchID{"m", "z", "a", "B", "m2", "0", "y"}
		for i, id := range ids {
			l := letter(id)
			l.Cursor = at(uint64(100-i), 0) // a cursor that falls makes no difference
			f.record("p", l)
		}
		f.wantLetters("p", ids...)
	}},
	{name: "a letter recorded again keeps its place, and its content is replaced", run: func(f *fix) {
		f.record("p", letter("a"), withMatch(letter("b"), `1`), letter("c"))
		before := f.stored("p", "b").Position
		again := types.DeadLetter{MatchID: "b", Monitor: "n", Sink: "other", Cursor: at(1, 2), Attempts: 9, Reason: "again"}
		f.record("p", again)
		f.wantLetters("p", "a", "b", "c")
		f.wantLetter(again)
		require.Equal(f, before, f.stored("p", "b").Position)
		for range 3 {
			f.record("p", withEmission(again, `2`))
		}
		f.wantLetters("p", "a", "b", "c")
		f.wantLetter(withEmission(again, `2`))
		f.recordIDs("p", "d")
		f.wantLetters("p", "a", "b", "c", "d")
	}},
	{name: "a page skips and takes", run: func(f *fix) {
		var ids []types.MatchID
		for i := range 10 {
			ids = append(ids, fixture.MatchID(9-i))
		}
		f.recordIDs("p", ids...)
		for skip := range 12 {
			for take := range 12 {
				want := ids[min(skip, 10):min(skip+take, 10)]
				got := matchIDs(f.page("p", types.LetterQuery{Skip: skip, Take: take}))
				require.Equal(f, slices.Clone(want), got, "skip %d, take %d", skip, take)
			}
		}
		require.Empty(f, f.page("p", types.LetterQuery{Skip: 1_000_000, Take: 1000}))
		require.Empty(f, f.page("p", types.LetterQuery{}), "take 0: want none")
	}},
	{name: "a page goes on behind a position, and skips from there", run: func(f *fix) {
		f.recordIDs("q", "x")
		f.recordIDs("p", "a", "b", "c", "d", "e")
		all := f.letters("p")
		for i, l := range all {
			require.Equal(f, all[i:], f.page("p", types.LetterQuery{After: l.Position - 1, Take: 1000}), "behind %d", l.Position-1)
			if i > 0 {
				require.Equal(f, all[i:], f.page("p", types.LetterQuery{After: all[i-1].Position, Take: 1000}), "behind %d", all[i-1].Position)
			}
		}
		require.Equal(f, all[3:4], f.page("p", types.LetterQuery{After: all[1].Position, Skip: 1, Take: 1}))
		require.Empty(f, f.page("p", types.LetterQuery{After: all[1].Position, Skip: 3, Take: 1}))
		require.Empty(f, f.page("p", types.LetterQuery{After: all[4].Position, Take: 1000}))
		require.Empty(f, f.page("p", types.LetterQuery{After: math.MaxInt64, Take: 1000}))
		f.deleteLetter("p", "b", true)
		require.Equal(f, all[2:], f.page("p", types.LetterQuery{After: all[1].Position, Take: 1000}), "the position of a letter that is gone is a place as well")
	}},
	{name: "pages are stable while letters arrive", run: func(f *fix) {
		f.recordIDs("p", "a", "b", "c", "d")
		first := f.page("p", types.LetterQuery{Take: 2})
		f.recordIDs("p", "e", "a")
		f.wantUpdate("p", letter("c"), true)
		second := f.page("p", types.LetterQuery{Skip: 2, Take: 2})
		require.Equal(f, []types.MatchID{"a", "b", "c", "d"}, append(matchIDs(first), matchIDs(second)...))
	}},
	{name: "a position is never changed and never given again", run: func(f *fix) {
		f.recordIDs("p", "a", "b", "c")
		f.recordIDs("q", "a")
		all := f.letters("p")
		highest := all[2].Position
		f.deleteLetter("p", "c", true) // the newest one
		f.recordIDs("p", "d")
		require.Greater(f, f.stored("p", "d").Position, highest)
		highest = f.stored("p", "d").Position
		f.recordIDs("p", "c")
		require.Greater(f, f.stored("p", "c").Position, highest, "one that comes again after its deletion is at the end")
		f.wantLetters("p", "a", "b", "d", "c")
		highest = f.stored("p", "c").Position
		require.Equal(f, all[:2], f.page("p", types.LetterQuery{Take: 2}))

		f.deleteThrough("p", math.MaxInt64, 4) // all of them
		f.recordIDs("p", "e")
		require.Greater(f, f.stored("p", "e").Position, highest)
		highest = f.stored("p", "e").Position
		f.deleteLetters("p", 1, "e")
		f.apply("p", types.Progress{DeadLetters: []types.DeadLetter{letter("f")}})
		require.Greater(f, f.stored("p", "f").Position, highest)
	}},
	{name: "an update replaces the content in place, and creates nothing", run: func(f *fix) {
		f.record("p", letter("a"), withMatch(letter("b"), "1"), letter("c"))
		before := f.letters("p")
		changed := types.DeadLetter{MatchID: "b", Monitor: "n", Sink: "t", Cursor: at(9, 9), Attempts: 1 << 53, Reason: "changed"}
		f.wantUpdate("p", changed, true)
		before[1].Letter = changed
		require.Equal(f, before, f.letters("p"))
		f.wantUpdate("p", withEmission(changed, ` [ 1 ] `), true)
		f.wantLetter(withEmission(changed, `[1]`))
		f.wantUpdate("p", letter("d"), false)
		f.wantUpdate("q", letter("b"), false)
		f.wantLetters("p", "a", "b", "c")
		f.wantLetters("q")
	}},
	{name: "one letter is deleted", run: func(f *fix) {
		f.recordIDs("p", "a", "b", "c")
		f.recordIDs("q", "b")
		f.deleteLetter("p", "b", true)
		f.deleteLetter("p", "b", false)
		f.deleteLetter("p", "B", false)
		f.wantLetters("p", "a", "c")
		f.wantLetters("q", "b")
		f.wantNoLetter("p", "b")
	}},
	{name: "many letters are deleted, and counted once each", run: func(f *fix) {
		f.recordIDs("p", "a", "b", "c", "d", "e")
		f.recordIDs("q", "a", "b")
		f.deleteLetters("p", 3, "e", "missing", "b", "a", "b", "e", "z")
		f.wantLetters("p", "c", "d")
		f.wantLetters("q", "a", "b")
		f.deleteLetters("p", 0)
		f.deleteLetters("p", 0, "a")
		f.wantLetters("p", "c", "d")
	}},
	{name: "all letters through a position are deleted, and no newer ones", run: func(f *fix) {
		f.recordIDs("p", "a", "b")
		f.recordIDs("q", "x")
		f.recordIDs("p", "c", "d")
		f.recordIDs("q", "y")
		all := f.letters("p")
		f.deleteThrough("p", 0, 0)
		f.deleteThrough("p", all[0].Position-1, 0)
		f.deleteThrough("p", all[2].Position, 3)
		f.deleteThrough("p", all[2].Position, 0)
		f.wantLetters("p", "d")
		f.wantLetters("q", "x", "y")
		f.recordIDs("p", "a")
		f.deleteThrough("p", all[3].Position, 1)
		f.wantLetters("p", "a")
		f.deleteThrough("p", math.MaxInt64, 1)
		f.wantLetters("p")
		f.wantLetters("q", "x", "y")
	}},
	{name: "each pipeline has letters of its own, and counts are ordered", run: func(f *fix) {
		f.recordIDs("q", "a", "b", "c")
		f.recordIDs("p.", "a")
		f.recordIDs("P", "a", "b")
		f.recordIDs("p", "b", "a")
		counts := func(want ...types.LetterCount) {
			f.Helper()
			got, err := f.s.CountDeadLetters(f.ctx)
			require.NoError(f, err)
			require.Equal(f, want, got)
		}
		counts(types.LetterCount{Pipeline: "P", Count: 2}, types.LetterCount{Pipeline: "p", Count: 2}, types.LetterCount{Pipeline: "p.", Count: 1}, types.LetterCount{Pipeline: "q", Count: 3})
		f.wantUpdate("p", types.DeadLetter{MatchID: "a", Monitor: "m", Sink: "s", Reason: "of p"}, true)
		require.Equal(f, letter("a"), f.stored("q", "a").Letter)
		f.deleteLetter("p.", "a", true)
		f.deleteLetters("q", 2, "a", "c")
		counts(types.LetterCount{Pipeline: "P", Count: 2}, types.LetterCount{Pipeline: "p", Count: 2}, types.LetterCount{Pipeline: "q", Count: 1})
		f.wantLetters("p", "b", "a")
		f.wantLetters("P", "a", "b")
		f.wantLetters("q", "b")
	}},
	{name: "1500 letters come in pages", run: func(f *fix) {
		var progress types.Progress
		var ids []types.MatchID
		for i := range 1500 {
			ids = append(ids, fixture.MatchID(i))
			progress.DeadLetters = append(progress.DeadLetters, letter(ids[i]))
		}
		f.apply("p", progress)
		letters, err := readLetters(f.ctx, f.s, "p")
		require.NoError(f, err)
		require.Equal(f, ids, matchIDs(letters))
		require.Len(f, f.page("p", types.LetterQuery{Take: 1000}), 1000)
		require.Equal(f, ids[1000:], matchIDs(f.page("p", types.LetterQuery{Skip: 1000, Take: 1000})))
		require.Equal(f, ids[1499:], matchIDs(f.page("p", types.LetterQuery{Skip: 1499, Take: 2})))
	}},
	{name: "a letter that cannot be decoded is shown in its place", run: func(f *fix) {
		if f.store.InjectUndecodable == nil {
			f.Skip("the harness cannot inject letters that nobody can decode")
		}
		f.recordIDs("p", "a")
		f.recordIDs("q", "a")
		closeStorage(f, f.s)
		s, n := f.store.InjectUndecodable(f, "p")
		f.s = s
		require.Positive(f, n)
		f.recordIDs("p", "b")
		list := func() []types.StoredLetter {
			f.Helper()
			letters, err := f.s.ListDeadLetters(f.ctx, "p", types.LetterQuery{Take: 1000})
			require.NoError(f, err)
			return letters
		}
		letters := list()
		require.Len(f, letters, n+2)
		for i, l := range letters {
			if i == 0 || i == n+1 {
				require.NoError(f, l.Err)
				continue
			}
			require.Error(f, l.Err, "the letter at %d", i)
			require.Equal(f, types.DeadLetter{MatchID: l.Letter.MatchID}, l.Letter, "of a letter that cannot be decoded there is the match id at most")
			require.Greater(f, l.Position, letters[i-1].Position)
		}
		require.Equal(f, []types.MatchID{"a", "b"}, []types.MatchID{letters[0].Letter.MatchID, letters[n+1].Letter.MatchID})
		counts, err := f.s.CountDeadLetters(f.ctx)
		require.NoError(f, err)
		require.Equal(f, []types.LetterCount{{Pipeline: "p", Count: int64(n) + 2}, {Pipeline: "q", Count: 1}}, counts)
		f.wantUndecodableExport()
		f.deleteThrough("p", letters[n].Position, int64(n)+1)
		f.wantLetters("p", "b")
		f.wantLetters("q", "a")
	}},
}
