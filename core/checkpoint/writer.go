package checkpoint

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Loader reads the checkpoint that a pipeline starts from. A [ports.CheckpointStore] is one.
type Loader interface {
	LoadCheckpoint(ctx context.Context, pipeline types.PipelineID) (types.Checkpoint, bool, error)
}

// Saver stores a checkpoint. A [ports.CheckpointStore] is one; a pipeline whose steps are each one
// Apply hands in its own. The writer calls it from one goroutine. As for a storage, a call whose
// context had ended before it began changes nothing.
type Saver interface {
	SaveCheckpoint(ctx context.Context, pipeline types.PipelineID, checkpoint types.Checkpoint) error
}

// Writer keeps the stored checkpoint of one pipeline up with the cursor that is safe (R189, R268). Its
// methods may be called from many goroutines.
//
// A save whose failure may have come after its effect does no harm: what is saved next is never behind
// it.
type Writer struct {
	saver Saver
	opts  Options

	wake     chan struct{} // holds a token when there may be something to save
	stopping chan struct{} // closed by the first Stop
	aborted  chan struct{} // closed by the first Abort
	ended    chan struct{} // closed when the goroutine has ended
	ctx      context.Context
	cancel   context.CancelCauseFunc

	mu      sync.Mutex
	started bool // Start is under way or has succeeded
	running bool // there is, or was, a goroutine
	closed  bool // Stop or Abort was called
	saved   mark // stored, as far as is known
	safe    mark // to be stored, if it is ahead of saved; never goes back
	row     row
}

// row is a row of saves without a success. Its zero value means that there is none.
type row struct {
	since    time.Time // when the first of them was begun
	begun    bool
	failures int
	last     error
}

// New makes a writer. It does nothing before Start.
func New(saver Saver, opts Options) (*Writer, error) {
	opts, err := opts.check("checkpoint.new")
	if err != nil {
		return nil, err
	}
	w := &Writer{
		saver:    saver,
		opts:     opts,
		wake:     make(chan struct{}, 1),
		stopping: make(chan struct{}),
		aborted:  make(chan struct{}),
		ended:    make(chan struct{}),
	}
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	return w, nil
}

// Start loads the stored checkpoint, behind which the writer will never go, begins to save, and
// returns what it loaded: the pipeline goes on behind it. ctx bounds the loading only. After an error
// nothing runs, and Start may be called again.
//
// A checkpoint that names another module than the writer's is CHECKPOINT_PROVENANCE: its cursor is no
// position in this stream, so there is no telling what lies before it.
func (w *Writer) Start(ctx context.Context, from Loader) (types.Checkpoint, bool, error) {
	none := types.Checkpoint{}
	if err := w.begin(); err != nil {
		return none, false, err
	}
	stored, found, err := from.LoadCheckpoint(ctx, w.opts.Pipeline)
	if err == nil && found {
		err = w.recognise(stored)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && w.closed {
		err = w.closedError()
	}
	if err != nil {
		w.started = false
		return none, false, err
	}
	if found {
		w.saved = mark{stored.Cursor, true}
	}
	w.running = true
	go w.run()
	return stored, found, nil
}

func (w *Writer) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.closedError()
	}
	if w.started {
		return ports.Errorf(ports.CodeInvalidInput, "checkpoint.start", "the checkpoint writer of pipeline %q was started before: start it once", w.opts.Pipeline)
	}
	w.started = true
	return nil
}

func (w *Writer) closedError() error {
	return ports.Errorf(ports.CodeStoreClosed, "checkpoint.start", "the checkpoint writer of pipeline %q was stopped: make a new one", w.opts.Pipeline)
}

func (w *Writer) recognise(stored types.Checkpoint) error {
	theirs, ours := stored.Module, w.opts.Module
	if theirs == nil || ours != nil && *ours == *theirs {
		return nil
	}
	mine := "no module"
	if ours != nil {
		mine = "module " + *ours
	}
	return ports.Errorf(ports.CodeCheckpointProvenance, "checkpoint.start",
		"the checkpoint %v of pipeline %q was written by module %s, and its source is of %s: go back to that module, or set or delete the checkpoint first",
		stored.Cursor, w.opts.Pipeline, *theirs, mine)
}

