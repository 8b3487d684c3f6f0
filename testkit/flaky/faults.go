package flaky

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stowage-go/stowage/ports"
)

// Op names an operation of a port, as the errors of adapters do.
type Op string

// The operations.
const (
	KvGet    Op = "kv.get"
	KvExists Op = "kv.exists"
	KvPut    Op = "kv.put"
	KvDelete Op = "kv.delete"
	KvScan   Op = "kv.scan"

	QueueSend      Op = "queue.send"
	QueueSendBatch Op = "queue.sendBatch"
	QueueSendBulk  Op = "queue.sendBulk"
	QueueReceive   Op = "queue.receive"
	QueueAck       Op = "queue.ack"
	QueueAckBatch  Op = "queue.ackBatch"
	QueueNack      Op = "queue.nack"
	QueueRenew     Op = "queue.renew"
	QueuePurge     Op = "queue.purge"
	QueueStats     Op = "queue.stats"
	QueuePeek      Op = "queue.peek"
	QueueRelease   Op = "queue.release"
	QueueDiscard   Op = "queue.discard"

	StorageGetResource          Op = "storage.getResource"
	StorageListResources        Op = "storage.listResources"
	StorageResourceKinds        Op = "storage.resourceKinds"
	StoragePutResource          Op = "storage.putResource"
	StoragePutResources         Op = "storage.putResources"
	StorageDeleteResource       Op = "storage.deleteResource"
	StorageLoadCheckpoint       Op = "storage.loadCheckpoint"
	StorageSaveCheckpoint       Op = "storage.saveCheckpoint"
	StorageListCheckpoints      Op = "storage.listCheckpoints"
	StorageDeleteCheckpoint     Op = "storage.deleteCheckpoint"
	StorageRecordDeadLetter     Op = "storage.recordDeadLetter"
	StorageListDeadLetters      Op = "storage.listDeadLetters"
	StorageGetDeadLetter        Op = "storage.getDeadLetter"
	StorageCountDeadLetters     Op = "storage.countDeadLetters"
	StorageUpdateDeadLetter     Op = "storage.updateDeadLetter"
	StorageDeleteDeadLetter     Op = "storage.deleteDeadLetter"
	StorageDeleteDeadLetters    Op = "storage.deleteDeadLetters"
	StorageDeleteAllDeadLetters Op = "storage.deleteAllDeadLetters"
	StoragePause                Op = "storage.pause"
	StorageResume               Op = "storage.resume"
	StoragePaused               Op = "storage.paused"
	StorageListPauses           Op = "storage.listPauses"
	StorageRecordDeliveries     Op = "storage.recordDeliveries"
	StorageDelivered            Op = "storage.delivered"
	StorageAppendHits           Op = "storage.appendHits"
	StorageHits                 Op = "storage.hits"
	StorageDeleteHitsBefore     Op = "storage.deleteHitsBefore"
	StorageDeleteHitsFrom       Op = "storage.deleteHitsFrom"
	StorageGateMeta             Op = "storage.gateMeta"
	StorageSetGateMeta          Op = "storage.setGateMeta"
	StorageApply                Op = "storage.apply"
	StorageQuiesce              Op = "storage.quiesce"
	StorageExport               Op = "storage.export"
	StorageImport               Op = "storage.import"

	SourceRead   Op = "source.read"
	SourceSettle Op = "source.settle"
	SourceAccept Op = "source.accept"

	SinkDeliver      Op = "sink.deliver"
	SinkDeliverBatch Op = "sink.deliverBatch"
)

// ErrHalted is what calls return once a fault with Halt has hit, or [Faults.Halt] was called.
var ErrHalted = errors.New("the process that made this call has been stopped by a fault of the test")

// Fault is one way to fail. The zero value hits every call of every operation, and does nothing to
// it.
type Fault struct {
	// Op is the operation that it hits; empty means all.
	Op Op
	// Nth hits only the nth call, counted from 1 among the calls of Op since the fault was added;
	// zero means every call.
	Nth int
	// Chance hits a call with this probability, 0 to 1; zero means always.
	Chance float64
	// Limit is how often it hits in all; zero means without end.
	Limit int

	// Delay is how long the call is held up first, on the clock of the Faults. A context that ends
	// meanwhile ends the call without effect.
	Delay time.Duration
	// Hold holds the call up until the channel is closed, after the delay; nil does not. The call has
	// begun by then, as one that a slow disk is at work on: the end of its context stops it no more,
	// and once released it has its effect and returns its true outcome. With AfterEffect it is held
	// when it has had its effect. See [Faults.WaitForHeld].
	Hold <-chan struct{}
	// Err is what the call returns. Nil lets it succeed, after Delay and Hold; with Halt it means
	// ErrHalted.
	Err error
	// AfterEffect lets the call have its effect before it returns Err, as when an answer is lost.
	AfterEffect bool
	// Halt makes the call the last one, as if the process stopped in the middle of it: without its
	// effect, or with it where AfterEffect is set. From then on every call of every operation, of all
	// wrappers of the Faults, returns Err and has no effect. See [Faults.Halt].
	Halt bool
}

// Faults decides which calls fail. It may be shared by many wrappers, and is safe for many
// goroutines.
type Faults struct {
	clock  ports.Clock
	halted chan struct{} // closed once haltErr is set

	mu      sync.Mutex
	random  *rand.Rand
	faults  []*fault
	calls   map[Op]int
	hits    map[Op]int
	haltErr error
	held    int
	changed chan struct{} // closed, and made anew, when held has grown
}

type fault struct {
	Fault
	calls int
	hits  int
}

