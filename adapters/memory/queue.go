package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Queue is a ports.QueueStore in a slice. It is a ports.BulkSender and a ports.Releaser as well.
type Queue struct {
	clock ports.Clock

	mu       sync.Mutex
	messages []*message // in the order of sending, which is that of (enqueued at, id)
	lastID   int64
	closed   bool
	waiters  map[chan<- struct{}]struct{} // receives that wait
}

// message is one stored message; times are in milliseconds since the epoch.
type message struct {
	id         int64
	payload    types.Payload
	enqueuedAt int64
	visibleAt  int64
	attempt    int64
	delivery   string // the UUID of the latest delivery; empty without one, or when a delay ended it
}

// NewQueue makes an empty queue.
func NewQueue(clock ports.Clock) *Queue {
	return &Queue{
		clock:   ports.SteadyClock(clock, time.Time{}),
		waiters: map[chan<- struct{}]struct{}{},
	}
}

// Send stores one message at the end of the queue.
func (q *Queue) Send(ctx context.Context, payload types.Payload, opts types.SendOptions) error {
	const op = "queue.send"
	payload, err := ports.CheckPayload(op, payload)
	if err != nil {
		return err
	}
	delay, err := ports.CheckDelay(op, opts.Delay)
	if err != nil {
		return err
	}
	if err := q.lock(ctx, op); err != nil {
		return err
	}
	defer q.mu.Unlock()
	q.push(payload, q.now(), delay)
	q.wake()
	return nil
}

// SendBatch stores 1 to 10 messages and returns one outcome for each.
func (q *Queue) SendBatch(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	const op = "queue.sendBatch"
	if err := ports.CheckBatch(op, len(payloads)); err != nil {
		return nil, err
	}
	return q.sendAll(ctx, op, payloads)
}

func (q *Queue) sendAll(ctx context.Context, op string, payloads []types.Payload) ([]types.SendOutcome, error) {
	outcomes := make([]types.SendOutcome, len(payloads))
	valid := make([]types.Payload, 0, len(payloads))
	for i, payload := range payloads {
		payload, err := ports.CheckPayload(op, payload)
		if err != nil {
			outcomes[i] = types.SendOutcome{Status: types.StatusRejected, Err: err}
			continue
		}
		outcomes[i] = types.SendOutcome{Status: types.StatusSent}
		valid = append(valid, payload)
	}
	if err := q.lock(ctx, op); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	now := q.now()
	for _, payload := range valid {
		q.push(payload, now, 0)
	}
	q.wake()
	return outcomes, nil
}

// Receive delivers due messages, and waits for one if asked to.
func (q *Queue) Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	const op = "queue.receive"
	check, err := ports.CheckReceive(op, opts)
	if err != nil {
		return nil, err
	}
	var deadline time.Time
	for first := true; ; first = false {
		if err := q.lock(ctx, op); err != nil {
			return nil, err
		}
		now := q.clock.Now()
		if first {
			deadline = now.Add(check.Wait)
		}
		received := q.claim(now.UnixMilli(), check)
		if len(received) > 0 || !now.Before(deadline) {
			q.mu.Unlock()
			return received, nil
		}
		woken := make(chan struct{}, 1)
		q.waiters[woken] = struct{}{}
		timer := q.clock.NewTimer(q.nextChange(deadline).Sub(now))
		q.mu.Unlock()

		select {
		case <-woken:
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
		q.mu.Lock()
		delete(q.waiters, woken)
		q.mu.Unlock()
	}
}

// Ack removes the message of the receipt.
func (q *Queue) Ack(ctx context.Context, receipt string) error {
	const op = "queue.ack"
	if err := q.lock(ctx, op); err != nil {
		return err
	}
	defer q.mu.Unlock()
	return q.remove(op, receipt)
}

