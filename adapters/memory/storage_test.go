package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"iter"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func openStorage(t testing.TB) *Storage {
	t.Helper()
	store, err := NewStorage(StorageOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// What does no I/O imports nothing that could (R229). The list names what may be imported, so that a
// new import is looked at.
func TestStorageDoesNoIO(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{
		"cmp": true, "context": true, "fmt": true, "iter": true, "maps": true, "slices": true, "sync": true,
		"github.com/stowage-go/stowage/ports": true, "github.com/stowage-go/stowage/types": true,
	}
	for _, name := range []string{"storage.go", "state.go", "archive.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, imported := range file.Imports {
			path, err := strconv.Unquote(imported.Path.Value)
			require.NoError(t, err)
			require.True(t, allowed[path], "%s imports %s", name, path)
		}
	}
}

func TestANegativeDepthIsRefused(t *testing.T) {
	t.Parallel()
	store, err := NewStorage(StorageOptions{JournalDepth: -1})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.Nil(t, store)
}

// The holes that bulk deletions leave are closed wherever they are.
func TestLettersKeepTheirOrderWhateverIsDeleted(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string][]int{
		"none":           {},
		"first":          {0},
		"last":           {9},
		"front":          {0, 1, 2},
		"end":            {7, 8, 9},
		"middle":         {4, 5},
		"scattered":      {1, 3, 8},
		"ends":           {0, 9},
		"front and hole": {0, 1, 5},
		"out of order":   {8, 2, 0, 5},
		"twice":          {6, 6, 2},
		"unknown":        {42, 3},
		"all":            {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openStorage(t)
			for n := range 10 {
				require.NoError(t, store.RecordDeadLetter(t.Context(), "p", fixture.DeadLetter(n)))
			}
			deleted := map[types.MatchID]bool{}
			var ids []types.MatchID
			for _, n := range gone {
				id := fixture.DeadLetter(n).MatchID
				ids = append(ids, id)
				deleted[id] = n < 10
			}
			var left []types.MatchID
			for n := range 10 {
				if id := fixture.DeadLetter(n).MatchID; !deleted[id] {
					left = append(left, id)
				}
			}
			n, err := store.DeleteDeadLetters(t.Context(), "p", ids)
			require.NoError(t, err)
			require.EqualValues(t, 10-len(left), n)

			page, err := store.ListDeadLetters(t.Context(), "p", types.LetterQuery{Take: 100})
			require.NoError(t, err)
			var listed []types.MatchID
			for _, stored := range page {
				listed = append(listed, stored.Letter.MatchID)
				found, ok, err := store.GetDeadLetter(t.Context(), "p", stored.Letter.MatchID)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, stored, found)
			}
			require.Equal(t, left, listed)
		})
	}
}

