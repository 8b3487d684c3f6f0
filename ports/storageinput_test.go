package ports_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const tooBig = uint64(1) << 63

func goodLetter() types.DeadLetter {
	return types.DeadLetter{MatchID: "m", Monitor: "strong", Sink: "alerts", Payload: &types.SinkEvent{Match: &types.Match{Event: json.RawMessage(`{"mag": 5}`)}}}
}

func TestIDsOfAStorage(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "_", "9", "A-Z_a.z:0", strings.Repeat("x", 256), "ethereum_mainnet:0xabc"} {
		require.NoError(t, ports.CheckPipeline("op", types.PipelineID(good)), good)
	}
	for _, bad := range []string{"", ".", "..", "-a", ":a", "a b", "a/b", "a\x00", "é", "\xff", strings.Repeat("x", 257)} {
		require.ErrorIs(t, ports.CheckPipeline("op", types.PipelineID(bad)), ports.ErrInvalidInput, "%q", bad)
		require.ErrorIs(t, ports.CheckMatchID("op", types.MatchID(bad)), ports.ErrInvalidInput, "%q", bad)
	}
}

// TestWhatAStorageRefuses has one fault in each call; without it the call is good.
func TestWhatAStorageRefuses(t *testing.T) {
	t.Parallel()
	letter := func(change func(*types.DeadLetter)) error {
		l := goodLetter()
		change(&l)
		_, err := ports.CheckDeadLetter("op", "p", l)
		return err
	}
	checkpoint := func(c types.Checkpoint) error {
		_, err := ports.CheckCheckpoint("op", "p", c)
		return err
	}
	hit := func(change func(*types.GateHit)) error {
		h := types.GateHit{Monitor: "m", Event: json.RawMessage(`1`)}
		change(&h)
		_, err := ports.CheckHits("op", "p", []types.GateHit{h})
		return err
	}
	progress := func(p types.Progress) error {
		_, err := ports.CheckProgress("op", "p", p)
		return err
	}
	list := func(o types.ResourceListOptions) error {
		_, err := ports.CheckResourceList("op", "k", o)
		return err
	}
	long, primary := strings.Repeat("x", 5000), tooBig
	huge := []byte(`"` + strings.Repeat("x", ports.MaxJSONBytes) + `"`)
	for name, err := range map[string]error{
		"kind":                     ports.CheckResource("op", "", "i", []byte("1"), 0),
		"resource id":              ports.CheckResource("op", "k", "a/b", []byte("1"), 0),
		"version that cannot grow": ports.CheckResource("op", "k", "i", []byte("1"), 1<<63-1),
		"no value":                 ports.CheckResource("op", "k", "i", nil, 0),
		"two values":               ports.CheckResource("op", "k", "i", []byte("1 2"), 0),
		"duplicate members":        ports.CheckResource("op", "k", "i", []byte(`{"a":1,"a":2}`), 0),
		"invalid UTF-8":            ports.CheckResource("op", "k", "i", []byte("\"\xff\""), 0),
		"large value":              ports.CheckResource("op", "k", "i", huge, 0),
		"delete without version":   ports.CheckResourceDelete("op", "k", "i", 0),
		"delete of a version":      ports.CheckResourceDelete("op", "k", "i", tooBig),
		"empty batch":              ports.CheckResourceBatch("op", nil),
		"large batch":              ports.CheckResourceBatch("op", make([]types.Resource, 1001)),
		"batch with a version":     ports.CheckResourceBatch("op", []types.Resource{{Kind: "k", ID: "i", Version: 2, Value: []byte("1")}}),
		"limit below":              list(types.ResourceListOptions{Limit: -1}),
		"limit above":              list(types.ResourceListOptions{Limit: 1001}),
		"after":                    list(types.ResourceListOptions{After: "a b"}),
		"primary":                  checkpoint(types.Checkpoint{Cursor: types.Cursor{Primary: tooBig}}),
		"secondary":                checkpoint(types.Checkpoint{Cursor: types.Cursor{Secondary: tooBig}}),
		"module":                   checkpoint(types.Checkpoint{Module: &long}),
		"year":                     checkpoint(types.Checkpoint{UpdatedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}),
		"match id":                 letter(func(l *types.DeadLetter) { l.MatchID = "" }),
		"monitor":                  letter(func(l *types.DeadLetter) { l.Monitor = "" }),
		"sink":                     letter(func(l *types.DeadLetter) { l.Sink = "a b" }),
		"cursor of a letter":       letter(func(l *types.DeadLetter) { l.Cursor.Primary = tooBig }),
		"attempts":                 letter(func(l *types.DeadLetter) { l.Attempts = tooBig }),
		"long reason":              letter(func(l *types.DeadLetter) { l.Reason = long }),
		"broken reason":            letter(func(l *types.DeadLetter) { l.Reason = "\xff" }),
		"empty payload":            letter(func(l *types.DeadLetter) { l.Payload = &types.SinkEvent{} }),
		"both payloads":            letter(func(l *types.DeadLetter) { l.Payload.Emission = &types.Emission{} }),
		"no event":                 letter(func(l *types.DeadLetter) { l.Payload.Match.Event = nil }),
		"broken event":             letter(func(l *types.DeadLetter) { l.Payload.Match.Event = []byte("{") }),
		"cursor of a payload":      letter(func(l *types.DeadLetter) { l.Payload.Match.Cursor.Secondary = tooBig }),
		"key of an emission": letter(func(l *types.DeadLetter) {
			l.Payload = &types.SinkEvent{Emission: &types.Emission{Match: *l.Payload.Match, Key: "\xff"}}
		}),
		"negative position": ports.CheckLetterQuery("op", "p", types.LetterQuery{After: -1}),
		"negative skip":     ports.CheckLetterQuery("op", "p", types.LetterQuery{Skip: -1}),
		"negative take":     ports.CheckLetterQuery("op", "p", types.LetterQuery{Take: -1}),
		"large take":        ports.CheckLetterQuery("op", "p", types.LetterQuery{Take: 1001}),
		"many ids":          ports.CheckMatchIDs("op", "p", make([]types.MatchID, 10_001)),
		"one bad id":        ports.CheckMatchIDs("op", "p", []types.MatchID{"a", ""}),
		"pause target":      ports.CheckPause("op", types.Pause{Target: "", ID: "a"}),
		"pause id":          ports.CheckPause("op", types.Pause{Target: "sink", ID: "a//b"}),
		"long pause id":     ports.CheckPause("op", types.Pause{Target: "sink", ID: strings.Repeat("x/", 300) + "x"}),
		"delivery":          ports.CheckDeliveries("op", "p", []types.Delivery{{MatchID: "m", Cursor: types.Cursor{Primary: tooBig}}}),
		"window from":       ports.CheckDelivered("op", "p", types.Cursor{Primary: tooBig}, types.Cursor{}),
		"window to":         ports.CheckDelivered("op", "p", types.Cursor{}, types.Cursor{Secondary: tooBig}),
		"hit's monitor":     hit(func(h *types.GateHit) { h.Monitor = "" }),
		"hit's cursor":      hit(func(h *types.GateHit) { h.Cursor.Primary = tooBig }),
		"hit's index":       hit(func(h *types.GateHit) { h.Index = tooBig }),
		"hit's event":       hit(func(h *types.GateHit) { h.Event = []byte("nil") }),
		"aux": func() error {
			_, err := ports.CheckGateMeta("op", "p", "m", types.GateMeta{Aux: make([]byte, 65_537)})
			return err
		}(),
		"step's checkpoint": progress(types.Progress{Checkpoint: &types.Checkpoint{Cursor: types.Cursor{Primary: tooBig}}}),
		"step's deliveries": progress(types.Progress{Deliveries: []types.Delivery{{}}}),
		"step's settled":    progress(types.Progress{Settled: []types.MatchID{""}}),
		"step's letters":    progress(types.Progress{DeadLetters: []types.DeadLetter{{}}}),
		"step's hits":       progress(types.Progress{Hits: []types.GateHit{{}}}),
		"step's journal":    progress(types.Progress{JournalFrom: &primary}),
		"step's from":       progress(types.Progress{HitsFrom: &primary}),
		"step's before":     progress(types.Progress{HitsBefore: &primary}),
		"step's floor of":   progress(types.Progress{HitsBeforeOf: []types.MonitorFloor{{Monitor: "m"}, {}}}),
		"step's floor at":   progress(types.Progress{HitsBeforeOf: []types.MonitorFloor{{Monitor: "m"}, {Monitor: "m", Primary: tooBig}}}),
		"step's floors":     progress(types.Progress{HitsBeforeOf: make([]types.MonitorFloor, 10_001)}),
		"step's metas":      progress(types.Progress{Metas: []types.MonitorMeta{{}}}),
		"step's size":       progress(types.Progress{Deliveries: make([]types.Delivery, 10_001)}),
	} {
		require.ErrorIs(t, err, ports.ErrInvalidInput, name)
	}
	twice := ports.CheckResourceBatch("op", []types.Resource{{Kind: "k", ID: "i", Value: []byte("1")}, {Kind: "k", ID: "i", Value: []byte("2")}})
	require.ErrorIs(t, twice, ports.ErrAlreadyExists)
}

