// Package pipeline runs pipelines: from a source through monitors and gates to sinks, at least once,
// and under an operator's hand.
//
// An [Engine] runs the pipelines of a configuration, and those that are resources of a storage. Of each
// it promises:
//
//   - Every match is delivered at least once, or becomes a dead letter. The checkpoint passes an event
//     only when all of its matches are recorded as delivered or dead-lettered.
//   - Each pair of a monitor and a sink is a lane of its own: what it delivers keeps the order of the
//     stream, and a lane that is slow or paused holds up no other. What waits for it is in memory up to a
//     bound, and in a file beyond that; at a second bound the source is read no further.
//   - A lane sends, records, and only then sends on. So a process that is killed leaves at most the last
//     sends of each lane in doubt: these come twice, with the same match id.
//   - What changed is stored by one Apply: deliveries and dead letters by one, and the checkpoint with
//     the gates' state at that very place by another, which comes later.
//   - A pipeline that is stopped or replaced first finishes the sends that are under way; those that
//     take too long are given up; and its successor begins when the storage has nothing of it under way.
//     No other pipeline waits for that.
//
// It leaves to its [Parts] which modules there are, and to core/control what operators do with dead
// letters.
package pipeline
