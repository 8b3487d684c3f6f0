package queuetest

import (
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/types"
)

var payloadCases = []testCase{
	{name: "JSON comes back byte for byte", run: func(f *fix) {
		for _, text := range []string{
			`null`, `true`, `false`, `0`, `-0`, `""`, `[]`, `{}`, `[[],{}]`, `{"":0}`,
			`9007199254740993`, `-9223372036854775809`, `18446744073709551616`, strings.Repeat("9", 400),
			`0.10`, `1.0`, `1E+2`, `1e400`, `-1e-400`, `1E-0`, `123456789.123456789123456789`,
			`{"z":1,"a":2,"m":{"y":1,"b":2}}`, `{"a":{"x":1},"b":{"x":1}}`, `[{"x":1},{"x":1}]`,
			`"<&>"`, `"\u003c\u0026\u003e"`, `"\/ and /"`, `"\"\\\b\f\n\r\t"`, `"\u0000"`, `"\u00e9 and é"`,
			`"\ud83d\ude00 and 😀"`, "\"\u2028\u2029\"", "\"\u007f\u0080\ufeff\uffff\"", `{"ключ":"значение","鍵":"値"}`,
			`{"A":1,"a":2}`, `{"é":1,"e\u0301":2}`, `"type text"`, `{"type":"text","data":"x"}`,
			strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		} {
			f.wantKept(types.JSON([]byte(text)), text)
		}
	}},
	{name: "insignificant white space is left out, other white space is not", run: func(f *fix) {
		f.wantKept(types.JSON([]byte(" { \"a b\" : [ 1 , 2.50 ,\t\" x  y \" ] ,\r\n\"c\":{ } , \"d\": [ ] }\n")),
			`{"a b":[1,2.50," x  y "],"c":{},"d":[]}`)
		f.wantKept(types.JSON([]byte("\t7 ")), `7`)
	}},
	{name: "what is not JSON is refused", run: func(f *fix) {
		for _, text := range []string{
			``, ` `, `{`, `}`, `[1,]`, `{"a":1,}`, `{"a"}`, `{a:1}`, `{'a':1}`, `[1 2]`, `1 2`, `{}{}`, `tru`, `True`, `nul`,
			`NaN`, `Infinity`, `-`, `+1`, `01`, `1.`, `.5`, `1e`, `0x10`, `"`, `"a`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"\n\"", "\"\x00\"",
			"\ufeff1", "1\x00", "// note\n1", `[1]]`, "\u00a01",
		} {
			f.wantRefused(types.JSON([]byte(text)))
		}
	}},
	{name: "a member that stands twice in an object is refused", run: func(f *fix) {
		for _, text := range []string{
			`{"a":1,"a":1}`, `{"a":1,"b":2,"a":3}`, `[{"x":{"a":1,"a":2}}]`, `{"a":1,"\u0061":2}`, `{"":1,"":2}`,
			`{"\ud83d\ude00":1,"😀":2}`,
		} {
			f.wantRefused(types.JSON([]byte(text)))
		}
	}},
	{name: "half of a surrogate pair is refused", run: func(f *fix) {
		for _, text := range []string{
			`"\ud800"`, `"\udc00"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\ude00\ud83d"`, `{"\ud800":1}`, `"\ud83d\ud83d\ude00"`,
		} {
			f.wantRefused(types.JSON([]byte(text)))
		}
	}},
	{name: "invalid UTF-8 is refused", run: func(f *fix) {
		for _, bad := range []string{"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "ok\xfe"} {
			f.wantRefused(types.JSON([]byte(`"` + bad + `"`)))
			f.wantRefused(types.JSON([]byte(`{"` + bad + `":1}`)))
			f.wantRefused(types.Text(bad))
		}
	}},
	{name: "text comes back byte for byte", run: func(f *fix) {
		for _, text := range []string{
			"", " ", "\x00", "before\x00after", "\r\n\t \n", "<&>\"'\\", `{"not":"parsed", "a": 1 }`, "é e\u0301 😀 \u2028 \ufeff\uffff",
			"null", "1e400", "'; DROP TABLE messages; --",
		} {
			f.wantKept(types.Text(text), text)
		}
	}},
	{name: "random JSON comes back byte for byte", run: func(f *fix) {
		rapid.Check(f.T, func(r *rapid.T) {
			spaced, compact := drawJSON(r, 3)
			require.NoError(r, f.q.Send(f.ctx, types.JSON([]byte(spaced)), types.SendOptions{}), "send of %q", spaced)
			messages, err := f.q.Receive(f.ctx, types.ReceiveOptions{})
			require.NoError(r, err)
			require.Len(r, messages, 1)
			require.Equal(r, types.JSON([]byte(compact)), messages[0].Payload)
			require.NoError(r, f.q.Ack(f.ctx, messages[0].Receipt))
		})
	}},
	{name: "JSON that is nested too deep is refused", run: func(f *fix) {
		f.wantRefused(types.JSON([]byte(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000))))
	}},
}

var (
	jsonScalars = rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "false", "-0", "9007199254740993", "1e400", "0.10", `""`}),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?`),
		rapid.Custom(drawString),
	)
	jsonSpace = rapid.SampledFrom([]string{"", "", " ", "\n\t", " \r\n "})
)

// drawString draws a JSON string of characters and escapes.
func drawString(r *rapid.T) string {
	parts := rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]string{`\"`, `\\`, `\/`, `\n`, `\u0000`, `\u003c`, `\u00E9`, `\ud83d\ude00`, "<&>", "\u2028", "😀", " "}),
		rapid.StringMatching(`[ !#-\[\]-~а-яé鍵]{1,5}`),
	), 0, 6).Draw(r, "string")
	return `"` + strings.Join(parts, "") + `"`
}

// drawJSON draws a JSON text with white space in it, and returns it also without.
func drawJSON(r *rapid.T, depth int) (spaced, compact string) {
	kind := rapid.IntRange(0, 2).Draw(r, "kind")
	if depth == 0 || kind == 0 {
		compact = jsonScalars.Draw(r, "scalar")
	} else {
		opening, closing := "[", "]"
		if kind == 2 {
			opening, closing = "{", "}"
		}
		spaced, compact = opening+jsonSpace.Draw(r, "space"), opening
		for i := range rapid.IntRange(0, 4).Draw(r, "size") {
			if i > 0 {
				spaced, compact = spaced+","+jsonSpace.Draw(r, "space"), compact+","
			}
			if kind == 2 {
				// Numbered, so that no member stands twice.
				name := strings.TrimSuffix(drawString(r), `"`) + strconv.Itoa(i) + `"`
				spaced += name + jsonSpace.Draw(r, "space") + ":" + jsonSpace.Draw(r, "space")
				compact += name + ":"
			}
			s, c := drawJSON(r, depth-1)
			spaced, compact = spaced+s, compact+c
		}
		spaced, compact = spaced+closing, compact+closing
	}
	if spaced == "" {
		spaced = compact
	}
	return jsonSpace.Draw(r, "space") + spaced + jsonSpace.Draw(r, "space"), compact
}
