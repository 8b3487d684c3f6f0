package ndjson

import (
	"context"
	_ "embed"
	"path/filepath"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// The names under which a configuration selects this package's parts.
const (
	SourceName = "ndjson"
	SinkName   = "ndjson"
	StdoutName = "stdout"
)

var (
	//go:embed registry_examples/ndjson-source.toml
	sourceExample string
	//go:embed registry_examples/ndjson-sink.toml
	sinkExample string
	//go:embed registry_examples/stdout.toml
	stdoutExample string
)

// SourceModule is the factory of sources for a catalog.
func SourceModule() ports.SourceModule {
	return ports.SourceModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        SourceName,
			Description: "lines of JSON in a file, followed as it grows and through rotations",
			Example:     sourceExample,
		},
		Check: func(env ports.Env, config ports.ModuleConfig) error {
			_, err := sourceOptions(env, config)
			return err
		},
		Reads: func(env ports.Env, config ports.ModuleConfig) ([]ports.Place, error) {
			options, err := sourceOptions(env, config)
			return []ports.Place{{Path: options.Path}}, err
		},
		Open: func(ctx context.Context, env ports.Env, config ports.ModuleConfig, from *types.Cursor, _ ports.QueueResolver) (ports.Source, error) {
			options, err := sourceOptions(env, config)
			if err != nil {
				return nil, err
			}
			source, err := OpenSource(ctx, options, from)
			if err != nil {
				return nil, err // a nil *Source must not become a non-nil interface
			}
			return source, nil
		},
	}
}

// SinkModule is the factory of sinks that append to a file, for a catalog.
func SinkModule() ports.SinkModule {
	return ports.SinkModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        SinkName,
			Description: "appends events to a file, one a line, synced by policy",
			Example:     sinkExample,
		},
		Check: func(env ports.Env, config ports.ModuleConfig) error {
			_, err := sinkOptions(env, config)
			return err
		},
		Writes: func(env ports.Env, config ports.ModuleConfig) ([]ports.Place, error) {
			options, err := sinkOptions(env, config)
			return []ports.Place{{Path: options.Path}}, err
		},
		Open: func(ctx context.Context, env ports.Env, config ports.ModuleConfig, _ ports.QueueResolver) (ports.Sink, error) {
			options, err := sinkOptions(env, config)
			if err != nil {
				return nil, err
			}
			sink, err := OpenSink(ctx, options)
			if err != nil {
				return nil, err
			}
			return sink, nil
		},
	}
}

// StdoutModule is the factory of sinks that print, for a catalog.
func StdoutModule() ports.SinkModule {
	return ports.SinkModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        StdoutName,
			Description: "prints events to the standard output, one a line",
			Example:     stdoutExample,
		},
		Check: func(_ ports.Env, config ports.ModuleConfig) error { return config.Decode(&struct{}{}) },
		Open: func(_ context.Context, _ ports.Env, config ports.ModuleConfig, _ ports.QueueResolver) (ports.Sink, error) {
			if err := config.Decode(&struct{}{}); err != nil {
				return nil, err
			}
			sink, err := openStdout()
			if err != nil {
				return nil, err
			}
			return sink, nil
		},
	}
}

type sourceSettings struct {
	Path   string         `toml:"path"`
	Follow bool           `toml:"follow"`
	Poll   ports.Duration `toml:"poll"`
}

func sourceOptions(env ports.Env, config ports.ModuleConfig) (SourceOptions, error) {
	const op = "source.configure"
	set := sourceSettings{Follow: true, Poll: ports.Duration(DefaultPoll)}
	if err := config.Decode(&set); err != nil {
		return SourceOptions{}, err
	}
	if set.Poll == 0 { // a zero option is its default, a zero key a mistake
		return SourceOptions{}, ports.Errorf(ports.CodeInvalidConfig, op, "poll is 0s: give at least %v", minPoll)
	}
	if err := checkPath(op, set.Path); err != nil {
		return SourceOptions{}, err
	}
	return SourceOptions{
		Pipeline: types.PipelineID(env.Name),
		Path:     within(env.StateDir, set.Path),
		StateDir: env.StateDir,
		Once:     !set.Follow,
		Poll:     time.Duration(set.Poll),
		Clock:    env.Clock,
		Log:      env.Log,
	}.check(op)
}

type sinkSettings struct {
	Path     string         `toml:"path"`
	Fsync    string         `toml:"fsync"`
	Interval ports.Duration `toml:"interval"`
}

func sinkOptions(env ports.Env, config ports.ModuleConfig) (SinkOptions, error) {
	const op = "sink.configure"
	set := sinkSettings{Interval: ports.Duration(DefaultInterval)}
	if err := config.Decode(&set); err != nil {
		return SinkOptions{}, err
	}
	if set.Interval == 0 {
		return SinkOptions{}, ports.Errorf(ports.CodeInvalidConfig, op, "interval is 0s: give at least a millisecond, or set fsync = \"always\"")
	}
	if err := checkPath(op, set.Path); err != nil {
		return SinkOptions{}, err
	}
	fsync, err := ParseFsync(op, set.Fsync)
	if err != nil {
		return SinkOptions{}, err
	}
	return SinkOptions{
		Path:     within(env.StateDir, set.Path),
		Fsync:    fsync,
		Interval: time.Duration(set.Interval),
		Clock:    env.Clock,
		Log:      env.Log,
	}.check(op)
}

// within resolves a path of a configuration: a relative one starts at the state directory.
func within(stateDir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(stateDir, path)
}
