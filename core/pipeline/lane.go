package pipeline

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stowage-go/stowage/core/checkpoint"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// lane delivers the matches of one monitor to one sink, one send after the other: it sends, records what
// became of it, and only then sends on. It has a goroutine while something waits: of many lanes most are idle.
type lane struct {
	run      *run
	monitor  types.MonitorID
	sink     *sharedSink
	id       types.SinkID
	retry    config.Retry
	counters *sinkCounters
	talk     talk
	needs    []types.Pause // of whatever holds the lane up when it is paused

	mu      sync.Mutex
	backlog *backlog
	waiting int           // what is in backlog, and what was taken from it and is not settled
	until   time.Time     // when the first of it is tried again; zero if it does not wait for that
	ended   chan struct{} // closed when the goroutine has ended; nil while the lane is idle
}

// push gives the lane matches. An error says that the backlog's file cannot be written: nothing is lost,
// and the caller reads no further until the lane has drained.
func (l *lane) push(entries []entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting += len(entries)
	if l.ended == nil {
		ended := make(chan struct{})
		l.ended = ended
		go l.loop(ended)
	}
	return l.backlog.push(entries...)
}

// nextTry is when the lane tries again what failed, zero if it does not wait for that.
func (l *lane) nextTry() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// pending is the number of matches that the lane was given and has not settled.
func (l *lane) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// take is what is delivered next. When there is nothing the lane is idle: its goroutine ends, and the next
// push begins another.
func (l *lane) take(n int) (entries []entry, idle bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, err = l.backlog.take(n)
	if err == nil && len(entries) == 0 {
		l.clear() // its buffers too
		l.ended = nil
		return nil, true, nil
	}
	return entries, false, err
}

