package main

import (
	"fmt"
	"io"
	"strings"
)

// screen draws lines at the top of a terminal, over those that it drew before, and leaves the line below
// them to what somebody types. A terminal that is gone is no reason to stop what is shown on it.
type screen struct {
	w      io.Writer
	size   func() (width, height int)
	prompt string

	width, height int // as of the last drawing
	lines         int
}

// draw shows the lines; those that are too many or too long are cut. With anew it clears the terminal
// before, as it does by itself when the size or the number of lines has changed.
func (s *screen) draw(lines []string, anew bool) {
	width, height := s.size()
	lines = lines[:max(0, min(len(lines), height-2))]
	anew = anew || width != s.width || height != s.height || len(lines) != s.lines
	s.width, s.height, s.lines = width, height, len(lines)

	var text strings.Builder
	if anew {
		text.WriteString("\x1b[2J")
	} else {
		text.WriteString("\x1b7") // where somebody types
	}
	text.WriteString("\x1b[H")
	for _, line := range lines {
		fmt.Fprintf(&text, "%s\x1b[K\r\n", shortened(line, width-1))
	}
	if anew {
		text.WriteString("\x1b[K\r\n" + s.prompt)
	} else {
		text.WriteString("\x1b8")
	}
	_, _ = io.WriteString(s.w, text.String())
}

// bar shows a part of a whole.
func bar(part, whole, width int) string {
	if whole <= 0 {
		return strings.Repeat(" ", width)
	}
	filled := min(part, whole) * width / whole
	return strings.Repeat("=", filled) + strings.Repeat(" ", width-filled)
}

// thousands writes a count with a comma before each three digits.
func thousands[N int | int64 | uint64](n N) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
