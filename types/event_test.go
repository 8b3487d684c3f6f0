package types_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stowage-go/stowage/types"
)

func match() types.Match {
	return types.Match{
		ID: "m-1", Pipeline: "quakes", Monitor: "strong",
		Cursor: types.Cursor{Primary: 1<<63 - 1, Secondary: 9007199254740993},
		Index:  2, TS: -5,
		Event: json.RawMessage(`{"place":"<Etna> & é","mag":4.50}`),
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

func TestSinkEventsHaveATaggedForm(t *testing.T) {
	t.Parallel()
	m := match()
	const inner = `{"match_id":"m-1","pipeline":"quakes","monitor":"strong","cursor":{"primary":9223372036854775807,"secondary":9007199254740993},"event_index":2,"event_ts":-5,"event":{"place":"<Etna> & é","mag":4.50}}`
	for name, tc := range map[string]struct {
		event types.SinkEvent
		want  string
	}{
		"match":    {types.SinkEvent{Match: &m}, `{"type":"match","data":` + inner + `}`},
		"emission": {types.SinkEvent{Emission: &types.Emission{Match: m, Key: "it", Hits: 3, FirstTS: 1, LastTS: 2}}, `{"type":"emission","data":{"match":` + inner + `,"key":"it","hits":3,"first_ts":1,"last_ts":2}}`},
	} {
		got := encode(t, tc.event)
		if got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tc.want)
		}
		var back types.SinkEvent
		if err := json.Unmarshal([]byte(got), &back); err != nil {
			t.Fatal(name, err)
		}
		if !reflect.DeepEqual(back, tc.event) {
			t.Errorf("%s came back as %+v", name, back)
		}
		if back.Origin().ID != "m-1" {
			t.Errorf("%s is about %q", name, back.Origin().ID)
		}
	}
}

func TestSinkEventsCarryTheirTrace(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	m := match()
	for name, event := range map[string]types.SinkEvent{
		"match":    {Match: &m, Traceparent: trace},
		"emission": {Emission: &types.Emission{Match: m}, Traceparent: trace},
	} {
		text := encode(t, event)
		if want := `,"traceparent":"` + trace + `"}`; !strings.HasSuffix(text, want) {
			t.Errorf("%s: got %s, want %s at its end", name, text, want)
		}
		var back types.SinkEvent
		if err := json.Unmarshal([]byte(text), &back); err != nil {
			t.Fatal(name, err)
		}
		if !reflect.DeepEqual(back, event) {
			t.Errorf("%s came back as %+v", name, back)
		}
	}
	for text, want := range map[string]string{
		`{"traceparent":"t","type":"match","data":{"match_id":"m"}}`:              "t",
		`{"type":"match","data":{"match_id":"m"},"traceparent":null}`:             "",
		`{"type":"match","data":{"match_id":"m","traceparent":"inside"}}`:         "",
		`{"type":"match","data":{"match_id":"m"},"Traceparent":"another member"}`: "",
		`{"match_id":"m","traceparent":"of the event itself"}`:                    "",
		`{"match_id":"m","event":1,"traceparent":7}`:                              "",
	} {
		e := types.SinkEvent{Traceparent: "of before"}
		if err := json.Unmarshal([]byte(text), &e); err != nil || e.Traceparent != want || e.Match.ID != "m" {
			t.Errorf("%s: got the trace %q and the error %v, want %q", text, e.Traceparent, err, want)
		}
	}
	for _, text := range []string{
		`{"type":"match","data":{"match_id":"m"},"traceparent":7}`, `{"type":"match","data":{"match_id":"m"},"traceparent":{}}`,
		`{"type":"emission","data":{"match":{}},"traceparent":["t"]}`,
	} {
		var e types.SinkEvent
		if err := json.Unmarshal([]byte(text), &e); err == nil {
			t.Errorf("%s was read as %+v", text, e)
		}
	}
}

func TestTheIdentityOfAnEvent(t *testing.T) {
	t.Parallel()
	at := types.Event{Cursor: types.Cursor{Primary: 1<<63 - 1, Secondary: 7}, Index: 2, TS: 5, Data: []byte(`1`)}
	if got := at.Identity(); got != "9223372036854775807/7/2" {
		t.Errorf("an event without an id: got %q", got)
	}
	at.ID = "message-5"
	if got := at.Identity(); got != "message-5" {
		t.Errorf("an event with an id: got %q", got)
	}
}

