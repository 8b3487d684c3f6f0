package ndjson

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	// ledgerVersion 2 added the tail.
	ledgerVersion = 2
	// headBytes is how much of its beginning tells a file from another.
	headBytes = 1024
	// tailBytes is how much before the place to which it was read tells it apart as well.
	tailBytes = 4096
	// reserveAhead is how far the stored mark is ahead of what is returned, so that it is not stored
	// with each line.
	reserveAhead = 64 << 20
	// maxLedgerBytes keeps a wrong file from filling the memory.
	maxLedgerBytes = 4 << 20
	// maxPlainName keeps the name of the state file below what file systems allow.
	maxPlainName = 200
)

// generation is one file in the life of a path, and its place in the count of the cursors.
type generation struct {
	// Base is the primary at which the file begins.
	Base uint64 `json:"base"`
	// End is the primary at which it ends: for good where another file follows, else as far as was seen
	// at the last save.
	End uint64 `json:"end"`
	// Last is the primary of the last event that was returned, and Read the one behind it. Read == Base:
	// none was.
	Last uint64 `json:"last"`
	Read uint64 `json:"read"`
	// Device and Inode say which file it is. The device is for a person: its number may change with a
	// restart of the machine.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// HeadBytes and HeadSHA256 say how it begins.
	HeadBytes  int    `json:"head_bytes"`
	HeadSHA256 string `json:"head_sha256"`
	// TailEnd is an offset to which the file was read, and TailSHA256 is of the bytes before it, 4 KiB of
	// them or all. Together with the head they know the file again after somebody has replaced it by a
	// copy. Empty: nothing does.
	TailEnd    int64  `json:"tail_end,omitempty"`
	TailSHA256 string `json:"tail_sha256,omitempty"`
}

// returned notes an event.
func (g *generation) returned(start, end uint64) {
	if end > g.Read {
		g.Last, g.Read = start, end
	}
}

func (g *generation) setHead(head []byte) {
	sum := sha256.Sum256(head)
	g.HeadBytes, g.HeadSHA256 = len(head), hex.EncodeToString(sum[:])
}

// beginsLike reports whether a head is, or starts with, the one of the generation.
func (g *generation) beginsLike(head []byte) bool {
	if len(head) < g.HeadBytes {
		return false
	}
	sum := sha256.Sum256(head[:g.HeadBytes])
	return hex.EncodeToString(sum[:]) == g.HeadSHA256
}

// setTail takes over what lies before an offset; nil for nothing.
func (g *generation) setTail(end int64, tail []byte) {
	g.TailEnd, g.TailSHA256 = 0, ""
	if len(tail) > 0 {
		sum := sha256.Sum256(tail)
		g.TailEnd, g.TailSHA256 = end, hex.EncodeToString(sum[:])
	}
}

// goesOnIn reports whether a file of another inode is the one of the generation, in a copy: it is the same
// wherever it was looked at, and least, to which it was dealt with, lies before the last of these places. A
// short beginning proves nothing.
func (g *generation) goesOnIn(file *os.File, head []byte, least int64) (bool, error) {
	if g.TailEnd < headBytes || least > g.TailEnd || g.HeadBytes < headBytes || !g.beginsLike(head) {
		return false, nil
	}
	tail, err := readTail(file, g.TailEnd)
	if err != nil || tail == nil {
		return false, err
	}
	sum := sha256.Sum256(tail)
	return hex.EncodeToString(sum[:]) == g.TailSHA256, nil
}

// readTail reads what lies before an offset; nil if the file does not reach it.
func readTail(file *os.File, end int64) ([]byte, error) {
	start := max(end-tailBytes, 0)
	tail := make([]byte, end-start)
	n, err := file.ReadAt(tail, start)
	if n == len(tail) {
		return tail, nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return nil, err
}

func newGeneration(base uint64, info os.FileInfo, head []byte) *generation {
	g := &generation{Base: base, End: base + uint64(info.Size()), Last: base, Read: base}
	g.Device, g.Inode = identity(info)
	g.setHead(head)
	return g
}

func identity(info os.FileInfo) (device, inode uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev), st.Ino //nolint:unconvert // the type of Dev differs between systems
	}
	return 0, 0
}

// ledger is the state file: which file stands where in the count. One goroutine reads the source and
// adds to it; settling takes from it beside that.
type ledger struct {
	name     string
	pipeline types.PipelineID

	mu sync.Mutex
	// reserved is above the primary of every event that was ever returned.
	reserved uint64
	// files is oldest first. The last is the one that path named last.
	files []*generation
	// stale says that the file on the disk knows less.
	stale bool
}

// record is the form of the state file.
type record struct {
	Version  int           `json:"version"`
	Pipeline string        `json:"pipeline"`
	Reserved uint64        `json:"reserved"`
	Files    []*generation `json:"files"`
}

