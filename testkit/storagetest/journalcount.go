package storagetest

import (
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// journalCounter is the store as a counter of its journals; a case skips where it is none.
func (f *fix) journalCounter() ports.JournalCounter {
	f.Helper()
	counter, ok := f.s.(ports.JournalCounter)
	if !ok {
		f.Skip("the harness does not claim CanCountDeliveries")
	}
	return counter
}

// wantJournals asserts the counts of all journals.
func (f *fix) wantJournals(want ...types.JournalCount) {
	f.Helper()
	counts, err := f.journalCounter().CountDeliveries(f.ctx)
	require.NoError(f, err, "count of deliveries")
	if len(want) == 0 {
		require.Empty(f, counts, "count of deliveries")
		return
	}
	require.Equal(f, want, counts, "count of deliveries")
}

var journalCountCases = []testCase{
	{name: "a counter of deliveries is as claimed", run: func(f *fix) {
		_, ok := f.s.(ports.JournalCounter)
		require.Equal(f, f.h.CanCountDeliveries, ok, "the store is a ports.JournalCounter: want what the harness claims")
	}},
	{name: "the entries of each journal are counted, ordered by pipeline", depth: 10, run: func(f *fix) {
		f.wantJournals()
		f.deliver("p")
		f.wantJournals()
		f.deliver("q", delivery(5, 0, "a"))
		f.deliver("p.", delivery(5, 0, "a"), delivery(5, 1, "b"))
		f.deliver("P", delivery(5, 0, "a"))
		f.apply("p", types.Progress{Deliveries: []types.Delivery{delivery(5, 0, "a"), delivery(6, 0, "b"), delivery(6, 0, "c")}})
		f.record("letters", letter("a"))
		f.wantJournals(types.JournalCount{Pipeline: "P", Count: 1}, types.JournalCount{Pipeline: "p", Count: 3},
			types.JournalCount{Pipeline: "p.", Count: 2}, types.JournalCount{Pipeline: "q", Count: 1})
	}},
	{name: "an entry that moves or is forgotten is counted as it stands", depth: 10, run: func(f *fix) {
		f.deliver("p", delivery(5, 0, "a"), delivery(6, 0, "b"), delivery(6, 0, "c"))
		f.deliver("p", delivery(7, 0, "a"), delivery(6, 0, "b"))
		f.wantJournals(types.JournalCount{Pipeline: "p", Count: 3})
		f.deliver("p", delivery(17, 0, "d"))
		f.wantJournals(types.JournalCount{Pipeline: "p", Count: 2})
	}},
}
