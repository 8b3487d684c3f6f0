package sqlitefile

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/stowage-go/stowage/ports"
)

// Tx is the write side of a transaction, lent to one operation. Several operations share the
// transaction, one after the other; each is undone alone if it fails.
type Tx struct {
	*Conn
	w *write
}

// OnCommit registers what is to be done once the transaction is durable, before any later operation
// runs and before the caller is answered.
func (t *Tx) OnCommit(fn func()) { t.w.commits = append(t.w.commits, fn) }

// OnUndo registers what is to be done if this operation or the transaction fails. The latest comes
// first. Together with OnCommit it keeps state in memory in step with the file: both run where the
// operations run, one at a time, so that state that nobody else touches needs no lock.
func (t *Tx) OnUndo(fn func()) { t.w.undos = append(t.w.undos, fn) }

// maxBatch bounds a transaction, and with it the time until the first caller is answered.
const maxBatch = 1024

// write is one waiting operation.
type write struct {
	ctx    context.Context
	op     string
	fn     func(*Tx) error
	single bool
	since  time.Time // only where processes share the store

	wake   chan bool // true: lead the next batch; false: answered
	called bool      // told to lead, guarded by File.mu

	err     error
	panic   any
	commits []func()
	undos   []func()
}

// Write runs fn inside a transaction and returns once it is durable. Operations that wait at the
// same time share a transaction and its sync (group commit); each has a savepoint of its own and its
// own result. An error of fn undoes fn alone and is returned as it is.
//
// If ctx ends before fn began, nothing was done and ctx's error is returned at once. Once fn has
// begun the true outcome is waited for, so that none is ever unknown. fn runs once at most, on any
// goroutine, and must not wait for anything.
func (f *File) Write(ctx context.Context, op string, fn func(*Tx) error) error {
	return f.submit(&write{ctx: ctx, op: op, fn: fn})
}

// WriteOne is Write for an fn with at most one statement that changes something, which undoes itself
// when it fails: it saves the savepoint. An fn that changes something and then returns an error
// fails the whole transaction.
func (f *File) WriteOne(ctx context.Context, op string, fn func(*Tx) error) error {
	return f.submit(&write{ctx: ctx, op: op, fn: fn, single: true})
}

func (f *File) submit(w *write) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.wake = make(chan bool, 1)
	if f.o.Ownership == SharedDirectory {
		w.since = time.Now()
	}
	f.mu.Lock()
	if err := f.refusal(w.op); err != nil {
		f.mu.Unlock()
		return err
	}
	f.pending = append(f.pending, w)
	leads := !f.writing // a lone caller commits by itself, without a hand-over
	f.writing = true
	f.mu.Unlock()

	if !leads {
		select {
		case leads = <-w.wake:
		case <-w.ctx.Done():
			if f.withdraw(w) {
				return w.ctx.Err()
			}
			leads = <-w.wake
		}
	}
	if leads {
		f.lead(w)
	}
	if w.panic != nil {
		panic(w.panic)
	}
	return w.err
}

// withdraw takes back an operation that has not begun.
func (f *File) withdraw(w *write) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.pending, w)
	if i < 0 {
		return false
	}
	f.pending = slices.Delete(f.pending, i, i+1)
	if w.called {
		f.callNext()
	}
	return true
}

// callNext makes the operation that waits longest lead, or ends the writing. The caller holds mu.
func (f *File) callNext() {
	if len(f.pending) == 0 {
		f.writing = false
		f.idle.Broadcast()
		return
	}
	next := f.pending[0]
	next.called = true
	next.wake <- true
}

// lead commits what waits, own among it, answers, and hands over.
func (f *File) lead(own *write) {
	if err := f.begin(own); err != nil {
		f.conclude([]*write{own}, err)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pending = slices.DeleteFunc(f.pending, func(w *write) bool { return w == own })
		f.callNext()
		return
	}
	batch := f.gather()
	committed := false
	// Deferred, because an operation that ends its goroutine (runtime.Goexit) ends the leader's.
	defer func() {
		if !committed {
			f.rollback(batch, errGone)
			f.conclude(batch, ports.Errorf(f.o.Failure, own.op, "%s %s: %w; nothing was done: repeat", f.o.Kind, f.path, errGone))
		}
		f.medium.ended(f, batch)
		f.medium.leave(f)
		for _, w := range batch {
			if w != own {
				w.wake <- false
			}
		}
		f.mu.Lock()
		f.callNext()
		f.mu.Unlock()
	}()
	f.commit(batch)
	committed = true
}

// The pauses between two attempts at a lock that another process holds.
const (
	leastPause = 100 * time.Microsecond
	mostPause  = 500 * time.Microsecond
)

// begin starts a transaction for the one who leads. Where processes share the store, the lock may be
// another's for a while. The engine would wait deaf to the context, and in pauses that grow to a tenth
// of a second, in which a process that writes without end overtakes all others.
func (f *File) begin(own *write) error {
	if err := f.medium.enter(own.ctx, f, own.op); err != nil {
		return err
	}
	err := f.beginEntered(own)
	if err != nil {
		f.medium.leave(f)
	}
	return err
}

func (f *File) beginEntered(own *write) error {
	f.writer.op = own.op
	if f.o.Ownership != SharedDirectory {
		if err := f.medium.check(f, own.op); err != nil {
			return err
		}
		f.checkpoints.tail(f)
		return f.writer.control("BEGIN IMMEDIATE")
	}
	f.checkpoints.tail(f)
	if err := f.writer.run("PRAGMA busy_timeout = 0"); err != nil {
		return f.engineError(own.op, err)
	}
	err := f.beginShared(own)
	resetErr := f.writer.run("PRAGMA busy_timeout = " + strconv.FormatInt(f.o.BusyTimeout.Milliseconds(), 10))
	if err == nil && resetErr != nil {
		f.rollback(nil, resetErr)
	}
	return errors.Join(err, f.engineError(own.op, resetErr))
}

