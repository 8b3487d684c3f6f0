package adminhttp

import (
	"context"
	"errors"
	"fmt"
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

func (h *Handler) ready(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), h.CheckTimeout)
	defer cancel()
	answer := h.readiness(ctx)
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	return h.answer(w, status, answer)
}

// metrics passes on to whoever knows the figures, and bounds the time that their reader has.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) error {
	if h.Metrics == nil {
		return ports.Errorf(ports.CodeNotFound, "admin.metrics", "this daemon shows no metrics")
	}
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(ports.DefaultWriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set the deadline of the metrics: %w", err)
	}
	h.Metrics.ServeHTTP(w, r)
	// The deadline would otherwise hold for whatever the connection carries next.
	if err := control.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		h.Log.Debug("the deadline of an answer could not be cleared", "error", err)
	}
	return nil
}

// readiness runs all checks at once and names those that fail, in the order of the options.
func (h *Handler) readiness(ctx context.Context) readiness {
	results := make([]<-chan result[struct{}], len(h.Checks))
	for i, check := range h.Checks {
		results[i] = start(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, check.Run(ctx) })
	}
	answer := readiness{Ready: true, Version: h.Version}
	for i, check := range h.Checks {
		_, err := await(ctx, h, results[i])
		if err == nil {
			continue
		}
		wire := ports.NewWireError(err)
		if !errors.Is(ctx.Err(), context.Canceled) { // a check that ended because nobody listens any more says nothing
			h.Log.Warn("not ready", "check", check.Name, "error", err)
		}
		answer.Ready = false
		answer.Failing = append(answer.Failing, failing{check.Name, wire.Code, wire.Context.Reason})
	}
	return answer
}

// result is what a question gave.
type result[T any] struct {
	value T
	err   error
}

// start asks a question that may never come back.
func start[T any](ctx context.Context, ask func(context.Context) (T, error)) <-chan result[T] {
	done := make(chan result[T], 1)
	go func() {
		value, err := ask(ctx)
		done <- result[T]{value, err}
	}()
	return done
}

// await waits for the answer, but not beyond the time that all of them have.
func await[T any](ctx context.Context, h *Handler, done <-chan result[T]) (T, error) {
	var r result[T]
	select {
	case r = <-done:
	case <-ctx.Done():
		select {
		case r = <-done: // it had ended, while another one was waited for
		default:
			r.err = ctx.Err()
		}
	}
	var named *ports.Error
	if ended := ctx.Err(); ended != nil && errors.Is(r.err, ended) && !errors.As(r.err, &named) {
		r.err = ports.Errorf(ports.CodeBackendFailed, "admin.status", "it did not end within %v", h.CheckTimeout)
	}
	return r.value, r.err
}
