package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// requireIndexMatchesFile compares the index in memory with what one that is made anew has.
func requireIndexMatchesFile(t testing.TB, s *Storage) {
	t.Helper()
	fresh := &Storage{file: s.file, calls: newFence()}
	require.NoError(t, fresh.loadLetters(t.Context(), "test"))
	require.NoError(t, s.write(t.Context(), "test", func(transaction) error {
		require.Equal(t, fresh.letters, s.letters)
		return nil
	}))
}

// plantLetters adds numbered letters beneath the port, spread over pipelines p0, p1, ….
func plantLetters(t testing.TB, path string, n, pipelines int) {
	t.Helper()
	plant(t, path, fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO dead_letters (pipeline, entry) SELECT 'p' || (i %% %d),
json_object('match_id', printf('match-%%06d', i), 'monitor', 'strong', 'sink', 'alerts', 'cursor', json_object('primary', i, 'secondary', 0),
'attempts', 3, 'reason', 'the receiver answered 503', 'payload', json_object('type', 'match', 'data', json_object('match_id', printf('match-%%06d', i),
'pipeline', 'p' || (i %% %d), 'monitor', 'strong', 'cursor', json_object('primary', i, 'secondary', 0), 'event_index', 0, 'event_ts', 1700000000000 + i,
'event', json_object('mag', 4.5, 'place', 'somewhere in the middle of the ocean', 'id', i)))) FROM n`, n, pipelines, pipelines))
}

// Every page is the same slice of the same list, however far it lies, whatever was deleted.
func TestPagesOfLettersAreSlicesOfTheList(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", sqlitefile.InMemory} {
		s := open(t, Options{Path: path})
		if path == "" {
			path = s.Path()
			require.NoError(t, s.Close())
			plantLetters(t, path, 20_000, 2)
			s = open(t, Options{Path: path})
		} else {
			execute(t, s.file, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO dead_letters (pipeline, entry) SELECT 'p' || (i % 2), json_object('match_id', 'm-' || i) FROM n`)
			s.lettersAt = 0 // no other connection could have told it
			require.NoError(t, s.loadLetters(t.Context(), "test"))
		}
		for range 4 {
			requirePages(t, s)
			// Holes of all sizes, whole blocks among them.
			from := rand.IntN(15_000)
			for _, hole := range []int{1, 50, 1500} {
				var ids []types.MatchID
				letters, err := s.ListDeadLetters(t.Context(), "p1", types.LetterQuery{Skip: from % 5000, Take: min(hole, 1000)})
				require.NoError(t, err)
				for _, l := range letters {
					if l.Letter.MatchID != "" {
						ids = append(ids, l.Letter.MatchID)
					}
				}
				n, err := s.DeleteDeadLetters(t.Context(), "p1", ids)
				require.NoError(t, err)
				require.EqualValues(t, len(ids), n)
			}
			all := allPositions(t, s, "p1")
			through := all[len(all)/10]
			n, err := s.DeleteAllDeadLetters(t.Context(), "p1", through)
			require.NoError(t, err)
			require.EqualValues(t, len(all)/10+1, n)
			require.NoError(t, s.RecordDeadLetter(t.Context(), "p1", fixture.DeadLetter(1_000_000+from)))
			requireIndexMatchesFile(t, s)
		}
		n, err := s.DeleteAllDeadLetters(t.Context(), "p1", math.MaxInt64)
		require.NoError(t, err)
		require.NotZero(t, n)
		requireIndexMatchesFile(t, s)
		counts, err := s.CountDeadLetters(t.Context())
		require.NoError(t, err)
		require.Equal(t, []types.LetterCount{{Pipeline: "p0", Count: 10_000}}, counts)
	}
}

func allPositions(t testing.TB, s *Storage, pipeline string) []int64 {
	t.Helper()
	var all []int64
	for _, row := range queryRows(t, s.file, "SELECT seq FROM dead_letters WHERE pipeline = ?1 ORDER BY seq", pipeline) {
		all = append(all, row[0].(int64))
	}
	return all
}

