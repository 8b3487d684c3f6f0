package eventlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// faults are what fails of the files of a log, until it is mended.
type faults struct {
	mu       sync.Mutex
	write    error
	part     int // of a write that fails: so many bytes are written
	sync     error
	truncate error
	create   error
	lazy     bool           // nothing is synced: for tests that many files would make slow
	writes   map[string]int // by path
}

func (f *faults) set(change func(f *faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faults) options(dir string) Options {
	f.writes = map[string]int{}
	faulty := func(open func(string) (segmentFile, error)) func(string) (segmentFile, error) {
		return func(path string) (segmentFile, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.create != nil {
				return nil, f.create
			}
			file, err := open(path)
			return &faultyFile{segmentFile: file, path: path, f: f}, err
		}
	}
	return Options{Dir: dir, create: faulty(createFile), reopen: faulty(reopenFile)}
}

type faultyFile struct {
	segmentFile
	path string
	f    *faults
}

func (x *faultyFile) WriteAt(text []byte, at int64) (int, error) {
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	x.f.writes[strings.TrimSuffix(filepath.Base(x.path), freshSuffix)]++
	if x.f.write == nil {
		return x.segmentFile.WriteAt(text, at)
	}
	n, err := x.segmentFile.WriteAt(text[:min(x.f.part, len(text))], at)
	return n, errors.Join(&os.PathError{Op: "write", Path: x.path, Err: x.f.write}, err)
}

func (x *faultyFile) Sync() error {
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	if x.f.sync != nil {
		return &os.PathError{Op: "sync", Path: x.path, Err: x.f.sync}
	}
	if x.f.lazy {
		return nil
	}
	return x.segmentFile.Sync()
}

func (x *faultyFile) Truncate(size int64) error {
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	if x.f.truncate != nil {
		return &os.PathError{Op: "truncate", Path: x.path, Err: x.f.truncate}
	}
	return x.segmentFile.Truncate(size)
}

// afterCrash is what the next process would read if this one ended now.
func afterCrash(t *testing.T, dir string) []string {
	t.Helper()
	twin := t.TempDir()
	for name, text := range content(t, dir) {
		writeFile(t, filepath.Join(twin, name), []byte(text))
	}
	log := open(t, Options{Dir: twin})
	defer log.Close()
	return data(drain(t, log))
}

func TestWriteThatFailsAtAnyByteIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, canTruncate := range []bool{true, false} {
		t.Run(fmt.Sprintf("truncating %v", canTruncate), func(t *testing.T) {
			t.Parallel()
			dir, f := t.TempDir(), &faults{}
			log := open(t, f.options(dir))
			hand(t, log, numbered(0, 2)...)
			want := data(numbered(0, 2))
			refused, err := encode(numbered(100, 2), log.o.Clock)
			require.NoError(t, err)
			for part := range len(refused.text) + 1 {
				f.set(func(f *faults) {
					f.write, f.part = syscall.ENOSPC, part
					if !canTruncate {
						f.truncate = syscall.EIO
					}
				})
				err := log.Accept(t.Context(), numbered(100, 2))
				require.ErrorIs(t, err, &ports.Error{Code: ports.CodeBackendFailed, Reason: ports.ReasonDiskFull})
				require.True(t, ports.IsTransient(err))
				require.ErrorContains(t, err, "free space")
				f.set(func(f *faults) { f.write, f.truncate = nil, nil })

				hand(t, log, numbered(part, 1)...)
				want = append(want, data(numbered(part, 1))...)
			}
			require.Equal(t, want, data(drain(t, log)))
			require.Equal(t, want, afterCrash(t, dir))
			if canTruncate {
				require.Len(t, files(t, dir), 1)
			}
			log = reopen(t, log, nil)
			require.Equal(t, want, data(drain(t, log)))
		})
	}
}

func TestFileWhoseSyncFailedIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	for _, canTruncate := range []bool{true, false} {
		t.Run(fmt.Sprintf("truncating %v", canTruncate), func(t *testing.T) {
			t.Parallel()
			dir, f := t.TempDir(), &faults{}
			log := open(t, f.options(dir))
			hand(t, log, numbered(0, 2)...)
			want := data(numbered(0, 2))
			for round := range 3 {
				left := filepath.Base(lastFile(t, dir))
				f.set(func(f *faults) {
					f.sync = syscall.EIO
					if !canTruncate {
						f.truncate = syscall.EIO
					}
				})
				err := log.Accept(t.Context(), numbered(100, 2))
				require.ErrorIs(t, err, ports.ErrBackendFailed)
				require.ErrorIs(t, err, syscall.EIO)
				require.Equal(t, want, data(drain(t, log))[0:len(want):len(want)])
				log.reader.pos, log.reader.limit = 0, 0 // all of it is to be read again
				require.NoError(t, log.reader.close())
				log.pass()
				writes := f.writes[left]

				err = log.Accept(t.Context(), numbered(200, 1))
				require.ErrorIs(t, err, ports.ErrBackendFailed, "no file can be made either")
				if canTruncate {
					require.Equal(t, want, afterCrash(t, dir))
				}
				f.set(func(f *faults) { f.sync, f.truncate = nil, nil })
				hand(t, log, numbered(round+10, 1)...)
				want = append(want, data(numbered(round+10, 1))...)
				require.Equal(t, writes, f.writes[left])
				require.Equal(t, want, afterCrash(t, dir))
			}
			require.Equal(t, want, data(drain(t, log)))
			require.Len(t, files(t, dir), 4)
			for name := range content(t, dir) {
				require.NotContains(t, name, freshSuffix)
			}
			log = reopen(t, log, nil)
			require.Equal(t, want, data(drain(t, log)))
		})
	}
}

