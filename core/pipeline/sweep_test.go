package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/types"
)

// The sweep: a pipeline with a plain monitor, two gates, a batch sink and a sink that refuses some events is
// stopped before and after each of its storage calls, as a process that is killed there, and goes on in a
// new one. What the receivers and the dead letters hold in the end is what a run without a stop holds;
// only the one send that was not recorded may have come twice in each lane.

func sweptPipeline() config.Pipeline {
	return one(func(p *config.Pipeline) {
		p.Monitors = append(p.Monitors,
			config.Monitor{ID: "swarm", When: "mag >= 3", Sinks: []types.SinkID{"batch"}, Gate: &config.Gate{
				Threshold: 3, Window: 6 * time.Second, Cooldown: 4 * time.Second, Key: "net",
			}},
			config.Monitor{ID: "rare", When: "mag >= 6", Sinks: []types.SinkID{"alerts"}, Gate: &config.Gate{Threshold: 3, Window: time.Hour}},
			config.Monitor{ID: "all", Sinks: []types.SinkID{"batch", "alerts"}},
		)
		p.Sinks[0].Retry = config.Retry{Attempts: 2, Min: 50 * time.Millisecond, Max: 50 * time.Millisecond}
		p.Sinks = append(p.Sinks, config.Sink{ID: "batch", Store: config.Store{Module: "batch"}})
	})
}

func sweptEvents() []string {
	var events []string
	for n := range 40 {
		events = append(events, fmt.Sprintf(`{"mag":%d,"net":"%c"}`, 2+n*7%5, 'a'+n*3%2))
		if n%13 == 5 {
			events = append(events, "")
		}
	}
	return events
}

// sweep runs until the fault has stopped the engine, if it does, then to the end. It returns the world and
// how many storage calls the first engine made.
func sweep(t *testing.T, fault flaky.Fault) (*world, int) {
	t.Helper()
	w := newWorld()
	w.receiver(quakes, "alerts").deciding(func(_ context.Context, e types.SinkEvent) error {
		switch m := e.Origin(); {
		case m.Monitor == "all" && m.Cursor.Primary%11 == 4:
			return errRefused
		case m.Monitor == "strong" && m.Cursor.Primary%5 == 0:
			return errDown
		}
		return nil
	})
	events := sweptEvents()
	w.stream(quakes).append(events[:len(events)/2]...)
	inner := w.storage
	faults := flaky.New(ports.SystemClock(), 1, fault)
	w.storage = flaky.NewStorage(inner, faults)
	e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: w, Pipelines: []config.Pipeline{sweptPipeline()}, SpillDir: t.TempDir()})
	require.NoError(t, err)
	if err := e.Start(t.Context()); err == nil {
		pass(2 * time.Second)
		w.stream(quakes).append(events[len(events)/2:]...)
		pass(5 * time.Second)
	}
	faults.Halt()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, e.Close(ended))

	s := w.stream(quakes)
	if n := len(s.events); n < len(events) {
		s.append(events[n:]...)
	}
	w.storage = inner
	last := w.engine(t, sweptPipeline())
	settle()
	require.Equal(t, types.PipelineRunning, status(t, last, quakes).State)
	require.NoError(t, last.Close(context.Background()))
	calls := 0
	for _, op := range []flaky.Op{flaky.StorageApply, flaky.StorageListResources, flaky.StorageListPauses, flaky.StorageLoadCheckpoint, flaky.StorageDelivered, flaky.StorageHits, flaky.StorageGateMeta, flaky.StorageQuiesce} {
		calls += faults.Calls(op)
	}
	return w, calls
}

func TestAStopAtAnyCallLosesNothing(t *testing.T) {
	t.Parallel()
	want := map[string][]types.MatchID{}
	var wantLetters []types.DeadLetter
	calls := 0
	inBubble(t, func(t *testing.T) {
		var w *world
		w, calls = sweep(t, flaky.Fault{Op: flaky.StorageExport, Halt: true})
		for name, r := range w.sinks {
			want[name] = ids(r.has())
			require.Len(t, r.has(), len(want[name]), "nothing comes twice")
		}
		wantLetters = letters(t, w.storage, quakes)
		emissions := 0
		for _, e := range w.receiver(quakes, "batch").has() {
			if e.Emission != nil {
				emissions++
			}
		}
		require.Greater(t, emissions, 3, "the gate lets some through")
		require.Less(t, emissions, 12, "and holds others back")
	})
	require.NotEmpty(t, wantLetters)
	require.Greater(t, calls, 50)
	for _, op := range []flaky.Op{flaky.StorageApply, ""} {
		for _, after := range []bool{false, true} {
			for nth := 1; nth <= min(calls, 110); nth++ {
				t.Run(fmt.Sprintf("call %d of %q, after its effect %v", nth, op, after), func(t *testing.T) {
					t.Parallel()
					inBubble(t, func(t *testing.T) {
						w, _ := sweep(t, flaky.Fault{Op: op, Nth: nth, Halt: true, AfterEffect: after})
						byID := map[types.MatchID]bool{}
						for _, l := range letters(t, w.storage, quakes) {
							byID[l.MatchID] = true
						}
						for _, l := range wantLetters {
							require.True(t, byID[l.MatchID], "the dead letter %v is lost", l.Cursor)
						}
						require.Len(t, byID, len(wantLetters))
						for name, r := range w.sinks {
							got := r.has()
							require.Equal(t, want[name], ids(got), name)
							requireInDoubt(t, got)
						}
					})
				})
			}
		}
	}
}

// requireInDoubt allows each lane to repeat one send: one event, or up to ten of the batch sink that
// follow each other.
func requireInDoubt(t *testing.T, got []types.SinkEvent) {
	t.Helper()
	lanes := map[types.MonitorID]map[types.MatchID]int{}
	for _, e := range got {
		m := e.Origin()
		if lanes[m.Monitor] == nil {
			lanes[m.Monitor] = map[types.MatchID]int{}
		}
		lanes[m.Monitor][m.ID]++
	}
	for id, lane := range lanes {
		twice := 0
		for _, n := range lane {
			require.LessOrEqual(t, n, 2)
			if n == 2 {
				twice++
			}
		}
		require.LessOrEqual(t, twice, 10, "lane of %s", id)
	}
}