// loop is the goroutine of the lane.
func (l *lane) loop(ended chan<- struct{}) {
	defer close(ended)
	idle, err := l.work()
	if idle {
		return
	}
	if err != nil {
		l.run.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

// await waits until the lane has no goroutine any more, or ctx ends.
func (l *lane) await(ctx context.Context) {
	l.mu.Lock()
	ended := l.ended
	l.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// clear forgets what is in the backlog. The caller holds mu.
func (l *lane) clear() {
	if err := l.backlog.close(); err != nil {
		l.run.log.Warn("the backlog of a lane cannot be removed", "monitor", l.monitor, "sink", l.id, "error", err)
	}
}

// work delivers until the lane is idle or the run stops. What is not settled by then comes again.
func (l *lane) work() (idle bool, err error) {
	for {
		entries, idle, err := l.take(l.sink.batch())
		if idle || err != nil {
			return idle, err
		}
		for len(entries) > 0 {
			n := l.distinct(entries)
			if err := l.dispatch(entries[:n]); err != nil {
				if errors.Is(err, errStopped) {
					return false, nil
				}
				return false, err
			}
			entries = entries[n:]
		}
	}
}

// distinct is how many of the entries, from the first on, are different matches. A source that gives
// events again may have given one while it waits here: it is sent once, and what comes behind it finds it
// settled.
func (l *lane) distinct(entries []entry) int {
	if !l.run.unordered {
		return len(entries)
	}
	seen := make(map[types.MatchID]bool, len(entries))
	for i, e := range entries {
		id := e.event.Origin().ID
		if seen[id] {
			return i
		}
		seen[id] = true
	}
	return len(entries)
}

// errStopped says that the run stops, and what is left comes again.
var errStopped = errors.New("the pipeline stops")

// dispatch brings the entries to an end, each one: delivered, or a dead letter.
func (l *lane) dispatch(entries []entry) error {
	entries, err := l.unknown(entries)
	if err != nil {
		return err
	}
	var (
		failures int           // in a row, of the first entry
		held     time.Duration // that its sink asked for
	)
	for len(entries) > 0 {
		if !l.permitted() {
			return errStopped
		}
		outcomes := l.attempt(entries)
		if l.run.aborted.Err() != nil {
			return errStopped
		}
		var pause time.Duration // before another attempt
		l.report(outcomes)
		retry, progress := l.sort(entries, outcomes, failures)
		if len(retry) > 0 {
			first := retry[0].failure
			if retry[0].entry.event.Origin() != entries[0].event.Origin() {
				failures, held = 0, 0 // those before it are done with
			}
			if asked, limited := ports.RetryAfter(first); limited {
				pause = min(max(asked, l.retry.Min), rateLimitWait)
				held += pause
			} else {
				failures++
				pause = checkpoint.BackOff(l.retry.Min, l.retry.Max, failures, l.run.random())
			}
			if failures >= l.retry.Attempts || held > rateLimitWait {
				progress.DeadLetters = append(progress.DeadLetters, l.letter(retry[0].entry, failures, first))
				retry = retry[1:]
				failures, held, pause = 0, 0, 0
			}
		}
		if err := l.record(entries, retry, progress); err != nil {
			return err
		}
		left := make([]entry, 0, len(retry))
		for _, r := range retry {
			left = append(left, r.entry)
		}
		entries = left
		if pause > 0 {
			l.counters.retries.Add(1)
			if !l.rest(pause) {
				return errStopped
			}
		}
	}
	return nil
}

// unknown leaves out what was settled since it was put into the backlog, which happens where a source
// gives events again.
func (l *lane) unknown(entries []entry) ([]entry, error) {
	if !l.run.unordered {
		return entries, nil
	}
	fresh := make([]entry, 0, len(entries))
	for _, e := range entries {
		if !l.run.known.has(e.event.Origin().ID) {
			fresh = append(fresh, e)
			continue
		}
		l.counters.duplicates.Add(1)
		if err := l.settled(e); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

// permitted waits while the lane is paused. It is false when the run stops.
func (l *lane) permitted() bool {
	for {
		if l.run.stopping.Err() != nil {
			return false
		}
		paused, changed := l.run.pauses.paused(l.needs...)
		if !paused {
			return true
		}
		select {
		case <-changed:
		case <-l.run.stopping.Done():
		}
	}
}

// attempt makes one send.
func (l *lane) attempt(entries []entry) []error {
	events := make([]types.SinkEvent, len(entries))
	for i, e := range entries {
		events[i] = e.event
	}
	traced, end := l.run.tracing.delivery(l.run.id, l.id, events)
	began := l.run.clock.Now()
	outcomes := l.sink.deliver(l.run.aborted, traced)
	l.counters.took(l.run.clock.Now().Sub(began))
	end(outcomes)
	for _, err := range outcomes {
		if err != nil && l.run.aborted.Err() == nil {
			l.counters.failed(err, l.run.clock.Now())
			var p *panicked
			if errors.As(err, &p) {
				l.run.log.Error("a sink panicked", "sink", l.id, "stack", string(p.stack))
			}
			break
		}
	}
	return outcomes
}

// report logs that the sink begins to fail, and that it works again.
func (l *lane) report(outcomes []error) {
	log := l.run.log.With("monitor", l.monitor, "sink", l.id)
	for _, err := range outcomes {
		if err != nil {
			l.talk.failing(l.run.clock.Now(), func() {
				log.Warn("deliveries fail; they are tried again where that may help, else they become dead letters", "error", err)
			})
			return
		}
	}
	l.talk.works(func() {
		log.Info("deliveries succeed again", "dead_lettered", l.counters.deadLettered.Load())
	})
}

// talk keeps the log short where failures and successes take turns: it says that something fails once a
// minute at most, and that it works again where it has said so.
type talk struct {
	said   bool
	saidAt time.Time
}

func (t *talk) failing(now time.Time, say func()) {
	if t.said || !t.saidAt.IsZero() && now.Sub(t.saidAt) < time.Minute {
		return
	}
	t.said, t.saidAt = true, now
	say()
}

func (t *talk) works(say func()) {
	if !t.said {
		return
	}
	t.said = false
	say()
}

type failedEntry struct {
	entry   entry
	failure error
}

// sort tells what is to be tried again, in order, from what has come to an end. The first entry has failed
// so often before.
func (l *lane) sort(entries []entry, outcomes []error, failures int) (retry []failedEntry, progress types.Progress) {
	for i, e := range entries {
		switch err := outcomes[i]; {
		case err == nil:
			progress.Deliveries = append(progress.Deliveries, types.Delivery{Cursor: e.cursor, MatchID: e.event.Origin().ID})
		case retryable(err):
			retry = append(retry, failedEntry{e, err})
		default:
			attempts := 1
			if i == 0 {
				attempts += failures
			}
			progress.DeadLetters = append(progress.DeadLetters, l.letter(e, attempts, err))
		}
	}
	return retry, progress
}

// retryable reports whether another attempt makes sense. A time-out of the sink's own is no decision.
func retryable(err error) bool {
	return ports.IsTransient(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func (l *lane) letter(e entry, attempts int, cause error) types.DeadLetter {
	event := e.event
	return types.DeadLetter{
		MatchID: event.Origin().ID, Monitor: l.monitor, Sink: l.id, Cursor: e.cursor,
		Attempts: uint64(max(attempts, 1)), Reason: reason(cause), Payload: &event,
	}
}

// reason is the text of an error as a dead letter takes it.
func reason(err error) string {
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(text) > ports.MaxReasonBytes {
		const cut = " …"
		text = strings.ToValidUTF8(text[:ports.MaxReasonBytes-len(cut)], "") + cut
	}
	return text
}

// record stores what came to an end, then settles it. A dead letter is journaled too: an event that comes
// again finds it, and is not tried once more.
func (l *lane) record(entries []entry, retry []failedEntry, progress types.Progress) error {
	if len(progress.Deliveries) == 0 && len(progress.DeadLetters) == 0 {
		return nil
	}
	delivered := len(progress.Deliveries)
	for _, letter := range progress.DeadLetters {
		progress.Deliveries = append(progress.Deliveries, types.Delivery{Cursor: letter.Cursor, MatchID: letter.MatchID})
	}
	if err := l.run.apply(l.run.aborted, progress); err != nil {
		return err
	}
	l.counters.delivered.Add(uint64(delivered))
	l.counters.deadLettered.Add(uint64(len(progress.DeadLetters)))
	if l.run.unordered {
		for _, d := range progress.Deliveries {
			l.run.known.add(d.MatchID)
		}
	}
	again := make(map[types.MatchID]bool, len(retry))
	for _, r := range retry {
		again[r.entry.event.Origin().ID] = true
	}
	done := make([]entry, 0, len(entries))
	for _, e := range entries {
		if !again[e.event.Origin().ID] {
			done = append(done, e)
		}
	}
	return l.settled(done...)
}

// settled tells the ledger, and whoever waits for room.
func (l *lane) settled(entries ...entry) error {
	for first := 0; first < len(entries); {
		n := first + 1
		for n < len(entries) && entries[n].step == entries[first].step {
			n++
		}
		if err := l.run.ledger.settle(entries[first].step, n-first); err != nil {
			return err
		}
		first = n
	}
	l.mu.Lock()
	l.waiting -= len(entries)
	l.mu.Unlock()
	l.run.signal()
	return nil
}

// rest waits before the next attempt. It is false when the run stops.
func (l *lane) rest(pause time.Duration) bool {
	l.wait(l.run.clock.Now().Add(pause))
	defer l.wait(time.Time{})
	return l.run.wait(pause)
}

func (l *lane) wait(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
}