// AckBatch acks 1 to 10 receipts and returns one outcome for each.
func (q *Queue) AckBatch(ctx context.Context, receipts []string) ([]types.AckOutcome, error) {
	const op = "queue.ackBatch"
	if err := ports.CheckBatch(op, len(receipts)); err != nil {
		return nil, err
	}
	if err := q.lock(ctx, op); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	outcomes := make([]types.AckOutcome, len(receipts))
	for i, receipt := range receipts {
		outcomes[i] = types.AckOutcome{Status: types.AckDone}
		if err := q.remove(op, receipt); err != nil {
			outcomes[i] = types.AckOutcome{Status: types.AckRejected, Err: err}
		}
	}
	return outcomes, nil
}

// Nack gives the message of the receipt back.
func (q *Queue) Nack(ctx context.Context, receipt string, opts types.NackOptions) error {
	const op = "queue.nack"
	delay, err := ports.CheckDelay(op, opts.Delay)
	if err != nil {
		return err
	}
	if err := q.lock(ctx, op); err != nil {
		return err
	}
	defer q.mu.Unlock()
	m, err := q.current(op, receipt)
	if m == nil {
		return err
	}
	m.visibleAt = q.now() + delay
	if delay > 0 {
		m.delivery = ""
	}
	q.wake()
	return nil
}

// Renew gives the message of the receipt a full lease from now.
func (q *Queue) Renew(ctx context.Context, receipt string, opts types.RenewOptions) error {
	const op = "queue.renew"
	lease, err := ports.CheckLease(op, opts.Lease)
	if err != nil {
		return err
	}
	if err := q.lock(ctx, op); err != nil {
		return err
	}
	defer q.mu.Unlock()
	m, err := q.current(op, receipt)
	if m == nil {
		return err
	}
	m.visibleAt = q.now() + lease
	q.wake() // the new lease may end before the old one
	return nil
}

// Purge removes every message.
func (q *Queue) Purge(ctx context.Context) error {
	if err := q.lock(ctx, "queue.purge"); err != nil {
		return err
	}
	defer q.mu.Unlock()
	q.messages = nil
	return nil
}

// Stats counts the messages.
func (q *Queue) Stats(ctx context.Context) (types.QueueStats, error) {
	if err := q.lock(ctx, "queue.stats"); err != nil {
		return types.QueueStats{}, err
	}
	defer q.mu.Unlock()
	now := q.now()
	stats := types.QueueStats{Total: int64(len(q.messages))}
	for _, m := range q.messages {
		switch m.state(now) {
		case types.StateVisible:
			stats.Visible++
		case types.StateInFlight:
			stats.InFlight++
		default:
			stats.Delayed++
		}
	}
	if len(q.messages) > 0 {
		stats.OldestAge = time.Duration(now-q.messages[0].enqueuedAt) * time.Millisecond
	}
	return stats, nil
}

// Peek returns messages without delivering them.
func (q *Queue) Peek(ctx context.Context, opts types.PeekOptions) ([]types.PeekedMessage, error) {
	const op = "queue.peek"
	limit, err := ports.CheckPeek(op, opts)
	if err != nil {
		return nil, err
	}
	if err := q.lock(ctx, op); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	now := q.now()
	var due, hidden []*message
	for _, m := range q.messages {
		if m.visibleAt <= now {
			due = append(due, m)
		} else {
			hidden = append(hidden, m)
		}
	}
	slices.SortStableFunc(hidden, func(a, b *message) int { return cmp.Compare(a.visibleAt, b.visibleAt) })
	all := slices.Concat(due, hidden)
	peeked := make([]types.PeekedMessage, min(len(all), limit))
	for i := range peeked {
		m := all[i]
		peeked[i] = types.PeekedMessage{
			ID:         m.id,
			Payload:    m.payload,
			State:      m.state(now),
			Attempt:    m.attempt,
			EnqueuedAt: time.UnixMilli(m.enqueuedAt),
			VisibleAt:  time.UnixMilli(m.visibleAt),
		}
	}
	return peeked, nil
}

// SendBulk stores 1 to 1000 messages and returns one outcome for each.
func (q *Queue) SendBulk(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	const op = "queue.sendBulk"
	if err := ports.CheckBulk(op, len(payloads)); err != nil {
		return nil, err
	}
	return q.sendAll(ctx, op, payloads)
}

