package control

import (
	"context"
	"errors"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// route finds the sinks of a pipeline for one action, and remembers whom it was refused.
type route struct {
	h        *Handle
	op       string
	pipeline types.PipelineID
	sinks    map[types.SinkID]ports.Sink
	refusals map[types.Pause]error // by what a pause of it would be
}

func (h *Handle) routeOf(op string, pipeline types.PipelineID) *route {
	return &route{h, op, pipeline, map[types.SinkID]ports.Sink{}, map[types.Pause]error{}}
}

// needs is what the replay of a letter depends on.
func (r *route) needs(letter types.DeadLetter) [3]types.Pause {
	return [...]types.Pause{
		types.PipelineOf(r.pipeline),
		types.MonitorOf(r.pipeline, letter.Monitor),
		types.SinkOf(r.pipeline, letter.Sink),
	}
}

// refused is why a letter cannot be replayed, as far as that is known without asking.
func (r *route) refused(letter types.DeadLetter) error {
	for _, need := range r.needs(letter) {
		if err := r.refusals[need]; err != nil {
			return err
		}
	}
	return nil
}

// sink returns the sink of a letter, unless something that it needs is paused or not there: then it is
// nil, and the outcome says why.
func (r *route) sink(ctx context.Context, letter types.DeadLetter) (ports.Sink, outcome) {
	// Pauses are looked up for each letter, so that one takes effect in the middle of an action.
	for _, need := range r.needs(letter) {
		if ports.CheckPause(r.op, need) != nil {
			continue // a name of an older file, which no pause can have
		}
		paused, err := r.h.storage.Paused(ctx, need)
		if err != nil {
			return nil, stopped(err)
		}
		if paused {
			err := ports.Errorf(ports.CodeInvalidInput, r.op, "the %s %q is paused, so its dead letters are not replayed: resume it, then replay them", need.Target, need.ID).
				WithReason(ports.ReasonPaused)
			r.refusals[need] = err
			return nil, outcome{kept: err}
		}
	}
	if sink := r.sinks[letter.Sink]; sink != nil {
		return sink, outcome{}
	}
	sink, err := r.h.sinks.Sink(ctx, r.pipeline, letter.Sink)
	switch {
	case err == nil && sink != nil:
		r.sinks[letter.Sink] = sink
		return sink, outcome{}
	case err == nil:
		return nil, outcome{kept: ports.Errorf(ports.CodeBackendFailed, r.op, "the resolver returned neither the sink %q of pipeline %q nor an error: this is a fault of it", letter.Sink, r.pipeline)}
	case ctx.Err() != nil:
		return nil, outcome{end: err}
	}
	err = restate(r.op, err, "the sink %q of pipeline %q, where the dead letter belongs, cannot be had: %w", letter.Sink, r.pipeline, err)
	if errors.Is(err, ports.ErrNotFound) {
		r.refusals[types.SinkOf(r.pipeline, letter.Sink)] = err
	}
	return nil, outcome{kept: err}
}
