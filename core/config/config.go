package config

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	// DefaultListen is the address of the daemon unless one is configured.
	DefaultListen = "127.0.0.1:7420"
	// DefaultStateDir is the state directory unless one is configured.
	DefaultStateDir = "stowage-data"

	// maxFileBytes keeps a wrong path, a device or a log for instance, from filling the memory.
	maxFileBytes = 1 << 20
)

// Config is a configuration whose form was found good.
type Config struct {
	// File is the file as it was named, empty for the built-in defaults.
	File string
	// StateDir is the absolute directory at which relative paths of modules start.
	StateDir string
	HTTP     HTTP
	// Storage is nil if none is configured.
	Storage *Store
	// Kv and Queue are the stores by their names.
	Kv    map[string]Store
	Queue map[string]Store
	// Pipelines are in the order of the file.
	Pipelines []Pipeline
}

// Pipeline is one configured pipeline.
type Pipeline struct {
	ID types.PipelineID
	// At is where the pipeline is named.
	At Position
	// Source gives its events. Without one the pipeline only has sinks, for replays.
	Source *Source
	// EventTime is an expression over an event that gives its time: milliseconds since the epoch, or an
	// RFC 3339 text. Empty: the time that the source gives.
	EventTime   string
	EventTimeAt Position
	// Fields names the members of an event that expressions may use, with their types: "number",
	// "string", "bool", "object", "array" or "any". With none, expressions may use any name.
	Fields   map[string]string
	FieldsAt Position
	// Monitors are its rules, in the order of the file.
	Monitors []Monitor
	// Sinks are where it delivers, in the order of the file.
	Sinks []Sink

	origin origin
}

// Source is the source of a pipeline. The keys of its module stand beside module.
type Source struct {
	Store
}

// Monitor is one rule of a pipeline.
type Monitor struct {
	ID types.MonitorID
	// At is where the monitor is named, WhenAt where its expression is.
	At, WhenAt Position
	// When is the expression that picks events. Empty: every event.
	When string
	// Gate holds matches back; nil lets each through.
	Gate *Gate
	// Sinks are those of the pipeline that get the matches, one at least.
	Sinks []types.SinkID
}

// Gate is the gate of a monitor.
type Gate struct {
	// At is where the gate is configured, KeyAt where its key is.
	At, KeyAt Position
	// Threshold is how many matches within the window let one through, 1 or above.
	Threshold int
	// Window is how far back matches count, by the time of the events. Above 0 if Threshold is above 1.
	Window time.Duration
	// Cooldown is the least time between two that are let through. 0: none.
	Cooldown time.Duration
	// Key is an expression whose value groups the matches: each group is counted for itself. Empty: all
	// are one group.
	Key string
}

// Sink is one sink of a pipeline. The keys of its module stand beside id, module and retry.
type Sink struct {
	ID types.SinkID
	Store
	Retry Retry
}

// Retry is what is done about transient failures of a sink. Zero values stand for the defaults of the
// engine.
type Retry struct {
	// Attempts is how often a delivery is tried before it becomes a dead letter.
	Attempts int
	// Min is the pause after the first failure; each further one doubles it, up to Max.
	Min, Max time.Duration
}

// HTTP is how the daemon is reached.
type HTTP struct {
	// Listen is host:port. Port 0 lets the system choose one.
	Listen string
}

// Store is one configured store, source or sink.
type Store struct {
	// Module is the name of its module, not empty.
	Module string
	// Config is what the module decodes. Nil stands for [NoConfig].
	Config ports.ModuleConfig
	// At is where the store is named, and ModuleAt where its module is.
	At, ModuleAt Position
}

// Default is what runs without a file: the built-in storage, and the queues that are found in the state directory
// or created later. A relative stateDir starts at the working directory.
func Default(stateDir string) (*Config, error) {
	c := &Config{HTTP: HTTP{Listen: DefaultListen}, Kv: map[string]Store{}, Queue: map[string]Store{}}
	if err := c.SetStateDir(stateDir); err != nil {
		return nil, err
	}
	return c, nil
}

// SetStateDir sets the state directory, as a flag does: a relative one starts at the working
// directory.
func (c *Config) SetStateDir(dir string) error {
	if problem := checkStateDir(dir); problem != "" {
		return Refuse(&Fault{Key: "state_dir", Problem: problem})
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Refuse(fault(Position{}, "state_dir", "the state directory %q cannot be made absolute: %w", dir, err))
	}
	c.StateDir = abs
	return nil
}

func checkStateDir(dir string) string {
	switch {
	case dir == "":
		return "the state directory is empty: name one"
	case strings.ContainsRune(dir, 0):
		return "the state directory has a NUL byte in its name"
	}
	return ""
}

// SetListen sets the address, as a flag does.
func (c *Config) SetListen(listen string) error {
	if problem := checkListen(listen); problem != "" {
		return Refuse(&Fault{Key: "http.listen", Problem: problem})
	}
	c.HTTP.Listen = listen
	return nil
}

