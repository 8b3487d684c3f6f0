package storagetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// idCharacters is every character that an id may have, in the order of the bytes.
const idCharacters = "-.0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

// use is one place of the port that takes a value of a kind, all else being good.
type use[T any] struct {
	op, what string
	call     func(ctx context.Context, s ports.Storage, value T) error
}

// applied makes a use of Apply.
func applied[T any](what string, progress func(T) types.Progress) use[T] {
	return use[T]{"storage.apply", what, func(ctx context.Context, s ports.Storage, value T) error {
		return s.Apply(ctx, "p", progress(value))
	}}
}

func letterWith(change func(*types.DeadLetter)) types.DeadLetter {
	l := withMatch(letter("a"), "1")
	change(&l)
	return l
}

// letterUses are the methods that take a letter.
func letterUses() []use[types.DeadLetter] {
	return []use[types.DeadLetter]{
		{"storage.recordDeadLetter", "letter", func(ctx context.Context, s ports.Storage, l types.DeadLetter) error {
			return s.RecordDeadLetter(ctx, "p", l)
		}},
		{"storage.updateDeadLetter", "letter", func(ctx context.Context, s ports.Storage, l types.DeadLetter) error {
			_, err := s.UpdateDeadLetter(ctx, "p", l)
			return err
		}},
		applied("letter", func(l types.DeadLetter) types.Progress {
			return types.Progress{DeadLetters: []types.DeadLetter{letter("fine"), l}}
		}),
	}
}

// asLetters turns uses of a letter into uses of a part of one.
func asLetters[T any](what string, set func(*types.DeadLetter, T)) []use[T] {
	var uses []use[T]
	for _, u := range letterUses() {
		uses = append(uses, use[T]{u.op, what, func(ctx context.Context, s ports.Storage, value T) error {
			return u.call(ctx, s, letterWith(func(l *types.DeadLetter) { set(l, value) }))
		}})
	}
	return uses
}