// The ids are in journals and in the memory of receivers: they are the same in every version.
func TestMatchIDsNeverChange(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pipeline types.PipelineID
		monitor  types.MonitorID
		sink     types.SinkID
		event    string
		want     types.MatchID
	}{
		{"earthquakes", "strong", "alerts", "1742/0/0", "b20c48782d54f549943e92c202222902715fb5f6"},
		{"earthquakes", "strong", "alerts", "us7000abcd", "2c57d301218dd51eae7e40e5435211db513257aa"},
		{"", "", "", "", "66687aadf862bd776c8fc18b8e9f8e2008971485"},
	} {
		if got := types.NewMatchID(tc.pipeline, tc.monitor, tc.sink, tc.event); got != tc.want {
			t.Errorf("%+v: got %s", tc, got)
		}
	}
	// Names that run into each other are different names.
	seen := map[types.MatchID][4]string{}
	for _, names := range [][4]string{
		{"ab", "c", "d", "e"}, {"a", "bc", "d", "e"}, {"a", "b", "cd", "e"}, {"a", "b", "c", "de"}, {"", "abcd", "e", ""}, {"abcde", "", "", ""},
		{"", "", "", "abcde"}, {"a\x00", "b", "", ""}, {"a", "\x00b", "", ""},
	} {
		id := types.NewMatchID(types.PipelineID(names[0]), types.MonitorID(names[1]), types.SinkID(names[2]), names[3])
		if len(id) != 40 || strings.Trim(string(id), "0123456789abcdef") != "" {
			t.Errorf("%q: got %q, want 40 hexadecimal digits", names, id)
		}
		if other, taken := seen[id]; taken {
			t.Errorf("%q and %q have one id", names, other)
		}
		seen[id] = names
	}
}

func TestABareMatchIsRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want types.Match
	}{
		"with an event": {
			`{"match_id":"m","monitor":"strong","cursor":{"primary":7,"secondary":1},"event":{"mag":5},"network":"old"}`,
			types.Match{ID: "m", Monitor: "strong", Cursor: types.Cursor{Primary: 7, Secondary: 1}, Event: json.RawMessage(`{"mag":5}`)},
		},
		"without one, it is the event": {
			`{"match_id":"m","args":[1,2]}`,
			types.Match{ID: "m", Event: json.RawMessage(`{"match_id":"m","args":[1,2]}`)},
		},
		"other spellings are other names": {
			`{"Match_ID":"x","match_id":"m","EVENT":1,"event":2}`,
			types.Match{ID: "m", Event: json.RawMessage(`2`)},
		},
	} {
		var e types.SinkEvent
		if err := json.Unmarshal([]byte(tc.text), &e); err != nil {
			t.Fatal(name, err)
		}
		if e.Match == nil || e.Emission != nil || !reflect.DeepEqual(*e.Match, tc.want) {
			t.Errorf("%s: got %+v", name, e.Match)
		}
	}
}

func TestWhatIsNoSinkEventIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`[]`, `"m"`, `1`, `{"type":"other","data":{}}`, `{"type":1,"data":{}}`, `{"type":"match"}`,
		`{"type":"match","data":null}`, `{"type":"match","data":{"match_id":1}}`, `{"type":"match","data":{"cursor":7}}`,
		`{"type":"match","data":{"cursor":{"primary":-1}}}`, `{"type":"emission","data":{}}`,
		`{"type":"emission","data":{"match":{},"hits":"three"}}`, `{"match_id":{}}`,
	} {
		var e types.SinkEvent
		if err := json.Unmarshal([]byte(text), &e); err == nil {
			t.Errorf("%s was read as %+v", text, e)
		}
	}
	m := match()
	for _, e := range []types.SinkEvent{{}, {Match: &m, Emission: &types.Emission{}}} {
		if text, err := json.Marshal(e); err == nil {
			t.Errorf("%+v was written as %s", e, text)
		}
	}
}

func TestCursorsAreOrderedByPrimaryThenSecondary(t *testing.T) {
	t.Parallel()
	ordered := []types.Cursor{{}, {Secondary: 1}, {Secondary: 1<<64 - 1}, {Primary: 1}, {Primary: 1, Secondary: 1}, {Primary: 1 << 63}}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := a.Compare(b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v compared with %v: %d", a, b, got)
			}
		}
	}
	if got := ordered[4].String(); got != "1/1" {
		t.Errorf("a cursor prints as %s", got)
	}
}

func TestClonesShareNoMemory(t *testing.T) {
	t.Parallel()
	module, ts := "ndjson", int64(7)
	m := match()
	letter := types.DeadLetter{MatchID: "m", Payload: &types.SinkEvent{Match: &m}}
	emission := types.DeadLetter{MatchID: "m", Payload: &types.SinkEvent{Emission: &types.Emission{Match: match()}}}
	checkpoint := types.Checkpoint{Module: &module}
	meta := types.GateMeta{LastEmitTS: &ts, Aux: []byte("aux")}

	letterCopy, emissionCopy, checkpointCopy, metaCopy := letter.Clone(), emission.Clone(), checkpoint.Clone(), meta.Clone()
	m.Event[0], m.ID = 'X', "changed"
	emission.Payload.Emission.Match.Event[0] = 'X'
	module, ts, meta.Aux[0] = "changed", 8, 'X'
	if got := *letterCopy.Payload.Match; !reflect.DeepEqual(got, match()) {
		t.Errorf("the letter's match is %+v", got)
	}
	if got := emissionCopy.Payload.Emission.Match; !reflect.DeepEqual(got, match()) {
		t.Errorf("the emission's match is %+v", got)
	}
	if *checkpointCopy.Module != "ndjson" || *metaCopy.LastEmitTS != 7 || string(metaCopy.Aux) != "aux" {
		t.Errorf("got module %q, time %d, aux %q", *checkpointCopy.Module, *metaCopy.LastEmitTS, metaCopy.Aux)
	}
	if got := (types.GateMeta{}).Clone().Aux; got != nil {
		t.Errorf("a nil aux became %v", got)
	}
	if got := (types.GateMeta{Aux: []byte{}}).Clone().Aux; got == nil {
		t.Error("an empty aux became nil")
	}
}

