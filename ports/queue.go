package ports

import (
	"context"
	"io"

	"github.com/stowage-go/stowage/types"
)

// Queue is a work queue with leases: at least once, first in first out among the messages that are
// due.
//
// A payload is JSON (kept byte for byte as compacted; duplicate members and invalid UTF-8 are
// refused) or text (valid UTF-8, may be empty), at most 65,536 bytes as stored. Whatever breaks a
// rule is INVALID_INPUT before the queue is touched.
//
// A message is due from the very millisecond of its visible time (R080). Due messages are delivered
// in the order of (enqueued at, id). A queue lives by a [SteadyClock] that starts no earlier than the
// latest message that it holds: when the machine's clock steps back, order and leases go on as if it
// had not (R111).
//
// Receipts: Ack, Nack and Renew share one rule. With the receipt of the latest delivery they do
// their work, also after its lease ran out, until somebody else receives the message (R106). With
// one whose message is gone, or that no queue ever issued, they succeed without effect (R099, R101).
// With one of an earlier delivery they fail with [ErrStaleReceipt], and the message is left alone
// (R102). So each may be repeated.
//
// A stored row that cannot be decoded never blocks the queue: it is passed over, counted in
// Stats, kept, and removed only by Purge or [Discarder].
//
// All methods may be called from many goroutines, and each is one atomic step. After Close every
// method gives STORE_CLOSED. A call whose context ends before it began leaves nothing behind and
// returns the context's error; one that had begun returns its true outcome. Only an adapter behind a
// network ever returns [ErrOutcomeUnknown].
type Queue interface {
	// Send stores one message at the end of the queue. A success means that it is durable.
	Send(ctx context.Context, payload types.Payload, opts types.SendOptions) error

	// SendBatch stores 1 to 10 messages, visible at once, in one transaction, and returns one
	// outcome for each, in order. A message that breaks a rule is rejected alone; the others are
	// stored. An error means that none was stored, unless it is [ErrOutcomeUnknown].
	SendBatch(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error)

	// Receive delivers up to opts.Max due messages and hides each for the lease. With none due it
	// returns an empty list, or waits for opts.Wait until a send, a nack or the end of a lease or
	// delay brings one. All of them are claimed, or none (R096). When ctx ends during the wait, no
	// message has been claimed.
	Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error)

	// Ack removes the message of the receipt.
	Ack(ctx context.Context, receipt string) error

	// AckBatch acks 1 to 10 receipts in one transaction and returns one outcome for each, in order.
	AckBatch(ctx context.Context, receipts []string) ([]types.AckOutcome, error)

	// Nack gives the message of the receipt back: visible at once, the receipt still current until
	// the next delivery (R107); or hidden for opts.Delay, the receipt ended.
	Nack(ctx context.Context, receipt string, opts types.NackOptions) error

	// Renew gives the message of the receipt a full lease from now, and changes nothing else (R136).
	Renew(ctx context.Context, receipt string, opts types.RenewOptions) error

	// Purge removes every row: visible, hidden and undecodable. Ids are not used again (R083).
	Purge(ctx context.Context) error

	// Stats counts the messages at one instant. Its cost does not grow with their number.
	Stats(ctx context.Context) (types.QueueStats, error)

	// Peek returns up to opts.Max messages without delivering them: those that are due first, in the
	// order in which they would be delivered, then those that are hidden, in the order in which they
	// become due, then rows that cannot be decoded.
	Peek(ctx context.Context, opts types.PeekOptions) ([]types.PeekedMessage, error)
}

// QueueStore is a Queue with a life of its own, as a factory returns it.
type QueueStore interface {
	Queue
	io.Closer
}

// Discarder is implemented by queues from which an operator can remove a row that cannot be decoded.
type Discarder interface {
	// Discard removes the undecodable row with the id and reports whether there was one. A message
	// that can be decoded is INVALID_INPUT: it is removed by receiving and acking it.
	Discard(ctx context.Context, id int64) (bool, error)
}

// Releaser is implemented by queues that can take back a delivery that never reached its consumer.
type Releaser interface {
	// Release makes the messages of the receipts visible at once, each as a nack without delay.
	// Receipts that are not current any more are passed over.
	Release(ctx context.Context, receipts []string) error
}

// MaxBulk is the most messages of one SendBulk.
const MaxBulk = 1000

// BulkSender is implemented by queues that store many messages in one transaction.
type BulkSender interface {
	// SendBulk is SendBatch for 1 to 1000 messages: all that keep the rules are stored, in this order and
	// with nobody's in between, or none.
	SendBulk(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error)
}

// Meter is implemented by stores that count what they do.
type Meter interface {
	// Metrics returns the counts since the store was opened. It waits for nothing and no disk.
	Metrics() types.StoreMetrics
}
