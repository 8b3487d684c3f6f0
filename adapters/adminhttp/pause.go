package adminhttp

import (
	"context"
	"net/http"
	"strings"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

type pauseList struct {
	Pauses []types.Pause `json:"pauses"`
}

func (h *Handler) listPauses(w http.ResponseWriter, r *http.Request) error {
	pauses, err := h.Control.Pauses(r.Context())
	if err != nil {
		return err
	}
	return h.answer(w, http.StatusOK, pauseList{append([]types.Pause{}, pauses...)})
}

func (h *Handler) pause(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.pause"
	return h.onePause(op, w, r, func(p types.Pause) error { return checkHonoured(op, p) }, h.Control.Pause)
}

// resume takes any pause away, one too that a store has from elsewhere and that nothing honours.
func (h *Handler) resume(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.resume"
	return h.onePause(op, w, r, func(p types.Pause) error { return ports.CheckPause(op, p) }, h.Control.Resume)
}

func (h *Handler) onePause(op string, w http.ResponseWriter, r *http.Request, check func(types.Pause) error, act func(context.Context, types.Pause) error) error {
	p := types.Pause{Target: types.PauseTarget(r.PathValue("target")), ID: r.PathValue("id")}
	if err := check(p); err != nil {
		return err
	}
	if err := body(op, w, r, &struct{}{}); err != nil {
		return err
	}
	if err := act(r.Context(), p); err != nil {
		return err
	}
	return h.answer(w, http.StatusNoContent, nil)
}

// checkHonoured refuses a pause that would never pause anything.
func checkHonoured(op string, p types.Pause) error {
	if err := ports.CheckPause(op, p); err != nil {
		return err
	}
	parts := strings.Count(p.ID, "/") + 1
	switch {
	case p.Target == types.PausePipeline && parts == 1:
		return nil
	case (p.Target == types.PauseMonitor || p.Target == types.PauseSink) && parts == 2:
		return nil
	case p.Target == types.PausePipeline:
		return ports.Errorf(ports.CodeInvalidInput, op, "the id of the pipeline is %q: it has no slash", p.ID)
	case p.Target == types.PauseMonitor, p.Target == types.PauseSink:
		return ports.Errorf(ports.CodeInvalidInput, op, "the id of the %s is %q: give the pipeline and the name, as in pipeline/name", p.Target, p.ID)
	}
	return ports.Errorf(ports.CodeInvalidInput, op, "the target %q cannot be paused: use %s, %s or %s", p.Target, types.PausePipeline, types.PauseMonitor, types.PauseSink)
}
