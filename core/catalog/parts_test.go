package catalog_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// queueSink sends to a queue and has something to close.
type queueSink struct {
	r      *recorder
	name   string
	queue  string
	queues ports.QueueResolver
}

func (s *queueSink) Deliver(ctx context.Context, _ types.SinkEvent) error {
	q, err := s.queues.Queue(ctx, s.queue)
	if err != nil {
		return err
	}
	return q.Send(ctx, types.Text("delivered"), types.SendOptions{})
}

func (s *queueSink) Close() error { return s.r.close(s.name, func() error { return nil }) }

type plainSink struct{}

func (plainSink) Deliver(context.Context, types.SinkEvent) error { return nil }

// listSource knows where it was opened and has no events.
type listSource struct {
	r    *recorder
	name string
	from *types.Cursor
}

func (s *listSource) Read(context.Context, int) ([]types.Event, error) { return nil, io.EOF }
func (s *listSource) Settle(context.Context, types.Cursor) error       { return nil }
func (s *listSource) Close() error                                     { return s.r.close(s.name, func() error { return nil }) }

type queueKeys struct {
	Queue string `toml:"queue"`
}

func queueOf(section ports.ModuleConfig) (queueKeys, error) {
	var keys queueKeys
	if err := section.Decode(&keys); err != nil {
		return keys, err
	}
	if keys.Queue == "" {
		return keys, ports.Errorf(ports.CodeInvalidConfig, "test.part", "queue is empty")
	}
	return keys, nil
}

func checkQueue(_ ports.Env, section ports.ModuleConfig) error {
	_, err := queueOf(section)
	return err
}

func placeOfQueue(_ ports.Env, section ports.ModuleConfig) ([]ports.Place, error) {
	keys, err := queueOf(section)
	return []ports.Place{{Queue: keys.Queue}}, err
}

func checkNoKeys(_ ports.Env, section ports.ModuleConfig) error { return section.Decode(&struct{}{}) }

// withParts adds fakes: source modules list, queue (which looks for its queue at once) and broken (which
// does what its key says), sink modules queue and plain.
func withParts(t *testing.T, c *catalog.Catalog, r *recorder) {
	t.Helper()
	require.NoError(t, c.RegisterSource(ports.SourceModule{ModuleInfo: infoOf("source", "list"), Check: checkNoKeys,
		Open: func(ctx context.Context, env ports.Env, _ ports.ModuleConfig, from *types.Cursor, _ ports.QueueResolver) (ports.Source, error) {
			if err := r.open(ctx, env.Name); err != nil {
				return nil, err
			}
			return &listSource{r, env.Name, from}, nil
		}}))
	require.NoError(t, c.RegisterSource(ports.SourceModule{ModuleInfo: infoOf("source", "queue"), Check: checkQueue, Reads: placeOfQueue,
		Open: func(ctx context.Context, env ports.Env, section ports.ModuleConfig, from *types.Cursor, queues ports.QueueResolver) (ports.Source, error) {
			keys, err := queueOf(section)
			if err != nil {
				return nil, err
			}
			if err := r.open(ctx, env.Name); err != nil {
				return nil, err
			}
			if _, err := queues.Queue(ctx, keys.Queue); err != nil {
				return nil, err
			}
			return &listSource{r, env.Name, from}, nil
		}}))
	type how struct {
		How string `toml:"how"`
	}
	require.NoError(t, c.RegisterSource(ports.SourceModule{ModuleInfo: infoOf("source", "broken"),
		Check: func(_ ports.Env, section ports.ModuleConfig) error { return section.Decode(&how{}) },
		Open: func(_ context.Context, _ ports.Env, section ports.ModuleConfig, _ *types.Cursor, _ ports.QueueResolver) (ports.Source, error) {
			var keys how
			if err := section.Decode(&keys); err != nil {
				return nil, err
			}
			switch keys.How {
			case "panic":
				panic("a map is nil")
			case "panic with an error":
				panic(io.ErrShortBuffer)
			case "both":
				return &listSource{}, io.ErrUnexpectedEOF
			}
			return nil, nil
		}}))
	require.NoError(t, c.RegisterSink(ports.SinkModule{ModuleInfo: infoOf("sink", "queue"), Check: checkQueue, Writes: placeOfQueue,
		Open: func(ctx context.Context, env ports.Env, section ports.ModuleConfig, queues ports.QueueResolver) (ports.Sink, error) {
			keys, err := queueOf(section)
			if err != nil {
				return nil, err
			}
			if err := r.open(ctx, env.Name); err != nil {
				return nil, err
			}
			return &queueSink{r, env.Name, keys.Queue, queues}, nil
		}}))
	require.NoError(t, c.RegisterSink(ports.SinkModule{ModuleInfo: infoOf("sink", "plain"), Check: checkNoKeys,
		Open: func(_ context.Context, env ports.Env, _ ports.ModuleConfig, _ ports.QueueResolver) (ports.Sink, error) {
			if env.Name == "quakes/nothing" {
				return nil, nil
			}
			return plainSink{}, nil
		}}))
}

