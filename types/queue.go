package types

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"time"
)

// PayloadType says how the data of a payload is to be read.
type PayloadType string

// The payload types (R078).
const (
	PayloadJSON PayloadType = "json"
	PayloadText PayloadType = "text"
)

// Payload is the content of a queue message. Data is the JSON text of a json payload, or the text of
// a text payload. In a received message the JSON text is compact: as it was sent, without the
// insignificant white space (R079, R109).
type Payload struct {
	Type PayloadType
	Data string
}

// JSON makes a payload of a JSON text. Whether it is valid is checked when it is sent.
func JSON(text []byte) Payload { return Payload{Type: PayloadJSON, Data: string(text)} }

// Text makes a payload of plain text, which may be empty.
func Text(text string) Payload { return Payload{Type: PayloadText, Data: text} }

// MarshalPayload makes a json payload of any value that encoding/json can encode. The characters
// < > & stand as they are (R109).
func MarshalPayload(v any) (Payload, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return Payload{}, err
	}
	return JSON(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), nil
}

// SendOptions refine a send. The zero value makes the message visible at once.
type SendOptions struct {
	// Delay hides the message for so long, 0 to 12 hours.
	Delay time.Duration
}

// SendStatus says what became of one message of a batch.
type SendStatus string

// The outcomes (R132, R133). Unknown means that the message may or may not have been stored; only a
// queue behind a network ever says it.
const (
	StatusSent     SendStatus = "sent"
	StatusRejected SendStatus = "rejected"
	StatusUnknown  SendStatus = "unknown"
)

// SendOutcome is the outcome of one message of a batch. Err is nil exactly when Status is sent.
type SendOutcome struct {
	Status SendStatus
	Err    error
}

// AckStatus says what became of one receipt of a batch.
type AckStatus string

// The outcomes of a receipt.
const (
	AckDone     AckStatus = "acked"
	AckRejected AckStatus = "rejected"
	AckUnknown  AckStatus = "unknown"
)

// AckOutcome is the outcome of one receipt of a batch. Err is nil exactly when Status is acked.
type AckOutcome struct {
	Status AckStatus
	Err    error
}

// ReceiveOptions bound a receive.
type ReceiveOptions struct {
	// Max is the most messages to return, 1 to 10; zero means 1.
	Max int
	// Lease is how long the messages stay hidden from others, 1 second to 12 hours; zero means 30
	// seconds.
	Lease time.Duration
	// Wait is how long to wait for a first message, 0 to 20 seconds.
	Wait time.Duration
}

// Message is one delivery of a message.
type Message struct {
	Payload Payload
	// Receipt is the handle of this delivery: opaque, and stale from the next delivery on (R098).
	Receipt string
	// Attempt counts the deliveries, this one included: 1 on the first (R092).
	Attempt int64
	// EnqueuedAt is when the message was sent, to the millisecond.
	EnqueuedAt time.Time
}

// NackOptions refine a nack. The zero value makes the message visible at once.
type NackOptions struct {
	// Delay hides the message for so long, 0 to 12 hours, and ends the receipt unless zero.
	Delay time.Duration
}

// RenewOptions refine a renewal.
type RenewOptions struct {
	// Lease is the full lease from now on, 1 second to 12 hours; zero means 30 seconds.
	Lease time.Duration
}

// QueueStats are the counts of a queue at one instant. Total is always the sum of Visible, InFlight
// and Delayed (R137).
type QueueStats struct {
	Total int64
	// Visible messages are due.
	Visible int64
	// InFlight messages are hidden and have a receipt.
	InFlight int64
	// Delayed messages are hidden and have none.
	Delayed int64
	// Undecodable rows are kept aside and part of no other count.
	Undecodable int64
	// OldestAge is the age of the message that was enqueued first, whatever its state; zero when
	// there is none. It has millisecond precision.
	OldestAge time.Duration
}

// MessageState is where a message stands.
type MessageState string

// The states of a message.
const (
	StateVisible     MessageState = "visible"
	StateInFlight    MessageState = "inFlight"
	StateDelayed     MessageState = "delayed"
	StateUndecodable MessageState = "undecodable"
)

// PeekOptions bound a peek.
type PeekOptions struct {
	// Max is the most messages to return, 1 to 10; zero means 10.
	Max int
}

// PeekedMessage is a message that was looked at, not delivered: it has no receipt.
type PeekedMessage struct {
	ID         int64
	Payload    Payload // zero when State is undecodable
	State      MessageState
	Attempt    int64
	EnqueuedAt time.Time
	VisibleAt  time.Time
}

// QueueInfo describes one queue of an owner.
type QueueInfo struct {
	ID string
	// Err says why the queue cannot be opened or used, for instance a legacy directory that blocks it
	// or a file that was replaced; nil for a healthy queue.
	Err error
}

// QueueBinding is what an application needs to reach a queue behind an owner (R126). The token never
// shows in what fmt, slog or encoding/json make of it (R146): what writes a binding down on purpose
// names the field.
type QueueBinding struct {
	Endpoint string `json:"endpoint"`
	Token    string `json:"-"`
}

// String gives the endpoint, and whether there is a token.
func (b QueueBinding) String() string {
	if b.Token == "" {
		return b.Endpoint + " (without a token)"
	}
	return b.Endpoint + " (token hidden)"
}

// GoString is String, for the verb %#v.
func (b QueueBinding) GoString() string { return "types.QueueBinding{" + b.String() + "}" }

// LogValue is String, for slog.
func (b QueueBinding) LogValue() slog.Value { return slog.StringValue(b.String()) }
