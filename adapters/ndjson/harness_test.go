package ndjson

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/sinktest"
	"github.com/stowage-go/stowage/testkit/sourcetest"
	"github.com/stowage-go/stowage/types"
)

// following is the harness of sources that follow a file.
func following() sourcetest.Harness {
	return sourcetest.Harness{New: func(t testing.TB) sourcetest.Stream { return newStream(t, false) }}
}

// ending is the harness of sources that end with the file.
func ending() sourcetest.Harness {
	return sourcetest.Harness{Ends: true, New: func(t testing.TB) sourcetest.Stream { return newStream(t, true) }}
}

func newStream(t testing.TB, once bool) sourcetest.Stream {
	t.Helper()
	f := newFeed(t)
	f.once = once
	f.write("") // so that it is there
	return sourcetest.Stream{
		Open: func(_ testing.TB, from *types.Cursor) ports.Source {
			f.open(from)
			return f.s
		},
		Append: func(_ testing.TB, payloads ...string) {
			f.write(strings.Join(payloads, "\n") + "\n")
		},
		AppendBad: func(_ testing.TB, text string) { f.write(`{"` + text + "\n") },
		Tick:      func() { f.clock.Advance(DefaultPoll) },
	}
}

// appending is the harness of sinks that append to a file.
func appending() sinktest.Harness {
	return sinktest.Harness{
		Batches: true, Closes: true, Fails: []sinktest.Failure{sinktest.Transient, sinktest.Permanent},
		Open: func(t testing.TB) sinktest.Sink {
			o := newOut(t, FsyncAlways)
			return sinktest.Sink{
				Sink: o.s,
				Received: func(t testing.TB) []types.SinkEvent {
					text, err := os.ReadFile(o.path)
					require.NoError(t, err)
					return received(t, string(text))
				},
				Fail: func(_ testing.TB, how sinktest.Failure, _ ...types.MatchID) {
					o.faults.set(func(f *faults) {
						f.write = map[sinktest.Failure]error{sinktest.Transient: syscall.ENOSPC, sinktest.Permanent: syscall.EROFS}[how]
					})
				},
			}
		},
	}
}

// printing is the harness of sinks that print. What a failed write has printed stays printed, so that
// failures are tested apart.
func printing() sinktest.Harness {
	return sinktest.Harness{Batches: true, Closes: true, Open: func(testing.TB) sinktest.Sink {
		out := &stream{}
		return sinktest.Sink{
			Sink:     NewPrinter(out),
			Received: func(t testing.TB) []types.SinkEvent { return received(t, out.String()) },
		}
	}}
}

// tester is what a feed needs of a test, so that a property's will do.
type tester interface {
	require.TestingT
	Helper()
	Context() context.Context
}

// feed is a file that is written and read by a test.
type feed struct {
	t     tester
	log   *slog.Logger
	dir   string
	path  string
	state string
	once  bool
	clock *fixture.Clock
	s     *Source
}

func newFeed(t testing.TB) *feed {
	t.Helper()
	dir := t.TempDir()
	f := &feed{t: t, log: fixture.Logger(t), dir: dir, path: filepath.Join(dir, "feed.ndjson"), state: filepath.Join(dir, "state"), clock: fixture.NewClock(fixture.Epoch())}
	t.Cleanup(f.close)
	return f
}

func (f *feed) options() SourceOptions {
	return SourceOptions{Pipeline: "p", Path: f.path, StateDir: f.state, Once: f.once, Clock: f.clock, Log: f.log}
}

func (f *feed) open(from *types.Cursor) {
	f.t.Helper()
	s, err := OpenSource(f.t.Context(), f.options(), from)
	require.NoError(f.t, err)
	f.s = s
}

func (f *feed) close() {
	f.t.Helper()
	if f.s != nil {
		require.NoError(f.t, f.s.Close())
		f.s = nil
	}
}

func (f *feed) reopen(from *types.Cursor) {
	f.t.Helper()
	f.close()
	f.open(from)
}

// crash drops the source without what Close would store.
func (f *feed) crash() {
	f.t.Helper()
	require.NoError(f.t, f.s.release())
	f.s = nil
}

// write appends text to the file of the path.
func (f *feed) write(text string) { f.writeTo(f.path, text) }

func (f *feed) writeTo(name, text string) {
	f.t.Helper()
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	require.NoError(f.t, err)
	_, err = file.WriteString(text)
	require.NoError(f.t, errors.Join(err, file.Close()))
}

// rotate renames the archives and the file, as a rotation by numbers does.
func (f *feed) rotate() {
	f.t.Helper()
	for n := 30; n > 0; n-- {
		err := os.Rename(fmt.Sprintf("%s.%d", f.path, n), fmt.Sprintf("%s.%d", f.path, n+1))
		require.True(f.t, err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
	}
	require.NoError(f.t, os.Rename(f.path, f.path+".1"))
}

// copyTruncate copies the file and truncates it.
func (f *feed) copyTruncate(to string) {
	f.t.Helper()
	text, err := os.ReadFile(f.path)
	require.NoError(f.t, err)
	if to != "" {
		require.NoError(f.t, os.WriteFile(to, text, 0o600))
	}
	require.NoError(f.t, os.Truncate(f.path, 0))
}

// read returns what there is, and what comes within some polls.
func (f *feed) read(polls int) []types.Event {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for range polls {
			if f.clock.WaitForTimers(ctx, 1) != nil {
				return
			}
			f.clock.Advance(DefaultPoll)
		}
		if f.clock.WaitForTimers(ctx, 1) == nil {
			cancel()
		}
	}()
	var all []types.Event
	for {
		events, err := f.s.Read(ctx, 100)
		all = append(all, events...)
		if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
			cancel()
			<-stopped
			f.ordered(all)
			return all
		}
		require.NoError(f.t, err)
	}
}

func (f *feed) ordered(events []types.Event) {
	f.t.Helper()
	for i := 1; i < len(events); i++ {
		require.Positive(f.t, events[i].Cursor.Compare(events[i-1].Cursor), "cursors grow")
	}
}

// texts are the data of events, and of those that are none what they say.
func texts(events []types.Event) []string {
	all := make([]string, 0, len(events))
	for _, e := range events {
		if e.Err != nil {
			all = append(all, "error: "+e.Err.Error())
			continue
		}
		all = append(all, string(e.Data))
	}
	return all
}

// want asserts the texts of events. An entry "error: x" stands for one that says x somewhere.
func (f *feed) want(events []types.Event, want ...string) {
	f.t.Helper()
	got := texts(events)
	require.Len(f.t, got, len(want), "%q", got)
	for i := range want {
		if part, ok := strings.CutPrefix(want[i], "error: "); ok {
			require.ErrorContains(f.t, events[i].Err, part)
			continue
		}
		require.Equal(f.t, want[i], got[i])
	}
}

func primaries(events []types.Event) []uint64 {
	all := make([]uint64, 0, len(events))
	for _, e := range events {
		all = append(all, e.Cursor.Primary)
	}
	return all
}
