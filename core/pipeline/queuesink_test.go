package pipeline_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// queues are the configured queues of a test.
type queues map[string]ports.Queue

func (q queues) Queue(_ context.Context, name string) (ports.Queue, error) {
	if queue, ok := q[name]; ok {
		return queue, nil
	}
	return nil, ports.Errorf(ports.CodeNotFound, "test.queue", "no queue %q is configured", name)
}

// keys is a configuration: the keys of a module as TOML.
type keys string

func (k keys) Decode(into any) error {
	decoder := toml.NewDecoder(strings.NewReader(string(k)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return ports.Errorf(ports.CodeInvalidConfig, "test.config", "%w", err)
	}
	return nil
}

func open(t *testing.T, config ports.ModuleConfig, resolver ports.QueueResolver) (ports.Sink, error) {
	t.Helper()
	return pipeline.QueueSinkModule().Open(t.Context(), fixture.Env(t, "alerts", fixture.NewClock(fixture.Epoch())), config, resolver)
}

func newQueue() *model.Queue { return model.NewQueue(fixture.NewClock(fixture.Epoch())) }

func TestQueueSinkSendsTheEventAsJSON(t *testing.T) {
	t.Parallel()
	queue := newQueue()
	sink, err := open(t, keys(`queue = "orders"`), queues{"orders": queue})
	require.NoError(t, err)

	match := fixture.Match(1)
	match.Event = json.RawMessage(`{"place":"<Ätna> & more","mag":4.50}`)
	emission := types.Emission{Match: match, Key: "it", Hits: 3}
	for _, event := range []types.SinkEvent{{Match: &match}, {Emission: &emission}} {
		require.NoError(t, sink.Deliver(t.Context(), event))
	}
	messages, err := queue.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Len(t, messages, 2)
	require.Equal(t, types.PayloadJSON, messages[0].Payload.Type)
	require.Equal(t,
		`{"type":"match","data":{"match_id":"match-000001","pipeline":"earthquakes","monitor":"strong","cursor":{"primary":1,"secondary":0},"event_index":0,"event_ts":1772366401000,"event":{"place":"<Ätna> & more","mag":4.50}}}`,
		messages[0].Payload.Data)

	var back types.SinkEvent
	require.NoError(t, json.Unmarshal([]byte(messages[1].Payload.Data), &back))
	require.Equal(t, types.SinkEvent{Emission: &emission}, back)
}

func TestQueueSinkTakesWhatAQueueTakes(t *testing.T) {
	t.Parallel()
	queue := newQueue()
	sink, err := open(t, keys(`queue = "orders"`), queues{"orders": queue})
	require.NoError(t, err)
	sized := func(size int) types.SinkEvent {
		match := fixture.Match(1)
		match.Event = json.RawMessage(`""`)
		text, err := ports.EncodeJSON(types.SinkEvent{Match: &match})
		require.NoError(t, err)
		match.Event = json.RawMessage(`"` + strings.Repeat("e", size-len(text)) + `"`)
		return types.SinkEvent{Match: &match}
	}
	require.NoError(t, sink.Deliver(t.Context(), sized(ports.MaxPayloadBytes)))

	err = sink.Deliver(t.Context(), sized(ports.MaxPayloadBytes+1))
	require.ErrorIs(t, err, ports.ErrInvalidInput)
	require.False(t, ports.IsTransient(err), "it will not fit another time")
	for _, want := range []string{"65537 bytes", "65536", `"orders"`, "match-000001"} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "eeee")

	err = sink.Deliver(t.Context(), types.SinkEvent{})
	require.ErrorIs(t, err, ports.ErrInvalidInput, "an event without content")
	stats, err := queue.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, stats.Total)
}

// The queue is looked up when something is delivered: it may start later than the sink, and be made
// anew.
func TestQueueSinkFindsItsQueueAtDelivery(t *testing.T) {
	t.Parallel()
	resolver := queues{}
	sink, err := open(t, keys(`queue = "orders"`), resolver)
	require.NoError(t, err)
	match := fixture.Match(1)
	event := types.SinkEvent{Match: &match}
	require.ErrorIs(t, sink.Deliver(t.Context(), event), ports.ErrNotFound)
	for range 2 {
		queue := newQueue()
		resolver["orders"] = queue
		require.NoError(t, sink.Deliver(t.Context(), event))
		stats, err := queue.Stats(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, stats.Total)
	}
}

// What a queue says is passed on, with its class.
func TestQueueSinkPassesErrorsOn(t *testing.T) {
	t.Parallel()
	full := ports.Errorf(ports.CodeQueueOperationFailed, "queue.send", "no space").WithReason(ports.ReasonDiskFull)
	faults := flaky.New(fixture.NewClock(fixture.Epoch()), 1, flaky.Fault{Op: flaky.QueueSend, Nth: 1, Err: full})
	sink, err := open(t, keys(`queue = "orders"`), queues{"orders": flaky.NewQueue(newQueue(), faults)})
	require.NoError(t, err)
	match := fixture.Match(1)
	event := types.SinkEvent{Match: &match}
	err = sink.Deliver(t.Context(), event)
	require.ErrorIs(t, err, full)
	require.True(t, ports.IsTransient(err))
	err = sink.Deliver(fixture.Cancelled(t), event)
	require.ErrorIs(t, err, context.Canceled, "got %v", err)
	require.NoError(t, sink.Deliver(t.Context(), event))
}

func TestQueueSinkRefusesConfigurations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config ports.ModuleConfig
		queues ports.QueueResolver
		says   string
	}{
		"the key is missing":       {fixture.NoConfig{}, queues{}, `queue = "orders"`},
		"the key is empty":         {keys(`queue = ""`), queues{}, "the key queue is missing"},
		"no name of a queue":       {keys(`queue = "../orders"`), queues{}, "the key queue names no queue"},
		"of another type":          {keys(`queue = 1`), queues{}, ""},
		"an unknown key":           {keys("queue = \"orders\"\nqueues = 1"), queues{}, ""},
		"a program without queues": {keys(`queue = "orders"`), nil, `the queue "orders" cannot be found`},
	} {
		sink, err := open(t, c.config, c.queues)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, name)
		require.Nil(t, sink, name)
		require.ErrorContains(t, err, c.says, name)
	}
}

func TestTheExampleOfTheQueueSinkWorks(t *testing.T) {
	t.Parallel()
	module := pipeline.QueueSinkModule()
	require.Equal(t, pipeline.QueueSinkName, module.Name)
	require.NotEmpty(t, module.Description)
	var example struct {
		Queue    map[string]any
		Pipeline []struct {
			ID   string
			Sink []map[string]any
		}
	}
	require.NoError(t, toml.Unmarshal([]byte(module.Example), &example))
	require.Len(t, example.Pipeline, 1)
	require.Len(t, example.Pipeline[0].Sink, 1)
	settings := example.Pipeline[0].Sink[0]
	require.Equal(t, pipeline.QueueSinkName, settings["module"])
	require.Contains(t, example.Queue, settings["queue"], "the queue that it delivers to is configured")
	delete(settings, "id")
	delete(settings, "module")
	text, err := toml.Marshal(settings)
	require.NoError(t, err)
	_, err = open(t, keys(text), queues{})
	require.NoError(t, err)
}
