package localqueue

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// OwnerOptions open an Owner. StateDir is required.
type OwnerOptions struct {
	// StateDir is the state directory, made with its parents if missing. Queues are in queue-owned
	// below it, tokens in queue-credentials.
	StateDir string
	// Queues are the options of queues by id. Each is made if it is missing. A queue that has none
	// here has the default ones.
	Queues map[string]QueueOptions
	// Clock tells the time; default ports.SystemClock.
	Clock ports.Clock
	// Log takes what an operator should know; default slog.Default.
	Log *slog.Logger
}

// QueueOptions are those of one queue of an Owner. The zero value of each field is its default.
type QueueOptions struct {
	// MaxReceives is how often a message is delivered before the next receive moves it to
	// DeadLetterQueue. Zero means without limit.
	MaxReceives int
	// DeadLetterQueue is the id of another queue of the owner, made if it is missing. If that has a
	// limit of its own it must be higher, since a message keeps its count.
	DeadLetterQueue string
	Durability      sqlitefile.Durability
	CacheBytes      int
}

// Owner has the queues of a state directory open, the only process to do so. It implements
// ports.QueueOwnerStore and ports.HealthChecker.
type Owner struct {
	o           OwnerOptions
	dir         string // of the queues
	legacy      string
	lock        *directoryLock
	credentials *credentials

	mu      sync.Mutex // guards what follows, and the fields of entries that say so
	closed  bool
	entries map[string]*entry
}

// entry is one queue, open or not.
type entry struct {
	id   string
	turn chan struct{} // whoever has put a token in may open, make or delete the queue

	// The fields below are guarded by Owner.mu, and changed only by whoever has the turn.
	queue *Queue
	err   error // why it cannot be opened, as of the last attempt
	fresh bool  // it is being made
	gone  bool  // deleted, or never made: this entry is no longer the queue's
}

const (
	deletedPrefix = ".deleted-"
	parallelOpens = 8
)

