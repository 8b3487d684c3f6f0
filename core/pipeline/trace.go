package pipeline

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stowage-go/stowage/types"
)

// tracing carries trace contexts from events to sinks as the text of a traceparent. Without a tracer it
// makes no spans and passes on what came.
type tracing struct{ tracer trace.Tracer }

const traceparent = "traceparent"

func contextOf(parent string) context.Context {
	if parent == "" {
		return context.Background()
	}
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: parent})
}

func parentOf(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparent]
}

// match is the trace context of a match of the event.
func (t tracing) match(event types.Event, pipeline types.PipelineID, monitor types.MonitorID) string {
	switch {
	case t.tracer != nil:
	case event.Traceparent == "":
		return ""
	default:
		return parentOf(contextOf(event.Traceparent)) // nothing, if it has another form
	}
	ctx, span := t.tracer.Start(contextOf(event.Traceparent), "stowage.match", trace.WithAttributes(
		attribute.String("stowage.pipeline", string(pipeline)),
		attribute.String("stowage.monitor", string(monitor)),
		attribute.String("stowage.cursor", event.Cursor.String()),
	))
	defer span.End()
	return parentOf(ctx)
}

// delivery begins the spans of an attempt. The events that it returns are those to hand to the sink; end
// takes the outcomes.
func (t tracing) delivery(pipeline types.PipelineID, sink types.SinkID, events []types.SinkEvent) (traced []types.SinkEvent, end func(outcomes []error)) {
	if t.tracer == nil {
		return events, func([]error) {}
	}
	traced = make([]types.SinkEvent, len(events))
	spans := make([]trace.Span, len(events))
	for i, event := range events {
		ctx, span := t.tracer.Start(contextOf(event.Traceparent), "stowage.deliver", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
			attribute.String("stowage.pipeline", string(pipeline)),
			attribute.String("stowage.monitor", string(event.Origin().Monitor)),
			attribute.String("stowage.sink", string(sink)),
			attribute.String("stowage.match_id", string(event.Origin().ID)),
		))
		spans[i] = span
		traced[i] = event
		traced[i].Traceparent = parentOf(ctx)
	}
	return traced, func(outcomes []error) {
		for i, span := range spans {
			if err := outcomes[i]; err != nil {
				span.SetStatus(codes.Error, err.Error())
			}
			span.End()
		}
	}
}
