package localqueue

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"path/filepath"
	"sync"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Queue is a work queue in one file, of which it is the only owner. It implements ports.QueueStore,
// ports.BulkSender, ports.Releaser, ports.Discarder, ports.HealthChecker, ports.Meter and ports.Backuper.
//
// Every operation, reading ones included, is one step under the writer of the file, so that each
// sees what was committed before it and the state in memory needs no lock.
type Queue struct {
	file  *sqlitefile.File
	clock ports.Clock
	log   *slog.Logger
	line  *line

	maxReceives int64 // math.MaxInt64 without a limit
	deadLetters DeadLetterSink

	index *index // touched under the writer only
	uuids uuids  // likewise

	gate       sync.Mutex // guards closed and unrevealed
	closed     *ports.Error
	unrevealed []DeadLetter
	running    sync.WaitGroup
	done       chan struct{} // closed once the queue is closed
}

// Open opens the queue in o.Dir, or makes it. Errors are those of sqlitefile.Open: a second owner
// is BINDING_SETUP_FAILED with the reason in_use, a foreign format one with the reason unsupported,
// and nothing was changed. Bad options are INVALID_CONFIG.
func Open(ctx context.Context, o Options) (*Queue, error) {
	o, err := o.check("queue.open")
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := makeDirectories(o.Dir); err != nil {
		return nil, setupError("queue.open", "the directory of the queue %s cannot be made: %w", o.Dir, err)
	}
	file, err := sqlitefile.Open(ctx, sqlitefile.Options{
		Path:       filepath.Join(o.Dir, databaseName),
		Schema:     schema(),
		Kind:       kind,
		Failure:    ports.CodeQueueOperationFailed,
		Ownership:  sqlitefile.ExclusiveDirectory,
		Durability: o.Durability,
		CacheBytes: o.CacheBytes,
		Readers:    1,
		Log:        o.Log,
	})
	if err != nil {
		return nil, err
	}
	q := &Queue{
		file:        file,
		log:         o.Log.With("queue", file.Path()),
		maxReceives: math.MaxInt64,
		deadLetters: o.DeadLetters,
		line:        new(line),
		done:        make(chan struct{}),
	}
	if o.MaxReceives > 0 {
		q.maxReceives = int64(o.MaxReceives)
	}
	err = q.load(ctx, o.Clock)
	if err == nil {
		// A look at the head sets rows aside that would block another owner, and reports them at once.
		_, err = q.Peek(ctx, types.PeekOptions{Max: 1})
	}
	if err != nil {
		return nil, errors.Join(openError(err), file.Close())
	}
	return q, nil
}

// openError makes the failure of an operation that of an open.
func openError(err error) error {
	var failed *ports.Error
	if !errors.As(err, &failed) || failed.Code != ports.CodeQueueOperationFailed {
		return err
	}
	setup := *failed
	setup.Code, setup.Op = ports.CodeBindingSetupFailed, "queue.open"
	return &setup
}

// enter begins an operation; leave ends it.
func (q *Queue) enter(op string) error {
	q.gate.Lock()
	defer q.gate.Unlock()
	if q.closed != nil {
		err := *q.closed
		err.Op = op
		return &err
	}
	q.running.Add(1)
	return nil
}

func (q *Queue) leave() { q.running.Done() }

// Close wakes long polls, waits for the operations that are under way, and gives the directory free.
// Later calls give STORE_CLOSED; closing again does nothing.
func (q *Queue) Close() error {
	return q.shut(ports.Errorf(ports.CodeStoreClosed, "", "%s %s is closed; nothing was done", kind, q.file.Path()))
}

// shut is Close with the error of later calls. Of several callers each returns after the end.
func (q *Queue) shut(why *ports.Error) error {
	q.gate.Lock()
	if q.closed == nil {
		q.closed = why
		close(q.done)
	}
	q.gate.Unlock()
	q.running.Wait()
	return q.file.Close()
}

// step runs fn as one operation under the writer, at the time now.
func (q *Queue) step(ctx context.Context, op string, fn func(s *step) error) error {
	return q.file.Write(ctx, op, func(tx *sqlitefile.Tx) error { return fn(q.begin(tx)) })
}

