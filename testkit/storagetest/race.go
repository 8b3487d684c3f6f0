package storagetest

import (
	"errors"
	"fmt"
	"slices"
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
func (f *fix) handles() []ports.Storage {
	f.Helper()
	if !f.h.MultiHandle {
		return []ports.Storage{f.s}
	}
	second, err := f.store.Second(f)
	require.NoError(f, err)
	f.Cleanup(func() { closeStorage(f, second) })
	return []ports.Storage{f.s, second}
}

// race runs n racers at one instant and returns which of them say that they won. A racer that lost
// returns false and one of the errors that a loser may have.
func (f *fix) race(n int, racer func(s ports.Storage, i int) (bool, error), losing ...error) []int {
	f.Helper()
	handles := f.handles()
	errs := make([]error, n)
	won := make([]bool, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			won[i], errs[i] = racer(handles[i%len(handles)], i)
		})
	}
	close(start)
	wg.Wait()
	var winners []int
	for i, err := range errs {
		if err != nil && !slices.ContainsFunc(losing, func(may error) bool { return errors.Is(err, may) }) {
			require.NoError(f, err, "racer %d", i)
		}
		if won[i] {
			winners = append(winners, i)
		}
	}
	return winners
}

func (f *fix) racePuts(expected uint64, losing error) {
	f.Helper()
	winners := f.race(16, func(s ports.Storage, i int) (bool, error) {
		_, err := s.PutResource(f.ctx, "k", "a", []byte(strconv.Itoa(i)), expected)
		return err == nil, err
	}, losing)
	require.Len(f, winners, 1, "winners of the race")
	f.wantResource("k", "a", expected+1, strconv.Itoa(winners[0]))
}

// whole is a progress whose parts all bear the number n.
func whole(n int) types.Progress {
	return types.Progress{
		Checkpoint:  &types.Checkpoint{Cursor: at(uint64(n), 0)},
		Deliveries:  []types.Delivery{delivery(uint64(n), 0, types.MatchID(fmt.Sprintf("d%d", n)))},
		DeadLetters: []types.DeadLetter{{MatchID: "a", Monitor: "m", Sink: "s", Attempts: uint64(n)}, {MatchID: "b", Monitor: "m", Sink: "s", Attempts: uint64(n)}},
		HitsFrom:    new(uint64(0)),
		Hits:        []types.GateHit{hit(1, 0, 0, int64(n)), hit(2, 0, 0, int64(n))},
		Metas:       []types.MonitorMeta{{Monitor: "m", Meta: types.GateMeta{LastEmitTS: new(int64(n))}}},
	}
}

// checkWhole returns an error when the parts of steps that [whole] made do not bear one number, or one
// is missing.
func checkWhole(records []types.Record) error {
	var numbers []int64
	for _, r := range records {
		switch {
		case r.Checkpoint != nil:
			numbers = append(numbers, int64(r.Checkpoint.Cursor.Primary))
		case r.DeadLetter != nil:
			numbers = append(numbers, int64(r.DeadLetter.Attempts))
		case r.GateHit != nil:
			numbers = append(numbers, r.GateHit.TS)
		case r.GateMeta != nil:
			numbers = append(numbers, *r.GateMeta.Meta.LastEmitTS)
		}
	}
	if len(records) == 0 {
		return nil
	}
	if len(numbers) != 6 || slices.Min(numbers) != slices.Max(numbers) {
		return fmt.Errorf("a step has 6 parts of one number, found %d", numbers)
	}
	if !slices.ContainsFunc(records, func(r types.Record) bool { return r.Delivery != nil && int64(r.Delivery.Cursor.Primary) == numbers[0] }) {
		return fmt.Errorf("the delivery of step %d is missing", numbers[0])
	}
	return nil
}

// readWhole reads the parts of steps that [whole] made, at one instant, and returns an error when they
// are of several.
func (f *fix) readWhole(s ports.Storage) error {
	if archiver, ok := s.(ports.Archiver); ok {
		records, err := export(f.ctx, archiver)
		if err != nil {
			return err
		}
		return checkWhole(records)
	}
	// Letters of one page are of one instant as well.
	letters, err := s.ListDeadLetters(f.ctx, "p", types.LetterQuery{Take: 2})
	if err != nil {
		return err
	}
	if len(letters) == 1 || len(letters) == 2 && letters[0].Letter.Attempts != letters[1].Letter.Attempts {
		return fmt.Errorf("half of a step: found %+v", letters)
	}
	return nil
}