// Release makes the messages of the receipts visible at once.
func (q *Queue) Release(ctx context.Context, receipts []string) error {
	const op = "queue.release"
	if err := q.lock(ctx, op); err != nil {
		return err
	}
	defer q.mu.Unlock()
	now := q.now()
	for _, receipt := range receipts {
		// A stale receipt is no failure here: somebody else has the message.
		if m, _ := q.current(op, receipt); m != nil {
			m.visibleAt = now
		}
	}
	q.wake()
	return nil
}

// Close drops everything and wakes the receives that wait. Later calls give STORE_CLOSED; closing
// again does nothing.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.messages = nil
	q.wake()
	return nil
}

// lock begins a step. The caller unlocks, unless there is an error.
func (q *Queue) lock(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ports.Errorf(ports.CodeStoreClosed, op, "the queue in memory is closed: open a new one")
	}
	return nil
}

func (q *Queue) now() int64 { return q.clock.Now().UnixMilli() }

func (q *Queue) push(payload types.Payload, now, delay int64) {
	q.lastID++
	q.messages = append(q.messages, &message{
		id:         q.lastID,
		payload:    payload,
		enqueuedAt: now,
		visibleAt:  now + delay,
	})
}

// wake lets every receive that waits look again.
func (q *Queue) wake() {
	for woken := range q.waiters {
		select {
		case woken <- struct{}{}:
		default: // it has been woken already
		}
	}
}

// claim delivers what is due at the time now.
func (q *Queue) claim(now int64, check ports.ReceiveCheck) []types.Message {
	received := make([]types.Message, 0, check.Max)
	for _, m := range q.messages {
		if len(received) == check.Max {
			break
		}
		if m.visibleAt > now {
			continue
		}
		m.visibleAt = now + check.LeaseMillis
		m.attempt++
		m.delivery = uuid.NewString()
		received = append(received, types.Message{
			Payload:    m.payload,
			Receipt:    ports.FormatReceipt(m.id, m.delivery),
			Attempt:    m.attempt,
			EnqueuedAt: time.UnixMilli(m.enqueuedAt),
		})
	}
	return received
}

// nextChange is when a receive has to look again: when the next hidden message becomes due, or at
// its deadline.
func (q *Queue) nextChange(deadline time.Time) time.Time {
	next := deadline
	for _, m := range q.messages {
		if due := time.UnixMilli(m.visibleAt); due.Before(next) {
			next = due
		}
	}
	return next
}

// current returns the message whose current receipt this is; nil if the receipt has no effect, and
// nil with an error if it is stale.
func (q *Queue) current(op, receipt string) (*message, error) {
	id, delivery, issued := ports.ParseReceipt(receipt)
	if !issued {
		return nil, nil
	}
	i := q.index(id)
	if i < 0 {
		return nil, nil
	}
	if m := q.messages[i]; m.delivery == delivery {
		return m, nil
	}
	return nil, ports.Errorf(ports.CodeQueueOperationFailed, op,
		"the receipt for message %d is stale: the message was delivered or delayed after it; receive it again", id).
		WithReason(ports.ReasonStaleReceipt)
}

func (q *Queue) remove(op, receipt string) error {
	m, err := q.current(op, receipt)
	if m == nil {
		return err
	}
	i := q.index(m.id)
	q.messages = slices.Delete(q.messages, i, i+1)
	return nil
}

// index finds a message by its id; -1 if it is gone.
func (q *Queue) index(id int64) int {
	i, found := slices.BinarySearchFunc(q.messages, id, func(m *message, id int64) int { return cmp.Compare(m.id, id) })
	if !found {
		return -1
	}
	return i
}

func (m *message) state(now int64) types.MessageState {
	switch {
	case m.visibleAt <= now:
		return types.StateVisible
	case m.delivery != "":
		return types.StateInFlight
	default:
		return types.StateDelayed
	}
}
