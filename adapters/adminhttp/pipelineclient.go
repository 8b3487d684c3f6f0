package adminhttp

import (
	"bytes"
	"context"
	"net/http"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Pipelines returns the pipelines of the daemon, ordered by id.
func (c *Client) Pipelines(ctx context.Context) ([]types.PipelineStatus, error) {
	var list struct {
		Pipelines *[]types.PipelineStatus `json:"pipelines"`
	}
	if err := c.call(ctx, call{op: "admin.listPipelines", path: "/v1/pipelines", answer: &list, check: func() bool { return list.Pipelines != nil }}); err != nil {
		return nil, err
	}
	return *list.Pipelines, nil
}

// Pipeline returns one pipeline. A missing one is NOT_FOUND.
func (c *Client) Pipeline(ctx context.Context, id types.PipelineID) (types.PipelineStatus, error) {
	const op = "admin.getPipeline"
	if err := ports.CheckPipeline(op, id); err != nil {
		return types.PipelineStatus{}, err
	}
	var status types.PipelineStatus
	err := c.call(ctx, call{op: op, path: pipelinePath(id), answer: &status, check: func() bool { return status.ID == id && status.State != "" }})
	if err != nil {
		return types.PipelineStatus{}, err
	}
	return status, nil
}

// EventBinding is what a producer needs to hand events to a pipeline: it posts them to the endpoint,
// with the token as its bearer token.
type EventBinding struct {
	Endpoint string
	Token    string
}

// EventBinding returns the binding of a pipeline, whose token is made at the first use. A missing
// pipeline is NOT_FOUND.
func (c *Client) EventBinding(ctx context.Context, id types.PipelineID) (EventBinding, error) {
	const op = "admin.getEventBinding"
	if err := ports.CheckPipeline(op, id); err != nil {
		return EventBinding{}, err
	}
	var answer eventBinding
	err := c.call(ctx, call{op: op, path: pipelinePath(id) + "/binding", answer: &answer, check: func() bool { return answer.Endpoint != "" && answer.Token != "" }})
	if err != nil {
		return EventBinding{}, err
	}
	return EventBinding(answer), nil
}

// PostEvents hands 1 to [MaxEvents] events to the source of a pipeline, each any JSON value, and
// together, one a line, at most [MaxEventsBytes]. The daemon has them durably when it returns: all, or,
// with an error that is not OUTCOME_UNKNOWN, none. The client's token is the admin token, or that of the
// pipeline's [EventBinding]; with the latter an unknown pipeline is AUTHENTICATION_FAILED.
func (c *Client) PostEvents(ctx context.Context, id types.PipelineID, events ...[]byte) error {
	const op = "admin.postEvents"
	if err := ports.CheckPipeline(op, id); err != nil {
		return err
	}
	if len(events) == 0 || len(events) > MaxEvents {
		return ports.Errorf(ports.CodeInvalidInput, op, "%d events: give 1 to %d at a time", len(events), MaxEvents)
	}
	var body bytes.Buffer
	for i, event := range events {
		data, err := eventData(event)
		if err != nil {
			return ports.Errorf(ports.CodeInvalidInput, op, "event %d of %d: %w; none was sent", i+1, len(events), err)
		}
		body.Write(data)
		body.WriteByte('\n')
	}
	if body.Len() > MaxEventsBytes {
		return ports.Errorf(ports.CodeInvalidInput, op, "the events have %d bytes together: at most %d go in one request; none was sent", body.Len(), MaxEventsBytes)
	}
	var answer struct {
		Accepted *int `json:"accepted"`
	}
	return c.call(ctx, call{
		op: op, method: http.MethodPost, path: eventsPath(id), raw: body.Bytes(), header: http.Header{"Content-Type": {ndjson}},
		status: http.StatusAccepted, answer: &answer, check: func() bool { return answer.Accepted != nil && *answer.Accepted == len(events) },
	})
}
