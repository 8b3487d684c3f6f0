package adminhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/adminhttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

const (
	adminToken = "an-admin-token-that-nobody-guesses"
	readToken  = "a-token-for-those-who-only-read-it"
	base       = "http://queues.test:7420"
)

// A rig is a handler over an owner of models with the queue "orders", a model storage and an engine, served at a
// loopback address; every answer is held against the document.
type rig struct {
	clock   *fixture.Clock
	owner   *model.Owner
	storage *model.Storage
	control *control
	engine  *engine
	handler *adminhttp.Handler
	server  *httptest.Server
	log     *syncBuffer

	mu    sync.Mutex
	asked []types.PipelineID // for whose token was asked
}

func (r *rig) eventToken(id types.PipelineID) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.asked, id) {
		r.asked = append(r.asked, id)
	}
	return strings.Replace(eventToken, "quakes", string(id), 1), nil
}

func (r *rig) askedTokens() []types.PipelineID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked)
}

func newRig(t *testing.T, change ...func(*adminhttp.Options)) *rig {
	t.Helper()
	r := &rig{clock: fixture.NewClock(fixture.Epoch()), log: &syncBuffer{}}
	r.owner = model.NewOwner(r.clock, "orders")
	r.storage = model.NewStorage(0)
	r.engine = &engine{}
	r.control = &control{storage: r.storage, clock: r.clock}
	options := adminhttp.Options{
		Owner: r.owner,
		Queues: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			assert.NoError(t, ports.WriteJSON(w, http.StatusOK, []byte("{}"), time.Minute))
		}),
		AdminToken:    func() (string, error) { return adminToken, nil },
		ReadToken:     func() (string, error) { return readToken, nil },
		Storage:       r.storage,
		StorageModule: "model",
		Control:       r.control,
		Pipelines:     r.engine,
		EventToken:    r.eventToken,
		Endpoint:      base + "/",
		Version:       "v1.2.3",
		Clock:         r.clock,
		StartedAt:     fixture.Epoch().Add(-time.Minute),
		Log:           slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&options)
	}
	handler, err := adminhttp.New(options)
	require.NoError(t, err)
	r.handler = handler
	r.server = httptest.NewServer(checked(t, handler))
	t.Cleanup(r.server.Close)
	return r
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

// do sends a request with the admin token, unless that is changed.
func (r *rig) do(t *testing.T, method, path, body string, change ...func(*http.Request)) (int, http.Header, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, r.server.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+adminToken)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
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

func without(q *http.Request) { q.Header.Del("Authorization") }

func reading(q *http.Request) { q.Header.Set("Authorization", "Bearer "+readToken) }

// with sets a header.
func with(name string, values ...string) func(*http.Request) {
	return func(q *http.Request) { q.Header[http.CanonicalHeaderKey(name)] = values }
}

func refused(t *testing.T, status int, code ports.Code, gotStatus int, body string) {
	t.Helper()
	var wire ports.WireError
	require.NoError(t, ports.DecodeJSON([]byte(body), &wire), body)
	assert.Equal(t, status, gotStatus, body)
	assert.Equal(t, code, wire.Code, body)
}

func TestTheAdminTokenComesFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	queueToken, err := r.owner.Token(t.Context(), "orders")
	require.NoError(t, err)
	for _, request := range []struct{ method, path string }{
		{"PATCH", "/v1/pauses"}, {"GET", "/v1/pauses/sink/"}, {"POST", "/statusz"}, {"GET", "/v1/resources/-/-?x=1"}, {"PUT", "/v1/resources/k/i"}, {"POST", "/v1/deadletters/-"},
		{"GET", "/v1/queues"}, {"HEAD", "/v1/queues"}, {"PATCH", "/v1/queues"}, {"GET", "/v1/queues/orders"}, {"PUT", "/v1/queues/new"}, {"DELETE", "/v1/queues/orders"},
		{"GET", "/v1/queues/missing"}, {"GET", "/v1/queues/.hidden"}, {"POST", "/v1/queues/orders/token"}, {"GET", "/v1/queues/orders/token"}, {"GET", "/v1/queues/orders/binding"},
		{"GET", "/v1/queues/orders/stats"}, {"DELETE", "/v1/queues/orders/undecodable/x"},
	} {
		for name, change := range map[string]func(*http.Request){
			"none": without, "wrong": func(q *http.Request) { q.Header.Set("Authorization", "Bearer "+adminToken+"x") },
			"the queue's": func(q *http.Request) { q.Header.Set("Authorization", "Bearer "+queueToken) },
			"basic":       func(q *http.Request) { q.SetBasicAuth("admin", adminToken) },
			"empty":       func(q *http.Request) { q.Header.Set("Authorization", "Bearer ") },
		} {
			status, header, body := r.do(t, request.method, request.path, "", change)
			assert.Equal(t, 401, status, "%s %s with the token %s", request.method, request.path, name)
			assert.Equal(t, "Bearer", header.Get("WWW-Authenticate"))
			if request.method != "HEAD" {
				refused(t, 401, ports.CodeAuthenticationFailed, status, body)
			}
		}
	}
	queues, err := r.owner.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []types.QueueInfo{{ID: "orders"}}, queues)
	assert.NotContains(t, r.log.String(), adminToken)
	assert.NotContains(t, r.log.String(), queueToken)
}

func TestWithoutAnAdminTokenNobodyIsLetIn(t *testing.T) {
	t.Parallel()
	for _, source := range []func() (string, error){
		func() (string, error) { return "", nil },
		func() (string, error) { return adminToken, errors.New("unreadable") },
	} {
		r := newRig(t, func(o *adminhttp.Options) { o.AdminToken = source })
		for _, change := range []func(*http.Request){func(*http.Request) {}, without} {
			status, _, _ := r.do(t, "GET", "/v1/queues", "", change)
			assert.Equal(t, 401, status)
		}
	}
}

// Every operation is held to what the document says of its tokens.
func TestWhoIsLetInIsInTheDocument(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, item := range at(document(), "paths").(map[string]any) {
		concrete := strings.NewReplacer("{target}/{id}", "pipeline/p", "{id}", "missing", "{row}", "1", "{pipeline}", "p", "{match}", "m", "{kind}", "k").Replace(path)
		for _, method := range httpMethods {
			operation, ok := item.(map[string]any)[method].(map[string]any)
			if !ok || operation["operationId"] == "useQueue" {
				continue
			}
			allowed := map[string]bool{}
			for _, one := range operation["security"].([]any) {
				for scheme := range one.(map[string]any) {
					allowed[scheme] = true
				}
			}
			methods := []string{strings.ToUpper(method)}
			if method == "get" {
				methods = append(methods, http.MethodHead)
			}
			for _, method := range methods {
				none, _, _ := r.do(t, method, concrete, "", without)
				wrong, _, _ := r.do(t, method, concrete, "", with("Authorization", "Bearer "+readToken+"x"))
				reader, header, body := r.do(t, method, concrete, "", reading)
				admin, _, _ := r.do(t, method, concrete, "")
				assert.NotContains(t, []int{401, 403}, admin, "%s %s", method, path)
				switch {
				case len(allowed) == 0:
					assert.Equal(t, []int{admin, admin, admin}, []int{none, wrong, reader}, "%s %s", method, path)
				case allowed["readToken"]:
					assert.Equal(t, []int{401, 401, admin}, []int{none, wrong, reader}, "%s %s", method, path)
				default:
					assert.Equal(t, []int{401, 401, 403}, []int{none, wrong, reader}, "%s %s", method, path)
					assert.Empty(t, header.Get("WWW-Authenticate"), "another token of the same kind would not be asked for")
					if method != http.MethodHead {
						refused(t, 403, ports.CodeAuthenticationFailed, reader, body)
					}
				}
			}
		}
	}
	status, _, body := r.do(t, "PATCH", "/v1/pauses", "", reading)
	refused(t, 405, ports.CodeInvalidInput, status, body)
	assert.NotContains(t, r.log.String(), adminToken)
	assert.NotContains(t, r.log.String(), readToken)
}

