package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func dataOf(t testing.TB, line []byte) json.RawMessage {
	t.Helper()
	var d delivery
	require.NoError(t, json.Unmarshal(line, &d))
	return d.Payload.Data
}

// testDaemon is a daemon in a process of its own, with a client for each of its queues.
type testDaemon struct {
	*process
	dir string
}

func launch(t testing.TB, dir string) testDaemon {
	t.Helper()
	p, err := startProcess(dir, filepath.Join(dir, "daemon.log"), cleanEnvironment())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.end(os.Kill)) })
	return testDaemon{p, dir}
}

func (d testDaemon) reach() *reach {
	return &reach{app: &app{getenv: func(string) string { return "" }}, server: d.address, stateDir: filepath.Join(d.dir, defaultStateDir)}
}

func (d testDaemon) create(t testing.TB, id string) {
	t.Helper()
	require.NoError(t, d.reach().withAdmin(func(c adminClient) error { return c.Create(t.Context(), id) }))
}

func (d testDaemon) queue(t testing.TB, id string) ports.QueueStore {
	t.Helper()
	q, err := d.reach().openQueue(id)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.Close()) })
	return q
}

// The daemon is killed while a file is being sent: what the report says is true, and going on from
// where it says makes the queue whole.
func TestKillInTheMiddleOfASend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := launch(t, dir)
	d.create(t, "quakes")

	var text strings.Builder
	for i := range 1707 {
		fmt.Fprintf(&text, "%d\n", i+1)
	}
	path := filepath.Join(dir, "numbers")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	send := func(from int, moved func(int64, int, int)) (sendReport, error) {
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		s := &lineSender{queue: d.queue(t, "quakes"), lines: newLineReader(t.Context(), f), from: from, rejected: func(rejectedLine) {}, moved: moved}
		return s.run(t.Context())
	}
	// The signal is on its way while the next batches are sent: it meets one of them at any point.
	var once sync.Once
	report, err := send(1, func(_ int64, sent, _ int) {
		if sent == 500 {
			once.Do(func() { assert.NoError(t, d.cmd.Process.Kill()) })
		}
	})
	require.Error(t, err)
	require.NoError(t, d.end(os.Kill))
	require.GreaterOrEqual(t, report.Sent, 500)
	require.LessOrEqual(t, report.Unknown, ports.MaxBatch)
	require.Equal(t, 1707, report.Sent+report.Unknown+report.NotTried)

	d = launch(t, dir)
	q := d.queue(t, "quakes")
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	stored := int(stats.Total)
	// A batch is one transaction: the unknown one is there as a whole, or not at all.
	require.Contains(t, []int{report.Sent, report.Sent + report.Unknown}, stored)

	rest, err := send(stored+1, func(int64, int, int) {})
	require.NoError(t, err)
	require.Equal(t, 1707-stored, rest.Sent)
	received := drain(t, q)
	require.Len(t, received, 1707)
	for i, data := range received {
		require.Equal(t, strconv.Itoa(i+1), data, "message %d", i+1)
	}
}

// The daemon is killed while records are being put: what was answered is there after the next start, in
// the order of the versions, and nothing of another's.
func TestKillInTheMiddleOfPuts(t *testing.T) {
	t.Parallel()
	const writers = 4
	dir := t.TempDir()
	client := func(d testDaemon) operatorClient {
		token, err := d.reach().adminToken()
		require.NoError(t, err)
		c, err := newOperatorClient(d.address, token)
		require.NoError(t, err)
		return c
	}
	var known [writers]uint64
	for round := range 3 {
		d := launch(t, dir)
		var done atomic.Int64
		var once sync.Once
		var putting sync.WaitGroup
		for i := range writers {
			c := client(d)
			putting.Go(func() {
				for {
					version, err := c.PutResource(t.Context(), "counter", strconv.Itoa(i), []byte(strconv.FormatUint(known[i]+1, 10)), known[i])
					if err != nil {
						return // the daemon is gone
					}
					known[i] = version
					if done.Add(1) == 40 {
						once.Do(func() { assert.NoError(t, d.cmd.Process.Kill()) })
					}
				}
			})
		}
		putting.Wait()
		require.NoError(t, d.end(os.Kill))
		require.GreaterOrEqual(t, done.Load(), int64(40))

		d = launch(t, dir)
		for i := range writers {
			r, found, err := client(d).GetResource(t.Context(), "counter", strconv.Itoa(i))
			require.NoError(t, err)
			require.True(t, found || known[i] == 0)
			// The put that was under way may have been done, and no other.
			require.Contains(t, []uint64{known[i], known[i] + 1}, r.Version, "round %d, writer %d", round, i)
			require.Equal(t, strconv.FormatUint(r.Version, 10), string(r.Value))
			known[i] = r.Version
		}
		require.NoError(t, d.end(os.Kill))
	}
}

