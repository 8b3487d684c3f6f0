package eventlog

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/stowage-go/stowage/ports"
)

// format is the marker in the first line of each file.
const (
	formatName = "eventlog."
	format     = formatName + "v1"
)

const (
	sumDigits = 8
	lifeBytes = 8

	// none stands where there is no trace context, and no record before.
	none = "-"

	maxTraceparentBytes = 256

	// maxLine is more than any line of a log has.
	maxLine = ports.MaxJSONBytes + maxTraceparentBytes + 128
	// headerRoom is more than any first line of a file has.
	headerRoom = 96
)

// firstHeaderBytes is the length of the first line of a log without a past.
var firstHeaderBytes = uint64(len(appendHeader(nil, header{life: strings.Repeat("0", 2*lifeBytes)}))) //nolint:gochecknoglobals // a length

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a table

// header is the first line of a file:
//
//	<sum> eventlog.v1 <life> <prev>
type header struct {
	// life tells this log from any other one that had or will have its name, 16 hexadecimal digits.
	life string
	// prev is the offset of the last line before this file, where there is one.
	prev   uint64
	linked bool
}

// record is any other line:
//
//	<sum> <rest> <ts> <traceparent> <event>
type record struct {
	// rest is how many further records were accepted with this one, in one call.
	rest        uint64
	ts          int64
	traceparent string
	event       []byte
}

func appendHeader(line []byte, h header) []byte {
	from := len(line)
	line = append(append(line, "........ "+format+" "...), h.life...)
	line = append(line, ' ')
	if h.linked {
		line = strconv.AppendUint(line, h.prev, 10)
	} else {
		line = append(line, none...)
	}
	return seal(line, from)
}

func appendRecord(line []byte, r record) []byte {
	from := len(line)
	line = strconv.AppendUint(append(line, "........ "...), r.rest, 10)
	line = append(strconv.AppendInt(append(line, ' '), r.ts, 10), ' ')
	if r.traceparent == "" {
		r.traceparent = none
	}
	line = append(append(append(line, r.traceparent...), ' '), r.event...)
	return seal(line, from)
}

// seal puts the sum in front of the line that begins at from, and ends it.
func seal(line []byte, from int) []byte {
	sum := crc32.Checksum(line[from+sumDigits+1:], castagnoli)
	hex.Encode(line[from:], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return append(line, '\n')
}

// unseal returns what stands behind the sum of a line without its end, if that is right.
func unseal(line []byte) ([]byte, bool) {
	if len(line) <= sumDigits || line[sumDigits] != ' ' {
		return nil, false
	}
	var want [sumDigits / 2]byte
	if _, err := hex.Decode(want[:], line[:sumDigits]); err != nil || bytes.ContainsAny(line[:sumDigits], "ABCDEF") {
		return nil, false
	}
	text := line[sumDigits+1:]
	sum := crc32.Checksum(text, castagnoli)
	return text, want == [...]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}
}

// parseHeader returns the header in a first line. An error means that the line is whole, but of another
// format.
func parseHeader(line []byte) (h header, ok bool, err error) {
	text, ok := unseal(line)
	if !ok || !bytes.HasPrefix(text, []byte(formatName)) {
		return header{}, false, nil
	}
	fields := bytes.Split(text, []byte(" "))
	if string(fields[0]) != format {
		return header{}, false, fmt.Errorf("its format is %q, and this build knows %q", fields[0], format)
	}
	if len(fields) != 3 || len(fields[1]) != 2*lifeBytes {
		return header{}, false, nil
	}
	h.life = string(fields[1])
	if string(fields[2]) == none {
		return h, true, nil
	}
	h.prev, err = strconv.ParseUint(string(fields[2]), 10, 63)
	h.linked = err == nil
	return h, h.linked, nil
}

// parseRecord returns the record in a line. Its event is a part of the line.
func parseRecord(line []byte) (r record, ok bool) {
	text, ok := unseal(line)
	if !ok {
		return record{}, false
	}
	var fields [3][]byte
	for i := range fields {
		if fields[i], text, ok = bytes.Cut(text, []byte(" ")); !ok {
			return record{}, false
		}
	}
	var err error
	if r.rest, err = strconv.ParseUint(string(fields[0]), 10, 63); err != nil {
		return record{}, false
	}
	if r.ts, err = strconv.ParseInt(string(fields[1]), 10, 64); err != nil {
		return record{}, false
	}
	if string(fields[2]) != none {
		r.traceparent = string(fields[2])
	}
	r.event = text
	return r, len(text) > 0
}
