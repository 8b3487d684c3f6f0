package kvtest

import (
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

var expiryCases = []testCase{
	{name: "an entry is absent from the very millisecond of its expiry", moves: true, run: func(f *fix) {
		f.putTTL("k", "v", 1500*time.Millisecond)
		f.clock.Advance(1499 * time.Millisecond)
		f.wantValue("k", "v")
		f.clock.Advance(time.Millisecond - 1)
		f.wantValue("k", "v")
		f.clock.Advance(1)
		f.wantAbsent("k")
		f.clock.Advance(time.Hour)
		f.wantAbsent("k")
	}},
	{name: "each reader by itself finds an expired entry absent", moves: true, run: func(f *fix) {
		for _, key := range []string{"get", "exists", "scan"} {
			f.putTTL(key, "v", time.Second)
		}
		f.clock.Advance(time.Second)
		_, ok, err := f.kv.Get(f.ctx, "get")
		require.NoError(f, err)
		require.False(f, ok)
		f.wantExists("exists", false)
		require.Empty(f, f.scan("scan", 0, "").Entries)
	}},
	{name: "a TTL is rounded up to a millisecond", moves: true, run: func(f *fix) {
		f.putTTL("a", "v", 1)
		f.putTTL("b", "v", time.Millisecond)
		f.putTTL("c", "v", time.Millisecond+1)
		f.clock.Advance(time.Millisecond - 1)
		f.wantValue("a", "v")
		f.wantValue("b", "v")
		f.clock.Advance(1)
		f.wantAbsent("a")
		f.wantAbsent("b")
		f.wantValue("c", "v")
		f.clock.Advance(time.Millisecond)
		f.wantAbsent("c")
	}},
	{name: "the expiry is told to the millisecond", moves: true, run: func(f *fix) {
		f.clock.Advance(123_456 * time.Nanosecond)
		f.putTTL("k", "v", time.Second+1)
		want := f.clock.Now().Truncate(time.Millisecond).Add(1001 * time.Millisecond)
		require.Equal(f, want.UnixNano(), f.get("k").ExpiresAt.UnixNano())
		require.Equal(f, want.UnixNano(), f.scan("k", 0, "").Entries[0].ExpiresAt.UnixNano())

		f.put("ever", "v")
		require.True(f, f.get("ever").ExpiresAt.IsZero(), "without a TTL: want the zero time")
		require.True(f, f.scan("ever", 0, "").Entries[0].ExpiresAt.IsZero())
	}},
	{name: "the longest TTL works", moves: true, run: func(f *fix) {
		f.putTTL("k", "v", math.MaxInt64)
		f.clock.Advance(100 * 365 * 24 * time.Hour)
		f.wantValue("k", "v")
	}},
	{name: "an expiry saturates", moves: true, run: func(f *fix) {
		g := newFixAt(f.T, f.h, time.UnixMilli(math.MaxInt64-10))
		g.putTTL("k", "v", time.Hour)
		g.wantValue("k", "v")
		require.Equal(g, int64(math.MaxInt64), g.get("k").ExpiresAt.UnixMilli())
		g.putTTL("short", "v", time.Millisecond)
		g.wantValue("short", "v")
		g.clock.Advance(time.Millisecond)
		g.wantAbsent("short")
	}},
	{name: "a put without TTL clears an old one", moves: true, run: func(f *fix) {
		f.putTTL("k", "v", time.Second)
		f.put("k", "v")
		f.clock.Advance(time.Hour)
		f.wantValue("k", "v")
		require.True(f, f.get("k").ExpiresAt.IsZero())
	}},
	{name: "a conditional put replaces the TTL as well", moves: true, run: func(f *fix) {
		v := f.putTTL("k", "1", time.Second)
		f.putWith("k", "2", types.PutOptions{If: types.IfVersion(v)})
		f.clock.Advance(time.Hour)
		f.wantValue("k", "2")
		v = f.get("k").Version
		f.putWith("k", "3", types.PutOptions{If: types.IfVersion(v), TTL: time.Second})
		f.clock.Advance(time.Second)
		f.wantAbsent("k")
	}},
	{name: "a put with a TTL replaces an old one, longer or shorter", moves: true, run: func(f *fix) {
		f.putTTL("longer", "v", time.Second)
		f.putTTL("longer", "v", time.Minute)
		f.putTTL("shorter", "v", time.Minute)
		f.putTTL("shorter", "v", time.Second)
		f.clock.Advance(time.Second)
		f.wantValue("longer", "v")
		f.wantAbsent("shorter")
	}},
	{name: "a put onto an expired entry is a new entry", moves: true, run: func(f *fix) {
		f.putTTL("k", "old", time.Second)
		f.clock.Advance(time.Second)
		f.put("k", "new")
		f.wantValue("k", "new")
		f.clock.Advance(time.Hour)
		f.wantValue("k", "new")
	}},
	{name: "a read of an expired entry does not remove one put again", moves: true, run: func(f *fix) {
		f.putTTL("k", "old", time.Second)
		f.clock.Advance(time.Second)
		f.wantAbsent("k")
		f.put("k", "new")
		f.wantAbsent("j")
		f.wantValue("k", "new")
		f.wantValue("k", "new")
	}},
	{name: "deleting an expired entry", moves: true, run: func(f *fix) {
		v := f.putTTL("k", "v", time.Second)
		f.clock.Advance(time.Second)
		f.delete("k", types.IfVersion(v), false)
		f.delete("k", types.Always(), true)
		f.wantAbsent("k")
	}},
	{name: "entries expire one by one", moves: true, run: func(f *fix) {
		for i, key := range []string{"k1", "k2", "k3"} {
			f.putTTL(key, "v", time.Duration(i+1)*time.Second)
		}
		for _, want := range [][]string{{"k1", "k2", "k3"}, {"k2", "k3"}, {"k3"}, {}} {
			require.Equal(f, want, keysOf(f.scanAll("k", 0)))
			f.clock.Advance(time.Second)
		}
	}},
}