// one is the sequence of an import.
func one(records ...types.Record) iter.Seq2[types.Record, error] {
	return func(yield func(types.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// An import into a store that was emptied does not give positions again that an operator has seen.
func TestAnImportGivesNewPositions(t *testing.T) {
	t.Parallel()
	store := openStorage(t)
	letter := fixture.DeadLetter(1)
	require.NoError(t, store.RecordDeadLetter(t.Context(), "p", letter))
	before, _, err := store.GetDeadLetter(t.Context(), "p", letter.MatchID)
	require.NoError(t, err)
	_, err = store.DeleteDeadLetter(t.Context(), "p", letter.MatchID)
	require.NoError(t, err)

	n, err := store.Import(t.Context(), one(types.Record{Pipeline: "p", DeadLetter: &letter}))
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	after, ok, err := store.GetDeadLetter(t.Context(), "p", letter.MatchID)
	require.NoError(t, err)
	require.True(t, ok)
	require.Greater(t, after.Position, before.Position)
}

// The sequence of an import may use the store, since it runs without the lock; what it stores there
// makes the import fail.
func TestAnImportSeesWhatWasStoredMeanwhile(t *testing.T) {
	t.Parallel()
	store := openStorage(t)
	pause := types.PipelineOf("p")
	_, err := store.Import(t.Context(), func(yield func(types.Record, error) bool) {
		require.NoError(t, store.Pause(t.Context(), types.PipelineOf("q")))
		yield(types.Record{Pause: &pause}, nil)
	})
	require.ErrorIs(t, err, ports.ErrAlreadyExists)
	paused, err := store.Paused(t.Context(), pause)
	require.NoError(t, err)
	require.False(t, paused, "nothing of the import is there")
}

// exporting starts an export of a store with one record, which stops at it until release is called, in
// a bubble of synctest.
func exporting(t *testing.T, store *Storage) (release func(), result <-chan error) {
	t.Helper()
	require.NoError(t, store.Pause(t.Context(), types.PipelineOf("p")))
	gate, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- store.Export(t.Context(), func(types.Record) error {
			<-gate
			return nil
		})
	}()
	synctest.Wait()
	return func() { close(gate) }, done
}

func TestQuiesceAndCloseWaitForAnExport(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(context.Context, *Storage) error{
		"quiesce": func(ctx context.Context, s *Storage) error { return s.Quiesce(ctx) },
		"close":   func(_ context.Context, s *Storage) error { return s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := openStorage(t)
				release, exported := exporting(t, store)
				waited := make(chan error, 1)
				go func() { waited <- wait(t.Context(), store) }()
				synctest.Wait()
				require.Empty(t, waited, "an export is under way")
				release()
				require.NoError(t, <-waited)
				require.NoError(t, <-exported, "an export that has begun gives out what it has copied")
			})
		})
	}
}

func TestQuiesceGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := openStorage(t)
		release, exported := exporting(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() { waited <- store.Quiesce(ctx) }()
		synctest.Wait()
		require.NoError(t, store.Pause(t.Context(), types.PipelineOf("q")), "later calls go on as usual")
		require.Empty(t, waited)
		cancel()
		require.ErrorIs(t, <-waited, context.Canceled)
		release()
		require.NoError(t, <-exported)
	})
}

// A call that waits for the lock while its caller gives up does nothing once it gets it.
func TestACallThatWaitedIsNotBegunAfterItsContext(t *testing.T) {
	t.Parallel()
	store := openStorage(t)
	ctx, cancel := context.WithCancel(t.Context())
	store.mu.Lock()
	called := make(chan error, 1)
	go func() { called <- store.Pause(ctx, types.PipelineOf("p")) }()
	cancel()
	store.mu.Unlock()
	require.ErrorIs(t, <-called, context.Canceled)
	pauses, err := store.ListPauses(t.Context())
	require.NoError(t, err)
	require.Empty(t, pauses)
}

// An export makes its copies one at a time, not all of them under the lock.
func TestAnExportCopiesOneRecordAtATime(t *testing.T) {
	t.Parallel()
	s := openStorage(t)
	const records, size = 8, 1000
	for i := range records {
		letter := fixture.DeadLetter(i)
		letter.Payload.Match.Event = fmt.Appendf(nil, "%q", strings.Repeat("x", size))
		require.NoError(t, s.RecordDeadLetter(t.Context(), "p", letter))
	}
	for i, r := range s.state.records() {
		require.Same(t, s.state.letters["p"].order[i].Letter.Payload, r.DeadLetter.Payload)
	}
	seen := 0
	require.NoError(t, s.Export(t.Context(), func(r types.Record) error {
		clear(r.DeadLetter.Payload.Match.Event) // is the caller's
		seen++
		return nil
	}))
	require.Equal(t, records, seen)
	letters, err := s.ListDeadLetters(t.Context(), "p", types.LetterQuery{Take: records})
	require.NoError(t, err)
	for _, l := range letters {
		require.True(t, json.Valid(l.Letter.Payload.Match.Event))
	}
}
