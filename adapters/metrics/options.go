package metrics

import (
	"context"
	"log/slog"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Pipelines tells how the pipelines stand.
type Pipelines interface {
	// Pipelines returns all pipelines, ordered by id.
	Pipelines(ctx context.Context) ([]types.PipelineStatus, error)
}

// Options say what a handler shows. The zero value shows the process and the build.
type Options struct {
	// Pipelines are those of the daemon; nil where it has none.
	Pipelines Pipelines
	// Owner has the queues; nil where there is none. A queue that is a [ports.Meter] shows its store.
	Owner ports.QueueOwner
	// Storage counts dead letters; nil where there is none. One that is a [ports.JournalCounter] shows
	// its journals, and one that is a [ports.Meter] itself.
	Storage ports.DeadLetterStore
	// Version is that of the program; default "unknown".
	Version string
	// StartedAt is when the daemon was started; default now.
	StartedAt time.Time
	// Timeout bounds the reading of each part; default 3 seconds.
	Timeout time.Duration
	// Log takes the failure of a part, once until it changes; default slog.Default.
	Log *slog.Logger
}

const defaultTimeout = 3 * time.Second

func (o Options) check() (Options, error) {
	if o.Timeout < 0 {
		return o, ports.Errorf(ports.CodeInvalidConfig, "metrics.new", "the timeout is %v: give one above 0", o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
	if o.StartedAt.IsZero() {
		o.StartedAt = time.Now()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o, nil
}