// What a process that was killed has written may not be on the disk yet, and whoever reads it goes on
// as if it were.
func TestLogIsSyncedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	dir, f := t.TempDir(), &faults{}
	o := f.options(dir)
	log := open(t, o)
	hand(t, log, numbered(0, 1)...)
	require.NoError(t, log.Close())
	f.set(func(f *faults) { f.sync = syscall.EIO })
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	require.ErrorIs(t, err, syscall.EIO)
	f.set(func(f *faults) { f.sync = nil })
	log = open(t, o) // nobody holds it
	require.Len(t, drain(t, log), 1)
}

func TestNothingIsWrittenBehindTheEndOfAFile(t *testing.T) {
	t.Parallel()
	dir, f := t.TempDir(), &faults{}
	o := f.options(dir)
	o.SegmentBytes = minSegmentBytes
	log := open(t, o)
	var want []string
	next := func(i int) types.Event {
		return types.Event{Data: fmt.Appendf(nil, `"%d%s"`, i, strings.Repeat("x", 1500))}
	}
	for i := range 2 {
		hand(t, log, next(i))
		want = append(want, string(next(i).Data))
	}
	// A directory of that name lets the next file be made and not be named.
	block := filepath.Join(dir, nameOf(log.end))
	require.NoError(t, os.Mkdir(block, 0o700))
	require.ErrorIs(t, log.Accept(t.Context(), []types.Event{next(2)}), ports.ErrBackendFailed)
	require.ErrorIs(t, log.Accept(t.Context(), numbered(0, 1)), ports.ErrBackendFailed, "it would fit into the file before")
	require.NoError(t, os.Remove(block))
	hand(t, log, numbered(7, 1)...)
	hand(t, log, next(3))
	want = append(want, data(numbered(7, 1))[0], string(next(3).Data))
	require.Equal(t, want, data(drain(t, log)))
	require.Equal(t, want, afterCrash(t, dir))

	// A file that cannot be made at all leaves the one before in use.
	f.set(func(f *faults) { f.create = syscall.EMFILE })
	hand(t, log, next(4))
	require.ErrorIs(t, log.Accept(t.Context(), []types.Event{next(5)}), syscall.EMFILE)
	hand(t, log, numbered(8, 1)...)
	f.set(func(f *faults) { f.create = nil })
	hand(t, log, next(6))
	want = append(want, string(next(4).Data), data(numbered(8, 1))[0], string(next(6).Data))
	require.Equal(t, want, afterCrash(t, dir))
}

func TestCallersWhoShareAWriteShareItsFailure(t *testing.T) {
	t.Parallel()
	dir, f := t.TempDir(), &faults{}
	log := open(t, f.options(dir))
	const callers, rounds = 8, 40
	stored := make([][]string, callers)
	var wait sync.WaitGroup
	for c := range callers {
		wait.Go(func() {
			for i := range rounds {
				if c == 0 && i%4 == 0 {
					f.set(func(f *faults) {
						f.write, f.part, f.sync, f.truncate = nil, i*50, nil, nil
						switch i / 4 % 4 {
						case 0:
							f.write = syscall.ENOSPC
						case 1:
							f.write, f.truncate = syscall.EIO, syscall.EIO
						case 2:
							f.sync = syscall.EIO
						}
					})
				}
				events := numbered(1000*c+10*i, c+1)
				if err := log.Accept(t.Context(), events); err == nil {
					stored[c] = append(stored[c], data(events)...)
				}
			}
		})
	}
	wait.Wait()
	f.set(func(f *faults) { f.write, f.sync, f.truncate = nil, nil, nil })
	hand(t, log, numbered(99_999, 1)...)
	got := drain(t, log)
	log = reopen(t, log, nil)
	require.Equal(t, got, drain(t, log))
	all := data(got)
	require.Equal(t, data(numbered(99_999, 1))[0], all[len(all)-1])
	for c := range callers {
		var mine []string
		for _, e := range got[:len(got)-1] {
			if n := int(e.TS) - 1; n/1000 == c {
				mine = append(mine, string(e.Data))
			}
		}
		require.Equal(t, stored[c], mine, "what was acknowledged to caller %d, in its order, and nothing else", c)
	}
}
