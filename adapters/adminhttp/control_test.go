package adminhttp_test

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// control is an adminhttp.Control over a storage, the simplest that does what a handler has to carry: it
// reads all letters at once, and its sinks are functions.
type control struct {
	storage ports.Storage
	clock   ports.Clock

	mu        sync.Mutex
	broken    map[types.MatchID]error // of letters that are stored in a form that cannot be decoded
	deliver   func(context.Context, types.SinkEvent) error
	delivered []types.SinkEvent
	fail      error // of every list
}

func (c *control) Pause(ctx context.Context, p types.Pause) error  { return c.storage.Pause(ctx, p) }
func (c *control) Resume(ctx context.Context, p types.Pause) error { return c.storage.Resume(ctx, p) }

func (c *control) Pauses(ctx context.Context) ([]types.Pause, error) {
	if c.fail != nil {
		return nil, c.fail
	}
	return c.storage.ListPauses(ctx)
}

func (c *control) Checkpoints(ctx context.Context) ([]types.PipelineCheckpoint, error) {
	if c.fail != nil {
		return nil, c.fail
	}
	return c.storage.ListCheckpoints(ctx)
}

func (c *control) Checkpoint(ctx context.Context, p types.PipelineID) (types.Checkpoint, bool, error) {
	return c.storage.LoadCheckpoint(ctx, p)
}

func (c *control) SetCheckpoint(ctx context.Context, p types.PipelineID, change types.CheckpointChange) (types.Checkpoint, error) {
	there, found, err := c.storage.LoadCheckpoint(ctx, p)
	if err != nil {
		return types.Checkpoint{}, err
	}
	if found && !change.Override && there.Module != nil && (change.Module == nil || *change.Module != *there.Module) {
		return types.Checkpoint{}, ports.Errorf(ports.CodeCheckpointProvenance, "control.setCheckpoint", "the module %q wrote the checkpoint of %q", *there.Module, p)
	}
	checkpoint := types.Checkpoint{Cursor: change.Cursor, Module: change.Module, UpdatedAt: c.clock.Now()}
	return checkpoint, c.storage.SaveCheckpoint(ctx, p, checkpoint)
}

func (c *control) DeleteCheckpoint(ctx context.Context, p types.PipelineID) (bool, error) {
	return c.storage.DeleteCheckpoint(ctx, p)
}

func (c *control) LetterCounts(ctx context.Context) ([]types.LetterCount, error) {
	if c.fail != nil {
		return nil, c.fail
	}
	return c.storage.CountDeadLetters(ctx)
}

// picked returns the letters of a selection, and the position of the last one of all.
func (c *control) picked(ctx context.Context, p types.PipelineID, s types.LetterSelection) ([]types.StoredLetter, int64, error) {
	all, err := c.storage.ListDeadLetters(ctx, p, types.LetterQuery{Take: ports.MaxPageLimit})
	var picked []types.StoredLetter
	var last int64
	for _, l := range all {
		last = l.Position
		f := s.Filter
		if s.Through > 0 && l.Position > s.Through || f.Monitor != "" && f.Monitor != l.Letter.Monitor || f.Sink != "" && f.Sink != l.Letter.Sink || !strings.Contains(l.Letter.Reason, f.Reason) {
			continue
		}
		picked = append(picked, c.broke(l))
	}
	return picked, last, err
}

func (c *control) broke(l types.StoredLetter) types.StoredLetter {
	if err := c.broken[l.Letter.MatchID]; err != nil {
		return types.StoredLetter{Position: l.Position, Letter: types.DeadLetter{MatchID: l.Letter.MatchID}, Err: err}
	}
	return l
}

func (c *control) Letters(ctx context.Context, p types.PipelineID, f types.LetterFilter, q types.LetterQuery) (types.LetterPage, error) {
	picked, last, err := c.picked(ctx, p, types.LetterSelection{Filter: f})
	page := types.LetterPage{Total: int64(len(picked)), Through: last}
	if q.After > 0 {
		page.Total, page.Through = 0, 0
		picked = slices.DeleteFunc(picked, func(l types.StoredLetter) bool { return l.Position <= q.After })
	}
	picked = picked[min(q.Skip, len(picked)):]
	page.Letters = picked[:min(q.Take, len(picked))]
	return page, err
}

func (c *control) Letter(ctx context.Context, p types.PipelineID, id types.MatchID) (types.StoredLetter, error) {
	l, found, err := c.storage.GetDeadLetter(ctx, p, id)
	if err == nil && !found {
		err = ports.Errorf(ports.CodeNotFound, "control.letter", "there is no letter %q", id)
	}
	return c.broke(l), err
}

func (c *control) PreviewLetters(ctx context.Context, p types.PipelineID, f types.LetterFilter) (types.LetterPreview, error) {
	picked, last, err := c.picked(ctx, p, types.LetterSelection{Filter: f})
	return types.LetterPreview{Count: int64(len(picked)), Through: last}, err
}

func (c *control) ReplayLetter(ctx context.Context, p types.PipelineID, id types.MatchID) error {
	l, err := c.Letter(ctx, p, id)
	if err != nil {
		return err
	}
	if l.Letter.Payload == nil {
		return ports.Errorf(ports.CodeInvalidInput, "control.replayLetter", "the letter %q has nothing to replay", id).WithReason(ports.ReasonNoPayload)
	}
	c.mu.Lock()
	c.delivered = append(c.delivered, *l.Letter.Payload)
	c.mu.Unlock()
	if c.deliver != nil {
		if err := c.deliver(ctx, *l.Letter.Payload); err != nil {
			return err
		}
	}
	_, err = c.storage.DeleteDeadLetter(ctx, p, id)
	return err
}

func (c *control) DiscardLetter(ctx context.Context, p types.PipelineID, id types.MatchID) error {
	found, err := c.storage.DeleteDeadLetter(ctx, p, id)
	if err == nil && !found {
		err = ports.Errorf(ports.CodeNotFound, "control.discardLetter", "there is no letter %q", id)
	}
	return err
}

func (c *control) ReplayLetters(ctx context.Context, p types.PipelineID, s types.LetterSelection) (types.BulkResult, error) {
	return c.each(ctx, p, s, c.ReplayLetter)
}

func (c *control) DiscardLetters(ctx context.Context, p types.PipelineID, s types.LetterSelection) (types.BulkResult, error) {
	return c.each(ctx, p, s, c.DiscardLetter)
}

func (c *control) each(ctx context.Context, p types.PipelineID, s types.LetterSelection, act func(context.Context, types.PipelineID, types.MatchID) error) (types.BulkResult, error) {
	picked, _, err := c.picked(ctx, p, s)
	if err != nil {
		return types.BulkResult{}, err
	}
	var result types.BulkResult
	for _, l := range picked {
		err := act(ctx, p, l.Letter.MatchID)
		switch {
		case ctx.Err() != nil:
			return result, ctx.Err()
		case err != nil && ports.IsTransient(err):
			return result, err
		case err != nil:
			result.Failed++
			result.Failures = append(result.Failures, types.LetterFailure{MatchID: l.Letter.MatchID, Err: err})
		default:
			result.Done++
		}
	}
	return result, nil
}
