package types

// LetterFilter picks dead letters of a pipeline. A field that is empty picks all.
type LetterFilter struct {
	Monitor MonitorID
	Sink    SinkID
	// Reason is a part of the letter's reason.
	Reason string
}

// LetterSelection is what a bulk action works on.
type LetterSelection struct {
	Filter LetterFilter
	// Through is the position of the last letter that the operator has seen: what arrived later is
	// not touched. Zero means the last one that is there when the action begins.
	Through int64
}

// LetterPreview says what a bulk action would work on.
type LetterPreview struct {
	Count int64
	// Through is what to give to the action, so that it works on what was counted and nothing newer.
	Through int64
}

// LetterPage is one page of the dead letters that a filter picks, in the order of arrival.
type LetterPage struct {
	Letters []StoredLetter
	// Total counts all letters that the filter picks. It is 0 for a page behind a position, which is
	// looked for no further than to its last letter.
	Total int64
	// Through is the position of the newest letter of the pipeline, picked or not. It is 0 where Total
	// is for that reason.
	Through int64
}

// BulkResult says what a bulk action did. Letters that disappeared in the meantime are not counted.
type BulkResult struct {
	Done   int64 // replayed or discarded
	Failed int64 // kept, because the sink failed, or because the letter cannot be replayed
	// Failures has the first hundred of those that failed.
	Failures []LetterFailure
}

// LetterFailure is a letter that a bulk action kept, and why.
type LetterFailure struct {
	MatchID MatchID
	Err     error
}

// CheckpointChange is a checkpoint as an operator sets it.
type CheckpointChange struct {
	Cursor Cursor
	// Module is the source module whose position the cursor is; it has to be that of the checkpoint
	// that is there.
	Module *string
	// Override sets the checkpoint whoever wrote the one that is there.
	Override bool
}
