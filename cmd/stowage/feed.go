package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync/atomic"
	"time"
)

// feedEvery is how often lines are written: what is due by then goes in at once.
const feedEvery = 100 * time.Millisecond

// feeder copies the lines of a text to the end of a file, so many a second. It goes on where an earlier
// one stopped, at any byte: what the file has is a part of the text, or the whole with more behind it.
type feeder struct {
	text []byte
	ends []int // the offset behind each line
	path string
	at   int // bytes of the text that are in the file
	fed  atomic.Int64
}

// newFeeder looks at what the file has; it need not be there.
func newFeeder(text []byte, path string) (*feeder, error) {
	f := &feeder{text: text, path: path}
	for offset, c := range text {
		if c == '\n' {
			f.ends = append(f.ends, offset+1)
		}
	}
	had, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read what was fed before: %w", err)
	}
	f.at = min(len(had), len(text))
	if !bytes.Equal(had[:f.at], text[:f.at]) {
		return nil, exitf(exitPrecondition, "%s holds something else than the earthquakes: move it away, or remove the state directory to begin anew", path)
	}
	f.fed.Store(int64(f.line(f.at)))
	return f, nil
}

// line is the number of lines that end at an offset or before it.
func (f *feeder) line(offset int) int {
	return sort.Search(len(f.ends), func(i int) bool { return f.ends[i] > offset })
}

func (f *feeder) total() int { return len(f.ends) }

// count is the number of lines that are in the file.
func (f *feeder) count() int { return int(f.fed.Load()) }

// run feeds the rest, perSecond lines a second; 0 is all at once. It ends with ctx, without an error.
func (f *feeder) run(ctx context.Context, perSecond float64) (err error) {
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("feed the earthquakes: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if perSecond == 0 {
		return f.write(file, f.total())
	}
	ticker := time.NewTicker(feedEvery)
	defer ticker.Stop()
	before, started := f.count(), time.Now()
	for f.count() < f.total() {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			due := before + int(now.Sub(started).Seconds()*perSecond)
			if err := f.write(file, min(due, f.total())); err != nil {
				return err
			}
		}
	}
	return nil
}

// write brings the file to so many lines, with one call.
func (f *feeder) write(file *os.File, lines int) error {
	if lines <= f.count() {
		return nil
	}
	n, err := file.Write(f.text[f.at:f.ends[lines-1]])
	f.at += n
	f.fed.Store(int64(f.line(f.at)))
	if err != nil {
		return fmt.Errorf("feed the earthquakes: %w", err)
	}
	return nil
}
