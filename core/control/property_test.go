package control_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// meddler is a storage to which other things happen between the calls of an action: letters arrive,
// are written again, go, and go and come again.
type meddler struct {
	ports.Storage
	w  *world
	rt *rapid.T

	active  bool
	next    int // the number of the next letter to arrive
	arrived map[types.MatchID]bool
	again   map[types.MatchID]bool // went, and came again
	gone    map[types.MatchID]bool // went at some time
	written map[types.MatchID]uint64
}

func (m *meddler) ListDeadLetters(ctx context.Context, pipeline types.PipelineID, q types.LetterQuery) ([]types.StoredLetter, error) {
	if q.Take > 1 { // not the look for the newest letter, with which an action begins
		m.active = true
		m.meddle()
	}
	return m.Storage.ListDeadLetters(ctx, pipeline, q)
}

func (m *meddler) GetDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (types.StoredLetter, bool, error) {
	m.meddle()
	return m.Storage.GetDeadLetter(ctx, pipeline, id)
}

// some letter of the store, if there is one.
func (m *meddler) some() (types.DeadLetter, bool) {
	letters, err := m.Storage.ListDeadLetters(context.Background(), fixture.Pipeline, types.LetterQuery{Take: 1000})
	mustDo(err)
	if len(letters) == 0 {
		return types.DeadLetter{}, false
	}
	return rapid.SampledFrom(letters).Draw(m.rt, "letter").Letter, true
}

func (m *meddler) meddle() {
	if !m.active {
		return
	}
	ctx := context.Background()
	for range rapid.IntRange(0, 2).Draw(m.rt, "happenings") {
		letter, ok := m.some()
		switch what := rapid.IntRange(0, 3).Draw(m.rt, "what"); {
		case what == 0 || !ok:
			arriving := anyLetter(m.rt, m.next)
			m.next++
			m.arrived[arriving.MatchID] = true
			mustDo(m.RecordDeadLetter(ctx, fixture.Pipeline, arriving))
		case what == 1:
			letter.Attempts += 10
			m.written[letter.MatchID] += 10
			mustDo(m.RecordDeadLetter(ctx, fixture.Pipeline, letter))
		default:
			must(m.DeleteDeadLetter(ctx, fixture.Pipeline, letter.MatchID))
			m.gone[letter.MatchID] = true
			delete(m.again, letter.MatchID)
			if what == 3 {
				letter.Attempts = 3
				m.written[letter.MatchID] = 0
				m.again[letter.MatchID] = true
				mustDo(m.RecordDeadLetter(ctx, fixture.Pipeline, letter))
			}
		}
	}
}

// anyLetter is the letter number n: of a sink that takes it, one that fails, or one that is not there,
// with a payload or without.
func anyLetter(rt *rapid.T, n int) types.DeadLetter {
	letter := fixture.DeadLetter(n)
	letter.Sink = rapid.SampledFrom([]types.SinkID{fixture.Sink, "mail", "sms"}).Draw(rt, "sink")
	letter.Monitor = rapid.SampledFrom([]types.MonitorID{fixture.Monitor, "weak"}).Draw(rt, "monitor")
	if rapid.IntRange(0, 4).Draw(rt, "payload") == 0 {
		letter.Payload = nil
	}
	return letter
}

// Whatever happens between its steps, an action works on exactly the letters that it was given: those
// that a filter picked, that were there when it began and stayed. It delivers each of them once, in
// order, loses none, and leaves all others as they are.
func TestActionsOnManyLettersUnderArrivalsAndDeletions(t *testing.T) {
	t.Parallel()
	for name, discard := range map[string]bool{"replay": false, "discard": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) { checkBulk(t, rt, discard) })
		})
	}
}

func checkBulk(t *testing.T, rt *rapid.T, discard bool) {
	t.Helper()
	m := &meddler{
		rt: rt, arrived: map[types.MatchID]bool{}, again: map[types.MatchID]bool{}, gone: map[types.MatchID]bool{}, written: map[types.MatchID]uint64{},
	}
	m.w = newWorldOver(t, func(s ports.Storage) control.Storage { m.Storage = s; return m })
	w := m.w
	w.resolver.sinks["mail"] = failing(errSink)
	w.SetPageSize(rapid.IntRange(2, 6).Draw(rt, "page size"))
	m.next = rapid.IntRange(0, 20).Draw(rt, "letters")
	for n := range m.next {
		w.record(t, anyLetter(rt, n))
	}
	began := w.letters(t)
	selection := types.LetterSelection{Filter: types.LetterFilter{
		Sink:    rapid.SampledFrom([]types.SinkID{"", fixture.Sink, "mail"}).Draw(rt, "filter by sink"),
		Monitor: rapid.SampledFrom([]types.MonitorID{"", "weak"}).Draw(rt, "filter by monitor"),
	}}
	if len(began) > 0 && rapid.Bool().Draw(rt, "bound") {
		selection.Through = rapid.SampledFrom(began).Draw(rt, "through").Position
	}

	act := w.ReplayLetters
	if discard {
		act = w.DiscardLetters
	}
	result, err := act(t.Context(), fixture.Pipeline, selection)
	require.NoError(rt, err)

	after := map[types.MatchID]types.DeadLetter{}
	for _, l := range w.letters(t) {
		after[l.Letter.MatchID] = l.Letter
	}
	unchanged := func(id types.MatchID, attempts uint64) {
		require.Contains(rt, after, id)
		require.Equal(rt, attempts+m.written[id], after[id].Attempts, "attempts of %s", id)
	}
	delivered := w.alerts.ids()
	require.True(rt, slices.IsSorted(delivered), "in the order of arrival: %v", delivered)
	require.Len(rt, slices.Compact(slices.Clone(delivered)), len(delivered), "each once")

	var stayed, mayBe struct{ done, failed int64 }
	for _, l := range began {
		id := l.Letter.MatchID
		picked := (selection.Through == 0 || l.Position <= selection.Through) &&
			(selection.Filter.Sink == "" || selection.Filter.Sink == l.Letter.Sink) &&
			(selection.Filter.Monitor == "" || selection.Filter.Monitor == l.Letter.Monitor)
		succeeds := discard || l.Letter.Sink == fixture.Sink && l.Letter.Payload != nil
		switch {
		case picked && succeeds:
			mayBe.done++
		case picked:
			mayBe.failed++
		}
		if m.gone[id] {
			if m.again[id] {
				unchanged(id, 3)
			}
			continue
		}
		switch {
		case !picked:
			require.NotContains(rt, delivered, id)
			unchanged(id, 3)
		case !succeeds:
			stayed.failed++
			attempts := uint64(3)
			if l.Letter.Sink == "mail" && l.Letter.Payload != nil {
				attempts++
			}
			unchanged(id, attempts)
		default:
			stayed.done++
			require.NotContains(rt, after, id)
			if !discard {
				require.Contains(rt, delivered, id)
				require.Contains(rt, w.journal(t), types.Delivery{Cursor: l.Letter.Cursor, MatchID: id})
			}
		}
	}
	for id := range m.arrived {
		require.NotContains(rt, delivered, id)
		if !m.gone[id] || m.again[id] {
			unchanged(id, 3)
		}
	}
	require.GreaterOrEqual(rt, result.Done, stayed.done)
	require.LessOrEqual(rt, result.Done, mayBe.done)
	require.GreaterOrEqual(rt, result.Failed, stayed.failed)
	require.LessOrEqual(rt, result.Failed, mayBe.failed)
	if !discard {
		require.EqualValues(rt, len(delivered), result.Done)
	}
}
