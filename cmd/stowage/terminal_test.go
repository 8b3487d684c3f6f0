package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// terminal runs a command line on a terminal of its own, types the input, and returns what the
// terminal showed and the exit code.
func terminal(t *testing.T, dir, input, line string) (string, int) {
	t.Helper()
	script, err := exec.LookPath("script")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("this needs script(1) of util-linux, which makes a terminal, and it is not here")
	}
	cmd := exec.CommandContext(t.Context(), script, "-qec", line, "/dev/null")
	cmd.Dir, cmd.Env = dir, cleanEnvironment()
	cmd.Stdin = strings.NewReader(input)
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err, "%s", output)
	}
	return string(output), cmd.ProcessState.ExitCode()
}

func TestOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := launch(t, dir)
	d.create(t, "orders")
	write(t, filepath.Join(dir, "lines"), strings.Repeat("1\n", 50)+"bad\n", 0o600)
	to := " --server " + d.address
	total := func() int64 {
		stats, err := d.queue(t, "orders").Stats(t.Context())
		require.NoError(t, err)
		return stats.Total
	}

	shown, code := terminal(t, dir, "", "stowage queue send orders --ndjson lines"+to)
	assert.Equal(t, exitPartly, code, shown)
	assert.Contains(t, shown, "\r\x1b[K[", "a bar is drawn")
	assert.Contains(t, shown, "line 51: ")
	assert.Contains(t, shown, "sent 50, rejected 1, unknown 0")
	assert.Equal(t, int64(50), total())

	for _, command := range []string{"purge", "delete"} {
		for _, answer := range []string{"n\n", "\n"} {
			shown, code = terminal(t, dir, answer, "stowage queue "+command+" orders"+to)
			assert.Equal(t, exitFailed, code, shown)
			assert.Contains(t, shown, "orders")
			assert.Contains(t, shown, "[y/N]")
			assert.Contains(t, shown, "nothing was done")
			assert.Equal(t, int64(50), total())
		}
	}
	shown, code = terminal(t, dir, "y\n", "stowage queue purge orders"+to)
	assert.Equal(t, exitDone, code, shown)
	assert.Zero(t, total())
	shown, code = terminal(t, dir, "yes\n", "stowage queue delete orders"+to)
	assert.Equal(t, exitDone, code, shown)
}