var raceCases = []testCase{
	{name: "of racing creations one wins", run: func(f *fix) { f.racePuts(0, ports.ErrAlreadyExists) }},
	{name: "of racing updates of one version one wins", run: func(f *fix) {
		f.put("k", "a", `"old"`, 0)
		f.racePuts(1, ports.ErrVersionConflict)
	}},
	{name: "of racing deletions of one version one wins", run: func(f *fix) {
		f.put("k", "a", `1`, 0)
		require.Len(f, f.race(16, func(s ports.Storage, _ int) (bool, error) {
			err := s.DeleteResource(f.ctx, "k", "a", 1)
			return err == nil, err
		}, ports.ErrNotFound), 1)
		f.wantNoResource("k", "a")
	}},
	{name: "an update and a deletion of one version: one wins", run: func(f *fix) {
		f.put("k", "a", `1`, 0)
		require.Len(f, f.race(8, func(s ports.Storage, i int) (bool, error) {
			if i%2 == 0 {
				err := s.DeleteResource(f.ctx, "k", "a", 1)
				return err == nil, err
			}
			_, err := s.PutResource(f.ctx, "k", "a", []byte("2"), 1)
			return err == nil, err
		}, ports.ErrNotFound, ports.ErrVersionConflict), 1)
	}},
	{name: "of racing batches that share a record one wins, whole", run: func(f *fix) {
		winners := f.race(8, func(s ports.Storage, i int) (bool, error) {
			err := s.PutResources(f.ctx, []types.Resource{
				{Kind: "own", ID: fmt.Sprintf("a%d", i), Value: []byte("1")}, {Kind: "k", ID: "shared", Value: []byte(strconv.Itoa(i))}, {Kind: "own", ID: fmt.Sprintf("z%d", i), Value: []byte("1")},
			})
			return err == nil, err
		}, ports.ErrAlreadyExists)
		require.Len(f, winners, 1)
		f.wantResource("k", "shared", 1, strconv.Itoa(winners[0]))
		require.Equal(f, []string{fmt.Sprintf("a%d", winners[0]), fmt.Sprintf("z%d", winners[0])}, f.listAll("own", 0))
	}},
	{name: "a counter loses no update", run: func(f *fix) {
		const callers, each = 6, 10
		f.put("k", "a", "0", 0)
		f.race(callers, func(s ports.Storage, _ int) (bool, error) {
			for done := 0; done < each; {
				r, found, err := s.GetResource(f.ctx, "k", "a")
				if err != nil || !found {
					return false, fmt.Errorf("get of the counter: found %v: %w", found, err)
				}
				n, err := strconv.Atoi(string(r.Value))
				if err != nil {
					return false, err
				}
				_, err = s.PutResource(f.ctx, "k", "a", []byte(strconv.Itoa(n+1)), r.Version)
				if err == nil {
					done++
				} else if !errors.Is(err, ports.ErrVersionConflict) {
					return false, err
				}
			}
			return true, nil
		})
		f.wantResource("k", "a", callers*each+1, strconv.Itoa(callers*each))
	}},
	{name: "of racing deletions of a letter one finds it", run: func(f *fix) {
		f.recordIDs("p", "a", "b")
		require.Len(f, f.race(16, func(s ports.Storage, i int) (bool, error) {
			if i%2 == 0 {
				return s.DeleteDeadLetter(f.ctx, "p", "a")
			}
			n, err := s.DeleteDeadLetters(f.ctx, "p", []types.MatchID{"a"})
			return n == 1, err
		}), 1)
		f.wantLetters("p", "b")
	}},
	{name: "racing records of one letter keep one, and none of others is lost", run: func(f *fix) {
		const callers, each = 8, 8
		f.race(callers, func(s ports.Storage, i int) (bool, error) {
			for j := range each {
				for _, id := range []types.MatchID{"shared", types.MatchID(fmt.Sprintf("l%d-%d", i, j))} {
					if err := s.RecordDeadLetter(f.ctx, "p", letter(id)); err != nil {
						return false, err
					}
				}
			}
			return true, nil
		})
		ids := matchIDs(f.letters("p")) // which looks at the positions too
		require.Len(f, ids, callers*each+1)
		for i := range callers {
			before := -1
			for j := range each {
				place := slices.Index(ids, types.MatchID(fmt.Sprintf("l%d-%d", i, j)))
				require.Greater(f, place, before, "the letters of one caller are in the order of its calls")
				before = place
			}
		}
	}},
	{name: "a list beside writers leaves out nothing that stays, and has nothing twice", run: func(f *fix) {
		var stay []string
		for i := range 20 {
			stay = append(stay, numbered("s", i))
		}
		f.create("k", stay...)
		f.race(4, func(s ports.Storage, i int) (bool, error) {
			if i%2 == 0 {
				for j := range 20 {
					id := fmt.Sprintf("%s-%d", stay[j], i)
					if _, err := s.PutResource(f.ctx, "k", id, []byte("1"), 0); err != nil {
						return false, err
					}
					if j%2 == 0 {
						if err := s.DeleteResource(f.ctx, "k", id, 1); err != nil {
							return false, err
						}
					}
				}
				return true, nil
			}
			for range 5 {
				var ids []string
				for after := ""; ; {
					page, err := s.ListResources(f.ctx, "k", types.ResourceListOptions{After: after, Limit: 3})
					if err != nil {
						return false, err
					}
					ids = append(ids, idsOf(page)...)
					if after = page.Next; after == "" {
						break
					}
				}
				stayed := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return len(id) != len(stay[0]) })
				if !slices.Equal(stay, stayed) || !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
					return false, fmt.Errorf("a list beside writers: found %q", ids)
				}
			}
			return true, nil
		})
	}},
	{name: "racing steps of one pipeline are never mixed", run: func(f *fix) {
		const writers, readers, each = 4, 2, 12
		var writing atomic.Int32
		writing.Store(writers)
		f.race(writers+readers, func(s ports.Storage, i int) (bool, error) {
			if i >= writers {
				for reads := 0; reads < each || writing.Load() > 0; reads++ {
					if err := f.readWhole(s); err != nil {
						return false, err
					}
				}
				return true, nil
			}
			defer writing.Add(-1)
			for j := range each {
				if err := s.Apply(f.ctx, "p", whole(1+i*each+j)); err != nil {
					return false, err
				}
			}
			return true, nil
		})
		checkpoint, _, err := f.s.LoadCheckpoint(f.ctx, "p")
		require.NoError(f, err)
		n := checkpoint.Cursor.Primary
		require.Zero(f, n%each, "the step that came last is the last one of its writer")
		for _, id := range []types.MatchID{"a", "b"} {
			require.Equal(f, n, f.stored("p", id).Letter.Attempts)
		}
		f.wantHits("p", "m", 0, hit(1, 0, 0, int64(n)), hit(2, 0, 0, int64(n)))
		f.wantMeta("p", "m", types.GateMeta{LastEmitTS: new(int64(n))})
		require.Len(f, f.window("p", at(0, 0), last), writers*each)
	}},
	{name: "a recorded history of versions is linearizable", run: func(f *fix) { f.checkHistory() }},
}

