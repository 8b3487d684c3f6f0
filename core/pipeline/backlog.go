package pipeline

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// entry is a match that waits for its delivery.
type entry struct {
	step   uint64
	cursor types.Cursor
	event  types.SinkEvent
}

// size is about what the entry weighs in memory.
func (e entry) size() int {
	const names = 300
	if origin := e.event.Origin(); origin != nil {
		return names + len(origin.Event)
	}
	return names
}

const (
	spillPrefix  = "stowage-backlog-"
	spillSuffix  = ".spill"
	spillChunk   = 64 << 10 // of one write and of one read
	spillSegment = 32 << 20 // a file that has grown so far is followed by another
	spillKeep    = 1 << 20  // a buffer above it is let go when it is empty
	spillMemory  = 8 << 20  // of the events of the entries in memory, whatever their number
	takeBytes    = 4 << 20  // of the events of one take, unless one alone has more
)

// backlog is a first-in-first-out list of entries: some in memory, the rest in temporary files. It is a
// cache, so nothing is synced: after a crash the source gives the events again. It is not for more than
// one goroutine at a time.
//
// In the order of their age, the entries are: those of head; what in holds of the oldest segment; the
// segments; out, which waits until it is worth a write. New entries go to head while all others are
// empty. A segment is a file of its own so that a backlog that never runs empty gives back the space of
// what was taken.
type backlog struct {
	dir    string
	name   string // part of the names of the files
	memory int
	count  int

	head  []entry
	first int // what stands before it in head has been taken
	bytes int // of the events in head

	in       []byte // encoded, read from position on
	position int
	segments []*segment
	out      []byte // encoded

	pipeline types.PipelineID // the names that were decoded last: most are the same again
	monitor  types.MonitorID
	failed   error // the first failure to remove a file, for close
}

// segment is a file of encoded entries, the first of which begins at 0.
type segment struct {
	file *os.File
	read int64 // how much of it has gone to in
	size int64 // how much of it is written
}

// newBacklog makes an empty backlog that keeps memory entries in memory before it makes files in dir.
// The name says in the names of the files whose they are.
func newBacklog(dir, name string, memory int) *backlog {
	const longest = 80 // of 255 bytes that a file system allows
	clean := strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return &backlog{dir: dir, name: clean[:min(len(clean), longest)], memory: memory}
}

// removeLeftovers removes the files that backlogs of a killed process left in dir. Those of a process
// that is alive stay readable to it, and those of another user stay. A directory that is not there has
// none.
func removeLeftovers(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return spillError("listing the directory of spilled backlogs", dir, err)
	}
	var failed error
	for _, found := range entries {
		name := found.Name()
		if !found.Type().IsRegular() || !strings.HasPrefix(name, spillPrefix) || !strings.HasSuffix(name, spillSuffix) {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			failed = errors.Join(failed, spillError("removing the leftover backlog", path, err))
		}
	}
	return failed
}

// len is the number of entries.
func (b *backlog) len() int { return b.count }

// spilled says whether any entry is behind head.
func (b *backlog) spilled() bool {
	return b.position < len(b.in) || len(b.segments) > 0 || len(b.out) > 0
}

// push adds the entries at the end. All of them are in the backlog also when it fails: what could not be
// written stays in memory, and is written with a later push. The caller does best to push no more until
// the backlog has become shorter.
func (b *backlog) push(entries ...entry) error {
	b.count += len(entries)
	if !b.spilled() {
		room := 0
		for room < len(entries) && len(b.head)-b.first+room < b.memory && b.bytes < spillMemory {
			b.bytes += entries[room].size()
			room++
		}
		b.keep(entries[:room])
		entries = entries[room:]
	}
	var err error
	for _, e := range entries {
		b.out = appendEntry(b.out, e)
		if err == nil && len(b.out) >= spillChunk {
			err = b.flush()
		}
	}
	return err
}

// keep adds the entries to head.
func (b *backlog) keep(entries []entry) {
	if b.first > len(b.head)/2 && len(b.head)+len(entries) > cap(b.head) {
		left := copy(b.head, b.head[b.first:])
		clear(b.head[left:])
		b.head, b.first = b.head[:left], 0
	}
	b.head = append(b.head, entries...)
}

// flush writes out to the newest segment.
func (b *backlog) flush() error {
	n := len(b.segments)
	fresh := n == 0 || b.segments[n-1].size >= spillSegment
	var newest *segment
	if fresh {
		file, err := os.CreateTemp(b.dir, spillPrefix+b.name+"-*"+spillSuffix) // its mode is 0600
		if err != nil {
			return spillError("making a file for the backlog", b.dir, err)
		}
		newest = &segment{file: file}
	} else {
		newest = b.segments[n-1]
	}
	// At a fixed offset, so that one that is repeated overwrites what a failed one has left.
	if _, err := newest.file.WriteAt(b.out, newest.size); err != nil {
		if fresh {
			b.drop(newest) // an empty one would stand before out, and its end be taken for damage
		}
		return spillError("writing the backlog", newest.file.Name(), err)
	}
	if fresh {
		b.segments = append(b.segments, newest)
	}
	newest.size += int64(len(b.out))
	b.out = emptied(b.out)
	return nil
}

