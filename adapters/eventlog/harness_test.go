package eventlog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/sourcetest"
	"github.com/stowage-go/stowage/types"
)

// harness makes sources the way a catalog does.
func harness(keys config) sourcetest.Harness {
	return sourcetest.Harness{
		New: func(t testing.TB) sourcetest.Stream {
			env := fixture.Env(t, "contract", fixture.NewClock(fixture.Epoch()))
			return sourcetest.Stream{
				Open: func(t testing.TB, from *types.Cursor) ports.Source {
					t.Helper()
					source, err := Module().Open(t.Context(), env, keys, from, nil)
					require.NoError(t, err)
					return source
				},
				AppendBad: func(t testing.TB, text string) {
					t.Helper()
					appendTo(t, lastFile(t, filepath.Join(env.StateDir, "events", "contract")), text+"\n")
				},
			}
		},
		Accepts: true,
	}
}

// open opens a log that the end of the test closes.
func open(t testing.TB, o Options) *Log {
	t.Helper()
	if o.Log == nil {
		o.Log = fixture.Logger(t)
	}
	log, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return log
}

// reopen closes a log and opens its directory again.
func reopen(t testing.TB, log *Log, from *types.Cursor) *Log {
	t.Helper()
	require.NoError(t, log.Close())
	o := log.o
	o.From = from
	return open(t, o)
}

// numbered are n events that can be told apart, from the number from on.
func numbered(from, n int) []types.Event {
	var events []types.Event
	for i := range n {
		events = append(events, types.Event{TS: int64(from + i + 1), Data: fmt.Appendf(nil, `{"n":%d}`, from+i)})
	}
	return events
}

func hand(t testing.TB, log *Log, events ...types.Event) {
	t.Helper()
	require.NoError(t, log.Accept(t.Context(), events))
}

// drain returns what the log has.
func drain(t testing.TB, log *Log) []types.Event {
	t.Helper()
	var all []types.Event
	for {
		log.mu.Lock()
		more := log.passed < log.end || log.reader.lost > 0
		log.mu.Unlock()
		if !more {
			return all
		}
		log.reading.Lock()
		events, err := log.read(ports.MaxReadEvents)
		log.reading.Unlock()
		require.NoError(t, err)
		all = append(all, events...)
	}
}

// data is what events hold, or that they are none.
func data(events []types.Event) []string {
	var all []string
	for _, e := range events {
		if e.Err != nil {
			all = append(all, "none")
			continue
		}
		all = append(all, string(e.Data))
	}
	return all
}

// files are the names in a directory, in order.
func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func lastFile(t testing.TB, dir string) string {
	t.Helper()
	names := files(t, dir)
	require.NotEmpty(t, names)
	return filepath.Join(dir, slices.Max(names))
}

// content is what a directory holds, byte for byte.
func content(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range files(t, dir) {
		all[name] = string(readFile(t, filepath.Join(dir, name)))
	}
	return all
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

func writeFile(t testing.TB, path string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	writeFile(t, path, append(readFile(t, path), text...))
}

// cancelled is for calls that must not wait.
func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// sized is an event of exactly size bytes.
func sized(size int) []byte { return []byte(fixture.JSONOfSize(size).Data) }
