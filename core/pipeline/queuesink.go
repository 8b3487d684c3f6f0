package pipeline

import (
	"context"
	"slices"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// queueSinkBatch is how many events one DeliverBatch takes: so many messages, small as they are, cost
// little more than one where a queue stores them in one transaction.
const queueSinkBatch = 500

// QueueSink is the ports.BatchSink that sends events to a queue. A message is a json payload: the JSON
// form of [types.SinkEvent], with the trace context of the delivery. An event that was delivered more
// than once is so many messages, all with the same match id.
//
// The queue is looked up each time, so that one that was not there, or was made anew, is found as soon as
// it is there; until then it is NOT_FOUND. An event that makes a message above 65,536 bytes is
// INVALID_INPUT. Errors of the queue come back as they are.
type QueueSink struct {
	name   string
	queues ports.QueueResolver
}

// Deliver implements ports.Sink.
func (s *QueueSink) Deliver(ctx context.Context, event types.SinkEvent) error {
	payload, err := s.payload(event)
	if err != nil {
		return err
	}
	queue, err := s.queues.Queue(ctx, s.name)
	if err != nil {
		return err
	}
	return queue.Send(ctx, payload, types.SendOptions{})
}

// MaxBatch implements ports.BatchSink.
func (s *QueueSink) MaxBatch() int { return queueSinkBatch }

// DeliverBatch implements ports.BatchSink. Where the queue is a ports.BulkSender all go at once,
// otherwise ten by ten, up to the first transient failure. An event that makes no message does not hold
// up the others.
func (s *QueueSink) DeliverBatch(ctx context.Context, events []types.SinkEvent) []error {
	outcomes := make([]error, len(events))
	payloads := make([]types.Payload, 0, len(events))
	places := make([]int, 0, len(events)) // of the payloads, among the outcomes
	for i, event := range events {
		payload, err := s.payload(event)
		if err != nil {
			outcomes[i] = err
			continue
		}
		payloads, places = append(payloads, payload), append(places, i)
	}
	if len(payloads) == 0 {
		return outcomes
	}
	fail := func(places []int, err error) {
		for _, i := range places {
			outcomes[i] = err
		}
	}
	queue, err := s.queues.Queue(ctx, s.name)
	if err != nil {
		fail(places, err)
		return outcomes
	}
	send, size := queue.SendBatch, ports.MaxBatch
	if bulk, ok := queue.(ports.BulkSender); ok {
		send, size = bulk.SendBulk, ports.MaxBulk
	}
	for part := range slices.Chunk(payloads, size) {
		var here []int
		here, places = places[:len(part)], places[len(part):]
		failure := s.sendPart(ctx, send, part, func(i int, err error) { outcomes[here[i]] = err })
		if failure != nil {
			fail(places, failure)
			break
		}
	}
	return outcomes
}

// sendPart sends payloads that fit into one call, and tells the outcome of each. The error is that of
// those that come behind, where they are not to be sent: a transient one, or the context's.
func (s *QueueSink) sendPart(ctx context.Context, send func(context.Context, []types.Payload) ([]types.SendOutcome, error), part []types.Payload, tell func(int, error)) error {
	sent, err := send(ctx, part)
	if err == nil && len(sent) != len(part) {
		err = ports.Errorf(ports.CodeOutcomeUnknown, "sink.deliver", "the queue %q returned %d outcomes for %d messages: this is a fault of its module", s.name, len(sent), len(part))
	}
	if err != nil {
		for i := range part {
			tell(i, err)
		}
		if ctx.Err() != nil || ports.IsTransient(err) {
			return err
		}
		return nil
	}
	var behind error
	for i, o := range sent {
		tell(i, o.Err)
		if behind == nil && o.Err != nil && ports.IsTransient(o.Err) {
			behind = o.Err
		}
	}
	return behind
}

// payload is the message of an event.
func (s *QueueSink) payload(event types.SinkEvent) (types.Payload, error) {
	const op = "sink.deliver"
	text, err := ports.EncodeJSON(event)
	if err != nil {
		return types.Payload{}, ports.Errorf(ports.CodeInvalidInput, op, "the event for the queue %q has no JSON form: %w", s.name, err)
	}
	if len(text) > ports.MaxPayloadBytes {
		return types.Payload{}, ports.Errorf(ports.CodeInvalidInput, op, "the match %q makes a message of %d bytes for the queue %q: a queue takes at most %d; deliver events of this size by another sink",
			event.Origin().ID, len(text), s.name, ports.MaxPayloadBytes)
	}
	return types.JSON(text), nil
}
