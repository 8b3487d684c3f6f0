package sqlitefile

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/stowage-go/stowage/ports"
)

// The tests below run this binary again as processes of their own.
const roleVariable = "SQLITEFILE_TEST_ROLE"

func TestMain(m *testing.M) {
	role, ok := os.LookupEnv(roleVariable)
	if !ok {
		os.Exit(m.Run())
	}
	if err := child(role, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(role, dir string) error {
	o := itemOptions(dir)
	switch role {
	case "owner":
	case "sharer", "starter":
		o.Ownership = SharedDirectory
	case "file owner":
		o.Ownership = ExclusiveFile
	case "migrator":
		o = migrationOptions(dir)
		o.Schema = Versioned(append(migrationSteps(), endlessStep)...)
	}
	if role == "starter" {
		// All starters wait for the end of their input, which comes to all at once.
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err == nil {
			return fmt.Errorf("unexpected input")
		}
	}
	f, err := Open(context.Background(), o)
	if err != nil {
		return err
	}
	if role == "starter" {
		if err := insert(f, strconv.Itoa(os.Getpid())); err != nil {
			return err
		}
		return f.Close()
	}
	// Write until killed, and say what is durable.
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i)
				if err := insert(f, name); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				mu.Lock()
				fmt.Println(name)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return nil
}

func start(t *testing.T, role, dir string) (cmd *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], dir)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

func TestASecondOwnerInAnotherProcessFailsAtOnceAndNamesTheFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, lines := start(t, "owner", dir)
	require.True(t, lines.Scan())
	_, err := Open(t.Context(), itemOptions(dir))
	require.ErrorIs(t, err, ports.ErrInUse)
	assert.Contains(t, err.Error(), dir)
	assert.Contains(t, err.Error(), fmt.Sprintf("process %d", cmd.Process.Pid))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	f := open(t, itemOptions(dir))
	assert.Contains(t, names(t, f), lines.Text(), "a kill frees the lock")
}

func TestAKillLosesNothingThatWasAnswered(t *testing.T) {
	t.Parallel()
	for round := range 5 {
		dir := t.TempDir()
		role := []string{"owner", "sharer"}[round%2]
		cmd, lines := start(t, role, dir)
		var answered []string
		for len(answered) < 100+round*37 && lines.Scan() {
			answered = append(answered, lines.Text())
		}
		require.NoError(t, cmd.Process.Kill())
		for lines.Scan() {
			answered = append(answered, lines.Text())
		}
		_ = cmd.Wait() // killed
		f := open(t, itemOptions(dir))
		require.NoError(t, f.Verify(t.Context()))
		assert.Subset(t, names(t, f), answered)
	}
}

func TestManyProcessesOpenOneFreshDirectoryAtOnce(t *testing.T) {
	t.Parallel()
	for range 30 {
		openTogether(t, filepath.Join(t.TempDir(), "fresh"))
	}
}

// A backup is no database in WAL mode yet; the first to open it makes it one.
func TestManyProcessesOpenOneRestoredBackupAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	for range 10 {
		dir := t.TempDir()
		require.NoError(t, f.Backup(t.Context(), filepath.Join(dir, "item.sqlite")))
		openTogether(t, dir)
	}
}

// openTogether lets processes open a store at the same instant, and write to it.
func openTogether(t *testing.T, dir string) {
	t.Helper()
	const processes = 8
	gate, opener, err := os.Pipe()
	require.NoError(t, err)
	var cmds []*exec.Cmd
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0], dir)
		cmd.Env = append(os.Environ(), roleVariable+"=starter")
		cmd.Stdin, cmd.Stderr = gate, os.Stderr
		require.NoError(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	require.NoError(t, gate.Close())
	require.NoError(t, opener.Close())
	for _, cmd := range cmds {
		require.NoError(t, cmd.Wait())
	}
	f := open(t, itemOptions(dir))
	require.Len(t, names(t, f), processes)
	require.NoError(t, f.Close())
}

func TestAnOpenDoesNotWaitForAnotherProcessThatWrites(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Ownership = SharedDirectory
	first := open(t, o)
	release := hold(t, first)
	o.BusyTimeout = time.Millisecond
	second := open(t, o)
	assert.Empty(t, names(t, second))
	require.ErrorIs(t, insert(second, "busy"), ports.ErrBusy)
	release()
	require.NoError(t, insert(second, "free"))
}

