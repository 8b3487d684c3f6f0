package pipeline_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// queueParts are those of a pipeline that reads the queue "orders" and delivers to the queue "large".
type queueParts struct{ queues }

func (queueParts) CheckPipeline(config.Pipeline, ...config.Pipeline) error { return nil }

func (p queueParts) OpenSource(ctx context.Context, c config.Pipeline, from *types.Cursor) (ports.Source, error) {
	return pipeline.QueueSourceModule().Open(ctx, ports.Env{Name: string(c.ID), Clock: ports.SystemClock()}, keys(`queue = "orders"`), from, p.queues)
}

func (p queueParts) OpenSink(ctx context.Context, id types.PipelineID, s config.Sink) (ports.Sink, error) {
	return pipeline.QueueSinkModule().Open(ctx, ports.Env{Name: string(id) + "/" + string(s.ID)}, keys(`queue = "large"`), p.queues)
}

// A message is acked when what follows from it is stored, and not before: a process that stops in between
// finds it again, and delivers nothing twice that the journal has.
func TestAQueueIsReadAndFilledByAPipeline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 1200
		orders, large := realQueue(), realQueue()
		storage := model.NewStorage(0)
		start := func(storage ports.Storage) *pipeline.Engine {
			e, err := pipeline.NewEngine(pipeline.Options{
				Storage: storage, Parts: queueParts{queues{"orders": orders, "large": large}}, SpillDir: t.TempDir(), Log: fixture.Logger(t),
				Pipelines: []config.Pipeline{one(func(p *config.Pipeline) { p.Monitors[0].When = "n % 2 == 0" })},
			})
			require.NoError(t, err)
			require.NoError(t, e.Start(t.Context()))
			return e
		}
		fill(t, orders, many)

		// Deliveries are stored, and the checkpoint is not: nothing is acked.
		faults := flaky.New(ports.SystemClock(), 1)
		wrapped := &onlyDeliveries{Storage: flaky.NewStorage(storage, faults)}
		wrapped.fail.Store(true)
		e := start(wrapped)
		pass(time.Minute)
		synctest.Wait()
		requireCounts(t, orders, 0, many)
		wrapped.fail.Store(false)
		pass(time.Minute)
		synctest.Wait()
		requireCounts(t, orders, 0, 0)
		requireCounts(t, large, many/2, 0)

		// A process that is gone before it has stored its checkpoint: its messages come again.
		fill(t, orders, many)
		pass(50 * time.Millisecond)
		faults.Halt()
		synctest.Wait()
		_ = e.Close(context.Background()) // as good as it can without its storage
		pass(time.Minute)
		visible, inFlight := counts(t, orders)
		require.Positive(t, visible+inFlight, "the process was stopped while messages were under way")

		e = start(storage)
		pass(time.Minute)
		require.NoError(t, e.Close(context.Background()))
		requireCounts(t, orders, 0, 0)
		seen := map[types.MatchID]int{}
		for _, id := range matchIDs(t, large) {
			seen[id]++
		}
		require.Len(t, seen, many, "each match of both halves is there")
	})
}

// onlyDeliveries fails to save checkpoints while it is told to.
type onlyDeliveries struct {
	ports.Storage
	fail atomic.Bool
}

func (s *onlyDeliveries) Apply(ctx context.Context, id types.PipelineID, p types.Progress) error {
	if p.Checkpoint != nil && s.fail.Load() {
		return errDown
	}
	return s.Storage.Apply(ctx, id, p)
}

// matchIDs are those of the matches in a queue, in order; it empties the queue.
func matchIDs(t *testing.T, queue ports.Queue) []types.MatchID {
	t.Helper()
	var ids []types.MatchID
	for _, event := range receivedEvents(t, queue) {
		ids = append(ids, event.Origin().ID)
	}
	return ids
}
