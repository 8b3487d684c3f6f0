package adminhttp

import (
	"encoding/json"
	"net/http"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// pipelineCheckpoint has the checkpoint in the one form that it has everywhere (R186).
type pipelineCheckpoint struct {
	Pipeline   types.PipelineID `json:"pipeline"`
	Checkpoint json.RawMessage  `json:"checkpoint"`
}

type checkpointList struct {
	Checkpoints []pipelineCheckpoint `json:"checkpoints"`
}

// checkpointChange has pointers where a member has to be there: a part of a cursor that was forgotten
// would send a pipeline back to its beginning.
type checkpointChange struct {
	Cursor *struct {
		Primary   *uint64 `json:"primary"`
		Secondary *uint64 `json:"secondary"`
	} `json:"cursor"`
	Module   *string `json:"module"`
	Override bool    `json:"override"`
}

func newPipelineCheckpoint(pipeline types.PipelineID, c types.Checkpoint) (pipelineCheckpoint, error) {
	text, err := ports.EncodeCheckpoint(c)
	return pipelineCheckpoint{pipeline, json.RawMessage(text)}, err
}

// pipelineOf takes the id of a pipeline out of the path.
func pipelineOf(op string, r *http.Request) (types.PipelineID, error) {
	id := types.PipelineID(r.PathValue("pipeline"))
	return id, ports.CheckPipeline(op, id)
}

func (h *Handler) listCheckpoints(w http.ResponseWriter, r *http.Request) error {
	checkpoints, err := h.Control.Checkpoints(r.Context())
	if err != nil {
		return err
	}
	list := checkpointList{make([]pipelineCheckpoint, len(checkpoints))}
	for i, c := range checkpoints {
		if list.Checkpoints[i], err = newPipelineCheckpoint(c.Pipeline, c.Checkpoint); err != nil {
			return err
		}
	}
	return h.answer(w, http.StatusOK, list)
}

func (h *Handler) getCheckpoint(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.getCheckpoint"
	pipeline, err := pipelineOf(op, r)
	if err != nil {
		return err
	}
	checkpoint, found, err := h.Control.Checkpoint(r.Context(), pipeline)
	if err != nil {
		return err
	}
	if !found {
		return ports.Errorf(ports.CodeNotFound, op, "the pipeline %q has no checkpoint: GET /v1/checkpoints has those that there are", pipeline)
	}
	return h.answerCheckpoint(w, pipeline, checkpoint)
}

func (h *Handler) answerCheckpoint(w http.ResponseWriter, pipeline types.PipelineID, checkpoint types.Checkpoint) error {
	answer, err := newPipelineCheckpoint(pipeline, checkpoint)
	if err != nil {
		return err
	}
	return h.answer(w, http.StatusOK, answer)
}

func (h *Handler) setCheckpoint(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.setCheckpoint"
	pipeline, err := pipelineOf(op, r)
	if err != nil {
		return err
	}
	var request checkpointChange
	if err := body(op, w, r, &request); err != nil {
		return err
	}
	if c := request.Cursor; c == nil || c.Primary == nil || c.Secondary == nil {
		return ports.Errorf(ports.CodeInvalidInput, op, `the cursor of the pipeline %q is missing or not whole: give {"cursor":{"primary":N,"secondary":N}}`, pipeline)
	}
	change := types.CheckpointChange{
		Cursor: types.Cursor{Primary: *request.Cursor.Primary, Secondary: *request.Cursor.Secondary},
		Module: request.Module, Override: request.Override,
	}
	if _, err := ports.CheckCheckpoint(op, pipeline, types.Checkpoint{Cursor: change.Cursor, Module: change.Module}); err != nil {
		return err
	}
	checkpoint, err := h.Control.SetCheckpoint(r.Context(), pipeline, change)
	if err != nil {
		return err
	}
	return h.answerCheckpoint(w, pipeline, checkpoint)
}

func (h *Handler) deleteCheckpoint(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.deleteCheckpoint"
	pipeline, err := pipelineOf(op, r)
	if err != nil {
		return err
	}
	if err := body(op, w, r, &struct{}{}); err != nil {
		return err
	}
	found, err := h.Control.DeleteCheckpoint(r.Context(), pipeline)
	if err != nil {
		return err
	}
	if !found {
		return ports.Errorf(ports.CodeNotFound, op, "the pipeline %q has no checkpoint", pipeline)
	}
	return h.answer(w, http.StatusNoContent, nil)
}
