package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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
	"github.com/stowage-go/stowage/types"
)

// A daemon that runs pipelines is killed at random moments and started again at once, while events come in
// on all sides: lines are appended to a file, posted over HTTP, and sent to a queue; and a receiver of
// webhooks fails in every way at random. In the end each match that a plain computation expects was
// delivered, or is a dead letter, and nothing else was; and what came twice is no more than what was under
// way at the kills.

// soakLength is how long a soak goes on, or none of it runs.
func soakLength(t *testing.T) time.Duration {
	t.Helper()
	word := os.Getenv("STOWAGE_SOAK")
	if word == "" {
		t.Skip("it takes minutes: set STOWAGE_SOAK to how long, as make soak does")
	}
	length, err := time.ParseDuration(word)
	require.NoError(t, err, "STOWAGE_SOAK")
	return length
}

// TestSoakPipelineKills kills as often as STOWAGE_PIPELINE_KILLS says: by default 100 times, or 5 times if
// there is less than a minute.
func TestSoakPipelineKills(t *testing.T) {
	kills := 100
	if soakLength(t) < time.Minute {
		kills = 5
	}
	if word := os.Getenv("STOWAGE_PIPELINE_KILLS"); word != "" {
		var err error
		kills, err = strconv.Atoi(word)
		require.NoError(t, err, "STOWAGE_PIPELINE_KILLS")
		require.Positive(t, kills, "STOWAGE_PIPELINE_KILLS")
	}
	killPipelines(t, kills)
}

// A few kills are for every day.
func TestPipelineKills(t *testing.T) {
	t.Parallel()
	killPipelines(t, 2)
}

// The sizes of batches, and so what a kill may bring twice.
const (
	queueBatch  = 500
	ndjsonBatch = ports.MaxBatchEvents
)

func killPipelines(t *testing.T, kills int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	v := &victim{t: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 0))}
	file := newFileStream(t, v, rand.New(rand.NewPCG(seed, 1)))
	posts := &postStream{victim: v, random: rand.New(rand.NewPCG(seed, 2))}
	jobs := &jobStream{victim: v, random: rand.New(rand.NewPCG(seed, 3))}
	v.config = filepath.Join(v.dir, "stowage.toml")
	require.NoError(t, os.WriteFile(v.config, []byte(file.config()+posts.config()+jobs.config()), 0o600))
	require.NoError(t, os.MkdirAll(v.stateDir(), 0o700))
	v.start()
	t.Cleanup(func() { assert.NoError(t, v.daemon().end(os.Kill)) })

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var feeding sync.WaitGroup
	for _, feed := range []func(context.Context) error{file.feed, posts.feed, jobs.feed} {
		feeding.Go(func() { assert.NoError(t, feed(ctx)) })
	}
	began := time.Now()
	for range kills {
		longest := 1500
		if v.random.IntN(5) == 0 {
			longest = 50 // in the middle of the start of the pipelines
		}
		pause(ctx, time.Duration(v.random.IntN(longest))*time.Millisecond)
		v.kill()
	}
	pause(ctx, time.Duration(v.random.IntN(1500))*time.Millisecond)
	file.receiver.healthy.Store(true)
	stop()
	feeding.Wait()
	t.Logf("%d kills in %v; the last of them %v before now", len(v.deaths), time.Since(began).Round(time.Second), time.Since(v.deaths[len(v.deaths)-1]).Round(time.Millisecond))
	v.await(file.settled)
	v.await(posts.settled)
	v.await(jobs.settled)
	letters := map[types.PipelineID]map[types.MatchID]types.DeadLetter{}
	for _, id := range []types.PipelineID{fileStreamID, postStreamID, jobStreamID} {
		letters[id] = v.letters(id)
	}
	jobs.checkEmpty(t)
	require.NoError(t, v.daemon().end(syscall.SIGTERM))
	require.NoError(t, v.daemon().err, "the exit code is 0")
	v.checkLog()

	file.check(t, letters[fileStreamID])
	posts.check(t)
	assert.Empty(t, letters[postStreamID])
	jobs.check(t)
	assert.Empty(t, letters[jobStreamID])
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// victim is a daemon that is killed and started again.
type victim struct {
	t      *testing.T
	dir    string
	config string
	random *rand.Rand
	deaths []time.Time

	mu  sync.Mutex
	now testDaemon
}

