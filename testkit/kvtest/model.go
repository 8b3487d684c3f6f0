package kvtest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// RunModel compares random histories on a store of the harness with the same ones on model.Kv:
// every call must give the same result. Histories move the clock forward, and close and open the
// store where it is durable. All histories share one store and begin by emptying it, which keeps a
// run on a store with a file within seconds. [Run] includes it.
func RunModel(t *testing.T, h Harness) {
	t.Helper()
	if !h.Clocked {
		t.Skip("the harness does not claim Clocked: its stores live by a clock that no test can move")
	}
	f := newFix(t, h)
	rapid.Check(t, func(r *rapid.T) {
		m := &machine{f: f, want: model.NewKv(f.clock)}
		for _, prefix := range prefixes {
			for _, e := range f.scanAll(prefix, 0) {
				f.delete(e.Key, types.Always(), true)
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"get":    m.get,
			"exists": m.exists,
			"put":    m.put,
			"delete": m.delete,
			"scan":   m.scan,
			"clock":  m.advance,
			"reopen": m.reopen,
		})
		m.compareAll(r)
	})
}

var (
	prefixes  = []string{"a", "b", "B"}
	modelKeys = []string{"a", "a-", "a.", "a0", "aA", "a_", "aa", "b", "ba", "B"}
)

// machine drives a store and the model side by side.
type machine struct {
	f        *fix
	want     *model.Kv
	versions []versionPair
	cursors  []cursorPair
}

// versionPair is one version as each of the two names it.
type versionPair struct {
	key       string
	got, want types.KvVersion
}

type cursorPair struct {
	prefix    string
	got, want types.KvCursor
}

func drawKey(r *rapid.T) string { return rapid.SampledFrom(modelKeys).Draw(r, "key") }

// conditions draws a condition and returns it for the store and for the model.
func (m *machine) conditions(r *rapid.T) (got, want types.Condition, key string) {
	key = drawKey(r)
	switch kind := rapid.IntRange(0, 5).Draw(r, "condition"); {
	case kind <= 1:
		return types.Always(), types.Always(), key
	case kind == 2:
		return types.IfAbsent(), types.IfAbsent(), key
	case kind == 3 && rapid.IntRange(0, 9).Draw(r, "garbage") == 0:
		bad := types.KvVersion(rapid.SampledFrom(garbage()).Draw(r, "version"))
		return types.IfVersion(bad), types.IfVersion(bad), key
	case len(m.versions) == 0:
		return types.Always(), types.Always(), key
	}
	// The latest versions are the likeliest to be live; now and then one is used with another key.
	back := rapid.IntRange(0, min(len(m.versions)-1, 6)).Draw(r, "version")
	v := m.versions[len(m.versions)-1-back]
	if rapid.IntRange(0, 9).Draw(r, "foreign") > 0 {
		key = v.key
	}
	return types.IfVersion(v.got), types.IfVersion(v.want), key
}

func (m *machine) get(r *rapid.T) {
	key := drawKey(r)
	got, gotOK, err := m.f.kv.Get(m.f.ctx, key)
	want, wantOK, wantErr := m.want.Get(m.f.ctx, key)
	sameError(r, wantErr, err)
	require.Equal(r, wantOK, gotOK, "get of %q", key)
	m.sameEntry(r, want, got)
}

func (m *machine) exists(r *rapid.T) {
	key := drawKey(r)
	got, err := m.f.kv.Exists(m.f.ctx, key)
	want, wantErr := m.want.Exists(m.f.ctx, key)
	sameError(r, wantErr, err)
	require.Equal(r, want, got, "exists of %q", key)
}

func (m *machine) put(r *rapid.T) {
	gotCond, wantCond, key := m.conditions(r)
	value := []byte(rapid.SampledFrom([]string{"", "1", "2", "\x00\xff"}).Draw(r, "value"))
	ttl := time.Duration(rapid.SampledFrom([]int64{
		0, 0, 1, int64(time.Millisecond), int64(5 * time.Millisecond), int64(time.Second), -1,
	}).Draw(r, "ttl"))
	got, err := m.f.kv.Put(m.f.ctx, key, value, types.PutOptions{TTL: ttl, If: gotCond})
	want, wantErr := m.want.Put(m.f.ctx, key, value, types.PutOptions{TTL: ttl, If: wantCond})
	sameError(r, wantErr, err)
	require.Equal(r, want.Applied, got.Applied, "put of %q: applied", key)
	require.Equal(r, want.Version != "", got.Version != "", "put of %q: a version", key)
	if got.Applied {
		m.versions = append(m.versions, versionPair{key, got.Version, want.Version})
	}
}

