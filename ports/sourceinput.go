package ports

import (
	"encoding/json"

	"github.com/stowage-go/stowage/types"
)

// CheckRead checks the limit of a [Source]'s Read: 1 to 10,000.
func CheckRead(op string, limit int) error {
	if limit < 1 || limit > MaxReadEvents {
		return invalid(op, "a read of at most %d events: give 1 to %d", limit, MaxReadEvents)
	}
	return nil
}

// CheckEvents checks the events that are handed to an [Acceptor], and returns what it keeps of them:
// copies with TS, Data in compact form, and a Traceparent that is one. An event whose Data is not JSON,
// or has more than 1 MiB, is INVALID_INPUT; the error says which one it is, counted from 1.
func CheckEvents(op string, events []types.Event) ([]types.Event, error) {
	kept := make([]types.Event, 0, len(events))
	for i, e := range events {
		if len(e.Data) > MaxJSONBytes {
			return nil, invalid(op, "event %d of %d has %d bytes: at most %d are allowed", i+1, len(events), len(e.Data), MaxJSONBytes)
		}
		data, err := CompactJSON(string(e.Data))
		if err != nil {
			return nil, invalid(op, "event %d of %d is not valid JSON: %w", i+1, len(events), err)
		}
		accepted := types.Event{TS: e.TS, Data: json.RawMessage(data)}
		if IsTraceparent(e.Traceparent) {
			accepted.Traceparent = e.Traceparent
		}
		kept = append(kept, accepted)
	}
	return kept, nil
}

// CheckSinkEvent checks what is handed to a [Sink]: exactly one of a match and an emission.
func CheckSinkEvent(op string, event types.SinkEvent) error {
	if (event.Match == nil) == (event.Emission == nil) {
		return invalid(op, "the event has neither a match nor an emission, or both: give exactly one")
	}
	return nil
}
