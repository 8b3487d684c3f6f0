package pipeline

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Defaults and limits of an engine.
const (
	DefaultStopTimeout = 10 * time.Second

	// DefaultAttempts, DefaultRetryMin and DefaultRetryMax are the retries of a sink that configures none.
	DefaultAttempts = 5
	DefaultRetryMin = 200 * time.Millisecond
	DefaultRetryMax = 30 * time.Second

	// MaxBehind is how many matches may wait for one lane before the source is read no further.
	MaxBehind = 100_000
	// MaxUnsettled is how many events of a source that lends them out, as a queue does, may be
	// unsettled.
	MaxUnsettled = 2000

	readBatch     = 500  // events of one Read
	laneMemory    = 1000 // matches of a lane in memory; the others are in its file
	maxOpenSteps  = 50_000
	maxKnown      = 100_000 // match ids that the run of an unordered source remembers
	hitsPerApply  = 5000
	hitsMemory    = 8 << 20   // of hits that are not stored
	marksMemory   = 64 << 20  // of the states of gates behind steps
	maxOpenEvents = 2_000_000 // that the stored checkpoint does not cover: at a restart the journal behind it is read into memory
	unorderedHold = 10_000    // deliveries before the checkpoint that the journal of an unordered source keeps
	pausePoll     = 500 * time.Millisecond
	refreshPoll   = 5 * time.Second
	saveInterval  = 200 * time.Millisecond
	restartMin    = time.Second
	restartMax    = time.Minute
	rateLimitWait = time.Hour // that a match may be held back in all because its sink asks for it, in a run
)

// SourceName is the name of the monitor and of the sink of dead letters that are no events: what a
// source found in their place.
const SourceName = "_source"

// Parts opens what pipelines are made of. The Composition of core/catalog is one.
type Parts interface {
	// CheckPipeline refuses, as INVALID_CONFIG, what cannot be opened, what cannot be compiled, and what
	// does not go together with the pipelines beside it. It opens nothing.
	CheckPipeline(p config.Pipeline, beside ...config.Pipeline) error
	// OpenSource opens the source of p, which has one, behind the cursor from.
	OpenSource(ctx context.Context, p config.Pipeline, from *types.Cursor) (ports.Source, error)
	// OpenSink opens a sink. Whoever asked closes it, if it is an io.Closer.
	OpenSink(ctx context.Context, pipeline types.PipelineID, s config.Sink) (ports.Sink, error)
}

// Options are those of an Engine.
type Options struct {
	// Storage keeps the state of the pipelines. Required; the engine does not close it.
	Storage ports.Storage
	// Parts opens sources and sinks. Required.
	Parts Parts
	// Pipelines are those of the configuration file.
	Pipelines []config.Pipeline
	// Clock is the system's by default.
	Clock ports.Clock
	// Log takes what no status shows for long; by default nothing does.
	Log *slog.Logger
	// Tracer makes the spans. Nil makes none; a trace context that comes with an event is passed on all
	// the same.
	Tracer trace.Tracer
	// SpillDir is where what waits for slow lanes overflows to. It is made if it is missing, and belongs
	// to the engine alone: what lies there from an earlier process is removed. Default: a directory of
	// its own under os.TempDir, for as long as the engine runs.
	SpillDir string
	// StopTimeout is how long a stop waits for the sends that are under way. Default 10 s.
	StopTimeout time.Duration
	// Random gives the chance that spreads retries, 0 to 1. Default math/rand/v2.Float64.
	Random func() float64
}

func (o Options) check(op string) (Options, error) {
	if o.Storage == nil {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the options have no Storage: give the one that keeps the checkpoints")
	}
	if o.Parts == nil {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the options have no Parts: give what opens sources and sinks, such as a catalog's composition")
	}
	if o.StopTimeout < 0 {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "StopTimeout is %v: give 0 for the default, or more", o.StopTimeout)
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = DefaultStopTimeout
	}
	if o.Clock == nil {
		o.Clock = ports.SystemClock()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return o, nil
}

// spillDir makes the directory of the backlogs, and says how to remove it.
func (o Options) spillDir() (dir string, remove func() error, err error) {
	if o.SpillDir == "" {
		dir, err = os.MkdirTemp("", "stowage-spill-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	if err := os.MkdirAll(o.SpillDir, 0o700); err != nil {
		return "", nil, err
	}
	return o.SpillDir, func() error { return nil }, removeLeftovers(o.SpillDir)
}
