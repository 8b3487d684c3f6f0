package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/types"
)

// A week of earthquakes, at the pace at which they happened, on a clock that runs as fast as the machine
// does. Meanwhile the operator pauses and resumes, the process is stopped, killed and started again, and
// the receivers are down for hours. In the end each receiver holds what a plain computation over the file
// says, and the dead letters hold what it refused.

type quake struct {
	ID   string  `json:"id"`
	Time int64   `json:"time"`
	Mag  float64 `json:"mag"`
	Net  string  `json:"net"`
}

func weekOfQuakes(t *testing.T) (lines []string, quakes []quake) {
	t.Helper()
	text, err := os.ReadFile("../../docs/examples/quickstart/earthquakes.ndjson")
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		var q quake
		require.NoError(t, json.Unmarshal(line, &q))
		lines, quakes = append(lines, string(line)), append(quakes, q)
	}
	return lines, quakes
}

func weekPipeline() config.Pipeline {
	return config.Pipeline{
		ID: quakes, Source: &config.Source{Store: config.Store{Module: "stream"}}, EventTime: "time",
		Monitors: []config.Monitor{
			{ID: "strong", When: "mag >= 4.5", Sinks: []types.SinkID{"alerts", "archive"}},
			{ID: "swarm", When: "mag >= 1.5", Sinks: []types.SinkID{"alerts"}, Gate: &config.Gate{
				Threshold: 4, Window: time.Hour, Cooldown: 3 * time.Hour, Key: "net",
			}},
		},
		Sinks: []config.Sink{
			{ID: "alerts", Store: config.Store{Module: "receiver"}, Retry: config.Retry{Attempts: 3, Min: time.Second, Max: time.Minute}},
			{ID: "archive", Store: config.Store{Module: "batch"}, Retry: config.Retry{Attempts: 3, Min: time.Second, Max: time.Minute}},
		},
	}
}

// reference computes, the simplest way, what should be delivered: for each monitor the positions of the
// events.
func reference(list []quake) map[types.MonitorID][]uint64 {
	want := map[types.MonitorID][]uint64{}
	waiting := map[string][]int64{} // the times that count, by net
	last := map[string]int64{}      // the time of the last emission
	for i, q := range list {
		position := uint64(i + 1)
		if q.Mag >= 4.5 {
			want["strong"] = append(want["strong"], position)
		}
		if q.Mag < 1.5 {
			continue
		}
		now := q.Time
		hits := slices.DeleteFunc(append(slices.Clone(waiting[q.Net]), now), func(ts int64) bool { return ts <= now-time.Hour.Milliseconds() })
		emitted, before := last[q.Net]
		if len(hits) >= 4 && (!before || now-emitted >= 3*time.Hour.Milliseconds()) {
			want["swarm"] = append(want["swarm"], position)
			last[q.Net], hits = now, nil
		}
		waiting[q.Net] = hits
	}
	return want
}

func TestAWeekOfEarthquakes(t *testing.T) {
	t.Parallel()
	lines, list := weekOfQuakes(t)
	want := reference(list)
	require.Len(t, want["strong"], 85)
	require.NotEmpty(t, want["swarm"])
	for _, seed := range []uint64{1, 2} {
		inBubble(t, func(t *testing.T) { simulateWeek(t, seed, lines, list, want) })
	}
}

func simulateWeek(t *testing.T, seed uint64, lines []string, list []quake, want map[types.MonitorID][]uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	w := newWorld()
	inner := w.storage
	refuses := func(e types.SinkEvent) bool { return e.Origin().Cursor.Primary%9 == 4 }
	var down atomic.Bool
	for sink, batch := range map[types.SinkID]bool{"alerts": false, "archive": true} {
		w.receiver(quakes, sink).deciding(func(_ context.Context, e types.SinkEvent) error {
			switch {
			case down.Load():
				return errDown
			case !batch && refuses(e):
				return errRefused
			}
			return nil
		})
	}
	var (
		faults *flaky.Faults
		engine *pipeline.Engine
		kills  int
	)
	start := func() {
		faults = flaky.New(ports.SystemClock(), seed)
		var err error
		engine, err = pipeline.NewEngine(pipeline.Options{
			Storage: flaky.NewStorage(inner, faults), Parts: w, Pipelines: []config.Pipeline{weekPipeline()}, SpillDir: t.TempDir(),
		})
		require.NoError(t, err)
		require.NoError(t, engine.Start(t.Context()))
	}
	stop := func() { require.NoError(t, engine.Close(context.Background())) }
	kill := func() {
		kills++
		faults.Halt()
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, engine.Close(gone))
	}
	targets := []types.Pause{
		types.PipelineOf(quakes), types.MonitorOf(quakes, "strong"), types.MonitorOf(quakes, "swarm"),
		types.SinkOf(quakes, "alerts"), types.SinkOf(quakes, "archive"),
	}
	start()
	now := list[0].Time
	for i, q := range list {
		if q.Time > now {
			pass(time.Duration(q.Time-now) * time.Millisecond)
			now = q.Time
		}
		w.stream(quakes).append(lines[i])
		pause := targets[random.IntN(len(targets))]
		switch random.IntN(40) {
		case 0:
			stop()
			start()
		case 1:
			kill()
			start()
		case 2, 3:
			require.NoError(t, inner.Pause(t.Context(), pause))
		case 4, 5, 6, 7:
			require.NoError(t, inner.Resume(t.Context(), pause))
		case 8:
			down.Store(true)
		case 9, 10:
			down.Store(false)
		}
	}
	down.Store(false)
	for _, pause := range targets {
		require.NoError(t, inner.Resume(t.Context(), pause))
	}
	settle()
	require.Greater(t, kills, 10)

	// The operator replays what failed while a receiver was down; what is refused stays refused.
	handle, err := control.New(control.Options{Storage: inner, Sinks: engine, Suspender: engine})
	require.NoError(t, err)
	_, err = handle.ReplayLetters(t.Context(), quakes, types.LetterSelection{})
	require.NoError(t, err)
	stop()

	left := map[types.MatchID]bool{}
	for _, l := range letters(t, inner, quakes) {
		left[l.MatchID] = true
	}
	expect := func(sink types.SinkID, monitor types.MonitorID, refused func(uint64) bool) {
		var delivered []uint64
		for _, position := range want[monitor] {
			id := types.NewMatchID(quakes, monitor, sink, types.Event{Cursor: types.Cursor{Primary: position}}.Identity())
			if refused(position) {
				require.True(t, left[id], "%v is among the dead letters", position)
				delete(left, id)
				continue
			}
			delivered = append(delivered, position)
		}
		got := map[uint64]int{}
		for _, e := range w.receiver(quakes, sink).has() {
			if e.Origin().Monitor == monitor {
				got[e.Origin().Cursor.Primary]++
			}
		}
		require.Equal(t, delivered, slices.Sorted(maps.Keys(got)), "seed %d: what %s has of %s", seed, sink, monitor)
		twice := 0
		for _, n := range got {
			twice += n - 1
		}
		require.LessOrEqual(t, twice, kills*10, "only sends at a kill come twice")
		t.Logf("seed %d: %s of %s: %d delivered, %d twice, %d kills", seed, sink, monitor, len(delivered), twice, kills)
	}
	every9th := func(position uint64) bool { return position%9 == 4 }
	expect("alerts", "strong", every9th)
	expect("alerts", "swarm", every9th)
	expect("archive", "strong", func(uint64) bool { return false })
	require.Empty(t, left)
}
