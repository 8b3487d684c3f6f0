package metrics

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// The parts of a scrape, as its errors name them.
const (
	partPipelines   = "pipelines"
	partDeadLetters = "dead_letters"
	partJournals    = "journals"
	partQueues      = "queues"
)

// storageStore names the storage among the stores; a queue is "queue/" and its id.
const storageStore = "storage"

// states are those that a pipeline can be in.
var states = []types.PipelineState{
	types.PipelineStarting, types.PipelineRunning, types.PipelinePaused, types.PipelineFailed,
	types.PipelineFinished, types.PipelineStopping, types.PipelineStopped, types.PipelineIdle,
}

// collector reads the parts at each scrape. It implements [prometheus.Collector].
type collector struct {
	opts     Options
	families *families
	flights  flights
	failing  failing
}

func newCollector(opts Options) *collector {
	return &collector{
		opts:     opts,
		families: newFamilies(),
		flights:  flights{timeout: opts.Timeout, running: map[string]*flight{}},
		failing:  failing{log: opts.Log, errors: map[string]string{}},
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.families.all {
		descs <- desc
	}
}

// Collect implements [prometheus.Collector]. The parts are read beside one another, and no longer than
// the timeout.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.Timeout)
	defer cancel()
	s := &scrape{collector: c, ctx: ctx, metrics: metrics, failed: map[string]int{}}
	var parts sync.WaitGroup
	if c.opts.Storage != nil {
		parts.Go(s.stored)
	} else {
		parts.Go(func() { s.pipelines() })
	}
	if c.opts.Owner != nil {
		parts.Go(s.queues)
	}
	parts.Wait()
	for _, part := range c.parts() {
		s.gauge(c.families.scrapeErrors, float64(s.failed[part]), part)
	}
	s.gauge(c.families.buildInfo, 1, c.opts.Version, runtime.Version())
	s.gauge(c.families.startTime, float64(c.opts.StartedAt.UnixMilli())/1000)
}

// parts are those that the options have.
func (c *collector) parts() (list []string) {
	if c.opts.Pipelines != nil {
		list = append(list, partPipelines)
	}
	if c.opts.Storage != nil {
		list = append(list, partDeadLetters)
		if _, counts := c.opts.Storage.(ports.JournalCounter); counts {
			list = append(list, partJournals)
		}
	}
	if c.opts.Owner != nil {
		list = append(list, partQueues)
	}
	return list
}

// scrape is one Collect.
type scrape struct {
	*collector
	ctx     context.Context //nolint:containedctx // it lives as long as the scrape
	metrics chan<- prometheus.Metric

	mu     sync.Mutex
	failed map[string]int
}

// note tells the log of a part, or of a thing of it, if that has changed, and counts a failure.
func (s *scrape) note(part, thing string, err error) {
	s.failing.note(part, thing, err)
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[part]++
}

// pipelines shows the pipelines and returns their names.
func (s *scrape) pipelines() (names []types.PipelineID) {
	if s.opts.Pipelines == nil {
		return nil
	}
	list, err := read(s.ctx, &s.flights, partPipelines, s.opts.Pipelines.Pipelines)
	s.note(partPipelines, "", err)
	for _, p := range list {
		s.pipeline(p)
		names = append(names, p.ID)
	}
	return names
}

