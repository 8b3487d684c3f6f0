package storagetest

import (
	"math"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

var journalCases = []testCase{
	{name: "an empty journal is no error", run: func(f *fix) {
		f.wantDelivered("p")
		f.deliver("p")
		f.deliver("p", []types.Delivery{}...)
		f.wantDelivered("p")
	}},
	{name: "deliveries are ordered by cursor, then match id", run: func(f *fix) {
		want := []types.Delivery{
			delivery(1, 9, "z"), delivery(2, 0, "m"), delivery(2, 1, "A"), delivery(2, 1, "a"), delivery(2, 1, "a-"), delivery(2, 1, "a0"), delivery(2, 10, "b"), delivery(10, 0, "c"),
		}
		f.deliver("p", want[5], want[1], want[7], want[3])
		f.deliver("p", want[0])
		f.deliver("p", want[2], want[6], want[4])
		f.wantDelivered("p", want...)
	}},
	{name: "a window includes both of its ends", run: func(f *fix) {
		all := []types.Delivery{
			delivery(4, math.MaxInt64, "a"), delivery(5, 0, "b"), delivery(5, 1, "c"), delivery(5, 2, "d"), delivery(6, 0, "e"), delivery(6, 1, "f"),
		}
		f.deliver("p", all...)
		for i := range all {
			for j := range all {
				got := f.window("p", all[i].Cursor, all[j].Cursor)
				if i > j {
					require.Empty(f, got, "from %v to %v", all[i].Cursor, all[j].Cursor)
					continue
				}
				require.Equal(f, all[i:j+1], got, "from %v to %v", all[i].Cursor, all[j].Cursor)
			}
		}
		require.Equal(f, all[1:4], f.window("p", at(5, 0), at(5, math.MaxInt64)))
		require.Equal(f, all[1:5], f.window("p", at(5, 0), at(6, 0)))
		require.Empty(f, f.window("p", at(5, 3), at(5, math.MaxInt64)))
		require.Empty(f, f.window("p", at(6, 2), last))
		require.Empty(f, f.window("p", at(0, 0), at(4, math.MaxInt64-1)))
	}},
	{name: "a cursor comes back to the last digit", run: func(f *fix) {
		want := []types.Delivery{delivery(math.MaxInt64-1, 1<<53+1, "a"), delivery(math.MaxInt64, 0, "b"), delivery(math.MaxInt64, math.MaxInt64, "c")}
		f.deliver("p", want...)
		f.wantDelivered("p", want...)
		require.Equal(f, want[2:], f.window("p", last, last))
	}},
	{name: "a match that is recorded again stands once", run: func(f *fix) {
		for range 3 {
			f.deliver("p", delivery(5, 1, "a"), delivery(5, 1, "b"), delivery(5, 1, "a"))
		}
		f.wantDelivered("p", delivery(5, 1, "a"), delivery(5, 1, "b"))
	}},
	{name: "a known match moves to the newer of its cursors only", run: func(f *fix) {
		f.deliver("p", delivery(5, 5, "a"))
		for _, older := range []types.Cursor{at(4, 9), at(5, 4), at(0, 0), at(5, 5)} {
			f.deliver("p", types.Delivery{Cursor: older, MatchID: "a"})
			f.wantDelivered("p", delivery(5, 5, "a"))
		}
		f.deliver("p", delivery(5, 6, "a"))
		f.wantDelivered("p", delivery(5, 6, "a"))
		f.deliver("p", delivery(6, 0, "a"))
		f.wantDelivered("p", delivery(6, 0, "a"))
		f.deliver("p", delivery(7, 1, "a"), delivery(9, 2, "a"), delivery(9, 1, "a"), delivery(8, 3, "a"))
		f.wantDelivered("p", delivery(9, 2, "a"))
		f.apply("p", types.Progress{Deliveries: []types.Delivery{delivery(3, 3, "a"), delivery(9, 1, "b")}})
		f.wantDelivered("p", delivery(9, 1, "b"), delivery(9, 2, "a"))
	}},
	{name: "what lies more than the depth below the highest primary is forgotten", depth: 10, run: func(f *fix) {
		f.deliver("p", delivery(89, 0, "a"), delivery(90, 0, "b"), delivery(91, 0, "c"))
		f.wantDelivered("p", delivery(89, 0, "a"), delivery(90, 0, "b"), delivery(91, 0, "c"))
		f.deliver("p", delivery(99, 5, "d"))
		f.wantDelivered("p", delivery(89, 0, "a"), delivery(90, 0, "b"), delivery(91, 0, "c"), delivery(99, 5, "d"))
		f.deliver("p", delivery(100, 0, "e"))
		f.wantDelivered("p", delivery(90, 0, "b"), delivery(91, 0, "c"), delivery(99, 5, "d"), delivery(100, 0, "e"))
		f.deliver("p", delivery(1_000_000, 0, "f"))
		f.wantDelivered("p", delivery(1_000_000, 0, "f"))
	}},
	{name: "a secondary prunes nothing", depth: 1, run: func(f *fix) {
		want := []types.Delivery{delivery(5, 0, "a"), delivery(5, 1, "b"), delivery(6, 0, "c"), delivery(6, math.MaxInt64, "d")}
		f.deliver("p", want...)
		f.deliver("p", want[3])
		f.wantDelivered("p", want...)
	}},
	{name: "a depth of 1 keeps two primaries", depth: 1, run: func(f *fix) {
		f.deliver("p", delivery(0, 0, "zero"), delivery(1, 0, "one"))
		f.wantDelivered("p", delivery(0, 0, "zero"), delivery(1, 0, "one"))
		f.deliver("p", delivery(2, 0, "two"))
		f.wantDelivered("p", delivery(1, 0, "one"), delivery(2, 0, "two"))
		f.deliver("p", delivery(4, 0, "four"))
		f.wantDelivered("p", delivery(4, 0, "four"))
	}},
	{name: "the depth is counted from the highest primary, not from one that went back", depth: 10, run: func(f *fix) {
		f.deliver("p", delivery(95, 0, "a"), delivery(100, 0, "b"))
		f.deliver("p", delivery(90, 3, "c"))
		f.wantDelivered("p", delivery(90, 3, "c"), delivery(95, 0, "a"), delivery(100, 0, "b"))
		f.deliver("p", delivery(100, 0, "d"))
		f.wantDelivered("p", delivery(90, 3, "c"), delivery(95, 0, "a"), delivery(100, 0, "b"), delivery(100, 0, "d"))
	}},
	{name: "what is behind the depth already is forgotten at once", depth: 10, run: func(f *fix) {
		f.deliver("p", delivery(100, 0, "a"))
		f.deliver("p", delivery(89, math.MaxInt64, "late"), delivery(90, 0, "edge"), delivery(0, 0, "first"))
		f.wantDelivered("p", delivery(90, 0, "edge"), delivery(100, 0, "a"))
		f.deliver("p", delivery(89, 0, "edge"))
		f.wantDelivered("p", delivery(90, 0, "edge"), delivery(100, 0, "a"))
		f.deliver("p", delivery(150, 0, "b"), delivery(139, 0, "late"), delivery(140, 0, "c"))
		f.wantDelivered("p", delivery(140, 0, "c"), delivery(150, 0, "b"))
		f.apply("p", types.Progress{Deliveries: []types.Delivery{delivery(139, 0, "late"), delivery(200, 1, "b"), delivery(160, 0, "a")}})
		f.wantDelivered("p", delivery(200, 1, "b"))
	}},
	{name: "a match that was forgotten may come again", depth: 10, run: func(f *fix) {
		f.deliver("p", delivery(5, 0, "a"), delivery(50, 0, "b"))
		f.wantDelivered("p", delivery(50, 0, "b"))
		f.deliver("p", delivery(51, 0, "a"))
		f.wantDelivered("p", delivery(50, 0, "b"), delivery(51, 0, "a"))
	}},
	{name: "each pipeline has a journal of its own", depth: 10, run: func(f *fix) {
		f.deliver("p", delivery(5, 0, "a"), delivery(6, 0, "b"))
		f.deliver("q", delivery(7, 0, "a"))
		f.deliver("q", delivery(1_000, 0, "c"))
		f.deliver("p.", delivery(2, 0, "a"))
		f.wantDelivered("p", delivery(5, 0, "a"), delivery(6, 0, "b"))
		f.wantDelivered("q", delivery(1_000, 0, "c"))
		f.wantDelivered("p.", delivery(2, 0, "a"))
	}},
	{name: "the default depth is 10,000", run: func(f *fix) {
		f.deliver("p", delivery(99, 0, "gone"), delivery(100, 0, "kept"), delivery(10_100, 0, "highest"))
		f.wantDelivered("p", delivery(100, 0, "kept"), delivery(10_100, 0, "highest"))
		require.Equal(f, 10_000, ports.DefaultDepth)
	}},
	{name: "the greatest depth keeps everything", depth: math.MaxInt64, run: func(f *fix) {
		want := []types.Delivery{delivery(0, 0, "a"), delivery(1, 0, "b"), delivery(math.MaxInt64, 0, "c")}
		f.deliver("p", want...)
		f.wantDelivered("p", want...)
	}},
	{name: "a journal stays bounded", depth: 5, run: func(f *fix) {
		for i := range 40 {
			f.deliver("p", fixture.Delivery(i), delivery(uint64(i), 1, fixture.MatchID(1000+i)))
		}
		require.Len(f, f.window("p", at(0, 0), last), 12, "two for each of the primaries 34 to 39")
	}},
	{name: "what the checkpoint is not past is kept, however deep it lies", depth: 10, run: func(f *fix) {
		step := func(from *uint64, deliveries ...types.Delivery) {
			f.Helper()
			f.apply("p", types.Progress{Deliveries: deliveries, JournalFrom: from})
		}
		step(nil, delivery(4, 9, "below"), delivery(5, 0, "edge"), delivery(7, 0, "kept"))
		step(new(uint64(5)), delivery(1_000, 0, "new"))
		f.wantDelivered("p", delivery(5, 0, "edge"), delivery(7, 0, "kept"), delivery(1_000, 0, "new"))
		step(new(uint64(5)), delivery(6, 1, "late"), delivery(4, 0, "too.late"))
		f.wantDelivered("p", delivery(5, 0, "edge"), delivery(6, 1, "late"), delivery(7, 0, "kept"), delivery(1_000, 0, "new"))

		// It moves on, and so does the pruning; a move back brings nothing back.
		step(new(uint64(7)), delivery(1_001, 0, "newer"))
		f.wantDelivered("p", delivery(7, 0, "kept"), delivery(1_000, 0, "new"), delivery(1_001, 0, "newer"))
		step(new(uint64(0)), delivery(1_002, 0, "newest"))
		f.wantDelivered("p", delivery(7, 0, "kept"), delivery(1_000, 0, "new"), delivery(1_001, 0, "newer"), delivery(1_002, 0, "newest"))
		step(new(uint64(1_001)), delivery(1_011, 0, "last"))
		f.wantDelivered("p", delivery(1_001, 0, "newer"), delivery(1_002, 0, "newest"), delivery(1_011, 0, "last"))
	}},
	{name: "within the depth all is kept, wherever the checkpoint is", depth: 10, run: func(f *fix) {
		all := []types.Delivery{delivery(90, 0, "a"), delivery(95, 0, "b"), delivery(100, 0, "c")}
		f.apply("p", types.Progress{Deliveries: all[:2], JournalFrom: new(uint64(95))})
		f.apply("p", types.Progress{Deliveries: all[2:], JournalFrom: new(uint64(math.MaxInt64))})
		f.wantDelivered("p", all...)
	}},
	{name: "without a word on the checkpoint the depth alone counts", depth: 10, run: func(f *fix) {
		f.apply("p", types.Progress{Deliveries: []types.Delivery{delivery(5, 0, "a"), delivery(100, 0, "b")}, JournalFrom: new(uint64(1))})
		f.wantDelivered("p", delivery(5, 0, "a"), delivery(100, 0, "b"))
		f.apply("p", types.Progress{Deliveries: []types.Delivery{delivery(100, 1, "c")}})
		f.wantDelivered("p", delivery(100, 0, "b"), delivery(100, 1, "c"))

		f.apply("p", types.Progress{Deliveries: []types.Delivery{delivery(5, 0, "a")}, JournalFrom: new(uint64(5))})
		f.wantDelivered("p", delivery(5, 0, "a"), delivery(100, 0, "b"), delivery(100, 1, "c"))
		f.deliver("p", delivery(101, 0, "d"))
		f.wantDelivered("p", delivery(100, 0, "b"), delivery(100, 1, "c"), delivery(101, 0, "d"))
	}},
	{name: "a step without deliveries prunes nothing, wherever the checkpoint is", depth: 10, run: func(f *fix) {
		want := []types.Delivery{delivery(5, 0, "a"), delivery(100, 0, "b")}
		f.apply("p", types.Progress{Deliveries: want, JournalFrom: new(uint64(0))})
		f.apply("p", types.Progress{JournalFrom: new(uint64(50)), Checkpoint: new(aCheckpoint(100, 0))})
		f.wantDelivered("p", want...)
	}},
	{name: "a match of a kept entry moves to the newer of its cursors", depth: 10, run: func(f *fix) {
		f.apply("p", types.Progress{Deliveries: []types.Delivery{delivery(5, 0, "a"), delivery(100, 0, "b")}, JournalFrom: new(uint64(5))})
		f.apply("p", types.Progress{Deliveries: []types.Delivery{delivery(6, 0, "a")}, JournalFrom: new(uint64(6))})
		f.wantDelivered("p", delivery(6, 0, "a"), delivery(100, 0, "b"))
		f.apply("p", types.Progress{Deliveries: []types.Delivery{delivery(4, 0, "a")}, JournalFrom: new(uint64(5))})
		f.wantDelivered("p", delivery(6, 0, "a"), delivery(100, 0, "b"))
	}},
	{name: "the checkpoint of one pipeline keeps nothing of another", depth: 10, run: func(f *fix) {
		f.deliver("q", delivery(5, 0, "a"))
		f.apply("p", types.Progress{Deliveries: []types.Delivery{delivery(5, 0, "a"), delivery(100, 0, "b")}, JournalFrom: new(uint64(5))})
		f.deliver("q", delivery(100, 0, "b"))
		f.wantDelivered("p", delivery(5, 0, "a"), delivery(100, 0, "b"))
		f.wantDelivered("q", delivery(100, 0, "b"))
	}},
}
