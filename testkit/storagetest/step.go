package storagetest

import (
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// at is a cursor.
func at(primary, secondary uint64) types.Cursor {
	return types.Cursor{Primary: primary, Secondary: secondary}
}

// letter is a small dead letter without payload.
func letter(id types.MatchID) types.DeadLetter {
	return types.DeadLetter{MatchID: id, Monitor: "m", Sink: "s", Cursor: at(7, 1), Attempts: 3, Reason: "503 from the receiver"}
}

// aMatch is a match whose event is as text says.
func aMatch(event string) types.Match {
	return types.Match{ID: "x", Pipeline: "p", Monitor: "m", Cursor: at(7, 1), Index: 2, TS: -5, Event: []byte(event)}
}

func withMatch(l types.DeadLetter, event string) types.DeadLetter {
	l.Payload = &types.SinkEvent{Match: new(aMatch(event))}
	return l
}

func withEmission(l types.DeadLetter, event string) types.DeadLetter {
	l.Payload = &types.SinkEvent{Emission: &types.Emission{Match: aMatch(event), Key: "région/7", Hits: 3, FirstTS: -9, LastTS: math.MaxInt64}}
	return l
}

func hit(primary, secondary, index uint64, ts int64) types.GateHit {
	return types.GateHit{Monitor: "m", Cursor: at(primary, secondary), Index: index, TS: ts, Event: []byte(`{"mag":4.5}`)}
}

func delivery(primary, secondary uint64, id types.MatchID) types.Delivery {
	return types.Delivery{Cursor: at(primary, secondary), MatchID: id}
}

func aCheckpoint(primary, secondary uint64) types.Checkpoint {
	return types.Checkpoint{
		Cursor:    at(primary, secondary),
		Module:    new("ndjson"),
		UpdatedAt: time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC),
	}
}

func (f *fix) put(kind types.ResourceKind, id, value string, expected uint64) uint64 {
	f.Helper()
	version, err := f.s.PutResource(f.ctx, kind, id, []byte(value), expected)
	require.NoError(f, err, "put of %s/%s", kind, id)
	require.Equal(f, expected+1, version, "put of %s/%s: the new version", kind, id)
	return version
}

// create creates resources of the value 1, with few calls.
func (f *fix) create(kind types.ResourceKind, ids ...string) {
	f.Helper()
	for len(ids) > 0 {
		n := min(len(ids), ports.MaxResourceBatch)
		batch := make([]types.Resource, n)
		for i, id := range ids[:n] {
			batch[i] = types.Resource{Kind: kind, ID: id, Value: []byte("1")}
		}
		require.NoError(f, f.s.PutResources(f.ctx, batch), "creating %d resources of the kind %s", n, kind)
		ids = ids[n:]
	}
}

func (f *fix) wantResource(kind types.ResourceKind, id string, version uint64, value string) {
	f.Helper()
	r, found, err := f.s.GetResource(f.ctx, kind, id)
	require.NoError(f, err, "get of %s/%s", kind, id)
	require.True(f, found, "get of %s/%s: want a record, found none", kind, id)
	require.Equal(f, types.Resource{Kind: kind, ID: id, Version: version, Value: []byte(value)}, r)
}

func (f *fix) wantNoResource(kind types.ResourceKind, id string) {
	f.Helper()
	r, found, err := f.s.GetResource(f.ctx, kind, id)
	require.NoError(f, err, "get of %s/%s", kind, id)
	require.False(f, found, "get of %s/%s: want none", kind, id)
	require.Equal(f, types.Resource{}, r, "get of an absent record: want the zero value")
}

func (f *fix) list(kind types.ResourceKind, after string, limit int) types.ResourcePage {
	f.Helper()
	page, err := f.s.ListResources(f.ctx, kind, types.ResourceListOptions{After: after, Limit: limit})
	require.NoError(f, err, "list of %s", kind)
	return page
}

func idsOf(page types.ResourcePage) []string {
	ids := make([]string, 0, len(page.Resources))
	for _, r := range page.Resources {
		ids = append(ids, r.ID)
	}
	return ids
}

// listAll follows the pages to the end, and fails when they do not end.
func (f *fix) listAll(kind types.ResourceKind, limit int) []string {
	f.Helper()
	var all []string
	after := ""
	for pages := 0; ; pages++ {
		require.Less(f, pages, 5_000, "list of %s: the pages do not end", kind)
		page := f.list(kind, after, limit)
		all = append(all, idsOf(page)...)
		if page.Next == "" {
			return all
		}
		after = page.Next
	}
}

func (f *fix) save(pipeline types.PipelineID, c types.Checkpoint) {
	f.Helper()
	require.NoError(f, f.s.SaveCheckpoint(f.ctx, pipeline, c), "save of the checkpoint of %s", pipeline)
}

