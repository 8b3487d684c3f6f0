package ndjson

import (
	"errors"
	"io/fs"
	"os"

	"github.com/stowage-go/stowage/ports"
)

// target is where to go on: an offset of a generation, which is nil before the first. skip passes over
// the line that lies there.
type target struct {
	gen    *generation
	offset int64
	skip   bool
}

// begin opens the file in which to go on. It reports false while none is there.
func (s *Source) begin(op string) (bool, error) {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if s.target == nil {
		s.target = s.aim()
	}
	for {
		t := s.target
		if t.gen == nil {
			return s.first(op)
		}
		found, cut, err := s.find(t)
		if err != nil {
			return false, s.openFailed(op, err)
		}
		next := s.ledger.after(t.gen)
		if found != nil {
			if next != nil {
				found.limit = int64(t.gen.End - t.gen.Base)
			} else if err := s.within(op, max(s.ledger.reserved, t.gen.Base+uint64(found.info.Size()))); err != nil {
				return false, errors.Join(err, found.file.Close())
			}
			found.gen = t.gen
			if s.from != nil {
				t.gen.returned(s.from.Primary, s.from.Primary+1)
			}
			return true, s.open(found, t.offset, t.skip)
		}
		if next == nil {
			return s.replaced(op, t, cut)
		}
		s.gap(t.gen.Last, "%s: %d bytes are gone: they stood in a file that was rotated or truncated, and it is not there any more", s.o.Path, t.gen.End-t.gen.Base-uint64(t.offset))
		s.aimAt(next)
	}
}

// aim finds where to go on behind from.
func (s *Source) aim() *target {
	files := s.ledger.files
	switch {
	case s.from == nil && len(files) == 0:
		return &target{}
	case s.from == nil:
		return &target{gen: files[0]}
	case len(files) == 0:
		return &target{offset: int64(s.from.Primary), skip: true}
	}
	primary := s.from.Primary
	if base := files[0].Base; primary < base {
		s.from = nil
		if primary+1 < base {
			s.gap(base-1, "%s: %d bytes are gone: they stood in files that were settled and forgotten", s.o.Path, base-1-primary)
		}
		return &target{gen: files[0]}
	}
	at := 0
	for at+1 < len(files) && files[at+1].Base <= primary {
		at++
	}
	gen := files[at]
	if at+1 < len(files) && primary >= gen.Last {
		s.from = nil
		return &target{gen: files[at+1]}
	}
	return &target{gen: gen, offset: int64(primary - gen.Base), skip: true}
}

// aimAt goes on at the start of a generation.
func (s *Source) aimAt(gen *generation) {
	s.from = nil
	s.target = &target{gen: gen}
}

// first opens the first file of all.
func (s *Source) first(op string) (bool, error) {
	file, info, err := openRegular(s.o.Path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, s.openFailed(op, err)
	}
	if err := s.within(op, uint64(info.Size())); err != nil {
		return false, errors.Join(err, file.Close())
	}
	offset, skip := s.target.offset, s.target.skip
	if err := s.enter(file, info, 0); err != nil {
		return false, err
	}
	if skip {
		s.leg.gen.returned(uint64(offset), uint64(offset)+1)
		s.leg.pos = offset
		s.lines.reset(offset, true)
	}
	return true, nil
}

// within refuses a cursor at or beyond the end of what was ever there.
func (s *Source) within(op string, end uint64) error {
	if s.from == nil || s.from.Primary < end {
		return nil
	}
	return ports.Errorf(ports.CodeBackendFailed, op,
		"the source cannot go on behind %d: %s ends at %d: set the checkpoint to a line of the file, or take it away to begin anew", s.from.Primary, s.o.Path, end).
		WithReason(ports.ReasonUndecodable)
}