func (s *scrape) pipeline(p types.PipelineStatus) {
	f, id := s.families, string(p.ID)
	s.counter(f.events, float64(p.Events), id)
	s.counter(f.badEvents, float64(p.BadEvents), id)
	s.counter(f.restarts, float64(p.Restarts), id)
	s.gauge(f.pendingEvents, float64(p.Pending), id)
	s.gauge(f.lag, p.LagSeconds, id)
	if p.Read != nil {
		s.gauge(f.readPosition, float64(p.Read.Primary), id)
	}
	if p.Checkpoint != nil {
		s.gauge(f.checkpointPosition, float64(p.Checkpoint.Primary), id)
	}
	for _, state := range states {
		s.gauge(f.state, truth(state == p.State), id, string(state))
	}
	for _, m := range p.Monitors {
		s.counter(f.matches, float64(m.Matches), id, string(m.ID))
		s.counter(f.emissions, float64(m.Emissions), id, string(m.ID))
		s.counter(f.monitorErrors, float64(m.Errors), id, string(m.ID))
		s.gauge(f.monitorPaused, truth(m.Paused), id, string(m.ID))
	}
	for _, sink := range p.Sinks {
		s.counter(f.deliveries, float64(sink.Delivered), id, string(sink.ID), "delivered")
		s.counter(f.deliveries, float64(sink.DeadLettered), id, string(sink.ID), "dead_lettered")
		s.counter(f.deliveries, float64(sink.Duplicates), id, string(sink.ID), "duplicate")
		s.counter(f.retries, float64(sink.Retries), id, string(sink.ID))
		s.histogram(f.duration, sink.Latency, id, string(sink.ID))
		s.gauge(f.pendingMatches, float64(sink.Pending), id, string(sink.ID))
		s.gauge(f.sinkPaused, truth(sink.Paused), id, string(sink.ID))
	}
}

// stored shows the pipelines, and what the storage has of them and of others. A pipeline that is there
// and has no letter has 0 of them, so that the first one is seen to come.
func (s *scrape) stored() {
	var names []types.PipelineID
	var letters []types.LetterCount
	var journals []types.JournalCount
	var lettersErr, journalsErr error
	counter, counts := s.opts.Storage.(ports.JournalCounter)
	var parts sync.WaitGroup
	parts.Go(func() { names = s.pipelines() })
	parts.Go(func() {
		letters, lettersErr = read(s.ctx, &s.flights, partDeadLetters, s.opts.Storage.CountDeadLetters)
	})
	if counts {
		parts.Go(func() { journals, journalsErr = read(s.ctx, &s.flights, partJournals, counter.CountDeliveries) })
	}
	if meter, ok := s.opts.Storage.(ports.Meter); ok {
		s.store(storageStore, meter.Metrics())
	}
	parts.Wait()

	s.note(partDeadLetters, "", lettersErr)
	if lettersErr == nil {
		for _, name := range names {
			if !slices.ContainsFunc(letters, func(l types.LetterCount) bool { return l.Pipeline == name }) {
				s.gauge(s.families.deadLetters, 0, string(name))
			}
		}
	}
	for _, l := range letters {
		s.gauge(s.families.deadLetters, float64(l.Count), string(l.Pipeline))
	}
	if !counts {
		return
	}
	s.note(partJournals, "", journalsErr)
	if journalsErr == nil {
		for _, name := range names {
			if !slices.ContainsFunc(journals, func(j types.JournalCount) bool { return j.Pipeline == name }) {
				s.gauge(s.families.journalEntries, 0, string(name))
			}
		}
	}
	for _, j := range journals {
		s.gauge(s.families.journalEntries, float64(j.Count), string(j.Pipeline))
	}
}

// queues shows the queues, each read on its own, so that one that hangs does not hide the others.
func (s *scrape) queues() {
	list, err := read(s.ctx, &s.flights, partQueues, s.opts.Owner.List)
	s.note(partQueues, "", err)
	if err != nil {
		return
	}
	s.failing.keep(partQueues, func(id string) bool {
		return slices.ContainsFunc(list, func(q types.QueueInfo) bool { return q.ID == id })
	})
	var queues sync.WaitGroup
	for _, info := range list {
		queues.Go(func() { s.queue(info) })
	}
	queues.Wait()
}

// queueFigures are those of one queue.
type queueFigures struct {
	stats types.QueueStats
	store *types.StoreMetrics // nil: it counts nothing
}