// idUses are all places that take an id.
func idUses() []use[string] {
	uses := []use[string]{
		{"storage.getResource", "kind", func(ctx context.Context, s ports.Storage, id string) error {
			_, _, err := s.GetResource(ctx, types.ResourceKind(id), "a")
			return err
		}},
		{"storage.getResource", "id", func(ctx context.Context, s ports.Storage, id string) error {
			_, _, err := s.GetResource(ctx, "k", id)
			return err
		}},
		{"storage.listResources", "kind", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.ListResources(ctx, types.ResourceKind(id), types.ResourceListOptions{})
			return err
		}},
		{"storage.putResource", "kind", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.PutResource(ctx, types.ResourceKind(id), "a", []byte("1"), 0)
			return err
		}},
		{"storage.putResource", "id", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.PutResource(ctx, "k", id, []byte("1"), 0)
			return err
		}},
		{"storage.putResources", "kind", func(ctx context.Context, s ports.Storage, id string) error {
			return s.PutResources(ctx, []types.Resource{{Kind: "k", ID: "fine", Value: []byte("1")}, {Kind: types.ResourceKind(id), ID: "a", Value: []byte("1")}})
		}},
		{"storage.putResources", "id", func(ctx context.Context, s ports.Storage, id string) error {
			return s.PutResources(ctx, []types.Resource{{Kind: "k", ID: "fine", Value: []byte("1")}, {Kind: "k", ID: id, Value: []byte("1")}})
		}},
		{"storage.deleteResource", "kind", func(ctx context.Context, s ports.Storage, id string) error {
			return s.DeleteResource(ctx, types.ResourceKind(id), "a", 1)
		}},
		{"storage.deleteResource", "id", func(ctx context.Context, s ports.Storage, id string) error {
			return s.DeleteResource(ctx, "k", id, 1)
		}},
		{"storage.loadCheckpoint", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, _, err := s.LoadCheckpoint(ctx, types.PipelineID(id))
			return err
		}},
		{"storage.saveCheckpoint", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			return s.SaveCheckpoint(ctx, types.PipelineID(id), aCheckpoint(1, 1))
		}},
		{"storage.deleteCheckpoint", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.DeleteCheckpoint(ctx, types.PipelineID(id))
			return err
		}},
		{"storage.recordDeadLetter", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			return s.RecordDeadLetter(ctx, types.PipelineID(id), letter("a"))
		}},
		{"storage.listDeadLetters", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.ListDeadLetters(ctx, types.PipelineID(id), types.LetterQuery{Take: 1})
			return err
		}},
		{"storage.getDeadLetter", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, _, err := s.GetDeadLetter(ctx, types.PipelineID(id), "a")
			return err
		}},
		{"storage.getDeadLetter", "match id", func(ctx context.Context, s ports.Storage, id string) error {
			_, _, err := s.GetDeadLetter(ctx, "p", types.MatchID(id))
			return err
		}},
		{"storage.updateDeadLetter", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.UpdateDeadLetter(ctx, types.PipelineID(id), letter("a"))
			return err
		}},
		{"storage.deleteDeadLetter", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.DeleteDeadLetter(ctx, types.PipelineID(id), "a")
			return err
		}},
		{"storage.deleteDeadLetter", "match id", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.DeleteDeadLetter(ctx, "p", types.MatchID(id))
			return err
		}},
		{"storage.deleteDeadLetters", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.DeleteDeadLetters(ctx, types.PipelineID(id), []types.MatchID{"a"})
			return err
		}},
		{"storage.deleteDeadLetters", "match id", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.DeleteDeadLetters(ctx, "p", []types.MatchID{"a", types.MatchID(id), "b"})
			return err
		}},
		{"storage.deleteAllDeadLetters", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.DeleteAllDeadLetters(ctx, types.PipelineID(id), math.MaxInt64)
			return err
		}},
		{"storage.pause", "target", func(ctx context.Context, s ports.Storage, id string) error {
			return s.Pause(ctx, types.Pause{Target: types.PauseTarget(id), ID: "p"})
		}},
		{"storage.resume", "target", func(ctx context.Context, s ports.Storage, id string) error {
			return s.Resume(ctx, types.Pause{Target: types.PauseTarget(id), ID: "p"})
		}},
		{"storage.paused", "target", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.Paused(ctx, types.Pause{Target: types.PauseTarget(id), ID: "p"})
			return err
		}},
		{"storage.recordDeliveries", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			return s.RecordDeliveries(ctx, types.PipelineID(id), []types.Delivery{delivery(1, 1, "a")})
		}},
		{"storage.recordDeliveries", "match id", func(ctx context.Context, s ports.Storage, id string) error {
			return s.RecordDeliveries(ctx, "p", []types.Delivery{delivery(1, 1, "fine"), delivery(1, 1, types.MatchID(id))})
		}},
		{"storage.delivered", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.Delivered(ctx, types.PipelineID(id), at(0, 0), last)
			return err
		}},
		{"storage.appendHits", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			return s.AppendHits(ctx, types.PipelineID(id), []types.GateHit{hit(1, 1, 1, 1)})
		}},
		{"storage.appendHits", "monitor", func(ctx context.Context, s ports.Storage, id string) error {
			return s.AppendHits(ctx, "p", []types.GateHit{hit(1, 1, 1, 1), {Monitor: types.MonitorID(id), Event: []byte("1")}})
		}},
		{"storage.hits", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.Hits(ctx, types.PipelineID(id), "m", 0)
			return err
		}},
		{"storage.hits", "monitor", func(ctx context.Context, s ports.Storage, id string) error {
			_, err := s.Hits(ctx, "p", types.MonitorID(id), 0)
			return err
		}},
		{"storage.deleteHitsBefore", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			return s.DeleteHitsBefore(ctx, types.PipelineID(id), math.MaxInt64)
		}},
		{"storage.deleteHitsFrom", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			return s.DeleteHitsFrom(ctx, types.PipelineID(id), 0)
		}},
		{"storage.gateMeta", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			_, _, err := s.GateMeta(ctx, types.PipelineID(id), "m")
			return err
		}},
		{"storage.gateMeta", "monitor", func(ctx context.Context, s ports.Storage, id string) error {
			_, _, err := s.GateMeta(ctx, "p", types.MonitorID(id))
			return err
		}},
		{"storage.setGateMeta", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			return s.SetGateMeta(ctx, types.PipelineID(id), "m", types.GateMeta{Aux: []byte("new")})
		}},
		{"storage.setGateMeta", "monitor", func(ctx context.Context, s ports.Storage, id string) error {
			return s.SetGateMeta(ctx, "p", types.MonitorID(id), types.GateMeta{Aux: []byte("new")})
		}},
		{"storage.apply", "pipeline", func(ctx context.Context, s ports.Storage, id string) error {
			return s.Apply(ctx, types.PipelineID(id), types.Progress{Checkpoint: new(aCheckpoint(1, 1))})
		}},
		{"storage.apply", "pipeline of nothing", func(ctx context.Context, s ports.Storage, id string) error {
			return s.Apply(ctx, types.PipelineID(id), types.Progress{})
		}},
		applied("delivery", func(id string) types.Progress {
			return types.Progress{Deliveries: []types.Delivery{delivery(1, 1, "fine"), delivery(1, 1, types.MatchID(id))}}
		}),
		applied("settled", func(id string) types.Progress {
			return types.Progress{Settled: []types.MatchID{"a", types.MatchID(id)}}
		}),
		applied("hit", func(id string) types.Progress {
			return types.Progress{Hits: []types.GateHit{hit(1, 1, 1, 1), {Monitor: types.MonitorID(id), Event: []byte("1")}}}
		}),
		applied("floor", func(id string) types.Progress {
			return types.Progress{HitsBeforeOf: []types.MonitorFloor{{Monitor: "m", Primary: 100}, {Monitor: types.MonitorID(id), Primary: 100}}}
		}),
		applied("meta", func(id string) types.Progress {
			return types.Progress{Metas: []types.MonitorMeta{{Monitor: "m", Meta: types.GateMeta{Aux: []byte("new")}}, {Monitor: types.MonitorID(id)}}}
		}),
	}
	uses = append(uses, asLetters("match id", func(l *types.DeadLetter, id string) { l.MatchID = types.MatchID(id) })...)
	uses = append(uses, asLetters("monitor", func(l *types.DeadLetter, id string) { l.Monitor = types.MonitorID(id) })...)
	uses = append(uses, asLetters("sink", func(l *types.DeadLetter, id string) { l.Sink = types.SinkID(id) })...)
	return uses
}

