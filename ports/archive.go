package ports

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/stowage-go/stowage/types"
)

// ArchiveFormat is the format of an archive, as its first line names it.
//
// An archive is everything that a storage holds, as JSON Lines: a line that names the format, one line
// a record, and a line that counts them, so that an archive that was cut off is known for what it is.
//
//	{"format":"stowage-storage.v1"}
//	{"resource":{"kind":"pipeline","id":"quakes","version":3,"value":"{\"on\": true}"}}
//	{"checkpoint":{"pipeline":"quakes","checkpoint":{"cursor":{"primary":7,"secondary":0}}}}
//	{"dead_letter":{"pipeline":"quakes","letter":{"match_id":…}}}
//	{"pause":{"target":"sink","id":"quakes/alerts"}}
//	{"delivery":{"pipeline":"quakes","cursor":{…},"match_id":…}}
//	{"gate_hit":{"pipeline":"quakes","monitor":…,"cursor":{…},"event_index":0,"event_ts":0,"event":…}}
//	{"gate_meta":{"pipeline":"quakes","monitor":…,"last_emit_ts":null,"aux":null}}
//	{"end":{"records":7}}
//
// The value of a resource is the text itself, as a string, because it comes back byte for byte; aux is
// base64.
const ArchiveFormat = "stowage-storage.v1"

// maxArchiveLine holds the largest record, its characters escaped.
const maxArchiveLine = 16 << 20

type archiveLine struct {
	Format     string             `json:"format,omitempty"`
	Resource   *archiveResource   `json:"resource,omitempty"`
	Checkpoint *archiveCheckpoint `json:"checkpoint,omitempty"`
	DeadLetter *archiveLetter     `json:"dead_letter,omitempty"`
	Pause      *types.Pause       `json:"pause,omitempty"`
	Delivery   *archiveDelivery   `json:"delivery,omitempty"`
	GateHit    *archiveHit        `json:"gate_hit,omitempty"`
	GateMeta   *archiveMeta       `json:"gate_meta,omitempty"`
	End        *archiveEnd        `json:"end,omitempty"`
}

type archiveResource struct {
	Kind    types.ResourceKind `json:"kind"`
	ID      string             `json:"id"`
	Version uint64             `json:"version"`
	Value   string             `json:"value"`
}

type archiveCheckpoint struct {
	Pipeline   types.PipelineID `json:"pipeline"`
	Checkpoint types.Checkpoint `json:"checkpoint"`
}

// wanted are the members that an object cannot do without, and those of the objects in it.
type wanted map[string]wanted

var wantedCursor = wanted{"primary": nil, "secondary": nil}

// wantedOf says what a line of each kind wants: a cursor that is missing would be read as the beginning.
var wantedOf = wanted{
	"resource":    {"kind": nil, "id": nil, "version": nil, "value": nil},
	"checkpoint":  {"pipeline": nil, "checkpoint": {"cursor": wantedCursor}},
	"dead_letter": {"pipeline": nil, "letter": {"match_id": nil, "cursor": wantedCursor, "attempts": nil}},
	"pause":       {"target": nil, "id": nil},
	"delivery":    {"pipeline": nil, "cursor": wantedCursor, "match_id": nil},
	"gate_hit":    {"pipeline": nil, "monitor": nil, "cursor": wantedCursor, "event_index": nil, "event_ts": nil, "event": nil},
	"gate_meta":   {"pipeline": nil, "monitor": nil, "last_emit_ts": nil, "aux": nil},
	"end":         {"records": nil},
}

// check refuses a valid JSON object that lacks a member. At the top, where path is empty, any may be
// missing.
func (w wanted) check(text []byte, path string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("%s is no object", nameMember(path))
	}
	for _, name := range sortedKeys(w) {
		member, found := members[name]
		switch at := join(path, name); {
		case !found && path != "":
			return fmt.Errorf("%s is missing", nameMember(at))
		case found && w[name] != nil:
			if err := w[name].check(member, at); err != nil {
				return err
			}
		}
	}
	return nil
}

type archiveLetter struct {
	Pipeline types.PipelineID `json:"pipeline"`
	Letter   strictLetter     `json:"letter"`
}

