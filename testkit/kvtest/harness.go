package kvtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// Harness makes the stores that the suite tests, and says what they can do.
type Harness struct {
	// Open makes a fresh, empty store that lives by the clock. The suite closes what it gets from a
	// harness; a harness whose own clean-up closes it again must bear that.
	Open func(t testing.TB, clock ports.Clock) Store

	// Clocked says that the clock given to Open decides what has expired. Without it the cases that
	// move the clock are left out.
	Clocked bool
	// Durable says that what was stored is there again after Reopen.
	Durable bool
	// MultiHandle says that a place can be open more than once at the same time (Store.Second).
	MultiHandle bool
	// CanBackup says that the store is a ports.Backuper.
	CanBackup bool
	// CanCheckHealth says that the store is a ports.HealthChecker.
	CanCheckHealth bool
}

// Store is one store of a harness.
type Store struct {
	Kv ports.KvStore
	// Reopen opens the same place again; the suite has closed Kv, and whatever an earlier Reopen
	// gave, beforehand. It is required of a durable store. Where one that does not claim to be
	// durable has it, the suite asserts that the reopened store is empty.
	Reopen func(t testing.TB) ports.KvStore
	// Second opens the same place a second time while Kv is open. It is required with MultiHandle.
	// Where one that does not claim MultiHandle has it, the suite asserts that it fails.
	Second func(t testing.TB) (ports.KvStore, error)
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"input", inputCases},
		{"value", valueCases},
		{"expiry", expiryCases},
		{"condition", conditionCases},
		{"token", tokenCases},
		{"scan", scanCases},
		{"life", lifeCases},
		{"race", raceCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					if c.moves && !h.Clocked {
						t.Skip("the harness does not claim Clocked: its stores live by a clock that no test can move")
					}
					c.run(newFix(t, h))
				})
			}
		})
	}
	t.Run("model", func(t *testing.T) {
		t.Parallel()
		RunModel(t, h)
	})
}

type testCase struct {
	name  string
	moves bool // moves the clock
	run   func(*fix)
}

// fix is the store of one case, with the steps that cases are written in.
type fix struct {
	*testing.T
	h     Harness
	clock *fixture.Clock
	store Store
	kv    ports.KvStore
	ctx   context.Context
}

func newFix(t *testing.T, h Harness) *fix {
	t.Helper()
	return newFixAt(t, h, fixture.Epoch())
}

func newFixAt(t *testing.T, h Harness, t0 time.Time) *fix {
	t.Helper()
	f := &fix{T: t, h: h, clock: fixture.NewClock(t0), ctx: t.Context()}
	f.store = h.Open(t, f.clock)
	f.kv = f.store.Kv
	t.Cleanup(func() { closeKv(t, f.kv) })
	return f
}

func closeKv(t testing.TB, kv ports.KvStore) {
	t.Helper()
	require.NoError(t, kv.Close(), "closing the store")
}

// reopen closes the store and opens its place again.
func (f *fix) reopen() {
	f.Helper()
	closeKv(f, f.kv)
	f.kv = f.store.Reopen(f)
}

func (f *fix) put(key, value string) types.KvVersion {
	f.Helper()
	return f.putWith(key, value, types.PutOptions{})
}

func (f *fix) putTTL(key, value string, ttl time.Duration) types.KvVersion {
	f.Helper()
	return f.putWith(key, value, types.PutOptions{TTL: ttl})
}

// putWith stores a value, and fails the test unless the put applied.
func (f *fix) putWith(key, value string, opts types.PutOptions) types.KvVersion {
	f.Helper()
	res, err := f.kv.Put(f.ctx, key, []byte(value), opts)
	require.NoError(f, err, "put of %q", key)
	require.True(f, res.Applied, "put of %q: want applied", key)
	require.NotEmpty(f, res.Version, "put of %q: want a version", key)
	return res.Version
}

// lose tries a conditional put that must not apply.
func (f *fix) lose(key string, cond types.Condition) {
	f.Helper()
	res, err := f.kv.Put(f.ctx, key, []byte("the loser's"), types.PutOptions{If: cond})
	require.NoError(f, err, "conditional put of %q", key)
	require.Equal(f, types.PutResult{}, res, "conditional put of %q: want it not applied, and no version", key)
}

func (f *fix) get(key string) types.KvEntry {
	f.Helper()
	e, ok, err := f.kv.Get(f.ctx, key)
	require.NoError(f, err, "get of %q", key)
	require.True(f, ok, "get of %q: want an entry, found none", key)
	require.Equal(f, key, e.Key)
	require.NotEmpty(f, e.Version)
	return e
}

func (f *fix) wantValue(key, value string) {
	f.Helper()
	require.Equal(f, value, string(f.get(key).Value), "value of %q", key)
	f.wantExists(key, true)
}

func (f *fix) wantAbsent(key string) {
	f.Helper()
	e, ok, err := f.kv.Get(f.ctx, key)
	require.NoError(f, err, "get of %q", key)
	require.False(f, ok, "get of %q: want none, found %q", key, e.Value)
	require.Equal(f, types.KvEntry{}, e, "get of an absent key: want the zero entry")
	f.wantExists(key, false)
	for _, e := range f.scanAll(key, ports.MaxScanLimit) {
		require.NotEqual(f, key, e.Key, "scan: want no entry of %q", key)
	}
}

func (f *fix) wantExists(key string, want bool) {
	f.Helper()
	ok, err := f.kv.Exists(f.ctx, key)
	require.NoError(f, err, "exists of %q", key)
	require.Equal(f, want, ok, "exists of %q", key)
}

func (f *fix) delete(key string, cond types.Condition, want bool) {
	f.Helper()
	ok, err := f.kv.Delete(f.ctx, key, cond)
	require.NoError(f, err, "delete of %q", key)
	require.Equal(f, want, ok, "delete of %q", key)
}

func (f *fix) scan(prefix string, limit int, cursor types.KvCursor) types.KvPage {
	f.Helper()
	page, err := f.kv.ScanPrefix(f.ctx, prefix, types.ScanOptions{Limit: limit, Cursor: cursor})
	require.NoError(f, err, "scan of %q", prefix)
	return page
}

// scanAll follows the cursors to the end, and fails when they do not end.
func (f *fix) scanAll(prefix string, limit int) []types.KvEntry {
	f.Helper()
	var all []types.KvEntry
	var cursor types.KvCursor
	for pages := 0; ; pages++ {
		require.Less(f, pages, 10_000, "scan of %q: the cursors do not end", prefix)
		page := f.scan(prefix, limit, cursor)
		all = append(all, page.Entries...)
		if page.Cursor == "" {
			return all
		}
		cursor = page.Cursor
	}
}

func keysOf(entries []types.KvEntry) []string {
	keys := make([]string, 0, len(entries))
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

// wantInvalid asserts that an error is what a bad input gives.
func (f *fix) wantInvalid(err error, format string, args ...any) {
	f.Helper()
	require.ErrorIs(f, err, ports.ErrInvalidInput, append([]any{format}, args...)...)
	var e *ports.Error
	require.ErrorAs(f, err, &e)
	require.NotEmpty(f, e.Op, "an error names its operation")
	require.NotEmpty(f, e.Message, "an error says what is wrong")
	require.False(f, ports.IsTransient(err), "bad input stays bad: want a permanent error")
}
