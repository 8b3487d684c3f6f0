package webhook

import (
	"context"
	_ "embed"
	"net/http"
	"net/textproto"
	"os"
	"time"

	"github.com/stowage-go/stowage/ports"
)

// SinkName is the name under which a configuration selects the sink.
const SinkName = "webhook"

//go:embed registry_examples/webhook-sink.toml
var sinkExample string

// SinkModule is the factory for a catalog. Opening a sink does not connect to its receiver.
func SinkModule() ports.SinkModule {
	return ports.SinkModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        SinkName,
			Description: "POSTs each event to a URL, as JSON that is signed by the Standard Webhooks convention",
			Example:     sinkExample,
		},
		Check: func(env ports.Env, config ports.ModuleConfig) error {
			options, err := decode(env, config)
			if err != nil {
				return err
			}
			_, err = options.target()
			return err
		},
		Open: openSink,
	}
}

func openSink(_ context.Context, env ports.Env, config ports.ModuleConfig, _ ports.QueueResolver) (ports.Sink, error) {
	options, err := decode(env, config)
	if err != nil {
		return nil, err
	}
	sink, err := NewSink(options)
	if err != nil {
		return nil, err // a nil *Sink must not become a non-nil interface
	}
	return sink, nil
}

// settings is the configuration of a sink.
type settings struct {
	URL          string            `toml:"url"`
	Secret       string            `toml:"secret"`
	SecretFile   string            `toml:"secret_file"`
	SecretEnv    string            `toml:"secret_env"`
	Timeout      ports.Duration    `toml:"timeout"`
	Headers      map[string]string `toml:"headers"`
	AllowPrivate bool              `toml:"allow_private"`
}

// decode makes options of a configuration. The secret is looked up here, so that a sink whose secret is
// missing is refused before one that works makes room for it.
func decode(env ports.Env, config ports.ModuleConfig) (Options, error) {
	set := settings{Timeout: ports.Duration(DefaultTimeout)}
	if err := config.Decode(&set); err != nil {
		return Options{}, err
	}
	options := Options{
		URL:          set.URL,
		Timeout:      time.Duration(set.Timeout),
		AllowPrivate: set.AllowPrivate,
		Clock:        env.Clock,
	}
	if options.Timeout == 0 {
		return Options{}, refuse("the timeout is 0: give one above 0, or none for %v", DefaultTimeout)
	}
	if len(set.Headers) > 0 {
		options.Header = make(http.Header, len(set.Headers))
	}
	for name, value := range set.Headers {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if _, twice := options.Header[canonical]; twice {
			return Options{}, refuse("the header %s stands twice in headers", canonical)
		}
		options.Header[canonical] = []string{value}
	}
	secrets, err := set.secrets(env)
	options.Secrets = secrets
	return options, err
}

// secrets reads the one key for secrets that is given, if any is.
func (set settings) secrets(env ports.Env) (Secrets, error) {
	given := 0
	for _, key := range []string{set.Secret, set.SecretFile, set.SecretEnv} {
		if key != "" {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, nil
	case given > 1:
		return nil, refuse("the secret stands in more than one of secret, secret_file and secret_env: give one of them")
	case set.Secret != "":
		secrets, err := ParseSecrets(set.Secret)
		if err != nil {
			return nil, refuse("the key secret cannot be used: %w", err)
		}
		return secrets, nil
	case set.SecretEnv != "":
		text, there := os.LookupEnv(set.SecretEnv)
		if !there {
			return nil, refuse("the variable %s (secret_env) is not set: set it where the daemon is started, to the secret of the receiver", set.SecretEnv)
		}
		secrets, err := ParseSecrets(text)
		if err != nil {
			return nil, refuse("the environment variable %s (secret_env) cannot be used: %w", set.SecretEnv, err)
		}
		return secrets, nil
	}
	return readSecrets(env, set.SecretFile)
}
