package pipeline_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/types"
)

// grid makes pipelines whose monitors each deliver to all sinks, and of which one picks an event.
func grid(pipelines, monitors, sinks int) []config.Pipeline {
	list := make([]config.Pipeline, pipelines)
	for i := range list {
		p := config.Pipeline{ID: types.PipelineID(fmt.Sprintf("p%03d", i)), Source: &config.Source{Store: config.Store{Module: "stream"}}}
		var names []types.SinkID
		for s := range sinks {
			names = append(names, types.SinkID(fmt.Sprintf("s%d", s)))
			p.Sinks = append(p.Sinks, config.Sink{ID: names[s], Store: config.Store{Module: "batch"}})
		}
		for m := range monitors {
			p.Monitors = append(p.Monitors, config.Monitor{ID: types.MonitorID(fmt.Sprintf("m%02d", m)), When: fmt.Sprintf("mag == %d", m), Sinks: names})
		}
		list[i] = p
	}
	return list
}

// BenchmarkLanes says what many lanes cost: at rest, to start and to stop, and per event.
func BenchmarkLanes(b *testing.B) {
	for _, c := range []struct{ pipelines, monitors, sinks int }{{1, 1, 1}, {50, 40, 2}} {
		b.Run(fmt.Sprintf("%d", c.pipelines*c.monitors*c.sinks), func(b *testing.B) {
			all := grid(c.pipelines, c.monitors, c.sinks)
			w := newWorld()
			w.storage = forgetful{w.storage}
			events := b.N/c.pipelines + 1
			for i, p := range all {
				for _, s := range p.Sinks {
					w.receiver(p.ID, s.ID).deciding(func(context.Context, types.SinkEvent) error { return errRefused }) // so that it keeps none
				}
				payloads := make([]string, events)
				for n := range payloads {
					payloads[n] = fmt.Sprintf(`{"mag":%d}`, (n+i)%c.monitors)
				}
				w.stream(p.ID).append(payloads...)
				require.NoError(b, w.storage.Pause(b.Context(), types.PipelineOf(p.ID)))
			}
			e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: w, SpillDir: b.TempDir(), Pipelines: all})
			require.NoError(b, err)
			goroutines, before, began := runtime.NumGoroutine(), resident(), time.Now()
			require.NoError(b, e.Start(b.Context()))
			await(b, e, all, func(s types.PipelineStatus) bool { return s.State == types.PipelinePaused })
			started, idle, rest := time.Since(began), runtime.NumGoroutine()-goroutines, resident()-before
			b.ResetTimer()
			for _, p := range all {
				require.NoError(b, w.storage.Resume(b.Context(), types.PipelineOf(p.ID)))
			}
			await(b, e, all, func(s types.PipelineStatus) bool {
				return s.Checkpoint != nil && s.Checkpoint.Primary == uint64(events)
			})
			b.StopTimer()
			began = time.Now()
			require.NoError(b, e.Close(context.Background()))
			b.ReportMetric(float64(started.Microseconds())/1000, "ms/start")
			b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/stop")
			b.ReportMetric(float64(idle), "goroutines")
			b.ReportMetric(float64(rest)/(1<<10), "KiB-at-rest")
		})
	}
}

// await waits until all pipelines are so.
func await(b *testing.B, e *pipeline.Engine, all []config.Pipeline, so func(types.PipelineStatus) bool) {
	b.Helper()
	for _, p := range all {
		for {
			s, err := e.Pipeline(b.Context(), p.ID)
			require.NoError(b, err)
			if so(s) {
				break
			}
			<-time.After(time.Millisecond)
		}
	}
}

// resident is what the heap and the stacks hold.
func resident() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
