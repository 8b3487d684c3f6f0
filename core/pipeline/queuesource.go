package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	// parallelReceives share the syncs of a queue that gathers what waits into one transaction.
	parallelReceives = 8
	// parallelSettles is the same for acks, renewals and nacks, whose order does not matter.
	parallelSettles = 32
	// releaseBatch bounds the transaction of a release.
	releaseBatch = 500
	// closeTimeout bounds how long a source gives back what it has.
	closeTimeout = 5 * time.Second
)

// QueueSource is the ports.Source that reads a work queue. A message stays in the queue, hidden from
// others, until its event is settled: its lease is renewed meanwhile, and Settle acks it. What is not
// settled when the source is closed, or its process is gone, comes again, at a newer cursor.
//
// The ID of an event is made of what does not change when its message is delivered again: the row's id
// and the time at which it was sent, where the queue's receipts have the form of [ports.FormatReceipt].
// Of a queue with receipts of another form it is the receipt, which is new at each delivery: a message
// that comes again is then a new event.
//
// The cursor counts deliveries. Data is a JSON payload as it is, and a text payload as a JSON string. A
// top-level member "traceparent" of the W3C form is the trace context.
type QueueSource struct {
	name   string
	queues ports.QueueResolver
	lease  time.Duration
	clock  ports.Clock
	log    *slog.Logger

	closing context.Context // ends with Close
	close   context.CancelFunc
	closed  sync.Once
	running sync.WaitGroup // the renewer, and a Read
	stir    chan struct{}  // holds a token when the renewer has to look again
	acking  chan struct{}  // holds a token while somebody acks

	mu      sync.Mutex
	shut    bool
	queue   ports.Queue // nil before the first Read
	last    uint64      // the cursor that was given out last
	lent    []*loan     // what was read and is not settled, by cursor
	settled []*loan     // what is settled and not acked
	retryAt time.Time   // when settled is tried again, if there is any
}

// loan is one delivery of a message. Its fields but the first two are guarded by the source's mu.
type loan struct {
	cursor  uint64
	receipt string
	renewAt time.Time
	until   time.Time // the end of the lease
	done    bool      // settled, or somebody else has the message by now: its lease is no matter any more
}

func newQueueSource(settings queueSourceSettings, env ports.Env, from *types.Cursor, queues ports.QueueResolver) *QueueSource {
	s := &QueueSource{
		name:   settings.Queue,
		queues: queues,
		lease:  time.Duration(settings.Lease),
		clock:  env.Clock,
		log:    env.Log,
		stir:   make(chan struct{}, 1),
		acking: make(chan struct{}, 1),
	}
	if s.clock == nil {
		s.clock = ports.SystemClock()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = s.log.With("queue", s.name)
	if from != nil {
		s.last = from.Primary
	}
	s.closing, s.close = context.WithCancel(context.Background())
	s.running.Go(s.renew)
	return s
}

// Unordered implements ports.Unordered: a message whose lease has ended is delivered again.
func (s *QueueSource) Unordered() bool { return true }

// Read implements ports.Source. Messages that are due together come in the queue's order. A queue that
// cannot be found, or fails, is its error.
func (s *QueueSource) Read(ctx context.Context, limit int) ([]types.Event, error) {
	const op = "source.read"
	if err := ports.CheckRead(op, limit); err != nil {
		return nil, err
	}
	if err := s.begin(op); err != nil {
		return nil, err
	}
	defer s.running.Done()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		messages, err := s.receive(limited, limit)
		events := s.lend(messages) // before anything else: whoever closes the source gives them back
		switch {
		case s.closing.Err() != nil:
			return nil, s.closedError(op)
		case len(events) > 0:
			return events, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		}
	}
}

// begin takes a place among those that Close waits for.
func (s *QueueSource) begin(op string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return s.closedError(op)
	}
	s.running.Add(1)
	return nil
}

func (s *QueueSource) closedError(op string) error {
	return ports.Errorf(ports.CodeStoreClosed, op, "the source that reads the queue %q is closed", s.name)
}

