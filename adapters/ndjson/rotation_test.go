package ndjson

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func TestARotatedFileIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("1\n")
	f.open(nil)
	f.want(f.read(0), "1")
	f.rotate()
	f.writeTo(f.path+".1", "2\n") // whoever writes has not noticed yet
	f.want(f.read(3), "2")
	f.write("[4]\n")
	f.writeTo(f.path+".1", "3\n") // it notices late
	events := f.read(3)
	f.want(events, "3", "[4]")
	require.Equal(t, []uint64{4, 6}, primaries(events), "the count goes on from the end of the file before")
}

func TestTheCutOffLastLineOfARotatedFileIsFinal(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string]string{"[2]": "[2]", `{"cut`: "error: a string does not end"} {
		f := newFeed(t)
		f.write("1\n" + rest)
		f.open(nil)
		f.want(f.read(2), "1")
		f.rotate()
		f.write("3\n")
		events := f.read(3)
		f.want(events, want, "3")
		require.EqualValues(t, 2+len(rest), events[1].Cursor.Primary)
		for i := range events {
			f.reopen(&events[i].Cursor)
			f.want(f.read(3), texts(events)[i+1:]...)
		}
		f.close()
	}
}

func TestSeveralRotationsBetweenTwoPolls(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("1\n")
	f.open(nil)
	f.want(f.read(0), "1")
	for n := 2; n < 6; n++ {
		f.rotate()
		f.write(fmt.Sprintln(n))
	}
	f.want(f.read(12), "2", "3", "4", "5")
}

func TestRotationsWhileNothingRan(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		for rotations := range 4 {
			f := newFeed(t)
			f.write("1\n2\n")
			f.open(nil)
			events := f.read(0)
			f.want(events, "1", "2")
			if crash {
				f.crash()
			} else {
				f.close()
			}
			f.write("3\n")
			want := []string{"2", "3"}
			for n := range rotations {
				f.rotate()
				f.write(fmt.Sprintln(4 + n))
				want = append(want, fmt.Sprint(4+n))
			}
			f.open(&events[0].Cursor)
			all := f.read(4 * rotations)
			f.want(all, want...)
			require.Equal(t, events[1].Cursor, all[0].Cursor)
			for i := range all { // behind each of them, though files were passed meanwhile
				f.reopen(&all[i].Cursor)
				again := f.read(4 * rotations)
				f.want(again, want[i+1:]...)
				require.Equal(t, primaries(all)[i+1:], primaries(again))
			}
			f.close()
		}
	}
}

func TestRotationsByDate(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.writeTo(f.path+"-20260101", "0\n") // older than all that is followed
	f.write("1\n")
	f.open(nil)
	events := f.read(0)
	f.want(events, "1")
	f.close()
	for day := 2; day < 5; day++ {
		require.NoError(t, os.Rename(f.path, fmt.Sprintf("%s-2026010%d", f.path, day)))
		f.write(fmt.Sprintln(day))
	}
	f.writeTo(f.path+".bak", "9\n")
	f.open(&events[0].Cursor)
	f.want(f.read(12), "2", "3", "4")
}

func TestARotatedFileThatHasNoSuccessorYet(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("1\n2\n")
	f.open(nil)
	events := f.read(0)
	f.close()
	f.rotate()
	f.open(&events[0].Cursor)
	f.want(f.read(2), "2")
	f.write("3\n")
	f.want(f.read(3), "3")
}

func TestARotatedFileThatIsGoneIsReported(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(f *feed){
		"deleted": func(f *feed) { require.NoError(t, os.Remove(f.path)) },
		"packed":  func(f *feed) { require.NoError(t, os.Rename(f.path, f.path+".1.gz")) },
		"moved":   func(f *feed) { require.NoError(t, os.Rename(f.path, filepath.Join(f.dir, "elsewhere"))) },
	} {
		for _, crash := range []bool{false, true} {
			f := newFeed(t)
			f.write("[1]\n[2]\n[3]\n")
			f.open(nil)
			events := f.read(0)
			if crash {
				f.crash()
			} else {
				f.close()
			}
			lose(f)
			f.open(&events[1].Cursor)
			require.Empty(t, f.read(2), "%s: the file is waited for", name)
			f.write("[4]\n[5]\n")
			all := f.read(2)
			// The line of the cursor counts, since nothing says where it ends. A new file may get the inode of
			// a deleted one, and looks like a truncated one then.
			f.want(all, "error: 8 bytes", "[4]", "[5]")
			require.Greater(t, all[0].Cursor.Primary, events[2].Cursor.Primary, "no cursor comes again")
			for i := range all {
				f.reopen(&all[i].Cursor)
				f.want(f.read(2), []string{"[4]", "[5]"}[i:]...)
			}
			f.close()
		}
	}
}