// find looks for the file of a generation: at the path, then beside it. cut says that it was found
// truncated; then a copy of it is good as well.
func (s *Source) find(t *target) (found *leg, cut bool, err error) {
	least := t.offset
	if t.skip {
		least++
	}
	same := func(info os.FileInfo) bool {
		_, inode := identity(info)
		return inode == t.gen.Inode
	}
	whole := func(info os.FileInfo, head []byte) bool {
		return info.Size() >= least && t.gen.beginsLike(head)
	}
	named, err := os.Stat(s.o.Path)
	if ignoreMissing(err) != nil {
		return nil, false, err
	}
	if err == nil && same(named) {
		found, err := openIf(s.o.Path, func(info os.FileInfo, head []byte) bool { return same(info) && whole(info, head) })
		if err != nil || found != nil {
			return found, false, err
		}
		cut = true
	}
	found, err = s.findArchive(func(info os.FileInfo, head []byte) bool {
		cut = cut || same(info) && !whole(info, head) // it was truncated before it was renamed
		return same(info) && whole(info, head)
	})
	if err != nil || found != nil || !cut || !copyCounts(t.gen.HeadBytes, t.offset) {
		return found, cut, err
	}
	found, err = s.findArchive(whole)
	return found, cut, err
}

// replaced deals with the last file that is known and not found: what was unread is lost, and whatever
// the path names now follows it. cut says that it is the same file, truncated.
func (s *Source) replaced(op string, t *target, cut bool) (bool, error) {
	gen := t.gen
	if err := s.within(op, max(s.ledger.reserved, gen.End)); err != nil {
		return false, err
	}
	file, info, err := openRegular(s.o.Path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, s.openFailed(op, err)
	}
	if !cut {
		if copied, err := s.copied(file, info, t); copied || err != nil {
			return copied, err
		}
	}
	unread := gen.Base + uint64(t.offset)
	if t.skip && unread == gen.Last {
		unread = gen.Read
	}
	lost := uint64(0)
	if gen.End > unread {
		lost = gen.End - unread
	}
	end := max(s.floor, gen.End, gen.Base+uint64(t.offset)+1)
	switch {
	case cut && lost > 0:
		s.gap(end, "%s: %d bytes from byte offset %d on are gone: the file was truncated, or made anew, before they were read; what else was written to it while nothing followed it is not known", s.o.Path, lost, unread-gen.Base)
	case cut:
		s.o.Log.Warn("a source's file was truncated, or made anew, while nothing followed it", "pipeline", string(s.o.Pipeline), "file", s.o.Path)
	default:
		s.gap(end, "%s: %d bytes are gone, as far as they are known: another file has taken the place of the one that was read to byte offset %d, and that one is not beside it (deleted, moved or compressed); files that stood in between were not read", s.o.Path, lost, unread-gen.Base)
	}
	if len(s.gaps) > 0 && s.gaps[len(s.gaps)-1].Cursor.Primary == end {
		gen.returned(end, end+1)
		end++
	}
	return true, s.enter(file, info, end)
}

// copied goes on in a file that is a copy of the one that was read, which is gone. After an error the file
// is closed.
func (s *Source) copied(file *os.File, info os.FileInfo, t *target) (bool, error) {
	head, err := readHead(file)
	least := t.offset
	if t.skip {
		least++
	}
	same := false
	if err == nil {
		same, err = t.gen.goesOnIn(file, head, least)
	}
	if err != nil {
		return false, errors.Join(s.fileFailed("read", err), file.Close())
	}
	if !same {
		return false, nil
	}
	s.o.Log.Info("a source's file was replaced by a copy; the source goes on in it", "pipeline", string(s.o.Pipeline), "file", s.o.Path, "offset", t.offset)
	t.gen.Device, t.gen.Inode = identity(info)
	s.ledger.stale = true
	if s.from != nil {
		t.gen.returned(s.from.Primary, s.from.Primary+1)
	}
	return true, s.open(&leg{file: file, name: file.Name(), gen: t.gen, limit: -1, head: head, info: info}, t.offset, t.skip)
}

// openFailed is the error of a file that cannot be opened.
func (s *Source) openFailed(op string, err error) error {
	code := ports.CodeBackendFailed
	if errors.Is(err, errNotRegular) && op != opRead {
		code = ports.CodeBindingSetupFailed
	}
	return fileError(code, op, "the source cannot open %s: %w", s.o.Path, err)
}
