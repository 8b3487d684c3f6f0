package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stowage-go/stowage/adapters/adminhttp"
	"github.com/stowage-go/stowage/adapters/eventlog"
	"github.com/stowage-go/stowage/adapters/localkv"
	"github.com/stowage-go/stowage/adapters/localqueue"
	"github.com/stowage-go/stowage/adapters/memory"
	"github.com/stowage-go/stowage/adapters/metrics"
	"github.com/stowage-go/stowage/adapters/ndjson"
	"github.com/stowage-go/stowage/adapters/queuehttp"
	"github.com/stowage-go/stowage/adapters/sqlite"
	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/adapters/webhook"
	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// ownerModule is the module that owns the queues of a daemon's state directory.
const ownerModule = localqueue.ModuleName

// storageModule opens the storage of a configuration that names none.
const storageModule = sqlite.ModuleName

// The modules of this binary.
var (
	storageModules = []ports.StorageModule{sqlite.Module(), memory.StorageModule()}
	sourceModules  = []ports.SourceModule{ndjson.SourceModule(), pipeline.QueueSourceModule(), eventlog.Module()}
	sinkModules    = []ports.SinkModule{webhook.SinkModule(), pipeline.QueueSinkModule(), ndjson.SinkModule(), ndjson.StdoutModule()}
	kvModules      = []ports.KvModule{localkv.Module(), memory.KvModule()}
	queueModules   = []ports.QueueModule{localqueue.Module(), queuehttp.Module(), memory.QueueModule()}
)

func newCatalog() *catalog.Catalog {
	c := catalog.New()
	var errs []error
	for _, m := range storageModules {
		errs = append(errs, c.RegisterStorage(m))
	}
	for _, m := range sourceModules {
		errs = append(errs, c.RegisterSource(m))
	}
	for _, m := range sinkModules {
		errs = append(errs, c.RegisterSink(m))
	}
	for _, m := range kvModules {
		errs = append(errs, c.RegisterKv(m))
	}
	for _, m := range queueModules {
		errs = append(errs, c.RegisterQueue(m))
	}
	if err := errors.Join(errs...); err != nil {
		panic("stowage: " + err.Error()) // the lists above are wrong, whoever runs it
	}
	return c
}

func moduleList() []module {
	var list []module
	for _, m := range newCatalog().Modules() {
		list = append(list, module{string(m.Kind), m.Name, m.Description, m.Example})
	}
	return list
}

func exampleConfig() string {
	return config.Example(config.ExampleModules{
		Storage: storageModule, Kv: localkv.ModuleName, Queue: localqueue.ModuleName, Source: ndjson.SourceName, Sink: webhook.SinkName,
	})
}

// newComposition composes a configuration, with the modules of this binary and the built-in storage.
func newComposition(cfg *config.Config, log *slog.Logger) (*catalog.Composition, error) {
	return newCatalog().Compose(cfg, catalog.Options{Log: log, OwnerModule: ownerModule, StorageModule: storageModule, Reserved: reserved})
}

// reserved are the directories of the state directory that belong to queues which no configuration names,
// to tokens, and to the running of pipelines.
var reserved = []string{"queue", "queue-owned", "queue-credentials", "pipeline-credentials", "ndjson", "spill"}

// checkConfig validates a configuration and lists its stores, sources and sinks. It opens and creates nothing.
func checkConfig(ctx context.Context, file, stateDir string) ([]configuredStore, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	if stateDir != "" {
		if err := cfg.SetStateDir(stateDir); err != nil {
			return nil, err
		}
	}
	stores, err := newComposition(cfg, nil)
	if err != nil {
		return nil, err
	}
	return configuredStores(cfg), stores.Close(ctx)
}

// configuredStores lists the storage, which may be the built-in one, the stores, and the sources and sinks
// of a configuration that was found good.
func configuredStores(cfg *config.Config) []configuredStore {
	list := []configuredStore{configuredStorage(cfg)}
	for _, name := range slices.Sorted(maps.Keys(cfg.Kv)) {
		s := configuredStore{Kind: string(catalog.KindKv), Name: name, Module: cfg.Kv[name].Module}
		for _, m := range kvModules {
			if m.Name == s.Module {
				s.Paths = pathsOf(m.Paths, cfg, name, cfg.Kv[name])
			}
		}
		list = append(list, s)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Queue)) {
		s := configuredStore{Kind: string(catalog.KindQueue), Name: name, Module: cfg.Queue[name].Module}
		for _, m := range queueModules {
			if m.Name == s.Module {
				s.Paths = pathsOf(m.Paths, cfg, name, cfg.Queue[name])
			}
		}
		list = append(list, s)
	}
	for _, p := range cfg.Pipelines {
		if p.Source != nil {
			list = append(list, configuredStore{Kind: string(catalog.KindSource), Name: string(p.ID), Module: p.Source.Module})
		}
		for _, sink := range p.Sinks {
			list = append(list, configuredStore{Kind: string(catalog.KindSink), Name: string(p.ID) + "/" + string(sink.ID), Module: sink.Module})
		}
	}
	return list
}

