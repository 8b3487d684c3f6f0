package queuehttp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/queuehttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// post sends a body as it is, and returns the answer.
func (r *rig) post(t *testing.T, body string, change ...func(*http.Request)) (int, http.Header, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.binding.Endpoint, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+r.binding.Token)
	request.Header.Set("Content-Type", "application/json")
	for _, f := range change {
		f(request)
	}
	response, err := r.server.Client().Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, string(text)
}

// refused asserts an error body with the status and code.
func refused(t *testing.T, status int, code ports.Code, gotStatus int, body string) {
	t.Helper()
	var wire ports.WireError
	require.NoError(t, ports.DecodeJSON([]byte(body), &wire), body)
	assert.Equal(t, status, gotStatus, body)
	assert.Equal(t, status, wire.HTTPStatusCode, body)
	assert.Equal(t, code, wire.Code, body)
	assert.NotEmpty(t, wire.Message)
}

func TestWhatIsWrongIsFoundInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		body   string
		status int
		code   ports.Code
	}{
		{"another path", func(q *http.Request) { q.URL.Path = "/v1/queue/orders"; q.Method = http.MethodGet }, "{", 404, ports.CodeNotFound},
		{"a deeper path", func(q *http.Request) { q.URL.Path += "/x" }, "{", 404, ports.CodeNotFound},
		{"no id", func(q *http.Request) { q.URL.Path = "/v1/queues/" }, "{", 404, ports.CodeNotFound},
		{"the method comes before the token", func(q *http.Request) { q.Method = http.MethodPut; q.Header.Del("Authorization") }, "{", 405, ports.CodeInvalidInput},
		{"the token comes before the content type", func(q *http.Request) { q.Header.Del("Authorization"); q.Header.Del("Content-Type") }, "{", 401, ports.CodeAuthenticationFailed},
		{"the content type comes before the size", func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") }, strings.Repeat(" ", 5<<20), 415, ports.CodeInvalidInput},
		{"the size comes before the content", func(*http.Request) {}, strings.Repeat("x", 5<<20), 413, ports.CodeInvalidInput},
		{"the content comes last", func(*http.Request) {}, "{", 400, ports.CodeInvalidInput},
	} {
		status, header, body := r.post(t, c.body, c.change)
		t.Log(c.name)
		refused(t, c.status, c.code, status, body)
		assert.Equal(t, "application/json", header.Get("Content-Type"))
		assert.Equal(t, "no-store", header.Get("Cache-Control"))
		assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
		if status == 405 {
			assert.Equal(t, "POST", header.Get("Allow"))
		}
	}
}

func TestOne401ForAWrongTokenAndAnUnknownQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, r.owner.Create(t.Context(), "other"))
	other, err := r.owner.Token(t.Context(), "other")
	require.NoError(t, err)
	var bodies []string
	for name, change := range map[string]func(*http.Request){
		"no token":         func(q *http.Request) { q.Header.Del("Authorization") },
		"wrong token":      func(q *http.Request) { q.Header.Set("Authorization", "Bearer wrong") },
		"token of another": func(q *http.Request) { q.Header.Set("Authorization", "Bearer "+other) },
		"basic":            func(q *http.Request) { q.SetBasicAuth("orders", r.binding.Token) },
		"two headers":      func(q *http.Request) { q.Header.Add("Authorization", "Bearer "+r.binding.Token) },
		"in the query":     func(q *http.Request) { q.Header.Del("Authorization"); q.URL.RawQuery = "token=" + r.binding.Token },
		"unknown queue":    func(q *http.Request) { q.URL.Path = "/v1/queues/missing" },
		"impossible queue": func(q *http.Request) { q.URL.Path = "/v1/queues/.." + strings.Repeat("x", 300) },
	} {
		status, header, body := r.post(t, `{"operation":"stats"}`, change)
		require.Equal(t, 401, status, name)
		assert.Equal(t, "Bearer", header.Get("WWW-Authenticate"), name)
		bodies = append(bodies, body)
	}
	for _, body := range bodies {
		assert.Equal(t, bodies[0], body)
	}
}

