package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
)

// plan is one configured store, source or sink.
type plan struct {
	kind     Kind
	name     string // of a source: the pipeline, of a sink: pipeline/sink, of the storage: empty
	module   string
	at       config.Position
	moduleAt config.Position
	env      ports.Env
	config   ports.ModuleConfig

	// Of stores.
	paths []location
	known bool                                                  // the module is registered
	ask   func(ports.Env, ports.ModuleConfig) ([]string, error) // the module's Paths, or nil
}

func (p *plan) id() string {
	if p.kind == KindStorage {
		return storageService
	}
	return string(p.kind) + "." + p.name
}

// section names the table that holds the keys of the module.
func (p *plan) section() string {
	if p.kind == KindSource || p.kind == KindSink {
		return p.id()
	}
	return p.id() + ".config"
}

const storageService = "storage"

// table names the store as the configuration does, with its position if a file holds it.
func (p *plan) table() string {
	if at := p.at.String(); at != "" {
		return fmt.Sprintf("[%s] (%s)", p.id(), at)
	}
	return "[" + p.id() + "]"
}

// plans validates a configuration, and returns the plans of its stores. It opens and creates nothing.
func (c *Catalog) plans(cfg *config.Config, parts parts) ([]*plan, error) {
	var plans []*plan
	add := func(kind Kind, name string, store config.Store, known bool, ask func(ports.Env, ports.ModuleConfig) ([]string, error)) {
		p := parts.plan(kind, name, store)
		p.known, p.ask = known, ask
		plans = append(plans, p)
	}
	if storage := storageOf(cfg, parts.opts); storage != nil {
		module, known := c.storage.modules[storage.Module]
		add(KindStorage, "", *storage, known, module.Paths)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Kv)) {
		module, known := c.kv.modules[cfg.Kv[name].Module]
		add(KindKv, name, cfg.Kv[name], known, module.Paths)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Queue)) {
		module, known := c.queue.modules[cfg.Queue[name].Module]
		add(KindQueue, name, cfg.Queue[name], known, module.Paths)
	}
	slices.SortStableFunc(plans, func(a, b *plan) int { return cmp.Compare(a.at.Line, b.at.Line) })

	// In the order of the file, so that the first fault is the one that is reported.
	type check struct {
		line int
		run  func() error
	}
	var checks []check
	for _, p := range plans {
		checks = append(checks, check{p.at.Line, func() error { return c.checkStore(p) }})
	}
	for i, p := range cfg.Pipelines {
		checks = append(checks, check{p.At.Line, func() error {
			if slices.ContainsFunc(cfg.Pipelines[:i], func(earlier config.Pipeline) bool { return earlier.ID == p.ID }) {
				return config.Refuse(&config.Fault{At: p.At, Key: "pipeline", Problem: fmt.Sprintf("two pipelines have the id %q: give each its own", p.ID)})
			}
			return parts.check(p)
		}})
	}
	slices.SortStableFunc(checks, func(a, b check) int { return cmp.Compare(a.line, b.line) })
	for _, check := range checks {
		if err := check.run(); err != nil {
			return nil, err
		}
	}
	if err := checkShared(plans); err != nil {
		return nil, err
	}
	return plans, c.checkTogether(plans, parts.opts.env("", cfg.StateDir))
}

func (c *Catalog) checkStore(p *plan) error {
	if !p.known {
		return c.unknownModule(p)
	}
	return p.findPaths()
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

// storageOf is the configured storage, else the default one, nil if there is none.
func storageOf(cfg *config.Config, opts Options) *config.Store {
	if cfg.Storage != nil || opts.StorageModule == "" {
		return cfg.Storage
	}
	return &config.Store{Module: opts.StorageModule}
}

func (c *Catalog) unknownModule(p *plan) error {
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
	return config.Refuse(&config.Fault{At: p.moduleAt, Key: p.id() + ".module", Problem: problem})
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
		at, err := p.place(path)
		if err != nil {
			return err
		}
		p.paths = append(p.paths, at)
	}
	return nil
}

// place finds where a path leads that the module has named.
func (p *plan) place(path string) (location, error) {
	if !filepath.IsAbs(path) {
		return location{}, p.locate(fmt.Errorf("the module %s gives the path %q, which is not absolute", p.module, path))
	}
	at, err := locate(path)
	if err != nil {
		return at, p.locate(fmt.Errorf("the path %q cannot be used: %w", path, err))
	}
	return at, nil
}

// locate adds the place of the store, source or sink to a module's error, unless the error has one.
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
