package ndjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func TestCursorsAreByteOffsets(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("{\"a\" : 1}\n\n  \r\n[2]\r\n\"three\"\n")
	f.open(nil)
	events := f.read(0)
	f.want(events, `{"a":1}`, `[2]`, `"three"`)
	require.Equal(t, []uint64{0, 15, 20}, primaries(events))
	for _, e := range events {
		require.Zero(t, e.Cursor.Secondary)
		require.Zero(t, e.Index)
		require.Equal(t, fixture.Epoch().UnixMilli(), e.TS, "the time of the reading")
	}
}

func TestALineThatIsCutOffWaitsForItsRestAtEveryByte(t *testing.T) {
	t.Parallel()
	const text = "{\"a\": \"ä\"}\r\n\n[1, 2]\n"
	for cut := range len(text) {
		f := newFeed(t)
		f.write(text[:cut])
		f.open(nil)
		first := f.read(2)
		f.write(text[cut:])
		f.want(append(first, f.read(1)...), `{"a":"ä"}`, `[1,2]`)
		f.close()
	}
	f := newFeed(t)
	f.write("")
	f.open(nil)
	var all []types.Event
	for i := range len(text) {
		f.write(text[i : i+1])
		all = append(all, f.read(1)...)
	}
	f.want(all, `{"a":"ä"}`, `[1,2]`)
	require.Equal(t, []uint64{0, 14}, primaries(all))
}

func TestABadLineIsReportedAndStopsNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ line, says string }{
		"no JSON":           {`{"secret":`, "no JSON value"},
		"two values":        {`1 2`, "something follows"},
		"duplicate members": {`{"secret":1,"secret":2}`, "stands twice"},
		"invalid UTF-8":     {"\"secret\xff\"", "valid UTF-8"},
		"a NUL":             {"\x00", "no JSON value"},
		"long and no JSON":  {strings.Repeat("secret", maxShownBytes), "no JSON value"},
		"above 1 MiB":       {`"` + strings.Repeat("s", maxLineBytes-1) + `"`, "at most"},
		"far above 1 MiB":   {`"` + strings.Repeat("s", 5*maxLineBytes) + `"`, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFeed(t)
			f.write("1\n" + test.line + "\r\n2\n")
			f.open(nil)
			events := f.read(0)
			f.want(events, "1", "error: "+test.says, "2")
			bad := events[1]
			require.EqualValues(t, 2, bad.Cursor.Primary)
			require.ErrorContains(t, bad.Err, f.path)
			require.ErrorContains(t, bad.Err, fmt.Sprintf("byte offset 2, of %d bytes", len(test.line)))
			require.NotContains(t, bad.Err.Error(), "secret")
			compact, err := ports.CompactJSON(string(bad.Data))
			require.NoError(t, err)
			require.Equal(t, compact, string(bad.Data))
			var data struct {
				Line   *string `json:"line"`
				Offset int64   `json:"offset"`
				Bytes  int     `json:"bytes"`
				Base64 string  `json:"line_base64"`
			}
			require.NoError(t, json.Unmarshal(bad.Data, &data))
			require.EqualValues(t, 2, data.Offset)
			if data.Line != nil {
				require.Equal(t, test.line, *data.Line)
				return
			}
			require.Equal(t, len(test.line), data.Bytes)
			shown, err := base64.StdEncoding.DecodeString(data.Base64)
			require.NoError(t, err)
			require.Equal(t, test.line[:min(len(test.line), maxShownBytes)], string(shown))
		})
	}
}

func TestLinesOfTheGreatestLengthAreTaken(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	large := `"` + strings.Repeat("x", maxLineBytes-2) + `"`
	for _, end := range []string{"\n", "\r\n"} {
		for range 3 {
			f.write(large + end)
		}
	}
	f.write("{}\n")
	f.open(nil)
	f.want(f.read(0), large, large, large, large, large, large, "{}")
	require.LessOrEqual(t, cap(f.s.lines.buf), 2*(maxLineBytes+windowBytes))
}

func TestALineThatIsTooLongIsNotHeld(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.open(nil)
	part := strings.Repeat("y", 3*maxLineBytes/2)
	for range 20 {
		f.write(part)
		require.Empty(t, f.read(1))
		require.LessOrEqual(t, cap(f.s.lines.buf), 2*(maxLineBytes+windowBytes))
	}
	f.write("\n7\n")
	events := f.read(1)
	f.want(events, fmt.Sprintf("error: of %d bytes", 20*len(part)), "7")
	require.Equal(t, []uint64{0, uint64(20*len(part) + 1)}, primaries(events))
}

func TestAFileIsWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.path = filepath.Join(f.dir, "later", "feed")
	f.open(nil)
	require.Empty(t, f.read(2))
	require.NoError(t, os.Mkdir(filepath.Dir(f.path), 0o700))
	require.Empty(t, f.read(1))
	f.write("1\n")
	f.want(f.read(1), "1")
}

func TestASourceThatEnds(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.once = true
	_, err := OpenSource(t.Context(), f.options(), nil)
	require.ErrorIs(t, err, ports.ErrBackendFailed)
	require.ErrorContains(t, err, "is not there")

	f.write("1\n[2]")
	f.open(nil)
	events := f.read(0)
	f.want(events, "1", "[2]")
	_, err = f.s.Read(t.Context(), 1)
	require.Equal(t, io.EOF, err)

	f.reopen(&events[1].Cursor)
	require.Empty(t, f.read(0))
	f.write("\n3\n{\"cut")
	f.reopen(&events[1].Cursor)
	f.want(f.read(0), "3", "error: a string does not end")
}

func TestWhatIsNoRegularFileIsRefused(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	fifo := filepath.Join(f.dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, path := range []string{f.dir, fifo, os.DevNull} {
		f.path = path
		_, err := OpenSource(t.Context(), f.options(), nil)
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed, path)
		require.ErrorContains(t, err, "not a regular file", path)
		require.NoDirExists(t, f.state)
	}
	f.path = filepath.Join(f.dir, "later")
	f.open(nil)
	require.NoError(t, os.Mkdir(f.path, 0o700))
	_, err := f.s.Read(t.Context(), 1)
	require.ErrorIs(t, err, ports.ErrBackendFailed)
}

func TestACursorInTheMiddleOfALineGoesOnAtTheNextLine(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("[10]\n[20]\n\n[30]\n")
	for from, want := range map[uint64][]string{
		0: {"[20]", "[30]"}, 3: {"[20]", "[30]"}, 4: {"[20]", "[30]"},
		5: {"[30]"}, 9: {"[30]"}, 10: {"[30]"}, 11: {}, 14: {}, 15: {},
	} {
		f.open(&types.Cursor{Primary: from})
		f.want(f.read(0), want...)
		f.close()
	}
}

func TestACursorBeyondTheEndIsRefused(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("[10]\n")
	refused := func(from uint64) {
		t.Helper()
		_, err := OpenSource(t.Context(), f.options(), &types.Cursor{Primary: from})
		require.ErrorIs(t, err, ports.ErrUndecodable)
		require.ErrorIs(t, err, ports.ErrBackendFailed)
		require.ErrorContains(t, err, fmt.Sprint("behind ", from))
		require.ErrorContains(t, err, "ends at 5")
	}
	refused(5)
	refused(math.MaxInt64)
	_, err := OpenSource(t.Context(), f.options(), &types.Cursor{Primary: math.MaxInt64 + 1})
	require.ErrorIs(t, err, ports.ErrInvalidInput)

	f.open(nil)
	f.want(f.read(0), "[10]")
	f.close()
	refused(5)
	refused(1 << 40)
	require.NoError(t, os.Remove(f.path))
	refused(1 << 40)

	f = newFeed(t)
	f.open(&types.Cursor{Primary: 1 << 40})
	f.write("1\n")
	_, err = f.s.Read(t.Context(), 1)
	require.ErrorIs(t, err, ports.ErrUndecodable, "a file that came later does not make the cursor a place in it")
}

func TestReadReturnsWhatFitsAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	large := `"` + strings.Repeat("x", maxBatchBytes/2) + `"`
	f.write(strings.Repeat(large+"\n", 5))
	f.open(nil)
	n := 0
	for n < 5 {
		events, err := f.s.Read(t.Context(), ports.MaxReadEvents)
		require.NoError(t, err)
		require.LessOrEqual(t, len(events), 3)
		n += len(events)
	}
}

