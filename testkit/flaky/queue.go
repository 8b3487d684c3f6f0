package flaky

import (
	"context"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Queue is a ports.QueueStore that fails as its Faults say. A call that fails returns no result,
// also when it had its effect: messages that a failed receive has claimed stay hidden for their
// lease.
type Queue struct {
	inner  ports.QueueStore
	faults *Faults
}

// NewQueue wraps a queue. The wrapper is a ports.BulkSender, a ports.Releaser or a ports.Discarder if the
// queue is: ask it with a type assertion, as one would ask the queue.
func NewQueue(inner ports.QueueStore, faults *Faults) ports.QueueStore {
	q := &Queue{inner, faults}
	bulkSender, sendsBulk := inner.(ports.BulkSender)
	releaser, releases := inner.(ports.Releaser)
	discarder, discards := inner.(ports.Discarder)
	b, r, d := flakyBulkSender{bulkSender, faults}, flakyReleaser{releaser, faults}, flakyDiscarder{discarder, faults}
	switch [3]bool{sendsBulk, releases, discards} {
	case [3]bool{true, true, true}:
		return struct {
			*Queue
			flakyBulkSender
			flakyReleaser
			flakyDiscarder
		}{q, b, r, d}
	case [3]bool{true, true, false}:
		return struct {
			*Queue
			flakyBulkSender
			flakyReleaser
		}{q, b, r}
	case [3]bool{true, false, true}:
		return struct {
			*Queue
			flakyBulkSender
			flakyDiscarder
		}{q, b, d}
	case [3]bool{true, false, false}:
		return struct {
			*Queue
			flakyBulkSender
		}{q, b}
	case [3]bool{false, true, true}:
		return struct {
			*Queue
			flakyReleaser
			flakyDiscarder
		}{q, r, d}
	case [3]bool{false, true, false}:
		return struct {
			*Queue
			flakyReleaser
		}{q, r}
	case [3]bool{false, false, true}:
		return struct {
			*Queue
			flakyDiscarder
		}{q, d}
	}
	return q
}

// Send implements ports.Queue.
func (q *Queue) Send(ctx context.Context, payload types.Payload, opts types.SendOptions) error {
	return q.faults.around(ctx, QueueSend, func(ctx context.Context) error { return q.inner.Send(ctx, payload, opts) })
}

// SendBatch implements ports.Queue.
func (q *Queue) SendBatch(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	return result(ctx, q.faults.around, QueueSendBatch, func(ctx context.Context) ([]types.SendOutcome, error) { return q.inner.SendBatch(ctx, payloads) })
}

// Receive implements ports.Queue.
func (q *Queue) Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	return result(ctx, q.faults.around, QueueReceive, func(ctx context.Context) ([]types.Message, error) { return q.inner.Receive(ctx, opts) })
}

// Ack implements ports.Queue.
func (q *Queue) Ack(ctx context.Context, receipt string) error {
	return q.faults.around(ctx, QueueAck, func(ctx context.Context) error { return q.inner.Ack(ctx, receipt) })
}

// AckBatch implements ports.Queue.
func (q *Queue) AckBatch(ctx context.Context, receipts []string) ([]types.AckOutcome, error) {
	return result(ctx, q.faults.around, QueueAckBatch, func(ctx context.Context) ([]types.AckOutcome, error) { return q.inner.AckBatch(ctx, receipts) })
}

// Nack implements ports.Queue.
func (q *Queue) Nack(ctx context.Context, receipt string, opts types.NackOptions) error {
	return q.faults.around(ctx, QueueNack, func(ctx context.Context) error { return q.inner.Nack(ctx, receipt, opts) })
}

// Renew implements ports.Queue.
func (q *Queue) Renew(ctx context.Context, receipt string, opts types.RenewOptions) error {
	return q.faults.around(ctx, QueueRenew, func(ctx context.Context) error { return q.inner.Renew(ctx, receipt, opts) })
}

// Purge implements ports.Queue.
func (q *Queue) Purge(ctx context.Context) error {
	return q.faults.around(ctx, QueuePurge, func(ctx context.Context) error { return q.inner.Purge(ctx) })
}

// Stats implements ports.Queue.
func (q *Queue) Stats(ctx context.Context) (types.QueueStats, error) {
	return result(ctx, q.faults.around, QueueStats, func(ctx context.Context) (types.QueueStats, error) { return q.inner.Stats(ctx) })
}

// Peek implements ports.Queue.
func (q *Queue) Peek(ctx context.Context, opts types.PeekOptions) ([]types.PeekedMessage, error) {
	return result(ctx, q.faults.around, QueuePeek, func(ctx context.Context) ([]types.PeekedMessage, error) { return q.inner.Peek(ctx, opts) })
}

// Close closes the queue within, unless the faults have halted.
func (q *Queue) Close() error { return q.faults.close(q.inner.Close) }

type flakyBulkSender struct {
	inner  ports.BulkSender
	faults *Faults
}

// SendBulk implements ports.BulkSender.
func (b flakyBulkSender) SendBulk(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	return result(ctx, b.faults.around, QueueSendBulk, func(ctx context.Context) ([]types.SendOutcome, error) { return b.inner.SendBulk(ctx, payloads) })
}

type flakyReleaser struct {
	inner  ports.Releaser
	faults *Faults
}

// Release implements ports.Releaser.
func (r flakyReleaser) Release(ctx context.Context, receipts []string) error {
	return r.faults.around(ctx, QueueRelease, func(ctx context.Context) error { return r.inner.Release(ctx, receipts) })
}

type flakyDiscarder struct {
	inner  ports.Discarder
	faults *Faults
}

// Discard implements ports.Discarder.
func (d flakyDiscarder) Discard(ctx context.Context, id int64) (bool, error) {
	return result(ctx, d.faults.around, QueueDiscard, func(ctx context.Context) (bool, error) { return d.inner.Discard(ctx, id) })
}
