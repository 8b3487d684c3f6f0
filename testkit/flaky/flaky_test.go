package flaky_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/queuetest"
	"github.com/stowage-go/stowage/types"
)

func kvHarness() kvtest.Harness {
	return kvtest.Harness{
		Open: func(_ testing.TB, clock ports.Clock) kvtest.Store {
			return kvtest.Store{Kv: flaky.NewKv(model.NewKv(clock), flaky.New(clock, 1))}
		},
		Clocked: true,
	}
}

func queueHarness() queuetest.Harness {
	return queuetest.Harness{
		Open: func(_ testing.TB, clock ports.Clock) queuetest.Store {
			return queuetest.Store{Queue: flaky.NewQueue(model.NewQueue(clock), flaky.New(clock, 1))}
		},
		Clocked:     true,
		CanSendBulk: true,
		CanRelease:  true,
	}
}

var errFault = errors.New("the fault of this test")

func newKv(faults ...flaky.Fault) (*flaky.Kv, *flaky.Faults, *fixture.Clock) {
	clock := fixture.NewClock(fixture.Epoch())
	f := flaky.New(clock, 1, faults...)
	return flaky.NewKv(model.NewKv(clock), f), f, clock
}

func TestTheNthCallFailsWithoutEffect(t *testing.T) {
	t.Parallel()
	kv, faults, _ := newKv(flaky.Fault{Op: flaky.KvPut, Nth: 2, Err: errFault})
	for i, want := range []error{nil, errFault, nil} {
		_, _, err := kv.Get(t.Context(), "k")
		require.NoError(t, err, "another operation is not hit, and not counted")
		_, err = kv.Put(t.Context(), "k", []byte{byte('0' + i)}, types.PutOptions{})
		require.ErrorIs(t, err, want, "put %d", i)
	}
	require.Equal(t, 3, faults.Calls(flaky.KvPut))
	require.Equal(t, 1, faults.Hits(flaky.KvPut))
	require.Equal(t, 6, faults.Calls(""))
	require.Equal(t, 1, faults.Hits(""))
}

func TestAFaultWithoutEffectLeavesTheStoreAlone(t *testing.T) {
	t.Parallel()
	kv, _, _ := newKv(flaky.Fault{Op: flaky.KvPut, Err: errFault})
	res, err := kv.Put(t.Context(), "k", []byte("v"), types.PutOptions{})
	require.ErrorIs(t, err, errFault)
	require.Equal(t, types.PutResult{}, res)
	found, err := kv.Exists(t.Context(), "k")
	require.NoError(t, err)
	require.False(t, found)
}

func TestAFaultAfterTheEffectHasIt(t *testing.T) {
	t.Parallel()
	kv, _, _ := newKv(flaky.Fault{Op: flaky.KvPut, Err: errFault, AfterEffect: true})
	res, err := kv.Put(t.Context(), "k", []byte("v"), types.PutOptions{})
	require.ErrorIs(t, err, errFault)
	require.Equal(t, types.PutResult{}, res, "the answer is lost")
	entry, found, err := kv.Get(t.Context(), "k")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "v", string(entry.Value))
}

func TestACallThatFailsByItselfKeepsItsError(t *testing.T) {
	t.Parallel()
	kv, _, _ := newKv(flaky.Fault{Err: errFault, AfterEffect: true})
	_, _, err := kv.Get(t.Context(), "bad key")
	require.ErrorIs(t, err, ports.ErrInvalidInput)
}

func TestALimitEndsAFault(t *testing.T) {
	t.Parallel()
	kv, faults, _ := newKv(flaky.Fault{Limit: 2, Err: errFault})
	for _, want := range []error{errFault, errFault, nil, nil} {
		_, err := kv.Exists(t.Context(), "k")
		require.ErrorIs(t, err, want)
	}
	require.Equal(t, 2, faults.Hits(flaky.KvExists))
}

