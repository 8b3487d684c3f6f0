package types

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// PipelineID names a stream of events with one checkpoint.
type PipelineID string

// MonitorID names a rule of a pipeline that picks events.
type MonitorID string

// SinkID names a place of a pipeline to which matches are delivered.
type SinkID string

// MatchID names one event picked by one monitor for one sink. It is deterministic: the same event
// gives the same id again, also after a restart.
type MatchID string

// Cursor is a position in the stream of a pipeline, ordered by Primary, then Secondary. What the parts
// count is the affair of the pipeline's source: blocks and logs, bytes and lines. Each is at most
// 2^63-1 (R245). Wherever it is written, it has this JSON form (R186).
type Cursor struct {
	Primary   uint64 `json:"primary"`
	Secondary uint64 `json:"secondary"`
}

// Compare is negative when c is before d, zero when they are equal, positive when c is after d.
func (c Cursor) Compare(d Cursor) int {
	return cmp.Or(cmp.Compare(c.Primary, d.Primary), cmp.Compare(c.Secondary, d.Secondary))
}

// String gives "primary/secondary".
func (c Cursor) String() string { return fmt.Sprintf("%d/%d", c.Primary, c.Secondary) }

// Event is one event of a source.
type Event struct {
	Cursor Cursor
	// Index tells events of one cursor apart, from 0.
	Index uint64
	// ID is the identity of the event, where its source knows a better one than the place in the stream:
	// the same event bears it again, whatever its cursor is then. Empty: cursor and index are it.
	ID string
	// TS is when it happened, or when it arrived, in milliseconds since the epoch.
	TS int64
	// Data is the event as compact JSON, at most 1 MiB.
	Data json.RawMessage
	// Traceparent is the W3C trace context that came with it, if one did.
	Traceparent string
	// Err is not nil where something stands in the stream that is no event: it says what, for a person,
	// without the content. Data holds what was found, as JSON that describes it, or nothing.
	Err error
}

// Identity is ID, or else cursor and index.
func (e Event) Identity() string {
	if e.ID != "" {
		return e.ID
	}
	return fmt.Sprintf("%d/%d/%d", e.Cursor.Primary, e.Cursor.Secondary, e.Index)
}

// NewMatchID is the match id of an event that a monitor picked for a sink: 40 hexadecimal digits of the
// SHA-256 of the four names, each preceded by its length. It is the same at each run.
func NewMatchID(pipeline PipelineID, monitor MonitorID, sink SinkID, event string) MatchID {
	hash := sha256.New()
	var length [8]byte
	for _, part := range [...]string{string(pipeline), string(monitor), string(sink), event} {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write([]byte(part))
	}
	return MatchID(hex.EncodeToString(hash.Sum(nil)[:20]))
}

// Match is one event picked by one monitor.
type Match struct {
	ID       MatchID    `json:"match_id"`
	Pipeline PipelineID `json:"pipeline"`
	Monitor  MonitorID  `json:"monitor"`
	Cursor   Cursor     `json:"cursor"`
	// Index tells events of one cursor apart, from 0.
	Index uint64 `json:"event_index"`
	// TS is the time of the event, in milliseconds since the epoch.
	TS int64 `json:"event_ts"`
	// Event is the event as its source had it, as compact JSON.
	Event json.RawMessage `json:"event"`
}

// Emission is what a gate lets through: the match that met its condition, and the hits that it stands
// for.
type Emission struct {
	Match Match `json:"match"`
	// Key is the group that was counted, empty where the gate does not group.
	Key string `json:"key,omitempty"`
	// Hits is how many matches were counted, the last one included.
	Hits uint64 `json:"hits"`
	// FirstTS and LastTS are the times of the first and of the last hit, in milliseconds since the
	// epoch.
	FirstTS int64 `json:"first_ts"`
	LastTS  int64 `json:"last_ts"`
}

