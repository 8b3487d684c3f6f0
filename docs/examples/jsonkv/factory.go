package jsonkv

import (
	"context"
	_ "embed"
	"path/filepath"

	"github.com/stowage-go/stowage/ports"
)

//go:embed registry_examples/jsonkv.toml
var example string

// Module is the factory for a catalog.
func Module() ports.KvModule {
	return ports.KvModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        "jsonkv",
			Description: "key-value store in one JSON file",
			Example:     example,
		},
		Paths: func(env ports.Env, config ports.ModuleConfig) ([]string, error) {
			path, err := pathOf(env, config)
			return []string{path}, err
		},
		Open: func(_ context.Context, env ports.Env, config ports.ModuleConfig) (ports.KvStore, error) {
			path, err := pathOf(env, config)
			if err != nil {
				return nil, err
			}
			store, err := Open(path, env.Clock)
			if err != nil {
				return nil, err // a nil *Store must not become a non-nil interface
			}
			return store, nil
		},
	}
}

// pathOf reads the configuration; a relative path starts at the state directory.
func pathOf(env ports.Env, config ports.ModuleConfig) (string, error) {
	set := struct {
		Path string `toml:"path"`
	}{Path: filepath.Join("jsonkv", env.Name+".json")}
	if err := config.Decode(&set); err != nil {
		return "", err
	}
	if filepath.IsAbs(set.Path) {
		return filepath.Clean(set.Path), nil
	}
	return filepath.Join(env.StateDir, set.Path), nil
}
