package pipeline

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// counters are the figures of a pipeline. They outlive its runs, and the configurations that follow each
// other under its id.
type counters struct {
	events, bad, restarts atomic.Uint64

	mu       sync.Mutex
	monitors map[types.MonitorID]*monitorCounters
	sinks    map[types.SinkID]*sinkCounters
}

type monitorCounters struct {
	matches, emissions, errors atomic.Uint64
	lastError                  atomic.Pointer[string]
}

// failed counts an expression that failed.
func (c *monitorCounters) failed(err error) {
	c.errors.Add(1)
	text := err.Error()
	c.lastError.Store(&text)
}

type sinkCounters struct {
	delivered, deadLettered, duplicates, retries atomic.Uint64

	mu          sync.Mutex
	lastError   string
	lastErrorAt time.Time
	latency     types.Histogram
}

// latencyBounds are the buckets of deliveries, in seconds: from a queue on this machine to a receiver
// that is about to time out.
var latencyBounds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

func newCounters() *counters {
	return &counters{monitors: map[types.MonitorID]*monitorCounters{}, sinks: map[types.SinkID]*sinkCounters{}}
}

// keep forgets the figures of what a configuration does not have, so that changes do not add up.
func (c *counters) keep(p config.Pipeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.monitors, func(id types.MonitorID, _ *monitorCounters) bool {
		return !slices.ContainsFunc(p.Monitors, func(m config.Monitor) bool { return m.ID == id })
	})
	maps.DeleteFunc(c.sinks, func(id types.SinkID, _ *sinkCounters) bool {
		return !slices.ContainsFunc(p.Sinks, func(s config.Sink) bool { return s.ID == id })
	})
}

func (c *counters) monitor(id types.MonitorID) *monitorCounters {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.monitors[id]
	if !ok {
		found = &monitorCounters{}
		c.monitors[id] = found
	}
	return found
}

func (c *counters) sink(id types.SinkID) *sinkCounters {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.sinks[id]
	if !ok {
		found = &sinkCounters{latency: types.Histogram{Bounds: latencyBounds, Counts: make([]uint64, len(latencyBounds)+1)}}
		c.sinks[id] = found
	}
	return found
}

// took counts an attempt.
func (c *sinkCounters) took(d time.Duration) {
	seconds := d.Seconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	i := 0
	for i < len(latencyBounds) && seconds > latencyBounds[i] {
		i++
	}
	c.latency.Counts[i]++
	c.latency.Sum += seconds
}

func (c *sinkCounters) failed(err error, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastError, c.lastErrorAt = err.Error(), at
}

// status is the monitor's part of a pipeline's status.
func (c *monitorCounters) status(id types.MonitorID, paused bool) types.MonitorStatus {
	s := types.MonitorStatus{ID: id, Paused: paused, Matches: c.matches.Load(), Emissions: c.emissions.Load(), Errors: c.errors.Load()}
	if last := c.lastError.Load(); last != nil {
		s.LastError = *last
	}
	return s
}

// status is the sink's part of a pipeline's status.
func (c *sinkCounters) status(sink config.Sink, paused bool, pending int) types.SinkStatus {
	s := types.SinkStatus{
		ID: sink.ID, Module: sink.Module, Paused: paused, Pending: uint64(pending),
		Delivered: c.delivered.Load(), DeadLettered: c.deadLettered.Load(), Duplicates: c.duplicates.Load(), Retries: c.retries.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.LastError, s.LastErrorAt = c.lastError, c.lastErrorAt
	s.Latency = types.Histogram{Bounds: c.latency.Bounds, Counts: append([]uint64(nil), c.latency.Counts...), Sum: c.latency.Sum}
	return s
}

// progressMarks say how far a run has come, for its status.
type progressMarks struct {
	mu    sync.Mutex
	read  *types.Cursor
	saved *types.Cursor
	open  []readMark // what was read and is not covered by the stored checkpoint, in order
	count uint64     // events in open
}

type readMark struct {
	through types.Cursor
	events  int
	at      time.Time
}

func (p *progressMarks) didRead(m readMark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = &m.through
	p.open = append(p.open, m)
	p.count += uint64(m.events)
}

func (p *progressMarks) didSave(cursor types.Cursor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saved = &cursor
	n := 0
	for n < len(p.open) && p.open[n].through.Compare(cursor) <= 0 {
		p.count -= uint64(p.open[n].events)
		n++
	}
	p.open = p.open[n:]
}

// unsaved is the number of events that are read and not covered by the stored checkpoint.
func (p *progressMarks) unsaved() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// steps is the number of reads behind that.
func (p *progressMarks) steps() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

func (p *progressMarks) report(s *types.PipelineStatus, clock ports.Clock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read != nil {
		read := *p.read
		s.Read = &read
	}
	if p.saved != nil {
		saved := *p.saved
		s.Checkpoint = &saved
	}
	s.Pending = p.count
	if len(p.open) > 0 {
		s.LagSeconds = max(clock.Now().Sub(p.open[0].at).Seconds(), 0)
	}
}
