package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	benchPipeline types.PipelineID = "quakes"
	benchQueue    string           = "picked"
)

// BenchmarkPipeline runs a pipeline of the modules of this binary, on files: earthquakes are read from
// one, a monitor picks some, and a queue takes these, each durable before the checkpoint passes it. It
// reports the events that are read in a second.
//
// Beside each run goes the loop that a program without a pipeline would have, on the same queue and
// storage: read a line, decode it, ask, send, and save a checkpoint now and then.
func BenchmarkPipeline(b *testing.B) {
	quakes, err := os.ReadFile(filepath.FromSlash("../../docs/examples/quickstart/earthquakes.ndjson"))
	require.NoError(b, err)
	const repeats = 60 // some 100,000 events, 17 MB
	path := filepath.Join(b.TempDir(), "quakes.ndjson")
	require.NoError(b, os.WriteFile(path, bytes.Repeat(quakes, repeats), 0o600))
	events := repeats * bytes.Count(quakes, []byte("\n"))

	for _, c := range []struct {
		name  string
		least float64 // magnitude that is picked
	}{
		{"picks=5%", 4.5},
		{"picks=all", -10},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took, plainTook time.Duration
			plainEvents := events / 20 // it is slow
			for b.Loop() {
				took += benchRun(b, path, c.least, events)
				b.StopTimer()
				plainTook += plainRun(b, path, c.least, plainEvents)
				b.StartTimer()
			}
			rate := perSecond(events*b.N, took)
			plain := perSecond(plainEvents*b.N, plainTook)
			b.ReportMetric(rate, "events/s")
			b.ReportMetric(plain, "plain-events/s")
			b.ReportMetric(rate/plain, "times-plain")
		})
	}

	// A sink that takes 10 ms an event, beside the queue: what waits for it goes to a file.
	b.Run("slow-sink", func(b *testing.B) {
		const count = 60_000 // below what may wait for a lane
		short := filepath.Join(b.TempDir(), "short.ndjson")
		lines := bytes.SplitAfterN(bytes.Repeat(quakes, repeats), []byte("\n"), count+1)
		require.NoError(b, os.WriteFile(short, bytes.Join(lines[:count], nil), 0o600))
		var alone, beside time.Duration
		var heapAlone, heapBeside uint64
		for b.Loop() {
			b.StopTimer()
			d, heap := lanesRun(b, short, count, false)
			alone, heapAlone = alone+d, max(heapAlone, heap)
			b.StartTimer()
			d, heap = lanesRun(b, short, count, true)
			beside, heapBeside = beside+d, max(heapBeside, heap)
		}
		b.ReportMetric(perSecond(count*b.N, beside), "events/s")
		b.ReportMetric(perSecond(count*b.N, alone), "alone-events/s")
		b.ReportMetric(float64(heapBeside)/(1<<20), "heap-MiB")
		b.ReportMetric(float64(heapAlone)/(1<<20), "alone-heap-MiB")
	})
}

func perSecond(events int, took time.Duration) float64 { return float64(events) / took.Seconds() }

// benchStores are the stores of a benchmark, on files of their own.
type benchStores struct {
	*catalog.Composition
	storage ports.Storage
}

func openBench(b *testing.B, text string) (benchStores, string) {
	b.Helper()
	dir := b.TempDir()
	cfg, err := config.Parse(filepath.Join(dir, "stowage.toml"), []byte(text+`
[queue.`+benchQueue+`]
module = "localqueue"
`))
	require.NoError(b, err)
	modules := newCatalog()
	require.NoError(b, modules.RegisterSink(slowSinkModule()))
	stores, err := modules.Compose(cfg, catalog.Options{OwnerModule: ownerModule, StorageModule: storageModule})
	require.NoError(b, err)
	storage, err := stores.Storage(b.Context())
	require.NoError(b, err)
	return benchStores{stores, storage}, dir
}

func (s benchStores) close(b *testing.B) {
	b.Helper()
	require.NoError(b, s.Close(context.Background()))
}

func (s benchStores) engine(b *testing.B, dir string) *pipeline.Engine {
	b.Helper()
	engine, err := pipeline.NewEngine(pipeline.Options{
		Storage: s.storage, Parts: s, Pipelines: s.Pipelines(), SpillDir: filepath.Join(dir, "spill"),
	})
	require.NoError(b, err)
	return engine
}

func benchText(path string, least float64) string {
	return fmt.Sprintf(`
[[pipeline]]
id = %q
source = { module = "ndjson", path = %q, follow = false }
event_time = "time"
fields = { mag = "number", time = "number" }
[[pipeline.monitor]]
id = "strong"
when = "mag >= %v"
sinks = ["queue"]
[[pipeline.sink]]
id = "queue"
module = "queue"
queue = %q
`, benchPipeline, path, least, benchQueue)
}

