package queuetest

import (
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

var orderCases = []testCase{
	{name: "an empty queue gives an empty list", run: func(f *fix) {
		f.none()
		require.Empty(f, f.peek(0))
		f.counts(0, 0, 0)
	}},
	{name: "first in first out within one millisecond", run: func(f *fix) {
		var want []string
		for i := range 25 {
			want = append(want, strconv.Itoa(i))
		}
		f.send(want...)
		require.Equal(f, want, textsOf(f.drain()))
	}},
	{name: "first in first out over time", moves: true, run: func(f *fix) {
		var want []string
		for i := range 12 {
			f.send(strconv.Itoa(i))
			want = append(want, strconv.Itoa(i))
			f.clock.Advance(time.Duration(i%3) * 700 * time.Microsecond)
		}
		require.Equal(f, want, textsOf(f.drain()))
	}},
	{name: "batches and single sends keep one order", run: func(f *fix) {
		f.send("1")
		_, err := f.q.SendBatch(f.ctx, []types.Payload{types.Text("2"), types.Text("3"), types.Text("4")})
		require.NoError(f, err)
		f.send("5")
		require.Equal(f, []string{"1", "2", "3", "4", "5"}, textsOf(f.drain()))
	}},
	{name: "json and text share one order", run: func(f *fix) {
		f.send("1")
		f.sendPayload(types.JSON([]byte("2")))
		f.send("3")
		messages := f.drain()
		require.Equal(f, []string{"1", "2", "3"}, textsOf(messages))
		require.Equal(f, types.PayloadJSON, messages[1].Payload.Type)
	}},
	{name: "a delayed message is due from the very millisecond", moves: true, run: func(f *fix) {
		f.sendDelayed("m", 1500*time.Millisecond)
		f.none()
		f.clock.Advance(1500*time.Millisecond - 1)
		f.none()
		f.counts(0, 0, 1)
		f.clock.Advance(1)
		f.counts(1, 0, 0)
		m := f.one("m")
		require.Equal(f, int64(1), m.Attempt)
		require.Equal(f, f.clock.Now().Add(-1500*time.Millisecond).UnixNano(), m.EnqueuedAt.UnixNano(), "enqueued when it was sent")
	}},
	{name: "a delay is rounded up to a millisecond", moves: true, run: func(f *fix) {
		f.sendDelayed("m", 1)
		f.none()
		f.clock.Advance(time.Millisecond - 1)
		f.none()
		f.clock.Advance(1)
		f.one("m")
	}},
	{name: "the longest delay", moves: true, run: func(f *fix) {
		f.sendDelayed("m", 12*time.Hour)
		f.clock.Advance(12*time.Hour - 1)
		f.none()
		f.clock.Advance(1)
		f.one("m")
	}},
	{name: "a delayed message takes its place by when it was sent", moves: true, run: func(f *fix) {
		f.sendDelayed("first", time.Second)
		f.clock.Advance(time.Millisecond)
		f.send("second")
		f.clock.Advance(999 * time.Millisecond)
		f.send("third")
		require.Equal(f, []string{"first", "second", "third"}, textsOf(f.drain()))
	}},
	{name: "delayed messages that become due together keep the order of sending", moves: true, run: func(f *fix) {
		f.sendDelayed("1", 3*time.Second)
		f.sendDelayed("2", 1*time.Second)
		f.sendDelayed("3", 2*time.Second)
		f.clock.Advance(2 * time.Second)
		require.Equal(f, []string{"2", "3"}, textsOf(f.receive(types.ReceiveOptions{Max: 10, Lease: time.Second})))
		f.clock.Advance(time.Second)
		require.Equal(f, []string{"1", "2", "3"}, textsOf(f.drain()))
	}},
	{name: "a message that was given back goes before younger ones", moves: true, run: func(f *fix) {
		f.send("1")
		f.clock.Advance(time.Second)
		f.send("2")
		m := f.one("1")
		f.clock.Advance(time.Second)
		f.send("3")
		f.nack(m, 0)
		require.Equal(f, []string{"1", "2", "3"}, textsOf(f.drain()))
	}},
	{name: "a message whose lease has ended goes before younger ones", moves: true, run: func(f *fix) {
		f.send("1", "2")
		f.oneLeased("1", time.Second)
		f.clock.Advance(time.Second)
		f.send("3")
		require.Equal(f, []string{"1", "2", "3"}, textsOf(f.drain()))
	}},
	{name: "messages in flight do not hold back those after them", run: func(f *fix) {
		f.send("1", "2", "3")
		f.one("1")
		f.one("2")
		f.one("3")
		f.none()
	}},
	{name: "old and new messages in many states come in one order", moves: true, run: func(f *fix) {
		var want []string
		for i := range 30 {
			text := strconv.Itoa(i)
			want = append(want, text)
			if i%5 == 2 {
				f.sendDelayed(text, time.Duration(i)*time.Second)
			} else {
				f.send(text)
			}
			if i%3 == 0 {
				f.clock.Advance(time.Millisecond)
			}
		}
		taken := f.receive(types.ReceiveOptions{Max: 10, Lease: time.Minute})
		for i, m := range taken {
			switch i % 3 {
			case 0:
				f.nack(m, 0)
			case 1:
				f.nack(m, 30*time.Second)
			}
		}
		f.clock.Advance(time.Minute)
		require.Equal(f, want, textsOf(f.drain()))
	}},
	{name: "a clock that steps back does not reorder", moves: true, run: func(f *fix) {
		f.send("1")
		f.clock.Set(f.clock.Now().Add(-time.Hour))
		f.send("2")
		f.clock.Advance(time.Second)
		f.send("3")
		f.clock.Set(f.clock.Now().Add(-time.Hour))
		f.send("4")
		messages := f.receive(types.ReceiveOptions{Max: 10})
		require.Equal(f, []string{"1", "2", "3", "4"}, textsOf(messages))
		for i := range messages[1:] {
			require.False(f, messages[i+1].EnqueuedAt.Before(messages[i].EnqueuedAt), "enqueued at never runs backwards")
		}
	}},
	{name: "a clock that steps back does not starve", moves: true, run: func(f *fix) {
		f.send("sent before", "leased before")
		f.clock.Advance(time.Second)
		leased := f.receive(types.ReceiveOptions{Max: 2})
		f.nack(leased[0], 0)
		f.clock.Set(f.clock.Now().Add(-time.Hour))
		f.send("sent after")
		messages := f.receive(types.ReceiveOptions{Max: 10, Lease: time.Minute})
		require.Equal(f, []string{"sent before", "sent after"}, textsOf(messages), "what was due stays due, what is sent is due at once")
		f.nack(messages[0], 0)
		f.nack(messages[1], 10*time.Second)
		f.ack(f.one("sent before"))

		f.clock.Advance(10 * time.Second)
		f.ack(f.one("sent after"))
		f.clock.Advance(20 * time.Second)
		messages = f.receive(types.ReceiveOptions{Max: 10})
		require.Equal(f, []string{"leased before"}, textsOf(messages),
			"a lease ends after its 30 seconds, not after the hour of the step (a queue lives by a ports.SteadyClock)")
		require.GreaterOrEqual(f, f.stats().OldestAge, 30*time.Second)
	}},
	{name: "a clock that is back to its time goes on as usual", moves: true, run: func(f *fix) {
		t0 := f.clock.Now()
		f.send("1")
		f.clock.Set(t0.Add(-time.Hour))
		f.send("2")
		f.clock.Set(t0.Add(time.Second))
		f.send("3")
		messages := f.receive(types.ReceiveOptions{Max: 10, Lease: time.Second})
		require.Equal(f, []string{"1", "2", "3"}, textsOf(messages))
		require.False(f, messages[2].EnqueuedAt.Before(t0.Add(time.Second)), "enqueued at is never behind the clock")
		f.clock.Advance(time.Second - 1)
		f.none()
		f.clock.Advance(1)
		require.Equal(f, []string{"1", "2", "3"}, textsOf(f.drain()))
	}},
}
