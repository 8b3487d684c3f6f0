//go:build unix

package eventlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/stowage-go/stowage/ports"
)

// lock is held on the directory of a log itself: there is no file that could be removed or go stale.
type lock struct{ dir *os.File }

// take locks a directory, or says who has it.
func take(path string) (*lock, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return &lock{dir}, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ports.Errorf(ports.CodeBindingSetupFailed, opOpen,
			"event log %s: it is held by %s; stop it, or use another path", path, holder(dir)).WithReason(ports.ReasonInUse)
	} else {
		err = fmt.Errorf("lock %s: %w", path, err)
	}
	return nil, errors.Join(err, dir.Close())
}

// release gives the lock up. Closing alone would not: a process that is being started elsewhere in this
// one holds a copy of the descriptor until it executes.
func (l *lock) release() error {
	return errors.Join(syscall.Flock(int(l.dir.Fd()), syscall.LOCK_UN), l.dir.Close())
}

// holder names the other processes that have a directory open, as far as this user may see them.
func holder(dir *os.File) string {
	want, err := dir.Stat()
	links, globErr := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil || globErr != nil {
		return "another process"
	}
	seen := map[string]bool{strconv.Itoa(os.Getpid()): true}
	var names []string
	for _, link := range links {
		pid := strings.Split(link, "/")[2]
		if seen[pid] {
			continue
		}
		if info, err := os.Stat(link); err != nil || !os.SameFile(info, want) {
			continue
		}
		seen[pid] = true
		name := "process " + pid
		if comm, err := os.ReadFile("/proc/" + pid + "/comm"); err == nil {
			name += " (" + strings.TrimSpace(string(comm)) + ")"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "this process or one that is not visible from here"
	}
	return strings.Join(names, ", ")
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// makeDirectory makes a directory and those above it that are missing, for this user alone, and makes
// their names durable: a log that survives a power cut in a directory that does not is lost.
func makeDirectory(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory: %w", dir, syscall.ENOTDIR)
		}
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeDirectory(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDirectory(filepath.Dir(dir))
}
