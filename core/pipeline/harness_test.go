package pipeline_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/sinktest"
	"github.com/stowage-go/stowage/testkit/sourcetest"
	"github.com/stowage-go/stowage/types"
)

// queueSourceHarness opens sources of a queue as a catalog does, by the factory.
func queueSourceHarness() sourcetest.Harness {
	return sourcetest.Harness{
		New: func(testing.TB) sourcetest.Stream {
			queue := realQueue()
			return sourcetest.Stream{
				Open: func(t testing.TB, from *types.Cursor) ports.Source { return openSource(t, queue, from, "") },
				Append: func(t testing.TB, payloads ...string) {
					for _, p := range payloads {
						require.NoError(t, queue.Send(t.Context(), types.JSON([]byte(p)), types.SendOptions{}))
					}
				},
			}
		},
		Unordered:     true,
		Lends:         true,
		MaxEventBytes: ports.MaxPayloadBytes,
	}
}

// failingQueue sends nothing while it has an error.
type failingQueue struct {
	*model.Queue

	mu  sync.Mutex
	err error
}

func (q *failingQueue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = err
}

func (q *failingQueue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (q *failingQueue) Send(ctx context.Context, payload types.Payload, opts types.SendOptions) error {
	if err := q.failure(); err != nil {
		return err
	}
	return q.Queue.Send(ctx, payload, opts)
}

func (q *failingQueue) SendBatch(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	if err := q.failure(); err != nil {
		return nil, err
	}
	return q.Queue.SendBatch(ctx, payloads)
}

func (q *failingQueue) SendBulk(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	if err := q.failure(); err != nil {
		return nil, err
	}
	return q.Queue.SendBulk(ctx, payloads)
}

// queueSinkHarness opens sinks that deliver to a queue, which takes bulks or not.
func queueSinkHarness(wrap func(*failingQueue) ports.Queue) sinktest.Harness {
	return sinktest.Harness{
		Open: func(t testing.TB) sinktest.Sink {
			queue := &failingQueue{Queue: newQueue()}
			sink, err := pipeline.QueueSinkModule().Open(t.Context(), ports.Env{Name: "earthquakes/alerts"}, keys(`queue = "orders"`), queues{"orders": wrap(queue)})
			require.NoError(t, err)
			var all []types.SinkEvent
			return sinktest.Sink{
				Sink: sink,
				Received: func(t testing.TB) []types.SinkEvent {
					for {
						messages, err := queue.Receive(t.Context(), types.ReceiveOptions{Max: ports.MaxBatch, Lease: ports.MaxLease})
						require.NoError(t, err)
						if len(messages) == 0 {
							return all
						}
						for _, m := range messages {
							var event types.SinkEvent
							require.NoError(t, json.Unmarshal([]byte(m.Payload.Data), &event))
							all = append(all, event)
						}
					}
				},
				Fail: func(_ testing.TB, how sinktest.Failure, _ ...types.MatchID) {
					switch how {
					case sinktest.Transient:
						queue.fail(errDown)
					case sinktest.Permanent:
						queue.fail(errRefused)
					default:
						queue.fail(nil)
					}
				},
			}
		},
		Batches:       true,
		Fails:         []sinktest.Failure{sinktest.Transient, sinktest.Permanent},
		MaxEventBytes: ports.MaxPayloadBytes - 1024, // of a message, with what stands around the event
	}
}
