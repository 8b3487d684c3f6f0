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

// events are so many matches, each of another number.
func events(n int) []types.SinkEvent {
	list := make([]types.SinkEvent, n)
	for i := range list {
		match := fixture.Match(i)
		list[i] = types.SinkEvent{Match: &match}
	}
	return list
}

// receivedEvents are the events in a queue, in order; it empties the queue.
func receivedEvents(t *testing.T, queue ports.Queue) []types.SinkEvent {
	t.Helper()
	var all []types.SinkEvent
	for {
		messages, err := queue.Receive(t.Context(), types.ReceiveOptions{Max: 10, Lease: ports.MaxLease})
		require.NoError(t, err)
		if len(messages) == 0 {
			return all
		}
		for _, m := range messages {
			var event types.SinkEvent
			require.NoError(t, json.Unmarshal([]byte(m.Payload.Data), &event))
			all = append(all, event)
		}
	}
}

// received are the numbers of the matches in a queue, in order; it empties the queue.
func received(t *testing.T, queue ports.Queue) []uint64 {
	t.Helper()
	numbers := []uint64{}
	for _, event := range receivedEvents(t, queue) {
		numbers = append(numbers, event.Origin().Cursor.Primary)
	}
	return numbers
}

func upTo(n uint64) []uint64 {
	numbers := []uint64{}
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

func openBatchSink(t *testing.T, queue ports.Queue) ports.BatchSink {
	t.Helper()
	sink, err := open(t, keys(`queue = "orders"`), queues{"orders": queue})
	require.NoError(t, err)
	batch, ok := sink.(ports.BatchSink)
	require.True(t, ok)
	require.Equal(t, 500, batch.MaxBatch())
	return batch
}

func TestQueueSinkSendsABatchAtOnce(t *testing.T) {
	t.Parallel()
	queue := newQueue()
	faults := flaky.New(fixture.NewClock(fixture.Epoch()), 1)
	sink := openBatchSink(t, flaky.NewQueue(queue, faults))
	require.Equal(t, make([]error, 500), sink.DeliverBatch(t.Context(), events(500)))
	require.Equal(t, 1, faults.Calls(""), "by one call")
	require.Equal(t, 1, faults.Calls(flaky.QueueSendBulk))
	require.Equal(t, upTo(500), received(t, queue))
	require.Equal(t, make([]error, 1100), sink.DeliverBatch(t.Context(), events(1100)), "more than it asks for")
	require.Equal(t, upTo(1100), received(t, queue))
	require.Empty(t, sink.DeliverBatch(t.Context(), nil))
	require.Equal(t, 3, faults.Calls(""))
}

func TestQueueSinkSendsTenByTenWhereAQueueTakesNoMore(t *testing.T) {
	t.Parallel()
	queue := newQueue()
	faults := flaky.New(fixture.NewClock(fixture.Epoch()), 1)
	sink := openBatchSink(t, plainQueue{flaky.NewQueue(queue, faults)})
	require.Equal(t, make([]error, 25), sink.DeliverBatch(t.Context(), events(25)))
	require.Equal(t, 3, faults.Calls(flaky.QueueSendBatch))
	require.Equal(t, upTo(25), received(t, queue))
}

// What comes behind a transient failure is not sent, so that all of it can be sent again in order.
func TestQueueSinkKeepsTheOrderBehindAFailure(t *testing.T) {
	t.Parallel()
	down := ports.Errorf(ports.CodeQueueOperationFailed, "queue.send", "no space").WithReason(ports.ReasonDiskFull)
	for name, c := range map[string]struct {
		queue  func(ports.QueueStore) ports.Queue
		fault  flaky.Fault
		failed int // the first event that is not sent
	}{
		"the second of three": {func(q ports.QueueStore) ports.Queue { return plainQueue{q} }, flaky.Fault{Op: flaky.QueueSendBatch, Nth: 2, Err: down}, 10},
		"the bulk":            {func(q ports.QueueStore) ports.Queue { return q }, flaky.Fault{Op: flaky.QueueSendBulk, Nth: 1, Err: down}, 0},
	} {
		queue := newQueue()
		faults := flaky.New(fixture.NewClock(fixture.Epoch()), 1, c.fault)
		sink := openBatchSink(t, c.queue(flaky.NewQueue(queue, faults)))
		all := events(30)
		outcomes := sink.DeliverBatch(t.Context(), all)
		for i, err := range outcomes {
			if i < c.failed {
				require.NoError(t, err, "%s: %d", name, i)
				continue
			}
			require.ErrorIs(t, err, down, "%s: %d", name, i)
		}
		require.Equal(t, make([]error, 30-c.failed), sink.DeliverBatch(t.Context(), all[c.failed:]), name)
		require.Equal(t, upTo(30), received(t, queue), name)
	}
}

// A permanent failure says nothing of the events behind it.
func TestQueueSinkGoesOnBehindWhatIsPermanent(t *testing.T) {
	t.Parallel()
	refused := ports.Errorf(ports.CodeAuthenticationFailed, "queue.sendBatch", "the token is wrong")
	queue := newQueue()
	faults := flaky.New(fixture.NewClock(fixture.Epoch()), 1, flaky.Fault{Op: flaky.QueueSendBatch, Nth: 1, Err: refused})
	outcomes := openBatchSink(t, plainQueue{flaky.NewQueue(queue, faults)}).DeliverBatch(t.Context(), events(12))
	for i, err := range outcomes {
		if i < 10 {
			require.ErrorIs(t, err, refused, i)
		} else {
			require.NoError(t, err, i)
		}
	}
	require.Equal(t, []uint64{10, 11}, received(t, queue))
}

func TestQueueSinkRefusesAloneWhatMakesNoMessage(t *testing.T) {
	t.Parallel()
	queue := newQueue()
	sink := openBatchSink(t, queue)
	all := events(5)
	all[1].Match.Event = json.RawMessage(`"` + strings.Repeat("e", ports.MaxPayloadBytes) + `"`)
	all[3] = types.SinkEvent{}
	outcomes := sink.DeliverBatch(t.Context(), all)
	for i, err := range outcomes {
		if i%2 == 0 {
			require.NoError(t, err, i)
			continue
		}
		require.ErrorIs(t, err, ports.ErrInvalidInput, i)
		require.False(t, ports.IsTransient(err), i)
	}
	require.Equal(t, []uint64{0, 2, 4}, received(t, queue))
	require.ErrorIs(t, sink.DeliverBatch(t.Context(), all[3:4])[0], ports.ErrInvalidInput, "nothing is left to send")
}

// parted answers a batch with an outcome of its own for one message.
type parted struct {
	ports.Queue
	outcome types.SendOutcome
	drop    int // outcomes that are missing
}

func (p parted) SendBatch(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	outcomes, err := p.Queue.SendBatch(ctx, payloads)
	if err == nil {
		outcomes[1] = p.outcome
	}
	return outcomes[p.drop:], err
}

func TestQueueSinkPassesOutcomesOn(t *testing.T) {
	t.Parallel()
	unknown := types.SendOutcome{Status: types.StatusUnknown, Err: ports.Errorf(ports.CodeOutcomeUnknown, "queue.sendBatch", "the connection broke")}
	outcomes := openBatchSink(t, parted{Queue: newQueue(), outcome: unknown}).DeliverBatch(t.Context(), events(12))
	for i, err := range outcomes {
		if i == 1 || i >= 10 {
			require.ErrorIs(t, err, ports.ErrOutcomeUnknown, i)
		} else {
			require.NoError(t, err, i)
		}
	}
	for i, err := range openBatchSink(t, parted{Queue: newQueue(), drop: 1}).DeliverBatch(t.Context(), events(2)) {
		require.ErrorIs(t, err, ports.ErrOutcomeUnknown, i)
	}
}

func TestQueueSinkFailsWithItsCallerOrItsQueue(t *testing.T) {
	t.Parallel()
	queue := newQueue()
	for i, err := range openBatchSink(t, plainQueue{queue}).DeliverBatch(fixture.Cancelled(t), events(12)) {
		require.ErrorIs(t, err, context.Canceled, i)
	}
	require.Empty(t, received(t, queue))
	sink, err := open(t, keys(`queue = "orders"`), queues{})
	require.NoError(t, err)
	for i, err := range sink.(ports.BatchSink).DeliverBatch(t.Context(), events(12)) {
		require.ErrorIs(t, err, ports.ErrNotFound, i)
	}
}

func TestQueueSinkSendsTheTraceContext(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	queue := newQueue()
	all := events(2)
	all[0].Traceparent, all[1].Traceparent = trace, trace
	sink := openBatchSink(t, queue)
	require.NoError(t, sink.Deliver(t.Context(), all[0]))
	require.Equal(t, make([]error, 1), sink.DeliverBatch(t.Context(), all[1:]))
	messages, err := queue.Receive(t.Context(), types.ReceiveOptions{Max: 2})
	require.NoError(t, err)
	for i, m := range messages {
		var event types.SinkEvent
		require.NoError(t, json.Unmarshal([]byte(m.Payload.Data), &event))
		require.Equal(t, all[i], event)
	}
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