// A power cut may keep any beginning of what the log got after the last sync. Every cut behind an
// answer must hold what was answered, and none may hold a part of an operation.
func TestAPowerCutKeepsWholeOperationsAndAllThatWasAnswered(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	f := open(t, o)
	type point struct {
		log int64 // size of the log when the operation was answered
		ops int
	}
	var answers []point
	for i := range 12 {
		require.NoError(t, f.Write(t.Context(), "pair", func(tx *Tx) error {
			for _, half := range []string{"a", "b"} {
				if _, err := tx.Exec(insertRow, fmt.Sprint(i, half), make([]byte, 3000)); err != nil {
					return err
				}
			}
			return nil
		}))
		info, err := os.Stat(o.Path + "-wal")
		require.NoError(t, err)
		answers = append(answers, point{info.Size(), i + 1})
	}
	require.NoError(t, f.Read(t.Context(), "sync level", func(c *Conn) error {
		return c.Query("PRAGMA synchronous", func(r Row) error { assert.Equal(t, int64(2), r.Int64(0)); return nil })
	}))
	// Reading the files by other means is safe here only because nothing else in the process depends
	// on the locks of this store: the test owns it and writes nothing more.
	database, err := os.ReadFile(o.Path)
	require.NoError(t, err)
	log, err := os.ReadFile(o.Path + "-wal")
	require.NoError(t, err)
	for cut := int64(0); cut <= int64(len(log)); cut += 1237 {
		crashed := itemOptions(t.TempDir())
		require.NoError(t, os.WriteFile(crashed.Path, database, 0o600))
		require.NoError(t, os.WriteFile(crashed.Path+"-wal", log[:cut], 0o600))
		g, err := Open(t.Context(), crashed)
		require.NoError(t, err)
		stored := names(t, g)
		require.NoError(t, g.Close())
		require.Zero(t, len(stored)%2, "half an operation survived a cut at %d", cut)
		for _, a := range answers {
			if a.log <= cut {
				require.GreaterOrEqual(t, len(stored), 2*a.ops, "an answered operation is gone after a cut at %d", cut)
			}
		}
	}
}

func TestALogStaysBoundedUnderLoad(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Durability = DurabilityNormal
	f := open(t, o)
	var largest int64
	for i := range 150 {
		require.NoError(t, f.Write(t.Context(), "megabyte", func(tx *Tx) error {
			_, err := tx.Exec(insertRow, fmt.Sprint(i), make([]byte, 1<<20))
			return err
		}))
		largest = max(largest, f.Stats().LogBytes)
		// Readers inside the process come and go and hold nothing back.
		require.NoError(t, f.Read(t.Context(), "count", func(c *Conn) error {
			return c.Query("SELECT count(*) FROM item", func(Row) error { return nil })
		}))
	}
	assert.LessOrEqual(t, largest, int64(maxLogBytes+2<<20))
	assert.Positive(t, f.Stats().Checkpoints)
	assert.False(t, f.Stats().Pinned)
}

func TestAReaderOutsideThatPinsTheLogIsReportedAndHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Durability = DurabilityNormal
	var said lockedBuffer
	o.Log = said.logger()
	f := open(t, o)
	require.NoError(t, insert(f, "one"))
	outside, err := dial(o.Path, modeOpen, time.Second)
	require.NoError(t, err)
	for _, s := range []string{"BEGIN", "SELECT count(*) FROM item"} {
		_, err := outside.Exec(s, nil)
		require.NoError(t, err)
	}
	write := func(i int) {
		require.NoError(t, f.Write(t.Context(), "megabyte", func(tx *Tx) error {
			_, err := tx.Exec(insertRow, fmt.Sprint(i), make([]byte, 1<<20))
			return err
		}))
		f.checkpoints.wg.Wait() // the long pass, so that the outcome does not hang on its speed
	}
	for i := range 40 {
		write(i)
	}
	assert.True(t, f.Stats().Pinned)
	assert.Equal(t, 1, strings.Count(said.String(), "keeps the write-ahead log from being reused"))
	require.NoError(t, outside.Close())
	for i := range 40 {
		write(100 + i)
	}
	assert.False(t, f.Stats().Pinned)
	assert.LessOrEqual(t, f.Stats().LogBytes, int64(maxLogBytes))
}

func TestAFullDiskFailsClearlyAndGoesOnOnceItIsFreed(t *testing.T) {
	t.Parallel()
	dir := mountTmpfs(t, "size=1m")
	f := open(t, itemOptions(dir))
	filler := filepath.Join(dir, "filler")
	require.NoError(t, insert(f, "before"))
	var full error
	stored := 1
	for i := range 1000 {
		err := f.WriteOne(t.Context(), "fill", func(tx *Tx) error {
			_, err := tx.Exec(insertRow, fmt.Sprint(i), make([]byte, 10_000))
			return err
		})
		if err != nil {
			full = err
			break
		}
		stored++
		if i == 10 {
			require.NoError(t, os.WriteFile(filler, make([]byte, 400_000), 0o600))
		}
	}
	require.ErrorIs(t, full, ports.ErrDiskFull)
	assert.Contains(t, full.Error(), "free space")
	assert.Len(t, names(t, f), stored)
	require.ErrorIs(t, f.HealthCheck(t.Context()), ports.ErrDiskFull)
	require.NoError(t, os.Remove(filler))
	require.NoError(t, insert(f, "after"))
	assert.Len(t, names(t, f), stored+1)
	require.NoError(t, f.Verify(t.Context()))
}

