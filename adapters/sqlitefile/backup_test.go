package sqlitefile

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
)

// lockedBuffer takes log lines from many goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *lockedBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func TestBackupIsWholeWhileWritersGoOn(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	for i := range 20 {
		require.NoError(t, insert(f, fmt.Sprint("before", i)))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				assert.NoError(t, f.Write(context.Background(), "pair", func(tx *Tx) error {
					for _, half := range []string{"a", "b"} {
						if _, err := tx.Exec(insertRow, fmt.Sprint(i, half), noBody); err != nil {
							return err
						}
					}
					return nil
				}))
			}
		}
	})
	target := filepath.Join(t.TempDir(), "copy?#%.sqlite")
	require.NoError(t, f.Backup(t.Context(), target))
	close(stop)
	wg.Wait()

	info, err := os.Stat(target)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	copied := itemOptions("")
	copied.Path = target
	require.NoError(t, VerifyFile(t.Context(), copied))
	assert.Len(t, tree(t, filepath.Dir(target)), 1, "one file, no sidecars")
	copied.Path += "x"
	require.ErrorIs(t, VerifyFile(t.Context(), copied), ports.ErrNotFound)
	o := itemOptions(t.TempDir())
	require.NoError(t, os.Rename(target, o.Path))
	restored := open(t, o)
	stored := names(t, restored)
	assert.Zero(t, len(stored)%2)
	assert.Contains(t, stored, "before19")
	require.NoError(t, insert(restored, "goes on"))
}

func TestBackupNeverOverwritesAndLeavesNothingWhenItFails(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	require.NoError(t, insert(f, "one"))
	target := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.WriteFile(target, []byte("precious"), 0o600))
	require.ErrorIs(t, f.Backup(t.Context(), target), ports.ErrAlreadyExists)
	require.ErrorIs(t, f.Backup(t.Context(), filepath.Dir(target)), ports.ErrAlreadyExists)
	alias := filepath.Join(t.TempDir(), "alias")
	require.NoError(t, os.Symlink(filepath.Dir(f.Path()), alias))
	for _, dir := range []string{filepath.Dir(f.Path()), alias} {
		require.ErrorIs(t, f.Backup(t.Context(), filepath.Join(dir, "item.sqlite-journal")), ports.ErrInvalidInput)
	}
	require.Error(t, f.Backup(t.Context(), filepath.Join(t.TempDir(), "no", "such", "directory")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.Backup(ctx, target+"2"), context.Canceled)
	data, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(data))
	assert.Len(t, tree(t, filepath.Dir(target)), 1)
}

func TestVerifyFindsDamageAndForeignFormats(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	f := open(t, o)
	require.NoError(t, f.Write(t.Context(), "fill", func(tx *Tx) error {
		for i := range 200 {
			if _, err := tx.Exec(insertRow, fmt.Sprint(i), make([]byte, 1000)); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, f.Verify(t.Context()))
	require.NoError(t, f.Close())

	data, err := os.ReadFile(o.Path)
	require.NoError(t, err)
	for i := len(data) / 2; i < len(data)/2+4096; i++ {
		data[i] ^= 0xff
	}
	require.NoError(t, os.WriteFile(o.Path, data, 0o600))
	before := tree(t, filepath.Dir(o.Path))
	require.ErrorIs(t, VerifyFile(t.Context(), o), ports.ErrCorrupt)
	assert.Equal(t, before, tree(t, filepath.Dir(o.Path)))
	damaged := open(t, o)
	require.ErrorIs(t, VerifyFile(t.Context(), o), ports.ErrInUse)
	err = damaged.Verify(t.Context())
	require.ErrorIs(t, err, ports.ErrCorrupt)
	assert.Contains(t, err.Error(), "restore it from a backup")
	err = damaged.Backup(t.Context(), filepath.Join(t.TempDir(), "copy"))
	require.Error(t, err, "a damaged store makes no backup that looks whole")
	require.NotErrorIs(t, err, ports.ErrAlreadyExists)
}

func TestTheEngineIsTheOneThatWasTested(t *testing.T) {
	t.Parallel()
	// R018: a new engine is a decision. Raise this together with go.mod, after the whole suite passed.
	assert.Equal(t, "3.54.1", EngineVersion())
}

func TestReadsGoOnDuringBackupsAndCloseWaitsForThem(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Readers = 1
	f := open(t, o)
	require.NoError(t, insert(f, "one"))
	begun, gate := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for range 3 { // more than there are readers
		wg.Go(func() {
			assert.NoError(t, f.aside(context.Background(), "backup", func(*Conn) error {
				begun <- struct{}{}
				<-gate
				return nil
			}))
		})
		<-begun
	}
	assert.Equal(t, []string{"one"}, names(t, f))
	closed := make(chan error)
	go func() { closed <- f.Close() }()
	<-f.closing
	select {
	case err := <-closed:
		t.Fatalf("the store was closed under a backup: %v", err)
	default:
	}
	close(gate)
	require.NoError(t, <-closed)
	wg.Wait()
	require.ErrorIs(t, f.Verify(t.Context()), ports.ErrStoreClosed)
}
