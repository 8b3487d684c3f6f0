package pipeline_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	from5 = `{"source":{"module":"stream"},"monitor":[{"id":"strong","when":"mag >= 5","sinks":["alerts"]}],"sink":[{"id":"alerts","module":"receiver"}]}`
	from7 = `{"source":{"module":"stream"},"monitor":[{"id":"strong","when":"mag >= 7","sinks":["alerts"]}],"sink":[{"id":"alerts","module":"receiver"}]}`
)

func put(t *testing.T, s ports.Storage, id, text string, expected uint64) {
	t.Helper()
	_, err := s.PutResource(t.Context(), types.PipelineKind, id, []byte(text), expected)
	require.NoError(t, err)
}

// Of two resources that do not go together the second is refused, whichever way it came, and runs once
// the first is gone.
func TestResourcesThatDoNotGoTogether(t *testing.T) {
	const alone = `{"source":{"module":"stream"},"monitor":[{"id":"strong","when":"mag >= 5","sinks":["alerts"]}],"sink":[{"id":"alerts","module":"alone"}]}`
	bubble(t, func(t *testing.T) {
		w := newWorld()
		put(t, w.storage, "first", alone, 0)
		put(t, w.storage, "second", alone, 0)
		e := w.engine(t)
		w.stream("first").append(mags(5)...)
		w.stream("second").append(mags(6)...)
		settle()
		require.Equal(t, types.PipelineRunning, status(t, e, "first").State)
		s := status(t, e, "second")
		require.Equal(t, types.PipelineFailed, s.State)
		require.Contains(t, s.Error, "the place is taken by first")

		require.NoError(t, e.CheckPipeline(t.Context(), "first", []byte(alone)), "a pipeline does not stand in its own way")
		require.ErrorIs(t, e.CheckPipeline(t.Context(), "third", []byte(alone)), ports.ErrInvalidConfig)
		require.NoError(t, e.CheckPipeline(t.Context(), "third", []byte(from5)))

		require.NoError(t, e.Refresh(t.Context()))
		require.Equal(t, types.PipelineFailed, status(t, e, "second").State)
		require.EqualValues(t, 0, status(t, e, "first").Restarts)

		require.NoError(t, w.storage.DeleteResource(t.Context(), types.PipelineKind, "first", 1))
		require.NoError(t, e.Refresh(t.Context()))
		settle()
		require.Equal(t, types.PipelineRunning, status(t, e, "second").State)
		require.Equal(t, []uint64{1}, w.receiver("second", "alerts").primaries())

		put(t, w.storage, "first", alone, 0)
		require.NoError(t, e.Refresh(t.Context()))
		require.Contains(t, status(t, e, "first").Error, "the place is taken by second")
	})
}

func TestResourcesArePipelines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		put(t, w.storage, "first", from5, 0)
		e := w.engine(t)
		w.stream("first").append(mags(5, 7)...)
		settle()
		require.Equal(t, []uint64{1, 2}, w.receiver("first", "alerts").primaries())
		s := status(t, e, "first")
		require.Equal(t, types.OriginResource, s.Origin)
		require.EqualValues(t, 1, s.Version)

		// A change takes effect behind what was dealt with, and the counters go on.
		put(t, w.storage, "first", from7, 1)
		require.NoError(t, e.Refresh(t.Context()))
		w.stream("first").append(mags(5, 7)...)
		settle()
		require.Equal(t, []uint64{1, 2, 4}, w.receiver("first", "alerts").primaries())
		s = status(t, e, "first")
		require.EqualValues(t, 2, s.Version)
		require.EqualValues(t, 4, s.Events)
		require.EqualValues(t, 3, s.Sinks[0].Delivered)

		// A bad one is not taken, and the old one goes on.
		for i, bad := range []string{`{"source":{"module":"stream"}`, `{"sauce":{}}`, `[]`, `{"source":{"module":"stream"}}`} {
			require.ErrorIs(t, e.CheckPipeline(t.Context(), "first", []byte(bad)), ports.ErrInvalidConfig, "%s", bad)
			if i == 0 {
				continue // no storage takes it
			}
			put(t, w.storage, "first", bad, uint64(i+1))
			require.NoError(t, e.Refresh(t.Context()))
			s = status(t, e, "first")
			require.Equal(t, types.PipelineRunning, s.State)
			require.EqualValues(t, 2, s.Version)
			require.NotEmpty(t, s.Error)
		}
		w.stream("first").append(mags(5, 7)...)
		settle()
		require.Equal(t, []uint64{1, 2, 4, 6}, w.receiver("first", "alerts").primaries())

		// What others have stored is found without being told.
		put(t, w.storage, "first", from5, 5)
		put(t, w.storage, "second", from5, 0)
		w.stream("second").append(mags(6)...)
		settle()
		require.Empty(t, status(t, e, "first").Error)
		require.EqualValues(t, 6, status(t, e, "first").Version)
		require.Equal(t, []uint64{1}, w.receiver("second", "alerts").primaries())

		require.NoError(t, w.storage.DeleteResource(t.Context(), types.PipelineKind, "first", 6))
		require.NoError(t, e.Refresh(t.Context()))
		_, err := e.Pipeline(t.Context(), "first")
		require.ErrorIs(t, err, ports.ErrNotFound)
		w.stream("first").append(mags(8)...)
		settle()
		require.Len(t, w.receiver("first", "alerts").has(), 4)
		list, err := e.Pipelines(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
	})
}

func TestABrokenResourceStopsNoStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		put(t, w.storage, "broken", `{"sauce":{}}`, 0)
		put(t, w.storage, string(quakes), from7, 0)
		e := w.engine(t, one())
		w.stream(quakes).append(mags(5)...)
		settle()
		s := status(t, e, "broken")
		require.Equal(t, types.PipelineFailed, s.State)
		require.Contains(t, s.Error, "sauce")
		s = status(t, e, quakes)
		require.Equal(t, types.OriginFile, s.Origin, "the file's pipeline has the name")
		require.Contains(t, s.Error, "the configuration file has a pipeline")
		require.Equal(t, []uint64{1}, w.receiver(quakes, "alerts").primaries())
		require.ErrorIs(t, e.CheckPipeline(t.Context(), quakes, []byte(from7)), ports.ErrAlreadyExists)

		put(t, w.storage, "broken", from5, 1)
		w.stream("broken").append(mags(5)...)
		require.NoError(t, e.Refresh(t.Context()))
		settle()
		require.Equal(t, types.PipelineRunning, status(t, e, "broken").State)
		require.Equal(t, []uint64{1}, w.receiver("broken", "alerts").primaries())
	})
}

func TestAPipelineIsReplacedOnceNothingOfItIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		put(t, w.storage, "first", from5, 0)
		var mu sync.Mutex
		inside, most := 0, 0
		w.receiver("first", "alerts").deciding(func(context.Context, types.SinkEvent) error {
			mu.Lock()
			inside++
			most = max(most, inside)
			mu.Unlock()
			pass(time.Second)
			mu.Lock()
			inside--
			mu.Unlock()
			return nil
		})
		w.stream("first").append(many(30)...)
		e := w.engine(t)
		for version := range 10 {
			pass(1500 * time.Millisecond)
			text := from5
			if version%2 == 0 {
				text = `{"event_time":"missing",` + from5[1:]
			}
			put(t, w.storage, "first", text, uint64(version+1))
			require.NoError(t, e.Refresh(t.Context()))
		}
		settle()
		require.Equal(t, 1, most)
		require.Equal(t, count(30), w.receiver("first", "alerts").primaries())
	})
}

func TestSinksServeReplays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		idle := config.Pipeline{ID: "idle", Sinks: one().Sinks}
		e := w.engine(t, one(), idle)
		settle()
		require.Equal(t, types.PipelineIdle, status(t, e, "idle").State)
		match := types.Match{ID: "m1", Pipeline: quakes, Monitor: "strong", Event: []byte(`{}`)}
		for _, id := range []types.PipelineID{quakes, "idle"} {
			sink, err := e.Sink(t.Context(), id, "alerts")
			require.NoError(t, err)
			require.NoError(t, sink.Deliver(t.Context(), types.SinkEvent{Match: &match}))
			require.Len(t, w.receiver(id, "alerts").has(), 1)
		}
		for _, unknown := range [][2]string{{"quakes", "mail"}, {"unknown", "alerts"}} {
			_, err := e.Sink(t.Context(), types.PipelineID(unknown[0]), types.SinkID(unknown[1]))
			require.ErrorIs(t, err, ports.ErrNotFound)
		}
		sink, err := e.Sink(t.Context(), quakes, "alerts")
		require.NoError(t, err)
		require.NoError(t, e.Close(t.Context()))
		require.ErrorIs(t, sink.Deliver(t.Context(), types.SinkEvent{Match: &match}), ports.ErrStoreClosed)
		_, err = e.Sink(t.Context(), quakes, "alerts")
		require.ErrorIs(t, err, ports.ErrStoreClosed)
	})
}

func TestEventsAreAcceptedWhereTheSourceTakesThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		e := w.engine(t, one(), config.Pipeline{ID: "idle"})
		settle()
		require.ErrorIs(t, e.Accept(t.Context(), quakes, nil), ports.ErrInvalidInput)
		require.ErrorIs(t, e.Accept(t.Context(), "unknown", nil), ports.ErrNotFound)
		err := e.Accept(t.Context(), "idle", nil)
		require.ErrorIs(t, err, ports.ErrStoreClosed)
		require.True(t, ports.IsTransient(err))
	})
}
