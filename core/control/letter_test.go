package control_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/types"
)

// mixed are letters 1 to n: every second one of the sink "mail", every third one of the monitor "weak",
// every fifth one that timed out.
func mixed(n int) []types.DeadLetter {
	letters := numbered(1, n)
	for i := range letters {
		if number := i + 1; number%2 == 0 {
			letters[i].Sink = "mail"
		}
		if number := i + 1; number%3 == 0 {
			letters[i].Monitor = "weak"
		}
		if number := i + 1; number%5 == 0 {
			letters[i].Reason = "the request timed out"
		}
	}
	return letters
}

func TestLettersPicksAndPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetPageSize(4)
	require.NoError(t, w.store.RecordDeadLetter(t.Context(), "volcanoes", fixture.DeadLetter(1)))
	w.record(t, mixed(30)...)
	through := w.letters(t)[29].Position
	for name, c := range map[string]struct {
		filter     types.LetterFilter
		skip, take int
		total      int64
		want       []types.MatchID
	}{
		"all":                  {take: 1000, total: 30, want: w.kept(t)},
		"all, a page":          {skip: 28, take: 5, total: 30, want: ids(29, 30)},
		"all, past the end":    {skip: 31, take: 5, total: 30, want: ids()},
		"all, only counted":    {total: 30, want: ids()},
		"a sink":               {filter: types.LetterFilter{Sink: "mail"}, take: 3, total: 15, want: ids(2, 4, 6)},
		"a sink, a later page": {filter: types.LetterFilter{Sink: "mail"}, skip: 13, take: 3, total: 15, want: ids(28, 30)},
		"a monitor and a sink": {filter: types.LetterFilter{Sink: "mail", Monitor: "weak"}, take: 9, total: 5, want: ids(6, 12, 18, 24, 30)},
		"a part of the reason": {filter: types.LetterFilter{Reason: "timed"}, take: 2, total: 6, want: ids(5, 10)},
		"all three":            {filter: types.LetterFilter{Sink: "mail", Monitor: "weak", Reason: "timed"}, take: 9, total: 1, want: ids(30)},
		"counted":              {filter: types.LetterFilter{Sink: "mail"}, total: 15, want: ids()},
		"none":                 {filter: types.LetterFilter{Sink: "sms"}, take: 9, want: ids()},
	} {
		page, err := w.Letters(t.Context(), fixture.Pipeline, c.filter, types.LetterQuery{Skip: c.skip, Take: c.take})
		require.NoError(t, err, name)
		got := ids()
		for _, l := range page.Letters {
			got = append(got, l.Letter.MatchID)
		}
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.total, page.Total, name)
		require.Equal(t, through, page.Through, "%s: of the pipeline, picked or not", name)

		preview, err := w.PreviewLetters(t.Context(), fixture.Pipeline, c.filter)
		require.NoError(t, err, name)
		require.Equal(t, types.LetterPreview{Count: c.total, Through: through}, preview, name)
	}
	counts, err := w.LetterCounts(t.Context())
	require.NoError(t, err)
	require.Equal(t, []types.LetterCount{{Pipeline: fixture.Pipeline, Count: 30}, {Pipeline: "volcanoes", Count: 1}}, counts)
}

// Who goes on behind the last letter that came sees each once, and reads no letter twice.
func TestPagesBehindAPositionReadOnWhereTheLastOneEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetPageSize(4)
	w.record(t, mixed(30)...)
	for _, filter := range []types.LetterFilter{{}, {Sink: "mail"}, {Sink: "mail", Monitor: "weak"}, {Sink: "sms"}} {
		all, err := w.Letters(t.Context(), fixture.Pipeline, filter, types.LetterQuery{Take: 1000})
		require.NoError(t, err)
		seen := []types.StoredLetter{}
		for query := (types.LetterQuery{Take: 3}); ; query.After = seen[len(seen)-1].Position {
			page, err := w.Letters(t.Context(), fixture.Pipeline, filter, query)
			require.NoError(t, err)
			if query.After > 0 {
				require.Zero(t, page.Total)
				require.Zero(t, page.Through)
			}
			seen = append(seen, page.Letters...)
			if len(page.Letters) == 0 {
				break
			}
		}
		require.Len(t, seen, int(all.Total), "%+v", filter)
		require.ElementsMatch(t, all.Letters, seen, "%+v", filter)
	}
	skipped, err := w.Letters(t.Context(), fixture.Pipeline, types.LetterFilter{Sink: "mail"}, types.LetterQuery{After: w.letters(t)[1].Position, Skip: 2, Take: 1})
	require.NoError(t, err)
	require.Len(t, skipped.Letters, 1)
	require.Equal(t, fixture.MatchID(8), skipped.Letters[0].Letter.MatchID)
}

func TestLettersOfAPipelineThatHasNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, filter := range []types.LetterFilter{{}, {Sink: "mail"}} {
		page, err := w.Letters(t.Context(), fixture.Pipeline, filter, types.LetterQuery{Take: 10})
		require.NoError(t, err)
		require.Empty(t, page.Letters)
		require.Zero(t, page.Total)
		require.Zero(t, page.Through)
	}
}

