package adminhttp

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	// MaxEventsBytes bounds the body of a request that hands events to a pipeline.
	MaxEventsBytes = 8 << 20
	// MaxEvents is the most events of one request.
	MaxEvents = ports.MaxReadEvents

	// usualEvents is the size in bytes up to which any number of such requests are held, and usualPlaces is
	// how many are that have more: a few dozen MiB, and ten thousand slow connections are no more.
	usualEvents = 4 << 10
	usualPlaces = 512
	// largeEvents is the size in bytes above which a request is large, and largePlaces is how many of those
	// are held.
	largeEvents = 128 << 10
	largePlaces = 8
	// retryAfter is what a producer is asked to wait for a pipeline that is not running, in seconds.
	retryAfter = "1"
)

type accepted struct {
	Accepted int `json:"accepted"`
}

// authenticateEvents wants the token of the pipeline, or the admin token. That there is no such pipeline
// looks like a wrong token.
func (h *Handler) authenticateEvents(r *http.Request) error {
	const op = "admin.authenticate"
	got := ports.BearerToken(r.Header)
	if h.isToken("admin", h.AdminToken, got) {
		return nil
	}
	id, err := pipelineOf(op, r)
	if err == nil && h.Pipelines != nil && h.EventToken != nil {
		_, err = h.Pipelines.Pipeline(r.Context(), id)
		switch {
		case err == nil:
			if h.isToken("pipeline "+string(id), func() (string, error) { return h.EventToken(id) }, got) {
				return nil
			}
		case !errors.Is(err, ports.ErrNotFound):
			return err
		}
	}
	if h.ReadToken != nil && h.isToken("read-only", h.ReadToken, got) {
		return ports.WithStatus(ports.Errorf(ports.CodeAuthenticationFailed, op, "the read-only token does not do for this: use the token of the pipeline, or the admin token"), http.StatusForbidden)
	}
	return ports.Errorf(ports.CodeAuthenticationFailed, op, `the token is missing or wrong, or there is no such pipeline: "stowage pipeline token" prints the token of one`)
}

// postEvents hands the events of a request to the source of a pipeline, all or none.
func (h *Handler) postEvents(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.postEvents"
	id, err := pipelineOf(op, r)
	if err != nil {
		return err
	}
	gated := &gatedBody{ReadCloser: r.Body, gates: h.eventGates, enter: func(g *gate) (func(), error) {
		return g.enter(r.Context(), op, id, h.CheckTimeout)
	}}
	defer gated.leave()
	request := r.WithContext(r.Context()) // the server looks at what it has made itself
	request.Body = gated
	body, err := ports.ReadBody(op, w, request, ports.BodyOptions{Limit: MaxEventsBytes, Types: []string{"application/json", ndjson}})
	if gated.err != nil {
		return retryLater(w, gated.err)
	}
	if err != nil {
		return err
	}
	events, err := h.parseEvents(op, r.Header, body)
	if err != nil {
		return err
	}
	if err := h.Pipelines.Accept(r.Context(), id, events); err != nil {
		return retryLater(w, err)
	}
	return h.answer(w, http.StatusAccepted, accepted{len(events)})
}

// retryLater tells the producer when to come back, where the answer is that it should.
func retryLater(w http.ResponseWriter, err error) error {
	if ports.NewWireError(err).HTTPStatusCode == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	return err
}

// parseEvents takes the events out of a body. The first that is none refuses them all.
func (h *Handler) parseEvents(op string, header http.Header, body []byte) ([]types.Event, error) {
	event := types.Event{TS: h.Clock.Now().UnixMilli(), Traceparent: traceparent(header)}
	refuse := func(where string, err error) error {
		return ports.Errorf(ports.CodeInvalidInput, op, "%s: %w; none was accepted", where, err)
	}
	if media, _, _ := mime.ParseMediaType(header.Get("Content-Type")); media != ndjson { // it was found to be one of two
		data, err := eventData(body)
		if err != nil {
			return nil, refuse("the event", err)
		}
		event.Data = data
		return []types.Event{event}, nil
	}
	var events []types.Event
	number := 0
	for line := range bytes.Lines(body) {
		number++
		if line = bytes.Trim(line, " \t\r\n"); len(line) == 0 { // what JSON takes for white space
			continue
		}
		if len(events) == MaxEvents {
			return nil, ports.WithStatus(ports.Errorf(ports.CodeInvalidInput, op, "line %d: a request has at most %d events; none was accepted: send them in parts", number, MaxEvents), http.StatusRequestEntityTooLarge)
		}
		data, err := eventData(line)
		if err != nil {
			return nil, refuse(fmt.Sprintf("line %d", number), err)
		}
		event.Data = data
		events = append(events, event)
	}
	if len(events) == 0 {
		return nil, ports.Errorf(ports.CodeInvalidInput, op, "the request has no event: send one JSON value a line")
	}
	return events, nil
}

func eventData(text []byte) ([]byte, error) {
	if len(text) > ports.MaxJSONBytes {
		return nil, fmt.Errorf("it has %d bytes: an event has at most %d", len(text), ports.MaxJSONBytes)
	}
	data, err := ports.CompactJSON(string(text))
	if err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	return []byte(data), nil
}

// traceparent is the W3C trace context of a request, empty where there is none of the form that is known.
func traceparent(header http.Header) string {
	if values := header.Values("Traceparent"); len(values) == 1 && ports.IsTraceparent(values[0]) {
		return values[0]
	}
	return ""
}
