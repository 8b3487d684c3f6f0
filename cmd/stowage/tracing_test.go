package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/stowage-go/stowage/ports"
)

// spanCollector takes spans as an OpenTelemetry collector does.
type spanCollector struct {
	url string

	mu       sync.Mutex
	paths    []string
	resource map[string]string
	spans    []*traces.Span
}

func newSpanCollector(t *testing.T) *spanCollector {
	t.Helper()
	c := new(spanCollector)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(r); err != nil {
			t.Error(err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answer, err := proto.Marshal(&collector.ExportTraceServiceResponse{})
		assert.NoError(t, err)
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, err = w.Write(answer)
		assert.NoError(t, err)
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *spanCollector) take(r *http.Request) error {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unpacked
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(text, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths = append(c.paths, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"))
	for _, group := range request.GetResourceSpans() {
		c.resource = attributesOf(group.GetResource().GetAttributes())
		for _, scope := range group.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return nil
}

func attributesOf(list []*common.KeyValue) map[string]string {
	attributes := map[string]string{}
	for _, a := range list {
		attributes[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return attributes
}

// environment is a process's environment as a map.
func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func TestSpansReachTheCollector(t *testing.T) {
	t.Parallel()
	c := newSpanCollector(t)
	tracer, shutdown, err := newTracing(t.Context(), environment(map[string]string{envEndpoint: c.url + "/otlp"}), "v1.2.3", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5}, TraceFlags: trace.FlagsSampled, Remote: true})
	ctx, match := tracer.Start(trace.ContextWithSpanContext(t.Context(), parent), "stowage.match", trace.WithAttributes(attribute.String("stowage.pipeline", "earthquakes")))
	_, deliver := tracer.Start(ctx, "stowage.deliver", trace.WithSpanKind(trace.SpanKindProducer))
	deliver.SetStatus(codes.Error, "refused")
	deliver.End()
	match.End()
	require.NoError(t, shutdown(t.Context()))

	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Equal(t, []string{"POST /otlp/v1/traces application/x-protobuf"}, c.paths)
	assert.Equal(t, "stowage", c.resource["service.name"])
	assert.Equal(t, "v1.2.3", c.resource["service.version"])
	require.Len(t, c.spans, 2)
	sent, root := c.spans[0], c.spans[1]
	assert.Equal(t, "stowage.match", root.GetName())
	assert.Equal(t, map[string]string{"stowage.pipeline": "earthquakes"}, attributesOf(root.GetAttributes()))
	assert.Equal(t, parent.SpanID().String(), trace.SpanID(root.GetParentSpanId()).String(), "it goes on with the trace that came in")
	assert.Equal(t, "stowage.deliver", sent.GetName())
	assert.Equal(t, root.GetSpanId(), sent.GetParentSpanId())
	assert.Equal(t, traces.Status_STATUS_CODE_ERROR, sent.GetStatus().GetCode())
	for _, span := range c.spans {
		assert.Equal(t, parent.TraceID().String(), trace.TraceID(span.GetTraceId()).String())
		assert.Positive(t, span.GetEndTimeUnixNano()-span.GetStartTimeUnixNano()+1)
	}
}

func TestTheEnvironmentSaysWhereSpansGo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		variables map[string]string
		want      string
	}{
		"none":                       {nil, ""},
		"a base":                     {map[string]string{envEndpoint: "http://127.0.0.1:4318"}, "http://127.0.0.1:4318/v1/traces"},
		"a base with a slash":        {map[string]string{envEndpoint: "https://otel.example.org/in/"}, "https://otel.example.org/in/v1/traces"},
		"one for traces as it is":    {map[string]string{envEndpoint: "http://a:1", envTracesEndpoint: "http://b:2/x"}, "http://b:2/x"},
		"switched off":               {map[string]string{envEndpoint: "http://a:1", envSDKDisabled: "TRUE"}, ""},
		"not switched off":           {map[string]string{envEndpoint: "http://a:1", envSDKDisabled: "0"}, "http://a:1/v1/traces"},
		"without an exporter":        {map[string]string{envEndpoint: "http://a:1", envTracesExporter: "none"}, ""},
		"a protocol":                 {map[string]string{envEndpoint: "http://a:1", envProtocol: "http/protobuf"}, "http://a:1/v1/traces"},
		"that of traces goes before": {map[string]string{envEndpoint: "http://a:1", envProtocol: "grpc", envTracesProtocol: "http/protobuf"}, "http://a:1/v1/traces"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tracesEndpoint(environment(c.variables))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAnEnvironmentThatCannotBeFollowedIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		variables map[string]string
		says      string
	}{
		"a protocol":        {map[string]string{envProtocol: "grpc"}, envProtocol},
		"an exporter":       {map[string]string{envTracesExporter: "zipkin"}, `"zipkin"`},
		"a sampler":         {map[string]string{envSampler: "sometimes"}, `"sometimes"`},
		"a ratio":           {map[string]string{envSampler: "traceidratio", envSamplerArg: "1.5"}, envSamplerArg},
		"no ratio at all":   {map[string]string{envSampler: "traceidratio", envSamplerArg: "NaN"}, envSamplerArg},
		"no URL":            {map[string]string{envEndpoint: "collector:4318"}, envEndpoint},
		"a secret in a ':'": {map[string]string{envEndpoint: "http://user:hunter2@ho st"}, "http://127.0.0.1:4318"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variables := map[string]string{envEndpoint: "http://127.0.0.1:1"}
			maps.Copy(variables, c.variables)
			_, _, err := newTracing(t.Context(), environment(variables), "v", slog.New(slog.DiscardHandler))
			require.ErrorIs(t, err, ports.ErrInvalidConfig)
			assert.Contains(t, err.Error(), c.says)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestSamplersOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                         sdktrace.ParentBased(sdktrace.AlwaysSample()).Description(),
		"parentbased_always_on":    sdktrace.ParentBased(sdktrace.AlwaysSample()).Description(),
		"parentbased_always_off":   sdktrace.ParentBased(sdktrace.NeverSample()).Description(),
		"Parentbased_traceidratio": sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.25)).Description(),
		"always_on":                sdktrace.AlwaysSample().Description(),
		"always_off":               sdktrace.NeverSample().Description(),
		"traceidratio":             sdktrace.TraceIDRatioBased(0.25).Description(),
	} {
		sampler, err := newSampler(environment(map[string]string{envSampler: " " + name, envSamplerArg: "0.25"}))
		require.NoError(t, err, name)
		assert.Equal(t, want, sampler.Description(), name)
	}
}

// That a trace goes on all the same is shown where the engine is (TestATraceContextIsPassedOnWithoutATracer).
func TestWithoutACollectorThereIsNoTracer(t *testing.T) {
	t.Parallel()
	for _, env := range []map[string]string{nil, {envSDKDisabled: "true", envEndpoint: "http://127.0.0.1:1"}, {envTracesExporter: "none", envEndpoint: "http://127.0.0.1:1"}} {
		tracer, shutdown, err := newTracing(t.Context(), environment(env), "v", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		assert.Nil(t, tracer)
		require.NoError(t, shutdown(t.Context()))
	}
}

func TestTheServiceIsNamedByTheEnvironment(t *testing.T) {
	t.Parallel()
	c := newSpanCollector(t)
	tracer, shutdown, err := newTracing(t.Context(), environment(map[string]string{envTracesEndpoint: c.url, envServiceName: "quakes"}), "v", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	_, span := tracer.Start(t.Context(), "one")
	span.End()
	require.NoError(t, shutdown(t.Context()))
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Equal(t, "quakes", c.resource["service.name"])
	assert.Equal(t, []string{"POST / application/x-protobuf"}, c.paths)
}

// failingExporter fails while it is told to.
type failingExporter struct {
	sdktrace.SpanExporter
	fails atomic.Bool
}

func (e *failingExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	if e.fails.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

func TestACollectorThatIsAwayIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	inner := new(failingExporter)
	e := &loggedExporter{SpanExporter: inner, log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, fails := range []bool{false, true, true, false, false, true} {
		inner.fails.Store(fails)
		require.NoError(t, e.ExportSpans(t.Context(), nil))
	}
	assert.Equal(t, 2, strings.Count(log.String(), "level=WARN"), log.String())
	assert.Equal(t, 1, strings.Count(log.String(), "level=INFO"), log.String())
}
