package eventlog

import (
	"context"
	"runtime"
	"slices"
	"strings"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Limits of one call.
const (
	MaxAcceptEvents = 10_000
	MaxAcceptBytes  = 16 << 20 // of all events together, as compact JSON
)

// A write takes what waits, up to these, in addition to the first call.
const (
	maxGroup      = 1024
	maxGroupBytes = 4 << 20
)

// accept is one call that waits.
type accept struct {
	ctx  context.Context
	text []byte // its lines
	last int    // where the last of them begins

	wake   chan bool // true: lead the next write; false: answered
	called bool      // told to lead, guarded by Log.mu
	err    error
}

// Accept stores the events durably, all or none, in this order: at most 10,000, each at most 1 MiB and
// all at most 16 MiB of compact JSON. One without a time gets that of its arrival; a trace context that is
// none is left out. What breaks a rule is
// INVALID_INPUT, which names it, and nothing is stored. A full log or disk is BACKEND_FAILED/disk_full,
// a log that was closed is STORE_CLOSED.
//
// If ctx ends before the events are being written, nothing is stored; after that the true outcome is
// waited for.
func (l *Log) Accept(ctx context.Context, events []types.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	call, err := encode(events, l.o.Clock)
	if err != nil {
		return err
	}
	if len(events) == 0 {
		return nil
	}
	call.ctx = ctx
	return l.submit(call)
}

func encode(events []types.Event, clock ports.Clock) (*accept, error) {
	if len(events) > MaxAcceptEvents {
		return nil, ports.Errorf(ports.CodeInvalidInput, opAccept, "there are %d events: at most %d are allowed", len(events), MaxAcceptEvents)
	}
	a := &accept{wake: make(chan bool, 1)}
	now := clock.Now().UnixMilli()
	bytes := 0
	for i, e := range events {
		text, err := ports.CompactJSON(string(e.Data))
		if err != nil {
			return nil, ports.Errorf(ports.CodeInvalidInput, opAccept, "event %d of %d is not valid JSON: %w", i+1, len(events), err)
		}
		if len(text) > ports.MaxJSONBytes {
			return nil, ports.Errorf(ports.CodeInvalidInput, opAccept, "event %d of %d has %d bytes: at most %d are allowed", i+1, len(events), len(text), ports.MaxJSONBytes)
		}
		if bytes += len(text); bytes > MaxAcceptBytes {
			return nil, ports.Errorf(ports.CodeInvalidInput, opAccept, "event %d of %d makes it more than %d bytes in all: send fewer at once", i+1, len(events), MaxAcceptBytes)
		}
		if e.TS == 0 {
			e.TS = now
		}
		trace := traceparentOf(e.Traceparent)
		if a.text == nil {
			a.text = make([]byte, 0, len(events)*(len(text)+len(trace)+48))
		}
		a.last = len(a.text)
		a.text = appendRecord(a.text, record{rest: uint64(len(events) - 1 - i), ts: e.TS, traceparent: trace, event: []byte(text)})
	}
	return a, nil
}

func (l *Log) submit(a *accept) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return closedError(opAccept, l.dir)
	}
	l.pending = append(l.pending, a)
	leads := !l.writing // a lone caller writes by itself, without a hand-over
	l.writing = true
	l.mu.Unlock()

	if !leads {
		select {
		case leads = <-a.wake:
		case <-a.ctx.Done():
			if l.withdraw(a) {
				return a.ctx.Err()
			}
			leads = <-a.wake
		}
	}
	if leads {
		l.lead(a)
	}
	return a.err
}

// withdraw takes back a call that has not begun.
func (l *Log) withdraw(a *accept) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.pending, a)
	if i < 0 {
		return false
	}
	l.pending = slices.Delete(l.pending, i, i+1)
	if a.called {
		l.callNext()
	}
	return true
}

