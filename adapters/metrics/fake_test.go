package metrics

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// pipelineFunc is a function as the pipelines.
type pipelineFunc func(context.Context) ([]types.PipelineStatus, error)

func (f pipelineFunc) Pipelines(ctx context.Context) ([]types.PipelineStatus, error) { return f(ctx) }

func fixedPipelines() pipelineFunc {
	return func(context.Context) ([]types.PipelineStatus, error) {
		return []types.PipelineStatus{{
			ID: "earthquakes", State: types.PipelineRunning, Origin: types.OriginFile, Restarts: 2, Source: "ndjson",
			Read: &types.Cursor{Primary: 91_000, Secondary: 3}, Checkpoint: &types.Cursor{Primary: 90_000},
			LagSeconds: 1.5, Pending: 12, Events: 1707, BadEvents: 3,
			Monitors: []types.MonitorStatus{{ID: "swarm", Paused: true, Matches: 300, Emissions: 4, Errors: 1}, {ID: "strong", Matches: 85, Emissions: 85}},
			Sinks: []types.SinkStatus{{
				ID: "alerts", Module: "webhook", Pending: 5, Delivered: 80, DeadLettered: 4, Duplicates: 1, Retries: 9,
				Latency: types.Histogram{Bounds: []float64{0.01, 0.1, 1}, Counts: []uint64{70, 12, 0, 2}, Sum: 9.25},
			}, {ID: "audit", Module: "queue", Paused: true}},
		}, {ID: "idle", State: types.PipelineIdle}}, nil
	}
}

// fixedStorage has letters and deliveries of two pipelines, one of which is not configured any more.
func fixedStorage(t testing.TB) *model.Storage {
	t.Helper()
	s := model.NewStorage(0)
	for i := range 4 {
		require.NoError(t, s.RecordDeadLetter(t.Context(), "earthquakes", fixture.DeadLetter(i)))
	}
	require.NoError(t, s.RecordDeadLetter(t.Context(), "former", fixture.DeadLetter(1)))
	require.NoError(t, s.RecordDeliveries(t.Context(), "earthquakes", []types.Delivery{fixture.Delivery(1), fixture.Delivery(2)}))
	return s
}

func fixedStore() types.StoreMetrics {
	return types.StoreMetrics{
		Commits: 10, Operations: 25, WALBytes: 4120, DataBytes: 8192,
		BatchSize: types.Histogram{Bounds: []float64{1, 2, 4}, Counts: []uint64{5, 2, 2, 1}, Sum: 25},
		Commit:    types.Histogram{Bounds: []float64{0.001, 0.01}, Counts: []uint64{8, 1, 1}, Sum: 0.5},
	}
}

// metered is a storage that counts.
type metered struct{ *model.Storage }

func (metered) Metrics() types.StoreMetrics { return fixedStore() }

// meteredQueue is a queue that counts.
type meteredQueue struct{ ports.Queue }

func (meteredQueue) Metrics() types.StoreMetrics { return fixedStore() }

// meteredOwner has queues that count.
type meteredOwner struct{ *model.Owner }

func (o meteredOwner) Queue(ctx context.Context, id string) (ports.Queue, error) {
	queue, err := o.Owner.Queue(ctx, id)
	if err != nil {
		return nil, err
	}
	return meteredQueue{queue}, nil
}

func fixedOwner(t testing.TB) meteredOwner {
	t.Helper()
	clock := fixture.NewClock(fixture.Epoch())
	owner := model.NewOwner(clock, "orders", "orders-dead")
	queue, err := owner.Queue(t.Context(), "orders")
	require.NoError(t, err)
	for i := range 5 {
		require.NoError(t, queue.Send(t.Context(), fixture.JSON(i), types.SendOptions{}))
	}
	require.NoError(t, queue.Send(t.Context(), fixture.JSON(5), types.SendOptions{Delay: time.Hour}))
	_, err = queue.Receive(t.Context(), types.ReceiveOptions{Max: 2})
	require.NoError(t, err)
	clock.Advance(2500 * time.Millisecond)
	return meteredOwner{owner}
}

// fixedOptions show every family.
func fixedOptions(t testing.TB) Options {
	t.Helper()
	return Options{
		Pipelines: fixedPipelines(),
		Owner:     fixedOwner(t),
		Storage:   metered{fixedStorage(t)},
		Version:   "v1.2.3",
		StartedAt: fixture.Epoch(),
		Log:       fixture.Logger(t),
	}
}

// lines is a log that can be read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// take returns what was written since the last take.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	l.text.Reset()
	return text
}
