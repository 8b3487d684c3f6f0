package catalog

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stowage-go/stowage/ports"
)

const op = "catalog"

// Kind is what a module opens.
type Kind string

// The kinds, as a configuration spells them.
const (
	KindStorage Kind = "storage"
	KindKv      Kind = "kv"
	KindQueue   Kind = "queue"
	KindSource  Kind = "source"
	KindSink    Kind = "sink"
)

// Module is one registered module, for listings.
type Module struct {
	Kind Kind
	ports.ModuleInfo
}

// Catalog holds the modules of a program. It is filled first and used then: registering is not safe
// beside other calls.
type Catalog struct {
	storage registry[ports.StorageModule]
	kv      registry[ports.KvModule]
	queue   registry[ports.QueueModule]
	source  registry[ports.SourceModule]
	sink    registry[ports.SinkModule]
}

type registry[M any] struct {
	order   []string
	modules map[string]M
}

// New makes an empty catalog.
func New() *Catalog {
	return &Catalog{
		storage: registry[ports.StorageModule]{modules: map[string]ports.StorageModule{}},
		kv:      registry[ports.KvModule]{modules: map[string]ports.KvModule{}},
		queue:   registry[ports.QueueModule]{modules: map[string]ports.QueueModule{}},
		source:  registry[ports.SourceModule]{modules: map[string]ports.SourceModule{}},
		sink:    registry[ports.SinkModule]{modules: map[string]ports.SinkModule{}},
	}
}

// RegisterStorage adds a module for storages. One of the same name and kind is ALREADY_EXISTS; an
// incomplete one is INVALID_INPUT.
func (c *Catalog) RegisterStorage(m ports.StorageModule) error {
	if m.Open == nil {
		return ports.Errorf(ports.CodeInvalidInput, op, "the storage module %q has no Open", m.Name)
	}
	return c.storage.add(KindStorage, m.ModuleInfo, m)
}

// RegisterSource adds a module for sources, with the errors of RegisterStorage.
func (c *Catalog) RegisterSource(m ports.SourceModule) error {
	if m.Open == nil || m.Check == nil {
		return ports.Errorf(ports.CodeInvalidInput, op, "the source module %q needs Check and Open", m.Name)
	}
	return c.source.add(KindSource, m.ModuleInfo, m)
}

// RegisterSink adds a module for sinks, with the errors of RegisterStorage.
func (c *Catalog) RegisterSink(m ports.SinkModule) error {
	if m.Open == nil || m.Check == nil {
		return ports.Errorf(ports.CodeInvalidInput, op, "the sink module %q needs Check and Open", m.Name)
	}
	return c.sink.add(KindSink, m.ModuleInfo, m)
}

// RegisterKv adds a module for key-value stores, with the errors of RegisterStorage.
func (c *Catalog) RegisterKv(m ports.KvModule) error {
	if m.Open == nil {
		return ports.Errorf(ports.CodeInvalidInput, op, "the kv module %q has no Open", m.Name)
	}
	return c.kv.add(KindKv, m.ModuleInfo, m)
}

// RegisterQueue adds a module for queues, with the errors of RegisterStorage. Exactly one of Open and
// OpenOwner has to be set.
func (c *Catalog) RegisterQueue(m ports.QueueModule) error {
	if (m.Open == nil) == (m.OpenOwner == nil) {
		return ports.Errorf(ports.CodeInvalidInput, op, "the queue module %q needs exactly one of Open and OpenOwner", m.Name)
	}
	return c.queue.add(KindQueue, m.ModuleInfo, m)
}

func (r *registry[M]) add(kind Kind, info ports.ModuleInfo, m M) error {
	switch {
	case ports.CheckQueueID(op, info.Name) != nil:
		return ports.Errorf(ports.CodeInvalidInput, op, "the %s module is named %q: use A-Z a-z 0-9 - _ and dot, and start with a letter or a digit", kind, info.Name)
	case info.Description == "" || strings.Contains(info.Description, "\n"):
		return ports.Errorf(ports.CodeInvalidInput, op, "the %s module %q needs a description of one line", kind, info.Name)
	case info.Example == "":
		return ports.Errorf(ports.CodeInvalidInput, op, "the %s module %q has no example", kind, info.Name)
	}
	if _, ok := r.modules[info.Name]; ok {
		return ports.Errorf(ports.CodeAlreadyExists, op, "a %s module is registered as %q already: give each another name", kind, info.Name)
	}
	r.modules[info.Name] = m
	r.order = append(r.order, info.Name)
	return nil
}

// Modules lists what is registered, ordered by kind and name.
func (c *Catalog) Modules() []Module {
	var list []Module
	for _, m := range c.storage.modules {
		list = append(list, Module{KindStorage, m.ModuleInfo})
	}
	for _, m := range c.source.modules {
		list = append(list, Module{KindSource, m.ModuleInfo})
	}
	for _, m := range c.sink.modules {
		list = append(list, Module{KindSink, m.ModuleInfo})
	}
	for _, m := range c.kv.modules {
		list = append(list, Module{KindKv, m.ModuleInfo})
	}
	for _, m := range c.queue.modules {
		list = append(list, Module{KindQueue, m.ModuleInfo})
	}
	slices.SortFunc(list, func(a, b Module) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// ownerModule returns the queue module that opens the owner of the state directory: the named one,
// or the first that was registered.
func (c *Catalog) ownerModule(name string) (string, error) {
	if name != "" {
		if c.queue.modules[name].OpenOwner == nil {
			return "", ports.Errorf(ports.CodeInvalidInput, op, "no registered queue module %q opens owners", name)
		}
		return name, nil
	}
	for _, name := range c.queue.order {
		if c.queue.modules[name].OpenOwner != nil {
			return name, nil
		}
	}
	return "", nil
}
