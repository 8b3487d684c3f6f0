package webhook

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
)

// keys is a configuration: the keys of a module as TOML.
type keys string

func (k keys) Decode(into any) error {
	decoder := toml.NewDecoder(strings.NewReader(string(k)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return ports.Errorf(ports.CodeInvalidConfig, "test.config", "%w", err)
	}
	return nil
}

// open opens a sink, and sees to it that Check says the same.
func open(t *testing.T, env ports.Env, config ports.ModuleConfig) (*Sink, error) {
	t.Helper()
	module := SinkModule()
	checked := module.Check(env, config)
	opened, err := module.Open(t.Context(), env, config, nil)
	if err != nil {
		require.Nil(t, opened)
		require.EqualError(t, checked, err.Error())
		return nil, err
	}
	require.NoError(t, checked)
	return opened.(*Sink), nil
}

func TestTheExampleWorks(t *testing.T) {
	t.Parallel()
	module := SinkModule()
	require.Equal(t, "webhook", module.Name)
	require.NotEmpty(t, module.Description)
	var example struct {
		Pipeline []struct {
			ID   string
			Sink []map[string]any
		}
	}
	require.NoError(t, toml.Unmarshal([]byte(module.Example), &example))
	settings := example.Pipeline[0].Sink[0]
	require.Equal(t, SinkName, settings["module"])
	delete(settings, "id")
	delete(settings, "module")
	text, err := toml.Marshal(settings)
	require.NoError(t, err)
	sink, err := open(t, fixture.Env(t, "earthquakes/alerts", ports.SystemClock()), keys(text))
	require.NoError(t, err)
	require.Equal(t, "production", sink.header.Get("X-Environment"))
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "earthquakes/alerts", fixture.NewClock(fixture.Epoch()))
	sink, err := open(t, env, keys(`url = "https://example.com/hook"`))
	require.NoError(t, err)
	require.Equal(t, DefaultTimeout, sink.timeout)
	require.Empty(t, sink.secrets)
	require.Same(t, env.Clock, sink.clock)
	sink, err = open(t, env, keys(`
url = "http://127.0.0.1:9000/hook"
secret = "`+publishedSecret+` `+otherSecret+`"
timeout = "1m"
headers = { x-key = "a, b" }
allow_private = true`))
	require.NoError(t, err)
	require.Equal(t, time.Minute, sink.timeout)
	require.Len(t, sink.secrets, 2)
	require.Equal(t, "a, b", sink.header.Get("X-Key"))
}

func TestConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	const url = `url = "https://example.com/hook"` + "\n"
	for text, says := range map[string]string{
		``:                                    "the key url is missing",
		`url = "http://127.0.0.1/"`:           "allow_private = true",
		url + `timeout = "0s"`:                "the timeout is 0",
		url + `timeout = "-1s"`:               "the timeout is -1s",
		url + `timeout = "11m"`:               "the timeout is 11m",
		url + `secrets = "a"`:                 "",
		url + `secret = "t0ken"`:              "the key secret cannot be used",
		url + `secret_file = "none"`:          "state/none (secret_file) cannot be used",
		url + `secret_env = "NO_SUCH_SECRET"`: "the variable NO_SUCH_SECRET (secret_env) is not set",
		url + "secret = \"t0ken\"\nsecret_file = \"t0ken\"": "in more than one of",
		url + "secret_env = \"A\"\nsecret_file = \"a\"":     "in more than one of",

		`url = "https://example.com:0/"`:     "the port of the url of example.com is no number from 1 to 65535",
		`url = "https://example.com:65536/"`: "the port of the url of example.com is no number from 1 to 65535",

		url + `headers = { "content-type" = "t0ken" }`:      "the header Content-Type is the sink's own",
		url + `headers = { "Content-Length" = "t0ken" }`:    "the sink's own",
		url + `headers = { Host = "t0ken" }`:                "the sink's own",
		url + `headers = { webhook-id = "t0ken" }`:          "the sink's own",
		url + `headers = { Webhook-Other = "t0ken" }`:       "the sink's own",
		url + `headers = { traceparent = "t0ken" }`:         "the sink's own",
		url + `headers = { Transfer-Encoding = "t0ken" }`:   "the sink's own",
		url + `headers = { connection = "t0ken" }`:          "the sink's own",
		url + `headers = { Proxy-Authorization = "t0ken" }`: "the sink's own",
		url + `headers = { "" = "t0ken" }`:                  "has another form",
		url + `headers = { "a b" = "t0ken" }`:               "has another form",
		url + `headers = { "ä" = "t0ken" }`:                 "has another form",
		url + `headers = { X-A = "t0ken\r\nHost: b" }`:      "the value of the header X-A cannot be sent",
		url + `headers = { X-A = " t0ken" }`:                "the value of the header X-A cannot be sent",
		url + `headers = { X-A = "t0ken", x-a = "b" }`:      "the header X-A stands twice",
	} {
		_, err := open(t, fixture.Env(t, "earthquakes/alerts", ports.SystemClock()), keys(text))
		require.ErrorIs(t, err, ports.ErrInvalidConfig, text)
		require.ErrorContains(t, err, says, text)
		if says != "" { // what a decoder says is its own
			require.NotContains(t, err.Error(), "t0ken", text)
		}
	}
	_, err := NewSink(Options{URL: "https://example.com", Header: http.Header{"x-a": {"b"}}})
	require.ErrorContains(t, err, `"X-A"`)
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "earthquakes/alerts", ports.SystemClock())
	require.NoError(t, os.MkdirAll(env.StateDir, 0o700))
	path := filepath.Join(env.StateDir, "alerts")
	config := keys("url = \"https://example.com\"\nsecret_file = \"alerts\"")
	write := func(text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(path, mode))
	}
	write(publishedSecret+"\n"+otherSecret+"\n", 0o400)
	sink, err := open(t, env, config)
	require.NoError(t, err)
	require.Len(t, sink.secrets, 2)
	_, err = open(t, env, keys("url = \"https://example.com\"\nsecret_file = '"+path+"'"))
	require.NoError(t, err)

	refused := func(says string) {
		t.Helper()
		_, err := open(t, env, config)
		require.ErrorIs(t, err, ports.ErrInvalidConfig)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "MfKQ9r8G")
	}
	require.NoError(t, os.Chmod(path, 0o640))
	refused("chmod 600")
	require.NoError(t, os.Remove(path))
	refused("with mode 0600")
	require.NoError(t, os.Symlink("elsewhere", path))
	refused("no plain file")
	require.NoError(t, os.Remove(path))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	refused("no plain file")
	require.NoError(t, os.Remove(path))
	write(strings.Repeat(publishedSecret+" ", 200), 0o600)
	refused("more than 4096 bytes")
	write("MfKQ9r8G", 0o600)
	refused("secret 1 of 1")
}

// It is not parallel, because the environment is the process's.
func TestSecretsOfTheEnvironment(t *testing.T) {
	t.Setenv("STOWAGE_TEST_SECRET", otherSecret)
	sink, err := open(t, fixture.Env(t, "earthquakes/alerts", ports.SystemClock()), keys("url = \"https://example.com\"\nsecret_env = \"STOWAGE_TEST_SECRET\""))
	require.NoError(t, err)
	require.Len(t, sink.secrets, 1)
	t.Setenv("STOWAGE_TEST_SECRET", "t0ken")
	_, err = open(t, fixture.Env(t, "earthquakes/alerts", ports.SystemClock()), keys("url = \"https://example.com\"\nsecret_env = \"STOWAGE_TEST_SECRET\""))
	require.ErrorContains(t, err, "STOWAGE_TEST_SECRET")
	require.NotContains(t, err.Error(), "t0ken")
}