// New makes a set of faults whose chances follow from the seed.
func New(clock ports.Clock, seed uint64, faults ...Fault) *Faults {
	f := &Faults{
		clock:   clock,
		halted:  make(chan struct{}),
		random:  rand.New(rand.NewPCG(seed, 0)),
		calls:   map[Op]int{},
		hits:    map[Op]int{},
		changed: make(chan struct{}),
	}
	f.Add(faults...)
	return f
}

// Add adds faults. Of several that hit one call, the delays add up and the first error counts.
func (f *Faults) Add(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, added := range faults {
		f.faults = append(f.faults, &fault{Fault: added})
	}
}

// Clear takes all faults away; the counts stay. What has halted stays so.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// Calls is how often the operation was called, hit or not; of all operations for the empty one.
func (f *Faults) Calls(op Op) int { return f.count(f.calls, op) }

// Hits is how many calls of the operation were delayed or failed; of all for the empty one.
func (f *Faults) Hits(op Op) int { return f.count(f.hits, op) }

func (f *Faults) count(counts map[Op]int, op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op != "" {
		return counts[op]
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// Halt does what a fault with Halt does, at once and without a call: from now on every call of every
// operation returns ErrHalted and has no effect, calls that are delayed or held before their effect
// among them. A call that is in the store within at this moment ends there as it would, and its answer
// is lost: what it did is seen once it has returned ([Storage.Quiesce] waits for that). Close leaves
// the store within open, as it was found by whoever looks after a crash. What has halted stays so: for
// the successor of the process, wrap the store within anew.
func (f *Faults) Halt() { f.halt(ErrHalted) }

func (f *Faults) halt(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr == nil {
		f.haltErr = err
		close(f.halted)
	}
}

// Halted is closed once the faults have halted.
func (f *Faults) Halted() <-chan struct{} { return f.halted }

func (f *Faults) haltError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.haltErr
}

// WaitForHeld returns nil when at least n calls are held by a Hold, or the error of ctx when that ends
// first.
func (f *Faults) WaitForHeld(ctx context.Context, n int) error {
	for {
		f.mu.Lock()
		held, changed := f.held, f.changed
		f.mu.Unlock()
		if held >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// verdict is what befalls one call.
type verdict struct {
	delay      time.Duration
	hold       []<-chan struct{}
	before     error
	holdEffect []<-chan struct{} // after it
	after      error
	halt       error // nil: goes on
}

func (f *Faults) judge(op Op) verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	if f.haltErr != nil {
		f.hits[op]++
		return verdict{before: f.haltErr}
	}
	var v verdict
	hit := false
	for _, fault := range f.faults {
		if fault.Op != "" && fault.Op != op {
			continue
		}
		fault.calls++
		switch {
		case fault.Nth > 0 && fault.calls != fault.Nth,
			fault.Limit > 0 && fault.hits == fault.Limit,
			fault.Chance > 0 && f.random.Float64() >= fault.Chance:
			continue
		}
		fault.hits++
		hit = true
		v.add(fault.Fault)
	}
	if hit {
		f.hits[op]++
	}
	return v
}

func (v *verdict) add(fault Fault) {
	v.delay += fault.Delay
	if fault.Hold != nil && fault.AfterEffect {
		v.holdEffect = append(v.holdEffect, fault.Hold)
	} else if fault.Hold != nil {
		v.hold = append(v.hold, fault.Hold)
	}
	switch {
	case fault.Halt:
		v.halt = cmp.Or(v.halt, fault.Err, ErrHalted)
		if !fault.AfterEffect {
			v.before = v.halt
		}
	case v.before != nil || v.after != nil:
	case fault.AfterEffect:
		v.after = fault.Err
	default:
		v.before = fault.Err
	}
}

// caller makes a call under faults.
type caller func(ctx context.Context, op Op, call func(context.Context) error) error

// around is a caller. A call that failed by itself keeps its own error, unless the faults have halted.
func (f *Faults) around(ctx context.Context, op Op, call func(context.Context) error) error {
	v := f.judge(op)
	err := f.follow(ctx, v, call)
	if v.halt != nil {
		f.halt(v.halt)
	}
	return cmp.Or(f.haltError(), err)
}

func (f *Faults) follow(ctx context.Context, v verdict, call func(context.Context) error) error {
	if v.delay > 0 {
		timer := f.clock.NewTimer(v.delay)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			return ctx.Err()
		case <-f.halted:
		}
	}
	if len(v.hold) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx)
		f.hold(v.hold)
	}
	if err := cmp.Or(v.before, f.haltError()); err != nil {
		return err
	}
	err := call(ctx)
	f.hold(v.holdEffect)
	return cmp.Or(err, v.after)
}

// hold waits for all of the channels, or until the faults halt.
func (f *Faults) hold(channels []<-chan struct{}) {
	if len(channels) == 0 {
		return
	}
	f.mu.Lock()
	f.held++
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
	for _, released := range channels {
		select {
		case <-released:
		case <-f.halted:
		}
	}
	f.mu.Lock()
	f.held--
	f.mu.Unlock()
}

// close closes a store, unless the faults have halted.
func (f *Faults) close(closeStore func() error) error {
	if err := f.haltError(); err != nil {
		return err
	}
	return closeStore()
}

// result makes a call that returns a value.
func result[T any](ctx context.Context, around caller, op Op, call func(context.Context) (T, error)) (T, error) {
	var value, none T
	err := around(ctx, op, func(ctx context.Context) (err error) {
		value, err = call(ctx)
		return err
	})
	if err != nil {
		return none, err
	}
	return value, nil
}

// lookup makes a call that returns a value and whether there is one.
func lookup[T any](ctx context.Context, around caller, op Op, call func(context.Context) (T, bool, error)) (T, bool, error) {
	found := false
	value, err := result(ctx, around, op, func(ctx context.Context) (value T, err error) {
		value, found, err = call(ctx)
		return value, err
	})
	return value, found && err == nil, err
}