func TestAQueueDeletedAfterItsTokenWasCheckedIsUnknown(t *testing.T) {
	t.Parallel()
	owner := model.NewOwner(ports.SystemClock(), "orders")
	r := serve(t, nil, owner, queuehttp.Handler(stubOwner{Owner: owner, err: ports.Errorf(ports.CodeNotFound, "owner.queue", "gone")}, queuehttp.HandlerOptions{}))
	status, _, body := r.post(t, `{"operation":"stats"}`)
	refused(t, 401, ports.CodeAuthenticationFailed, status, body)
}

type failingAuth struct {
	*model.Owner
	err error
}

func (o failingAuth) Authenticate(context.Context, string, string) error { return o.err }

func TestABrokenCredentialTellsAStrangerNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		code   ports.Code
	}{
		{ports.Errorf(ports.CodeBindingSetupFailed, "owner.authenticate", "mode 0644"), 401, ports.CodeAuthenticationFailed},
		{errors.New("odd"), 401, ports.CodeAuthenticationFailed},
		{ports.Errorf(ports.CodeStoreClosed, "owner.authenticate", "closing"), 503, ports.CodeStoreClosed},
		{ports.Errorf(ports.CodeBackendFailed, "owner.authenticate", "too many open files"), 502, ports.CodeBackendFailed},
	} {
		owner := model.NewOwner(ports.SystemClock(), "orders")
		r := serve(t, nil, owner, queuehttp.Handler(failingAuth{owner, c.err}, queuehttp.HandlerOptions{Log: fixture.Logger(t)}))
		status, _, body := r.post(t, `{"operation":"stats"}`)
		refused(t, c.status, c.code, status, body)
	}
}

// readDetector is a body that notes that it was read.
type readDetector struct {
	io.Reader
	read bool
}

func (d *readDetector) Read(p []byte) (int, error) {
	d.read = true
	return d.Reader.Read(p)
}

func TestABodyIsNotReadBeforeTheTokenIsFoundGood(t *testing.T) {
	t.Parallel()
	owner := model.NewOwner(ports.SystemClock(), "orders")
	handler := queuehttp.Handler(owner, queuehttp.HandlerOptions{})
	for _, token := range []string{"", "wrong"} {
		body := &readDetector{Reader: strings.NewReader(`{"operation":"purge"}`)}
		request := httptest.NewRequest(http.MethodPost, "/v1/queues/orders", body)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request)
		assert.Equal(t, 401, w.Code)
		assert.False(t, body.read)
	}
}

func TestAStrangerWhoseBodyNeverComesIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := r.dial(t)
	_, err := fmt.Fprintf(conn, "POST /v1/queues/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	assert.Equal(t, 401, response.StatusCode)
	assert.True(t, response.Close)
	require.NoError(t, response.Body.Close())
}

func (r *rig) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // some tests close it themselves
	return conn
}

func TestASlowBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	owner := model.NewOwner(ports.SystemClock(), "orders")
	r := serve(t, nil, owner, queuehttp.Handler(owner, queuehttp.HandlerOptions{BodyTimeout: 20 * time.Millisecond}))
	conn := r.dial(t)
	_, err := fmt.Fprintf(conn, "POST /v1/queues/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", r.binding.Token)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	refused(t, 408, ports.CodeInvalidInput, response.StatusCode, string(body))
	require.NoError(t, response.Body.Close())
}

// deadlineRecorder is a connection that notes the deadlines it is given.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	read, write []bool // whether there was one, each time
}

func (r *deadlineRecorder) SetReadDeadline(d time.Time) error {
	r.read = append(r.read, !d.IsZero())
	return nil
}

func (r *deadlineRecorder) SetWriteDeadline(d time.Time) error {
	r.write = append(r.write, !d.IsZero())
	return nil
}

