package checkpoint

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Defaults of the Options.
const (
	DefaultInterval          = time.Second
	DefaultRetryMin          = 100 * time.Millisecond
	DefaultRetryMax          = 30 * time.Second
	DefaultUnhealthyAfter    = 30 * time.Second
	DefaultUnhealthyFailures = 5
)

// Options are those of a Writer. Pipeline is required; the zero value of everything else is its
// default.
type Options struct {
	// Pipeline is whose checkpoint is written.
	Pipeline types.PipelineID
	// Module names the source module whose positions the cursors are. It is stored with each
	// checkpoint; nil stores none.
	Module *string

	// Interval is the least time between two saves: what becomes safe meanwhile is saved by one. A
	// cursor that becomes safe after a longer silence is saved at once. Default 1 s.
	Interval time.Duration

	// RetryMin is the pause after a first failed save, and each further failure doubles it up to
	// RetryMax. Each pause is shortened by up to half, by chance, so that many writers do not come
	// back to a storage at the same instant. A permanent failure is followed by the longest pause.
	// Defaults 100 ms and 30 s.
	RetryMin, RetryMax time.Duration
	// Random gives the chance, 0 to 1, 1 excluded. It is called by one goroutine. Default
	// math/rand/v2.Float64.
	Random func() float64

	// A writer is unhealthy once nothing could be saved for UnhealthyAfter, a save that does not come
	// back included, or once UnhealthyFailures saves have failed in a row, or after one permanent
	// failure. Defaults 30 s and 5.
	UnhealthyAfter    time.Duration
	UnhealthyFailures int

	// Clock is the system's by default.
	Clock ports.Clock
	// Log takes the first failure of a row, and the end of it; by default nothing does.
	Log *slog.Logger
}

func (o Options) check(op string) (Options, error) {
	if _, err := ports.CheckCheckpoint(op, o.Pipeline, types.Checkpoint{Module: o.Module}); err != nil {
		return o, err
	}
	for _, d := range [...]struct {
		name     string
		value    *time.Duration
		fallback time.Duration
	}{
		{"Interval", &o.Interval, DefaultInterval},
		{"RetryMin", &o.RetryMin, DefaultRetryMin},
		{"RetryMax", &o.RetryMax, max(DefaultRetryMax, o.RetryMin)},
		{"UnhealthyAfter", &o.UnhealthyAfter, DefaultUnhealthyAfter},
	} {
		if *d.value < 0 {
			return o, ports.Errorf(ports.CodeInvalidConfig, op, "%s of the checkpoint writer of pipeline %q is %v: give 0 for the default, or more", d.name, o.Pipeline, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	// RetryMin stands at its default by now, which may be above a RetryMax that was given.
	if o.RetryMax < o.RetryMin {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "RetryMax of the checkpoint writer of pipeline %q is %v, RetryMin is %v: give a RetryMax that is not below", o.Pipeline, o.RetryMax, o.RetryMin)
	}
	if o.UnhealthyFailures < 0 {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "UnhealthyFailures of the checkpoint writer of pipeline %q is %d: give 0 for the default, or more", o.Pipeline, o.UnhealthyFailures)
	}
	if o.UnhealthyFailures == 0 {
		o.UnhealthyFailures = DefaultUnhealthyFailures
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Clock == nil {
		o.Clock = ports.SystemClock()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Module = types.Checkpoint{Module: o.Module}.Clone().Module
	return o, nil
}
