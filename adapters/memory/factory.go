package memory

import (
	"context"
	_ "embed" // for the examples

	"github.com/stowage-go/stowage/ports"
)

//go:embed registry_examples/memory-kv.toml
var kvExample string

//go:embed registry_examples/memory-queue.toml
var queueExample string

//go:embed registry_examples/memory-storage.toml
var storageExample string

// ModuleName is the name under which a configuration selects this package.
const ModuleName = "memory"

// KvModule is the module "memory" for key-value stores.
func KvModule() ports.KvModule {
	return ports.KvModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        ModuleName,
			Description: "key-value store in memory; a restart loses every entry",
			Example:     kvExample,
		},
		Paths: noPaths,
		Open: func(_ context.Context, env ports.Env, config ports.ModuleConfig) (ports.KvStore, error) {
			if err := noKeys(config); err != nil {
				return nil, err
			}
			return NewKv(env.Clock), nil
		},
	}
}

// QueueModule is the module "memory" for queues.
func QueueModule() ports.QueueModule {
	return ports.QueueModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        ModuleName,
			Description: "queue in memory; a restart loses every message",
			Example:     queueExample,
		},
		Paths: noPaths,
		Open: func(_ context.Context, env ports.Env, config ports.ModuleConfig) (ports.QueueStore, error) {
			if err := noKeys(config); err != nil {
				return nil, err
			}
			return NewQueue(env.Clock), nil
		},
	}
}

// StorageModule is the module "memory" for storages.
func StorageModule() ports.StorageModule {
	return ports.StorageModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        ModuleName,
			Description: "storage in memory; a restart loses every record, dead letters among them",
			Example:     storageExample,
		},
		Paths: func(_ ports.Env, config ports.ModuleConfig) ([]string, error) {
			_, err := storageFrom(config)
			return nil, err
		},
		Open: func(_ context.Context, _ ports.Env, config ports.ModuleConfig) (ports.Storage, error) {
			storage, err := storageFrom(config)
			if err != nil {
				return nil, err // a nil *Storage must not become a non-nil interface
			}
			return storage, nil
		},
	}
}

// storageFrom makes the storage that a configuration describes.
func storageFrom(config ports.ModuleConfig) (*Storage, error) {
	set := struct {
		JournalDepth int64 `toml:"journal_depth"`
	}{JournalDepth: ports.DefaultDepth}
	if err := config.Decode(&set); err != nil {
		return nil, err
	}
	if set.JournalDepth == 0 { // not the default: who writes a depth of 0 wants none
		return nil, ports.Errorf(ports.CodeInvalidConfig, "storage.open", "journal_depth is 0: give 1 or above, or leave it out for %d", ports.DefaultDepth)
	}
	return NewStorage(StorageOptions{JournalDepth: set.JournalDepth})
}

func noPaths(_ ports.Env, config ports.ModuleConfig) ([]string, error) {
	return nil, noKeys(config)
}

// noKeys refuses any key: there is nothing to configure.
func noKeys(config ports.ModuleConfig) error { return config.Decode(&struct{}{}) }
