package catalog

import (
	"fmt"
	"path/filepath"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// use is a place that a source or a sink of a pipeline uses.
type use struct {
	*plan
	ports.Place
	pipeline types.PipelineID
	at       location // of the path, if it is one
}

func (u use) writes() bool { return u.kind == KindSink }

// uses asks the modules of a pipeline that was checked for their places.
func (p parts) uses(pipeline config.Pipeline) ([]use, error) {
	var all []use
	add := func(planned *plan, ask func(ports.Env, ports.ModuleConfig) ([]ports.Place, error)) error {
		if ask == nil {
			return nil
		}
		places, err := ask(planned.env, planned.config)
		if err != nil {
			return planned.locate(err)
		}
		for _, place := range places {
			u := use{plan: planned, Place: place, pipeline: pipeline.ID}
			if place.Path != "" {
				if u.at, err = planned.place(place.Path); err != nil {
					return err
				}
			}
			all = append(all, u)
		}
		return nil
	}
	if pipeline.Source != nil {
		planned, module, err := p.source(pipeline)
		if err != nil {
			return nil, err
		}
		if err := add(planned, module.Reads); err != nil {
			return nil, err
		}
	}
	for _, s := range pipeline.Sinks {
		planned, module, err := p.sink(pipeline.ID, s)
		if err != nil {
			return nil, err
		}
		if err := add(planned, module.Writes); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkUses refuses a pipeline whose places are those of a store, of the program or of another pipeline,
// or that feeds itself. All of the pipelines were checked. Those beside it that have its id are its own
// earlier self.
func (p parts) checkUses(pipeline config.Pipeline, beside []config.Pipeline) error {
	own, err := p.uses(pipeline)
	if err != nil || len(own) == 0 {
		return err
	}
	for i, u := range own {
		if err := p.checkReserved(u); err != nil {
			return err
		}
		for _, earlier := range own[:i] {
			if err := u.checkBeside(earlier); err != nil {
				return err
			}
		}
	}
	for _, other := range beside {
		if other.ID == pipeline.ID {
			continue
		}
		theirs, err := p.uses(other)
		if err != nil {
			return err
		}
		for _, u := range own {
			for _, their := range theirs {
				if err := u.checkBeside(their); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkReserved refuses the files of stores, whose locks a mere open and close by others can take away,
// and what the program keeps in the state directory.
func (p parts) checkReserved(u use) error {
	if u.Path == "" {
		return nil
	}
	for _, store := range p.stores {
		for _, path := range store.paths {
			if u.at.meets(path) || u.at.beside(path) {
				return u.refuse("path leads to %s, which meets %s of %s: give it a place outside", u.at, path, store.table())
			}
		}
	}
	for _, name := range p.opts.Reserved {
		path, err := locate(filepath.Join(p.stateDir, name))
		if err != nil {
			return u.refuse("path cannot be compared with %q of the state directory: %w", name, err)
		}
		if u.at.meets(path) {
			return u.refuse("path leads to %s, which meets %s, where this program keeps state of its own: give it a place outside", u.at, path)
		}
	}
	return nil
}

// checkBeside refuses two uses that do not go together. What one pipeline writes another may read, and any
// number may read one file, or send to one queue.
func (u use) checkBeside(other use) error {
	switch {
	case u.Queue != "":
		if u.Queue == other.Queue && u.feeds(other) {
			return u.refuse("queue is %q at both ends of the pipeline, which would feed itself: [%s] has the same one", u.Queue, other.id())
		}
		return nil
	case other.Path == "" || !u.at.meets(other.at):
		return nil
	case u.feeds(other):
		return u.refuse("path leads to %s at both ends of the pipeline, which would feed itself: [%s] has the same one, %s", u.at, other.id(), other.at)
	case u.Own || other.Own:
		return u.refuse("path leads to %s, which meets %s of %s: give each a place of its own", u.at, other.at, other.table())
	case u.writes() && other.writes():
		return u.refuse("path leads to %s, to which %s writes: give each sink a file of its own", u.at, other.table())
	}
	return nil
}

// feeds reports whether one is the source, and the other a sink, of one pipeline.
func (u use) feeds(other use) bool {
	return u.pipeline == other.pipeline && u.writes() != other.writes()
}

func (u use) refuse(format string, args ...any) error {
	return u.locate(fmt.Errorf(format, args...))
}
