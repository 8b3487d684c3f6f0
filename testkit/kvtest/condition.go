package kvtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

var conditionCases = []testCase{
	{name: "if absent: a missing key is taken", run: func(f *fix) {
		v := f.putWith("k", "first", types.PutOptions{If: types.IfAbsent()})
		f.wantValue("k", "first")
		f.delete("k", types.IfVersion(v), true)
		f.putWith("k", "again", types.PutOptions{If: types.IfAbsent()})
		f.wantValue("k", "again")
	}},
	{name: "if absent: a live key is left alone", moves: true, run: func(f *fix) {
		v := f.putTTL("k", "v", time.Minute)
		f.lose("k", types.IfAbsent())
		f.wantValue("k", "v")
		require.Equal(f, v, f.get("k").Version)
		f.clock.Advance(time.Minute - time.Millisecond)
		f.lose("k", types.IfAbsent())
		f.clock.Advance(time.Millisecond)
		f.wantAbsent("k") // neither did a loser change the expiry
	}},
	{name: "if absent: an expired key is taken over", moves: true, run: func(f *fix) {
		old := f.putTTL("k", "old", time.Second)
		f.clock.Advance(time.Second)
		f.putWith("k", "new", types.PutOptions{If: types.IfAbsent(), TTL: time.Minute})
		f.wantValue("k", "new")
		f.lose("k", types.IfVersion(old))
		f.clock.Advance(time.Minute)
		f.wantAbsent("k")
	}},
	{name: "if version: the live version is replaced, once", run: func(f *fix) {
		v1 := f.put("k", "1")
		v2 := f.putWith("k", "2", types.PutOptions{If: types.IfVersion(v1)})
		require.NotEqual(f, v1, v2)
		f.wantValue("k", "2")
		f.lose("k", types.IfVersion(v1))
		f.wantValue("k", "2")
		f.putWith("k", "3", types.PutOptions{If: types.IfVersion(v2)})
		f.wantValue("k", "3")
	}},
	{name: "if version: a stale version loses and changes nothing", run: func(f *fix) {
		stale := f.put("k", "1")
		v := f.put("k", "2")
		f.lose("k", types.IfVersion(stale))
		f.wantValue("k", "2")
		require.Equal(f, v, f.get("k").Version)
	}},
	{name: "if version: the same value put again is another version", run: func(f *fix) {
		stale := f.put("k", "same")
		f.put("k", "same")
		f.lose("k", types.IfVersion(stale))
	}},
	{name: "if version: a missing key loses and stays missing", run: func(f *fix) {
		v := f.put("k", "v")
		f.delete("k", types.Always(), true)
		f.lose("k", types.IfVersion(v))
		f.wantAbsent("k")
	}},
	{name: "if version: an expired key loses and stays absent", moves: true, run: func(f *fix) {
		v := f.putTTL("k", "v", time.Second)
		f.clock.Advance(time.Second - 1)
		v = f.putWith("k", "v", types.PutOptions{If: types.IfVersion(v), TTL: time.Second})
		f.clock.Advance(time.Second)
		f.lose("k", types.IfVersion(v))
		f.wantAbsent("k")
	}},
	{name: "if version: a key deleted and put again is another entry", run: func(f *fix) {
		v := f.put("k", "v")
		f.delete("k", types.Always(), true)
		f.put("k", "v")
		f.lose("k", types.IfVersion(v))
		f.delete("k", types.IfVersion(v), false)
		f.wantValue("k", "v")
	}},
	{name: "delete if version: only the live version", run: func(f *fix) {
		stale := f.put("k", "1")
		v := f.put("k", "2")
		f.delete("k", types.IfVersion(stale), false)
		f.wantValue("k", "2")
		f.delete("k", types.IfVersion(v), true)
		f.wantAbsent("k")
		f.delete("k", types.IfVersion(v), false)
	}},
	{name: "delete always holds, and touches no other key", run: func(f *fix) {
		f.put("k", "v")
		f.put("kk", "v")
		f.delete("k", types.Always(), true)
		f.delete("k", types.Always(), true)
		f.wantAbsent("k")
		f.wantValue("kk", "v")
	}},
	{name: "the zero condition is always", run: func(f *fix) {
		f.putWith("k", "1", types.PutOptions{If: types.Condition{}})
		f.putWith("k", "2", types.PutOptions{If: types.Always()})
		f.delete("k", types.Condition{}, true)
		f.wantAbsent("k")
	}},
}
