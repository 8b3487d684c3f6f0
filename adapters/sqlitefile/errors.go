package sqlitefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/stowage-go/stowage/ports"
)

// engineError makes the port's error of one of the engine's: what was attempted, on which file, what
// the engine found, what to do.
func (f *File) engineError(op string, err error) error {
	return f.wrap(f.o.Failure, op, err)
}

// setupError is the error of an open.
func (f *File) setupError(err error) error {
	return f.wrap(ports.CodeBindingSetupFailed, "open", err)
}

func (f *File) wrap(code ports.Code, op string, err error) error {
	var known *ports.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if isCantOpen(err) && !f.inMemory() {
		if cause := tryToMakeFile(filepath.Dir(f.path)); cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	reason, advice := diagnose(err)
	if reason == replaced {
		return f.replacedError(op, "the engine found that the file was moved")
	}
	return ports.Errorf(code, op, "%s %s: %w; %s", f.o.Kind, f.path, err, advice).WithReason(reason)
}

// replaced is not a reason of its own: it has a code.
const replaced ports.Reason = "replaced"

func (f *File) replacedError(op, what string) error {
	return ports.Errorf(ports.CodeStoreReplaced, op,
		"%s %s: %s while it was open; nothing more is written: restore the file, then restart", f.o.Kind, f.path, what)
}

// diagnose names the reason of an engine's or a system's error, and what an operator can do.
func diagnose(err error) (ports.Reason, string) {
	var engine sqlite3.Error
	var system *os.PathError
	if errors.As(err, &engine) && !errors.As(err, &system) {
		if engine.ExtendedCode == sqlite3.ErrReadonlyDbMoved {
			return replaced, ""
		}
		switch {
		case engine.Code == sqlite3.ErrFull, outOfSpace(engine.SystemErrno):
			return ports.ReasonDiskFull, "free space on its file system, then repeat"
		case engine.Code == sqlite3.ErrReadonly, engine.SystemErrno == syscall.EROFS, engine.SystemErrno == syscall.EACCES:
			return ports.ReasonReadOnly, "make the file, its directory and its file system writable for this user"
		case engine.Code == sqlite3.ErrCorrupt, engine.Code == sqlite3.ErrNotADB:
			return ports.ReasonCorrupt, "restore it from a backup"
		case engine.Code == sqlite3.ErrBusy, engine.Code == sqlite3.ErrLocked:
			return ports.ReasonBusy, "another process holds the lock: repeat"
		case outOfFiles(engine.SystemErrno):
			return "", "close files or raise the limit of open ones, then repeat"
		case engine.Code == sqlite3.ErrCantOpen:
			return ports.ReasonReadOnly, "check that the directory is there, that this user may write it, and that space is left"
		}
		return "", "see the engine's message"
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ports.ReasonDiskFull, "free space on its file system, then repeat"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "", "close files or raise the limit of open ones, then repeat"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return ports.ReasonReadOnly, "make the directory writable for this user"
	}
	return "", "see the system's message"
}

func isCantOpen(err error) bool {
	var engine sqlite3.Error
	return errors.As(err, &engine) && engine.Code == sqlite3.ErrCantOpen
}

// tryToMakeFile finds out why the engine could not open or make a file: the number that it leaves of
// the system's error is that of a later attempt of its own.
func tryToMakeFile(dir string) error {
	file, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

func outOfSpace(errno syscall.Errno) bool {
	return errno == syscall.ENOSPC || errno == syscall.EDQUOT || errno == syscall.EFBIG
}

func outOfFiles(errno syscall.Errno) bool { return errno == syscall.EMFILE || errno == syscall.ENFILE }

// IsConstraint reports whether the engine refused a row because of a UNIQUE, NOT NULL or CHECK.
func IsConstraint(err error) bool {
	var engine sqlite3.Error
	return errors.As(err, &engine) && engine.Code == sqlite3.ErrConstraint
}

func isBusy(err error) bool {
	var engine sqlite3.Error
	return errors.As(err, &engine) && (engine.Code == sqlite3.ErrBusy || engine.Code == sqlite3.ErrLocked)
}
