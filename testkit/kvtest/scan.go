package kvtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// putMany stores many entries with many callers at once, so that a store with group commit is quick.
func (f *fix) putMany(keys []string, ttl time.Duration) {
	f.Helper()
	const callers = 32
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < len(keys) && errs[c] == nil; i += callers {
				_, errs[c] = f.kv.Put(f.ctx, keys[i], []byte("of "+keys[i]), types.PutOptions{TTL: ttl})
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(f, err)
	}
}

func numbered(prefix string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%04d", prefix, i)
	}
	return keys
}

var scanCases = []testCase{
	{name: "a scan of nothing is an empty page", run: func(f *fix) {
		page := f.scan("k", 0, "")
		require.Empty(f, page.Entries)
		require.Empty(f, page.Cursor)
	}},
	{name: "a scan finds the keys with the prefix, the prefix itself included", run: func(f *fix) {
		for _, key := range []string{"a", "a-", "a.", "a0", "aA", "aa", "ab", "abc", "b", "A", "Aa", "ba", "_a"} {
			f.put(key, "v")
		}
		require.Equal(f, []string{"a", "a-", "a.", "a0", "aA", "aa", "ab", "abc"}, keysOf(f.scanAll("a", 0)))
		require.Equal(f, []string{"ab", "abc"}, keysOf(f.scanAll("ab", 0)))
		require.Equal(f, []string{"A", "Aa"}, keysOf(f.scanAll("A", 0)))
		require.Empty(f, f.scanAll("abcd", 0))
	}},
	{name: "the order is the order of the bytes", run: func(f *fix) {
		var keys []string
		for _, c := range keyAlphabet {
			keys = append(keys, "k"+string(c), "k"+string(c)+"Z", "k"+string(c)+"a")
		}
		shuffled := slices.Clone(keys)
		slices.Reverse(shuffled)
		f.putMany(shuffled, 0)
		slices.Sort(keys)
		require.Equal(f, keys, keysOf(f.scanAll("k", 0)))
		require.Equal(f, keys, keysOf(f.scanAll("k", 7)))
	}},
	{name: "the last characters of the alphabet end a prefix", run: func(f *fix) {
		for _, key := range []string{"z", "zz", "zzz", "y", "z:", strings.Repeat("z", 512)} {
			f.put(key, "v")
		}
		require.Equal(f, []string{"z", "z:", "zz", "zzz", strings.Repeat("z", 512)}, keysOf(f.scanAll("z", 0)))
		require.Equal(f, []string{strings.Repeat("z", 512)}, keysOf(f.scanAll(strings.Repeat("z", 512), 0)))
	}},
	{name: "an entry of a scan is what get gives", moves: true, run: func(f *fix) {
		f.put("k1", "one")
		f.putTTL("k2", "two", time.Minute)
		page := f.scan("k", 0, "")
		require.Equal(f, []types.KvEntry{f.get("k1"), f.get("k2")}, page.Entries)
	}},
	{name: "1001 entries: the default page holds 1000", run: func(f *fix) {
		keys := numbered("k", 1001)
		f.putMany(keys, 0)
		for _, limit := range []int{0, 1000} {
			page := f.scan("k", limit, "")
			require.Equal(f, keys[:1000], keysOf(page.Entries))
			require.NotEmpty(f, page.Cursor)
			rest := f.scan("k", limit, page.Cursor)
			require.Equal(f, keys[1000:], keysOf(rest.Entries))
			require.Empty(f, rest.Cursor)
		}
		f.delete(keys[500], types.Always(), true)
		page := f.scan("k", 0, "")
		require.Len(f, page.Entries, 1000)
		require.Empty(f, page.Cursor, "exactly as many entries as the limit: want no cursor")
	}},
	{name: "a cursor comes back only if more live entries remain", moves: true, run: func(f *fix) {
		f.putMany(numbered("k", 3), 0)
		require.NotEmpty(f, f.scan("k", 2, "").Cursor)
		require.Empty(f, f.scan("k", 3, "").Cursor)
		require.Empty(f, f.scan("k", 4, "").Cursor)

		f.putTTL("k9", "v", time.Second)
		f.put("l", "v") // outside of the prefix
		require.NotEmpty(f, f.scan("k", 3, "").Cursor)
		f.clock.Advance(time.Second)
		require.Empty(f, f.scan("k", 3, "").Cursor, "what remains has expired: want no cursor")
	}},
	{name: "expired entries do not count towards the limit", moves: true, run: func(f *fix) {
		f.putMany(numbered("ka", 5), time.Second)
		f.putMany(numbered("kb", 3), 0)
		f.clock.Advance(time.Second)
		page := f.scan("k", 3, "")
		require.Equal(f, numbered("kb", 3), keysOf(page.Entries))
		require.Empty(f, page.Cursor)
	}},
	{name: "following the cursors visits each live key once", moves: true, run: func(f *fix) {
		keys := numbered("k", 32)
		f.putMany(keys, 0)
		var live []string
		for i, key := range keys {
			if i%4 == 1 {
				f.putTTL(key, "v", time.Second)
			} else {
				live = append(live, key)
			}
		}
		f.clock.Advance(time.Second)
		for _, limit := range []int{1, 3, 24, 25} {
			require.Equal(f, live, keysOf(f.scanAll("k", limit)), "pages of %d", limit)
		}
	}},
	{name: "a page goes on strictly after the last key, whatever happened before it", run: func(f *fix) {
		f.putMany([]string{"k1", "k3", "k5", "k7"}, 0)
		page := f.scan("k", 2, "")
		require.Equal(f, []string{"k1", "k3"}, keysOf(page.Entries))
		f.delete("k1", types.Always(), true) // no key may be skipped for it
		f.delete("k3", types.Always(), true) // not even when the last key is gone
		f.putMany([]string{"k0", "k2", "k4", "k8"}, 0)
		page = f.scan("k", 2, page.Cursor)
		require.Equal(f, []string{"k4", "k5"}, keysOf(page.Entries))
		page = f.scan("k", 2, page.Cursor)
		require.Equal(f, []string{"k7", "k8"}, keysOf(page.Entries))
		require.Empty(f, page.Cursor)
	}},
	{name: "a whole page that has expired does not end the scan", moves: true, run: func(f *fix) {
		f.putMany(numbered("k", 2), 0)
		f.putMany(numbered("m", 6), time.Second)
		f.putMany(numbered("mz", 1), 0)
		page := f.scan("m", 2, "")
		require.Len(f, page.Entries, 2)
		f.clock.Advance(time.Second)
		page = f.scan("m", 2, page.Cursor)
		require.Equal(f, numbered("mz", 1), keysOf(page.Entries))
		require.Empty(f, page.Cursor)
	}},
	{name: "a cursor may be used again", run: func(f *fix) {
		f.putMany(numbered("k", 4), 0)
		cursor := f.scan("k", 2, "").Cursor
		require.Equal(f, f.scan("k", 2, cursor), f.scan("k", 2, cursor))
		require.Equal(f, numbered("k", 4)[2:3], keysOf(f.scan("k", 1, cursor).Entries), "with another limit")
	}},
	{name: "a cursor at the end gives an empty page", run: func(f *fix) {
		f.putMany(numbered("k", 4), 0)
		cursor := f.scan("k", 2, "").Cursor
		for _, key := range numbered("k", 4)[2:] {
			f.delete(key, types.Always(), true)
		}
		page := f.scan("k", 2, cursor)
		require.Empty(f, page.Entries)
		require.Empty(f, page.Cursor)
	}},
	{name: "a cursor has the form of the original implementation", run: func(f *fix) {
		f.putMany(numbered("k:", 3), 0)
		cursor := f.scan("k:", 2, "").Cursor
		require.Equal(f, `{"version":1,"prefix":"k:","last_key":"k:0001"}`, f.decode(string(cursor)))
		page := f.scan("k:", 2, types.KvCursor(encode(`{"last_key":"k:0000","version":1,"prefix":"k:","note":"of a later release"}`)))
		require.Equal(f, numbered("k:", 3)[1:], keysOf(page.Entries))
	}},
	{name: "a cursor of another prefix is refused", run: func(f *fix) {
		f.putMany(numbered("k", 4), 0)
		cursor := f.scan("k", 2, "").Cursor
		for _, prefix := range []string{"k0", "k000", "l", "K"} {
			_, err := f.kv.ScanPrefix(f.ctx, prefix, types.ScanOptions{Cursor: cursor})
			f.wantInvalid(err, "cursor of %q with %q", "k", prefix)
		}
	}},
	{name: "a malformed cursor is refused", run: func(f *fix) {
		f.putMany(numbered("k", 4), 0)
		c := string(f.scan("k", 2, "").Cursor)
		bad := append(garbage(), c+"=", c+"A", c[1:], c[:len(c)-2], c+c, " "+c,
			string(f.get("k0000").Version),
			encode(`{"version":2,"prefix":"k","last_key":"k0001"}`),
			encode(`{"version":"1","prefix":"k","last_key":"k0001"}`),
			encode(`{"prefix":"k","last_key":"k0001"}`),
			encode(`{"version":1,"prefix":"k"}`),
			encode(`{"version":1,"last_key":"k0001"}`),
			encode(`{"version":1,"prefix":"k","last_key":"j"}`),
			encode(`{"version":1,"prefix":"k","last_key":""}`),
			encode(`{"version":1,"prefix":"k","last_key":"k/"}`),
			encode(`{"version":1,"prefix":"k","last_key":"`+fixture.Key("k", ports.MaxKeyBytes+1)+`"}`),
			encode(`{"version":1,"prefix":"k","lastKey":"k0001"}`),
			encode(`{"version":1,"prefix":"k","last_key":"k0001","last_key":"k0002"}`),
		)
		for _, cursor := range bad {
			_, err := f.kv.ScanPrefix(f.ctx, "k", types.ScanOptions{Cursor: types.KvCursor(cursor)})
			f.wantInvalid(err, "cursor %q", cursor)
		}
	}},
}
