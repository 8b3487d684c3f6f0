package pipeline

import (
	"context"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// QueueSink is the ports.Sink that sends events to a queue. A message is a json payload: the JSON form
// of [types.SinkEvent]. An event that was delivered more than once is so many messages, all with the
// same match id.
type QueueSink struct {
	name   string
	queues ports.QueueResolver
}

// Deliver implements ports.Sink. The queue is looked up each time, so that one that was not there, or
// was made anew, is found as soon as it is there; until then it is NOT_FOUND. An event that makes a
// message above 65,536 bytes is INVALID_INPUT. Errors of the queue come back as they are.
func (s *QueueSink) Deliver(ctx context.Context, event types.SinkEvent) error {
	const op = "sink.deliver"
	text, err := ports.EncodeJSON(event)
	if err != nil {
		return ports.Errorf(ports.CodeInvalidInput, op, "the event for the queue %q has no JSON form: %w", s.name, err)
	}
	if len(text) > ports.MaxPayloadBytes {
		return ports.Errorf(ports.CodeInvalidInput, op, "the match %q makes a message of %d bytes for the queue %q: a queue takes at most %d; deliver events of this size by another sink",
			event.Origin().ID, len(text), s.name, ports.MaxPayloadBytes)
	}
	queue, err := s.queues.Queue(ctx, s.name)
	if err != nil {
		return err
	}
	return queue.Send(ctx, types.JSON(text), types.SendOptions{})
}
