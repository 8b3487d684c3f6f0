package ports_test

import (
	"testing"
	"time"

	"github.com/stowage-go/stowage/ports"
)

// setClock is a clock of the time of day only, as a machine's is across a step.
type setClock struct {
	ports.Clock
	now time.Time
}

func (c *setClock) Now() time.Time { return c.now }

func TestSteadyClockNeverRunsBackwardsNorStandsStill(t *testing.T) {
	t.Parallel()
	t0 := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	below := &setClock{now: t0}
	clock := ports.SteadyClock(below, time.Time{})
	for i, step := range []struct {
		below, want time.Duration
	}{
		{0, 0},
		{time.Second, time.Second},
		{-time.Hour, time.Second}, // a step back is no time
		{-time.Hour + time.Second, 2 * time.Second}, // and time goes on
		{-2 * time.Hour, 2 * time.Second},
		{-2*time.Hour + time.Minute, time.Minute + 2*time.Second},
	} {
		below.now = t0.Add(step.below)
		if got := clock.Now().Sub(t0); got != step.want {
			t.Fatalf("step %d: the clock below at %v: want %v, got %v", i, step.below, step.want, got)
		}
	}
}

func TestSteadyClockStartsAtItsFloor(t *testing.T) {
	t.Parallel()
	floor := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	below := &setClock{now: floor.Add(-time.Hour)}
	clock := ports.SteadyClock(below, floor)
	if got := clock.Now(); !got.Equal(floor) {
		t.Fatalf("want the floor %v, got %v", floor, got)
	}
	below.now = below.now.Add(time.Second)
	if got := clock.Now(); !got.Equal(floor.Add(time.Second)) {
		t.Fatalf("want a second after the floor, got %v", got)
	}
}

func TestSteadyClockIsNeverBehind(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	below := &setClock{now: now}
	clock := ports.SteadyClock(below, now.Add(-time.Hour))
	if got := clock.Now(); !got.Equal(now) {
		t.Fatalf("want %v, got %v", now, got)
	}
}

func TestSteadyClockShowsTheTimeOfDay(t *testing.T) {
	t.Parallel()
	if got := ports.SteadyClock(ports.SystemClock(), time.Time{}).Now(); got != got.Round(0) {
		t.Fatalf("want no monotonic reading, got %v", got)
	}
}
