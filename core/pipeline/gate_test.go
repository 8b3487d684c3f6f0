package pipeline_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// busyAndRare has two gates: "busy" counts all but the strongest events, "rare" the strongest. Their times
// are a second apart.
func busyAndRare() config.Pipeline {
	return one(func(p *config.Pipeline) {
		p.Monitors = []config.Monitor{
			{ID: "busy", When: "mag < 9", Sinks: []types.SinkID{"alerts"}, Gate: &config.Gate{
				Threshold: 3, Window: 10 * time.Second, Cooldown: time.Hour,
			}},
			{ID: "rare", When: "mag >= 9", Sinks: []types.SinkID{"slow"}, Gate: &config.Gate{Threshold: 2, Window: 24 * time.Hour}},
		}
		p.Sinks = append(p.Sinks, config.Sink{ID: "slow", Store: config.Store{Module: "receiver"}})
	})
}

// kept are the primaries of the hits of a monitor that are stored.
func kept(t *testing.T, w *world, monitor types.MonitorID) []uint64 {
	t.Helper()
	hits, err := w.storage.Hits(t.Context(), quakes, monitor, math.MinInt64)
	require.NoError(t, err)
	var list []uint64
	for _, h := range hits {
		list = append(list, h.Cursor.Primary)
	}
	return list
}

func TestAGateThatRestsKeepsNoHitsOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.stream(quakes).append(mags(9)...)
		const round = 1200 // more than one read
		last := uint64(1)
		for range 2 { // engines
			e := w.engine(t, busyAndRare())
			for range 3 {
				w.stream(quakes).append(many(round)...)
				last += round
				settle()
				require.Equal(t, &types.Cursor{Primary: last}, status(t, e, quakes).Checkpoint)
				require.Equal(t, []uint64{1}, kept(t, w, "rare"))
				require.Equal(t, []uint64{last - 9, last - 8, last - 7, last - 6, last - 5, last - 4, last - 3, last - 2, last - 1, last}, kept(t, w, "busy"),
					"the ten seconds of the window")
			}
			require.NoError(t, e.Close(context.Background()))
		}

		// The hit of the gate that has rested still counts.
		e := w.engine(t, busyAndRare())
		w.stream(quakes).append(mags(9, 5)...)
		settle()
		got := w.receiver(quakes, "slow").has()
		require.Len(t, got, 1)
		require.EqualValues(t, 2, got[0].Emission.Hits)
		require.EqualValues(t, 1000, got[0].Emission.FirstTS)
		require.Equal(t, last+1, got[0].Emission.Match.Cursor.Primary)
		require.NoError(t, e.Close(context.Background()))
	})
}

// What a gate needed at the checkpoint stays until the checkpoint has moved on, however far the gate has.
func TestHitsAreKeptFromTheCheckpointOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		release := make(chan struct{})
		w.receiver(quakes, "slow").deciding(func(ctx context.Context, _ types.SinkEvent) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		w.stream(quakes).append(many(20)...)
		e := w.engine(t, busyAndRare())
		settle()
		require.Equal(t, count(20)[10:], kept(t, w, "busy"))
		w.stream(quakes).append(mags(9, 9)...) // 22 is let through, and holds the checkpoint up
		settle()
		w.stream(quakes).append(many(100)...)
		settle()
		w.stream(quakes).append(mags(9, 9)...) // so is 124
		settle()
		w.stream(quakes).append(many(6000)...) // so many that hits are stored ahead of the checkpoint
		settle()
		require.Equal(t, &types.Cursor{Primary: 20}, status(t, e, quakes).Checkpoint)
		held := kept(t, w, "busy")
		require.Equal(t, count(20)[10:], held[:10])
		require.Greater(t, len(held), 5000)

		release <- struct{}{}
		settle()
		require.Equal(t, &types.Cursor{Primary: 122}, status(t, e, quakes).Checkpoint)
		held = kept(t, w, "busy")
		require.Equal(t, count(122)[112:], held[:10])
		require.Greater(t, len(held), 5000)

		release <- struct{}{}
		settle()
		require.Equal(t, &types.Cursor{Primary: 6124}, status(t, e, quakes).Checkpoint)
		require.Equal(t, count(6124)[6114:], kept(t, w, "busy"))
		require.Equal(t, []uint64{21, 22, 123, 124}, kept(t, w, "rare"))
		require.NoError(t, e.Close(context.Background()))
	})
}

