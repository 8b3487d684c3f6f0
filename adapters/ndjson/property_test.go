package ndjson

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/types"
)

// A file is written, rotated in both ways, and followed by sources that are closed and killed at any
// point: each line comes exactly once and in order, at the same cursor again, when each source begins
// behind what was settled.
func TestEachLineComesOnceThroughRotationsAndRestarts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := newFeed(t)
		defer func() {
			f.t = t
			f.close()
			require.NoError(t, os.RemoveAll(f.dir))
		}()
		f.t, f.log = rt, slog.New(slog.DiscardHandler)
		m := &life{feed: f, rt: rt, cursors: make(map[int]types.Cursor), settled: -1}
		m.append()
		f.open(nil)
		m.read(0) // nothing is known of a file before its first line was read
		rt.Repeat(map[string]func(*rapid.T){
			"append":        func(*rapid.T) { m.append() },
			"append part":   func(*rapid.T) { m.appendPart() },
			"read":          func(*rapid.T) { m.read(1) },
			"settle":        func(*rapid.T) { m.settle() },
			"restart":       func(*rapid.T) { m.restart(rapid.Bool().Draw(rt, "killed")) },
			"rename":        func(*rapid.T) { m.rename() },
			"copy":          func(*rapid.T) { m.copyTruncate() },
			"rename, rest":  func(*rapid.T) { m.rename(); m.restart(rapid.Bool().Draw(rt, "killed")) },
			"big lines":     func(*rapid.T) { m.appendBig() },
			"settle, start": func(*rapid.T) { m.read(1); m.settle(); m.restart(false) },
		})
		m.finish()
	})
}

type life struct {
	*feed
	rt      *rapid.T
	lines   []string // that were written, and are whole or final
	part    string   // that was written and is not
	files   int      // renamed since the last read
	next    int      // of lines, to come out of this source
	settled int      // of lines; -1: none
	cursors map[int]types.Cursor
	n       int
}

func (m *life) line() string {
	m.n++
	return fmt.Sprintf("[%d]", m.n)
}

func (m *life) append() {
	var text strings.Builder
	for range rapid.IntRange(1, 5).Draw(m.rt, "lines") {
		if m.part != "" {
			text.WriteString(strings.TrimPrefix(m.whole(), m.part))
			m.lines, m.part = append(m.lines, m.whole()), ""
		} else {
			m.lines = append(m.lines, m.line())
			text.WriteString(m.lines[len(m.lines)-1])
		}
		text.WriteString("\n")
	}
	m.write(text.String())
}

// whole is the line that a part belongs to.
func (m *life) whole() string { return fmt.Sprintf("[%d]", m.n) }

func (m *life) appendPart() {
	if m.part != "" {
		return
	}
	l := m.line()
	m.part = l[:rapid.IntRange(1, len(l)-1).Draw(m.rt, "part")]
	m.write(m.part)
}

func (m *life) appendBig() {
	m.append()
	if m.part == "" {
		l := fmt.Sprintf(`"%s"`, strings.Repeat(fmt.Sprint(m.line()), 200))
		m.lines = append(m.lines, l)
		m.write(l + "\n")
	}
}

// cut makes a part final, as a rotation does.
func (m *life) cut() {
	if m.part != "" {
		m.lines = append(m.lines, "bad "+m.part)
		m.part = ""
	}
}

func (m *life) rename() {
	if m.files > 5 {
		return
	}
	m.files++
	m.cut()
	m.rotate()
	m.append()
}

// copyTruncate rotates by copying what the source has seen to the end: what comes and goes between two
// looks it cannot know.
func (m *life) copyTruncate() {
	m.read(3 + 2*m.files)
	if rapid.Bool().Draw(m.rt, "while nothing runs") {
		m.close()
		defer m.start()
	}
	if rapid.Bool().Draw(m.rt, "unseen lines") {
		m.append()
	}
	m.cut()
	for n := 30; n > 0; n-- {
		_ = os.Rename(fmt.Sprintf("%s.%d", m.path, n), fmt.Sprintf("%s.%d", m.path, n+1))
	}
	m.feed.copyTruncate(m.path + ".1")
	m.append()
}

func (m *life) read(polls int) {
	for _, e := range m.feed.read(polls) {
		require.Less(m.rt, m.next, len(m.lines), "an event that nobody wrote: %v", e)
		want := m.lines[m.next]
		if strings.HasPrefix(want, "bad ") {
			require.Error(m.rt, e.Err)
			want = fmt.Sprintf(`{"line":"%s","offset":`, want[len("bad "):])
			require.True(m.rt, strings.HasPrefix(string(e.Data), want), "%s is not like %s", e.Data, want)
		} else {
			require.NoError(m.rt, e.Err)
			require.Equal(m.rt, want, string(e.Data))
		}
		if before, ok := m.cursors[m.next]; ok {
			require.Equal(m.rt, before, e.Cursor, "a line that comes again bears its cursor again")
		}
		m.cursors[m.next] = e.Cursor
		m.next++
	}
	if polls > 2*m.files {
		m.files = 0
	}
}

func (m *life) settle() {
	if m.next-1 <= m.settled {
		return
	}
	m.settled = rapid.IntRange(m.settled+1, m.next-1).Draw(m.rt, "settled")
	require.NoError(m.rt, m.s.Settle(m.rt.Context(), m.cursors[m.settled]))
}

func (m *life) restart(killed bool) {
	if killed {
		m.crash()
	} else {
		m.close()
	}
	m.start()
}

func (m *life) start() {
	var from *types.Cursor
	if m.settled >= 0 {
		cursor := m.cursors[m.settled]
		from = &cursor
	}
	m.open(from)
	m.next = m.settled + 1
}

func (m *life) finish() {
	m.append()
	m.read(200)
	require.Equal(m.rt, len(m.lines), m.next, "lines that came out")
	m.restart(true)
	m.read(200)
	require.Equal(m.rt, len(m.lines), m.next, "lines that came out again")
}