// A daemon whose storage was taken away under it says so, and takes nothing more in.
func TestReadinessTellsOfAReplacedStorage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := launch(t, dir)
	state, err := askReady(t.Context(), d.address)
	require.NoError(t, err)
	require.True(t, state.Ready)
	require.NoError(t, os.Remove(filepath.Join(dir, defaultStateDir, "storage", "storage.sqlite")))
	token, err := d.reach().adminToken()
	require.NoError(t, err)
	c, err := newOperatorClient(d.address, token)
	require.NoError(t, err)
	require.ErrorIs(t, c.Pause(t.Context(), types.PipelineOf("quakes")), ports.ErrStoreReplaced)
	state, err = askReady(t.Context(), d.address)
	require.NoError(t, err)
	assert.False(t, state.Ready)
	assert.Equal(t, []failing{{"stores", ports.CodeStoreReplaced, ""}}, state.Failing)
}

// SIGTERM under load: long polls are woken, and no message whose send was a success is lost.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := launch(t, dir)
	d.create(t, "busy")
	d.create(t, "idle")

	polled := make(chan error, 1)
	waiting := d.queue(t, "idle")
	go func() {
		_, err := waiting.Receive(context.Background(), types.ReceiveOptions{Wait: ports.MaxWait})
		polled <- err
	}()

	var sent, unknown atomic.Int64
	enough := make(chan struct{})
	var once sync.Once
	var producers sync.WaitGroup
	for range 8 {
		q := d.queue(t, "busy")
		producers.Go(func() {
			for {
				err := q.Send(context.Background(), types.Text("message"), types.SendOptions{})
				switch {
				case errors.Is(err, ports.ErrOutcomeUnknown):
					unknown.Add(1)
					return
				case err != nil:
					return
				}
				if sent.Add(1) >= 200 {
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	<-enough
	began := time.Now()
	require.NoError(t, d.end(syscall.SIGTERM))
	require.NoError(t, d.err, "the exit code is 0")
	assert.Less(t, time.Since(began), ports.MaxWait, "the stop waits for no long poll")
	producers.Wait()
	<-polled

	d = launch(t, dir)
	stats, err := d.queue(t, "busy").Stats(t.Context())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, stats.Total, sent.Load())
	assert.LessOrEqual(t, stats.Total, sent.Load()+unknown.Load())
}

// A reader that goes away in the middle costs no message: what it could not be given comes back.
func TestReceiveIntoABrokenPipeAcksNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := launch(t, dir)
	d.create(t, "orders")
	q := d.queue(t, "orders")
	for range 25 {
		require.NoError(t, q.Send(t.Context(), types.Text(strings.Repeat("x", ports.MaxPayloadBytes)), types.SendOptions{}))
	}
	stowage, err := exec.LookPath("stowage")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), stowage, "queue", "receive", "orders", "--max", "25", "--ack", "-o", "jsonl", "--server", d.address)
	cmd.Dir, cmd.Env = dir, cleanEnvironment()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	// One line is read, of a first batch that does not fit into the pipe.
	_, err = bufio.NewReader(r).ReadSlice('\n')
	require.ErrorIs(t, err, bufio.ErrBufferFull)
	require.NoError(t, r.Close())
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	assert.Equal(t, exitFailed, exit.ExitCode())

	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(25), stats.Total)
	assert.Equal(t, int64(25), stats.Visible, "given back at once")
}

