package monitor_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/monitor"
	"github.com/stowage-go/stowage/ports"
)

func TestNoObjectIsOnlyTheEvent(t *testing.T) {
	t.Parallel()
	for event, when := range map[string]string{
		`[1,2]`: `event[1] == 2 and mag == nil`, `5`: `event == 5 and mag == nil`, `"x"`: `event == "x"`, `null`: `event == nil`, `true`: `event`, `-1.5e3`: `event == -1500`, `{}`: `event != nil and mag == nil`,
		`[]`: `mag == nil`, `"mag"`: `mag == nil`,
	} {
		picked, err := match(t, when, event)
		require.NoError(t, err, event)
		assert.True(t, picked, event)
	}
}

func TestNamesAreFoundWhereverTheyStand(t *testing.T) {
	t.Parallel()
	const event = `{"x":{"a":1,"b":[{"a":2},"]}",{"c":"\\\""}]},"s\"\\":"}","\u0061":3,"b":[],"é":"\u00e9\ud83d\ude00\n","c":{},"":7,"event":{"event":9},"last":"z"}`
	for when, want := range map[string]bool{
		`a == 3`:                                true,
		`last == "z"`:                           true,
		`x.a == 1 and a == 3`:                   true,
		`len(b) == 0 and c != nil`:              true,
		`event["s\"\\"] == "}"`:                 true,
		`event[""] == 7`:                        true,
		`é == "é😀\n"`:                           true,
		`x.b[1] == "]}" and x.b[2].c == "\\\""`: true,
		`event.event.event == 9`:                true,
		`zip == nil`:                            true,
	} {
		picked, err := match(t, when, event)
		require.NoError(t, err, when)
		assert.Equal(t, want, picked, when)
	}
}

func TestSpacesAreNoMatter(t *testing.T) {
	t.Parallel()
	picked, err := match(t, `a == 1 and b[1] == 2 and c.d == "x"`, " {\t\"z\" : [ 1 , {} ] , \"a\" : 1 ,\r\n \"b\" : [ 1 , 2 ] , \"c\" : { \"d\" : \"x\" } } ")
	require.NoError(t, err)
	assert.True(t, picked)
}

func TestTheEventMayChangeAfterwards(t *testing.T) {
	t.Parallel()
	r := rule(t, `net == "us" and event.place startsWith "232km"`, nil)
	data := []byte(quake)
	env, err := monitor.NewReader(r).Read(data)
	require.NoError(t, err)
	clear(data)
	picked, err := r.Match(env)
	require.NoError(t, err)
	assert.True(t, picked)
}

func TestWhatIsNoJSONIsAnError(t *testing.T) {
	t.Parallel()
	all, some := value(t, "event"), value(t, "mag")
	for _, text := range []string{
		"", " ", "{", `{"mag"`, `{"mag":`, `{"mag":}`, `{"mag":1`, `{"mag" 1}`, `{"mag":"x`, `{"mag":"x\`, `{"mag":tru}`, `{"mag":nul}`, `{"mag":1.2.3}`, `{"mag":--1}`, `{"mag":"\x"}`, `{"mag":"\ud800`,
		`[`, `[1`, `[1,`, `[1 2]`, `{mag:1}`, `{"a":1,}`, `{,}`, `x`, `-`, strings.Repeat("[", 1<<20), `{"mag":` + strings.Repeat("[", 1<<19), strings.Repeat(`{"a":`, 1<<17),
	} {
		_, err := monitor.NewReader(all).Read([]byte(text))
		require.ErrorIs(t, err, ports.ErrInvalidInput, "%.40s", text)
		assert.ErrorContains(t, err, "monitor.read: INVALID_INPUT: the event cannot be decoded: ")
		_, _ = monitor.NewReader(some).Read([]byte(text)) // it may not look so far
	}
}

// plain is a value as encoding/json has it, all numbers as float64.
func plain(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, member := range v {
			members[name] = plain(member)
		}
		return members
	}
	return v
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		quake, `{}`, `[]`, `[1,2.5,-3e2,"a\u00e9",null,true,{"a":{"b":[]}}]`, `{"mag":1e999}`, `"\ud83d\ude00"`, `{"mag":`, `{"x":"}\"","mag":[{}]}`, "\x00", `{"m\u0061g":7}`,
	} {
		f.Add([]byte(seed))
	}
	mag, whole := value(f, "mag"), value(f, "event")
	some, all := monitor.NewReader(mag), monitor.NewReader(mag, whole)
	f.Fuzz(func(t *testing.T, data []byte) {
		few, errFew := some.Read(data)
		env, err := all.Read(data)
		if _, invalid := ports.CompactJSON(string(data)); invalid != nil {
			return // nothing is promised, but that it ends
		}
		require.NoError(t, errFew)
		require.NoError(t, err)
		var want any
		if json.Unmarshal(data, &want) != nil {
			return // a number beyond the range of float64
		}
		require.Equal(t, want, plain(monitor.Name(env, "event")))
		members, _ := want.(map[string]any)
		require.Equal(t, members["mag"], plain(monitor.Name(few, "mag")))
		require.Equal(t, members["mag"], plain(monitor.Name(env, "mag")))
	})
}
