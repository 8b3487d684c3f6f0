package sqlitefile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
)

func inMemory() Options {
	o := itemOptions("")
	o.Path = InMemory
	return o
}

// text reads the only value of the only row.
func text(t *testing.T, f *File, query string) (value string) {
	t.Helper()
	require.NoError(t, f.Read(t.Context(), "text", func(c *Conn) error {
		return c.Query(query, func(r Row) error { value = fmt.Sprint(r.Value(0)); return nil })
	}))
	return value
}

func TestAStoreInMemoryIsPrivateAndGoneOnceItIsClosed(t *testing.T) {
	t.Parallel()
	for _, owns := range []Ownership{ExclusiveDirectory, SharedDirectory, ExclusiveFile} {
		o := inMemory()
		o.Ownership = owns
		f, other := open(t, o), open(t, o)
		assert.Equal(t, InMemory, f.Path())
		require.NoError(t, insert(f, "one"))
		assert.Equal(t, []string{"one"}, names(t, f))
		assert.Empty(t, names(t, other))
		require.NoError(t, f.HealthCheck(t.Context()))
		require.NoError(t, f.Verify(t.Context()))
		stats := f.Stats()
		assert.Equal(t, Stats{Commits: 1, Operations: 1, LargestBatch: 1}, stats)
		require.NoError(t, f.Close())
		require.NoError(t, f.Close())
		require.ErrorIs(t, insert(f, "two"), ports.ErrStoreClosed)
		require.ErrorIs(t, f.Read(t.Context(), "read", func(*Conn) error { return nil }), ports.ErrStoreClosed)
		require.ErrorIs(t, f.Verify(t.Context()), ports.ErrStoreClosed)
		require.ErrorIs(t, f.HealthCheck(t.Context()), ports.ErrStoreClosed)
		assert.Empty(t, names(t, open(t, o)))
	}
	require.ErrorIs(t, VerifyFile(t.Context(), inMemory()), ports.ErrNotFound)
}

// The working directory is the process's, so this test runs by itself.
func TestAStoreInMemoryLeavesNothingOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	f := open(t, inMemory())
	require.NoError(t, insert(f, "one"))
	require.NoError(t, f.Verify(t.Context()))
	assert.Empty(t, tree(t, dir))
	copied := filepath.Join(dir, InMemory)
	require.NoError(t, f.Backup(t.Context(), "./:memory:"), "a file of that name is none of the store's")
	assert.FileExists(t, copied)
	require.NoError(t, f.Close())
	assert.Len(t, tree(t, dir), 1)

	o := inMemory()
	o.Path = "./:memory:"
	require.NoError(t, VerifyFile(t.Context(), o))
	file := open(t, o)
	assert.Equal(t, copied, file.Path())
	assert.Equal(t, []string{"one"}, names(t, file))
	assert.Equal(t, "wal", text(t, file, "PRAGMA journal_mode"))
}

// R257.
func TestOnlyAFileKeepsAWriteAheadLog(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.PageSize = 1024
	memory := open(t, o)
	assert.Equal(t, "memory", text(t, memory, "PRAGMA journal_mode"))
	assert.Equal(t, "1024", text(t, memory, "PRAGMA page_size"))
	assert.Equal(t, "wal", text(t, open(t, itemOptions(t.TempDir())), "PRAGMA journal_mode"))
}

func TestAStoreInMemoryHasItsSchema(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "item.v1", text(t, open(t, inMemory()), "SELECT value FROM meta WHERE key = 'format'"))

	o := inMemory()
	o.Schema = Versioned("CREATE TABLE a (x)", "CREATE TABLE b (x); INSERT INTO b VALUES (7)")
	f := open(t, o)
	assert.Equal(t, "2", text(t, f, "PRAGMA user_version"))
	assert.Equal(t, "7", text(t, f, "SELECT x FROM b"))
	require.NoError(t, f.Verify(t.Context()))

	o.Schema = Versioned("CREATE TABLE a (x)", "CREATE TABLE a (x)")
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
}

