package pipeline

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Sinks is the ports.SinkResolver of a set of sinks that does not change. It may be used by many
// goroutines.
type Sinks struct {
	pipelines map[types.PipelineID]map[types.SinkID]ports.Sink
}

// NewSinks makes a resolver of the sinks of each pipeline. The maps are copied.
func NewSinks(sinks map[types.PipelineID]map[types.SinkID]ports.Sink) *Sinks {
	s := &Sinks{pipelines: make(map[types.PipelineID]map[types.SinkID]ports.Sink, len(sinks))}
	for pipeline, named := range sinks {
		s.pipelines[pipeline] = maps.Clone(named)
	}
	return s
}

// Sink implements ports.SinkResolver. The NOT_FOUND of one that is not there lists those that are.
func (s *Sinks) Sink(_ context.Context, pipeline types.PipelineID, sink types.SinkID) (ports.Sink, error) {
	const op = "pipeline.sink"
	named, ok := s.pipelines[pipeline]
	if !ok {
		return nil, ports.Errorf(ports.CodeNotFound, op, "no pipeline %q is configured: there %s", pipeline, list(s.pipelines))
	}
	if found, ok := named[sink]; ok {
		return found, nil
	}
	return nil, ports.Errorf(ports.CodeNotFound, op, "the pipeline %q has no sink %q in the configuration: there %s", pipeline, sink, list(named))
}

func list[K ~string, V any](named map[K]V) string {
	if len(named) == 0 {
		return "is none"
	}
	names := make([]string, 0, len(named))
	for name := range named {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return "are " + strings.Join(names, ", ")
}
