package ndjson

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// numbered are n lines of some length that differ.
func numbered(from, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"n":%d,"pad":"%s"}`+"\n", from+i, strings.Repeat("x", 100))
	}
	return text.String()
}

// replaceBy renames a new file over the one of the path, as editors and tools that copy files do.
func (f *feed) replaceBy(text string) {
	f.t.Helper()
	f.writeTo(f.path+"~", text)
	require.NoError(f.t, os.Rename(f.path+"~", f.path))
}

// readLines reads what comes within some polls, but for the report that the old file is gone.
func (f *feed) readLines() []types.Event {
	f.t.Helper()
	return slices.DeleteFunc(f.read(3), func(e types.Event) bool { return e.Err != nil })
}

func TestACopyThatTookThePlaceOfAFileGoesOn(t *testing.T) {
	t.Parallel()
	const lines = 30 // some 3.5 KiB
	old := numbered(0, lines)
	whole := lines + 2 // with what is appended
	for name, tc := range map[string]struct {
		text string
		want int // events that come of it: those behind the old ones, or all
	}{
		"the same":                  {old, 0},
		"with more lines":           {old + numbered(lines, 2), 2},
		"with a line that goes on":  {old + `{"n":30}` + "\n" + `{"n":3`, 1},
		"with another first line":   {strings.Replace(old, `"n":0,`, `"n":7,`, 1) + numbered(lines, 2), whole},
		"with one line less":        {numbered(1, lines-1) + numbered(lines, 2), whole - 1},
		"with another last line":    {strings.Replace(old, `"n":29,`, `"n":99,`, 1) + numbered(lines, 2), whole},
		"shorter":                   {numbered(0, lines-1), lines - 1},
		"with others of its length": {numbered(lines, lines), lines},
	} {
		for _, how := range []string{"running", "closed", "killed"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				f := newFeed(t)
				f.write(old)
				f.open(nil)
				events := f.read(0)
				require.Len(t, events, lines)
				last := events[lines-1].Cursor
				want := tc.want
				switch how {
				case "running":
					f.replaceBy(tc.text)
				case "closed":
					f.close()
					f.replaceBy(tc.text)
					f.open(&last)
				case "killed":
					// The state file was written before the first read returned, and knows all of this one.
					f.crash()
					f.replaceBy(tc.text)
					f.open(&last)
				}
				got := f.readLines()
				require.Len(t, got, want)
				for i, event := range got {
					require.NoError(t, event.Err)
					require.Positive(t, event.Cursor.Compare(last), "event %d", i)
				}

				// What comes then comes once, now and after a restart.
				f.write(strings.TrimPrefix(numbered(100, 1), map[bool]string{true: `{"n":10`}[strings.HasSuffix(tc.text, `{"n":3`)]))
				next := f.read(3)
				require.Len(t, next, 1)
				f.reopen(&next[0].Cursor)
				require.Empty(t, f.read(3))
			})
		}
	}
}

// A file that stands beside the path is a rotated one, whatever the new one begins with.
func TestARotatedFileIsNoCopy(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		f := newFeed(t)
		f.write(numbered(0, 20))
		f.open(nil)
		events := f.read(0)
		require.Len(t, events, 20)
		if restart {
			f.close()
		}
		f.rotate()
		f.write(numbered(0, 21))
		if restart {
			f.open(&events[19].Cursor)
		}
		require.Len(t, f.readLines(), 21)
		f.close()
	}
}

// A beginning that is short proves nothing: two files of a few lines may well be alike.
func TestAShortCopyIsAnotherFile(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		f := newFeed(t)
		f.write("[1]\n[2]\n")
		f.open(nil)
		events := f.read(0)
		if restart {
			f.close()
		}
		f.replaceBy("[1]\n[2]\n[3]\n")
		if restart {
			f.open(&events[1].Cursor)
		}
		f.want(f.readLines(), "[1]", "[2]", "[3]")
		f.close()
	}
}

// A kill leaves a state file that knows a part: what lies behind it may be another text, so all comes again.
func TestACopyOfWhichTooLittleIsKnownComesAgain(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write(numbered(0, 20))
	f.open(nil)
	require.Len(t, f.read(0), 20)
	f.write(numbered(20, 20))
	events := f.read(3)
	require.Len(t, events, 20)
	f.crash()
	f.replaceBy(numbered(0, 40))
	f.open(&events[19].Cursor)
	require.Len(t, f.readLines(), 40)
}

// laterContext is over once it was asked a few times.
type laterContext struct {
	context.Context
	over context.CancelFunc
	left atomic.Int64
}

func (c *laterContext) Done() <-chan struct{} {
	if c.left.Add(-1) < 0 {
		c.over()
	}
	return c.Context.Done()
}

// A hole in a file, as a writer makes it that goes on at its old place after a truncation, is one line without
// an end. Passing over it takes long, and is given up when nobody wants more.
func TestPassingOverAHoleIsInterrupted(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("[1]\n")
	require.NoError(t, os.Truncate(f.path, 1<<42))
	f.open(nil)
	events, err := f.s.Read(t.Context(), 1)
	require.NoError(t, err)
	f.want(events, "[1]")
	ctx, over := context.WithCancel(t.Context())
	later := &laterContext{Context: ctx, over: over}
	later.left.Store(5)
	_, err = f.s.Read(later, 10)
	require.ErrorIs(t, err, context.Canceled)

	source, read := f.s, make(chan error, 1)
	go func() {
		_, err := source.Read(t.Context(), 10)
		read <- err
	}()
	f.close()
	require.Error(t, <-read)
}