func (v *victim) stateDir() string { return filepath.Join(v.dir, defaultStateDir) }

func (v *victim) daemon() testDaemon {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

func (v *victim) start() {
	p, err := startProcess(v.dir, filepath.Join(v.dir, "daemon.log"), cleanEnvironment(), "--config", v.config)
	require.NoError(v.t, err)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = testDaemon{p, v.dir}
}

func (v *victim) kill() {
	v.deaths = append(v.deaths, time.Now())
	require.NoError(v.t, v.daemon().end(os.Kill))
	v.start()
}

func (v *victim) client() operatorClient {
	d := v.daemon()
	token, err := d.reach().adminToken()
	require.NoError(v.t, err)
	client, err := newOperatorClient(d.address, token)
	require.NoError(v.t, err)
	return client
}

// await waits until all that came in is dealt with.
func (v *victim) await(settled func(context.Context, operatorClient) (done bool, what string)) {
	const limit = 10 * time.Minute
	client := v.client()
	began := time.Now()
	for {
		done, what := settled(v.t.Context(), client)
		if done {
			return
		}
		require.Less(v.t, time.Since(began), limit, "a pipeline does not come to an end: %s", what)
		pause(v.t.Context(), 50*time.Millisecond)
	}
}

// rests reports whether a pipeline has nothing under way.
func rests(ctx context.Context, client operatorClient, id types.PipelineID) (types.PipelineStatus, bool, string) {
	status, err := client.Pipeline(ctx, id)
	if err != nil {
		return status, false, err.Error()
	}
	text, err := json.Marshal(status)
	if err != nil {
		return status, false, err.Error()
	}
	return status, status.State == types.PipelineRunning && status.Pending == 0, string(text)
}

// letters are the dead letters of a pipeline.
func (v *victim) letters(id types.PipelineID) map[types.MatchID]types.DeadLetter {
	client := v.client()
	all := map[types.MatchID]types.DeadLetter{}
	var after int64
	for {
		page, err := client.Letters(v.t.Context(), id, types.LetterFilter{}, types.LetterQuery{After: after, Take: 500})
		require.NoError(v.t, err)
		for _, l := range page.Letters {
			require.NoError(v.t, l.Err)
			require.NotContains(v.t, all, l.Letter.MatchID, "a match is one dead letter")
			all[l.Letter.MatchID] = l.Letter
			after = l.Position
		}
		if len(page.Letters) == 0 {
			return all
		}
	}
}

// checkLog wants no errors in the daemon's log: no pipeline has failed by being killed.
func (v *victim) checkLog() {
	text, err := os.ReadFile(filepath.Join(v.dir, "daemon.log"))
	require.NoError(v.t, err)
	counts := map[string]int{}
	for line := range bytes.Lines(text) {
		var entry struct{ Level, Msg string }
		if !assert.NoError(v.t, json.Unmarshal(line, &entry), "the log is lines of JSON: %s", line) {
			continue
		}
		if entry.Level == "INFO" {
			continue
		}
		if counts[entry.Level+" "+entry.Msg]++; counts[entry.Level+" "+entry.Msg] == 1 {
			v.t.Logf("in the log: %s", line)
		}
		assert.NotEqual(v.t, "ERROR", entry.Level, "%s", line)
	}
	for what, n := range counts {
		v.t.Logf("%d times in the log: %s", n, what)
	}
}

// matchesOf reads what an ndjson sink has written. A line that a kill has cut off is none.
func (v *victim) matchesOf(t *testing.T, name string) []types.SinkEvent {
	f, err := os.Open(filepath.Join(v.stateDir(), name))
	require.NoError(t, err)
	defer f.Close()
	var all []types.SinkEvent
	torn := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e types.SinkEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			torn++
			continue
		}
		all = append(all, e)
	}
	require.NoError(t, lines.Err())
	require.LessOrEqual(t, torn, len(v.deaths), "lines of %s that are cut off", name)
	return all
}

