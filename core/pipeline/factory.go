package pipeline

import (
	"context"
	_ "embed"

	"github.com/stowage-go/stowage/ports"
)

// QueueSinkName is the name under which a configuration selects the sink that delivers to a queue.
const QueueSinkName = "queue"

//go:embed registry_examples/queue-sink.toml
var queueSinkExample string

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
