package adminhttp

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stowage-go/stowage/ports"
)

const (
	tokenBytes    = 32 // of randomness in a token that is made here
	minTokenChars = 32 // of one that is brought along
	maxTokenFile  = 4096
)

// LoadToken returns the token that the file holds, the admin token or the read-only one, and makes one
// of 256 random bits if there is no file, with mode 0600. To change the token, remove the file; with
// LoadToken behind [Options.AdminToken] and [Options.ReadToken] the new one counts at once.
//
// A file that others can get at, a link, and anything but a plain file with a token in it are
// refused with INVALID_CONFIG; so is a directory in which others can put files, and one that is not
// there: it is never made, so that no request puts an empty state directory where one was moved away.
func LoadToken(path string) (string, error) {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil {
		return "", tokenError(path, "look at its directory: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "", tokenError(path, "the mode of its directory is %04o, so that others can replace the token: chmod 700 the directory, and remove the token file", info.Mode().Perm())
	}
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := makeToken(path); err != nil {
		return "", err
	}
	return readToken(path) // of whoever was first
}

func tokenError(path, format string, args ...any) error {
	return ports.Errorf(ports.CodeInvalidConfig, "admin.token", "token file %s: %w", path, fmt.Errorf(format, args...))
}

func readToken(path string) (string, error) {
	// Looked at before it is opened, because opening a pipe would wait for its other end.
	before, err := os.Lstat(path)
	if err != nil {
		return "", tokenError(path, "%w", err)
	}
	if !before.Mode().IsRegular() {
		return "", tokenError(path, "it is no plain file but %s: remove it, and a token is made", before.Mode().Type())
	}
	file, err := os.Open(path)
	if err != nil {
		return "", tokenError(path, "%w", err)
	}
	text, info, err := readAll(file)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", tokenError(path, "%w", err)
	case !os.SameFile(before, info):
		return "", tokenError(path, "it was replaced while it was read: try again")
	case info.Mode().Perm()&0o077 != 0:
		return "", tokenError(path, "its mode is %04o, so that others can get at it: remove it, and another token is made", info.Mode().Perm())
	case len(text) > maxTokenFile || len(token) < minTokenChars:
		return "", tokenError(path, "it holds %d bytes: a token has at least %d, and nothing stands beside it", len(text), minTokenChars)
	}
	if err := ports.CheckBearer("admin.token", token); err != nil {
		return "", tokenError(path, "%w", err)
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

// makeToken writes a token to a file of another name and links it to its place, so that nobody ever
// reads half of one, and the first of many wins.
func makeToken(path string) error {
	random := make([]byte, tokenBytes)
	if _, err := rand.Read(random); err != nil {
		return tokenError(path, "make a token: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return tokenError(path, "write a token: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // what it is for is done or has failed by then
	_, err = io.WriteString(file, base64.RawURLEncoding.EncodeToString(random)+"\n")
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Link(file.Name(), path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return tokenError(path, "write a token: %w", err)
	}
	return nil
}