func TestWhatAStorageTakes(t *testing.T) {
	t.Parallel()
	require.NoError(t, ports.CheckResource("op", "k", "i", []byte(" {\"a\": 1e400} "), 1<<63-2))
	require.NoError(t, ports.CheckPause("op", types.SinkOf("quakes", "alerts")))
	limit, err := ports.CheckResourceList("op", "k", types.ResourceListOptions{})
	require.NoError(t, err)
	assert.Equal(t, 1000, limit)

	letter := goodLetter()
	stored, err := ports.CheckDeadLetter("op", "p", letter)
	require.NoError(t, err)
	assert.Equal(t, `{"mag":5}`, string(stored.Payload.Match.Event), "compact")
	letter.Payload.Match.Event[0] = 'X'
	assert.Equal(t, `{"mag":5}`, string(stored.Payload.Match.Event), "a copy")

	zone := time.FixedZone("east", 3600)
	stamp := time.Date(2026, 5, 6, 7, 8, 9, 10, zone)
	checkpoint, err := ports.CheckCheckpoint("op", "p", types.Checkpoint{UpdatedAt: stamp})
	require.NoError(t, err)
	assert.Equal(t, stamp.UTC(), checkpoint.UpdatedAt)

	floors := []types.MonitorFloor{{Monitor: "m", Primary: 1<<63 - 1}}
	step, err := ports.CheckProgress("op", "p", types.Progress{HitsBeforeOf: floors})
	require.NoError(t, err)
	floors[0] = types.MonitorFloor{}
	assert.Equal(t, []types.MonitorFloor{{Monitor: "m", Primary: 1<<63 - 1}}, step.HitsBeforeOf, "a copy")

	empty, err := ports.CheckProgress("op", "p", types.Progress{})
	require.NoError(t, err)
	assert.Zero(t, len(empty.DeadLetters)+len(empty.Hits)+len(empty.Metas))
}

