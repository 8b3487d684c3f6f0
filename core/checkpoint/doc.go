// Package checkpoint decides how far a pipeline has come, and keeps the storage informed.
//
// A [Tracker] knows the low watermark of a stream whose events are handled in parallel: the highest
// cursor that is safe, because it and all before it are done. Done means delivered, dead-lettered or
// passed over, and durably so: whoever calls [Tracker.Done] has stored the outcome, or hands it to a
// [Saver] that stores it in one step with the checkpoint. A process that stops at any moment then
// finds no event behind its checkpoint that nobody dealt with.
//
// A [Writer] saves the safe cursor. It never goes back, neither behind what it found at its start nor
// behind what it tried to save. It saves at most once an interval, tries a failed save again with
// growing pauses, each time with the newest safe cursor, saves the last one on a clean stop, and
// reports as unhealthy while saves keep failing.
//
// It leaves the outcomes themselves to the pipeline, and to the operator's handle the question of who
// may set a checkpoint back. Two writers of one pipeline at a time are a mistake that it does not see:
// a pipeline that is replaced ends its writer with [Writer.Stop], or with [Writer.Abort] and the
// storage's Quiesce, before its successor starts.
package checkpoint