func ledgerName(stateDir string, pipeline types.PipelineID) string {
	name := string(pipeline)
	if len(name) > maxPlainName {
		sum := sha256.Sum256([]byte(name))
		name = name[:maxPlainName-len(sum)*2] + hex.EncodeToString(sum[:])
	}
	return filepath.Join(stateDir, "ndjson", name+".json")
}

// openLedger reads the state file of a pipeline, if there is one. It writes nothing.
func openLedger(op, stateDir string, pipeline types.PipelineID) (*ledger, error) {
	l := &ledger{name: ledgerName(stateDir, pipeline), pipeline: pipeline}
	text, err := readLedger(l.name)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fileError(ports.CodeBindingSetupFailed, op, "the source's state file %s cannot be read: %w", l.name, err)
	}
	var r record
	problem := ports.DecodeJSON(text, &r)
	switch {
	case problem == nil && r.Version > ledgerVersion:
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op,
			"the source's state file %s has version %d and this build knows %d: use a newer build", l.name, r.Version, ledgerVersion).
			WithReason(ports.ReasonUnsupported)
	case problem == nil:
		problem = r.check(pipeline)
	}
	if problem != nil {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op,
			"the source's state file %s is damaged: %w; restore it, or move it away: the checkpoint then counts as a byte offset in the file itself", l.name, problem).
			WithReason(ports.ReasonCorrupt)
	}
	l.reserved, l.files = r.Reserved, r.Files
	return l, nil
}

func readLedger(name string) ([]byte, error) {
	file, _, err := openRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxLedgerBytes+1))
	if err == nil && len(text) > maxLedgerBytes {
		err = fmt.Errorf("it has more than %d bytes", maxLedgerBytes)
	}
	return text, err
}

func (r *record) check(pipeline types.PipelineID) error {
	if r.Version < 1 {
		return fmt.Errorf("its version is %d", r.Version)
	}
	if r.Pipeline != string(pipeline) {
		return fmt.Errorf("it belongs to the pipeline %q", r.Pipeline)
	}
	if len(r.Files) == 0 {
		return errors.New("it names no file")
	}
	floor := uint64(0)
	for i, g := range r.Files {
		digest, err := hex.DecodeString(g.HeadSHA256)
		ordered := floor <= g.Base && g.Base <= g.Last && g.Last <= g.Read && g.Read <= max(g.End, r.Reserved) &&
			g.Base <= g.End && g.End <= ports.MaxStoredInteger
		if !ordered || g.HeadBytes < 0 || g.HeadBytes > headBytes || err != nil || len(digest) != sha256.Size {
			return fmt.Errorf("what it says of file %d of %d does not go together", i+1, len(r.Files))
		}
		if g.TailSHA256 != "" {
			digest, err = hex.DecodeString(g.TailSHA256)
		}
		if err != nil || len(digest) != sha256.Size || g.TailEnd < 0 || g.TailEnd > 0 && g.TailSHA256 == "" || uint64(g.TailEnd) > g.Read-g.Base {
			return fmt.Errorf("what it says of the tail of file %d of %d does not go together", i+1, len(r.Files))
		}
		floor = g.End
	}
	if r.Reserved > ports.MaxStoredInteger {
		return errors.New("its mark is out of range")
	}
	return nil
}

// last is the file that path named last; nil before the first.
func (l *ledger) last() *generation {
	if len(l.files) == 0 {
		return nil
	}
	return l.files[len(l.files)-1]
}

// after is what follows a generation; nil behind the last.
func (l *ledger) after(g *generation) *generation {
	for i, other := range l.files[:max(len(l.files)-1, 0)] {
		if other == g {
			return l.files[i+1]
		}
	}
	return nil
}

// follow puts a generation behind the last, whose end it fixes. One of which nothing was returned need
// not be remembered.
func (l *ledger) follow(g *generation) {
	if last := l.last(); last != nil {
		last.End = g.Base
		if last.Read == last.Base {
			l.files = l.files[:len(l.files)-1]
		}
	}
	l.files = append(l.files, g)
	l.stale = true
}

// forget drops the files whose events are all settled.
func (l *ledger) forget(through uint64) {
	for len(l.files) > 1 && through >= l.files[1].Base {
		l.files = l.files[1:]
		l.stale = true
	}
}

// save replaces the state file, durably. The caller holds mu.
func (l *ledger) save() error {
	text, err := ports.EncodeJSON(record{ledgerVersion, string(l.pipeline), l.reserved, l.files})
	if err != nil {
		return err
	}
	l.stale = true
	if err := replaceFile(l.name, append(text, '\n')); err != nil {
		return err
	}
	l.stale = false
	return nil
}

func replaceFile(name string, text []byte) (err error) {
	dir := filepath.Dir(name)
	if err := makeDirectory(dir); err != nil {
		return err
	}
	temp := name + ".new"
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, name); err != nil {
		return err
	}
	return syncDirectory(dir)
}
