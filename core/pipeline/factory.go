package pipeline

import (
	"context"
	_ "embed"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// The names under which a configuration selects the sink that delivers to a queue, and the source that
// reads one.
const (
	QueueSinkName   = "queue"
	QueueSourceName = "queue"
)

var (
	//go:embed registry_examples/queue-sink.toml
	queueSinkExample string
	//go:embed registry_examples/queue-source.toml
	queueSourceExample string
)

// QueueSinkModule is the factory of sinks that deliver to a configured queue, for a catalog.
func QueueSinkModule() ports.SinkModule {
	return ports.SinkModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        QueueSinkName,
			Description: "sends each event, as JSON, to a configured work queue",
			Example:     queueSinkExample,
		},
		Check: func(_ ports.Env, config ports.ModuleConfig) error {
			_, err := queueSinkFrom(config)
			return err
		},
		Writes: func(_ ports.Env, config ports.ModuleConfig) ([]ports.Place, error) {
			settings, err := queueSinkFrom(config)
			return []ports.Place{{Queue: settings.Queue}}, err
		},
		Open: openQueueSink,
	}
}

// queueSinkSettings is the configuration of a sink that delivers to a queue.
type queueSinkSettings struct {
	Queue string `toml:"queue"`
}

// queueSinkFrom decodes and checks a configuration. Whether the queue is there is not asked: one may be
// made later.
func queueSinkFrom(config ports.ModuleConfig) (queueSinkSettings, error) {
	const op = "sink.configure"
	var settings queueSinkSettings
	if err := config.Decode(&settings); err != nil {
		return settings, err
	}
	if settings.Queue == "" {
		return settings, ports.Errorf(ports.CodeInvalidConfig, op, `the key queue is missing: name the queue that the sink delivers to, as in queue = "orders"`)
	}
	if err := ports.CheckQueueID(op, settings.Queue); err != nil {
		return settings, ports.Errorf(ports.CodeInvalidConfig, op, "the key queue names no queue: %w", err)
	}
	return settings, nil
}

func openQueueSink(_ context.Context, _ ports.Env, config ports.ModuleConfig, queues ports.QueueResolver) (ports.Sink, error) {
	settings, err := queueSinkFrom(config)
	if err != nil {
		return nil, err
	}
	if queues == nil {
		return nil, ports.Errorf(ports.CodeInvalidConfig, "sink.configure", "the queue %q cannot be found, because this program has no queues: use another sink", settings.Queue)
	}
	return &QueueSink{name: settings.Queue, queues: queues}, nil
}

// QueueSourceModule is the factory of sources that read a configured queue, for a catalog.
func QueueSourceModule() ports.SourceModule {
	return ports.SourceModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        QueueSourceName,
			Description: "reads a configured work queue, and acks what is dealt with",
			Example:     queueSourceExample,
		},
		Check: func(_ ports.Env, config ports.ModuleConfig) error {
			_, err := queueSourceFrom(config)
			return err
		},
		Reads: func(_ ports.Env, config ports.ModuleConfig) ([]ports.Place, error) {
			settings, err := queueSourceFrom(config)
			return []ports.Place{{Queue: settings.Queue}}, err
		},
		Open: openQueueSource,
	}
}

// queueSourceSettings is the configuration of a source that reads a queue.
type queueSourceSettings struct {
	Queue string         `toml:"queue"`
	Lease ports.Duration `toml:"lease"`
}

func queueSourceFrom(config ports.ModuleConfig) (queueSourceSettings, error) {
	const op = "source.configure"
	settings := queueSourceSettings{Lease: ports.Duration(ports.DefaultLease)}
	if err := config.Decode(&settings); err != nil {
		return settings, err
	}
	if settings.Queue == "" {
		return settings, ports.Errorf(ports.CodeInvalidConfig, op, `the key queue is missing: name the queue that the source reads, as in queue = "orders"`)
	}
	if err := ports.CheckQueueID(op, settings.Queue); err != nil {
		return settings, ports.Errorf(ports.CodeInvalidConfig, op, "the key queue names no queue: %w", err)
	}
	if lease := time.Duration(settings.Lease); lease < ports.MinLease || lease > ports.MaxLease {
		return settings, ports.Errorf(ports.CodeInvalidConfig, op, "the lease is %v: give %v to %v, or none for %v", lease, ports.MinLease, ports.MaxLease, ports.DefaultLease)
	}
	return settings, nil
}

func openQueueSource(_ context.Context, env ports.Env, config ports.ModuleConfig, from *types.Cursor, queues ports.QueueResolver) (ports.Source, error) {
	settings, err := queueSourceFrom(config)
	if err != nil {
		return nil, err
	}
	if queues == nil {
		return nil, ports.Errorf(ports.CodeInvalidConfig, "source.configure", "the queue %q cannot be found, because this program has no queues: use another source", settings.Queue)
	}
	if from != nil && from.Primary >= ports.MaxStoredInteger {
		return nil, ports.Errorf(ports.CodeBackendFailed, "source.open", "the checkpoint is %v, behind which nothing can be counted: set an earlier one", *from).WithReason(ports.ReasonUndecodable)
	}
	return newQueueSource(settings, env, from, queues), nil
}
