// Package metrics shows the figures of a daemon to Prometheus.
//
// [New] gives the handler of /metrics. It reads pipelines, queues and stores when it is asked, and keeps
// nothing itself: a counter is as true as the part that counts, and begins at zero with the process. A
// part that fails, or that is slow, costs its own figures only; stowage_scrape_errors says which.
//
// It has a registry of its own. What a series is named by comes from the configuration (pipelines,
// monitors, sinks, queues), so that no event makes a new one. Who may ask is left to whoever serves the
// handler.
package metrics