func TestTheReadOnlyTokenIsOneOfTwo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*adminhttp.Options)
		reader int // the status that a reader gets
	}{
		"there is none": {func(o *adminhttp.Options) { o.ReadToken = nil }, 401},
		"empty":         {func(o *adminhttp.Options) { o.ReadToken = func() (string, error) { return "", nil } }, 401},
		"unreadable": {func(o *adminhttp.Options) {
			o.ReadToken = func() (string, error) { return readToken, errors.New("unreadable") }
		}, 401},
		"the admin token is unreadable": {func(o *adminhttp.Options) {
			o.AdminToken = func() (string, error) { return "", errors.New("unreadable") }
		}, 200},
	} {
		r := newRig(t, c.change)
		status, _, _ := r.do(t, "GET", "/v1/pauses", "", reading)
		assert.Equal(t, c.reader, status, name)
		status, _, _ = r.do(t, "GET", "/v1/pauses", "", with("Authorization", "Bearer "))
		assert.Equal(t, 401, status, name)
	}
	same := newRig(t, func(o *adminhttp.Options) { o.ReadToken = o.AdminToken })
	status, _, _ := same.do(t, "PUT", "/v1/pauses/pipeline/p", "")
	assert.Equal(t, 204, status, "who has one token for both has the admin token")
}

func TestUnknownMethodsAndPaths(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, allow := range map[string]string{
		"/livez": "GET, HEAD", "/readyz": "GET, HEAD", "/openapi.yaml": "GET, HEAD", "/v1/queues": "GET, HEAD", "/v1/queues/orders": "DELETE, GET, HEAD, POST, PUT",
		"/v1/queues/orders/token": "POST", "/v1/queues/orders/binding": "GET, HEAD", "/v1/queues/orders/stats": "GET, HEAD", "/v1/queues/orders/undecodable/1": "DELETE",
		"/metrics": "GET, HEAD", "/v1/pipelines": "GET, HEAD", "/v1/pipelines/p": "GET, HEAD", "/v1/pipelines/p/binding": "GET, HEAD", "/v1/pipelines/p/events": "POST",
		"/statusz": "GET, HEAD", "/v1/checkpoints": "GET, HEAD", "/v1/checkpoints/p": "DELETE, GET, HEAD, PUT", "/v1/deadletters": "GET, HEAD", "/v1/deadletters/p": "GET, HEAD, POST",
		"/v1/deadletters/p/m": "DELETE, GET, HEAD", "/v1/deadletters/p/m/replay": "POST", "/v1/pauses": "GET, HEAD", "/v1/pauses/sink/p/s": "DELETE, PUT", "/v1/resources": "GET, HEAD",
		"/v1/resources/k": "GET, HEAD", "/v1/resources/k/i": "DELETE, GET, HEAD, PUT", "/v1/storage/backup": "POST", "/v1/storage/verify": "POST", "/v1/storage/export": "GET, HEAD",
	} {
		status, header, body := r.do(t, "PATCH", path, "{")
		refused(t, 405, ports.CodeInvalidInput, status, body)
		assert.Equal(t, allow, header.Get("Allow"), path)
	}
	// The path of a queue is shared with those who have no admin token.
	status, _, _ := r.do(t, "PATCH", "/v1/queues/orders", "", without)
	assert.Equal(t, 405, status)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/queues/", "/v1/queues/orders/", "/v1/queues/orders/x", "/v2/queues", "/livez/x", "/LIVEZ",
		"/v1/pauses/sink", "/v1/deadletters/", "/v1/deadletters/p/", "/v1/deadletters/p/m/x", "/v1/checkpoints/p/x", "/v1/resources/k/i/x", "/v1/pipelines/", "/v1/pipelines/p/x", "/v1/storage", "/statusz/"} {
		status, _, body := r.do(t, "GET", path, "")
		refused(t, 404, ports.CodeNotFound, status, body)
	}
}

