package localkv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const processes = 8

func TestProcessesRaiseOneCounterWithoutLosingAnUpdate(t *testing.T) {
	t.Parallel()
	const each = 25
	dir := t.TempDir()
	children := startChildren(t, processes)
	for _, c := range children {
		c.do("open %s multi-process", dir)
	}
	for _, c := range children {
		c.send("count counter %d", each)
	}
	for _, c := range children {
		c.answer() // an error, one of a lock included, ends the child
	}
	store := open(t, Options{Dir: dir})
	entry, found, err := store.Get(t.Context(), "counter")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, fmt.Sprint(processes*each), string(entry.Value))
}

func TestProcessesOpenOneFreshDirectoryAtOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	children := startChildren(t, processes)
	for round := range 30 {
		dir := filepath.Join(root, fmt.Sprintf("round%d", round), "data")
		for _, c := range children {
			c.send("open %s multi-process", dir)
		}
		for i, c := range children {
			c.answer()
			c.send("put key:%d value:%d", i, i)
		}
		for _, c := range children {
			c.answer()
			c.send("close")
		}
		for _, c := range children {
			c.answer()
		}
		store := open(t, Options{Dir: dir})
		page, err := store.ScanPrefix(t.Context(), "key:", types.ScanOptions{})
		require.NoError(t, err)
		require.Len(t, page.Entries, processes, "round %d", round)
		require.NoError(t, store.Close())
	}
}

func TestProcessesRacingForAnAbsentKeyHaveOneWinner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, Options{Dir: dir})
	children := startChildren(t, processes)
	for _, c := range children {
		c.do("open %s multi-process", dir)
	}
	for round := range 20 {
		key := fmt.Sprintf("race:%d", round)
		for i, c := range children {
			c.send("absent %s %d", key, i)
		}
		var winners []string
		for i, c := range children {
			if c.answer() == "true" {
				winners = append(winners, fmt.Sprint(i))
			}
		}
		require.Len(t, winners, 1, key)
		entry, _, err := store.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, winners[0], string(entry.Value), key)
	}
}

func TestKilledWriterLosesNoAcknowledgedPut(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{MultiProcess, SingleProcess} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var bystander *Store // has the store open all the time, where that is allowed
			if mode == MultiProcess {
				bystander = open(t, Options{Dir: dir})
			}
			for round := range 3 {
				writer := startChild(t)
				writer.do("open %s %s", dir, mode)
				writer.send("flood round%d: 4", round)
				stored := readUntilKilled(t, writer, 200)

				store := bystander
				if store == nil {
					store = open(t, Options{Dir: dir, Mode: mode}) // at once: the kill has freed the lock
				}
				for _, key := range stored {
					entry, found, err := store.Get(t.Context(), key)
					require.NoError(t, err)
					require.True(t, found, "%s was acknowledged and is gone", key)
					require.Equal(t, key, string(entry.Value))
				}
				_, err := store.Put(t.Context(), "after", nil, types.PutOptions{})
				require.NoError(t, err)
				require.NoError(t, store.Verify(t.Context()))
				if store != bystander {
					require.NoError(t, store.Close())
				}
			}
		})
	}
}

// readUntilKilled kills the writer once it has named n keys, and returns all that it has named.
func readUntilKilled(t *testing.T, writer *child, n int) []string {
	t.Helper()
	var keys []string
	for {
		line, err := writer.out.ReadString('\n')
		if errors.Is(err, io.EOF) {
			require.Empty(t, writer.stderr.String())
			require.GreaterOrEqual(t, len(keys), n)
			return keys
		}
		require.NoError(t, err)
		keys = append(keys, strings.TrimSuffix(line, "\n"))
		if len(keys) == n {
			require.NoError(t, writer.cmd.Process.Kill())
		}
	}
}

func TestReadsProceedWhileAnotherProcessHoldsTheWriteLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := newClock()
	store := open(t, Options{Dir: dir, Clock: clock})
	put(t, store, "live", "here", types.PutOptions{})
	put(t, store, "short", "gone soon", types.PutOptions{TTL: 1})
	clock.Advance(1e6)

	holder := startChild(t)
	require.Equal(t, "held", holder.do("hold %s", dir))

	// None of these could return if it waited for the lock, which is freed at the end.
	for range 20 {
		entry, found, err := store.Get(t.Context(), "live")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "here", string(entry.Value))
		found, err = store.Exists(t.Context(), "live")
		require.NoError(t, err)
		require.True(t, found)
		_, found, err = store.Get(t.Context(), "short")
		require.NoError(t, err)
		require.False(t, found, "an expired entry is absent")
		found, err = store.Exists(t.Context(), "short")
		require.NoError(t, err)
		require.False(t, found)
		page, err := store.ScanPrefix(t.Context(), "l", types.ScanOptions{})
		require.NoError(t, err)
		require.Len(t, page.Entries, 1)
	}

	holder.do("release")
	put(t, store, "live", "again", types.PutOptions{})
	require.NoError(t, store.Close()) // tries the removal that has been waiting
	require.Equal(t, [][]any{{"live"}}, rawRows(t, dir, "SELECT key FROM kv"))
}

func TestPutGivesUpOnALockThatIsNotFreed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, Options{Dir: dir})
	put(t, store, "key", "before", types.PutOptions{})
	holder := startChild(t)
	require.Equal(t, "held", holder.do("hold %s", dir))

	// This waits for the whole busy timeout of 5 seconds (R028).
	_, err := store.Put(t.Context(), "key", []byte("refused"), types.PutOptions{})
	require.ErrorIs(t, err, &ports.Error{Code: ports.CodeKvOperationFailed, Reason: ports.ReasonBusy})
	require.True(t, ports.IsTransient(err))
	require.Equal(t, "before", get(t, store, "key"))

	holder.do("release")
	put(t, store, "key", "after", types.PutOptions{})
	require.Equal(t, "after", get(t, store, "key"))
}

func TestSingleProcessModeKeepsOthersOut(t *testing.T) {
	t.Parallel()
	for _, first := range []Mode{SingleProcess, MultiProcess} {
		for _, second := range []Mode{SingleProcess, MultiProcess} {
			if first == MultiProcess && second == MultiProcess {
				continue
			}
			t.Run(first.String()+" then "+second.String(), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				holder := startChild(t)
				holder.do("open %s %s", dir, first)
				holder.do("put key value")
				_, err := Open(t.Context(), Options{Dir: dir, Mode: second, Log: testLog(t)})
				require.ErrorIs(t, err, ports.ErrInUse)
				require.ErrorContains(t, err, dir)

				require.NoError(t, holder.cmd.Process.Kill())
				_, err = io.Copy(io.Discard, bufio.NewReader(holder.out)) // until it is gone
				require.NoError(t, err)
				_ = holder.cmd.Wait() // reports the kill; the lock is free once it returns
				store := open(t, Options{Dir: dir, Mode: second})
				require.Equal(t, "value", get(t, store, "key"))
			})
		}
	}
}
