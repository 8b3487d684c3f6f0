package adminhttp_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/adminhttp"
	"github.com/stowage-go/stowage/ports"
)

func TestATokenIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	const racers = 16
	tokens := make([]string, racers)
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() {
			token, err := adminhttp.LoadToken(path)
			assert.NoError(t, err)
			tokens[i] = token
		})
	}
	all.Wait()
	for _, token := range tokens {
		assert.Equal(t, tokens[0], token)
	}
	assert.Len(t, tokens[0], 43, "256 bits")
	require.NoError(t, ports.CheckBearer("", tokens[0]))

	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left beside it")

	require.NoError(t, os.Remove(path))
	another, err := adminhttp.LoadToken(path)
	require.NoError(t, err)
	assert.NotEqual(t, tokens[0], another)
}

func TestATokenMayBeBroughtAlong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte(adminToken+"\n"), 0o600))
	token, err := adminhttp.LoadToken(path)
	require.NoError(t, err)
	assert.Equal(t, adminToken, token)
}

func TestTokenFilesThatOthersCanGetAtAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	good := file("good", adminToken, 0o600)
	link, pipe, hung := filepath.Join(dir, "link"), filepath.Join(dir, "pipe"), filepath.Join(dir, "hung")
	require.NoError(t, os.Symlink(good, link))
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), hung))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	open := filepath.Join(dir, "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777))
	for _, path := range []string{
		file("group", adminToken, 0o640), file("world", adminToken, 0o604), file("empty", "", 0o600), file("short", "short", 0o600),
		file("long", strings.Repeat("x", 5000), 0o600), file("lines", adminToken+"\n"+adminToken, 0o600), file("binary", strings.Repeat("\x00", 40), 0o600),
		link, hung, pipe, dir, filepath.Join(open, "token"), filepath.Join(good, "token"),
	} {
		_, err := adminhttp.LoadToken(path)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, path)
		assert.Contains(t, err.Error(), path)
		assert.NotContains(t, err.Error(), adminToken)
	}
	assert.NoFileExists(t, filepath.Join(open, "token"))
	assert.NoFileExists(t, filepath.Join(dir, "nowhere"))
}

// A daemon whose state directory was moved away must not put an empty one into its place.
func TestALoadNeverMakesTheDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	_, err := adminhttp.LoadToken(filepath.Join(dir, "token"))
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.NoDirExists(t, dir)
}
