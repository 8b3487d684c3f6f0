package queuehttp

import (
	"encoding/json"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// The operations.
const (
	opSend      = "send"
	opSendBatch = "sendBatch"
	opReceive   = "receive"
	opAck       = "ack"
	opAckBatch  = "ackBatch"
	opNack      = "nack"
	opRenew     = "renew"
	opPurge     = "purge"
	opStats     = "stats"
	opPeek      = "peek"
)

// portOp is the name of an operation in errors, the same as in every adapter.
func portOp(operation string) string { return "queue." + operation }

// maxBody is above the largest legal batch: every byte of ten payloads escaped as six, and room for
// what is around them. An answer of ten messages stays below it too.
const maxBody = ports.MaxBatch*(ports.MaxPayloadBytes*6+1024) + 4096

type message struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

type headRequest struct {
	Operation string `json:"operation"`
}

type sendRequest struct {
	Operation    string          `json:"operation"`
	Message      *message        `json:"message"`
	DelaySeconds json.RawMessage `json:"delaySeconds,omitempty"`
}

type sendBatchRequest struct {
	Operation string    `json:"operation"`
	Messages  []message `json:"messages"`
}

type receiveRequest struct {
	Operation    string          `json:"operation"`
	MaxMessages  json.RawMessage `json:"maxMessages,omitempty"`
	LeaseSeconds json.RawMessage `json:"leaseSeconds,omitempty"`
	WaitSeconds  json.RawMessage `json:"waitSeconds,omitempty"`
}

type receiptRequest struct {
	Operation     string  `json:"operation"`
	ReceiptHandle *string `json:"receiptHandle"`
}

type nackRequest struct {
	Operation     string          `json:"operation"`
	ReceiptHandle *string         `json:"receiptHandle"`
	DelaySeconds  json.RawMessage `json:"delaySeconds,omitempty"`
}

type renewRequest struct {
	Operation     string          `json:"operation"`
	ReceiptHandle *string         `json:"receiptHandle"`
	LeaseSeconds  json.RawMessage `json:"leaseSeconds,omitempty"`
}

type ackBatchRequest struct {
	Operation      string   `json:"operation"`
	ReceiptHandles []string `json:"receiptHandles"`
}

type peekRequest struct {
	Operation   string          `json:"operation"`
	MaxMessages json.RawMessage `json:"maxMessages,omitempty"`
}

type result struct {
	Status  string            `json:"status"`
	Code    ports.Code        `json:"code,omitempty"`
	Message string            `json:"message,omitempty"`
	Context ports.WireContext `json:"context,omitzero"`
}

type resultsAnswer struct {
	Results []result `json:"results"`
}

type delivery struct {
	Payload       message `json:"payload"`
	ReceiptHandle string  `json:"receiptHandle"`
	Attempt       int64   `json:"attempt"`
	EnqueuedAt    int64   `json:"enqueuedAt"`
}

type receiveAnswer struct {
	Messages []delivery `json:"messages"`
}

type peeked struct {
	ID         int64    `json:"id"`
	Payload    *message `json:"payload,omitempty"`
	State      string   `json:"state"`
	Attempt    int64    `json:"attempt"`
	EnqueuedAt int64    `json:"enqueuedAt"`
	VisibleAt  int64    `json:"visibleAt"`
}

type peekAnswer struct {
	Messages []peeked `json:"messages"`
}

// encodePayload gives a payload its form on the wire.
func encodePayload(p types.Payload) (message, error) {
	if p.Type == types.PayloadJSON {
		return message{string(p.Type), json.RawMessage(p.Data)}, nil
	}
	text, err := ports.EncodeJSON(p.Data)
	return message{string(p.Type), text}, err
}

// payload reads a message. What a payload may be is checked in package ports; here only what has to
// be known to make one.
func (m message) payload(op string) (types.Payload, error) {
	switch p := (types.Payload{Type: types.PayloadType(m.Type)}); {
	case len(m.Data) == 0:
		return types.Payload{}, ports.Errorf(ports.CodeInvalidInput, op, `the message has no "data"`)
	case p.Type == types.PayloadText:
		if m.Data[0] != '"' || json.Unmarshal(m.Data, &p.Data) != nil {
			return types.Payload{}, ports.Errorf(ports.CodeInvalidInput, op, `the "data" of a text message is no string`)
		}
		return p, nil
	default: // also for a type that is unknown: the rules of payloads name the ones that are not
		p.Data = string(m.Data)
		return p, nil
	}
}

// count reads a number of messages; zero, which options take for the default, is no such number.
func count(op, name string, raw json.RawMessage) (int, error) {
	if raw == nil {
		return 0, nil
	}
	var n int
	if err := json.Unmarshal(raw, &n); err != nil || raw[0] == 'n' {
		return 0, ports.Errorf(ports.CodeInvalidInput, op, "%q is no whole number: give 1 to %d", name, ports.MaxBatch)
	}
	return n, ports.CheckBatch(op, n)
}

// seconds reads a duration that may be left out.
func seconds(op, name string, raw json.RawMessage) (time.Duration, error) {
	if raw == nil {
		return 0, nil
	}
	return ports.ParseSeconds(op, name, raw)
}

// lease reads a lease; zero, which options take for the default, is too short for one.
func lease(op string, raw json.RawMessage) (time.Duration, error) {
	d, err := seconds(op, "leaseSeconds", raw)
	if err == nil && raw != nil && d == 0 {
		err = ports.Errorf(ports.CodeInvalidInput, op, "the lease is 0s: give %v to %v", ports.MinLease, ports.MaxLease)
	}
	return d, err
}

// roundUp gives a duration in whole milliseconds.
func roundUp(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// newResult gives an outcome its form on the wire. The context travels only with a reason, which the
// code does not say.
func newResult(status string, err error) result {
	if err == nil {
		return result{Status: status}
	}
	wire := ports.NewWireError(err)
	r := result{Status: status, Code: wire.Code, Message: wire.Message}
	if wire.Context.Reason != "" {
		r.Context = wire.Context
	}
	return r
}

// err rebuilds the error of an outcome.
func (r result) err(op string) error {
	return &ports.Error{Code: r.Code, Reason: r.Context.Reason, Op: op, Message: r.Message}
}
