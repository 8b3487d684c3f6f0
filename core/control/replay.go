package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// ReplayLetter delivers the letter to its sink once more, whatever the delivery journal says of it,
// and removes it once the sink has taken it; the journal then has its match, at the letter's cursor, so
// that a pipeline to which the event comes again does not deliver it too (R274).
//
// A letter that is not there, and one whose sink is not configured, is NOT_FOUND; one without payload
// INVALID_INPUT/no_payload (R270); one whose pipeline, monitor or sink is paused INVALID_INPUT/paused;
// one that cannot be decoded BACKEND_FAILED/undecodable; one that another call is at work on
// BACKEND_FAILED/busy. None of these touches it.
//
// When the sink fails, or panics, the error is BACKEND_FAILED of the sink's class and wraps the
// sink's. The letter keeps its place, has one attempt more, and the sink's error as its reason. When
// ctx ends, the sink sees it, and nothing more is written. Nor is it when the process stops and has
// closed the sink: that is STORE_CLOSED.
//
// An error after the delivery says so: the letter may still be there, and another replay would deliver
// it again.
func (h *Handle) ReplayLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) error {
	const op = "control.replayLetter"
	if err := checkLetterKey(op, pipeline, id); err != nil {
		return err
	}
	switch o := h.replay(ctx, op, h.routeOf(op, pipeline), id, types.LetterSelection{Through: math.MaxInt64}); {
	case o.end != nil:
		return o.end
	case o.kept != nil:
		return o.kept
	case o.gone:
		return missing(op, pipeline, id)
	}
	return nil
}

// outcome is what became of the replay of one letter. The zero value means that it was delivered and
// settled.
type outcome struct {
	// gone: there is no such letter, or it is none of the selection any more.
	gone bool
	// kept is why it was not delivered: it was refused, or its sink failed.
	kept error
	// end is why no other letter should be tried: the storage failed, or the context ended.
	end error
}

// stopped is the outcome of an error of the storage. What it found fault with is one letter only where
// it says so.
func stopped(err error) outcome {
	if errors.Is(err, ports.ErrInvalidInput) || errors.Is(err, ports.ErrUndecodable) {
		return outcome{kept: err}
	}
	return outcome{end: err}
}

func (h *Handle) replay(ctx context.Context, op string, route *route, id types.MatchID, selection types.LetterSelection) outcome {
	pipeline := route.pipeline
	if !h.letters.claim(pipeline, id) {
		return outcome{kept: busy(op, pipeline, id)}
	}
	defer h.letters.release(pipeline, id)

	stored, found, err := h.storage.GetDeadLetter(ctx, pipeline, id)
	switch {
	case err != nil:
		return stopped(err)
	case !found || stored.Position > selection.Through || !picks(selection.Filter, stored):
		return outcome{gone: true}
	case stored.Err != nil:
		return outcome{kept: undecodable(op, pipeline, stored)}
	case stored.Letter.Payload == nil || stored.Letter.Payload.Origin() == nil:
		return outcome{kept: ports.Errorf(ports.CodeInvalidInput, op, "the dead letter %q of pipeline %q has no payload, as those of older files do: there is nothing to replay; discard it, or move the checkpoint back before %v", id, pipeline, stored.Letter.Cursor).
			WithReason(ports.ReasonNoPayload)}
	}
	// What could not be settled afterwards is not delivered.
	settled := types.Progress{
		Deliveries: []types.Delivery{{Cursor: stored.Letter.Cursor, MatchID: id}},
		Settled:    []types.MatchID{id},
	}
	if _, err := ports.CheckProgress(op, pipeline, settled); err != nil {
		return outcome{kept: err}
	}
	sink, o := route.sink(ctx, stored.Letter)
	if sink == nil {
		return o
	}
	if err := h.deliver(ctx, op, sink, pipeline, stored.Letter); err != nil {
		return h.keep(ctx, op, pipeline, stored, err)
	}
	if err := h.storage.Apply(ctx, pipeline, settled); err != nil {
		return outcome{end: restate(op, err, "the dead letter %q of pipeline %q was delivered to the sink %q, but that could not be stored: %w; if the letter is still there, a replay delivers it again, and a discard does not",
			id, pipeline, stored.Letter.Sink, err)}
	}
	return outcome{}
}