func TestTheQueueProtocolIsPassedOn(t *testing.T) {
	t.Parallel()
	var got *http.Request
	r := newRig(t, func(o *adminhttp.Options) {
		o.Queues = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			got = q
			assert.NoError(t, ports.WriteJSON(w, http.StatusOK, []byte("{}"), time.Minute))
		})
	})
	status, _, body := r.do(t, "POST", "/v1/queues/orders", `{"operation":"purge"}`, func(q *http.Request) { q.Header.Set("Authorization", "Bearer queue") })
	assert.Equal(t, 200, status)
	assert.Equal(t, "{}", body)
	assert.Equal(t, "/v1/queues/orders", got.URL.Path)
	assert.Equal(t, "Bearer queue", got.Header.Get("Authorization"))
}

func TestALifeOfAQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	status, _, body := r.do(t, "PUT", "/v1/queues/new", "")
	assert.Equal(t, 201, status)
	assert.Equal(t, `{"id":"new","ok":true}`, body)
	status, _, body = r.do(t, "PUT", "/v1/queues/new", "{}")
	refused(t, 409, ports.CodeAlreadyExists, status, body)

	r.owner.Block("blocked")
	_, _, body = r.do(t, "GET", "/v1/queues", "")
	assert.True(t, strings.HasPrefix(body, `{"queues":[{"id":"blocked","ok":false,"error":{"code":"BINDING_SETUP_FAILED",`), body)
	assert.Contains(t, body, `{"id":"new","ok":true},{"id":"orders","ok":true}`)
	_, _, body = r.do(t, "GET", "/v1/queues/new", "")
	assert.Equal(t, `{"id":"new","ok":true}`, body)
	status, _, _ = r.do(t, "GET", "/v1/queues/blocked/stats", "")
	assert.Equal(t, 500, status)

	first, err := r.owner.Token(t.Context(), "new")
	require.NoError(t, err)
	_, header, body := r.do(t, "GET", "/v1/queues/new/binding", "")
	assert.Equal(t, `{"service":"local-queue-http","endpoint":"`+base+`/v1/queues/new","token":"`+first+`"}`, body)
	assert.Equal(t, "no-store", header.Get("Cache-Control"))

	status, _, body = r.do(t, "POST", "/v1/queues/new/token", `{"overlapSeconds":1.5}`)
	assert.Equal(t, 200, status)
	second, err := r.owner.Token(t.Context(), "new")
	require.NoError(t, err)
	assert.NotEqual(t, first, second)
	assert.Equal(t, `{"service":"local-queue-http","endpoint":"`+base+`/v1/queues/new","token":"`+second+`"}`, body)
	r.clock.Advance(1499 * time.Millisecond)
	require.NoError(t, r.owner.Authenticate(t.Context(), "new", first))
	r.clock.Advance(time.Millisecond)
	require.ErrorIs(t, r.owner.Authenticate(t.Context(), "new", first), ports.ErrAuthenticationFailed)
	status, _, _ = r.do(t, "POST", "/v1/queues/new/token", "")
	assert.Equal(t, 200, status)
	require.ErrorIs(t, r.owner.Authenticate(t.Context(), "new", second), ports.ErrAuthenticationFailed)

	q, err := r.owner.Queue(t.Context(), "new")
	require.NoError(t, err)
	require.NoError(t, q.Send(t.Context(), fixture.JSON(1), types.SendOptions{}))
	r.clock.Advance(time.Second)
	_, _, body = r.do(t, "GET", "/v1/queues/new/stats", "")
	assert.Equal(t, `{"total":1,"visible":1,"inFlight":0,"delayed":0,"undecodable":0,"oldestAgeMillis":1000}`, body)

	status, _, body = r.do(t, "DELETE", "/v1/queues/new", "")
	assert.Equal(t, 204, status)
	assert.Empty(t, body)
	for _, missing := range []struct{ method, path string }{
		{"DELETE", ""}, {"GET", ""}, {"GET", "/binding"}, {"GET", "/stats"}, {"POST", "/token"}, {"DELETE", "/undecodable/1"},
	} {
		status, _, body = r.do(t, missing.method, "/v1/queues/new"+missing.path, "")
		refused(t, 404, ports.CodeNotFound, status, body)
	}
	require.NoError(t, r.owner.Close())
	status, _, body = r.do(t, "GET", "/v1/queues", "")
	refused(t, 503, ports.CodeStoreClosed, status, body)
	for _, token := range []string{first, second, adminToken} {
		assert.NotContains(t, r.log.String(), token)
	}
}

