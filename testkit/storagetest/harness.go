package storagetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Harness makes the stores that the suite tests, and says what they can do.
type Harness struct {
	// Open makes a fresh, empty store with a delivery journal of the depth; 0 is the default depth,
	// [ports.DefaultDepth]. It is called from many cases at the same time. The suite closes what it
	// gets from a harness; a harness whose own clean-up closes it again must bear that.
	Open func(t testing.TB, depth int64) Store

	// Durable says that what was stored is there again after Reopen.
	Durable bool
	// MultiHandle says that a place can be open more than once at the same time (Store.Second).
	MultiHandle bool
	// CanArchive says that the store is a ports.Archiver.
	CanArchive bool
	// CanCountDeliveries says that the store is a ports.JournalCounter.
	CanCountDeliveries bool
	// CanBackup says that the store is a ports.Backuper.
	CanBackup bool
	// CanCheckHealth says that the store is a ports.HealthChecker.
	CanCheckHealth bool
}

// Store is one store of a harness.
type Store struct {
	Storage ports.Storage
	// Reopen opens the same place again, with the same depth; the suite has closed Storage, and
	// whatever an earlier Reopen gave, beforehand. It is required of a durable store. Where one that
	// does not claim to be durable has it, the suite asserts that the reopened store is empty.
	Reopen func(t testing.TB) ports.Storage
	// Second opens the same place a second time while Storage is open. It is required with
	// MultiHandle. Where one that does not claim MultiHandle has it, the suite asserts that it fails
	// with ports.ErrInUse.
	Second func(t testing.TB) (ports.Storage, error)
	// InjectUndecodable is Reopen with dead letters added in between, at the end of a pipeline, that
	// no store can decode. It returns how many they are, at least 1. Nil for stores whose records
	// nobody else can write.
	InjectUndecodable func(t testing.TB, pipeline types.PipelineID) (ports.Storage, int)
	// FailAt makes the store itself fail at the nth inner step, counted from 1, of the next call that
	// changes something: a statement, a write, a commit, whatever its steps are. The call returns an
	// error and has changed nothing; a call of fewer steps succeeds. 0 takes the fault back. Nil for
	// stores into which no fault can be put. [RunFaulty] uses it.
	FailAt func(n int)
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"input", inputCases},
		{"resource", resourceCases},
		{"checkpoint", checkpointCases},
		{"letter", letterCases},
		{"pause", pauseCases},
		{"journal", journalCases},
		{"journalcount", journalCountCases},
		{"gate", gateCases},
		{"apply", applyCases},
		{"value", valueCases},
		{"archive", archiveCases},
		{"life", lifeCases},
		{"quiesce", quiesceCases},
		{"race", raceCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(newFix(t, h, c.depth))
				})
			}
		})
	}
	t.Run("model", func(t *testing.T) {
		t.Parallel()
		RunModel(t, h)
	})
	t.Run("faulty", func(t *testing.T) {
		t.Parallel()
		RunFaulty(t, h)
	})
}

type testCase struct {
	name  string
	depth int64 // of the delivery journal
	run   func(*fix)
}

// fix is the store of one case, with the steps that cases are written in.
type fix struct {
	*testing.T
	h     Harness
	store Store
	s     ports.Storage
	ctx   context.Context
}

func newFix(t *testing.T, h Harness, depth int64) *fix {
	t.Helper()
	f := &fix{T: t, h: h, ctx: t.Context()}
	f.store = h.Open(t, depth)
	f.s = f.store.Storage
	t.Cleanup(func() { closeStorage(t, f.s) })
	return f
}

func closeStorage(t testing.TB, s ports.Storage) {
	t.Helper()
	require.NoError(t, s.Close(), "closing the store")
}

// reopen closes the store and opens its place again.
func (f *fix) reopen() {
	f.Helper()
	closeStorage(f, f.s)
	f.s = f.store.Reopen(f)
}

// wantInvalid asserts that an error is what a bad input gives.
func (f *fix) wantInvalid(err error, op, format string, args ...any) {
	f.Helper()
	require.ErrorIs(f, err, ports.ErrInvalidInput, append([]any{op + ": " + format}, args...)...)
	var e *ports.Error
	require.ErrorAs(f, err, &e)
	require.Equal(f, op, e.Op, "an error names its operation")
	require.NotEmpty(f, e.Message, "an error says what is wrong")
	require.False(f, ports.IsTransient(err), "bad input stays bad: want a permanent error")
}
