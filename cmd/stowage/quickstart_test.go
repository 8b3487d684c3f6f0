package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// quickstartRunning is "stowage quickstart" in a process of its own.
type quickstartRunning struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	state   string
	address string
	done    chan error

	mu   sync.Mutex
	text strings.Builder
}

func quickstartFiles(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.FromSlash("../../docs/examples/quickstart"))
	require.NoError(t, err)
	return dir
}

func startQuickstart(t *testing.T, state string, args ...string) *quickstartRunning {
	t.Helper()
	stowage, err := exec.LookPath("stowage")
	require.NoError(t, err)
	base := []string{"quickstart", "--dir", quickstartFiles(t), "--state-dir", state, "--listen", "127.0.0.1:0", "--receiver-listen", "127.0.0.1:0", "--speed", "0"}
	q := startQuickstartIn(t, t.TempDir(), stowage, append(base, args...))
	q.state = state
	return q
}

func startQuickstartIn(t *testing.T, dir, program string, args []string) *quickstartRunning {
	t.Helper()
	cmd := exec.Command(program, args...)
	if !filepath.IsAbs(program) {
		cmd.Path = filepath.Join(dir, program)
	}
	q := &quickstartRunning{cmd: cmd, done: make(chan error, 1)}
	q.cmd.Dir, q.cmd.Env = dir, cleanEnvironment()
	var err error
	q.stdin, err = q.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := q.cmd.StdoutPipe()
	require.NoError(t, err)
	var problems bytes.Buffer
	q.cmd.Stderr = &problems
	require.NoError(t, q.cmd.Start())
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			q.mu.Lock()
			fmt.Fprintln(&q.text, lines.Text())
			q.mu.Unlock()
			if address, ok := strings.CutPrefix(lines.Text(), "stowage is ready at "); ok {
				ready <- address
			}
		}
		close(ready)
		q.done <- q.cmd.Wait()
		close(q.done)
	}()
	t.Cleanup(func() {
		_ = q.cmd.Process.Kill() // it has ended, unless the test has failed
		<-q.done
	})
	address, ok := <-ready
	if !ok {
		err := <-q.done
		require.Fail(t, "the quickstart did not start", "%v %s", err, &problems)
	}
	q.address = address
	return q
}

func (q *quickstartRunning) printed() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.text.String()
}

func (q *quickstartRunning) client(t *testing.T) operatorClient {
	t.Helper()
	token, err := readToken(adminTokenFile(q.state))
	require.NoError(t, err)
	client, err := newOperatorClient(q.address, token)
	require.NoError(t, err)
	return client
}

// until waits for a status of the pipeline.
func (q *quickstartRunning) until(t *testing.T, what string, holds func(types.PipelineStatus) bool) types.PipelineStatus {
	t.Helper()
	client := q.client(t)
	var last types.PipelineStatus
	var lastErr error
	require.Eventually(t, func() bool {
		last, lastErr = client.Pipeline(t.Context(), quickstartPipeline)
		return lastErr == nil && holds(last)
	}, time.Minute, 20*time.Millisecond, "%s: %v", what, describedStatus{&last, &lastErr})
	return last
}

// describedStatus prints what was seen last when a wait fails.
type describedStatus struct {
	status *types.PipelineStatus
	err    *error
}

func (d describedStatus) String() string { return fmt.Sprintf("%+v %v", *d.status, *d.err) }

func settledAt(events uint64) func(types.PipelineStatus) bool {
	return func(p types.PipelineStatus) bool {
		return p.Events == events && p.Pending == 0 && p.Checkpoint != nil && p.Read != nil && *p.Checkpoint == *p.Read
	}
}

// stop sends SIGTERM and wants a clean end.
func (q *quickstartRunning) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, q.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-q.done:
		require.NoError(t, err, "%s", q.printed())
	case <-time.After(time.Minute):
		require.Fail(t, "the quickstart did not end within a minute", "%s", q.printed())
	}
}

// received are the deliveries to the receiver of all runs of the state directory.
func (q *quickstartRunning) received(t *testing.T) []receivedItem {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(q.state, "received.jsonl"))
	require.NoError(t, err)
	var items []receivedItem
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("{")) {
			continue // what it said on standard error
		}
		var item receivedItem
		require.NoError(t, json.Unmarshal(line, &item))
		items = append(items, item)
	}
	return items
}

// command runs a command on the daemon of the quickstart.
func (q *quickstartRunning) command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "stowage", args...)
	cmd.Env = append(cleanEnvironment(), envServer+"="+q.address, envStateDir+"="+q.state)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v: %s", args, output)
	return string(output)
}

type quake struct {
	ID   string  `json:"id"`
	Time int64   `json:"time"`
	Mag  float64 `json:"mag"`
	Net  string  `json:"net"`
}