// discardingOwner has a queue with one row that cannot be decoded.
type discardingOwner struct{ *model.Owner }

func (o discardingOwner) Queue(ctx context.Context, id string) (ports.Queue, error) {
	q, err := o.Owner.Queue(ctx, id)
	return discardingQueue{q}, err
}

type discardingQueue struct{ ports.Queue }

func (discardingQueue) Discard(_ context.Context, id int64) (bool, error) {
	if id == 8 {
		return false, ports.Errorf(ports.CodeInvalidInput, "queue.discard", "row 8 can be decoded")
	}
	return id == 7, nil
}

func TestRowsThatCannotBeDecodedAreDiscarded(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) { o.Owner = discardingOwner{o.Owner.(*model.Owner)} })
	status, _, _ := r.do(t, "DELETE", "/v1/queues/orders/undecodable/7", "")
	assert.Equal(t, 204, status)
	status, _, body := r.do(t, "DELETE", "/v1/queues/orders/undecodable/9", "")
	refused(t, 404, ports.CodeNotFound, status, body)
	status, _, body = r.do(t, "DELETE", "/v1/queues/orders/undecodable/8", "")
	refused(t, 400, ports.CodeInvalidInput, status, body)
	for _, row := range []string{"x", "7x", "07", "+7", "7.0", "9223372036854775808", "%20"} {
		status, _, body = r.do(t, "DELETE", "/v1/queues/orders/undecodable/"+row, "")
		refused(t, 400, ports.CodeInvalidInput, status, body)
	}
	plain := newRig(t)
	status, _, body = plain.do(t, "DELETE", "/v1/queues/orders/undecodable/7", "")
	refused(t, 501, ports.CodeQueueOperationFailed, status, body)
}

// filedOwner has queues that are kept in files.
type filedOwner struct{ *model.Owner }

func (o filedOwner) Queue(ctx context.Context, id string) (ports.Queue, error) {
	q, err := o.Owner.Queue(ctx, id)
	return filedQueue{q}, err
}

type filedQueue struct{ ports.Queue }

func (filedQueue) Backup(_ context.Context, path string) error {
	if path != "/new" {
		return ports.Errorf(ports.CodeAlreadyExists, "backup", "%s exists", path)
	}
	return nil
}

func (filedQueue) Verify(context.Context) error {
	return ports.Errorf(ports.CodeQueueOperationFailed, "verify", "the file is damaged").WithReason(ports.ReasonCorrupt)
}

