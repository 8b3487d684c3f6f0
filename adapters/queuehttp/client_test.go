package queuehttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

const statsAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 87\r\n\r\n" +
	`{"total":0,"visible":0,"inFlight":0,"delayed":0,"undecodable":0,"oldestAgeMillis":0}` + "   "

// A wreck is a server that reads whole requests, counts them, and then does what a test says with
// the connection: write something, and whether to go on.
type wreck struct {
	binding     queuehttp.Binding
	requests    atomic.Int64
	connections atomic.Int64
}

func newWreck(t *testing.T, answer func(conn net.Conn, request int64) (goOn bool)) *wreck {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wreck{binding: queuehttp.Binding{Endpoint: "http://" + listener.Addr().String() + "/v1/queues/orders", Token: "token"}}
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			w.connections.Add(1)
			go w.serve(conn, answer)
		}
	}()
	return w
}

func (w *wreck) serve(conn net.Conn, answer func(net.Conn, int64) bool) {
	defer func() { _ = conn.Close() }() // the client may have closed it
	in := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		if !answer(conn, w.requests.Add(1)) {
			return
		}
	}
}

func write(conn net.Conn, text string) {
	_, _ = io.WriteString(conn, text) // a client that has gone is part of some tests
}

func TestEachCallSendsOneRequestThoughTheConnectionDies(t *testing.T) {
	t.Parallel()
	for _, op := range operations {
		for how, dying := range map[string]string{
			"without an answer": "", "inside the head": "HTTP/1.1 200 OK\r\nContent-", "inside the body": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
		} {
			t.Run(op.name+" on a new connection "+how, func(t *testing.T) {
				t.Parallel()
				w := newWreck(t, func(conn net.Conn, _ int64) bool { write(conn, dying); return false })
				err := op.call(t.Context(), newClient(t, w.binding, queuehttp.Options{}))
				require.ErrorIs(t, err, ports.ErrOutcomeUnknown)
				assert.True(t, ports.IsTransient(err))
				assert.EqualValues(t, 1, w.requests.Load())
			})
			t.Run(op.name+" on a used connection "+how, func(t *testing.T) {
				t.Parallel()
				w := newWreck(t, func(conn net.Conn, request int64) bool {
					if request > 1 {
						write(conn, dying)
						return false
					}
					write(conn, statsAnswer)
					return true
				})
				client := newClient(t, w.binding, queuehttp.Options{})
				_, err := client.Stats(t.Context())
				require.NoError(t, err)
				require.ErrorIs(t, op.call(t.Context(), client), ports.ErrOutcomeUnknown)
				assert.EqualValues(t, 2, w.requests.Load())
				assert.EqualValues(t, 1, w.connections.Load())
			})
		}
	}
}

// The server closes each connection right after its answer, so that the client keeps meeting ones
// that are just being closed. Whatever it makes of them, it never sends a request twice.
func TestAConnectionThatWasClosedWhileIdleMakesNoSecondRequest(t *testing.T) {
	t.Parallel()
	w := newWreck(t, func(conn net.Conn, _ int64) bool {
		write(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		return false
	})
	client := newClient(t, w.binding, queuehttp.Options{})
	done := int64(0)
	const calls = 200
	for range calls {
		switch err := client.Send(t.Context(), fixture.JSON(1), types.SendOptions{}); {
		case err == nil:
			done++
		case !errors.Is(err, ports.ErrOutcomeUnknown) && !errors.Is(err, ports.ErrUnavailable):
			require.NoError(t, err)
		}
	}
	assert.GreaterOrEqual(t, w.requests.Load(), done)
	assert.LessOrEqual(t, w.requests.Load(), int64(calls))
}

func TestWhatNeverLeftTheMachineIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	binding := queuehttp.Binding{Endpoint: "http://" + listener.Addr().String() + "/v1/queues/orders", Token: "token"}
	require.NoError(t, listener.Close())
	for _, op := range operations {
		err := op.call(t.Context(), newClient(t, binding, queuehttp.Options{}))
		require.ErrorIs(t, err, ports.ErrUnavailable, op.name)
		require.ErrorIs(t, err, ports.ErrQueueOperationFailed, op.name)
		require.NotErrorIs(t, err, ports.ErrOutcomeUnknown, op.name)
		assert.True(t, ports.IsTransient(err))
		assert.NotContains(t, err.Error(), "token")
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	visited := newWreck(t, func(net.Conn, int64) bool { return false })
	for _, status := range []int{301, 302, 307, 308} {
		w := newWreck(t, func(conn net.Conn, _ int64) bool {
			write(conn, fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, visited.binding.Endpoint))
			return true
		})
		err := newClient(t, w.binding, queuehttp.Options{}).Purge(t.Context())
		require.ErrorIs(t, err, ports.ErrOutcomeUnknown)
	}
	assert.Zero(t, visited.connections.Load())
}

