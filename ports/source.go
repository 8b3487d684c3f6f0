package ports

import (
	"context"
	"io"

	"github.com/stowage-go/stowage/types"
)

// MaxReadEvents is the most events that one Read returns.
const MaxReadEvents = 10_000

// Source gives the events of a pipeline, in order, from the cursor on behind which it was opened. One
// goroutine reads; Settle may be called beside it.
type Source interface {
	// Read returns the next events, 1 to limit of them, in the order of their cursors, then indexes. Each
	// comes after all that were returned before. Unless it has any it waits for one, or for the end of
	// ctx, whose error it returns then, with no event lost. What it has it returns at once: it does not
	// wait to fill up. After the last event of a source that has an end it returns io.EOF. What stands
	// in the stream and is no event is returned in its place, with its Err. limit is 1 to 10,000. All
	// events of one cursor come out of one Read, also where that makes more than limit.
	//
	// Any other error ends this source: it is closed and opened anew, at the checkpoint. A Read that does
	// not return soon after the end of ctx is left behind, and the source closed beside it.
	Read(ctx context.Context, limit int) ([]types.Event, error)

	// Settle says that every event up to and including the cursor is dealt with, and that the
	// checkpoint that says so is durable: the source may forget them. It is called with growing
	// cursors, not for each. An error is reported; it ends nothing, and a later Settle covers the same.
	Settle(ctx context.Context, through types.Cursor) error

	// Close gives back what was read and not settled, where the source lends it out, and ends a Read
	// that waits, with STORE_CLOSED. Closing again does nothing.
	io.Closer
}

// Unordered is implemented by sources that may give an event again at a newer cursor, as a queue does
// when a lease ends. The match ids of such a source follow from [types.Event.ID], and the pipeline
// looks for them in the whole of the journal rather than behind the checkpoint.
type Unordered interface {
	Unordered() bool
}

// Acceptor is implemented by sources to which others hand events.
type Acceptor interface {
	// Accept stores the events durably, all or none; they come out of Read in this order. Of each only
	// TS, Data and Traceparent are looked at. What breaks a rule is INVALID_INPUT without effect. No
	// room is BACKEND_FAILED/disk_full.
	Accept(ctx context.Context, events []types.Event) error
}

// Place is where a source reads or a sink writes. One of Path and Queue is set.
type Place struct {
	// Path is absolute: a file, or a directory with all that is in it.
	Path string
	// Queue is the name of a queue.
	Queue string
	// Own says that nobody else may use it, for reading either.
	Own bool
}

// SourceModule makes sources.
type SourceModule struct {
	ModuleInfo
	// Check decodes the configuration and refuses what Open would refuse. It opens nothing.
	Check func(Env, ModuleConfig) error
	// Reads names the places that a source of a configuration that Check accepts reads, so that a
	// pipeline does not feed itself, and leaves the files of stores alone. It opens nothing. Nil where
	// there is none.
	Reads func(Env, ModuleConfig) ([]Place, error)
	// Open opens a source of the pipeline Env.Name. It begins behind the cursor from, at its own
	// beginning where that is nil. A cursor at which the source cannot go on, because what came next is
	// gone, is BACKEND_FAILED/undecodable, unless the source can say what is lost in an event with Err.
	// queues is for modules that read a queue.
	Open func(ctx context.Context, env Env, config ModuleConfig, from *types.Cursor, queues QueueResolver) (Source, error)
}