func (m *machine) delete(r *rapid.T) {
	gotCond, wantCond, key := m.conditions(r)
	got, err := m.f.kv.Delete(m.f.ctx, key, gotCond)
	want, wantErr := m.want.Delete(m.f.ctx, key, wantCond)
	sameError(r, wantErr, err)
	require.Equal(r, want, got, "delete of %q", key)
}

func (m *machine) scan(r *rapid.T) {
	prefix := rapid.SampledFrom(prefixes).Draw(r, "prefix")
	limit := rapid.SampledFrom([]int{0, 1, 2, 3, 1000, 1001}).Draw(r, "limit")
	var pair cursorPair
	if len(m.cursors) > 0 && rapid.Bool().Draw(r, "continue") {
		pair = rapid.SampledFrom(m.cursors).Draw(r, "cursor")
		if rapid.IntRange(0, 9).Draw(r, "foreign") > 0 {
			prefix = pair.prefix
		}
	}
	got, err := m.f.kv.ScanPrefix(m.f.ctx, prefix, types.ScanOptions{Limit: limit, Cursor: pair.got})
	want, wantErr := m.want.ScanPrefix(m.f.ctx, prefix, types.ScanOptions{Limit: limit, Cursor: pair.want})
	sameError(r, wantErr, err)
	m.samePage(r, want, got)
	if got.Cursor != "" {
		m.cursors = append(m.cursors, cursorPair{prefix, got.Cursor, want.Cursor})
	}
}

func (m *machine) advance(r *rapid.T) {
	m.f.clock.Advance(time.Duration(rapid.SampledFrom([]int64{
		1, int64(time.Millisecond), int64(2 * time.Millisecond), int64(5 * time.Millisecond), int64(time.Second),
	}).Draw(r, "by")))
}

func (m *machine) reopen(r *rapid.T) {
	// Opening a file takes as long as many operations: do it seldom.
	if !m.f.h.Durable || rapid.IntRange(0, 3).Draw(r, "reopen") > 0 {
		return
	}
	m.f.reopen()
}

func (m *machine) compareAll(r *rapid.T) {
	for _, prefix := range prefixes {
		got, err := m.f.kv.ScanPrefix(m.f.ctx, prefix, types.ScanOptions{})
		want, wantErr := m.want.ScanPrefix(m.f.ctx, prefix, types.ScanOptions{})
		sameError(r, wantErr, err)
		m.samePage(r, want, got)
	}
}

func (m *machine) samePage(r *rapid.T, want, got types.KvPage) {
	require.Equal(r, keysOf(want.Entries), keysOf(got.Entries), "keys of the page")
	for i := range want.Entries {
		m.sameEntry(r, want.Entries[i], got.Entries[i])
	}
	require.Equal(r, want.Cursor, got.Cursor, "cursor of the page")
}

// sameEntry compares two entries whose versions are named differently but must have been given out
// together.
func (m *machine) sameEntry(r *rapid.T, want, got types.KvEntry) {
	require.Equal(r, want.Key, got.Key)
	require.Equal(r, string(want.Value), string(got.Value), "value of %q", want.Key)
	require.Equal(r, want.ExpiresAt.UnixNano(), got.ExpiresAt.UnixNano(), "expiry of %q", want.Key)
	if want.Version == "" {
		require.Empty(r, got.Version)
		return
	}
	require.True(r, slices.Contains(m.versions, versionPair{want.Key, got.Version, want.Version}),
		"version of %q: want the one that its put gave", want.Key)
}

// sameError asks for the same code, or for success of both.
func sameError(r *rapid.T, want, got error) {
	if want == nil {
		require.NoError(r, got)
		return
	}
	var e *ports.Error
	require.ErrorAs(r, want, &e)
	require.ErrorIs(r, got, &ports.Error{Code: e.Code, Reason: e.Reason})
}

var _ testing.TB = (*fix)(nil)

var _ ports.Clock = (*fixture.Clock)(nil)
