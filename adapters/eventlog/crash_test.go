package eventlog

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func TestKilledWritersLoseNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var from *types.Cursor
	for round := range 6 {
		writer := startChild(t, "flood", round, dir)
		require.Equal(t, "open", writer.line(t))
		acknowledged := map[string]bool{}
		for writer.out.Scan() {
			acknowledged[writer.out.Text()] = true
			if len(acknowledged) == 150+30*round {
				require.NoError(t, writer.cmd.Process.Kill())
			}
		}
		require.Error(t, writer.cmd.Wait())
		require.Empty(t, writer.stderr.String())

		log := open(t, Options{Dir: dir, SegmentBytes: 64 << 10, From: from})
		var call string // the one whose events are coming
		next, due := 0, 0
		highest := map[string]int{}
		events := drain(t, log)
		for _, e := range events {
			require.NoError(t, e.Err, "an event that is torn")
			words := strings.Fields(strings.Trim(string(e.Data), `"`)) // call, which event of it, of how many
			if due == 0 {
				call, next, due = words[0], 0, atoi(t, words[2])
			}
			require.Equal(t, call, words[0], "the events of a call stay together")
			require.Equal(t, next, atoi(t, words[1]), "in their order")
			next++
			due--
			if due == 0 {
				delete(acknowledged, call)
				parts := strings.Split(call, ".")
				i := atoi(t, parts[2])
				require.Equal(t, highest[parts[1]], i, "the calls of a writer in their order, and none left out")
				highest[parts[1]] = i + 1
			}
		}
		require.Zero(t, due, "a call comes whole or not at all")
		require.Empty(t, acknowledged, "acknowledged and gone")
		if round%2 == 1 {
			require.NoError(t, log.Settle(t.Context(), events[len(events)-1].Cursor))
		}
		from = &events[len(events)-1].Cursor
		require.NoError(t, log.Close())
	}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// A limit on the size of files stands for a disk without room: the system refuses a write in its middle.
func TestFullDiskRefusesAndLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writer := startChild(t, "limit", 0, dir)
	var want []string
	for writer.out.Scan() {
		want = append(want, data(numbered(atoi(t, writer.out.Text()), 7))...)
	}
	require.NoError(t, writer.cmd.Wait(), writer.stderr.String())
	log := open(t, Options{Dir: dir})
	require.Equal(t, want, data(drain(t, log)))
	require.Len(t, files(t, dir), 1)
	require.Greater(t, len(readFile(t, lastFile(t, dir))), fileLimit-500)
}

// The real thing, where this user may mount one.
func TestFullFileSystemRefusesAndLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Skipf("mounting a small file system needs a privilege that this user does not have (%v); TestFullDiskRefusesAndLosesNothing does without", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	for name, segment := range map[string]int64{"one file": 0, "many files": minSegmentBytes} {
		path := dir + "/" + strings.ReplaceAll(name, " ", "-")
		log := open(t, Options{Dir: path, SegmentBytes: segment})
		var want []string
		for i, full := 0, 0; full < 5; i++ {
			event := types.Event{Data: fmt.Appendf(nil, `"%d%s"`, i, strings.Repeat("x", 3000))}
			err := log.Accept(t.Context(), []types.Event{event})
			if err == nil {
				want = append(want, string(event.Data))
				continue
			}
			full++
			require.ErrorIs(t, err, &ports.Error{Code: ports.CodeBackendFailed, Reason: ports.ReasonDiskFull}, name)
		}
		require.Greater(t, len(want), 40, name)
		all := drain(t, log)
		require.Equal(t, want, data(all), name)
		log = reopen(t, log, &all[len(all)-2].Cursor) // also with a full disk
		require.Equal(t, want[len(want)-1:], data(drain(t, log)), name)
		require.NoError(t, log.Settle(t.Context(), all[len(all)-1].Cursor))
		if segment > 0 {
			hand(t, log, types.Event{Data: sized(3000)}) // there is room again
		}
		require.NoError(t, log.Close())
		require.NoError(t, os.RemoveAll(path))
	}
	log := open(t, Options{Dir: dir + "/again", Log: fixture.Logger(t)})
	hand(t, log, numbered(0, 1)...)
	require.NoError(t, log.Close())
}
