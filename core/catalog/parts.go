package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/gate"
	"github.com/stowage-go/stowage/core/monitor"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// parts plans what a configuration names, and checks what pipelines are made of.
type parts struct {
	modules  *Catalog
	stateDir string
	opts     Options
	stores   []*plan // those of the configuration, with their paths
}

func (p parts) plan(kind Kind, name string, store config.Store) *plan {
	planned := &plan{kind: kind, name: name, module: store.Module, at: store.At, moduleAt: store.ModuleAt, config: store.Config}
	if planned.config == nil {
		planned.config = config.NoConfig()
	}
	planned.env = p.opts.env(name, p.stateDir, slog.String("store", planned.id()), slog.String("module", planned.module))
	return planned
}

// source plans the source of a pipeline that has one.
func (p parts) source(pipeline config.Pipeline) (*plan, ports.SourceModule, error) {
	planned := p.plan(KindSource, string(pipeline.ID), pipeline.Source.Store)
	module, known := p.modules.source.modules[planned.module]
	if !known {
		return nil, module, p.modules.unknownModule(planned)
	}
	return planned, module, nil
}

func (p parts) sink(pipeline types.PipelineID, sink config.Sink) (*plan, ports.SinkModule, error) {
	planned := p.plan(KindSink, sinkName(pipeline, sink.ID), sink.Store)
	module, known := p.modules.sink.modules[planned.module]
	if !known {
		return nil, module, p.modules.unknownModule(planned)
	}
	return planned, module, nil
}

func sinkName(pipeline types.PipelineID, sink types.SinkID) string {
	return string(pipeline) + "/" + string(sink)
}

// check refuses a pipeline that cannot run. It opens nothing.
func (p parts) check(pipeline config.Pipeline) error {
	if err := pipeline.Check(); err != nil {
		return err
	}
	if pipeline.Source != nil {
		planned, module, err := p.source(pipeline)
		if err != nil {
			return err
		}
		if err := planned.locate(module.Check(planned.env, planned.config)); err != nil {
			return err
		}
	}
	if pipeline.EventTime != "" {
		if _, err := monitor.CompileValue(pipeline.EventTime, pipeline.Fields); err != nil {
			return refuse(pipeline.EventTimeAt, "pipeline."+string(pipeline.ID), "event_time", err)
		}
	}
	for _, m := range pipeline.Monitors {
		if err := checkMonitor(pipeline, m); err != nil {
			return err
		}
	}
	for _, s := range pipeline.Sinks {
		planned, module, err := p.sink(pipeline.ID, s)
		if err != nil {
			return err
		}
		if err := planned.locate(module.Check(planned.env, planned.config)); err != nil {
			return err
		}
	}
	return nil
}

// checkMonitor compiles the expressions of a monitor and checks its gate.
func checkMonitor(pipeline config.Pipeline, m config.Monitor) error {
	table := "monitor." + string(pipeline.ID) + "/" + string(m.ID)
	if m.When != "" {
		if _, err := monitor.Compile(m.When, pipeline.Fields); err != nil {
			return refuse(m.WhenAt, table, "when", err)
		}
	}
	if m.Gate == nil {
		return nil
	}
	if err := (gate.Config{Threshold: m.Gate.Threshold, Window: m.Gate.Window, Cooldown: m.Gate.Cooldown}).Check(op); err != nil {
		return refuse(m.Gate.At, table, "gate", err)
	}
	if m.Gate.Key != "" {
		if _, err := monitor.CompileValue(m.Gate.Key, pipeline.Fields); err != nil {
			return refuse(m.Gate.KeyAt, table, "gate.key", err)
		}
	}
	return nil
}

// refuse is the fault of a key whose value another package has refused.
func refuse(at config.Position, table, key string, err error) error {
	problem := err.Error()
	var e *ports.Error
	if errors.As(err, &e) {
		problem = e.Message
	}
	return config.Refuse(&config.Fault{At: at, Key: table + "." + key, Problem: fmt.Sprintf("the key %s of [%s]: %s", key, table, problem), Err: err})
}