const pipelines = `
[storage]
module = "disk"
[queue.orders]
module = "house"
[[pipeline]]
id = "quakes"
source = { module = "list" }
event_time = "time"
fields = { mag = "number", time = "number", net = "string" }
[[pipeline.monitor]]
id = "strong"
when = "mag >= 4.5"
gate = { threshold = 2, window = "1h", key = "net" }
sinks = ["alerts", "log"]
[[pipeline.sink]]
id = "alerts"
module = "queue"
queue = "orders"
[[pipeline.sink]]
id = "log"
module = "plain"
[[pipeline]]
id = "replays"
[[pipeline.sink]]
id = "alerts"
module = "queue"
queue = "made-later"
`

func TestPipelinesAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	comp := composeStorage(t, &recorder{}, pipelines, catalog.Options{})
	list := comp.Pipelines()
	require.Len(t, list, 2)
	assert.EqualValues(t, "quakes", list[0].ID)
	assert.EqualValues(t, "replays", list[1].ID)
	list[0].ID = "changed"
	assert.EqualValues(t, "quakes", comp.Pipelines()[0].ID, "the list is the caller's")
	for _, p := range comp.Pipelines() {
		require.NoError(t, comp.CheckPipeline(p))
	}
}

func TestSourcesAndSinksAreOpenedAnewAndBelongToTheCaller(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	comp := composeStorage(t, r, pipelines, catalog.Options{})
	quakes := comp.Pipelines()[0]
	first, err := comp.OpenSource(t.Context(), quakes, nil)
	require.NoError(t, err)
	assert.Nil(t, first.(*listSource).from)
	from := types.Cursor{Primary: 7, Secondary: 1}
	second, err := comp.OpenSource(t.Context(), quakes, &from)
	require.NoError(t, err)
	assert.NotSame(t, first, second)
	assert.Equal(t, &from, second.(*listSource).from)

	alerts, err := comp.OpenSink(t.Context(), quakes.ID, quakes.Sinks[0])
	require.NoError(t, err)
	other, err := comp.OpenSink(t.Context(), quakes.ID, quakes.Sinks[0])
	require.NoError(t, err)
	assert.NotSame(t, alerts, other)
	require.NoError(t, alerts.Deliver(t.Context(), types.SinkEvent{}))
	queue, err := comp.Queue(t.Context(), "orders")
	require.NoError(t, err)
	stats, err := queue.Stats(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, stats.Total)

	require.NoError(t, comp.Close(t.Context()))
	assert.Equal(t, []string{"open quakes", "open quakes", "open quakes/alerts", "open quakes/alerts", "open house", "close house"}, r.seen(),
		"a source is named by its pipeline, a sink by both, and the composition closes neither")
	require.NoError(t, first.Close())
	require.ErrorIs(t, alerts.Deliver(t.Context(), types.SinkEvent{}), ports.ErrStoreClosed)
}

func TestASinkDeliversToAQueueThatWasMadeLater(t *testing.T) {
	t.Parallel()
	comp := composeStorage(t, &recorder{}, pipelines, catalog.Options{})
	replays := comp.Pipelines()[1]
	sink, err := comp.OpenSink(t.Context(), replays.ID, replays.Sinks[0])
	require.NoError(t, err)
	require.ErrorIs(t, sink.Deliver(t.Context(), types.SinkEvent{}), ports.ErrNotFound)
	owner, err := comp.Owner(t.Context())
	require.NoError(t, err)
	require.NoError(t, owner.Create(t.Context(), "made-later"))
	require.NoError(t, sink.Deliver(t.Context(), types.SinkEvent{}))
	_, err = comp.OpenSource(t.Context(), replays, nil)
	require.ErrorIs(t, err, ports.ErrNotFound)
	require.ErrorContains(t, err, `the pipeline "replays" has no source`)
}

