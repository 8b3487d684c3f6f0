package ports

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Env is what a catalog hands to the factory of a module.
type Env struct {
	Name     string // the name that the configuration gives the store: "default", "orders"
	StateDir string // absolute; relative paths of a configuration start here
	Clock    Clock
	Log      *slog.Logger
}

// ModuleConfig is the part of a configuration that belongs to a module.
type ModuleConfig interface {
	// Decode fills the struct that into points at, by its toml tags. A key that the struct does not
	// have, or of another type, is INVALID_CONFIG and names file, line, key and the allowed names.
	// Fields without a key keep their value, so that defaults are set beforehand.
	Decode(into any) error
}

// ModuleInfo describes a module in listings.
type ModuleInfo struct {
	Name        string // as a configuration names it: "memory", "localkv"
	Description string // one line
	Example     string // a complete stowage.toml that uses the module; a test opens a store from it
}

// KvModule opens key-value stores.
type KvModule struct {
	ModuleInfo
	// Paths decodes the configuration, refuses what Open would refuse, and returns the absolute
	// paths that a store of it will own. It opens and creates nothing: a catalog asks it for every
	// store before it opens the first. Nil for a module without files and without keys of its own.
	Paths func(Env, ModuleConfig) ([]string, error)
	// Open opens a store. Bad configuration is INVALID_CONFIG before anything is touched.
	Open func(context.Context, Env, ModuleConfig) (KvStore, error)
}

// QueueModule opens queues: one at a time by Open, or all that share a state directory by
// OpenOwner. Exactly one of the two is set.
type QueueModule struct {
	ModuleInfo
	// Paths is as for a KvModule.
	Paths func(Env, ModuleConfig) ([]string, error)
	// Open opens one queue.
	Open func(context.Context, Env, ModuleConfig) (QueueStore, error)
	// Check refuses configurations of queues that do not go together, such as a circle of dead-letter
	// queues, and opens nothing. It gets what OpenOwner would get. Nil where any go together.
	Check func(env Env, queues map[string]ModuleConfig) error
	// OpenOwner opens the owner of a state directory with the configured queues, made if missing.
	// Env.Name is empty.
	OpenOwner func(ctx context.Context, env Env, queues map[string]ModuleConfig) (QueueOwnerStore, error)
}

// QueueOwnerStore is a QueueOwner with a life of its own, as a factory returns it.
type QueueOwnerStore interface {
	QueueOwner
	// Close wakes long polls, waits for running operations, and closes every queue.
	io.Closer
}

// Duration is a time.Duration that a configuration writes as "30s" or "1h30m".
type Duration time.Duration

// UnmarshalText parses the form of time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration: write it like \"30s\" or \"1h30m\"", text)
	}
	*d = Duration(v)
	return nil
}