// configuredStorage is the storage of a configuration, or the built-in one. One without a path keeps
// nothing.
func configuredStorage(cfg *config.Config) configuredStore {
	storage := config.Store{Module: storageModule}
	if cfg.Storage != nil {
		storage = *cfg.Storage
	}
	s := configuredStore{Kind: string(catalog.KindStorage), Module: storage.Module}
	for _, m := range storageModules {
		if m.Name == s.Module {
			s.Paths = pathsOf(m.Paths, cfg, s.Name, storage)
		}
	}
	return s
}

// pathsOf asks a module for the paths of a store, which it has given before without an error.
func pathsOf(ask func(ports.Env, ports.ModuleConfig) ([]string, error), cfg *config.Config, name string, store config.Store) []string {
	if ask == nil {
		return nil
	}
	if store.Config == nil {
		store.Config = config.NoConfig()
	}
	env := ports.Env{Name: name, StateDir: cfg.StateDir, Clock: ports.SystemClock(), Log: slog.New(slog.DiscardHandler)}
	paths, err := ask(env, store.Config)
	if err != nil {
		return nil
	}
	return paths
}

// newEngine makes what runs the pipelines, those of the configuration and those that are resources.
func newEngine(stores *catalog.Composition, storage ports.Storage, stateDir string, tracer trace.Tracer, log *slog.Logger) (*pipeline.Engine, error) {
	return pipeline.NewEngine(pipeline.Options{
		Storage: storage, Parts: stores, Pipelines: stores.Pipelines(), SpillDir: filepath.Join(stateDir, "spill"), Tracer: tracer, Log: log,
	})
}

// handlerParts are what the HTTP side of a daemon is made of.
type handlerParts struct {
	owner     ports.QueueOwner
	storage   ports.Storage    // nil where there is none
	module    string           // of the storage
	engine    *pipeline.Engine // goes with the storage
	stopping  <-chan struct{}  // closed when a stop begins
	abort     <-chan struct{}  // closed when it waits no longer for answers that are long
	stateDir  string
	endpoint  string // under which applications reach the daemon
	checks    map[string]func(context.Context) error
	version   string
	startedAt time.Time
	log       *slog.Logger
}

// newHandler serves the queue protocol and the operator's side. It makes the tokens of operators that
// are not there yet.
func newHandler(p handlerParts) (http.Handler, error) {
	admin := func() (string, error) { return adminhttp.LoadToken(adminTokenFile(p.stateDir)) }
	read := func() (string, error) { return adminhttp.LoadToken(readTokenFile(p.stateDir)) }
	for _, load := range []func() (string, error){admin, read} {
		if _, err := load(); err != nil {
			return nil, err
		}
	}
	var checks []adminhttp.Check
	for _, name := range slices.Sorted(maps.Keys(p.checks)) {
		checks = append(checks, adminhttp.Check{Name: name, Run: p.checks[name]})
	}
	options := adminhttp.Options{
		Owner:      p.owner,
		Queues:     queuehttp.Handler(p.owner, queuehttp.HandlerOptions{Log: p.log}),
		AdminToken: admin,
		ReadToken:  read,
		Endpoint:   p.endpoint,
		Checks:     checks,
		Abort:      p.abort,
		Version:    p.version,
		StartedAt:  p.startedAt,
		Log:        p.log,
	}
	figures := metrics.Options{Owner: p.owner, Version: p.version, StartedAt: p.startedAt, Log: p.log}
	var err error
	if p.storage != nil {
		handle, err := control.New(control.Options{Storage: p.storage, Sinks: p.engine, Suspender: p.engine, Stopping: p.stopping, Log: p.log})
		if err != nil {
			return nil, err
		}
		options.Storage, options.StorageModule, options.Control = p.storage, p.module, handle
		options.Pipelines = p.engine
		options.EventToken = func(id types.PipelineID) (string, error) { return loadEventToken(p.stateDir, id) }
		figures.Pipelines, figures.Storage = p.engine, p.storage
	}
	if options.Metrics, err = metrics.New(figures); err != nil {
		return nil, err
	}
	return adminhttp.New(options)
}

// loadEventToken is the token with which events are posted to a pipeline, made at the first use.
func loadEventToken(stateDir string, id types.PipelineID) (string, error) {
	dir := credentialsDir(stateDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", ports.Errorf(ports.CodeInvalidConfig, "pipeline.token", "the directory for the tokens of pipelines cannot be made: %w", err)
	}
	return adminhttp.LoadToken(filepath.Join(dir, string(id)))
}

