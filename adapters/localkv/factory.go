package localkv

import (
	"context"
	_ "embed"
	"path/filepath"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
)

// ModuleName is the name under which a configuration selects this package.
const ModuleName = "localkv"

//go:embed registry_examples/localkv.toml
var example string

// Module is the factory for a catalog.
func Module() ports.KvModule {
	return ports.KvModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        ModuleName,
			Description: "key-value store in a SQLite file, format localkv.v2, shared by processes",
			Example:     example,
		},
		Paths: paths,
		Open:  openModule,
	}
}

// settings is the configuration of a store.
type settings struct {
	DataDir    string `toml:"data_dir"`
	Mode       string `toml:"mode"`
	Durability string `toml:"durability"`
	CacheBytes int    `toml:"cache_bytes"`
}

func paths(env ports.Env, config ports.ModuleConfig) ([]string, error) {
	options, err := optionsOf(env, config)
	if err != nil {
		return nil, err
	}
	return []string{options.Dir}, nil
}

func openModule(ctx context.Context, env ports.Env, config ports.ModuleConfig) (ports.KvStore, error) {
	options, err := optionsOf(env, config)
	if err != nil {
		return nil, err
	}
	store, err := Open(ctx, options)
	if err != nil {
		return nil, err // a nil *Store must not become a non-nil interface
	}
	return store, nil
}

func optionsOf(env ports.Env, config ports.ModuleConfig) (Options, error) {
	const op = "kv.configure"
	var set settings
	if err := config.Decode(&set); err != nil {
		return Options{}, err
	}
	dir, err := dataDir(op, env, set.DataDir)
	if err != nil {
		return Options{}, err
	}
	mode, err := ParseMode(op, set.Mode)
	if err != nil {
		return Options{}, err
	}
	durability, err := sqlitefile.ParseDurability(op, set.Durability)
	if err != nil {
		return Options{}, err
	}
	options := Options{
		Dir:        dir,
		Mode:       mode,
		Durability: durability,
		CacheBytes: set.CacheBytes,
		Clock:      env.Clock,
		Log:        env.Log,
	}
	return options.check(op)
}

// dataDir is <state_dir>/kv/<name> unless one is given; a relative one starts at the state
// directory.
func dataDir(op string, env ports.Env, given string) (string, error) {
	if filepath.IsAbs(given) {
		return filepath.Clean(given), nil
	}
	if given != "" {
		return filepath.Join(env.StateDir, given), nil
	}
	if env.Name != filepath.Base(env.Name) || env.Name == "." || env.Name == ".." {
		return "", ports.Errorf(ports.CodeInvalidConfig, op, "the store name %q is no name of a directory: rename it, or set data_dir", env.Name)
	}
	return filepath.Join(env.StateDir, "kv", env.Name), nil
}