// deliver hands the event over for good: the letter, which is a copy, is not looked at afterwards. A panic
// of the sink is an error of it.
func (h *Handle) deliver(ctx context.Context, op string, sink ports.Sink, pipeline types.PipelineID, letter types.DeadLetter) (err error) {
	defer func() {
		panicked := recover()
		if panicked == nil {
			return
		}
		// The value may hold anything, an event too; only the runtime's own are known to be harmless.
		what := fmt.Sprintf("%T", panicked)
		if fault, ok := panicked.(runtime.Error); ok {
			what = fault.Error()
		}
		h.log.ErrorContext(ctx, "a sink panicked",
			slog.String("pipeline", string(pipeline)), slog.String("sink", string(letter.Sink)),
			slog.String("match_id", string(letter.MatchID)), slog.String("panic", what), slog.String("stack", string(debug.Stack())))
		err = &ports.Error{Code: ports.CodeBackendFailed, Op: op, Class: ports.Permanent, Message: "the sink panicked (" + what + "): this is a fault of its module, and the log has the stack"}
	}()
	return sink.Deliver(ctx, eventOf(pipeline, letter))
}

// eventOf is the payload of a letter. What the bare matches of older files leave out is known from the
// letter around them.
func eventOf(pipeline types.PipelineID, letter types.DeadLetter) types.SinkEvent {
	event := *letter.Payload
	origin := event.Origin()
	if origin.ID == "" {
		origin.ID = letter.MatchID
		origin.Cursor = letter.Cursor
	}
	if origin.Pipeline == "" {
		origin.Pipeline = pipeline
	}
	if origin.Monitor == "" {
		origin.Monitor = letter.Monitor
	}
	return event
}

// keep writes down that the sink failed a letter.
func (h *Handle) keep(ctx context.Context, op string, pipeline types.PipelineID, stored types.StoredLetter, cause error) outcome {
	id, sink := stored.Letter.MatchID, stored.Letter.Sink
	if ended := ctx.Err(); ended != nil {
		return outcome{end: fmt.Errorf("%s: the replay of the dead letter %q of pipeline %q was given up, and the letter is as it was: %w; the sink %q ended with: %w", op, id, pipeline, ended, sink, cause)}
	}
	if h.stops() && errors.Is(cause, ports.ErrStoreClosed) {
		return outcome{end: ports.Errorf(ports.CodeStoreClosed, op, "the process stops, and the dead letter %q of pipeline %q is as it was: repeat when it runs again; the sink %q ended with: %w", id, pipeline, sink, cause)}
	}
	failure := ports.Errorf(ports.CodeBackendFailed, op, "the sink %q of pipeline %q failed to take the dead letter %q, which is kept: %w", sink, pipeline, id, cause)
	failure.Class = ports.Permanent
	if ports.IsTransient(cause) {
		failure.Class = ports.Transient
	}
	// The pipeline may have changed the letter meanwhile, and another process may have removed it.
	current, found, err := h.storage.GetDeadLetter(ctx, pipeline, id)
	switch {
	case err != nil:
		return notNoted(op, pipeline, id, failure, err)
	case !found || current.Position != stored.Position:
		return outcome{gone: true, kept: failure}
	case current.Err != nil:
		return outcome{kept: failure}
	}
	letter := current.Letter
	letter.Attempts = min(letter.Attempts, ports.MaxStoredInteger-1) + 1
	letter.Reason = reasonOf(cause)
	found, err = h.storage.UpdateDeadLetter(ctx, pipeline, letter)
	if err != nil {
		return notNoted(op, pipeline, id, failure, err)
	}
	return outcome{gone: !found, kept: failure}
}

// notNoted is the outcome of a failure of the sink after which the storage failed too.
func notNoted(op string, pipeline types.PipelineID, id types.MatchID, failure *ports.Error, err error) outcome {
	o := stopped(err)
	o.kept = failure
	if o.end == nil {
		both := *failure
		both.Message = fmt.Sprintf("%s; that could not be noted in the letter: %v", failure.Message, err)
		both.Err = errors.Join(failure.Err, err)
		o.kept = &both
		return o
	}
	o.end = restate(op, err, "the sink failed to take the dead letter %q of pipeline %q (%w), and that could not be noted in the letter: %w", id, pipeline, failure.Err, err)
	return o
}

// reasonOf is the text of an error, as far as a letter can hold it.
func reasonOf(err error) string {
	const more = "…"
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(text) <= ports.MaxReasonBytes {
		return text
	}
	end := ports.MaxReasonBytes - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
