package flaky

import (
	"context"
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
)

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
	// Err is what the call returns. Nil lets it succeed, after the delay.
	Err error
	// AfterEffect lets the call have its effect before it returns Err, as when an answer is lost.
	AfterEffect bool
}

// Faults decides which calls fail. It may be shared by many wrappers, and is safe for many
// goroutines.
type Faults struct {
	clock ports.Clock

	mu     sync.Mutex
	random *rand.Rand
	faults []*fault
	calls  map[Op]int
	hits   map[Op]int
}

type fault struct {
	Fault
	calls int
	hits  int
}

// New makes a set of faults whose chances follow from the seed.
func New(clock ports.Clock, seed uint64, faults ...Fault) *Faults {
	f := &Faults{
		clock:  clock,
		random: rand.New(rand.NewPCG(seed, 0)),
		calls:  map[Op]int{},
		hits:   map[Op]int{},
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

// Clear takes all faults away; the counts stay.
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

// verdict is what befalls one call.
type verdict struct {
	delay  time.Duration
	before error
	after  error
}

func (f *Faults) judge(op Op) verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
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
		v.delay += fault.Delay
		switch {
		case v.before != nil || v.after != nil:
		case fault.AfterEffect:
			v.after = fault.Err
		default:
			v.before = fault.Err
		}
	}
	if hit {
		f.hits[op]++
	}
	return v
}

// around makes a call under the faults. A call that failed by itself keeps its own error.
func (f *Faults) around(ctx context.Context, op Op, call func() error) error {
	v := f.judge(op)
	if v.delay > 0 {
		timer := f.clock.NewTimer(v.delay)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if v.before != nil {
		return v.before
	}
	if err := call(); err != nil {
		return err
	}
	return v.after
}
