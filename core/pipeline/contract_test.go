package pipeline_test

import (
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
)

var (
	_ ports.SinkResolver = (*pipeline.Sinks)(nil)
	_ ports.Sink         = (*pipeline.QueueSink)(nil)
)