func (s *scrape) queue(info types.QueueInfo) {
	figures, err := read(s.ctx, &s.flights, partQueues+"/"+info.ID, func(ctx context.Context) (figures queueFigures, err error) {
		queue, err := s.opts.Owner.Queue(ctx, info.ID)
		if err != nil {
			return figures, err
		}
		if meter, ok := queue.(ports.Meter); ok {
			store := meter.Metrics()
			figures.store = &store
		}
		figures.stats, err = queue.Stats(ctx)
		return figures, err
	})
	if errors.Is(err, ports.ErrNotFound) || errors.Is(err, ports.ErrRevoked) {
		return // deleted since it was listed
	}
	if err != nil {
		s.note(partQueues, info.ID, err)
		return
	}
	s.note(partQueues, info.ID, info.Err) // one that can be read may still need an operator
	f, stats := s.families, figures.stats
	s.gauge(f.messages, float64(stats.Visible), info.ID, "visible")
	s.gauge(f.messages, float64(stats.InFlight), info.ID, "in_flight")
	s.gauge(f.messages, float64(stats.Delayed), info.ID, "delayed")
	s.gauge(f.oldestAge, stats.OldestAge.Seconds(), info.ID)
	s.gauge(f.undecodable, float64(stats.Undecodable), info.ID)
	if figures.store != nil {
		s.store("queue/"+info.ID, *figures.store)
	}
}

func (s *scrape) store(name string, m types.StoreMetrics) {
	f := s.families
	s.counter(f.commits, float64(m.Commits), name)
	s.counter(f.operations, float64(m.Operations), name)
	s.histogram(f.batchSize, m.BatchSize, name)
	s.histogram(f.commitDuration, m.Commit, name)
	s.gauge(f.walBytes, float64(m.WALBytes), name)
	s.gauge(f.dataBytes, float64(m.DataBytes), name)
}

func (s *scrape) counter(desc *prometheus.Desc, value float64, labels ...string) {
	s.show(desc, prometheus.CounterValue, value, labels)
}

func (s *scrape) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	s.show(desc, prometheus.GaugeValue, value, labels)
}

func (s *scrape) show(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	metric, err := prometheus.NewConstMetric(desc, kind, value, clean(labels)...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	s.metrics <- metric
}

func (s *scrape) histogram(desc *prometheus.Desc, h types.Histogram, labels ...string) {
	var below uint64
	buckets := make(map[float64]uint64, len(h.Bounds))
	for i, bound := range h.Bounds[:min(len(h.Bounds), len(h.Counts))] {
		below += h.Counts[i]
		if !math.IsInf(bound, 1) { // that one is the count
			buckets[bound] = below
		}
	}
	metric, err := prometheus.NewConstHistogram(desc, h.Count(), h.Sum, buckets, clean(labels)...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	s.metrics <- metric
}

// clean makes names valid UTF-8: those in a file that another program wrote may not be.
func clean(labels []string) []string {
	for i, label := range labels {
		labels[i] = strings.ToValidUTF8(label, "\uFFFD")
	}
	return labels
}

func truth(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// failing remembers what could not be read, so that the log has a line for each change and not for each
// scrape.
type failing struct {
	log    *slog.Logger
	mu     sync.Mutex
	errors map[string]string // by part and thing
}

func (f *failing) note(part, thing string, err error) {
	key := part + "/" + thing
	f.mu.Lock()
	was, failed := f.errors[key]
	if err != nil {
		f.errors[key] = err.Error()
	} else {
		delete(f.errors, key)
	}
	f.mu.Unlock()
	log := f.log.With("part", part)
	if thing != "" {
		log = log.With("name", thing)
	}
	switch {
	case err != nil && (!failed || was != err.Error()):
		log.Warn("a part of the metrics cannot be read", "error", err)
	case err == nil && failed:
		log.Info("a part of the metrics can be read again")
	}
}

// keep forgets the things of a part that are gone.
func (f *failing) keep(part string, stays func(thing string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.errors {
		if thing, ok := strings.CutPrefix(key, part+"/"); ok && thing != "" && !stays(thing) {
			delete(f.errors, key)
		}
	}
}
