package sqlitefile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
)

// hold makes the writer wait inside an operation, so that those that follow share one transaction.
func hold(t *testing.T, f *File) (release func()) {
	t.Helper()
	begun, gate := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.NoError(t, f.Write(context.Background(), "hold", func(*Tx) error {
			close(begun)
			<-gate
			return nil
		}))
	})
	<-begun
	return func() { close(gate); wg.Wait() }
}

// waiting returns once n operations are pending.
func waiting(f *File, n int) {
	for {
		f.mu.Lock()
		have := len(f.pending)
		f.mu.Unlock()
		if have == n {
			return
		}
		runtime.Gosched()
	}
}

func TestWaitingOperationsShareACommit(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	release := hold(t, f)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { assert.NoError(t, insert(f, fmt.Sprint(i))) })
	}
	waiting(f, 50)
	release()
	wg.Wait()
	stats := f.Stats()
	assert.Equal(t, int64(51), stats.Operations)
	assert.Equal(t, int64(2), stats.Commits)
	assert.Equal(t, 50, stats.LargestBatch)
	assert.Len(t, names(t, f), 50)
}

func TestAnOperationThatFailsUndoesItselfAlone(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	boom := errors.New("boom")
	release := hold(t, f)
	var mu sync.Mutex
	var events []string
	note := func(s string) func() {
		return func() { mu.Lock(); events = append(events, s); mu.Unlock() }
	}
	ops := []func(tx *Tx) error{
		func(tx *Tx) error {
			tx.OnCommit(note("commit first"))
			tx.OnUndo(note("undo first"))
			_, err := tx.Exec(insertRow, "first", noBody)
			return err
		},
		func(tx *Tx) error {
			tx.OnUndo(note("undo 1"))
			_, err := tx.Exec(insertRow, "half", noBody)
			tx.OnUndo(note("undo 2"))
			return errors.Join(err, boom)
		},
		func(tx *Tx) error {
			_, err := tx.Exec(insertRow, "first", noBody) // UNIQUE
			return err
		},
		func(tx *Tx) error {
			_, err := tx.Exec(insertRow, "last", noBody)
			return err
		},
	}
	errs := make([]error, len(ops))
	var wg sync.WaitGroup
	for i, op := range ops {
		wg.Go(func() { errs[i] = f.Write(context.Background(), "op", op) })
		waiting(f, i+1)
	}
	release()
	wg.Wait()
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], boom)
	assert.True(t, IsConstraint(errs[2]), errs[2])
	require.NoError(t, errs[3])
	assert.Equal(t, []string{"first", "last"}, names(t, f))
	assert.Equal(t, []string{"undo 2", "undo 1", "commit first"}, events)
	assert.Equal(t, int64(2), f.Stats().Commits)
}

func TestAPanicReachesItsOwnCallerAndUndoesItselfAlone(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	release := hold(t, f)
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, insert(f, "neighbour")) })
	waiting(f, 1)
	wg.Go(func() {
		assert.PanicsWithValue(t, "oops", func() {
			_ = f.Write(context.Background(), "panics", func(tx *Tx) error {
				_, err := tx.Exec(insertRow, "half", noBody)
				require.NoError(t, err)
				panic("oops")
			})
		})
	})
	waiting(f, 2)
	release()
	wg.Wait()
	assert.Equal(t, []string{"neighbour"}, names(t, f))
}

func TestAnOperationThatEndsItsGoroutineDoesNotEndTheWriter(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	release := hold(t, f)
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = f.Write(context.Background(), "exits", func(tx *Tx) error {
			if _, err := tx.Exec(insertRow, "half", noBody); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
	})
	waiting(f, 1)
	wg.Go(func() { assert.ErrorIs(t, insert(f, "neighbour"), ports.ErrBackendFailed) })
	waiting(f, 2)
	release()
	wg.Wait()
	require.NoError(t, insert(f, "after"))
	assert.Equal(t, []string{"after"}, names(t, f))
}

func TestACallerThatGivesUpBeforeItsTurnLeavesNothing(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	release := hold(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		gaveUp <- f.WriteOne(ctx, "insert", func(tx *Tx) error {
			_, err := tx.Exec(insertRow, "never", noBody)
			return err
		})
	}()
	waiting(f, 1)
	cancel()
	require.ErrorIs(t, <-gaveUp, context.Canceled, "it returns at once, while the writer is still busy")
	release()
	require.NoError(t, insert(f, "after"))
	assert.Equal(t, []string{"after"}, names(t, f))
	require.ErrorIs(t, f.Write(ctx, "late", func(*Tx) error { panic("not run") }), context.Canceled)
}

