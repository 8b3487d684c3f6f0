package ndjson

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stowage-go/stowage/ports"
)

// errNotRegular is the cause where a path names a directory, a pipe or a device.
var errNotRegular = errors.New("it is not a regular file: name one")

// fileError says what was attempted on a file, with a reason where the system's error tells one.
func fileError(code ports.Code, op, format string, args ...any) *ports.Error {
	err := ports.Errorf(code, op, format, args...)
	return err.WithReason(reasonOf(err))
}

func reasonOf(err error) ports.Reason {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ports.ReasonDiskFull
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return ports.ReasonReadOnly
	}
	return ""
}

func closed(op, what string) error {
	return ports.Errorf(ports.CodeStoreClosed, op, "%s is closed: open it again", what)
}

// openRegular opens a file and never waits, as the open of a pipe would.
func openRegular(name string, flag int) (*os.File, os.FileInfo, error) {
	file, err := os.OpenFile(name, flag|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o600)
	if errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EISDIR) {
		return nil, nil, errNotRegular
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// makeDirectory makes a directory and its parents, for this user alone, and makes them last.
func makeDirectory(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeDirectory(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDirectory(filepath.Dir(dir))
}

func syncDirectory(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
