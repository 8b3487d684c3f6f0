package queuetest

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// method is one call of the port, with input that is good.
type method struct {
	name string
	call func(context.Context, ports.Queue) error
}

func (f *fix) methods(receipt string) []method {
	all := []method{
		{"send", func(ctx context.Context, q ports.Queue) error {
			return q.Send(ctx, types.Text("new"), types.SendOptions{})
		}},
		{"sendBatch", func(ctx context.Context, q ports.Queue) error {
			_, err := q.SendBatch(ctx, []types.Payload{types.Text("new")})
			return err
		}},
		{"receive", func(ctx context.Context, q ports.Queue) error {
			_, err := q.Receive(ctx, types.ReceiveOptions{})
			return err
		}},
		{"receive with a wait", func(ctx context.Context, q ports.Queue) error {
			_, err := q.Receive(ctx, longest)
			return err
		}},
		{"ack", func(ctx context.Context, q ports.Queue) error { return q.Ack(ctx, receipt) }},
		{"ackBatch", func(ctx context.Context, q ports.Queue) error {
			_, err := q.AckBatch(ctx, []string{receipt})
			return err
		}},
		{"nack", func(ctx context.Context, q ports.Queue) error { return q.Nack(ctx, receipt, types.NackOptions{}) }},
		{"renew", func(ctx context.Context, q ports.Queue) error {
			return q.Renew(ctx, receipt, types.RenewOptions{Lease: time.Hour})
		}},
		{"ack of a receipt never issued", func(ctx context.Context, q ports.Queue) error { return q.Ack(ctx, "x") }},
		{"nack of a receipt never issued", func(ctx context.Context, q ports.Queue) error {
			return q.Nack(ctx, "x", types.NackOptions{})
		}},
		{"renew of a receipt never issued", func(ctx context.Context, q ports.Queue) error {
			return q.Renew(ctx, "x", types.RenewOptions{})
		}},
		{"purge", func(ctx context.Context, q ports.Queue) error { return q.Purge(ctx) }},
		{"stats", func(ctx context.Context, q ports.Queue) error { _, err := q.Stats(ctx); return err }},
		{"peek", func(ctx context.Context, q ports.Queue) error { _, err := q.Peek(ctx, types.PeekOptions{}); return err }},
	}
	if f.h.CanSendBulk {
		all = append(all, method{"sendBulk", func(ctx context.Context, q ports.Queue) error {
			_, err := q.(ports.BulkSender).SendBulk(ctx, []types.Payload{types.Text("new")})
			return err
		}})
	}
	if f.h.CanRelease {
		all = append(all, method{"release", func(ctx context.Context, q ports.Queue) error {
			return q.(ports.Releaser).Release(ctx, []string{receipt})
		}})
	}
	if f.h.CanDiscard {
		all = append(all, method{"discard", func(ctx context.Context, q ports.Queue) error {
			_, err := q.(ports.Discarder).Discard(ctx, 1<<40)
			return err
		}})
	}
	return all
}

