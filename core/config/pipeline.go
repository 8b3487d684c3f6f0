package config

import (
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

type pipelineSchema struct {
	ID   *types.PipelineID `toml:"id"`
	Sink []sinkSchema      `toml:"sink"`
}

// sinkSchema has the keys of the module beside id and module.
type sinkSchema map[string]any

func (d *document) pipelines(given []pipelineSchema) ([]Pipeline, error) {
	list := make([]Pipeline, 0, len(given))
	seen := map[types.PipelineID]Position{}
	for i, p := range given {
		at := path{"pipeline"}.item(i)
		if p.ID == nil {
			return nil, d.refuse(at, "a [[pipeline]] has no id: add id = \"NAME\"")
		}
		if err := ports.CheckPipeline(op, *p.ID); err != nil {
			return nil, d.refuse(at.child("id"), "the id of a [[pipeline]] cannot be used: %w", err)
		}
		if earlier, twice := seen[*p.ID]; twice {
			return nil, d.refuse(at.child("id"), "a [[pipeline]] with the id %q stands at %v already: give each its own", *p.ID, earlier)
		}
		sinks, err := d.sinks(at.child("sink"), p.Sink)
		if err != nil {
			return nil, err
		}
		seen[*p.ID] = d.position(at.child("id"))
		list = append(list, Pipeline{ID: *p.ID, At: d.position(at), Sinks: sinks})
	}
	return list, nil
}

func (d *document) sinks(at path, given []sinkSchema) ([]Sink, error) {
	list := make([]Sink, 0, len(given))
	seen := map[types.SinkID]Position{}
	for i, values := range given {
		item := at.item(i)
		id, err := d.text(item, values, "id")
		if err != nil {
			return nil, err
		}
		if id == nil {
			return nil, d.refuse(item, "a [[pipeline.sink]] has no id: add id = \"NAME\"")
		}
		name := types.SinkID(*id)
		if err := ports.CheckID(op, "sink", name); err != nil {
			return nil, d.refuse(item.child("id"), "the id of a [[pipeline.sink]] cannot be used: %w", err)
		}
		if earlier, twice := seen[name]; twice {
			return nil, d.refuse(item.child("id"), "a sink with the id %q stands at %v already: give each of a pipeline its own", name, earlier)
		}
		module, err := d.text(item, values, "module")
		if err != nil {
			return nil, err
		}
		if err := d.checkModule(item, module); err != nil {
			return nil, err
		}
		seen[name] = d.position(item.child("id"))
		list = append(list, Sink{ID: name, Store: Store{
			Module:   *module,
			Config:   section{d, item, values.own()},
			At:       d.position(item),
			ModuleAt: d.position(item.child("module")),
		}})
	}
	return list, nil
}

// text returns the string under a key, nil if it is not there.
func (d *document) text(at path, values sinkSchema, key string) (*string, error) {
	value, ok := values[key]
	if !ok {
		return nil, nil
	}
	text, ok := value.(string)
	if !ok {
		return nil, d.refuse(at.child(key), "the key %s is %s: a string is wanted", at.child(key), foundType(value))
	}
	return &text, nil
}

// own are the keys of the module.
func (s sinkSchema) own() map[string]any {
	own := make(map[string]any, len(s))
	for key, value := range s {
		if key != "id" && key != "module" {
			own[key] = value
		}
	}
	return own
}
