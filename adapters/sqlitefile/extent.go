package sqlitefile

import (
	"errors"
	"os"
)

// extent is how much of its files a store has seen, where it is their only owner. The engine does not
// notice that one was cut off while it is open: it goes on behind the end, answers with success, and
// what it has written cannot be read again. Used by whoever has the writer.
type extent struct {
	log      int64 // size at the end of the latest batch
	database int64 // what is never given back to the file system; 0: nothing is known
	version  int64 // tells whether another program has changed the database since
}

// measureLog notes the size of the log, which a commit may have made shorter.
func (f *File) measureLog() {
	if f.o.Ownership != SharedDirectory {
		f.extent.log = sizeOf(f.path + "-wal")
	}
}

// measureDatabase notes the size of the database. One that vacuums itself becomes shorter at will.
func (f *File) measureDatabase() error {
	if f.o.Ownership == SharedDirectory {
		return nil
	}
	vacuums, err := scalar[int64](f.writer.db, "PRAGMA auto_vacuum")
	if err != nil || vacuums != 0 {
		return err
	}
	pages, pagesErr := scalar[int64](f.writer.db, "PRAGMA page_count")
	bytes, bytesErr := scalar[int64](f.writer.db, "PRAGMA page_size")
	version, versionErr := scalar[int64](f.writer.db, "PRAGMA data_version")
	if err := errors.Join(pagesErr, bytesErr, versionErr); err != nil {
		return err
	}
	f.extent.database, f.extent.version = min(sizeOf(f.path), pages*bytes), version
	return nil
}

// cutOff says which file has lost its end, if one has. Other programs may shorten them too: a
// checkpoint that truncates the log leaves all that its index speaks of, and a vacuum is a commit.
func (f *File) cutOff() (what string, err error) {
	if size := sizeOf(f.path + "-wal"); size < f.extent.log {
		needed, err := f.logNeeded()
		if err != nil {
			return "", err
		}
		if size < needed {
			return "its log was cut off", nil
		}
		f.extent.log = size
	}
	if sizeOf(f.path) < f.extent.database {
		version, err := scalar[int64](f.writer.db, "PRAGMA data_version")
		if err != nil {
			return "", err
		}
		if version == f.extent.version {
			return "its file was cut off", nil
		}
		return "", f.measureDatabase()
	}
	return "", nil
}

// The parts of a log.
const (
	logHeaderBytes   = 32
	frameHeaderBytes = 24
)

// logNeeded is the least size of a log with the frames that its index speaks of.
func (f *File) logNeeded() (int64, error) {
	frames, _, err := f.writer.checkpoint("NOOP")
	if err != nil || frames <= 0 {
		return 0, err
	}
	page, err := scalar[int64](f.writer.db, "PRAGMA page_size")
	return logHeaderBytes + frames*(frameHeaderBytes+page), err
}

// checkExtent makes the store unhealthy for good when a file of it was cut off.
func (f *File) checkExtent(op string) error {
	what, err := f.cutOff()
	return f.judgeExtent(op, what, err)
}

// checkExtentAside is checkExtent for one who does not have the writer. While a batch is under way there
// is nothing to do: its leader has looked.
func (f *File) checkExtentAside(op string) error {
	if f.inMemory() || f.o.Ownership == SharedDirectory {
		return nil
	}
	what, err := func() (string, error) {
		f.mu.Lock() // keeps leaders away
		defer f.mu.Unlock()
		if f.writing || f.closed {
			return "", nil
		}
		return f.cutOff()
	}()
	return f.judgeExtent(op, what, err)
}

func (f *File) judgeExtent(op, what string, err error) error {
	if err != nil || what == "" {
		return f.engineError(op, err)
	}
	return f.fail(op, what)
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
