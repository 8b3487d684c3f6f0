package queuetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// Harness makes the queues that the suite tests, and says what they can do.
type Harness struct {
	// Open makes a fresh, empty queue that lives by the clock. The suite closes what it gets from a
	// harness; a harness whose own clean-up closes it again must bear that.
	Open func(t testing.TB, clock ports.Clock) Store

	// Clocked says that the clock given to Open decides what is due. Without it the cases that move
	// the clock are left out.
	Clocked bool
	// Durable says that what was stored is there again after Reopen.
	Durable bool
	// MultiHandle says that a queue can be open more than once at the same time (Store.Second).
	MultiHandle bool
	// Remote says that the queue is reached over a network: a receive whose caller has gone may have
	// claimed messages, which come back at once with one attempt more.
	Remote bool
	// CanSendBulk says that the queue is a ports.BulkSender.
	CanSendBulk bool
	// CanRelease says that the queue is a ports.Releaser.
	CanRelease bool
	// CanDiscard says that the queue is a ports.Discarder.
	CanDiscard bool
	// CanBackup says that the queue is a ports.Backuper.
	CanBackup bool
	// CanCheckHealth says that the queue is a ports.HealthChecker.
	CanCheckHealth bool
}

// Store is one queue of a harness.
type Store struct {
	Queue ports.QueueStore
	// Reopen opens the same place again; the suite has closed Queue, and whatever an earlier Reopen
	// gave, beforehand. It is required of a durable queue. Where one that does not claim to be
	// durable has it, the suite asserts that the reopened queue is empty.
	Reopen func(t testing.TB) ports.QueueStore
	// Second opens the same place a second time while Queue is open. It is required with
	// MultiHandle. Where one that does not claim MultiHandle has it, the suite asserts that it fails.
	Second func(t testing.TB) (ports.QueueStore, error)
	// InjectUndecodable is Reopen with rows added in between that no queue can decode, of as many
	// kinds as the harness likes, each older than any message and due. It returns their ids. Nil for
	// queues whose rows nobody else can write.
	InjectUndecodable func(t testing.TB) (ports.QueueStore, []int64)
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"input", inputCases},
		{"payload", payloadCases},
		{"order", orderCases},
		{"lease", leaseCases},
		{"receipt", receiptCases},
		{"batch", batchCases},
		{"bulk", bulkCases},
		{"stats", statsCases},
		{"wait", waitCases},
		{"life", lifeCases},
		{"race", raceCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					if c.moves && !h.Clocked {
						t.Skip("the harness does not claim Clocked: its queues live by a clock that no test can move")
					}
					c.run(newFix(t, h))
				})
			}
		})
	}
	t.Run("model", func(t *testing.T) {
		t.Parallel()
		RunModel(t, h)
	})
}

type testCase struct {
	name  string
	moves bool // moves the clock
	run   func(*fix)
}

// fix is the queue of one case, with the steps that cases are written in.
type fix struct {
	*testing.T
	h     Harness
	clock *fixture.Clock
	store Store
	q     ports.QueueStore
	ctx   context.Context
}

func newFix(t *testing.T, h Harness) *fix {
	t.Helper()
	f := &fix{T: t, h: h, clock: fixture.NewClock(fixture.Epoch()), ctx: t.Context()}
	f.store = h.Open(t, f.clock)
	f.q = f.store.Queue
	t.Cleanup(func() { closeQueue(t, f.q) })
	return f
}

func closeQueue(t testing.TB, q ports.QueueStore) {
	t.Helper()
	require.NoError(t, q.Close(), "closing the queue")
}

// reopen closes the queue and opens its place again.
func (f *fix) reopen() {
	f.Helper()
	closeQueue(f, f.q)
	f.q = f.store.Reopen(f)
}

// send stores the text messages in turn.
func (f *fix) send(texts ...string) {
	f.Helper()
	for _, text := range texts {
		f.sendPayload(types.Text(text))
	}
}

func (f *fix) sendPayload(p types.Payload) {
	f.Helper()
	require.NoError(f, f.q.Send(f.ctx, p, types.SendOptions{}), "send")
}

