package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

var update = flag.Bool("update", false, "write testdata/exposition.txt anew")

// registryOf has the collector alone, and refuses what does not fit its descriptions.
func registryOf(t testing.TB, opts Options) *prometheus.Registry {
	t.Helper()
	opts, err := opts.check()
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(newCollector(opts)))
	return registry
}

// scrapeOf is the exposition of one scrape.
func scrapeOf(t testing.TB, registry prometheus.Gatherer) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	return answer.Body.String()
}

func TestExposition(t *testing.T) {
	t.Parallel()
	got := strings.ReplaceAll(scrapeOf(t, registryOf(t, fixedOptions(t))), runtime.Version(), "GOVERSION")
	if *update {
		require.NoError(t, os.WriteFile("testdata/exposition.txt", []byte(got), 0o600))
	}
	want, err := os.ReadFile("testdata/exposition.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestNamesFollowTheConventions(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(registryOf(t, fixedOptions(t)))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestNothingConfiguredIsNoError(t *testing.T) {
	t.Parallel()
	text := scrapeOf(t, registryOf(t, Options{}))
	assert.Contains(t, text, `stowage_build_info{goversion="`+runtime.Version()+`",version="unknown"} 1`)
	assert.NotContains(t, text, "stowage_scrape_errors{")
	assert.NotContains(t, text, "stowage_pipeline")
}

func TestAStorageThatCountsNothingShowsItsLetters(t *testing.T) {
	t.Parallel()
	opts := fixedOptions(t)
	opts.Storage = struct{ ports.DeadLetterStore }{fixedStorage(t)}
	text := scrapeOf(t, registryOf(t, opts))
	assert.Contains(t, text, `stowage_dead_letters{pipeline="earthquakes"} 4`)
	assert.Contains(t, text, `stowage_dead_letters{pipeline="idle"} 0`)
	assert.NotContains(t, text, `stowage_store_commits_total{store="storage"}`)
	assert.NotContains(t, text, "stowage_delivery_journal")
}

// broken parts fail, hang or panic as they are told to.
type broken struct {
	*model.Storage
	*model.Owner
	reading func(ctx context.Context) error
}

func (b broken) Pipelines(ctx context.Context) ([]types.PipelineStatus, error) {
	return nil, b.reading(ctx)
}

func (b broken) CountDeadLetters(ctx context.Context) ([]types.LetterCount, error) {
	return nil, b.reading(ctx)
}

func (b broken) CountDeliveries(ctx context.Context) ([]types.JournalCount, error) {
	return nil, b.reading(ctx)
}

func (b broken) List(ctx context.Context) ([]types.QueueInfo, error) { return nil, b.reading(ctx) }

func (broken) Close() error { return nil }

func TestAPartThatCannotBeReadSpoilsNoOther(t *testing.T) {
	t.Parallel()
	for name, reading := range map[string]func(context.Context) error{
		"fails":                  func(context.Context) error { return errors.New("boom") },
		"panics":                 func(context.Context) error { panic("boom") },
		"waits for its context":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"looks at no context":    func(context.Context) error { <-t.Context().Done(); return nil },
		"answers a closed store": func(context.Context) error { return ports.Errorf(ports.CodeStoreClosed, "op", "closed") },
	} {
		bad := broken{model.NewStorage(0), model.NewOwner(fixture.NewClock(fixture.Epoch())), reading}
		for part, c := range map[string]struct {
			spoil func(*Options)
			gone  []string
			stays []string
		}{
			partPipelines: {
				func(o *Options) { o.Pipelines = bad },
				[]string{"stowage_pipeline_events_total{"},
				[]string{`stowage_dead_letters{pipeline="earthquakes"} 4`, `stowage_queue_messages{queue="orders",state="visible"} 3`},
			},
			partDeadLetters: {
				func(o *Options) { o.Storage = struct{ ports.DeadLetterStore }{bad} },
				[]string{"stowage_dead_letters{"},
				[]string{`stowage_pipeline_events_total{pipeline="earthquakes"} 1707`, `stowage_queue_messages{queue="orders",state="visible"} 3`},
			},
			partJournals: {
				func(o *Options) {
					o.Storage = struct {
						ports.DeadLetterStore
						ports.JournalCounter
					}{fixedStorage(t), bad}
				},
				[]string{"stowage_delivery_journal_entries{"},
				[]string{`stowage_dead_letters{pipeline="earthquakes"} 4`, `stowage_pipeline_events_total{pipeline="earthquakes"} 1707`},
			},
			partQueues: {
				func(o *Options) { o.Owner = bad },
				[]string{"stowage_queue_messages{"},
				[]string{`stowage_dead_letters{pipeline="earthquakes"} 4`, `stowage_pipeline_events_total{pipeline="earthquakes"} 1707`},
			},
		} {
			t.Run(part+"/"+name, func(t *testing.T) {
				t.Parallel()
				log := new(lines)
				opts := fixedOptions(t)
				c.spoil(&opts)
				opts.Timeout, opts.Log = 300*time.Millisecond, log.logger()
				registry := registryOf(t, opts)
				for range 2 {
					text := scrapeOf(t, registry)
					for _, gone := range c.gone {
						assert.NotContains(t, text, gone)
					}
					for _, stays := range c.stays {
						assert.Contains(t, text, stays)
					}
					assert.Contains(t, text, fmt.Sprintf("stowage_scrape_errors{part=%q} 1\n", part))
					assert.Len(t, regexp.MustCompile(`stowage_scrape_errors\{part="\w+"\} [1-9]`).FindAllString(text, -1), 1, "no other part fails")
				}
				assert.Equal(t, 1, strings.Count(log.take(), "cannot be read"), "one line for the change, not for each scrape")
			})
		}
	}
}

func TestTheLogHasEachChangeOnce(t *testing.T) {
	t.Parallel()
	log, opts := new(lines), fixedOptions(t)
	var failure atomic.Pointer[string]
	opts.Log = log.logger()
	opts.Pipelines = pipelineFunc(func(context.Context) ([]types.PipelineStatus, error) {
		if why := failure.Load(); why != nil {
			return nil, errors.New(*why)
		}
		return nil, nil
	})
	registry := registryOf(t, opts)
	scrape := func(why string) string {
		failure.Store(nil)
		if why != "" {
			failure.Store(&why)
		}
		scrapeOf(t, registry)
		return log.take()
	}
	assert.Empty(t, scrape(""))
	first := scrape("boom")
	assert.Contains(t, first, "level=WARN")
	assert.Contains(t, first, "part=pipelines")
	assert.Contains(t, first, "error=boom")
	assert.Empty(t, scrape("boom"))
	assert.Contains(t, scrape("bang"), "error=bang")
	assert.Contains(t, scrape(""), "can be read again")
	assert.Empty(t, scrape(""))
	assert.Contains(t, scrape("boom"), "error=boom")
}

// replaced is an owner that can be another one.
type replaced struct{ ports.QueueOwner }

func TestAQueueThatCannotBeReadHidesNoOther(t *testing.T) {
	t.Parallel()
	log, opts := new(lines), fixedOptions(t)
	opts.Log = log.logger()
	whole, owner := fixedOwner(t), new(replaced)
	blocked := fixedOwner(t)
	blocked.Block("blocked")
	owner.QueueOwner = blocked
	opts.Owner = owner
	registry := registryOf(t, opts)
	text := scrapeOf(t, registry)
	assert.Contains(t, text, `stowage_scrape_errors{part="queues"} 1`)
	assert.Contains(t, text, `stowage_queue_messages{queue="orders",state="visible"} 3`)
	assert.NotContains(t, text, `queue="blocked"`)
	assert.Contains(t, log.take(), "name=blocked")

	owner.QueueOwner = whole
	assert.Contains(t, scrapeOf(t, registry), `stowage_scrape_errors{part="queues"} 0`)
	owner.QueueOwner = blocked
	scrapeOf(t, registry)
	assert.Contains(t, log.take(), "name=blocked", "a queue of the same name is a new one")
}

// vanishing lists a queue that has been deleted since.
type vanishing struct{ *model.Owner }

func (v vanishing) List(ctx context.Context) ([]types.QueueInfo, error) {
	list, err := v.Owner.List(ctx)
	return append(list, types.QueueInfo{ID: "vanished"}), err
}

func TestAQueueThatIsDeletedMeanwhileIsNoError(t *testing.T) {
	t.Parallel()
	opts := fixedOptions(t)
	opts.Owner = vanishing{fixedOwner(t).Owner}
	text := scrapeOf(t, registryOf(t, opts))
	assert.Contains(t, text, `stowage_scrape_errors{part="queues"} 0`)
	assert.NotContains(t, text, "vanished")
}

func TestAPartThatHangsIsReadOnce(t *testing.T) {
	t.Parallel()
	var readings atomic.Int64
	free := make(chan struct{})
	opts := fixedOptions(t)
	opts.Timeout = 50 * time.Millisecond
	fixed := opts.Pipelines
	opts.Pipelines = pipelineFunc(func(ctx context.Context) ([]types.PipelineStatus, error) {
		readings.Add(1)
		<-free
		return fixed.Pipelines(ctx)
	})
	registry := registryOf(t, opts)
	var scrapes sync.WaitGroup
	for range 5 {
		scrapes.Go(func() { scrapeOf(t, registry) })
	}
	scrapes.Wait()
	text := scrapeOf(t, registry)
	assert.Contains(t, text, `stowage_scrape_errors{part="pipelines"} 1`)
	assert.EqualValues(t, 1, readings.Load())
	close(free)
	assert.Eventually(t, func() bool {
		return strings.Contains(scrapeOf(t, registry), `stowage_scrape_errors{part="pipelines"} 0`)
	}, time.Minute, time.Millisecond)
}

// counterOf is what a scrape has for a counter of the fixed pipeline.
func counterOf(t *testing.T, registry prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.Fail(t, "missing", name)
	return 0
}

func TestCountersNeverGoBack(t *testing.T) {
	t.Parallel()
	var events atomic.Uint64
	opts := fixedOptions(t)
	opts.Pipelines = pipelineFunc(func(context.Context) ([]types.PipelineStatus, error) {
		return []types.PipelineStatus{{ID: "p", Events: events.Add(1)}}, nil
	})
	registry := registryOf(t, opts)
	var scrapers sync.WaitGroup
	for range 4 {
		scrapers.Go(func() {
			last := 0.0
			for range 50 {
				now := counterOf(t, registry, "stowage_pipeline_events_total")
				assert.GreaterOrEqual(t, now, last)
				last = now
			}
		})
	}
	scrapers.Wait()
}

func TestNamesThatAreNoUTF8AreShown(t *testing.T) {
	t.Parallel()
	opts := Options{Pipelines: pipelineFunc(func(context.Context) ([]types.PipelineStatus, error) {
		return []types.PipelineStatus{{ID: "a\xffb", Events: 7}}, nil
	})}
	assert.Contains(t, scrapeOf(t, registryOf(t, opts)), "stowage_pipeline_events_total{pipeline=\"a\uFFFDb\"} 7")
}

func TestOddHistogramsAreShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		h    types.Histogram
		want string
	}{
		"none":                  {types.Histogram{}, `le="+Inf"} 0`},
		"a bound without count": {types.Histogram{Bounds: []float64{1, 2}, Counts: []uint64{3}, Sum: 1}, `le="1"} 3`},
		"an infinite bound":     {types.Histogram{Bounds: []float64{1, math.Inf(1)}, Counts: []uint64{3, 2}, Sum: 1}, `le="+Inf"} 5`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := Options{Pipelines: pipelineFunc(func(context.Context) ([]types.PipelineStatus, error) {
				return []types.PipelineStatus{{ID: "p", Sinks: []types.SinkStatus{{ID: "s", Latency: c.h}}}}, nil
			})}
			assert.Contains(t, scrapeOf(t, registryOf(t, opts)), c.want)
		})
	}
}
