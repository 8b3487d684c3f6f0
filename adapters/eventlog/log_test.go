package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// recorded is a logger and what it has been told.
func recorded() (*slog.Logger, *bytes.Buffer) {
	var text bytes.Buffer
	return slog.New(slog.NewTextHandler(&text, nil)), &text
}

func TestEventsComeOutAsTheyWere(t *testing.T) {
	t.Parallel()
	clock := fixture.NewClock(fixture.Epoch())
	log := open(t, Options{Dir: t.TempDir(), Clock: clock})
	in := []types.Event{
		{TS: 17, Data: []byte(" { \"a\" : [1, 2.50] } "), Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		{TS: -5, Data: []byte(`"line\nend"`)},
		{Data: []byte("\"\u2028\u2029\U0001f600\"")},
		{Data: []byte(`null`), ID: "ignored", Cursor: types.Cursor{Primary: 99}, Index: 7},
	}
	hand(t, log, in...)
	first := drain(t, log)
	require.Equal(t, []string{`{"a":[1,2.50]}`, `"line\nend"`, "\"\u2028\u2029\U0001f600\"", "null"}, data(first))
	now := fixture.Epoch().UnixMilli()
	for i, ts := range []int64{17, -5, now, now} {
		require.Equal(t, ts, first[i].TS)
		require.Equal(t, in[i].Traceparent, first[i].Traceparent)
		require.Equal(t, fmt.Sprintf("%s/%d", log.life, first[i].Cursor.Primary), first[i].Identity())
		require.Zero(t, first[i].Cursor.Secondary)
		require.Zero(t, first[i].Index)
	}
	require.Equal(t, firstHeaderBytes, first[0].Cursor.Primary)

	log = reopen(t, log, nil)
	require.Equal(t, first, drain(t, log), "the same events, with the same identities")
	for i := range first {
		log = reopen(t, log, &first[i].Cursor)
		require.Equal(t, data(first[i+1:]), data(drain(t, log)))
	}
}

func TestAcceptRefusesWhatBreaksARule(t *testing.T) {
	t.Parallel()
	log := open(t, Options{Dir: t.TempDir()})
	good := types.Event{Data: []byte(`1`)}
	mebibyte := types.Event{Data: sized(ports.MaxJSONBytes)}
	many := make([]types.Event, MaxAcceptEvents+1)
	large := make([]types.Event, 17)
	for i := range many {
		many[i] = good
	}
	for i := range large {
		large[i] = mebibyte
	}
	for name, test := range map[string]struct {
		events []types.Event
		want   string
	}{
		"too many":         {many, "there are 10001 events"},
		"not JSON":         {[]types.Event{good, {Data: []byte(`{`)}}, "event 2 of 2 is not valid JSON"},
		"no data":          {[]types.Event{good, good, {}}, "event 3 of 3 is not valid JSON"},
		"a member twice":   {[]types.Event{{Data: []byte(`{"a":1,"a":2}`)}}, "event 1 of 1 is not valid JSON"},
		"too large":        {[]types.Event{good, {Data: sized(ports.MaxJSONBytes + 1)}}, "event 2 of 2 has 1048577 bytes"},
		"too large in all": {large, "event 17 of 17 makes it more than 16777216 bytes"},
	} {
		err := log.Accept(t.Context(), test.events)
		require.ErrorIs(t, err, ports.ErrInvalidInput, name)
		require.ErrorContains(t, err, test.want, name)
		require.False(t, ports.IsTransient(err), name)
	}
	require.ErrorIs(t, log.Accept(cancelled(), []types.Event{good}), context.Canceled)
	require.NoError(t, log.Accept(t.Context(), nil), "of none all are stored")
	require.Empty(t, drain(t, log), "nothing of it was stored")

	hand(t, log, many[:MaxAcceptEvents]...)
	hand(t, log, large[:16]...)
	hand(t, log, types.Event{Data: append(bytes.Repeat([]byte(" "), 1000), mebibyte.Data...)})
	require.Len(t, drain(t, log), MaxAcceptEvents+17)
}

func TestTraceContextIsKeptIfItIsOne(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for text, want := range map[string]bool{
		good:                               true,
		"":                                 true,
		"cc" + good[2:]:                    true,
		"cc" + good[2:] + "-what.next":     true,
		"cc" + good[2:] + "what.next":      false,
		"cc" + good[2:] + "-what next":     false,
		"cc" + good[2:] + "-a\nb":          false,
		good + "-more":                     false,
		"ff" + good[2:]:                    false,
		good[:54]:                          false,
		good[:54] + "\n":                   false,
		strings.ToUpper(good):              false,
		strings.Replace(good, "-", " ", 1): false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":    false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":    false,
		"cc" + good[2:] + "-" + strings.Repeat("x", 256-len(good)-1): true,
		"cc" + good[2:] + "-" + strings.Repeat("x", 256-len(good)):   false,
		"-": false,
	} {
		require.Equal(t, want, traceparentOf(text) == text, "%q", text)
	}
}

func TestDirectoryAndFilesAreThisUsersAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	log := open(t, Options{Dir: dir})
	for path, want := range map[string]os.FileMode{filepath.Dir(dir): 0o700, dir: 0o700, lastFile(t, dir): 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), path)
	}
	require.NoError(t, log.Close())
}