func TestPausesOfPartsBearTheirPipeline(t *testing.T) {
	t.Parallel()
	for want, got := range map[types.Pause]types.Pause{
		{Target: "pipeline", ID: "quakes"}:       types.PipelineOf("quakes"),
		{Target: "monitor", ID: "quakes/strong"}: types.MonitorOf("quakes", "strong"),
		{Target: "sink", ID: "quakes/alerts"}:    types.SinkOf("quakes", "alerts"),
	} {
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestLettersAreReadByExactNames(t *testing.T) {
	t.Parallel()
	const text = ` { "Match_ID" : "x" , "match_id":"m\u002d1","match_id":"second", "monitor":null,
		"sink":"a","cursor":{"secondary":2,"primary":9223372036854775808,"x":[{"primary":1}]},
		"attempts":3,"more":{"a":["}",{"b":"\\\""}]},"reason":"said \"no\"","payload":null}`
	var got types.DeadLetter
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := types.DeadLetter{MatchID: "m-1", Sink: "a", Cursor: types.Cursor{Primary: 1 << 63, Secondary: 2}, Attempts: 3, Reason: `said "no"`}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{
		`[]`, `"m"`, `{"match_id":1}`, `{"cursor":[1,2]}`, `{"cursor":{"primary":1.5}}`, `{"cursor":{"primary":-1}}`,
		`{"attempts":"3"}`, `{"attempts":1e3}`, `{"reason":{}}`, `{"payload":[]}`, `{"payload":{"type":"odd"}}`,
	} {
		var l types.DeadLetter
		if err := json.Unmarshal([]byte(bad), &l); err == nil {
			t.Errorf("%s was read as %+v", bad, l)
		}
	}
	var broken types.DeadLetter
	if err := json.Unmarshal([]byte(`{"attempts":"x","match_id":"m"}`), &broken); err == nil || broken.MatchID != "m" {
		t.Errorf("of a broken letter the match id is %q, with the error %v", broken.MatchID, err)
	}
}

// FuzzLetters holds the decoder to encoding/json for what both read alike: texts without other
// spellings of the names and without names that come twice, which a round trip takes away.
func FuzzLetters(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"match_id":"m","payload":{"type":"match","data":{"event":{"a":[1,"}"]}}}}`, `{"match_id":"\`, `{"a":[}`, `{"a"`,
		`{"match_id":"é\u00e9\ud83d\ude00","cursor":{"primary":1,"secondary":2},"attempts":7}`, ` {"reason" : "x" } `, `{"a":"b"`, `{:`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var letter types.DeadLetter
		direct := letter.UnmarshalJSON(text) // whatever it is, it does not panic
		if !json.Valid(text) || direct != nil {
			return
		}
		again, err := json.Marshal(letter)
		if err != nil {
			t.Fatalf("%s was read as what cannot be written: %v", text, err)
		}
		var plain struct {
			MatchID string `json:"match_id"`
			Reason  string `json:"reason"`
			Cursor  types.Cursor
			Payload json.RawMessage `json:"payload"`
		}
		if err := json.Unmarshal(again, &plain); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if plain.MatchID != string(letter.MatchID) || plain.Reason != letter.Reason || plain.Cursor != letter.Cursor {
			t.Errorf("%s: got %+v and %+v", text, letter, plain)
		}
		var back types.DeadLetter
		if err := json.Unmarshal(again, &back); err != nil || back.MatchID != letter.MatchID {
			t.Errorf("%s: written as %s, read as %+v with %v", text, again, back, err)
		}
	})
}

func BenchmarkLetter(b *testing.B) {
	text := []byte(`{"match_id":"match-000001","monitor":"strong","sink":"alerts","cursor":{"primary":1,"secondary":0},"attempts":3,"reason":"status 503","payload":{"type":"match","data":{"match_id":"match-000001","pipeline":"quakes","monitor":"strong","cursor":{"primary":1,"secondary":0},"event_index":0,"event_ts":1767323045000,"event":{"mag":4.5,"place":"10 km W of Somewhere","time":1767323045000,"depth":10.2}}}}`)
	for b.Loop() {
		var l types.DeadLetter
		if err := l.UnmarshalJSON(text); err != nil {
			b.Fatal(err)
		}
	}
}
