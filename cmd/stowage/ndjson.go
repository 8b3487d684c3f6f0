package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	// maxLine is how long a line may be before it is passed over unread: well above the largest
	// payload with generous white space.
	maxLine = 1 << 20
	// maxListed is how many rejected lines a report lists; it counts all of them.
	maxListed = 1000
)

// line is one line of a file.
type line struct {
	number  int
	text    []byte // without the line end
	tooLong bool   // the text is not kept then
}

// lineReader reads lines without ever holding more than one of a bounded length.
type lineReader struct {
	r     *bufio.Reader
	eager bool // the input is a pipe or a terminal: a line that is there should not wait for more
	count int
	bytes int64
}

func newLineReader(ctx context.Context, f *os.File) *lineReader {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return &lineReader{r: bufio.NewReaderSize(f, 64<<10)}
	}
	return &lineReader{r: bufio.NewReaderSize(stoppable(ctx, f), 64<<10), eager: true}
}

// next returns the next line, or io.EOF. The text is valid until the call after.
func (l *lineReader) next() (line, error) {
	var text []byte
	got, tooLong := false, false
	for {
		part, err := l.r.ReadSlice('\n')
		got = got || len(part) > 0
		l.bytes += int64(len(part))
		if !tooLong {
			tooLong = len(text)+len(part) > maxLine
			text = append(text, part...)
		}
		if tooLong {
			text = nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return line{}, err
		case err != nil && !got:
			return line{}, io.EOF
		}
		l.count++
		if l.count == 1 {
			if bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) {
				return line{}, ports.Errorf(ports.CodeInvalidInput, "queue.send", "the input is UTF-16: convert it to UTF-8, for instance with iconv")
			}
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		return line{l.count, bytes.TrimRight(text, "\r\n"), tooLong}, nil
	}
}

// ready reports whether a whole line can be had without waiting for the other end of a pipe.
func (l *lineReader) ready() bool {
	if !l.eager {
		return true
	}
	buffered, err := l.r.Peek(l.r.Buffered())
	return err == nil && bytes.IndexByte(buffered, '\n') >= 0
}

// sendReport says what became of the lines of a file. Its JSON is what -o json prints.
type sendReport struct {
	Sent     int `json:"sent"`
	Rejected int `json:"rejected"`
	Unknown  int `json:"unknown"`
	// RejectedLines lists the first thousand.
	RejectedLines []rejectedLine `json:"rejectedLines"`
	// UnknownLines are the first and the last line of the batch of which nobody knows.
	UnknownLines *lineRange `json:"unknownLines,omitempty"`
	// StoppedAt is the first line that was not tried, after a failure; 0 when all were.
	StoppedAt int `json:"stoppedAt,omitempty"`
	// NotTried counts the messages from StoppedAt on, where the input is a file.
	NotTried int `json:"notTried"`
}

type rejectedLine struct {
	Line    int        `json:"line"`
	Code    ports.Code `json:"code"`
	Message string     `json:"message"`
}

type lineRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// lineSender sends the lines of a file, each as one JSON message, in their order: the next batch is
// sent once the outcome of the one before is known.
type lineSender struct {
	queue    ports.Queue
	lines    *lineReader
	from     int                              // the first line to send
	rejected func(rejectedLine)               // told as it happens
	moved    func(bytes int64, sent, bad int) // told after each batch
	report   sendReport
	batch    []types.Payload
	numbers  []int // the line of each payload of the batch
}

// run sends until the end of the input, the first failure, or the end of ctx, which lets the batch
// that is under way finish, so that its outcome is known.
func (s *lineSender) run(ctx context.Context) (sendReport, error) {
	s.report.RejectedLines = []rejectedLine{}
	err := s.sendAll(ctx)
	if err != nil {
		s.countRest()
	}
	return s.report, err
}

