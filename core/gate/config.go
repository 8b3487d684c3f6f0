package gate

import (
	"time"

	"github.com/stowage-go/stowage/ports"
)

// MaxThreshold is the highest threshold.
const MaxThreshold = 10_000

// Config is the condition of a gate.
type Config struct {
	// Threshold is how many matches within the window let one through. Zero stands for 1.
	Threshold int
	// Window is how long a match counts. It is above 0 if Threshold is above 1.
	Window time.Duration
	// Cooldown is the least time between two emissions of a group. 0: none.
	Cooldown time.Duration
}

// Check refuses, as INVALID_CONFIG, what cannot be the condition of a gate.
func (c Config) Check(op string) error {
	switch {
	case c.Threshold < 0 || c.Threshold > MaxThreshold:
		return invalid(op, "the threshold %d is out of range: give 1 to %d", c.Threshold, MaxThreshold)
	case c.Window < 0 || c.Window%time.Millisecond != 0:
		return invalid(op, "the window %s is no length of time: give a whole number of milliseconds, such as 1h", c.Window)
	case c.Cooldown < 0 || c.Cooldown%time.Millisecond != 0:
		return invalid(op, "the cooldown %s is no length of time: give a whole number of milliseconds, such as 10m", c.Cooldown)
	case c.Threshold > 1 && c.Window == 0:
		return invalid(op, "a threshold of %d has no window: say within which time the matches count, such as window = \"1h\"", c.Threshold)
	}
	return nil
}

func invalid(op, format string, args ...any) error {
	return ports.Errorf(ports.CodeInvalidConfig, op, format, args...)
}

// threshold is at least 1.
func (c Config) threshold() int { return max(c.Threshold, 1) }

// remembers reports whether the gate has any state: without, it lets every match through.
func (c Config) remembers() bool { return c.threshold() > 1 || c.Cooldown > 0 }

// counts reports whether the gate keeps hits.
func (c Config) counts() bool { return c.remembers() && c.Window > 0 }

// horizon is how long an emission matters.
func (c Config) horizon() int64 { return max(c.Window, c.Cooldown).Milliseconds() }
