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

// withStorage adds fakes: storage modules disk and ram, and those of withParts.
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
	withParts(t, c, r)
	return c
}

func composeStorage(t *testing.T, r *recorder, text string, opts catalog.Options) *catalog.Composition {
	t.Helper()
	comp, err := withStorage(t, r).Compose(parse(t, t.TempDir(), text), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = comp.Close(context.Background()) })
	return comp
}

func TestTheStorageIsOpenedOnceAndClosedInItsTurn(t *testing.T) {
	t.Parallel()
	ill := errors.New("the disk is ill")
	r := &recorder{health: map[string]func(context.Context) error{"storage": func(context.Context) error { return ill }}}
	comp := composeStorage(t, r, pipelines, catalog.Options{})
	assert.Equal(t, []string{"queue.orders", "storage"}, comp.Names(), "sources and sinks are opened by whoever runs the pipelines")
	assert.Equal(t, "disk", comp.StorageModule())
	assert.Empty(t, r.seen())

	storage, err := comp.Storage(t.Context())
	require.NoError(t, err)
	require.NoError(t, storage.Pause(t.Context(), types.PipelineOf("quakes")))
	again, err := comp.Storage(t.Context())
	require.NoError(t, err)
	assert.Same(t, storage, again)
	assert.Equal(t, ill, comp.HealthCheck(t.Context())["storage"])

	_, err = comp.Queue(t.Context(), "orders")
	require.NoError(t, err)
	require.NoError(t, comp.Close(t.Context()))
	assert.Equal(t, []string{"open storage", "open house", "close house", "close storage"}, r.seen())
	_, err = comp.Storage(t.Context())
	require.ErrorIs(t, err, ports.ErrStoreClosed)
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
}

func TestComposeRefusesStorages(t *testing.T) {
	t.Parallel()
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

func TestRegisterStoragesSourcesAndSinks(t *testing.T) {
	t.Parallel()
	c := withStorage(t, &recorder{})
	require.ErrorIs(t, c.RegisterStorage(ports.StorageModule{ModuleInfo: infoOf("storage", "none")}), ports.ErrInvalidInput)
	noCheck := func(ports.Env, ports.ModuleConfig) error { return nil }
	require.ErrorIs(t, c.RegisterSink(ports.SinkModule{ModuleInfo: infoOf("sink", "none"), Check: noCheck}), ports.ErrInvalidInput)
	require.ErrorIs(t, c.RegisterSource(ports.SourceModule{ModuleInfo: infoOf("source", "none"), Check: noCheck}), ports.ErrInvalidInput)
	require.ErrorIs(t, c.RegisterSource(ports.SourceModule{ModuleInfo: infoOf("source", "none"),
		Open: func(context.Context, ports.Env, ports.ModuleConfig, *types.Cursor, ports.QueueResolver) (ports.Source, error) {
			return nil, nil
		}}), ports.ErrInvalidInput)
	require.ErrorIs(t, c.RegisterSource(ports.SourceModule{ModuleInfo: infoOf("source", "queue"), Check: noCheck,
		Open: func(context.Context, ports.Env, ports.ModuleConfig, *types.Cursor, ports.QueueResolver) (ports.Source, error) {
			return nil, nil
		}}), ports.ErrAlreadyExists)
	var names []string
	for _, m := range c.Modules() {
		names = append(names, string(m.Kind)+" "+m.Name)
	}
	assert.Equal(t, []string{"kv files", "kv plain", "queue hotel", "queue house", "queue single",
		"sink plain", "sink queue", "source broken", "source list", "source queue", "storage disk", "storage ram"}, names)
}
