package localqueue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stowage-go/stowage/ports"
)

// The directories below a state directory.
const (
	ownedName       = "queue-owned"       // of the owner's queues (R118)
	legacyName      = "queue"             // of queues that clients opened as files (R119)
	credentialsName = "queue-credentials" // of the owner's tokens
	backupsName     = "queue-backups"     // of migrations
)

// directoryLock keeps others out of a directory, on the directory itself, so that there is no file to
// remove and none to go stale. The end of the process frees it.
type directoryLock struct{ file *os.File }

// lockDirectory takes the lock of a directory at once or not at all.
func lockDirectory(op, what, path string) (*directoryLock, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, setupError(op, "%s %s cannot be opened: %w", what, path, err)
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		return &directoryLock{file}, nil
	}
	if closeErr := file.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, inUseError(op, what, path)
	}
	return nil, setupError(op, "%s %s cannot be locked: %w", what, path, err)
}

func (l *directoryLock) release() error { return unlock(l.file) }

// unlock gives a lock up and closes its file. Closing alone would not: a process that is being started
// elsewhere in this one holds a copy of the descriptor until it executes.
func unlock(file *os.File) error {
	return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
}

func setupError(op, format string, args ...any) *ports.Error {
	err := ports.Errorf(ports.CodeBindingSetupFailed, op, format, args...)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return err.WithReason(ports.ReasonDiskFull)
	case errors.Is(err, unix.EROFS), errors.Is(err, os.ErrPermission):
		return err.WithReason(ports.ReasonReadOnly)
	}
	return err
}

func inUseError(op, what, path string) error {
	holder := "another process"
	if names := usersOf(path); len(names) > 0 {
		holder = strings.Join(names, ", ")
	}
	return ports.Errorf(ports.CodeBindingSetupFailed, op, "%s %s is held by %s: stop it first; nothing was done", what, path, holder).
		WithReason(ports.ReasonInUse)
}

// usersOf names the other processes that have the directory or a file in it open, as far as this
// user may see them. It needs /proc, and finds nobody without.
func usersOf(dir string) []string {
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return nil // the pattern is constant and good
	}
	files := filesOf(dir)
	var names []string
	seen := map[string]bool{strconv.Itoa(os.Getpid()): true}
	for _, link := range links {
		pid := strings.Split(link, "/")[2]
		if seen[pid] {
			continue
		}
		// The file behind the link, so that other names and other mounts of it count too.
		if id, err := fileIDOf(link, true); err != nil || !files[id] {
			continue
		}
		seen[pid] = true
		name := "process " + pid
		if command, err := os.ReadFile("/proc/" + pid + "/comm"); err == nil {
			name += " (" + strings.TrimSpace(string(command)) + ")"
		}
		names = append(names, name)
	}
	return names
}

type fileID struct{ device, inode uint64 }

func fileIDOf(path string, follow bool) (fileID, error) {
	var st unix.Stat_t
	stat := unix.Lstat
	if follow {
		stat = unix.Stat
	}
	if err := stat(path, &st); err != nil {
		return fileID{}, err
	}
	return fileID{uint64(st.Dev), st.Ino}, nil //nolint:unconvert // its type differs between systems
}

// filesOf identifies a directory and what is in it.
func filesOf(dir string) map[fileID]bool {
	ids := make(map[fileID]bool)
	paths := []string{dir}
	if entries, err := os.ReadDir(dir); err == nil {
		for _, e := range entries {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	for _, path := range paths {
		if id, err := fileIDOf(path, false); err == nil {
			ids[id] = true
		}
	}
	return ids
}

// makeDirectory makes a directory below one that exists, and its name durable. It reports whether
// there was none.
func makeDirectory(path string) (made bool, err error) {
	err = os.Mkdir(path, 0o700)
	if errors.Is(err, os.ErrExist) {
		info, err := os.Lstat(path)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is a %s, not a directory", path, kindOf(info.Mode()))
		}
		return false, err
	}
	if err != nil {
		return false, err
	}
	return true, syncDirectory(filepath.Dir(path))
}

// makeDirectories makes a directory with its parents, each of their names durable: a store in a
// directory whose name a power cut takes back is lost, whatever it has synced itself.
func makeDirectories(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := makeDirectories(filepath.Dir(path)); err != nil {
		return err
	}
	_, err := makeDirectory(path)
	return err
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func kindOf(mode os.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	case mode&os.ModeSymlink != 0:
		return "symbolic link"
	case mode&os.ModeNamedPipe != 0:
		return "named pipe"
	case mode&os.ModeSocket != 0:
		return "socket"
	}
	return "device"
}