// receive waits for a first message and takes what is due beside it, up to a limit. With an error there
// may be messages as well: they were received, and the next call meets the error again.
func (s *QueueSource) receive(ctx context.Context, limit int) ([]types.Message, error) {
	queue, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	all, err := queue.Receive(ctx, types.ReceiveOptions{Max: min(limit, ports.MaxBatch), Lease: s.lease, Wait: ports.MaxWait})
	if err != nil || len(all) < ports.MaxBatch {
		return all, err
	}
	// Receives beside each other come back in no order of their own. It can be told afterwards only by
	// the form of receipts that is known.
	parallel := 1
	if _, _, known := ports.ParseReceipt(all[0].Receipt); known {
		parallel = parallelReceives
	}
	for more := true; more && len(all) < limit; {
		sizes := receiveSizes(limit-len(all), parallel)
		parts := make([][]types.Message, len(sizes))
		errs := make([]error, len(sizes))
		inParallel(len(sizes), parallel, func(i int) {
			parts[i], errs[i] = queue.Receive(ctx, types.ReceiveOptions{Max: sizes[i], Lease: s.lease})
		})
		for i := range sizes {
			more = more && errs[i] == nil && len(parts[i]) == sizes[i]
		}
		together := slices.Concat(parts...)
		if parallel > 1 {
			slices.SortStableFunc(together, inQueueOrder)
		}
		all = append(all, together...)
	}
	return all, nil
}

// receiveSizes divides what is wanted among receives.
func receiveSizes(wanted, most int) []int {
	var sizes []int
	for ; wanted > 0 && len(sizes) < most; wanted -= ports.MaxBatch {
		sizes = append(sizes, min(wanted, ports.MaxBatch))
	}
	return sizes
}

func inQueueOrder(a, b types.Message) int {
	idA, _, _ := ports.ParseReceipt(a.Receipt)
	idB, _, _ := ports.ParseReceipt(b.Receipt)
	return cmp.Or(a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(idA, idB))
}

// find is the queue, looked up once: when it goes, so does the source.
func (s *QueueSource) find(ctx context.Context) (ports.Queue, error) {
	if queue := s.found(); queue != nil {
		return queue, nil
	}
	queue, err := s.queues.Queue(ctx, s.name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = queue
	return queue, nil
}

func (s *QueueSource) found() ports.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue
}

// lend makes events of messages and remembers whose they are.
func (s *QueueSource) lend(messages []types.Message) []types.Event {
	if len(messages) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lent) == 0 {
		s.wake()
	}
	now := s.clock.Now()
	events := make([]types.Event, 0, len(messages))
	for _, m := range messages {
		s.last++
		s.lent = append(s.lent, &loan{cursor: s.last, receipt: m.Receipt, renewAt: now.Add(s.lease / 3), until: now.Add(s.lease)})
		events = append(events, eventOf(m, s.last))
	}
	return events
}

func (s *QueueSource) wake() {
	select {
	case s.stir <- struct{}{}:
	default:
	}
}

func eventOf(m types.Message, cursor uint64) types.Event {
	event := types.Event{Cursor: types.Cursor{Primary: cursor}, ID: m.Receipt, TS: m.EnqueuedAt.UnixMilli()}
	if id, _, known := ports.ParseReceipt(m.Receipt); known {
		event.ID = fmt.Sprintf("%d-%d", id, event.TS)
	}
	if m.Payload.Type == types.PayloadJSON {
		event.Data = json.RawMessage(m.Payload.Data)
		event.Traceparent = traceparentOf(m.Payload.Data)
		return event
	}
	text, err := ports.EncodeJSON(m.Payload.Data)
	if err != nil {
		event.Err = fmt.Errorf("the text of the message cannot be written as JSON: %w", err)
		return event
	}
	event.Data = text
	return event
}

// traceparentOf is the trace context in a top-level member of an object.
func traceparentOf(data string) string {
	if !strings.Contains(data, `"`+traceparent+`"`) {
		return ""
	}
	var members map[string]json.RawMessage
	var text string
	if json.Unmarshal([]byte(data), &members) != nil || json.Unmarshal(members[traceparent], &text) != nil || !ports.IsTraceparent(text) {
		return "" // none of that is a fault: the member may be anybody's
	}
	return text
}