func TestReadersOfAStoreInMemoryCannotWrite(t *testing.T) {
	t.Parallel()
	f := open(t, inMemory())
	write := func(c *Conn) error {
		_, err := c.Exec(insertRow, "x", noBody)
		return err
	}
	for range 2 { // writing and reading take turns
		require.ErrorIs(t, f.Read(t.Context(), "write", write), ports.ErrReadOnly)
		require.ErrorIs(t, f.Snapshot(t.Context(), "write", write), ports.ErrReadOnly)
		require.NoError(t, f.Write(t.Context(), "write", func(tx *Tx) error {
			if err := write(tx.Conn); err != nil {
				return err
			}
			_, err := tx.Exec("DELETE FROM item")
			return err
		}))
	}
	assert.Empty(t, names(t, f))
}

func TestReadersOfAStoreInMemoryNeverSeeHalfATransaction(t *testing.T) {
	t.Parallel()
	f := open(t, inMemory())
	undone := errors.New("undone")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				err := f.Write(context.Background(), "pair", func(tx *Tx) error {
					for _, half := range []string{"a", "b"} {
						if _, err := tx.Exec(insertRow, fmt.Sprint(g, "-", i, half), noBody); err != nil {
							return err
						}
					}
					if i%10 == 9 {
						return undone
					}
					return nil
				})
				if i%10 == 9 {
					assert.ErrorIs(t, err, undone)
				} else {
					assert.NoError(t, err)
				}
			}
		})
		wg.Go(func() {
			read := []func(context.Context, string, func(*Conn) error) error{f.Read, f.Snapshot}[g%2]
			for range 100 {
				assert.NoError(t, read(context.Background(), "count", func(c *Conn) error {
					return c.Query("SELECT count(*) FROM item", func(r Row) error {
						assert.Zero(t, r.Int64(0)%2)
						return nil
					})
				}))
			}
		})
	}
	wg.Go(func() {
		for range 5 {
			assert.NoError(t, f.Verify(context.Background()))
		}
	})
	wg.Wait()
	assert.Len(t, names(t, f), 4*90*2)
}

// holdReader keeps the connection of a store in memory with a reader.
func holdReader(t *testing.T, f *File) (release func()) {
	t.Helper()
	begun, gate := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.NoError(t, f.Read(context.Background(), "hold", func(*Conn) error {
			close(begun)
			<-gate
			return nil
		}))
	})
	<-begun
	return sync.OnceFunc(func() { close(gate); wg.Wait() })
}

func TestWhoeverWaitsForAStoreInMemoryMayGiveUp(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "copy")
	for name, c := range map[string]struct {
		hold func(*testing.T, *File) func()
		call func(context.Context, *File) error
	}{
		"a leader behind a reader": {holdReader, func(ctx context.Context, f *File) error {
			return f.Write(ctx, "op", func(*Tx) error { panic("not run") })
		}},
		"a reader behind a reader": {holdReader, func(ctx context.Context, f *File) error {
			return f.Read(ctx, "op", func(*Conn) error { panic("not run") })
		}},
		"a snapshot behind a writer": {hold, func(ctx context.Context, f *File) error {
			return f.Snapshot(ctx, "op", func(*Conn) error { panic("not run") })
		}},
		"a check behind a writer":  {hold, func(ctx context.Context, f *File) error { return f.Verify(ctx) }},
		"a backup behind a writer": {hold, func(ctx context.Context, f *File) error { return f.Backup(ctx, target) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, inMemory())
			release := c.hold(t, f)
			ctx, cancel := context.WithCancel(t.Context())
			gaveUp := make(chan error)
			go func() { gaveUp <- c.call(ctx, f) }()
			cancel()
			require.ErrorIs(t, <-gaveUp, context.Canceled)
			release()
			require.NoError(t, insert(f, "after"))
			assert.Equal(t, []string{"after"}, names(t, f))
			assert.NoFileExists(t, target)
		})
	}
}

