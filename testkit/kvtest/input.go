package kvtest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// keyAlphabet is every character that a key may have, in the order of the bytes.
const keyAlphabet = "-.0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

var inputCases = []testCase{
	{name: "keys of 1, 511 and 512 bytes pass everywhere", run: func(f *fix) {
		for _, size := range []int{1, 511, 512} {
			key := fixture.Key("", size)
			f.wantAbsent(key)
			version := f.put(key, "v")
			f.wantValue(key, "v")
			require.Equal(f, []string{key}, keysOf(f.scan(key, 0, "").Entries), "a prefix may be as long as a key")
			f.delete(key, types.IfVersion(version), true)
		}
	}},
	{name: "keys of 0 and 513 bytes are refused everywhere", run: func(f *fix) {
		for _, key := range []string{"", fixture.Key("", 513), fixture.Key("", 100_000)} {
			f.wantKeyRefused(key)
		}
	}},
	{name: "every allowed character passes, alone and together", run: func(f *fix) {
		f.put(keyAlphabet, "all")
		f.wantValue(keyAlphabet, "all")
		for _, c := range keyAlphabet {
			f.wantAbsent(string(c))
		}
	}},
	{name: "every other byte is refused", run: func(f *fix) {
		for c := range 256 {
			if strings.IndexByte(keyAlphabet, byte(c)) < 0 {
				f.wantKeyRefused("k" + string([]byte{byte(c)}))
			}
		}
		f.wantKeyRefused("ключ")
		f.wantKeyRefused("a/b")
		require.Empty(f, f.scanAll("k", 0), "refused puts leave nothing")
	}},
	{name: "a key is checked before a value", run: func(f *fix) {
		_, err := f.kv.Put(f.ctx, "bad key", fixture.Value(ports.MaxValueBytes+1), types.PutOptions{})
		f.wantInvalid(err, "bad key and value")
		require.Contains(f, err.Error(), "key")
		require.NotContains(f, err.Error(), "value")
	}},
	{name: "values of up to 24576 bytes pass", run: func(f *fix) {
		for _, size := range []int{0, 1, 24_575, 24_576} {
			want := string(fixture.Value(size))
			f.put("k", want)
			f.wantValue("k", want)
		}
	}},
	{name: "a value of 24577 bytes is refused and leaves the old one", run: func(f *fix) {
		before := f.put("k", "old")
		for _, size := range []int{24_577, 1 << 20} {
			_, err := f.kv.Put(f.ctx, "k", fixture.Value(size), types.PutOptions{})
			f.wantInvalid(err, "value of %d bytes", size)
		}
		f.wantValue("k", "old")
		f.delete("k", types.IfVersion(before), true)
	}},
	{name: "a negative TTL is refused and leaves the old value", run: func(f *fix) {
		f.put("k", "old")
		for _, ttl := range []time.Duration{-1, -time.Millisecond, -time.Hour, -1 << 63} {
			_, err := f.kv.Put(f.ctx, "k", []byte("new"), types.PutOptions{TTL: ttl})
			f.wantInvalid(err, "TTL %v", ttl)
		}
		f.wantValue("k", "old")
	}},
	{name: "a delete if absent is refused", run: func(f *fix) {
		f.put("k", "v")
		_, err := f.kv.Delete(f.ctx, "k", types.IfAbsent())
		f.wantInvalid(err, "delete if absent")
		f.wantValue("k", "v")
	}},
	{name: "scan limits outside 1 to 1000 are refused, 0 is the default", run: func(f *fix) {
		f.put("k", "v")
		for _, limit := range []int{-1, 1001, -1 << 31, 1 << 31} {
			_, err := f.kv.ScanPrefix(f.ctx, "k", types.ScanOptions{Limit: limit})
			f.wantInvalid(err, "limit %d", limit)
		}
		for _, limit := range []int{0, 1, 1000} {
			require.Len(f, f.scan("k", limit, "").Entries, 1, "limit %d", limit)
		}
	}},
	{name: "an error holds no value and no token", run: func(f *fix) {
		const secret = "canary-of-the-suite"
		_, err := f.kv.Put(f.ctx, "k", []byte(strings.Repeat(secret, 2000)), types.PutOptions{})
		f.wantInvalid(err, "oversize value")
		require.NotContains(f, err.Error(), secret)

		token := f.put("other", "v")
		_, err = f.kv.Put(f.ctx, "k", []byte(secret), types.PutOptions{If: types.IfVersion(token)})
		f.wantInvalid(err, "foreign token")
		require.NotContains(f, err.Error(), secret)
		require.NotContains(f, err.Error(), string(token))
	}},
}