func TestAnAnswerThatIsNotOfTheProtocolIsNoSuccess(t *testing.T) {
	t.Parallel()
	json := "application/json"
	for _, c := range []struct {
		operation string // empty means every one
		status    int
		media     string
		body      string
	}{
		{"", 200, "text/html", "<html>hello</html>"},
		{"", 200, json, "<html>hello</html>"},
		{"", 200, json, ""},
		{"", 200, json, "null"},
		{"", 200, "text/plain", "{}"},
		{"", 200, json, `[]`},
		{"", 200, json, `{"Results":[],"x":`},
		{"", 201, json, `{}`},
		{"", 502, "text/html", "<html>bad gateway</html>"},
		{"", 502, json, `{"error":"bad gateway"}`},
		{"", 404, json, `{"code":"NOT_FOUND","message":"m","retryable":false,"httpStatusCode":500}`},
		{"stats", 200, json, strings.Repeat(" ", 5<<20)},
		{"send", 200, json, `{"done":false}`},
		{"sendBatch", 200, json, `{}`},
		{"sendBatch", 200, json, `{"results":[{"status":"sent"}]}`},
		{"sendBatch", 200, json, `{"results":[{"status":"sent"},{"status":"sent"},{"status":"sent"}]}`},
		{"ackBatch", 200, json, `{"results":[{"status":"acked"}]}`},
		{"receive", 200, json, `{}`},
		{"receive", 200, json, `{"messages":[` + strings.Repeat(`{"payload":{"type":"json","data":1},"receiptHandle":"1:x","attempt":1,"enqueuedAt":0},`, 10) + `{"payload":{"type":"json","data":1},"receiptHandle":"1:x","attempt":1,"enqueuedAt":0}]}`},
		{"receive", 200, json, `{"messages":[{"payload":{"type":"xml","data":1},"receiptHandle":"1:x","attempt":1,"enqueuedAt":0}]}`},
		{"receive", 200, json, `{"messages":[{"payload":{"type":"text","data":1},"receiptHandle":"1:x","attempt":1,"enqueuedAt":0}]}`},
		{"receive", 200, json, `{"messages":[{"payload":{"type":"json","data":1},"attempt":1,"enqueuedAt":0}]}`},
		{"receive", 200, json, `{"messages":[{"payload":{"type":"json","data":1},"receiptHandle":"1:x","enqueuedAt":0}]}`},
		{"stats", 200, json, `{}`},
		{"stats", 200, json, `{"total":1,"visible":1,"inFlight":0,"delayed":0,"undecodable":0}`},
		{"peek", 200, json, `{}`},
		{"peek", 200, json, `{"messages":[{"id":1,"payload":{"type":"xml","data":1},"state":"visible"}]}`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.media)
			w.WriteHeader(c.status)
			answerWith(w, c.body)
		}))
		for _, op := range operations {
			if c.operation != "" && c.operation != op.name {
				continue
			}
			client := newClient(t, queuehttp.Binding{Endpoint: server.URL + "/v1/queues/orders", Token: "token"}, queuehttp.Options{})
			err := op.call(t.Context(), client)
			require.ErrorIs(t, err, ports.ErrOutcomeUnknown, "%s after %d %.60q", op.name, c.status, c.body)
		}
		server.Close()
	}
}

// The body of such an answer is the connection itself: read like another, it would never end.
func TestAnAnswerInAnotherProtocolIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, op := range operations {
		w := newWreck(t, func(conn net.Conn, _ int64) bool {
			write(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
			return true
		})
		require.ErrorIs(t, op.call(t.Context(), newClient(t, w.binding, queuehttp.Options{})), ports.ErrOutcomeUnknown, op.name)
		assert.EqualValues(t, 1, w.requests.Load())
	}
}

// Another engine may have stored what this one refuses to send; it has to come through all the same, or
// it would come back for ever.
func TestAPayloadComesThroughAsItIsStored(t *testing.T) {
	t.Parallel()
	for _, data := range []string{`{"a":1,"a":2}`, `"\ud800"`, `1e999`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			answerWith(w, `{"messages":[{"payload":{"type":"json","data":`+data+`},"receiptHandle":"1:x","attempt":1,"enqueuedAt":0}]}`)
		}))
		t.Cleanup(server.Close)
		client := newClient(t, queuehttp.Binding{Endpoint: server.URL + "/v1/queues/orders", Token: "token"}, queuehttp.Options{})
		messages, err := client.Receive(t.Context(), types.ReceiveOptions{})
		require.NoError(t, err)
		require.Len(t, messages, 1)
		assert.Equal(t, data, messages[0].Payload.Data)
	}
}