// The memory of the daemon does not grow with its backlog.
func TestMemoryWithABacklog(t *testing.T) {
	t.Parallel()
	memoryWithBacklog(t, 20_000, 150<<20)
}

// TestSoakMemoryWithAMillionMessages is the same at the size that the promise names, or at a quarter
// of it if there is less than a minute.
func TestSoakMemoryWithAMillionMessages(t *testing.T) {
	word := os.Getenv("STOWAGE_SOAK")
	if word == "" {
		t.Skip("it takes minutes: set STOWAGE_SOAK to how long, as make soak does")
	}
	length, err := time.ParseDuration(word)
	require.NoError(t, err, "STOWAGE_SOAK")
	messages := 1_000_000
	if length < time.Minute {
		messages /= 4
	}
	memoryWithBacklog(t, messages, 150<<20)
}

func memoryWithBacklog(t *testing.T, messages int, limit int64) {
	dir := t.TempDir()
	d := launch(t, dir)
	d.create(t, "backlog")
	payloads := make([]types.Payload, ports.MaxBatch)
	for i := range payloads {
		payloads[i] = types.JSON(fmt.Appendf(nil, `{"n":%d,"kind":"small"}`, i))
	}
	var batches atomic.Int64
	batches.Store(int64(messages / len(payloads)))
	var producers sync.WaitGroup
	for range 16 {
		q := d.queue(t, "backlog")
		producers.Go(func() {
			for batches.Add(-1) >= 0 {
				outcomes, err := q.SendBatch(t.Context(), payloads)
				if !assert.NoError(t, err) || !assert.Len(t, outcomes, len(payloads)) {
					return
				}
			}
		})
	}
	producers.Wait()
	q := d.queue(t, "backlog")
	use := func() {
		// A part of the backlog is leased, nacked and acked, so that all that the owner keeps is used.
		for range 100 {
			received, err := q.Receive(t.Context(), types.ReceiveOptions{Max: ports.MaxBatch})
			require.NoError(t, err)
			require.Len(t, received, ports.MaxBatch)
			require.NoError(t, q.Nack(t.Context(), received[0].Receipt, types.NackOptions{}))
			require.NoError(t, q.Ack(t.Context(), received[1].Receipt))
		}
		stats, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Greater(t, stats.Total, int64(messages)*9/10)
	}
	use()
	grown := residentMemory(t, d.cmd.Process.Pid)
	t.Logf("%d messages: %d MiB resident after filling", messages, grown>>20)
	assert.Less(t, grown, limit, "resident memory after filling")

	require.NoError(t, d.end(syscall.SIGTERM))
	d = launch(t, dir)
	q = d.queue(t, "backlog")
	use()
	opened := residentMemory(t, d.cmd.Process.Pid)
	t.Logf("%d messages: %d MiB resident after opening", messages, opened>>20)
	assert.Less(t, opened, limit, "resident memory after opening")
}

// residentMemory is the peak of the resident memory of a process, in bytes.
func residentMemory(t testing.TB, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this system has no /proc to read the memory of a process from")
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		rest, ok := strings.CutPrefix(line, "VmHWM:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		require.NoError(t, err)
		return kib << 10
	}
	require.Fail(t, "no VmHWM in the status of the process")
	return 0
}

// Clients that send half a request, or nothing at all, hold up a stop for seconds, not for as long as
// a slow body may take.
func TestStopWaitsForNoSlowClient(t *testing.T) {
	t.Parallel()
	d := launch(t, t.TempDir())
	d.create(t, "orders")
	token, err := d.reach().queueToken("orders")
	require.NoError(t, err)
	address := strings.TrimPrefix(d.address, "http://")
	for _, head := range []string{
		"", "POST /v1/queues/orders HT",
		"POST /v1/queues/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
	} {
		slow, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer slow.Close()
		_, err = io.WriteString(slow, head)
		require.NoError(t, err)
	}
	_, err = d.queue(t, "orders").Stats(t.Context()) // by now the daemon has them all
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, d.end(syscall.SIGTERM))
	require.NoError(t, d.err, "the exit code is 0")
	assert.Less(t, time.Since(began), ports.DefaultBodyTimeout-answerTimeout)
}