func TestACallerThatGivesUpAfterItBeganGetsTheTrueOutcome(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, f.WriteOne(ctx, "insert", func(tx *Tx) error {
		cancel()
		_, err := tx.Exec(insertRow, "kept", noBody)
		return err
	}))
	assert.Equal(t, []string{"kept"}, names(t, f))
}

func TestTheOneWhoIsToLeadNextMayGiveUp(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				err := f.Write(ctx, "op", func(*Tx) error { return nil })
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			if i == 2 {
				wg.Go(cancel)
			}
		}
		wg.Wait()
	}
	require.NoError(t, insert(f, "still writing"))
}

func TestACommitThatFailsFailsAllOfItAndStoresNothing(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Schema = Marked("item.v1",
		"CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, body BLOB NOT NULL)",
		"CREATE TABLE IF NOT EXISTS child (parent INTEGER REFERENCES item (id) DEFERRABLE INITIALLY DEFERRED)")
	f := open(t, o)
	require.NoError(t, f.writer.run("PRAGMA foreign_keys = ON"))
	release := hold(t, f)
	var undone int
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() {
			errs[i] = f.Write(context.Background(), "op", func(tx *Tx) error {
				tx.OnUndo(func() { undone++ })
				tx.OnCommit(func() { t.Error("committed") })
				if i == 1 {
					_, err := tx.Exec("INSERT INTO child VALUES (?1)", 4711)
					return err
				}
				_, err := tx.Exec(insertRow, fmt.Sprint(i), noBody)
				return err
			})
		})
	}
	waiting(f, 3)
	release()
	wg.Wait()
	for _, err := range errs {
		require.ErrorIs(t, err, ports.ErrBackendFailed)
	}
	assert.Equal(t, 3, undone)
	assert.Empty(t, names(t, f))
	require.NoError(t, insert(f, "after"))
}

func TestAFailureThatRollsEverythingBackIsNoSuccessForAnybody(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	require.NoError(t, insert(f, "before"))
	require.NoError(t, f.writer.run("PRAGMA max_page_count = 20")) // SQLITE_FULL, as on a full disk
	release := hold(t, f)
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() {
			errs[i] = f.WriteOne(context.Background(), "op", func(tx *Tx) error {
				_, err := tx.Exec(insertRow, fmt.Sprint(i), make([]byte, 1+i*200_000))
				return err
			})
		})
		waiting(f, i+1)
	}
	release()
	wg.Wait()
	stored := names(t, f)
	for i, err := range errs {
		assert.Equal(t, err == nil, slices.Contains(stored, fmt.Sprint(i)), "operation %d: %v", i, err)
	}
	require.ErrorIs(t, errs[2], ports.ErrDiskFull)
	require.NoError(t, f.Write(t.Context(), "look", func(*Tx) error { return nil }))
	require.ErrorIs(t, f.HealthCheck(t.Context()), ports.ErrDiskFull, "an operation that wrote nothing proves nothing")
	require.NoError(t, f.writer.run("PRAGMA max_page_count = 1000000"))
	require.NoError(t, insert(f, "after"), "it goes on without a restart")
	require.NoError(t, f.HealthCheck(t.Context()))
}

func TestWriteOneThatFailsAfterItChangedSomethingStoresNothing(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	err := f.WriteOne(t.Context(), "op", func(tx *Tx) error {
		_, err := tx.Exec(insertRow, "half", noBody)
		return errors.Join(err, errors.New("boom"))
	})
	require.Error(t, err)
	assert.Empty(t, names(t, f))
}