// A pipeline of a resource stands in no file, and is checked and opened as one that does.
func TestPipelinesOfResources(t *testing.T) {
	t.Parallel()
	comp := composeStorage(t, &recorder{}, "[queue.orders]\nmodule = 'house'\n[queue.results]\nmodule = 'house'\n", catalog.Options{})
	pipeline := func(text string) config.Pipeline {
		p, err := config.ParsePipeline("p", []byte(text))
		require.NoError(t, err)
		return p
	}
	good := pipeline(`{"source":{"module":"queue","queue":"orders"},"monitor":[{"id":"m","when":"mag > 4","sinks":["s"]}],
		"sink":[{"id":"s","module":"queue","queue":"results"}]}`)
	require.NoError(t, comp.CheckPipeline(good))
	_, err := comp.OpenSource(t.Context(), good, nil)
	require.NoError(t, err)
	sink, err := comp.OpenSink(t.Context(), good.ID, good.Sinks[0])
	require.NoError(t, err)
	require.NoError(t, sink.Deliver(t.Context(), types.SinkEvent{}))

	const monitor = `"monitor":[{"id":"m","sinks":["s"]}],"sink":[{"id":"s","module":"plain"}]}`
	for at, tc := range map[string]struct{ text, want string }{
		"source.module":       {`{"source":{"module":"lost"},` + monitor, `the module "lost" of [source.p] is unknown among the source modules: known are broken, list, queue`},
		"source.queue":        {`{"source":{"module":"queue","queue":""},` + monitor, "[source.p]: queue is empty"},
		"source.que":          {`{"source":{"module":"queue","que":""},` + monitor, "allowed are module, queue"},
		"event_time":          {`{"source":{"module":"list"},"event_time":"1 +",` + monitor, "the key event_time of [pipeline.p]: "},
		"monitor[0].when":     {`{"source":{"module":"list"},"monitor":[{"id":"m","when":"mag >","sinks":["s"]}],"sink":[{"id":"s","module":"plain"}]}`, "the key when of [monitor.p/m]: "},
		"monitor[0].gate.key": {`{"source":{"module":"list"},"monitor":[{"id":"m","gate":{"key":"("},"sinks":["s"]}],"sink":[{"id":"s","module":"plain"}]}`, "the key gate.key of [monitor.p/m]: "},
		"sink[0].queue":       {`{"sink":[{"id":"s","module":"queue","queue":""}]}`, "[sink.p/s]: queue is empty"},
		"sink[0].module":      {`{"sink":[{"id":"s","module":"list"}]}`, "known are plain, queue; the module of that name is of another kind"},
	} {
		err := comp.CheckPipeline(pipeline(tc.text))
		var fault *config.Fault
		require.ErrorIs(t, err, ports.ErrInvalidConfig, at)
		require.ErrorAs(t, err, &fault, at)
		assert.Equal(t, config.Position{Path: at}, fault.At, "%v", err)
		assert.Contains(t, err.Error(), "INVALID_CONFIG: "+at+": ", at)
		assert.Contains(t, err.Error(), tc.want, at)
	}
}

// A pipeline that a program makes is checked too.
func TestPipelinesWithoutAText(t *testing.T) {
	t.Parallel()
	cfg, err := config.Default(t.TempDir())
	require.NoError(t, err)
	pipeline := config.Pipeline{ID: "p", Sinks: []config.Sink{{ID: "s", Store: config.Store{Module: "plain"}}}}
	cfg.Pipelines = []config.Pipeline{pipeline}
	comp, err := withStorage(t, &recorder{}).Compose(cfg, catalog.Options{})
	require.NoError(t, err)
	_, err = comp.OpenSink(t.Context(), "p", pipeline.Sinks[0])
	require.NoError(t, err)
	pipeline.Monitors = []config.Monitor{{ID: "m", Sinks: []types.SinkID{"s"}}}
	require.ErrorContains(t, comp.CheckPipeline(pipeline), "has a monitor but no source")
	require.NoError(t, comp.Close(t.Context()))

	cfg.Pipelines = append(cfg.Pipelines, cfg.Pipelines[0])
	_, err = withStorage(t, &recorder{}).Compose(cfg, catalog.Options{})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorContains(t, err, `two pipelines have the id "p"`)
}

