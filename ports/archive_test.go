package ports_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// records is an archiver over a list.
type records []types.Record

func (r records) Export(_ context.Context, yield func(types.Record) error) error {
	for _, record := range r {
		if err := yield(record); err != nil {
			return err
		}
	}
	return nil
}

func (records) Import(context.Context, iter.Seq2[types.Record, error]) (int64, error) {
	return 0, errors.New("not asked for here")
}

// everyCategory has the values that an encoding is likely to spoil.
func everyCategory() records {
	module, ts := "ndjson", int64(-1)
	cursor := types.Cursor{Primary: 1<<63 - 1, Secondary: 9007199254740993}
	event := json.RawMessage(`{"z":1.50,"a":"<é& >"}`)
	match := types.Match{ID: "m-1", Pipeline: "quakes", Monitor: "strong", Cursor: cursor, Index: 3, TS: 5, Event: event}
	letter := types.DeadLetter{MatchID: "m-1", Monitor: "strong", Sink: "alerts", Cursor: cursor, Attempts: 3, Reason: "said <no>\n", Payload: &types.SinkEvent{Match: &match}}
	bare := letter
	bare.MatchID, bare.Payload = "m-2", nil
	return records{
		{Resource: &types.Resource{Kind: "pipeline", ID: "quakes", Version: 7, Value: json.RawMessage("\t{\"a\" : 1.0,\n\"b\":\"\\u00e9<\"} ")}},
		{Pipeline: "quakes", Checkpoint: &types.Checkpoint{Cursor: cursor, Module: &module, UpdatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}},
		{Pipeline: "other", Checkpoint: &types.Checkpoint{}},
		{Pipeline: "quakes", DeadLetter: &letter},
		{Pipeline: "quakes", DeadLetter: &bare},
		{Pause: &types.Pause{Target: "sink", ID: "quakes/alerts"}},
		{Pipeline: "quakes", Delivery: &types.Delivery{Cursor: cursor, MatchID: "m-1"}},
		{Pipeline: "quakes", GateHit: &types.GateHit{Monitor: "strong", Cursor: cursor, Index: 1, TS: -5, Event: event}},
		{Pipeline: "quakes", GateMeta: &types.MonitorMeta{Monitor: "a", Meta: types.GateMeta{LastEmitTS: &ts, Aux: []byte{0, 255}}}},
		{Pipeline: "quakes", GateMeta: &types.MonitorMeta{Monitor: "b", Meta: types.GateMeta{Aux: []byte{}}}},
		{Pipeline: "quakes", GateMeta: &types.MonitorMeta{Monitor: "c"}},
	}
}

func archive(t *testing.T, r records) string {
	t.Helper()
	var b bytes.Buffer
	n, err := ports.WriteArchive(t.Context(), &b, r)
	require.NoError(t, err)
	require.EqualValues(t, len(r), n)
	return b.String()
}

func readArchive(text string) (records, error) {
	var got records
	for record, err := range ports.ReadArchive(strings.NewReader(text)) {
		if err != nil {
			return got, err
		}
		got = append(got, record)
	}
	return got, nil
}

func TestAnArchiveHoldsEveryCategoryAsItWas(t *testing.T) {
	t.Parallel()
	text := archive(t, everyCategory())
	got, err := readArchive(text)
	require.NoError(t, err)
	assert.Equal(t, everyCategory(), got)
	assert.Equal(t, text, archive(t, got), "written again it is the same")

	lines := strings.Split(text, "\n")
	assert.Equal(t, `{"format":"stowage-storage.v1"}`, lines[0])
	assert.Equal(t, `{"resource":{"kind":"pipeline","id":"quakes","version":7,"value":"\t{\"a\" : 1.0,\n\"b\":\"\\u00e9<\"} "}}`, lines[1])
	assert.Equal(t, `{"end":{"records":11}}`, lines[len(lines)-2])

	empty, err := readArchive(archive(t, nil))
	require.NoError(t, err)
	assert.Empty(t, empty)
}

func TestAnArchiveThatWasCutOffIsNoticed(t *testing.T) {
	t.Parallel()
	text := strings.TrimSuffix(archive(t, everyCategory()), "\n")
	for i := range len(text) {
		_, err := readArchive(text[:i])
		require.ErrorIs(t, err, ports.ErrInvalidInput, "cut at %d", i)
	}
	lines := strings.SplitAfter(text, "\n")
	for i := 1; i < len(lines)-1; i++ {
		without := strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "")
		_, err := readArchive(without)
		require.ErrorIs(t, err, ports.ErrInvalidInput, "without line %d", i+1)
		require.ErrorContains(t, err, "it was changed")
	}
}

func TestABadLineIsNamed(t *testing.T) {
	t.Parallel()
	const head = `{"format":"stowage-storage.v1"}` + "\n"
	for _, tc := range []struct{ text, want string }{
		{"", "line 1 of the archive: there is nothing"},
		{"SQLite format 3", "line 1 of the archive"},
		{`{"format":"stowage-storage.v2"}`, `this build reads "stowage-storage.v1"`},
		{`{"pause":{"target":"sink","id":"a"}}`, `the format is ""`},
		{head + "\n", "line 2 of the archive"},
		{head + `{"pauses":{}}`, `line 2 of the archive: the member "pauses" is unknown`},
		{head + `{"pause":{"target":"sink","id":"a","id":"b"}}`, "twice"},
		{head + `{"pause":{"Target":"sink","id":"a"}}`, `"pause.Target" is unknown`},
		{head + `{"pause":{"target":"sink","id":"a b"}}`, "line 2 of the archive"},
		{head + `{"pause":{"target":"sink","id":"a"},"delivery":{"pipeline":"p","match_id":"m","cursor":{"primary":1,"secondary":0}}}`, "it has 2 records"},
		{head + `{}`, "it has 0 records"},
		{head + `{"resource":{"kind":"k","id":"i","version":0,"value":"1"}}`, "the version 0"},
		{head + `{"resource":{"kind":"k","id":"i","version":1,"value":"{"}}`, "not valid JSON"},
		{head + `{"delivery":{"pipeline":"p","match_id":"m","cursor":{"primary":9223372036854775808,"secondary":0}}}`, "its parts are at most"},
		{head + `{"checkpoint":{"pipeline":"p","checkpoint":{}}}`, `the member "checkpoint.checkpoint.cursor" is missing`},
		{head + `{"delivery":{"pipeline":"p","match_id":"m","cursor":{"primary":1}}}`, `the member "delivery.cursor.secondary" is missing`},
		{head + `{"gate_meta":{"pipeline":"p","monitor":"m","aux":null}}`, `the member "gate_meta.last_emit_ts" is missing`},
		{head + `{"end":{}}`, `the member "end.records" is missing`},
		{head + `{"end":{"records":1}}`, "was written with 1 records and has 0"},
		{head + `{"end":{"records":0}}` + "\n{}", "something follows"},
		{head + `{"end":{"records":0},"pause":{"target":"sink","id":"a"}}`, "the end is no record"},
	} {
		_, err := readArchive(tc.text)
		require.ErrorIs(t, err, ports.ErrInvalidInput, tc.text)
		require.ErrorContains(t, err, tc.want, tc.text)
	}
}

func TestAnArchiveThatCannotBeReadOrWrittenSaysSo(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for _, err := range ports.ReadArchive(iotest.ErrReader(broken)) {
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, ports.ErrBackendFailed)
	}
	_, err := ports.WriteArchive(t.Context(), writerFunc(func([]byte) (int, error) { return 0, broken }), everyCategory())
	require.ErrorIs(t, err, broken)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
