package sqlite

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func exported(t *testing.T, s *Storage) (all []types.Record) {
	t.Helper()
	require.NoError(t, s.Export(t.Context(), func(r types.Record) error {
		all = append(all, r)
		return nil
	}))
	return all
}

func sequence(records []types.Record) iter.Seq2[types.Record, error] {
	return func(yield func(types.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// What an older file holds can be taken elsewhere: of a letter that stands twice, the first.
func TestAnOlderFileCanBeExportedAndImported(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Path: copyFixture(t, 4)})
	require.ErrorIs(t, s.Export(t.Context(), func(types.Record) error { return nil }), ports.ErrUndecodable)
	n, err := s.DeleteAllDeadLetters(t.Context(), "tides", 1<<62)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.NoError(t, s.Close())
	plant(t, s.Path(), "DELETE FROM dead_letters WHERE seq IN (7, 8)")

	s = open(t, Options{Path: s.Path()})
	all := exported(t, s)
	var letters []string
	for _, r := range all {
		if r.DeadLetter != nil {
			letters = append(letters, fmt.Sprint(r.Pipeline, " ", r.DeadLetter.MatchID, " ", r.DeadLetter.Reason))
		}
	}
	require.Equal(t, []string{"quakes m-1 no payload", "quakes m-2 tagged", "quakes m-3 bare"}, letters)

	for _, path := range []string{"", sqlitefile.InMemory} {
		other := open(t, Options{Path: path})
		count, err := other.Import(t.Context(), sequence(all))
		require.NoError(t, err)
		require.EqualValues(t, len(all), count)
		require.Equal(t, all, exported(t, other))
		requireIndexMatchesFile(t, other)
	}
}

// An import that fails, whenever it does, leaves an empty store that takes the next one.
func TestAnImportThatFailsLeavesTheIndexEmpty(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	var records []types.Record
	for n := range 50 {
		letter := fixture.DeadLetter(n)
		records = append(records, types.Record{Pipeline: "p", DeadLetter: &letter})
	}
	broken := errors.New("the sequence broke")
	_, err := s.Import(t.Context(), func(yield func(types.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
		yield(types.Record{}, broken)
	})
	require.Equal(t, broken, err)
	requireIndexMatchesFile(t, s)
	_, err = s.Import(t.Context(), sequence(append(records, records[3])))
	require.ErrorIs(t, err, ports.ErrAlreadyExists)
	requireIndexMatchesFile(t, s)
	require.Empty(t, exported(t, s))
	count, err := s.Import(t.Context(), sequence(records))
	require.NoError(t, err)
	require.EqualValues(t, 50, count)
	requireIndexMatchesFile(t, s)
}
