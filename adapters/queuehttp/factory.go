package queuehttp

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"time"

	"github.com/stowage-go/stowage/ports"
)

// ModuleName is the name under which a configuration selects this package.
const ModuleName = "queuehttp"

//go:embed registry_examples/queuehttp.toml
var example string

// Module is the factory for a catalog. Its queues are of another process: opening one does not
// connect to it.
func Module() ports.QueueModule {
	return ports.QueueModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        ModuleName,
			Description: "queue of another process, over the HTTP protocol",
			Example:     example,
		},
		Paths: paths,
		Open:  openModule,
	}
}

// settings is the configuration of a queue. There is no key for a token: it stands in a file or in
// the environment, never in a configuration.
type settings struct {
	Endpoint  string         `toml:"endpoint"`
	TokenFile string         `toml:"token_file"`
	TokenEnv  string         `toml:"token_env"`
	Timeout   ports.Duration `toml:"timeout"`
}

// paths checks the configuration; a client owns no files.
func paths(env ports.Env, config ports.ModuleConfig) ([]string, error) {
	_, err := decode(env, config)
	return nil, err
}

func openModule(_ context.Context, env ports.Env, config ports.ModuleConfig) (ports.QueueStore, error) {
	set, err := decode(env, config)
	if err != nil {
		return nil, err
	}
	options := Options{Timeout: time.Duration(set.Timeout)}
	binding := Binding{Endpoint: set.Endpoint}
	if set.TokenFile != "" {
		options.Token = TokenFile(set.TokenFile)
		if _, err := options.Token(); err != nil {
			return nil, err
		}
	} else {
		binding.Token = os.Getenv(set.TokenEnv)
		if err := ports.CheckBearer("queue.configure", binding.Token); err != nil {
			return nil, invalid("the environment variable %s (token_env) holds no token: %w", set.TokenEnv, err)
		}
	}
	client, err := NewClient(binding, options)
	if err != nil {
		return nil, err // a nil *Client must not become a non-nil interface
	}
	return client, nil
}

func decode(env ports.Env, config ports.ModuleConfig) (settings, error) {
	var set settings
	if err := config.Decode(&set); err != nil {
		return settings{}, err
	}
	if problem := checkEndpoint(set.Endpoint); problem != "" {
		return settings{}, invalid("%s", problem)
	}
	if (set.TokenFile == "") == (set.TokenEnv == "") {
		return settings{}, invalid("give the queue's token as one of token_file and token_env")
	}
	if set.Timeout < 0 {
		return settings{}, invalid("the timeout is %v: give one above 0, or none for %v", time.Duration(set.Timeout), DefaultTimeout)
	}
	if set.TokenFile != "" && !filepath.IsAbs(set.TokenFile) {
		set.TokenFile = filepath.Join(env.StateDir, set.TokenFile)
	}
	return set, nil
}

func invalid(format string, args ...any) error {
	return ports.Errorf(ports.CodeInvalidConfig, "queue.configure", format, args...)
}
