package adminhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// defaultTake is how many letters a page has, unless the request says otherwise.
const defaultTake = 100

type letterCount struct {
	Pipeline types.PipelineID `json:"pipeline"`
	Count    int64            `json:"count"`
}

type letterCounts struct {
	Pipelines []letterCount `json:"pipelines"`
}

// storedLetter holds the letter, or, if that cannot be decoded, the error instead.
type storedLetter struct {
	Position int64            `json:"position"`
	Letter   json.RawMessage  `json:"letter,omitempty"`
	MatchID  types.MatchID    `json:"match_id,omitempty"`
	Error    *ports.WireError `json:"error,omitempty"`
}

type letterPage struct {
	Letters []storedLetter `json:"letters"`
	Total   *int64         `json:"total,omitempty"` // nil for a page behind a position
	Through *int64         `json:"through,omitempty"`
}

// The actions on many letters.
const (
	actionPreview = "preview"
	actionReplay  = "replay"
	actionDiscard = "discard"
)

// letterAction tells what is there from what is not: a filter that is empty or null by mistake would
// pick everything.
type letterAction struct {
	Action  string          `json:"action"`
	Monitor json.RawMessage `json:"monitor,omitempty"`
	Sink    json.RawMessage `json:"sink,omitempty"`
	Reason  json.RawMessage `json:"reason,omitempty"`
	Through json.RawMessage `json:"through,omitempty"`
}

type letterPreview struct {
	Count   int64 `json:"count"`
	Through int64 `json:"through"`
}

type bulkResult struct {
	Done     int64           `json:"done"`
	Failed   int64           `json:"failed"`
	Failures []letterFailure `json:"failures"`
}

// bulkFailure is the error of an action that ended in the middle, with what was done until then.
type bulkFailure struct {
	ports.WireError
	bulkResult
}

type letterFailure struct {
	MatchID types.MatchID   `json:"match_id"`
	Error   ports.WireError `json:"error"`
}

func newLetterCounts(counts []types.LetterCount) []letterCount {
	list := make([]letterCount, len(counts))
	for i, c := range counts {
		list[i] = letterCount(c)
	}
	return list
}

func newStoredLetter(op string, l types.StoredLetter) (storedLetter, error) {
	if l.Err != nil {
		wire := ports.NewWireError(named(op, l.Err))
		return storedLetter{Position: l.Position, MatchID: l.Letter.MatchID, Error: &wire}, nil //nolint:nilerr // the error is what the answer shows
	}
	text, err := ports.EncodeDeadLetter(l.Letter)
	return storedLetter{Position: l.Position, Letter: json.RawMessage(text)}, err
}

// named gives the error of a letter that cannot be decoded a code, if it has none.
func named(op string, err error) error {
	var e *ports.Error
	if errors.As(err, &e) {
		return err
	}
	return ports.Errorf(ports.CodeBackendFailed, op, "%w", err).WithReason(ports.ReasonUndecodable)
}

// letterKey takes pipeline and match id out of the path.
func letterKey(op string, r *http.Request) (types.PipelineID, types.MatchID, error) {
	pipeline, err := pipelineOf(op, r)
	if err != nil {
		return "", "", err
	}
	match := types.MatchID(r.PathValue("match"))
	return pipeline, match, ports.CheckMatchID(op, match)
}

func (h *Handler) countLetters(w http.ResponseWriter, r *http.Request) error {
	counts, err := h.Control.LetterCounts(r.Context())
	if err != nil {
		return err
	}
	return h.answer(w, http.StatusOK, letterCounts{newLetterCounts(counts)})
}