func TestComposeRefusesPipelines(t *testing.T) {
	t.Parallel()
	const (
		head = "[[pipeline]]\nid = 'p'\nsource = { module = 'list' }\n"
		tail = "[[pipeline.monitor]]\nid = 'm'\nsinks = ['s']\n[[pipeline.sink]]\nid = 's'\nmodule = 'plain'\n"
		sink = "[[pipeline]]\nid = 'p'\n[[pipeline.sink]]\nid = 's'\n"
	)
	for _, tc := range []struct {
		name, text string
		line       int
		want       []string
	}{
		{"an unknown source", "[[pipeline]]\nid = 'p'\nsource = {\n module = 'x' }\n" + tail, 4, []string{`the module "x" of [source.p] is unknown among the source modules: known are broken, list, queue`}},
		{"a sink module for a source", "[[pipeline]]\nid = 'p'\nsource.module = 'plain'\n" + tail, 3, []string{"of another kind"}},
		{"an unknown key of a source", "[[pipeline]]\nid = 'p'\nsource.module = 'list'\nsource.url = 'x'\n" + tail, 4, []string{`"url" is unknown in [pipeline[0].source]: allowed are module`}},
		{"what the source refuses", "[[pipeline]]\nid = 'p'\n[pipeline.source]\nmodule = 'queue'\nqueue = ''\n" + tail, 5, []string{"[source.p]: queue is empty"}},
		{"an unknown sink", sink + "module = 'x'\n", 5, []string{`the module "x" of [sink.p/s] is unknown among the sink modules: known are plain, queue`}},
		{"an unknown key of a sink", sink + "module = 'plain'\nurl = 'x'\n", 6, []string{`"url" is unknown in [pipeline[0].sink[0]]: allowed are id, module, retry`}},
		{"what the sink refuses", sink + "module = 'queue'\nqueue = ''\n", 6, []string{"[sink.p/s]: queue is empty"}},
		{"an expression", head + "[[pipeline.monitor]]\nid = 'm'\nsinks = ['s']\nwhen = 'mag >'\n[[pipeline.sink]]\nid = 's'\nmodule = 'plain'\n", 7, []string{"the key when of [monitor.p/m]: "}},
		{"the key of a gate", head + "[[pipeline.monitor]]\nid = 'm'\nsinks = ['s']\ngate.threshold = 1\ngate.key = ')'\n[[pipeline.sink]]\nid = 's'\nmodule = 'plain'\n", 8, []string{"the key gate.key of [monitor.p/m]: "}},
		{"an event time", head + "\nevent_time = '1 +'\n" + tail, 5, []string{"the key event_time of [pipeline.p]: "}},
		{"the first of two faults in the file", sink + "module = 'x'\n[kv.a]\nmodule = 'x'\n", 5, []string{"[sink.p/s]"}},
		{"the other way round", "[kv.a]\nmodule = 'x'\n" + sink + "module = 'x'\n", 2, []string{"[kv.a]"}},
	} {
		r := &recorder{}
		stateDir := filepath.Join(t.TempDir(), "state")
		_, err := withStorage(t, r).Compose(parse(t, stateDir, tc.text), catalog.Options{})
		var fault *config.Fault
		if !assert.ErrorIs(t, err, ports.ErrInvalidConfig, tc.name) || !assert.ErrorAs(t, err, &fault, tc.name) {
			continue
		}
		assert.Equal(t, config.Position{File: "stowage.toml", Line: tc.line}, fault.At, "%s: %v", tc.name, err)
		for _, want := range tc.want {
			assert.Contains(t, err.Error(), want, tc.name)
		}
		assert.Empty(t, r.seen(), tc.name)
		assert.NoDirExists(t, stateDir, tc.name)
	}
}

