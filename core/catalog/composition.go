package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/samber/do/v2"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
)

// Options are what all stores of a composition share.
type Options struct {
	// Clock is handed to every module; default ports.SystemClock.
	Clock ports.Clock
	// Log is handed to every module, with the attributes store and module; default: nothing is
	// logged.
	Log *slog.Logger
	// OwnerModule is the queue module that opens the owner of the state directory; default: the
	// first registered one that has OpenOwner.
	OwnerModule string
	// StorageModule opens the storage where none is configured; default: there is none then.
	StorageModule string
	// Reserved are files and directories that the program itself uses, relative to the state directory:
	// no source or sink may.
	Reserved []string
}

func (o Options) env(name, stateDir string, attrs ...any) ports.Env {
	return ports.Env{Name: name, StateDir: stateDir, Clock: o.Clock, Log: o.Log.With(attrs...)}
}

// Composition is the set of stores of one configuration, and opens the sources and sinks of pipelines.
// Each store is opened when it is first asked for; one that could not be opened is tried again by the
// next call. All methods may be called from many goroutines.
type Composition struct {
	parts       parts
	pipelines   []config.Pipeline
	injector    *do.RootScope
	plans       map[string]*plan
	services    map[string]*service
	ownerModule string // empty if no module has OpenOwner

	// Whoever opens something is counted in calls; Close ends what they wait for by closing, and waits
	// for them. They nest: a source that is being opened may ask for its queue.
	callsMu sync.Mutex // of adding to calls, and of the end of closing
	calls   sync.WaitGroup
	closing context.Context
	close   context.CancelFunc

	startMu sync.Mutex
	last    string // the store that was started last

	closeOnce sync.Once
	closed    chan struct{}
	closeErr  error
}

// service is how one store is started.
type service struct {
	name string
	open func(context.Context) (io.Closer, error)
	// turn lets one call at a time start the store; it holds the context of that call.
	turn chan struct{}
	ctx  context.Context
}

// store is what the injector holds of a started service.
type store struct {
	io.Closer
}

// HealthCheck asks the store, if it can tell.
func (s *store) HealthCheck(ctx context.Context) error {
	if checker, ok := s.Closer.(ports.HealthChecker); ok {
		return checker.HealthCheck(ctx)
	}
	return nil
}

// Shutdown closes the store.
func (s *store) Shutdown(context.Context) error { return s.Close() }

// Compose validates the configuration and returns a composition in which nothing is open yet. Its
// errors are INVALID_CONFIG with a [config.Fault] as their cause, and nothing has been created.
func (c *Catalog) Compose(cfg *config.Config, opts Options) (*Composition, error) {
	if opts.Clock == nil {
		opts.Clock = ports.SystemClock()
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	owner, err := c.ownerModule(opts.OwnerModule)
	if err != nil {
		return nil, err
	}
	parts := parts{modules: c, stateDir: cfg.StateDir, opts: opts}
	plans, err := c.plans(cfg, parts)
	if err != nil {
		return nil, err
	}
	parts.stores = plans
	for i, p := range cfg.Pipelines {
		if err := parts.checkUses(p, cfg.Pipelines[:i]); err != nil {
			return nil, err
		}
	}
	comp := &Composition{
		parts:       parts,
		pipelines:   slices.Clone(cfg.Pipelines),
		injector:    do.New(),
		plans:       map[string]*plan{},
		services:    map[string]*service{},
		ownerModule: owner,
		closed:      make(chan struct{}),
	}
	comp.closing, comp.close = context.WithCancel(context.Background())
	owned := map[string]map[string]ports.ModuleConfig{}
	if owner != "" {
		owned[owner] = map[string]ports.ModuleConfig{}
	}
	for _, p := range plans {
		comp.plans[p.id()] = p
		switch module := c.queue.modules[p.module]; {
		case p.kind == KindStorage:
			comp.provide(p.id(), openStorage(c.storage.modules[p.module], p))
		case p.kind == KindKv:
			comp.provide(p.id(), openKv(c.kv.modules[p.module], p))
		case module.OpenOwner == nil:
			comp.provide(p.id(), openQueue(module, p))
		default:
			if owned[p.module] == nil {
				owned[p.module] = map[string]ports.ModuleConfig{}
			}
			owned[p.module][p.name] = p.config
		}
	}
	for name, queues := range owned {
		env := opts.env("", cfg.StateDir, slog.String("store", ownerService(name)), slog.String("module", name))
		comp.provide(ownerService(name), openOwner(c.queue.modules[name], env, queues))
	}
	return comp, nil
}

func ownerService(module string) string { return "owner." + module }

func openStorage(module ports.StorageModule, p *plan) func(context.Context) (io.Closer, error) {
	return func(ctx context.Context) (io.Closer, error) {
		return opened(module.Open(ctx, p.env, p.config))
	}
}

func openKv(module ports.KvModule, p *plan) func(context.Context) (io.Closer, error) {
	return func(ctx context.Context) (io.Closer, error) {
		return opened(module.Open(ctx, p.env, p.config))
	}
}

func openQueue(module ports.QueueModule, p *plan) func(context.Context) (io.Closer, error) {
	return func(ctx context.Context) (io.Closer, error) {
		return opened(module.Open(ctx, p.env, p.config))
	}
}

func openOwner(module ports.QueueModule, env ports.Env, queues map[string]ports.ModuleConfig) func(context.Context) (io.Closer, error) {
	return func(ctx context.Context) (io.Closer, error) {
		return opened(module.OpenOwner(ctx, env, maps.Clone(queues)))
	}
}

// opened turns a module's answer into one that is either a store or an error.
func opened[S interface {
	comparable
	io.Closer
}](store S, err error) (io.Closer, error) {
	var none S
	if err != nil {
		return nil, err
	}
	if store == none {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op, "the module returned neither a store nor an error: this is a fault of the module")
	}
	return store, nil
}