func TestQueuesInFilesAreBackedUpAndVerified(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) { o.Owner = filedOwner{o.Owner.(*model.Owner)} })
	status, _, body := r.do(t, "POST", "/v1/queues/orders/backup", `{"path":"/new"}`)
	assert.Equal(t, 201, status)
	assert.JSONEq(t, `{"path":"/new"}`, body)
	status, _, body = r.do(t, "POST", "/v1/queues/orders/backup", `{"path":"/old"}`)
	refused(t, 409, ports.CodeAlreadyExists, status, body)
	for _, bad := range []string{`{"path":"relative"}`, `{"path":""}`, `{}`, ``, `{"path":"/new","x":1}`} {
		status, _, body = r.do(t, "POST", "/v1/queues/orders/backup", bad)
		refused(t, 400, ports.CodeInvalidInput, status, body)
	}
	status, _, body = r.do(t, "POST", "/v1/queues/orders/verify", "")
	refused(t, 500, ports.CodeQueueOperationFailed, status, body)
	plain := newRig(t)
	for _, path := range []string{"/backup", "/verify"} {
		request := map[string]string{"/backup": `{"path":"/new"}`}[path]
		status, _, body = plain.do(t, "POST", "/v1/queues/orders"+path, request)
		refused(t, 501, ports.CodeQueueOperationFailed, status, body)
		status, _, body = plain.do(t, "POST", "/v1/queues/missing"+path, request)
		refused(t, 404, ports.CodeNotFound, status, body)
	}
}

