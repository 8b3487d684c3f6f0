package control

import (
	"context"
	"errors"
	"log/slog"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Storage is what a Handle needs of a [ports.Storage].
type Storage interface {
	ports.CheckpointStore
	ports.DeadLetterStore
	ports.PauseStore
	// Apply is that of [ports.Storage].
	Apply(ctx context.Context, pipeline types.PipelineID, progress types.Progress) error
}

// Suspender stops a pipeline for as long as its state is changed from outside. The Engine of core/pipeline
// is one.
type Suspender interface {
	// Suspend stops the pipeline, calls fn once nothing of it is under way in the storage, and starts it
	// again. Where there is no such pipeline it only calls fn. It returns the error of fn.
	Suspend(ctx context.Context, pipeline types.PipelineID, fn func(context.Context) error) error
}

// Options are what a Handle works with.
type Options struct {
	// Storage is required. The Handle does not close it.
	Storage Storage
	// Sinks finds the sinks to which letters are replayed. It is required.
	Sinks ports.SinkResolver
	// Suspender stops a pipeline while its checkpoint is changed, so that the pipeline does not write
	// over it. Nil where no pipeline of the storage runs.
	Suspender Suspender
	// Stopping is closed when the process is about to close the storage and the sinks. From then on no
	// action goes on to another letter, and a sink that is closed already fails none. Nil: never.
	Stopping <-chan struct{}
	// Clock tells when a checkpoint was set; default ports.SystemClock.
	Clock ports.Clock
	// Log gets what no error can carry: the stack of a sink that panicked, and who a checkpoint was
	// taken from; default: nothing is logged.
	Log *slog.Logger
}

// Handle is the operator's hold on the pipelines of one storage. All methods may be called from many
// goroutines. Their errors are those of the storage, unless they say otherwise; what breaks a rule is
// INVALID_INPUT before anything is touched.
type Handle struct {
	storage  Storage
	sinks    ports.SinkResolver
	suspend  func(context.Context, types.PipelineID, func(context.Context) error) error
	stopping <-chan struct{}
	clock    ports.Clock
	log      *slog.Logger

	letters     *claims
	checkpoints *turns
	pageSize    int // how many letters an action on many has in memory at a time
}

// New makes a Handle. Options without a storage or without sinks are INVALID_INPUT.
func New(opts Options) (*Handle, error) {
	const op = "control.new"
	if opts.Storage == nil {
		return nil, ports.Errorf(ports.CodeInvalidInput, op, "the options have no Storage: give the one that the handle is for")
	}
	if opts.Sinks == nil {
		return nil, ports.Errorf(ports.CodeInvalidInput, op, "the options have no Sinks: give a resolver, which may know none")
	}
	if opts.Clock == nil {
		opts.Clock = ports.SystemClock()
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	suspend := func(ctx context.Context, _ types.PipelineID, fn func(context.Context) error) error { return fn(ctx) }
	if opts.Suspender != nil {
		suspend = opts.Suspender.Suspend
	}
	return &Handle{
		storage:     opts.Storage,
		sinks:       opts.Sinks,
		suspend:     suspend,
		stopping:    opts.Stopping,
		clock:       opts.Clock,
		log:         opts.Log,
		letters:     newClaims(),
		checkpoints: newTurns(),
		pageSize:    ports.MaxPageLimit,
	}, nil
}

// stops reports whether the process is about to stop.
func (h *Handle) stops() bool {
	select {
	case <-h.stopping:
		return true
	default:
		return false
	}
}

// restate gives the error of a store a message that says more, and leaves code, reason and class what
// they are.
func restate(op string, cause error, format string, args ...any) error {
	code, reason, class := ports.CodeBackendFailed, ports.Reason(""), ports.Class("")
	var e *ports.Error
	if errors.As(cause, &e) {
		code, reason, class = e.Code, e.Reason, e.Class
	}
	restated := ports.Errorf(code, op, format, args...)
	restated.Reason, restated.Class = reason, class
	return restated
}