// Advance says that a cursor is safe. One that is not ahead of all before it changes nothing, so calls
// may arrive in any order. After Stop or Abort it does nothing.
func (w *Writer) Advance(cursor types.Cursor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || !w.safe.before(cursor) {
		return
	}
	w.safe = mark{cursor, true}
	w.signal()
}

// Saved is the cursor that is stored for certain, and whether there is one.
func (w *Writer) Saved() (types.Cursor, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.saved.cursor, w.saved.known
}

// Stop saves the safe cursor, if it is not stored yet, and ends the writer. A save that fails is tried
// again until ctx ends, unless the failure is permanent; an error says that the last safe cursor may
// not be stored, so that the events behind the one that is come again. Stop waits for a save that is
// under way, also when ctx has ended: once it has returned, this writer stores nothing any more.
//
// A Stop beside another waits for its outcome, or for its own ctx. A writer that never ran has nothing
// to save.
func (w *Writer) Stop(ctx context.Context) error {
	w.mu.Lock()
	first, running := !w.closed, w.running
	w.closed = true
	w.mu.Unlock()
	if !running {
		return nil
	}
	var gaveUp <-chan struct{}
	if first {
		if ctx.Err() != nil {
			w.cancel(ctx.Err())
		}
		defer context.AfterFunc(ctx, func() { w.cancel(ctx.Err()) })()
		close(w.stopping)
	} else {
		gaveUp = ctx.Done()
	}
	select {
	case <-w.ended:
	case <-w.aborted:
	case <-gaveUp:
		select {
		case <-w.ended: // there is nothing to wait for
		default:
			return ctx.Err()
		}
	}
	return w.unsaved()
}

// Abort ends the writer without saving, for a drain that takes too long. It returns at once: a save
// that is under way is cancelled, and may still have its effect until the storage's Quiesce, called
// after Abort, has returned. From then on this writer stores nothing any more. A Stop that waits is
// released.
func (w *Writer) Abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	select {
	case <-w.aborted:
		return
	default:
	}
	w.cancel(context.Canceled)
	close(w.aborted)
}

// HealthCheck returns nil, or an error that says since when nothing could be saved, why, and how far
// the stored checkpoint is behind. The writer goes on trying meanwhile, and is healthy again after the
// next success. A clean stop leaves it healthy.
func (w *Writer) HealthCheck(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.row
	lasted := w.opts.Clock.Now().Sub(r.since)
	if !r.begun || r.failures < w.opts.UnhealthyFailures && lasted < w.opts.UnhealthyAfter && !permanent(r.last) {
		return nil
	}
	const (
		op     = "checkpoint.health"
		format = "the checkpoint of pipeline %q could not be saved since %s: it is at %v, safe is %v; "
	)
	since := r.since.UTC().Format(time.RFC3339)
	if r.last == nil {
		return failure(op, nil, format+"a save is under way and does not come back, see to the storage", w.opts.Pipeline, since, w.saved, w.safe)
	}
	return failure(op, r.last, format+"saves that failed in a row: %d, the last with: %w", w.opts.Pipeline, since, w.saved, w.safe, r.failures, r.last)
}

// unsaved is the outcome of a stop.
func (w *Writer) unsaved() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.behind() {
		return nil
	}
	const format = "the last checkpoint of pipeline %q was not saved: it is at %v, safe is %v; the events between come again at the next start: %w"
	ended, last := context.Cause(w.ctx), w.row.last
	switch {
	case ended == nil:
		return failure("checkpoint.stop", last, format, w.opts.Pipeline, w.saved, w.safe, last)
	case last == nil:
		return failure("checkpoint.stop", nil, format, w.opts.Pipeline, w.saved, w.safe, ended)
	}
	return failure("checkpoint.stop", last, format+" after: %w", w.opts.Pipeline, w.saved, w.safe, ended, last)
}

// failure makes an error that has the code and the reason of its cause.
func failure(op string, cause error, format string, args ...any) error {
	code, reason := ports.CodeBackendFailed, ports.Reason("")
	var e *ports.Error
	if errors.As(cause, &e) {
		code, reason = e.Code, e.Reason
	}
	return ports.Errorf(code, op, format, args...).WithReason(reason)
}

