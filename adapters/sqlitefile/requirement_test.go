package sqlitefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A query that is given up half-way leaves no read transaction behind: its connection sees what
// was written since, and the log can be taken into the database whole (R029, R031).
func TestAnAbandonedQueryHoldsNoSnapshot(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(f *File, fn func(*Conn) error) error{
		"read":     func(f *File, fn func(*Conn) error) error { return f.Read(t.Context(), "abandoned", fn) },
		"snapshot": func(f *File, fn func(*Conn) error) error { return f.Snapshot(t.Context(), "abandoned", fn) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := itemOptions(t.TempDir())
			o.Readers = 1
			f := open(t, o)
			for i := range 3 {
				require.NoError(t, insert(f, fmt.Sprint(i)))
			}
			enough := errors.New("enough")
			require.ErrorIs(t, read(f, func(c *Conn) error {
				// Another statement than that of names, which would start it anew.
				return c.Query("SELECT body FROM item ORDER BY id", func(Row) error { return enough })
			}), enough)
			require.NoError(t, insert(f, "later"))
			assert.Equal(t, []string{"0", "1", "2", "later"}, names(t, f), "an open statement would go on showing the state of its beginning")

			other, err := dial(o.Path, modeOpen, 0)
			require.NoError(t, err)
			defer func() { require.NoError(t, other.Close()) }()
			busy, err := scalar[int64](other, "PRAGMA wal_checkpoint(TRUNCATE)")
			require.NoError(t, err)
			assert.Zero(t, busy, "an open statement would keep the log from being taken in")
		})
	}
}

// Nothing that reads waits for the one who writes, nor for others who read (R030).
func TestReadsGoOnWhileTheWriterIsBusy(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Readers = 2
	f := open(t, o)
	require.NoError(t, insert(f, "before"))
	release := hold(t, f) // freed at the end alone, so that a read that waited for it would never return
	var met sync.WaitGroup
	met.Add(2)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			assert.NoError(t, f.Read(t.Context(), "meet", func(c *Conn) error {
				met.Done()
				met.Wait() // both are inside at the same time
				return c.Query("SELECT name FROM item", func(r Row) error {
					assert.Equal(t, "before", r.Text(0))
					return nil
				})
			}))
		})
	}
	readers.Wait()
	release()
}

// An open of a store that is there runs nothing that would change it (R022, R032).
func TestASecondOpenChangesNothing(t *testing.T) {
	t.Parallel()
	for _, owns := range []Ownership{ExclusiveDirectory, SharedDirectory} {
		o := itemOptions(t.TempDir())
		o.Ownership = owns
		f := open(t, o)
		require.NoError(t, insert(f, "one"))
		require.NoError(t, f.Close())
		before := tree(t, filepath.Dir(o.Path))
		for range 2 {
			f = open(t, o)
			assert.Equal(t, []string{"one"}, names(t, f))
			require.NoError(t, f.Close())
		}
		assert.Equal(t, before, tree(t, filepath.Dir(o.Path)), "not a byte, so neither the schema cookie nor the marker")
	}
}

// The connections of a store end with it (R029).
func TestNoConnectionOutlivesItsStore(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not list the open files of a process")
	}
	o := itemOptions(t.TempDir())
	o.Readers = 4
	f := open(t, o)
	require.NoError(t, insert(f, "one"))
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			assert.NoError(t, f.Read(t.Context(), "look", func(c *Conn) error {
				return c.Query("SELECT name FROM item", func(Row) error { return nil })
			}))
		})
	}
	readers.Wait()
	dir := filepath.Dir(o.Path)
	assert.NotEmpty(t, openFilesBelow(t, dir))
	require.NoError(t, f.Close())
	assert.Empty(t, openFilesBelow(t, dir))
}

func openFilesBelow(t *testing.T, dir string) (paths []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		// One that was closed in between is none of this directory's.
		if path, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && (path == dir || strings.HasPrefix(path, dir+"/")) {
			paths = append(paths, path)
		}
	}
	return paths
}

// Files that fit do not mean engines that coordinate: what Turso's multi-process mode leaves beside a
// store is reported (R016).
func TestALeftoverOfTheOtherEngineIsReported(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	var said lockedBuffer
	o.Log = said.logger()
	require.NoError(t, open(t, o).Close())
	assert.Empty(t, said.String())
	leftover := o.Path + "-tshm"
	require.NoError(t, os.WriteFile(leftover, []byte("coordination"), 0o600))
	require.NoError(t, open(t, o).Close())
	assert.Contains(t, said.String(), leftover)
	assert.FileExists(t, leftover, "it is not this engine's to remove")
}
