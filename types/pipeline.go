package types

import "time"

// PipelineState says what a pipeline is doing.
type PipelineState string

// The states of a pipeline.
const (
	PipelineStarting PipelineState = "starting"
	PipelineRunning  PipelineState = "running"
	PipelinePaused   PipelineState = "paused"
	PipelineFailed   PipelineState = "failed"   // it is started again at RetryAt
	PipelineFinished PipelineState = "finished" // its source has ended, and all of it is dealt with
	PipelineStopping PipelineState = "stopping" // the sends that are under way are finished, before it is stopped or replaced
	PipelineStopped  PipelineState = "stopped"
	PipelineIdle     PipelineState = "idle" // it has no source: its sinks serve replays only
)

// PipelineOrigin says where a pipeline is configured.
type PipelineOrigin string

// The origins of pipelines.
const (
	OriginFile     PipelineOrigin = "file"
	OriginResource PipelineOrigin = "resource"
)

// PipelineKind is the kind of the resources that configure pipelines. The id of one is that of its
// pipeline.
const PipelineKind ResourceKind = "pipeline"

// PipelineStatus is a pipeline as it stands. Counters start at zero with the process and never go back
// while it runs, also when the pipeline is restarted or replaced.
type PipelineStatus struct {
	ID     PipelineID     `json:"id"`
	State  PipelineState  `json:"state"`
	Origin PipelineOrigin `json:"origin"`
	// Version is that of the resource that configures it, 0 for one of the file.
	Version uint64 `json:"version,omitempty"`
	// Error says why it failed last, or why a newer configuration is refused while this one goes on.
	Error string `json:"error,omitempty"`
	// RetryAt is when a failed one is started again.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Restarts counts the starts after a failure.
	Restarts uint64 `json:"restarts"`

	// Source is the module of its source.
	Source string `json:"source,omitempty"`
	// Read is the cursor of the last event that was read, and Checkpoint the one that is stored.
	Read       *Cursor `json:"read,omitempty"`
	Checkpoint *Cursor `json:"checkpoint,omitempty"`
	// LagSeconds is how long ago the oldest event was read that the stored checkpoint does not cover; 0
	// where it covers all.
	LagSeconds float64 `json:"lag_seconds"`
	// Pending is the number of events that were read and are not dealt with.
	Pending uint64 `json:"pending"`
	// Events counts what was read, BadEvents among it what was no event and became a dead letter.
	Events    uint64 `json:"events"`
	BadEvents uint64 `json:"bad_events"`

	Monitors []MonitorStatus `json:"monitors"`
	Sinks    []SinkStatus    `json:"sinks"`
}

// MonitorStatus is a monitor as it stands.
type MonitorStatus struct {
	ID     MonitorID `json:"id"`
	Paused bool      `json:"paused"`
	// Matches counts the events that it picked, Emissions what its gate let through, and Errors the
	// events on which its expression failed: those count as not picked.
	Matches   uint64 `json:"matches"`
	Emissions uint64 `json:"emissions"`
	Errors    uint64 `json:"errors"`
	// LastError is the last failure of the expression.
	LastError string `json:"last_error,omitempty"`
}

// SinkStatus is a sink as it stands.
type SinkStatus struct {
	ID     SinkID `json:"id"`
	Module string `json:"module"`
	Paused bool   `json:"paused"`
	// Pending is the number of matches that wait for delivery.
	Pending uint64 `json:"pending"`
	// Delivered, DeadLettered and Duplicates count matches: what the sink took, replays included,
	// what it gave up, and what the journal knew as delivered already. Retries counts attempts after a failure.
	Delivered    uint64 `json:"delivered"`
	DeadLettered uint64 `json:"dead_lettered"`
	Duplicates   uint64 `json:"duplicates"`
	Retries      uint64 `json:"retries"`
	// LastError is the last failure of a delivery, and LastErrorAt its time.
	LastError   string    `json:"last_error,omitempty"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	// WaitingUntil is when a delivery that failed is tried again, the first of them; zero where none waits.
	WaitingUntil time.Time `json:"waiting_until,omitzero"`
	// Latency is how long deliveries took.
	Latency Histogram `json:"latency"`
}

// Histogram counts durations.
type Histogram struct {
	// Bounds are the upper bounds of the buckets, in seconds, growing; Counts has one entry more, for
	// what lies above the last. Neither is cumulative.
	Bounds []float64 `json:"bounds"`
	Counts []uint64  `json:"counts"`
	// Sum is the sum of all durations, in seconds.
	Sum float64 `json:"sum"`
}

// Count is the number of durations.
func (h Histogram) Count() uint64 {
	var n uint64
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// StoreMetrics are the figures of one store on a disk.
type StoreMetrics struct {
	// Commits counts the transactions that changed something, and Operations the writes that they held:
	// their quotient is the size of a batch.
	Commits, Operations uint64
	// BatchSize counts commits by the number of their operations; its unit is operations.
	BatchSize Histogram
	// Commit counts commits by how long each took from its last statement on, the sync of the disk
	// included.
	Commit Histogram
	// WALBytes is the size of the write-ahead log, DataBytes that of the database file.
	WALBytes, DataBytes int64
}
