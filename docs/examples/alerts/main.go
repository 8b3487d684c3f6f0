// Command alerts is a service that watches readings: they arrive in a durable queue, a pipeline picks what
// is worth a page, and the service's own sink prints it. What is kept where is up to stowage.toml.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stowage-go/stowage/adapters/localqueue"
	"github.com/stowage-go/stowage/adapters/sqlite"
	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

var readings = []string{
	`{"room":"kitchen","celsius":31,"time":"2026-07-01T12:00:00Z"}`,
	`{"room":"cellar","celsius":12,"time":"2026-07-01T12:01:00Z"}`,
	`{"room":"kitchen","celsius":33,"time":"2026-07-01T12:05:00Z"}`,
	`{"room":"attic","celsius":38,"time":"2026-07-01T12:06:00Z"}`,
	`{"room":"attic","celsius":39,"time":"2026-07-01T12:09:00Z"}`,
}

// page is the service's own sink.
type page struct{ out io.Writer }

func (p page) Deliver(_ context.Context, event types.SinkEvent) error {
	_, err := fmt.Fprintf(p.out, "page: %s, warm %d times\n", event.Origin().Event, event.Emission.Hits)
	return err
}

func pageModule(out io.Writer) ports.SinkModule {
	return ports.SinkModule{
		ModuleInfo: ports.ModuleInfo{Name: "page", Description: "prints pages", Example: "[[pipeline.sink]]\nmodule = \"page\"\n"},
		Check:      func(_ ports.Env, config ports.ModuleConfig) error { return config.Decode(&struct{}{}) },
		Open: func(context.Context, ports.Env, ports.ModuleConfig, ports.QueueResolver) (ports.Sink, error) {
			return page{out}, nil
		},
	}
}

func main() {
	if err := run(context.Background(), "stowage.toml", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}

// run sends the readings and returns when the pipeline has dealt with them.
func run(ctx context.Context, file string, out io.Writer) (err error) {
	cfg, err := config.Load(file)
	if err != nil {
		return err
	}
	modules := catalog.New()
	err = errors.Join(modules.RegisterStorage(sqlite.Module()), modules.RegisterQueue(localqueue.Module()),
		modules.RegisterSource(pipeline.QueueSourceModule()), modules.RegisterSink(pageModule(out)))
	if err != nil {
		return err
	}
	parts, err := modules.Compose(cfg, catalog.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parts.Close(context.WithoutCancel(ctx))) }()
	storage, err := parts.Storage(ctx)
	if err != nil {
		return err
	}
	queue, err := parts.Queue(ctx, "readings")
	if err != nil {
		return err
	}
	engine, err := pipeline.NewEngine(pipeline.Options{Storage: storage, Parts: parts, Pipelines: cfg.Pipelines})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close(context.WithoutCancel(ctx))) }()
	for _, reading := range readings {
		if err := queue.Send(ctx, types.JSON([]byte(reading)), types.SendOptions{}); err != nil {
			return err
		}
	}
	if err := engine.Start(ctx); err != nil {
		return err
	}
	for status := (types.PipelineStatus{}); err == nil && (status.Events < uint64(len(readings)) || status.Pending > 0); time.Sleep(10 * time.Millisecond) {
		status, err = engine.Pipeline(ctx, "rooms")
	}
	return err
}