func TestSettleRemovesFilesAndTheOffsetGrowsForEver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := open(t, Options{Dir: dir, SegmentBytes: minSegmentBytes})
	payload := strings.Repeat("x", 1000)
	var all []types.Event
	for i := range 30 {
		hand(t, log, types.Event{Data: fmt.Appendf(nil, `"%d%s"`, i, payload)})
		all = append(all, drain(t, log)...)
	}
	require.Len(t, files(t, dir), 10, "three events a file")

	require.NoError(t, log.Settle(t.Context(), all[1].Cursor))
	require.Len(t, files(t, dir), 10, "the third event of the first file is not settled")
	require.NoError(t, log.Settle(t.Context(), all[2].Cursor))
	require.Len(t, files(t, dir), 9)
	require.NoError(t, log.Settle(t.Context(), all[0].Cursor), "an older one does nothing")
	require.NoError(t, log.Settle(t.Context(), all[13].Cursor))
	require.Len(t, files(t, dir), 6)

	log = reopen(t, log, &all[13].Cursor)
	require.Equal(t, data(all[14:]), data(drain(t, log)))
	last := all[29].Cursor
	require.NoError(t, log.Settle(t.Context(), last))
	require.Len(t, files(t, dir), 1, "the last file stays")

	log = reopen(t, log, &last)
	require.Empty(t, drain(t, log))
	hand(t, log, numbered(0, 1)...)
	more := drain(t, log)
	require.Len(t, more, 1)
	require.Greater(t, more[0].Cursor.Primary, last.Primary)
	require.Equal(t, log.life, strings.Split(all[0].ID, "/")[0], "one life all along")

	// A checkpoint that names the last event of a file that is gone has missed nothing.
	for i := range 6 {
		hand(t, log, types.Event{Data: fmt.Appendf(nil, `"%d%s"`, i, payload)})
	}
	more = append(more, drain(t, log)...)
	require.NoError(t, log.Settle(t.Context(), more[len(more)-1].Cursor))
	begun := log.segments[0]
	require.NotZero(t, begun.prev)
	log = reopen(t, log, &types.Cursor{Primary: begun.prev})
	require.NotContains(t, data(drain(t, log)), "none")
}

func TestSettleKeepsWhatHasNotBeenRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := open(t, Options{Dir: dir, SegmentBytes: minSegmentBytes})
	for i := range 9 {
		hand(t, log, types.Event{Data: fmt.Appendf(nil, `"%d%s"`, i, strings.Repeat("x", 1000))})
	}
	require.NoError(t, log.Settle(t.Context(), types.Cursor{Primary: 1 << 40}))
	require.Len(t, drain(t, log), 9)
	require.NoError(t, log.Settle(t.Context(), types.Cursor{Primary: 1 << 40}))
	require.Len(t, files(t, dir), 1)
}