func quakes(t *testing.T) []quake {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(quickstartFiles(t), quickstartEvents))
	require.NoError(t, err)
	var list []quake
	for line := range bytes.Lines(text) {
		var q quake
		require.NoError(t, json.Unmarshal(line, &q))
		list = append(list, q)
	}
	require.Len(t, list, 1707)
	return list
}

// swarms is what the gate of the quickstart has to let through, worked out anew: three earthquakes of a
// network within an hour, and six hours of silence after each.
func swarms(list []quake) (keys []string, hits []uint64, last []string) {
	window, cooldown := time.Hour.Milliseconds(), 6*time.Hour.Milliseconds()
	counted, emitted := map[string][]int64{}, map[string]int64{}
	for _, q := range list {
		if q.Mag < 2.5 {
			continue
		}
		times := slices.DeleteFunc(counted[q.Net], func(at int64) bool { return at <= q.Time-window })
		times = append(times, q.Time)
		at, before := emitted[q.Net]
		if len(times) >= 3 && (!before || q.Time-at >= cooldown) {
			keys, hits, last = append(keys, q.Net), append(hits, uint64(len(times))), append(last, q.ID)
			emitted[q.Net], times = q.Time, nil
		}
		counted[q.Net] = times
	}
	return keys, hits, last
}

// The main job: a week of earthquakes goes through, each match to its sink exactly once; what is stopped
// goes on where it was.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	list := quakes(t)
	state := filepath.Join(t.TempDir(), "state")
	q := startQuickstart(t, state)
	status := q.until(t, "all is dealt with", settledAt(1707))

	var strong []string
	for _, e := range list {
		if e.Mag >= 4.5 {
			strong = append(strong, e.ID)
		}
	}
	require.Len(t, strong, 85)
	keys, hits, last := swarms(list)
	require.Len(t, status.Monitors, 2)
	assert.Equal(t, uint64(85), status.Monitors[0].Matches)
	assert.Zero(t, status.Monitors[0].Emissions, "it has no gate")
	assert.Equal(t, uint64(297), status.Monitors[1].Matches)
	assert.Equal(t, uint64(len(keys)), status.Monitors[1].Emissions)
	require.Len(t, status.Sinks, 2)
	assert.Equal(t, uint64(85), status.Sinks[0].Delivered)
	assert.Equal(t, uint64(len(keys)), status.Sinks[1].Delivered)
	assert.Zero(t, status.Sinks[0].DeadLettered+status.Sinks[0].Duplicates+status.Sinks[1].DeadLettered+status.Sinks[1].Duplicates)

	ids := func() (ids []string) {
		for _, item := range q.received(t) {
			var e quake
			require.NoError(t, json.Unmarshal(item.Event, &e))
			assert.Equal(t, types.MonitorID("strong"), item.Monitor)
			assert.Equal(t, 204, item.Status, "%+v", item)
			assert.False(t, item.Again)
			ids = append(ids, e.ID)
		}
		return ids
	}
	require.Eventually(t, func() bool { return len(q.received(t)) >= 85 }, time.Minute, 20*time.Millisecond)
	assert.Equal(t, strong, ids(), "each once, in the order of the file")

	var gotKeys, gotLast []string
	var gotHits []uint64
	text := q.command(t, "queue", "receive", "swarms", "--max", "100", "--ack", "-o", "jsonl")
	for line := range bytes.Lines([]byte(text)) {
		var event types.SinkEvent
		require.NoError(t, json.Unmarshal(dataOf(t, line), &event))
		require.NotNil(t, event.Emission)
		var e quake
		require.NoError(t, json.Unmarshal(event.Emission.Match.Event, &e))
		gotKeys, gotHits, gotLast = append(gotKeys, event.Emission.Key), append(gotHits, event.Emission.Hits), append(gotLast, e.ID)
	}
	assert.Equal(t, keys, gotKeys)
	assert.Equal(t, hits, gotHits)
	assert.Equal(t, last, gotLast)

	require.Eventually(t, func() bool { return strings.Contains(q.printed(), "all 1,707 earthquakes have been fed") }, time.Minute, 20*time.Millisecond)
	q.stop(t)
	assert.Contains(t, q.printed(), "stopping\n")

	// A second run goes on where the first one was: nothing is fed or delivered again.
	again := startQuickstart(t, state)
	again.until(t, "it is where it was", func(p types.PipelineStatus) bool {
		return p.State == types.PipelineRunning && p.Checkpoint != nil && *p.Checkpoint == *status.Checkpoint
	})
	fed, err := os.ReadFile(filepath.Join(state, quickstartEvents))
	require.NoError(t, err)
	assert.Equal(t, 1707, bytes.Count(fed, []byte("\n")))
	assert.Len(t, again.received(t), 85)
	require.Eventually(t, func() bool { return strings.Contains(again.printed(), "read 0 in this run (1,707 before)") }, time.Minute, 20*time.Millisecond)

	// A sink that is paused waits, and goes on.
	again.command(t, "pause", "sink", "earthquakes/alerts")
	again.until(t, "the pause is seen", func(p types.PipelineStatus) bool { return len(p.Sinks) > 0 && p.Sinks[0].Paused })
	live, err := os.OpenFile(filepath.Join(state, quickstartEvents), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = fmt.Fprintln(live, `{"id":"mine","time":1519000000000,"mag":6.1,"place":"Here","type":"earthquake","net":"me"}`)
	require.NoError(t, err)
	require.NoError(t, live.Close())
	again.until(t, "it waits", func(p types.PipelineStatus) bool { return p.Sinks[0].Pending == 1 })
	assert.Len(t, again.received(t), 85)
	again.command(t, "resume", "sink", "earthquakes/alerts")
	again.until(t, "it is delivered", func(p types.PipelineStatus) bool { return p.Sinks[0].Delivered == 1 && p.Sinks[0].Pending == 0 })
	assert.Equal(t, append(strong, "mine"), ids())
	assert.Contains(t, again.command(t, "pipeline", "list"), "earthquakes  running  file")
	assert.Contains(t, again.command(t, "pipeline", "show", "earthquakes"), "alerts  webhook  no")
	again.stop(t)
}

