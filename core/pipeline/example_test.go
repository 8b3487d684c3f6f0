package pipeline_test

import (
	"context"
	"fmt"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// parts are what a program opens its pipelines from. Most use the Composition of core/catalog, which knows
// modules by name.
type parts struct {
	stream    *model.Stream
	delivered chan types.SinkEvent
}

func (parts) CheckPipeline(p config.Pipeline, _ ...config.Pipeline) error { return p.Check() }

func (p parts) OpenSource(_ context.Context, _ config.Pipeline, from *types.Cursor) (ports.Source, error) {
	return p.stream.Open(from), nil
}

func (p parts) OpenSink(context.Context, types.PipelineID, config.Sink) (ports.Sink, error) {
	return p, nil
}

// Deliver makes the parts a sink as well.
func (p parts) Deliver(_ context.Context, event types.SinkEvent) error {
	p.delivered <- event
	return nil
}

// An engine runs the pipelines of a configuration until it is closed.
func ExampleEngine() {
	ctx := context.Background()
	cfg, err := config.Parse("stowage.toml", []byte(`
		[[pipeline]]
		id = "earthquakes"
		source = { module = "stream" }
		[[pipeline.monitor]]
		id = "strong"
		when = "mag >= 4.5"
		sinks = ["alerts"]
		[[pipeline.sink]]
		id = "alerts"
		module = "channel"
	`))
	if err != nil {
		panic(err)
	}
	p := parts{model.NewStream(ports.SystemClock()), make(chan types.SinkEvent, 10)}
	engine, err := pipeline.NewEngine(pipeline.Options{Storage: model.NewStorage(0), Parts: p, Pipelines: cfg.Pipelines})
	if err != nil {
		panic(err)
	}
	if err := engine.Start(ctx); err != nil {
		panic(err)
	}
	p.stream.Append(`{"mag":2.1}`, `{"mag":6.4}`, `{"mag":4.5}`)
	fmt.Println(string((<-p.delivered).Match.Event))
	fmt.Println(string((<-p.delivered).Match.Event))
	if err := engine.Close(ctx); err != nil {
		panic(err)
	}
	// Output:
	// {"mag":6.4}
	// {"mag":4.5}
}
