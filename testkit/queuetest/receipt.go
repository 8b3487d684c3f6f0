package queuetest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

var receiptCases = []testCase{
	{name: "ack removes the message", moves: true, run: func(f *fix) {
		f.send("m", "other")
		f.ack(f.one("m"))
		f.counts(1, 0, 0)
		f.clock.Advance(time.Hour)
		f.ack(f.one("other"))
		f.none()
		f.counts(0, 0, 0)
	}},
	{name: "a receipt whose message was acked has no effect", run: func(f *fix) {
		f.send("m", "other")
		m := f.one("m")
		f.ack(m)
		f.wantNoEffect(m.Receipt)
	}},
	{name: "a receipt stays current after its lease ran out", moves: true, run: func(f *fix) {
		for _, use := range receiptUses {
			f.send("m")
			m := f.oneLeased("m", time.Second)
			f.clock.Advance(time.Hour)
			require.NoError(f, use.call(f, m.Receipt), use.name)
			switch use.name {
			case "ack", "ackBatch":
				f.counts(0, 0, 0)
				continue
			case "nack":
				f.counts(1, 0, 0)
			case "nack with delay":
				f.counts(0, 0, 1)
			case "renew":
				f.counts(0, 1, 0)
			}
			f.clock.Advance(time.Hour)
			m = f.one("m")
			require.Equal(f, int64(2), m.Attempt, use.name)
			f.ack(m)
		}
	}},
	{name: "a receipt is stale from the next delivery on, and the message is left alone", moves: true, run: func(f *fix) {
		f.send("m")
		stale := f.oneLeased("m", time.Second)
		f.clock.Advance(time.Second)
		m := f.oneLeased("m", time.Minute)
		before := f.peek(0)
		f.wantStale(stale.Receipt)
		require.Equal(f, before, f.peek(0))
		f.clock.Advance(time.Minute - 1)
		f.none()
		f.ack(m)
		f.counts(0, 0, 0)
		f.wantNoEffect(stale.Receipt)
	}},
	{name: "every earlier receipt is stale", moves: true, run: func(f *fix) {
		f.send("m")
		var stale []types.Message
		for range 3 {
			stale = append(stale, f.oneLeased("m", time.Second))
			f.clock.Advance(time.Second)
		}
		m := f.one("m")
		for _, s := range stale {
			f.wantStale(s.Receipt)
		}
		f.ack(m)
	}},
	{name: "nack without a delay leaves its receipt current until the next delivery", run: func(f *fix) {
		f.send("m")
		m := f.one("m")
		f.nack(m, 0)
		f.nack(m, 0)
		f.counts(1, 0, 0)
		again := f.one("m")
		f.wantStale(m.Receipt)
		f.nack(again, 0)
		f.ack(again)
		f.none()
		f.counts(0, 0, 0)
	}},
	{name: "nack with a delay ends its receipt", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.one("m")
		f.nack(m, time.Second)
		f.wantStale(m.Receipt)
		f.counts(0, 0, 1)
		f.clock.Advance(time.Second)
		f.wantStale(m.Receipt)
		again := f.one("m")
		f.wantStale(m.Receipt)
		f.ack(again)
		f.wantNoEffect(m.Receipt)
	}},
	{name: "a receipt that was never issued has no effect", run: func(f *fix) {
		f.send("m", "visible")
		m := f.one("m")
		id, delivery, ok := ports.ParseReceipt(m.Receipt)
		require.True(f, ok)
		for _, receipt := range []string{
			"", "x", ":", "::", "1", "1:", ":" + delivery, "abc:" + delivery, delivery, fmt.Sprint(id),
			fmt.Sprintf("0%d:%s", id, delivery), fmt.Sprintf("+%d:%s", id, delivery), fmt.Sprintf(" %d:%s", id, delivery),
			fmt.Sprintf("%d :%s", id, delivery), fmt.Sprintf("%d: %s", id, delivery), fmt.Sprintf("%d::%s", id, delivery),
			fmt.Sprintf("%d.0:%s", id, delivery), fmt.Sprintf("0x%x:%s", id, delivery), fmt.Sprintf("%d_:%s", id, delivery),
			fmt.Sprintf("%d:%s", id, strings.ToUpper(delivery[:35])+"A"), fmt.Sprintf("%d:%s", id, strings.ToUpper("abcdefab"+delivery[8:])),
			fmt.Sprintf("%d:%s", id, strings.ReplaceAll(delivery, "-", "")), fmt.Sprintf("%d:{%s}", id, delivery),
			fmt.Sprintf("%d:urn:uuid:%s", id, delivery), fmt.Sprintf("%d:%s", id, delivery[:35]), fmt.Sprintf("%d:%sa", id, delivery),
			m.Receipt + " ", m.Receipt + "\n", m.Receipt + "\x00", m.Receipt + ":", m.Receipt + m.Receipt, "-0:" + delivery,
			"9223372036854775808:" + delivery, strings.Repeat("9", 10_000) + ":" + delivery, strings.Repeat("x", 100_000),
			fmt.Sprintf("%d:gggggggg-0000-4000-8000-000000000000", id), fmt.Sprintf("%d:'; DROP TABLE messages; --aaaaaaaaaaaa", id),
		} {
			f.wantNoEffect(receipt)
		}
		f.ack(m)
		f.counts(1, 0, 0)
	}},
	{name: "a receipt of a message that never was has no effect", run: func(f *fix) {
		f.send("m")
		m := f.one("m")
		id, delivery, _ := ports.ParseReceipt(m.Receipt)
		for _, id := range []int64{0, -1, -id, id + 1, id + 1000, math.MaxInt64, math.MinInt64} {
			f.wantNoEffect(ports.FormatReceipt(id, delivery))
		}
	}},
	{name: "a made-up receipt of a message that is there is stale", run: func(f *fix) {
		f.send("received", "never received")
		m := f.one("received")
		id, delivery, _ := ports.ParseReceipt(m.Receipt)
		var idle int64
		for _, p := range f.peek(0) {
			if p.State == types.StateVisible {
				idle = p.ID
			}
		}
		before := f.peek(0)
		f.wantStale(ports.FormatReceipt(id, uuid.NewString()))
		f.wantStale(ports.FormatReceipt(idle, uuid.NewString()))
		f.wantStale(ports.FormatReceipt(idle, delivery))
		f.wantStale(ports.FormatReceipt(idle, uuid.Nil.String()))
		require.Equal(f, before, f.peek(0))
		f.ack(m)
	}},
	{name: "purge removes every message, whatever its state", moves: true, run: func(f *fix) {
		f.send("in flight", "given back", "visible")
		f.sendDelayed("delayed", time.Minute)
		f.one("in flight")
		f.nack(f.one("given back"), time.Minute)
		f.counts(1, 1, 2)
		require.NoError(f, f.q.Purge(f.ctx))
		require.Equal(f, types.QueueStats{}, f.stats())
		require.Empty(f, f.peek(0))
		f.clock.Advance(time.Hour)
		f.none()
		require.NoError(f, f.q.Purge(f.ctx), "purge of an empty queue")
	}},
	{name: "ids are not used again, and receipts of purged messages hit nothing", run: func(f *fix) {
		f.send("old", "old 2")
		old := f.one("old")
		oldID, _, _ := ports.ParseReceipt(old.Receipt)
		var highest int64
		for _, p := range f.peek(0) {
			highest = max(highest, p.ID)
		}
		require.GreaterOrEqual(f, highest, oldID)
		require.NoError(f, f.q.Purge(f.ctx))
		f.wantNoEffect(old.Receipt)
		f.send("new", "new 2", "new 3")
		for _, p := range f.peek(0) {
			require.Greater(f, p.ID, highest, "the id of a message after a purge")
		}
		f.wantNoEffect(old.Receipt)
		m := f.one("new")
		f.wantNoEffect(old.Receipt)
		f.ack(m)
		f.counts(2, 0, 0)
	}},
	{name: "ids of acked messages are not used again", run: func(f *fix) {
		f.send("1")
		m := f.one("1")
		id, _, _ := ports.ParseReceipt(m.Receipt)
		f.ack(m)
		f.send("2")
		require.Greater(f, f.peek(0)[0].ID, id)
		f.wantNoEffect(m.Receipt)
	}},
}
