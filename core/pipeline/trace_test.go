package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/types"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// traced gives the stream events with a trace context.
func traced(s *stream, payloads ...string) {
	s.append(payloads...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range payloads {
		s.events[len(s.events)-1-i].Traceparent = parent
	}
}

func TestATraceGoesFromTheSourceThroughTheSink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		defer func() { require.NoError(t, provider.Shutdown(context.Background())) }()
		w := newWorld()
		failed := false
		w.receiver(quakes, "alerts").deciding(func(context.Context, types.SinkEvent) error {
			if !failed {
				failed = true
				return errDown
			}
			return nil
		})
		traced(w.stream(quakes), mags(5, 1)...)
		w.engineWith(t, pipeline.Options{Pipelines: []config.Pipeline{one()}, Tracer: provider.Tracer("test")})
		settle()
		ended := spans.Ended()
		require.Len(t, ended, 3, "a match and two attempts")
		match, first, second := ended[0], ended[1], ended[2]
		require.Equal(t, "stowage.match", match.Name())
		require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", match.SpanContext().TraceID().String())
		require.Equal(t, "00f067aa0ba902b7", match.Parent().SpanID().String())
		for _, attempt := range []sdktrace.ReadOnlySpan{first, second} {
			require.Equal(t, "stowage.deliver", attempt.Name())
			require.Equal(t, match.SpanContext().SpanID(), attempt.Parent().SpanID())
		}
		require.Equal(t, codes.Error, first.Status().Code)
		require.Equal(t, codes.Unset, second.Status().Code)
		got := w.receiver(quakes, "alerts").has()
		require.Len(t, got, 1)
		require.Equal(t, "00-4bf92f3577b34da6a3ce929d0e0e4736-"+second.SpanContext().SpanID().String()+"-01", got[0].Traceparent)
	})
}

func TestATraceContextIsPassedOnWithoutATracer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		traced(w.stream(quakes), mags(5)...)
		w.stream(quakes).append(mags(6)...)
		traced(w.stream(quakes), mags(7)...)
		w.stream(quakes).events[2].Traceparent = "00-4bf92f3577b34da6\r\nwebhook-id: forged"
		w.engine(t, one())
		settle()
		got := w.receiver(quakes, "alerts").has()
		require.Equal(t, parent, got[0].Traceparent)
		require.Empty(t, got[1].Traceparent)
		require.Empty(t, got[2].Traceparent, "what has another form is left out")
	})
}