// SIGTERM in the middle of a replay of thousands: it ends behind the letter that is under way, says how
// far it came, and fails no letter for a queue that the stop has closed.
func TestStopInTheMiddleOfAReplay(t *testing.T) {
	t.Parallel()
	const letters = 3000
	dir := t.TempDir()
	config := filepath.Join(dir, "stowage.toml")
	require.NoError(t, os.WriteFile(config, []byte(`[queue.orders]
module = "localqueue"
[[pipeline]]
id = "quakes"
[[pipeline.sink]]
id = "alerts"
module = "queue"
queue = "orders"
`), 0o600))
	require.NoError(t, withStorageFile(t.Context(), &app{err: os.Stderr}, filepath.Join(dir, defaultStateDir, "storage", "storage.sqlite"), func(storage ports.Storage) error {
		_, err := storage.(ports.Archiver).Import(t.Context(), func(yield func(types.Record, error) bool) {
			for n := range letters {
				letter := fixture.DeadLetter(n + 1)
				if !yield(types.Record{Pipeline: "quakes", DeadLetter: &letter}, nil) {
					return
				}
			}
		})
		return err
	}))
	start := func() (testDaemon, operatorClient) {
		p, err := startProcess(dir, filepath.Join(dir, "daemon.log"), cleanEnvironment(), "--config", config)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, p.end(os.Kill)) })
		d := testDaemon{p, dir}
		token, err := d.reach().adminToken()
		require.NoError(t, err)
		client, err := newOperatorClient(d.address, token)
		require.NoError(t, err)
		return d, client
	}
	d, client := start()
	type outcome struct {
		result types.BulkResult
		err    error
	}
	replayed := make(chan outcome, 1)
	go func() {
		result, err := client.ReplayLetters(t.Context(), "quakes", types.LetterSelection{})
		replayed <- outcome{result, err}
	}()
	queue := d.queue(t, "orders")
	require.Eventually(t, func() bool {
		stats, err := queue.Stats(t.Context())
		return err == nil && stats.Total > 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, d.end(syscall.SIGTERM))
	require.NoError(t, d.err, "the exit code is 0")
	got := <-replayed
	require.ErrorIs(t, got.err, ports.ErrStoreClosed)
	require.Positive(t, got.result.Done)
	require.Less(t, got.result.Done, int64(letters))

	d, client = start()
	stats, err := d.queue(t, "orders").Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, got.result.Done, stats.Total)
	page, err := client.Letters(t.Context(), "quakes", types.LetterFilter{}, types.LetterQuery{Take: 1})
	require.NoError(t, err)
	assert.Equal(t, letters-got.result.Done, page.Total)
	require.Len(t, page.Letters, 1)
	assert.Equal(t, fixture.DeadLetter(int(got.result.Done)+1), page.Letters[0].Letter, "as it was")
}

// A stop waits for a request that is on its way; a second signal does not.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := launch(t, dir)
	d.create(t, "orders")
	token, err := d.reach().queueToken("orders")
	require.NoError(t, err)
	address := strings.TrimPrefix(d.address, "http://")
	slow, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer slow.Close()
	_, err = fmt.Fprintf(slow, "POST /v1/queues/orders HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", address, token)
	require.NoError(t, err)
	// The daemon asks for the body: the request is running.
	status, err := bufio.NewReader(slow).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, status, "100 Continue")

	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return errors.Is(err, syscall.ECONNREFUSED)
		}
		assert.NoError(t, c.Close())
		return false
	}, time.Minute, 10*time.Millisecond, "the listener closes")
	select {
	case <-d.done:
		require.Fail(t, "the stop waits for the request")
	default:
	}
	require.Eventually(t, func() bool {
		select {
		case <-d.done:
			return true
		default: // a signal that follows at once is the same one to the daemon
			_ = d.cmd.Process.Signal(syscall.SIGTERM) // which may have ended meanwhile
			return false
		}
	}, stopTimeout/2, 50*time.Millisecond)
	var exit *exec.ExitError
	require.ErrorAs(t, d.err, &exit)
	assert.Equal(t, exitFailed, exit.ExitCode())
}

