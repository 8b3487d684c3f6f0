package localqueue

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes a POSIX record lock, which is what SQLite and Turso hold on a file that is in use.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	lock := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: 0x40000002, Len: 1}
	return file, unix.FcntlFlock(file.Fd(), unix.F_SETLK, &lock)
}
