package pipeline_test

import (
	"testing"

	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/sinktest"
	"github.com/stowage-go/stowage/testkit/sourcetest"
)

var (
	_ ports.SinkResolver = (*pipeline.Engine)(nil)
	_ ports.BatchSink    = (*pipeline.QueueSink)(nil)
	_ ports.Source       = (*pipeline.QueueSource)(nil)
	_ ports.Unordered    = (*pipeline.QueueSource)(nil)
)

func TestQueueSourceContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, queueSourceHarness())
}

func TestQueueSinkContract(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, queueSinkHarness(func(q *failingQueue) ports.Queue { return q }))
}

func TestQueueSinkContractTenByTen(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, queueSinkHarness(func(q *failingQueue) ports.Queue { return plainQueue{q} }))
}
