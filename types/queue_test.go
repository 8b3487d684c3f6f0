package types_test

import (
	"encoding/json"
	"testing"

	"github.com/stowage-go/stowage/types"
)

func TestPayloadsHoldWhatTheyWereMadeOf(t *testing.T) {
	t.Parallel()
	text := []byte(` {"b": 1, "a": 9007199254740993} `)
	payload := types.JSON(text)
	if want := (types.Payload{Type: types.PayloadJSON, Data: ` {"b": 1, "a": 9007199254740993} `}); payload != want {
		t.Errorf("got %+v, want %+v", payload, want)
	}
	text[1] = '?'
	if payload.Data[1] != '{' {
		t.Error("a payload shares memory with the text that it was made of")
	}
	if got, want := types.Text(""), (types.Payload{Type: types.PayloadText}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestMarshalPayload(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   any
		want string
	}{
		{nil, `null`},
		{"<&>", `"<&>"`},
		{"a\n", `"a\n"`},
		{int64(9007199254740993), `9007199254740993`},
		{map[string]any{"b": 1, "a": []int{}}, `{"a":[],"b":1}`},
		{json.RawMessage(`{ "b": "<", "a": 1.0 }`), `{"b":"<","a":1.0}`},
	} {
		got, err := types.MarshalPayload(tc.in)
		if err != nil || got != types.JSON([]byte(tc.want)) {
			t.Errorf("MarshalPayload(%v) = %+v, %v; want %s", tc.in, got, err, tc.want)
		}
	}
	if got, err := types.MarshalPayload(make(chan int)); err == nil || got != (types.Payload{}) {
		t.Errorf("a channel: %+v, %v; want an error", got, err)
	}
}
