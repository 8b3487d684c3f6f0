package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// hanging makes n pipelines whose sinks ignore their context, each with a send under way.
func hanging(t *testing.T, w *world, n int) (ids []types.PipelineID, release func()) {
	t.Helper()
	var releases []func()
	for i := range n {
		id := types.PipelineID(fmt.Sprintf("hangs-%02d", i))
		put(t, w.storage, string(id), from5, 0)
		w.stream(id).append(many(1)...)
		releases = append(releases, w.deaf(id))
		ids = append(ids, id)
	}
	return ids, func() {
		for _, r := range releases {
			r()
		}
	}
}

// beside runs f beside the test, and says when it has returned.
func beside(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	synctest.Wait()
	return done
}

// A pipeline whose sink hangs takes its time to stop. Only who changes it waits for it, and several take
// that time together.
func TestOneThatTakesItsTimeHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		slow, release := hanging(t, w, 5)
		put(t, w.storage, "quick", from5, 0)
		put(t, w.storage, "gone", from5, 0)
		w.stream("quick").append(many(1)...)
		e := w.engineWith(t, pipeline.Options{StopTimeout: 10 * time.Second})
		pass(time.Second)

		began := time.Now()
		for _, id := range slow {
			put(t, w.storage, string(id), from7, 1)
		}
		changed := beside(func() error { return e.Refresh(context.Background()) })
		set := beside(func() error {
			return e.Suspend(context.Background(), slow[0], func(context.Context) error { return nil })
		})

		// Told of a change, by whoever has stored it.
		put(t, w.storage, "quick", from7, 1)
		put(t, w.storage, "fresh", from5, 0)
		w.stream("fresh").append(many(1)...)
		require.NoError(t, w.storage.DeleteResource(t.Context(), types.PipelineKind, "gone", 1))
		require.NoError(t, e.Refresh(t.Context(), "quick", "fresh", "gone"))
		require.EqualValues(t, 2, status(t, e, "quick").Version)
		_, err := e.Pipeline(t.Context(), "gone")
		require.ErrorIs(t, err, ports.ErrNotFound)
		require.NoError(t, e.Suspend(t.Context(), "quick", func(context.Context) error { return nil }))
		require.NoError(t, e.Suspend(t.Context(), "nobody", func(context.Context) error { return nil }))
		require.Zero(t, time.Since(began), "none of it waits")
		synctest.Wait()
		require.Equal(t, []uint64{1}, w.receiver("fresh", "alerts").primaries())

		// Not told of it: the engine looks by itself.
		put(t, w.storage, "quick", from5, 2)
		pass(6 * time.Second)
		require.EqualValues(t, 3, status(t, e, "quick").Version)
		require.Equal(t, types.PipelineRunning, status(t, e, "quick").State)

		s := status(t, e, slow[1])
		require.Equal(t, types.PipelineStopping, s.State)
		require.EqualValues(t, 1, s.Version, "the one that is at work still")

		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, e.Refresh(limited, slow[1]), context.DeadlineExceeded)
		require.NoError(t, <-changed)
		require.LessOrEqual(t, time.Since(began), 30*time.Second, "the time of one")
		require.NoError(t, <-set)
		for _, id := range slow {
			require.EqualValues(t, 2, status(t, e, id).Version)
		}
		release()
	})
}

// All that is under way when an engine is closed ends within the time of one stop, whatever it is.
func TestACloseStopsAllAtTheSameTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		slow, release := hanging(t, w, 8)
		e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: w, SpillDir: t.TempDir(), StopTimeout: time.Second})
		require.NoError(t, err)
		require.NoError(t, e.Start(t.Context()))
		pass(time.Second)
		put(t, w.storage, string(slow[0]), from7, 1)
		put(t, w.storage, string(slow[1]), from7, 1)
		changed := beside(func() error { return e.Refresh(context.Background()) })
		put(t, w.storage, string(slow[1]), from5, 2)
		again := beside(func() error { return e.Refresh(context.Background()) })
		inside, held := make(chan struct{}), make(chan struct{})
		holding := beside(func() error {
			return e.Suspend(context.Background(), slow[2], func(context.Context) error { close(inside); <-held; return nil })
		})
		waiting := beside(func() error {
			return e.Suspend(context.Background(), slow[2], func(context.Context) error { return nil })
		})
		<-inside
		began := time.Now()
		closed := beside(func() error { return e.Close(context.Background()) })
		require.ErrorIs(t, <-waiting, ports.ErrStoreClosed)
		pass(10 * time.Second)
		select {
		case <-closed:
			require.Fail(t, "the engine is closed while a checkpoint is being set")
		default:
		}
		close(held)
		require.NoError(t, <-holding)
		require.ErrorContains(t, <-closed, "does not return from a delivery")
		require.LessOrEqual(t, time.Since(began), 14*time.Second)
		require.NoError(t, <-changed)
		require.NoError(t, <-again)
		require.ErrorIs(t, e.Refresh(t.Context()), ports.ErrStoreClosed)
		require.ErrorIs(t, e.Suspend(t.Context(), slow[2], nil), ports.ErrStoreClosed)
		release()
		synctest.Wait()
	})
}