func TestAnArchiveThatIsGoneIsReported(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("[1]\n[2]\n")
	f.open(nil)
	first := f.read(0)
	f.rotate()
	f.write("[3]\n")
	f.want(f.read(3), "[3]")
	f.rotate()
	f.write("[4]\n")
	f.want(f.read(3), "[4]")
	f.close()
	require.NoError(t, os.Remove(f.path+".1"))
	f.open(&first[0].Cursor)
	all := f.read(6)
	f.want(all, "[2]", "error: 4 bytes are gone", "[4]")
	for i := range all {
		f.reopen(&all[i].Cursor)
		require.Equal(t, primaries(all)[i+1:], primaries(f.read(6)))
	}
	f.reopen(nil)
	require.NoError(t, os.Remove(f.path+".2"))
	f.want(f.read(6), "[1]", "[2]", "error: 4 bytes are gone", "[4]")
	f.reopen(nil)
	f.want(f.read(6), "error: 8 bytes are gone", "error: 4 bytes are gone", "[4]")
}

func TestAPackedArchiveInBetweenIsReported(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("1\n")
	f.open(nil)
	events := f.read(0)
	f.close()
	for n := 2; n < 5; n++ {
		f.rotate()
		f.write(fmt.Sprintln(n))
	}
	require.NoError(t, os.Rename(f.path+".2", f.path+".2.gz"))
	f.open(&events[0].Cursor)
	all := f.read(9)
	f.want(all, "error: feed.ndjson.2.gz", "3", "4")
	for i := range all {
		f.reopen(&all[i].Cursor)
		f.want(f.read(9), texts(all)[i+1:]...)
	}
}

func TestATruncatedFileIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("[1]\n[2]\n")
	f.open(nil)
	f.want(f.read(0), "[1]", "[2]")
	f.copyTruncate("")
	require.Empty(t, f.read(2))
	f.write("[3]\n")
	events := f.read(2)
	f.want(events, "[3]")
	require.EqualValues(t, 8, events[0].Cursor.Primary)

	// Longer than before, and between two polls.
	f.copyTruncate("")
	f.write("[4]\n[5]\n")
	f.want(f.read(2), "[4]", "[5]")

	// Of the same size.
	f.copyTruncate("")
	f.write("[6]\n[7]\n")
	f.want(f.read(2), "[6]", "[7]")

	// With an unfinished line.
	f.write(`{"un`)
	require.Empty(t, f.read(1))
	f.copyTruncate("")
	f.write("[8]\n")
	events = f.read(2)
	f.want(events, "error: 4 bytes from byte offset 8 on are gone", "[8]")
	f.reopen(&events[0].Cursor)
	f.want(f.read(2), "[8]")
	f.reopen(nil) // nothing is settled
	f.want(f.read(2), "error: 8 bytes", "error: 4 bytes", "error: 8 bytes", "error: 13 bytes", "[8]")
}

func TestACopiedAndTruncatedFileIsReadFromItsCopy(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		f := newFeed(t)
		f.write("[1]\n")
		f.open(nil)
		events := f.read(0)
		f.want(events, "[1]")
		f.write("[2]\n[3]")
		f.copyTruncate(f.path + ".1")
		f.write("[4]\n")
		all := f.read(4)
		f.want(all, "[2]", "[3]", "[4]")
		if crash {
			f.crash()
		} else {
			f.close()
		}
		// And while nothing runs.
		f.write("[5]\n")
		require.NoError(t, os.Rename(f.path+".1", f.path+".2"))
		f.copyTruncate(f.path + ".1")
		f.write("[6]\n")
		f.open(&all[2].Cursor)
		more := f.read(4)
		f.want(more, "[5]", "[6]")
		require.Greater(t, more[0].Cursor.Primary, all[2].Cursor.Primary)
		f.close()
	}
}

func TestATruncationWhileNothingRan(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("[1]\n[2]\n")
	f.open(nil)
	events := f.read(0)
	f.close()
	f.copyTruncate("")
	f.write("[3]\n")
	f.open(&events[1].Cursor)
	all := f.read(1)
	f.want(all, "[3]")
	require.Greater(t, all[0].Cursor.Primary, events[1].Cursor.Primary)
	f.close()
	f.copyTruncate("")
	f.write("[4]\n[5]\n")
	f.open(&events[1].Cursor) // [3] was read, and not settled
	all = f.read(1)
	f.want(all, "error: 4 bytes", "[4]", "[5]")
}