// violations are what is wrong, the first of it in detail.
type violations struct {
	t     *testing.T
	lane  string
	count int
}

func (v *violations) add(format string, args ...any) {
	if v.count++; v.count <= 20 {
		v.t.Errorf(v.lane+": "+format, args...)
	}
}

func (v *violations) report() {
	if v.count > 20 {
		v.t.Errorf("%s: %d violations in all", v.lane, v.count)
	}
}

// The stream of a file: one monitor takes all, one the strong ones, one counts swarms.

const (
	fileStreamID types.PipelineID = "quakes"
	swarmHits                     = 3
	swarmWindow                   = time.Hour
	swarmRest                     = 3 * time.Hour
	strongMag                     = 5.0
	swarmMag                      = 3.0
	soakSecret                    = "whsec_c29tZSBzZWNyZXQgb2YgYSBzb2FrIHRlc3Qu"
)

type fileStream struct {
	*victim
	random   *rand.Rand
	receiver *badReceiver
	server   *httptest.Server
	path     string

	lines []quakeLine // written; one writes while none reads
	size  uint64
}

// quakeLine is a line of the file.
type quakeLine struct {
	offset uint64
	bad    bool // it is no JSON
	mag    float64
	net    string
	time   int64 // in milliseconds
}

func (l quakeLine) identity() string {
	return types.Event{Cursor: types.Cursor{Primary: l.offset}}.Identity()
}

func newFileStream(t *testing.T, v *victim, random *rand.Rand) *fileStream {
	s := &fileStream{victim: v, random: random, path: filepath.Join(v.stateDir(), "quakes.ndjson")}
	s.receiver = newBadReceiver(t, random.Uint64())
	s.server = httptest.NewServer(s.receiver)
	t.Cleanup(s.server.Close)
	return s
}

func (s *fileStream) config() string {
	return fmt.Sprintf(`
[queue.picked]
module = "localqueue"
[[pipeline]]
id = %q
source = { module = "ndjson", path = "quakes.ndjson", poll = "10ms" }
event_time = "time"
fields = { mag = "number", net = "string", time = "number" }
[[pipeline.monitor]]
id = "all"
sinks = ["queue", "file"]
[[pipeline.monitor]]
id = "strong"
when = "mag >= %v"
sinks = ["hook"]
[[pipeline.monitor]]
id = "swarm"
when = "mag >= %v"
gate = { threshold = %d, window = "%v", cooldown = "%v", key = "net" }
sinks = ["hook", "queue"]
[[pipeline.sink]]
id = "hook"
module = "webhook"
url = "%s/hook"
secret = %q
allow_private = true
retry = { attempts = 4, min = "2ms", max = "20ms" }
[[pipeline.sink]]
id = "queue"
module = "queue"
queue = "picked"
[[pipeline.sink]]
id = "file"
module = "ndjson"
path = "picked.ndjson"
`, fileStreamID, strongMag, swarmMag, swarmHits, swarmWindow, swarmRest, s.server.URL, soakSecret)
}

// feed appends lines in bursts, now and then one in two pieces, and one that is no JSON.
func (s *fileStream) feed(ctx context.Context) error {
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for ctx.Err() == nil {
		var text bytes.Buffer
		most := 150
		if s.random.IntN(2) == 0 {
			most = 4 // so that a checkpoint soon passes a single one
		}
		for range 1 + s.random.IntN(most) {
			text.WriteString(s.line(s.random.IntN(300) == 0))
		}
		whole := text.Bytes()
		cut := len(whole)
		if s.random.IntN(4) == 0 {
			cut = s.random.IntN(len(whole))
		}
		if _, err := f.Write(whole[:cut]); err != nil {
			return err
		}
		if cut < len(whole) {
			pause(ctx, time.Duration(s.random.IntN(100))*time.Millisecond)
			if _, err := f.Write(whole[cut:]); err != nil {
				return err
			}
		}
		pause(ctx, time.Duration(s.random.IntN(400))*time.Millisecond)
	}
	_, err = f.WriteString(s.line(false))
	return err
}

