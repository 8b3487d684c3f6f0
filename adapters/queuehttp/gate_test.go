package queuehttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
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

// begin sends the head of a request whose body does not come, and returns once the server asks for it.
func (r *rig) begin(t *testing.T, id, token string, length int) {
	t.Helper()
	conn := r.dial(t)
	_, err := fmt.Fprintf(conn, "POST /v1/queues/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", id, token, length)
	require.NoError(t, err)
	status, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, status, "100 Continue")
}

// Slow large bodies of one queue take no more than their share of the memory, and hold up neither its
// small requests nor another queue.
func TestLargeRequestsOfAQueueAreBounded(t *testing.T) {
	t.Parallel()
	owner := model.NewOwner(ports.SystemClock(), "orders", "others")
	r := serve(t, nil, owner, queuehttp.Handler(owner, queuehttp.HandlerOptions{BodyTimeout: 300 * time.Millisecond, Log: fixture.Logger(t)}))
	const large = 1 << 20
	for range 4 {
		r.begin(t, "orders", r.binding.Token, large)
	}
	status, _, _ := r.post(t, `{"operation":"stats"}`)
	assert.Equal(t, 200, status, "a small request has a place")
	others, err := owner.Token(t.Context(), "others")
	require.NoError(t, err)
	r.begin(t, "others", others, large)

	// The four are given up when their time is over.
	body := `{"operation":"stats"` + strings.Repeat(" ", large) + `}`
	for name, change := range map[string]func(*http.Request){
		"a length":          func(*http.Request) {},
		"a length not told": func(q *http.Request) { q.ContentLength = -1 },
		"small, but not told": func(q *http.Request) {
			q.Body, q.ContentLength = io.NopCloser(strings.NewReader(`{"operation":"stats"}`)), -1
		},
	} {
		require.Eventually(t, func() bool {
			status, _, _ := r.post(t, body, change)
			return status == 200
		}, time.Minute, time.Millisecond, name)
	}
}

// peekingQueue holds those who peek until they may go.
type peekingQueue struct {
	*stubQueue
	began, goOn chan struct{}
}

func (q peekingQueue) Peek(context.Context, types.PeekOptions) ([]types.PeekedMessage, error) {
	q.began <- struct{}{}
	<-q.goOn
	return nil, nil
}

func TestPeeksAndLargeRequestsShareTheirPlaces(t *testing.T) {
	t.Parallel()
	owner := model.NewOwner(ports.SystemClock(), "orders")
	queue := peekingQueue{&stubQueue{}, make(chan struct{}), make(chan struct{})}
	r := serve(t, nil, owner, queuehttp.Handler(stubOwner{Owner: owner, queue: queue}, queuehttp.HandlerOptions{BodyTimeout: 50 * time.Millisecond, Log: fixture.Logger(t)}))
	client := r.client(t)
	done := make(chan error)
	for range 4 {
		go func() {
			_, err := client.Peek(t.Context(), types.PeekOptions{})
			done <- err
		}()
		<-queue.began
	}
	for _, body := range []string{`{"operation":"peek"}`, `{"operation":"stats"` + strings.Repeat(" ", 1<<20) + `}`} {
		status, _, answer := r.post(t, body)
		refused(t, 503, ports.CodeQueueOperationFailed, status, answer)
		assert.Contains(t, answer, `"retryable":true`)
		assert.Contains(t, answer, `"reason":"busy"`)
	}
	close(queue.goOn)
	for range 4 {
		assert.NoError(t, <-done)
	}
}
