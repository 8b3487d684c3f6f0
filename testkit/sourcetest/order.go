package sourcetest

import (
	"fmt"
	"math"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// numbered are n payloads that can be told apart, from the number from on.
func numbered(from, n int) []string {
	var payloads []string
	for i := range n {
		payloads = append(payloads, fmt.Sprintf(`{"n":%d,"mag":4.5}`, from+i))
	}
	return payloads
}

var inputCases = []testCase{
	{name: "a read of none, of less, or of more than 10,000 is refused, and no event is lost", run: func(f *fix) {
		f.add(numbered(0, 3)...)
		f.open(nil)
		for _, limit := range []int{0, -1, ports.MaxReadEvents + 1, math.MaxInt, math.MinInt} {
			events, err := f.s.Read(f.ctx, limit)
			f.wantInvalid(err, "a read of at most %d", limit)
			require.Empty(f, events)
		}
		f.wantData(numbered(0, 3), f.readAll(3, ports.MaxReadEvents), false)
	}},
	{name: "a cursor above 2^63-1 is not settled", run: func(f *fix) {
		f.add(numbered(0, 1)...)
		f.add(numbered(1, 1)...)
		f.open(nil)
		all := f.readAll(2, 10)
		for _, cursor := range []types.Cursor{{Primary: 1 << 63}, {Secondary: 1 << 63}} {
			f.wantInvalid(f.s.Settle(f.ctx, cursor), "settling through %v", cursor)
		}
		f.settle(all[0])
		f.reopen(&all[0].Cursor)
		f.wantSame(all[1:], f.readAll(1, 10))
	}},
}

var orderCases = []testCase{
	{name: "events come in the order in which they were added", run: func(f *fix) {
		payloads := numbered(0, 25)
		f.add(payloads[:10]...)
		f.open(nil)
		first := f.readAll(10, 4)
		if f.h.Ends {
			f.add(payloads[10:]...)
			f.settle(first[9])
			f.reopen(&first[9].Cursor)
		} else {
			f.add(payloads[10:11]...)
			f.add(payloads[11:]...)
		}
		f.wantData(payloads, append(first, f.readAll(15, 100)...), false)
		f.nothingMore()
	}},
	{name: "a read gives no more than it is asked for", run: func(f *fix) {
		payloads := numbered(0, 12)
		f.add(payloads...)
		f.open(nil)
		all := f.read(1)
		for _, limit := range []int{1, 2, 3} {
			all = append(all, f.read(limit)...)
		}
		all = append(all, f.readAll(len(payloads)-len(all), ports.MaxReadEvents)...)
		f.wantData(payloads, all, false)
	}},
	{name: "a read does not wait to fill up", run: func(f *fix) {
		f.add(numbered(0, 1)...)
		f.open(nil)
		f.wantData(numbered(0, 1), f.read(ports.MaxReadEvents), false)
	}},
	{name: "many events are read by reads of any size", run: func(f *fix) {
		const many = 400
		payloads := numbered(0, many)
		f.add(payloads...)
		f.open(nil)
		var all []types.Event
		for i := 0; len(all) < many; i++ {
			events := f.read([]int{1, 7, 64, ports.MaxReadEvents}[i%4])
			all = append(all, events...)
			f.settle(all[len(all)-1])
		}
		f.wantData(payloads, all, false)
		f.checkBatch(all, many)
		f.nothingMore()
	}},
}

// odd are payloads of every kind of JSON, with white space.
var odd = []string{
	` { "b" : 1.50 , "a" : [ ] } `, `{"n":9007199254740993,"big":1e400,"neg":-0.0}`, "\t[1,\t2]\r", `"\u00e9 é <&> \u2028 \" \\ \/ \n"`,
	`"` + "\u2028\U0001f30b" + `"`, `null`, `true`, `0`, `{}`, `[]`, `""`, `{"a":{"b":[{"c":null}]}}`, `{"":"empty name"}`,
}

var eventCases = []testCase{
	{name: "data is the event as compact JSON, to the last digit", run: func(f *fix) {
		f.add(odd...)
		f.open(nil)
		f.wantData(odd, f.readAll(len(odd), 3), false)
	}},
	{name: "the largest event comes through whole, with others around it", run: func(f *fix) {
		large := fixture.JSONOfSize(f.h.MaxEventBytes).Data
		payloads := []string{`"first"`, large, `"between"`, large, `"last"`}
		f.add(payloads...)
		f.open(nil)
		f.wantData(payloads, f.readAll(len(payloads), 10), false)
	}},
	{name: "each event has an identity of its own", run: func(f *fix) {
		payloads := append(numbered(0, 10), numbered(0, 10)...) // the same content is not the same event
		f.add(payloads...)
		f.open(nil)
		seen := map[string]bool{}
		for _, e := range f.readAll(20, 6) {
			require.False(f, seen[e.Identity()], "two events have the identity %q", e.Identity())
			seen[e.Identity()] = true
			require.LessOrEqual(f, e.Index, uint64(ports.MaxStoredInteger))
			if f.h.Unordered {
				require.NotEmpty(f, e.ID, "an event of an unordered source: want an ID, since its place changes")
			}
		}
	}},
	{name: "data is the reader's own", run: func(f *fix) {
		payloads := numbered(0, 9)
		f.add(payloads...)
		f.open(nil)
		all := f.read(3)
		for len(all) < 9 { // what was read before stays as it is
			all = append(all, f.read(3)...)
		}
		f.wantData(payloads, all, false)
		for i := range all {
			_ = append(all[i].Data, strings.Repeat("X", 64)...) // behind its end
		}
		f.wantData(payloads, all, false)
		for i := range all {
			for j := range all[i].Data {
				all[i].Data[j] = 'X'
			}
		}
		f.reopen(nil)
		f.wantData(payloads, f.readAll(9, 10), true)
	}},
	{name: "what is no event comes in its place, and stops nothing", run: func(f *fix) {
		if f.stream.AppendBad == nil {
			f.Skip("nothing but events can stand in the stream of this harness")
		}
		const secret = "canary-of-the-suite"
		f.add(numbered(0, 2)...)
		f.stream.AppendBad(f, secret)
		f.add(numbered(2, 1)...)
		f.stream.AppendBad(f, secret)
		f.open(nil)
		all := f.readAll(5, 2)
		for _, i := range []int{2, 4} {
			require.Error(f, all[i].Err, "the event %d is none", i)
			require.NotContains(f, all[i].Err.Error(), secret, "an Err holds no content")
			if all[i].Data != nil {
				_, err := ports.CompactJSON(string(all[i].Data))
				require.NoError(f, err, "the data of what is no event: want JSON, or nothing")
			}
		}
		f.wantData(numbered(0, 3), []types.Event{all[0], all[1], all[3]}, false)
		f.settle(all[1])
		f.reopen(&all[1].Cursor)
		again := f.readAll(3, 10)
		f.wantSame(all[2:], again)
	}},
}
