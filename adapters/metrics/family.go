package metrics

import "github.com/prometheus/client_golang/prometheus"

// families are what the handler shows beside the runtime and the process. The table of
// docs/operating/metrics.md has the same words.
type families struct {
	all []*prometheus.Desc

	events, badEvents, restarts, state, lag, pendingEvents, readPosition, checkpointPosition *prometheus.Desc // of a pipeline
	matches, emissions, monitorErrors, monitorPaused                                         *prometheus.Desc // of a monitor
	deliveries, retries, duration, pendingMatches, sinkPaused                                *prometheus.Desc // of a sink
	deadLetters, journalEntries                                                              *prometheus.Desc // of a pipeline, in the storage
	messages, oldestAge, undecodable                                                         *prometheus.Desc // of a queue
	commits, operations, batchSize, commitDuration, walBytes, dataBytes                      *prometheus.Desc // of a store
	scrapeErrors, buildInfo, startTime                                                       *prometheus.Desc
}

func newFamilies() *families {
	f := new(families)
	one := func(name, help string, labels ...string) *prometheus.Desc {
		desc := prometheus.NewDesc("stowage_"+name, help, labels, nil)
		f.all = append(f.all, desc)
		return desc
	}
	f.events = one("pipeline_events_total", "Events read from the source, bad ones included.", "pipeline")
	f.badEvents = one("pipeline_bad_events_total", "Things in the source that were no event and became dead letters.", "pipeline")
	f.matches = one("pipeline_matches_total", "Events that a monitor picked.", "pipeline", "monitor")
	f.emissions = one("pipeline_emissions_total", "Matches that the gate of a monitor let through.", "pipeline", "monitor")
	f.monitorErrors = one("pipeline_monitor_errors_total", "Events on which the expression of a monitor failed, so that they were not picked.", "pipeline", "monitor")
	f.monitorPaused = one("pipeline_monitor_paused", "1 if an operator has paused the monitor, else 0.", "pipeline", "monitor")
	f.deliveries = one("pipeline_deliveries_total", "Matches that are dealt with: the sink took them (delivered), it gave them up (dead_lettered), or the journal knew them (duplicate).", "pipeline", "sink", "result")
	f.retries = one("pipeline_delivery_retries_total", "Attempts at a delivery after a failed one.", "pipeline", "sink")
	f.duration = one("pipeline_delivery_duration_seconds", "How long deliveries took.", "pipeline", "sink")
	f.pendingMatches = one("pipeline_pending_matches", "Matches that wait for their delivery.", "pipeline", "sink")
	f.sinkPaused = one("pipeline_sink_paused", "1 if an operator has paused the sink, else 0.", "pipeline", "sink")
	f.pendingEvents = one("pipeline_pending_events", "Events that were read and are not dealt with.", "pipeline")
	f.lag = one("pipeline_checkpoint_lag_seconds", "How long ago the oldest event was read that the stored checkpoint does not cover, 0 if it covers all.", "pipeline")
	f.readPosition = one("pipeline_read_position", "Primary part of the cursor of the event that was read last.", "pipeline")
	f.checkpointPosition = one("pipeline_checkpoint_position", "Primary part of the cursor of the stored checkpoint.", "pipeline")
	f.state = one("pipeline_state", "1 for the state that the pipeline is in, 0 for the others.", "pipeline", "state")
	f.restarts = one("pipeline_restarts_total", "Starts of the pipeline after a failure.", "pipeline")
	f.deadLetters = one("dead_letters", "Dead letters that are stored.", "pipeline")
	f.journalEntries = one("delivery_journal_entries", "Entries of the delivery journal.", "pipeline")
	f.messages = one("queue_messages", "Messages of the queue: due (visible), leased (in_flight), or sent with a delay (delayed).", "queue", "state")
	f.oldestAge = one("queue_oldest_message_age_seconds", "Age of the oldest message, whatever its state, 0 if there is none.", "queue")
	f.undecodable = one("queue_undecodable_messages", "Rows that cannot be decoded and are kept aside.", "queue")
	f.commits = one("store_commits_total", "Transactions that changed something.", "store")
	f.operations = one("store_operations_total", "Operations in these transactions.", "store")
	f.batchSize = one("store_commit_batch_size", "Operations in one transaction.", "store")
	f.commitDuration = one("store_commit_duration_seconds", "How long commits took, the sync of the disk included.", "store")
	f.walBytes = one("store_wal_bytes", "Size of the write-ahead log.", "store")
	f.dataBytes = one("store_data_bytes", "Size of the database file.", "store")
	f.scrapeErrors = one("scrape_errors", "Things of a part that could not be read for this scrape, each of which the log names.", "part")
	f.buildInfo = one("build_info", "1, with the version of the program and that of Go.", "version", "goversion")
	f.startTime = one("start_time_seconds", "When the daemon was started, in seconds since the epoch.")
	return f
}
