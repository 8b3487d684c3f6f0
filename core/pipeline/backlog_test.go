package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// waiting is the entry number n, whose event has about so many bytes.
func waiting(n, size int) entry {
	cursor := types.Cursor{Primary: uint64(n), Secondary: uint64(n % 3)}
	return entry{step: uint64(n), cursor: cursor, event: types.SinkEvent{Match: &types.Match{
		ID: types.MatchID(fmt.Sprintf("match-%d", n)), Pipeline: "earthquakes", Monitor: "strong", Cursor: cursor, TS: int64(n),
		Event: fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, n, strings.Repeat("x", size)),
	}}}
}

func waitingFrom(from, n, size int) []entry {
	var entries []entry
	for i := range n {
		entries = append(entries, waiting(from+i, size))
	}
	return entries
}

func spillFiles(t require.TestingT, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	return files
}

func spillBytes(t testing.TB, dir string) (sum int64) {
	t.Helper()
	for _, file := range spillFiles(t, dir) {
		info, err := os.Stat(file)
		require.NoError(t, err)
		sum += info.Size()
	}
	return sum
}

func takeAll(t testing.TB, b *backlog, n int) []entry {
	t.Helper()
	taken, err := b.take(n)
	require.NoError(t, err)
	return taken
}

func TestBacklogInMemoryMakesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBacklog(dir, "p/m/s", 100)
	require.Empty(t, takeAll(t, b, 10), "an empty one")
	for round := range 29 { // more than fits, in all
		require.NoError(t, b.push(waitingFrom(10*round, 10, 100)...))
		require.Equal(t, 10+3*round, b.len())
		require.Equal(t, waitingFrom(7*round, 7, 100), takeAll(t, b, 7))
	}
	require.Empty(t, spillFiles(t, dir))
	require.NoError(t, b.close())
}

func TestBacklogSpillsWhatMemoryDoesNotHold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBacklog(dir, "earthquakes/../strong über", 10)
	const many = 2_000
	require.NoError(t, b.push(waitingFrom(0, many, 200)...))
	require.Equal(t, many, b.len())

	files := spillFiles(t, dir)
	require.Len(t, files, 1)
	require.Regexp(t, `^stowage-backlog-earthquakes_\.\._strong__ber-\d+\.spill$`, filepath.Base(files[0]))
	info, err := os.Stat(files[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Greater(t, info.Size(), int64(200*(many-10)/2))

	for from := 0; from < many; from += 100 {
		require.Equal(t, waitingFrom(from, 100, 200), takeAll(t, b, 100))
		require.Equal(t, many-from-100, b.len())
	}
	require.Empty(t, takeAll(t, b, 1))
	require.Empty(t, spillFiles(t, dir), "an empty one gives its space back")

	require.NoError(t, b.push(waitingFrom(0, 10, 200)...), "and begins in memory again")
	require.Equal(t, waitingFrom(0, 10, 200), takeAll(t, b, many))
	require.NoError(t, b.close())
}

func TestBacklogThatIsNeverEmptyStaysBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBacklog(dir, "slow", 4)
	const size, live = 256 << 10, 20
	require.NoError(t, b.push(waitingFrom(0, live, size)...))
	var most int64
	for n := range 500 { // 125 MiB go through
		require.NoError(t, b.push(waiting(live+n, size)))
		require.Equal(t, uint64(n), takeAll(t, b, 1)[0].step)
		most = max(most, spillBytes(t, dir))
	}
	require.Equal(t, live, b.len())
	require.Less(t, most, int64(2*spillSegment+live*size))
	require.NoError(t, b.close())
	require.Empty(t, spillFiles(t, dir), "closing removes the files")
}

