// Package eventlog is the source of the events that others hand to a pipeline: a durable log in a
// directory of its own, in the format that docs/formats.md gives. The module is named "http", after the
// way in which most of them come; the HTTP side itself is that of the operator API.
//
// It promises that an Accept that returned nil has been synced to the disk, all of its events or none,
// and that each comes out of Read, in order, until a Settle covers it. Calls that come at the same time
// share a sync. An event is known by its place in the log, which never changes and is never given to
// another one, also after everything was settled and after a restart. What is damaged on the disk comes
// out as an event with an error that names file and offset; it neither stops the log nor goes unsaid.
//
// One process has a log open at a time. How much it holds is bounded: what goes beyond is refused until
// the pipeline has caught up. Who may hand in events, and what is done with them, is left to others.
package eventlog
