// Package pipeline has the ends of pipelines: the sinks that a configuration names, found by pipeline
// and name, and the sink that hands what it gets to a work queue.
//
// It promises that one sink serves all callers, and that a queue need not be open, or even be there,
// before something is delivered to it. It leaves to its caller which modules there are, how sinks are
// configured, and what becomes of an event that a sink does not take.
package pipeline
