package types

import (
	"bytes"
	"cmp"
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
type SinkEvent struct { //nolint:recvcheck // a value is marshalled, and unmarshalling needs a pointer
	Match    *Match
	Emission *Emission
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

// MarshalJSON gives the tagged form. The characters < > & stand as they are, unless the encoder that
// asks for it escapes them.
func (e SinkEvent) MarshalJSON() ([]byte, error) {
	tagged := struct {
		Type string `json:"type"`
		Data any    `json:"data"`
	}{tagMatch, e.Match}
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
	var tag, data json.RawMessage
	if err := (object{"type": &tag, "data": &data}).decode(text); err != nil {
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