// strictLetter has no method that would pass over a member that a letter does not have.
type strictLetter types.DeadLetter

type archiveDelivery struct {
	Pipeline types.PipelineID `json:"pipeline"`
	types.Delivery
}

type archiveHit struct {
	Pipeline types.PipelineID `json:"pipeline"`
	types.GateHit
}

type archiveMeta struct {
	Pipeline types.PipelineID `json:"pipeline"`
	Monitor  types.MonitorID  `json:"monitor"`
	Last     *int64           `json:"last_emit_ts"`
	Aux      *[]byte          `json:"aux"` // null and "" are different
}

type archiveEnd struct {
	Records int64 `json:"records"`
}

// WriteArchive writes everything that a storage holds, and returns the number of records. When it
// fails, what was written is recognizable as cut off.
func WriteArchive(ctx context.Context, w io.Writer, from Archiver) (int64, error) {
	buffered := bufio.NewWriterSize(w, 64<<10)
	write := func(line archiveLine) error {
		text, err := EncodeJSON(line)
		if err != nil {
			return err
		}
		if _, err := buffered.Write(append(text, '\n')); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
		return nil
	}
	if err := write(archiveLine{Format: ArchiveFormat}); err != nil {
		return 0, err
	}
	var n int64
	err := from.Export(ctx, func(r types.Record) error {
		n++
		return write(newArchiveLine(r))
	})
	if err == nil {
		err = write(archiveLine{End: &archiveEnd{Records: n}})
	}
	if err != nil {
		return n, err
	}
	if err := buffered.Flush(); err != nil {
		return n, fmt.Errorf("write the archive: %w", err)
	}
	return n, nil
}

func newArchiveLine(r types.Record) archiveLine {
	switch {
	case r.Resource != nil:
		return archiveLine{Resource: &archiveResource{r.Resource.Kind, r.Resource.ID, r.Resource.Version, string(r.Resource.Value)}}
	case r.Checkpoint != nil:
		return archiveLine{Checkpoint: &archiveCheckpoint{r.Pipeline, *r.Checkpoint}}
	case r.DeadLetter != nil:
		return archiveLine{DeadLetter: &archiveLetter{r.Pipeline, strictLetter(*r.DeadLetter)}}
	case r.Pause != nil:
		return archiveLine{Pause: r.Pause}
	case r.Delivery != nil:
		return archiveLine{Delivery: &archiveDelivery{r.Pipeline, *r.Delivery}}
	case r.GateHit != nil:
		return archiveLine{GateHit: &archiveHit{r.Pipeline, *r.GateHit}}
	case r.GateMeta != nil:
		meta := archiveMeta{Pipeline: r.Pipeline, Monitor: r.GateMeta.Monitor, Last: r.GateMeta.Meta.LastEmitTS}
		if aux := r.GateMeta.Meta.Aux; aux != nil {
			meta.Aux = &aux
		}
		return archiveLine{GateMeta: &meta}
	}
	return archiveLine{}
}

func (l archiveLine) record() types.Record {
	switch {
	case l.Resource != nil:
		r := l.Resource
		return types.Record{Resource: &types.Resource{Kind: r.Kind, ID: r.ID, Version: r.Version, Value: json.RawMessage(r.Value)}}
	case l.Checkpoint != nil:
		return types.Record{Pipeline: l.Checkpoint.Pipeline, Checkpoint: &l.Checkpoint.Checkpoint}
	case l.DeadLetter != nil:
		letter := types.DeadLetter(l.DeadLetter.Letter)
		return types.Record{Pipeline: l.DeadLetter.Pipeline, DeadLetter: &letter}
	case l.Pause != nil:
		return types.Record{Pause: l.Pause}
	case l.Delivery != nil:
		return types.Record{Pipeline: l.Delivery.Pipeline, Delivery: &l.Delivery.Delivery}
	case l.GateHit != nil:
		return types.Record{Pipeline: l.GateHit.Pipeline, GateHit: &l.GateHit.GateHit}
	case l.GateMeta != nil:
		meta := types.GateMeta{LastEmitTS: l.GateMeta.Last}
		if aux := l.GateMeta.Aux; aux != nil {
			meta.Aux = *aux
		}
		return types.Record{Pipeline: l.GateMeta.Pipeline, GateMeta: &types.MonitorMeta{Monitor: l.GateMeta.Monitor, Meta: meta}}
	}
	return types.Record{}
}

