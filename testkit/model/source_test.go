package model_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

var (
	_ ports.Source    = (*model.Source)(nil)
	_ ports.Acceptor  = (*model.Source)(nil)
	_ ports.Sink      = (*model.Sink)(nil)
	_ io.Closer       = (*model.Sink)(nil)
	_ ports.BatchSink = (*model.BatchSink)(nil)
)

func newStream() *model.Stream { return model.NewStream(fixture.NewClock(fixture.Epoch())) }

func TestAStreamStampsAndNumbersWhatIsAppended(t *testing.T) {
	t.Parallel()
	clock := fixture.NewClock(fixture.Epoch())
	stream := model.NewStream(clock)
	stream.Append(` {"n": 1} `)
	clock.Advance(1_500_000_000)
	stream.Append(`{"n":2}`, `no JSON`)
	events, err := stream.Open(nil).Read(t.Context(), 10)
	require.NoError(t, err)
	start := fixture.Epoch().UnixMilli()
	require.Len(t, events, 3)
	require.Equal(t, types.Event{Cursor: types.Cursor{Primary: 1}, TS: start, Data: []byte(`{"n":1}`)}, events[0])
	require.Equal(t, types.Event{Cursor: types.Cursor{Primary: 2}, TS: start + 1500, Data: []byte(`{"n":2}`)}, events[1])
	require.ErrorIs(t, events[2].Err, ports.ErrInvalidInput)
	require.Nil(t, events[2].Data)
}

func TestEventsAreAddedAsTheyAre(t *testing.T) {
	t.Parallel()
	stream := newStream()
	added := []types.Event{
		{Cursor: types.Cursor{Primary: 5, Secondary: 1}, ID: "a", TS: 7, Data: []byte(`1`), Traceparent: "t"},
		{Cursor: types.Cursor{Primary: 5, Secondary: 1}, Index: 3, Data: []byte(`2`)},
	}
	stream.Add(added...)
	stream.Add(types.Event{Data: []byte(`3`)})
	events, err := stream.Open(nil).Read(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, added, events, "all of one cursor at once")
	events, err = stream.Open(&events[1].Cursor).Read(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, types.Cursor{Primary: 6}, events[0].Cursor)
	for _, back := range []types.Event{{Cursor: types.Cursor{Primary: 6}}, {Cursor: types.Cursor{Primary: 5, Secondary: 9}, Index: 9}} {
		require.Panics(t, func() { stream.Add(back) }, "%v", back.Cursor)
	}
}

func TestAStreamThatEndedIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	stream := newStream()
	source, waiting := stream.Open(nil), stream.Open(nil)
	ended := make(chan error, 1)
	go func() {
		_, err := waiting.Read(t.Context(), 1)
		if err == nil {
			_, err = waiting.Read(context.WithoutCancel(t.Context()), 1)
		}
		ended <- err
	}()
	stream.Append(`1`)
	stream.End()
	require.Equal(t, io.EOF, <-ended)
	events, err := source.Read(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, events, 1)
	_, err = source.Read(t.Context(), 1)
	require.Equal(t, io.EOF, err)
}

func TestAStreamKnowsWhatWasSettled(t *testing.T) {
	t.Parallel()
	stream := newStream()
	require.Nil(t, stream.Settled())
	source := stream.Open(nil)
	for _, through := range []uint64{3, 5, 4} {
		require.NoError(t, source.Settle(t.Context(), types.Cursor{Primary: through}))
	}
	require.Equal(t, &types.Cursor{Primary: 5}, stream.Settled())
	stream.Settled().Primary = 9
	require.Equal(t, &types.Cursor{Primary: 5}, stream.Settled(), "a copy")
}

func TestASinkFailsAsItIsTold(t *testing.T) {
	t.Parallel()
	sink := model.NewBatchSink(3)
	transient := ports.Errorf(ports.CodeBackendFailed, "sink.deliver", "not now")
	permanent := transient.WithClass(ports.Permanent)
	event := func(n int) types.SinkEvent {
		match := fixture.Match(n)
		return types.SinkEvent{Match: &match}
	}
	sink.Fail(func(e types.SinkEvent) error {
		switch e.Origin().ID {
		case fixture.MatchID(1):
			return permanent
		case fixture.MatchID(3):
			return transient
		}
		return nil
	})
	require.Equal(t, []error{nil, permanent, nil}, sink.DeliverBatch(t.Context(), []types.SinkEvent{event(0), event(1), event(2)}))
	require.Equal(t, []error{transient, transient, transient}, sink.DeliverBatch(t.Context(), []types.SinkEvent{event(3), event(4), event(1)}), "what stands behind a transient failure waits")
	sink.Fail(nil)
	require.Equal(t, []error{nil, nil}, sink.DeliverBatch(t.Context(), []types.SinkEvent{event(3), event(4)}))
	for _, err := range sink.DeliverBatch(t.Context(), make([]types.SinkEvent, 4)) {
		require.ErrorIs(t, err, ports.ErrInvalidInput)
		require.ErrorContains(t, err, "at most 3")
	}
	require.Equal(t, []types.SinkEvent{event(0), event(2), event(3), event(4)}, sink.Received())
	sink.Received()[0].Match.Event[0] = 'X'
	require.Equal(t, event(0), sink.Received()[0], "a copy")
}