func answerWith(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text) // the client stops reading what is too long
}

func TestAnOddOutcomeIsUnknownAlone(t *testing.T) {
	t.Parallel()
	body := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answerWith(w, body)
	}))
	defer server.Close()
	client := newClient(t, queuehttp.Binding{Endpoint: server.URL, Token: "token"}, queuehttp.Options{})
	body = `{"results":[{"status":"sent"},{"status":"done"},{"status":"rejected"},{"status":"sent","code":"X"},{"status":"rejected","code":"INVALID_INPUT","message":"m"}]}`
	sent, err := client.SendBatch(t.Context(), []types.Payload{fixture.JSON(1), fixture.JSON(2), fixture.JSON(3), fixture.JSON(4), fixture.JSON(5)})
	require.NoError(t, err)
	var statuses []types.SendStatus
	for _, o := range sent {
		statuses = append(statuses, o.Status)
		assert.Equal(t, o.Status == types.StatusSent, o.Err == nil)
	}
	assert.Equal(t, []types.SendStatus{"sent", "unknown", "unknown", "unknown", "rejected"}, statuses)
	require.ErrorIs(t, sent[1].Err, ports.ErrOutcomeUnknown)

	body = `{"results":[{"status":"acked"},{"status":"sent"},{"status":"unknown","code":"OUTCOME_UNKNOWN"}]}`
	acked, err := client.AckBatch(t.Context(), []string{"a", "b", "c"})
	require.NoError(t, err)
	assert.Equal(t, []types.AckStatus{"acked", "unknown", "unknown"}, []types.AckStatus{acked[0].Status, acked[1].Status, acked[2].Status})
}

// The server does the work, and the connection dies before the answer: the client does not know, and
// says so (R131, R133).
func TestAConnectionThatDiesAfterTheCommitLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	owner := model.NewOwner(ports.SystemClock(), "orders")
	real := queuehttp.Handler(owner, queuehttp.HandlerOptions{})
	r := serve(t, nil, owner, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		real.ServeHTTP(httptest.NewRecorder(), request)
		panic(http.ErrAbortHandler)
	}))
	client := r.client(t)
	require.ErrorIs(t, client.Send(t.Context(), fixture.JSON(1), types.SendOptions{}), ports.ErrOutcomeUnknown)
	outcomes, err := client.SendBatch(t.Context(), []types.Payload{fixture.JSON(2), {Type: types.PayloadJSON, Data: "{"}, fixture.JSON(3)})
	require.ErrorIs(t, err, ports.ErrOutcomeUnknown)
	assert.Equal(t, []types.SendStatus{"unknown", "rejected", "unknown"}, []types.SendStatus{outcomes[0].Status, outcomes[1].Status, outcomes[2].Status})
	q, err := owner.Queue(t.Context(), "orders")
	require.NoError(t, err)
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 3, stats.Total, "every one of them once")
}

func TestBadInputNeverLeavesTheMachine(t *testing.T) {
	t.Parallel()
	w := newWreck(t, func(net.Conn, int64) bool { return false })
	client := newClient(t, w.binding, queuehttp.Options{})
	ctx := t.Context()
	many := make([]types.Payload, 11)
	_, batchErr := client.SendBatch(ctx, many)
	_, emptyErr := client.SendBatch(ctx, nil)
	_, receiveErr := client.Receive(ctx, types.ReceiveOptions{Max: 11})
	_, waitErr := client.Receive(ctx, types.ReceiveOptions{Wait: 21 * time.Second})
	_, ackErr := client.AckBatch(ctx, make([]string, 11))
	_, peekErr := client.Peek(ctx, types.PeekOptions{Max: -1})
	for i, err := range []error{
		client.Send(ctx, types.Payload{}, types.SendOptions{}),
		client.Send(ctx, types.JSON([]byte(`{"a":1,"a":2}`)), types.SendOptions{}),
		client.Send(ctx, fixture.TextOfSize(65_537), types.SendOptions{}),
		client.Send(ctx, fixture.JSON(1), types.SendOptions{Delay: -1}),
		client.Nack(ctx, "x", types.NackOptions{Delay: 13 * time.Hour}),
		client.Renew(ctx, "x", types.RenewOptions{Lease: time.Millisecond}),
		batchErr, emptyErr, receiveErr, waitErr, ackErr, peekErr,
	} {
		require.ErrorIs(t, err, ports.ErrInvalidInput, "%d", i)
	}
	outcomes, err := client.SendBatch(ctx, []types.Payload{{}, {}})
	require.NoError(t, err)
	assert.Equal(t, types.StatusRejected, outcomes[1].Status)
	assert.Zero(t, w.connections.Load())
}

