package ports_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func TestAReadAsksFor1To10000Events(t *testing.T) {
	t.Parallel()
	for _, good := range []int{1, 2, ports.MaxReadEvents} {
		require.NoError(t, ports.CheckRead("source.read", good))
	}
	for _, bad := range []int{0, -1, ports.MaxReadEvents + 1, math.MaxInt, math.MinInt} {
		require.ErrorIs(t, ports.CheckRead("source.read", bad), ports.ErrInvalidInput, "%d", bad)
	}
}

func TestOfAcceptedEventsOnlyTheirOwnIsKept(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	given := []types.Event{
		{Cursor: types.Cursor{Primary: 1}, Index: 2, ID: "forged", TS: -5, Data: json.RawMessage(` { "a" : 1.50 } `), Traceparent: trace, Err: errors.New("x")},
		{Data: json.RawMessage(`null`), Traceparent: "of another form"},
	}
	kept, err := ports.CheckEvents("source.accept", given)
	require.NoError(t, err)
	require.Equal(t, []types.Event{{TS: -5, Data: json.RawMessage(`{"a":1.50}`), Traceparent: trace}, {Data: json.RawMessage(`null`)}}, kept)
	clear(given[1].Data)
	require.Equal(t, `null`, string(kept[1].Data), "a copy")

	none, err := ports.CheckEvents("source.accept", nil)
	require.NoError(t, err)
	require.Empty(t, none)

	whole := json.RawMessage(`"` + strings.Repeat("x", ports.MaxJSONBytes-2) + `"`)
	_, err = ports.CheckEvents("source.accept", []types.Event{{Data: whole}})
	require.NoError(t, err)
	for name, bad := range map[string]json.RawMessage{
		"none": nil, "white space": []byte(" "), "no JSON": []byte("{"), "two": []byte("1 2"), "duplicates": []byte(`{"a":1,"a":2}`), "invalid UTF-8": []byte("\"\xff\""),
		"large": append(json.RawMessage(" "), whole...),
	} {
		kept, err := ports.CheckEvents("source.accept", []types.Event{{Data: json.RawMessage(`1`)}, {Data: bad}})
		require.ErrorIs(t, err, ports.ErrInvalidInput, name)
		require.ErrorContains(t, err, "event 2 of 2", name)
		require.Nil(t, kept, name)
	}
}

func TestASinkEventIsOfOneType(t *testing.T) {
	t.Parallel()
	require.NoError(t, ports.CheckSinkEvent("sink.deliver", types.SinkEvent{Match: &types.Match{}}))
	require.NoError(t, ports.CheckSinkEvent("sink.deliver", types.SinkEvent{Emission: &types.Emission{}}))
	for _, bad := range []types.SinkEvent{{}, {Traceparent: "x"}, {Match: &types.Match{}, Emission: &types.Emission{}}} {
		require.ErrorIs(t, ports.CheckSinkEvent("sink.deliver", bad), ports.ErrInvalidInput)
	}
}
