package control

import (
	"context"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// maxFailures is how many failures of an action on many letters are told one by one.
const maxFailures = 100

// ReplayLetters replays the letters of the selection one after the other, in the order of their
// arrival, each as ReplayLetter does, and goes on after those that are refused or fail. What a pause
// or a missing sink refused once is refused for all letters that need it, without another look.
//
// It stops when ctx ends, when the process stops (STORE_CLOSED, between two letters), and when the
// storage fails, since a letter could be delivered then but not settled. The result says what was done
// until then; the letter at which it stopped is counted as failed if its sink had failed it, and
// otherwise not at all.
func (h *Handle) ReplayLetters(ctx context.Context, pipeline types.PipelineID, selection types.LetterSelection) (types.BulkResult, error) {
	const op = "control.replayLetters"
	var result types.BulkResult
	selection, err := h.selected(ctx, op, pipeline, selection)
	if err != nil {
		return result, err
	}
	route := h.routeOf(op, pipeline)
	for page, err := range h.pages(ctx, pipeline, 0, selection.Through) {
		if err != nil {
			return result, err
		}
		for _, stored := range page {
			if !picks(selection.Filter, stored) {
				continue
			}
			if h.stops() {
				return result, stopping(op, pipeline)
			}
			if err := h.replayNext(ctx, op, route, selection, stored, &result); err != nil {
				return result, err
			}
		}
	}
	return result, nil
}

// replayNext replays one letter of many, and returns an error if that is the end.
func (h *Handle) replayNext(ctx context.Context, op string, route *route, selection types.LetterSelection, stored types.StoredLetter, result *types.BulkResult) error {
	id := stored.Letter.MatchID
	if stored.Err != nil {
		failed(result, id, undecodable(op, route.pipeline, stored))
		return nil //nolint:nilerr // it is counted, and the next one goes on
	}
	if refusal := route.refused(stored.Letter); refusal != nil {
		failed(result, id, refusal)
		return nil
	}
	switch o := h.replay(ctx, op, route, id, selection); {
	case o.gone:
		return o.end
	case o.kept != nil:
		failed(result, id, o.kept)
		return o.end
	case o.end != nil:
		return o.end
	}
	result.Done++
	return nil
}

// DiscardLetter removes the letter for good. One that is not there is NOT_FOUND; one that is being
// replayed is BACKEND_FAILED/busy and stays.
func (h *Handle) DiscardLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) error {
	const op = "control.discardLetter"
	if err := checkLetterKey(op, pipeline, id); err != nil {
		return err
	}
	if !h.letters.claim(pipeline, id) {
		return busy(op, pipeline, id)
	}
	defer h.letters.release(pipeline, id)
	found, err := h.storage.DeleteDeadLetter(ctx, pipeline, id)
	if err == nil && !found {
		err = missing(op, pipeline, id)
	}
	return err
}

// DiscardLetters removes the letters of the selection for good: in one step with an empty filter, and
// otherwise a thousand at a time. Letters that are being replayed stay and are counted as failed. It
// stops when ctx ends, when the process stops (STORE_CLOSED) and when the storage fails; the result
// says what was removed until then.
func (h *Handle) DiscardLetters(ctx context.Context, pipeline types.PipelineID, selection types.LetterSelection) (types.BulkResult, error) {
	const op = "control.discardLetters"
	var result types.BulkResult
	selection, err := h.selected(ctx, op, pipeline, selection)
	if err != nil {
		return result, err
	}
	// While another call is at work on a letter, the others go page by page, and around that one.
	if selection.Filter == (types.LetterFilter{}) && h.letters.claimAll(pipeline) {
		defer h.letters.releaseAll(pipeline)
		result.Done, err = h.storage.DeleteAllDeadLetters(ctx, pipeline, selection.Through)
		return result, err
	}
	for page, err := range h.pages(ctx, pipeline, 0, selection.Through) {
		if err != nil {
			return result, err
		}
		if h.stops() {
			return result, stopping(op, pipeline)
		}
		if err := h.discardPage(ctx, op, pipeline, selection.Filter, page, &result); err != nil {
			return result, err
		}
	}
	return result, nil
}

func (h *Handle) discardPage(ctx context.Context, op string, pipeline types.PipelineID, filter types.LetterFilter, page []types.StoredLetter, result *types.BulkResult) error {
	ids := make([]types.MatchID, 0, len(page))
	defer func() { h.letters.release(pipeline, ids...) }()
	seen := make(map[types.MatchID]bool, len(page)) // older files may hold a letter twice
	for _, stored := range page {
		id := stored.Letter.MatchID
		if !picks(filter, stored) || seen[id] && id != "" {
			continue
		}
		seen[id] = true
		switch {
		case ports.CheckMatchID(op, id) != nil:
			failed(result, id, ports.Errorf(ports.CodeBackendFailed, op, "the dead letter at position %d of pipeline %q has no match id to remove it by: discard all letters while none is being replayed", stored.Position, pipeline).
				WithReason(ports.ReasonBusy))
		case !h.letters.claim(pipeline, id):
			failed(result, id, busy(op, pipeline, id))
		default:
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	n, err := h.storage.DeleteDeadLetters(ctx, pipeline, ids)
	result.Done += n
	return err
}

// selected checks a selection and binds it to the letters that are there now.
func (h *Handle) selected(ctx context.Context, op string, pipeline types.PipelineID, selection types.LetterSelection) (types.LetterSelection, error) {
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return selection, err
	}
	if err := checkFilter(op, selection.Filter); err != nil {
		return selection, err
	}
	if selection.Through < 0 {
		return selection, ports.Errorf(ports.CodeInvalidInput, op, "the selection goes through position %d: give that of the last letter that was seen, or 0", selection.Through)
	}
	_, newest, err := h.newest(ctx, pipeline)
	if selection.Through == 0 || selection.Through > newest {
		selection.Through = newest
	}
	return selection, err
}

func stopping(op string, pipeline types.PipelineID) error {
	return ports.Errorf(ports.CodeStoreClosed, op, "the process stops, and the dead letters of pipeline %q that are left stay as they are: repeat when it runs again", pipeline)
}

func failed(result *types.BulkResult, id types.MatchID, err error) {
	result.Failed++
	if len(result.Failures) < maxFailures {
		result.Failures = append(result.Failures, types.LetterFailure{MatchID: id, Err: err})
	}
}