// line makes the next line and remembers it.
func (s *fileStream) line(bad bool) string {
	n := len(s.lines)
	l := quakeLine{
		offset: s.size, bad: bad,
		mag:  float64(s.random.IntN(60)) / 10,
		net:  "net" + strconv.Itoa(s.random.IntN(20)),
		time: 1_700_000_000_000 + int64(n)*60_000 + s.random.Int64N(60_000),
	}
	text := fmt.Sprintf("{\"n\":%d,\"mag\":%v,\"net\":%q,\"time\":%d}\n", n, l.mag, l.net, l.time)
	if bad {
		text = fmt.Sprintf("this line, %d, is none\n", n)
	}
	s.lines = append(s.lines, l)
	s.size += uint64(len(text))
	return text
}

func (s *fileStream) settled(ctx context.Context, client operatorClient) (bool, string) {
	status, rest, text := rests(ctx, client, fileStreamID)
	return rest && status.Read != nil && status.Read.Primary == s.lines[len(s.lines)-1].offset, text
}

// swarms computes plainly what the gate lets through, by the place among the lines.
func (s *fileStream) swarms() map[int]types.Emission {
	all := map[int]types.Emission{}
	counted := map[string][]int64{}
	last := map[string]int64{}
	for i, l := range s.lines {
		if l.bad || l.mag < swarmMag {
			continue
		}
		counted[l.net] = append(counted[l.net], l.time)
		hits := counted[l.net]
		for hits[0] <= l.time-swarmWindow.Milliseconds() {
			hits = hits[1:]
		}
		emitted, before := last[l.net]
		if len(hits) >= swarmHits && (!before || l.time-emitted >= swarmRest.Milliseconds()) {
			all[i] = types.Emission{Key: l.net, Hits: uint64(len(hits)), FirstTS: hits[0], LastTS: l.time}
			last[l.net], hits = l.time, nil
		}
		counted[l.net] = hits
	}
	return all
}

// check compares everything that came out with what had to.
func (s *fileStream) check(t *testing.T, letters map[types.MatchID]types.DeadLetter) {
	swarms := s.swarms()
	bad := 0
	for _, l := range s.lines {
		if !l.bad {
			continue
		}
		bad++
		id := types.NewMatchID(fileStreamID, "_source", "_source", l.identity())
		assert.Contains(t, letters, id, "the line at %d is no JSON, and a dead letter", l.offset)
		delete(letters, id)
	}
	t.Logf("%d lines, %d of them bad; %d swarms", len(s.lines), bad, len(swarms))

	hooked, queued := s.receiver.taken(), s.queued(t)
	var filed []arrival
	for _, e := range s.matchesOf(t, "picked.ndjson") {
		filed = append(filed, arrival{event: e})
	}
	all := func(int, quakeLine) bool { return true }
	strong := func(_ int, l quakeLine) bool { return l.mag >= strongMag }
	swarm := func(i int, _ quakeLine) bool { _, is := swarms[i]; return is }
	for _, lane := range []struct {
		monitor types.MonitorID
		sink    types.SinkID
		picks   func(int, quakeLine) bool
		got     []arrival
		batch   int
	}{
		{"all", "queue", all, queued, queueBatch},
		{"all", "file", all, filed, ndjsonBatch},
		{"strong", "hook", strong, hooked, 1},
		{"swarm", "hook", swarm, hooked, 1},
		{"swarm", "queue", swarm, queued, queueBatch},
	} {
		want := map[types.MatchID]int{}
		for i, l := range s.lines {
			if !l.bad && lane.picks(i, l) {
				want[types.NewMatchID(fileStreamID, lane.monitor, lane.sink, l.identity())] = i
			}
		}
		s.checkLane(t, lane.monitor, lane.sink, want, lane.got, letters, lane.batch, swarms)
	}
	assert.Empty(t, letters, "dead letters of nothing that was to be delivered")
}

// arrival is a match at its receiver. All that one send brings to a queue arrives at the same time; of a
// file it is not known.
type arrival struct {
	event types.SinkEvent
	at    time.Time
}

