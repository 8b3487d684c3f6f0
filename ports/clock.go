package ports

import (
	"sync"
	"time"
)

// Clock is the time that a store lives by. Adapters read it and wait on it; tests hand in one that
// they move.
type Clock interface {
	// Now is the current time.
	Now() time.Time
	// NewTimer starts a timer that fires once d has passed on this clock; at once for d <= 0.
	NewTimer(d time.Duration) Timer
}

// Timer is a running timer of a [Clock].
type Timer interface {
	// C receives the time at which the timer fired, once.
	C() <-chan time.Time
	// Stop ends the timer and reports whether it had not fired.
	Stop() bool
}

// SystemClock is the machine's clock.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time                 { return time.Now() }
func (systemClock) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.t.C }
func (t systemTimer) Stop() bool          { return t.t.Stop() }

// SteadyClock makes a clock whose Now never runs backwards, and never stands still either: when the
// clock below steps back, time goes on from where it was, as fast as before. It is never behind the
// clock below, and starts no earlier than floor, whose zero value means none.
//
// A queue lives by one, so that a clock that steps back neither reorders its messages nor keeps them
// hidden for the length of the step (R111).
func SteadyClock(clock Clock, floor time.Time) Clock {
	return &steadyClock{Clock: clock, read: clock.Now(), now: floor.Round(0)}
}

type steadyClock struct {
	Clock
	mu   sync.Mutex
	read time.Time // from the clock below, last
	now  time.Time
}

func (c *steadyClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := c.Clock.Now()
	// The machine's clock tells elapsed time by its monotonic reading, which knows of no step. What is
	// stored is the time of day, without it.
	if elapsed := read.Sub(c.read); elapsed > 0 {
		c.now = c.now.Add(elapsed)
	}
	c.read = read
	if day := read.Round(0); day.After(c.now) {
		c.now = day
	}
	return c.now
}
