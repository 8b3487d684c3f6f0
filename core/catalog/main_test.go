package catalog_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// How long a test waits for what other goroutines do, and how often it looks.
const (
	eventually = 10 * time.Second
	tick       = time.Millisecond
)

// recorder notes what modules are asked to do, in order, and says how they do it.
type recorder struct {
	mu     sync.Mutex
	events []string

	openErr   map[string]error         // by the name of the store, taken once
	openBlock map[string]chan struct{} // opening waits for its close, or for its context
	closeErr  map[string]error
	health    map[string]func(context.Context) error
}

func (r *recorder) note(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

func (r *recorder) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

func (r *recorder) open(ctx context.Context, name string) error {
	r.note("open " + name)
	if block := r.openBlock[name]; block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.openErr[name]
	delete(r.openErr, name)
	return err
}

func (r *recorder) close(name string, close func() error) error {
	r.note("close " + name)
	return errors.Join(r.closeErr[name], close())
}

func (r *recorder) check(ctx context.Context, name string) error {
	if check := r.health[name]; check != nil {
		return check(ctx)
	}
	return nil
}

type recordedKv struct {
	*model.Kv
	r    *recorder
	name string
}

func (k *recordedKv) Close() error                          { return k.r.close(k.name, k.Kv.Close) }
func (k *recordedKv) HealthCheck(ctx context.Context) error { return k.r.check(ctx, k.name) }

type recordedQueue struct {
	*model.Queue
	r    *recorder
	name string
}

func (q *recordedQueue) Close() error { return q.r.close(q.name, q.Queue.Close) }

type recordedOwner struct {
	*model.Owner
	r    *recorder
	name string
}

func (o *recordedOwner) Close() error                          { return o.r.close(o.name, o.Owner.Close) }
func (o *recordedOwner) HealthCheck(ctx context.Context) error { return o.r.check(ctx, o.name) }

// settings is the configuration of the test's modules.
type settings struct {
	Path   string `toml:"path"`
	Second string `toml:"second"`
	Refuse bool   `toml:"refuse"`
}

func paths(env ports.Env, section ports.ModuleConfig) ([]string, error) {
	set := settings{Path: filepath.Join("stores", env.Name)}
	if err := section.Decode(&set); err != nil {
		return nil, err
	}
	if set.Refuse {
		return nil, ports.Errorf(ports.CodeInvalidConfig, "test.open", "refuse is set")
	}
	var all []string
	for _, path := range []string{set.Path, set.Second} {
		if path != "" && !filepath.IsAbs(path) && path != "relative" {
			path = env.StateDir + string(filepath.Separator) + path
		}
		if path != "" {
			all = append(all, path)
		}
	}
	return all, nil
}

func info(name string) ports.ModuleInfo { return infoOf("kv", name) }

func infoOf(kind, name string) ports.ModuleInfo {
	return ports.ModuleInfo{
		Name:        name,
		Description: "a module of the test",
		Example:     "[" + kind + ".default]\nmodule = \"" + name + "\"\n",
	}
}

// newCatalog registers fakes: kv modules files and plain, queue modules single, house (an owner) and
// hotel (another owner).
func newCatalog(t *testing.T, r *recorder) *catalog.Catalog {
	t.Helper()
	c := catalog.New()
	openKv := func(ctx context.Context, env ports.Env, section ports.ModuleConfig) (ports.KvStore, error) {
		if err := r.open(ctx, env.Name); err != nil {
			return nil, err
		}
		return &recordedKv{model.NewKv(env.Clock), r, env.Name}, nil
	}
	require.NoError(t, c.RegisterKv(ports.KvModule{ModuleInfo: info("files"), Paths: paths, Open: openKv}))
	require.NoError(t, c.RegisterKv(ports.KvModule{ModuleInfo: info("plain"), Open: openKv}))
	require.NoError(t, c.RegisterQueue(ports.QueueModule{ModuleInfo: infoOf("queue", "single"), Paths: paths,
		Open: func(ctx context.Context, env ports.Env, section ports.ModuleConfig) (ports.QueueStore, error) {
			if err := r.open(ctx, env.Name); err != nil {
				return nil, err
			}
			return &recordedQueue{model.NewQueue(env.Clock), r, env.Name}, nil
		}}))
	for _, name := range []string{"house", "hotel"} {
		require.NoError(t, c.RegisterQueue(ports.QueueModule{ModuleInfo: infoOf("queue", name), Paths: paths,
			OpenOwner: func(ctx context.Context, env ports.Env, queues map[string]ports.ModuleConfig) (ports.QueueOwnerStore, error) {
				if err := r.open(ctx, name); err != nil {
					return nil, err
				}
				if env.Name != "" {
					return nil, errors.New("the environment of an owner has a name")
				}
				owner := model.NewOwner(env.Clock, slices.Collect(maps.Keys(queues))...)
				return &recordedOwner{owner, r, name}, nil
			}}))
	}
	return c
}

func parse(t *testing.T, stateDir, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("stowage.toml", []byte(text))
	require.NoError(t, err)
	require.NoError(t, c.SetStateDir(stateDir))
	return c
}

func compose(t *testing.T, r *recorder, text string) *catalog.Composition {
	t.Helper()
	comp, err := newCatalog(t, r).Compose(parse(t, t.TempDir(), text), catalog.Options{
		Clock: fixture.NewClock(fixture.Epoch()),
		Log:   fixture.Logger(t),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = comp.Close(context.Background()) })
	return comp
}
