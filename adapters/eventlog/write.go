package eventlog

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/stowage-go/stowage/ports"
)

// output is the file that is written.
type output struct {
	file  segmentFile
	path  string
	info  os.FileInfo
	size  int64 // of what is durable
	empty bool  // it has no line but its first
}

// write appends the calls and returns once they are durable. After an error none of them is stored.
func (l *Log) write(calls []*accept) error {
	text := l.join(calls)
	if err := l.checkOutput(); err != nil {
		return systemError(ports.CodeBackendFailed, opAccept, l.dir, err)
	}
	if l.out == nil || !l.out.empty && l.out.size+int64(len(text)) > l.o.SegmentBytes {
		if err := l.roll(); err != nil {
			return systemError(ports.CodeBackendFailed, opAccept, l.dir, err)
		}
	}
	path := l.out.path
	if _, err := l.out.file.WriteAt(text, l.out.size); err != nil {
		l.takeBack()
		return systemError(ports.CodeBackendFailed, opAccept, path, err)
	}
	if err := l.out.file.Sync(); err != nil {
		l.leave(err)
		return systemError(ports.CodeBackendFailed, opAccept, path, err)
	}
	final := calls[len(calls)-1]
	l.publish(int64(len(text)), uint64(len(text)-len(final.text)+final.last))
	return nil
}

// join returns the lines of all calls. They are written at once.
func (l *Log) join(calls []*accept) []byte {
	if len(calls) == 1 {
		return calls[0].text
	}
	l.gathered = l.gathered[:0]
	for _, a := range calls {
		l.gathered = append(l.gathered, a.text...)
	}
	return l.gathered
}

// publish shows readers what has become durable. last is where the last line begins in it.
func (l *Log) publish(bytes int64, last uint64) {
	l.out.size += bytes
	l.out.empty = false
	l.mu.Lock()
	l.last, l.linked = l.end+last, true
	l.end += uint64(bytes)
	l.total += bytes
	l.segments[len(l.segments)-1].size = l.out.size
	l.mu.Unlock()
	select {
	case l.grown <- struct{}{}:
	default: // it has been told already
	}
}

// checkOutput finds out whether the file is still the one that others will find.
func (l *Log) checkOutput() error {
	if l.out == nil {
		return nil
	}
	info, err := os.Stat(l.out.path)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && !os.SameFile(info, l.out.info):
		return ports.Errorf(ports.CodeStoreReplaced, opAccept,
			"event log %s: %s was deleted, moved or replaced while it was open; nothing more is written: restore the directory, then restart", l.dir, filepath.Base(l.out.path))
	case err != nil:
		return err
	case info.Size() < l.out.size:
		l.leave(errShorter)
	}
	return nil
}

var errShorter = errors.New("somebody else has cut it off")

// takeBack undoes a write that failed. It is synced, so that nothing of it comes out after a power cut.
func (l *Log) takeBack() {
	err := l.out.file.Truncate(l.out.size)
	if err == nil {
		err = l.out.file.Sync()
	}
	if err != nil {
		l.leave(err)
	}
}

// leave gives a file up: what the system holds of it, and what of that is on the disk, nobody can say
// after a failed sync. The next file begins where this one was durable, so that what follows there is no
// part of the log. Where that cannot be made either, the next call tries again.
func (l *Log) leave(cause error) {
	path := l.out.path
	// Until there is a next file only this keeps readers after a crash from what was refused.
	truncateErr := l.out.file.Truncate(l.out.size)
	err := errors.Join(truncateErr, l.out.file.Close())
	l.out = nil
	l.o.Log.Error("a file of an event log is not written any more", "path", path, "cause", cause, "error", err)
	if err := l.roll(); err != nil {
		l.o.Log.Error("the next file of an event log cannot be made yet", "directory", l.dir, "error", err)
	}
}

// roll begins a file at the end of the log. It is made under another name, so that each file that bears
// its own has its first line. From the moment in which it may bear it nothing is written to the one
// before any more, whatever fails: that would lie behind its end.
func (l *Log) roll() error {
	next := segment{start: l.end, header: header{life: l.life, prev: l.last, linked: l.linked}}
	first := appendHeader(nil, next.header)
	next.size = int64(len(first))
	made, err := l.makeOutput(filepath.Join(l.dir, nameOf(next.start)), first)
	if err != nil {
		return err
	}
	if l.out != nil {
		if err := l.out.file.Close(); err != nil { // it was synced: there is nothing to lose
			l.o.Log.Warn("a full file of an event log cannot be closed", "path", l.out.path, "error", err)
		}
		l.out = nil
	}
	err = os.Rename(made.path+freshSuffix, made.path)
	if err == nil {
		err = syncDirectory(l.dir)
	}
	if err != nil {
		return errors.Join(err, made.file.Close())
	}
	l.out = made

	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.segments); n > 0 && l.segments[n-1].start == next.start {
		l.total -= l.segments[n-1].size
		l.segments = l.segments[:n-1]
	}
	l.segments = append(l.segments, next)
	l.total += next.size
	l.end = next.start + uint64(next.size)
	return nil
}

// makeOutput makes a file with a first line under the name that it has meanwhile.
func (l *Log) makeOutput(path string, first []byte) (*output, error) {
	file, err := l.o.create(path + freshSuffix)
	if err != nil {
		return nil, err
	}
	made := &output{file: file, path: path, size: int64(len(first)), empty: true}
	if _, err = file.WriteAt(first, 0); err == nil {
		err = file.Sync()
	}
	if err == nil {
		made.info, err = file.Stat()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), removeIfThere(path+freshSuffix))
	}
	return made, nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