// step is one call in a recorded history of one resource.
type step struct {
	op       string // get, put, delete
	value    string // what is written
	expected uint64
}

type stepResult struct {
	done    bool // applied, or found
	version uint64
	value   string
}

// register is one resource as a sequential machine; version 0 is none.
var register = porcupine.Model{
	Init: func() any { return stepResult{} },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(stepResult), input.(step), output.(stepResult)
		switch in.op {
		case "get":
			return out.version == now.version && out.value == now.value, now
		case "put":
			if !out.done {
				return now.version != in.expected, now
			}
			return now.version == in.expected && out.version == in.expected+1, stepResult{version: in.expected + 1, value: in.value}
		default:
			if !out.done {
				return now.version != in.expected, now
			}
			return now.version == in.expected, stepResult{}
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
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
			s := handles[c%len(handles)]
			seen := uint64(0) // the version that this caller read last
			for i := range each {
				in := step{op: "get"}
				if i%2 == 1 {
					in = step{op: "put", value: fmt.Sprintf("%d.%d", c, i), expected: seen}
					if seen > 0 && i%8 == 7 {
						in = step{op: "delete", expected: seen}
					}
				}
				op := porcupine.Operation{ClientId: c, Input: in, Call: ticks.Add(1)}
				out, err := f.take(s, in)
				op.Output, op.Return = out, ticks.Add(1)
				histories[c] = append(histories[c], op)
				if errs[c] = err; err != nil {
					return
				}
				if in.op == "get" {
					seen = out.version
				}
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
	require.NotEqual(f, porcupine.Illegal, result, "the history of versions is not linearizable: %+v", history)
}

// take makes the call of a step. An error that a loser may have is no error here.
func (f *fix) take(s ports.Storage, in step) (stepResult, error) {
	var err error
	out := stepResult{}
	switch in.op {
	case "get":
		var r types.Resource
		r, out.done, err = s.GetResource(f.ctx, "k", "a")
		out.version, out.value = r.Version, string(r.Value)
		return out, err
	case "put":
		out.version, err = s.PutResource(f.ctx, "k", "a", []byte(in.value), in.expected)
	default:
		err = s.DeleteResource(f.ctx, "k", "a", in.expected)
	}
	out.done = err == nil
	if errors.Is(err, ports.ErrNotFound) || errors.Is(err, ports.ErrAlreadyExists) || errors.Is(err, ports.ErrVersionConflict) {
		err = nil
	}
	return out, err
}