// checkLane wants every expected match to be delivered or a dead letter, none else, in order, and no more
// twice than what a kill may bring back. It takes the letters of the lane away.
func (s *fileStream) checkLane(t *testing.T, monitor types.MonitorID, sink types.SinkID, want map[types.MatchID]int, got []arrival, letters map[types.MatchID]types.DeadLetter, batch int, swarms map[int]types.Emission) {
	wrong := &violations{t: t, lane: string(monitor) + " to " + string(sink)}
	defer wrong.report()
	times := map[types.MatchID]int{}
	latest := map[types.MatchID]time.Time{}
	doubtful := map[time.Time]bool{} // the sends of which something came again
	sends, newest, last, returns := 0, -1, -1, 0
	for _, a := range got {
		e := a.event
		origin := e.Origin()
		if origin.Monitor != monitor {
			continue
		}
		sends++
		i, expected := want[origin.ID]
		if !expected {
			wrong.add("%s at %v was delivered and not expected; %s", origin.ID, origin.Cursor, s.receiver.historyOf(origin.ID, s.deaths))
			continue
		}
		if emitted, is := swarms[i]; monitor == "swarm" && is {
			if e.Emission == nil {
				wrong.add("%s was delivered as no emission", origin.ID)
			} else if got := (types.Emission{Key: e.Emission.Key, Hits: e.Emission.Hits, FirstTS: e.Emission.FirstTS, LastTS: e.Emission.LastTS}); !assert.ObjectsAreEqual(emitted, got) {
				wrong.add("%s stands for %+v, not for %+v", origin.ID, got, emitted)
			}
		}
		if i <= last {
			returns++
		}
		last = i
		if before, again := latest[origin.ID]; again && !before.IsZero() {
			doubtful[before] = true
		}
		latest[origin.ID] = a.at
		if times[origin.ID]++; times[origin.ID] > 1 {
			continue
		}
		if i < newest {
			wrong.add("%s, of line %d, came after line %d; %s", origin.ID, i, newest, s.receiver.historyOf(origin.ID, s.deaths))
		}
		newest = max(newest, i)
	}
	dead, both := 0, 0
	for id, i := range want {
		_, isDead := letters[id]
		delete(letters, id)
		switch {
		case isDead && times[id] > 0:
			both++
		case isDead:
			dead++
		case times[id] == 0:
			wrong.add("%s, of line %d at %d, is lost; %s", id, i, s.lines[i].offset, s.receiver.historyOf(id, s.deaths))
		}
	}
	twice := sends - len(times)
	t.Logf("%s: %d expected, %d delivered, %d dead letters, %d both; %d came twice, %.3f %%, in %d runs", wrong.lane, len(want), len(times), dead, both, twice, 100*float64(twice)/float64(max(len(times), 1)), returns)
	assert.LessOrEqual(t, twice+both, batch*len(s.deaths), "%s: what came twice", wrong.lane)
	assert.LessOrEqual(t, returns, len(s.deaths), "%s: how often it went back in the stream, once at a kill", wrong.lane)
	assert.LessOrEqual(t, len(doubtful), len(s.deaths), "%s: the sends that came again, the last one at a kill", wrong.lane)
}

// queued reads the queue, in its order, when the daemon has ended.
func (s *fileStream) queued(t *testing.T) []arrival {
	cfg, err := config.Load(s.victim.config)
	require.NoError(t, err)
	stores, err := newComposition(cfg, nil)
	require.NoError(t, err)
	queue, err := stores.Queue(t.Context(), "picked")
	require.NoError(t, err)
	var all []arrival
	for {
		messages, err := queue.Receive(t.Context(), types.ReceiveOptions{Max: ports.MaxBatch, Lease: ports.MaxLease})
		require.NoError(t, err)
		if len(messages) == 0 {
			require.NoError(t, stores.Close(context.Background()))
			return all
		}
		for _, m := range messages {
			var e types.SinkEvent
			require.NoError(t, json.Unmarshal([]byte(m.Payload.Data), &e))
			all = append(all, arrival{e, m.EnqueuedAt})
		}
	}
}