// A run that is killed may have stored hits ahead of the checkpoint. A queue gives other messages at those
// cursors afterwards, so such hits must not be found by the run after that.
func TestHitsAheadOfTheCheckpointAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		module := "stream"
		require.NoError(t, w.storage.SaveCheckpoint(t.Context(), quakes, types.Checkpoint{Cursor: types.Cursor{Primary: 1}, Module: &module}))
		ahead := types.GateHit{Monitor: "busy", Cursor: types.Cursor{Primary: 2}, TS: 2000, Event: []byte(`{"mag":5}`)}
		require.NoError(t, w.storage.AppendHits(t.Context(), quakes, []types.GateHit{ahead}))

		w.stream(quakes).append(mags(5, 9)...) // the event at 2 is not for the gate that counted one there
		e := w.engine(t, busyAndRare())
		settle()
		require.Empty(t, kept(t, w, "busy"))
		require.NoError(t, e.Close(context.Background()))
		w.engine(t, busyAndRare())
		w.stream(quakes).append(mags(5, 5)...)
		settle()
		require.Empty(t, w.receiver(quakes, "alerts").has(), "two are not three")
		w.stream(quakes).append(mags(5)...)
		settle()
		require.Len(t, w.receiver(quakes, "alerts").has(), 1)
	})
}

// unacked is a queue that takes no acks while it is told so: its messages are given again.
type unacked struct {
	*model.Queue
	refuses atomic.Bool
}

func (q *unacked) AckBatch(ctx context.Context, receipts []string) ([]types.AckOutcome, error) {
	if q.refuses.Load() {
		return nil, errDown
	}
	return q.Queue.AckBatch(ctx, receipts)
}

// A message that a queue gives again counts once, in a run and after a restart, before what it has let a gate
// let through and after it, also where the process is gone before it has stored how far it was.
func TestAMessageThatIsGivenAgainCountsOnce(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"all together": "", "by key": "net"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				orders, large := &unacked{Queue: realQueue()}, realQueue()
				orders.refuses.Store(true)
				storage := model.NewStorage(0)
				faults := flaky.New(ports.SystemClock(), 1)
				gated := one(func(p *config.Pipeline) {
					p.Monitors[0].Gate = &config.Gate{Threshold: 3, Window: time.Hour, Key: key}
				})
				start := func(storage ports.Storage) *pipeline.Engine {
					e, err := pipeline.NewEngine(pipeline.Options{
						Storage: storage, Parts: queueParts{queues{"orders": orders, "large": large}}, SpillDir: t.TempDir(),
						Log: fixture.Logger(t), Pipelines: []config.Pipeline{gated},
					})
					require.NoError(t, err)
					require.NoError(t, e.Start(t.Context()))
					return e
				}
				send := func(nets ...string) {
					for _, net := range nets {
						require.NoError(t, orders.Send(t.Context(), types.JSON(fmt.Appendf(nil, `{"mag":5,"net":%q}`, net)), types.SendOptions{}))
					}
				}
				again := func(e *pipeline.Engine) { // each message, three times at least
					before := status(t, e, quakes).Events
					visible, inFlight := counts(t, orders)
					pass(3 * time.Minute)
					require.GreaterOrEqual(t, status(t, e, quakes).Events-before, 3*uint64(visible+inFlight))
				}

				e := start(storage)
				send("us", "us")
				again(e)
				require.Empty(t, receivedEvents(t, large), "two are not three")
				require.NoError(t, e.Close(context.Background()))
				e = start(flaky.NewStorage(storage, faults))
				again(e)
				faults.Halt() // the process is killed
				synctest.Wait()
				_ = e.Close(context.Background()) // as good as it can without its storage

				e = start(storage)
				again(e)
				require.Empty(t, receivedEvents(t, large), "two are not three")
				send("us")
				again(e)
				got := receivedEvents(t, large)
				require.Len(t, got, 1)
				require.EqualValues(t, 3, got[0].Emission.Hits)

				require.NoError(t, e.Close(context.Background()))
				e = start(storage)
				again(e)
				send("us", "us")
				again(e)
				require.Empty(t, receivedEvents(t, large), "what was let through is used up")
				orders.refuses.Store(false)
				send("us")
				pass(time.Minute)
				got = receivedEvents(t, large)
				require.Len(t, got, 1)
				require.EqualValues(t, 3, got[0].Emission.Hits)
				requireCounts(t, orders, 0, 0)
				require.NoError(t, e.Close(context.Background()))
			})
		})
	}
}