func (l archiveLine) categories() int {
	n := 0
	for _, there := range [...]bool{l.Resource != nil, l.Checkpoint != nil, l.DeadLetter != nil, l.Pause != nil, l.Delivery != nil, l.GateHit != nil, l.GateMeta != nil} {
		if there {
			n++
		}
	}
	return n
}

// ReadArchive reads what [WriteArchive] wrote, record by record. It yields one INVALID_INPUT, which
// names the line, and ends, when the text is no archive, a line breaks a rule, or the end is missing:
// take what came before as good only once the sequence has ended without an error.
func ReadArchive(r io.Reader) iter.Seq2[types.Record, error] {
	return func(yield func(types.Record, error) bool) {
		a := archiveReader{lines: bufio.NewScanner(r)}
		a.lines.Buffer(make([]byte, 0, 64<<10), maxArchiveLine)
		if err := a.header(); err != nil {
			yield(types.Record{}, err)
			return
		}
		for {
			record, end, err := a.next()
			if end && err == nil {
				return
			}
			if !yield(record, err) || err != nil {
				return
			}
		}
	}
}

type archiveReader struct {
	lines   *bufio.Scanner
	line    int64
	records int64
}

func (a *archiveReader) fail(format string, args ...any) error {
	return invalid("storage.import", "line %d of the archive: %w", a.line, fmt.Errorf(format, args...))
}

// read reads one line; io.EOF if there is none.
func (a *archiveReader) read() (archiveLine, error) {
	a.line++
	if !a.lines.Scan() {
		switch err := a.lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return archiveLine{}, a.fail("it is longer than %d bytes", maxArchiveLine)
		case err != nil:
			return archiveLine{}, Errorf(CodeBackendFailed, "storage.import", "line %d of the archive cannot be read: %w", a.line, err)
		}
		return archiveLine{}, io.EOF
	}
	var line archiveLine
	err := DecodeJSON(a.lines.Bytes(), &line)
	if err == nil {
		err = wantedOf.check(a.lines.Bytes(), "")
	}
	if err != nil {
		return archiveLine{}, a.fail("%w", err)
	}
	return line, nil
}

func (a *archiveReader) header() error {
	line, err := a.read()
	if errors.Is(err, io.EOF) {
		return a.fail("there is nothing: give what \"stowage storage export\" wrote")
	}
	if err != nil {
		return err
	}
	if line.Format != ArchiveFormat {
		return a.fail("the format is %q: this build reads %q", truncate(line.Format), ArchiveFormat)
	}
	return nil
}

func (a *archiveReader) next() (record types.Record, end bool, err error) {
	line, err := a.read()
	if errors.Is(err, io.EOF) {
		return types.Record{}, false, a.fail("the archive is cut off after %d records", a.records)
	}
	if err != nil {
		return types.Record{}, false, err
	}
	if line.End != nil {
		return types.Record{}, true, a.end(line)
	}
	if line.Format != "" || line.categories() != 1 {
		return types.Record{}, false, a.fail("it has %d records: one stands in each line", line.categories())
	}
	record, err = CheckRecord("storage.import", line.record())
	if err != nil {
		return types.Record{}, false, a.fail("%w", err)
	}
	a.records++
	return record, false, nil
}

// end checks the last line: nothing else stands in it, nothing follows it, and it counts right.
func (a *archiveReader) end(line archiveLine) error {
	if line.End.Records != a.records {
		return a.fail("the archive was written with %d records and has %d: it was changed", line.End.Records, a.records)
	}
	if line.Format != "" || line.categories() != 0 {
		return a.fail("the end is no record")
	}
	if _, err := a.read(); !errors.Is(err, io.EOF) {
		return a.fail("something follows the end of the archive")
	}
	return nil
}