// integerUses are all places that take a number of at most 2^63-1.
func integerUses() []use[uint64] {
	uses := []use[uint64]{
		{"storage.deleteHitsBefore", "primary", func(ctx context.Context, s ports.Storage, n uint64) error {
			return s.DeleteHitsBefore(ctx, "p", n)
		}},
		{"storage.deleteHitsFrom", "primary", func(ctx context.Context, s ports.Storage, n uint64) error {
			return s.DeleteHitsFrom(ctx, "p", n)
		}},
		{"storage.appendHits", "event index", func(ctx context.Context, s ports.Storage, n uint64) error {
			return s.AppendHits(ctx, "p", []types.GateHit{hit(1, 1, 1, 1), hit(1, 1, n, 1)})
		}},
		{"storage.deleteResource", "version", func(ctx context.Context, s ports.Storage, n uint64) error {
			return s.DeleteResource(ctx, "pipeline", "p", n)
		}},
		{"storage.putResource", "version", func(ctx context.Context, s ports.Storage, n uint64) error {
			_, err := s.PutResource(ctx, "pipeline", "p", []byte("1"), n)
			return err
		}},
		{"storage.putResources", "version", func(ctx context.Context, s ports.Storage, n uint64) error {
			return s.PutResources(ctx, []types.Resource{{Kind: "k", ID: "a", Version: n, Value: []byte("1")}})
		}},
		applied("journal from", func(n uint64) types.Progress {
			return types.Progress{Deliveries: []types.Delivery{delivery(1, 1, "fine")}, JournalFrom: &n}
		}),
		applied("hits from", func(n uint64) types.Progress { return types.Progress{HitsFrom: &n} }),
		applied("hits before", func(n uint64) types.Progress { return types.Progress{HitsBefore: &n} }),
		applied("floor", func(n uint64) types.Progress {
			return types.Progress{HitsBeforeOf: []types.MonitorFloor{{Monitor: "m", Primary: 100}, {Monitor: "m", Primary: n}}}
		}),
		applied("event index", func(n uint64) types.Progress { return types.Progress{Hits: []types.GateHit{hit(1, 1, n, 1)}} }),
	}
	uses = append(uses, asLetters("attempts", func(l *types.DeadLetter, n uint64) { l.Attempts = n })...)
	for _, u := range cursorUses() {
		uses = append(uses,
			use[uint64]{u.op, u.what + " primary", func(ctx context.Context, s ports.Storage, n uint64) error { return u.call(ctx, s, at(n, 1)) }},
			use[uint64]{u.op, u.what + " secondary", func(ctx context.Context, s ports.Storage, n uint64) error { return u.call(ctx, s, at(1, n)) }},
		)
	}
	return uses
}