// What wants the place of a pipeline waits until that has stopped, and comes then by itself. What does not
// go together is never there together, neither in what is nor in what is planned.
func TestAPlaceIsTakenOnceItIsFree(t *testing.T) {
	const alone = `{"source":{"module":"stream"},"monitor":[{"id":"strong","when":"mag >= 5","sinks":["alerts"]}],"sink":[{"id":"alerts","module":"alone"}]}`
	bubble(t, func(t *testing.T) {
		w := newWorld()
		put(t, w.storage, "first", alone, 0)
		w.stream("first").append(many(1)...)
		release := w.deaf("first")
		e := w.engineWith(t, pipeline.Options{StopTimeout: time.Second})
		pass(time.Second)
		require.NoError(t, w.storage.DeleteResource(t.Context(), types.PipelineKind, "first", 1))
		put(t, w.storage, "second", alone, 0)
		put(t, w.storage, "third", alone, 0)
		require.NoError(t, e.Refresh(t.Context(), "second"))
		require.Contains(t, status(t, e, "second").Error, "the place is taken by first")
		synctest.Wait()
		require.Equal(t, types.PipelineStopping, status(t, e, "first").State)
		require.NoError(t, e.Refresh(t.Context(), "first"))
		synctest.Wait()
		_, err := e.Pipeline(t.Context(), "first")
		require.ErrorIs(t, err, ports.ErrNotFound)
		require.Equal(t, types.PipelineRunning, status(t, e, "second").State)
		require.Contains(t, status(t, e, "third").Error, "the place is taken by second")
		release()
	})
}

// counting are the parts of a world that know what is open.
type counting struct {
	*world

	mu      sync.Mutex
	sources map[types.PipelineID]int // that are open
	most    int                      // that were open of one pipeline at a time
	sinks   int
	opened  int
	alive   []weak.Pointer[countedSource]
}

type countedSource struct {
	ports.Source
	close func()
}

func (s *countedSource) Close() error {
	s.close()
	return s.Source.Close()
}

type countedSink struct {
	*receiver
	close func()
}

func (s countedSink) Close() error { s.close(); return nil }

func (c *counting) OpenSource(ctx context.Context, p config.Pipeline, from *types.Cursor) (ports.Source, error) {
	inner, err := c.world.OpenSource(ctx, p, from)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened++
	c.sources[p.ID]++
	c.most = max(c.most, c.sources[p.ID])
	source := &countedSource{inner, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sources[p.ID]--
	}}
	c.alive = append(c.alive, weak.Make(source))
	return source, err
}

func (c *counting) OpenSink(_ context.Context, id types.PipelineID, s config.Sink) (ports.Sink, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sinks++
	return countedSink{c.receiver(id, s.ID), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sinks--
	}}, nil
}

func (c *counting) open() (sources, sinks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.sources {
		sources += n
	}
	return sources, c.sinks
}

// remembered is how many of the sources that were ever opened are in memory still.
func (c *counting) remembered() int {
	runtime.GC()
	runtime.GC()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, p := range c.alive {
		if p.Value() != nil {
			n++
		}
	}
	return n
}

// Pipelines that are changed a hundred times a second end as the last change says. Each generation closes
// what it has opened, is forgotten, and loses nothing that the one before it has read.
func TestManyChangesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pipelines, changes int }{
		"of one pipeline": {1, 100}, "of fifty pipelines": {50, 6},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const burst = 2000 // more than a lane keeps in memory
				w := newWorld()
				parts := &counting{world: w, sources: map[types.PipelineID]int{}}
				dir := t.TempDir()
				e, err := pipeline.NewEngine(pipeline.Options{Storage: w.storage, Parts: parts, SpillDir: dir})
				require.NoError(t, err)
				var ids []types.PipelineID
				for i := range c.pipelines {
					id := types.PipelineID(fmt.Sprintf("p%02d", i))
					ids = append(ids, id)
					put(t, w.storage, string(id), from5, 0)
					w.receiver(id, "alerts").deciding(func(ctx context.Context, _ types.SinkEvent) error {
						select {
						case <-time.After(time.Millisecond):
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					})
				}
				w.stream(ids[0]).append(many(burst)...)
				require.NoError(t, e.Start(t.Context()))
				t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
				var asking sync.WaitGroup
				spilled := 0
				for n := range c.changes {
					for _, id := range ids {
						w.stream(id).append(many(1)...)
						put(t, w.storage, string(id), strings.Replace(from5, `"mag >= 5"`, fmt.Sprintf(`"mag >= 5 && %d > 0"`, n+1), 1), uint64(n+1))
						asking.Go(func() { require.NoError(t, e.Refresh(context.Background(), id)) })
						pass(10 * time.Millisecond)
						files, err := os.ReadDir(dir)
						require.NoError(t, err)
						spilled = max(spilled, len(files))
					}
				}
				asking.Wait()
				settle()
				for i, id := range ids {
					s := status(t, e, id)
					require.Equal(t, types.PipelineRunning, s.State)
					require.EqualValues(t, c.changes+1, s.Version)
					want := c.changes
					if i == 0 {
						want += burst
					}
					got := w.receiver(id, "alerts").primaries()
					slices.Sort(got)
					require.Equal(t, count(want), slices.Compact(got))
				}
				require.Equal(t, 1, spilled, "files at a time")
				sources, sinks := parts.open()
				require.Equal(t, c.pipelines, sources)
				require.Equal(t, c.pipelines, sinks)
				require.Equal(t, 1, parts.most, "generations that read at the same time")
				require.Greater(t, parts.opened, c.pipelines*c.changes/2, "most changes led to a generation")
				require.LessOrEqual(t, parts.remembered(), 2*c.pipelines)

				for _, id := range ids {
					require.NoError(t, w.storage.DeleteResource(t.Context(), types.PipelineKind, string(id), uint64(c.changes+1)))
				}
				require.NoError(t, e.Refresh(t.Context()))
				sources, sinks = parts.open()
				require.Zero(t, sources)
				require.Zero(t, sinks)
				require.Zero(t, pipeline.Places(e))
				left, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Empty(t, left)
				require.NoError(t, e.Close(t.Context()))
			})
		})
	}
}

var _ io.Closer = countedSink{}
