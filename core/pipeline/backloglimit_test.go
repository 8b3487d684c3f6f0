//go:build unix

package pipeline

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const envLimited = "STOWAGE_TEST_BACKLOG_LIMITED"

// A file that could be made and not be written, as on a full disk, is no part of the backlog: what it
// should have held is in memory. The limit of file sizes is the process's, so this runs in one of its own.
func TestBacklogOfAFullDiskGoesOn(t *testing.T) {
	if os.Getenv(envLimited) == "" {
		t.Parallel()
		program, err := os.Executable()
		require.NoError(t, err)
		child := exec.CommandContext(t.Context(), program, "-test.run=^TestBacklogOfAFullDiskGoesOn$")
		child.Env = append(os.Environ(), envLimited+"=1")
		said, err := child.CombinedOutput()
		require.NoError(t, err, "%s", said)
		return
	}
	dir := t.TempDir()
	b := newBacklog(dir, "p", 10)
	signal.Ignore(syscall.SIGXFSZ)
	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: was.Max}))
	failed := 0
	for n := range 40 {
		if b.push(waitingFrom(n*10, 10, spillChunk/8)...) != nil {
			failed++
		}
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)
	taken := takeAll(t, b, 100)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	require.Positive(t, failed)
	require.NoError(t, b.push(waitingFrom(400, 10, spillChunk/8)...))
	for b.len() > 0 {
		taken = append(taken, takeAll(t, b, 100)...)
	}
	require.Equal(t, waitingFrom(0, 410, spillChunk/8), taken)
	require.NoError(t, b.close())
}
