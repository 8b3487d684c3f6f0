package eventlog

import (
	"context"
	_ "embed"
	"path/filepath"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// ModuleName is the name under which a configuration selects this package.
const ModuleName = "http"

//go:embed registry_examples/http.toml
var example string

// Module is the factory for a catalog.
func Module() ports.SourceModule {
	return ports.SourceModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        ModuleName,
			Description: "events that others hand in by POST, in a durable log of the pipeline's own",
			Example:     example,
		},
		Check: func(env ports.Env, config ports.ModuleConfig) error {
			_, err := optionsOf(env, config)
			return err
		},
		Reads: func(env ports.Env, config ports.ModuleConfig) ([]ports.Place, error) {
			options, err := optionsOf(env, config)
			return []ports.Place{{Path: options.Dir, Own: true}}, err
		},
		Open: openModule,
	}
}

// settings is the configuration of a log.
type settings struct {
	Path         string `toml:"path"`
	MaxBytes     int64  `toml:"max_bytes"`
	SegmentBytes int64  `toml:"segment_bytes"`
}

func openModule(ctx context.Context, env ports.Env, config ports.ModuleConfig, from *types.Cursor, _ ports.QueueResolver) (ports.Source, error) {
	options, err := optionsOf(env, config)
	if err != nil {
		return nil, err
	}
	options.From = from
	log, err := Open(ctx, options)
	if err != nil {
		return nil, err // a nil *Log must not become a non-nil interface
	}
	return log, nil
}

func optionsOf(env ports.Env, config ports.ModuleConfig) (Options, error) {
	const op = "source.configure"
	var set settings
	if err := config.Decode(&set); err != nil {
		return Options{}, err
	}
	dir, err := directoryOf(op, env, set.Path)
	if err != nil {
		return Options{}, err
	}
	return Options{
		Dir:          dir,
		MaxBytes:     set.MaxBytes,
		SegmentBytes: set.SegmentBytes,
		Clock:        env.Clock,
		Log:          env.Log,
	}.check(op)
}

// maxNameBytes is the longest name that common file systems give a directory.
const maxNameBytes = 255

// directoryOf is <state_dir>/events/<pipeline> unless a path is given; a relative one starts at the
// state directory.
func directoryOf(op string, env ports.Env, given string) (string, error) {
	if filepath.IsAbs(given) {
		return filepath.Clean(given), nil
	}
	if given != "" {
		return filepath.Join(env.StateDir, given), nil
	}
	if env.Name != filepath.Base(env.Name) || env.Name == "." || env.Name == ".." || len(env.Name) > maxNameBytes {
		return "", ports.Errorf(ports.CodeInvalidConfig, op, "the pipeline name %q is no name of a directory: rename it, or set path", env.Name)
	}
	return filepath.Join(env.StateDir, "events", env.Name), nil
}
