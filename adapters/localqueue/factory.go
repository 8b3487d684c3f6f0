package localqueue

import (
	"context"
	_ "embed"
	"path/filepath"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
)

// ModuleName is the name under which a configuration selects this package.
const ModuleName = "localqueue"

//go:embed registry_examples/localqueue.toml
var example string

// Module is the factory for a catalog.
func Module() ports.QueueModule {
	return ports.QueueModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        ModuleName,
			Description: "work queues in SQLite files, format localqueue.v1, of which one process is the owner",
			Example:     example,
		},
		Paths:     paths,
		Check:     checkModule,
		OpenOwner: openModule,
	}
}

// settings is the configuration of a queue.
type settings struct {
	MaxReceives     int    `toml:"max_receives"`
	DeadLetterQueue string `toml:"dead_letter_queue"`
	Durability      string `toml:"durability"`
	CacheBytes      int    `toml:"cache_bytes"`
}

func paths(env ports.Env, config ports.ModuleConfig) ([]string, error) {
	const op = "queue.configure"
	if err := checkID(op, env.Name); err != nil {
		return nil, err
	}
	options, err := optionsOf(op, config)
	if err != nil {
		return nil, err
	}
	if err := checkQueues(op, map[string]QueueOptions{env.Name: options}); err != nil {
		return nil, err
	}
	return []string{filepath.Join(env.StateDir, ownedName, env.Name)}, nil
}

func checkModule(_ ports.Env, queues map[string]ports.ModuleConfig) error {
	options, err := allOptions(queues)
	if err != nil {
		return err
	}
	return checkQueues("queue.configure", options)
}

func allOptions(queues map[string]ports.ModuleConfig) (map[string]QueueOptions, error) {
	all := make(map[string]QueueOptions, len(queues))
	for id, config := range queues {
		options, err := optionsOf("queue.configure", config)
		if err != nil {
			return nil, err
		}
		all[id] = options
	}
	return all, nil
}

func openModule(ctx context.Context, env ports.Env, queues map[string]ports.ModuleConfig) (ports.QueueOwnerStore, error) {
	options, err := allOptions(queues)
	if err != nil {
		return nil, err
	}
	owner, err := OpenOwner(ctx, OwnerOptions{StateDir: env.StateDir, Clock: env.Clock, Log: env.Log, Queues: options})
	if err != nil {
		return nil, err // a nil *Owner must not become a non-nil interface
	}
	return owner, nil
}

func optionsOf(op string, config ports.ModuleConfig) (QueueOptions, error) {
	var set settings
	if err := config.Decode(&set); err != nil {
		return QueueOptions{}, err
	}
	durability, err := sqlitefile.ParseDurability(op, set.Durability)
	if err != nil {
		return QueueOptions{}, err
	}
	return QueueOptions{
		MaxReceives:     set.MaxReceives,
		DeadLetterQueue: set.DeadLetterQueue,
		Durability:      durability,
		CacheBytes:      set.CacheBytes,
	}, nil
}
