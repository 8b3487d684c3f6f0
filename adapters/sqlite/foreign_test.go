package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// What another program has written oddly is named by table and key, and never shown.
func TestRowsThatCannotBeReadAreNamedAndNotShown(t *testing.T) {
	t.Parallel()
	last := types.Cursor{Primary: 1 << 62}
	getResource := func(t *testing.T, s *Storage) error {
		_, _, err := s.GetResource(t.Context(), "k", "a")
		return err
	}
	listResources := func(t *testing.T, s *Storage) error {
		_, err := s.ListResources(t.Context(), "k", types.ResourceListOptions{})
		return err
	}
	update := func(t *testing.T, s *Storage) error {
		_, err := s.PutResource(t.Context(), "k", "a", []byte("1"), 5)
		return err
	}
	load := func(t *testing.T, s *Storage) error {
		_, _, err := s.LoadCheckpoint(t.Context(), "p")
		return err
	}
	checkpoints := func(t *testing.T, s *Storage) error {
		_, err := s.ListCheckpoints(t.Context())
		return err
	}
	letter := func(t *testing.T, s *Storage) error {
		letters, err := s.ListDeadLetters(t.Context(), "p", types.LetterQuery{Take: 10})
		require.NoError(t, err)
		require.Len(t, letters, 1)
		return letters[0].Err
	}
	delivered := func(t *testing.T, s *Storage) error {
		_, err := s.Delivered(t.Context(), "p", types.Cursor{}, last)
		return err
	}
	record := func(t *testing.T, s *Storage) error {
		return s.RecordDeliveries(t.Context(), "p", []types.Delivery{{MatchID: "new"}})
	}
	pauses := func(t *testing.T, s *Storage) error {
		_, err := s.ListPauses(t.Context())
		return err
	}
	hits := func(t *testing.T, s *Storage) error {
		_, err := s.Hits(t.Context(), "p", "m", 0)
		return err
	}
	meta := func(t *testing.T, s *Storage) error {
		_, _, err := s.GateMeta(t.Context(), "p", "m")
		return err
	}
	type call = func(*testing.T, *Storage) error
	calls := func(list ...call) []call { return list }
	for i, test := range []struct {
		row   string
		table string
		key   string
		calls []call
	}{
		{"resources VALUES ('k', 'a', -1, '1')", "resources", "k/a", calls(getResource, listResources, update)},
		{"resources VALUES ('k', 'a', 'secret', '1')", "resources", "k/a", calls(getResource, listResources, update)},
		{"resources VALUES ('k', 'a', 1.5, '1')", "resources", "k/a", calls(getResource)},
		{"resources VALUES ('k', 'a', 1, 'secret')", "resources", "k/a", calls(getResource, listResources)},
		{"resources VALUES ('k', 'a', 1, CAST(x'22ff22' AS TEXT))", "resources", "k/a", calls(getResource)},
		{"resources VALUES ('k', 'a', 1, x'736563726574')", "resources", "k/a", calls(getResource)},
		{"resources VALUES (x'00', 'a', 1, '1')", "resources", "", calls(func(t *testing.T, s *Storage) error {
			_, err := s.ResourceKinds(t.Context())
			return err
		})},
		{"checkpoints VALUES ('p', 'secret')", "checkpoints", "p", calls(load, checkpoints)},
		{"checkpoints VALUES ('p', '{\"module\":\"secret\"}')", "checkpoints", "p", calls(load, checkpoints)},
		{"checkpoints VALUES ('p', '{\"cursor\":{\"primary\":-1,\"secondary\":0}}')", "checkpoints", "p", calls(load)},
		{"checkpoints VALUES ('p', x'00')", "checkpoints", "p", calls(load)},
		{"checkpoints VALUES (x'00', '{}')", "checkpoints", "", calls(checkpoints)},
		{"dead_letters VALUES (7, 'p', '[\"secret\"]')", "dead_letters", "p/7", calls(letter)},
		{"dead_letters VALUES (7, 'p', x'7b7d')", "dead_letters", "p/7", calls(letter)},
		{"dead_letters VALUES (-7, 'p', '{\"match_id\":\"m\"}')", "dead_letters", "p/-7", calls(letter)},
		{"delivery_journal VALUES ('p', 1, -1, 'm')", "delivery_journal", "p/m", calls(delivered)},
		{"delivery_journal VALUES ('p', 1, 'x', 'm')", "delivery_journal", "p/m", calls(delivered)},
		{"delivery_journal VALUES ('p', 1, 0, x'00')", "delivery_journal", "p", calls(delivered)},
		{"delivery_journal VALUES ('p', 1.5, 0, 'm')", "delivery_journal", "p", calls(delivered, record)},
		{"pauses VALUES (x'00', 'i')", "pauses", "i", calls(pauses)},
		{"pauses VALUES ('t', x'00')", "pauses", "t", calls(pauses)},
		{"gate_hits VALUES ('p', 'm', -1, 0, 0, 0, '1')", "gate_hits", "p/m", calls(hits)},
		{"gate_hits VALUES ('p', 'm', 0, 'x', 0, 0, '1')", "gate_hits", "p/m", calls(hits)},
		{"gate_hits VALUES ('p', 'm', 0, 0, -1, 0, '1')", "gate_hits", "p/m", calls(hits)},
		{"gate_hits VALUES ('p', 'm', 0, 0, 0, 'x', '1')", "gate_hits", "p/m", calls(hits)},
		{"gate_hits VALUES ('p', 'm', 0, 0, 0, 0, 'secret')", "gate_hits", "p/m", calls(hits)},
		{"gate_meta VALUES ('p', 'm', 'x', NULL)", "gate_meta", "p/m", calls(meta)},
		{"gate_meta VALUES ('p', 'm', NULL, 'secret')", "gate_meta", "p/m", calls(meta)},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "storage.sqlite")
			plant(t, path, "INSERT INTO "+test.row)
			s := open(t, Options{Path: path})
			verify := func(t *testing.T, s *Storage) error { return s.Verify(t.Context()) }
			for _, call := range append(test.calls, verify) {
				err := call(t, s)
				require.ErrorIs(t, err, ports.ErrBackendFailed, test.row)
				require.ErrorIs(t, err, ports.ErrUndecodable, test.row)
				require.False(t, ports.IsTransient(err))
				require.ErrorContains(t, err, "table "+test.table)
				require.ErrorContains(t, err, test.key)
				require.ErrorContains(t, err, path)
				require.NotContains(t, err.Error(), "secret")
			}
			export := s.Export(t.Context(), func(types.Record) error { return nil })
			require.ErrorIs(t, export, ports.ErrUndecodable)
		})
	}
}