// SinkEvent is what a sink receives: exactly one of its fields is set.
//
// Its JSON form is tagged: {"type":"match","data":{…}} or {"type":"emission","data":{…}}. What has no
// tag is read as the bare match that older files hold (R202); one that does not even have an event
// is itself the event.
//
// A third member, "traceparent", says which trace the event belongs to, where there is one.
type SinkEvent struct { //nolint:recvcheck // a value is marshalled, and unmarshalling needs a pointer
	Match    *Match
	Emission *Emission
	// Traceparent is the W3C trace context of this delivery; empty where nothing is traced.
	Traceparent string
}

// The tags.
const (
	tagMatch    = "match"
	tagEmission = "emission"
)

// Origin is the match that the event is about, whatever its type; nil for the zero SinkEvent.
func (e SinkEvent) Origin() *Match {
	if e.Emission != nil {
		return &e.Emission.Match
	}
	return e.Match
}

// Clone is a copy that shares no memory with e.
func (e SinkEvent) Clone() SinkEvent {
	if e.Match != nil {
		match := *e.Match
		match.Event = bytes.Clone(match.Event)
		e.Match = &match
	}
	if e.Emission != nil {
		emission := *e.Emission
		emission.Match.Event = bytes.Clone(emission.Match.Event)
		e.Emission = &emission
	}
	return e
}

// MarshalJSON gives the tagged form. The characters < > & stand as they are, unless the encoder that
// asks for it escapes them.
func (e SinkEvent) MarshalJSON() ([]byte, error) {
	tagged := struct {
		Type        string `json:"type"`
		Data        any    `json:"data"`
		Traceparent string `json:"traceparent,omitempty"`
	}{tagMatch, e.Match, e.Traceparent}
	switch {
	case (e.Match == nil) == (e.Emission == nil):
		return nil, errors.New("a sink event holds exactly one of a match and an emission")
	case e.Emission != nil:
		tagged.Type, tagged.Data = tagEmission, e.Emission
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tagged); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON reads the tagged form and the bare match. Member names are exact; those that are
// unknown are passed over.
func (e *SinkEvent) UnmarshalJSON(text []byte) error {
	var tag, data, trace json.RawMessage
	if err := (object{"type": &tag, "data": &data, "traceparent": &trace}).decode(text); err != nil {
		return fmt.Errorf("a sink event cannot be read: %w", err)
	}
	*e = SinkEvent{}
	var err error
	switch string(tag) {
	case "":
		e.Match, err = decodeMatch(text)
		if err == nil && e.Match.Event == nil {
			e.Match.Event = bytes.Clone(text)
		}
	case `"` + tagMatch + `"`:
		e.Match, err = decodeMatch(data)
	case `"` + tagEmission + `"`:
		e.Emission, err = decodeEmission(data)
	default:
		err = errors.New(`its type is neither "match" nor "emission"`)
	}
	if err == nil && tag != nil && trace != nil && string(trace) != "null" {
		err = json.Unmarshal(trace, &e.Traceparent)
	}
	if err != nil {
		return fmt.Errorf("a sink event cannot be read: %w", err)
	}
	return nil
}

func decodeMatch(text []byte) (*Match, error) {
	var m Match
	var event json.RawMessage
	err := object{
		"match_id": (*string)(&m.ID), "pipeline": (*string)(&m.Pipeline), "monitor": (*string)(&m.Monitor),
		"cursor":      object{"primary": &m.Cursor.Primary, "secondary": &m.Cursor.Secondary},
		"event_index": &m.Index, "event_ts": &m.TS, "event": &event,
	}.decode(text)
	m.Event = bytes.Clone(event)
	return &m, err
}

func decodeEmission(text []byte) (*Emission, error) {
	var e Emission
	var match json.RawMessage
	err := object{
		"match": &match, "key": &e.Key, "hits": &e.Hits, "first_ts": &e.FirstTS, "last_ts": &e.LastTS,
	}.decode(text)
	if err != nil {
		return nil, err
	}
	m, err := decodeMatch(match)
	e.Match = *m
	return &e, err
}