func cursorUses() []use[types.Cursor] {
	uses := []use[types.Cursor]{
		{"storage.saveCheckpoint", "cursor", func(ctx context.Context, s ports.Storage, c types.Cursor) error {
			return s.SaveCheckpoint(ctx, "p", types.Checkpoint{Cursor: c})
		}},
		{"storage.recordDeliveries", "cursor", func(ctx context.Context, s ports.Storage, c types.Cursor) error {
			return s.RecordDeliveries(ctx, "p", []types.Delivery{delivery(1, 1, "fine"), {Cursor: c, MatchID: "a"}})
		}},
		{"storage.delivered", "from", func(ctx context.Context, s ports.Storage, c types.Cursor) error {
			_, err := s.Delivered(ctx, "p", c, last)
			return err
		}},
		{"storage.delivered", "to", func(ctx context.Context, s ports.Storage, c types.Cursor) error {
			_, err := s.Delivered(ctx, "p", at(0, 0), c)
			return err
		}},
		{"storage.appendHits", "cursor", func(ctx context.Context, s ports.Storage, c types.Cursor) error {
			return s.AppendHits(ctx, "p", []types.GateHit{hit(1, 1, 1, 1), hit(c.Primary, c.Secondary, 1, 1)})
		}},
		applied("checkpoint", func(c types.Cursor) types.Progress {
			return types.Progress{Checkpoint: &types.Checkpoint{Cursor: c}}
		}),
		applied("delivery", func(c types.Cursor) types.Progress {
			return types.Progress{Checkpoint: new(aCheckpoint(1, 1)), Deliveries: []types.Delivery{{Cursor: c, MatchID: "a"}}}
		}),
		applied("hit", func(c types.Cursor) types.Progress {
			return types.Progress{Checkpoint: new(aCheckpoint(1, 1)), Hits: []types.GateHit{hit(c.Primary, c.Secondary, 1, 1)}}
		}),
	}
	uses = append(uses, asLetters("cursor", func(l *types.DeadLetter, c types.Cursor) { l.Cursor = c })...)
	uses = append(uses, asLetters("cursor of the payload", func(l *types.DeadLetter, c types.Cursor) { l.Payload.Match.Cursor = c })...)
	return append(uses, asLetters("cursor of the emission", func(l *types.DeadLetter, c types.Cursor) {
		*l = withEmission(*l, "1")
		l.Payload.Emission.Match.Cursor = c
	})...)
}

// jsonUses are all places that take JSON.
func jsonUses() []use[string] {
	uses := []use[string]{
		{"storage.putResource", "value", func(ctx context.Context, s ports.Storage, text string) error {
			_, err := s.PutResource(ctx, "k", "a", []byte(text), 0)
			return err
		}},
		{"storage.putResource", "value of an update", func(ctx context.Context, s ports.Storage, text string) error {
			_, err := s.PutResource(ctx, "pipeline", "p", []byte(text), 2)
			return err
		}},
		{"storage.putResources", "value", func(ctx context.Context, s ports.Storage, text string) error {
			return s.PutResources(ctx, []types.Resource{{Kind: "k", ID: "fine", Value: []byte("1")}, {Kind: "k", ID: "a", Value: []byte(text)}})
		}},
		{"storage.appendHits", "event", func(ctx context.Context, s ports.Storage, text string) error {
			return s.AppendHits(ctx, "p", []types.GateHit{hit(1, 1, 1, 1), {Monitor: "m", Event: []byte(text)}})
		}},
		applied("event of a hit", func(text string) types.Progress {
			return types.Progress{Checkpoint: new(aCheckpoint(1, 1)), Hits: []types.GateHit{{Monitor: "m", Event: []byte(text)}}}
		}),
	}
	uses = append(uses, asLetters("event", func(l *types.DeadLetter, text string) { *l = withMatch(*l, text) })...)
	return append(uses, asLetters("event of an emission", func(l *types.DeadLetter, text string) { *l = withEmission(*l, text) })...)
}

// refuseAll asserts that every use refuses every value, and that nothing comes of it.
func refuseAll[T any](f *fix, uses []use[T], values map[string]T) {
	f.Helper()
	f.fill()
	before := f.dump()
	for name, value := range values {
		for _, u := range uses {
			f.wantInvalid(u.call(f.ctx, f.s, value), u.op, "%s: %s", u.what, name)
		}
	}
	f.wantState(before, "refused input")
}

func named(values ...string) map[string]string {
	names := make(map[string]string, len(values))
	for _, v := range values {
		name := fmt.Sprintf("%q", v)
		if len(v) > 40 {
			name = fmt.Sprintf("%q… of %d bytes", v[:20], len(v))
		}
		names[name] = v
	}
	return names
}

// items are more entries than one call takes.
func items[T any](item func(i int) T) []T {
	all := []T{}
	for i := range ports.MaxProgressItems + 1 {
		all = append(all, item(i))
	}
	return all
}

func numbered(prefix string, i int) string { return fmt.Sprintf("%s%05d", prefix, i) }