// Pipelines are those of the configuration, in the order of the file.
func (c *Composition) Pipelines() []config.Pipeline { return slices.Clone(c.pipelines) }

// CheckPipeline refuses a pipeline that cannot run, whether it stands in the file or not: one whose form
// breaks a rule, a module that is unknown or refuses its keys, an expression that does not compile. The
// error is INVALID_CONFIG with a [config.Fault] as its cause. So is a pipeline that feeds itself, and one
// that writes where a store, or another pipeline of the file or of beside, has its place; one of beside
// with the same id is passed over. It opens nothing, and does not ask whether a queue, a file or a
// receiver is there.
func (c *Composition) CheckPipeline(pipeline config.Pipeline, beside ...config.Pipeline) error {
	if c.closing.Err() != nil {
		return closedError("the pipeline " + string(pipeline.ID))
	}
	if err := c.parts.check(pipeline); err != nil {
		return err
	}
	return c.parts.checkUses(pipeline, append(slices.Clone(c.pipelines), beside...))
}

// OpenSource opens the source of a pipeline anew, behind the cursor from, or at the beginning where that
// is nil. The context is that of the opening alone. Whoever asked closes the source, before the
// composition. A pipeline without a source is NOT_FOUND.
func (c *Composition) OpenSource(ctx context.Context, pipeline config.Pipeline, from *types.Cursor) (ports.Source, error) {
	return open(ctx, c, string(KindSource)+"."+string(pipeline.ID), func(ctx context.Context) (ports.Source, error) {
		if pipeline.Source == nil {
			return nil, ports.Errorf(ports.CodeNotFound, op, "the pipeline %q has no source in its configuration", pipeline.ID)
		}
		planned, module, err := c.parts.source(pipeline)
		if err != nil {
			return nil, err
		}
		source, err := module.Open(ctx, planned.env, planned.config, from, queues{c})
		if err == nil && source == nil {
			err = returnedNothing(planned)
		}
		return source, err
	})
}

// OpenSink opens a sink of a pipeline anew. The context is that of the opening alone. Whoever asked
// closes the sink, if it is an io.Closer, before the composition.
func (c *Composition) OpenSink(ctx context.Context, pipeline types.PipelineID, sink config.Sink) (ports.Sink, error) {
	return open(ctx, c, string(KindSink)+"."+sinkName(pipeline, sink.ID), func(ctx context.Context) (ports.Sink, error) {
		planned, module, err := c.parts.sink(pipeline, sink)
		if err != nil {
			return nil, err
		}
		opened, err := module.Open(ctx, planned.env, planned.config, queues{c})
		if err == nil && opened == nil {
			err = returnedNothing(planned)
		}
		return opened, err
	})
}

func returnedNothing(p *plan) error {
	return ports.Errorf(ports.CodeBindingSetupFailed, op, "the module %s returned neither a %s nor an error: this is a fault of the module", p.module, p.kind)
}

// open opens a source or a sink. A panic of its module is an error, as it is for stores: one pipeline
// that cannot be opened stops no other.
func open[P any](ctx context.Context, c *Composition, name string, module func(context.Context) (P, error)) (opened P, err error) {
	ctx, end, err := c.begin(ctx, name)
	if err != nil {
		return opened, err
	}
	defer end()
	defer func() {
		if cause := recover(); cause != nil {
			err = ports.Errorf(ports.CodeBindingSetupFailed, op, "the module panicked: %v: this is a fault of the module", cause)
		}
		if err != nil {
			var none P
			opened, err = none, c.failed(ctx, name, err)
		}
	}()
	return module(ctx)
}

// queues resolves the queues that a source or sink may use: the configured ones, then those of the owner.
type queues struct{ comp *Composition }

// Queue implements ports.QueueResolver.
func (q queues) Queue(ctx context.Context, name string) (ports.Queue, error) {
	if _, configured := q.comp.plans[string(KindQueue)+"."+name]; configured || q.comp.ownerModule == "" {
		return q.comp.Queue(ctx, name)
	}
	owner, err := q.comp.Owner(ctx)
	if err != nil {
		return nil, err
	}
	return owner.Queue(ctx, name)
}
