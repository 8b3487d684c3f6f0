package eventlog

import (
	"bytes"
	"errors"
	"io"
)

const readAhead = 256 << 10

// lines reads the lines of one file of a log. Places are offsets in the log, not in the file.
type lines struct {
	file  io.ReaderAt
	start uint64 // where the file begins
	pos   uint64 // where the next line begins
	limit uint64 // where the log leaves the file, or ends so far; it may be raised

	space   []byte
	ahead   []byte // what has been read and not returned: from pos on, or behind what was dropped
	dropped uint64 // bytes from pos on that belong to a line which is too long to be one
	looked  int    // how much of ahead has no end of a line
}

// line is one line, or what stands where one should be.
type line struct {
	offset, end uint64
	text        []byte // without its end; valid until the next call
	fault       fault
}

type fault int

const (
	whole   fault = iota // it has an end; whether its sum is right is for others to say
	tooLong              // it has an end, and is no line of a log
	cut                  // it has no end
	missing              // the file is shorter than it was
)

// reset goes to a place in a file.
func (l *lines) reset(file io.ReaderAt, start, pos, limit uint64) {
	*l = lines{file: file, start: start, pos: pos, limit: limit, space: l.space}
}

// next returns the next line, if there is one before the limit.
func (l *lines) next() (line, bool, error) {
	for {
		if i := bytes.IndexByte(l.ahead[l.looked:], '\n'); i >= 0 {
			return l.take(l.looked + i), true, nil
		}
		l.looked = len(l.ahead)
		if len(l.ahead) > maxLine {
			l.dropped += uint64(len(l.ahead))
			l.ahead, l.looked = nil, 0
		}
		if at := l.pos + l.dropped + uint64(len(l.ahead)); at >= l.limit {
			if at == l.pos {
				return line{}, false, nil
			}
			return l.giveUp(cut), true, nil
		}
		n, err := l.fill()
		if n == 0 && errors.Is(err, io.EOF) {
			return l.giveUp(missing), true, nil
		}
		if n == 0 && err != nil {
			return line{}, false, err
		}
	}
}

// take returns the line whose end is at i.
func (l *lines) take(i int) line {
	found := line{offset: l.pos, end: l.pos + l.dropped + uint64(i) + 1, text: l.ahead[:i]}
	if l.dropped > 0 {
		found.fault, found.text = tooLong, nil
	}
	l.pos, l.dropped, l.looked, l.ahead = found.end, 0, 0, l.ahead[i+1:]
	return found
}

// giveUp returns all that is left as one line.
func (l *lines) giveUp(why fault) line {
	found := line{offset: l.pos, end: l.limit, fault: why}
	l.pos, l.dropped, l.looked, l.ahead = l.limit, 0, 0, nil
	return found
}

func (l *lines) fill() (int, error) {
	if len(l.space) == 0 {
		l.space = make([]byte, readAhead)
	}
	kept := len(l.ahead)
	if kept > len(l.space)/2 {
		l.space = make([]byte, 2*len(l.space))
	}
	copy(l.space, l.ahead) // to the front, also where they overlap
	at := l.pos + l.dropped + uint64(kept)
	room := l.space[kept:]
	if left := l.limit - at; uint64(len(room)) > left {
		room = room[:left]
	}
	n, err := l.file.ReadAt(room, int64(at-l.start))
	l.ahead = l.space[:kept+n]
	return n, err
}