func TestChancesFollowFromTheSeed(t *testing.T) {
	t.Parallel()
	pattern := func(seed uint64) (hits []bool) {
		clock := fixture.NewClock(fixture.Epoch())
		kv := flaky.NewKv(model.NewKv(clock), flaky.New(clock, seed, flaky.Fault{Chance: 0.3, Err: errFault}))
		for range 200 {
			_, err := kv.Exists(t.Context(), "k")
			hits = append(hits, err != nil)
		}
		return hits
	}
	require.Equal(t, pattern(7), pattern(7))
	require.NotEqual(t, pattern(7), pattern(8))
	n := 0
	for _, hit := range pattern(7) {
		if hit {
			n++
		}
	}
	require.InDelta(t, 60, n, 25, "hits of 200 at a chance of 0.3")
}

func TestADelayHoldsTheCallUp(t *testing.T) {
	t.Parallel()
	kv, _, clock := newKv(flaky.Fault{Op: flaky.KvPut, Delay: time.Second}, flaky.Fault{Op: flaky.KvPut, Delay: time.Second})
	done := make(chan error, 1)
	go func() {
		_, err := kv.Put(t.Context(), "k", nil, types.PutOptions{})
		done <- err
	}()
	clock.BlockUntilTimers(1)
	clock.Advance(2*time.Second - 1)
	found, err := kv.Exists(t.Context(), "k")
	require.NoError(t, err)
	require.False(t, found)
	clock.Advance(1)
	require.NoError(t, <-done)
}

