package adminhttp

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	// maxQueueStats is how many queues /statusz counts the messages of: the first by id.
	maxQueueStats = 1000
	// queueWorkers is how many of them are asked at a time.
	queueWorkers = 4
)

// status is the answer of /statusz. A part that fails has its error instead of its values.
type status struct {
	Version      string         `json:"version,omitempty"`
	StartedAt    int64          `json:"startedAt"`
	UptimeMillis int64          `json:"uptimeMillis"`
	Ready        bool           `json:"ready"`
	Failing      []failing      `json:"failing"`
	Storage      *storageStatus `json:"storage,omitempty"`
	Queues       queuesStatus   `json:"queues"`
	// Pipelines is not there where the daemon runs none.
	Pipelines *pipelinesStatus `json:"pipelines,omitempty"`
}

type pipelinesStatus struct {
	Pipelines *[]pipelineStatus `json:"pipelines,omitempty"`
	Error     *ports.WireError  `json:"error,omitempty"`
}

// pipelineStatus has of a pipeline what an alert asks; GET /v1/pipelines/<id> has the rest.
type pipelineStatus struct {
	ID         types.PipelineID    `json:"id"`
	State      types.PipelineState `json:"state"`
	LagSeconds float64             `json:"lag_seconds"`
	Pending    uint64              `json:"pending"`
	Error      string              `json:"error,omitempty"`
}

type storageStatus struct {
	Module      string        `json:"module"`
	Checkpoints countStatus   `json:"checkpoints"`
	DeadLetters lettersStatus `json:"deadletters"`
	Pauses      countStatus   `json:"pauses"`
}

type countStatus struct {
	Count *int             `json:"count,omitempty"`
	Error *ports.WireError `json:"error,omitempty"`
}

type lettersStatus struct {
	Pipelines *[]letterCount   `json:"pipelines,omitempty"`
	Error     *ports.WireError `json:"error,omitempty"`
}

type queuesStatus struct {
	Count  *int             `json:"count,omitempty"`
	Queues *[]queueStatus   `json:"queues,omitempty"`
	Error  *ports.WireError `json:"error,omitempty"`
}

type queueStatus struct {
	ID    string           `json:"id"`
	Stats *ports.WireStats `json:"stats,omitempty"`
	Error *ports.WireError `json:"error,omitempty"`
}

// status asks all parts at once, and each has the time of CheckTimeout.
func (h *Handler) status(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), h.CheckTimeout)
	defer cancel()
	queues := start(ctx, func(ctx context.Context) (queuesStatus, error) { return h.queuesStatus(ctx), nil })
	ready := start(ctx, func(ctx context.Context) (readiness, error) { return h.readiness(ctx), nil })
	answer := status{
		Version: h.Version, StartedAt: h.StartedAt.UnixMilli(), UptimeMillis: h.Clock.Now().Sub(h.StartedAt).Milliseconds(),
	}
	var pipelines <-chan result[[]types.PipelineStatus]
	if h.Pipelines != nil {
		pipelines = start(ctx, h.Pipelines.Pipelines)
	}
	if h.Storage != nil {
		checkpoints, letters, pauses := start(ctx, h.Control.Checkpoints), start(ctx, h.Control.LetterCounts), start(ctx, h.Control.Pauses)
		answer.Storage = &storageStatus{Module: h.StorageModule}
		answer.Storage.Checkpoints = countOf(h, ctx, "checkpoints", checkpoints)
		if counts, err := await(ctx, h, letters); err != nil {
			answer.Storage.DeadLetters.Error = h.failed("deadletters", err)
		} else {
			list := newLetterCounts(counts)
			answer.Storage.DeadLetters.Pipelines = &list
		}
		answer.Storage.Pauses = countOf(h, ctx, "pauses", pauses)
	}
	if h.Pipelines != nil {
		answer.Pipelines = h.pipelinesStatus(await(ctx, h, pipelines))
	}
	answer.Queues = (<-queues).value // these two take as long as ctx at most
	state := <-ready
	answer.Ready, answer.Failing = state.value.Ready, append([]failing{}, state.value.Failing...)
	return h.answer(w, http.StatusOK, answer)
}

func (h *Handler) pipelinesStatus(pipelines []types.PipelineStatus, err error) *pipelinesStatus {
	if err != nil {
		return &pipelinesStatus{Error: h.failed("pipelines", err)}
	}
	list := make([]pipelineStatus, len(pipelines))
	for i, p := range pipelines {
		list[i] = pipelineStatus{p.ID, p.State, p.LagSeconds, p.Pending, p.Error}
	}
	return &pipelinesStatus{Pipelines: &list}
}

func (h *Handler) queuesStatus(ctx context.Context) queuesStatus {
	queues, err := await(ctx, h, start(ctx, h.Owner.List))
	if err != nil {
		return queuesStatus{Error: h.failed("queues", err)}
	}
	count := len(queues)
	queues = queues[:min(count, maxQueueStats)]
	results := make([]chan result[types.QueueStats], len(queues))
	for i := range results {
		results[i] = make(chan result[types.QueueStats], 1)
	}
	var next atomic.Int64
	for range min(queueWorkers, len(queues)) {
		go func() {
			for i := next.Add(1) - 1; i < int64(len(queues)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				stats, err := h.queueStats(ctx, queues[i])
				results[i] <- result[types.QueueStats]{stats, err}
			}
		}()
	}
	list := make([]queueStatus, len(queues))
	for i, q := range queues {
		list[i].ID = q.ID
		stats, err := await(ctx, h, results[i])
		if err != nil {
			list[i].Error = h.failed("queue "+q.ID, err)
			continue
		}
		wire := ports.NewWireStats(stats)
		list[i].Stats = &wire
	}
	return queuesStatus{Count: &count, Queues: &list}
}

func (h *Handler) queueStats(ctx context.Context, info types.QueueInfo) (types.QueueStats, error) {
	if info.Err != nil {
		return types.QueueStats{}, info.Err
	}
	q, err := h.Owner.Queue(ctx, info.ID)
	if err != nil {
		return types.QueueStats{}, err
	}
	return q.Stats(ctx)
}

// failed gives the error of a part its form, and logs it.
func (h *Handler) failed(part string, err error) *ports.WireError {
	h.Log.Debug("a part of the status failed", "part", part, "error", err)
	wire := ports.NewWireError(err)
	return &wire
}

func countOf[T any](h *Handler, ctx context.Context, part string, listed <-chan result[[]T]) countStatus {
	list, err := await(ctx, h, listed)
	if err != nil {
		return countStatus{Error: h.failed(part, err)}
	}
	n := len(list)
	return countStatus{Count: &n}
}