func TestFullLogRefusesUntilThePipelineHasCaughtUp(t *testing.T) {
	t.Parallel()
	for name, segment := range map[string]int64{"small files": minSegmentBytes, "large files": minMaxBytes / 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log := open(t, Options{Dir: dir, MaxBytes: minMaxBytes, SegmentBytes: segment})
			event := types.Event{Data: sized(5000)}
			fill := func() (n int) {
				for {
					err := log.Accept(t.Context(), []types.Event{event})
					if err == nil {
						n++
						continue
					}
					require.ErrorIs(t, err, &ports.Error{Code: ports.CodeBackendFailed, Reason: ports.ReasonDiskFull})
					require.True(t, ports.IsTransient(err))
					require.ErrorContains(t, err, "max_bytes is 65536")
					return n
				}
			}
			size := func() (sum int) {
				for _, text := range content(t, dir) {
					sum += len(text)
				}
				return sum
			}
			require.GreaterOrEqual(t, fill(), 12)
			require.LessOrEqual(t, size(), minMaxBytes)
			require.ErrorIs(t, log.Accept(t.Context(), []types.Event{event}), ports.ErrDiskFull)
			hand(t, log, numbered(0, 1)...) // which fits

			all := drain(t, log)
			require.NoError(t, log.Settle(t.Context(), all[len(all)-1].Cursor))
			require.GreaterOrEqual(t, fill(), 12, "all of it is free again, that of the last file too")
			require.LessOrEqual(t, size(), minMaxBytes)

			// The checkpoint counts as settled, since a killed process may not have come to say so.
			rest := drain(t, log)
			log = reopen(t, log, &rest[len(rest)-1].Cursor)
			require.GreaterOrEqual(t, fill(), 12)
			require.Len(t, drain(t, log), 12)

			err := log.Accept(t.Context(), []types.Event{{Data: sized(minMaxBytes)}})
			require.ErrorIs(t, err, ports.ErrDiskFull)
			require.False(t, ports.IsTransient(err), "it never fits")
		})
	}
}

func TestDirectoryWithForeignFilesIsRefusedUnchanged(t *testing.T) {
	t.Parallel()
	valid := appendHeader(nil, header{life: strings.Repeat("a", 16)})
	for name, plant := range map[string]func(t *testing.T, dir string){
		"a file":      func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "notes.txt"), []byte("hello")) },
		"a directory": func(t *testing.T, dir string) { require.NoError(t, os.Mkdir(filepath.Join(dir, nameOf(0)), 0o700)) },
		"a link": func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, nameOf(0))))
		},
		"a short name":    func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "0.log"), valid) },
		"an offset above": func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, nameOf(1<<63)), valid) },
		"another text": func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, nameOf(0)), []byte("12:00 started\n12:01 end"))
		},
		"another version": func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, nameOf(0)), seal([]byte("........ eventlog.v9 what"), 0))
		},
		"another version, not last": func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, nameOf(0)), seal([]byte("........ eventlog.v9 what"), 0))
			writeFile(t, filepath.Join(dir, nameOf(1000)), valid)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, nameOf(77)+freshSuffix), []byte("half"))
			plant(t, dir)
			before := files(t, dir)
			_, err := Open(t.Context(), Options{Dir: dir, Log: fixture.Logger(t)})
			require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
			require.ErrorContains(t, err, dir)
			if strings.Contains(name, "version") {
				require.ErrorIs(t, err, ports.ErrUnsupported)
				require.ErrorContains(t, err, `"eventlog.v9"`)
			}
			require.Equal(t, before, files(t, dir))
		})
	}
	t.Run("no directory", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "file")
		writeFile(t, path, []byte("hello"))
		_, err := Open(t.Context(), Options{Dir: path, Log: fixture.Logger(t)})
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
		require.Equal(t, "hello", string(readFile(t, path)))
	})
}

func TestSecondOpenerIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := open(t, Options{Dir: dir})
	_, err := Open(t.Context(), Options{Dir: dir + "/.", Log: fixture.Logger(t)})
	require.ErrorIs(t, err, &ports.Error{Code: ports.CodeBindingSetupFailed, Reason: ports.ReasonInUse})
	require.ErrorContains(t, err, dir)
	hand(t, log, numbered(0, 1)...)
	require.NoError(t, log.Close())

	holder := startChild(t, "hold", 0, dir)
	require.Equal(t, "open", holder.line(t))
	_, err = Open(t.Context(), Options{Dir: dir, Log: fixture.Logger(t)})
	require.ErrorIs(t, err, ports.ErrInUse)
	require.ErrorContains(t, err, fmt.Sprintf("process %d", holder.cmd.Process.Pid))
	require.NoError(t, holder.cmd.Process.Kill())
	require.Error(t, holder.cmd.Wait())

	log = open(t, Options{Dir: dir}) // at once: the kill has freed the lock
	require.Len(t, drain(t, log), 1)
}

func TestCheckpointOfAnotherLogIsRefused(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, dir string, primary uint64) {
		t.Helper()
		_, err := Open(t.Context(), Options{Dir: dir, From: &types.Cursor{Primary: primary}, Log: fixture.Logger(t)})
		require.ErrorIs(t, err, &ports.Error{Code: ports.CodeBackendFailed, Reason: ports.ReasonUndecodable})
		require.ErrorContains(t, err, "delete the checkpoint")
	}
	missing := filepath.Join(t.TempDir(), "missing")
	refused(t, missing, 1000)
	require.NoDirExists(t, missing)
	empty := t.TempDir()
	refused(t, empty, 1000)
	require.Empty(t, files(t, empty))

	log := open(t, Options{Dir: empty})
	hand(t, log, numbered(0, 3)...)
	end, before := log.end, content(t, empty)
	require.NoError(t, log.Close())
	refused(t, empty, end)
	refused(t, empty, 1<<62)
	require.Equal(t, before, content(t, empty))
	_, err := Open(t.Context(), Options{Dir: empty, From: &types.Cursor{Primary: 1 << 63}, Log: fixture.Logger(t)})
	require.ErrorIs(t, err, ports.ErrInvalidInput)

	// 0/0 is before everything, also in a log that is new.
	log = open(t, Options{Dir: empty, From: &types.Cursor{}})
	require.Len(t, drain(t, log), 3)
	log = open(t, Options{Dir: t.TempDir(), From: &types.Cursor{}})
	hand(t, log, numbered(0, 1)...)
	require.Len(t, drain(t, log), 1)
}

func TestReadingGoesOnBehindAnyOffset(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := open(t, Options{Dir: dir, SegmentBytes: minSegmentBytes})
	for i := range 8 {
		hand(t, log, types.Event{Data: fmt.Appendf(nil, `"%d%s"`, i, strings.Repeat("x", 1000))})
	}
	all := drain(t, log)
	for _, primary := range []uint64{0, 1, firstHeaderBytes - 1, firstHeaderBytes, 500, 1068, 1069, 1070, 3000, log.segments[1].start - 1, log.segments[1].start, log.segments[1].start + 1, log.end - 1} {
		var want []string
		for _, e := range all {
			if e.Cursor.Primary > primary {
				want = append(want, string(e.Data))
			}
		}
		log = reopen(t, log, &types.Cursor{Primary: primary, Secondary: 3})
		require.Equal(t, want, data(drain(t, log)), "behind %d", primary)
	}
}

