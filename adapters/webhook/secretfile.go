package webhook

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stowage-go/stowage/ports"
)

// maxSecretFile is the size in bytes that no file of secrets exceeds.
const maxSecretFile = 4096

// readSecrets reads a file that holds secrets and nothing else but white space around them. A relative
// path starts at the state directory. A file that others can read, a link, and anything but a plain file
// is refused.
func readSecrets(env ports.Env, path string) (Secrets, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(env.StateDir, path)
	}
	text, err := readPrivate(path)
	if err != nil {
		return nil, refuse("the secret file %s (secret_file) cannot be used: %w", path, err)
	}
	secrets, err := ParseSecrets(string(text))
	if err != nil {
		return nil, refuse("the secret file %s (secret_file) cannot be used: %w", path, err)
	}
	return secrets, nil
}

func readPrivate(path string) ([]byte, error) {
	// Looked at before it is opened, because opening a pipe would wait for its other end.
	before, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; write the secret to it, with mode 0600", err)
	}
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("it is no plain file but %s: put the secret into a file of its own", before.Mode().Type())
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	switch {
	case err != nil:
		return nil, err
	case !os.SameFile(before, info):
		return nil, errors.New("it was replaced while it was read: try again")
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("its mode is %04o, so that others can get at it: chmod 600 it, and change the secret if they may have", info.Mode().Perm())
	case len(text) > maxSecretFile:
		return nil, fmt.Errorf("it has more than %d bytes: put the secret into it, and nothing else", maxSecretFile)
	}
	return text, nil
}
