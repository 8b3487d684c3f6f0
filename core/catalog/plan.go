package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// plan is one configured store or sink whose configuration was found good.
type plan struct {
	kind   Kind
	name   string // of a sink: pipeline/sink, of the storage: empty
	module string
	at     config.Position
	env    ports.Env
	config ports.ModuleConfig
	paths  []location
	ask    func(ports.Env, ports.ModuleConfig) ([]string, error) // the module's Paths, or nil
}

func (p *plan) id() string {
	if p.kind == KindStorage {
		return storageService
	}
	return string(p.kind) + "." + p.name
}

// section names the table that holds the keys of the module.
func (p *plan) section() string {
	if p.kind == KindSink {
		return p.id()
	}
	return p.id() + ".config"
}

const storageService = "storage"

func sinkName(pipeline types.PipelineID, sink types.SinkID) string {
	return string(pipeline) + "/" + string(sink)
}

// table names the store as the configuration does, with its position if a file holds it.
func (p *plan) table() string {
	if at := p.at.String(); at != "" {
		return fmt.Sprintf("[%s] (%s)", p.id(), at)
	}
	return "[" + p.id() + "]"
}

// plans validates a configuration. It opens and creates nothing.
func (c *Catalog) plans(cfg *config.Config, opts Options) ([]*plan, error) {
	var plans []*plan
	if storage := storageOf(cfg, opts); storage != nil {
		p := newPlan(KindStorage, "", *storage, cfg.StateDir, opts)
		module, ok := c.storage.modules[p.module]
		if !ok {
			return nil, c.unknownModule(p, *storage)
		}
		p.ask = module.Paths
		plans = append(plans, p)
	}
	for _, pipeline := range cfg.Pipelines {
		for _, sink := range pipeline.Sinks {
			p := newPlan(KindSink, sinkName(pipeline.ID, sink.ID), sink.Store, cfg.StateDir, opts)
			module, ok := c.sink.modules[p.module]
			if !ok {
				return nil, c.unknownModule(p, sink.Store)
			}
			p.ask = func(env ports.Env, section ports.ModuleConfig) ([]string, error) {
				return nil, module.Check(env, section)
			}
			plans = append(plans, p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Kv)) {
		p := newPlan(KindKv, name, cfg.Kv[name], cfg.StateDir, opts)
		module, ok := c.kv.modules[p.module]
		if !ok {
			return nil, c.unknownModule(p, cfg.Kv[name])
		}
		p.ask = module.Paths
		plans = append(plans, p)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Queue)) {
		p := newPlan(KindQueue, name, cfg.Queue[name], cfg.StateDir, opts)
		module, ok := c.queue.modules[p.module]
		if !ok {
			return nil, c.unknownModule(p, cfg.Queue[name])
		}
		p.ask = module.Paths
		plans = append(plans, p)
	}
	// In the order of the file, so that the first fault is the one that is reported.
	slices.SortStableFunc(plans, func(a, b *plan) int { return cmp.Compare(a.at.Line, b.at.Line) })
	for _, p := range plans {
		if err := p.findPaths(); err != nil {
			return nil, err
		}
	}
	if err := checkShared(plans); err != nil {
		return nil, err
	}
	return plans, c.checkTogether(plans, opts.env("", cfg.StateDir))
}

// checkTogether has each module check the queues that it would own together.
func (c *Catalog) checkTogether(plans []*plan, env ports.Env) error {
	for i, first := range plans {
		check := c.queue.modules[first.module].Check
		if first.kind != KindQueue || check == nil || slices.ContainsFunc(plans[:i], first.sameOwner) {
			continue
		}
		queues := make(map[string]ports.ModuleConfig)
		for _, p := range plans[i:] {
			if p.sameOwner(first) {
				queues[p.name] = p.config
			}
		}
		if err := check(env, queues); err != nil {
			return first.locate(err)
		}
	}
	return nil
}

func (p *plan) sameOwner(other *plan) bool { return p.kind == other.kind && p.module == other.module }

func newPlan(kind Kind, name string, store config.Store, stateDir string, opts Options) *plan {
	p := &plan{kind: kind, name: name, module: store.Module, at: store.At, config: store.Config}
	if p.config == nil {
		p.config = config.NoConfig()
	}
	p.env = opts.env(name, stateDir, slog.String("store", p.id()), slog.String("module", p.module))
	return p
}

// storageOf is the configured storage, else the default one, nil if there is none.
func storageOf(cfg *config.Config, opts Options) *config.Store {
	if cfg.Storage != nil || opts.StorageModule == "" {
		return cfg.Storage
	}
	return &config.Store{Module: opts.StorageModule}
}

func (c *Catalog) unknownModule(p *plan, store config.Store) error {
	var names []string
	otherKind := false
	for _, m := range c.Modules() {
		switch {
		case m.Kind == p.kind:
			names = append(names, m.Name)
		case m.Name == p.module:
			otherKind = true
		}
	}
	known := "there are none"
	if len(names) > 0 {
		known = "known are " + strings.Join(names, ", ")
	}
	problem := fmt.Sprintf("the module %q of [%s] is unknown among the %s modules: %s", p.module, p.id(), p.kind, known)
	if otherKind {
		problem += "; the module of that name is of another kind"
	}
	return config.Refuse(&config.Fault{At: store.ModuleAt, Key: p.id() + ".module", Problem: problem})
}

// findPaths has the module check its configuration and name its paths.
func (p *plan) findPaths() error {
	if p.ask == nil {
		return p.locate(p.config.Decode(&struct{}{}))
	}
	paths, err := p.ask(p.env, p.config)
	if err != nil {
		return p.locate(err)
	}
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			return p.locate(fmt.Errorf("the module %s gives the path %q, which is not absolute", p.module, path))
		}
		at, err := locate(path)
		if err != nil {
			return p.locate(fmt.Errorf("the path %q cannot be used: %w", path, err))
		}
		p.paths = append(p.paths, at)
	}
	return nil
}

// locate adds the place of the store to a module's error, unless the error has one.
func (p *plan) locate(err error) error {
	if err == nil {
		return nil
	}
	var fault *config.Fault
	if errors.As(err, &fault) {
		return err
	}
	problem := err.Error()
	var e *ports.Error
	if errors.As(err, &e) {
		problem = e.Message
	}
	at, key := p.at, p.section()
	if place, named, ok := config.Locate(p.config, problem); ok {
		at, key = place, named
	}
	return config.Refuse(&config.Fault{At: at, Key: key, Problem: fmt.Sprintf("[%s]: %s", p.section(), problem), Err: err})
}

// checkShared refuses one path for two stores. A directory inside another one is another path.
func checkShared(plans []*plan) error {
	for i, later := range plans {
		for _, earlier := range plans[:i] {
			for _, a := range later.paths {
				for _, b := range earlier.paths {
					if !a.same(b) {
						continue
					}
					return config.Refuse(&config.Fault{At: later.at, Key: later.id(), Problem: fmt.Sprintf(
						"[%s] and %s share one path, %s and %s: give each store its own", later.id(), earlier.table(), a, b)})
				}
			}
		}
	}
	return nil
}
