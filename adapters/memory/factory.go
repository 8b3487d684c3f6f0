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

func noPaths(_ ports.Env, config ports.ModuleConfig) ([]string, error) {
	return nil, noKeys(config)
}

// noKeys refuses any key: there is nothing to configure.
func noKeys(config ports.ModuleConfig) error { return config.Decode(&struct{}{}) }
