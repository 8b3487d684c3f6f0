package eventlog

import (
	"errors"
	"os"
	"syscall"

	"github.com/stowage-go/stowage/ports"
)

// The operations that errors name.
const (
	opOpen   = "source.open"
	opAccept = "source.accept"
	opRead   = "source.read"
	opSettle = "source.settle"
)

// systemError makes the port's error of one of the system's: what was attempted, on which path, what was
// found, what to do.
func systemError(code ports.Code, op, path string, err error) error {
	var known *ports.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	reason, advice := diagnose(err)
	return ports.Errorf(code, op, "event log %s: %w; %s", path, err, advice).WithReason(reason)
}

// diagnose names the reason of a system's error, and what an operator can do.
func diagnose(err error) (ports.Reason, string) {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return ports.ReasonDiskFull, "free space on its file system, then repeat"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "", "close files or raise the limit of open ones, then repeat"
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return ports.ReasonReadOnly, "make the directory and its files readable and writable for this user"
	}
	return "", "see the system's message"
}

func closedError(op, dir string) error {
	return ports.Errorf(ports.CodeStoreClosed, op, "event log %s is closed; nothing was done: repeat once its pipeline runs again", dir)
}
