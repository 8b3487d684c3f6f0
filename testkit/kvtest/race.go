package kvtest

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// handles are the handles that racers use in turn: two where the harness can have them.
func (f *fix) handles() []ports.Kv {
	f.Helper()
	if !f.h.MultiHandle {
		return []ports.Kv{f.kv}
	}
	second, err := f.store.Second(f)
	require.NoError(f, err)
	f.Cleanup(func() { closeKv(f, second) })
	return []ports.Kv{f.kv, second}
}

// race runs n racers at one instant and returns how many of them say that they won.
func (f *fix) race(n int, racer func(kv ports.Kv, i int) (bool, error)) int {
	f.Helper()
	handles := f.handles()
	errs := make([]error, n)
	var winners atomic.Int32
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			won, err := racer(handles[i%len(handles)], i)
			errs[i] = err
			if won {
				winners.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	for _, err := range errs {
		require.NoError(f, err)
	}
	return int(winners.Load())
}

func (f *fix) racePuts(cond types.Condition) {
	f.Helper()
	var winner atomic.Int32
	require.Equal(f, 1, f.race(16, func(kv ports.Kv, i int) (bool, error) {
		res, err := kv.Put(f.ctx, "k", []byte(strconv.Itoa(i)), types.PutOptions{If: cond})
		if res.Applied {
			winner.Store(int32(i))
		}
		return res.Applied, err
	}), "winners of the race")
	f.wantValue("k", strconv.Itoa(int(winner.Load())))
}

var raceCases = []testCase{
	{name: "of racing puts if absent one wins", run: func(f *fix) { f.racePuts(types.IfAbsent()) }},
	{name: "of racing puts if version one wins", run: func(f *fix) { f.racePuts(types.IfVersion(f.put("k", "old"))) }},
	{name: "of racing takeovers of an expired key one wins", moves: true, run: func(f *fix) {
		f.putTTL("k", "old", time.Second)
		f.clock.Advance(time.Second)
		f.racePuts(types.IfAbsent())
	}},
	{name: "of racing deletes if version one wins", run: func(f *fix) {
		version := f.put("k", "v")
		require.Equal(f, 1, f.race(16, func(kv ports.Kv, _ int) (bool, error) {
			return kv.Delete(f.ctx, "k", types.IfVersion(version))
		}))
		f.wantAbsent("k")
	}},
	{name: "a put and a delete of one version: one wins", run: func(f *fix) {
		version := f.put("k", "v")
		require.Equal(f, 1, f.race(8, func(kv ports.Kv, i int) (bool, error) {
			if i%2 == 0 {
				return kv.Delete(f.ctx, "k", types.IfVersion(version))
			}
			res, err := kv.Put(f.ctx, "k", []byte("new"), types.PutOptions{If: types.IfVersion(version)})
			return res.Applied, err
		}))
	}},
	{name: "a counter loses no update", run: func(f *fix) {
		const callers, each = 6, 10
		f.put("k", "0")
		f.race(callers, func(kv ports.Kv, _ int) (bool, error) {
			for done := 0; done < each; {
				e, ok, err := kv.Get(f.ctx, "k")
				if err != nil || !ok {
					return false, fmt.Errorf("get of the counter: found %v: %w", ok, err)
				}
				n, err := strconv.Atoi(string(e.Value))
				if err != nil {
					return false, err
				}
				res, err := kv.Put(f.ctx, "k", []byte(strconv.Itoa(n+1)), types.PutOptions{If: types.IfVersion(e.Version)})
				if err != nil {
					return false, err
				}
				if res.Applied {
					done++
				}
			}
			return true, nil
		})
		f.wantValue("k", strconv.Itoa(callers*each))
	}},
	{name: "a scan beside writers is in order and has no key twice", run: func(f *fix) {
		keys := numbered("k", 40)
		f.putMany(keys[:20], 0)
		f.race(4, func(kv ports.Kv, i int) (bool, error) {
			if i%2 == 0 {
				for _, key := range keys[20:] {
					if _, err := kv.Put(f.ctx, key, []byte("v"), types.PutOptions{}); err != nil {
						return false, err
					}
				}
				return true, nil
			}
			for range 10 {
				page, err := kv.ScanPrefix(f.ctx, "k", types.ScanOptions{})
				if err != nil {
					return false, err
				}
				if got := keysOf(page.Entries); len(got) < 20 || !isPrefixOf(got[:20], keys) || !increasing(got) {
					return false, fmt.Errorf("scan beside writers: found %q", got)
				}
			}
			return true, nil
		})
	}},
	{name: "a recorded history of compare and set is linearizable", run: func(f *fix) { f.checkHistory() }},
}

func isPrefixOf(got, keys []string) bool {
	for i, key := range got {
		if key != keys[i] {
			return false
		}
	}
	return true
}

func increasing(keys []string) bool {
	for i := 1; i < len(keys); i++ {
		if keys[i-1] >= keys[i] {
			return false
		}
	}
	return true
}

// step is one call in a recorded history of one key. Every value is written once, so that a version
// can be told by the value that it came with.
type step struct {
	op    string // get, put, absent, version, delete, deleteVersion
	value string // what is written
	of    string // the value whose version is the condition
}

type stepResult struct {
	applied bool
	value   string // of a get; empty for none
}

// register is one key as a sequential machine: its state is the value, empty for none.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(string), input.(step), output.(stepResult)
		switch in.op {
		case "get":
			return out.value == now, now
		case "put":
			return out.applied, in.value
		case "absent":
			return after(out.applied, now == "", now, in.value)
		case "version":
			return after(out.applied, now == in.of, now, in.value)
		case "delete":
			return out.applied, ""
		default:
			return after(out.applied, now == in.of, now, "")
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

func after(applied, holds bool, before, then string) (bool, any) {
	if applied {
		return holds, then
	}
	return !holds, before
}

func (f *fix) checkHistory() {
	f.Helper()
	const callers, each = 5, 16
	handles := f.handles()
	var ticks atomic.Int64
	histories := make([][]porcupine.Operation, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			kv := handles[c%len(handles)]
			last := types.KvEntry{} // what this caller read last
			for i := range each {
				in := step{op: "get"}
				if last.Version != "" || i%2 == 1 {
					in = step{value: fmt.Sprintf("%d.%d", c, i), of: string(last.Value)}
					switch {
					case i%8 == 7:
						in.op = "deleteVersion"
					case i%8 == 3 && c == 0:
						in.op = "delete"
					case i%8 == 5 && c == 1:
						in.op = "put"
					case last.Version == "":
						in.op = "absent"
					default:
						in.op = "version"
					}
					if in.op == "deleteVersion" && last.Version == "" {
						in.op = "absent"
					}
				}
				op := porcupine.Operation{ClientId: c, Input: in, Call: ticks.Add(1)}
				out, read, err := apply(f, kv, in, last)
				op.Output, op.Return = out, ticks.Add(1)
				histories[c] = append(histories[c], op)
				if errs[c] = err; err != nil {
					return
				}
				last = read
			}
		})
	}
	wg.Wait()
	var history []porcupine.Operation
	for c := range callers {
		require.NoError(f, errs[c])
		history = append(history, histories[c]...)
	}
	result := porcupine.CheckOperationsTimeout(register, history, 20*time.Second)
	require.NotEqual(f, porcupine.Illegal, result, "the history of compare and set is not linearizable: %+v", history)
}

// apply makes the call of a step, and returns what a get has read.
func apply(f *fix, kv ports.Kv, in step, last types.KvEntry) (stepResult, types.KvEntry, error) {
	put := func(cond types.Condition) (stepResult, types.KvEntry, error) {
		res, err := kv.Put(f.ctx, "k", []byte(in.value), types.PutOptions{If: cond})
		return stepResult{applied: res.Applied}, types.KvEntry{}, err
	}
	remove := func(cond types.Condition) (stepResult, types.KvEntry, error) {
		ok, err := kv.Delete(f.ctx, "k", cond)
		return stepResult{applied: ok}, types.KvEntry{}, err
	}
	switch in.op {
	case "get":
		e, _, err := kv.Get(f.ctx, "k")
		return stepResult{value: string(e.Value)}, e, err
	case "put":
		return put(types.Always())
	case "absent":
		return put(types.IfAbsent())
	case "version":
		return put(types.IfVersion(last.Version))
	case "delete":
		return remove(types.Always())
	default:
		return remove(types.IfVersion(last.Version))
	}
}
