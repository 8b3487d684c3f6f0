package queuehttp_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

var update = flag.Bool("update", false, "write the golden files anew")

// recorder writes down what goes over the wire.
type recorder struct {
	token string
	text  strings.Builder
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	again := request.Clone(request.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	response, err := http.DefaultTransport.RoundTrip(again)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))

	fmt.Fprintf(&r.text, "%s %s\n", request.Method, request.URL.EscapedPath())
	r.headers(request.Header)
	shown := string(body)
	if len(shown) > 4096 {
		shown = fmt.Sprintf("(%d bytes)", len(shown))
	}
	fmt.Fprintf(&r.text, "\n%s\n\n%d %s\n", shown, response.StatusCode, http.StatusText(response.StatusCode))
	r.headers(response.Header)
	fmt.Fprintf(&r.text, "\n%s\n", answer)
	return response, nil
}

func (r *recorder) headers(h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if name == "Date" || name == "Content-Length" || name == "Accept-Encoding" {
			continue
		}
		for _, value := range h[name] {
			fmt.Fprintf(&r.text, "%s: %s\n", name, strings.ReplaceAll(value, r.token, "<token>"))
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "wire", name+".http")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "the wire form of %s has changed; -update writes it anew, if that is meant", name)
}

// The golden files are the protocol as bytes: what the client sends, what the handler answers. What
// they hold is a promise to other implementations.
func TestWireForm(t *testing.T) {
	t.Parallel()
	const at = 1_772_366_400_000
	sent := time.UnixMilli(at).UTC()
	stale := ports.Errorf(ports.CodeQueueOperationFailed, "queue.ack", "the receipt is stale").WithReason(ports.ReasonStaleReceipt)
	failed := func(code ports.Code, reason ports.Reason) *stubQueue {
		return &stubQueue{err: ports.Errorf(code, "queue.send", "what was found").WithReason(reason)}
	}
	messages := []types.Message{
		{Payload: types.JSON([]byte(`{"b":1.50,"a":"<&>"}`)), Receipt: receiptA, Attempt: 1, EnqueuedAt: sent},
		{Payload: types.Text("two\n\"lines\" <&>"), Receipt: receiptB, Attempt: 3, EnqueuedAt: sent.Add(time.Millisecond)},
	}
	looked := []types.PeekedMessage{
		{ID: 1, Payload: messages[0].Payload, State: types.StateVisible, EnqueuedAt: sent, VisibleAt: sent},
		{ID: 2, Payload: messages[1].Payload, State: types.StateInFlight, Attempt: 3, EnqueuedAt: sent, VisibleAt: sent.Add(30 * time.Second)},
		{ID: 3, Payload: types.Text(""), State: types.StateDelayed, EnqueuedAt: sent, VisibleAt: sent.Add(time.Minute)},
		{ID: 4, State: types.StateUndecodable, EnqueuedAt: sent, VisibleAt: sent},
	}
	send := func(ctx context.Context, q *queuehttp.Client) error {
		return q.Send(ctx, types.JSON([]byte(`{"n":1}`)), types.SendOptions{})
	}
	for _, c := range []struct {
		name  string
		queue *stubQueue
		call  func(context.Context, *queuehttp.Client) error
	}{
		{"send_json", &stubQueue{}, func(ctx context.Context, q *queuehttp.Client) error {
			return q.Send(ctx, types.JSON([]byte(` {"b": 1.50, "a": "<&>"} `)), types.SendOptions{})
		}},
		{"send_text_delayed", &stubQueue{}, func(ctx context.Context, q *queuehttp.Client) error {
			return q.Send(ctx, types.Text("two\n\"lines\" <&>"), types.SendOptions{Delay: 1500 * time.Millisecond})
		}},
		{"send_batch", &stubQueue{outcomes: []types.SendOutcome{
			{Status: types.StatusSent},
			{Status: types.StatusRejected, Err: ports.Errorf(ports.CodeInvalidInput, "queue.sendBatch", "too large")},
			{Status: types.StatusUnknown, Err: ports.Errorf(ports.CodeOutcomeUnknown, "queue.sendBatch", "who knows")},
		}}, func(ctx context.Context, q *queuehttp.Client) error {
			outcomes, err := q.SendBatch(ctx, []types.Payload{fixture.JSON(1), types.Text("a"), types.Text("b")})
			if err == nil {
				assert.NoError(t, outcomes[0].Err)
				assert.ErrorIs(t, outcomes[1].Err, ports.ErrInvalidInput)
				assert.ErrorIs(t, outcomes[2].Err, ports.ErrOutcomeUnknown)
			}
			return err
		}},
		{"receive", &stubQueue{messages: messages}, func(ctx context.Context, q *queuehttp.Client) error {
			got, err := q.Receive(ctx, types.ReceiveOptions{Max: 2, Lease: 45 * time.Second, Wait: 20 * time.Second})
			assert.Equal(t, messages, got)
			return err
		}},
		{"receive_nothing", &stubQueue{}, func(ctx context.Context, q *queuehttp.Client) error {
			got, err := q.Receive(ctx, types.ReceiveOptions{})
			assert.Empty(t, got)
			return err
		}},
		{"ack", &stubQueue{}, func(ctx context.Context, q *queuehttp.Client) error { return q.Ack(ctx, receiptA) }},
		{"ack_batch", &stubQueue{acks: []types.AckOutcome{{Status: types.AckDone}, {Status: types.AckRejected, Err: stale}}}, func(ctx context.Context, q *queuehttp.Client) error {
			outcomes, err := q.AckBatch(ctx, []string{receiptA, receiptB})
			if err == nil {
				assert.NoError(t, outcomes[0].Err)
				assert.ErrorIs(t, outcomes[1].Err, ports.ErrStaleReceipt)
			}
			return err
		}},
		{"nack", &stubQueue{}, func(ctx context.Context, q *queuehttp.Client) error {
			return q.Nack(ctx, receiptA, types.NackOptions{})
		}},
		{"nack_delayed", &stubQueue{}, func(ctx context.Context, q *queuehttp.Client) error {
			return q.Nack(ctx, receiptA, types.NackOptions{Delay: time.Minute})
		}},
		{"renew", &stubQueue{}, func(ctx context.Context, q *queuehttp.Client) error {
			return q.Renew(ctx, receiptA, types.RenewOptions{})
		}},
		{"purge", &stubQueue{}, func(ctx context.Context, q *queuehttp.Client) error { return q.Purge(ctx) }},
		{"stats", &stubQueue{stats: types.QueueStats{Total: 6, Visible: 3, InFlight: 2, Delayed: 1, Undecodable: 4, OldestAge: 1234 * time.Millisecond}},
			func(ctx context.Context, q *queuehttp.Client) error {
				got, err := q.Stats(ctx)
				assert.Equal(t, types.QueueStats{Total: 6, Visible: 3, InFlight: 2, Delayed: 1, Undecodable: 4, OldestAge: 1234 * time.Millisecond}, got)
				return err
			}},
		{"peek", &stubQueue{peeked: looked}, func(ctx context.Context, q *queuehttp.Client) error {
			got, err := q.Peek(ctx, types.PeekOptions{})
			assert.Equal(t, looked, got)
			return err
		}},
		{"error_400", failed(ports.CodeInvalidInput, ""), send},
		{"error_409_stale", failed(ports.CodeQueueOperationFailed, ports.ReasonStaleReceipt), send},
		{"error_500_corrupt", failed(ports.CodeQueueOperationFailed, ports.ReasonCorrupt), send},
		{"error_500_replaced", failed(ports.CodeStoreReplaced, ""), send},
		{"error_502", failed(ports.CodeQueueOperationFailed, ""), send},
		{"error_503_closed", failed(ports.CodeStoreClosed, ""), send},
		{"error_503_revoked", failed(ports.CodeStoreClosed, ports.ReasonRevoked), send},
		{"error_503_busy", failed(ports.CodeQueueOperationFailed, ports.ReasonBusy), send},
		{"error_507_full", failed(ports.CodeQueueOperationFailed, ports.ReasonDiskFull), send},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			owner := model.NewOwner(ports.SystemClock(), "orders")
			r := serve(t, nil, owner, queuehttp.Handler(stubOwner{Owner: owner, queue: c.queue}, queuehttp.HandlerOptions{}))
			wire := &recorder{token: r.binding.Token}
			client := newClient(t, r.binding, queuehttp.Options{Transport: wire})
			err := c.call(t.Context(), client)
			var want, got *ports.Error
			if c.queue.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorAs(t, c.queue.err, &want)
				require.ErrorAs(t, err, &got)
				assert.Equal(t, *want, *got, "the client rebuilds the error")
			}
			golden(t, c.name, wire.text.String())
		})
	}

	// What no client of ours sends.
	for _, c := range []struct {
		name   string
		body   string
		change func(*http.Request)
	}{
		{"error_401", `{"operation":"stats"}`, func(q *http.Request) { q.Header.Del("Authorization") }},
		{"error_404", `{"operation":"stats"}`, func(q *http.Request) { q.URL.Path = "/v1/queues" }},
		{"error_405", `{"operation":"stats"}`, func(q *http.Request) { q.Method = http.MethodPatch }},
		{"error_413", strings.Repeat(" ", 5<<20), func(*http.Request) {}},
		{"error_415", `{"operation":"stats"}`, func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") }},
		{"error_400_unknown_member", `{"operation":"stats","extra":1}`, func(*http.Request) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			wire := &recorder{token: r.binding.Token}
			r.server.Client().Transport = wire
			r.post(t, c.body, c.change)
			golden(t, c.name, wire.text.String())
		})
	}
}
