package config

import (
	"fmt"

	"github.com/stowage-go/stowage/ports"
)

// Position is a place in a configuration file, or in a pipeline that stands in no file.
type Position struct {
	File string
	Line int // from 1
	// Path leads to a key of a pipeline that no file holds, a resource for instance: "monitor[0].when".
	// File is empty and Line is 0 then.
	Path string
}

// String gives file:line or the path, and nothing for the zero value: a store that no file configures,
// or the whole of a resource.
func (p Position) String() string {
	if p.Line == 0 {
		return p.Path
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Fault is one thing that is wrong with a configuration. It is the cause of the INVALID_CONFIG error
// that reports it.
type Fault struct { //nolint:errname // it is a row of a report, and an error besides
	At      Position
	Key     string // in the spelling of TOML, "queue.orders.module"; empty for an error of syntax or of the whole
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
