package queuehttp_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/queuehttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
)

// tomlConfig is the configuration of the one queue of a document.
type tomlConfig struct{ text []byte }

func (c tomlConfig) Decode(into any) error {
	decoder := toml.NewDecoder(strings.NewReader(string(c.text)))
	if err := decoder.DisallowUnknownFields().Decode(into); err != nil {
		return ports.Errorf(ports.CodeInvalidConfig, "config", "%w", err)
	}
	return nil
}

// exampleConfig takes the keys of the example out of it.
func exampleConfig(t *testing.T) tomlConfig {
	t.Helper()
	var document struct {
		Queue map[string]struct{ Config map[string]any }
	}
	require.NoError(t, toml.Unmarshal([]byte(queuehttp.Module().Example), &document))
	text, err := toml.Marshal(document.Queue["orders"].Config)
	require.NoError(t, err)
	return tomlConfig{text}
}

func writeToken(t *testing.T, dir, token string) string {
	t.Helper()
	path := filepath.Join(dir, "queue-tokens", "orders")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(token), 0o600))
	return path
}

func TestTheExampleOpensWithoutAServer(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "orders", ports.SystemClock())
	module, config := queuehttp.Module(), exampleConfig(t)
	paths, err := module.Paths(env, config)
	require.NoError(t, err)
	assert.Empty(t, paths)
	_, err = module.Open(t.Context(), env, config)
	require.ErrorIs(t, err, ports.ErrInvalidConfig, "there is no token yet")
	assert.Contains(t, err.Error(), filepath.Join(env.StateDir, "queue-tokens", "orders"))
	assert.Contains(t, err.Error(), "stowage queue binding")

	writeToken(t, env.StateDir, "token\n")
	queue, err := module.Open(t.Context(), env, config)
	require.NoError(t, err)
	require.NoError(t, queue.Close())
}

func TestATokenFromTheEnvironment(t *testing.T) {
	t.Setenv("STOWAGE_TEST_TOKEN", "token") // so this test is not parallel
	t.Setenv("STOWAGE_TEST_EMPTY", "")
	env := fixture.Env(t, "orders", ports.SystemClock())
	queue, err := queuehttp.Module().Open(t.Context(), env, tomlConfig{[]byte("endpoint = 'http://127.0.0.1:1/q'\ntoken_env = 'STOWAGE_TEST_TOKEN'")})
	require.NoError(t, err)
	require.NoError(t, queue.Close())
	_, err = queuehttp.Module().Open(t.Context(), env, tomlConfig{[]byte("endpoint = 'http://127.0.0.1:1/q'\ntoken_env = 'STOWAGE_TEST_EMPTY'")})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	assert.Contains(t, err.Error(), "STOWAGE_TEST_EMPTY")
}

func TestConfigurationsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "orders", ports.SystemClock())
	for _, text := range []string{
		"", "endpoint = 'http://h/q'", "token_file = 'x'", "endpoint = 'http://h/q'\ntoken = 'canary'",
		"endpoint = 'http://h/q'\ntoken_file = 'x'\ntoken_env = 'Y'", "endpoint = 'h/q'\ntoken_file = 'x'",
		"endpoint = 'http://h/q'\ntoken_file = 'x'\ntimeout = '-1s'", "endpoint = 'http://h/q'\ntoken_file = 'x'\ntimeout = 'soon'",
		"endpoint = 'http://h/q'\ntoken_file = 'x'\ntypo = 1",
	} {
		_, err := queuehttp.Module().Paths(env, tomlConfig{[]byte(text)})
		require.ErrorIs(t, err, ports.ErrInvalidConfig, text)
		_, err = queuehttp.Module().Open(t.Context(), env, tomlConfig{[]byte(text)})
		require.ErrorIs(t, err, ports.ErrInvalidConfig, text)
		assert.NotContains(t, err.Error(), "canary")
	}
	assert.NoDirExists(t, env.StateDir)
}

func TestTokenFilesThatOthersCanGetAtAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := writeToken(t, dir, "  canary \n")
	token, err := queuehttp.TokenFile(good)()
	require.NoError(t, err)
	assert.Equal(t, "canary", token)

	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	require.NoError(t, os.Symlink(good, link))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	large, empty, lines := filepath.Join(dir, "large"), filepath.Join(dir, "empty"), filepath.Join(dir, "lines")
	require.NoError(t, os.WriteFile(large, []byte(strings.Repeat("c", 5000)), 0o600))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	require.NoError(t, os.WriteFile(lines, []byte("canary\ncanary"), 0o600)) //nolint:dupword // two lines are the point
	for path, says := range map[string]string{
		filepath.Join(dir, "missing"): "stowage queue binding", link: "no plain file", pipe: "no plain file", dir: "no plain file",
		large: "more than", empty: "0 characters", lines: "offset 6",
	} {
		_, err := queuehttp.TokenFile(path)()
		require.ErrorIs(t, err, ports.ErrInvalidConfig, path)
		assert.Contains(t, err.Error(), says)
		assert.Contains(t, err.Error(), path)
		assert.NotContains(t, err.Error(), "canary")
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o644, 0o660, 0o610} {
		require.NoError(t, os.Chmod(good, mode))
		_, err := queuehttp.TokenFile(good)()
		require.ErrorIs(t, err, ports.ErrInvalidConfig, "%o", mode)
		assert.Contains(t, err.Error(), "chmod 600")
	}
}
