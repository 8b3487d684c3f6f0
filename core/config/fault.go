package config

import (
	"fmt"

	"github.com/stowage-go/stowage/ports"
)

// Position is a place in a configuration file.
type Position struct {
	File string
	Line int // from 1
}

// String gives file:line, and nothing for the zero value: a store that no file configures.
func (p Position) String() string {
	if p == (Position{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Fault is one thing that is wrong with a configuration. It is the cause of the INVALID_CONFIG error
// that reports it.
type Fault struct { //nolint:errname // it is a row of a report, and an error besides
	At      Position
	Key     string // in the spelling of TOML, "queue.orders.module"; empty for an error of syntax
	Problem string
	Err     error // the cause, if any
}

// Error gives the position and the problem.
func (f *Fault) Error() string {
	if at := f.At.String(); at != "" {
		return at + ": " + f.Problem
	}
	return f.Problem
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

const op = "config"

// Refuse makes the INVALID_CONFIG error of a fault.
func Refuse(f *Fault) error { return ports.Errorf(ports.CodeInvalidConfig, op, "%w", f) }
