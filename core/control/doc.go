// Package control is what an operator can do to pipelines: pause and resume them, read and move their
// checkpoints, and look at, replay and discard their dead letters.
//
// A [Handle] promises that a letter is never lost: it is removed after its sink has taken it, or by a
// discard, and by nothing else. A replay is at least once: when the store fails, or the context ends,
// between a delivery and its settling, the letter stays and the error says so. What has arrived after
// an action on many letters began is not touched by it. Once a pause is stored, no replay that it
// covers begins.
//
// Two actions on one letter at the same time exclude each other within one Handle, so a process makes
// one for each storage. When a context ends, nothing more is written on behalf of its caller: after
// the storage's Quiesce a successor finds a store that stands still.
//
// It leaves to the storage how records are kept, to sinks how events are delivered, and to the
// pipelines to honour pauses and checkpoints. A pipeline that runs saves its own checkpoint: stop it
// before its checkpoint is set.
package control
