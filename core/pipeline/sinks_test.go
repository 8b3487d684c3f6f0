package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// named is a sink that can be told from others.
type named string

func (named) Deliver(context.Context, types.SinkEvent) error { return nil }

func TestSinksFindsByPipelineAndName(t *testing.T) {
	t.Parallel()
	configured := map[types.PipelineID]map[types.SinkID]ports.Sink{
		"earthquakes": {"mail": named("a"), "alerts": named("b")},
		"volcanoes":   {"alerts": named("c")},
		"tides":       {},
	}
	sinks := pipeline.NewSinks(configured)
	delete(configured["earthquakes"], "alerts")
	delete(configured, "volcanoes")

	for _, c := range []struct {
		pipeline types.PipelineID
		sink     types.SinkID
		want     ports.Sink
	}{{"earthquakes", "mail", named("a")}, {"earthquakes", "alerts", named("b")}, {"volcanoes", "alerts", named("c")}} {
		found, err := sinks.Sink(t.Context(), c.pipeline, c.sink)
		require.NoError(t, err)
		require.Equal(t, c.want, found)
	}
	for _, c := range []struct {
		pipeline types.PipelineID
		sink     types.SinkID
		says     string
	}{
		{"earthquakes", "sms", `the pipeline "earthquakes" has no sink "sms" in the configuration: there are alerts, mail`},
		{"tides", "sms", `the pipeline "tides" has no sink "sms" in the configuration: there is none`},
		{"storms", "mail", `no pipeline "storms" is configured: there are earthquakes, tides, volcanoes`},
	} {
		found, err := sinks.Sink(t.Context(), c.pipeline, c.sink)
		require.Nil(t, found)
		require.ErrorIs(t, err, ports.ErrNotFound)
		require.ErrorContains(t, err, c.says)
	}
	_, err := pipeline.NewSinks(nil).Sink(t.Context(), "storms", "mail")
	require.ErrorIs(t, err, ports.ErrNotFound)
	require.ErrorContains(t, err, "there is none")
}