// wantCheckpoint asserts the checkpoint in every field, the form of its time included.
func (f *fix) wantCheckpoint(pipeline types.PipelineID, want types.Checkpoint) {
	f.Helper()
	got, found, err := f.s.LoadCheckpoint(f.ctx, pipeline)
	require.NoError(f, err, "load of the checkpoint of %s", pipeline)
	require.True(f, found, "load of the checkpoint of %s: want one", pipeline)
	require.Equal(f, want, got)
}

func (f *fix) wantNoCheckpoint(pipeline types.PipelineID) {
	f.Helper()
	got, found, err := f.s.LoadCheckpoint(f.ctx, pipeline)
	require.NoError(f, err, "load of the checkpoint of %s", pipeline)
	require.False(f, found, "load of the checkpoint of %s: want none", pipeline)
	require.Equal(f, types.Checkpoint{}, got)
}

func (f *fix) record(pipeline types.PipelineID, letters ...types.DeadLetter) {
	f.Helper()
	for _, l := range letters {
		require.NoError(f, f.s.RecordDeadLetter(f.ctx, pipeline, l), "record of the letter %s", l.MatchID)
	}
}

// recordIDs records small letters in turn.
func (f *fix) recordIDs(pipeline types.PipelineID, ids ...types.MatchID) {
	f.Helper()
	for _, id := range ids {
		f.record(pipeline, letter(id))
	}
}

func (f *fix) page(pipeline types.PipelineID, q types.LetterQuery) []types.StoredLetter {
	f.Helper()
	letters, err := f.s.ListDeadLetters(f.ctx, pipeline, q)
	require.NoError(f, err, "list of the letters of %s with %+v", pipeline, q)
	require.LessOrEqual(f, len(letters), q.Take, "list of letters with %+v", q)
	for i, l := range letters {
		require.NoError(f, l.Err, "the letter at %d of the page", i)
		require.Positive(f, l.Position)
		if i > 0 {
			require.Greater(f, l.Position, letters[i-1].Position, "positions grow in the order of arrival")
		}
	}
	return letters
}

func (f *fix) letters(pipeline types.PipelineID) []types.StoredLetter {
	f.Helper()
	return f.page(pipeline, types.LetterQuery{Take: ports.MaxPageLimit})
}

func matchIDs(letters []types.StoredLetter) []types.MatchID {
	ids := make([]types.MatchID, 0, len(letters))
	for _, l := range letters {
		ids = append(ids, l.Letter.MatchID)
	}
	return ids
}

// wantLetters asserts which letters a pipeline has, in their order.
func (f *fix) wantLetters(pipeline types.PipelineID, ids ...types.MatchID) {
	f.Helper()
	if ids == nil {
		ids = []types.MatchID{}
	}
	require.Equal(f, ids, matchIDs(f.letters(pipeline)), "letters of %s", pipeline)
	counts, err := f.s.CountDeadLetters(f.ctx)
	require.NoError(f, err)
	for _, c := range counts {
		if c.Pipeline == pipeline {
			require.Equal(f, int64(len(ids)), c.Count, "count of the letters of %s", pipeline)
			return
		}
	}
	require.Empty(f, ids, "the pipeline %s is not among the counts", pipeline)
}

func (f *fix) stored(pipeline types.PipelineID, id types.MatchID) types.StoredLetter {
	f.Helper()
	l, found, err := f.s.GetDeadLetter(f.ctx, pipeline, id)
	require.NoError(f, err, "get of the letter %s", id)
	require.True(f, found, "get of the letter %s of %s: want one", id, pipeline)
	require.NoError(f, l.Err)
	require.Positive(f, l.Position)
	return l
}

// wantLetter asserts the content of a letter of p, as get and list give it.
func (f *fix) wantLetter(want types.DeadLetter) {
	f.Helper()
	got := f.stored("p", want.MatchID)
	require.Equal(f, want, got.Letter)
	require.Equal(f, []types.StoredLetter{got}, f.page("p", types.LetterQuery{After: got.Position - 1, Take: 1}))
}

func (f *fix) wantNoLetter(pipeline types.PipelineID, id types.MatchID) {
	f.Helper()
	l, found, err := f.s.GetDeadLetter(f.ctx, pipeline, id)
	require.NoError(f, err, "get of the letter %s", id)
	require.False(f, found, "get of the letter %s: want none", id)
	require.Equal(f, types.StoredLetter{}, l)
}

func (f *fix) deleteLetter(pipeline types.PipelineID, id types.MatchID, want bool) {
	f.Helper()
	found, err := f.s.DeleteDeadLetter(f.ctx, pipeline, id)
	require.NoError(f, err, "deletion of the letter %s", id)
	require.Equal(f, want, found, "deletion of the letter %s: whether there was one", id)
}

func (f *fix) deliver(pipeline types.PipelineID, deliveries ...types.Delivery) {
	f.Helper()
	require.NoError(f, f.s.RecordDeliveries(f.ctx, pipeline, deliveries), "record of deliveries")
}