func TestWhoGivesUpBeforeAnythingWasSentLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newWreck(t, func(net.Conn, int64) bool { return false })
	client := newClient(t, w.binding, queuehttp.Options{})
	for _, op := range operations {
		err := op.call(fixture.Cancelled(t), client)
		require.ErrorIs(t, err, context.Canceled, op.name)
		require.NotErrorIs(t, err, ports.ErrOutcomeUnknown, op.name)
	}
	assert.Zero(t, w.connections.Load())

	// While it still waits for a connection.
	dialing := make(chan struct{}, 1)
	slow := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialing <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-dialing; cancel() }()
	err := newClient(t, w.binding, queuehttp.Options{Transport: slow}).Purge(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ports.ErrOutcomeUnknown)
}

func TestWhoGivesUpAfterSendingIsToldThatTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	for _, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan struct{})
			defer close(over)
			w := newWreck(t, func(net.Conn, int64) bool { cancel(); <-over; return false })
			err := op.call(ctx, newClient(t, w.binding, queuehttp.Options{}))
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, !op.passive, errors.Is(err, ports.ErrOutcomeUnknown))
			assert.False(t, ports.IsTransient(err), "the caller gave up")
		})
	}
}

func TestTheClientsOwnTimeoutIsNotTheCallers(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	defer close(over)
	w := newWreck(t, func(net.Conn, int64) bool { <-over; return false })
	client := newClient(t, w.binding, queuehttp.Options{Timeout: time.Second})
	err := client.Send(t.Context(), fixture.JSON(1), types.SendOptions{})
	require.ErrorIs(t, err, ports.ErrOutcomeUnknown)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	assert.True(t, ports.IsTransient(err))

	stuck := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }}
	err = newClient(t, w.binding, queuehttp.Options{Timeout: time.Millisecond, Transport: stuck}).Purge(t.Context())
	require.ErrorIs(t, err, ports.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

func TestCloseWakesThoseWhoWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client, err := queuehttp.NewClient(r.binding, queuehttp.Options{})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := client.Receive(t.Context(), types.ReceiveOptions{Wait: 20 * time.Second})
		done <- err
	}()
	r.clock.BlockUntilTimers(1)
	require.NoError(t, client.Close())
	require.ErrorIs(t, <-done, ports.ErrStoreClosed)
	for _, op := range operations {
		require.ErrorIs(t, op.call(t.Context(), client), ports.ErrStoreClosed, op.name)
	}
	_, err = client.SendBatch(t.Context(), []types.Payload{{}})
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.NoError(t, client.Close())
}

func TestARotatedTokenIsPickedUpFromItsFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte(r.binding.Token+"\n"), 0o600))
	client := newClient(t, queuehttp.Binding{Endpoint: r.binding.Endpoint}, queuehttp.Options{Token: queuehttp.TokenFile(path)})
	require.NoError(t, client.HealthCheck(t.Context()))
	token, err := r.owner.Rotate(t.Context(), "orders", 0)
	require.NoError(t, err)
	r.clock.Advance(time.Millisecond)
	require.ErrorIs(t, client.HealthCheck(t.Context()), ports.ErrAuthenticationFailed)
	require.NoError(t, os.WriteFile(path, []byte(token), 0o600))
	require.NoError(t, client.HealthCheck(t.Context()))
	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, client.HealthCheck(t.Context()), ports.ErrInvalidConfig)
}

func TestErrorsOfTheOwnerComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client := r.client(t)
	require.NoError(t, client.Send(t.Context(), fixture.JSON(1), types.SendOptions{}))
	first, err := client.Receive(t.Context(), types.ReceiveOptions{Lease: time.Second})
	require.NoError(t, err)
	r.clock.Advance(time.Second)
	second, err := client.Receive(t.Context(), types.ReceiveOptions{})
	require.NoError(t, err)
	require.ErrorIs(t, client.Ack(t.Context(), first[0].Receipt), ports.ErrStaleReceipt)
	outcomes, err := client.AckBatch(t.Context(), []string{first[0].Receipt, second[0].Receipt, "never issued"})
	require.NoError(t, err)
	require.ErrorIs(t, outcomes[0].Err, ports.ErrStaleReceipt)
	assert.Equal(t, types.AckDone, outcomes[1].Status)
	assert.Equal(t, types.AckDone, outcomes[2].Status)

	r.owner.Block("orders")
	require.ErrorIs(t, client.Purge(t.Context()), ports.ErrBindingSetupFailed)
}
