// Package localqueue keeps work queues in SQLite files, in the format localqueue.v1 that
// docs/formats.md describes: [Queue] is one of them, [Owner] a state directory of many with their
// tokens, [Migrate] moves one between the layout of older clients and the owner's.
//
// It promises that a message whose send returned is delivered until it is acked, in the order of
// (enqueued at, id), also across a kill and, with full durability, a power cut; that one process is
// the owner of a queue, and a second one fails at once; that the cost of a receive and of stats does
// not grow with the number of messages, due or leased; and that a file stays one that the original
// implementation reads.
//
// It leaves to others how a queue is reached from another process (package queuehttp), and when dead
// letters are looked at.
package localqueue