// listLetters ends a page early where its letters weigh more than maxPage: a thousand events may be a
// gigabyte. One letter always comes, so that who goes on behind what came reaches the end.
func (h *Handler) listLetters(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.listLetters"
	pipeline, err := pipelineOf(op, r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	skip, err := number(op, query, "skip", 0)
	if err != nil {
		return err
	}
	take, err := number(op, query, "take", defaultTake)
	if err != nil {
		return err
	}
	after, err := number(op, query, "after", 0)
	if err != nil {
		return err
	}
	wanted := types.LetterQuery{After: int64(after), Skip: skip, Take: take}
	if err := ports.CheckLetterQuery(op, pipeline, wanted); err != nil {
		return err
	}
	filter := types.LetterFilter{
		Monitor: types.MonitorID(query.Get("monitor")), Sink: types.SinkID(query.Get("sink")), Reason: query.Get("reason"),
	}
	if err := checkFilter(op, filter); err != nil {
		return err
	}
	page, err := h.Control.Letters(r.Context(), pipeline, filter, wanted)
	if err != nil {
		return err
	}
	answer := letterPage{Letters: []storedLetter{}}
	if wanted.After == 0 {
		answer.Total, answer.Through = &page.Total, &page.Through
	}
	size := 0
	for _, l := range page.Letters {
		letter, err := newStoredLetter(op, l)
		if err != nil {
			return err
		}
		size += len(letter.Letter)
		if size > h.pageBytes && len(answer.Letters) > 0 {
			break
		}
		answer.Letters = append(answer.Letters, letter)
	}
	return h.answer(w, http.StatusOK, answer)
}

func (h *Handler) getLetter(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.getLetter"
	pipeline, match, err := letterKey(op, r)
	if err != nil {
		return err
	}
	stored, err := h.Control.Letter(r.Context(), pipeline, match)
	if err != nil {
		return err
	}
	letter, err := newStoredLetter(op, stored)
	if err != nil {
		return err
	}
	return h.answer(w, http.StatusOK, letter)
}

func (h *Handler) discardLetter(w http.ResponseWriter, r *http.Request) error {
	return h.oneLetter("admin.discardLetter", w, r, h.Control.DiscardLetter)
}

func (h *Handler) replayLetter(w http.ResponseWriter, r *http.Request) error {
	return h.oneLetter("admin.replayLetter", w, r, h.Control.ReplayLetter)
}

func (h *Handler) oneLetter(op string, w http.ResponseWriter, r *http.Request, act func(context.Context, types.PipelineID, types.MatchID) error) error {
	pipeline, match, err := letterKey(op, r)
	if err != nil {
		return err
	}
	if err := body(op, w, r, &struct{}{}); err != nil {
		return err
	}
	if err := act(r.Context(), pipeline, match); err != nil {
		return err
	}
	return h.answer(w, http.StatusNoContent, nil)
}

func (h *Handler) actOnLetters(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.actOnLetters"
	pipeline, err := pipelineOf(op, r)
	if err != nil {
		return err
	}
	var request letterAction
	if err := body(op, w, r, &request); err != nil {
		return err
	}
	selection, err := request.selection(op)
	if err != nil {
		return err
	}
	act := h.Control.ReplayLetters
	switch request.Action {
	case actionPreview:
		preview, err := h.Control.PreviewLetters(r.Context(), pipeline, selection.Filter)
		if err != nil {
			return err
		}
		return h.answer(w, http.StatusOK, letterPreview(preview))
	case actionDiscard:
		act = h.Control.DiscardLetters
	}
	result, err := act(r.Context(), pipeline, selection)
	if ended := r.Context().Err(); err != nil && ended != nil && errors.Is(err, ended) {
		return ports.Errorf(ports.CodeOutcomeUnknown, op, "the %s of letters of the pipeline %q was ended after %d of them, because the client has gone or the daemon stops; what was done stays done: %w", request.Action, pipeline, result.Done, err)
	}
	answer := bulkResult{result.Done, result.Failed, make([]letterFailure, len(result.Failures))}
	for i, f := range result.Failures {
		answer.Failures[i] = letterFailure{f.MatchID, ports.NewWireError(f.Err)}
	}
	switch {
	case err == nil:
		return h.answer(w, http.StatusOK, answer)
	case result.Done+result.Failed == 0:
		return err
	}
	wire := ports.NewWireError(partly(request.Action, result, err))
	h.Log.Warn("an action on dead letters ended in the middle", "action", request.Action, "pipeline", pipeline,
		"done", result.Done, "failed", result.Failed, "code", wire.Code, "reason", wire.Context.Reason, "message", wire.Message)
	return h.answer(w, wire.HTTPStatusCode, bulkFailure{wire, answer})
}

// partly makes the error of an action that ended in the middle say how far it came.
func partly(action string, result types.BulkResult, err error) error {
	var e *ports.Error
	if !errors.As(err, &e) {
		return err
	}
	told := *e
	told.Message = fmt.Sprintf("the %s came to an end after %d letters that are done and %d that stay: %s", action, result.Done, result.Failed, e.Message)
	told.Err = err
	return &told
}

// selection checks a request and takes out of it what is to be worked on.
func (a letterAction) selection(op string) (types.LetterSelection, error) {
	var s types.LetterSelection
	switch a.Action {
	case actionPreview, actionReplay, actionDiscard:
	default:
		return s, ports.Errorf(ports.CodeInvalidInput, op, "the action is none of %s, %s and %s", actionPreview, actionReplay, actionDiscard)
	}
	var monitor, sink string
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		into *string
	}{{"monitor", a.Monitor, &monitor}, {"sink", a.Sink, &sink}, {"reason", a.Reason, &s.Filter.Reason}} {
		if part.raw == nil {
			continue
		}
		if err := json.Unmarshal(part.raw, part.into); err != nil || *part.into == "" {
			return s, ports.Errorf(ports.CodeInvalidInput, op, "the member %q is no string with something in it: leave it out to pick all", part.name)
		}
	}
	s.Filter.Monitor, s.Filter.Sink = types.MonitorID(monitor), types.SinkID(sink)
	if a.Through != nil {
		if a.Action == actionPreview {
			return s, ports.Errorf(ports.CodeInvalidInput, op, `a preview has no "through": it returns the one to give to the action`)
		}
		if err := json.Unmarshal(a.Through, &s.Through); err != nil || s.Through < 1 {
			return s, ports.Errorf(ports.CodeInvalidInput, op, `the member "through" is no position: give that of a list or a preview, or leave it out to work on all that is there now`)
		}
	}
	return s, checkFilter(op, s.Filter)
}