func TestBacklogKeepsEventsAsTheyAre(t *testing.T) {
	t.Parallel()
	match := types.Match{
		ID: "m", Pipeline: "p", Monitor: "n", Cursor: types.Cursor{Primary: 1<<63 - 1, Secondary: 1<<64 - 1}, Index: 1<<64 - 1, TS: -1 << 63,
		Event: json.RawMessage(strings.Repeat("\x00\xffé", 1<<18)), // a MiB, and no JSON at all
	}
	all := []entry{
		{},
		{step: 1<<64 - 1, cursor: types.Cursor{Primary: 1<<64 - 1}, event: types.SinkEvent{Match: &match, Traceparent: "00-aa-bb-01"}},
		{event: types.SinkEvent{Match: &types.Match{}}},
		{event: types.SinkEvent{Match: &types.Match{Event: json.RawMessage{}}}},
		{event: types.SinkEvent{Emission: &types.Emission{Match: match, Key: "k\xff", Hits: 1<<64 - 1, FirstTS: -1, LastTS: 1<<63 - 1}}},
		{event: types.SinkEvent{Match: &types.Match{Pipeline: "q"}, Emission: &types.Emission{}}},
	}
	b := newBacklog(t.TempDir(), "p", 0)
	for range 3 {
		require.NoError(t, b.push(all...))
		require.NoError(t, b.push(all...))
		var taken []entry
		for b.len() > 0 { // these are large
			taken = append(taken, takeAll(t, b, 100)...)
		}
		require.Equal(t, append(all[:len(all):len(all)], all...), taken)
	}
	require.NoError(t, b.close())
}

func TestTakenEntriesShareNoMemoryWithTheFile(t *testing.T) {
	t.Parallel()
	b := newBacklog(t.TempDir(), "p", 0)
	require.NoError(t, b.push(waitingFrom(0, 3, 10)...))
	first := takeAll(t, b, 1)[0]
	event := bytes.Clone(first.event.Match.Event)
	_ = append(first.event.Match.Event, "overwritten"...)
	takeAll(t, b, 2)
	require.NoError(t, b.push(waitingFrom(5, 3, 10)...))
	require.Equal(t, event, []byte(first.event.Match.Event))
	require.Equal(t, waitingFrom(5, 3, 10), takeAll(t, b, 3))
	require.NoError(t, b.close())
}

// What cannot be written is kept in memory, in order, and written once it can.
func TestBacklogLosesNothingWhenItCannotWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spill")
	b := newBacklog(dir, "p", 10)
	const size = spillChunk / 4
	require.NoError(t, b.push(waitingFrom(0, 12, size)...), "what is not worth a write needs no file")
	pushed := 12
	for range 3 {
		err := b.push(waitingFrom(pushed, 10, size)...)
		pushed += 10
		require.ErrorIs(t, err, ports.ErrBackendFailed)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.ErrorContains(t, err, dir)
		require.True(t, ports.IsTransient(err))
		require.Equal(t, pushed, b.len())
	}
	require.Equal(t, waitingFrom(0, 15, size), takeAll(t, b, 15))

	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, b.push(waitingFrom(pushed, 20, size)...))
	pushed += 20
	require.NotEmpty(t, spillFiles(t, dir))
	require.Equal(t, waitingFrom(15, pushed-15, size), takeAll(t, b, pushed))
	require.Zero(t, b.len())
	require.NoError(t, b.close())
}

func TestAFileThatSomebodyCutIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBacklog(dir, "p", 5)
	require.NoError(t, b.push(waitingFrom(0, 3_000, 100)...))
	file := spillFiles(t, dir)[0]
	require.NoError(t, os.Truncate(file, 100_000))
	var taken []entry
	for {
		some, err := b.take(700)
		if err != nil {
			require.ErrorIs(t, err, ports.ErrBackendFailed)
			require.ErrorContains(t, err, file)
			require.Empty(t, some)
			break
		}
		require.NotEmpty(t, some)
		taken = append(taken, some...)
	}
	require.Equal(t, waitingFrom(0, len(taken), 100), taken, "what came before is there")
	require.Equal(t, 3_000-len(taken), b.len())
	require.NoError(t, b.close())

	require.NoError(t, b.push(waitingFrom(0, 3_000, 100)...))
	file = spillFiles(t, dir)[0]
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte{0xff}, 300_000), 0o600))
	takeAll(t, b, 5)
	_, err := b.take(1)
	require.ErrorIs(t, err, ports.ErrCorrupt)
	require.NoError(t, b.close())
}

