package sourcetest

import (
	"io"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// lastOf is the index of the last event of the cursor of the event i: a source goes on behind cursors.
func lastOf(events []types.Event, i int) int {
	for i+1 < len(events) && events[i+1].Cursor == events[i].Cursor {
		i++
	}
	return i
}

var cursorCases = []testCase{
	{name: "an ordered source behind each cursor gives exactly the rest", applies: ordered, run: func(f *fix) {
		f.add(append(numbered(0, 8), odd...)...)
		f.open(nil)
		n := 8 + len(odd)
		all := f.readAll(n, 5)
		for i := range all {
			f.reopen(&all[i].Cursor)
			rest := all[lastOf(all, i)+1:]
			f.wantSame(rest, f.readAll(len(rest), 7))
		}
		f.nothingMore()
		f.reopen(nil)
		f.wantSame(all, f.readAll(n, 100))
	}},
	{name: "a source that settled up to a cursor gives exactly the rest behind it", run: func(f *fix) {
		const n = 20
		f.add(numbered(0, n)...)
		f.open(nil)
		all := f.readAll(n, 5)
		rest := all
		for _, step := range []int{1, 1, 3, 5} {
			i := lastOf(rest, step-1)
			last := rest[i]
			f.settle(last)
			f.reopen(&last.Cursor)
			again := f.readAll(len(rest)-i-1, 4)
			f.wantSame(rest[i+1:], again)
			for _, e := range again {
				require.Positive(f, e.Cursor.Compare(last.Cursor), "the cursor %v of an event that comes again: want one behind %v, which is settled", e.Cursor, last.Cursor)
			}
			rest = again
		}
		f.nothingMore()
	}},
	{name: "a source behind the last cursor gives what comes later", run: func(f *fix) {
		f.add(numbered(0, 3)...)
		f.open(nil)
		last := f.readAll(3, 10)[2]
		f.settle(last)
		f.reopen(&last.Cursor)
		f.nothingMore()
		f.add(numbered(3, 2)...)
		f.reopen(&last.Cursor)
		more := f.readAll(2, 10)
		f.wantData(numbered(3, 2), more, false)
		require.Positive(f, more[0].Cursor.Compare(last.Cursor), "an event that was added later is at %v: want a cursor behind %v", more[0].Cursor, last.Cursor)
	}},
	{name: "identities are the same when a source is opened anew", run: func(f *fix) {
		f.add(numbered(0, 6)...)
		f.open(nil)
		all := f.readAll(6, 2)
		f.reopen(nil)
		f.wantSame(all, f.readAll(6, 4))

		f.add(numbered(6, 4)...) // which changes none of the others
		f.reopen(nil)
		more := f.readAll(10, 3)
		f.wantSame(all, f.named(more, all))
		i := lastOf(more, 2)
		f.settle(more[i])
		f.reopen(&more[i].Cursor)
		f.wantSame(more[i+1:], f.readAll(len(more)-i-1, 10))
	}},
	{name: "settling again, and on while reading, loses nothing behind it", run: func(f *fix) {
		const n = 10
		f.add(numbered(0, n)...)
		f.open(nil)
		var all []types.Event
		for len(all) < n {
			all = append(all, f.read(3)...)
			if len(all) > 4 {
				for range 3 {
					f.settle(all[4])
				}
			}
		}
		f.wantData(numbered(0, n), all, false)
		at := all[lastOf(all, 4)]
		f.reopen(&at.Cursor)
		f.settle(at) // whoever was killed before it could settle does so now
		rest := f.readAll(n-lastOf(all, 4)-1, 3)
		f.wantSame(all[lastOf(all, 4)+1:], rest)
		f.settle(rest[len(rest)-1])
		f.settle(rest[len(rest)-1])
		f.nothingMore()
	}},
	{name: "what is read and not settled is not given twice by one source", run: func(f *fix) {
		f.add(numbered(0, 5)...)
		f.open(nil)
		f.readAll(5, 2)
		f.nothingMore()
	}},
	{name: "unordered is said by those that are", run: func(f *fix) {
		f.open(nil)
		source, ok := f.s.(ports.Unordered)
		require.Equal(f, f.h.Unordered, ok && source.Unordered(), "the harness says whether its source is unordered: want the source to say the same")
	}},
	{name: "closing gives back what was lent, at once", applies: func(h Harness) bool { return h.Lends }, run: func(f *fix) {
		f.add(numbered(0, 6)...)
		f.open(nil)
		all := f.readAll(4, 2)
		for range 3 {
			f.reopen(nil)
			again := f.readAll(6, 10)
			f.wantSame(all[:4], f.named(again, all[:4]))
			all = again
		}
		f.wantData(numbered(0, 6), all, true)
	}},
	{name: "an unordered source lends its events", applies: unordered, run: func(f *fix) {
		require.True(f, f.h.Lends, "want the harness of an unordered source to claim Lends: without it an event that was read would come back at nobody knows when")
	}},
}

// named are the events that have the identity of one of the others.
func (f *fix) named(events, others []types.Event) []types.Event {
	f.Helper()
	wanted := map[string]bool{}
	for _, e := range others {
		wanted[e.Identity()] = true
	}
	var found []types.Event
	for _, e := range events {
		if wanted[e.Identity()] {
			found = append(found, e)
		}
	}
	return found
}

var endCases = []testCase{
	{name: "behind the last event is the end, however often one asks", applies: ends, run: func(f *fix) {
		f.add(numbered(0, 3)...)
		f.open(nil)
		last := f.readAll(3, 2)[2]
		for range 3 {
			f.nothingMore()
		}
		f.settle(last)
		f.reopen(&last.Cursor)
		f.nothingMore()
	}},
	{name: "an empty stream is at its end", applies: ends, run: func(f *fix) {
		f.open(nil)
		events, err := f.s.Read(f.ctx, 1)
		require.Equal(f, io.EOF, err, "want io.EOF itself, as readers compare it")
		require.Empty(f, events)
	}},
}