// badReceiver takes webhooks and fails in many ways at random, until it is healthy.
type badReceiver struct {
	inner   http.Handler // checks signatures
	healthy atomic.Bool

	mu      sync.Mutex
	random  *rand.Rand
	answers map[types.MatchID][]answer
	good    []arrival // for which it answered 2xx, in this order
}

// answer is what became of a request.
type answer struct {
	at   time.Time
	what string
}

func newBadReceiver(t *testing.T, seed uint64) *badReceiver {
	r := &badReceiver{random: rand.New(rand.NewPCG(seed, 0)), answers: map[types.MatchID][]answer{}}
	_, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(soakSecret, "whsec_"))
	require.NoError(t, err)
	r.inner, err = newWebhookReceiver(soakSecret, func(context.Context, types.SinkEvent) error { return nil })
	require.NoError(t, err)
	return r
}

// chances gives a number from 0 to 999, and a share of a time.
func (r *badReceiver) chances() (int, float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(1000), r.random.Float64()
}

// ServeHTTP implements http.Handler. What it fails it has taken half of the time; only what it answers
// with 2xx counts as delivered.
func (r *badReceiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var event types.SinkEvent
	if err != nil || json.Unmarshal(body, &event) != nil {
		w.WriteHeader(http.StatusInternalServerError) // a kill has cut it off
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	checked := httptest.NewRecorder()
	r.inner.ServeHTTP(checked, request)
	if checked.Code != http.StatusNoContent {
		r.note(event, fmt.Sprintf("refused with %d: %s", checked.Code, checked.Body))
		w.WriteHeader(checked.Code)
		return
	}
	chance, share := r.chances()
	if r.healthy.Load() {
		chance = 999
	}
	switch {
	case chance < 80:
		r.fail(w, event, http.StatusInternalServerError)
	case chance < 110:
		r.fail(w, event, http.StatusServiceUnavailable)
	case chance < 114:
		w.Header().Set("Retry-After", "1")
		r.fail(w, event, http.StatusTooManyRequests)
	case chance < 134:
		r.fail(w, event, http.StatusBadRequest)
	case chance < 194:
		r.note(event, "hung up")
		panic(http.ErrAbortHandler)
	case chance < 260:
		slow := 100 * time.Millisecond
		if chance < 209 {
			slow = time.Second
		}
		pause(request.Context(), time.Duration(share*float64(slow)))
		if request.Context().Err() != nil {
			r.note(event, "gone meanwhile")
			return
		}
		r.take(w, event)
	default:
		r.take(w, event)
	}
}

func (r *badReceiver) fail(w http.ResponseWriter, event types.SinkEvent, status int) {
	r.note(event, strconv.Itoa(status))
	w.WriteHeader(status)
}

func (r *badReceiver) take(w http.ResponseWriter, event types.SinkEvent) {
	r.note(event, "204")
	r.mu.Lock()
	r.good = append(r.good, arrival{event, time.Now()})
	r.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (r *badReceiver) note(event types.SinkEvent, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := event.Origin().ID
	r.answers[id] = append(r.answers[id], answer{time.Now(), what})
}

func (r *badReceiver) taken() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.good)
}

// historyOf is what became of the requests of a match, and the kills between them.
func (r *badReceiver) historyOf(id types.MatchID, deaths []time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	history := slices.Clone(r.answers[id])
	if len(history) == 0 {
		return "the receiver never saw it"
	}
	first, last := history[0].at, history[len(history)-1].at
	for _, at := range deaths {
		if at.After(first.Add(-5*time.Second)) && at.Before(last.Add(5*time.Second)) {
			history = append(history, answer{at, "kill"})
		}
	}
	slices.SortStableFunc(history, func(a, b answer) int { return a.at.Compare(b.at) })
	var text strings.Builder
	for _, a := range history {
		fmt.Fprintf(&text, " [%v %s]", a.at.Sub(first).Round(time.Millisecond), a.what)
	}
	return "its history:" + text.String()
}