func TestLostFilesComeOutAsAnEventThatNamesThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := open(t, Options{Dir: dir, SegmentBytes: minSegmentBytes})
	for i := range 12 {
		hand(t, log, types.Event{Data: fmt.Appendf(nil, `"%d%s"`, i, strings.Repeat("x", 1000))})
	}
	all, segments := drain(t, log), log.segments
	require.Len(t, segments, 4)
	require.NoError(t, log.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, nameOf(segments[0].start))))
	require.NoError(t, os.Remove(filepath.Join(dir, nameOf(segments[2].start))))

	log = open(t, Options{Dir: dir, From: &all[1].Cursor, SegmentBytes: minSegmentBytes})
	found := drain(t, log)
	want := append(append([]string{"none"}, data(all[3:6])...), "none")
	require.Equal(t, append(want, data(all[9:])...), data(found))
	require.Equal(t, segments[1].start-1, found[0].Cursor.Primary)
	require.ErrorContains(t, found[0].Err, fmt.Sprintf("the %d bytes between are gone", segments[1].start-all[1].Cursor.Primary-1))
	require.Equal(t, segments[2].start, found[4].Cursor.Primary)
	require.ErrorContains(t, found[4].Err, nameOf(segments[1].start))
	require.ErrorContains(t, found[4].Err, fmt.Sprintf("these %d bytes", segments[3].start-segments[2].start))

	// Each is told once, by whichever cursor one goes on.
	for i := range found {
		log = reopen(t, log, &found[i].Cursor)
		require.Equal(t, data(found[i+1:]), data(drain(t, log)), "behind %d", i)
	}
	// Nothing is missed by whoever begins at the beginning, or has all that is gone.
	log = reopen(t, log, nil)
	require.Equal(t, data(found[1:]), data(drain(t, log)))
	log = reopen(t, log, &all[2].Cursor)
	require.Equal(t, data(found[1:]), data(drain(t, log)))
}

func TestDamagedLinesComeOutAsEventsWithErrors(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(text []byte, at, size int) []byte{
		"a bit of the event":  func(text []byte, at, size int) []byte { text[at+size-3] ^= 1; return text },
		"a bit of the sum":    func(text []byte, at, _ int) []byte { text[at] ^= 1; return text },
		"the case of the sum": func(text []byte, at, _ int) []byte { copy(text[at:], bytes.ToUpper(text[at:at+8])); return text },
		"zeros":               func(text []byte, at, size int) []byte { clear(text[at : at+size-1]); return text },
		"no sum": func(text []byte, at, size int) []byte {
			return append(text[:at:at], append([]byte("x\n"), text[at+size:]...)...)
		},
		"an empty line": func(text []byte, at, size int) []byte {
			return append(text[:at:at], append([]byte("\n"), text[at+size:]...)...)
		},
		"a line too long": func(text []byte, at, size int) []byte {
			long := append(bytes.Repeat([]byte("long"), maxLine/2), '\n')
			return append(text[:at:at], append(long, text[at+size:]...)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var (
				dir, path string
				all       []types.Event
				at        int
			)
			for try, damaged := 0, false; !damaged; try++ { // a sum without a letter has no case
				require.Less(t, try, 100)
				dir = t.TempDir()
				log := open(t, Options{Dir: dir})
				for i := range 5 {
					hand(t, log, types.Event{Data: fmt.Appendf(nil, `{"secret":"canary","pad":"%s","try":%d,"n":%d}`, strings.Repeat("ab", 20), try, i)})
				}
				all = drain(t, log)
				require.NoError(t, log.Close())
				path = lastFile(t, dir)
				at = int(all[2].Cursor.Primary)
				intact := string(readFile(t, path))
				writeFile(t, path, damage([]byte(intact), at, int(all[3].Cursor.Primary)-at))
				damaged = intact != string(readFile(t, path))
			}

			log := open(t, Options{Dir: dir})
			found := drain(t, log)
			require.Equal(t, []string{string(all[0].Data), string(all[1].Data), "none", string(all[3].Data), string(all[4].Data)}, data(found))
			require.Equal(t, all[2].Cursor, found[2].Cursor)
			require.ErrorContains(t, found[2].Err, path[strings.LastIndex(path, "/")+1:])
			require.ErrorContains(t, found[2].Err, fmt.Sprintf("at offset %d", at))
			require.NotContains(t, found[2].Err.Error(), "canary")
			require.True(t, strings.HasPrefix(string(found[2].Data), `{"file":"`), string(found[2].Data))
			_, err := ports.CompactJSON(string(found[2].Data))
			require.NoError(t, err)
			log = reopen(t, log, &found[2].Cursor)
			require.Equal(t, data(all[3:]), data(drain(t, log)))
		})
	}
}

func TestDamagedFirstLineStopsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := open(t, Options{Dir: dir, SegmentBytes: minSegmentBytes})
	for i := range 6 {
		hand(t, log, types.Event{Data: fmt.Appendf(nil, `"%d%s"`, i, strings.Repeat("x", 1000))})
	}
	all, life := drain(t, log), log.life
	require.NoError(t, log.Close())
	for _, name := range files(t, dir)[1:] {
		text := readFile(t, filepath.Join(dir, name))
		text[12] ^= 1
		writeFile(t, filepath.Join(dir, name), text)
	}
	log = open(t, Options{Dir: dir, SegmentBytes: minSegmentBytes})
	found := drain(t, log)
	want := append(data(all[:3]), "none")
	require.Equal(t, append(want, data(all[3:])...), data(found))
	require.Equal(t, all[5].ID, found[6].ID, "the other files know the life")
	hand(t, log, types.Event{Data: sized(minSegmentBytes)})
	require.NoError(t, log.Settle(t.Context(), drain(t, log)[0].Cursor))
	require.Len(t, files(t, dir), 1)
	require.Equal(t, life, log.life)
}

func TestEmptyFileIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, nameOf(5000)), nil)
	writeFile(t, filepath.Join(dir, nameOf(4000)+freshSuffix), []byte("half"))
	log := open(t, Options{Dir: dir})
	require.Equal(t, []string{nameOf(5000)}, files(t, dir))
	hand(t, log, numbered(0, 2)...)
	found := drain(t, log)
	require.Len(t, found, 2)
	require.Equal(t, 5000+firstHeaderBytes, found[0].Cursor.Primary)
}

// A crash may have stored any part of the last call: at whichever byte the file ends, the calls before
// it are there, and of the last one all or nothing.
func TestTornEndIsCutOffAtEachByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := open(t, Options{Dir: dir})
	hand(t, log, numbered(0, 2)...)
	kept := log.end
	hand(t, log, numbered(2, 3)...)
	all := drain(t, log)
	require.NoError(t, log.Close())
	whole := readFile(t, lastFile(t, dir))
	for size := kept; size <= uint64(len(whole)); size++ {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, nameOf(0)), whole[:size])
		logger, said := recorded()
		log := open(t, Options{Dir: dir, Log: logger})
		want := all[:2]
		if size == uint64(len(whole)) {
			want = all
		}
		require.Equal(t, data(want), data(drain(t, log)), "%d bytes", size)
		if size == kept || size == uint64(len(whole)) {
			require.Empty(t, said.String())
		} else {
			require.Contains(t, said.String(), fmt.Sprintf("offset=%d bytes=%d", kept, size-kept))
			require.Len(t, readFile(t, filepath.Join(dir, nameOf(0))), int(kept))
			require.Equal(t, int64(kept), log.total)
		}
		hand(t, log, numbered(9, 1)...)
		more := drain(t, log)
		require.Equal(t, []string{`{"n":9}`}, data(more))
		require.NoError(t, log.Close())
	}
}

// What has an end may have been acknowledged, so it stays, and what is damaged of it is told.
func TestEndThatIsDamagedRatherThanTornStays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		damage func(text []byte, lines []int) []byte
		want   []string
	}{
		"the last line":                 {func(text []byte, lines []int) []byte { text[lines[4]+20] ^= 1; return text }, []string{"0", "1", "2", "3", "none"}},
		"an end between two of a call":  {func(text []byte, lines []int) []byte { text[lines[4]-1] = ' '; return text }, []string{"0", "1", "2", "none"}},
		"the first line of a call":      {func(text []byte, lines []int) []byte { text[lines[2]+20] ^= 1; return text }, []string{"0", "1", "none", "3", "4"}},
		"zeros behind it":               {func(text []byte, _ []int) []byte { return append(text, make([]byte, 9000)...) }, []string{"0", "1", "2", "3", "4"}},
		"zeros behind a call cut short": {func(text []byte, lines []int) []byte { return append(text[:lines[4]], make([]byte, 9000)...) }, []string{"0", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log := open(t, Options{Dir: dir})
			hand(t, log, numbered(0, 2)...)
			hand(t, log, numbered(2, 3)...)
			var begins []int
			for _, e := range drain(t, log) {
				begins = append(begins, int(e.Cursor.Primary))
			}
			require.NoError(t, log.Close())
			path := lastFile(t, dir)
			writeFile(t, path, test.damage(readFile(t, path), begins))
			log = open(t, Options{Dir: dir})
			var got []string
			for _, text := range data(drain(t, log)) {
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(text, `{"n":`), "}"))
			}
			require.Equal(t, test.want, got)
			hand(t, log, numbered(9, 1)...)
			require.Equal(t, []string{`{"n":9}`}, data(drain(t, log)))
		})
	}
}