// benchRun is how long a pipeline takes from its start until all is read, sent and checkpointed.
func benchRun(b *testing.B, path string, least float64, events int) time.Duration {
	b.Helper()
	b.StopTimer()
	stores, dir := openBench(b, benchText(path, least))
	engine := stores.engine(b, dir)
	b.StartTimer()
	began := time.Now()
	require.NoError(b, engine.Start(b.Context()))
	status := awaitStatus(b, engine, func(s types.PipelineStatus) bool { return s.State == types.PipelineFinished })
	took := time.Since(began)
	b.StopTimer()
	require.Equal(b, uint64(events), status.Events)
	require.Equal(b, status.Monitors[0].Matches, status.Sinks[0].Delivered)
	require.Zero(b, status.Sinks[0].DeadLettered)
	require.NoError(b, engine.Close(b.Context()))
	stores.close(b)
	b.StartTimer()
	return took
}

// awaitStatus waits until a pipeline is as it should be.
func awaitStatus(b *testing.B, engine *pipeline.Engine, good func(types.PipelineStatus) bool) types.PipelineStatus {
	b.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		status, err := engine.Pipeline(b.Context(), benchPipeline)
		require.NoError(b, err)
		if good(status) {
			return status
		}
		require.NotEqual(b, types.PipelineFailed, status.State, status.Error)
		select {
		case <-tick.C:
		case <-b.Context().Done():
			require.NoError(b, b.Context().Err())
		}
	}
}

// plainRun is how long a loop takes for the first events of a file: a message is a transaction, and every
// hundredth event a checkpoint.
func plainRun(b *testing.B, path string, least float64, events int) time.Duration {
	b.Helper()
	stores, _ := openBench(b, "")
	queue, err := stores.Queue(b.Context(), benchQueue)
	require.NoError(b, err)
	began := time.Now()
	f, err := os.Open(path)
	require.NoError(b, err)
	lines := bufio.NewScanner(f)
	for n := 1; n <= events; n++ {
		require.True(b, lines.Scan())
		var quake struct {
			Mag float64 `json:"mag"`
		}
		require.NoError(b, json.Unmarshal(lines.Bytes(), &quake))
		if quake.Mag >= least {
			require.NoError(b, queue.Send(b.Context(), types.JSON(lines.Bytes()), types.SendOptions{}))
		}
		if n%100 == 0 {
			require.NoError(b, stores.storage.SaveCheckpoint(b.Context(), benchPipeline, types.Checkpoint{Cursor: types.Cursor{Primary: uint64(n)}, UpdatedAt: time.Now()}))
		}
	}
	took := time.Since(began)
	require.NoError(b, f.Close())
	stores.close(b)
	return took
}

// lanesRun is how long the lane of the queue takes for all events, and what is on the heap then.
func lanesRun(b *testing.B, path string, events int, slow bool) (time.Duration, uint64) {
	b.Helper()
	b.StopTimer()
	text := benchText(path, -10)
	if slow {
		text += `[[pipeline.monitor]]
id = "all"
sinks = ["slow"]
[[pipeline.sink]]
id = "slow"
module = "slow"
`
	}
	stores, dir := openBench(b, text)
	engine := stores.engine(b, dir)
	b.StartTimer()
	began := time.Now()
	require.NoError(b, engine.Start(b.Context()))
	awaitStatus(b, engine, func(s types.PipelineStatus) bool { return s.Sinks[0].Delivered == uint64(events) })
	took := time.Since(began)
	b.StopTimer()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	require.NoError(b, engine.Close(b.Context()))
	stores.close(b)
	b.StartTimer()
	return took, memory.HeapAlloc
}

// slowSinkModule makes sinks that take 10 ms for an event.
func slowSinkModule() ports.SinkModule {
	return ports.SinkModule{
		ModuleInfo: ports.ModuleInfo{Name: "slow", Description: "takes its time", Example: "[[pipeline.sink]]\nid = \"slow\"\nmodule = \"slow\"\n"},
		Check:      func(_ ports.Env, config ports.ModuleConfig) error { return config.Decode(&struct{}{}) },
		Open: func(_ context.Context, env ports.Env, _ ports.ModuleConfig, _ ports.QueueResolver) (ports.Sink, error) {
			return slowSink{env.Clock}, nil
		},
	}
}

type slowSink struct{ clock ports.Clock }

func (s slowSink) Deliver(ctx context.Context, _ types.SinkEvent) error {
	timer := s.clock.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
