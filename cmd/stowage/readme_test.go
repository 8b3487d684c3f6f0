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

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/testkit/fixture"
)

// readmeBlock is the block of a language in README.md that begins behind a text and holds another.
func readmeBlock(t *testing.T, language, behind, with string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.FromSlash("../../README.md"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), behind)
	require.True(t, ok, "README.md has %q", behind)
	for {
		_, rest, ok = strings.Cut(rest, "```"+language+"\n")
		require.True(t, ok, "README.md has a block with %q", with)
		block, after, ok := strings.Cut(rest, "```\n")
		require.True(t, ok)
		if strings.Contains(block, with) {
			return block
		}
		rest = after
	}
}

// clone makes a directory that has of a clone what the commands of README.md use.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	stowage, err := exec.LookPath("stowage")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
	require.NoError(t, os.Symlink(stowage, filepath.Join(dir, "bin", "stowage")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, quickstartDir), 0o700))
	for _, name := range []string{quickstartEvents, defaultConfigFile} {
		require.NoError(t, os.Symlink(filepath.Join(quickstartFiles(t), name), filepath.Join(dir, quickstartDir, name)))
	}
	return dir
}

// freeAddress is a host and port at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// bash runs a script as a newcomer would, at an address of its own, since another daemon may run on the
// machine of the test.
func bash(t *testing.T, dir, address, script string) string {
	t.Helper()
	script = strings.ReplaceAll(script, "stowage serve", "stowage serve --listen "+address)
	script = strings.ReplaceAll(script, "127.0.0.1:7420", address)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -e -o pipefail\n"+script)
	cmd.Dir = dir
	cmd.Env = append(cleanEnvironment(), envServer+"=http://"+address)
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return string(output)
}

// What a newcomer types works, word for word.
func TestReadmeFirstScreen(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.FromSlash("../../Makefile"))
	require.NoError(t, err)
	assert.Contains(t, string(makefile), "\nrun: build ", "make run builds first")
	assert.Contains(t, string(makefile), "exec bin/stowage quickstart $(ARGS)\n")

	dir, address := clone(t), freeAddress(t)
	q := startQuickstartIn(t, dir, "bin/stowage", []string{"quickstart", "--listen", address, "--receiver-listen", "127.0.0.1:0", "--speed", "0", "--no-receiver"})
	q.state = filepath.Join(dir, "stowage-data", "quickstart")
	q.until(t, "all is dealt with", settledAt(1707))
	_, err = q.stdin.Write([]byte("r\n"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(q.printed(), "the receiver was started") }, waitFor, tick)

	script := readmeBlock(t, "sh", "# Stowage", "export STOWAGE_STATE_DIR=")
	output := bash(t, dir, address, script)
	assert.Contains(t, output, "replayed 85, failed 0")
	assert.Contains(t, output, "stowage_pipeline_deliveries_total")
	assert.Equal(t, 22, strings.Count(output, `"type":"emission"`))
	assert.Len(t, q.received(t), 85)
	for line := range strings.Lines(script) { // the screen says the same
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "bin/stowage "); ok && !strings.Contains(command, "resume") {
			words := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(command, " --yes", ""), " --max 100", ""))
			assert.Contains(t, q.printed(), strings.Join(words, " "))
		}
	}
	q.stop(t)
}

func TestReadmePipelines(t *testing.T) {
	t.Parallel()
	text := readmeBlock(t, "toml", "## Pipelines", "[[pipeline]]")
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "stowage.toml"), []byte(text))
	require.NoError(t, err)
	stores, err := newCatalog().Compose(cfg, catalog.Options{Log: fixture.Logger(t)})
	require.NoError(t, err)
	require.NoError(t, stores.Close(t.Context()))

	dir, address := clone(t), freeAddress(t)
	script := "trap 'kill $!' EXIT\n" + readmeBlock(t, "sh", "## Pipelines", "pipeline put") + "trap - EXIT\n"
	output := bash(t, dir, address, script)
	for _, want := range []string{"pipeline tides has version 1\n", "accepted 1\n", `{"accepted":1}`, "tides     running  resource", `"level":3.2`} {
		assert.Contains(t, output, want)
	}
}

func TestReadmeQueues(t *testing.T) {
	t.Parallel()
	script := readmeBlock(t, "sh", "## Queues", "kill -9")
	require.Contains(t, script, "make build\n")
	script = strings.Replace(script, "make build\n", "", 1)
	more := readmeBlock(t, "sh", "## Queues", "kv put")
	script = "trap 'kill $!' EXIT\n" + script + more + "kill -TERM $!\nwait $!\ntrap - EXIT\n"

	dir := clone(t)
	output := bash(t, dir, freeAddress(t), script)
	assert.Contains(t, output, "sent 1707, rejected 0, unknown 0\n")
	assert.Contains(t, output, "1707 bin/received.jsonl")
	assert.Regexp(t, `(?m)^0 +0 +0 +0 +0 +0s$`, output)
	assert.Contains(t, output, "hello")
	assert.Contains(t, output, `{"end":{"records":1}}`)

	sent, err := os.ReadFile(filepath.Join(dir, quickstartDir, quickstartEvents))
	require.NoError(t, err)
	received, err := os.ReadFile(filepath.Join(dir, "bin", "received.jsonl"))
	require.NoError(t, err)
	assert.Equal(t, 1707, bytes.Count(received, []byte("\n")))
	var payloads []byte
	for line := range bytes.Lines(received) {
		payloads = append(payloads, append(dataOf(t, line), '\n')...)
	}
	assert.True(t, bytes.Equal(sent, payloads), "received is what was sent, in its order")
}

// The configuration of the quickstart is the one that README.md and the guide of the screen speak of.
func TestTheQuickstartsConfigurationIsGood(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(filepath.Join(quickstartFiles(t), defaultConfigFile))
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(cfg.StateDir, filepath.FromSlash("/stowage-data/quickstart")), cfg.StateDir)
	require.NoError(t, cfg.SetStateDir(t.TempDir()))
	require.NoError(t, makeWebhookSecret(filepath.Join(cfg.StateDir, quickstartSecret)))
	stores, err := newComposition(cfg, fixture.Logger(t))
	require.NoError(t, err)
	require.NoError(t, stores.Close(t.Context()))
	require.Len(t, cfg.Pipelines, 1)
	assert.Equal(t, quickstartPipeline, cfg.Pipelines[0].ID)
}

// cleanEnvironment is that of the test without what commands of stowage read.
func cleanEnvironment() []string {
	env := []string{"GORACE=" + noRaceDelay}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "STOWAGE_") {
			env = append(env, entry)
		}
	}
	return env
}