// A deadline that stood while a receive waits would look like a client that has gone; one that stood
// after the answer would hold for the next request of the connection.
func TestDeadlinesEndWithTheBodyAndWithTheAnswer(t *testing.T) {
	t.Parallel()
	owner := model.NewOwner(ports.SystemClock(), "orders")
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	queue := &stubQueue{onReceive: func(context.Context) {
		assert.Equal(t, []bool{true, false}, w.read)
		assert.Empty(t, w.write)
	}}
	request := httptest.NewRequest(http.MethodPost, "/v1/queues/orders", strings.NewReader(`{"operation":"receive","waitSeconds":20}`))
	request.Header.Set("Authorization", "Bearer "+tokenOf(t, owner))
	request.Header.Set("Content-Type", "application/json")
	queuehttp.Handler(stubOwner{Owner: owner, queue: queue}, queuehttp.HandlerOptions{}).ServeHTTP(w, request)
	assert.Equal(t, 200, w.Code, w.Body)
	assert.Equal(t, []bool{true, false}, w.read)
	assert.Equal(t, []bool{true, false}, w.write)
}

func TestRequestsThatAreNotExactAre400WithoutEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client := r.client(t)
	require.NoError(t, client.Send(t.Context(), fixture.JSON(1), types.SendOptions{}))
	for _, body := range []string{
		``, `null`, `[]`, `"x"`, `{}`, `{"operation":null}`, `{"operation":1}`, `{"operation":"x"}`, `{"operation":"Purge"}`, `{"Operation":"purge"}`,
		`{"operation":"purge","x":1}`, `{"operation":"purge","operation":"purge"}`, `{"operation":"purge"} x`, `{"operation":"purge"}{"operation":"purge"}`,
		`{"operation":"purge","operatioN":"purge"}`, "{\"operation\":\"purge\xff\"}", `{"operation":"purge",}`, `{"operation":"purge"`, "\xef\xbb\xbf" + `{"operation":"purge"}`,
		`{"operation":"stats","maxMessages":1}`, `{"operation":"send"}`, `{"operation":"send","message":null}`, `{"operation":"send","message":[]}`,
		`{"operation":"send","message":{}}`, `{"operation":"send","message":{"type":"json"}}`, `{"operation":"send","message":{"data":1}}`,
		`{"operation":"send","message":{"type":"xml","data":1}}`, `{"operation":"send","message":{"type":"text","data":1}}`, `{"operation":"send","message":{"type":"text","data":null}}`,
		`{"operation":"send","message":{"type":"json","data":1,"x":2}}`, `{"operation":"send","message":{"type":"json","Data":1}}`,
		`{"operation":"send","message":{"type":"json","data":{"a":1,"a":2}}}`, `{"operation":"send","message":{"type":"json","data":"\ud800"}}`,
		`{"operation":"send","message":{"type":"json","data":NaN}}`, `{"operation":"send","message":{"type":"json","data":1},"delaySeconds":-1}`,
		`{"operation":"send","message":{"type":"json","data":1},"delaySeconds":43201}`, `{"operation":"send","message":{"type":"json","data":1},"delaySeconds":1e300}`,
		`{"operation":"send","message":{"type":"json","data":1},"delaySeconds":"1"}`, `{"operation":"send","message":{"type":"json","data":1},"delaySeconds":null}`,
		`{"operation":"send","message":{"type":"json","data":1},"waitSeconds":1}`,
		`{"operation":"send","message":{"type":"text","data":"` + strings.Repeat("x", 65_537) + `"}}`,
		`{"operation":"sendBatch"}`, `{"operation":"sendBatch","messages":[]}`, `{"operation":"sendBatch","messages":null}`, `{"operation":"sendBatch","messages":[null]}`,
		`{"operation":"sendBatch","messages":[{"type":"json","data":1,"x":1}]}`, `{"operation":"sendBatch","messages":[` + strings.Repeat(`{"type":"json","data":1},`, 10) + `{"type":"json","data":1}]}`,
		`{"operation":"receive","maxMessages":0}`, `{"operation":"receive","maxMessages":11}`, `{"operation":"receive","maxMessages":1.5}`, `{"operation":"receive","maxMessages":"1"}`,
		`{"operation":"receive","maxMessages":null}`, `{"operation":"receive","maxMessages":1e30}`, `{"operation":"receive","leaseSeconds":0}`, `{"operation":"receive","leaseSeconds":0.999}`,
		`{"operation":"receive","leaseSeconds":43200.001}`, `{"operation":"receive","waitSeconds":20.001}`, `{"operation":"receive","waitSeconds":-1}`, `{"operation":"receive","waitSeconds":true}`,
		`{"operation":"receive","waitSeconds":0.0001}`, `{"operation":"ack"}`, `{"operation":"ack","receiptHandle":null}`, `{"operation":"ack","receiptHandle":1}`,
		`{"operation":"ack","receipthandle":"x"}`, `{"operation":"nack","receiptHandle":"x","delaySeconds":-0.001}`, `{"operation":"nack"}`, `{"operation":"renew"}`,
		`{"operation":"renew","receiptHandle":"x","leaseSeconds":0}`, `{"operation":"ackBatch"}`, `{"operation":"ackBatch","receiptHandles":[]}`,
		`{"operation":"ackBatch","receiptHandles":[null]}`, `{"operation":"ackBatch","receiptHandles":["1","2","3","4","5","6","7","8","9","10","11"]}`,
		`{"operation":"peek","maxMessages":11}`, `{"operation":"peek","waitSeconds":1}`,
		`{"operation":"sendBatch","messages":[` + strings.Repeat("1,", 1<<20) + `1]}`,
	} {
		status, _, answer := r.post(t, body)
		t.Logf("%.100s", body)
		refused(t, 400, ports.CodeInvalidInput, status, answer)
	}
	stats, err := client.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, types.QueueStats{Total: 1, Visible: 1}, stats)
}

