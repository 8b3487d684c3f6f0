package catalog_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

type recordedStorage struct {
	*model.Storage
	r *recorder
}

func (s *recordedStorage) Close() error                          { return s.r.close("storage", s.Storage.Close) }
func (s *recordedStorage) HealthCheck(ctx context.Context) error { return s.r.check(ctx, "storage") }

// closingSink has something to close, and sends to a queue.
type closingSink struct {
	r      *recorder
	name   string
	queue  string
	queues ports.QueueResolver
}

func (s *closingSink) Deliver(ctx context.Context, _ types.SinkEvent) error {
	q, err := s.queues.Queue(ctx, s.queue)
	if err != nil {
		return err
	}
	return q.Send(ctx, types.Text("delivered"), types.SendOptions{})
}

func (s *closingSink) Close() error                          { return s.r.close(s.name, func() error { return nil }) }
func (s *closingSink) HealthCheck(ctx context.Context) error { return s.r.check(ctx, s.name) }

type plainSink struct{}

func (plainSink) Deliver(context.Context, types.SinkEvent) error { return nil }

// withStorage adds fakes: storage modules disk and ram, sink modules queue and plain.
func withStorage(t *testing.T, r *recorder) *catalog.Catalog {
	t.Helper()
	c := newCatalog(t, r)
	open := func(ctx context.Context, env ports.Env, _ ports.ModuleConfig) (ports.Storage, error) {
		if err := r.open(ctx, "storage"); err != nil {
			return nil, err
		}
		return &recordedStorage{model.NewStorage(0), r}, nil
	}
	require.NoError(t, c.RegisterStorage(ports.StorageModule{ModuleInfo: infoOf("storage", "disk"), Paths: paths, Open: open}))
	require.NoError(t, c.RegisterStorage(ports.StorageModule{ModuleInfo: infoOf("storage", "ram"), Open: open}))
	type keys struct {
		Queue string `toml:"queue"`
	}
	check := func(_ ports.Env, section ports.ModuleConfig) error {
		var k keys
		if err := section.Decode(&k); err != nil {
			return err
		}
		if k.Queue == "" {
			return ports.Errorf(ports.CodeInvalidConfig, "test.sink", "queue is empty")
		}
		return nil
	}
	require.NoError(t, c.RegisterSink(ports.SinkModule{ModuleInfo: infoOf("sink", "queue"), Check: check,
		Open: func(ctx context.Context, env ports.Env, section ports.ModuleConfig, queues ports.QueueResolver) (ports.Sink, error) {
			if err := r.open(ctx, env.Name); err != nil {
				return nil, err
			}
			var k keys
			if err := section.Decode(&k); err != nil {
				return nil, err
			}
			return &closingSink{r, env.Name, k.Queue, queues}, nil
		}}))
	require.NoError(t, c.RegisterSink(ports.SinkModule{ModuleInfo: infoOf("sink", "plain"),
		Check: func(_ ports.Env, section ports.ModuleConfig) error { return section.Decode(&struct{}{}) },
		Open: func(context.Context, ports.Env, ports.ModuleConfig, ports.QueueResolver) (ports.Sink, error) {
			return plainSink{}, nil
		}}))
	return c
}

func composeStorage(t *testing.T, r *recorder, text string, opts catalog.Options) *catalog.Composition {
	t.Helper()
	comp, err := withStorage(t, r).Compose(parse(t, t.TempDir(), text), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = comp.Close(context.Background()) })
	return comp
}

const pipelines = `
[storage]
module = "disk"
[queue.orders]
module = "house"
[[pipeline]]
id = "quakes"
[[pipeline.sink]]
id = "alerts"
module = "queue"
queue = "orders"
[[pipeline.sink]]
id = "log"
module = "plain"
[[pipeline]]
id = "quakes.sink"
[[pipeline.sink]]
id = "alerts"
module = "queue"
queue = "made-later"
`

func TestTheStorageIsOpenedOnceAndClosedLast(t *testing.T) {
	t.Parallel()
	ill := errors.New("the disk is ill")
	r := &recorder{health: map[string]func(context.Context) error{"storage": func(context.Context) error { return ill }}}
	comp := composeStorage(t, r, pipelines, catalog.Options{})
	assert.Equal(t, []string{"queue.orders", "sink.quakes.sink/alerts", "sink.quakes/alerts", "sink.quakes/log", "storage"}, comp.Names())
	assert.Equal(t, "disk", comp.StorageModule())
	assert.Empty(t, r.seen())

	storage, err := comp.Storage(t.Context())
	require.NoError(t, err)
	require.NoError(t, storage.Pause(t.Context(), types.PipelineOf("quakes")))
	again, err := comp.Storage(t.Context())
	require.NoError(t, err)
	assert.Same(t, storage, again)
	assert.Equal(t, ill, comp.HealthCheck(t.Context())["storage"])

	sink, err := comp.Sink(t.Context(), "quakes", "alerts")
	require.NoError(t, err)
	require.NoError(t, sink.Deliver(t.Context(), types.SinkEvent{}))
	_, err = comp.Sink(t.Context(), "quakes", "log")
	require.NoError(t, err)
	require.NoError(t, comp.Close(t.Context()))
	assert.Equal(t, []string{"open storage", "open quakes/alerts", "open house", "close house", "close quakes/alerts", "close storage"}, r.seen())
	_, err = comp.Storage(t.Context())
	require.ErrorIs(t, err, ports.ErrStoreClosed)
}