func TestTheJournalKeepsItsDepth(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		highest uint64
		depth   int64
		want    uint64
	}{{0, 1, 0}, {10, 10, 0}, {11, 10, 1}, {1<<63 - 1, 1, 1<<63 - 2}, {5, 1<<63 - 1, 0}} {
		assert.Equal(t, tc.want, ports.JournalFloor(tc.highest, tc.depth), "%+v", tc)
	}
	depth, err := ports.CheckDepth("op", 0)
	require.NoError(t, err)
	assert.EqualValues(t, 10_000, depth)
	_, err = ports.CheckDepth("op", -1)
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
}

func TestStoredForms(t *testing.T) {
	t.Parallel()
	module := "ndjson"
	full := types.Checkpoint{Cursor: types.Cursor{Primary: 9007199254740993, Secondary: 2}, Module: &module, UpdatedAt: time.Date(2026, 1, 2, 3, 4, 5, 60, time.UTC)}
	for _, tc := range []struct {
		checkpoint types.Checkpoint
		want       string
	}{
		{full, `{"cursor":{"primary":9007199254740993,"secondary":2},"module":"ndjson","updated_at":"2026-01-02T03:04:05.00000006Z"}`},
		{types.Checkpoint{}, `{"cursor":{"primary":0,"secondary":0}}`},
	} {
		text, err := ports.EncodeCheckpoint(tc.checkpoint)
		require.NoError(t, err)
		assert.Equal(t, tc.want, text)
		back, err := ports.DecodeCheckpoint(text)
		require.NoError(t, err)
		assert.Equal(t, tc.checkpoint, back)
	}
	old, err := ports.DecodeCheckpoint(`{"cursor":{"primary":18446744073709551615,"secondary":1},"module":null,"updated_at":null,"later":true}`)
	require.NoError(t, err)
	assert.Equal(t, types.Checkpoint{Cursor: types.Cursor{Primary: 1<<64 - 1, Secondary: 1}}, old)
	for _, bad := range []string{``, `{}`, `[]`, `{"cursor":null}`, `{"Cursor":{"primary":1,"secondary":1}}`, `{"cursor":{"primary":"1"}}`, `{"cursor":{"primary":-1,"secondary":0}}`} {
		_, err := ports.DecodeCheckpoint(bad)
		require.Error(t, err, bad)
	}
}

func TestStoredLetters(t *testing.T) {
	t.Parallel()
	letter := goodLetter()
	letter.Payload = nil
	text, err := ports.EncodeDeadLetter(letter)
	require.NoError(t, err)
	assert.Equal(t, `{"match_id":"m","monitor":"strong","sink":"alerts","cursor":{"primary":0,"secondary":0},"attempts":0,"reason":""}`, text, "an absent payload is left out")
	back, err := ports.DecodeDeadLetter(text)
	require.NoError(t, err)
	assert.Equal(t, letter, back)

	legacy, err := ports.DecodeDeadLetter(strings.TrimSuffix(text, "}") + `,"payload":{"match_id":"m","event":{"mag":5}}}`)
	require.NoError(t, err)
	assert.Equal(t, &types.Match{ID: "m", Event: json.RawMessage(`{"mag":5}`)}, legacy.Payload.Match)

	for bad, id := range map[string]types.MatchID{
		`{`: "", `{}`: "", `[]`: "", `{"match_id":7}`: "", `{"match_id":"m","cursor":"x"}`: "m", `{"match_id":"m","payload":{"type":"odd","data":{}}}`: "m",
	} {
		broken, err := ports.DecodeDeadLetter(bad)
		require.Error(t, err, bad)
		assert.Equal(t, types.DeadLetter{MatchID: id}, broken, bad)
	}
}
