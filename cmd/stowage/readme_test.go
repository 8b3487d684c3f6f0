package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a newcomer types works, word for word. Only the port differs, since another daemon may run on
// the machine of the test, and the build, since the test is the binary.
func TestReadmeWalkThrough(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.FromSlash("../../README.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "## Earthquakes")
	require.True(t, ok, "README.md has the walk-through")
	_, section, ok = strings.Cut(section, "```sh\n")
	require.True(t, ok)
	script, _, ok := strings.Cut(section, "```\n")
	require.True(t, ok)
	require.Contains(t, script, "make build\n")
	script = strings.Replace(script, "make build\n", "", 1)

	dir := t.TempDir()
	quakes, err := filepath.Abs(filepath.FromSlash("../../docs/examples/quickstart/earthquakes.ndjson"))
	require.NoError(t, err)
	stowage, err := exec.LookPath("stowage")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
	require.NoError(t, os.Symlink(stowage, filepath.Join(dir, "bin", "stowage")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "docs", "examples", "quickstart"), 0o700))
	require.NoError(t, os.Symlink(quakes, filepath.Join(dir, "docs", "examples", "quickstart", "earthquakes.ndjson")))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	script = strings.ReplaceAll(script, "stowage serve", "stowage serve --listen "+address)
	script = "set -e\ntrap 'kill $!' EXIT\n" + script + "kill -TERM $!\nwait $!\ntrap - EXIT\n"

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(cleanEnvironment(), envServer+"=http://"+address)
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	assert.Contains(t, string(output), "sent 1707, rejected 0, unknown 0\n")
	assert.Contains(t, string(output), "1707 bin/received.jsonl")
	assert.Regexp(t, `(?m)^0 +0 +0 +0 +0 +0s$`, string(output))

	sent, err := os.ReadFile(quakes)
	require.NoError(t, err)
	received, err := os.ReadFile(filepath.Join(dir, "bin", "received.jsonl"))
	require.NoError(t, err)
	assert.Equal(t, 1707, bytes.Count(received, []byte("\n")))
	var payloads []byte
	for _, line := range bytes.SplitAfter(received, []byte("\n")) {
		if len(line) > 0 {
			payloads = append(payloads, append(dataOf(t, line), '\n')...)
		}
	}
	assert.True(t, bytes.Equal(sent, payloads), "received is what was sent, in its order")
}

// cleanEnvironment is that of the test without what commands of stowage read.
func cleanEnvironment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "STOWAGE_") {
			env = append(env, entry)
		}
	}
	return env
}
