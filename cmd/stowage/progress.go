package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

const (
	progressEvery = 100 * time.Millisecond
	progressWidth = 30
)

// progress draws one line on a terminal that shows how far a command is. A nil one draws nothing.
type progress struct {
	w     io.Writer
	now   func() time.Time
	total int64 // bytes, 0 if nobody knows
	drawn time.Time
	shown bool
}

// newProgress returns nil unless f is a terminal.
func newProgress(f *os.File, total int64) *progress {
	if !isTerminal(f) {
		return nil
	}
	return &progress{w: f, now: time.Now, total: total}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// update redraws the line, unless it has been drawn a moment ago.
func (p *progress) update(done int64, text string) {
	if p == nil {
		return
	}
	now := p.now()
	if p.shown && now.Sub(p.drawn) < progressEvery {
		return
	}
	p.drawn, p.shown = now, true
	p.draw(done, text)
}

func (p *progress) draw(done int64, text string) {
	if p.total <= 0 {
		p.print(text)
		return
	}
	done = min(done, p.total)
	filled := int(done * progressWidth / p.total)
	bar := strings.Repeat("=", filled) + strings.Repeat(" ", progressWidth-filled)
	p.print(fmt.Sprintf("[%s] %3d%%  %s", bar, done*100/p.total, text))
}

// print overwrites the line. A terminal that is gone is no reason to stop the work.
func (p *progress) print(text string) { fmt.Fprintf(p.w, "\r\x1b[K%s", text) }

// clear takes the line away, so that something else can be printed.
func (p *progress) clear() {
	if p == nil || !p.shown {
		return
	}
	p.shown = false
	p.print("")
}
