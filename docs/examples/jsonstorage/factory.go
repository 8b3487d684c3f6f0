package jsonstorage

import (
	"context"
	_ "embed"
	"path/filepath"

	"github.com/stowage-go/stowage/ports"
)

//go:embed registry_examples/jsonstorage.toml
var example string

// Module is the factory for a catalog.
func Module() ports.StorageModule {
	return ports.StorageModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        "jsonstorage",
			Description: "storage in one JSON file",
			Example:     example,
		},
		Paths: func(env ports.Env, config ports.ModuleConfig) ([]string, error) {
			path, _, err := settings(env, config)
			return []string{path}, err
		},
		Open: func(_ context.Context, env ports.Env, config ports.ModuleConfig) (ports.Storage, error) {
			path, depth, err := settings(env, config)
			if err != nil {
				return nil, err
			}
			store, err := Open(path, depth)
			if err != nil {
				return nil, err // a nil *Storage must not become a non-nil interface
			}
			return store, nil
		},
	}
}

// settings reads the configuration; a relative path starts at the state directory.
func settings(env ports.Env, config ports.ModuleConfig) (path string, depth int64, err error) {
	set := struct {
		Path         string `toml:"path"`
		JournalDepth int64  `toml:"journal_depth"`
	}{filepath.Join("storage", "storage.json"), ports.DefaultDepth}
	if err := config.Decode(&set); err != nil {
		return "", 0, err
	}
	if set.JournalDepth < 1 {
		return "", 0, ports.Errorf(ports.CodeInvalidConfig, "storage.open", "journal_depth is %d: give 1 or above", set.JournalDepth)
	}
	if !filepath.IsAbs(set.Path) {
		set.Path = filepath.Join(env.StateDir, set.Path)
	}
	return filepath.Clean(set.Path), set.JournalDepth, nil
}
