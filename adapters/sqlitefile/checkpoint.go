package sqlitefile

import (
	"database/sql/driver"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/stowage-go/stowage/ports"
)

// checkpointBytes is the size of the log from which it is copied into the database.
const checkpointBytes = 16 << 20

// maxLogBytes bounds the log while no long read holds it back: one that grows
// faster than it is copied makes the writer wait for the copy. One transaction may go over it.
const maxLogBytes = 4 * checkpointBytes

// checkpointer copies the log into the database in two passes. The long one runs beside the writer,
// on a connection of its own. What was written meanwhile is copied by the writer between two
// transactions: only a log that is copied to its end is begun anew. Neither waits for a reader.
type checkpointer struct {
	threshold atomic.Int64 // grows while the log is pinned, so that the writer is not held up in vain
	running   atomic.Bool
	tailDue   atomic.Bool
	wg        sync.WaitGroup
	conn      *Conn // used by the one that runs
}

// consider starts a pass if the log has grown. The writer calls it after a commit.
func (k *checkpointer) consider(f *File) {
	info, err := os.Stat(f.path + "-wal")
	if err != nil {
		return // the next commit finds out that the log is gone
	}
	size := info.Size()
	f.mu.Lock()
	f.stats.LogBytes = size
	f.mu.Unlock()
	f.meter.logBytes(size)
	if size <= k.threshold.Load() || k.tailDue.Load() || !k.running.CompareAndSwap(false, true) {
		return
	}
	k.wg.Go(func() {
		defer k.running.Store(false)
		if k.conn == nil {
			conn, err := f.connect(false)
			if err != nil {
				f.warn("the log could not be copied into the database", err)
				return
			}
			k.conn = conn
		}
		if _, _, err := k.conn.copyLog(); err != nil {
			f.warn("the log could not be copied into the database", err)
			return
		}
		f.meter.dataBytes(sizeOf(f.path))
		k.tailDue.Store(true)
	})
}

// tail copies the rest of the log, if a pass has just ended. The writer calls it between two
// transactions.
func (k *checkpointer) tail(f *File) {
	f.mu.Lock()
	size := f.stats.LogBytes
	full := errors.Is(f.last, ports.ErrDiskFull) // which everybody is told
	f.mu.Unlock()
	if size > k.threshold.Load()+maxLogBytes-checkpointBytes {
		k.wg.Wait()
	}
	if !k.tailDue.Load() {
		return
	}
	k.tailDue.Store(false)
	k.wg.Wait() // on a full disk it is due at any time
	frames, copied, err := f.writer.copyLog()
	if err != nil && full {
		return
	}
	if err != nil {
		f.warn("the log could not be copied into the database", err)
		return
	}
	f.meter.dataBytes(sizeOf(f.path))
	if err := f.measureDatabase(); err != nil {
		f.warn("the size of the database could not be read", err)
	}
	whole := frames == copied
	f.mu.Lock()
	was := f.stats.Pinned
	f.stats.Pinned = !whole
	if whole {
		f.stats.Checkpoints++
	}
	f.mu.Unlock()
	switch {
	case whole:
		k.threshold.Store(checkpointBytes)
	case !was:
		f.o.Log.Warn("a long read, such as an export or that of another program, keeps the write-ahead log from being reused: it grows until that one ends",
			"store", f.o.Kind, "path", f.path, "bytes", size)
		fallthrough
	default:
		k.threshold.Store(size + checkpointBytes)
	}
}

// copyLog copies as much of the log as no reader needs, and returns how many frames the log has and
// how many of them are copied.
func (c *Conn) copyLog() (frames, copied int64, err error) { return c.checkpoint("PASSIVE") }

func (c *Conn) checkpoint(mode string) (frames, copied int64, err error) {
	rows, err := c.db.Query("PRAGMA wal_checkpoint("+mode+")", nil)
	if err != nil {
		return 0, 0, err
	}
	row := make([]driver.Value, 3)
	err = errors.Join(rows.Next(row), rows.Close())
	frames, _ = row[1].(int64)
	copied, _ = row[2].(int64)
	return frames, copied, err
}

func (f *File) warn(what string, err error) {
	f.o.Log.Warn(what, "store", f.o.Kind, "path", f.path, "error", f.engineError("checkpoint", err))
}

func (k *checkpointer) close() error {
	k.wg.Wait()
	if k.conn == nil {
		return nil
	}
	return k.conn.close()
}
