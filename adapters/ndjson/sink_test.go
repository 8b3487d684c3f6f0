package ndjson

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// faults are what the files of a sink do wrong.
type faults struct {
	mu       sync.Mutex
	write    error // after half of the text
	sync     error
	truncate error
	syncs    int
	opened   int
}

func (f *faults) set(change func(f *faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faults) count() (syncs, opened int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncs, f.opened
}

func (f *faults) open(name string, sync bool) (sinkFile, error) {
	file, err := openSinkFile(name, sync)
	if err != nil {
		return nil, err
	}
	f.set(func(f *faults) { f.opened++ })
	return &faultyFile{sinkFile: file, faults: f}, nil
}

type faultyFile struct {
	sinkFile

	faults *faults
	failed bool // a sync failed: the next ones pretend that all is well
}

func (f *faultyFile) Write(text []byte) (int, error) {
	f.faults.mu.Lock()
	fault := f.faults.write
	f.faults.mu.Unlock()
	if fault == nil {
		return f.sinkFile.Write(text)
	}
	n, err := f.sinkFile.Write(text[:len(text)/2])
	if errors.Is(fault, io.ErrShortWrite) {
		return n, err // without an error of its own
	}
	return n, errors.Join(err, fault)
}

func (f *faultyFile) Sync() error {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.syncs++
	if f.faults.sync != nil && !f.failed {
		f.failed = true
		return f.faults.sync
	}
	return f.sinkFile.Sync()
}

func (f *faultyFile) Truncate(size int64) error {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	if f.faults.truncate != nil {
		return f.faults.truncate
	}
	return f.sinkFile.Truncate(size)
}

// out is a sink and its file.
type out struct {
	t      testing.TB
	path   string
	clock  *fixture.Clock
	faults *faults
	s      *Sink
}

func newOut(t testing.TB, fsync Fsync) *out {
	t.Helper()
	o := &out{t: t, path: filepath.Join(t.TempDir(), "deep", "er", "out.ndjson"), clock: fixture.NewClock(fixture.Epoch()), faults: &faults{}}
	o.open(fsync)
	return o
}

func (o *out) open(fsync Fsync) {
	o.t.Helper()
	s, err := OpenSink(o.t.Context(), SinkOptions{Path: o.path, Fsync: fsync, Clock: o.clock, Log: fixture.Logger(o.t), open: o.faults.open})
	require.NoError(o.t, err)
	o.s = s
	o.t.Cleanup(func() { require.NoError(o.t, s.Close()) })
}

func (o *out) deliver(numbers ...int) error {
	o.t.Helper()
	events := make([]types.SinkEvent, 0, len(numbers))
	for _, n := range numbers {
		events = append(events, matchOf(n))
	}
	errs := o.s.DeliverBatch(o.t.Context(), events)
	require.Len(o.t, errs, len(numbers))
	for _, err := range errs {
		require.Equal(o.t, errs[0], err)
	}
	return errs[0]
}

// want asserts the numbers of the matches in a file, and that it has nothing else.
func (o *out) want(name string, numbers ...int) {
	o.t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(o.t, err)
	got := received(o.t, string(text))
	want := make([]types.SinkEvent, 0, len(numbers))
	for _, n := range numbers {
		want = append(want, matchOf(n))
	}
	require.Equal(o.t, want, got)
}

// received reads lines of events.
func received(t testing.TB, text string) []types.SinkEvent {
	t.Helper()
	events := []types.SinkEvent{}
	for l := range strings.Lines(text) {
		require.True(t, strings.HasSuffix(l, "\n"), "%q", l)
		var e types.SinkEvent
		require.NoError(t, json.Unmarshal([]byte(l), &e), l)
		events = append(events, e)
	}
	return events
}

func TestASinkAppendsLines(t *testing.T) {
	t.Parallel()
	o := newOut(t, FsyncAlways)
	for path, mode := range map[string]os.FileMode{o.path: 0o600, filepath.Dir(o.path): 0o700, filepath.Dir(filepath.Dir(o.path)): 0o700} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), path)
	}
	require.NoError(t, o.s.Deliver(t.Context(), matchOf(1)))
	require.NoError(t, o.deliver(2, 3, 4))
	syncs, _ := o.faults.count()
	require.Equal(t, 2, syncs, "one a batch")
	require.NoError(t, o.s.Close())
	o.open(FsyncAlways)
	require.NoError(t, o.deliver(5))
	o.want(o.path, 1, 2, 3, 4, 5)
}

func TestAFileBelongsToOneSink(t *testing.T) {
	t.Parallel()
	o := newOut(t, FsyncAlways)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(o.path, link))
	for _, path := range []string{o.path, link, filepath.Dir(o.path) + "/../er/out.ndjson"} {
		_, err := OpenSink(t.Context(), SinkOptions{Path: path})
		require.ErrorIs(t, err, ports.ErrInUse, path)
		require.ErrorContains(t, err, path)
	}
	require.NoError(t, o.s.Close())
	o.open(FsyncAlways)
	require.NoError(t, o.deliver(1))
}

func TestASinkRefusesWhatIsNoRegularFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, path := range []string{dir, fifo, os.DevNull} {
		_, err := OpenSink(t.Context(), SinkOptions{Path: path})
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed, path)
		require.ErrorContains(t, err, "not a regular file", path)
	}
	_, err := OpenSink(fixture.Cancelled(t), SinkOptions{Path: filepath.Join(dir, "x")})
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, filepath.Join(dir, "x"))
}

func TestASinkLeavesForeignFilesAlone(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"a token": "c2VjcmV0\n", "a database": "SQLite format 3\x00", "a list": " \n[1]\n"} {
		path := filepath.Join(t.TempDir(), "out")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := OpenSink(t.Context(), SinkOptions{Path: path})
		require.ErrorIs(t, err, ports.ErrUnsupported, name)
		require.ErrorContains(t, err, path)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(after))
	}
	env := fixture.Env(t, "quakes/out", fixture.NewClock(fixture.Epoch()))
	for _, path := range []string{"storage/storage.sqlite", "/x/queue.sqlite-wal", "x.sqlite-shm"} {
		err := SinkModule().Check(env, config{"path": path})
		require.ErrorIs(t, err, ports.ErrInvalidConfig, path)
		require.ErrorContains(t, err, "the name of a database")
		require.ErrorIs(t, SourceModule().Check(env, config{"path": path}), ports.ErrInvalidConfig, path)
	}
}

func TestATornLineIsClosedBeforeAnythingFollows(t *testing.T) {
	t.Parallel()
	o := newOut(t, FsyncAlways)
	require.NoError(t, o.deliver(1))
	require.NoError(t, o.s.Close())
	f, err := os.OpenFile(o.path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"torn`)
	require.NoError(t, errors.Join(err, f.Close()))
	o.open(FsyncAlways)
	require.NoError(t, o.deliver(2))
	require.NoError(t, o.deliver(3))
	text, err := os.ReadFile(o.path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	require.Len(t, lines, 5)
	require.Equal(t, "{\"torn\n", lines[1])
	require.Equal(t, []types.SinkEvent{matchOf(2), matchOf(3)}, received(t, lines[2]+lines[3]))
}

func TestAFailedWriteLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for fault, reason := range map[error]ports.Reason{
		syscall.ENOSPC:   ports.ReasonDiskFull,
		syscall.EDQUOT:   ports.ReasonDiskFull,
		syscall.EIO:      "",
		io.ErrShortWrite: "",
		os.ErrPermission: ports.ReasonReadOnly,
	} {
		for _, truncate := range []error{nil, syscall.EIO} {
			o := newOut(t, FsyncAlways)
			require.NoError(t, o.deliver(1))
			o.faults.set(func(f *faults) { f.write, f.truncate = fault, truncate })
			for range 3 {
				err := o.deliver(2, 3)
				var e *ports.Error
				require.ErrorAs(t, err, &e)
				require.ErrorIs(t, err, fault)
				require.Equal(t, ports.CodeBackendFailed, e.Code)
				require.Equal(t, reason, e.Reason)
				require.Equal(t, reason != ports.ReasonReadOnly, ports.IsTransient(err))
				require.ErrorContains(t, err, o.path)
			}
			if truncate == nil {
				o.want(o.path, 1)
			}
			o.faults.set(func(f *faults) { f.write, f.truncate = nil, nil })
			require.NoError(t, o.deliver(2, 3))
			require.NoError(t, o.deliver(4))
			if truncate == nil {
				o.want(o.path, 1, 2, 3, 4)
				continue
			}
			text, err := os.ReadFile(o.path)
			require.NoError(t, err)
			whole := 0
			for l := range strings.Lines(string(text)) {
				var e types.SinkEvent
				if json.Unmarshal([]byte(l), &e) == nil {
					whole++
				}
			}
			require.GreaterOrEqual(t, whole, 4, "no line has merged with another")
		}
	}
}

func TestAFailedSyncFailsTheDeliveryAndTheHandleIsNotTrustedAgain(t *testing.T) {
	t.Parallel()
	o := newOut(t, FsyncAlways)
	require.NoError(t, o.deliver(1))
	o.faults.set(func(f *faults) { f.sync = syscall.EIO })
	require.ErrorIs(t, o.deliver(2), syscall.EIO)
	require.ErrorIs(t, o.deliver(2), syscall.EIO, "a later sync of the same file would pretend that all is well")
	_, opened := o.faults.count()
	require.Equal(t, 2, opened)
	o.faults.set(func(f *faults) { f.sync = nil })
	require.NoError(t, o.deliver(2))
	o.want(o.path, 1, 2)
}

func TestSyncsByInterval(t *testing.T) {
	t.Parallel()
	o := newOut(t, FsyncInterval)
	syncs := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool { n, _ := o.faults.count(); return n == want }, 10*time.Second, time.Millisecond)
	}
	require.Zero(t, o.clock.Timers(), "nothing to sync")
	require.NoError(t, o.deliver(1))
	o.clock.BlockUntilTimers(1)
	syncs(0)
	o.clock.Advance(DefaultInterval)
	syncs(1)
	o.faults.set(func(f *faults) { f.sync = syscall.EIO })
	require.NoError(t, o.deliver(2))
	o.clock.BlockUntilTimers(1)
	o.clock.Advance(DefaultInterval)
	syncs(2)
	require.Eventually(t, func() bool { return o.failed() }, 10*time.Second, time.Millisecond)
	err := o.deliver(3)
	require.ErrorIs(t, err, syscall.EIO, "the next delivery says so")
	require.True(t, ports.IsTransient(err))
	o.faults.set(func(f *faults) { f.sync = nil })
	require.NoError(t, o.deliver(3))
	_, opened := o.faults.count()
	require.Equal(t, 2, opened)
	before, _ := o.faults.count()
	require.NoError(t, o.s.Close())
	after, _ := o.faults.count()
	require.Equal(t, before+1, after, "closing syncs what is left")
	o.want(o.path, 1, 2, 3)
}

