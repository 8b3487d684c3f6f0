package ndjson

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// child is what the test binary does as a process of its own, until it is killed.
func child(task string, args []string) error {
	switch task {
	case "follow": // follow PATH STATEDIR FROM: print the cursor and the data of each event
		return followForever(args[0], args[1], args[2])
	case "append": // append PATH FROM: deliver numbered matches, and print each number that was taken
		return appendForever(args[0], args[1])
	case "print": // print to a standard output whose reader goes away
		return printUntilFailure()
	}
	return fmt.Errorf("unknown task %q", task)
}

func followForever(path, stateDir, from string) error {
	var cursor *types.Cursor
	if from != "" {
		primary, err := strconv.ParseUint(from, 10, 64)
		if err != nil {
			return err
		}
		cursor = &types.Cursor{Primary: primary}
	}
	ctx := context.Background()
	s, err := OpenSource(ctx, SourceOptions{Pipeline: "p", Path: path, StateDir: stateDir, Poll: time.Millisecond, Log: slog.New(slog.DiscardHandler)}, cursor)
	if err != nil {
		return err
	}
	for {
		events, err := s.Read(ctx, 7)
		if err != nil {
			return err
		}
		for _, e := range events {
			text := string(e.Data)
			if e.Err != nil {
				text = e.Err.Error()
			}
			if _, err := fmt.Printf("%d %s\n", e.Cursor.Primary, text); err != nil {
				return err
			}
		}
		if err := s.Settle(ctx, events[0].Cursor); err != nil {
			return err
		}
	}
}

func appendForever(path, from string) error {
	n, err := strconv.Atoi(from)
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := OpenSink(ctx, SinkOptions{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	for {
		batch := make([]types.SinkEvent, 1+n%9)
		for i := range batch {
			batch[i] = matchOf(n + i)
		}
		for i, err := range s.DeliverBatch(ctx, batch) {
			if err != nil {
				return err
			}
			if _, err := fmt.Println(n + i); err != nil {
				return err
			}
		}
		n += len(batch)
	}
}

func printUntilFailure() error {
	ctx := context.Background()
	sink, err := StdoutModule().Open(ctx, ports.Env{}, fixture.NoConfig{}, nil)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if err := sink.Deliver(ctx, matchOf(n)); err != nil {
			class := "transient"
			if !ports.IsTransient(err) {
				class = "permanent"
			}
			_, err = fmt.Fprintln(os.Stderr, class, err)
			return err
		}
	}
}

// process is a child that prints lines.
type process struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	pipe   io.Closer
	stderr bytes.Buffer
}

func start(t *testing.T, task string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+task)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out, p.pipe = bufio.NewReader(out), out
	require.NoError(t, p.cmd.Start())
	return p
}

// mustLine is the next whole line of a process that lives.
func (p *process) mustLine(t *testing.T) string {
	t.Helper()
	l, ok := p.line()
	if !ok {
		err := p.cmd.Wait() // the error output is whole then
		require.Fail(t, "the child has ended", "%v: %s", err, p.stderr.String())
	}
	return l
}

// line is the next whole line; false behind the last.
func (p *process) line() (string, bool) {
	text, err := p.out.ReadString('\n')
	return strings.TrimSuffix(text, "\n"), err == nil
}

func (p *process) closeOutput() error { return p.pipe.Close() }

// kill ends the process and returns the whole lines that it had printed.
func (p *process) kill(t *testing.T) []string {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	var lines []string
	for {
		l, ok := p.line()
		if !ok {
			break
		}
		lines = append(lines, l)
	}
	err := p.cmd.Wait()
	require.ErrorContains(t, err, "killed", p.stderr.String())
	return lines
}

func TestASourceThatIsKilledGoesOnBehindItsCursor(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	const rounds, each = 12, 40
	var got []string
	from := ""
	note := func(l string) {
		primary, data, ok := strings.Cut(l, " ")
		require.True(t, ok, l)
		from, got = primary, append(got, data)
	}
	n := 0
	for round := range rounds {
		for range each {
			f.write(fmt.Sprintf("[%d]\n", n))
			n++
		}
		p := start(t, "follow", f.path, f.state, from)
		for range 1 + 5*round%each {
			note(p.mustLine(t))
		}
		if round%3 == 1 {
			f.rotate() // while it reads
			f.write(fmt.Sprintf("[%d]\n", n))
			n++
		}
		for _, l := range p.kill(t) {
			note(l)
		}
		if round%3 == 2 {
			f.rotate() // while nothing runs
		}
	}
	f.write(fmt.Sprintf("[%d]\n", n))
	n++
	p := start(t, "follow", f.path, f.state, from)
	for len(got) < n {
		note(p.mustLine(t))
	}
	require.Empty(t, p.kill(t))
	for i, data := range got {
		require.Equal(t, fmt.Sprintf("[%d]", i), data)
	}
}

func TestASinkThatIsKilledHasKeptWhatItTook(t *testing.T) {
	t.Parallel()
	const torn = `{"type":"mat`
	path := filepath.Join(t.TempDir(), "out.ndjson")
	taken := make(map[int]bool)
	next := 0
	for round := range 10 {
		p := start(t, "append", path, strconv.Itoa(next))
		var lines []string
		for range 1 + 11*round {
			lines = append(lines, p.mustLine(t))
		}
		for _, l := range append(lines, p.kill(t)...) {
			n, err := strconv.Atoi(l)
			require.NoError(t, err)
			taken[n] = true
			next = max(next, n+1)
		}
		if round%3 == 0 { // as a power cut may leave it
			info, err := os.Stat(path)
			require.NoError(t, err)
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = file.WriteString(torn)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			require.Positive(t, info.Size())
		}
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	found := make(map[int]bool)
	for l := range strings.Lines(string(text)) {
		var e types.SinkEvent
		if json.Unmarshal([]byte(l), &e) == nil {
			n, err := strconv.Atoi(string(e.Match.Event))
			require.NoError(t, err)
			require.Equal(t, matchOf(n), e)
			found[n] = true
		} else {
			// A kill may tear a line as well, before that.
			rest := strings.TrimSuffix(strings.TrimSuffix(l, "\n"), torn)
			require.True(t, beginsAMatch(t, rest, next+1000), "%q", l)
		}
	}
	for n := range taken {
		require.True(t, found[n], "the match %d was taken and is not there", n)
	}
}

// beginsAMatch reports whether a text is the beginning of the line of a match below a number.
func beginsAMatch(t *testing.T, text string, below int) bool {
	t.Helper()
	for n := range below {
		line, err := matchOf(n).MarshalJSON()
		require.NoError(t, err)
		if strings.HasPrefix(string(line), text) {
			return true
		}
	}
	return false
}

// matchOf is a match that carries a number.
func matchOf(n int) types.SinkEvent {
	cursor := types.Cursor{Primary: uint64(n)}
	return types.SinkEvent{Match: &types.Match{
		ID: types.NewMatchID("p", "m", "s", strconv.Itoa(n)), Pipeline: "p", Monitor: "m", Cursor: cursor,
		TS: int64(n), Event: json.RawMessage(strconv.Itoa(n)),
	}}
}