func (f *fix) sendDelayed(text string, delay time.Duration) {
	f.Helper()
	require.NoError(f, f.q.Send(f.ctx, types.Text(text), types.SendOptions{Delay: delay}), "send with a delay of %v", delay)
}

func (f *fix) receive(opts types.ReceiveOptions) []types.Message {
	f.Helper()
	messages, err := f.q.Receive(f.ctx, opts)
	require.NoError(f, err, "receive")
	return messages
}

// one receives the one message that is next.
func (f *fix) one(text string) types.Message {
	f.Helper()
	return f.oneLeased(text, 0)
}

func (f *fix) oneLeased(text string, lease time.Duration) types.Message {
	f.Helper()
	messages := f.receive(types.ReceiveOptions{Lease: lease})
	require.Len(f, messages, 1, "receive: want the message %q", text)
	require.Equal(f, types.Text(text), messages[0].Payload)
	return messages[0]
}

// none asserts that nothing is due.
func (f *fix) none() {
	f.Helper()
	require.Empty(f, f.receive(types.ReceiveOptions{Max: 10}), "receive: want nothing due")
}

// drain receives all that is due and acks it.
func (f *fix) drain() []types.Message {
	f.Helper()
	var all []types.Message
	for {
		messages := f.receive(types.ReceiveOptions{Max: 10})
		if len(messages) == 0 {
			return all
		}
		all = append(all, messages...)
		for _, m := range messages {
			f.ack(m)
		}
	}
}

func textsOf(messages []types.Message) []string {
	texts := make([]string, 0, len(messages))
	for _, m := range messages {
		texts = append(texts, m.Payload.Data)
	}
	return texts
}

func (f *fix) ack(m types.Message) {
	f.Helper()
	require.NoError(f, f.q.Ack(f.ctx, m.Receipt), "ack")
}

func (f *fix) nack(m types.Message, delay time.Duration) {
	f.Helper()
	require.NoError(f, f.q.Nack(f.ctx, m.Receipt, types.NackOptions{Delay: delay}), "nack with a delay of %v", delay)
}

func (f *fix) renew(m types.Message, lease time.Duration) {
	f.Helper()
	require.NoError(f, f.q.Renew(f.ctx, m.Receipt, types.RenewOptions{Lease: lease}), "renew for %v", lease)
}

func (f *fix) stats() types.QueueStats {
	f.Helper()
	stats, err := f.q.Stats(f.ctx)
	require.NoError(f, err, "stats")
	require.Equal(f, stats.Total, stats.Visible+stats.InFlight+stats.Delayed, "total is the sum of the states: %+v", stats)
	return stats
}

// counts asserts the counts of the messages in each state.
func (f *fix) counts(visible, inFlight, delayed int64) {
	f.Helper()
	stats := f.stats()
	require.Equal(f, [3]int64{visible, inFlight, delayed}, [3]int64{stats.Visible, stats.InFlight, stats.Delayed},
		"visible, in flight and delayed")
	require.Zero(f, stats.Undecodable)
}

func (f *fix) peek(most int) []types.PeekedMessage {
	f.Helper()
	peeked, err := f.q.Peek(f.ctx, types.PeekOptions{Max: most})
	require.NoError(f, err, "peek")
	return peeked
}

// receiptUse is one of the three uses of a receipt, which share one rule.
type receiptUse struct {
	name string
	call func(f *fix, receipt string) error
}

var receiptUses = []receiptUse{
	{"ack", func(f *fix, receipt string) error { return f.q.Ack(f.ctx, receipt) }},
	{"ackBatch", func(f *fix, receipt string) error {
		outcomes, err := f.q.AckBatch(f.ctx, []string{receipt})
		if err != nil {
			return err
		}
		if len(outcomes) != 1 || (outcomes[0].Err == nil) != (outcomes[0].Status == types.AckDone) {
			return fmt.Errorf("want one outcome whose error and status agree, got %+v", outcomes)
		}
		return outcomes[0].Err
	}},
	{"nack", func(f *fix, receipt string) error { return f.q.Nack(f.ctx, receipt, types.NackOptions{}) }},
	{"nack with delay", func(f *fix, receipt string) error {
		return f.q.Nack(f.ctx, receipt, types.NackOptions{Delay: time.Minute})
	}},
	{"renew", func(f *fix, receipt string) error { return f.q.Renew(f.ctx, receipt, types.RenewOptions{}) }},
}

