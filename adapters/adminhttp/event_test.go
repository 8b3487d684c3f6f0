package adminhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/adminhttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

const eventToken = "a-token-of-the-pipeline-named-quakes"

func producing(q *http.Request) { q.Header.Set("Authorization", "Bearer "+eventToken) }

var asLines = with("Content-Type", "application/x-ndjson; charset=utf-8")

func TestEventsAreAcceptedOneOrMany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/pipelines/quakes/events"
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	status, _, body := r.do(t, "POST", path, ` { "mag" : 4.50 , "place":"<é>" } `, producing, with("Traceparent", parent))
	assert.Equal(t, 202, status)
	assert.Equal(t, `{"accepted":1}`, body)
	status, _, body = r.do(t, "POST", path, "\n{\"a\": 1}\r\n \n2\n\n[3]", asLines)
	assert.Equal(t, 202, status, "the admin token does too")
	assert.Equal(t, `{"accepted":3}`, body)
	now := fixture.Epoch().UnixMilli()
	got, _ := r.engine.state()
	assert.Equal(t, []types.Event{
		{TS: now, Data: []byte(`{"mag":4.50,"place":"<é>"}`), Traceparent: parent},
		{TS: now, Data: []byte(`{"a":1}`)}, {TS: now, Data: []byte(`2`)}, {TS: now, Data: []byte(`[3]`)},
	}, got)
}

func TestATraceContextOfAnotherFormIsPassedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, given := range [][]string{
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"}, {"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, {"00-00000000000000000000000000000000-b7ad6b7169203331-01"},
		{"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, {"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}, {"00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01"},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, {strings.Repeat("0", 55)},
	} {
		status, _, _ := r.do(t, "POST", "/v1/pipelines/quakes/events", "1", with("Traceparent", given...))
		assert.Equal(t, 202, status)
	}
	got, _ := r.engine.state()
	require.Len(t, got, 8)
	for _, e := range got {
		assert.Empty(t, e.Traceparent)
	}
}

func TestOneBadEventRefusesThemAll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const secret = "hunter2"
	large := `"` + strings.Repeat("x", ports.MaxJSONBytes-1) + `"`
	for body, want := range map[string]struct {
		lines   bool
		status  int
		message string
	}{
		`{"a":1,"a":"` + secret + `"}`: {false, 400, "the event: it is not valid JSON"},
		`{"a":1} {"b":2}`:              {false, 400, "the event: it is not valid JSON"},
		" ":                            {false, 400, "the event: it is not valid JSON"},
		large:                          {false, 400, "the event: it has 1048577 bytes"},
		"1\n\n{" + secret + "\n3":      {true, 400, "line 3: it is not valid JSON"},
		"1\n" + large:                  {true, 400, "line 2: it has 1048577 bytes"},
		"1\n\u00a02":                   {true, 400, "line 2: it is not valid JSON"}, // JSON has no such white space
		"\n \r\n\n":                    {true, 400, "the request has no event"},
		strings.Repeat("1\n", adminhttp.MaxEvents+1): {true, 413, "line 10001: a request has at most 10000 events"},
		strings.Repeat("\n", 8<<20+1):                {true, 413, "more than 8388608 bytes"},
	} {
		change := producing
		if want.lines {
			change = func(q *http.Request) { producing(q); asLines(q) }
		}
		status, _, text := r.do(t, "POST", "/v1/pipelines/quakes/events", body, change)
		refused(t, want.status, ports.CodeInvalidInput, status, text)
		assert.Contains(t, text, want.message)
		assert.NotContains(t, text, secret)
	}
	for _, lines := range []bool{false, true} {
		media := with("Content-Type", "application/json")
		if lines {
			media = asLines
		}
		status, _, text := r.do(t, "POST", "/v1/pipelines/quakes/events", "", producing, media)
		refused(t, 400, ports.CodeInvalidInput, status, text)
	}
	for _, media := range []string{"text/plain", "application/x-ndjson; charset=latin1", ""} {
		status, _, text := r.do(t, "POST", "/v1/pipelines/quakes/events", "1", with("Content-Type", media))
		refused(t, 415, ports.CodeInvalidInput, status, text)
	}
	status, _, text := r.do(t, "POST", "/v1/pipelines/quakes/events?x=1", "1")
	refused(t, 400, ports.CodeInvalidInput, status, text)
	accepted, _ := r.engine.state()
	assert.Empty(t, accepted)
	assert.NotContains(t, r.log.String(), secret)
	status, _, _ = r.do(t, "POST", "/v1/pipelines/quakes/events", strings.Repeat("1\n", adminhttp.MaxEvents), asLines)
	assert.Equal(t, 202, status)
}

