package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	require.NoError(t, os.Chmod(path, mode)) // whatever the umask is
}

func TestTokensComeFromTheFlagTheEnvironmentOrTheStateDirectory(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	write(t, filepath.Join(state, "queue-credentials", "orders"), "fromstate\nmore\n", 0o600)
	write(t, filepath.Join(state, "admin-token"), "adminstate", 0o600)
	given := filepath.Join(t.TempDir(), "given")
	write(t, given, "  fromfile \r\nsecond", 0o600)
	environment := map[string]string{}
	r := &reach{app: &app{getenv: func(name string) string { return environment[name] }}, stateDir: state}

	want := func(token string) {
		t.Helper()
		got, err := r.queueToken("orders")
		require.NoError(t, err)
		assert.Equal(t, token, got)
	}
	want("fromstate")
	environment[envToken] = "fromenv"
	want("fromenv")
	r.tokenFile = given
	want("fromfile")

	admin, err := r.adminToken()
	require.NoError(t, err)
	assert.Equal(t, "adminstate", admin)

	environment[envToken], r.tokenFile = "", ""
	_, err = r.queueToken("other")
	require.ErrorIs(t, err, ports.ErrNotFound)
	_, err = r.queueToken("../admin-token")
	require.ErrorIs(t, err, ports.ErrInvalidInput)
	environment[envStateDir], r.stateDir = t.TempDir(), ""
	_, err = r.adminToken()
	require.ErrorIs(t, err, ports.ErrNotFound)
}

func TestTokenFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		write(t, path, text, mode)
		return path
	}
	for name, path := range map[string]string{
		"others can read it": file("loose", "secret-token", 0o640),
		"empty":              file("empty", "", 0o600),
		"blank first line":   file("blank", "\nsecret-token", 0o600),
		"odd characters":     file("odd", "secret token", 0o600),
		"a directory":        dir,
		"missing":            filepath.Join(dir, "missing"),
	} {
		_, err := readToken(path)
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), "secret", name)
	}
}