func TestASinkDeliversToAQueueThatWasMadeLater(t *testing.T) {
	t.Parallel()
	comp := composeStorage(t, &recorder{}, pipelines, catalog.Options{})
	sink, err := comp.Sink(t.Context(), "quakes.sink", "alerts")
	require.NoError(t, err)
	require.ErrorIs(t, sink.Deliver(t.Context(), types.SinkEvent{}), ports.ErrNotFound)
	owner, err := comp.Owner(t.Context())
	require.NoError(t, err)
	require.NoError(t, owner.Create(t.Context(), "made-later"))
	require.NoError(t, sink.Deliver(t.Context(), types.SinkEvent{}))

	_, err = comp.Sink(t.Context(), "quakes", "other")
	require.ErrorIs(t, err, ports.ErrNotFound)
	require.ErrorContains(t, err, "there are quakes.sink/alerts, quakes/alerts, quakes/log")
}

func TestTheDefaultStorage(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	comp := composeStorage(t, r, "", catalog.Options{StorageModule: "ram"})
	assert.Equal(t, "ram", comp.StorageModule())
	_, err := comp.Storage(t.Context())
	require.NoError(t, err)

	configured := composeStorage(t, r, "[storage]\nmodule = 'disk'\n", catalog.Options{StorageModule: "ram"})
	assert.Equal(t, "disk", configured.StorageModule())

	none := composeStorage(t, r, "", catalog.Options{})
	assert.Empty(t, none.StorageModule())
	_, err = none.Storage(t.Context())
	require.ErrorIs(t, err, ports.ErrNotFound)
	require.ErrorContains(t, err, "add [storage]")
	_, err = none.Sink(t.Context(), "a", "b")
	require.ErrorContains(t, err, "there are none")
}

func TestComposeRefusesStoragesAndSinks(t *testing.T) {
	t.Parallel()
	const sink = "[[pipeline]]\nid = 'p'\n[[pipeline.sink]]\nid = 's'\n"
	for _, tc := range []struct {
		name, text string
		line       int
		want       []string
	}{
		{"an unknown storage", "[storage]\nmodule = 'x'\n", 2, []string{`the module "x" of [storage] is unknown among the storage modules: known are disk, ram`}},
		{"a kv module for a storage", "[storage]\nmodule = 'plain'\n", 2, []string{"of another kind"}},
		{"an unknown key", "[storage]\nmodule = 'disk'\nconfig.x = 1\n", 3, []string{"allowed are path, refuse, second"}},
		{"what the storage refuses", "[storage]\nmodule = 'disk'\nconfig.refuse = true\n", 3, []string{"[storage.config]: refuse is set"}},
		{"one path for a storage and a kv", "[storage]\nmodule = 'disk'\nconfig.path = 'x'\n[kv.a]\nmodule = 'files'\nconfig.path = 'x'\n", 4, []string{"[kv.a] and [storage]"}},
		{"an unknown sink", sink + "module = 'x'\n", 5, []string{`the module "x" of [sink.p/s] is unknown among the sink modules: known are plain, queue`}},
		{"an unknown key of a sink", sink + "module = 'plain'\nurl = 'x'\n", 6, []string{`"url" is unknown`}},
		{"what the sink refuses", sink + "module = 'queue'\nqueue = ''\n", 6, []string{"[sink.p/s]: queue is empty"}},
	} {
		r := &recorder{}
		stateDir := filepath.Join(t.TempDir(), "state")
		_, err := withStorage(t, r).Compose(parse(t, stateDir, tc.text), catalog.Options{})
		var fault *config.Fault
		if !assert.ErrorAs(t, err, &fault, tc.name) {
			continue
		}
		assert.Equal(t, tc.line, fault.At.Line, "%s: %v", tc.name, err)
		for _, want := range tc.want {
			assert.Contains(t, err.Error(), want, tc.name)
		}
		assert.Empty(t, r.seen(), tc.name)
		assert.NoDirExists(t, stateDir, tc.name)
	}
}

func TestRegisterStoragesAndSinks(t *testing.T) {
	t.Parallel()
	c := withStorage(t, &recorder{})
	require.ErrorIs(t, c.RegisterStorage(ports.StorageModule{ModuleInfo: infoOf("storage", "none")}), ports.ErrInvalidInput)
	require.ErrorIs(t, c.RegisterSink(ports.SinkModule{ModuleInfo: infoOf("sink", "none")}), ports.ErrInvalidInput)
	var names []string
	for _, m := range c.Modules() {
		names = append(names, string(m.Kind)+" "+m.Name)
	}
	assert.Equal(t, []string{"kv files", "kv plain", "queue hotel", "queue house", "queue single",
		"sink plain", "sink queue", "storage disk", "storage ram"}, names)
}