func (c *Composition) provide(name string, open func(context.Context) (io.Closer, error)) {
	s := &service{name: name, open: open, turn: make(chan struct{}, 1)}
	c.services[name] = s
	do.ProvideNamed(c.injector, name, func(i do.Injector) (*store, error) {
		closer, err := s.open(s.ctx)
		if err != nil {
			return nil, err
		}
		if err := c.started(i, name); err != nil {
			return nil, errors.Join(err, closer.Close())
		}
		return &store{closer}, nil
	})
}

// started makes the store depend on the one that was started before it: the injector closes what
// depends first, and so goes back in the order of the starts.
func (c *Composition) started(i do.Injector, name string) error {
	c.startMu.Lock()
	defer c.startMu.Unlock()
	if c.last != "" {
		if _, err := do.InvokeNamed[*store](i, c.last); err != nil {
			return err
		}
	}
	c.last = name
	return nil
}

// start returns the store of a service, opened if need be.
func (c *Composition) start(ctx context.Context, s *service) (io.Closer, error) {
	ctx, end, err := c.begin(ctx, s.name)
	if err != nil {
		return nil, err
	}
	defer end()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	s.ctx = ctx
	started, err := do.InvokeNamed[*store](c.injector, s.name)
	s.ctx = nil
	if err != nil {
		return nil, c.failed(ctx, s.name, err)
	}
	return started.Closer, nil
}

// begin counts a call that opens something, until end. The context ends with the composition too.
func (c *Composition) begin(ctx context.Context, name string) (_ context.Context, end func(), _ error) {
	c.callsMu.Lock()
	defer c.callsMu.Unlock()
	if c.closing.Err() != nil {
		return nil, nil, closedError(name)
	}
	c.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(closedError(name)) })
	return ctx, func() {
		stop()
		cancel(nil)
		c.calls.Done()
	}, nil
}