func TestDefaultsMayBeLeftOutAndFractionsGiven(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, body := range []string{
		`{"operation":"send","message":{"type":"json","data":null}}`,
		`{"operation":"send","message":{"data":"","type":"text"},"delaySeconds":0}`,
		` { "delaySeconds" : 0.25 , "message" : { "type" : "json" , "data" : [ 1 , 2 ] } , "operation" : "send" } `,
		`{"operation":"receive"}`, `{"operation":"peek"}`, `{"operation":"receive","maxMessages":10,"leaseSeconds":1.5,"waitSeconds":0}`,
		`{"operation":"nack","receiptHandle":"never issued","delaySeconds":0.001}`, `{"operation":"renew","receiptHandle":""}`, `{"operation":"ack","receiptHandle":""}`,
	} {
		status, _, answer := r.post(t, body)
		assert.Equal(t, 200, status, "%s: %s", body, answer)
	}
}

func TestTheLargestLegalBatchFitsWithEveryByteEscaped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var body strings.Builder
	body.WriteString(`{"operation":"sendBatch","messages":[`)
	for i := range ports.MaxBatch {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(`{"type":"text","data":"` + strings.Repeat(`\u0000`, ports.MaxPayloadBytes) + `"}`)
	}
	body.WriteString(`]}`)
	status, _, answer := r.post(t, body.String())
	require.Equal(t, 200, status)
	assert.Equal(t, 10, strings.Count(answer, `"sent"`))

	messages, err := r.client(t).Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Len(t, messages, 10)
	assert.Equal(t, strings.Repeat("\x00", ports.MaxPayloadBytes), messages[9].Payload.Data)
}

func TestMessagesOfABatchAreRejectedAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	status, _, answer := r.post(t, `{"operation":"sendBatch","messages":[{"type":"json","data":1},{"type":"xml","data":1},{"type":"text","data":7},{"type":"text"},`+
		`{"type":"text","data":"`+strings.Repeat("x", 65_537)+`"},{"type":"text","data":"last"}]}`)
	require.Equal(t, 200, status, answer)
	var got struct {
		Results []struct{ Status, Code, Message string }
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &got))
	var statuses []string
	for _, result := range got.Results {
		statuses = append(statuses, strings.TrimSpace(result.Status+" "+result.Code))
	}
	bad := "rejected INVALID_INPUT"
	assert.Equal(t, []string{"sent", bad, bad, bad, bad, "sent"}, statuses)

	status, _, answer = r.post(t, `{"operation":"sendBatch","messages":[{"type":"text"}]}`)
	assert.Equal(t, 200, status, answer)
	assert.Contains(t, answer, "rejected")
}