// A log that fills the disk is used again from its front: what needs no room of its own goes on, such as
// a deletion, which may be what makes room.
func TestAFullDiskTakesWhatNeedsNoRoom(t *testing.T) {
	t.Parallel()
	dir := mountTmpfs(t, "size=2m")
	f := open(t, itemOptions(dir))
	for i := range 10 {
		require.NoError(t, f.WriteOne(t.Context(), "fill", func(tx *Tx) error {
			_, err := tx.Exec(insertRow, fmt.Sprint(i), make([]byte, 10_000))
			return err
		}))
	}
	require.NoError(t, f.Close())
	f = open(t, itemOptions(dir)) // the log is in the database, which has its size
	failed := 0
	for i := range 200 {
		err := f.WriteOne(t.Context(), "change", func(tx *Tx) error {
			_, err := tx.Exec("UPDATE item SET body = ?1", []byte(strings.Repeat(string(rune(0x41+i%26)), 10_000)))
			return err
		})
		if err != nil {
			require.ErrorIs(t, err, ports.ErrDiskFull)
			failed++
		}
	}
	assert.NotZero(t, failed, "the log has grown to the size of the disk")
	assert.Less(t, failed, 50)
	require.NoError(t, f.WriteOne(t.Context(), "delete", func(tx *Tx) error {
		_, err := tx.Exec("DELETE FROM item")
		return err
	}))
	require.NoError(t, f.HealthCheck(t.Context()))
	require.NoError(t, f.Verify(t.Context()))
}

// Whatever room there is when a store is made, what is left when that fails can be opened once there
// is more.
func TestAStoreThatCouldNotBeMadeOnAFullDiskIsMadeOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	failures := 0
	for pages := 1; pages <= 24; pages++ {
		dir := mountTmpfs(t, "size="+strconv.Itoa(4*pages)+"k")
		o := itemOptions(dir)
		f, err := Open(t.Context(), o)
		if err != nil {
			failures++
			require.ErrorIs(t, err, ports.ErrDiskFull, "%d pages", pages)
			require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
		} else if err := insert(f, "first"); err != nil {
			require.ErrorIs(t, err, ports.ErrDiskFull, "%d pages", pages)
		}
		require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "size=1m"))
		if f == nil {
			f, err = Open(t.Context(), o)
			require.NoError(t, err, "%d pages", pages)
		}
		require.NoError(t, insert(f, "second"))
		require.NoError(t, f.Verify(t.Context()))
		require.NoError(t, f.Close())
	}
	assert.NotZero(t, failures)
	assert.Less(t, failures, 24)
}

// A store that is told apart by its health gets no writes while it is ill.
func TestHealthIsFoundAgainWithoutAWriteOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	dir := mountTmpfs(t, "size=1m")
	f := open(t, itemOptions(dir))
	longAgo := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lastAt = f.lastAt.Add(-2 * probeAfter)
	}
	filler, err := os.Create(filepath.Join(dir, "filler"))
	require.NoError(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, filler.Close())
	for err = nil; err == nil; {
		err = f.WriteOne(t.Context(), "fill", func(tx *Tx) error {
			_, err := tx.Exec(insertRow, rand.Text(), make([]byte, 5000))
			return err
		})
	}
	require.ErrorIs(t, err, ports.ErrDiskFull)
	require.ErrorIs(t, f.HealthCheck(t.Context()), ports.ErrDiskFull)
	longAgo()
	require.ErrorIs(t, f.HealthCheck(t.Context()), ports.ErrDiskFull, "the disk is full still")
	require.NoError(t, os.Remove(filler.Name()))
	longAgo()
	require.NoError(t, f.HealthCheck(t.Context()))
	require.NoError(t, f.HealthCheck(t.Context()), "that is remembered")
	require.NoError(t, f.Verify(t.Context()))
}

func TestAFileSystemWithoutInodesIsFull(t *testing.T) {
	t.Parallel()
	for inodes := 2; ; inodes++ {
		dir := mountTmpfs(t, fmt.Sprintf("size=4m,nr_inodes=%d", inodes))
		f, err := Open(t.Context(), itemOptions(filepath.Join(dir, "data")))
		if err == nil {
			require.Greater(t, inodes, 2)
			require.NoError(t, f.Close())
			return
		}
		require.ErrorIs(t, err, ports.ErrDiskFull, "with %d inodes", inodes)
	}
}

func TestAReadOnlyFileSystemIsSaidSo(t *testing.T) {
	t.Parallel()
	dir := mountTmpfs(t, "size=2m")
	o := itemOptions(filepath.Join(dir, "data"))
	require.NoError(t, open(t, o).Close())
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	before := tree(t, dir)
	for _, path := range []string{o.Path, filepath.Join(dir, "fresh", "item.sqlite")} {
		o.Path = path
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, ports.ErrReadOnly)
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	}
	assert.Equal(t, before, tree(t, dir))
}

// mountTmpfs needs a privilege that a developer's machine may withhold; CI has it.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a small file system cannot be mounted here, which needs root: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}
