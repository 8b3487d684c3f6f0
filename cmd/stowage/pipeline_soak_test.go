package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
		pause(ctx, time.Duration(v.random.IntN(1500))*time.Millisecond)
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
func (v *victim) await(settled func(context.Context, operatorClient) (bool, string)) {
	client := v.client()
	what := ""
	require.Eventually(v.t, func() (done bool) {
		done, what = settled(v.t.Context(), client)
		return done
	}, 10*time.Minute, 50*time.Millisecond, "a pipeline does not come to an end: %s", &lazily{&what})
}

// lazily is a text that is known later.
type lazily struct{ text *string }

func (l *lazily) String() string { return *l.text }

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
		for range 1 + s.random.IntN(150) {
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
		hits := append(counted[l.net], l.time)
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

	var hooked, queued []types.SinkEvent
	hooked = s.receiver.taken()
	for _, text := range s.queued(t) {
		var e types.SinkEvent
		require.NoError(t, json.Unmarshal([]byte(text), &e))
		queued = append(queued, e)
	}
	filed := s.matchesOf(t, "picked.ndjson")
	all := func(int, quakeLine) bool { return true }
	strong := func(_ int, l quakeLine) bool { return l.mag >= strongMag }
	swarm := func(i int, _ quakeLine) bool { _, is := swarms[i]; return is }
	for _, lane := range []struct {
		monitor types.MonitorID
		sink    types.SinkID
		picks   func(int, quakeLine) bool
		got     []types.SinkEvent
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

// checkLane wants every expected match to be delivered or a dead letter, none else, in order, and no more
// twice than what a kill may bring back. It takes the letters of the lane away.
func (s *fileStream) checkLane(t *testing.T, monitor types.MonitorID, sink types.SinkID, want map[types.MatchID]int, got []types.SinkEvent, letters map[types.MatchID]types.DeadLetter, batch int, swarms map[int]types.Emission) {
	wrong := &violations{t: t, lane: string(monitor) + " to " + string(sink)}
	defer wrong.report()
	times := map[types.MatchID]int{}
	sends, newest, last, returns := 0, -1, -1, 0
	for _, e := range got {
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
}

// queued reads the queue, in its order, when the daemon has ended.
func (s *fileStream) queued(t *testing.T) []string {
	cfg, err := config.Load(s.victim.config)
	require.NoError(t, err)
	stores, err := newComposition(cfg, nil)
	require.NoError(t, err)
	queue, err := stores.Queue(t.Context(), "picked")
	require.NoError(t, err)
	var all []string
	for {
		messages, err := queue.Receive(t.Context(), types.ReceiveOptions{Max: ports.MaxBatch, Lease: ports.MaxLease})
		require.NoError(t, err)
		if len(messages) == 0 {
			require.NoError(t, stores.Close(context.Background()))
			return all
		}
		for _, m := range messages {
			all = append(all, m.Payload.Data)
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
	good    []types.SinkEvent // for which it answered 2xx, in this order
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

// chances gives a number from 0 to 999, and a short time.
func (r *badReceiver) chances() (int, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(1000), time.Duration(r.random.IntN(100)) * time.Millisecond
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
	chance, slow := r.chances()
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
		pause(request.Context(), slow)
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
	r.good = append(r.good, event)
	r.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (r *badReceiver) note(event types.SinkEvent, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := event.Origin().ID
	r.answers[id] = append(r.answers[id], answer{time.Now(), what})
}

func (r *badReceiver) taken() []types.SinkEvent {
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

// numbered is an event that says who made it, and which of his it is.
type numbered struct {
	Producer int `json:"producer"`
	N        int `json:"n"`
}

// tally is what a producer has had confirmed, and how often it sent something again.
type tally struct {
	mu        sync.Mutex
	confirmed map[numbered]bool
	repeats   map[numbered]int // sends beyond the first whose outcome nobody knew
}

func newTally() *tally { return &tally{confirmed: map[numbered]bool{}, repeats: map[numbered]int{}} }

func (y *tally) confirm(events []numbered, repeats int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, e := range events {
		y.confirmed[e] = true
		if repeats > 0 {
			y.repeats[e] = repeats
		}
	}
}

// check wants every confirmed event among the matches, none that was not sent, as often as it was sent at
// most, and each match no more than once beside what a kill may bring back.
func (y *tally) check(t *testing.T, lane string, got []types.SinkEvent, batch, kills int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	wrong := &violations{t: t, lane: lane}
	defer wrong.report()
	ids := map[numbered]map[types.MatchID]bool{}
	times := map[types.MatchID]int{}
	for _, e := range got {
		var n numbered
		if err := json.Unmarshal(e.Origin().Event, &n); err != nil {
			wrong.add("%s is no event of it: %v", e.Origin().ID, err)
			continue
		}
		if !y.confirmed[n] {
			wrong.add("%s, %+v, was never sent", e.Origin().ID, n)
			continue
		}
		if ids[n] == nil {
			ids[n] = map[types.MatchID]bool{}
		}
		ids[n][e.Origin().ID] = true
		times[e.Origin().ID]++
	}
	stored := 0
	for n := range y.confirmed {
		stored += len(ids[n])
		switch {
		case len(ids[n]) == 0:
			wrong.add("%+v was confirmed and never came out", n)
		case len(ids[n]) > 1+y.repeats[n]:
			wrong.add("%+v came out as %d matches: %v; it was sent again %d times", n, len(ids[n]), slices.Sorted(maps.Keys(ids[n])), y.repeats[n])
		}
	}
	twice := len(got) - len(times)
	t.Logf("%s: %d confirmed, %d of them sent again without an answer, %d matches; %d came twice, %.3f %%", lane, len(y.confirmed), len(y.repeats), stored, twice, 100*float64(twice)/float64(max(len(times), 1)))
	assert.NotEmpty(t, y.confirmed)
	assert.LessOrEqual(t, twice, batch*kills, "%s: what came twice", lane)
}

// untilDone repeats a call, each time with whatever daemon there is, until it succeeds, and says how often
// it failed. The daemon is up in the end.
func untilDone(call func() error) (failures int) {
	for call() != nil {
		failures++
		pause(context.Background(), 5*time.Millisecond)
	}
	return failures
}

// The stream of what is posted.

const postStreamID types.PipelineID = "posted"

type postStream struct {
	*victim
	random *rand.Rand
	tally  *tally
}

func (s *postStream) config() string {
	s.tally = newTally()
	return fmt.Sprintf(`
[[pipeline]]
id = %q
source = { module = "http" }
[[pipeline.monitor]]
id = "all"
sinks = ["file"]
[[pipeline.sink]]
id = "file"
module = "ndjson"
path = "posted.ndjson"
`, postStreamID)
}

// feed posts from several producers. Each goes on with a batch until it is accepted.
func (s *postStream) feed(ctx context.Context) error {
	token, err := loadEventToken(s.stateDir(), postStreamID)
	if err != nil {
		return err
	}
	seeds := []uint64{s.random.Uint64(), s.random.Uint64(), s.random.Uint64()}
	var producers sync.WaitGroup
	for p, seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 0))
		producers.Go(func() {
			for n := 0; ctx.Err() == nil; {
				batch := make([]numbered, 1+random.IntN(20))
				lines := make([][]byte, len(batch))
				for i := range batch {
					batch[i] = numbered{p, n}
					lines[i] = fmt.Appendf(nil, `{"producer":%d,"n":%d}`, p, n)
					n++
				}
				failures := untilDone(func() error {
					client, err := newOperatorClient(s.daemon().address, token)
					if err != nil {
						return err
					}
					return client.PostEvents(context.Background(), postStreamID, lines...)
				})
				s.tally.confirm(batch, failures)
				pause(ctx, time.Duration(random.IntN(50))*time.Millisecond)
			}
		})
	}
	producers.Wait()
	return nil
}

func (s *postStream) settled(ctx context.Context, client operatorClient) (bool, string) {
	status, rest, text := rests(ctx, client, postStreamID)
	// What is accepted is read at once, but not in the same instant: one event of our own marks the end.
	if !rest || status.Read == nil {
		return false, text
	}
	before := status.Read.Primary
	mark := numbered{-1, int(before)}
	if err := client.PostEvents(ctx, postStreamID, fmt.Appendf(nil, `{"producer":-1,"n":%d}`, before)); err != nil {
		return false, err.Error()
	}
	s.tally.confirm([]numbered{mark}, 0)
	var done bool
	assert.Eventually(s.t, func() bool {
		status, rest, text = rests(ctx, client, postStreamID)
		done = rest && status.Read != nil && status.Read.Primary > before
		return done
	}, time.Minute, 10*time.Millisecond)
	return done, text
}

func (s *postStream) check(t *testing.T) {
	s.tally.check(t, "posted", s.matchesOf(t, "posted.ndjson"), ndjsonBatch, len(s.deaths))
}

// The stream of a queue.

const (
	jobStreamID types.PipelineID = "jobs"
	jobQueue                     = "jobs"
)

type jobStream struct {
	*victim
	random *rand.Rand
	tally  *tally
}

func (s *jobStream) config() string {
	s.tally = newTally()
	return fmt.Sprintf(`
[queue.%s]
module = "localqueue"
[[pipeline]]
id = %q
source = { module = "queue", queue = %[1]q, lease = "2s" }
[[pipeline.monitor]]
id = "all"
sinks = ["file"]
[[pipeline.sink]]
id = "file"
module = "ndjson"
path = "jobs-done.ndjson"
`, jobQueue, jobStreamID)
}

func (s *jobStream) feed(ctx context.Context) error {
	seeds := []uint64{s.random.Uint64(), s.random.Uint64()}
	var producers sync.WaitGroup
	for p, seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 0))
		producers.Go(func() {
			for n := 0; ctx.Err() == nil; {
				batch := make([]numbered, 1+random.IntN(ports.MaxBatch))
				payloads := make([]types.Payload, len(batch))
				for i := range batch {
					batch[i] = numbered{p, n}
					payloads[i] = types.JSON(fmt.Appendf(nil, `{"producer":%d,"n":%d}`, p, n))
					n++
				}
				failures := untilDone(func() error { return s.send(payloads) })
				s.tally.confirm(batch, failures)
				pause(ctx, time.Duration(random.IntN(30))*time.Millisecond)
			}
		})
	}
	producers.Wait()
	return nil
}

func (s *jobStream) send(payloads []types.Payload) error {
	queue, err := s.daemon().reach().openQueue(jobQueue)
	if err != nil {
		return err
	}
	outcomes, err := queue.SendBatch(context.Background(), payloads)
	err = errors.Join(err, queue.Close())
	for _, o := range outcomes {
		err = errors.Join(err, o.Err)
	}
	return err
}

func (s *jobStream) settled(ctx context.Context, client operatorClient) (bool, string) {
	_, rest, text := rests(ctx, client, jobStreamID)
	stats, err := s.stats(ctx)
	if err != nil {
		return false, err.Error()
	}
	return rest && stats.Total == 0, fmt.Sprintf("%s, %+v", text, stats)
}

func (s *jobStream) stats(ctx context.Context) (types.QueueStats, error) {
	queue, err := s.daemon().reach().openQueue(jobQueue)
	if err != nil {
		return types.QueueStats{}, err
	}
	stats, err := queue.Stats(ctx)
	return stats, errors.Join(err, queue.Close())
}

func (s *jobStream) checkEmpty(t *testing.T) {
	stats, err := s.stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats.Total, "the queue ends empty")
	assert.Zero(t, stats.Undecodable)
}

func (s *jobStream) check(t *testing.T) {
	s.tally.check(t, "jobs", s.matchesOf(t, "jobs-done.ndjson"), ndjsonBatch, len(s.deaths))
}

// TestSoakPipelineMemory sends ten million events through a pipeline, or half a million if there is less
// than a minute, and looks at the memory of the daemon each second: it stays as it is.
func TestSoakPipelineMemory(t *testing.T) {
	events := 10_000_000
	if soakLength(t) < time.Minute {
		events = 500_000
	}
	dir := t.TempDir()
	state := filepath.Join(dir, defaultStateDir)
	require.NoError(t, os.MkdirAll(state, 0o700))
	require.NoError(t, writeNumbers(filepath.Join(state, "numbers.ndjson"), events))
	file := filepath.Join(dir, "stowage.toml")
	require.NoError(t, os.WriteFile(file, []byte(`
[queue.picked]
module = "localqueue"
[[pipeline]]
id = "numbers"
source = { module = "ndjson", path = "numbers.ndjson" }
fields = { n = "number" }
[[pipeline.monitor]]
id = "hundredth"
when = "n % 100 == 0"
sinks = ["queue"]
[[pipeline.sink]]
id = "queue"
module = "queue"
queue = "picked"
`), 0o600))
	p, err := startProcess(dir, filepath.Join(dir, "daemon.log"), cleanEnvironment(), "--config", file)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.end(os.Kill)) })
	d := testDaemon{p, dir}
	token, err := d.reach().adminToken()
	require.NoError(t, err)
	client, err := newOperatorClient(d.address, token)
	require.NoError(t, err)

	type sample struct {
		events   uint64
		resident int64
		heap     int64
	}
	var samples []sample
	var status types.PipelineStatus
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			require.NoError(t, t.Context().Err())
		}
		status, err = client.Pipeline(t.Context(), "numbers")
		require.NoError(t, err)
		require.NotEqual(t, types.PipelineFailed, status.State, status.Error)
		samples = append(samples, sample{status.Events, memoryField(t, d.cmd.Process.Pid, "VmRSS:"), heapInUse(t, d.address)})
		done = status.Events >= uint64(events) && status.Pending == 0
	}
	took := time.Since(began)
	require.Equal(t, uint64(events), status.Events)
	require.Equal(t, uint64(events/100), status.Sinks[0].Delivered)
	stats, err := d.queue(t, "picked").Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(events/100), stats.Total)

	var resident, heap []int64
	for i, s := range samples {
		if i%max(len(samples)/20, 1) == 0 || i == len(samples)-1 {
			t.Logf("%9d events: %3d MiB resident, %3d MiB of heap", s.events, s.resident>>20, s.heap>>20)
		}
		if s.events >= uint64(events/10) { // warm by then
			resident, heap = append(resident, s.resident), append(heap, s.heap)
		}
	}
	t.Logf("%d events in %v: %.0f a second; resident %d MiB in the middle, %d MiB at most; heap %d and %d MiB", events, took.Round(time.Second), float64(events)/took.Seconds(),
		median(resident)>>20, slices.Max(resident)>>20, median(heap)>>20, slices.Max(heap)>>20)
	const slack = 8 << 20 // of the garbage collector, where there is little
	assert.LessOrEqual(t, slices.Max(resident), median(resident)*13/10+slack, "resident memory grows")
	assert.Less(t, slices.Max(resident), int64(150<<20), "resident memory")
}

// writeNumbers writes lines with the numbers from 1 to count.
func writeNumbers(path string, count int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	var line []byte
	for n := 1; n <= count && err == nil; n++ {
		line = append(strconv.AppendInt(append(line[:0], `{"n":`...), int64(n), 10), "}\n"...)
		_, err = w.Write(line)
	}
	return errors.Join(err, w.Flush(), f.Close())
}

func median(values []int64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// memoryField is a field of the memory of a process, in bytes.
func memoryField(t *testing.T, pid int, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this system has no /proc to read the memory of a process from")
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	require.Fail(t, "the status of the process has no "+field)
	return 0
}

// heapInUse is what the daemon says of its heap, in bytes.
func heapInUse(t *testing.T, address string) int64 {
	t.Helper()
	answer, err := http.Get(address + "/metrics")
	require.NoError(t, err)
	defer answer.Body.Close()
	const name = "go_memstats_heap_inuse_bytes "
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name); ok {
			bytes, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			return int64(bytes)
		}
	}
	require.NoError(t, lines.Err())
	require.Fail(t, "the metrics have no "+name)
	return 0
}
