package model

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

// Queue is a ports.QueueStore that is also a ports.BulkSender and a ports.Releaser.
type Queue struct {
	clock ports.Clock

	mu      sync.Mutex
	gone    error // what every call returns once the queue is closed or revoked
	rows    []row // ordered by (enqueued, id), which is the order of sending
	lastID  int64
	changed chan struct{} // closed, and made anew, when a waiting receive has to look again
}

type row struct {
	id       int64
	payload  types.Payload
	enqueued int64
	visible  int64
	attempt  int64
	delivery string // empty: no current receipt
}

// NewQueue makes an empty queue.
func NewQueue(clock ports.Clock) *Queue {
	return &Queue{clock: ports.SteadyClock(clock, time.Time{}), changed: make(chan struct{})}
}

// begin locks the queue for one step. The caller unlocks, unless there is an error.
func (m *Queue) begin(ctx context.Context) (now int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	if m.gone != nil {
		defer m.mu.Unlock()
		return 0, m.gone
	}
	return m.clock.Now().UnixMilli(), nil
}

func (m *Queue) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Send implements ports.Queue.
func (m *Queue) Send(ctx context.Context, payload types.Payload, opts types.SendOptions) error {
	const op = "queue.send"
	stored, err := ports.CheckPayload(op, payload)
	if err != nil {
		return err
	}
	delay, err := ports.CheckDelay(op, opts.Delay)
	if err != nil {
		return err
	}
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	m.insert(stored, now, delay)
	return nil
}

// SendBatch implements ports.Queue.
func (m *Queue) SendBatch(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	const op = "queue.sendBatch"
	if err := ports.CheckBatch(op, len(payloads)); err != nil {
		return nil, err
	}
	return m.sendAll(ctx, op, payloads)
}

// SendBulk implements ports.BulkSender.
func (m *Queue) SendBulk(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	const op = "queue.sendBulk"
	if err := ports.CheckBulk(op, len(payloads)); err != nil {
		return nil, err
	}
	return m.sendAll(ctx, op, payloads)
}

func (m *Queue) sendAll(ctx context.Context, op string, payloads []types.Payload) ([]types.SendOutcome, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var outcomes []types.SendOutcome
	for _, p := range payloads {
		stored, err := ports.CheckPayload(op, p)
		if err != nil {
			outcomes = append(outcomes, types.SendOutcome{Status: types.StatusRejected, Err: err})
			continue
		}
		m.insert(stored, now, 0)
		outcomes = append(outcomes, types.SendOutcome{Status: types.StatusSent})
	}
	return outcomes, nil
}

func (m *Queue) insert(stored types.Payload, now, delay int64) {
	m.lastID++
	m.rows = append(m.rows, row{id: m.lastID, payload: stored, enqueued: now, visible: now + delay})
	m.wake()
}

// Receive implements ports.Queue.
func (m *Queue) Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	check, err := ports.CheckReceive("queue.receive", opts)
	if err != nil {
		return nil, err
	}
	until := m.clock.Now().Add(check.Wait)
	for {
		now, err := m.begin(ctx)
		if err != nil {
			return nil, err
		}
		messages := m.claim(now, check)
		rest := until.Sub(m.clock.Now())
		if len(messages) > 0 || rest <= 0 {
			m.mu.Unlock()
			return messages, nil
		}
		changed := m.changed
		timer := m.clock.NewTimer(min(rest, m.untilDue()))
		m.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (m *Queue) claim(now int64, check ports.ReceiveCheck) []types.Message {
	messages := []types.Message{}
	for i := range m.rows {
		r := &m.rows[i]
		if r.visible > now || len(messages) == check.Max {
			continue
		}
		r.visible = now + check.LeaseMillis
		r.attempt++
		r.delivery = uuid.NewString()
		messages = append(messages, types.Message{
			Payload:    r.payload,
			Receipt:    ports.FormatReceipt(r.id, r.delivery),
			Attempt:    r.attempt,
			EnqueuedAt: time.UnixMilli(r.enqueued),
		})
	}
	return messages
}

// untilDue is how long it takes until the next hidden message becomes due.
func (m *Queue) untilDue() time.Duration {
	least := ports.MaxWait
	for _, r := range m.rows {
		least = min(least, time.UnixMilli(r.visible).Sub(m.clock.Now()))
	}
	return least
}

// find applies the rule of receipts: the index of the message whose current receipt this is, -1 for
// one that has no effect.
func (m *Queue) find(op, receipt string) (int, error) {
	id, delivery, ok := ports.ParseReceipt(receipt)
	i := slices.IndexFunc(m.rows, func(r row) bool { return r.id == id })
	if !ok || i < 0 {
		return -1, nil
	}
	if m.rows[i].delivery != delivery {
		return -1, ports.Errorf(ports.CodeQueueOperationFailed, op, "the receipt of message %d is stale: the message has been delivered or delayed since", id).
			WithReason(ports.ReasonStaleReceipt)
	}
	return i, nil
}

// Ack implements ports.Queue.
func (m *Queue) Ack(ctx context.Context, receipt string) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	return m.ack("queue.ack", receipt)
}

