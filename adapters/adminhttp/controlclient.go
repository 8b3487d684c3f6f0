package adminhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// asStored lets an answer hold records that a store has, and that no store would take today.
var asStored = []ports.DecodeOption{ports.AsStored}

// Checkpoints implements [Control].
func (c *Client) Checkpoints(ctx context.Context) ([]types.PipelineCheckpoint, error) {
	const op = "admin.listCheckpoints"
	var list struct {
		Checkpoints *[]pipelineCheckpoint `json:"checkpoints"`
	}
	call := call{op: op, path: "/v1/checkpoints", answer: &list, options: asStored, check: func() bool { return list.Checkpoints != nil }}
	if err := c.call(ctx, call); err != nil {
		return nil, err
	}
	checkpoints := make([]types.PipelineCheckpoint, len(*list.Checkpoints))
	for i, wire := range *list.Checkpoints {
		checkpoint, err := ports.DecodeCheckpoint(string(wire.Checkpoint))
		if err != nil {
			return nil, c.foreign(call, err)
		}
		checkpoints[i] = types.PipelineCheckpoint{Pipeline: wire.Pipeline, Checkpoint: checkpoint}
	}
	return checkpoints, nil
}

// Checkpoint implements [Control].
func (c *Client) Checkpoint(ctx context.Context, pipeline types.PipelineID) (types.Checkpoint, bool, error) {
	const op = "admin.getCheckpoint"
	checkpoint, err := c.checkpointCall(ctx, pipeline, call{op: op})
	if absent(err, op) {
		return types.Checkpoint{}, false, nil
	}
	return checkpoint, err == nil, err
}

// SetCheckpoint implements [Control].
func (c *Client) SetCheckpoint(ctx context.Context, pipeline types.PipelineID, change types.CheckpointChange) (types.Checkpoint, error) {
	const op = "admin.setCheckpoint"
	if _, err := ports.CheckCheckpoint(op, pipeline, types.Checkpoint{Cursor: change.Cursor, Module: change.Module}); err != nil {
		return types.Checkpoint{}, err
	}
	request := struct {
		Cursor   types.Cursor `json:"cursor"`
		Module   *string      `json:"module,omitempty"`
		Override bool         `json:"override,omitempty"`
	}{change.Cursor, change.Module, change.Override}
	return c.checkpointCall(ctx, pipeline, call{op: op, method: http.MethodPut, request: request})
}

func (c *Client) checkpointCall(ctx context.Context, pipeline types.PipelineID, call call) (types.Checkpoint, error) {
	if err := ports.CheckPipeline(call.op, pipeline); err != nil {
		return types.Checkpoint{}, err
	}
	var answer pipelineCheckpoint
	call.path, call.answer, call.options = checkpointPath(pipeline), &answer, asStored
	call.check = func() bool { return answer.Pipeline == pipeline }
	if err := c.call(ctx, call); err != nil {
		return types.Checkpoint{}, err
	}
	checkpoint, err := ports.DecodeCheckpoint(string(answer.Checkpoint))
	if err != nil {
		return types.Checkpoint{}, c.foreign(call, err)
	}
	return checkpoint, nil
}

func checkpointPath(pipeline types.PipelineID) string {
	return "/v1/checkpoints/" + url.PathEscape(string(pipeline))
}

// DeleteCheckpoint implements [Control].
func (c *Client) DeleteCheckpoint(ctx context.Context, pipeline types.PipelineID) (bool, error) {
	const op = "admin.deleteCheckpoint"
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return false, err
	}
	err := c.call(ctx, call{op: op, method: http.MethodDelete, path: checkpointPath(pipeline), status: http.StatusNoContent})
	if absent(err, op) {
		return false, nil
	}
	return err == nil, err
}

// LetterCounts implements [Control].
func (c *Client) LetterCounts(ctx context.Context) ([]types.LetterCount, error) {
	var answer struct {
		Pipelines *[]letterCount `json:"pipelines"`
	}
	err := c.call(ctx, call{op: "admin.countLetters", path: "/v1/deadletters", answer: &answer, check: func() bool { return answer.Pipelines != nil }})
	if err != nil {
		return nil, err
	}
	return letterCountsOf(*answer.Pipelines), nil
}

func letterCountsOf(wire []letterCount) []types.LetterCount {
	counts := make([]types.LetterCount, len(wire))
	for i, w := range wire {
		counts[i] = types.LetterCount(w)
	}
	return counts
}

