package queuehttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/queuehttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/queuetest"
	"github.com/stowage-go/stowage/types"
)

// A rig is an owner of models with the queue "orders", served at a loopback address.
type rig struct {
	clock   *fixture.Clock
	owner   *model.Owner
	server  *httptest.Server
	binding queuehttp.Binding
}

func newRig(t *testing.T) *rig {
	t.Helper()
	clock := fixture.NewClock(fixture.Epoch())
	owner := model.NewOwner(clock, "orders")
	return serve(t, clock, owner, queuehttp.Handler(owner, queuehttp.HandlerOptions{Log: fixture.Logger(t)}))
}

func serve(t *testing.T, clock *fixture.Clock, owner *model.Owner, handler http.Handler) *rig {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config = queuehttp.NewServer(handler, fixture.Logger(t))
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(func() { require.NoError(t, owner.Close()) }) // before the server waits for those who wait
	return &rig{clock, owner, server, queuehttp.Binding{Endpoint: server.URL + "/v1/queues/orders", Token: tokenOf(t, owner)}}
}

func tokenOf(t *testing.T, owner *model.Owner) string {
	t.Helper()
	token, err := owner.Token(t.Context(), "orders")
	require.NoError(t, err)
	return token
}

func (r *rig) client(t *testing.T) *queuehttp.Client {
	return newClient(t, r.binding, queuehttp.Options{})
}

