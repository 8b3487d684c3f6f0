package ndjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/stowage-go/stowage/ports"
)

const (
	// maxLineBytes is the longest line that is taken, without its end.
	maxLineBytes = ports.MaxJSONBytes
	// maxShownBytes is how much of a bad line its event holds.
	maxShownBytes = 64 << 10

	windowBytes = 256 << 10
	// crlf is the most that ends a line.
	crlf = 2
)

var errTooLong = fmt.Errorf("a line has at most %d bytes", maxLineBytes)

// line is one line of a file, without its end.
type line struct {
	start, end int64 // offsets in the file, end behind the line's end
	length     int64
	// text is the line; of one that is too long, its first bytes. It is good until the window moves on.
	text []byte
	// more says that text is not all.
	more bool
}

// byteOrderMark is what some editors and exports put at the beginning of a text in UTF-8 (RFC 8259 lets a
// reader pass over it).
var byteOrderMark = []byte("\ufeff")

// unmark takes the byte order mark from the first line of a file.
func (l *line) unmark() {
	if l.start == 0 && bytes.HasPrefix(l.text, byteOrderMark) {
		l.text = l.text[len(byteOrderMark):]
		l.length -= int64(len(byteOrderMark))
	}
}

// blank reports whether there is nothing in the line.
func (l *line) blank() bool {
	return !l.more && len(bytes.TrimLeft(l.text, " \t\r")) == 0
}

// json is the value of the line, compact, as a copy.
func (l *line) json() (json.RawMessage, error) {
	if l.length > maxLineBytes {
		return nil, errTooLong
	}
	text, err := ports.CompactJSON(string(l.text))
	if err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

// describe is what a line that is no event becomes: the text where it is short and valid UTF-8, else its
// beginning in base64.
func (l *line) describe() json.RawMessage {
	var value any
	if !l.more && len(l.text) <= maxShownBytes && utf8.Valid(l.text) {
		value = struct {
			Line   string `json:"line"`
			Offset int64  `json:"offset"`
		}{string(l.text), l.start}
	} else {
		value = struct {
			Offset int64  `json:"offset"`
			Bytes  int64  `json:"bytes"`
			Base64 string `json:"line_base64"`
		}{l.start, l.length, base64.StdEncoding.EncodeToString(l.text[:min(len(l.text), maxShownBytes)])}
	}
	text, err := ports.EncodeJSON(value)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return text
}

// lineState says what [window.next] found.
type lineState int

const (
	lineMissing lineState = iota // no line is whole: read on
	lineWhole
	linePassed // something was passed over: ask again
)

// window is what was read of a file and not yet taken. It grows to hold a line of the greatest length,
// and no further: of a longer one it keeps the beginning.
type window struct {
	buf     []byte
	r, w    int   // unread is buf[r:w]
	scanned int   // so much of it has no line end
	at      int64 // offset in the file of buf[r]

	skip bool   // the line at the beginning is passed over
	rest bool   // the file ends here: what is left is a line
	long *line  // a line that is too long, so far
	tail byte   // the last byte of it
	kept []byte // its beginning
}

// reset begins anew at an offset.
func (w *window) reset(offset int64, skip bool) {
	*w = window{buf: w.buf, at: offset, skip: skip}
}

// offset is where the first line that was not taken starts.
func (w *window) offset() int64 {
	if w.long != nil {
		return w.long.start
	}
	return w.at
}

// skipping reports whether the line there is passed over.
func (w *window) skipping() bool { return w.skip }

// pending reports whether something was read that is no whole line.
func (w *window) pending() bool { return w.r < w.w || w.long != nil }

// final says that nothing follows.
func (w *window) final() { w.rest = true }

// room is where to read to.
func (w *window) room() []byte {
	if w.r == w.w {
		w.r, w.w = 0, 0
		if len(w.buf) != windowBytes {
			w.buf = make([]byte, windowBytes)
		}
	}
	if w.r > 0 {
		w.w = copy(w.buf, w.buf[w.r:w.w])
		w.r = 0
	}
	if w.w == len(w.buf) {
		w.buf = append(w.buf, make([]byte, len(w.buf))...)
	}
	return w.buf[w.w:]
}

// add says that n bytes were read.
func (w *window) add(n int) { w.w += n }

// atMost is how many lines there can be, for the size of a slice.
func (w *window) atMost() int {
	const shortLine = 128
	return (w.w - w.r) / shortLine
}

// next takes the next line.
func (w *window) next() (line, lineState) {
	unread := w.buf[w.r:w.w]
	ends := bytes.IndexByte(unread[w.scanned:], '\n')
	switch {
	case ends >= 0:
		ends += w.scanned
		return w.take(unread[:ends], ends+1)
	case w.rest:
		w.rest = false
		return w.take(unread, len(unread))
	case w.skip:
		w.drop(len(unread))
	case w.long != nil || len(unread) > maxLineBytes+crlf:
		w.swallow(unread)
	default:
		w.scanned = len(unread)
	}
	return line{}, lineMissing
}

func (w *window) drop(n int) {
	w.r += n
	w.at += int64(n)
	w.scanned = 0
}

// swallow takes a part of a line that is too long.
func (w *window) swallow(part []byte) {
	if w.long == nil {
		w.long = &line{start: w.at, more: true}
		w.kept = bytes.Clone(part[:maxShownBytes])
	}
	if len(part) > 0 {
		w.tail = part[len(part)-1]
	}
	w.long.length += int64(len(part))
	w.drop(len(part))
}

// take takes a line, and size bytes with its end.
func (w *window) take(text []byte, size int) (line, lineState) {
	if w.skip {
		w.skip = false
		w.drop(size)
		return line{}, linePassed
	}
	if w.long != nil {
		w.swallow(text)
		w.drop(size - len(text))
		l := *w.long
		l.text, l.end = w.kept, w.at
		if w.tail == '\r' {
			l.length--
		}
		w.long, w.kept = nil, nil
		return l, lineWhole
	}
	l := line{start: w.at, text: bytes.TrimSuffix(text, []byte("\r"))}
	l.length = int64(len(l.text))
	w.drop(size)
	l.end = w.at
	return l, lineWhole
}
