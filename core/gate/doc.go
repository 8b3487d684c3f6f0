// Package gate holds matches back until a condition over time is met.
//
// A [Gate] belongs to one monitor. It counts matches by group, each for the length of a window by the
// time of its event. When a threshold is reached in a group, and the cooldown since the group's last
// emission has passed, the match that completes it is let through: an emission, which says how many
// matches it stands for and uses them up. Matches during a cooldown go on counting.
//
// Time is that of the events; no clock is read. The time of a group is the highest that was seen in it.
// A match that lies a window or more behind is too late and does not count. One that lies behind by the
// window or the cooldown, whichever is longer, and 30 days more, means that the time before was wrong: the
// group begins anew, so that one event from the far future does not silence it for ever.
//
// What a gate promises is that a restart does not show: with what the journal of the storage has kept up
// to the checkpoint, and the same events from there on, it emits the same, whatever the moment at which it
// was stopped. Its state is in two places. Each counted match is a hit in the journal. The emissions are
// in the aux of the gate's meta: for each group that emitted lately, a hash of its key, and the time and
// the place of its last emission, which tells the hits that are used up. What it does never depends on
// when it was stored, or on the order of a map.
//
// Its size is bounded. Of all groups together the last 32,768 hits are counted: an older one counts no
// longer, as if its window had passed. The last 1,500 groups that emitted are remembered, in an aux of at
// most 60,016 bytes: one that is dropped has no cooldown, and what it had used up counts again as long as
// it is within the window. That errs on the side of an emission too many.
//
// An event that a source gives again at a newer place, as a queue does whose lease has ended, counts once: it
// is known by its ID, its time and its group as long as its hit counts, after a restart too. An event without
// an ID, or with an index of 16,384 or more at its cursor, counts again, and so does one whose hit was dropped
// as one of too many, or that has another time or key since the expressions for these were changed.
//
// It leaves to the pipeline the storing, and the order of events: each that is offered comes after all
// that were offered before.
package gate
