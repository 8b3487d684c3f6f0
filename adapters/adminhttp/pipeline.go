package adminhttp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Pipelines is what runs the pipelines of a daemon. A handler calls it.
type Pipelines interface {
	// Pipelines returns all pipelines, ordered by id.
	Pipelines(ctx context.Context) ([]types.PipelineStatus, error)
	// Pipeline returns one. A missing one is NOT_FOUND.
	Pipeline(ctx context.Context, id types.PipelineID) (types.PipelineStatus, error)
	// Accept hands events to the source of a pipeline, which has them durably when it returns: all, or
	// none. A missing pipeline is NOT_FOUND, one whose source takes no events INVALID_INPUT, one that
	// does not run now STORE_CLOSED.
	Accept(ctx context.Context, id types.PipelineID, events []types.Event) error
	// CheckPipeline refuses the value of a resource that is to configure a pipeline: as INVALID_CONFIG
	// what cannot be run, as ALREADY_EXISTS an id that the configuration file has.
	CheckPipeline(ctx context.Context, id types.PipelineID, text []byte) error
	// Refresh makes what runs what the resources now say, and waits until that is so for the named
	// pipelines; without names, for all.
	Refresh(ctx context.Context, ids ...types.PipelineID) error
}

// refreshTimeout is how long an answer waits for a changed pipeline to be drained and replaced.
const refreshTimeout = 10 * time.Second

// eventBinding is what a producer needs to hand events to a pipeline.
type eventBinding struct {
	Endpoint string `json:"endpoint"`
	Token    string `json:"token"`
}

type pipelineList struct {
	Pipelines []types.PipelineStatus `json:"pipelines"`
}

// noNulls gives lists that are empty their form.
func noNulls(p types.PipelineStatus) types.PipelineStatus {
	if p.Monitors == nil {
		p.Monitors = []types.MonitorStatus{}
	}
	sinks := make([]types.SinkStatus, len(p.Sinks))
	for i, s := range p.Sinks {
		if s.Latency.Bounds == nil {
			s.Latency.Bounds = []float64{}
		}
		if s.Latency.Counts == nil {
			s.Latency.Counts = []uint64{}
		}
		sinks[i] = s
	}
	p.Sinks = sinks
	return p
}

func withoutPipelines(http.ResponseWriter, *http.Request) error {
	return ports.WithStatus(ports.Errorf(ports.CodeBackendFailed, "admin.request", "this daemon runs no pipelines").WithReason(ports.ReasonUnsupported), http.StatusNotImplemented)
}

func (h *Handler) listPipelines(w http.ResponseWriter, r *http.Request) error {
	pipelines, err := h.Pipelines.Pipelines(r.Context())
	if err != nil {
		return err
	}
	list := pipelineList{make([]types.PipelineStatus, len(pipelines))}
	for i, p := range pipelines {
		list.Pipelines[i] = noNulls(p)
	}
	return h.answer(w, http.StatusOK, list)
}

func (h *Handler) getPipeline(w http.ResponseWriter, r *http.Request) error {
	id, err := pipelineOf("admin.getPipeline", r)
	if err != nil {
		return err
	}
	status, err := h.Pipelines.Pipeline(r.Context(), id)
	if err != nil {
		return err
	}
	return h.answer(w, http.StatusOK, noNulls(status))
}

func (h *Handler) eventBinding(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.getEventBinding"
	id, err := pipelineOf(op, r)
	if err != nil {
		return err
	}
	if _, err := h.Pipelines.Pipeline(r.Context(), id); err != nil {
		return err
	}
	if h.EventToken == nil {
		return ports.WithStatus(ports.Errorf(ports.CodeBackendFailed, op, "this daemon gives pipelines no tokens: events are posted with the admin token").WithReason(ports.ReasonUnsupported), http.StatusNotImplemented)
	}
	token, err := h.EventToken(id)
	if err != nil {
		return err
	}
	return h.answer(w, http.StatusOK, eventBinding{h.Endpoint + eventsPath(id), token})
}

func pipelinePath(id types.PipelineID) string { return "/v1/pipelines/" + url.PathEscape(string(id)) }

func eventsPath(id types.PipelineID) string { return pipelinePath(id) + "/events" }

// checkPipeline refuses a resource that would configure a pipeline which cannot be run.
func (h *Handler) checkPipeline(ctx context.Context, op string, kind types.ResourceKind, id string, value []byte) error {
	if kind != types.PipelineKind || h.Pipelines == nil {
		return nil
	}
	err := h.Pipelines.CheckPipeline(ctx, types.PipelineID(id), value)
	var e *ports.Error
	if errors.As(err, &e) && e.Code == ports.CodeInvalidConfig {
		return ports.Errorf(ports.CodeInvalidInput, op, "%s", e.Message)
	}
	return err
}

// refresh lets a change of a resource take effect. It has been stored: what fails now is in the log, and
// in the status of the pipeline. A replacement that takes long goes on when the answer is on its way.
func (h *Handler) refresh(ctx context.Context, kind types.ResourceKind, id string) {
	if kind != types.PipelineKind || h.Pipelines == nil {
		return
	}
	detached := context.WithoutCancel(ctx)
	done := start(detached, func(ctx context.Context) (struct{}, error) {
		err := h.Pipelines.Refresh(ctx, types.PipelineID(id))
		if err != nil {
			h.Log.Error("a changed pipeline has been stored and does not run as it says yet", "pipeline", id, "error", err)
		}
		return struct{}{}, nil
	})
	limited, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	select {
	case <-done:
	case <-limited.Done():
	}
}