// callNext makes the call that waits longest lead, or ends the writing. The caller holds mu.
func (l *Log) callNext() {
	if len(l.pending) == 0 {
		l.writing = false
		l.idle.Broadcast()
		return
	}
	next := l.pending[0]
	next.called = true
	next.wake <- true
}

// lead stores what waits, own among it, answers, and hands over.
func (l *Log) lead(own *accept) {
	group := l.gather()
	l.store(group)
	for _, a := range group {
		if a != own {
			a.wake <- false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callNext()
}

// gather takes the calls that wait. Where several callers are at work, those who were just answered are
// about to come back: letting them run until no more come makes one sync serve them all.
func (l *Log) gather() []*accept {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := len(l.pending); (n > 1 || l.group > 1) && n < maxGroup; n = len(l.pending) {
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
		if len(l.pending) <= n {
			break
		}
	}
	n, bytes := 0, 0
	for n < min(len(l.pending), maxGroup) && (n == 0 || bytes+len(l.pending[n].text) <= maxGroupBytes) {
		bytes += len(l.pending[n].text)
		n++
	}
	group := slices.Clone(l.pending[:n])
	l.pending = slices.Delete(l.pending, 0, n)
	l.group = n
	return group
}

// store writes a group and gives each call its outcome.
func (l *Log) store(group []*accept) {
	admitted := l.admit(group)
	if len(admitted) == 0 {
		return
	}
	if err := l.write(admitted); err != nil {
		for _, a := range admitted {
			a.err = err
		}
	}
}

// admit returns the calls of a group for which there is room, and refuses the others.
func (l *Log) admit(group []*accept) []*accept {
	admitted := make([]*accept, 0, len(group))
	room, reclaimed := l.room(), false
	for _, a := range group {
		if a.err = a.ctx.Err(); a.err != nil {
			continue // gave up before it began
		}
		need := int64(len(a.text))
		if need > room && !reclaimed && len(admitted) == 0 {
			reclaimed = true
			if a.err = l.reclaim(); a.err != nil {
				continue
			}
			room = l.room()
		}
		if need > room {
			a.err = l.fullError(need)
			continue
		}
		room -= need
		admitted = append(admitted, a)
	}
	return admitted
}

// room is how many bytes may still be written.
func (l *Log) room() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.o.MaxBytes - l.total - headerRoom
}

func (l *Log) fullError(need int64) error {
	if need > l.o.MaxBytes-2*headerRoom {
		return ports.Errorf(ports.CodeBackendFailed, opAccept,
			"event log %s: its max_bytes is %d and this call needs %d: send fewer events at once, or raise max_bytes", l.dir, l.o.MaxBytes, need).
			WithReason(ports.ReasonDiskFull).WithClass(ports.Permanent)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return ports.Errorf(ports.CodeBackendFailed, opAccept,
		"event log %s holds %d bytes, its max_bytes is %d, and this call needs %d more: its pipeline is behind; see whether it is paused or its sinks fail, repeat later, or raise max_bytes",
		l.dir, l.total, l.o.MaxBytes, need).WithReason(ports.ReasonDiskFull)
}

// traceparentOf is a trace context if it has the form of one, and nothing otherwise, as the W3C wants it:
// a trace is no reason to refuse an event.
func traceparentOf(text string) string {
	const form = "vv-tttttttttttttttttttttttttttttttt-pppppppppppppppp-ff"
	if len(text) < len(form) || len(text) > maxTraceparentBytes || text[:2] == "ff" {
		return ""
	}
	for i := range len(text) {
		switch c := text[i]; {
		case i >= len(form): // of a later version
			if text[:2] == "00" || text[len(form)] != '-' || c <= ' ' || c > '~' {
				return ""
			}
		case form[i] == '-' && c != '-', form[i] != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return ""
		}
	}
	if strings.Trim(text[3:35], "0") == "" || strings.Trim(text[36:52], "0") == "" {
		return ""
	}
	return text
}
