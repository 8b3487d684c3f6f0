package control

import (
	"context"
	"strings"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Pause stores the pause; one that is there stays (R273). It is kept until it is resumed, over
// restarts too, as far as the storage keeps anything. A target that nothing honours, and an id of
// another form than its target has, is INVALID_INPUT. Whether what it names is configured is not
// looked at: a pause may be made in advance. A delivery that has begun is not stopped.
func (h *Handle) Pause(ctx context.Context, pause types.Pause) error {
	if err := checkPause("control.pause", pause); err != nil {
		return err
	}
	return h.storage.Pause(ctx, pause)
}

// Resume removes the pause, if it is there. Any pause that can be stored can be resumed, those too
// whose target nothing honours, which another program may have left.
func (h *Handle) Resume(ctx context.Context, pause types.Pause) error {
	if err := ports.CheckPause("control.resume", pause); err != nil {
		return err
	}
	return h.storage.Resume(ctx, pause)
}

// Pauses returns all pauses, ordered by target, then id.
func (h *Handle) Pauses(ctx context.Context) ([]types.Pause, error) {
	return h.storage.ListPauses(ctx)
}

func checkPause(op string, pause types.Pause) error {
	names := 2
	switch pause.Target {
	case types.PausePipeline:
		names = 1
	case types.PauseMonitor, types.PauseSink:
	default:
		return ports.Errorf(ports.CodeInvalidInput, op, "the pause target is %.64q: use %s, %s or %s",
			pause.Target, types.PausePipeline, types.PauseMonitor, types.PauseSink)
	}
	if err := ports.CheckPause(op, pause); err != nil {
		return err
	}
	switch found := strings.Count(pause.ID, "/") + 1; {
	case found == names:
		return nil
	case names == 1:
		return ports.Errorf(ports.CodeInvalidInput, op, "the id %q of the pause has %d names: give that of the pipeline", pause.ID, found)
	}
	return ports.Errorf(ports.CodeInvalidInput, op, "the id %q does not name a %s: give it as PIPELINE/NAME", pause.ID, pause.Target)
}