func TestASettledFileIsForgotten(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("1\n")
	f.open(nil)
	var all []types.Event
	all = append(all, f.read(0)...)
	for n := 2; n < 6; n++ {
		f.rotate()
		f.write(fmt.Sprintln(n))
		all = append(all, f.read(3)...)
	}
	f.want(all, "1", "2", "3", "4", "5")
	require.Len(t, f.s.ledger.files, 5)
	require.NoError(t, f.s.Settle(t.Context(), all[0].Cursor))
	require.Len(t, f.s.ledger.files, 5)
	require.NoError(t, f.s.Settle(t.Context(), all[3].Cursor))
	require.Len(t, f.s.ledger.files, 2)
	f.reopen(&all[3].Cursor)
	require.Len(t, f.s.ledger.files, 2)
	f.want(f.read(3), "5")

	f.reopen(&all[0].Cursor) // an operator goes back
	f.want(f.read(6), "error: 5 bytes are gone", "4", "5")
}

func TestEmptyFilesInBetween(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("1\n")
	f.open(nil)
	f.want(f.read(0), "1")
	for range 3 {
		f.rotate()
		f.write("")
		require.Empty(t, f.read(3))
	}
	require.LessOrEqual(t, len(f.s.ledger.files), 2)
	f.rotate()
	f.write("\n\n")
	require.Empty(t, f.read(3))
	f.rotate()
	f.write("2\n")
	events := f.read(3)
	f.want(events, "2")
	require.EqualValues(t, 4, events[0].Cursor.Primary)
}

func TestPlacesOfArchives(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ older, newer string }{
		{".2", ".1"}, {".10", ".9"}, {".1", ".0"}, {"-20260101", "-20260102"}, {".2026-01-31T09", ".2026-02-01T08"},
	} {
		family, age := place(test.older)
		other, later := place(test.newer)
		require.Equal(t, family, other)
		require.Less(t, age, later)
	}
	for _, test := range [][2]string{{".1", "-20260101"}, {".bak", ".1"}, {".1", "-1"}, {"-20260101", "-2026-01-01"}} {
		family, _ := place(test[0])
		other, _ := place(test[1])
		require.NotEqual(t, family, other)
	}
}

func TestArchivesOfOtherFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a", "a.1", "a.2.gz", "a.2", "a.3.gz", "a-1", "ab", "ab.1", "b.1", "a.", "a_1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a.4"), 0o700))
	require.NoError(t, os.Symlink("b.1", filepath.Join(dir, "a.5")))
	all, err := archives(filepath.Join(dir, "a"))
	require.NoError(t, err)
	var names []string
	for _, a := range all {
		names = append(names, strings.TrimPrefix(a.name, dir+"/"))
	}
	require.ElementsMatch(t, []string{"a.1", "a.2", "a.3.gz", "a-1"}, names)
}

func TestASourceThatEndsReadsWhatWasRotated(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.once = true
	f.write("1\n2\n")
	f.open(nil)
	events := f.read(0)
	f.want(events, "1", "2")
	f.close()
	f.write(`{"cut`)
	f.rotate()
	f.write("3\n")
	f.rotate()
	f.write("4")
	f.open(&events[0].Cursor)
	f.want(f.read(0), "2", "error: a string does not end", "3", "4")
	f.close()
	f.rotate()
	f.open(&events[0].Cursor)
	f.want(f.read(0), "2", "error: a string does not end", "3", "4")
	f.close()
	require.NoError(t, os.Remove(f.path+".1"))
	f.open(nil)
	ctx := t.Context()
	for {
		_, err := f.s.Read(ctx, 1)
		if err != nil {
			require.ErrorIs(t, err, ports.ErrBackendFailed)
			require.ErrorContains(t, err, "is not there")
			return
		}
	}
}

func TestSettlingIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("1\n")
	f.open(nil)
	f.want(f.read(0), "1")
	f.rotate()
	f.write("2\n")
	events := f.read(3)
	f.want(events, "2")
	blocker := ledgerName(f.state, "p") + ".new"
	require.NoError(t, os.MkdirAll(filepath.Join(blocker, "x"), 0o700))
	for range 2 {
		require.ErrorIs(t, f.s.Settle(t.Context(), events[0].Cursor), ports.ErrBackendFailed)
	}
	require.NoError(t, os.RemoveAll(blocker))
	require.NoError(t, f.s.Settle(t.Context(), events[0].Cursor))
	require.False(t, f.s.ledger.stale)
}

// Another path for a pipeline is another file, and says so.
func TestAChangedPath(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.write("1\n")
	f.open(nil)
	events := f.read(0)
	f.close()
	f.path = filepath.Join(f.dir, "other.ndjson")
	f.write("2\n")
	f.open(&events[0].Cursor)
	all := f.read(1)
	f.want(all, "error: 0 bytes are gone, as far as they are known", "2")
	require.Greater(t, all[1].Cursor.Primary, events[0].Cursor.Primary)
}
