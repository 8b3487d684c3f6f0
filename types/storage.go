package types

import (
	"bytes"
	"encoding/json"
	"time"
)

// ResourceKind names a class of resources, such as "pipeline".
type ResourceKind string

// Resource is a versioned record. Its key is Kind and ID together (R171).
type Resource struct {
	Kind ResourceKind
	ID   string
	// Version is 1 for a record that was just created, and one more after each update. A record that
	// was deleted and created again starts at 1 again.
	Version uint64
	// Value is any JSON value, byte for byte as it was put, white space included (R181).
	Value json.RawMessage
}

// ResourceListOptions bound a list of resources.
type ResourceListOptions struct {
	// After continues behind an id; empty starts at the front.
	After string
	// Limit is the most resources to return, 1 to 1000; zero means 1000.
	Limit int
}

// ResourcePage is one page of a list, ordered by the bytes of the ids.
type ResourcePage struct {
	Resources []Resource
	// Next is what to give as After for the next page, empty when no resource remained.
	Next string
}

// Checkpoint says how far a pipeline has come.
type Checkpoint struct {
	// Cursor is the position of the last event that is dealt with, all before it included.
	Cursor Cursor `json:"cursor"`
	// Module names the source module that the cursor belongs to; nil when nobody said (R187).
	Module *string `json:"module,omitempty"`
	// UpdatedAt is when the checkpoint was made. It comes back in UTC, to the nanosecond.
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// Clone is a copy that shares no memory with c.
func (c Checkpoint) Clone() Checkpoint {
	if c.Module != nil {
		module := *c.Module
		c.Module = &module
	}
	return c
}

// PipelineCheckpoint is the checkpoint of a named pipeline.
type PipelineCheckpoint struct {
	Pipeline   PipelineID
	Checkpoint Checkpoint
}

// DeadLetter is a match that a sink gave up on (R197).
type DeadLetter struct { //nolint:recvcheck // a value is cloned, and unmarshalling needs a pointer
	MatchID MatchID   `json:"match_id"`
	Monitor MonitorID `json:"monitor"`
	Sink    SinkID    `json:"sink"`
	Cursor  Cursor    `json:"cursor"`
	// Attempts is how often the delivery was tried.
	Attempts uint64 `json:"attempts"`
	// Reason says why the sink gave up, for a person.
	Reason string `json:"reason"`
	// Payload is what a replay delivers. Nil for letters of older files; they cannot be replayed.
	Payload *SinkEvent `json:"payload,omitempty"`
}

// UnmarshalJSON reads the JSON form. Member names are exact; those that are unknown are passed over. A
// payload that is null is none.
func (l *DeadLetter) UnmarshalJSON(text []byte) error {
	*l = DeadLetter{}
	var payload json.RawMessage
	err := object{
		"match_id": (*string)(&l.MatchID), "monitor": (*string)(&l.Monitor), "sink": (*string)(&l.Sink),
		"cursor":   object{"primary": &l.Cursor.Primary, "secondary": &l.Cursor.Secondary},
		"attempts": &l.Attempts, "reason": &l.Reason, "payload": &payload,
	}.decode(text)
	if err != nil || payload == nil || string(payload) == "null" {
		return err
	}
	l.Payload = new(SinkEvent)
	return l.Payload.UnmarshalJSON(payload)
}

// Clone is a copy that shares no memory with l.
func (l DeadLetter) Clone() DeadLetter {
	if l.Payload == nil {
		return l
	}
	payload := l.Payload.Clone()
	l.Payload = &payload
	return l
}

// StoredLetter is a dead letter in its place.
type StoredLetter struct {
	// Position grows in the order of arrival within a pipeline. It is above 0, never changes, and is
	// never given to another letter of the pipeline.
	Position int64
	Letter   DeadLetter
	// Err is not nil when the stored letter cannot be decoded; of Letter only the MatchID is set then,
	// if even that could be read.
	Err error
}

// LetterQuery chooses a page of dead letters.
type LetterQuery struct {
	// After passes over the letters up to and including a position; 0 starts at the front.
	After int64
	// Skip passes over so many more, 0 or above.
	Skip int
	// Take is the most letters to return, 0 to 1000. Zero returns none.
	Take int
}

// LetterCount is the number of dead letters of a pipeline.
type LetterCount struct {
	Pipeline PipelineID
	Count    int64
}

// PauseTarget says what kind of thing is paused.
type PauseTarget string

// The targets that the engine honours.
const (
	PausePipeline PauseTarget = "pipeline"
	PauseMonitor  PauseTarget = "monitor"
	PauseSink     PauseTarget = "sink"
)

// Pause is an operator's pause; that it is there is all that it says (R209). A monitor and a sink
// belong to a pipeline, so their ID is pipeline/name.
type Pause struct {
	Target PauseTarget `json:"target"`
	ID     string      `json:"id"`
}

// PipelineOf is the pause of a whole pipeline.
func PipelineOf(p PipelineID) Pause { return Pause{PausePipeline, string(p)} }

// MonitorOf is the pause of a monitor of a pipeline.
func MonitorOf(p PipelineID, m MonitorID) Pause {
	return Pause{PauseMonitor, string(p) + "/" + string(m)}
}

// SinkOf is the pause of a sink of a pipeline.
func SinkOf(p PipelineID, s SinkID) Pause { return Pause{PauseSink, string(p) + "/" + string(s)} }

// Delivery is an entry of the delivery journal: a match that was delivered.
type Delivery struct {
	Cursor  Cursor  `json:"cursor"`
	MatchID MatchID `json:"match_id"`
}

// JournalCount is the number of entries of the delivery journal of a pipeline.
type JournalCount struct {
	Pipeline PipelineID
	Count    int64
}

// GateHit is a match that a gate has counted. Its key is pipeline, Monitor, Cursor and Index.
type GateHit struct {
	Monitor MonitorID `json:"monitor"`
	Cursor  Cursor    `json:"cursor"`
	// Index tells the events of one cursor apart, at most 2^63-1. A gate makes it of the index of the event
	// and, where the event has one, of its identity.
	Index uint64 `json:"event_index"`
	// TS is the time of the event, in milliseconds since the epoch.
	TS int64 `json:"event_ts"`
	// Event is the event as compact JSON.
	Event json.RawMessage `json:"event"`
}

// GateMeta is what a gate remembers beside its hits.
type GateMeta struct {
	// LastEmitTS is the time of the event that was let through last, in milliseconds since the epoch;
	// nil before the first.
	LastEmitTS *int64 `json:"last_emit_ts"`
	// Aux is the gate's own. Nil and empty are different, and come back as they were.
	Aux []byte `json:"aux"`
}

// Clone is a copy that shares no memory with m. A nil Aux stays nil, an empty one empty.
func (m GateMeta) Clone() GateMeta {
	if m.LastEmitTS != nil {
		ts := *m.LastEmitTS
		m.LastEmitTS = &ts
	}
	m.Aux = bytes.Clone(m.Aux)
	return m
}

// MonitorMeta is the GateMeta of a named monitor.
type MonitorMeta struct {
	Monitor MonitorID
	Meta    GateMeta
}

// MonitorFloor is the lowest primary whose gate hits a monitor still needs.
type MonitorFloor struct {
	Monitor MonitorID
	Primary uint64
}

// Progress is everything that one step of a pipeline changed. Storage applies it as a whole, in the
// order of the fields. The zero value changes nothing.
type Progress struct {
	// Checkpoint is saved, unless nil.
	Checkpoint *Checkpoint
	// Deliveries are recorded in the delivery journal.
	Deliveries []Delivery
	// JournalFrom keeps the entries of the delivery journal of that primary and above, however deep they
	// lie: the checkpoint is not past them yet, so their events may come again. Nil leaves it to the
	// depth. It counts for the pruning that comes with Deliveries.
	JournalFrom *uint64
	// Settled names dead letters that are removed because their match has been delivered after all;
	// one that is not there is no fault.
	Settled []MatchID
	// DeadLetters are recorded.
	DeadLetters []DeadLetter
	// HitsFrom removes gate hits of that primary and above, unless nil: the stream went back.
	HitsFrom *uint64
	// Hits are appended.
	Hits []GateHit
	// HitsBefore removes gate hits below that primary, unless nil: no gate will ask for them again.
	HitsBefore *uint64
	// HitsBeforeOf removes the gate hits of single monitors below a primary each: the gate of that monitor
	// will not ask for them again, whatever those of others hold. Of two floors of a monitor the higher
	// counts.
	HitsBeforeOf []MonitorFloor
	// Metas are set.
	Metas []MonitorMeta
}

// Record is one record of a store, of any category: exactly one of the pointers is set. Pipeline says
// whose it is, for all but Resource and Pause.
type Record struct {
	Pipeline   PipelineID
	Resource   *Resource
	Checkpoint *Checkpoint
	DeadLetter *DeadLetter
	Pause      *Pause
	Delivery   *Delivery
	GateHit    *GateHit
	GateMeta   *MonitorMeta
}
