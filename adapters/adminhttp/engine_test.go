package adminhttp_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// engine has the pipelines "quakes", whose source takes events, and "tides", whose source does not.
type engine struct {
	mu        sync.Mutex
	accepted  []types.Event
	stopped   bool
	refreshed []types.PipelineID
	refresh   func(context.Context) error // nil: succeeds at once
	fail      error                       // of Pipelines and Pipeline
}

func (e *engine) statuses() []types.PipelineStatus {
	read := types.Cursor{Primary: 7}
	return []types.PipelineStatus{
		{
			ID: "quakes", State: types.PipelineFailed, Origin: types.OriginResource, Version: 3, Error: "the file is gone", RetryAt: fixture.Epoch(), Restarts: 2,
			Source: "http", Read: &read, Checkpoint: &types.Cursor{Primary: 5, Secondary: 1}, LagSeconds: 1.5, Pending: 2, Events: 9, BadEvents: 1,
			Monitors: []types.MonitorStatus{{ID: "strong", Paused: true, Matches: 4, Emissions: 3, Errors: 1, LastError: "mag is missing"}},
			Sinks: []types.SinkStatus{{
				ID: "alerts", Module: "webhook", Pending: 1, Delivered: 2, DeadLettered: 1, Duplicates: 1, Retries: 5, LastError: "503", LastErrorAt: fixture.Epoch(), WaitingUntil: fixture.Epoch().Add(time.Hour),
				Latency: types.Histogram{Bounds: []float64{0.1}, Counts: []uint64{1, 1}, Sum: 0.5},
			}},
		},
		{ID: "tides", State: types.PipelineIdle, Origin: types.OriginFile, Sinks: []types.SinkStatus{{ID: "log", Module: "stdout"}}},
	}
}

func (e *engine) Pipelines(context.Context) ([]types.PipelineStatus, error) {
	return e.statuses(), e.fail
}

func (e *engine) Pipeline(_ context.Context, id types.PipelineID) (types.PipelineStatus, error) {
	all := e.statuses()
	i := slices.IndexFunc(all, func(p types.PipelineStatus) bool { return p.ID == id })
	switch {
	case e.fail != nil:
		return types.PipelineStatus{}, e.fail
	case i < 0:
		return types.PipelineStatus{}, ports.Errorf(ports.CodeNotFound, "pipeline.status", "there is no pipeline %q", id)
	}
	return all[i], nil
}

func (e *engine) Accept(_ context.Context, id types.PipelineID, events []types.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case id == "tides":
		return ports.Errorf(ports.CodeInvalidInput, "pipeline.accept", "the source of the pipeline %q takes no events", id)
	case id != "quakes":
		return ports.Errorf(ports.CodeNotFound, "pipeline.accept", "there is no pipeline %q", id)
	case e.stopped:
		return ports.Errorf(ports.CodeStoreClosed, "pipeline.accept", "the pipeline %q is not running now", id)
	}
	e.accepted = append(e.accepted, events...)
	return nil
}

func (e *engine) CheckPipeline(_ context.Context, id types.PipelineID, text []byte) error {
	switch {
	case id == "tides":
		return ports.Errorf(ports.CodeAlreadyExists, "pipeline.check", "the pipeline %q is in the configuration file", id)
	case strings.Contains(string(text), "bad"):
		return ports.Errorf(ports.CodeInvalidConfig, "pipeline.check", "the pipeline %q has no source", id)
	}
	return nil
}

func (e *engine) Refresh(ctx context.Context, ids ...types.PipelineID) error {
	e.mu.Lock()
	e.refreshed = append(e.refreshed, ids...)
	e.mu.Unlock()
	if e.refresh != nil {
		return e.refresh(ctx)
	}
	return nil
}

func (e *engine) state() (accepted []types.Event, refreshed []types.PipelineID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.accepted), slices.Clone(e.refreshed)
}