func (s *lineSender) sendAll(ctx context.Context) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		l, err := s.lines.next()
		if errors.Is(err, io.EOF) {
			return s.flush(ctx)
		}
		if err != nil {
			// What was read before is good, and goes in before the failure is reported.
			return errors.Join(s.flush(ctx), err)
		}
		s.add(l)
		if len(s.batch) == ports.MaxBatch || !s.lines.ready() {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// add puts a line into the batch, unless there is nothing in it, or nothing good.
func (s *lineSender) add(l line) {
	if s.skips(l) {
		return
	}
	if l.tooLong {
		s.reject(l.number, ports.Errorf(ports.CodeInvalidInput, "queue.send", "the line has more than %d bytes: a payload has at most %d", maxLine, ports.MaxPayloadBytes))
		return
	}
	payload, err := ports.CheckPayload("queue.send", types.JSON(l.text))
	if err != nil {
		s.reject(l.number, err)
		return
	}
	s.batch = append(s.batch, payload)
	s.numbers = append(s.numbers, l.number)
}

// skips reports whether a line is before the first one to send, or blank.
func (s *lineSender) skips(l line) bool {
	return l.number < s.from || !l.tooLong && len(bytes.TrimSpace(l.text)) == 0
}

func (s *lineSender) reject(number int, err error) {
	r := rejectedLine{Line: number, Code: ports.CodeInvalidInput, Message: err.Error()}
	var e *ports.Error
	if errors.As(err, &e) {
		r.Code, r.Message = e.Code, e.Message
	}
	s.report.Rejected++
	if len(s.report.RejectedLines) < maxListed {
		s.report.RejectedLines = append(s.report.RejectedLines, r)
	}
	s.rejected(r)
}

func (s *lineSender) flush(ctx context.Context) error {
	if len(s.batch) == 0 {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	// Once begun, a batch is seen to its end: the client bounds how long that takes.
	outcomes, err := s.queue.SendBatch(context.WithoutCancel(ctx), s.batch)
	if err != nil && !isUnknown(err) {
		return err
	}
	for i, number := range s.numbers {
		status, why := types.StatusUnknown, err
		if err == nil && i < len(outcomes) {
			status, why = outcomes[i].Status, outcomes[i].Err
		}
		switch status {
		case types.StatusSent:
			s.report.Sent++
		case types.StatusRejected:
			s.reject(number, why)
		default:
			s.unknown(number)
			if err == nil {
				err = why
			}
		}
	}
	s.batch, s.numbers = s.batch[:0], s.numbers[:0]
	if s.report.Unknown > 0 && err == nil {
		err = ports.Errorf(ports.CodeOutcomeUnknown, "queue.send", "the answer lacked the outcomes of some messages")
	}
	s.moved(s.lines.bytes, s.report.Sent, s.report.Rejected)
	return err
}

func (s *lineSender) unknown(number int) {
	s.report.Unknown++
	if s.report.UnknownLines == nil {
		s.report.UnknownLines = &lineRange{number, number}
	}
	s.report.UnknownLines.Last = number
}

// countRest says where a later run has to go on, and, if the input is a file, how much is left.
func (s *lineSender) countRest() {
	s.report.NotTried = len(s.batch)
	if len(s.numbers) > 0 {
		s.report.StoppedAt = s.numbers[0]
	}
	for !s.lines.eager {
		l, err := s.lines.next()
		if err != nil {
			return // the end, or a failure that has been met before
		}
		if s.skips(l) {
			continue
		}
		s.report.NotTried++
		if s.report.StoppedAt == 0 {
			s.report.StoppedAt = l.number
		}
	}
}

func isUnknown(err error) bool { return errors.Is(err, ports.ErrOutcomeUnknown) }

// sendExit is the exit code of a report and the error that ended it.
func sendExit(r sendReport, err error) int {
	switch {
	case r.Unknown > 0:
		return exitUnknown
	case err != nil && r.Sent > 0:
		return exitPartly
	case err != nil:
		return exitCode(&ranError{err})
	case r.Rejected > 0:
		return exitPartly
	}
	return exitDone
}

// summary is the report in words, one line each.
func (r sendReport) summary() []string {
	lines := []string{fmt.Sprintf("sent %d, rejected %d, unknown %d", r.Sent, r.Rejected, r.Unknown)}
	if r.UnknownLines != nil {
		lines = append(lines, fmt.Sprintf("unknown: lines %d to %d may or may not be in the queue", r.UnknownLines.First, r.UnknownLines.Last))
	}
	if r.StoppedAt > 0 {
		lines = append(lines, fmt.Sprintf("not tried: %d messages from line %d on; go on with --from-line %d", r.NotTried, r.StoppedAt, r.StoppedAt))
	}
	return lines
}
