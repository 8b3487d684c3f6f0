package adminhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/stowage-go/stowage/ports"
)

type readiness struct {
	Ready   bool      `json:"ready"`
	Version string    `json:"version,omitempty"`
	Failing []failing `json:"failing,omitempty"`
}

type failing struct {
	Check  string       `json:"check"`
	Code   ports.Code   `json:"code"`
	Reason ports.Reason `json:"reason,omitempty"`
}

func (h *Handler) live(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if _, err := io.WriteString(w, "ok\n"); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		h.Log.Debug("the answer did not reach its receiver", "error", err)
	}
	return nil
}

// ready runs all checks at once and names those that fail, in the order of the options.
func (h *Handler) ready(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), h.CheckTimeout)
	defer cancel()
	results := make([]chan error, len(h.Checks))
	for i, check := range h.Checks {
		results[i] = make(chan error, 1)
		go func() { results[i] <- check.Run(ctx) }()
	}
	answer := readiness{Ready: true, Version: h.Version}
	for i, check := range h.Checks {
		err := outcome(ctx, results[i], h.CheckTimeout)
		if err == nil {
			continue
		}
		wire := ports.NewWireError(err)
		if r.Context().Err() == nil { // a check that ended because nobody listens any more says nothing
			h.Log.Warn("not ready", "check", check.Name, "error", err)
		}
		answer.Ready = false
		answer.Failing = append(answer.Failing, failing{check.Name, wire.Code, wire.Context.Reason})
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	return h.answer(w, status, answer)
}

// outcome waits for a check, but not beyond the time that all of them have.
func outcome(ctx context.Context, result <-chan error, timeout time.Duration) error {
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result: // it had ended, while another one was waited for
		return err
	default:
		return ports.Errorf(ports.CodeBackendFailed, "admin.ready", "the check did not end within %v", timeout)
	}
}