func TestStateFile(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("1\n2\n")
	f.open(nil)
	name := filepath.Join(f.state, "ndjson", "p.json")
	require.NoFileExists(t, name)
	_, err := f.s.Read(t.Context(), 1)
	require.NoError(t, err)
	require.FileExists(t, name, "it is written before the first event is returned")
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	f.close()
	good, err := os.ReadFile(name)
	require.NoError(t, err)

	for text, want := range map[string]ports.Reason{
		"":   ports.ReasonCorrupt,
		"{}": ports.ReasonCorrupt,
		strings.Replace(string(good), `"version":2`, `"version":3`, 1):          ports.ReasonUnsupported,
		strings.Replace(string(good), `"version":2`, `"version":0`, 1):          ports.ReasonCorrupt,
		strings.Replace(string(good), `"pipeline":"p"`, `"pipeline":"q"`, 1):    ports.ReasonCorrupt,
		strings.Replace(string(good), `"version":2`, `"version":2,"x":1`, 1):    ports.ReasonCorrupt,
		strings.Replace(string(good), `"tail_end":2`, `"tail_end":3`, 1):        ports.ReasonCorrupt,
		strings.Replace(string(good), `"tail_end":2`, `"tail_end":-2`, 1):       ports.ReasonCorrupt,
		strings.Replace(string(good), `"tail_sha256":"`, `"tail_sha256":"0`, 1): ports.ReasonCorrupt,
		strings.Replace(string(good), `"head_bytes":4`, `"head_bytes":-1`, 1):   ports.ReasonCorrupt,
		strings.Replace(string(good), `"head_sha256":"`, `"head_sha256":"0`, 1): ports.ReasonCorrupt,
		strings.Replace(string(good), `"base":0`, `"base":9`, 1):                ports.ReasonCorrupt,
		strings.Replace(string(good), `"base":0`, `"base":-1`, 1):               ports.ReasonCorrupt,
	} {
		require.NotEqual(t, string(good), text)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := OpenSource(t.Context(), f.options(), nil)
		var e *ports.Error
		require.ErrorAs(t, err, &e, text)
		require.Equal(t, ports.CodeBindingSetupFailed, e.Code, text)
		require.Equal(t, want, e.Reason, text)
	}
	require.NoError(t, os.WriteFile(name, good, 0o600))
	f.open(nil)
	f.want(f.read(0), "1", "2")
}

func TestStateFilesOfLongAndOddNamesAreApart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", ports.MaxIDBytes-1)
	seen := make(map[string]bool)
	for _, id := range []types.PipelineID{"a", "A", "a.b", "a:b", "a.json", types.PipelineID(long + "a"), types.PipelineID(long + "b")} {
		name := ledgerName("dir", id)
		require.Equal(t, filepath.Join("dir", "ndjson"), filepath.Dir(name))
		require.LessOrEqual(t, len(filepath.Base(name))+len(".new"), 255)
		require.False(t, seen[name])
		seen[name] = true
	}
}

func TestAStateThatCannotBeWrittenReturnsNoEvent(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("1\n")
	f.open(nil)
	require.NoError(t, os.WriteFile(f.state, nil, 0o600)) // a file where the directory should be
	for range 2 {
		events, err := f.s.Read(t.Context(), 1)
		require.ErrorIs(t, err, ports.ErrBackendFailed)
		require.ErrorContains(t, err, "p.json")
		require.Empty(t, events)
	}
	require.Error(t, f.s.Close())
	f.s = nil
	require.NoError(t, os.Remove(f.state))
	f.open(nil)
	f.want(f.read(0), "1")
}

func TestTheClockGivesTheTimeOfAnEvent(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.open(nil)
	require.Empty(t, f.read(1))
	f.clock.Advance(time.Hour)
	f.write("1\n")
	events := f.read(1)
	require.Len(t, events, 1)
	require.GreaterOrEqual(t, events[0].TS, fixture.Epoch().Add(time.Hour).UnixMilli())
}

func FuzzLinesComeOutAsTheyWentIn(f *testing.F) {
	f.Add([]byte("1\n{\"a\":1}\r\n\n\"x\"\n"), 3)
	f.Add([]byte("\r\n\r\r\n \n\xff\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, step int) {
		if step < 1 {
			return
		}
		var w window
		var got []string
		take := func() {
			for {
				l, state := w.next()
				if state == lineMissing {
					return
				}
				require.Equal(t, text[l.start:l.start+int64(len(l.text))], l.text)
				got = append(got, string(l.text))
			}
		}
		for rest := text; len(rest) > 0; {
			n := copy(w.room(), rest[:min(step, len(rest))])
			w.add(n)
			rest = rest[n:]
			take()
		}
		if w.pending() {
			w.final()
			take()
		}
		var want []string
		for l := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
			want = append(want, string(bytes.TrimSuffix(l, []byte("\r"))))
		}
		if len(text) == 0 {
			want = nil
		}
		require.Equal(t, want, got)
	})
}

// A byte order mark is passed over at the beginning of a file, and nowhere else.
func TestAByteOrderMarkIsPassedOver(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("\ufeff[1]\n\ufeff[2]\n[3]\n")
	f.open(nil)
	events := f.read(1)
	f.want(events, "[1]", "error: at byte 0", "[3]")
	require.Zero(t, events[0].Cursor.Primary)
	f.rotate()
	f.write("\ufeff\r\n[4]\n")
	f.want(f.read(3), "[4]")
}