// wantStale asserts that every use of a receipt is refused as stale.
func (f *fix) wantStale(receipt string) {
	f.Helper()
	for _, use := range receiptUses {
		f.wantStaleError(use.call(f, receipt), receipt, use.name)
	}
}

func (f *fix) wantStaleError(err error, receipt, use string) {
	f.Helper()
	require.ErrorIs(f, err, ports.ErrStaleReceipt, use)
	require.ErrorIs(f, err, ports.ErrQueueOperationFailed, use)
	require.False(f, ports.IsTransient(err), "%s: a stale receipt stays stale: want a permanent error", use)
	require.NotContains(f, err.Error(), receipt, "%s: an error holds no receipt", use)
}

// wantNoEffect asserts that every use of a receipt succeeds and changes nothing.
func (f *fix) wantNoEffect(receipt string) {
	f.Helper()
	before, statsBefore := f.peek(0), f.stats()
	for _, use := range receiptUses {
		require.NoError(f, use.call(f, receipt), "%s of the receipt %q", use.name, receipt)
	}
	require.Equal(f, before, f.peek(0), "the receipt %q: want no effect", receipt)
	require.Equal(f, statsBefore, f.stats(), "the receipt %q: want no effect", receipt)
}

// wantInvalid asserts that an error is what a bad input gives.
func (f *fix) wantInvalid(err error, format string, args ...any) {
	f.Helper()
	require.ErrorIs(f, err, ports.ErrInvalidInput, append([]any{format}, args...)...)
	var e *ports.Error
	require.ErrorAs(f, err, &e)
	require.NotEmpty(f, e.Message, "an error says what is wrong")
	require.False(f, ports.IsTransient(err), "bad input stays bad: want a permanent error")
}

// poll is a receive that waits in a goroutine of its own.
type poll struct {
	f      *fix
	timers int // that run while it waits
	done   chan pollResult
	cancel context.CancelFunc
}

type pollResult struct {
	messages []types.Message
	err      error
}

// patience is how long the suite waits, on the machine's clock, for something that must come.
const patience = 10 * time.Second

// poll starts a receive and returns once it waits. Of many, each is waited for in turn.
func (f *fix) poll(opts types.ReceiveOptions) *poll {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	f.Cleanup(cancel)
	p := &poll{f: f, timers: f.clock.Timers() + 1, done: make(chan pollResult, 1), cancel: cancel}
	q := f.q
	go func() {
		messages, err := q.Receive(ctx, opts)
		p.done <- pollResult{messages, err}
	}()
	p.pending()
	return p
}

// pending asserts that the receive is waiting, and returns once its timer runs.
func (p *poll) pending() {
	p.f.Helper()
	ctx, cancel := context.WithTimeout(p.f.ctx, patience)
	defer cancel()
	stands := make(chan error, 1)
	go func() { stands <- p.f.clock.WaitForTimers(ctx, p.timers) }()
	select {
	case err := <-stands:
		require.NoError(p.f, err, "a receive that waits: want it to hold a timer of the clock; found %d timers, want %d", p.f.clock.Timers(), p.timers)
	case result := <-p.done:
		require.Failf(p.f, "a receive has ended", "want it to wait, got messages %q and error %v", textsOf(result.messages), result.err)
	}
	select {
	case result := <-p.done:
		require.Failf(p.f, "a receive has ended", "want it to wait, got messages %q and error %v", textsOf(result.messages), result.err)
	default:
	}
}

// result returns what the receive came to.
func (p *poll) result() pollResult {
	p.f.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case result := <-p.done:
		return result
	case <-limit.C:
		require.Fail(p.f, "a receive goes on waiting", "want it to end; %v have passed", patience)
		return pollResult{}
	}
}

// messages returns the messages that the receive came to.
func (p *poll) messages() []types.Message {
	p.f.Helper()
	result := p.result()
	require.NoError(p.f, result.err, "a receive that waited")
	return result.messages
}
