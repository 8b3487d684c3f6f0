package ports

import (
	"context"

	"github.com/stowage-go/stowage/types"
)

// Sink takes what a pipeline delivers.
type Sink interface {
	// Deliver hands the event over. Nil means that the receiver has it for good. An error whose class
	// is transient may go away when the same event is delivered again; any other will not ([IsTransient]
	// decides; an error of the context is neither). One that bears a time ([RetryAfter]) asks not to be
	// called earlier. The same event may be delivered more than once, and always bears the same match
	// id. It may be called from many goroutines, and lets go of the event before it returns.
	Deliver(ctx context.Context, event types.SinkEvent) error
}

// MaxBatchEvents is the most events that one DeliverBatch takes.
const MaxBatchEvents = 1000

// BatchSink is implemented by sinks that take many events at once for less than one by one.
type BatchSink interface {
	Sink
	// MaxBatch is the most events that DeliverBatch takes, 1 to 1000.
	MaxBatch() int
	// DeliverBatch hands the events over in this order and returns one outcome for each, with the
	// meaning of Deliver. Where order matters to the receiver, what comes behind a transient failure is
	// not handed over but has the same outcome, so that all of it can be tried again in order.
	DeliverBatch(ctx context.Context, events []types.SinkEvent) []error
}

// SinkResolver finds the sinks of pipelines.
type SinkResolver interface {
	// Sink returns the sink of that name of the pipeline. One that is not configured is NOT_FOUND.
	Sink(ctx context.Context, pipeline types.PipelineID, sink types.SinkID) (Sink, error)
}

// SinkModule makes sinks.
type SinkModule struct {
	ModuleInfo
	// Check decodes the configuration and refuses what Open would refuse. It opens nothing.
	Check func(Env, ModuleConfig) error
	// Writes names the places that a sink of a configuration that Check accepts writes to: a path has one
	// writer, a queue may have many. It opens nothing. Nil where there is none.
	Writes func(Env, ModuleConfig) ([]Place, error)
	// Open makes a sink. It connects to nothing, so that a receiver that is down stops no start. A sink
	// that is an io.Closer is closed when its owner is. queues is for modules that deliver to a queue.
	Open func(ctx context.Context, env Env, config ModuleConfig, queues QueueResolver) (Sink, error)
}

// QueueResolver finds the queues of a service by their names.
type QueueResolver interface {
	// Queue returns the queue of the name. One that is not there is NOT_FOUND.
	Queue(ctx context.Context, name string) (Queue, error)
}