func newClient(t *testing.T, binding queuehttp.Binding, options queuehttp.Options) *queuehttp.Client {
	t.Helper()
	client, err := queuehttp.NewClient(binding, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// stubOwner serves one queue that does what a test tells it to.
type stubOwner struct {
	*model.Owner
	queue ports.Queue
	err   error
}

func (o stubOwner) Queue(context.Context, string) (ports.Queue, error) { return o.queue, o.err }

// stubQueue answers with what a test gave it; what is not set panics.
type stubQueue struct {
	ports.Queue
	err       error
	outcomes  []types.SendOutcome
	acks      []types.AckOutcome
	messages  []types.Message
	peeked    []types.PeekedMessage
	stats     types.QueueStats
	onReceive func(context.Context)
}

func (q *stubQueue) Send(context.Context, types.Payload, types.SendOptions) error { return q.err }
func (q *stubQueue) SendBatch(context.Context, []types.Payload) ([]types.SendOutcome, error) {
	return q.outcomes, q.err
}
func (q *stubQueue) Receive(ctx context.Context, _ types.ReceiveOptions) ([]types.Message, error) {
	if q.onReceive != nil {
		q.onReceive(ctx)
	}
	return q.messages, q.err
}
func (q *stubQueue) Ack(context.Context, string) error { return q.err }
func (q *stubQueue) AckBatch(context.Context, []string) ([]types.AckOutcome, error) {
	return q.acks, q.err
}
func (q *stubQueue) Nack(context.Context, string, types.NackOptions) error   { return q.err }
func (q *stubQueue) Renew(context.Context, string, types.RenewOptions) error { return q.err }
func (q *stubQueue) Purge(context.Context) error                             { return q.err }
func (q *stubQueue) Stats(context.Context) (types.QueueStats, error)         { return q.stats, q.err }
func (q *stubQueue) Peek(context.Context, types.PeekOptions) ([]types.PeekedMessage, error) {
	return q.peeked, q.err
}

// releasingQueue takes messages back.
type releasingQueue struct {
	*stubQueue
	released chan []string
}

func (q releasingQueue) Release(_ context.Context, receipts []string) error {
	q.released <- receipts
	return nil
}

// nackingQueue has no way but Nack to take messages back.
type nackingQueue struct {
	*stubQueue
	nacked chan string
}

func (q nackingQueue) Nack(_ context.Context, receipt string, _ types.NackOptions) error {
	q.nacked <- receipt
	return ports.Errorf(ports.CodeQueueOperationFailed, "queue.nack", "stale").WithReason(ports.ReasonStaleReceipt)
}

const (
	receiptA = "1:00000000-0000-4000-8000-00000000000a"
	receiptB = "2:00000000-0000-4000-8000-00000000000b"
)

// operations is every call of the port, with input that is good.
var operations = []struct {
	name    string
	passive bool // changes nothing, or nothing that is lost when the caller gives up
	call    func(context.Context, ports.Queue) error
}{
	{"send", false, func(ctx context.Context, q ports.Queue) error {
		return q.Send(ctx, fixture.JSON(1), types.SendOptions{})
	}},
	{"sendBatch", false, func(ctx context.Context, q ports.Queue) error {
		outcomes, err := q.SendBatch(ctx, []types.Payload{fixture.JSON(1), {Type: "xml"}, fixture.JSON(2)})
		if err == nil || !errors.Is(err, ports.ErrOutcomeUnknown) {
			return err
		}
		if len(outcomes) != 3 || outcomes[0].Status != types.StatusUnknown || outcomes[1].Status != types.StatusRejected ||
			outcomes[2].Status != types.StatusUnknown || !errors.Is(outcomes[2].Err, ports.ErrOutcomeUnknown) {
			return errors.New("the outcomes of an uncertain batch are wrong")
		}
		return err
	}},
	{"receive", true, func(ctx context.Context, q ports.Queue) error {
		_, err := q.Receive(ctx, types.ReceiveOptions{Max: 10, Wait: time.Second})
		return err
	}},
	{"ack", false, func(ctx context.Context, q ports.Queue) error { return q.Ack(ctx, receiptA) }},
	{"ackBatch", false, func(ctx context.Context, q ports.Queue) error {
		outcomes, err := q.AckBatch(ctx, []string{receiptA, receiptB})
		if err == nil || !errors.Is(err, ports.ErrOutcomeUnknown) {
			return err
		}
		if len(outcomes) != 2 || outcomes[0].Status != types.AckUnknown || outcomes[1].Status != types.AckUnknown || !errors.Is(outcomes[1].Err, ports.ErrOutcomeUnknown) {
			return errors.New("the outcomes of an uncertain batch are wrong")
		}
		return err
	}},
	{"nack", false, func(ctx context.Context, q ports.Queue) error { return q.Nack(ctx, receiptA, types.NackOptions{}) }},
	{"renew", false, func(ctx context.Context, q ports.Queue) error { return q.Renew(ctx, receiptA, types.RenewOptions{}) }},
	{"purge", false, func(ctx context.Context, q ports.Queue) error { return q.Purge(ctx) }},
	{"stats", true, func(ctx context.Context, q ports.Queue) error {
		_, err := q.Stats(ctx)
		return err
	}},
	{"peek", true, func(ctx context.Context, q ports.Queue) error {
		_, err := q.Peek(ctx, types.PeekOptions{})
		return err
	}},
}

// overLoopback is a store of the contract suite: a client of the owner's queue "orders", served at a
// loopback address. Reopened, it is another client.
func overLoopback(t testing.TB, owner *model.Owner) queuetest.Store {
	t.Helper()
	handler := queuehttp.Handler(owner, queuehttp.HandlerOptions{Log: fixture.Logger(t)})
	server := httptest.NewUnstartedServer(handler)
	server.Config = queuehttp.NewServer(handler, fixture.Logger(t))
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(func() { require.NoError(t, owner.Close()) }) // before the server waits for those who wait
	token, err := owner.Token(t.Context(), "orders")
	require.NoError(t, err)
	open := func(t testing.TB) ports.QueueStore {
		t.Helper()
		client, err := queuehttp.NewClient(queuehttp.Binding{Endpoint: server.URL + queuehttp.PathPrefix + "orders", Token: token}, queuehttp.Options{})
		require.NoError(t, err)
		return client
	}
	return queuetest.Store{
		Queue:  open(t),
		Reopen: open,
		Second: func(t testing.TB) (ports.QueueStore, error) { return open(t), nil },
	}
}
