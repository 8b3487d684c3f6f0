package localkv

import (
	"context"
	"log/slog"
	"sync"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
)

// maxExpired bounds the expired rows that wait to be removed. One that finds no room stays until it
// is met again.
const maxExpired = 1024

// A reaper removes the expired rows that reads have met, in the background and as well as it can:
// it never delays or fails the read (R049, R051). What waits is removed in one transaction.
type reaper struct {
	file *sqlitefile.File
	log  *slog.Logger

	mu      sync.Mutex
	pending map[string]expiredRow
	closed  bool
	wake    chan struct{} // holds one token when pending or closed has changed
	done    chan struct{} // closed when run has returned
}

// expiredRow is a row as it was read, and the time at which it was found expired.
type expiredRow struct {
	version string
	now     int64
}

func startReaper(file *sqlitefile.File, log *slog.Logger) *reaper {
	r := &reaper{
		file:    file,
		log:     log,
		pending: make(map[string]expiredRow),
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	go r.run()
	return r
}

// offer asks for the removal of a row and never waits.
func (r *reaper) offer(key string, row expiredRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.pending) >= maxExpired {
		return
	}
	r.pending[key] = row
	r.signal()
}

// close returns once everything that was offered has been tried.
func (r *reaper) close() {
	r.mu.Lock()
	r.closed = true
	r.signal()
	r.mu.Unlock()
	<-r.done
}

func (r *reaper) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // the token that is there will do
	}
}

func (r *reaper) run() {
	defer close(r.done)
	failing := false
	for range r.wake {
		rows, closed := r.take()
		err := r.remove(rows)
		if err != nil && !failing {
			r.log.Warn("expired entries could not be removed; they stay hidden, and will be tried again when they are met again",
				"path", r.file.Path(), "entries", len(rows), "error", err)
		}
		failing = err != nil
		if closed {
			return
		}
	}
}

func (r *reaper) take() (rows map[string]expiredRow, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows = r.pending
	r.pending = make(map[string]expiredRow)
	return rows, r.closed
}

func (r *reaper) remove(rows map[string]expiredRow) error {
	if len(rows) == 0 {
		return nil
	}
	return r.file.Write(context.Background(), "kv.expire", func(tx *sqlitefile.Tx) error {
		for key, row := range rows {
			if _, err := tx.Exec(deleteExpired, key, row.version, row.now); err != nil {
				return err
			}
		}
		return nil
	})
}
