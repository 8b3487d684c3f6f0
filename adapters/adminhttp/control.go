package adminhttp

import (
	"context"

	"github.com/stowage-go/stowage/types"
)

// Control is what an operator can do to pipelines. A handler calls it, and a [Client] is one, so that
// whoever has a Control works on a daemon as on a storage of its own.
//
// Input is checked by the rules of ports; what breaks one is INVALID_INPUT without effect.
type Control interface {
	// Pause stores the pause, Resume removes it; neither minds if that is done already.
	Pause(ctx context.Context, pause types.Pause) error
	Resume(ctx context.Context, pause types.Pause) error
	// Pauses returns all pauses, ordered by target, then id.
	Pauses(ctx context.Context) ([]types.Pause, error)

	// Checkpoints returns all checkpoints, ordered by pipeline.
	Checkpoints(ctx context.Context) ([]types.PipelineCheckpoint, error)
	// Checkpoint returns the checkpoint of a pipeline, and whether there is one.
	Checkpoint(ctx context.Context, pipeline types.PipelineID) (types.Checkpoint, bool, error)
	// SetCheckpoint stores a checkpoint and returns it. Where another module wrote the one that is
	// there, and the change does not override that, it is CHECKPOINT_PROVENANCE.
	SetCheckpoint(ctx context.Context, pipeline types.PipelineID, change types.CheckpointChange) (types.Checkpoint, error)
	// DeleteCheckpoint removes the checkpoint and reports whether there was one.
	DeleteCheckpoint(ctx context.Context, pipeline types.PipelineID) (bool, error)

	// LetterCounts returns the number of letters of each pipeline that has one, ordered.
	LetterCounts(ctx context.Context) ([]types.LetterCount, error)
	// Letters returns a page of the letters that the filter picks, in the order of arrival: at most
	// query.Take of them, 0 to 1000, after the first query.Skip behind the position query.After. It may
	// return fewer, but not none, where those that there are weigh many megabytes; go on behind the last
	// that came. Behind a position nothing is counted: Total and Through are 0.
	Letters(ctx context.Context, pipeline types.PipelineID, filter types.LetterFilter, query types.LetterQuery) (types.LetterPage, error)
	// Letter returns the letter of the match id. A missing one is NOT_FOUND.
	Letter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (types.StoredLetter, error)
	// PreviewLetters says what an action on the letters that the filter picks would work on.
	PreviewLetters(ctx context.Context, pipeline types.PipelineID, filter types.LetterFilter) (types.LetterPreview, error)
	// ReplayLetter delivers the letter to its sink and removes it. If the sink fails the letter stays.
	ReplayLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) error
	// DiscardLetter removes the letter. A missing one is NOT_FOUND.
	DiscardLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) error
	// ReplayLetters and DiscardLetters work on many. When ctx ends they stop; what was done stays done.
	ReplayLetters(ctx context.Context, pipeline types.PipelineID, selection types.LetterSelection) (types.BulkResult, error)
	DiscardLetters(ctx context.Context, pipeline types.PipelineID, selection types.LetterSelection) (types.BulkResult, error)
}