// While the receiver is stopped, matches become dead letters; a replay delivers them.
func TestQuickstartWithoutAReceiver(t *testing.T) {
	t.Parallel()
	q := startQuickstart(t, filepath.Join(t.TempDir(), "state"), "--no-receiver")
	status := q.until(t, "all is dealt with", settledAt(1707))
	assert.Equal(t, uint64(85), status.Sinks[0].DeadLettered)
	assert.Zero(t, status.Sinks[0].Delivered)
	assert.Regexp(t, `(?m)^earthquakes +85$`, q.command(t, "dlq", "list"))
	assert.Empty(t, q.received(t))

	_, err := io.WriteString(q.stdin, "r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(q.printed(), "the receiver was started") }, time.Minute, 20*time.Millisecond)
	assert.Contains(t, q.command(t, "dlq", "replay", "earthquakes", "--all", "--yes"), "replayed 85, failed 0")
	letters := q.command(t, "dlq", "list")
	assert.NotContains(t, letters, "earthquakes")
	known := map[types.MatchID]bool{}
	for _, item := range q.received(t) {
		known[item.ID] = true
	}
	assert.Len(t, known, 85)
	assert.Len(t, q.received(t), 85)

	_, err = io.WriteString(q.stdin, "x\nq\n")
	require.NoError(t, err)
	select {
	case err := <-q.done:
		require.NoError(t, err, "%s", q.printed())
	case <-time.After(time.Minute):
		require.Fail(t, "q did not end it", "%s", q.printed())
	}
	assert.Contains(t, q.printed(), "type r to stop or start the receiver")
}

// However the quickstart ends, the receiver ends with it; and a receiver that is killed is seen.
func TestTheReceiverOfTheQuickstartEndsWithIt(t *testing.T) {
	t.Parallel()
	up := regexp.MustCompile(`receiver up \(pid ([0-9]+)\)`)
	ended := func(pid int) func() bool {
		return func() bool {
			state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(state), ") Z ")
		}
	}
	for name, end := range map[string]func(*testing.T, *quickstartRunning){
		"a clean stop": func(t *testing.T, q *quickstartRunning) { t.Helper(); q.stop(t) },
		"a kill": func(t *testing.T, q *quickstartRunning) {
			t.Helper()
			require.NoError(t, q.cmd.Process.Kill())
			<-q.done
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat("/proc/self/stat"); err != nil {
				t.Skip("this needs /proc, which shows the processes of Linux, and it is not here")
			}
			q := startQuickstart(t, filepath.Join(t.TempDir(), "state"))
			receiver := func() (pid int) {
				require.Eventually(t, func() bool { return up.MatchString(q.printed()) }, time.Minute, 20*time.Millisecond)
				all := up.FindAllStringSubmatch(q.printed(), -1)
				pid, err := strconv.Atoi(all[len(all)-1][1])
				require.NoError(t, err)
				return pid
			}
			first := receiver()
			require.NoError(t, syscall.Kill(first, syscall.SIGTERM))
			require.Eventually(t, func() bool { return strings.Contains(q.printed(), "receiver stopped") }, time.Minute, 20*time.Millisecond)
			_, err := io.WriteString(q.stdin, "r\n")
			require.NoError(t, err)
			var second int
			require.Eventually(t, func() bool { second = receiver(); return second != first }, time.Minute, 20*time.Millisecond)
			end(t, q)
			assert.Eventually(t, ended(second), time.Minute, 20*time.Millisecond)
		})
	}
}

