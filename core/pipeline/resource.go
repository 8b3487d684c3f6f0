package pipeline

import (
	"context"
	"time"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// CheckPipeline refuses the text of a resource that cannot configure a pipeline of that id: as
// INVALID_CONFIG with what is wrong where, or as ALREADY_EXISTS if the configuration file has the
// pipeline. It changes nothing.
func (e *Engine) CheckPipeline(_ context.Context, id types.PipelineID, text []byte) error {
	const op = "pipeline.check"
	if err := ports.CheckPipeline(op, id); err != nil {
		return err
	}
	for _, p := range e.opts.Pipelines {
		if p.ID == id {
			return fileHasIt(op, id)
		}
	}
	_, err := e.parse(id, text)
	return err
}

func fileHasIt(op string, id types.PipelineID) error {
	return ports.Errorf(ports.CodeAlreadyExists, op, "the configuration file has a pipeline %q: change it there, or give this one another id", id)
}

func (e *Engine) parse(id types.PipelineID, text []byte) (config.Pipeline, error) {
	p, err := config.ParsePipeline(id, text)
	if err != nil {
		return p, err
	}
	return p, e.opts.Parts.CheckPipeline(p, e.usable()...)
}

// usable are the pipelines with a configuration that can be used: those that are there, and those that are
// to come.
func (e *Engine) usable() []config.Pipeline {
	var list []config.Pipeline
	for _, p := range e.sorted() {
		for _, u := range e.ever(p) {
			if u.broken == nil {
				list = append(list, u.config)
			}
		}
	}
	return list
}

// Refresh makes the pipelines what the resources of the kind "pipeline" say: new ones are started, those
// that changed are stopped and replaced, and those that are gone are stopped, all at the same time. It
// returns when those that are named are what their resources said, or something newer; without names it
// waits for all. When ctx ends before, the changes that were begun go on. Before Start there is nothing to
// do.
//
// One that cannot be used is not taken: the pipeline that runs goes on, and its status says why. One that
// wants the place of another, which is still being stopped, is taken once that has stopped.
func (e *Engine) Refresh(ctx context.Context, ids ...types.PipelineID) error {
	exchanges, err := e.revise(ctx, ids...)
	if err != nil {
		return err
	}
	return await(ctx, exchanges)
}

// revise decides what becomes of the pipelines, and begins it. It returns what is under way of those that
// are named, or of all.
func (e *Engine) revise(ctx context.Context, ids ...types.PipelineID) ([]*exchange, error) {
	done, err := e.decide(ctx, "pipeline.refresh")
	if err != nil {
		return nil, err
	}
	defer done()
	if !e.isStarted() {
		return nil, nil
	}
	resources, err := e.resources(ctx)
	if err != nil {
		return nil, err
	}
	e.follow(resources)
	return e.exchanges(ids...), nil
}

// decide waits until nobody else decides what becomes of the pipelines.
func (e *Engine) decide(ctx context.Context, op string) (done func(), err error) {
	select {
	case e.deciding <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e.isClosed() {
		<-e.deciding
		return nil, closedError(op)
	}
	return func() { <-e.deciding }, nil
}

func (e *Engine) resources(ctx context.Context) ([]types.Resource, error) {
	var all []types.Resource
	after := ""
	for {
		page, err := e.opts.Storage.ListResources(ctx, types.PipelineKind, types.ResourceListOptions{After: after})
		if err != nil {
			return nil, err
		}
		all = append(all, page.Resources...)
		if page.Next == "" {
			return all, nil
		}
		after = page.Next
	}
}

// follow does what Refresh says, and waits for nothing. The caller decides.
func (e *Engine) follow(resources []types.Resource) {
	there := map[types.PipelineID]bool{}
	for _, r := range resources {
		there[types.PipelineID(r.ID)] = true
	}
	for _, u := range e.latest() {
		switch {
		case there[u.config.ID]:
		case u.origin == types.OriginFile:
			u.refuse(nil)
		default:
			e.plan(u.config.ID, nil)
		}
	}
	units := e.latest()
	for _, r := range resources {
		id := types.PipelineID(r.ID)
		u := units[id]
		switch {
		case u == nil:
			e.replace(nil, r)
		case u.origin == types.OriginFile:
			u.refuse(fileHasIt("pipeline.refresh", id))
		case u.version != r.Version || u.text != string(r.Value) || u.broken != nil:
			e.replace(u, r)
		default:
			u.refuse(nil)
		}
	}
}

// replace plans that the pipeline that a resource configures comes in place of u, which may be nil.
func (e *Engine) replace(u *unit, r types.Resource) {
	p, err := e.parse(types.PipelineID(r.ID), r.Value)
	switch {
	case err == nil || u == nil:
	case u.broken == nil:
		u.refuse(err)
		return
	case u.version == r.Version && u.text == string(r.Value):
		u.become(types.PipelineFailed, err, time.Time{}) // perhaps for another reason than before
		return
	}
	if err != nil {
		p = config.Pipeline{ID: types.PipelineID(r.ID)}
	}
	next := e.unit(p, types.OriginResource, u)
	next.version, next.text, next.broken = r.Version, string(r.Value), err
	e.plan(p.ID, next)
}