func (f *File) beginShared(own *write) error {
	for {
		err := f.tryBegin(own.op)
		if !errors.Is(err, ports.ErrBusy) {
			f.blocked = time.Time{}
			return err
		}
		if f.blocked.IsZero() {
			f.blocked = time.Now()
		}
		// Each caller has the whole timeout, from when both it and the other's lock were there.
		if time.Since(f.blocked) > f.o.BusyTimeout && time.Since(own.since) > f.o.BusyTimeout {
			return err
		}
		pause := time.NewTimer(leastPause + rand.N(mostPause-leastPause))
		select {
		case <-pause.C:
		case <-own.ctx.Done():
			pause.Stop()
			return own.ctx.Err()
		}
	}
}

func (f *File) tryBegin(op string) error {
	if err := f.checkIdentity(op); err != nil {
		return err
	}
	return f.writer.control("BEGIN IMMEDIATE")
}

var errGone = errors.New("the goroutine that led the transaction ended inside an operation")

// gather takes the waiting operations. Where several callers are at work, those who were just
// answered are about to come back: letting them run until the queue stops growing makes one sync
// serve them all.
func (f *File) gather() []*write {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := len(f.pending); (n > 1 || f.rows > 1) && n < maxBatch; {
		f.mu.Unlock()
		runtime.Gosched()
		f.mu.Lock()
		if len(f.pending) <= n {
			break
		}
		n = len(f.pending)
	}
	n := min(len(f.pending), maxBatch)
	batch := slices.Clone(f.pending[:n])
	f.pending = slices.Delete(f.pending, 0, n)
	f.rows = n
	return batch
}

// commit runs the batch in the transaction that was begun.
func (f *File) commit(batch []*write) {
	op := batch[0].op
	applied, before := 0, f.writer.writes
	for i, w := range batch {
		if w.err = w.ctx.Err(); w.err != nil {
			continue // gave up before it began
		}
		if err := f.apply(w); err != nil {
			f.rollback(batch[:i+1], err)
			f.conclude(batch, err)
			return
		}
		if w.err == nil && w.panic == nil {
			applied++
		}
	}
	end := "COMMIT"
	if applied == 0 {
		end = "ROLLBACK"
	}
	f.writer.op = op
	begun := time.Now()
	if err := f.writer.control(end); err != nil {
		f.rollback(batch, err)
		f.conclude(batch, err)
		return
	}
	took := time.Since(begun)
	for _, w := range batch {
		if w.err == nil && w.panic == nil {
			for _, fn := range w.commits {
				fn()
			}
		}
	}
	wrote := f.writer.writes != before
	f.record(applied, wrote)
	if wrote && applied > 0 {
		f.meter.count(applied, took)
	}
	f.medium.committed(f)
}

// apply runs one operation. The error that it returns is one that took the whole transaction.
func (f *File) apply(w *write) error {
	c := f.writer
	c.op = w.op
	if !w.single {
		if err := c.control("SAVEPOINT op"); err != nil {
			return err
		}
	}
	before := c.writes
	w.run(c)
	failed := w.err != nil || w.panic != nil
	// Some failures of the engine roll everything back, not just the statement.
	if c.db.AutoCommit() {
		if w.err == nil {
			w.err = ports.Errorf(f.o.Failure, w.op, "%s %s: the transaction ended inside the operation; nothing was done: repeat", f.o.Kind, f.path)
		}
		return w.err
	}
	if w.single {
		if failed && c.writes != before {
			return ports.Errorf(f.o.Failure, w.op, "%s %s: a neighbour in the transaction failed halfway; nothing was done: repeat", f.o.Kind, f.path)
		}
	} else {
		if failed {
			if err := c.control("ROLLBACK TO op"); err != nil {
				return err
			}
		}
		if err := c.control("RELEASE op"); err != nil {
			return err
		}
	}
	if failed {
		w.undo()
	}
	return nil
}

func (w *write) run(c *Conn) {
	defer func() { w.panic = recover() }()
	w.err = w.fn(&Tx{Conn: c, w: w})
}

func (w *write) undo() {
	for _, fn := range slices.Backward(w.undos) {
		fn()
	}
	w.undos, w.commits = nil, nil
}

// rollback ends a transaction that failed and undoes the operations of it that had begun.
func (f *File) rollback(begun []*write, cause error) {
	if !f.writer.db.AutoCommit() {
		if err := f.writer.control("ROLLBACK"); err != nil {
			f.o.Log.Error("a failed transaction could not be rolled back", "store", f.o.Kind, "path", f.path, "error", err, "cause", cause)
		}
	}
	for _, w := range slices.Backward(begun) {
		w.undo()
	}
}

// conclude gives everyone who has no result of his own the error of the transaction.
func (f *File) conclude(batch []*write, err error) {
	for _, w := range batch {
		if w.err == nil && w.panic == nil {
			w.err = err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, mendable := range []error{ports.ErrDiskFull, ports.ErrReadOnly, ports.ErrCorrupt} {
		if errors.Is(err, mendable) {
			f.last, f.lastAt = err, time.Now()
		}
	}
}

// record counts a commit. Only one that wrote something shows that the disk takes writes again.
func (f *File) record(applied int, wrote bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if applied == 0 {
		return
	}
	if wrote {
		f.last = nil
	}
	f.stats.Commits++
	f.stats.Operations += int64(applied)
	f.stats.LargestBatch = max(f.stats.LargestBatch, applied)
}