// newWebhookReceiver serves what a webhook sink sends, and hands it over. Without a secret signatures are
// not asked for.
func newWebhookReceiver(secret string, take func(context.Context, types.SinkEvent) error) (http.Handler, error) {
	if secret != "" {
		if _, err := webhook.ParseSecrets(secret); err != nil {
			return nil, err
		}
	}
	return webhook.NewReceiver(webhook.ReceiverOptions{Secret: secret, Handle: func(ctx context.Context, d webhook.Delivery) error {
		return take(ctx, d.Event)
	}}), nil
}

func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	return queuehttp.NewServer(handler, log)
}

// checkEndpoint checks the URL under which a daemon says that it is reached.
func checkEndpoint(endpoint string) error {
	_, err := adminhttp.NewClient(endpoint, "", adminhttp.ClientOptions{})
	return err
}

// newQueueClient makes a client of a queue. It sends nothing.
func newQueueClient(server, id, token string) (ports.QueueStore, error) {
	endpoint, err := url.JoinPath(server, queuehttp.PathPrefix, id)
	if err != nil {
		return nil, usagef("the address of the daemon %q is no URL: give one like %s", server, defaultServer)
	}
	client, err := queuehttp.NewClient(types.QueueBinding{Endpoint: endpoint, Token: token}, queuehttp.Options{})
	if errors.Is(err, ports.ErrBindingSetupFailed) {
		return nil, &exitError{exitUsage, err}
	}
	if err != nil {
		return nil, err
	}
	return client, nil
}

func newAdminClient(server, token string) (adminClient, error) {
	client, err := adminhttp.NewClient(server, token, adminhttp.ClientOptions{})
	if err != nil {
		return nil, err
	}
	return client, nil
}

// eventBinding is what a producer needs to post events.
type eventBinding = adminhttp.EventBinding

// operatorControl is what an operator can do to pipelines.
type operatorControl = adminhttp.Control

func newOperatorClient(server, token string) (operatorClient, error) {
	client, err := adminhttp.NewClient(server, token, adminhttp.ClientOptions{})
	if err != nil {
		return nil, err
	}
	return client, nil
}

// askReady asks a daemon whether it is ready.
func askReady(ctx context.Context, server string) (readiness, error) {
	client, err := adminhttp.NewClient(server, "", adminhttp.ClientOptions{})
	if err != nil {
		return readiness{}, err
	}
	got, err := client.Ready(ctx)
	if err != nil {
		return readiness{}, err
	}
	state := readiness{Ready: got.Ready, Version: got.Version}
	for _, f := range got.Failing {
		state.Failing = append(state.Failing, failing{f.Name, f.Code, f.Reason})
	}
	return state, nil
}

// kvFile is the database of a key-value store in its data directory.
const kvFile = "localkv.sqlite"

func defaultKvDir(stateDir string) string { return filepath.Join(stateDir, "kv", "default") }

// openKvDir opens the store in a data directory. One that is not there is made only if create is set.
func openKvDir(ctx context.Context, a *app, dir string, single, create bool) (ports.KvStore, error) {
	if !create {
		if err := checkKvFile(dir); err != nil {
			return nil, err
		}
	}
	mode := localkv.MultiProcess
	if single {
		mode = localkv.SingleProcess
	}
	store, err := localkv.Open(ctx, localkv.Options{Dir: dir, Mode: mode, Log: warnings(a)})
	if err != nil {
		return nil, err
	}
	return store, nil
}

func checkKvFile(dir string) error {
	_, err := os.Stat(filepath.Join(dir, kvFile))
	if errors.Is(err, os.ErrNotExist) {
		return ports.Errorf(ports.CodeNotFound, "kv.open", "there is no key-value store in %s: name its data directory with --dir, or make one with \"stowage kv put\"", absolute(dir))
	}
	return err
}

