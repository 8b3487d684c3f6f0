package localqueue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// buryPair is an owner with a queue "work" whose messages go to "dead" after two deliveries.
func buryPair(t *testing.T) (owner *Owner, clock *fixture.Clock, work, dead *Queue) {
	t.Helper()
	clock = fixture.NewClock(fixture.Epoch())
	owner = openOwner(t, OwnerOptions{Clock: clock, Queues: map[string]QueueOptions{
		"work": {MaxReceives: 2, DeadLetterQueue: "dead"},
	}})
	return owner, clock, queueOf(t, owner, "work"), queueOf(t, owner, "dead")
}

// spend receives all messages of a queue as often as it takes until the next receive would bury
// them, and returns the receipts of the last delivery.
func spend(t *testing.T, q *Queue, times int) []string {
	t.Helper()
	var receipts []string
	for range times {
		receipts = nil
		for {
			messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
			require.NoError(t, err)
			if len(messages) == 0 {
				break
			}
			for _, m := range messages {
				receipts = append(receipts, m.Receipt)
			}
		}
		for _, r := range receipts {
			require.NoError(t, q.Nack(t.Context(), r, types.NackOptions{}))
		}
	}
	return receipts
}

func receiveOne(t *testing.T, q *Queue) []types.Message {
	t.Helper()
	messages, err := q.Receive(t.Context(), types.ReceiveOptions{})
	require.NoError(t, err)
	return messages
}

func send(t *testing.T, q *Queue, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.NoError(t, q.Send(t.Context(), types.Text(text), types.SendOptions{}))
	}
}

func TestMessageThatIsReceivedTooOftenGoesToTheDeadLettersWithItsHistory(t *testing.T) {
	t.Parallel()
	_, clock, work, dead := buryPair(t)
	sent := clock.Now()
	require.NoError(t, work.Send(t.Context(), types.JSON([]byte(`{"n":1}`)), types.SendOptions{}))
	receipts := spend(t, work, 2)
	clock.Advance(time.Minute)
	send(t, work, "fresh")

	messages := receiveOne(t, work)
	require.Len(t, messages, 1, "the receive goes on to the next message")
	require.Equal(t, types.Text("fresh"), messages[0].Payload)
	require.NoError(t, work.Ack(t.Context(), receipts[0]), "the message is gone from its queue")
	require.Equal(t, [2]int64{1, 1}, totals(t, work, dead))

	peeked, err := dead.Peek(t.Context(), types.PeekOptions{})
	require.NoError(t, err)
	require.Equal(t, []types.PeekedMessage{{
		ID: 1, Payload: types.JSON([]byte(`{"n":1}`)), State: types.StateVisible, Attempt: 2,
		EnqueuedAt: time.UnixMilli(sent.UnixMilli()), VisibleAt: time.UnixMilli(clock.Now().UnixMilli()),
	}}, peeked)
	messages = receiveOne(t, dead)
	require.EqualValues(t, 3, messages[0].Attempt)
	require.NoError(t, dead.Ack(t.Context(), messages[0].Receipt))
	requireIndexMatchesFile(t, work)
	requireIndexMatchesFile(t, dead)
}

func TestManySpentMessagesMoveInOneReceive(t *testing.T) {
	t.Parallel()
	_, _, work, dead := buryPair(t)
	const n = 3*maxSpent + 5
	for range n {
		send(t, work, "spent")
	}
	spend(t, work, 2)
	send(t, work, "fresh")
	require.Len(t, receiveOne(t, work), 1)
	require.Equal(t, [2]int64{1, n}, totals(t, work, dead))
}

// A waiting receive wakes for a message that it then buries, and waits on.
func TestWaitingReceiveBuriesAndWaitsOn(t *testing.T) {
	t.Parallel()
	_, clock, work, dead := buryPair(t)
	send(t, work, "spent")
	spend(t, work, 1)
	messages, err := work.Receive(t.Context(), types.ReceiveOptions{Lease: 10 * time.Second}) // its last delivery
	require.NoError(t, err)
	require.Len(t, messages, 1)
	poll := func(q *Queue) chan []types.Message {
		timers, got := clock.Timers(), make(chan []types.Message, 1)
		go func() {
			messages, err := q.Receive(context.WithoutCancel(t.Context()), types.ReceiveOptions{Wait: ports.MaxWait})
			if err != nil {
				t.Error(err)
			}
			got <- messages
		}()
		clock.BlockUntilTimers(timers + 1)
		return got
	}
	atDead, atWork := poll(dead), poll(work)
	clock.Advance(10 * time.Second) // the lease ends
	require.Equal(t, types.Text("spent"), (<-atDead)[0].Payload, "whoever waits at the dead letters is woken")
	clock.BlockUntilTimers(1)
	send(t, work, "fresh")
	require.Equal(t, types.Text("fresh"), (<-atWork)[0].Payload)
}

// failingSink fails as planned.
type failingSink struct {
	DeadLetterSink
	stage, reveal error
	during        func() // runs between the staging and its return
}

func (k *failingSink) Stage(ctx context.Context, letters []DeadLetter) error {
	if k.stage != nil {
		return k.stage
	}
	err := k.DeadLetterSink.Stage(ctx, letters)
	if k.during != nil {
		k.during()
	}
	return err
}

func (k *failingSink) Reveal(ctx context.Context, letters []DeadLetter) error {
	if k.reveal != nil {
		return k.reveal
	}
	return k.DeadLetterSink.Reveal(ctx, letters)
}