func TestPayloadsTravelByteForByte(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	deep := strings.Repeat("[", ports.MaxJSONDepth) + strings.Repeat("]", ports.MaxJSONDepth)
	for _, data := range []string{
		`{"b":1,"a":[1e2,1E+2,-0,0.10,12345678901234567890123]}`, `"<&>\u2028 \u00e9` + "\u2028\u00e9" + `\/"`, `9007199254740993`, `null`, `""`, deep,
	} {
		status, _, answer := r.post(t, `{"operation":"send","message":{"type":"json","data":`+data+`}}`)
		require.Equal(t, 200, status, answer)
		_, _, answer = r.post(t, `{"operation":"receive"}`)
		assert.Contains(t, answer, `"data":`+data+`}`)
	}
	client := r.client(t)
	for _, payload := range []types.Payload{types.JSON([]byte(` {"z" : 1.50, "a":"<&>"} `)), types.JSON([]byte(deep)), types.Text("<&>\u2028\x00\"\\"), types.Text("")} {
		require.NoError(t, client.Send(t.Context(), payload, types.SendOptions{}))
		messages, err := client.Receive(t.Context(), types.ReceiveOptions{})
		require.NoError(t, err)
		require.Len(t, messages, 1)
		want, err := ports.CheckPayload("", payload)
		require.NoError(t, err)
		assert.Equal(t, want, messages[0].Payload)
	}
}

func TestNothingIsClaimedForAReceiverThatLeavesWhileItWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	client := r.client(t)
	go func() {
		_, err := client.Receive(ctx, types.ReceiveOptions{Wait: 20 * time.Second})
		done <- err
	}()
	r.clock.BlockUntilTimers(1)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Eventually(t, func() bool { return r.clock.Timers() == 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, client.Send(t.Context(), fixture.JSON(1), types.SendOptions{}))
	messages, err := client.Receive(t.Context(), types.ReceiveOptions{})
	require.NoError(t, err)
	require.Len(t, messages, 1)
	assert.Equal(t, int64(1), messages[0].Attempt)
}

func TestWhatWasClaimedForAReceiverThatHasGoneIsReleased(t *testing.T) {
	t.Parallel()
	owner := model.NewOwner(ports.SystemClock(), "orders")
	began, released := make(chan struct{}), make(chan []string, 1)
	queue := releasingQueue{&stubQueue{
		messages:  []types.Message{{Payload: fixture.JSON(1), Receipt: receiptA, Attempt: 1}, {Payload: fixture.JSON(2), Receipt: receiptB, Attempt: 1}},
		onReceive: func(ctx context.Context) { close(began); <-ctx.Done() }, // it has claimed, and the client leaves
	}, released}
	r := serve(t, nil, owner, queuehttp.Handler(stubOwner{Owner: owner, queue: queue}, queuehttp.HandlerOptions{Log: fixture.Logger(t)}))
	conn := r.dial(t)
	body := `{"operation":"receive","maxMessages":2}`
	_, err := fmt.Fprintf(conn, "POST /v1/queues/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", r.binding.Token, len(body), body)
	require.NoError(t, err)
	<-began
	require.NoError(t, conn.Close())
	assert.Equal(t, []string{receiptA, receiptB}, <-released)
}

// brokenWriter is a connection that takes no answer.
type brokenWriter struct{ header http.Header }

func (w brokenWriter) Header() http.Header       { return w.header }
func (w brokenWriter) WriteHeader(int)           {}
func (w brokenWriter) Write([]byte) (int, error) { return 0, net.ErrClosed }