var inputCases = []testCase{
	{name: "a bad id is refused everywhere", run: func(f *fix) {
		refuseAll(f, idUses(), named("", strings.Repeat("i", 257), strings.Repeat("i", 100_000),
			"-a", ".a", ":a", "a/b", "a b", " a", "a\n", "a\x00", "é", "a\xff", "a%", "'", `"`, "a;b", "../a"))
	}},
	{name: "every byte that an id may not have is refused", run: func(f *fix) {
		bad := map[string]string{}
		for c := range 256 {
			if strings.IndexByte(idCharacters, byte(c)) < 0 {
				bad[fmt.Sprintf("byte %#x", c)] = "a" + string([]byte{byte(c)})
			}
		}
		uses := idUses()
		refuseAll(f, uses[1:2], bad)
	}},
	{name: "ids of 1 and 256 bytes, and of every character, pass everywhere", run: func(f *fix) {
		for _, id := range []string{"a", "0", "_", "_" + idCharacters, strings.Repeat("z", 256)} {
			for _, u := range idUses() {
				err := u.call(f.ctx, f.s, id)
				require.NotErrorIs(f, err, ports.ErrInvalidInput, "%s: %s %q", u.op, u.what, id)
			}
		}
	}},
	{name: "ids that differ in a letter's case or by a suffix are different", run: func(f *fix) {
		ids := []string{"A", "AA", "a", "a-", "a.", "a0", "a:", "aA", "a_", "aa"}
		for i, id := range ids {
			f.put("k", id, fmt.Sprint(i), 0)
			f.save(types.PipelineID(id), types.Checkpoint{Cursor: at(uint64(i), 0)})
			f.record("p", letterWith(func(l *types.DeadLetter) { l.MatchID, l.Attempts = types.MatchID(id), uint64(i) }))
		}
		for i, id := range ids {
			f.wantResource("k", id, 1, fmt.Sprint(i))
			f.wantCheckpoint(types.PipelineID(id), types.Checkpoint{Cursor: at(uint64(i), 0)})
			require.Equal(f, uint64(i), f.stored("p", types.MatchID(id)).Letter.Attempts)
		}
		require.Equal(f, ids, f.listAll("k", 0))
		checkpoints, err := f.s.ListCheckpoints(f.ctx)
		require.NoError(f, err)
		for i, c := range checkpoints {
			require.Equal(f, ids[i], string(c.Pipeline))
		}
	}},
	{name: "the id of a pause is ids joined by slashes, of at most 513 bytes", run: func(f *fix) {
		f.fill()
		before := f.dump()
		uses := []use[string]{
			{"storage.pause", "id", func(ctx context.Context, s ports.Storage, id string) error {
				return s.Pause(ctx, types.Pause{Target: "sink", ID: id})
			}},
			{"storage.resume", "id", func(ctx context.Context, s ports.Storage, id string) error {
				return s.Resume(ctx, types.Pause{Target: "sink", ID: id})
			}},
			{"storage.paused", "id", func(ctx context.Context, s ports.Storage, id string) error {
				_, err := s.Paused(ctx, types.Pause{Target: "sink", ID: id})
				return err
			}},
		}
		half := strings.Repeat("i", 256)
		for name, id := range named("", "/", "a/", "/a", "a//b", "a/-b", "-a/b", "a/b c", "a\\b", half+"i", half+"/"+half+"/a", "a/é") {
			for _, u := range uses {
				f.wantInvalid(u.call(f.ctx, f.s, id), u.op, "%s: %s", u.what, name)
			}
		}
		f.wantState(before, "refused pauses")
		for _, id := range []string{"a/b", half + "/" + half, "_/_", "a:b/c.d"} {
			f.wantPaused("sink", id, false)
			f.pause("sink", id)
			f.wantPaused("sink", id, true)
		}
	}},
	{name: "a number above 2^63-1 is refused everywhere", run: func(f *fix) {
		refuseAll(f, integerUses(), map[string]uint64{"2^63": 1 << 63, "2^63+1": 1<<63 + 1, "2^64-1": math.MaxUint64})
	}},
	{name: "2^63-1 passes", run: func(f *fix) {
		for _, u := range integerUses() {
			if strings.Contains(u.what, "version") {
				continue
			}
			require.NoError(f, u.call(f.ctx, f.s, math.MaxInt64), "%s: %s", u.op, u.what)
		}
		err := f.s.DeleteResource(f.ctx, "k", "a", math.MaxInt64)
		require.ErrorIs(f, err, ports.ErrNotFound)
		_, err = f.s.PutResource(f.ctx, "k", "a", []byte("1"), math.MaxInt64-1)
		require.ErrorIs(f, err, ports.ErrNotFound)
		_, err = f.s.PutResource(f.ctx, "k", "a", []byte("1"), math.MaxInt64)
		f.wantInvalid(err, "storage.putResource", "an update has to be able to add 1")
	}},
	{name: "what is not JSON is refused everywhere", run: func(f *fix) {
		refuseAll(f, jsonUses(), named(
			"", " ", "{", "[1,]", "{}x", "1 2", "nul", "True", "'a'", "01", "+1", "1.", ".5", "NaN", "{a:1}", `{"a":1,}`, `{"a"}`,
			`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `[{"b":{"x":1,"y":2,"x":3}}]`,
			"\"\xff\"", "\"\xc3\"", "\xef\xbb\xbf1", `"\ud800"`, `"\udc00\ud800"`, `"\x41"`, "\"\x00\"", "\"a\nb\"", "\x00", "1\x00",
			strings.Repeat("[", ports.MaxJSONDepth+1)+strings.Repeat("]", ports.MaxJSONDepth+1)))
	}},
	{name: "JSON above 1 MiB is refused everywhere", run: func(f *fix) {
		refuseAll(f, jsonUses(), named(`"`+strings.Repeat("j", ports.MaxJSONBytes-1)+`"`, strings.Repeat(" ", ports.MaxJSONBytes)+"1"))
	}},
	{name: "JSON of 1 MiB, and of the greatest depth, passes everywhere", run: func(f *fix) {
		for _, text := range []string{
			`"` + strings.Repeat("j", ports.MaxJSONBytes-2) + `"`,
			strings.Repeat("[", ports.MaxJSONDepth) + strings.Repeat("]", ports.MaxJSONDepth),
		} {
			f.put("k", "a", text, 0)
			f.wantResource("k", "a", 1, text)
			f.record("p", withEmission(letter("a"), text))
			f.wantLetter(withEmission(letter("a"), text))
			h := types.GateHit{Monitor: "m", Event: []byte(text)}
			f.apply("p", types.Progress{HitsFrom: new(uint64(0)), Hits: []types.GateHit{h}})
			f.wantHits("p", "m", 0, h)
			require.NoError(f, f.s.DeleteResource(f.ctx, "k", "a", 1))
		}
	}},
	{name: "a bad letter is refused everywhere", run: func(f *fix) {
		match := aMatch("1")
		emission := types.Emission{Match: match}
		bad := map[string]types.DeadLetter{
			"a reason of 4097 bytes":       letterWith(func(l *types.DeadLetter) { l.Reason = strings.Repeat("r", 4097) }),
			"a reason of invalid UTF-8":    letterWith(func(l *types.DeadLetter) { l.Reason = "\xff" }),
			"a payload of no type":         letterWith(func(l *types.DeadLetter) { l.Payload = &types.SinkEvent{} }),
			"a payload of both types":      letterWith(func(l *types.DeadLetter) { l.Payload = &types.SinkEvent{Match: &match, Emission: &emission} }),
			"a match id of 257 bytes":      letterWith(func(l *types.DeadLetter) { l.Payload.Match.ID = types.MatchID(strings.Repeat("i", 257)) }),
			"a pipeline of invalid UTF-8":  letterWith(func(l *types.DeadLetter) { l.Payload.Match.Pipeline = "\xff" }),
			"a monitor of invalid UTF-8":   letterWith(func(l *types.DeadLetter) { l.Payload.Match.Monitor = "a\xc3" }),
			"an emission key of bad UTF-8": letterWith(func(l *types.DeadLetter) { *l = withEmission(*l, "1"); l.Payload.Emission.Key = "\xff" }),
			"an emission key above 1 MiB": letterWith(func(l *types.DeadLetter) {
				*l = withEmission(*l, "1")
				l.Payload.Emission.Key = strings.Repeat("k", 1<<20+1)
			}),
			"an emission without an event":  letterWith(func(l *types.DeadLetter) { l.Payload = &types.SinkEvent{Emission: &types.Emission{}} }),
			"a match without an event":      letterWith(func(l *types.DeadLetter) { l.Payload = &types.SinkEvent{Match: &types.Match{}} }),
			"a monitor of no characters":    letterWith(func(l *types.DeadLetter) { l.Monitor = "" }),
			"a sink of no characters":       letterWith(func(l *types.DeadLetter) { l.Sink = "" }),
			"a match id of no characters":   letterWith(func(l *types.DeadLetter) { l.MatchID = "" }),
			"the zero letter":               {},
			"a match id with a white space": letterWith(func(l *types.DeadLetter) { l.MatchID = "a b" }),
		}
		refuseAll(f, letterUses(), bad)
	}},
	{name: "a letter of the greatest sizes passes", run: func(f *fix) {
		want := letterWith(func(l *types.DeadLetter) {
			l.Reason = strings.Repeat("é", 2048)
			l.Attempts = math.MaxInt64
			l.Payload.Match.ID = types.MatchID(strings.Repeat("é", 128))
			l.Payload.Match.Pipeline, l.Payload.Match.Monitor = "", " of an older\npipeline / "
		})
		f.record("p", want)
		f.wantLetter(want)
	}},
	{name: "a bad checkpoint is refused", run: func(f *fix) {
		bad := map[string]types.Checkpoint{
			"a module of 257 bytes":     {Module: new(strings.Repeat("m", 257))},
			"a module of invalid UTF-8": {Module: new("\xff")},
			"the year 10000":            {UpdatedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
			"the year -1":               {UpdatedAt: time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC)},
		}
		refuseAll(f, []use[types.Checkpoint]{
			{"storage.saveCheckpoint", "checkpoint", func(ctx context.Context, s ports.Storage, c types.Checkpoint) error {
				return s.SaveCheckpoint(ctx, "p", c)
			}},
			applied("checkpoint", func(c types.Checkpoint) types.Progress {
				return types.Progress{Checkpoint: &c, Deliveries: []types.Delivery{delivery(1, 1, "fine")}}
			}),
		}, bad)
	}},
	{name: "an aux of 64 KiB passes and a longer one is refused", run: func(f *fix) {
		uses := []use[int]{
			{"storage.setGateMeta", "aux", func(ctx context.Context, s ports.Storage, size int) error {
				return s.SetGateMeta(ctx, "p", "m", types.GateMeta{Aux: make([]byte, size)})
			}},
			applied("aux", func(size int) types.Progress {
				return types.Progress{Checkpoint: new(aCheckpoint(1, 1)), Metas: []types.MonitorMeta{{Monitor: "n"}, {Monitor: "m", Meta: types.GateMeta{Aux: make([]byte, size)}}}}
			}),
		}
		refuseAll(f, uses, map[string]int{"64 KiB and 1": 64<<10 + 1, "1 MiB": 1 << 20})
		for _, u := range uses {
			require.NoError(f, u.call(f.ctx, f.s, 64<<10), "%s of 64 KiB", u.op)
			f.wantMeta("p", "m", types.GateMeta{Aux: make([]byte, 64<<10)})
		}
	}},
	{name: "a batch of 0 or 1001 resources is refused", run: func(f *fix) {
		resources := []types.Resource{}
		for i := range ports.MaxResourceBatch + 1 {
			resources = append(resources, types.Resource{Kind: "k", ID: numbered("r", i), Value: []byte("1")})
		}
		for _, batch := range [][]types.Resource{nil, {}, resources} {
			f.wantInvalid(f.s.PutResources(f.ctx, batch), "storage.putResources", "a batch of %d", len(batch))
		}
		require.Empty(f, f.dump())
		require.NoError(f, f.s.PutResources(f.ctx, resources[1:]))
		require.Len(f, f.listAll("k", 0), ports.MaxResourceBatch)
	}},
	{name: "a version in a batch is 0 or 1, and a deletion has one", run: func(f *fix) {
		for _, version := range []uint64{2, 3, math.MaxUint64} {
			err := f.s.PutResources(f.ctx, []types.Resource{{Kind: "k", ID: "a", Value: []byte("1")}, {Kind: "k", ID: "b", Version: version, Value: []byte("1")}})
			f.wantInvalid(err, "storage.putResources", "version %d", version)
		}
		require.Empty(f, f.dump())
		require.NoError(f, f.s.PutResources(f.ctx, []types.Resource{{Kind: "k", ID: "a", Version: 1, Value: []byte("1")}, {Kind: "k", ID: "b", Value: []byte("2")}}))
		f.wantResource("k", "a", 1, "1")
		f.wantResource("k", "b", 1, "2")
		f.wantInvalid(f.s.DeleteResource(f.ctx, "k", "a", 0), "storage.deleteResource", "version 0")
		f.wantInvalid(f.s.DeleteResource(f.ctx, "k", "missing", 0), "storage.deleteResource", "version 0")
		f.wantResource("k", "a", 1, "1")
	}},
	{name: "bounds of a page of resources", run: func(f *fix) {
		f.create("k", "a")
		for _, limit := range []int{-1, 1001, math.MinInt, math.MaxInt} {
			_, err := f.s.ListResources(f.ctx, "k", types.ResourceListOptions{Limit: limit})
			f.wantInvalid(err, "storage.listResources", "limit %d", limit)
		}
		for _, after := range []string{"-", "a b", "a/b", strings.Repeat("a", 257), "\xff"} {
			_, err := f.s.ListResources(f.ctx, "k", types.ResourceListOptions{After: after})
			f.wantInvalid(err, "storage.listResources", "after %q", after)
		}
		for _, limit := range []int{0, 1, 1000} {
			require.Equal(f, []string{"a"}, idsOf(f.list("k", "", limit)))
		}
	}},
	{name: "bounds of a page of letters", run: func(f *fix) {
		f.recordIDs("p", "a")
		for _, q := range []types.LetterQuery{
			{After: -1, Take: 1}, {Skip: -1, Take: 1}, {Take: -1}, {Take: 1001}, {Take: math.MaxInt}, {Take: math.MinInt},
			{After: math.MinInt64, Take: 1}, {Skip: math.MinInt, Take: 1},
		} {
			_, err := f.s.ListDeadLetters(f.ctx, "p", q)
			f.wantInvalid(err, "storage.listDeadLetters", "%+v", q)
		}
		for _, q := range []types.LetterQuery{{}, {Take: 1000}, {After: math.MaxInt64, Skip: math.MaxInt, Take: 1000}, {Skip: math.MaxInt, Take: 1}} {
			f.page("p", q)
		}
	}},
	{name: "10,001 entries in one list are refused, 10,000 pass", run: func(f *fix) {
		deliveries := items(func(i int) types.Delivery { return delivery(1, uint64(i), types.MatchID(numbered("d", i))) })
		hits := items(func(i int) types.GateHit { return hit(1, 1, uint64(i), 1) })
		ids := items(func(i int) types.MatchID { return types.MatchID(numbered("d", i)) })
		letters := items(func(i int) types.DeadLetter { return letter(types.MatchID(numbered("d", i))) })
		metas := items(func(i int) types.MonitorMeta { return types.MonitorMeta{Monitor: types.MonitorID(numbered("m", i))} })
		floors := items(func(i int) types.MonitorFloor { return types.MonitorFloor{Monitor: types.MonitorID(numbered("m", i))} })
		f.fill()
		before := f.dump()
		f.wantInvalid(f.s.RecordDeliveries(f.ctx, "p", deliveries), "storage.recordDeliveries", "10,001")
		f.wantInvalid(f.s.AppendHits(f.ctx, "p", hits), "storage.appendHits", "10,001")
		_, err := f.s.DeleteDeadLetters(f.ctx, "p", ids)
		f.wantInvalid(err, "storage.deleteDeadLetters", "10,001")
		for name, progress := range map[string]types.Progress{
			"deliveries": {Deliveries: deliveries}, "settled": {Settled: ids}, "letters": {DeadLetters: letters},
			"hits": {Hits: hits}, "floors": {HitsBeforeOf: floors}, "metas": {Metas: metas},
		} {
			progress.Checkpoint = new(aCheckpoint(1, 1))
			f.wantInvalid(f.s.Apply(f.ctx, "p", progress), "storage.apply", "%s", name)
		}
		f.wantState(before, "refused lists")

		// One key in all entries: what is tested is the number.
		most := ports.MaxProgressItems
		for i := range most {
			deliveries[i], hits[i], ids[i], letters[i], metas[i] = deliveries[0], hits[0], ids[0], letters[0], metas[0]
		}
		f.apply("q", types.Progress{Deliveries: deliveries[:most], DeadLetters: letters[:most], Hits: hits[:most], HitsBeforeOf: floors[:most], Metas: metas[:most]})
		f.wantLetters("q", "b", "c", "a", "d00000")
		n, err := f.s.DeleteDeadLetters(f.ctx, "q", ids[:most])
		require.NoError(f, err)
		require.Equal(f, int64(1), n, "a letter that is named many times counts once")
		f.apply("q", types.Progress{Settled: ids[:most]})
		f.wantLetters("q", "b", "c", "a")
		require.NoError(f, f.s.RecordDeliveries(f.ctx, "q", deliveries[:most]))
		require.NoError(f, f.s.AppendHits(f.ctx, "q", hits[:most]))
	}},
	{name: "an error holds no payload", run: func(f *fix) {
		const secret = "canary-of-the-suite"
		for _, u := range jsonUses() {
			for _, text := range []string{`{"token":"` + secret + `"`, `{"` + secret + `":1,"` + secret + `":2}`, secret} {
				err := u.call(f.ctx, f.s, text)
				f.wantInvalid(err, u.op, "%s", u.what)
				require.NotContains(f, err.Error(), secret, "%s: %s", u.op, u.what)
			}
		}
		f.put("k", "a", `"`+secret+`"`, 0)
		_, err := f.s.PutResource(f.ctx, "k", "a", []byte(`"`+secret+`"`), 7)
		require.NotContains(f, err.Error(), secret)
		_, err = f.s.PutResource(f.ctx, "k", "a", []byte(`"`+secret+`"`), 0)
		require.NotContains(f, err.Error(), secret)
	}},
}
