package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

var statsCases = []testCase{
	{name: "stats of an empty queue are zero", moves: true, run: func(f *fix) {
		require.Equal(f, types.QueueStats{}, f.stats())
		f.clock.Advance(time.Hour)
		require.Equal(f, types.QueueStats{}, f.stats())
	}},
	{name: "stats follow a message through its states", moves: true, run: func(f *fix) {
		f.sendDelayed("m", time.Second)
		f.counts(0, 0, 1)
		f.clock.Advance(time.Second)
		f.counts(1, 0, 0)
		m := f.oneLeased("m", time.Second)
		f.counts(0, 1, 0)
		f.clock.Advance(time.Second - 1)
		f.counts(0, 1, 0)
		f.clock.Advance(1)
		f.counts(1, 0, 0)
		f.renew(m, time.Second)
		f.counts(0, 1, 0)
		f.nack(m, 0)
		f.counts(1, 0, 0)
		m = f.one("m")
		f.nack(m, time.Second)
		f.counts(0, 0, 1)
		f.clock.Advance(time.Second)
		f.counts(1, 0, 0)
		f.ack(f.one("m"))
		require.Equal(f, types.QueueStats{}, f.stats())
	}},
	{name: "stats count a mix", moves: true, run: func(f *fix) {
		f.send("1", "2", "3", "4", "5", "6")
		f.sendDelayed("7", time.Minute)
		f.sendDelayed("8", time.Hour)
		messages := f.receive(types.ReceiveOptions{Max: 4, Lease: time.Hour})
		f.ack(messages[0])
		f.nack(messages[1], 0)
		f.nack(messages[2], time.Minute)
		f.counts(3, 1, 3)
		require.Equal(f, int64(7), f.stats().Total)
		f.clock.Advance(time.Minute)
		f.counts(5, 1, 1)
		f.clock.Advance(time.Hour)
		f.counts(7, 0, 0)
	}},
	{name: "the oldest age is of the message that was sent first, whatever its state", moves: true, run: func(f *fix) {
		age := func(want time.Duration) {
			f.Helper()
			require.Equal(f, want, f.stats().OldestAge)
		}
		f.sendDelayed("1", time.Hour)
		age(0)
		f.clock.Advance(1500 * time.Millisecond)
		age(1500 * time.Millisecond)
		f.send("2")
		f.clock.Advance(time.Second)
		age(2500 * time.Millisecond)
		m := f.one("2")
		age(2500 * time.Millisecond)
		f.clock.Advance(time.Hour)
		f.ack(f.one("1"))
		age(time.Hour + time.Second)
		f.nack(m, time.Minute)
		age(time.Hour + time.Second)
		f.clock.Advance(time.Minute)
		f.ack(f.one("2"))
		age(0)
	}},
	{name: "peek shows the messages in the order in which they come", moves: true, run: func(f *fix) {
		f.send("due 1")
		f.sendDelayed("hidden 3", time.Hour)
		f.clock.Advance(time.Second)
		f.send("due 2")
		f.sendDelayed("hidden 1", time.Minute)
		f.send("taken")
		all := f.receive(types.ReceiveOptions{Max: 3, Lease: 10 * time.Minute})
		f.nack(all[0], 0)
		f.nack(all[1], 0)
		f.clock.Advance(time.Second)
		f.sendDelayed("hidden 1b", 59*time.Second)

		peeked := f.peek(0)
		type shown struct {
			Text    string
			State   types.MessageState
			Attempt int64
		}
		var got []shown
		for _, p := range peeked {
			got = append(got, shown{p.Payload.Data, p.State, p.Attempt})
		}
		require.Equal(f, []shown{
			{"due 1", types.StateVisible, 1},
			{"due 2", types.StateVisible, 1},
			{"hidden 1", types.StateDelayed, 0},
			{"hidden 1b", types.StateDelayed, 0},
			{"taken", types.StateInFlight, 1},
			{"hidden 3", types.StateDelayed, 0},
		}, got)
		t0 := f.clock.Now()
		require.Equal(f, t0.Add(-2*time.Second).UnixNano(), peeked[0].EnqueuedAt.UnixNano())
		require.Equal(f, t0.Add(-time.Second).UnixNano(), peeked[0].VisibleAt.UnixNano())
		require.Equal(f, t0.Add(59*time.Second).UnixNano(), peeked[2].VisibleAt.UnixNano())
		require.Equal(f, t0.Add(59*time.Second).UnixNano(), peeked[3].VisibleAt.UnixNano())
		require.Equal(f, peeked[:4], f.peek(4))
	}},
	{name: "peek and stats change nothing", moves: true, run: func(f *fix) {
		f.send("m")
		before := f.peek(0)
		for range 3 {
			require.Equal(f, before, f.peek(0))
			f.counts(1, 0, 0)
		}
		m := f.one("m")
		require.Equal(f, int64(1), m.Attempt)
		id, _, _ := ports.ParseReceipt(m.Receipt)
		require.Equal(f, before[0].ID, id)
		f.peek(0)
		f.stats()
		f.ack(m)
	}},
}