func TestWhatCouldNotBeWrittenIsReleased(t *testing.T) {
	t.Parallel()
	owner := model.NewOwner(ports.SystemClock(), "orders")
	token := tokenOf(t, owner)
	stub := &stubQueue{messages: []types.Message{{Payload: fixture.JSON(1), Receipt: receiptA, Attempt: 1}}}
	broken := &stubQueue{messages: []types.Message{{Payload: types.Payload{Type: types.PayloadJSON, Data: "{"}, Receipt: receiptA, Attempt: 1}}}
	released, nacked := make(chan []string, 1), make(chan string, 1)
	request := func() *http.Request {
		q := httptest.NewRequest(http.MethodPost, "/v1/queues/orders", strings.NewReader(`{"operation":"receive"}`))
		q.Header.Set("Authorization", "Bearer "+token)
		q.Header.Set("Content-Type", "application/json")
		return q
	}
	handler := func(q ports.Queue) http.Handler {
		return queuehttp.Handler(stubOwner{Owner: owner, queue: q}, queuehttp.HandlerOptions{Log: fixture.Logger(t)})
	}
	handler(releasingQueue{stub, released}).ServeHTTP(brokenWriter{http.Header{}}, request())
	assert.Equal(t, []string{receiptA}, <-released)
	handler(nackingQueue{stub, nacked}).ServeHTTP(brokenWriter{http.Header{}}, request())
	assert.Equal(t, receiptA, <-nacked)

	// A payload that an adapter should not have let through is an error, and stays in the queue.
	w := httptest.NewRecorder()
	handler(releasingQueue{broken, released}).ServeHTTP(w, request())
	assert.Equal(t, []string{receiptA}, <-released)
	refused(t, 502, ports.CodeBackendFailed, w.Code, w.Body.String())
}

func TestAClosingOwnerWakesThoseWhoWaitAndAnswers503(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	done := make(chan error, 1)
	client := r.client(t)
	go func() {
		_, err := client.Receive(t.Context(), types.ReceiveOptions{Wait: 20 * time.Second})
		done <- err
	}()
	r.clock.BlockUntilTimers(1)
	require.NoError(t, r.owner.Close())
	require.ErrorIs(t, <-done, ports.ErrStoreClosed)
	status, _, body := r.post(t, `{"operation":"stats"}`)
	refused(t, 503, ports.CodeStoreClosed, status, body)
	require.NoError(t, r.server.Config.Shutdown(t.Context()))
}

// syncBuffer is a log that many goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestNeitherTokenNorPayloadIsEverLoggedOrReported(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	owner := model.NewOwner(ports.SystemClock(), "orders")
	owner.Block("blocked")
	r := serve(t, nil, owner, queuehttp.Handler(owner, queuehttp.HandlerOptions{Log: log}))
	const canary = "canarycanary"
	var seen strings.Builder
	for _, body := range []string{
		`{"operation":"send","message":{"type":"json","data":"` + canary + `"},"x":1}`,
		`{"operation":"send","message":{"type":"json","data":["` + canary + `",}}`,
		`{"operation":"send","message":{"type":"text","data":"` + strings.Repeat(canary, 6000) + `"}}`,
		`{"operation":"send","message":{"type":"text","data":{"a":"` + canary + `"}}}`,
		`{"operation":"nack","receiptHandle":"1:` + canary + `","delaySeconds":-1}`,
	} {
		_, _, answer := r.post(t, body)
		seen.WriteString(answer)
		_, _, answer = r.post(t, body, func(q *http.Request) { q.Header.Set("Authorization", "Bearer "+canary) })
		seen.WriteString(answer)
	}
	_, err := newClient(t, queuehttp.Binding{Endpoint: r.binding.Endpoint, Token: canary}, queuehttp.Options{}).Stats(t.Context())
	require.ErrorIs(t, err, ports.ErrAuthenticationFailed)
	seen.WriteString(err.Error())
	all := out.String() + seen.String()
	assert.NotContains(t, all, canary)
	assert.NotContains(t, all, r.binding.Token)
	assert.Contains(t, out.String(), "INVALID_INPUT")
}

func TestFailuresOfTheServerAreWarningsAndRefusalsAreNot(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	owner := model.NewOwner(ports.SystemClock(), "orders")
	queue := &stubQueue{err: ports.Errorf(ports.CodeQueueOperationFailed, "queue.stats", "full").WithReason(ports.ReasonDiskFull)}
	r := serve(t, nil, owner, queuehttp.Handler(stubOwner{Owner: owner, queue: queue}, queuehttp.HandlerOptions{Log: log}))
	r.post(t, `{"operation":"x"}`)
	assert.Empty(t, out.String())
	status, _, _ := r.post(t, `{"operation":"stats"}`)
	assert.Equal(t, 507, status)
	assert.Equal(t, 1, strings.Count(out.String(), "\n"))
	assert.Contains(t, out.String(), `"level":"WARN"`)
}