// Settle implements ports.Source: it acks the messages up to the cursor. Those whose ack fails are acked
// with the next ones, or a little later by themselves, for as long as their lease runs.
func (s *QueueSource) Settle(ctx context.Context, through types.Cursor) error {
	const op = "source.settle"
	if err := ports.CheckCursor(op, through); err != nil {
		return err
	}
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.running.Done()
	s.mu.Lock()
	end := 0
	for ; end < len(s.lent) && s.lent[end].cursor <= through.Primary; end++ {
		if l := s.lent[end]; !l.done {
			l.done = true
			s.settled = append(s.settled, l)
		}
	}
	s.lent = slices.Delete(s.lent, 0, end)
	s.retryAt = s.clock.Now().Add(s.pause()) // until then it is this call that acks
	s.mu.Unlock()
	return s.ack(ctx)
}

// ack acks what is settled. What could not be is kept, unless its lease has ended: it comes again then,
// and is settled again.
func (s *QueueSource) ack(ctx context.Context) error {
	select {
	case s.acking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.acking }()
	s.mu.Lock()
	queue, loans := s.queue, slices.Clone(s.settled)
	s.mu.Unlock()
	if len(loans) == 0 {
		return nil
	}
	batches := slices.Collect(slices.Chunk(loans, ports.MaxBatch))
	errs := make([]error, len(batches))
	kept := make([][]*loan, len(batches))
	stale := make([]int, len(batches))
	inParallel(len(batches), parallelSettles, func(i int) {
		kept[i], stale[i], errs[i] = ackBatch(ctx, queue, batches[i])
	})
	s.reportStale(stale)
	left := slices.Concat(kept...)

	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	left = slices.DeleteFunc(left, func(l *loan) bool { return !now.Before(l.until) })
	s.settled = append(left, s.settled[len(loans):]...)
	if len(s.settled) > 0 {
		s.retryAt = now.Add(s.pause())
		s.wake()
	}
	return firstOf(errs)
}

// ackBatch acks up to ten messages. It returns those that are to be acked again, and how many somebody
// else has received by now.
func ackBatch(ctx context.Context, queue ports.Queue, loans []*loan) (kept []*loan, stale int, err error) {
	receipts := make([]string, 0, len(loans))
	for _, l := range loans {
		receipts = append(receipts, l.receipt)
	}
	outcomes, err := queue.AckBatch(ctx, receipts)
	if err != nil {
		return loans, 0, err
	}
	for i, o := range outcomes {
		switch {
		case o.Err == nil:
		case errors.Is(o.Err, ports.ErrStaleReceipt):
			stale++
		default:
			kept, err = append(kept, loans[i]), cmp.Or(err, o.Err)
		}
	}
	return kept, stale, err
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// reportStale says that messages were delivered again while their events were under way.
func (s *QueueSource) reportStale(counts []int) {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if sum > 0 {
		s.log.Warn("messages were delivered again before they were acked, because their lease ended: their events come again", "messages", sum, "lease", s.lease)
	}
}

// pause is how long a renewal or an ack that failed waits to be tried again. There are several within a
// lease.
func (s *QueueSource) pause() time.Duration { return s.lease / 12 }

// renew renews leases until the source is closed.
func (s *QueueSource) renew() {
	failing := false
	for {
		at, waits := s.nextTurn()
		var turn <-chan time.Time
		var timer ports.Timer
		if waits {
			timer = s.clock.NewTimer(at.Sub(s.clock.Now()))
			turn = timer.C()
		}
		select {
		case <-s.closing.Done():
		case <-s.stir:
		case <-turn:
		}
		if timer != nil {
			timer.Stop()
		}
		if s.closing.Err() != nil {
			return
		}
		tried, err := s.takeTurn()
		if err != nil && !failing {
			s.log.Warn("the queue does not take renewals or acks: it is tried again, and what loses its lease meanwhile comes again", "error", err)
		}
		if tried {
			failing = err != nil
		}
	}
}

// nextTurn is when the renewer has something to do, and whether it ever has.
func (s *QueueSource) nextTurn() (at time.Time, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.settled) > 0 {
		at, waits = s.retryAt, true
	}
	for _, l := range s.lent {
		if !l.done && (!waits || l.renewAt.Before(at)) {
			at, waits = l.renewAt, true
		}
	}
	return at, waits
}