func TestWhatKeepsAQuickstartFromStartingIsSaid(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "other", quickstartEvents), "{}\n", 0o600)
	base := []string{"quickstart", "--dir", quickstartFiles(t), "--state-dir", filepath.Join(dir, "state"), "--listen", "127.0.0.1:0", "--receiver-listen", "127.0.0.1:0"}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"quickstart"}, exitNotFound, "at the root of a clone"},
		{append(slices.Clone(base), "--speed", "-1"), exitUsage, "--speed is -1"},
		{append(slices.Clone(base), "--speed", "NaN"), exitUsage, "--speed is NaN"},
		{append(slices.Clone(base), "--speed", "1e300"), exitUsage, "--speed is 1e+300"},
		{append(slices.Clone(base), "--listen", taken.Addr().String()), exitUnavailable, "maybe another daemon; stop it, or choose another address with --listen, or make run ARGS='--listen HOST:PORT'"},
		{append(slices.Clone(base), "--receiver-listen", taken.Addr().String()), exitUnavailable, "maybe another receiver; stop it, or choose another address with --receiver-listen, or make run ARGS='--receiver-listen HOST:PORT'"},
		{append(slices.Clone(base), "--state-dir", filepath.Join(dir, "other")), exitPrecondition, "holds something else than the earthquakes"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, "stowage", c.args...)
		cmd.Dir, cmd.Env = dir, cleanEnvironment()
		output, err := cmd.CombinedOutput()
		cancel()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%v: %s", c.args, output)
		assert.Equal(t, c.code, exit.ExitCode(), "%v: %s", c.args, output)
		assert.Contains(t, string(output), c.says)
	}
}

// On a terminal there is one screen, drawn in place.
func TestQuickstartOnATerminal(t *testing.T) {
	t.Parallel()
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("this needs script(1) of util-linux, which makes a terminal, and it is not here")
	}
	state := filepath.Join(t.TempDir(), "state")
	line := fmt.Sprintf("stty rows 50 cols 120; exec stowage quickstart --dir '%s' --state-dir '%s' --listen 127.0.0.1:0 --receiver-listen 127.0.0.1:0 --speed 0", quickstartFiles(t), state)
	cmd := exec.CommandContext(t.Context(), script, "-qec", line, "/dev/null")
	cmd.Dir, cmd.Env = t.TempDir(), append(cleanEnvironment(), "TERM=xterm")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	output := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = output, output
	require.NoError(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	shown := func(text string) func() bool {
		return func() bool { return strings.Contains(output.String(), text) }
	}
	require.Eventually(t, shown("alerts                85"), time.Minute, 50*time.Millisecond, "%v", output)
	require.Eventually(t, shown("all 1,707 earthquakes have been fed"), time.Minute, 50*time.Millisecond, "%v", output)
	_, err = io.WriteString(stdin, "r\n")
	require.NoError(t, err)
	require.Eventually(t, shown("receiver: stopped, took 85"), time.Minute, 50*time.Millisecond, "%v", output)
	_, err = io.WriteString(stdin, "q\n")
	require.NoError(t, err)
	select {
	case err := <-done:
		require.NoError(t, err, "%v", output)
	case <-time.After(time.Minute):
		require.NoError(t, cmd.Process.Kill())
		require.Fail(t, "q did not end it", "%v", output)
	}
	text := output.String()
	assert.Contains(t, text, "\x1b[2J\x1b[H")
	assert.Contains(t, text, "\x1b7\x1b[H")
	for _, want := range []string{"Stowage quickstart", "[========================================] 1,707 of 1,707 fed", "strong                85          -       0", "swarm                297", "M 4.7  7km E of Hualian, Taiwan", "dlq replay earthquakes --all", "curl -s http://127.0.0.1:"} {
		assert.Contains(t, text, want)
	}
}

// lockedBuffer takes what a process says while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Runs that begin at the same time read one secret, and a whole one.
func TestTheSecretOfTheQuickstartIsNeverHalf(t *testing.T) {
	t.Parallel()
	for range 50 {
		dir := t.TempDir()
		path := filepath.Join(dir, quickstartSecret)
		const racers = 8
		var texts [racers]string
		var all sync.WaitGroup
		for i := range racers {
			all.Go(func() {
				assert.NoError(t, makeWebhookSecret(path))
				text, err := os.ReadFile(path)
				assert.NoError(t, err)
				texts[i] = string(text)
			})
		}
		all.Wait()
		assert.Len(t, texts[0], len("whsec_")+44+1)
		for _, text := range texts {
			assert.Equal(t, texts[0], text)
		}
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Len(t, entries, 1, "nothing is left beside it")
	}
}