func TestRequestsThatAreNotExactAreRefusedWithoutEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before, err := r.owner.Token(t.Context(), "orders")
	require.NoError(t, err)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "/v1/queues/new", `{"x":1}`, 400}, {"PUT", "/v1/queues/new", `[]`, 400}, {"PUT", "/v1/queues/new", `{} x`, 400}, {"PUT", "/v1/queues/new", `null`, 400},
		{"PUT", "/v1/queues/-new", ``, 400}, {"PUT", "/v1/queues/a%2Fb", ``, 400}, {"PUT", "/v1/queues/" + strings.Repeat("x", 129), ``, 400}, {"PUT", "/v1/queues/%2e%2e", ``, 400},
		{"PUT", "/v1/queues/new", strings.Repeat(" ", 65<<10), 413}, {"DELETE", "/v1/queues/orders", `{"force":true}`, 400},
		{"POST", "/v1/queues/orders/token", `{"overlapseconds":1}`, 400}, {"POST", "/v1/queues/orders/token", `{"overlapSeconds":-1}`, 400},
		{"POST", "/v1/queues/orders/token", `{"overlapSeconds":604800.001}`, 400}, {"POST", "/v1/queues/orders/token", `{"overlapSeconds":1e300}`, 400},
		{"POST", "/v1/queues/orders/token", `{"overlapSeconds":"1"}`, 400}, {"POST", "/v1/queues/orders/token", `{"overlapSeconds":null}`, 400},
		{"POST", "/v1/queues/orders/token", `{"overlapSeconds":1,"overlapSeconds":1}`, 400},
		{"POST", "/v1/queues/orders/backup", `{"path":"/a\u0000b"}`, 400}, {"POST", "/v1/queues/orders/backup", `{"path":"/` + strings.Repeat("x", 4096) + `"}`, 400},
		{"POST", "/v1/storage/backup", `{"path":"/a\u0000b"}`, 400}, {"POST", "/v1/storage/backup", `{"path":"` + strings.Repeat("x", 60_000) + `"}`, 400},
	} {
		status, _, body := r.do(t, c.method, c.path, c.body)
		t.Logf("%s %s %.40s", c.method, c.path, c.body)
		refused(t, c.status, ports.CodeInvalidInput, status, body)
	}
	status, _, body := r.do(t, "PUT", "/v1/queues/new", "{}", func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") })
	refused(t, 415, ports.CodeInvalidInput, status, body)
	queues, err := r.owner.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []types.QueueInfo{{ID: "orders"}}, queues)
	after, err := r.owner.Token(t.Context(), "orders")
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestHealth(t *testing.T) {
	t.Parallel()
	failure := make(chan error, 1)
	r := newRig(t, func(o *adminhttp.Options) {
		o.CheckTimeout = time.Second
		o.Checks = []adminhttp.Check{
			{Name: "queues", Run: func(context.Context) error { return <-failure }},
			{Name: "storage", Run: func(context.Context) error { return nil }},
		}
	})
	status, header, body := r.do(t, "GET", "/livez", "", without)
	assert.Equal(t, 200, status)
	assert.Equal(t, "ok\n", body)
	assert.Equal(t, "no-store", header.Get("Cache-Control"))

	failure <- nil
	status, _, body = r.do(t, "GET", "/readyz", "", without)
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"ready":true,"version":"v1.2.3"}`, body)

	failure <- ports.Errorf(ports.CodeQueueOperationFailed, "queue.health", "no space below /srv/canary").WithReason(ports.ReasonDiskFull)
	status, _, body = r.do(t, "GET", "/readyz", "", without)
	assert.Equal(t, 503, status)
	assert.Equal(t, `{"ready":false,"version":"v1.2.3","failing":[{"check":"queues","code":"QUEUE_OPERATION_FAILED","reason":"disk_full"}]}`, body)
	assert.Contains(t, r.log.String(), "/srv/canary", "the log has what is not shown")

	status, _, body = r.do(t, "GET", "/readyz", "", without) // a check that does not end
	assert.Equal(t, 503, status)
	assert.Equal(t, `{"ready":false,"version":"v1.2.3","failing":[{"check":"queues","code":"BACKEND_FAILED"}]}`, body)
	close(failure)
}

func TestTheDocumentIsServed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	status, header, body := r.do(t, "GET", "/openapi.yaml", "", without)
	assert.Equal(t, 200, status)
	assert.Equal(t, "application/yaml", header.Get("Content-Type"))
	assert.Equal(t, string(adminhttp.OpenAPI()), body)
}

func TestOptionsThatLackSomething(t *testing.T) {
	t.Parallel()
	whole := adminhttp.Options{
		Owner: model.NewOwner(ports.SystemClock()), Queues: http.NotFoundHandler(), Endpoint: base,
		AdminToken: func() (string, error) { return adminToken, nil },
	}
	_, err := adminhttp.New(whole)
	require.NoError(t, err)
	for _, change := range []func(*adminhttp.Options){
		func(o *adminhttp.Options) { o.Owner = nil }, func(o *adminhttp.Options) { o.Queues = nil }, func(o *adminhttp.Options) { o.AdminToken = nil },
		func(o *adminhttp.Options) { o.Storage = model.NewStorage(0) }, func(o *adminhttp.Options) { o.Control = &control{} },
		func(o *adminhttp.Options) { o.Endpoint = "" }, func(o *adminhttp.Options) { o.Endpoint = "127.0.0.1:7420" },
		func(o *adminhttp.Options) { o.Endpoint = "http://u:p@h" }, func(o *adminhttp.Options) { o.Endpoint = "http://h?x=1" },
	} {
		options := whole
		change(&options)
		_, err := adminhttp.New(options)
		require.ErrorIs(t, err, ports.ErrInvalidConfig)
	}
}

// What net/http's mux would answer by itself, with a redirect or without a body, is an error of this
// API: a client must not be led to send its token and request twice.
func TestPathsThatAreNotCleanAreNotFound(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newRig(t).handler)
	t.Cleanup(server.Close)
	for _, target := range []string{
		"/v1//queues/orders", "//v1/queues/orders", "/v1/./queues/orders", "/v1/x/../queues/orders", "/v1/queues/..", "/v1/queues/.", "/v1/queues/orders//",
		"/v1/queues/", "/v1/queues/orders/", "/livez/", "/", "*", "/../livez",
		"/v1/pauses/sink", "/v1/pauses/sink/p//s", "/v1/pauses/sink/../p", "/v1/resources//x",
	} {
		for _, method := range []string{"GET", "POST", "CONNECT"} {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", method, target, adminToken)
			require.NoError(t, err)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			body, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.NoError(t, conn.Close())
			t.Logf("%s %s", method, target)
			refused(t, 404, ports.CodeNotFound, answer.StatusCode, string(body))
			assert.Empty(t, answer.Header.Get("Location"))
		}
	}
}