func (o *out) failed() bool {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	return o.s.failed != nil
}

func TestClosingReportsAFailedSync(t *testing.T) {
	t.Parallel()
	faults := &faults{sync: syscall.EIO}
	s, err := OpenSink(t.Context(), SinkOptions{Path: filepath.Join(t.TempDir(), "x"), Fsync: FsyncInterval, Clock: fixture.NewClock(fixture.Epoch()), open: faults.open})
	require.NoError(t, err)
	require.NoError(t, s.Deliver(t.Context(), matchOf(1)))
	require.ErrorIs(t, s.Close(), syscall.EIO)
	require.NoError(t, s.Close())
}

func TestNeverSyncing(t *testing.T) {
	t.Parallel()
	o := newOut(t, FsyncNever)
	require.NoError(t, o.deliver(1))
	require.NoError(t, o.s.Close())
	syncs, _ := o.faults.count()
	require.Zero(t, syncs)
	o.want(o.path, 1)
}

func TestARotatedFileIsOpenedAnew(t *testing.T) {
	t.Parallel()
	for _, fsync := range []Fsync{FsyncAlways, FsyncInterval, FsyncNever} {
		o := newOut(t, fsync)
		require.NoError(t, o.deliver(1))
		require.NoError(t, os.Rename(o.path, o.path+".1"))
		require.NoError(t, o.deliver(2))
		require.NoError(t, o.deliver(3))
		require.NoError(t, os.Remove(o.path))
		require.NoError(t, o.deliver(4))
		o.want(o.path+".1", 1)
		o.want(o.path, 4)
		require.NoError(t, os.RemoveAll(filepath.Dir(o.path)))
		require.NoError(t, o.deliver(5))
		o.want(o.path, 5)
		require.NoError(t, os.Truncate(o.path, 0)) // as a copying rotation does
		require.NoError(t, o.deliver(6))
		o.want(o.path, 6)
		require.NoError(t, o.s.Close())
	}
}

func TestARotatedFileThatAnotherSinkHasIsWaitedFor(t *testing.T) {
	t.Parallel()
	o := newOut(t, FsyncAlways)
	require.NoError(t, os.Remove(o.path))
	other, err := OpenSink(t.Context(), SinkOptions{Path: o.path})
	require.NoError(t, err)
	err = o.deliver(1)
	require.ErrorIs(t, err, ports.ErrInUse)
	require.True(t, ports.IsTransient(err))
	require.NoError(t, other.Close())
	require.NoError(t, o.deliver(1))
}

func TestDeliveriesFromManyGoroutinesDoNotMix(t *testing.T) {
	t.Parallel()
	o := newOut(t, FsyncInterval)
	const goroutines, each = 8, 50
	var failed atomic.Bool
	var wait sync.WaitGroup
	for g := range goroutines {
		wait.Go(func() {
			for i := range each {
				if o.s.Deliver(t.Context(), matchOf(g*each+i)) != nil {
					failed.Store(true)
				}
				if i%10 == 0 {
					o.clock.Advance(DefaultInterval)
				}
			}
		})
	}
	wait.Wait()
	require.False(t, failed.Load())
	text, err := os.ReadFile(o.path)
	require.NoError(t, err)
	require.Len(t, received(t, string(text)), goroutines*each)
}
