package catalog_test

import (
	"context"
	"fmt"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// A program registers the modules that it ships, its own included, and opens what a configuration
// names.
func Example() {
	modules := catalog.New()
	err := modules.RegisterKv(ports.KvModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        "scratch",
			Description: "key-value store that is gone with the process",
			Example:     "[kv.default]\nmodule = \"scratch\"\n",
		},
		Open: func(_ context.Context, env ports.Env, _ ports.ModuleConfig) (ports.KvStore, error) {
			return model.NewKv(env.Clock), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	cfg, err := config.Parse("stowage.toml", []byte("[kv.sessions]\nmodule = \"scratch\"\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	stores, err := modules.Compose(cfg, catalog.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sessions, err := stores.Kv(ctx, "sessions")
	if err != nil {
		fmt.Println(err)
		return
	}
	put, err := sessions.Put(ctx, "user:1", []byte("ada"), types.PutOptions{})
	fmt.Println(put.Applied, err)
	fmt.Println(stores.Close(ctx))
	// Output:
	// true <nil>
	// <nil>
}

// printer is a sink of a program's own.
type printer struct{}

func (printer) Deliver(_ context.Context, event types.SinkEvent) error {
	fmt.Println(event.Origin().Monitor, string(event.Origin().Event))
	return nil
}

// A program registers a sink of its own; whoever runs the pipelines opens it, and asks before whether a
// pipeline that stands in no file can run.
func ExampleComposition_OpenSink() {
	modules := catalog.New()
	err := modules.RegisterSink(ports.SinkModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        "printer",
			Description: "prints what it gets",
			Example:     "[[pipeline]]\nid = \"p\"\n[[pipeline.sink]]\nid = \"s\"\nmodule = \"printer\"\n",
		},
		Check: func(_ ports.Env, config ports.ModuleConfig) error { return config.Decode(&struct{}{}) },
		Open: func(context.Context, ports.Env, ports.ModuleConfig, ports.QueueResolver) (ports.Sink, error) {
			return printer{}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg, err := config.Parse("stowage.toml", []byte(`
[[pipeline]]
id = "earthquakes"

[[pipeline.sink]]
id = "terminal"
module = "printer"
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	stores, err := modules.Compose(cfg, catalog.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	earthquakes := stores.Pipelines()[0]
	sink, err := stores.OpenSink(ctx, earthquakes.ID, earthquakes.Sinks[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	match := types.Match{ID: "m1", Pipeline: earthquakes.ID, Monitor: "strong", Event: []byte(`{"mag":5.1}`)}
	fmt.Println(sink.Deliver(ctx, types.SinkEvent{Match: &match}))

	other, err := config.ParsePipeline("floods", []byte(`{"sink":[{"id":"terminal","module":"printer","colour":"red"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(stores.CheckPipeline(other))
	fmt.Println(stores.Close(ctx))
	// Output:
	// strong {"mag":5.1}
	// <nil>
	// config: INVALID_CONFIG: sink[0].colour: the key "colour" is unknown in sink[0]: allowed are id, module, retry
	// <nil>
}