func TestModulesOfPipelinesThatFail(t *testing.T) {
	t.Parallel()
	refused := ports.Errorf(ports.CodeBackendFailed, "test.open", "the disk is full").WithReason(ports.ReasonDiskFull)
	r := &recorder{openErr: map[string]error{"quakes": refused}}
	comp := composeStorage(t, r, pipelines, catalog.Options{})
	_, err := comp.OpenSource(t.Context(), comp.Pipelines()[0], nil)
	require.ErrorIs(t, err, ports.ErrDiskFull)
	require.ErrorContains(t, err, "opening source.quakes: test.open: ")
	_, err = comp.OpenSource(t.Context(), comp.Pipelines()[0], nil)
	require.NoError(t, err, "the next call tries again")

	broken := func(how string) config.Pipeline {
		p, err := config.ParsePipeline("p", fmt.Appendf(nil, `{"source":{"module":"broken","how":%q},"monitor":[{"id":"m","sinks":["s"]}],"sink":[{"id":"s","module":"plain"}]}`, how))
		require.NoError(t, err)
		require.NoError(t, comp.CheckPipeline(p))
		return p
	}
	for how, want := range map[string]string{
		"nothing":             "opening source.p: catalog: BINDING_SETUP_FAILED: the module broken returned neither a source nor an error: this is a fault of the module",
		"panic":               "opening source.p: catalog: BINDING_SETUP_FAILED: the module panicked: a map is nil: this is a fault of the module",
		"panic with an error": "the module panicked: short buffer",
	} {
		source, err := comp.OpenSource(t.Context(), broken(how), nil)
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed, how)
		require.ErrorContains(t, err, want, how)
		assert.Nil(t, source, how)
	}
	source, err := comp.OpenSource(t.Context(), broken("both"), nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Nil(t, source, "an error comes without a source")

	_, err = comp.OpenSink(t.Context(), "quakes", config.Sink{ID: "nothing", Store: config.Store{Module: "plain"}})
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	require.ErrorContains(t, err, "returned neither a sink nor an error")
	_, err = comp.OpenSink(t.Context(), "quakes", config.Sink{ID: "x", Store: config.Store{Module: "lost"}})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	unknown := comp.Pipelines()[0]
	unknown.Source = &config.Source{Store: config.Store{Module: "lost"}}
	_, err = comp.OpenSource(t.Context(), unknown, nil)
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
}

func TestAnEndedContextEndsTheOpeningOfASource(t *testing.T) {
	t.Parallel()
	r := &recorder{openBlock: map[string]chan struct{}{"quakes": make(chan struct{})}}
	comp := composeStorage(t, r, pipelines, catalog.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	opening := make(chan error, 1)
	go func() {
		_, err := comp.OpenSource(ctx, comp.Pipelines()[0], nil)
		opening <- err
	}()
	require.Eventually(t, func() bool { return len(r.seen()) == 1 }, eventually, tick)
	cancel()
	require.ErrorIs(t, <-opening, context.Canceled)
}

func TestAfterCloseNoPartIsOpened(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	comp := composeStorage(t, r, pipelines, catalog.Options{})
	require.NoError(t, comp.Close(t.Context()))
	quakes := comp.Pipelines()[0]
	require.ErrorIs(t, comp.CheckPipeline(quakes), ports.ErrStoreClosed)
	_, err := comp.OpenSource(t.Context(), quakes, nil)
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	_, err = comp.OpenSink(t.Context(), quakes.ID, quakes.Sinks[0])
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	_, err = comp.OpenSink(t.Context(), quakes.ID, config.Sink{ID: "s", Store: config.Store{Module: "lost"}})
	require.ErrorIs(t, err, ports.ErrStoreClosed, "whatever else is wrong")
	assert.Empty(t, r.seen())
}

// A source that asks for its queue while it is opened does not get in the way of a Close that began in
// between.
func TestCloseWhileASourceAsksForItsQueue(t *testing.T) {
	t.Parallel()
	const text = "[queue.orders]\nmodule = 'house'\n[[pipeline]]\nid = 'p'\nsource = { module = 'queue', queue = 'orders' }\n" +
		"[[pipeline.monitor]]\nid = 'm'\nsinks = ['s']\n[[pipeline.sink]]\nid = 's'\nmodule = 'plain'\n"
	for range 50 {
		r := &recorder{}
		comp := composeStorage(t, r, text, catalog.Options{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				source, err := comp.OpenSource(t.Context(), comp.Pipelines()[0], nil)
				if err != nil {
					assert.ErrorIs(t, err, ports.ErrStoreClosed)
					return
				}
				assert.NoError(t, source.Close())
			})
		}
		wg.Go(func() { assert.NoError(t, comp.Close(t.Context())) })
		wg.Wait()
	}

	block := make(chan struct{})
	r := &recorder{openBlock: map[string]chan struct{}{"house": block}}
	comp := composeStorage(t, r, text, catalog.Options{})
	opening := make(chan error, 1)
	go func() {
		_, err := comp.OpenSource(t.Context(), comp.Pipelines()[0], nil)
		opening <- err
	}()
	require.Eventually(t, func() bool { return len(r.seen()) == 2 }, eventually, tick)
	require.NoError(t, comp.Close(t.Context()))
	err := <-opening
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.NotErrorIs(t, err, context.Canceled)
}