// take removes the oldest n entries, or fewer where there are no more or where these are large, and
// returns them in order: one at least, unless there is none. An error means
// that the oldest one cannot be read back; the backlog is of no more use then.
func (b *backlog) take(n int) ([]entry, error) {
	n = min(n, b.count)
	if n <= 0 {
		return nil, nil
	}
	taken := make([]entry, 0, n)
	oldest := b.head[b.first:]
	oldest = oldest[:min(n, len(oldest))]
	bytes := 0
	for i := range oldest {
		if bytes >= takeBytes {
			oldest = oldest[:i]
			break
		}
		bytes += oldest[i].size()
	}
	b.bytes -= bytes
	taken = append(taken, oldest...)
	clear(oldest) // their events are the taker's now
	if b.first += len(oldest); b.first == len(b.head) {
		b.head, b.first = b.head[:0], 0
	}
	for len(taken) < n && bytes < takeBytes && b.first == len(b.head) {
		e, err := b.next()
		if err != nil {
			if len(taken) == 0 {
				return nil, err
			}
			break // the next call meets it again, and has nothing else to return
		}
		taken = append(taken, e)
		bytes += e.size()
	}
	b.count -= len(taken)
	return taken, nil
}

// next decodes the oldest entry behind head.
func (b *backlog) next() (entry, error) {
	for {
		rest := b.in[b.position:]
		length, prefix := binary.Uvarint(rest)
		if prefix < 0 || prefix > 0 && length > maxEntryBytes {
			return entry{}, b.damaged("a length is impossible")
		}
		if prefix > 0 && uint64(len(rest)-prefix) >= length {
			end := prefix + int(length)
			e, err := b.decode(rest[prefix:end])
			if err != nil {
				return entry{}, err
			}
			b.position += end
			if b.position == len(b.in) {
				b.in, b.position = emptied(b.in), 0
				b.dropConsumed()
			}
			return e, nil
		}
		if err := b.fill(prefix + int(length)); err != nil {
			return entry{}, err
		}
	}
}

// fill adds to in what comes next; wanted is how many bytes the entry at its front has, if they are
// known.
func (b *backlog) fill(wanted int) error {
	b.in = append(b.in[:0], b.in[b.position:]...)
	b.position = 0
	if len(b.segments) == 0 {
		if len(b.in) > 0 || len(b.out) == 0 {
			return b.damaged("an entry is cut off")
		}
		b.in, b.out = b.out, b.in
		return nil
	}
	oldest := b.segments[0]
	have := len(b.in)
	size := min(int64(max(spillChunk, wanted-have)), oldest.size-oldest.read)
	if size == 0 {
		return b.damaged("an entry is cut off")
	}
	b.in = slices.Grow(b.in, int(size))[:have+int(size)]
	if _, err := oldest.file.ReadAt(b.in[have:], oldest.read); err != nil {
		b.in = b.in[:have]
		return spillError("reading the backlog back", oldest.file.Name(), err)
	}
	oldest.read += size
	return nil
}

// dropConsumed removes the oldest segment once all of it has been taken.
func (b *backlog) dropConsumed() {
	if len(b.segments) == 0 || b.segments[0].read < b.segments[0].size {
		return
	}
	b.drop(b.segments[0])
	b.segments = slices.Delete(b.segments, 0, 1)
}

func (b *backlog) drop(s *segment) {
	err := s.file.Close()
	if removed := os.Remove(s.file.Name()); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	if err != nil && b.failed == nil {
		b.failed = spillError("removing a file of the backlog", s.file.Name(), err)
	}
}

// close forgets all entries and removes the files. It reports the first file that could not be removed,
// now or before.
func (b *backlog) close() error {
	for _, s := range b.segments {
		b.drop(s)
	}
	failed := b.failed
	*b = backlog{dir: b.dir, name: b.name, memory: b.memory}
	return failed
}

func emptied(buffer []byte) []byte {
	if cap(buffer) > spillKeep {
		return nil
	}
	return buffer[:0]
}

func (b *backlog) damaged(what string) error {
	path := b.dir
	if len(b.segments) > 0 {
		path = b.segments[0].file.Name()
	}
	return ports.Errorf(ports.CodeBackendFailed, "pipeline.backlog", "reading the backlog back from %s: %s, so the file was changed by somebody else; the pipeline reads its events again from the checkpoint", path, what).
		WithReason(ports.ReasonCorrupt)
}

func spillError(attempt, path string, err error) error {
	failed := ports.Errorf(ports.CodeBackendFailed, "pipeline.backlog", "%s (%s): %w", attempt, path, err)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return failed.WithReason(ports.ReasonDiskFull)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return failed.WithReason(ports.ReasonReadOnly)
	}
	return failed
}

