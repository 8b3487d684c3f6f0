package sourcetest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// A W3C trace context.
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func (f *fix) acceptor() ports.Acceptor {
	f.Helper()
	acceptor, ok := f.s.(ports.Acceptor)
	require.True(f, ok, "the harness claims Accepts: want its source to be a ports.Acceptor, got %T", f.s)
	return acceptor
}

func (f *fix) accept(events ...types.Event) {
	f.Helper()
	require.NoError(f, f.acceptor().Accept(f.ctx, events), "accept")
}

// eventsOf are events that others hand over.
func eventsOf(payloads ...string) []types.Event {
	var events []types.Event
	for i, p := range payloads {
		events = append(events, types.Event{TS: acceptTS + int64(i), Data: []byte(p)})
	}
	return events
}

// afterAccept opens the source anew where it ends at what there was when it was opened.
func (f *fix) afterAccept() {
	f.Helper()
	if f.h.Ends {
		f.reopen(nil)
	}
}

var acceptCases = []testCase{
	{name: "a source that does not claim to accept events is no Acceptor", run: func(f *fix) {
		f.open(nil)
		_, ok := f.s.(ports.Acceptor)
		require.Equal(f, f.h.Accepts, ok, "the harness says whether its source is a ports.Acceptor: want the source to be the same, got %T", f.s)
	}},
	{name: "what was accepted comes out in order, with its time and trace", applies: accepts, run: func(f *fix) {
		f.open(nil)
		first, second := eventsOf(odd...), eventsOf(numbered(0, 3)...)
		first[1].Traceparent = traceparent
		first[2].TS = -5
		first[3].Traceparent = "not a trace context"
		// What a source gives by itself is not taken from others.
		second[0].Cursor, second[0].Index, second[0].ID = types.Cursor{Primary: 1 << 62, Secondary: 7}, 9, "forged"
		second[0].Err = context.Canceled
		f.accept(first...)
		f.accept(second...)
		f.afterAccept()
		all := f.readAll(len(odd)+3, 4)
		f.wantData(append(odd[:len(odd):len(odd)], numbered(0, 3)...), all, false)
		for i, want := range append(first, second...) {
			require.Equal(f, want.TS, all[i].TS, "the time of the event %d", i)
			trace := want.Traceparent
			if i == 3 {
				trace = ""
			}
			require.Equal(f, trace, all[i].Traceparent, "the trace context of the event %d", i)
			require.NotEqual(f, "forged", all[i].Identity())
			require.NotEqual(f, types.Cursor{Primary: 1 << 62, Secondary: 7}, all[i].Cursor)
		}
	}},
	{name: "one that breaks a rule refuses all", applies: accepts, run: func(f *fix) {
		f.open(nil)
		f.accept(eventsOf(numbered(0, 1)...)...)
		const secret = "canary-of-the-suite"
		for name, bad := range map[string]string{
			"nothing":           "",
			"white space":       "  ",
			"no JSON":           `{"` + secret + `":`,
			"two values":        `1 2`,
			"duplicate members": `{"` + secret + `":1,"` + secret + `":2}`,
			"invalid UTF-8":     "\"\xff\"",
			"above 1 MiB":       `"` + strings.Repeat("x", ports.MaxJSONBytes-1) + `"`,
		} {
			for at := range 3 {
				events := eventsOf(numbered(50, 3)...)
				events[at].Data = []byte(bad)
				err := f.acceptor().Accept(f.ctx, events)
				f.wantInvalid(err, "%s, as number %d of 3", name, at+1)
				require.NotContains(f, err.Error(), secret, "an error holds no payload")
			}
		}
		f.accept(eventsOf(numbered(1, 1)...)...)
		f.afterAccept()
		f.wantData(numbered(0, 2), f.readAll(2, 10), false)
		f.nothingMore()
	}},
	{name: "accepting nothing does nothing", applies: accepts, run: func(f *fix) {
		f.open(nil)
		f.accept()
		f.accept([]types.Event{}...)
		f.afterAccept()
		f.nothingMore()
	}},
	{name: "what was accepted is there when the source is opened anew", applies: accepts, run: func(f *fix) {
		f.open(nil)
		f.accept(eventsOf(numbered(0, 4)...)...)
		f.reopen(nil)
		all := f.readAll(4, 10)
		f.wantData(numbered(0, 4), all, false)
		f.accept(eventsOf(numbered(4, 2)...)...)
		i := lastOf(all, 1)
		f.settle(all[i])
		f.reopen(&all[i].Cursor)
		rest := f.readAll(6-i-1, 3)
		f.wantData(numbered(i+1, 6-i-1), rest, true)
		f.settle(rest[len(rest)-1])
		f.reopen(&rest[len(rest)-1].Cursor)
		f.accept(eventsOf(numbered(6, 1)...)...)
		if f.h.Ends {
			f.reopen(&rest[len(rest)-1].Cursor)
		}
		more := f.readAll(1, 3)
		f.wantData(numbered(6, 1), more, false)
		require.Positive(f, more[0].Cursor.Compare(rest[len(rest)-1].Cursor), "cursors grow, also when all was settled")
	}},
	{name: "an event of the largest size, and a thousand at once, are accepted", applies: accepts, run: func(f *fix) {
		f.open(nil)
		large := fixture.JSONOfSize(min(f.h.MaxEventBytes, ports.MaxJSONBytes)).Data
		f.accept(eventsOf(large)...)
		f.accept(eventsOf(numbered(0, 1_000)...)...)
		f.afterAccept()
		f.wantData(append([]string{large}, numbered(0, 1_000)...), f.readAll(1_001, 300), false)
	}},
	{name: "accepting wakes a read", applies: func(h Harness) bool { return h.Accepts && !h.Ends }, run: func(f *fix) {
		f.open(nil)
		r := f.start(10)
		r.pending()
		f.accept(eventsOf(numbered(0, 1)...)...)
		got := r.wait()
		require.NoError(f, got.err)
		f.wantData(numbered(0, 1), got.events, false)
	}},
	{name: "what was handed in stays the caller's", applies: accepts, run: func(f *fix) {
		f.open(nil)
		events := eventsOf(numbered(0, 3)...)
		f.accept(events...)
		for i := range events {
			for j := range events[i].Data {
				events[i].Data[j] = 'X'
			}
			events[i] = types.Event{}
		}
		f.afterAccept()
		f.wantData(numbered(0, 3), f.readAll(3, 10), false)
	}},
	{name: "accepting for a context that has ended leaves nothing behind", applies: accepts, run: func(f *fix) {
		f.open(nil)
		f.wantContext(context.Canceled, f.acceptor().Accept(fixture.Cancelled(f), eventsOf(numbered(0, 3)...)))
		f.accept(eventsOf(numbered(7, 1)...)...)
		f.afterAccept()
		f.wantData(numbered(7, 1), f.readAll(1, 10), false)
		f.nothingMore()
	}},
	{name: "what many hand over stays together, each in its order", applies: accepts, run: func(f *fix) {
		const givers, rounds, size = 6, 10, 4
		f.open(nil)
		acceptor := f.acceptor()
		errs := make(chan error, givers*rounds)
		var wait sync.WaitGroup
		for giver := range givers {
			wait.Go(func() {
				for round := range rounds {
					var payloads []string
					for i := range size {
						payloads = append(payloads, fmt.Sprintf(`[%d,%d,%d]`, giver, round, i))
					}
					errs <- acceptor.Accept(f.ctx, eventsOf(payloads...))
				}
			})
		}
		wait.Wait()
		close(errs)
		for err := range errs {
			require.NoError(f, err)
		}
		f.afterAccept()
		all := f.readAll(givers*rounds*size, 50)
		next := map[int]int{}
		for i := 0; i < len(all); i += size {
			var giver, round, at int
			_, err := fmt.Sscanf(string(all[i].Data), "[%d,%d,%d]", &giver, &round, &at)
			require.NoError(f, err, "%s", all[i].Data)
			require.Equal(f, next[giver], round, "the round of the giver %d", giver)
			next[giver]++
			for j := range size {
				require.Equal(f, fmt.Sprintf(`[%d,%d,%d]`, giver, round, j), string(all[i+j].Data), "events that were accepted together stay together")
			}
		}
	}},
	{name: "a closed source accepts nothing", applies: accepts, run: func(f *fix) {
		f.open(nil)
		acceptor := f.acceptor()
		f.close()
		err := acceptor.Accept(f.ctx, eventsOf(numbered(0, 1)...))
		require.ErrorIs(f, err, ports.ErrStoreClosed)
		f.open(nil)
		f.nothingMore()
	}},
}
