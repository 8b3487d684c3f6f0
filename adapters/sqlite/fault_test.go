package sqlite

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// fullStep is a step that does everything that one can: it goes back, adds, replaces, prunes, settles.
func fullStep() types.Progress {
	checkpoint := fixture.Checkpoint(200)
	from, before := uint64(30), uint64(5)
	progress := types.Progress{
		Checkpoint: &checkpoint, HitsFrom: &from, HitsBefore: &before,
		HitsBeforeOf: []types.MonitorFloor{{Monitor: "strong", Primary: 7}, {Monitor: "none", Primary: 9}},
	}
	for i := range 4 {
		known := types.Delivery{Cursor: fixture.Cursor(150), MatchID: fixture.MatchID(18 + i)} // two are, two are new
		progress.Deliveries = append(progress.Deliveries, known)
		progress.Settled = append(progress.Settled, fixture.MatchID(i))
		progress.DeadLetters = append(progress.DeadLetters, fixture.DeadLetter(18+i))
		progress.Hits = append(progress.Hits, types.GateHit{Monitor: "strong", Cursor: fixture.Cursor(18 + i), Event: fixture.Event(i)})
		progress.Metas = append(progress.Metas, types.MonitorMeta{Monitor: types.MonitorID(fmt.Sprint("monitor-", i)), Meta: stepMeta(i)})
	}
	progress.Deliveries = append(progress.Deliveries, fixture.Delivery(200))
	return progress
}

// withSteps opens a storage that has taken some steps.
func withSteps(t *testing.T, options Options) *Storage {
	t.Helper()
	options.JournalDepth = 100
	s := open(t, options)
	for n := range 20 {
		require.NoError(t, s.RecordDeadLetter(t.Context(), "p", fixture.DeadLetter(n)))
		require.NoError(t, s.Apply(t.Context(), "p", types.Progress{
			Deliveries: []types.Delivery{fixture.Delivery(n)},
			Hits:       []types.GateHit{{Monitor: "strong", Cursor: fixture.Cursor(2 * n), Event: fixture.Event(n)}},
		}))
	}
	return s
}

// Whichever statement fails, nothing of the step is stored.
func TestAFaultAtAnyStatementOfAStepLeavesNothingOfIt(t *testing.T) {
	t.Parallel()
	faults := new(faultLine)
	s := withSteps(t, Options{})
	s.beforeStatement = faults.before
	before := dump(t, s.file)
	var statements int
	for n := 1; ; n++ {
		faults.failAt(n)
		err := s.Apply(t.Context(), "p", fullStep())
		if err == nil {
			statements = n - 1
			break
		}
		require.ErrorIs(t, err, errInjected)
		require.Equal(t, before, dump(t, s.file), "a fault at statement %d", n)
		requireIndexMatchesFile(t, s)
	}
	require.GreaterOrEqual(t, statements, 25)
	require.NotEqual(t, before, dump(t, s.file))
	requireIndexMatchesFile(t, s)
	t.Logf("%d statements", statements)
}

// The engine itself refuses a row: by undoing the statement, by leaving what it has done so far, or by
// ending the whole transaction.
func TestARowThatTheEngineRefusesLeavesNothingOfTheStep(t *testing.T) {
	t.Parallel()
	events := map[string][]string{
		"checkpoints":      {"INSERT"},
		"delivery_journal": {"INSERT", "UPDATE", "DELETE"},
		"dead_letters":     {"INSERT", "UPDATE", "DELETE"},
		"gate_hits":        {"INSERT", "DELETE"},
		"gate_meta":        {"INSERT"},
	}
	for _, how := range []string{"ABORT", "FAIL", "ROLLBACK"} {
		for _, table := range slices.Sorted(maps.Keys(events)) {
			for _, event := range events[table] {
				s := withSteps(t, Options{})
				path := s.Path()
				require.NoError(t, s.Close())
				plant(t, path, fmt.Sprintf("CREATE TRIGGER fault AFTER %s ON %s BEGIN SELECT RAISE(%s, 'refused by the test'); END", event, table, how))
				s = open(t, Options{Path: path, JournalDepth: 100})
				before := dump(t, s.file)
				err := s.Apply(t.Context(), "p", fullStep())
				require.ErrorContains(t, err, "refused by the test", "%s of %s, %s", event, table, how)
				require.Equal(t, before, dump(t, s.file), "%s of %s, %s", event, table, how)
				requireIndexMatchesFile(t, s)
				require.NoError(t, s.Pause(t.Context(), types.PipelineOf("p")), "the storage goes on")
				require.NoError(t, s.Close())
			}
		}
	}
}

// Of steps that share a transaction one fails, and the others are stored.
func TestAStepThatFailsIsUndoneAlone(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", sqlitefile.InMemory} {
		s := open(t, Options{Path: path})
		s.beforeStatement = func(statement string) error {
			if statement == upsertMeta {
				return errInjected
			}
			return nil
		}
		const callers = 32
		errs := make(chan error, callers)
		for i := range callers {
			go func() {
				progress := step(i + 1)
				if i%2 == 0 {
					progress.Metas = nil
				}
				errs <- s.Apply(t.Context(), types.PipelineID(fmt.Sprint("p", i)), progress)
			}()
		}
		failed := 0
		for range callers {
			if err := <-errs; err != nil {
				require.ErrorIs(t, err, errInjected)
				failed++
			}
		}
		require.Equal(t, callers/2, failed)
		checkpoints, err := s.ListCheckpoints(t.Context())
		require.NoError(t, err)
		require.Len(t, checkpoints, callers/2)
		counts, err := s.CountDeadLetters(t.Context())
		require.NoError(t, err)
		require.Len(t, counts, callers/2)
		requireIndexMatchesFile(t, s)
	}
}