func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, removeLeftovers(filepath.Join(dir, "missing")))
	keep := []string{"notes.txt", "stowage-backlog-p.txt", "p.spill"}
	for _, name := range keep {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "stowage-backlog-a-1.spill"), 0o700))
	killed, alive := newBacklog(dir, "killed", 0), newBacklog(dir, "alive", 0)
	for _, b := range []*backlog{killed, alive} {
		require.NoError(t, b.push(waitingFrom(0, 2_000, 100)...))
	}
	require.Len(t, spillFiles(t, dir), 6)
	require.NoError(t, removeLeftovers(dir))
	require.Len(t, spillFiles(t, dir), 4, "other files, and the directory, stay")
	require.Equal(t, waitingFrom(0, 2_000, 100), takeAll(t, alive, 2_000), "one that is in use stays readable")
	require.NoError(t, alive.close())
	require.NoError(t, killed.close())

	file := filepath.Join(dir, "notes.txt")
	err := removeLeftovers(file)
	require.ErrorIs(t, err, ports.ErrBackendFailed)
	require.ErrorContains(t, err, file)
}

// Any history of pushes and takes gives what a slice gives, also while the directory is away.
func TestBacklogIsAList(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var runs atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		dir := filepath.Join(root, fmt.Sprint(runs.Add(1)))
		require.NoError(t, os.Mkdir(dir, 0o700))
		memory := rapid.IntRange(-1, 40).Draw(t, "memory")
		b := newBacklog(dir, "p", memory)
		var list []entry
		made := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"push", "push", "take", "take", "away", "back"}).Draw(t, "step") {
			case "push":
				n := rapid.IntRange(0, 30).Draw(t, "n")
				size := rapid.SampledFrom([]int{0, 10, 1_000, 15_000}).Draw(t, "size")
				some := waitingFrom(made, n, size)
				made += n
				list = append(list, some...)
				if err := b.push(some...); err != nil {
					require.ErrorIs(t, err, os.ErrNotExist)
				}
			case "take":
				n := rapid.IntRange(0, 50).Draw(t, "n")
				taken, err := b.take(n)
				require.NoError(t, err)
				n = min(n, len(list))
				require.Len(t, taken, n)
				for i := range taken {
					require.Equal(t, list[i], taken[i])
				}
				list = list[n:]
			case "away":
				require.NoError(t, os.RemoveAll(dir)) // files that are open stay
			case "back":
				require.NoError(t, os.MkdirAll(dir, 0o700))
			}
			require.Equal(t, len(list), b.len())
		}
		taken, err := b.take(len(list) + 1)
		require.NoError(t, err)
		require.Len(t, taken, len(list))
		for i := range taken {
			require.Equal(t, list[i], taken[i])
		}
		require.NoError(t, b.close())
		require.Empty(t, spillFiles(t, dir))
	})
}

func BenchmarkBacklogSpill(b *testing.B) {
	backlog := newBacklog(b.TempDir(), "p", 0)
	entries := waitingFrom(0, 500, 150)
	b.ReportAllocs()
	for b.Loop() {
		if err := backlog.push(entries...); err != nil {
			b.Fatal(err)
		}
		if _, err := backlog.take(len(entries)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(entries))/b.Elapsed().Seconds(), "entries/s")
	if err := backlog.close(); err != nil {
		b.Fatal(err)
	}
}

func TestBacklogOfLargeEventsIsOnTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBacklog(dir, "large", 1000)
	large := json.RawMessage(`"` + strings.Repeat("e", 1<<20-2) + `"`)
	const n = 30
	for i := range uint64(n) {
		require.NoError(t, b.push(entry{step: i, event: types.SinkEvent{Match: &types.Match{Event: large}}}))
	}
	require.LessOrEqual(t, len(b.head), spillMemory>>20)
	require.NotEmpty(t, b.segments)
	next := uint64(0)
	for b.len() > 0 {
		taken, err := b.take(500)
		require.NoError(t, err)
		require.NotEmpty(t, taken)
		require.LessOrEqual(t, len(taken), takeBytes>>20)
		for _, e := range taken {
			require.Equal(t, next, e.step)
			next++
		}
	}
	require.EqualValues(t, n, next)
	require.Zero(t, b.bytes)
	require.NoError(t, b.close())
}
