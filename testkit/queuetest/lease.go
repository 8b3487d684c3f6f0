package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

var leaseCases = []testCase{
	{name: "the default lease is 30 s, to the millisecond", moves: true, run: func(f *fix) {
		f.send("m")
		f.one("m")
		f.clock.Advance(30*time.Second - 1)
		f.none()
		f.counts(0, 1, 0)
		f.clock.Advance(1)
		f.counts(1, 0, 0)
		f.one("m")
	}},
	{name: "a lease ends at its very millisecond", moves: true, run: func(f *fix) {
		for _, lease := range []time.Duration{time.Second, 1500 * time.Millisecond, 12 * time.Hour} {
			f.send("m")
			f.oneLeased("m", lease)
			f.clock.Advance(lease - 1)
			f.none()
			f.clock.Advance(1)
			f.ack(f.one("m"))
		}
	}},
	{name: "a lease is rounded up to a millisecond", moves: true, run: func(f *fix) {
		f.send("m")
		f.oneLeased("m", time.Second+1)
		f.clock.Advance(time.Second)
		f.none()
		f.clock.Advance(time.Millisecond)
		f.one("m")
	}},
	{name: "each receive has a lease of its own", moves: true, run: func(f *fix) {
		f.send("1", "2")
		f.oneLeased("1", 2*time.Second)
		f.oneLeased("2", time.Second)
		f.clock.Advance(time.Second)
		f.ack(f.one("2"))
		f.none()
		f.clock.Advance(time.Second)
		f.ack(f.one("1"))
	}},
	{name: "each delivery counts, and the message stays what it is", moves: true, run: func(f *fix) {
		f.clock.Advance(123_456 * time.Nanosecond)
		sent := f.clock.Now().Truncate(time.Millisecond)
		f.send("m")
		receipts := map[string]bool{}
		for attempt := int64(1); attempt <= 5; attempt++ {
			m := f.oneLeased("m", time.Second)
			require.Equal(f, attempt, m.Attempt)
			require.Equal(f, sent.UnixNano(), m.EnqueuedAt.UnixNano())
			require.False(f, receipts[m.Receipt], "each delivery has a receipt of its own")
			receipts[m.Receipt] = true
			if attempt%2 == 0 {
				f.nack(m, 0)
			} else {
				f.clock.Advance(time.Second)
			}
		}
	}},
	{name: "each message of a receive has a receipt of its own, in canonical form", run: func(f *fix) {
		for range 10 {
			f.send("m")
		}
		receipts := map[string]bool{}
		for _, m := range f.receive(types.ReceiveOptions{Max: 10}) {
			id, delivery, ok := ports.ParseReceipt(m.Receipt)
			require.True(f, ok, "the receipt is not <id>:<uuid>")
			require.Positive(f, id)
			require.False(f, receipts[delivery], "each delivery has a UUID of its own")
			receipts[delivery] = true
		}
		require.Len(f, receipts, 10)
	}},
	{name: "a receive takes no more than there is", run: func(f *fix) {
		f.send("1", "2", "3")
		require.Len(f, f.receive(types.ReceiveOptions{Max: 2}), 2)
		require.Len(f, f.receive(types.ReceiveOptions{Max: 10}), 1)
		f.none()
	}},
	{name: "renew gives a full lease from now", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.oneLeased("m", 10*time.Second)
		f.clock.Advance(9 * time.Second)
		f.renew(m, 10*time.Second)
		f.clock.Advance(10*time.Second - 1)
		f.none()
		f.clock.Advance(1)
		again := f.one("m")
		require.Equal(f, int64(2), again.Attempt, "a renewal is no delivery")
	}},
	{name: "the default of a renewal is 30 s", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.oneLeased("m", time.Second)
		f.renew(m, 0)
		f.clock.Advance(30*time.Second - 1)
		f.none()
		f.clock.Advance(1)
		f.one("m")
	}},
	{name: "renew may make a lease shorter", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.oneLeased("m", time.Hour)
		f.renew(m, time.Second)
		f.clock.Advance(time.Second)
		f.one("m")
	}},
	{name: "renew again and again keeps the message hidden, with one receipt", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.oneLeased("m", time.Second)
		for range 5 {
			f.clock.Advance(900 * time.Millisecond)
			f.none()
			f.renew(m, time.Second)
		}
		f.counts(0, 1, 0)
		f.ack(m)
		f.counts(0, 0, 0)
	}},
	{name: "renew changes nothing but the lease", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.one("m")
		before := f.peek(0)
		f.clock.Advance(time.Second)
		f.renew(m, time.Minute)
		after := f.peek(0)
		require.Equal(f, f.clock.Now().Add(time.Minute).UnixNano(), after[0].VisibleAt.UnixNano())
		after[0].VisibleAt = before[0].VisibleAt
		require.Equal(f, before, after)
	}},
	{name: "renew hides a message that is visible again under its receipt", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.oneLeased("m", time.Second)
		f.clock.Advance(time.Hour)
		f.counts(1, 0, 0)
		f.renew(m, time.Second)
		f.none()
		f.counts(0, 1, 0)
		f.nack(m, 0)
		f.counts(1, 0, 0)
		f.renew(m, time.Second)
		f.counts(0, 1, 0)
		f.ack(m)
	}},
	{name: "nack makes the message visible now", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.oneLeased("m", time.Hour)
		f.nack(m, 0)
		f.counts(1, 0, 0)
		require.Equal(f, int64(2), f.one("m").Attempt)
	}},
	{name: "nack with a delay hides the message until the very millisecond", moves: true, run: func(f *fix) {
		f.send("m")
		f.nack(f.oneLeased("m", time.Hour), 1500*time.Millisecond)
		f.counts(0, 0, 1)
		f.clock.Advance(1500*time.Millisecond - 1)
		f.none()
		f.clock.Advance(1)
		f.counts(1, 0, 0)
		m := f.one("m")
		require.Equal(f, int64(2), m.Attempt)
		f.nack(m, 1)
		f.none()
		f.clock.Advance(time.Millisecond)
		require.Equal(f, int64(3), f.one("m").Attempt)
	}},
	{name: "nack with a delay may be longer or shorter than the lease", moves: true, run: func(f *fix) {
		f.send("longer", "shorter")
		f.nack(f.oneLeased("longer", time.Second), time.Minute)
		f.nack(f.oneLeased("shorter", time.Hour), time.Second)
		f.clock.Advance(time.Second)
		f.ack(f.one("shorter"))
		f.none()
		f.clock.Advance(59 * time.Second)
		f.one("longer")
	}},
}
