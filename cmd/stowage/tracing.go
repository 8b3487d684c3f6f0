package main

import (
	"context"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stowage-go/stowage/ports"
)

// tracerName is the instrumentation scope of the daemon's spans.
const tracerName = "github.com/stowage-go/stowage"

// The environment variables of OpenTelemetry that are looked at here. Those that tune an exporter or its
// batches (headers, certificates, compression, timeouts, OTEL_BSP_…) and OTEL_RESOURCE_ATTRIBUTES are
// read from the process's environment by the libraries themselves.
const (
	envSDKDisabled    = "OTEL_SDK_DISABLED"
	envTracesExporter = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	envServiceName    = "OTEL_SERVICE_NAME"
	envSampler        = "OTEL_TRACES_SAMPLER"
	envSamplerArg     = "OTEL_TRACES_SAMPLER_ARG"
)

// newTracing makes the tracer of the pipelines. It sends spans by OTLP over HTTP to the collector that
// the environment names; where it names none, or switches tracing off, the tracer is nil: a pipeline makes
// no spans then, and a trace that came with an event goes on to its sinks all the same. The function that it returns sends what is
// left and ends the tracer; that may take until its context ends.
//
// A collector that cannot be reached costs spans and nothing else: log has a line when that begins and
// when it ends. A variable that cannot be followed is INVALID_CONFIG.
func newTracing(ctx context.Context, getenv func(string) string, version string, log *slog.Logger) (trace.Tracer, func(context.Context) error, error) {
	endpoint, err := tracesEndpoint(getenv)
	if err != nil {
		return nil, nil, err
	}
	if endpoint == "" {
		return nil, func(context.Context) error { return nil }, nil
	}
	sampler, err := newSampler(getenv)
	if err != nil {
		return nil, nil, err
	}
	described, err := describeService(ctx, getenv, version)
	if err != nil {
		return nil, nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return nil, nil, ports.Errorf(ports.CodeInvalidConfig, "tracing", "the exporter of traces cannot be made: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&loggedExporter{SpanExporter: exporter, log: log}),
		sdktrace.WithResource(described),
		sdktrace.WithSampler(sampler),
	)
	return provider.Tracer(tracerName, trace.WithInstrumentationVersion(version)), provider.Shutdown, nil
}

// tracesEndpoint is the URL to which spans are posted, empty where none are wanted.
func tracesEndpoint(getenv func(string) string) (string, error) {
	if strings.EqualFold(strings.TrimSpace(getenv(envSDKDisabled)), "true") {
		return "", nil
	}
	switch exporter := strings.TrimSpace(getenv(envTracesExporter)); exporter {
	case "", "otlp":
	case "none":
		return "", nil
	default:
		return "", badVariable(envTracesExporter, exporter, `use "otlp" or "none"`)
	}
	name, suffix := envTracesEndpoint, ""
	if getenv(name) == "" {
		name, suffix = envEndpoint, "v1/traces"
	}
	text := strings.TrimSpace(getenv(name))
	if text == "" {
		return "", nil
	}
	for _, variable := range []string{envTracesProtocol, envProtocol} {
		protocol := strings.TrimSpace(getenv(variable))
		if protocol == "" {
			continue
		}
		if protocol != "http/protobuf" && protocol != "http/json" {
			return "", badVariable(variable, protocol, `use "http/protobuf", which collectors take on port 4318`)
		}
		break // that of traces goes before that of everything
	}
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		// The text may hold a password.
		return "", ports.Errorf(ports.CodeInvalidConfig, "tracing", "the environment variable %s is no http or https URL: give one such as http://127.0.0.1:4318, or remove it", name)
	}
	if suffix != "" {
		address = address.JoinPath(suffix)
	}
	return address.String(), nil
}

func badVariable(name, value, advice string) error {
	return ports.Errorf(ports.CodeInvalidConfig, "tracing", "the environment variable %s is %q: %s, or remove it", name, value, advice)
}

// newSampler is the sampler of the environment; default is each trace that began here, and of those that
// came with an event what their sender has chosen.
func newSampler(getenv func(string) string) (sdktrace.Sampler, error) {
	ratio := 1.0
	if text := strings.TrimSpace(getenv(envSamplerArg)); text != "" {
		var err error
		if ratio, err = strconv.ParseFloat(text, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, badVariable(envSamplerArg, text, "give a number from 0 to 1")
		}
	}
	switch name := strings.ToLower(strings.TrimSpace(getenv(envSampler))); name {
	case "", "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)), nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(ratio), nil
	default:
		return nil, badVariable(envSampler, name, "use always_on, always_off, traceidratio, or one of these behind parentbased_")
	}
}

// describeService says who sends the spans.
func describeService(ctx context.Context, getenv func(string) string, version string) (*resource.Resource, error) {
	options := []resource.Option{
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "stowage"), attribute.String("service.version", version)),
		resource.WithFromEnv(), // what comes later goes before
	}
	if name := getenv(envServiceName); name != "" {
		options = append(options, resource.WithAttributes(attribute.String("service.name", name)))
	}
	described, err := resource.New(ctx, options...)
	if err != nil {
		return nil, ports.Errorf(ports.CodeInvalidConfig, "tracing", "the resource attributes of the environment cannot be read: %w", err)
	}
	return described, nil
}

// loggedExporter logs when spans begin to get lost, and when they no longer do.
type loggedExporter struct {
	sdktrace.SpanExporter
	log *slog.Logger

	mu      sync.Mutex
	failing bool
}

// ExportSpans implements [sdktrace.SpanExporter]. Its error ends here: whoever calls it could only
// print it.
func (e *loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.mu.Lock()
	was := e.failing
	e.failing = err != nil
	e.mu.Unlock()
	switch {
	case err != nil && !was:
		e.log.Warn("spans cannot be sent to the collector and are lost", "spans", len(spans), "error", err)
	case err == nil && was:
		e.log.Info("spans are sent to the collector again")
	}
	return nil
}
