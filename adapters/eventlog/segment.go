package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stowage-go/stowage/ports"
)

// A log is the bytes of its files one after the other, for ever: those that were deleted count. A file
// is named by the offset of its first byte, and ends where the next one begins; what it holds beyond
// that is what is left of an attempt that failed.
type segment struct {
	start uint64
	header
	size int64 // bytes of the file
}

const (
	nameDigits  = 20
	nameSuffix  = ".log"
	freshSuffix = ".new" // of a file that is being made
)

func nameOf(start uint64) string { return fmt.Sprintf("%0*d%s", nameDigits, start, nameSuffix) }

func parseName(name string) (start uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, nameSuffix)
	if !ok || len(digits) != nameDigits || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	start, err := strconv.ParseUint(digits, 10, 64)
	return start, err == nil && start <= math.MaxInt64
}

// segmentFile is a file that is written.
type segmentFile interface {
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (os.FileInfo, error)
}

func createFile(path string) (segmentFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

func reopenFile(path string) (segmentFile, error) { return os.OpenFile(path, os.O_WRONLY, 0) }

// survey is what a directory holds, found without a change.
type survey struct {
	segments []segment
	fresh    []string // paths of files that were being made
	tail     tail
}

// tail is the last file, as far as it is whole.
type tail struct {
	size   int64 // what is kept
	torn   int64 // what is behind it: a call that was never answered
	last   uint64
	linked bool // there is a last line, here or before
}

// look surveys a directory that belongs to a log or to nobody.
func look(ctx context.Context, dir string) (survey, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return survey{}, err
	}
	var s survey
	for _, entry := range entries {
		name, isFresh := strings.CutSuffix(entry.Name(), freshSuffix)
		start, ok := parseName(name)
		if !ok || !entry.Type().IsRegular() {
			return survey{}, refuse(dir, "it holds %q, which is no file of an event log: move that away, or use another path", entry.Name())
		}
		if isFresh {
			s.fresh = append(s.fresh, filepath.Join(dir, entry.Name()))
			continue
		}
		found, err := lookAt(dir, start)
		if err != nil {
			return survey{}, err
		}
		s.segments = append(s.segments, found)
	}
	slices.SortFunc(s.segments, func(a, b segment) int { return cmp.Compare(a.start, b.start) })
	if len(s.segments) == 0 {
		return s, nil
	}
	s.tail, err = lookAtTail(ctx, dir, s.segments[len(s.segments)-1])
	return s, err
}

func refuse(dir, why string, args ...any) error {
	return ports.Errorf(ports.CodeBindingSetupFailed, opOpen, "event log %s: "+why, append([]any{dir}, args...)...)
}

// lookAt reads the first line of a file. One that is damaged leaves the header empty.
func lookAt(dir string, start uint64) (s segment, err error) {
	file, err := os.Open(filepath.Join(dir, nameOf(start)))
	if err != nil {
		return segment{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return segment{}, err
	}
	s = segment{start: start, size: info.Size()}
	first := lines{space: make([]byte, headerRoom)}
	first.reset(file, start, start, start+uint64(min(s.size, headerRoom)))
	found, ok, err := first.next()
	if err != nil || !ok || found.fault != whole {
		return s, err
	}
	s.header, _, err = parseHeader(found.text)
	if err != nil {
		var other *ports.Error
		errors.As(refuse(dir, "%s cannot be read: %w; use the version of stowage that wrote it", nameOf(start), err), &other)
		return segment{}, other.WithReason(ports.ReasonUnsupported)
	}
	return s, nil
}

// lookAtTail reads the last file. At its end may stand what is left of a write that a crash
// interrupted: a line without an end, and before it lines of the same call, since a call is stored as a
// whole or not at all. Whatever has an end and belongs to no such call stays, damaged or not: it may have
// been acknowledged.
func lookAtTail(ctx context.Context, dir string, s segment) (t tail, err error) {
	file, err := os.Open(filepath.Join(dir, nameOf(s.start)))
	if err != nil {
		return tail{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	var (
		all    lines
		call   = tail{last: s.prev, linked: s.linked} // what there was before the call under way
		due    uint64                                 // how many lines of it are still to come
		hurt   bool                                   // one of them is damaged
		proper = s.life != ""                         // one line at least is one of a log
	)
	t = call
	all.reset(file, s.start, s.start, s.start+uint64(s.size))
	for {
		found, ok, err := all.next()
		if err != nil {
			return tail{}, err
		}
		if !ok || found.fault == cut || found.fault == missing {
			break
		}
		if err := ctx.Err(); err != nil {
			return tail{}, err
		}
		r, ok := parseRecord(found.text)
		proper = proper || ok
		switch {
		case found.offset == s.start && s.life != "":
			t.size = int64(found.end - s.start)
			continue
		case !ok && due > 0:
			hurt = true
			due--
		case ok && due > 0 && r.rest == due-1:
			due--
		case ok:
			call, hurt, due = t, false, r.rest
		}
		t = tail{size: int64(found.end - s.start), last: found.offset, linked: true}
	}
	if due > 0 && !hurt {
		t = call
	}
	t.torn = s.size - t.size
	if !proper && s.size > 0 {
		return tail{}, refuse(dir, "no line of %s is one of an event log: move that away, or use another path", nameOf(s.start))
	}
	return t, nil
}
