//go:build unix

package sqlitefile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stowage-go/stowage/ports"
)

// ownership is a held lock: on the data directory itself, where there is no lock file that could be
// removed or go stale, or on a lock file beside a store that shares its directory.
type ownership struct {
	file *os.File
	path string
	made bool // the lock file was made by this open
}

// release gives the lock up. Closing alone would not: a process that is being started elsewhere in
// this one holds a copy of the descriptor until it executes.
func (o *ownership) release() error {
	if o == nil {
		return nil
	}
	return errors.Join(unix.Flock(int(o.file.Fd()), unix.LOCK_UN), o.file.Close())
}

// own takes the lock that the options ask for, and makes the store if there is none. An exclusive
// lock that is held fails at once. A shared one waits for a while: a process that makes the store
// holds it exclusively for a moment, which is also what lets many open a fresh directory at once.
func (f *File) own() (*ownership, error) {
	if f.o.Ownership == ExclusiveFile {
		return f.ownLockFile(f.path, os.O_RDWR|os.O_CREATE)
	}
	dir := filepath.Dir(f.path)
	file, err := os.Open(dir)
	if err != nil {
		return nil, f.setupError(err)
	}
	o := &ownership{file: file, path: dir}
	if err := f.lockDirectory(o); err != nil {
		return nil, errors.Join(err, o.release())
	}
	return o, nil
}

func (f *File) lockDirectory(o *ownership) error {
	begun := time.Now()
	for {
		shared := f.o.Ownership == SharedDirectory && !isFresh(f.path)
		how := unix.LOCK_EX
		if shared {
			how = unix.LOCK_SH
		}
		err := flock(o.file, how)
		switch {
		case err == nil && (shared || f.o.Ownership == ExclusiveDirectory):
			return nil
		case err == nil:
			// Nobody else is here: make the store, then let the others in.
			if err := f.prepare(); err != nil {
				return err
			}
			if flock(o.file, unix.LOCK_SH) == nil {
				return nil
			}
		case !errors.Is(err, unix.EWOULDBLOCK):
			return f.setupError(err)
		case f.o.Ownership == ExclusiveDirectory, time.Since(begun) > f.o.BusyTimeout, f.settled():
			return f.inUse(o.path)
		}
		time.Sleep(time.Millisecond + time.Duration(rand.Int64N(int64(2*time.Millisecond))))
	}
}

// settled reports whether the store is too old for anybody to be still making it: who holds the lock
// then is an owner, and will not let go soon.
func (f *File) settled() bool {
	info, err := os.Stat(f.path)
	return err == nil && info.Size() > 0 && time.Since(info.ModTime()) > f.o.BusyTimeout
}

// ownLockFile takes the lock of the store at a path. Without O_CREATE it returns nil if there is no
// lock file, so that there is no owner either.
func (f *File) ownLockFile(store string, flags int) (*ownership, error) {
	path := lockFile(store)
	for {
		info, statErr := os.Lstat(path)
		// Opening what belongs to somebody else, and closing it, would take its owner's locks away.
		if statErr == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return nil, f.refuse("%s, which is to be its lock, holds %d bytes: it is no lock file, move it away or use another path", path, info.Size())
		}
		// What is no regular file may make the open wait for somebody.
		file, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if errors.Is(err, os.ErrNotExist) && flags&os.O_CREATE == 0 {
			return nil, nil
		}
		if err != nil {
			return nil, f.setupError(err)
		}
		if err := flock(file, unix.LOCK_EX); err != nil {
			if errors.Is(err, unix.EWOULDBLOCK) {
				err = f.inUse(path)
			}
			return nil, errors.Join(f.setupError(err), file.Close())
		}
		// The file may have been removed between open and lock: a lock on such a one keeps nobody out.
		held, err := idOfFile(file)
		if err == nil && held == idOf(path) {
			return &ownership{file: file, path: path, made: errors.Is(statErr, os.ErrNotExist)}, nil
		}
		if err := file.Close(); err != nil {
			return nil, f.setupError(err)
		}
	}
}

// lockFile is the lock of a store that is opened with ExclusiveFile.
func lockFile(store string) string { return store + ".lock" }

func (f *File) inUse(path string) error {
	return ports.Errorf(ports.CodeBindingSetupFailed, "open",
		"%s %s: %s is held by %s; stop it, or use another path", f.o.Kind, f.path, path, holder(path)).WithReason(ports.ReasonInUse)
}

// alone reports whether nobody else holds the lock. A shared lock may be lost by asking, so it is for
// an open that is about to fail.
func (o *ownership) alone() bool { return flock(o.file, unix.LOCK_EX) == nil }

// claim keeps owners of every kind out while a store is looked at that nobody has open, and changes
// nothing. It fails if there is one.
func (f *File) claim() (release func() error, err error) {
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return nil, f.setupError(err)
	}
	f.owned = &ownership{file: dir, path: dir.Name()}
	if !f.owned.alone() {
		return nil, errors.Join(f.inUse(dir.Name()), f.owned.release())
	}
	lock, err := f.ownLockFile(f.path, os.O_RDONLY)
	if err != nil {
		return nil, errors.Join(err, f.owned.release())
	}
	// Where there is no lock file, an owner that comes by one cannot be kept out.
	f.yields = lock == nil
	return func() error { return errors.Join(lock.release(), f.owned.release()) }, nil
}

// unwatched reports whether what a look has made beside the file is nobody else's by now.
func (f *File) unwatched() bool {
	if f.yields && idOf(lockFile(f.path)) != (fileID{}) {
		return false
	}
	return f.owned == nil || f.owned.alone()
}

func flock(file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// holder names the processes that have path open, as far as this user may see them.
func holder(path string) string {
	self := strconv.Itoa(os.Getpid())
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return "another process"
	}
	want := idOf(path)
	var names []string
	for _, link := range links {
		pid := strings.Split(link, "/")[2]
		if target, err := os.Readlink(link); err != nil || target != path && idOf(target) != want {
			continue
		}
		name := "process " + pid
		if comm, err := os.ReadFile("/proc/" + pid + "/comm"); err == nil {
			name += " (" + strings.TrimSpace(string(comm)) + ")"
		}
		// This process has the path open in any case, for the attempt itself.
		if pid != self && !strings.Contains(strings.Join(names, " "), name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "this process or one that is not visible from here"
	}
	return strings.Join(names, ", ")
}

// fileID tells one file from another, whatever its name.
type fileID struct{ dev, ino uint64 }

// idOf returns the zero id for a path that cannot be found.
func idOf(path string) fileID {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}
	}
	return fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between systems
}

func idOfFile(file *os.File) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return fileID{}, fmt.Errorf("stat %s: %w", file.Name(), err)
	}
	return fileID{uint64(st.Dev), st.Ino}, nil //nolint:unconvert // its type differs between systems
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// makeDirectory makes a directory and those above it that are missing, for this user alone, and makes
// their names durable: a store that survives a power cut in a directory that does not is lost.
func makeDirectory(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory: %w", dir, unix.ENOTDIR)
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
	return syncDir(filepath.Dir(dir))
}

// linkNew moves a file to a name that must be free, by way of having both names for a moment.
func linkNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}