// warnings is the log of a command that is not the daemon: what an operator should know, on standard
// error.
func warnings(a *app) *slog.Logger {
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// openConfiguredKv opens a store of a configuration. Closing it closes the composition behind it.
func openConfiguredKv(ctx context.Context, a *app, file, stateDir, name string, create bool) (ports.KvStore, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	if stateDir != "" {
		if err := cfg.SetStateDir(stateDir); err != nil {
			return nil, err
		}
	}
	stores, err := newComposition(cfg, warnings(a))
	if err != nil {
		return nil, err
	}
	if cfg.Kv[name].Module == memory.ModuleName {
		return nil, usagef("the store %q is of the module %q, which keeps nothing when a command ends: choose another store", name, memory.ModuleName)
	}
	for _, s := range configuredStores(cfg) {
		if !create && s.Kind == string(catalog.KindKv) && s.Name == name && s.Module == localkv.ModuleName {
			if err := checkKvFile(s.Paths[0]); err != nil {
				return nil, err
			}
		}
	}
	kv, err := stores.Kv(ctx, name)
	if err != nil {
		return nil, errors.Join(err, stores.Close(context.WithoutCancel(ctx)))
	}
	return composedKv{kv, stores}, nil
}

type composedKv struct {
	ports.Kv
	stores *catalog.Composition
}

func (c composedKv) Close() error { return c.stores.Close(context.Background()) }

// queueFile is the database of a queue in its data directory.
const queueFile = "localqueue.sqlite"

// openKvFile opens the key-value store of a data directory, which has to be there.
func openKvFile(ctx context.Context, a *app, dir string) (storedFile, error) {
	store, err := openKvDir(ctx, a, dir, false, false)
	if err != nil {
		return nil, err
	}
	return store.(*localkv.Store), nil
}

// queuesDir is the directory of an owner's queues.
func queuesDir(stateDir string) string { return filepath.Join(stateDir, "queue-owned") }

func queueDatabase(stateDir, id string) string {
	return filepath.Join(queuesDir(stateDir), id, queueFile)
}

// openQueueFile opens a queue without a daemon.
func openQueueFile(ctx context.Context, a *app, path string) (storedFile, error) {
	store, err := localqueue.Open(ctx, localqueue.Options{Dir: filepath.Dir(path), Log: warnings(a)})
	if err != nil {
		return nil, err
	}
	return store, nil
}

// withStorageFile lends the storage at a path, made if it is not there.
func withStorageFile(ctx context.Context, a *app, path string, fn func(ports.Storage) error) error {
	storage, err := sqlite.Open(ctx, sqlite.Options{Path: absolute(path), Log: warnings(a)})
	if err != nil {
		return err
	}
	return errors.Join(fn(storage), storage.Close())
}

// storagePath is the database of the storage of a configuration. A storage without one is refused: for
// a command there is nothing in it, and nothing stays.
func storagePath(ctx context.Context, cfg *config.Config) (string, error) {
	stores, err := newComposition(cfg, nil)
	if err != nil {
		return "", err
	}
	if err := stores.Close(ctx); err != nil {
		return "", err
	}
	s := configuredStorage(cfg)
	if len(s.Paths) == 0 {
		return "", usagef("the storage of the module %q is kept in memory, and keeps nothing when a command ends: choose another one, or reach that of a daemon with --server", s.Module)
	}
	return s.Paths[0], nil
}

// withConfiguredStorage lends the storage of a configuration, made if it is not there.
func withConfiguredStorage(ctx context.Context, a *app, cfg *config.Config, fn func(ports.Storage) error) error {
	stores, err := newComposition(cfg, warnings(a))
	if err != nil {
		return err
	}
	storage, err := stores.Storage(ctx)
	if err == nil {
		err = fn(storage)
	}
	return errors.Join(err, stores.Close(context.WithoutCancel(ctx)))
}

// The kinds of stores that a file can hold.
var (
	kvFormat      = sqlitefile.Options{Schema: sqlitefile.Marked(localkv.Format), Kind: "local KV", Failure: ports.CodeKvOperationFailed}
	queueFormat   = sqlitefile.Options{Schema: sqlitefile.Marked(localqueue.Format), Kind: "local queue", Failure: ports.CodeQueueOperationFailed}
	storageFormat = sqlitefile.Options{Schema: sqlite.Schema(), Kind: "storage", Failure: ports.CodeBackendFailed}
)

// verifyStored checks a file that nobody has open as a store of the first format that it has. It
// changes nothing.
func verifyStored(ctx context.Context, path string, formats ...sqlitefile.Options) error {
	var err error
	for _, format := range formats {
		format.Path = path
		if len(formats) > 1 {
			format.Kind = "store" // which one is not known before it was looked at
		}
		if err = sqlitefile.VerifyFile(ctx, format); !errors.Is(err, ports.ErrUnsupported) {
			return err
		}
	}
	return err
}

// What a migration is asked and what it says.
type (
	migrationOptions = localqueue.MigrateOptions
	migrationPlan    = localqueue.Plan
)

func migrate(ctx context.Context, options migrationOptions) (migrationPlan, error) {
	return localqueue.Migrate(ctx, options)
}

func engineVersion() string { return sqlitefile.EngineVersion() }

// printsEvents reports whether a pipeline of the file delivers to standard output.
func printsEvents(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.Pipelines, func(p config.Pipeline) bool {
		return slices.ContainsFunc(p.Sinks, func(s config.Sink) bool { return s.Module == ndjson.StdoutName })
	})
}