// Letters implements [Control]. A page ends early at 16 MiB of letters. With a filter the daemon has to
// read all letters: only ctx ends it then.
func (c *Client) Letters(ctx context.Context, pipeline types.PipelineID, filter types.LetterFilter, wanted types.LetterQuery) (types.LetterPage, error) {
	const op = "admin.listLetters"
	if err := ports.CheckLetterQuery(op, pipeline, wanted); err != nil {
		return types.LetterPage{}, err
	}
	if err := checkFilter(op, filter); err != nil {
		return types.LetterPage{}, err
	}
	query := url.Values{"skip": {strconv.Itoa(wanted.Skip)}, "take": {strconv.Itoa(wanted.Take)}}
	if wanted.After > 0 {
		query.Set("after", strconv.FormatInt(wanted.After, 10))
	}
	for name, value := range map[string]string{"monitor": string(filter.Monitor), "sink": string(filter.Sink), "reason": filter.Reason} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var answer struct {
		Letters *[]storedLetter `json:"letters"`
		Total   *int64          `json:"total"`
		Through *int64          `json:"through"`
	}
	call := call{
		op: op, path: lettersPath(pipeline) + "?" + query.Encode(), answer: &answer, options: asStored,
		long: filter != types.LetterFilter{},
		check: func() bool {
			return answer.Letters != nil && (wanted.After > 0 || answer.Total != nil && answer.Through != nil)
		},
	}
	if err := c.call(ctx, call); err != nil {
		return types.LetterPage{}, err
	}
	page := types.LetterPage{Letters: make([]types.StoredLetter, len(*answer.Letters))}
	if wanted.After == 0 {
		page.Total, page.Through = *answer.Total, *answer.Through
	}
	for i, wire := range *answer.Letters {
		page.Letters[i] = wire.storedLetter()
	}
	return page, nil
}

// storedLetter is the way back. What this build cannot decode is as what its store could not.
func (w storedLetter) storedLetter() types.StoredLetter {
	l := types.StoredLetter{Position: w.Position, Letter: types.DeadLetter{MatchID: w.MatchID}}
	if w.Error != nil {
		l.Err = w.Error.Err()
		return l
	}
	l.Letter, l.Err = ports.DecodeDeadLetter(string(w.Letter))
	if l.Err != nil {
		l.Err = named("admin.listLetters", l.Err)
	}
	return l
}

func lettersPath(pipeline types.PipelineID) string {
	return "/v1/deadletters/" + url.PathEscape(string(pipeline))
}

// Letter implements [Control].
func (c *Client) Letter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (types.StoredLetter, error) {
	var answer storedLetter
	err := c.letterCall(ctx, pipeline, id, "", call{
		op: "admin.getLetter", answer: &answer, options: asStored, check: func() bool { return answer.Position > 0 && (answer.Letter != nil || answer.Error != nil) },
	})
	if err != nil {
		return types.StoredLetter{}, err
	}
	return answer.storedLetter(), nil
}

// ReplayLetter implements [Control]. It takes as long as the sink takes: only ctx ends it.
func (c *Client) ReplayLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) error {
	return c.letterCall(ctx, pipeline, id, "/replay", call{op: "admin.replayLetter", method: http.MethodPost, status: http.StatusNoContent, long: true})
}

// DiscardLetter implements [Control].
func (c *Client) DiscardLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) error {
	return c.letterCall(ctx, pipeline, id, "", call{op: "admin.discardLetter", method: http.MethodDelete, status: http.StatusNoContent})
}

func (c *Client) letterCall(ctx context.Context, pipeline types.PipelineID, id types.MatchID, below string, call call) error {
	if err := ports.CheckPipeline(call.op, pipeline); err != nil {
		return err
	}
	if err := ports.CheckMatchID(call.op, id); err != nil {
		return err
	}
	call.path = lettersPath(pipeline) + "/" + url.PathEscape(string(id)) + below
	return c.call(ctx, call)
}

// PreviewLetters implements [Control]. The daemon may have to read all letters: only ctx ends it.
func (c *Client) PreviewLetters(ctx context.Context, pipeline types.PipelineID, filter types.LetterFilter) (types.LetterPreview, error) {
	var answer struct {
		Count   *int64 `json:"count"`
		Through *int64 `json:"through"`
	}
	err := c.lettersCall(ctx, pipeline, actionPreview, types.LetterSelection{Filter: filter}, call{
		op: "admin.previewLetters", question: true, long: true, answer: &answer, check: func() bool { return answer.Count != nil && answer.Through != nil },
	})
	if err != nil {
		return types.LetterPreview{}, err
	}
	return types.LetterPreview{Count: *answer.Count, Through: *answer.Through}, nil
}