// permanent reports whether trying again is hopeless. A time-out of the saver's own is not.
func permanent(err error) bool {
	return err != nil && !ports.IsTransient(err) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

func (w *Writer) behind() bool { return w.safe.known && w.saved.before(w.safe.cursor) }

// signal wakes the goroutine; a token that is there already serves.
func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine.
func (w *Writer) run() {
	defer close(w.ended)
	var pause time.Duration
	for w.due(pause) {
		pause = w.save()
	}
	w.finish()
}

// due waits for the pause, then for something to save. It is false when the writer is to end.
func (w *Writer) due(pause time.Duration) bool {
	if !w.rest(pause, w.stopping) {
		return false
	}
	select {
	case <-w.wake:
		return true
	case <-w.stopping:
	case <-w.ctx.Done():
	}
	return false
}

// rest waits for the pause. It is false when the writer was aborted, or when enough was closed.
func (w *Writer) rest(pause time.Duration, enough <-chan struct{}) bool {
	if pause <= 0 {
		return w.ctx.Err() == nil
	}
	timer := w.opts.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-enough:
	case <-w.ctx.Done():
	}
	return false
}

// save saves the newest safe cursor, if that is not stored, and returns the pause before the next one.
func (w *Writer) save() time.Duration {
	tried, err := w.attempt()
	switch {
	case !tried:
		return 0
	case err == nil:
		return w.opts.Interval
	}
	w.signal()
	w.mu.Lock()
	n := w.row.failures
	w.mu.Unlock()
	return w.pause(n, err)
}

// finish saves the last safe cursor, unless the writer was aborted.
func (w *Writer) finish() {
	for n := 1; w.ctx.Err() == nil; n++ {
		tried, err := w.attempt()
		if !tried || err == nil || permanent(err) || !w.rest(w.pause(n, err), nil) {
			return
		}
	}
}

// pause is the one after the nth failure in a row.
func (w *Writer) pause(n int, err error) time.Duration {
	shortest := w.opts.RetryMin
	if permanent(err) {
		shortest = w.opts.RetryMax
	}
	return BackOff(shortest, w.opts.RetryMax, n, w.opts.Random())
}

// BackOff is the pause after the nth failure in a row: the shortest after the first, twice as long after
// each further one, up to the longest; and of that up to half is taken off by chance, 0 to 1.
func BackOff(shortest, longest time.Duration, n int, chance float64) time.Duration {
	d := shortest
	for ; n > 1 && d < longest; n-- {
		if d *= 2; d <= 0 { // it went over
			d = longest
		}
	}
	d = min(d, longest)
	return d - time.Duration(chance*float64(d)/2)
}

// attempt makes one save, if there is something to save.
func (w *Writer) attempt() (tried bool, err error) {
	w.mu.Lock()
	if !w.behind() {
		w.mu.Unlock()
		return false, nil
	}
	now := w.opts.Clock.Now()
	if !w.row.begun {
		w.row = row{since: now, begun: true}
	}
	checkpoint := types.Checkpoint{Cursor: w.safe.cursor, Module: w.opts.Module, UpdatedAt: now}.Clone()
	w.mu.Unlock()

	err = w.saver.SaveCheckpoint(w.ctx, w.opts.Pipeline, checkpoint)

	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.saved = mark{checkpoint.Cursor, true}
		if w.row.failures > 0 {
			w.opts.Log.Info("checkpoints are saved again", "pipeline", w.opts.Pipeline, "checkpoint", w.saved.String(), "failures", w.row.failures)
		}
		w.row = row{}
		return true, nil
	}
	if w.ctx.Err() != nil {
		if w.row.failures == 0 {
			w.row = row{} // the writer gave up, which says nothing about the saver
		}
		return true, err
	}
	w.row.failures++
	w.row.last = err
	// What Stop returns is not logged as well.
	if w.row.failures == 1 && !w.closed {
		w.opts.Log.Warn("a checkpoint was not saved; it is tried again",
			"pipeline", w.opts.Pipeline, "saved", w.saved.String(), "safe", w.safe.String(), "permanent", permanent(err), "error", err)
	}
	return true, err
}