func (m *Queue) ack(op, receipt string) error {
	i, err := m.find(op, receipt)
	if err == nil && i >= 0 {
		m.rows = slices.Delete(m.rows, i, i+1)
	}
	return err
}

// AckBatch implements ports.Queue.
func (m *Queue) AckBatch(ctx context.Context, receipts []string) ([]types.AckOutcome, error) {
	const op = "queue.ackBatch"
	if err := ports.CheckBatch(op, len(receipts)); err != nil {
		return nil, err
	}
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var outcomes []types.AckOutcome
	for _, receipt := range receipts {
		outcome := types.AckOutcome{Status: types.AckDone}
		if err := m.ack(op, receipt); err != nil {
			outcome = types.AckOutcome{Status: types.AckRejected, Err: err}
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// Nack implements ports.Queue.
func (m *Queue) Nack(ctx context.Context, receipt string, opts types.NackOptions) error {
	const op = "queue.nack"
	delay, err := ports.CheckDelay(op, opts.Delay)
	if err != nil {
		return err
	}
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	i, err := m.find(op, receipt)
	if err != nil || i < 0 {
		return err
	}
	m.rows[i].visible = now + delay
	if delay > 0 {
		m.rows[i].delivery = ""
	}
	m.wake()
	return nil
}

// Renew implements ports.Queue.
func (m *Queue) Renew(ctx context.Context, receipt string, opts types.RenewOptions) error {
	const op = "queue.renew"
	lease, err := ports.CheckLease(op, opts.Lease)
	if err != nil {
		return err
	}
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	i, err := m.find(op, receipt)
	if err != nil || i < 0 {
		return err
	}
	m.rows[i].visible = now + lease
	m.wake()
	return nil
}

// Purge implements ports.Queue.
func (m *Queue) Purge(ctx context.Context) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	m.rows = nil
	return nil
}

// Stats implements ports.Queue.
func (m *Queue) Stats(ctx context.Context) (types.QueueStats, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return types.QueueStats{}, err
	}
	defer m.mu.Unlock()
	var stats types.QueueStats
	for _, r := range m.rows {
		stats.Total++
		switch r.state(now) {
		case types.StateVisible:
			stats.Visible++
		case types.StateInFlight:
			stats.InFlight++
		case types.StateDelayed:
			stats.Delayed++
		}
	}
	if len(m.rows) > 0 {
		stats.OldestAge = time.Duration(now-m.rows[0].enqueued) * time.Millisecond
	}
	return stats, nil
}

// Peek implements ports.Queue.
func (m *Queue) Peek(ctx context.Context, opts types.PeekOptions) ([]types.PeekedMessage, error) {
	most, err := ports.CheckPeek("queue.peek", opts)
	if err != nil {
		return nil, err
	}
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	rows := slices.Clone(m.rows)
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(max(a.visible, now), max(b.visible, now)) })
	peeked := []types.PeekedMessage{}
	for _, r := range rows[:min(most, len(rows))] {
		peeked = append(peeked, types.PeekedMessage{
			ID:         r.id,
			Payload:    r.payload,
			State:      r.state(now),
			Attempt:    r.attempt,
			EnqueuedAt: time.UnixMilli(r.enqueued),
			VisibleAt:  time.UnixMilli(r.visible),
		})
	}
	return peeked, nil
}

// Release implements ports.Releaser.
func (m *Queue) Release(ctx context.Context, receipts []string) error {
	now, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, receipt := range receipts {
		if i, err := m.find("queue.release", receipt); err == nil && i >= 0 {
			m.rows[i].visible = now
			m.wake()
		}
	}
	return nil
}

// Close wakes waiting receives and makes every later call STORE_CLOSED.
func (m *Queue) Close() error {
	m.end(ports.Errorf(ports.CodeStoreClosed, "queue", "the model queue is closed"))
	return nil
}

func (m *Queue) end(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone == nil {
		m.gone = err
		m.wake()
	}
}

func (r row) state(now int64) types.MessageState {
	switch {
	case r.visible <= now:
		return types.StateVisible
	case r.delivery != "":
		return types.StateInFlight
	default:
		return types.StateDelayed
	}
}
