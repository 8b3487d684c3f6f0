package ports_test

import (
	"math"
	"testing"
	"time"

	"github.com/stowage-go/stowage/ports"
)

func TestSystemClock(t *testing.T) {
	t.Parallel()
	clock := ports.SystemClock()
	before := time.Now()
	if now := clock.Now(); now.Before(before) || now.After(time.Now()) {
		t.Errorf("the clock says %v, want about %v", now, before)
	}
	for _, d := range []time.Duration{math.MinInt64, 0, time.Microsecond} {
		timer := clock.NewTimer(d)
		if at := <-timer.C(); at.Before(before) {
			t.Errorf("a timer of %v fired at %v, before it was made", d, at)
		}
		if timer.Stop() {
			t.Errorf("a timer of %v had fired, and Stop says that it had not", d)
		}
	}
	if timer := clock.NewTimer(time.Hour); !timer.Stop() {
		t.Error("a running timer says that it had fired")
	}
}
