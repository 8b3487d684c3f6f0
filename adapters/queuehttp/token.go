package queuehttp

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/stowage-go/stowage/ports"
)

// maxTokenFile is the size in bytes that no token file exceeds.
const maxTokenFile = 4096

// TokenFile returns a source of tokens for [Options.Token] that reads the file each time, so that a
// rotated token is picked up. The file holds the token and nothing else but white space around it.
// One that others can read, a link, and anything but a plain file is refused.
func TokenFile(path string) func() (string, error) {
	return func() (string, error) { return readToken(path) }
}

func readToken(path string) (string, error) {
	const op = "queue.bind"
	refuse := func(format string, args ...any) (string, error) {
		return "", ports.Errorf(ports.CodeInvalidConfig, op, "token file %s: %w", path, fmt.Errorf(format, args...))
	}
	// Looked at before it is opened, because opening a pipe would wait for its other end.
	before, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse("%w; write the token of \"stowage queue binding\" to it, with mode 0600", err)
	}
	if err != nil {
		return refuse("%w", err)
	}
	if !before.Mode().IsRegular() {
		return refuse("it is no plain file but %s: put the token into a file of its own", before.Mode().Type())
	}
	file, err := os.Open(path)
	if err != nil {
		return refuse("%w", err)
	}
	text, info, err := readAll(file)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	switch {
	case err != nil:
		return refuse("%w", err)
	case !os.SameFile(before, info):
		return refuse("it was replaced while it was read: try again")
	case info.Mode().Perm()&0o077 != 0:
		return refuse("its mode is %04o, so that others can get at it: chmod 600 it, and rotate the token if they may have", info.Mode().Perm())
	case len(text) > maxTokenFile:
		return refuse("it has more than %d bytes: put the token into it, and nothing else", maxTokenFile)
	}
	token := strings.TrimSpace(string(text))
	if err := ports.CheckBearer(op, token); err != nil {
		return refuse("%w", err)
	}
	return token, nil
}

func readAll(file *os.File) ([]byte, fs.FileInfo, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxTokenFile+1))
	return text, info, err
}