var lifeCases = []testCase{
	{name: "a call whose context was cancelled leaves nothing behind", run: func(f *fix) {
		f.send("taken", "visible")
		m := f.one("taken")
		before := f.peek(0)
		for _, call := range f.methods(m.Receipt) {
			require.ErrorIs(f, call.call(fixture.Cancelled(f), f.q), context.Canceled, call.name)
		}
		require.Equal(f, before, f.peek(0))
		f.counts(1, 1, 0)
	}},
	{name: "a call whose deadline has passed leaves nothing behind", run: func(f *fix) {
		f.send("taken", "visible")
		m := f.one("taken")
		before := f.peek(0)
		ctx, cancel := context.WithDeadline(f.ctx, time.Unix(0, 0))
		defer cancel()
		for _, call := range f.methods(m.Receipt) {
			require.ErrorIs(f, call.call(ctx, f.q), context.DeadlineExceeded, call.name)
		}
		require.Equal(f, before, f.peek(0))
		f.counts(1, 1, 0)
	}},
	{name: "a closed queue says so", run: func(f *fix) {
		q := f.h.Open(f, f.clock).Queue
		require.NoError(f, q.Send(f.ctx, types.Text("m"), types.SendOptions{}))
		messages, err := q.Receive(f.ctx, types.ReceiveOptions{})
		require.NoError(f, err)
		require.Len(f, messages, 1)
		closeQueue(f, q)
		for _, call := range f.methods(messages[0].Receipt) {
			require.ErrorIs(f, call.call(f.ctx, q), ports.ErrStoreClosed, call.name)
		}
	}},
	{name: "closing twice is closing once", run: func(f *fix) {
		q := f.h.Open(f, f.clock).Queue
		closeQueue(f, q)
		closeQueue(f, q)
	}},
	{name: "two fresh queues share nothing", run: func(f *fix) {
		other := newFix(f.T, f.h)
		f.send("m")
		other.none()
		m := f.one("m")
		other.send("other")
		require.NoError(f, other.q.Ack(f.ctx, "1:00000000-0000-4000-8000-00000000000g"))
		other.one("other")
		f.ack(m)
	}},
	{name: "durability is as claimed", moves: true, run: func(f *fix) {
		if !f.h.Durable && f.store.Reopen == nil {
			f.Skip("the harness claims no durability and cannot reopen")
		}
		require.NotNil(f, f.store.Reopen, "a durable harness reopens")
		payload := types.JSON([]byte(`{"z":9007199254740993,"a":"<&>\u00e9"}`))
		f.send("twice", "taken", "acked")
		f.nack(f.one("twice"), 0)
		messages := f.receive(types.ReceiveOptions{Max: 3, Lease: time.Minute})
		f.ack(messages[2])
		f.nack(messages[0], 0)
		taken := messages[1]
		f.sendPayload(payload)
		f.sendDelayed("delayed", time.Hour)
		before, statsBefore := f.peek(0), f.stats()

		f.reopen()
		if !f.h.Durable {
			require.Equal(f, types.QueueStats{}, f.stats())
			require.Empty(f, f.peek(0))
			f.clock.Advance(2 * time.Hour)
			f.none()
			return
		}
		require.Equal(f, before, f.peek(0))
		require.Equal(f, statsBefore, f.stats())
		messages = f.receive(types.ReceiveOptions{Max: 10, Lease: 12 * time.Hour})
		require.Equal(f, []string{"twice", payload.Data}, textsOf(messages))
		require.Equal(f, int64(3), messages[0].Attempt)
		f.renew(taken, 2*time.Minute)

		f.reopen()
		f.clock.Advance(2*time.Minute - 1)
		f.none()
		f.clock.Advance(1)
		again := f.one("taken")
		require.Equal(f, int64(2), again.Attempt)
		f.wantStale(taken.Receipt)
		f.ack(again)
		f.ack(messages[0])
		f.reopen()
		f.wantNoEffect(again.Receipt)
		f.clock.Advance(time.Hour)
		f.ack(f.one("delayed"))
		f.counts(0, 1, 0)
	}},
	{name: "ids go on after a purge and a reopen", run: func(f *fix) {
		if !f.h.Durable {
			f.Skip("the harness claims no durability")
		}
		f.send("1", "2")
		m := f.one("1")
		highest := slices.MaxFunc(f.peek(0), func(a, b types.PeekedMessage) int { return int(a.ID - b.ID) }).ID
		require.NoError(f, f.q.Purge(f.ctx))
		f.reopen()
		f.send("new")
		require.Greater(f, f.peek(0)[0].ID, highest)
		f.wantNoEffect(m.Receipt)
		f.one("new")
	}},
	{name: "a clock that stepped back while the queue was closed neither reorders nor starves", moves: true, run: func(f *fix) {
		if !f.h.Durable {
			f.Skip("the harness claims no durability")
		}
		f.send("1")
		f.clock.Set(f.clock.Now().Add(-time.Hour))
		f.reopen()
		f.send("2")
		messages := f.receive(types.ReceiveOptions{Max: 10, Lease: time.Second})
		require.Equal(f, []string{"1", "2"}, textsOf(messages), "the clock of a reopened queue starts no earlier than its latest message (ports.SteadyClock)")
		require.False(f, messages[1].EnqueuedAt.Before(messages[0].EnqueuedAt))
		f.clock.Advance(time.Second)
		require.Equal(f, []string{"1", "2"}, textsOf(f.drain()))
	}},
	{name: "a second handle is as claimed", moves: true, run: func(f *fix) {
		if !f.h.MultiHandle && f.store.Second == nil {
			f.Skip("the harness claims no second handle and cannot try one")
		}
		require.NotNil(f, f.store.Second, "a harness with MultiHandle opens a second handle")
		f.send("1")
		second, err := f.store.Second(f)
		if !f.h.MultiHandle {
			require.ErrorIs(f, err, ports.ErrInUse, "a second handle that is not claimed")
			f.one("1")
			return
		}
		require.NoError(f, err)
		first := f.q
		f.q = second
		m := f.one("1")
		f.q = first
		f.none()
		p := f.poll(longest)
		f.q = second
		f.nack(m, 0)
		messages := p.messages()
		require.Equal(f, []string{"1"}, textsOf(messages), "a nack by one handle wakes the other")
		f.wantStale(m.Receipt)
		f.ack(messages[0])
		closeQueue(f, second)
		f.q = first
		f.counts(0, 0, 0)
		f.send("the first goes on")
		f.one("the first goes on")
	}},
	{name: "release is as claimed", moves: true, run: func(f *fix) {
		q, ok := f.q.(ports.Releaser)
		require.Equal(f, f.h.CanRelease, ok, "the queue is a ports.Releaser: want what the harness claims")
		if !ok {
			return
		}
		f.send("stale", "acked", "1", "2", "3")
		stale := f.oneLeased("stale", time.Second)
		f.clock.Advance(time.Second)
		f.oneLeased("stale", time.Hour)
		acked := f.one("acked")
		f.ack(acked)
		messages := f.receive(types.ReceiveOptions{Max: 2, Lease: time.Hour})
		f.one("3")
		p := f.poll(longest)
		require.NoError(f, q.Release(f.ctx, []string{
			stale.Receipt, messages[1].Receipt, "never issued", acked.Receipt, messages[0].Receipt,
		}), "receipts that are not current are passed over")
		again := p.messages()
		require.Equal(f, []string{"1", "2"}, textsOf(again))
		require.Equal(f, int64(2), again[0].Attempt)
		f.wantStale(messages[0].Receipt)
		require.NoError(f, q.Release(f.ctx, nil))
		f.counts(0, 4, 0)
		require.NoError(f, q.Release(f.ctx, []string{again[0].Receipt}))
		f.ack(again[0]) // as after a nack, the receipt is current until the next delivery
		f.counts(0, 3, 0)
	}},
	{name: "discard is as claimed", run: func(f *fix) {
		q, ok := f.q.(ports.Discarder)
		require.Equal(f, f.h.CanDiscard, ok, "the queue is a ports.Discarder: want what the harness claims")
		if !ok {
			return
		}
		f.send("m")
		id := f.peek(0)[0].ID
		_, err := q.Discard(f.ctx, id)
		f.wantInvalid(err, "discard of a message that can be decoded")
		found, err := q.Discard(f.ctx, id+1000)
		require.NoError(f, err)
		require.False(f, found)
		f.one("m")
	}},
	{name: "rows that cannot be decoded are set aside", moves: true, run: func(f *fix) {
		if f.store.InjectUndecodable == nil {
			f.Skip("the harness cannot inject rows that nobody can decode")
		}
		f.send("1", "2")
		m := f.one("1")
		f.sendDelayed("3", time.Minute)
		closeQueue(f, f.q)
		q, ids := f.store.InjectUndecodable(f)
		f.q = q
		require.NotEmpty(f, ids)
		bad := int64(len(ids))
		counts := func(visible, inFlight, delayed, undecodable int64) {
			f.Helper()
			s := f.stats()
			require.Equal(f, [4]int64{visible, inFlight, delayed, undecodable}, [4]int64{s.Visible, s.InFlight, s.Delayed, s.Undecodable},
				"visible, in flight, delayed and undecodable")
		}
		counts(1, 1, 1, bad)
		require.Zero(f, f.stats().OldestAge, "rows set aside have no part in the oldest age")
		f.ack(m)
		messages := f.receive(types.ReceiveOptions{Max: 10})
		require.Equal(f, []string{"2"}, textsOf(messages), "they do not block the queue")
		counts(0, 1, 1, bad)
		f.clock.Advance(time.Hour)
		f.send("4")
		counts(3, 0, 0, bad)

		peeked := f.peek(0)
		require.Greater(f, len(peeked), 3)
		for i, p := range peeked {
			if i < 3 {
				require.Equal(f, types.StateVisible, p.State)
				continue
			}
			require.Equal(f, types.StateUndecodable, p.State, "peek shows them last")
			require.Contains(f, ids, p.ID)
			require.Equal(f, types.Payload{}, p.Payload)
		}
		require.Equal(f, []string{"2", "3", "4"}, textsOf(f.drain()))
		counts(0, 0, 0, bad)

		f.reopen()
		counts(0, 0, 0, bad)
		if d, ok := f.q.(ports.Discarder); ok {
			for _, want := range []bool{true, false} {
				found, err := d.Discard(f.ctx, ids[0])
				require.NoError(f, err)
				require.Equal(f, want, found, "discard of the row %d", ids[0])
			}
			bad--
			counts(0, 0, 0, bad)
		}
		p := f.poll(types.ReceiveOptions{Wait: 5 * time.Second}) // nor do they make a wait busy
		p.ends(5 * time.Second)
		require.NoError(f, f.q.Purge(f.ctx))
		require.Equal(f, types.QueueStats{}, f.stats())
		require.Empty(f, f.peek(0))
	}},
	{name: "backup is as claimed", run: func(f *fix) {
		q, ok := f.q.(ports.Backuper)
		require.Equal(f, f.h.CanBackup, ok, "the queue is a ports.Backuper: want what the harness claims")
		if !ok {
			return
		}
		f.send("m")
		path := filepath.Join(f.TempDir(), "copy")
		require.NoError(f, q.Backup(f.ctx, path))
		require.FileExists(f, path)
		require.ErrorIs(f, q.Backup(f.ctx, path), ports.ErrAlreadyExists, "a backup never overwrites")
		require.NoError(f, q.Verify(f.ctx))
		require.ErrorIs(f, q.Backup(fixture.Cancelled(f), path+"2"), context.Canceled)
		require.NoFileExists(f, path+"2")
		f.one("m")
	}},
	{name: "a health check is as claimed", run: func(f *fix) {
		q, ok := f.q.(ports.HealthChecker)
		require.Equal(f, f.h.CanCheckHealth, ok, "the queue is a ports.HealthChecker: want what the harness claims")
		if ok {
			f.send("m")
			require.NoError(f, q.HealthCheck(f.ctx))
		}
	}},
}