// An encoded entry is its length, then its fields: numbers as varints, texts with their length in front.
// Only this process reads it, so it has no version.

const (
	hasMatch    = 1
	hasEmission = 2

	maxEntryBytes = 1 << 30
)

func appendEntry(to []byte, e entry) []byte {
	const room = binary.MaxVarintLen32
	start := len(to)
	to = append(to, make([]byte, room)...) // for the length
	to = binary.AppendUvarint(to, e.step)
	to = appendCursor(to, e.cursor)
	to = appendText(to, e.event.Traceparent)
	var kind byte
	if e.event.Match != nil {
		kind |= hasMatch
	}
	if e.event.Emission != nil {
		kind |= hasEmission
	}
	to = append(to, kind)
	if m := e.event.Match; m != nil {
		to = appendMatch(to, m)
	}
	if m := e.event.Emission; m != nil {
		to = appendMatch(to, &m.Match)
		to = appendText(to, m.Key)
		to = binary.AppendUvarint(to, m.Hits)
		to = binary.AppendVarint(to, m.FirstTS)
		to = binary.AppendVarint(to, m.LastTS)
	}
	putPadded(to[start:start+room], uint64(len(to)-start-room))
	return to
}

// putPadded writes a varint that fills all of the place.
func putPadded(place []byte, n uint64) {
	for i := range place {
		place[i] = byte(n)&0x7f | 0x80
		n >>= 7
	}
	place[len(place)-1] &= 0x7f
}

func appendMatch(to []byte, m *types.Match) []byte {
	to = appendText(to, string(m.ID))
	to = appendText(to, string(m.Pipeline))
	to = appendText(to, string(m.Monitor))
	to = appendCursor(to, m.Cursor)
	to = binary.AppendUvarint(to, m.Index)
	to = binary.AppendVarint(to, m.TS)
	if m.Event == nil {
		return append(to, 0)
	}
	return append(binary.AppendUvarint(to, uint64(len(m.Event))+1), m.Event...)
}

func appendCursor(to []byte, c types.Cursor) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(to, c.Primary), c.Secondary)
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// decode reads what appendEntry has written, behind its length. The entry shares no memory with text.
func (b *backlog) decode(text []byte) (entry, error) {
	r := spillReader{text: text}
	e := entry{step: r.uvarint(), cursor: r.cursor()}
	e.event.Traceparent = string(r.bytes(r.uvarint()))
	kind := r.byte()
	if kind&hasMatch != 0 {
		e.event.Match = new(types.Match)
		b.decodeMatch(&r, e.event.Match)
	}
	if kind&hasEmission != 0 {
		emission := new(types.Emission)
		b.decodeMatch(&r, &emission.Match)
		emission.Key = string(r.bytes(r.uvarint()))
		emission.Hits = r.uvarint()
		emission.FirstTS, emission.LastTS = r.varint(), r.varint()
		e.event.Emission = emission
	}
	if r.broken || len(r.text) > 0 || kind > hasMatch|hasEmission {
		return entry{}, b.damaged(fmt.Sprintf("an entry of %d bytes makes no sense", len(text)))
	}
	return e, nil
}

func (b *backlog) decodeMatch(r *spillReader, m *types.Match) {
	m.ID = types.MatchID(r.bytes(r.uvarint()))
	if name := r.bytes(r.uvarint()); string(name) != string(b.pipeline) {
		b.pipeline = types.PipelineID(name)
	}
	if name := r.bytes(r.uvarint()); string(name) != string(b.monitor) {
		b.monitor = types.MonitorID(name)
	}
	m.Pipeline, m.Monitor = b.pipeline, b.monitor
	m.Cursor = r.cursor()
	m.Index = r.uvarint()
	m.TS = r.varint()
	if size := r.uvarint(); size > 0 {
		m.Event = append(json.RawMessage{}, r.bytes(size-1)...)
	}
}

// spillReader reads fields one after the other. Behind the end it gives zeros and is broken.
type spillReader struct {
	text   []byte
	broken bool
}

func (r *spillReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.text)
	if size <= 0 {
		r.broken = true
		return 0
	}
	r.text = r.text[size:]
	return n
}

func (r *spillReader) varint() int64 {
	n, size := binary.Varint(r.text)
	if size <= 0 {
		r.broken = true
		return 0
	}
	r.text = r.text[size:]
	return n
}

func (r *spillReader) cursor() types.Cursor {
	return types.Cursor{Primary: r.uvarint(), Secondary: r.uvarint()}
}

func (r *spillReader) byte() byte {
	if len(r.text) == 0 {
		r.broken = true
		return 0
	}
	c := r.text[0]
	r.text = r.text[1:]
	return c
}

func (r *spillReader) bytes(n uint64) []byte {
	if n > uint64(len(r.text)) {
		r.broken = true
		return nil
	}
	part := r.text[:n]
	r.text = r.text[n:]
	return part
}