func TestReadWaitsForEventsWithoutAClock(t *testing.T) {
	t.Parallel()
	log := open(t, Options{Dir: t.TempDir(), Clock: fixture.NewClock(fixture.Epoch())})
	for round := range 50 {
		got := make(chan []types.Event)
		go func() {
			events, err := log.Read(t.Context(), 10)
			if err != nil {
				t.Error(err)
			}
			got <- events
		}()
		hand(t, log, numbered(round, 1)...)
		require.Equal(t, data(numbered(round, 1)), data(<-got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := log.Read(ctx, 1)
		ended <- err
	}()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestReadIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	log := open(t, Options{Dir: t.TempDir()})
	event := types.Event{Data: sized(ports.MaxJSONBytes)}
	for range 2 {
		hand(t, log, event, event, event, event, event, event)
	}
	first, err := log.Read(t.Context(), ports.MaxReadEvents)
	require.NoError(t, err)
	require.Len(t, first, 8)
	second, err := log.Read(t.Context(), ports.MaxReadEvents)
	require.NoError(t, err)
	require.Len(t, second, 4)
}

func TestClosedLogRefuses(t *testing.T) {
	t.Parallel()
	log := open(t, Options{Dir: t.TempDir()})
	waiting := make(chan error)
	go func() {
		_, err := log.Read(context.Background(), 1)
		waiting <- err
	}()
	require.NoError(t, log.Close())
	require.ErrorIs(t, <-waiting, ports.ErrStoreClosed)
	require.NoError(t, log.Close())
	_, err := log.Read(t.Context(), 1)
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.ErrorIs(t, log.Accept(t.Context(), numbered(0, 1)), ports.ErrStoreClosed)
	require.ErrorIs(t, log.Settle(t.Context(), types.Cursor{}), ports.ErrStoreClosed)
}

func TestDirectoryThatIsGoneIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	log := open(t, Options{Dir: dir})
	hand(t, log, numbered(0, 1)...)
	require.NoError(t, os.Rename(dir, dir+".moved"))
	err := log.Accept(t.Context(), numbered(1, 1))
	require.ErrorIs(t, err, ports.ErrStoreReplaced)
	require.ErrorContains(t, err, "restart")
	require.NoError(t, os.Rename(dir+".moved", dir))
	hand(t, log, numbered(2, 1)...)
	require.Equal(t, data(append(numbered(0, 1), numbered(2, 1)...)), data(drain(t, log)))
}

func TestFileThatSomebodyCutsOffLosesNoMoreThanThat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := open(t, Options{Dir: dir})
	hand(t, log, numbered(0, 3)...)
	cut := int64(log.last)
	require.NoError(t, os.Truncate(lastFile(t, dir), cut))
	hand(t, log, numbered(3, 2)...)
	require.Len(t, files(t, dir), 2, "what is accepted now goes to a file of its own")
	found := drain(t, log)
	require.Equal(t, append(append(data(numbered(0, 2)), "none"), data(numbered(3, 2))...), data(found))
	require.Equal(t, uint64(cut), found[2].Cursor.Primary)
	log = reopen(t, log, nil)
	require.Equal(t, data(found), data(drain(t, log)))
}