func checkListen(listen string) string {
	const form = `: write host:port, like "127.0.0.1:7420" or "[::1]:7420"`
	host, port, err := net.SplitHostPort(listen)
	if err != nil || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || strings.ContainsRune("/\\@?#\x7f", r) }) {
		return "the listen address " + strconv.Quote(listen) + " has another form" + form
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "the port of the listen address " + strconv.Quote(listen) + " is not a number from 0 to 65535" + form
	}
	return ""
}

// Load reads a file; see [Parse].
func Load(name string) (*Config, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Refuse(fault(Position{}, "", "the configuration %q cannot be read: %w; `stowage config init` writes one to start from", name, err))
	}
	if err != nil {
		return nil, Refuse(fault(Position{}, "", "the configuration %q cannot be read: %w", name, err))
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, Refuse(fault(Position{}, "", "the configuration %q cannot be read: %w", name, err))
	}
	if len(data) > maxFileBytes {
		return nil, Refuse(fault(Position{}, "", "the configuration %q has more than %d bytes: it is some other file", name, maxFileBytes))
	}
	return Parse(name, data)
}

// schema is the form of the file.
type schema struct {
	StateDir *string `toml:"state_dir"`
	HTTP     struct {
		Listen *string `toml:"listen"`
	} `toml:"http"`
	Storage  *storeSchema           `toml:"storage"`
	Kv       map[string]storeSchema `toml:"kv"`
	Queue    map[string]storeSchema `toml:"queue"`
	Pipeline []pipelineSchema       `toml:"pipeline"`
}

type storeSchema struct {
	Module *string        `toml:"module"`
	Config map[string]any `toml:"config"`
}

// Parse reads the text of the file that name names; a relative state_dir in it starts at the
// directory of the file. The first thing that is wrong is returned as INVALID_CONFIG, with a [Fault]
// as its cause.
func Parse(name string, data []byte) (*Config, error) {
	doc, err := parseDocument(name, data)
	if err != nil {
		return nil, err
	}
	var file schema
	if err := doc.decode(nil, doc.values, reflect.ValueOf(&file).Elem()); err != nil {
		return nil, err
	}
	c := &Config{File: name, HTTP: HTTP{Listen: DefaultListen}}
	if c.StateDir, err = doc.stateDir(file.StateDir); err != nil {
		return nil, err
	}
	if listen := file.HTTP.Listen; listen != nil {
		c.HTTP.Listen = *listen
		if problem := checkListen(*listen); problem != "" {
			return nil, doc.refuse(path{"http", "listen"}, "%s", problem)
		}
	}
	if file.Storage != nil {
		storage, err := doc.store(path{"storage"}, *file.Storage)
		if err != nil {
			return nil, err
		}
		c.Storage = &storage
	}
	if c.Kv, err = doc.stores("kv", file.Kv); err != nil {
		return nil, err
	}
	if c.Queue, err = doc.stores("queue", file.Queue); err != nil {
		return nil, err
	}
	if c.Pipelines, err = doc.pipelines(file.Pipeline); err != nil {
		return nil, err
	}
	return c, nil
}

func (d *document) stateDir(given *string) (string, error) {
	dir, at := DefaultStateDir, path{"state_dir"}
	if given != nil {
		dir = *given
	}
	if problem := checkStateDir(dir); problem != "" {
		return "", d.refuse(at, "%s", problem)
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(d.file), dir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", d.refuse(at, "the state directory %q cannot be made absolute: %w", dir, err)
	}
	return abs, nil
}

func (d *document) stores(kind string, given map[string]storeSchema) (map[string]Store, error) {
	stores := make(map[string]Store, len(given))
	for _, name := range d.keys(path{kind}, d.table(kind)) {
		at := path{kind, name}
		if err := ports.CheckQueueID(op, name); err != nil {
			return nil, d.refuse(at, "the name of [%s] cannot be used: give 1 to %d bytes of A-Z a-z 0-9 - _ and dot, the first a letter or a digit", at, ports.MaxQueueIDBytes)
		}
		store, err := d.store(at, given[name])
		if err != nil {
			return nil, err
		}
		stores[name] = store
	}
	return stores, nil
}

// store takes the table of one store.
func (d *document) store(at path, given storeSchema) (Store, error) {
	if err := d.checkModule(at, given.Module); err != nil {
		return Store{}, err
	}
	return Store{
		Module:   *given.Module,
		Config:   section{doc: d, at: at.child("config"), values: given.Config},
		At:       d.position(at),
		ModuleAt: d.position(at.child("module")),
	}, nil
}

func (d *document) checkModule(at path, module *string) error {
	if module == nil {
		return d.refuse(at, "%s has no module: add %s; `stowage modules` lists the names", d.name(at), d.entry("module", `"NAME"`))
	}
	if *module == "" {
		return d.refuse(at.child("module"), "the module of %s is empty: `stowage modules` lists the names", d.name(at))
	}
	return nil
}

func (d *document) table(name string) map[string]any {
	table, _ := d.values[name].(map[string]any) // absent, or of the form that decode has checked
	return table
}
