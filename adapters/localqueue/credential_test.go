package localqueue

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
)

func TestTokenIsOneQueuesOnly(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "a"))
	require.NoError(t, owner.Create(t.Context(), "b"))
	token, err := owner.Token(t.Context(), "a")
	require.NoError(t, err)
	raw, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	require.Len(t, raw, 32, "256 bits")

	require.NoError(t, owner.Authenticate(t.Context(), "a", token))
	wrong := owner.Authenticate(t.Context(), "b", token)
	unknown := owner.Authenticate(t.Context(), "c", token)
	require.ErrorIs(t, wrong, ports.ErrAuthenticationFailed)
	require.Equal(t, wrong, unknown, "the same for a wrong token and an unknown queue")
	for _, other := range []string{"", token + "\n", token[:42], strings.ToUpper(token)} {
		require.Equal(t, wrong, owner.Authenticate(t.Context(), "a", other))
	}
	require.NoError(t, owner.Delete(t.Context(), "a"))
	require.Equal(t, wrong, owner.Authenticate(t.Context(), "a", token))
	require.NoError(t, owner.Create(t.Context(), "a"))
	require.Equal(t, wrong, owner.Authenticate(t.Context(), "a", token), "a queue made again has another token")
}

func TestRotationLetsTheOldTokenWorkForTheOverlap(t *testing.T) {
	t.Parallel()
	clock := fixture.NewClock(fixture.Epoch())
	owner := openOwner(t, OwnerOptions{Clock: clock})
	require.NoError(t, owner.Create(t.Context(), "q"))
	first, err := owner.Token(t.Context(), "q")
	require.NoError(t, err)
	second, err := owner.Rotate(t.Context(), "q", time.Hour)
	require.NoError(t, err)
	third, err := owner.Rotate(t.Context(), "q", 2*time.Hour)
	require.NoError(t, err)
	current, err := owner.Token(t.Context(), "q")
	require.NoError(t, err)
	require.Equal(t, third, current)

	works := func(want ...bool) {
		t.Helper()
		for i, token := range []string{first, second, third} {
			err := owner.Authenticate(t.Context(), "q", token)
			require.Equal(t, want[i], err == nil, "token %d: %v", i+1, err)
		}
	}
	works(true, true, true)
	require.NoError(t, owner.Close())
	owner = openOwner(t, owner.o) // the overlap survives a restart
	works(true, true, true)
	clock.Advance(time.Hour)
	works(false, true, true)
	clock.Advance(time.Hour)
	works(false, false, true)
	_, err = owner.Rotate(t.Context(), "q", 0)
	require.NoError(t, err)
	works(false, false, false)

	info, err := os.Stat(owner.credentials.path("q"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	for _, overlap := range []time.Duration{-1, ports.MaxRotationOverlap + 1} {
		_, err = owner.Rotate(t.Context(), "q", overlap)
		require.ErrorIs(t, err, ports.ErrInvalidInput)
	}
}

func TestRotatingOftenKeepsTheFileInBounds(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "q"))
	var last string
	for range 3 * maxOldTokens {
		var err error
		last, err = owner.Rotate(t.Context(), "q", ports.MaxRotationOverlap)
		require.NoError(t, err)
	}
	require.NoError(t, owner.Close())
	owner = openOwner(t, owner.o)
	require.NoError(t, owner.Authenticate(t.Context(), "q", last))
}

// Rotation takes effect without a restart: whatever token is current at a time works at that time.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "q"))
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				token, err := owner.Token(ctx, "q")
				if err == nil {
					err = owner.Authenticate(ctx, "q", token)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("a current token does not work: %v", err)
					return
				}
			}
		})
	}
	for range 50 {
		_, err := owner.Rotate(t.Context(), "q", time.Hour)
		require.NoError(t, err)
	}
	stop()
	readers.Wait()
}

