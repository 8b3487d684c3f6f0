package adminhttp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
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

func newClient(t *testing.T, base, token string, options adminhttp.ClientOptions) *adminhttp.Client {
	t.Helper()
	client, err := adminhttp.NewClient(base, token, options)
	require.NoError(t, err)
	return client
}

func TestClient(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) { o.Owner = discardingOwner{o.Owner.(*model.Owner)} })
	ctx := t.Context()
	client := newClient(t, r.server.URL+"/", adminToken, adminhttp.ClientOptions{})
	require.NoError(t, client.Live(ctx))
	ready, err := client.Ready(ctx)
	require.NoError(t, err)
	assert.Equal(t, adminhttp.Readiness{Ready: true, Version: "v1.2.3"}, ready)

	require.NoError(t, client.Create(ctx, "new"))
	require.ErrorIs(t, client.Create(ctx, "new"), ports.ErrAlreadyExists)
	require.ErrorIs(t, client.Create(ctx, "../new"), ports.ErrInvalidInput)
	r.owner.Block("blocked")
	queues, err := client.List(ctx)
	require.NoError(t, err)
	require.Len(t, queues, 3)
	assert.Equal(t, "blocked", queues[0].ID)
	require.ErrorIs(t, queues[0].Err, ports.ErrBindingSetupFailed)
	assert.Equal(t, []types.QueueInfo{{ID: "new"}, {ID: "orders"}}, queues[1:])
	info, err := client.Get(ctx, "orders")
	require.NoError(t, err)
	assert.Equal(t, types.QueueInfo{ID: "orders"}, info)

	token, err := r.owner.Token(ctx, "new")
	require.NoError(t, err)
	binding, err := client.Binding(ctx, "new")
	require.NoError(t, err)
	assert.Equal(t, types.QueueBinding{Endpoint: base + "/v1/queues/new", Token: token}, binding)
	rotated, err := client.Rotate(ctx, "new", 90*time.Minute)
	require.NoError(t, err)
	assert.NotEqual(t, token, rotated.Token)
	require.NoError(t, r.owner.Authenticate(ctx, "new", token), "it overlaps")
	_, err = client.Rotate(ctx, "new", 8*24*time.Hour)
	require.ErrorIs(t, err, ports.ErrInvalidInput)

	q, err := r.owner.Queue(ctx, "new")
	require.NoError(t, err)
	require.NoError(t, q.Send(ctx, fixture.JSON(1), types.SendOptions{}))
	r.clock.Advance(1500 * time.Millisecond)
	stats, err := client.Stats(ctx, "new")
	require.NoError(t, err)
	assert.Equal(t, types.QueueStats{Total: 1, Visible: 1, OldestAge: 1500 * time.Millisecond}, stats)
	require.NoError(t, client.Discard(ctx, "new", 7))
	require.ErrorIs(t, client.Discard(ctx, "new", 9), ports.ErrNotFound)

	require.NoError(t, client.Delete(ctx, "new"))
	require.ErrorIs(t, client.Delete(ctx, "new"), ports.ErrNotFound)
	_, err = client.Get(ctx, "new")
	require.ErrorIs(t, err, ports.ErrNotFound)

	_, err = newClient(t, r.server.URL, "another-token", adminhttp.ClientOptions{}).List(ctx)
	require.ErrorIs(t, err, ports.ErrAuthenticationFailed)
	assert.NotContains(t, err.Error(), "another-token")
}

func TestADaemonThatIsNotReadyIsNoError(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) {
		o.Checks = []adminhttp.Check{{Name: "queues", Run: func(context.Context) error {
			return ports.Errorf(ports.CodeStoreReplaced, "queue.health", "gone").WithReason(ports.ReasonCorrupt)
		}}}
	})
	ready, err := newClient(t, r.server.URL, "", adminhttp.ClientOptions{}).Ready(t.Context())
	require.NoError(t, err)
	assert.Equal(t, adminhttp.Readiness{Version: "v1.2.3", Failing: []adminhttp.FailingCheck{{Name: "queues", Code: ports.CodeStoreReplaced, Reason: ports.ReasonCorrupt}}}, ready)
}