// OpenOwner takes the state directory, which no other owner may have (BINDING_SETUP_FAILED with the
// reason in_use), and opens its queues: those of the options and those whose directories are there.
// A queue that cannot be opened does not stop the others: List says why, and Queue tries again. A
// token file that others can read, or that is odd, does (R142).
func OpenOwner(ctx context.Context, o OwnerOptions) (*Owner, error) {
	const op = "owner.open"
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o, err := o.check(op)
	if err != nil {
		return nil, err
	}
	w := &Owner{
		o:       o,
		dir:     filepath.Join(o.StateDir, ownedName),
		legacy:  filepath.Join(o.StateDir, legacyName),
		entries: make(map[string]*entry),
	}
	if err := makeDirectories(o.StateDir); err != nil {
		return nil, setupError(op, "the state directory %s cannot be made: %w", o.StateDir, err)
	}
	if _, err := makeDirectory(w.dir); err != nil {
		return nil, setupError(op, "the directory of queues %s cannot be made: %w", w.dir, err)
	}
	if w.lock, err = lockDirectory(op, "the directory of queues", w.dir); err != nil {
		return nil, err
	}
	if err := w.start(ctx, op); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (o OwnerOptions) check(op string) (OwnerOptions, error) {
	if o.StateDir == "" {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the state directory is empty: name one")
	}
	dir, err := filepath.Abs(o.StateDir)
	if err != nil {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the state directory %q cannot be made absolute: %w", o.StateDir, err)
	}
	o.StateDir = dir
	if o.Clock == nil {
		o.Clock = ports.SystemClock()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o, checkQueues(op, o.Queues)
}

func checkQueues(op string, queues map[string]QueueOptions) error {
	for _, id := range slices.Sorted(maps.Keys(queues)) {
		q := queues[id]
		if err := checkID(op, id); err != nil {
			return err
		}
		switch {
		case q.MaxReceives < 0 || q.MaxReceives > maxMaxReceives:
			return ports.Errorf(ports.CodeInvalidConfig, op, "queue %q: max_receives is %d: give 1 to %d, or leave it out", id, q.MaxReceives, maxMaxReceives)
		case (q.MaxReceives > 0) != (q.DeadLetterQueue != ""):
			return ports.Errorf(ports.CodeInvalidConfig, op, "queue %q: max_receives and dead_letter_queue go together: give both or neither", id)
		case q.CacheBytes != 0 && q.CacheBytes < minCacheBytes:
			return ports.Errorf(ports.CodeInvalidConfig, op, "queue %q: the cache is %d bytes: give at least %d", id, q.CacheBytes, minCacheBytes)
		case q.DeadLetterQueue == "":
			continue
		}
		if err := checkID(op, q.DeadLetterQueue); err != nil {
			return err
		}
		// Each limit above the one before also keeps messages from going round in a circle.
		if next := queues[q.DeadLetterQueue].MaxReceives; q.DeadLetterQueue == id || next != 0 && next <= q.MaxReceives {
			return ports.Errorf(ports.CodeInvalidConfig, op,
				"queue %q: its dead letters go to %q with a count of %d, which that queue would not deliver: use another queue, or raise its max_receives above %d",
				id, q.DeadLetterQueue, q.MaxReceives, q.MaxReceives)
		}
	}
	return nil
}

func checkID(op, id string) error {
	if err := ports.CheckQueueID(op, id); err != nil {
		return ports.Errorf(ports.CodeInvalidConfig, op, "queue %q: %w", id, err)
	}
	return nil
}

// start opens what is there and what is configured.
func (w *Owner) start(ctx context.Context, op string) (err error) {
	if w.credentials, err = openCredentials(op, filepath.Join(w.o.StateDir, credentialsName), w.o.Clock); err != nil {
		return err
	}
	if err := w.finishDeletes(op); err != nil {
		return err
	}
	if err := w.find(op); err != nil {
		return err
	}
	if err := w.openAll(ctx, op); err != nil {
		return err
	}
	for _, e := range w.sorted() {
		if e.queue == nil {
			w.o.Log.Error("a queue cannot be opened", "queue", e.id, "error", e.err)
			continue
		}
		w.settle(ctx, e.queue, "", w.stands)
	}
	return nil
}

// finishDeletes takes away what a delete left that was interrupted.
func (w *Owner) finishDeletes(op string) error {
	names, err := os.ReadDir(w.dir)
	if err != nil {
		return setupError(op, "the directory of queues %s cannot be read: %w", w.dir, err)
	}
	for _, name := range names {
		id, ok := deletedID(name.Name())
		if !ok {
			continue
		}
		// The token goes with its queue, unless a queue of that id was made since.
		if _, err := os.Lstat(filepath.Join(w.dir, id)); errors.Is(err, os.ErrNotExist) {
			if err := w.credentials.remove(op, id); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(filepath.Join(w.dir, name.Name())); err != nil {
			return setupError(op, "what is left of the deleted queue %q cannot be removed: %w", id, err)
		}
	}
	return nil
}

func deletedID(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, deletedPrefix)
	i := strings.LastIndexByte(rest, '-')
	if !ok || i < 0 || ports.CheckQueueID("", rest[:i]) != nil {
		return "", false
	}
	return rest[:i], true
}

// find makes the entries: one for each directory, legacy ones too, and for each configured queue.
func (w *Owner) find(op string) error {
	for _, dir := range []string{w.dir, w.legacy} {
		names, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return setupError(op, "the directory of queues %s cannot be read: %w", dir, err)
		}
		for _, name := range names {
			if name.Type().IsRegular() || ports.CheckQueueID(op, name.Name()) != nil {
				w.o.Log.Warn("something that is no queue lies among the queues, and is left alone", "path", filepath.Join(dir, name.Name()))
				continue
			}
			w.add(name.Name())
		}
	}
	for id, q := range w.o.Queues {
		w.add(id)
		if q.DeadLetterQueue != "" {
			w.add(q.DeadLetterQueue)
		}
	}
	return nil
}

func (w *Owner) add(id string) {
	if w.entries[id] == nil {
		w.entries[id] = newEntry(id)
	}
}

func newEntry(id string) *entry { return &entry{id: id, turn: make(chan struct{}, 1)} }

// openAll opens the queues, several at a time, and loads their tokens.
func (w *Owner) openAll(ctx context.Context, op string) error {
	var workers sync.WaitGroup
	slots := make(chan struct{}, parallelOpens)
	for _, e := range w.sorted() {
		slots <- struct{}{}
		workers.Go(func() {
			e.queue, e.err = w.openQueue(ctx, op, e.id)
			<-slots
		})
	}
	workers.Wait()
	var errs []error
	for _, e := range w.sorted() {
		// Who has the token of a queue that cannot be opened is told why, and nobody else is.
		if e.queue != nil || w.credentials.stored(e.id) {
			errs = append(errs, w.credentials.load(op, e.id))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// sorted lists the entries by id. The caller holds mu, or is alone.
func (w *Owner) sorted() []*entry {
	return slices.SortedFunc(maps.Values(w.entries), func(a, b *entry) int { return strings.Compare(a.id, b.id) })
}

// openQueue opens the directory of a queue, and makes it if it is missing. The caller has the turn.
func (w *Owner) openQueue(ctx context.Context, op, id string) (*Queue, error) {
	if err := w.checkLegacy(op, id); err != nil {
		return nil, err
	}
	path := filepath.Join(w.dir, id)
	if _, err := makeDirectory(path); err != nil {
		return nil, setupError(op, "the directory of queue %q cannot be made: %w", id, err)
	}
	o := w.o.Queues[id]
	options := Options{
		Dir:         path,
		Durability:  o.Durability,
		MaxReceives: o.MaxReceives,
		CacheBytes:  o.CacheBytes,
		Clock:       w.o.Clock,
		Log:         w.o.Log,
	}
	if o.DeadLetterQueue != "" {
		options.DeadLetters = queueSink{source: id, target: func(ctx context.Context) (*Queue, error) {
			return w.open(ctx, "queue.receive", o.DeadLetterQueue)
		}}
	}
	return Open(ctx, options)
}

// checkLegacy refuses a queue whose legacy directory is there: clients may have its files open, so
// that only an operator can tell when it may be moved (R119, R120).
func (w *Owner) checkLegacy(op, id string) error {
	path := filepath.Join(w.legacy, id)
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return setupError(op, "queue %q: whether the legacy directory %s is there cannot be told: %w", id, path, err)
	}
	return setupError(op, "queue %q is blocked by its legacy directory %s, whose files older clients may have open: stop them all, then move it with \"stowage queue migrate %s\"", id, path, id)
}

// stands tells what settle asks: whether a queue still has a message that it has handed over.
func (w *Owner) stands(origin Origin, enqueued, attempt int64) (bool, error) {
	w.mu.Lock()
	e := w.entries[origin.Queue]
	w.mu.Unlock()
	if e == nil {
		return false, nil // deleted, and its messages with it
	}
	queue, err := w.state(e)
	if queue == nil {
		return false, err
	}
	return queue.stands(context.Background(), origin.ID, enqueued, attempt)
}

// lookUp finds the entry of a queue.
func (w *Owner) lookUp(ctx context.Context, op, id string) (*entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := ports.CheckQueueID(op, id); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, w.closedError(op)
	}
	e := w.entries[id]
	if e == nil {
		if err := w.checkLegacy(op, id); err != nil {
			return nil, err
		}
		return nil, ports.Errorf(ports.CodeNotFound, op, "there is no queue %q: create it first", id)
	}
	return e, nil
}

func (w *Owner) closedError(op string) error {
	return ports.Errorf(ports.CodeStoreClosed, op, "the owner of %s is closed; nothing was done", w.dir)
}

// take waits for the turn at an entry. release gives it on.
func (w *Owner) take(ctx context.Context, op string, e *entry) (release func(), err error) {
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release = func() { <-e.turn }
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		err = w.closedError(op)
	case e.gone:
		err = ports.Errorf(ports.CodeNotFound, op, "there is no queue %q any more: create it first", e.id)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// Create implements ports.QueueOwner.
func (w *Owner) Create(ctx context.Context, id string) error {
	const op = "owner.create"
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ports.CheckQueueID(op, id); err != nil {
		return err
	}
	if err := w.checkLegacy(op, id); err != nil {
		return err
	}
	e := newEntry(id)
	e.fresh = true
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	if err := w.reserve(op, e); err != nil {
		return err
	}
	queue, err := w.makeQueue(ctx, op, id)
	if err != nil {
		w.forget(e)
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.queue, e.fresh = queue, false
	return nil
}

func (w *Owner) reserve(op string, e *entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.closedError(op)
	}
	_, err := os.Lstat(filepath.Join(w.dir, e.id))
	switch {
	case w.entries[e.id] != nil || err == nil:
		return ports.Errorf(ports.CodeAlreadyExists, op, "there is a queue %q already; it was left alone", e.id)
	case !errors.Is(err, os.ErrNotExist):
		return setupError(op, "whether queue %q exists cannot be told: %w", e.id, err)
	}
	w.entries[e.id] = e
	return nil
}

// makeQueue makes the directory, the store and the token of a queue, or nothing.
func (w *Owner) makeQueue(ctx context.Context, op, id string) (*Queue, error) {
	queue, err := w.openQueue(ctx, op, id)
	if err == nil {
		if err = w.credentials.create(op, id); err == nil {
			return queue, nil
		}
		err = errors.Join(err, queue.Close())
	}
	return nil, errors.Join(err, os.RemoveAll(filepath.Join(w.dir, id)))
}

// Queue implements ports.QueueOwner.
func (w *Owner) Queue(ctx context.Context, id string) (ports.Queue, error) {
	queue, err := w.open(ctx, "owner.queue", id)
	if err != nil {
		return nil, err // a nil *Queue must not become a non-nil interface
	}
	return queue, nil
}

func (w *Owner) open(ctx context.Context, op, id string) (*Queue, error) {
	e, err := w.lookUp(ctx, op, id)
	if err != nil {
		return nil, err
	}
	if queue, _ := w.state(e); queue != nil {
		return queue, nil
	}
	release, err := w.take(ctx, op, e)
	if err != nil {
		return nil, err
	}
	defer release()
	return w.openHere(ctx, op, e)
}

func (w *Owner) state(e *entry) (*Queue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return e.queue, e.err
}

// openHere returns the queue of an entry, opened now if it is not. The caller has the turn.
func (w *Owner) openHere(ctx context.Context, op string, e *entry) (*Queue, error) {
	if queue, _ := w.state(e); queue != nil {
		return queue, nil
	}
	queue, err := w.openLate(ctx, op, e.id)
	if err == nil || ctx.Err() == nil { // else it says nothing about the queue
		w.set(e, queue, err)
	}
	return queue, err
}

// openLate opens a queue that could not be opened before, and settles the dead letters to and from
// it, as the start does.
func (w *Owner) openLate(ctx context.Context, op, id string) (*Queue, error) {
	_, configured := w.o.Queues[id]
	if _, err := os.Lstat(filepath.Join(w.dir, id)); errors.Is(err, os.ErrNotExist) && !configured {
		if err := w.checkLegacy(op, id); err != nil {
			return nil, err
		}
		return nil, setupError(op, "the directory of queue %q is gone from %s: put it back, or restart the owner", id, w.dir)
	}
	queue, err := w.openQueue(ctx, op, id)
	if err != nil {
		return nil, err
	}
	if err := w.credentials.load(op, id); err != nil {
		return nil, errors.Join(err, queue.Close())
	}
	w.settle(ctx, queue, "", w.stands)
	w.mu.Lock()
	others := w.sorted()
	w.mu.Unlock()
	for _, e := range others {
		if other, _ := w.state(e); other != nil {
			w.settle(ctx, other, id, func(origin Origin, enqueued, attempt int64) (bool, error) {
				return queue.stands(ctx, origin.ID, enqueued, attempt)
			})
		}
	}
	return queue, nil
}

// settle decides what becomes of the dead letters that a crash left half handed over. One that cannot
// be settled stays hidden until the next start; nothing is lost.
func (w *Owner) settle(ctx context.Context, queue *Queue, source string, stands func(origin Origin, enqueued, attempt int64) (bool, error)) {
	if err := queue.settle(ctx, source, stands); err != nil {
		w.o.Log.Error("dead letters that a crash left hidden cannot be settled now", "queue", queue.file.Path(), "error", err)
	}
}

// List implements ports.QueueOwner.
func (w *Owner) List(ctx context.Context) ([]types.QueueInfo, error) {
	const op = "owner.list"
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil, w.closedError(op)
	}
	infos := make([]types.QueueInfo, 0, len(w.entries))
	open := make(map[int]*Queue, len(w.entries))
	for _, e := range w.sorted() {
		if e.fresh {
			continue
		}
		if e.queue != nil {
			open[len(infos)] = e.queue
		}
		infos = append(infos, types.QueueInfo{ID: e.id, Err: e.err})
	}
	w.mu.Unlock()
	for i, queue := range open {
		if err := queue.HealthCheck(ctx); !errors.Is(err, ports.ErrStoreClosed) { // closed since, and no fault
			infos[i].Err = err
		}
	}
	return infos, ctx.Err()
}

// Delete implements ports.QueueOwner. A queue that cannot be opened is not deleted either: that it is
// what it seems to be is not known.
func (w *Owner) Delete(ctx context.Context, id string) error {
	const op = "owner.delete"
	e, err := w.lookUp(ctx, op, id)
	if err != nil {
		return err
	}
	release, err := w.take(ctx, op, e)
	if err != nil {
		return err
	}
	defer release()
	queue, err := w.openHere(ctx, op, e)
	if err != nil {
		return err
	}
	// From here on the delete runs to its end.
	if err := queue.shut(w.revoked(id)); err != nil {
		w.o.Log.Error("a queue that is deleted could not be closed cleanly", "queue", id, "error", err)
	}
	w.set(e, nil, nil)
	aside, err := w.moveAside(op, id)
	if w.directoryGone(id, err) {
		err = nil // somebody has removed it already, and what is left is to forget it
	}
	if err != nil {
		return err // the queue is there still, and opened again on its next use
	}
	w.forget(e)
	if err := w.credentials.remove(op, id); err != nil {
		return err
	}
	if err := os.RemoveAll(aside); err != nil {
		return setupError(op, "what is left of the deleted queue %q cannot be removed, and will be by the next start: %w", id, err)
	}
	return nil
}

func (w *Owner) set(e *entry, queue *Queue, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.queue, e.err = queue, err
}

func (w *Owner) forget(e *entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.gone = true
	delete(w.entries, e.id)
}

func (w *Owner) revoked(id string) *ports.Error {
	return ports.Errorf(ports.CodeStoreClosed, "", "the queue %q was deleted; nothing was done", id).
		WithReason(ports.ReasonRevoked)
}

// moveAside takes the directory out of sight in one step, so that a crash leaves the queue whole or
// something that the next start clears away.
func (w *Owner) moveAside(op, id string) (string, error) {
	aside := filepath.Join(w.dir, deletedPrefix+id+"-"+rand.Text())
	if err := os.Rename(filepath.Join(w.dir, id), aside); err != nil {
		return "", setupError(op, "the directory of queue %q cannot be removed: %w", id, err)
	}
	if err := syncDirectory(w.dir); err != nil {
		return "", setupError(op, "the removal of queue %q cannot be made durable: %w", id, err)
	}
	return aside, nil
}

// directoryGone reports whether a move failed because the queue's own directory is missing, and not
// the one that it stood in, which may have been moved away with all queues.
func (w *Owner) directoryGone(id string, err error) bool {
	if !errors.Is(err, os.ErrNotExist) {
		return false
	}
	_, queue := os.Lstat(filepath.Join(w.dir, id))
	_, queues := os.Lstat(w.dir)
	return errors.Is(queue, os.ErrNotExist) && queues == nil
}

// Authenticate implements ports.QueueOwner.
func (w *Owner) Authenticate(ctx context.Context, id, token string) error {
	const op = "owner.authenticate"
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return w.closedError(op)
	}
	if !w.credentials.check(id, token) {
		return ports.Errorf(ports.CodeAuthenticationFailed, op, "the token is not one of this queue, or there is no such queue")
	}
	return nil
}

// Token implements ports.QueueOwner.
func (w *Owner) Token(ctx context.Context, id string) (string, error) {
	const op = "owner.token"
	e, err := w.withToken(ctx, op, id)
	if err != nil {
		return "", err
	}
	release, err := w.take(ctx, op, e)
	if err != nil {
		return "", err
	}
	defer release()
	return w.credentials.token(op, id)
}

// Rotate implements ports.QueueOwner. An earlier token whose overlap still runs keeps its own end.
func (w *Owner) Rotate(ctx context.Context, id string, overlap time.Duration) (string, error) {
	const op = "owner.rotate"
	if err := ports.CheckOverlap(op, overlap); err != nil {
		return "", err
	}
	e, err := w.withToken(ctx, op, id)
	if err != nil {
		return "", err
	}
	release, err := w.take(ctx, op, e)
	if err != nil {
		return "", err
	}
	defer release()
	return w.credentials.rotate(op, id, overlap)
}

// withToken finds a queue that has a token; one that could never be opened has none.
func (w *Owner) withToken(ctx context.Context, op, id string) (*entry, error) {
	e, err := w.lookUp(ctx, op, id)
	if err != nil || w.credentials.has(id) {
		return e, err
	}
	_, err = w.open(ctx, op, id)
	return e, err
}

// HealthCheck implements ports.HealthChecker: the faults of the queues that are open, and of those
// that could not be opened for want of space or because nothing can be written, unless they can be
// now. What else keeps a queue from being opened, List says: it is no fault of the others.
func (w *Owner) HealthCheck(ctx context.Context) error {
	const op = "owner.health"
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return w.closedError(op)
	}
	entries := w.sorted()
	w.mu.Unlock()
	var errs []error
	for _, e := range entries {
		queue, err := w.state(e)
		if queue == nil && (errors.Is(err, ports.ErrDiskFull) || errors.Is(err, ports.ErrReadOnly)) {
			if queue, err = w.open(ctx, op, e.id); err != nil {
				errs = append(errs, err)
			}
		}
		if queue != nil {
			errs = append(errs, queue.HealthCheck(ctx))
		}
	}
	return errors.Join(errs...)
}

// Close ends all handles, with STORE_CLOSED, waits for the operations that are under way, and gives the directory
// free. Closing again does nothing.
func (w *Owner) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	entries := w.sorted()
	w.mu.Unlock()
	errs := make([]error, len(entries)+1)
	var closing sync.WaitGroup
	for i, e := range entries {
		closing.Go(func() {
			e.turn <- struct{}{} // whoever is at work on it finishes first
			defer func() { <-e.turn }()
			if queue, _ := w.state(e); queue != nil {
				errs[i] = queue.shut(ports.Errorf(ports.CodeStoreClosed, "",
					"the queue %q is closed with its owner; nothing was done: repeat once the owner is there again", e.id))
			}
		})
	}
	closing.Wait()
	errs[len(entries)] = w.lock.release()
	return errors.Join(errs...)
}