func TestDeadLettersThatCannotBeTakenHoldNobodyUp(t *testing.T) {
	t.Parallel()
	_, clock, work, dead := buryPair(t)
	sink := &failingSink{DeadLetterSink: work.deadLetters, stage: errors.New("planned")}
	work.deadLetters = sink
	send(t, work, "spent")
	receipts := spend(t, work, 2)
	send(t, work, "fresh")
	require.Equal(t, types.Text("fresh"), receiveOne(t, work)[0].Payload)
	require.Equal(t, [2]int64{2, 0}, totals(t, work, dead))
	require.NoError(t, work.Renew(t.Context(), receipts[0], types.RenewOptions{Lease: time.Second}), "its receipt is good again")

	sink.stage = nil
	clock.Advance(deadLetterRetry)
	receiveOne(t, work)
	require.Equal(t, [2]int64{1, 1}, totals(t, work, dead))
	requireIndexMatchesFile(t, work)
}

func TestDeadLettersThatCannotBeRevealedAreByTheNextReceive(t *testing.T) {
	t.Parallel()
	_, _, work, dead := buryPair(t)
	sink := &failingSink{DeadLetterSink: work.deadLetters, reveal: errors.New("planned")}
	work.deadLetters = sink
	send(t, work, "spent")
	spend(t, work, 2)
	require.Empty(t, receiveOne(t, work))
	require.Equal(t, [2]int64{0, 0}, totals(t, work, dead), "gone from its queue, not to be seen yet")
	peeked, err := dead.Peek(t.Context(), types.PeekOptions{})
	require.NoError(t, err)
	require.Empty(t, peeked)
	discarded, err := dead.Discard(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, discarded)

	sink.reveal = nil
	receiveOne(t, work)
	require.Equal(t, [2]int64{0, 1}, totals(t, work, dead))
}

func TestReceiptIsStaleWhileItsMessageMoves(t *testing.T) {
	t.Parallel()
	_, _, work, dead := buryPair(t)
	send(t, work, "spent", "spent too")
	receipts := spend(t, work, 2)
	work.deadLetters = &failingSink{DeadLetterSink: work.deadLetters, during: func() {
		require.ErrorIs(t, work.Ack(t.Context(), receipts[0]), ports.ErrStaleReceipt)
		require.ErrorIs(t, work.Nack(t.Context(), receipts[0], types.NackOptions{}), ports.ErrStaleReceipt)
		require.ErrorIs(t, work.Renew(t.Context(), receipts[0], types.RenewOptions{}), ports.ErrStaleReceipt)
		stats, err := work.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, [2]int64{2, 2}, [2]int64{stats.Total, stats.InFlight})
	}}
	receiveOne(t, work)
	require.Equal(t, [2]int64{0, 2}, totals(t, work, dead))
}

func TestPurgeWhileAMessageMovesCountsAsAfterIt(t *testing.T) {
	t.Parallel()
	_, _, work, dead := buryPair(t)
	send(t, work, "spent")
	spend(t, work, 2)
	work.deadLetters = &failingSink{DeadLetterSink: work.deadLetters, during: func() {
		require.NoError(t, work.Purge(t.Context()))
	}}
	receiveOne(t, work)
	require.Equal(t, [2]int64{0, 1}, totals(t, work, dead))
	requireIndexMatchesFile(t, work)
}

// A copy that was staged for a queue which was deleted and made again is not taken for one of the new
// queue's messages.
func TestStagedCopyOfAnEarlierQueueIsNotMistaken(t *testing.T) {
	t.Parallel()
	_, clock, _, dead := buryPair(t)
	letter := func(text string) []DeadLetter {
		return []DeadLetter{{ID: 1, Payload: types.Text(text), Attempt: 2, EnqueuedAt: clock.Now()}}
	}
	require.NoError(t, dead.stage(t.Context(), "work", letter("old")))
	clock.Advance(time.Second)
	require.NoError(t, dead.stage(t.Context(), "work", letter("new")))
	require.NoError(t, dead.stage(t.Context(), "work", letter("new")), "staging again does nothing")
	require.NoError(t, dead.revealStaged(t.Context(), "work", letter("new")))
	require.NoError(t, dead.revealStaged(t.Context(), "work", letter("new")))
	messages, err := dead.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Equal(t, []types.Payload{types.Text("old"), types.Text("new")}, []types.Payload{messages[0].Payload, messages[1].Payload})
	require.Len(t, messages, 2)
}

// Of a copy whose queue of origin cannot be asked nothing is decided until it can.
func TestStagedCopyWaitsForItsQueueOfOrigin(t *testing.T) {
	t.Parallel()
	owner, clock, work, dead := buryPair(t)
	send(t, work, "spent")
	spend(t, work, 2)
	require.NoError(t, dead.stage(t.Context(), "work", []DeadLetter{{ID: 1, Payload: types.Text("spent"), Attempt: 2, EnqueuedAt: clock.Now()}}))
	require.NoError(t, dead.stage(t.Context(), "elsewhere", []DeadLetter{{ID: 1, Payload: types.Text("orphan"), Attempt: 2, EnqueuedAt: clock.Now()}}))
	require.NoError(t, owner.Close())
	block(t, owner, "work")

	o := owner.o
	owner = openOwner(t, o)
	dead = queueOf(t, owner, "dead")
	require.Equal(t, types.Text("orphan"), receiveOne(t, dead)[0].Payload, "its queue is gone: it is revealed")
	require.Empty(t, receiveOne(t, dead))
	_, err := owner.Queue(t.Context(), "work")
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)

	unblock(t, owner, "work")
	work = queueOf(t, owner, "work")
	require.Equal(t, [2]int64{1, 1}, totals(t, work, dead), "the message is in its queue, so the copy was dropped")
	require.Empty(t, receiveOne(t, work))
	require.Equal(t, [2]int64{0, 2}, totals(t, work, dead))
}