func TestAContextThatEndsDuringADelayEndsTheCallWithoutEffect(t *testing.T) {
	t.Parallel()
	kv, _, clock := newKv(flaky.Fault{Op: flaky.KvPut, Delay: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := kv.Put(ctx, "k", nil, types.PutOptions{})
		done <- err
	}()
	clock.BlockUntilTimers(1)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Zero(t, clock.Timers())
	found, err := kv.Exists(t.Context(), "k")
	require.NoError(t, err)
	require.False(t, found)
}

func TestFaultsCanBeAddedAndCleared(t *testing.T) {
	t.Parallel()
	kv, faults, _ := newKv()
	_, err := kv.Exists(t.Context(), "k")
	require.NoError(t, err)
	faults.Add(flaky.Fault{Nth: 1, Err: errFault})
	_, err = kv.Exists(t.Context(), "k")
	require.ErrorIs(t, err, errFault, "calls are counted from when the fault was added")
	faults.Add(flaky.Fault{Err: errFault})
	faults.Clear()
	_, err = kv.Exists(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, 3, faults.Calls(flaky.KvExists))
}

func TestEveryOperationIsHitByItsName(t *testing.T) {
	t.Parallel()
	clock := fixture.NewClock(fixture.Epoch())
	faults := flaky.New(clock, 1, flaky.Fault{Err: errFault})
	kv := flaky.NewKv(model.NewKv(clock), faults)
	queue := flaky.NewQueue(discardingQueue{model.NewQueue(clock)}, faults)
	ctx := t.Context()
	for op, call := range map[flaky.Op]func() error{
		flaky.KvGet:          func() error { _, _, err := kv.Get(ctx, "k"); return err },
		flaky.KvExists:       func() error { _, err := kv.Exists(ctx, "k"); return err },
		flaky.KvPut:          func() error { _, err := kv.Put(ctx, "k", nil, types.PutOptions{}); return err },
		flaky.KvDelete:       func() error { _, err := kv.Delete(ctx, "k", types.Always()); return err },
		flaky.KvScan:         func() error { _, err := kv.ScanPrefix(ctx, "k", types.ScanOptions{}); return err },
		flaky.QueueSend:      func() error { return queue.Send(ctx, types.Text("m"), types.SendOptions{}) },
		flaky.QueueSendBatch: func() error { _, err := queue.SendBatch(ctx, []types.Payload{types.Text("m")}); return err },
		flaky.QueueSendBulk: func() error {
			_, err := queue.(ports.BulkSender).SendBulk(ctx, []types.Payload{types.Text("m")})
			return err
		},
		flaky.QueueReceive:  func() error { _, err := queue.Receive(ctx, types.ReceiveOptions{}); return err },
		flaky.QueueAck:      func() error { return queue.Ack(ctx, "x") },
		flaky.QueueAckBatch: func() error { _, err := queue.AckBatch(ctx, []string{"x"}); return err },
		flaky.QueueNack:     func() error { return queue.Nack(ctx, "x", types.NackOptions{}) },
		flaky.QueueRenew:    func() error { return queue.Renew(ctx, "x", types.RenewOptions{}) },
		flaky.QueuePurge:    func() error { return queue.Purge(ctx) },
		flaky.QueueStats:    func() error { _, err := queue.Stats(ctx); return err },
		flaky.QueuePeek:     func() error { _, err := queue.Peek(ctx, types.PeekOptions{}); return err },
		flaky.QueueRelease:  func() error { return queue.(ports.Releaser).Release(ctx, nil) },
		flaky.QueueDiscard:  func() error { _, err := queue.(ports.Discarder).Discard(ctx, 1); return err },
	} {
		require.ErrorIs(t, call(), errFault, op)
		require.Equal(t, 1, faults.Calls(op), op)
		require.Equal(t, 1, faults.Hits(op), op)
	}
	require.Equal(t, 18, faults.Hits(""))
}

func TestAFailedReceiveMayHaveClaimed(t *testing.T) {
	t.Parallel()
	clock := fixture.NewClock(fixture.Epoch())
	queue := flaky.NewQueue(model.NewQueue(clock), flaky.New(clock, 1, flaky.Fault{Op: flaky.QueueReceive, Nth: 1, Err: errFault, AfterEffect: true}))
	require.NoError(t, queue.Send(t.Context(), types.Text("m"), types.SendOptions{}))
	messages, err := queue.Receive(t.Context(), types.ReceiveOptions{})
	require.ErrorIs(t, err, errFault)
	require.Empty(t, messages)
	clock.Advance(ports.DefaultLease)
	messages, err = queue.Receive(t.Context(), types.ReceiveOptions{})
	require.NoError(t, err)
	require.Len(t, messages, 1)
	require.Equal(t, int64(2), messages[0].Attempt)
}

// plainQueue hides what a queue can do beyond the port.
type plainQueue struct{ ports.QueueStore }

// discardingQueue is a queue without rows that cannot be decoded.
type discardingQueue struct{ *model.Queue }

func (discardingQueue) Discard(context.Context, int64) (bool, error) { return false, nil }

// discardingOnly can discard and not release.
type discardingOnly struct{ ports.QueueStore }

func (discardingOnly) Discard(context.Context, int64) (bool, error) { return false, nil }

// bulkOnly can send many messages at once, and nothing else beyond the port.
type bulkOnly struct{ ports.QueueStore }

func (bulkOnly) SendBulk(context.Context, []types.Payload) ([]types.SendOutcome, error) {
	return nil, nil
}

// bulkAndDiscard can send many messages at once, and discard.
type bulkAndDiscard struct{ bulkOnly }

func (bulkAndDiscard) Discard(context.Context, int64) (bool, error) { return false, nil }

// releasingOnly can release, and nothing else beyond the port.
type releasingOnly struct{ ports.QueueStore }

func (releasingOnly) Release(context.Context, []string) error { return nil }

// releaseAndDiscard can release, and discard.
type releaseAndDiscard struct{ releasingOnly }

func (releaseAndDiscard) Discard(context.Context, int64) (bool, error) { return false, nil }

func TestAWrapperCanDoWhatItsQueueCan(t *testing.T) {
	t.Parallel()
	clock := fixture.NewClock(fixture.Epoch())
	for _, queue := range []ports.QueueStore{
		plainQueue{model.NewQueue(clock)}, model.NewQueue(clock), discardingQueue{model.NewQueue(clock)}, discardingOnly{model.NewQueue(clock)},
		bulkOnly{model.NewQueue(clock)}, bulkAndDiscard{bulkOnly{model.NewQueue(clock)}},
		releasingOnly{model.NewQueue(clock)}, releaseAndDiscard{releasingOnly{model.NewQueue(clock)}},
	} {
		wrapped := flaky.NewQueue(queue, flaky.New(clock, 1))
		_, want := queue.(ports.BulkSender)
		_, got := wrapped.(ports.BulkSender)
		require.Equal(t, want, got, "%T: ports.BulkSender", queue)
		_, want = queue.(ports.Releaser)
		_, got = wrapped.(ports.Releaser)
		require.Equal(t, want, got, "%T: ports.Releaser", queue)
		_, want = queue.(ports.Discarder)
		_, got = wrapped.(ports.Discarder)
		require.Equal(t, want, got, "%T: ports.Discarder", queue)
	}
}