// wantKeyRefused asserts that every method refuses a key.
func (f *fix) wantKeyRefused(key string) {
	f.Helper()
	_, _, err := f.kv.Get(f.ctx, key)
	f.wantInvalid(err, "get of %q", key)
	_, err = f.kv.Exists(f.ctx, key)
	f.wantInvalid(err, "exists of %q", key)
	_, err = f.kv.Put(f.ctx, key, []byte("v"), types.PutOptions{})
	f.wantInvalid(err, "put of %q", key)
	_, err = f.kv.Delete(f.ctx, key, types.Always())
	f.wantInvalid(err, "delete of %q", key)
	_, err = f.kv.ScanPrefix(f.ctx, key, types.ScanOptions{})
	f.wantInvalid(err, "scan of %q", key)
}

var valueCases = []testCase{
	{name: "a missing key is no error", run: func(f *fix) {
		f.wantAbsent("k")
		f.delete("k", types.Always(), true)
		f.wantAbsent("k")
	}},
	{name: "a value holds any byte", run: func(f *fix) {
		want := string(fixture.Value(1024)) + "\x00\xff\xfe tail \x00"
		f.put("k", want)
		f.wantValue("k", want)
		require.Equal(f, want, string(f.scan("k", 0, "").Entries[0].Value))
	}},
	{name: "nil is the empty value, and not absence", run: func(f *fix) {
		_, err := f.kv.Put(f.ctx, "nil", nil, types.PutOptions{})
		require.NoError(f, err)
		f.put("empty", "")
		for _, key := range []string{"nil", "empty"} {
			f.wantValue(key, "")
			require.Len(f, f.scan(key, 0, "").Entries, 1, "scan of %q", key)
		}
		f.lose("nil", types.IfAbsent())
	}},
	{name: "a put replaces", run: func(f *fix) {
		f.put("k", "a long first value")
		f.put("k", "2nd")
		f.wantValue("k", "2nd")
		require.Len(f, f.scanAll("k", 0), 1)
	}},
	{name: "keys that differ in case or by a suffix are different", run: func(f *fix) {
		for _, key := range []string{"k", "K", "k.", "kk", "k:", "k-", "k_"} {
			f.put(key, "of "+key)
		}
		for _, key := range []string{"k", "K", "k.", "kk", "k:", "k-", "k_"} {
			f.wantValue(key, "of "+key)
		}
		f.delete("k", types.Always(), true)
		f.wantAbsent("k")
		f.wantValue("K", "of K")
		f.wantValue("kk", "of kk")
	}},
	{name: "the caller's slice stays the caller's", run: func(f *fix) {
		value := []byte("stored")
		_, err := f.kv.Put(f.ctx, "k", value, types.PutOptions{})
		require.NoError(f, err)
		copy(value, "XXXXXX")
		f.wantValue("k", "stored")
	}},
	{name: "a value handed out is the caller's own", run: func(f *fix) {
		f.put("k", "stored")
		copy(f.get("k").Value, "XXXXXX")
		f.wantValue("k", "stored")
		copy(f.scan("k", 0, "").Entries[0].Value, "YYYYYY")
		f.wantValue("k", "stored")
		_ = append(f.get("k").Value[:0], "ZZZZZZ"...)
		f.wantValue("k", "stored")
	}},
	{name: "every applied put gives a version of its own", run: func(f *fix) {
		seen := map[types.KvVersion]bool{}
		for range 5 {
			v := f.put("k", "same")
			require.False(f, seen[v], "the version of an identical put: want a new one")
			seen[v] = true
			require.Equal(f, v, f.get("k").Version, "the version of the put and of the get")
		}
	}},
}