func TestOddTokenFilesStopTheStart(t *testing.T) {
	t.Parallel()
	good := newToken() + "\n"
	write := func(text string, mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			require.NoError(t, os.Chmod(path, mode))
		}
	}
	for name, test := range map[string]struct {
		plant func(*testing.T, string)
		says  string
	}{
		"readable by the group": {write(good, 0o640), "0640"},
		"readable by others":    {write(good, 0o604), "0604"},
		"writable by the group": {write(good, 0o620), "0620"},
		"empty":                 {write("", 0o600), "does not hold"},
		"blank":                 {write("\n", 0o600), "does not hold"},
		"no newline":            {write(good[:43], 0o600), "does not hold"},
		"short":                 {write(good[:40]+"\n", 0o600), "does not hold"},
		"long":                  {write("A"+good, 0o600), "does not hold"},
		"odd second line":       {write(good+"hello\n", 0o600), "does not hold"},
		"endless":               {write(good+strings.Repeat("x", 1<<20), 0o600), "does not hold"},
		"zeros":                 {write(string(make([]byte, 44)), 0o600), "does not hold"},
		"symbolic link": {func(t *testing.T, path string) {
			target := filepath.Join(t.TempDir(), "target")
			write(good, 0o600)(t, target)
			require.NoError(t, os.Symlink(target, path))
		}, "symbolic link"},
		"dangling link": {func(t *testing.T, path string) {
			require.NoError(t, os.Symlink("nowhere", path))
		}, "symbolic link"},
		"second name": {func(t *testing.T, path string) {
			target := filepath.Join(filepath.Dir(filepath.Dir(path)), "target")
			write(good, 0o600)(t, target)
			require.NoError(t, os.Link(target, path))
		}, "more than one name"},
		"directory":  {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "is a directory"},
		"named pipe": {func(t *testing.T, path string) { require.NoError(t, unix.Mkfifo(path, 0o600)) }, "named pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := openOwner(t, OwnerOptions{Queues: map[string]QueueOptions{"q": {}}})
			require.NoError(t, owner.Close())
			path := owner.credentials.path("q")
			require.NoError(t, os.Remove(path))
			test.plant(t, path)
			_, err := OpenOwner(t.Context(), owner.o)
			require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, test.says)
			require.NotContains(t, err.Error(), good[:40])
			require.NoError(t, os.RemoveAll(path))
			openOwner(t, owner.o) // it has let go of everything
		})
	}
}

func TestOddTokenDirectoriesStopTheStart(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*testing.T, string){
		"readable": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chmod(dir, 0o750))
		},
		"file": func(t *testing.T, dir string) { require.NoError(t, os.WriteFile(dir, nil, 0o600)) },
		"link": func(t *testing.T, dir string) { require.NoError(t, os.Symlink(t.TempDir(), dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			plant(t, filepath.Join(state, credentialsName))
			_, err := OpenOwner(t.Context(), OwnerOptions{StateDir: state, Log: fixture.Logger(t)})
			require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
			require.ErrorContains(t, err, filepath.Join(state, credentialsName))
		})
	}
}

func TestFilesOfAnotherUserAreRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	owner := openOwner(t, OwnerOptions{Queues: map[string]QueueOptions{"q": {}}})
	require.NoError(t, owner.Close())
	require.NoError(t, os.Chown(owner.credentials.path("q"), 12345, -1))
	_, err := OpenOwner(t.Context(), owner.o)
	require.ErrorContains(t, err, "belongs to user 12345")
	require.NoError(t, os.Chown(owner.credentials.dir, 12345, -1))
	_, err = OpenOwner(t.Context(), owner.o)
	require.ErrorContains(t, err, owner.credentials.dir+" belongs to user 12345")
}

func TestMissingTokenIsMadeAndUnfinishedOneRemoved(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{Queues: map[string]QueueOptions{"q": {}}})
	require.NoError(t, os.Remove(owner.credentials.path("q")))
	_, err := owner.Token(t.Context(), "q")
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	require.NoError(t, owner.Close())
	require.NoError(t, os.WriteFile(filepath.Join(owner.credentials.dir, tempPrefix+"x"), nil, 0o600))
	owner = openOwner(t, owner.o)
	token, err := owner.Token(t.Context(), "q")
	require.NoError(t, err)
	require.NoError(t, owner.Authenticate(t.Context(), "q", token))
	entries, err := os.ReadDir(owner.credentials.dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	// A file that was changed by hand is not handed out: it is not what clients are checked against.
	require.NoError(t, os.WriteFile(owner.credentials.path("q"), []byte(newToken()+"\n"), 0o600))
	_, err = owner.Token(t.Context(), "q")
	require.ErrorContains(t, err, "was changed")
}

// No log, no error and no file beside its own ever holds a token (R144, R146).
func TestTokensAreNowhereElse(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	state := t.TempDir()
	owner, err := OpenOwner(t.Context(), OwnerOptions{
		StateDir: state,
		Log:      slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Queues:   map[string]QueueOptions{"q": {}},
	})
	require.NoError(t, err)
	first, err := owner.Token(t.Context(), "q")
	require.NoError(t, err)
	second, err := owner.Rotate(t.Context(), "q", time.Hour)
	require.NoError(t, err)
	said := []string{errorText(owner.Authenticate(t.Context(), "other", second))}
	require.NoError(t, os.Chmod(owner.credentials.path("q"), 0o644))
	_, err = owner.Token(t.Context(), "q")
	said = append(said, errorText(err))
	_, err = owner.Rotate(t.Context(), "q", 0)
	said = append(said, errorText(err), log.String())
	require.NoError(t, owner.Close())
	require.NoError(t, filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if path == owner.credentials.path("q") {
			require.NotContains(t, string(content), first, "of an old token there is its digest alone")
			return err
		}
		said = append(said, string(content))
		return err
	}))
	for _, text := range said {
		require.NotEmpty(t, text+"x")
		require.NotContains(t, text, first[:16])
		require.NotContains(t, text, second[:16])
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