// failed is the error of a call that began, and could not open what it wanted.
func (c *Composition) failed(ctx context.Context, name string, err error) error {
	switch {
	case c.closing.Err() != nil:
		return closedError(name)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("opening %s: %w", name, err)
}

func closedError(name string) error {
	return ports.Errorf(ports.CodeStoreClosed, op, "%s is not there any more: the composition is closed", name)
}

// Names lists the stores, sorted: "kv.default", "queue.orders", "storage".
func (c *Composition) Names() []string { return slices.Sorted(maps.Keys(c.plans)) }

// Storage returns the storage: the configured one, else that of Options.StorageModule. It is NOT_FOUND
// if there is neither. The composition closes it.
func (c *Composition) Storage(ctx context.Context) (ports.Storage, error) {
	s, ok := c.services[storageService]
	if !ok {
		return nil, ports.Errorf(ports.CodeNotFound, op, "no storage is configured: add [storage] to the configuration")
	}
	opened, err := c.start(ctx, s)
	if err != nil {
		return nil, err
	}
	return opened.(ports.Storage), nil
}

// StorageModule is the name of the storage's module, empty if there is no storage.
func (c *Composition) StorageModule() string {
	if p, ok := c.plans[storageService]; ok {
		return p.module
	}
	return ""
}

// Kv returns the configured key-value store of the name. What its adapter can do beyond the port
// ([ports.Backuper], [ports.HealthChecker]) is asked of the value. The composition closes it. A name
// that is not configured is NOT_FOUND.
func (c *Composition) Kv(ctx context.Context, name string) (ports.Kv, error) {
	p, err := c.plan(KindKv, name)
	if err != nil {
		return nil, err
	}
	opened, err := c.start(ctx, c.services[p.id()])
	if err != nil {
		return nil, err
	}
	return opened.(ports.KvStore), nil
}

// Queue returns the configured queue of the name, from its owner if its module has one. A name that
// is not configured is NOT_FOUND, and so is a queue that its owner has deleted.
func (c *Composition) Queue(ctx context.Context, name string) (ports.Queue, error) {
	p, err := c.plan(KindQueue, name)
	if err != nil {
		return nil, err
	}
	if s, ok := c.services[p.id()]; ok {
		opened, err := c.start(ctx, s)
		if err != nil {
			return nil, err
		}
		return opened.(ports.QueueStore), nil
	}
	owner, err := c.start(ctx, c.services[ownerService(p.module)])
	if err != nil {
		return nil, err
	}
	return owner.(ports.QueueOwnerStore).Queue(ctx, name)
}

// Owner returns the owner of the state directory, whether or not a queue is configured. It is
// NOT_FOUND if no registered module opens owners.
func (c *Composition) Owner(ctx context.Context) (ports.QueueOwner, error) {
	if c.ownerModule == "" {
		return nil, ports.Errorf(ports.CodeNotFound, op, "no registered queue module owns a state directory")
	}
	owner, err := c.start(ctx, c.services[ownerService(c.ownerModule)])
	if err != nil {
		return nil, err
	}
	return owner.(ports.QueueOwnerStore), nil
}

func (c *Composition) plan(kind Kind, name string) (*plan, error) {
	if p, ok := c.plans[string(kind)+"."+name]; ok {
		return p, nil
	}
	var names []string
	for _, p := range c.plans {
		if p.kind == kind {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 {
		return nil, ports.Errorf(ports.CodeNotFound, op, "no %s is configured: add [%s.NAME] to the configuration", kind, kind)
	}
	slices.Sort(names)
	return nil, ports.Errorf(ports.CodeNotFound, op, "no %s %q is configured: there are %s", kind, name, strings.Join(names, ", "))
}

// HealthCheck asks every open store that can tell, all at once, and returns an entry for each
// service: kind.name, or owner.module for the owner of a state directory. The entry is nil for one
// that is healthy, cannot tell, or is not open yet. When ctx ends, the stores that have not answered
// are unhealthy. After Close all are STORE_CLOSED.
func (c *Composition) HealthCheck(ctx context.Context) map[string]error {
	health := make(map[string]error, len(c.services))
	if checking, end, err := c.begin(ctx, "the health check"); err == nil {
		defer end()
		ctx = checking
		health = c.injector.HealthCheckWithContext(ctx)
	}
	for name := range c.services {
		switch err := health[name]; {
		case c.closing.Err() != nil:
			health[name] = closedError(name)
		case errors.Is(err, do.ErrHealthCheckTimeout):
			health[name] = fmt.Errorf("%s did not answer the health check: %w", name, ctx.Err())
		}
	}
	return health
}

// Close gives up on what is being opened, then closes the open stores, one after the other, in
// the reverse order of their start. When ctx ends it returns the context's error while the closing
// goes on; another call waits for the rest, and returns the errors of all stores.
// Sources and sinks are not among them: whoever opened one closes it, before the stores.
func (c *Composition) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		c.callsMu.Lock()
		c.close() // from here on no call begins
		c.callsMu.Unlock()
		go func() {
			defer close(c.closed)
			c.calls.Wait()
			c.closeErr = c.shutdown()
		}()
	})
	select {
	case <-c.closed:
		return c.closeErr
	default:
	}
	select {
	case <-c.closed:
		return c.closeErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Composition) shutdown() error {
	// A context that ends would make the injector drop stores without closing them.
	report := c.injector.ShutdownWithContext(context.Background())
	var failed []error
	for service, err := range report.Errors {
		failed = append(failed, fmt.Errorf("closing %s: %w", service.Service, err))
	}
	slices.SortFunc(failed, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(failed...)
}
