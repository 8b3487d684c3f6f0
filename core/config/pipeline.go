package config

import (
	"reflect"
	"slices"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// pipelineSchema is the form of a pipeline in a file.
type pipelineSchema struct {
	ID *types.PipelineID `toml:"id"`
	partsSchema
}

// partsSchema is the form of a pipeline in a resource, whose id is that of the pipeline.
type partsSchema struct {
	Source    moduleSchema      `toml:"source"`
	EventTime string            `toml:"event_time"`
	Fields    map[string]string `toml:"fields"`
	Monitor   []monitorSchema   `toml:"monitor"`
	Sink      []moduleSchema    `toml:"sink"`
}

type monitorSchema struct {
	ID    types.MonitorID `toml:"id"`
	When  string          `toml:"when"`
	Gate  *gateSchema     `toml:"gate"`
	Sinks []types.SinkID  `toml:"sinks"`
}

type gateSchema struct {
	Threshold *int           `toml:"threshold"`
	Window    ports.Duration `toml:"window"`
	Cooldown  ports.Duration `toml:"cooldown"`
	Key       string         `toml:"key"`
}

type retrySchema struct {
	Attempts *int            `toml:"attempts"`
	Min      *ports.Duration `toml:"min"`
	Max      *ports.Duration `toml:"max"`
}

// moduleSchema is a source or a sink: it has the keys of the module beside those of its own.
type moduleSchema map[string]any

// ParsePipeline reads the JSON of a resource that configures the pipeline of an id, with the keys and the
// rules of a [[pipeline]] but for its id. The first thing that is wrong is returned as INVALID_CONFIG,
// with a [Fault] as its cause, whose position is the path of the key.
func ParsePipeline(id types.PipelineID, text []byte) (Pipeline, error) {
	doc, err := parseJSON(text)
	if err != nil {
		return Pipeline{}, err
	}
	var given partsSchema
	if err := doc.decode(nil, doc.values, reflect.ValueOf(&given).Elem()); err != nil {
		return Pipeline{}, err
	}
	return doc.pipeline(nil, id, given)
}

func (d *document) pipelines(given []pipelineSchema) ([]Pipeline, error) {
	list := make([]Pipeline, 0, len(given))
	seen := map[types.PipelineID]Position{}
	for i, p := range given {
		at := path{"pipeline"}.item(i)
		if p.ID == nil {
			return nil, d.refuse(at, "a [[pipeline]] has no id: add id = \"NAME\"")
		}
		if earlier, twice := seen[*p.ID]; twice {
			return nil, d.refuse(at.child("id"), "a [[pipeline]] with the id %q stands at %v already: give each its own", *p.ID, earlier)
		}
		parsed, err := d.pipeline(at, *p.ID, p.partsSchema)
		if err != nil {
			return nil, err
		}
		seen[*p.ID] = d.position(at.child("id"))
		list = append(list, parsed)
	}
	return list, nil
}

func (d *document) pipeline(at path, id types.PipelineID, given partsSchema) (Pipeline, error) {
	p := Pipeline{
		ID:          id,
		At:          d.position(at),
		EventTime:   given.EventTime,
		EventTimeAt: d.position(at.child("event_time")),
		FieldsAt:    d.position(at.child("fields")),
		origin:      origin{d, at},
	}
	if len(given.Fields) > 0 {
		p.Fields = given.Fields
	}
	if given.Source != nil {
		store, err := d.moduleIn(at.child("source"), given.Source, "module")
		if err != nil {
			return Pipeline{}, err
		}
		p.Source = &Source{store}
	}
	for i, m := range given.Monitor {
		p.Monitors = append(p.Monitors, d.monitor(at.child("monitor").item(i), m))
	}
	for i, s := range given.Sink {
		sink, err := d.sink(at.child("sink").item(i), s)
		if err != nil {
			return Pipeline{}, err
		}
		p.Sinks = append(p.Sinks, sink)
	}
	if err := p.Check(); err != nil {
		return Pipeline{}, err
	}
	return p, nil
}

func (d *document) monitor(at path, given monitorSchema) Monitor {
	m := Monitor{ID: given.ID, At: d.position(at), WhenAt: d.position(at.child("when")), When: given.When, Sinks: given.Sinks}
	if g := given.Gate; g != nil {
		m.Gate = &Gate{
			At:        d.position(at.child("gate")),
			KeyAt:     d.position(at.child("gate").child("key")),
			Threshold: 1,
			Window:    time.Duration(g.Window),
			Cooldown:  time.Duration(g.Cooldown),
			Key:       g.Key,
		}
		if g.Threshold != nil {
			m.Gate.Threshold = *g.Threshold
		}
	}
	return m
}

func (d *document) sink(at path, given moduleSchema) (Sink, error) {
	id, err := d.text(at, given, "id")
	if err != nil {
		return Sink{}, err
	}
	store, err := d.moduleIn(at, given, "id", "module", "retry")
	if err != nil {
		return Sink{}, err
	}
	retry, err := d.retry(at.child("retry"), given["retry"])
	if err != nil {
		return Sink{}, err
	}
	return Sink{ID: types.SinkID(id), Store: store, Retry: retry}, nil
}

// retry takes the table of a sink's retries, which need not be there. A zero that is written is not the
// same as none.
func (d *document) retry(at path, value any) (Retry, error) {
	if value == nil {
		return Retry{}, nil
	}
	var given retrySchema
	if err := d.decode(at, value, reflect.ValueOf(&given).Elem()); err != nil {
		return Retry{}, err
	}
	var r Retry
	if n := given.Attempts; n != nil {
		if r.Attempts = *n; *n == 0 {
			return Retry{}, d.refuse(at.child("attempts"), "%s", badAttempts(*n))
		}
	}
	for _, pause := range []struct {
		name  string
		given *ports.Duration
		to    *time.Duration
	}{{"min", given.Min, &r.Min}, {"max", given.Max, &r.Max}} {
		if pause.given == nil {
			continue
		}
		if *pause.to = time.Duration(*pause.given); *pause.to == 0 {
			return Retry{}, d.refuse(at.child(pause.name), "%s", badPause(pause.name, 0))
		}
	}
	return r, nil
}

// moduleIn takes a table in which the keys of a module stand beside those that are named.
func (d *document) moduleIn(at path, given moduleSchema, beside ...string) (Store, error) {
	module, err := d.text(at, given, "module")
	if err != nil {
		return Store{}, err
	}
	if _, named := given["module"]; !named {
		return Store{}, d.checkModule(at, nil)
	}
	if err := d.checkModule(at, &module); err != nil {
		return Store{}, err
	}
	own := make(map[string]any, len(given))
	for key, value := range given {
		if !slices.Contains(beside, key) {
			own[key] = value
		}
	}
	return Store{
		Module:   module,
		Config:   section{doc: d, at: at, values: own, beside: beside},
		At:       d.position(at),
		ModuleAt: d.position(at.child("module")),
	}, nil
}

// text returns the string under a key, empty if it is not there.
func (d *document) text(at path, values map[string]any, key string) (string, error) {
	value, ok := values[key]
	if !ok {
		return "", nil
	}
	text, ok := value.(string)
	if !ok {
		return "", d.wrongType(at.child(key), value, reflect.TypeFor[string]())
	}
	return text, nil
}