func requirePages(t testing.TB, s *Storage) {
	t.Helper()
	all := allPositions(t, s, "p1")
	skips := []int{0, 1, mostOffset - 1, mostOffset, mostOffset + 1, 2 * mostOffset, len(all) / 2, len(all) - 1, len(all), len(all) + 1, math.MaxInt}
	afters := []int{0, 1, 7, len(all) / 3, len(all) - 1}
	for range 20 {
		skips = append(skips, rand.IntN(len(all)))
		afters = append(afters, rand.IntN(len(all)))
	}
	for _, skip := range skips {
		for _, i := range afters {
			query := types.LetterQuery{Skip: skip, Take: 3}
			want := all
			if i > 0 {
				query.After = all[i-1]
				want = all[i:]
			}
			want = want[min(skip, len(want)):]
			want = want[:min(3, len(want))]
			letters, err := s.ListDeadLetters(t.Context(), "p1", query)
			require.NoError(t, err)
			var got []int64
			for _, l := range letters {
				got = append(got, l.Position)
			}
			require.Len(t, got, len(want), "%+v", query)
			if len(want) > 0 {
				require.Equal(t, want, got, "%+v", query)
			}
		}
	}
}

// A step that fails after it has changed letters leaves the index as it was, and so does a transaction
// that fails.
func TestTheIndexFollowsWhatIsUndone(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	for i := range 20 {
		require.NoError(t, s.RecordDeadLetter(t.Context(), types.PipelineID(fmt.Sprint("p", i%2)), fixture.DeadLetter(i)))
	}
	path := s.Path()
	require.NoError(t, s.Close())
	plantLetters(t, path, 5000, 2)
	s = open(t, Options{Path: path})
	before := dump(t, s.file)
	undone := errors.New("undone")
	change := func(tx transaction) error {
		encoded, err := encodeLetter("test", fixture.DeadLetter(77_777))
		require.NoError(t, err)
		require.NoError(t, tx.recordLetter("p0", encoded))
		_, err = tx.deleteLetter("p0", fixture.DeadLetter(4).MatchID)
		require.NoError(t, err)
		_, err = tx.deleteLettersThrough("p1", 3000)
		require.NoError(t, err)
		_, err = tx.deleteLettersThrough("p0", math.MaxInt64)
		require.NoError(t, err)
		return undone
	}
	require.ErrorIs(t, s.write(t.Context(), "test", change), undone)
	require.Equal(t, before, dump(t, s.file))
	requireIndexMatchesFile(t, s)

	// As one that has no savepoint, it takes the transaction with it.
	require.Error(t, s.writeOne(t.Context(), "test", change))
	require.Equal(t, before, dump(t, s.file))
	requireIndexMatchesFile(t, s)

	require.Panics(t, func() {
		_ = s.write(t.Context(), "test", func(tx transaction) error {
			_ = change(tx)
			panic("in the middle")
		})
	})
	require.Equal(t, before, dump(t, s.file))
	requireIndexMatchesFile(t, s)
}