func TestConcurrentWritersAndReadersSeeWholeTransactions(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 25 {
				assert.NoError(t, f.Write(context.Background(), "pair", func(tx *Tx) error {
					for _, half := range []string{"a", "b"} {
						if _, err := tx.Exec(insertRow, fmt.Sprint(g, i, half), []byte(half)); err != nil {
							return err
						}
					}
					return nil
				}))
			}
		})
		wg.Go(func() {
			for range 50 {
				assert.NoError(t, f.Snapshot(context.Background(), "count", func(c *Conn) error {
					var n [2]int64
					for i := range n {
						if err := c.Query("SELECT count(*) FROM item", func(r Row) error { n[i] = r.Int64(0); return nil }); err != nil {
							return err
						}
					}
					assert.Zero(t, n[0]%2, "half a transaction was seen")
					assert.Equal(t, n[0], n[1], "a snapshot moved")
					return nil
				}))
			}
		})
	}
	wg.Wait()
	assert.Len(t, names(t, f), 400)
}

func TestValuesKeepTheirStorageClass(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	five := int64(5)
	require.NoError(t, f.Read(t.Context(), "types", func(c *Conn) error {
		return c.Query("SELECT typeof(?1), typeof(?2), typeof(?3), typeof(?4), typeof(?5), typeof(?6), ?3, ?7", func(r Row) error {
			assert.Equal(t, Row{"integer", "text", "blob", "null", "integer", "null", []byte{}, "nul\x00inside"}, r)
			return nil
		}, 1, "", []byte(nil), nil, &five, (*int64)(nil), "nul\x00inside")
	}))
	// The empty BLOB and NULL are told apart on the way in and on the way out, in a column too.
	require.NoError(t, f.Write(t.Context(), "store", func(tx *Tx) error {
		for _, statement := range []string{"CREATE TABLE aux (id INTEGER PRIMARY KEY, body BLOB)", "INSERT INTO aux VALUES (4, zeroblob(0))"} {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		for i, body := range []any{[]byte{}, noBody, nil} {
			if _, err := tx.Exec("INSERT INTO aux VALUES (?1, ?2)", i+1, body); err != nil {
				return err
			}
		}
		return nil
	}))
	var stored []any
	require.NoError(t, f.Read(t.Context(), "load", func(c *Conn) error {
		return c.Query("SELECT body FROM aux ORDER BY id", func(r Row) error {
			stored = append(stored, r.Value(0))
			assert.Equal(t, r.Value(0) == nil, r.Bytes(0) == nil)
			return nil
		})
	}))
	assert.Equal(t, []any{[]byte{}, []byte{}, nil, []byte{}}, stored)
	assert.Error(t, f.Read(t.Context(), "types", func(c *Conn) error {
		return c.Query("SELECT ?1", func(Row) error { return nil }, uint64(1)<<63)
	}))
}

// holdLock takes the write lock as another process would.
func holdLock(t *testing.T, f *File) (free func()) {
	t.Helper()
	db, err := dial(f.path, modeOpen, defaultBusyTimeout)
	require.NoError(t, err)
	_, err = db.Exec("BEGIN IMMEDIATE", nil)
	require.NoError(t, err)
	return sync.OnceFunc(func() { assert.NoError(t, db.Close()) })
}

func TestACallerThatGivesUpWhileAnotherProcessHasTheLockReturnsAtOnce(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Ownership, o.BusyTimeout = SharedDirectory, time.Hour
	f := open(t, o)
	free := holdLock(t, f)
	defer free()
	var cancels []context.CancelFunc
	gaveUp := make(chan error)
	for i := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		cancels = append(cancels, cancel)
		go func() { gaveUp <- f.Write(ctx, "op", func(*Tx) error { panic("not run") }) }()
		waiting(f, i+1)
	}
	stays := make(chan error)
	go func() { stays <- insert(f, "stays") }()
	waiting(f, 4)
	for _, cancel := range cancels { // the one that leads comes first
		cancel()
		require.ErrorIs(t, <-gaveUp, context.Canceled)
	}
	free()
	require.NoError(t, <-stays)
	assert.Equal(t, []string{"stays"}, names(t, f))
}

func TestALockThatIsNotFreedFailsEachCallerAfterTheBusyTimeout(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Ownership, o.BusyTimeout = SharedDirectory, 50*time.Millisecond
	f := open(t, o)
	free := holdLock(t, f)
	defer free()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			begun := time.Now()
			assert.ErrorIs(t, insert(f, fmt.Sprint(i)), ports.ErrBusy)
			assert.GreaterOrEqual(t, time.Since(begun), o.BusyTimeout)
		})
	}
	wg.Wait()
	free()
	require.NoError(t, insert(f, "after"))
	assert.Equal(t, []string{"after"}, names(t, f))
}