// A letter whose pipeline is no text belongs to nobody, and stops nothing but an export.
func TestALetterOfNoPipelineIsPassedOver(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "storage.sqlite")
	plant(t, path, "INSERT INTO dead_letters (pipeline, entry) VALUES (x'00', '{}')")
	s := open(t, Options{Path: path})
	counts, err := s.CountDeadLetters(t.Context())
	require.NoError(t, err)
	require.Empty(t, counts)
	err = s.Verify(t.Context())
	require.ErrorIs(t, err, ports.ErrUndecodable)
	require.ErrorContains(t, err, "table dead_letters")
}

// Of a letter that stands twice each copy is checked.
func TestVerifyReadsALetterThatStandsTwiceTwice(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "storage.sqlite")
	plant(t, path, `INSERT INTO dead_letters VALUES (3, 'p', '{"match_id":"m"}'), (4, 'q', '{"match_id":"m"}'), (7, 'p', '{"match_id":"m","monitor":[]}')`)
	s := open(t, Options{Path: path})
	require.NoError(t, s.Export(t.Context(), func(types.Record) error { return nil }))
	err := s.Verify(t.Context())
	require.ErrorIs(t, err, ports.ErrUndecodable)
	require.ErrorContains(t, err, "p/7")
}

// Cursors of text and BLOBs are above all numbers, and are not taken for the highest.
func TestAnOddCursorDoesNotPruneTheJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "storage.sqlite")
	plant(t, path, "INSERT INTO delivery_journal VALUES ('p', 'zzz', 0, 'text'), ('p', x'ff', 0, 'blob'), ('p', -5, 0, 'negative')")
	s := open(t, Options{Path: path, JournalDepth: 10})
	for _, primary := range []uint64{3, 100} {
		delivery := types.Delivery{Cursor: types.Cursor{Primary: primary}, MatchID: types.MatchID(fmt.Sprint("m", primary))}
		require.NoError(t, s.RecordDeliveries(t.Context(), "p", []types.Delivery{delivery}))
		list, err := s.Delivered(t.Context(), "p", types.Cursor{}, types.Cursor{Primary: 1 << 62})
		require.NoError(t, err)
		require.Equal(t, []types.Delivery{delivery}, list)
	}
}