// ReplayLetters implements [Control]. It takes as long as it takes: only ctx ends it. With an error the
// result is what the daemon says was done, and zero where no answer tells.
func (c *Client) ReplayLetters(ctx context.Context, pipeline types.PipelineID, selection types.LetterSelection) (types.BulkResult, error) {
	return c.bulkCall(ctx, pipeline, actionReplay, selection, "admin.replayLetters")
}

// DiscardLetters implements [Control]. It takes as long as it takes, and its result is one, as with
// ReplayLetters.
func (c *Client) DiscardLetters(ctx context.Context, pipeline types.PipelineID, selection types.LetterSelection) (types.BulkResult, error) {
	return c.bulkCall(ctx, pipeline, actionDiscard, selection, "admin.discardLetters")
}

func (c *Client) bulkCall(ctx context.Context, pipeline types.PipelineID, action string, selection types.LetterSelection, op string) (types.BulkResult, error) {
	var answer struct {
		Done     *int64          `json:"done"`
		Failed   *int64          `json:"failed"`
		Failures []letterFailure `json:"failures"`
	}
	err := c.lettersCall(ctx, pipeline, action, selection, call{
		op: op, long: true, answer: &answer, partial: &answer, check: func() bool { return answer.Done != nil && answer.Failed != nil },
	})
	if answer.Done == nil || answer.Failed == nil {
		return types.BulkResult{}, err
	}
	result := types.BulkResult{Done: *answer.Done, Failed: *answer.Failed}
	for _, f := range answer.Failures {
		result.Failures = append(result.Failures, types.LetterFailure{MatchID: f.MatchID, Err: f.Error.Err()})
	}
	return result, err
}

func (c *Client) lettersCall(ctx context.Context, pipeline types.PipelineID, action string, selection types.LetterSelection, call call) error {
	if err := ports.CheckPipeline(call.op, pipeline); err != nil {
		return err
	}
	if err := checkFilter(call.op, selection.Filter); err != nil {
		return err
	}
	if selection.Through < 0 {
		return ports.Errorf(ports.CodeInvalidInput, call.op, "the position is %d: give that of a list or a preview, or 0 for all that is there now", selection.Through)
	}
	request := letterAction{Action: action}
	for _, part := range []struct {
		into  *json.RawMessage
		given bool
		value any
	}{
		{&request.Monitor, selection.Filter.Monitor != "", selection.Filter.Monitor},
		{&request.Sink, selection.Filter.Sink != "", selection.Filter.Sink},
		{&request.Reason, selection.Filter.Reason != "", selection.Filter.Reason},
		{&request.Through, selection.Through != 0, selection.Through},
	} {
		if !part.given {
			continue
		}
		text, err := ports.EncodeJSON(part.value)
		if err != nil {
			return ports.Errorf(ports.CodeBackendFailed, call.op, "the request could not be encoded: %w", err)
		}
		*part.into = text
	}
	call.method, call.path, call.request = http.MethodPost, lettersPath(pipeline), request
	return c.call(ctx, call)
}

// Pauses implements [Control].
func (c *Client) Pauses(ctx context.Context) ([]types.Pause, error) {
	var list struct {
		Pauses *[]types.Pause `json:"pauses"`
	}
	if err := c.call(ctx, call{op: "admin.listPauses", path: "/v1/pauses", answer: &list, check: func() bool { return list.Pauses != nil }}); err != nil {
		return nil, err
	}
	return *list.Pauses, nil
}

// Pause implements [Control]. The daemon takes pauses of pipelines, monitors and sinks.
func (c *Client) Pause(ctx context.Context, pause types.Pause) error {
	return c.pauseCall(ctx, pause, call{op: "admin.pause", method: http.MethodPut})
}

// Resume implements [Control].
func (c *Client) Resume(ctx context.Context, pause types.Pause) error {
	return c.pauseCall(ctx, pause, call{op: "admin.resume", method: http.MethodDelete})
}

func (c *Client) pauseCall(ctx context.Context, pause types.Pause, call call) error {
	if err := ports.CheckPause(call.op, pause); err != nil {
		return err
	}
	parts := strings.Split(pause.ID, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	call.path, call.status = "/v1/pauses/"+url.PathEscape(string(pause.Target))+"/"+strings.Join(parts, "/"), http.StatusNoContent
	return c.call(ctx, call)
}