// stepOne is step for an fn of at most one statement that changes something, and which returns an
// error only if that statement failed.
func (q *Queue) stepOne(ctx context.Context, op string, fn func(s *step) error) error {
	return q.file.WriteOne(ctx, op, func(tx *sqlitefile.Tx) error { return fn(q.begin(tx)) })
}

// Send implements ports.Queue.
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
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	return q.stepOne(ctx, op, func(s *step) error { return s.send(payload, delay) })
}

// SendBatch implements ports.Queue.
func (q *Queue) SendBatch(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	const op = "queue.sendBatch"
	if err := ports.CheckBatch(op, len(payloads)); err != nil {
		return nil, err
	}
	return q.sendAll(ctx, op, payloads)
}

// SendBulk implements ports.BulkSender.
func (q *Queue) SendBulk(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	const op = "queue.sendBulk"
	if err := ports.CheckBulk(op, len(payloads)); err != nil {
		return nil, err
	}
	return q.sendAll(ctx, op, payloads)
}

// sendAll stores the good ones among the payloads in one transaction.
func (q *Queue) sendAll(ctx context.Context, op string, payloads []types.Payload) ([]types.SendOutcome, error) {
	outcomes := make([]types.SendOutcome, len(payloads))
	good := make([]types.Payload, 0, len(payloads))
	for i, p := range payloads {
		checked, err := ports.CheckPayload(op, p)
		if err != nil {
			outcomes[i] = types.SendOutcome{Status: types.StatusRejected, Err: err}
			continue
		}
		outcomes[i].Status = types.StatusSent
		good = append(good, checked)
	}
	if err := q.enter(op); err != nil {
		return nil, err
	}
	defer q.leave()
	err := q.step(ctx, op, func(s *step) error {
		for _, p := range good {
			if err := s.send(p, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// Receive implements ports.Queue. Waiting receives are served in the order in which they came. The
// lease runs from the claim. A message that was received MaxReceives times is handed to the dead
// letters instead, and Receive returns after that was done.
func (q *Queue) Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	const op = "queue.receive"
	check, err := ports.CheckReceive(op, opts)
	if err != nil {
		return nil, err
	}
	if err := q.enter(op); err != nil {
		return nil, err
	}
	defer q.leave()
	q.revealRest(ctx)
	if check.Wait == 0 {
		messages, _, err := q.receiveNow(ctx, check, nil)
		return messages, err
	}
	place := q.line.join(q.clock.Now().Add(check.Wait))
	defer q.line.part(place)
	for {
		messages, waits, err := q.receiveNow(ctx, check, place)
		if !waits {
			return messages, err
		}
		q.line.rest(place, q.clock, ctx.Done(), q.done)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := q.ended(op); err != nil {
			return nil, err
		}
	}
}

// ended returns the error of a closed queue, nil while it is open.
func (q *Queue) ended(op string) error {
	q.gate.Lock()
	defer q.gate.Unlock()
	if q.closed == nil {
		return nil
	}
	err := *q.closed
	err.Op = op
	return &err
}

// receiveNow claims what is due. If that is nothing, and the deadline of the place has not come, the
// place waits on.
func (q *Queue) receiveNow(ctx context.Context, check ports.ReceiveCheck, place *place) (messages []types.Message, waits bool, err error) {
	for {
		messages = make([]types.Message, 0, check.Max)
		var spent []DeadLetter
		err := q.step(ctx, "queue.receive", func(s *step) error {
			if err := s.claim(check, &messages, &spent); err != nil {
				return err
			}
			waits = place != nil && len(messages)+len(spent) == 0 && !place.over && s.at.Before(place.deadline)
			if waits {
				q.line.wait(place, s.x.nextDue(s.now))
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		if len(spent) > 0 {
			q.bury(context.WithoutCancel(ctx), spent)
		}
		if len(messages) > 0 || len(spent) == 0 {
			return messages, waits, nil
		}
	}
}

// Ack implements ports.Queue.
func (q *Queue) Ack(ctx context.Context, receipt string) error {
	const op = "queue.ack"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	var stale error
	err := q.stepOne(ctx, op, func(s *step) (err error) {
		stale, err = s.ack(op, receipt)
		return err
	})
	if err != nil {
		return err
	}
	return stale
}

// AckBatch implements ports.Queue.
func (q *Queue) AckBatch(ctx context.Context, receipts []string) ([]types.AckOutcome, error) {
	const op = "queue.ackBatch"
	if err := ports.CheckBatch(op, len(receipts)); err != nil {
		return nil, err
	}
	if err := q.enter(op); err != nil {
		return nil, err
	}
	defer q.leave()
	outcomes := make([]types.AckOutcome, len(receipts))
	err := q.step(ctx, op, func(s *step) error {
		for i, receipt := range receipts {
			stale, err := s.ack(op, receipt)
			if err != nil {
				return err
			}
			outcomes[i] = types.AckOutcome{Status: types.AckDone}
			if stale != nil {
				outcomes[i] = types.AckOutcome{Status: types.AckRejected, Err: stale}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// Nack implements ports.Queue.
func (q *Queue) Nack(ctx context.Context, receipt string, opts types.NackOptions) error {
	const op = "queue.nack"
	delay, err := ports.CheckDelay(op, opts.Delay)
	if err != nil {
		return err
	}
	return q.move(ctx, op, receipt, delay, delay == 0)
}

// Renew implements ports.Queue.
func (q *Queue) Renew(ctx context.Context, receipt string, opts types.RenewOptions) error {
	const op = "queue.renew"
	lease, err := ports.CheckLease(op, opts.Lease)
	if err != nil {
		return err
	}
	return q.move(ctx, op, receipt, lease, true)
}

// move makes the message of the receipt visible after some milliseconds, and keeps or ends the
// receipt.
func (q *Queue) move(ctx context.Context, op, receipt string, after int64, keep bool) error {
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	var stale error
	err := q.stepOne(ctx, op, func(s *step) (err error) {
		stale, err = s.move(op, receipt, after, keep)
		return err
	})
	if err != nil {
		return err
	}
	return stale
}

// Release implements ports.Releaser.
func (q *Queue) Release(ctx context.Context, receipts []string) error {
	const op = "queue.release"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	return q.step(ctx, op, func(s *step) error {
		for _, receipt := range receipts {
			if _, err := s.move(op, receipt, 0, true); err != nil {
				return err
			}
		}
		return nil
	})
}

// Purge implements ports.Queue.
func (q *Queue) Purge(ctx context.Context) error {
	const op = "queue.purge"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	return q.stepOne(ctx, op, (*step).purge)
}

// Stats implements ports.Queue.
func (q *Queue) Stats(ctx context.Context) (types.QueueStats, error) {
	const op = "queue.stats"
	if err := q.enter(op); err != nil {
		return types.QueueStats{}, err
	}
	defer q.leave()
	var stats types.QueueStats
	err := q.stepOne(ctx, op, func(s *step) (err error) {
		stats, err = s.stats()
		return err
	})
	return stats, err
}

// Peek implements ports.Queue.
func (q *Queue) Peek(ctx context.Context, opts types.PeekOptions) ([]types.PeekedMessage, error) {
	const op = "queue.peek"
	most, err := ports.CheckPeek(op, opts)
	if err != nil {
		return nil, err
	}
	if err := q.enter(op); err != nil {
		return nil, err
	}
	defer q.leave()
	var peeked []types.PeekedMessage
	err = q.stepOne(ctx, op, func(s *step) (err error) {
		peeked, err = s.peek(most)
		return err
	})
	return peeked, err
}

// Discard implements ports.Discarder.
func (q *Queue) Discard(ctx context.Context, id int64) (bool, error) {
	const op = "queue.discard"
	if err := q.enter(op); err != nil {
		return false, err
	}
	defer q.leave()
	var removed bool
	err := q.stepOne(ctx, op, func(s *step) (err error) {
		removed, err = s.discard(op, id)
		return err
	})
	return removed, err
}

// Metrics implements ports.Meter.
func (q *Queue) Metrics() types.StoreMetrics { return q.file.Metrics() }

// HealthCheck implements ports.HealthChecker.
func (q *Queue) HealthCheck(ctx context.Context) error { return q.file.HealthCheck(ctx) }

// Backup implements ports.Backuper.
func (q *Queue) Backup(ctx context.Context, path string) error {
	if err := q.enter("queue.backup"); err != nil {
		return err
	}
	defer q.leave()
	return q.file.Backup(ctx, path)
}

// Verify implements ports.Backuper.
func (q *Queue) Verify(ctx context.Context) error {
	if err := q.enter("queue.verify"); err != nil {
		return err
	}
	defer q.leave()
	return q.file.Verify(ctx)
}