// What another program does to the letters while the storage is open, such as an operator who deletes a
// row that cannot be read, is seen by the next call.
func TestTheIndexFollowsOtherPrograms(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	path := s.Path()
	var first types.Progress
	for i := range 3000 {
		first.DeadLetters = append(first.DeadLetters, fixture.DeadLetter(i))
	}
	require.NoError(t, s.Apply(t.Context(), "p1", first))
	next := 3000
	calls := map[string]func() error{
		"record": func() error { return s.RecordDeadLetter(t.Context(), "p1", fixture.DeadLetter(next)) },
		"apply": func() error {
			return s.Apply(t.Context(), "p1", types.Progress{DeadLetters: []types.DeadLetter{fixture.DeadLetter(next)}, Settled: []types.MatchID{"q-1"}})
		},
		"delete": func() error {
			_, err := s.DeleteDeadLetter(t.Context(), "q", "q-1")
			return err
		},
		"delete some": func() error {
			_, err := s.DeleteDeadLetters(t.Context(), "q", []types.MatchID{"q-1", "q-2"})
			return err
		},
		"delete all": func() error {
			_, err := s.DeleteAllDeadLetters(t.Context(), "q", math.MaxInt64)
			return err
		},
		"count": func() error {
			_, err := s.CountDeadLetters(t.Context())
			return err
		},
		"a fault": func() error {
			err := s.write(t.Context(), "test", func(tx transaction) error {
				require.NoError(t, tx.followLetters())
				_, err := tx.deleteLettersThrough("q", math.MaxInt64)
				require.NoError(t, err)
				return errInjected
			})
			require.ErrorIs(t, err, errInjected)
			return nil
		},
	}
	for name, call := range calls {
		plant(t, path, "DELETE FROM dead_letters WHERE seq % 7 = 0 AND pipeline = 'p1' AND seq > 500",
			`INSERT INTO dead_letters (pipeline, entry) VALUES ('q', '{"match_id":"q-1"}'), ('q', '{"match_id":"q-2"}'), ('q', '[]')`)
		require.NoError(t, call(), name)
		next++
		requireIndexMatchesFile(t, s)
		requirePages(t, s)
	}
}

// SQLite reads JSON down to 1000 levels, and the port has no such limit.
func TestADeepEventIsALetterLikeAnyOther(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	for _, depth := range []int{900, 995, 996, 997, 998, 999, 1000, 1001, ports.MaxJSONDepth} {
		for _, emission := range []bool{false, true} {
			letter := fixture.DeadLetter(depth)
			match := letter.Payload.Match
			match.Event = json.RawMessage(strings.Repeat("[", depth-1) + `{"[\"[{":"]"}` + strings.Repeat("]", depth-1))
			if emission {
				letter.MatchID += "-e"
				letter.Payload = &types.SinkEvent{Emission: &types.Emission{Match: *match, Hits: 2}}
			}
			require.NoError(t, s.RecordDeadLetter(t.Context(), "p", letter), depth)
			stored, found, err := s.GetDeadLetter(t.Context(), "p", letter.MatchID)
			require.NoError(t, err)
			require.True(t, found)
			require.NoError(t, stored.Err)
			require.Equal(t, letter, stored.Letter)
		}
	}
	deep := queryRows(t, s.file, "SELECT count(*) FROM dead_letters WHERE json_type(entry, '$.payload_text') = 'text' AND json_type(entry, '$.payload') IS NULL")
	require.Equal(t, [][]any{{int64(11)}}, deep, "998 and above in a match, 997 and above in an emission")
	require.NoError(t, s.Verify(t.Context()))
}

func TestAStringThatLooksDeepIsNot(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`[{`, 2000)
	require.False(t, isDeeper(`{"a":"`+many+`"}`, 2))
	require.False(t, isDeeper(`["\"`+many+`\\"]`, 1))
	require.False(t, isDeeper(strings.Repeat(`[[]],`, 2000), 2))
	require.True(t, isDeeper(`["\\",[[]]]`, 2))
	letter := fixture.DeadLetter(1)
	letter.Reason = many[:ports.MaxReasonBytes/2] + `"]`
	entry, err := encodeEntry(letter)
	require.NoError(t, err)
	require.NotContains(t, entry, "payload_text")
}

// A letter whose reason or event speaks of the member is no deep one.
func TestTheNameOfTheMemberInATextMeansNothing(t *testing.T) {
	t.Parallel()
	letter := fixture.DeadLetter(1)
	letter.Payload = nil
	letter.Reason = `"payload_text"`
	entry, err := encodeEntry(letter)
	require.NoError(t, err)
	got, err := decodeEntry(entry)
	require.NoError(t, err)
	require.Equal(t, letter, got)
	for _, text := range []string{`7`, `"x"`, `"[]"`, `"{\"type\":\"other\"}"`} {
		got, err := decodeEntry(`{"match_id":"m","payload_text":` + text + `}`)
		require.Error(t, err, text)
		require.Equal(t, types.DeadLetter{MatchID: "m"}, got)
	}
}
