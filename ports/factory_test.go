package ports_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stowage-go/stowage/ports"
)

func TestDurationsOfAConfiguration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "0": 0, "-1.5ms": -1500 * time.Microsecond} {
		var d ports.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%q: %v, %v; want %v", text, time.Duration(d), err, want)
		}
	}
	for _, text := range []string{"", "30", "1 h", "soon", "2562048h"} {
		d := ports.Duration(7)
		if err := d.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), `write it like "30s"`) || d != 7 {
			t.Errorf("%q: %v, %v; want an error that shows the form, and the value kept", text, time.Duration(d), err)
		}
	}
}
