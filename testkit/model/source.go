package model

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Stream is what a [Source] reads: a list of events that grows at its end and forgets nothing. Many
// sources may read one stream.
type Stream struct {
	clock ports.Clock

	mu      sync.Mutex
	events  []types.Event // by cursor, then index
	ended   bool
	settled *types.Cursor
	changed chan struct{} // closed, and made anew, when a waiting read has to look again
}

// NewStream makes an empty stream. Events arrive at the clock's time.
func NewStream(clock ports.Clock) *Stream {
	return &Stream{clock: clock, changed: make(chan struct{})}
}

// Append adds events with these texts as their data, each at a cursor of its own. A text that breaks the
// rules of events is added as what it is: no event, with an Err.
func (s *Stream) Append(texts ...string) {
	now := s.clock.Now().UnixMilli()
	for _, text := range texts {
		event := types.Event{TS: now, Data: []byte(text)}
		if kept, err := ports.CheckEvents("source.append", []types.Event{event}); err != nil {
			event.Data, event.Err = nil, err
		} else {
			event.Data = kept[0].Data
		}
		s.Add(event)
	}
}

// Add adds events as they are. One without a cursor gets the next primary, counted from 1. It panics
// when a cursor and index do not lie behind those of the event before.
func (s *Stream) Add(events ...types.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		var last types.Event
		if n := len(s.events); n > 0 {
			last = s.events[n-1]
		}
		if e.Cursor == (types.Cursor{}) {
			e.Cursor.Primary = last.Cursor.Primary + 1
		}
		if len(s.events) > 0 && cmp.Or(e.Cursor.Compare(last.Cursor), cmp.Compare(e.Index, last.Index)) <= 0 {
			panic(fmt.Sprintf("model: an event at %v, %d cannot follow one at %v, %d", e.Cursor, e.Index, last.Cursor, last.Index))
		}
		s.events = append(s.events, cloneEvent(e))
	}
	s.wake()
}

// End says that nothing more comes: a read behind the last event returns io.EOF.
func (s *Stream) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

// Settled is the highest cursor that a source of the stream has settled; nil before the first.
func (s *Stream) Settled() *types.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled == nil {
		return nil
	}
	return new(*s.settled)
}

func (s *Stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Open opens a source that begins behind a cursor, or at the front for nil.
func (s *Stream) Open(from *types.Cursor) *Source {
	source := &Source{stream: s, closed: make(chan struct{})}
	if from != nil {
		source.behind = new(*from)
	}
	return source
}

// Source is a ports.Source that is also a ports.Acceptor.
type Source struct {
	stream *Stream
	behind *types.Cursor // the last one that was read; nil: none yet
	once   sync.Once
	closed chan struct{}
}

// Read implements ports.Source.
func (s *Source) Read(ctx context.Context, limit int) ([]types.Event, error) {
	const op = "source.read"
	if err := ports.CheckRead(op, limit); err != nil {
		return nil, err
	}
	for {
		if err := s.begin(ctx, op); err != nil {
			return nil, err
		}
		events, ended, changed := s.next(limit), s.stream.ended, s.stream.changed
		s.stream.mu.Unlock()
		switch {
		case len(events) > 0:
			s.behind = new(events[len(events)-1].Cursor)
			return events, nil
		case ended:
			return nil, io.EOF
		}
		select {
		case <-changed:
		case <-s.closed:
		case <-ctx.Done():
		}
	}
}

// begin locks the stream for one step. The caller unlocks, unless there is an error.
func (s *Source) begin(ctx context.Context, op string) error {
	select {
	case <-s.closed:
		return ports.Errorf(ports.CodeStoreClosed, op, "the model source is closed")
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.stream.mu.Lock()
	return nil
}

// next copies the events to read: limit of them, and the rest of the last one's cursor.
func (s *Source) next(limit int) []types.Event {
	var events []types.Event
	for _, e := range s.stream.events {
		if s.behind != nil && e.Cursor.Compare(*s.behind) <= 0 {
			continue
		}
		if n := len(events); n >= limit && e.Cursor != events[n-1].Cursor {
			break
		}
		events = append(events, cloneEvent(e))
	}
	return events
}

// Settle implements ports.Source. The stream forgets nothing.
func (s *Source) Settle(ctx context.Context, through types.Cursor) error {
	const op = "source.settle"
	if err := ports.CheckCursor(op, through); err != nil {
		return err
	}
	if err := s.begin(ctx, op); err != nil {
		return err
	}
	defer s.stream.mu.Unlock()
	if s.stream.settled == nil || through.Compare(*s.stream.settled) > 0 {
		s.stream.settled = &through
	}
	return nil
}

// Accept implements ports.Acceptor.
func (s *Source) Accept(ctx context.Context, events []types.Event) error {
	const op = "source.accept"
	kept, err := ports.CheckEvents(op, events)
	if err != nil {
		return err
	}
	if err := s.begin(ctx, op); err != nil {
		return err
	}
	s.stream.mu.Unlock()
	s.stream.Add(kept...)
	return nil
}

// Close implements ports.Source.
func (s *Source) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func cloneEvent(e types.Event) types.Event {
	e.Data = bytes.Clone(e.Data)
	return e
}