// A request that was there before the pipelines were finds them: a producer takes "there is no such
// pipeline" for final.
func TestTheFirstRequestFindsThePipelines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg, err := config.Parse(filepath.Join(dir, "stowage.toml"), []byte(`
http.listen = "127.0.0.1:0"
[[pipeline]]
id = "tides"
source = { module = "http" }
[[pipeline.monitor]]
id = "all"
sinks = ["file"]
[[pipeline.sink]]
id = "file"
module = "ndjson"
path = "matches.ndjson"
`))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	d, err := startDaemon(ctx, cfg, "", func(string) string { return "" }, fixture.Logger(t))
	require.NoError(t, err)
	token, err := readToken(adminTokenFile(cfg.StateDir))
	require.NoError(t, err)
	const waiting = 4
	var connections []net.Conn
	for range waiting {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		_, err = fmt.Fprintf(c, "GET /v1/pipelines/tides HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n", token)
		require.NoError(t, err)
		connections = append(connections, c)
	}
	done := make(chan error, 1)
	go func() { done <- d.run(ctx) }()
	for _, c := range connections {
		status, err := bufio.NewReader(c).ReadString('\n')
		assert.NoError(t, err)
		assert.Equal(t, "HTTP/1.0 200 OK\r\n", status)
	}
	stop()
	require.NoError(t, <-done)
}

// A stop that is asked for while the daemon still starts ends it as well as any other does.
func TestAStopWhileTheDaemonStarts(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "stowage.toml"), []byte(`
[http]
listen = "127.0.0.1:0"
[[pipeline]]
id = "tides"
source = { module = "http" }
[[pipeline.monitor]]
id = "all"
sinks = ["out"]
[[pipeline.sink]]
id = "out"
module = "stdout"
`))
	require.NoError(t, err)
	log, environment := fixture.Logger(t), func(string) string { return "" }
	for name, cause := range map[string]error{"a signal": &interruption{syscall.SIGTERM}, "a context": nil} {
		// Between the opening of the stores and the start of the pipelines.
		ctx, stop := context.WithCancelCause(t.Context())
		d, err := startDaemon(ctx, cfg, "", environment, log)
		require.NoError(t, err, name)
		stop(cause)
		require.NoError(t, d.run(ctx), name)

		// Before anything is open.
		d, err = startDaemon(ctx, cfg, "", environment, log)
		require.Nil(t, d, name)
		require.Error(t, err, name)
		require.NoError(t, cutShort(ctx, log, err), name)
	}

	// What fails by itself stays a failure.
	broken := errors.New("the disk is broken")
	require.ErrorIs(t, cutShort(t.Context(), log, broken), broken)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, cutShort(ctx, log, broken), broken)
}

// Where a sink prints events, standard output has nothing else, so that it can be piped.
func TestStandardOutputIsForEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in.ndjson"), []byte(`{"mag":5}`+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stowage.toml"), fmt.Appendf(nil, `
[[pipeline]]
id = "quakes"
source = { module = "ndjson", path = %q, follow = false }
[[pipeline.monitor]]
id = "all"
sinks = ["out"]
[[pipeline.sink]]
id = "out"
module = "stdout"
`, filepath.Join(dir, "in.ndjson")), 0o600))
	program, err := exec.LookPath("stowage")
	require.NoError(t, err)
	cmd := exec.Command(program, "serve", "--config", "stowage.toml", "--listen", "127.0.0.1:0")
	log := filepath.Join(dir, "stderr")
	stderr, err := os.Create(log)
	require.NoError(t, err)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, cleanEnvironment(), stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	out := bufio.NewReader(stdout)
	first, err := out.ReadString('\n')
	assert.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(out)
	assert.NoError(t, err)
	require.NoError(t, errors.Join(cmd.Wait(), stderr.Close()))
	var event types.SinkEvent
	require.NoError(t, json.Unmarshal([]byte(first), &event), first)
	assert.EqualValues(t, "quakes", event.Match.Pipeline)
	assert.Empty(t, rest)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Contains(t, string(text), "stowage is ready at http://127.0.0.1:")
}