func TestAnUnknownPipelineLooksLikeAWrongToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	answers := map[string]bool{}
	for _, id := range []string{"quakes", "tides", "missing", "-bad-"} {
		for _, change := range []func(*http.Request){without, with("Authorization", "Bearer "+eventToken+"x"), with("Authorization", "Bearer token-of-quakes")} {
			status, header, body := r.do(t, "POST", "/v1/pipelines/"+id+"/events", "{not looked at", change)
			refused(t, 401, ports.CodeAuthenticationFailed, status, body)
			assert.Equal(t, "Bearer", header.Get("WWW-Authenticate"))
			answers[body] = true
		}
	}
	assert.Len(t, answers, 1)
	assert.Equal(t, []types.PipelineID{"quakes", "tides"}, r.askedTokens(), "no token is made for a pipeline that there is not")
	status, _, body := r.do(t, "POST", "/v1/pipelines/tides/events", "1", producing)
	refused(t, 401, ports.CodeAuthenticationFailed, status, body)
	status, _, body = r.do(t, "POST", "/v1/pipelines/quakes/events", "1", reading)
	refused(t, 403, ports.CodeAuthenticationFailed, status, body)
	status, _, body = r.do(t, "GET", "/v1/pipelines/quakes", "", producing)
	refused(t, 401, ports.CodeAuthenticationFailed, status, body)

	status, _, body = r.do(t, "POST", "/v1/pipelines/missing/events", "1")
	refused(t, 404, ports.CodeNotFound, status, body)
	status, _, body = r.do(t, "POST", "/v1/pipelines/tides/events", "1")
	refused(t, 400, ports.CodeInvalidInput, status, body)
	assert.Contains(t, body, "takes no events")
	assert.NotContains(t, r.log.String(), eventToken)

	r.engine.fail = ports.Errorf(ports.CodeStoreReplaced, "storage.get", "the file was replaced")
	status, _, body = r.do(t, "POST", "/v1/pipelines/quakes/events", "1", producing)
	refused(t, 500, ports.CodeStoreReplaced, status, body)
}

func TestATokenThatCannotBeReadLetsNobodyIn(t *testing.T) {
	t.Parallel()
	for _, source := range []func(types.PipelineID) (string, error){
		nil,
		func(types.PipelineID) (string, error) { return "", nil },
		func(types.PipelineID) (string, error) { return eventToken, errors.New("unreadable") },
	} {
		r := newRig(t, func(o *adminhttp.Options) { o.EventToken = source })
		status, _, _ := r.do(t, "POST", "/v1/pipelines/quakes/events", "1", producing)
		assert.Equal(t, 401, status)
		status, _, _ = r.do(t, "POST", "/v1/pipelines/quakes/events", "1")
		assert.Equal(t, 202, status)
	}
}

func TestAPipelineThatIsNotRunningAsksForAPause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.engine.stopped = true
	status, header, body := r.do(t, "POST", "/v1/pipelines/quakes/events", "1", producing)
	refused(t, 503, ports.CodeStoreClosed, status, body)
	assert.Equal(t, "1", header.Get("Retry-After"))
	err := newClient(t, r.server.URL, eventToken, adminhttp.ClientOptions{}).PostEvents(t.Context(), "quakes", []byte("1"))
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	assert.True(t, ports.IsTransient(err))
}

// waiting holds requests with events at work until it is closed.
type waiting struct {
	*engine
	over    chan struct{}
	arrived chan struct{}
}

func (w waiting) Accept(context.Context, types.PipelineID, []types.Event) error {
	w.arrived <- struct{}{}
	<-w.over
	return nil
}

// waitingRig serves pipelines that hold their requests. The function posts a body of so many bytes to a
// pipeline, and hands over the status when there is one.
func waitingRig(t *testing.T) (w waiting, r *rig, post func(id string, size int), answers chan int) {
	t.Helper()
	w = waiting{&engine{}, make(chan struct{}), make(chan struct{})}
	r = newRig(t, func(o *adminhttp.Options) { o.Pipelines, o.CheckTimeout = w, 200*time.Millisecond })
	answers = make(chan int)
	post = func(id string, size int) {
		go func() {
			status, _, _ := r.do(t, "POST", "/v1/pipelines/"+id+"/events", events(size))
			answers <- status
		}()
		<-w.arrived
	}
	return w, r, post, answers
}

// events is a body of so many bytes.
func events(size int) string { return `"` + strings.Repeat("x", size-2) + `"` }

func TestRequestsOfAPipelineTakeNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ size, below, share int }{{200 << 10, 100 << 10, 4}, {8 << 10, 4 << 10, 256}} {
		w, r, post, answers := waitingRig(t)
		for range tc.share {
			post("quakes", tc.size)
		}
		for _, change := range []func(*http.Request){producing, func(q *http.Request) { q.ContentLength = -1 }} {
			status, header, body := r.do(t, "POST", "/v1/pipelines/quakes/events", events(tc.size), change)
			assert.Equal(t, 503, status)
			assert.Contains(t, body, `"reason":"busy"`)
			assert.Contains(t, body, `"retryable":true`)
			assert.Equal(t, "1", header.Get("Retry-After"))
		}
		post("quakes", tc.below) // has no need to wait
		post("tides", tc.size)   // has a share of its own
		close(w.over)
		for range tc.share + 2 {
			assert.Equal(t, 202, <-answers)
		}
		go func() { <-w.arrived }()
		status, _, body := r.do(t, "POST", "/v1/pipelines/quakes/events", events(tc.size), producing)
		assert.Equal(t, 202, status, body)
	}
}

// What is said to come, and does not, is not in the memory, and takes no place from those who send.
func TestSlowProducersHoldUpNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) { o.CheckTimeout = 200 * time.Millisecond })
	for i := range 300 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		length := []string{"Content-Length: 8388608", "Transfer-Encoding: chunked"}[i%2]
		_, err = fmt.Fprintf(conn, "POST /v1/pipelines/quakes/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n%s\r\n\r\n", eventToken, length)
		require.NoError(t, err)
		status, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, status, "100 Continue", "the handler reads the body")
	}
	status, _, body := r.do(t, "POST", "/v1/pipelines/quakes/events", events(1<<20), producing)
	assert.Equal(t, 202, status, body)
}

func TestABindingLetsAProducerIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, func(o *adminhttp.Options) {
		o.EventToken = func(id types.PipelineID) (string, error) { return adminhttp.LoadToken(filepath.Join(dir, string(id))) }
	})
	client := newClient(t, r.server.URL, adminToken, adminhttp.ClientOptions{})
	_, err := client.EventBinding(t.Context(), "missing")
	require.ErrorIs(t, err, ports.ErrNotFound)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)

	binding, err := client.EventBinding(t.Context(), "quakes")
	require.NoError(t, err)
	assert.Equal(t, base+"/v1/pipelines/quakes/events", binding.Endpoint)
	assert.GreaterOrEqual(t, len(binding.Token), 43)
	producer := newClient(t, r.server.URL, binding.Token, adminhttp.ClientOptions{})
	require.NoError(t, producer.PostEvents(t.Context(), "quakes", []byte(`{"mag": 5}`), []byte("2")))
	require.ErrorIs(t, producer.PostEvents(t.Context(), "tides", []byte("1")), ports.ErrAuthenticationFailed)
	_, err = producer.Pipelines(t.Context())
	require.ErrorIs(t, err, ports.ErrAuthenticationFailed)
	accepted, _ := r.engine.state()
	assert.Len(t, accepted, 2)

	for _, bad := range [][][]byte{nil, {[]byte("{")}, {[]byte("1"), nil}, make([][]byte, adminhttp.MaxEvents+1)} {
		require.ErrorIs(t, producer.PostEvents(t.Context(), "quakes", bad...), ports.ErrInvalidInput)
	}
	heavy := []byte(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	require.ErrorIs(t, producer.PostEvents(t.Context(), "quakes", heavy, heavy, heavy, heavy, heavy, heavy, heavy, heavy), ports.ErrInvalidInput)
	require.NoError(t, producer.PostEvents(t.Context(), "quakes", heavy, heavy, heavy, heavy, heavy, heavy, heavy))
}

func TestWithoutPipelinesTheirPathsSaySo(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) { o.Pipelines, o.EventToken = nil, nil })
	for _, request := range []struct{ method, path string }{
		{"GET", "/v1/pipelines"}, {"GET", "/v1/pipelines/quakes"}, {"GET", "/v1/pipelines/quakes/binding"}, {"POST", "/v1/pipelines/quakes/events"},
	} {
		status, _, body := r.do(t, request.method, request.path, "")
		assert.Equal(t, 501, status, body)
		assert.Contains(t, body, `"reason":"unsupported"`)
	}
	status, _, _ := r.do(t, "PUT", "/v1/resources/pipeline/quakes", `{"bad":1}`)
	assert.Equal(t, 201, status, "it is a resource like any other")
	_, _, body := r.do(t, "GET", "/statusz", "")
	assert.NotContains(t, body, `"pipelines":{"pipelines":[{"id"`)
}

func TestMetricsAreForAnyone(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			_, err := fmt.Fprintln(w, "stowage_events_total 7")
			assert.NoError(t, err)
		})
	})
	status, _, body := r.do(t, "GET", "/metrics", "", without)
	assert.Equal(t, 200, status)
	assert.Equal(t, "stowage_events_total 7\n", body)
	status, _, body = newRig(t).do(t, "GET", "/metrics", "", without)
	refused(t, 404, ports.CodeNotFound, status, body)
}