// takeTurn does what is due, if anything is: renewals, those that are due soon along with them, and then acks
// that failed. Acks that take long cost no lease.
func (s *QueueSource) takeTurn() (tried bool, failed error) {
	s.mu.Lock()
	now, queue := s.clock.Now(), s.queue
	acks := len(s.settled) > 0 && !now.Before(s.retryAt)
	var due []*loan
	for _, l := range s.lent {
		if !l.done && !l.renewAt.After(now.Add(s.pause())) {
			due = append(due, l)
		}
	}
	s.mu.Unlock()

	errs := make([]error, len(due))
	inParallel(len(due), parallelSettles, func(i int) {
		if s.open(due[i]) {
			errs[i] = queue.Renew(s.closing, due[i].receipt, types.RenewOptions{Lease: s.lease})
		}
	})
	stale := 0
	s.mu.Lock()
	for i, l := range due {
		switch err := errs[i]; {
		case l.done:
		case err == nil:
			l.renewAt, l.until = now.Add(s.lease/3), now.Add(s.lease)
		case errors.Is(err, ports.ErrStaleReceipt):
			l.done = true
			stale++
		default:
			l.renewAt = s.clock.Now().Add(s.pause())
			failed = cmp.Or(failed, err)
		}
	}
	s.mu.Unlock()
	s.reportStale([]int{stale})
	if acks {
		failed = cmp.Or(failed, s.ackForAWhile())
	}
	return acks || len(due) > 0, failed
}

// ackForAWhile acks what is settled, and is back in time for the next renewals.
func (s *QueueSource) ackForAWhile() error {
	ctx, cancel := context.WithCancel(s.closing)
	defer cancel()
	timer := s.clock.NewTimer(s.pause())
	defer timer.Stop()
	go func() {
		select {
		case <-timer.C():
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.ack(ctx)
}

// open reports whether the lease of a loan still matters.
func (s *QueueSource) open(l *loan) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !l.done
}

// Close implements io.Closer. It ends a Read that waits, acks what is settled and gives back the rest, so
// that it can be delivered again at once: within 5 seconds, or else when the leases end.
func (s *QueueSource) Close() error {
	var err error
	s.closed.Do(func() {
		s.mu.Lock()
		s.shut = true
		s.mu.Unlock()
		s.close()
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err = s.giveBack(ctx)
	})
	return err
}

func (s *QueueSource) giveBack(ctx context.Context) error {
	const op = "source.close"
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return ports.Errorf(ports.CodeQueueOperationFailed, op, "the queue %q did not answer within %v: what was received of it and is not acked comes again when its lease of %v ends", s.name, closeTimeout, s.lease)
	}
	err := s.ack(ctx)
	s.mu.Lock()
	queue := s.queue
	var receipts []string
	for _, l := range s.lent {
		if !l.done {
			receipts = append(receipts, l.receipt)
		}
	}
	s.lent, s.settled = nil, nil
	s.mu.Unlock()
	err = errors.Join(err, release(ctx, queue, receipts))
	if err != nil {
		return ports.Errorf(ports.CodeQueueOperationFailed, op, "the queue %q did not take back all that was received of it: what is missing comes again when its lease of %v ends: %w", s.name, s.lease, err)
	}
	return nil
}

// release makes messages visible at once. Of those that somebody else has by now there is nothing to give
// back.
func release(ctx context.Context, queue ports.Queue, receipts []string) error {
	if len(receipts) == 0 {
		return nil
	}
	if releaser, ok := queue.(ports.Releaser); ok {
		for part := range slices.Chunk(receipts, releaseBatch) {
			if err := releaser.Release(ctx, part); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(receipts))
	inParallel(len(receipts), parallelSettles, func(i int) {
		if err := queue.Nack(ctx, receipts[i], types.NackOptions{}); !errors.Is(err, ports.ErrStaleReceipt) {
			errs[i] = err
		}
	})
	return firstOf(errs)
}

// inParallel calls f for 0 to n-1, at most so many at a time, and returns when all have returned.
func inParallel(n, most int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var calls sync.WaitGroup
	free := make(chan struct{}, most)
	for i := range n {
		free <- struct{}{}
		calls.Go(func() {
			defer func() { <-free }()
			f(i)
		})
	}
	calls.Wait()
}