// A page is one look into the store, however many letters there are; so is the end of them.
func TestAPageOfAllLettersReadsNoOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 50)...)
	_, err := w.Letters(t.Context(), fixture.Pipeline, types.LetterFilter{}, types.LetterQuery{Skip: 20, Take: 10})
	require.NoError(t, err)
	require.Equal(t, 2, w.faults.Calls(flaky.StorageListDeadLetters))
	require.Equal(t, 1, w.faults.Calls(flaky.StorageCountDeadLetters))
}

func TestLetterShowsOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record(t, numbered(1, 2)...)
	shown, err := w.Letter(t.Context(), fixture.Pipeline, fixture.MatchID(2))
	require.NoError(t, err)
	require.Equal(t, w.letters(t)[1], shown)
	_, err = w.Letter(t.Context(), fixture.Pipeline, fixture.MatchID(3))
	require.ErrorIs(t, err, ports.ErrNotFound)
	require.ErrorContains(t, err, "match-000003")
}

// hooked calls before each look at a page.
type hooked struct {
	ports.Storage
	beforeList func(query types.LetterQuery)
}

func (h *hooked) ListDeadLetters(ctx context.Context, pipeline types.PipelineID, query types.LetterQuery) ([]types.StoredLetter, error) {
	if h.beforeList != nil {
		h.beforeList(query)
	}
	return h.Storage.ListDeadLetters(ctx, pipeline, query)
}

// What was shown can be acted on, also if it was gone by the time the newest letter was looked for.
func TestThroughCoversThePage(t *testing.T) {
	t.Parallel()
	hook := &hooked{}
	w := newWorldOver(t, func(s ports.Storage) control.Storage { hook.Storage = s; return hook })
	w.record(t, numbered(1, 3)...)
	hook.beforeList = func(q types.LetterQuery) {
		if q.Take == 1 {
			must(w.store.DeleteDeadLetter(context.Background(), fixture.Pipeline, fixture.MatchID(3)))
		}
	}
	page, err := w.Letters(t.Context(), fixture.Pipeline, types.LetterFilter{}, types.LetterQuery{Take: 10})
	require.NoError(t, err)
	require.Len(t, page.Letters, 3)
	require.Equal(t, page.Letters[2].Position, page.Through)
}

// A page that is not full is the last one.
func TestAScanEndsWithTheLettersThatThereAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetPageSize(4)
	w.record(t, numbered(1, 7)...)
	_, err := w.Letters(t.Context(), fixture.Pipeline, types.LetterFilter{Sink: "mail"}, types.LetterQuery{Take: 10})
	require.NoError(t, err)
	require.Equal(t, 2, w.faults.Calls(flaky.StorageListDeadLetters))
}

// The newest letter is found while others are taken away all the time.
func TestThroughIsFoundWhileLettersDisappear(t *testing.T) {
	t.Parallel()
	hook := &hooked{}
	w := newWorldOver(t, func(s ports.Storage) control.Storage { hook.Storage = s; return hook })
	w.SetPageSize(4)
	w.record(t, numbered(1, 30)...)
	last := w.letters(t)[29].Position
	gone := 0
	hook.beforeList = func(types.LetterQuery) {
		if gone < 5 {
			gone++
			must(w.store.DeleteDeadLetter(context.Background(), fixture.Pipeline, fixture.MatchID(gone)))
		}
	}
	preview, err := w.PreviewLetters(t.Context(), fixture.Pipeline, types.LetterFilter{})
	require.NoError(t, err)
	require.Equal(t, last, preview.Through)
	require.Equal(t, int64(26), preview.Count, "those that were there at the last look")
}

func TestLettersPassesErrorsOn(t *testing.T) {
	t.Parallel()
	for _, op := range []flaky.Op{flaky.StorageListDeadLetters, flaky.StorageCountDeadLetters} {
		w := newWorld(t)
		w.record(t, numbered(1, 3)...)
		w.faults.Add(flaky.Fault{Op: op, Err: errBoom})
		_, err := w.Letters(t.Context(), fixture.Pipeline, types.LetterFilter{}, types.LetterQuery{Take: 10})
		require.ErrorIs(t, err, errBoom, op)
		_, err = w.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
		require.ErrorIs(t, err, errBoom, op)
	}
	w := newWorld(t)
	w.faults.Add(flaky.Fault{Op: flaky.StorageListDeadLetters, Err: errBoom})
	_, err := w.Letters(t.Context(), fixture.Pipeline, types.LetterFilter{Reason: "a"}, types.LetterQuery{Take: 10})
	require.ErrorIs(t, err, errBoom)
	w.faults.Add(flaky.Fault{Op: flaky.StorageGetDeadLetter, Err: errBoom})
	_, err = w.Letter(t.Context(), fixture.Pipeline, fixture.MatchID(1))
	require.ErrorIs(t, err, errBoom)
}