func (f *fix) window(pipeline types.PipelineID, from, to types.Cursor) []types.Delivery {
	f.Helper()
	deliveries, err := f.s.Delivered(f.ctx, pipeline, from, to)
	require.NoError(f, err, "deliveries from %v to %v", from, to)
	return deliveries
}

// wantDelivered asserts the whole journal of a pipeline.
func (f *fix) wantDelivered(pipeline types.PipelineID, want ...types.Delivery) {
	f.Helper()
	got := f.window(pipeline, types.Cursor{}, last)
	if len(want) == 0 {
		require.Empty(f, got, "the journal of %s", pipeline)
		return
	}
	require.Equal(f, want, got, "the journal of %s", pipeline)
}

func (f *fix) hit(pipeline types.PipelineID, hits ...types.GateHit) {
	f.Helper()
	require.NoError(f, f.s.AppendHits(f.ctx, pipeline, hits), "append of hits")
}

// wantHits asserts the hits of a monitor whose TS is at or after since.
func (f *fix) wantHits(pipeline types.PipelineID, monitor types.MonitorID, since int64, want ...types.GateHit) {
	f.Helper()
	got, err := f.s.Hits(f.ctx, pipeline, monitor, since)
	require.NoError(f, err, "hits of %s/%s since %d", pipeline, monitor, since)
	if len(want) == 0 {
		require.Empty(f, got, "hits of %s/%s since %d", pipeline, monitor, since)
		return
	}
	require.Equal(f, want, got, "hits of %s/%s since %d", pipeline, monitor, since)
}

func (f *fix) setMeta(pipeline types.PipelineID, monitor types.MonitorID, meta types.GateMeta) {
	f.Helper()
	require.NoError(f, f.s.SetGateMeta(f.ctx, pipeline, monitor, meta), "set of the meta of %s/%s", pipeline, monitor)
}

func (f *fix) wantMeta(pipeline types.PipelineID, monitor types.MonitorID, want types.GateMeta) {
	f.Helper()
	got, found, err := f.s.GateMeta(f.ctx, pipeline, monitor)
	require.NoError(f, err, "meta of %s/%s", pipeline, monitor)
	require.True(f, found, "meta of %s/%s: want one", pipeline, monitor)
	// Not require.Equal of the Aux alone, which takes nil for empty.
	require.Equal(f, want, got, "meta of %s/%s", pipeline, monitor)
}

func (f *fix) wantNoMeta(pipeline types.PipelineID, monitor types.MonitorID) {
	f.Helper()
	got, found, err := f.s.GateMeta(f.ctx, pipeline, monitor)
	require.NoError(f, err, "meta of %s/%s", pipeline, monitor)
	require.False(f, found, "meta of %s/%s: want none", pipeline, monitor)
	require.Equal(f, types.GateMeta{}, got)
}

func (f *fix) pause(target types.PauseTarget, id string) {
	f.Helper()
	require.NoError(f, f.s.Pause(f.ctx, types.Pause{Target: target, ID: id}), "pause of %s %s", target, id)
}

func (f *fix) wantPaused(target types.PauseTarget, id string, want bool) {
	f.Helper()
	got, err := f.s.Paused(f.ctx, types.Pause{Target: target, ID: id})
	require.NoError(f, err, "whether %s %s is paused", target, id)
	require.Equal(f, want, got, "whether %s %s is paused", target, id)
}

func (f *fix) apply(pipeline types.PipelineID, progress types.Progress) {
	f.Helper()
	require.NoError(f, f.s.Apply(f.ctx, pipeline, progress), "apply on %s", pipeline)
}

// fill stores a little of every category, in two pipelines.
func (f *fix) fill() {
	f.Helper()
	f.put("pipeline", "p", ` {"a": [1, 2]} `, 0)
	f.put("pipeline", "p", "\t{\"n\": 9007199254740993}\n", 1)
	f.put("pipeline", "q", `null`, 0)
	f.put("sink", "p", `"\u00e9<&>"`, 0)
	for i, p := range []types.PipelineID{"p", "q"} {
		f.save(p, aCheckpoint(uint64(100+i), 3))
		f.record(p, withMatch(letter("b"), `{ "v": 1.50 }`), letter("c"), withEmission(letter("a"), `[ ]`))
		f.deliver(p, delivery(100, 2, "d1"), delivery(100, 3, "d2"), delivery(99, 0, "d3"))
		f.hit(p, hit(100, 1, 0, -7), hit(99, 2, 1, 8))
		f.setMeta(p, "m", types.GateMeta{LastEmitTS: new(int64(0)), Aux: []byte("\x00aux\xff")})
		f.setMeta(p, "n", types.GateMeta{Aux: []byte{}})
	}
	f.pause(types.PausePipeline, "q")
	f.pause(types.PauseSink, "p/s")
}
