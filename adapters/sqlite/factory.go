package sqlite

import (
	"context"
	_ "embed"
	"path/filepath"
	"time"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
)

// ModuleName is the name under which a configuration selects this package (R261).
const ModuleName = "sqlite"

//go:embed registry_examples/sqlite.toml
var example string

// Module is the factory for a catalog.
func Module() ports.StorageModule {
	return ports.StorageModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        ModuleName,
			Description: "durable storage in a SQLite file, or in memory with the path :memory:",
			Example:     example,
		},
		Paths: paths,
		Open:  openModule,
	}
}

// settings is the configuration of a storage.
type settings struct {
	Path          string `toml:"path"`
	JournalDepth  int64  `toml:"journal_depth"`
	BusyTimeoutMS int64  `toml:"busy_timeout_ms"`
	Durability    string `toml:"durability"`
	CacheBytes    int    `toml:"cache_bytes"`
}

// defaults are what a configuration that says nothing gets.
func defaults() settings {
	return settings{
		Path:          "storage/storage.sqlite",
		JournalDepth:  ports.DefaultDepth,
		BusyTimeoutMS: DefaultBusyTimeout.Milliseconds(),
		CacheBytes:    defaultCacheBytes,
	}
}

func paths(env ports.Env, config ports.ModuleConfig) ([]string, error) {
	options, err := optionsOf(env, config)
	if err != nil || options.Path == sqlitefile.InMemory {
		return nil, err
	}
	return []string{options.Path}, nil
}

func openModule(ctx context.Context, env ports.Env, config ports.ModuleConfig) (ports.Storage, error) {
	options, err := optionsOf(env, config)
	if err != nil {
		return nil, err
	}
	storage, err := Open(ctx, options)
	if err != nil {
		return nil, err // a nil *Storage must not become a non-nil interface
	}
	return storage, nil
}

func optionsOf(env ports.Env, config ports.ModuleConfig) (Options, error) {
	const op = "storage.configure"
	set := defaults()
	if err := config.Decode(&set); err != nil {
		return Options{}, err
	}
	durability, err := sqlitefile.ParseDurability(op, set.Durability)
	if err != nil {
		return Options{}, err
	}
	// Zero means the default to Options, and nothing that a configuration should say.
	if set.JournalDepth < 1 {
		return Options{}, ports.Errorf(ports.CodeInvalidConfig, op, "journal_depth is %d: give 1 or above", set.JournalDepth)
	}
	if most := MaxBusyTimeout.Milliseconds(); set.BusyTimeoutMS < 1 || set.BusyTimeoutMS > most {
		return Options{}, ports.Errorf(ports.CodeInvalidConfig, op, "busy_timeout_ms is %d: give 1 to %d", set.BusyTimeoutMS, most)
	}
	options := Options{
		Path:         set.Path,
		JournalDepth: set.JournalDepth,
		BusyTimeout:  time.Duration(set.BusyTimeoutMS) * time.Millisecond,
		Durability:   durability,
		CacheBytes:   set.CacheBytes,
		Log:          env.Log,
	}
	switch {
	case set.Path == "" || set.Path == sqlitefile.InMemory: // the first is refused below
	case filepath.IsAbs(set.Path):
		options.Path = filepath.Clean(set.Path)
	default:
		options.Path = filepath.Join(env.StateDir, set.Path)
	}
	return options.check(op)
}