// calls is every call of the client, and whether it changes something.
var calls = []struct {
	name    string
	changes bool
	call    func(context.Context, *adminhttp.Client) error
}{
	{"list", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.List(ctx); return err }},
	{"get", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Get(ctx, "orders"); return err }},
	{"create", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Create(ctx, "orders") }},
	{"delete", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Delete(ctx, "orders") }},
	{"rotate", true, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Rotate(ctx, "orders", 0); return err }},
	{"binding", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Binding(ctx, "orders"); return err }},
	{"stats", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Stats(ctx, "orders"); return err }},
	{"discard", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Discard(ctx, "orders", 1) }},
	{"backup", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Backup(ctx, "orders", "/orders.backup") }},
	{"verify", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Verify(ctx, "orders") }},
	{"live", false, func(ctx context.Context, c *adminhttp.Client) error { return c.Live(ctx) }},
	{"ready", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Ready(ctx); return err }},
}

func TestADaemonThatDoesNotRunIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	client := newClient(t, "http://"+listener.Addr().String(), adminToken, adminhttp.ClientOptions{})
	for _, c := range calls {
		err := c.call(t.Context(), client)
		require.ErrorIs(t, err, ports.ErrUnavailable, c.name)
		require.ErrorIs(t, err, ports.ErrBackendFailed, c.name)
		require.ErrorIs(t, c.call(fixture.Cancelled(t), client), context.Canceled, c.name)
		assert.NotContains(t, err.Error(), adminToken)
	}
}

func TestAConnectionThatDiesLeavesTheOutcomeOfAChangeUnknown(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, request.Body) // the client may be gone
				requests.Add(1)
			}
			_ = conn.Close()
		}
	}()
	client := newClient(t, "http://"+listener.Addr().String(), adminToken, adminhttp.ClientOptions{})
	for i, c := range calls {
		err := c.call(t.Context(), client)
		if c.changes {
			require.ErrorIs(t, err, ports.ErrOutcomeUnknown, c.name)
		} else {
			require.ErrorIs(t, err, ports.ErrUnavailable, c.name)
		}
		assert.EqualValues(t, i+1, requests.Load(), "one request for each call, never repeated")
	}
}

func TestWhoeverElseAnswersIsNotTakenForADaemon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status      int
		media, body string
	}{
		{200, "text/html", "<html></html>"}, {200, "application/json", "{}"}, {404, "text/html", "<html></html>"}, {302, "text/html", ""}, {502, "application/json", `{"error":"x"}`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.media)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			_, err := io.WriteString(w, c.body)
			assert.NoError(t, err)
		}))
		client := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{})
		for _, call := range calls {
			if call.name == "live" && c.status == 200 {
				continue // it asks for no more
			}
			err := call.call(t.Context(), client)
			if call.changes {
				require.ErrorIs(t, err, ports.ErrOutcomeUnknown, "%s: %d %s", call.name, c.status, c.body)
			} else {
				require.ErrorIs(t, err, ports.ErrBackendFailed, "%s: %d %s", call.name, c.status, c.body)
			}
		}
		server.Close()
	}
}

// The body of such an answer is the connection itself: read like another, it would never end.
func TestAnAnswerInAnotherProtocolIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			t.Cleanup(func() { _ = conn.Close() }) // the client has closed it
			_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
			assert.NoError(t, err)
		}
	}))
	t.Cleanup(server.Close)
	client := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{})
	for _, call := range calls {
		err := call.call(t.Context(), client)
		if call.changes {
			require.ErrorIs(t, err, ports.ErrOutcomeUnknown, call.name)
		} else {
			require.ErrorIs(t, err, ports.ErrBackendFailed, call.name)
		}
	}
}

func TestWhoGivesUpOnAChangeIsToldThatItsOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	arrived := make(chan struct{}, len(calls)+2)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-over }))
	defer server.Close()
	defer close(over)
	client := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{})
	for _, c := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		err := c.call(ctx, client)
		require.ErrorIs(t, err, context.Canceled, c.name)
		if c.changes {
			require.ErrorIs(t, err, ports.ErrOutcomeUnknown, c.name)
		}
	}
	impatient := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{Timeout: time.Second})
	err := impatient.Create(t.Context(), "orders")
	require.ErrorIs(t, err, ports.ErrOutcomeUnknown)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "it is not the caller's")
	err = impatient.Live(t.Context())
	require.ErrorIs(t, err, ports.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

func TestClientsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "127.0.0.1:7420", "ftp://h", "http://", "http://u:p@h", "http://h?token=x", "http://h#x"} {
		_, err := adminhttp.NewClient(address, adminToken, adminhttp.ClientOptions{})
		require.ErrorIs(t, err, ports.ErrInvalidConfig, address)
	}
	_, err := adminhttp.NewClient(base, "two words", adminhttp.ClientOptions{})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	assert.NotContains(t, err.Error(), "two words")
}