func TestWritesBehindALeaderThatGaveUpGoOn(t *testing.T) {
	t.Parallel()
	f := open(t, inMemory())
	release := holdReader(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp, stays := make(chan error), make(chan error)
	go func() { gaveUp <- f.Write(ctx, "op", func(*Tx) error { panic("not run") }) }()
	waiting(f, 1)
	go func() { stays <- insert(f, "stays") }()
	waiting(f, 2)
	cancel()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	release()
	require.NoError(t, <-stays)
	assert.Equal(t, []string{"stays"}, names(t, f))
}

func TestCloseOfAStoreInMemoryWaitsForThoseWhoAreUnderWay(t *testing.T) {
	t.Parallel()
	f := open(t, inMemory())
	release := holdReader(t, f)
	wrote := make(chan error)
	go func() { wrote <- insert(f, "one") }()
	waiting(f, 1)
	closed := make(chan error)
	go func() { closed <- f.Close() }()
	<-f.closing
	require.ErrorIs(t, f.Read(t.Context(), "late", func(*Conn) error { panic("not run") }), ports.ErrStoreClosed)
	select {
	case err := <-closed:
		t.Fatalf("the store was closed under a reader: %v", err)
	default:
	}
	release()
	require.NoError(t, <-wrote)
	require.NoError(t, <-closed)
}

func TestCloseOfAStoreInMemoryMayMeetEverything(t *testing.T) {
	t.Parallel()
	for range 50 {
		f := open(t, inMemory())
		var wg sync.WaitGroup
		for i := range 4 {
			for _, call := range []func() error{
				func() error { return insert(f, fmt.Sprint(i)) },
				func() error { return f.Read(context.Background(), "read", func(*Conn) error { return nil }) },
				func() error { return f.Verify(context.Background()) },
			} {
				wg.Go(func() {
					if err := call(); err != nil {
						assert.ErrorIs(t, err, ports.ErrStoreClosed)
					}
				})
			}
		}
		require.NoError(t, f.Close())
		wg.Wait()
	}
}

func TestWritesInMemoryShareATransactionAndAreUndoneAlone(t *testing.T) {
	t.Parallel()
	f := open(t, inMemory())
	release := hold(t, f)
	undone := errors.New("undone")
	var mu sync.Mutex
	var committed, takenBack []string
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			name := fmt.Sprint(i)
			err := f.Write(context.Background(), "op", func(tx *Tx) error {
				tx.OnCommit(func() { mu.Lock(); defer mu.Unlock(); committed = append(committed, name) })
				tx.OnUndo(func() { mu.Lock(); defer mu.Unlock(); takenBack = append(takenBack, name) })
				if _, err := tx.Exec(insertRow, name, noBody); err != nil {
					return err
				}
				if i%2 == 0 {
					return undone
				}
				return nil
			})
			if i%2 == 0 {
				assert.ErrorIs(t, err, undone)
			} else {
				assert.NoError(t, err)
			}
		})
	}
	waiting(f, 20)
	release()
	wg.Wait()
	assert.Equal(t, names(t, f), committed)
	assert.Len(t, committed, 10)
	assert.Len(t, takenBack, 10)
	assert.Equal(t, 10, f.Stats().LargestBatch)
}

func TestAReaderThatPanicsGivesTheStoreInMemoryBack(t *testing.T) {
	t.Parallel()
	f := open(t, inMemory())
	assert.PanicsWithValue(t, "reader", func() {
		_ = f.Snapshot(t.Context(), "panic", func(*Conn) error { panic("reader") }) // it panics
	})
	require.NoError(t, insert(f, "one"))
	assert.Equal(t, []string{"one"}, names(t, f))
}

func TestABackupFromMemoryIsAStoreInAFile(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]Schema{
		"marked":    itemSchema,
		"versioned": Versioned("CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, body BLOB NOT NULL)"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := inMemory()
			o.Schema = schema
			f := open(t, o)
			require.NoError(t, insert(f, "one"))
			o.Path = filepath.Join(t.TempDir(), "copy.sqlite")
			require.NoError(t, f.Backup(t.Context(), o.Path))
			require.ErrorIs(t, f.Backup(t.Context(), o.Path), ports.ErrAlreadyExists)
			require.NoError(t, insert(f, "two"), "the store goes on")
			require.NoError(t, VerifyFile(t.Context(), o))
			assert.Len(t, tree(t, filepath.Dir(o.Path)), 1)
			info, err := os.Stat(o.Path)
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			restored := open(t, o)
			assert.Equal(t, []string{"one"}, names(t, restored))
			require.NoError(t, insert(restored, "goes on"))
		})
	}
}
