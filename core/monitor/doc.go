// Package monitor picks events with expressions.
//
// An expression is written in the language of expr-lang/expr, without what would make it unfit to
// decide about a stream: it sees nothing but the event, so the same event gives the same answer at
// each run (there is no clock, no random number, no time zone of the machine), and its cost has a
// bound that holds for every event. [Compile] checks it at start: its form, the names and types that
// it uses as far as fields are declared, the functions that it calls. What it refuses, it refuses with
// the place and with what to do.
//
// What it promises about cost: an expression has at most 8 KiB and 1,000 nodes, loops (any, filter and
// the like) are nested at most three deep, and one evaluation does at most about five million steps,
// where a step is one node inside of a loop, or eight bytes of a text that is searched, copied or
// compared, or one value of a list that is. Beyond that the evaluation ends with an error. Outside of
// loops each node runs once. So an evaluation ends within about a second whatever it is given, and most
// take less than a microsecond.
//
// A [Reader] decodes an event once for all expressions of a pipeline, and of it only what they use.
//
// It leaves to the pipeline what becomes of an event on which an expression fails. Messages name the
// place in the expression and the types that were met, never a value of an event.
package monitor
