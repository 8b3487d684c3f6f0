package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/stowage-go/stowage/types"
)

const (
	waitFor = time.Minute
	tick    = 10 * time.Millisecond
)

func exampleSnapshot() snapshot {
	s := snapshot{
		elapsed: 83 * time.Second, fed: 1200, total: 1707, read: 1198, saved: 1190, letters: 2, pid: 4711, receiver: "127.0.0.1:9000",
		status: types.PipelineStatus{
			ID: quickstartPipeline, State: types.PipelineRunning, LagSeconds: 0.34,
			Monitors: []types.MonitorStatus{{ID: "strong", Matches: 61}, {ID: "swarm", Matches: 1302, Emissions: 12, Paused: true}},
			Sinks:    []types.SinkStatus{{ID: "alerts", Delivered: 59, DeadLettered: 2, Retries: 6}, {ID: "swarms", Delivered: 12}},
		},
	}
	s.received.taken, s.received.again = 60, 1
	event := []byte(`{"time":1517364031800,"mag":5.30,"place":"50km NNW of \u001b[31mSangiang"}`)
	s.received.last = []receivedItem{{ID: "a", Monitor: "strong", Event: event}, {ID: "a", Monitor: "strong", Event: event, Again: true, Hits: 3}}
	return s
}

func TestTheScreenFits(t *testing.T) {
	t.Parallel()
	guide := []string{"one", "two", "three"}
	s := exampleSnapshot()
	all := strings.Join(s.screen(guide, 60), "\n")
	for _, want := range []string{
		"1,200 of 1,707 fed", "running: read 1,198, checkpoint at 1,190, lag 300ms", "swarm              1,302         12       0  paused",
		"alerts                59        0        6           0              2", "dead letters now: 2", "up (http://127.0.0.1:9000, pid 4711), took 60, 1 of them twice",
		`strong  2018-01-31 02:00:31  M 5.30 50km NNW of \x1b[31mSangiang`, "(3 hits)  (again)", "(or: kill 4711)", "    two",
	} {
		assert.Contains(t, all, want)
	}
	for height := range 60 {
		lines := s.screen(guide, height)
		assert.LessOrEqual(t, len(lines), height)
		if height >= 13 {
			assert.Contains(t, strings.Join(lines, "\n"), "r Enter: stop/start")
		}
	}
	s.pid, s.note = 0, "a note"
	all = strings.Join(s.screen(guide, 60), "\n")
	assert.Contains(t, all, "receiver: stopped, took")
	assert.Contains(t, all, "a note")
	short := exampleSnapshot().screen(guide, 22) // of a terminal of 24 lines
	assert.NotContains(t, strings.Join(short, "\n"), "last deliveries", "they go first")
	assert.Contains(t, strings.Join(short, "\n"), "    three")
	for _, line := range short {
		assert.Less(t, utf8.RuneCountInString(line), 80)
	}
}

// On a terminal of 80 by 24 all that there is to try is shown, and nothing is cut, also where other ports
// make it longer, something is paused, and an earlier run has read a part.
func TestTheScreenFitsASmallTerminal(t *testing.T) {
	t.Parallel()
	q := quickstart{stateDir: "stowage-data/quickstart", server: "http://127.0.0.1:18000"}
	guide := q.guide()
	assert.Equal(t, "export STOWAGE_STATE_DIR=stowage-data/quickstart", guide[0])
	assert.Equal(t, "export STOWAGE_SERVER=http://127.0.0.1:18000", guide[1])
	s := exampleSnapshot()
	s.before = 1000
	s.status.Sinks[0].Paused = true
	lines := s.screen(guide, 22)
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"running: read 198 (1,000 before), checkpoint at 1,190, lag 300ms", "errors    (all counts are of this run)",
		"alerts                59        0        6           0              2  paused\n", "r Enter: stop/start",
	} {
		assert.Contains(t, text, want)
	}
	assert.Contains(t, s.plain(), "read 198 in this run (1,000 before), checkpoint 1,190")
	guideShown := 0
	for _, line := range lines {
		for _, try := range guide {
			if line == "    "+try {
				guideShown++
			}
		}
		if !strings.Contains(line, "# ") { // the program of a test has a long name
			assert.Less(t, utf8.RuneCountInString(line), 80, line)
		}
	}
	assert.Equal(t, len(guide), guideShown, text)
}

func TestAScreenIsDrawnInPlace(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	width, height := 20, 6
	s := screen{w: &out, size: func() (int, int) { return width, height }, prompt: "> "}
	drawn := func(lines []string, clear bool) string {
		out.Reset()
		s.draw(lines, clear)
		return out.String()
	}
	lines := []string{"a", strings.Repeat("é", 30), "c", "d", "cut off"}
	assert.Equal(t, "\x1b[2J\x1b[Ha\x1b[K\r\n"+strings.Repeat("é", 18)+"…\x1b[K\r\nc\x1b[K\r\nd\x1b[K\r\n\x1b[K\r\n> ", drawn(lines, false))
	assert.Equal(t, "\x1b7\x1b[Hx\x1b[K\r\ny\x1b[K\r\nc\x1b[K\r\nd\x1b[K\r\n\x1b8", drawn([]string{"x", "y", "c", "d"}, false))
	assert.True(t, strings.HasPrefix(drawn(lines, true), "\x1b[2J"))
	assert.True(t, strings.HasPrefix(drawn(lines[:3], false), "\x1b[2J"), "fewer lines")
	width = 10
	assert.True(t, strings.HasPrefix(drawn(lines[:3], false), "\x1b[2J"), "another terminal")
	width, height = 1, 1
	assert.NotContains(t, drawn(lines, false), "a")
	width, height = 0, 0
	assert.NotPanics(t, func() { drawn(lines, false) })
}

func TestCountsAreWrittenForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1707: "1,707", 123456: "123,456", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		assert.Equal(t, want, thousands(n))
	}
	assert.Equal(t, "abc", shortened("abc", 3))
	assert.Equal(t, "ab…", shortened("abcd", 3))
	assert.Equal(t, 1, utf8.RuneCountInString(shortened("abcd", 1)))
	assert.Equal(t, "=====     ", bar(1, 2, 10))
	assert.Equal(t, "==========", bar(3, 2, 10))
	assert.Equal(t, "          ", bar(0, 0, 10))
}
