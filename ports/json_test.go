package ports_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stowage-go/stowage/ports"
)

func TestCompactJSONKeepsEveryByteButWhiteSpace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, want string }{
		{`null`, `null`},
		{" \t\r\n true \n", `true`},
		{`9007199254740993`, `9007199254740993`},
		{`-0.10e+05`, `-0.10e+05`},
		{`1E400`, `1E400`},
		{`"<&> \u2028 \/ é \u00e9"`, `"<&> \u2028 \/ é \u00e9"`},
		{"\"\u2028\"", "\"\u2028\""},
		{`"\ud83d\ude00 \uD83D\uDE00"`, `"\ud83d\ude00 \uD83D\uDE00"`},
		{`"\ufffd"`, `"\ufffd"`},
		{`{ "b" : 1 , "a" : [ ] , "c" : { } }`, `{"b":1,"a":[],"c":{}}`},
		{`{"a":1,"A":2,"":3}`, `{"a":1,"A":2,"":3}`},
		{`[{"a":1},{"a":1}]`, `[{"a":1},{"a":1}]`},
		{`{"a":{"a":{"a":1}}}`, `{"a":{"a":{"a":1}}}`},
		{"[1,\n 2,\t3 ]", `[1,2,3]`},
		{`" a  b "`, `" a  b "`},
	} {
		got, err := ports.CompactJSON(tc.in)
		if err != nil || got != tc.want {
			t.Errorf("CompactJSON(%q) = %q, %v; want %q", tc.in, got, err, tc.want)
		}
	}
}

func TestCompactJSONRefuses(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"nothing":                         ``,
		"white space":                     " \n",
		"a byte order mark":               "\ufeff1",
		"a second value":                  `1 2`,
		"a trailing comma in an array":    `[1,]`,
		"a trailing comma in an object":   `{"a":1,}`,
		"a leading comma":                 `[,1]`,
		"a missing comma":                 `[1 2]`,
		"a missing colon":                 `{"a" 1}`,
		"a missing value":                 `{"a":}`,
		"an unquoted name":                `{a:1}`,
		"crossed brackets":                `[{]}`,
		"an open array":                   `[1`,
		"an open object":                  `{"a":1`,
		"an open string":                  `"a`,
		"an open escape":                  `"\`,
		"a comment":                       `1 // one`,
		"single quotes":                   `'a'`,
		"an upper-case word":              `True`,
		"a longer word":                   `nulls`,
		"NaN":                             `NaN`,
		"a leading zero":                  `01`,
		"a leading plus":                  `+1`,
		"a lone minus":                    `-`,
		"a bare point":                    `1.`,
		"a leading point":                 `.1`,
		"an empty exponent":               `1e`,
		"a signed empty exponent":         `1e+`,
		"a NUL":                           "\x00",
		"a NUL in a string":               "\"\x00\"",
		"a line break in a string":        "\"\n\"",
		"an unknown escape":               `"\x41"`,
		"a short unicode escape":          `"\u12"`,
		"a unicode escape without hex":    `"\u12g4"`,
		"invalid UTF-8":                   "\"\xff\"",
		"overlong UTF-8":                  "\"\xc0\xaf\"",
		"a surrogate as UTF-8":            "\"\xed\xa0\x80\"",
		"invalid UTF-8 in a name":         "{\"\xff\":1}",
		"a high surrogate":                `"\ud83d"`,
		"a low surrogate":                 `"\ude00"`,
		"a high surrogate before text":    `"\ud83dx"`,
		"a high surrogate before a break": `"\ud83d\n"`,
		"two high surrogates":             `"\ud83d\ud83d"`,
		"swapped surrogates":              `"\ude00\ud83d"`,
		"a surrogate in a name":           `{"\ud83d":1}`,
		"a duplicate":                     `{"a":1,"a":2}`,
		"an escaped duplicate":            `{"a":1,"\u0061":2}`,
		"a duplicate by a surrogate pair": `{"😀":1,"\ud83d\ude00":2}`,
		"a duplicate by a short escape":   `{"\n":1,"\u000a":2}`,
		"an empty duplicate":              `{"":1,"":2}`,
		"a nested duplicate":              `[{"x":{"a":1,"b":2,"a":3}}]`,
		"a duplicate after a container":   `{"a":[{"b":1}],"a":2}`,
	} {
		if got, err := ports.CompactJSON(in); err == nil {
			t.Errorf("%s: CompactJSON(%q) = %q, want an error", name, in, got)
		}
	}
}

func TestCompactJSONFindsDuplicatesAmongManyMembers(t *testing.T) {
	t.Parallel()
	for _, members := range []int{2, 15, 16, 17, 18, 200} {
		parts := make([]string, members)
		for i := range parts {
			parts[i] = fmt.Sprintf(`"m%d":%d`, i, i)
		}
		if _, err := ports.CompactJSON("{" + strings.Join(parts, ",") + "}"); err != nil {
			t.Errorf("%d different members: %v", members, err)
		}
		for repeated := range members {
			text := "{" + strings.Join(parts, ",") + fmt.Sprintf(`,"m%d":0}`, repeated)
			if _, err := ports.CompactJSON(text); err == nil {
				t.Errorf("%d members, the one numbered %d twice: no error", members, repeated)
			}
		}
	}
}

func TestCompactJSONBoundsTheDepth(t *testing.T) {
	t.Parallel()
	nest := func(depth int, open, inner, end string) string {
		return strings.Repeat(open, depth) + inner + strings.Repeat(end, depth)
	}
	for name, text := range map[string]func(depth int) string{
		"empty arrays": func(d int) string { return nest(d, "[", "", "]") },
		"full arrays":  func(d int) string { return nest(d, "[", "1", "]") },
		"objects":      func(d int) string { return nest(d, `{"a":`, "1", "}") },
		"mixed":        func(d int) string { return nest(d/2, `[{"a":`, "1", "}]") },
	} {
		if _, err := ports.CompactJSON(text(ports.MaxJSONDepth)); err != nil {
			t.Errorf("%s nested %d deep: %v", name, ports.MaxJSONDepth, err)
		}
		if !json.Valid([]byte(text(ports.MaxJSONDepth))) {
			t.Errorf("%s nested %d deep: encoding/json refuses it, so that it could not be read back", name, ports.MaxJSONDepth)
		}
		if _, err := ports.CompactJSON(text(ports.MaxJSONDepth + 2)); err == nil {
			t.Errorf("%s nested %d deep: no error", name, ports.MaxJSONDepth+2)
		}
	}
	if _, err := ports.CompactJSON(strings.Repeat("[", 5_000_000)); err == nil {
		t.Error("five million open brackets: no error")
	}
}

func TestCompactJSONErrorsGiveAnOffsetAndNoContent(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, tc := range []struct {
		in string
		at int
	}{
		{`{"` + secret + `":1,"` + secret + `":2}`, 13},
		{`["` + secret + `" 1]`, 11},
		{`"` + secret + "\xff", 8},
		{secret, 0},
		{`1 ` + secret, 2},
	} {
		_, err := ports.CompactJSON(tc.in)
		if err == nil {
			t.Errorf("%q: no error", tc.in)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error %q holds the content", tc.in, err)
		}
		if want := fmt.Sprintf("(at byte %d)", tc.at); !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: the error %q does not end in %q", tc.in, err, want)
		}
	}
}

// FuzzCompactJSON holds the scanner against encoding/json and the rules that encoding/json lacks.
func FuzzCompactJSON(f *testing.F) {
	for _, seed := range []string{
		`null`, ` [1, -0.5e+3 , "a\u00e9\ud83d\ude00"] `, `{"a":{"b":[{}]},"c":""}`, `{"a":1,"\u0061":2}`,
		`"\ud83d"`, "\"\xff\"", `{"x":[1,2,{"y":null}]}`, `[[[[]]]]`, `01`, `{"a":1,}`, "\"\u2028<>&\"", `"\ud83d\u0041"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ports.CompactJSON(text)
		rule := refusal(text)
		if (err == nil) != (rule == "") {
			t.Fatalf("CompactJSON(%q) gives %v; the reference says %q", text, err, rule)
		}
		if err != nil {
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got != want.String() {
			t.Fatalf("CompactJSON(%q) = %q, want %q", text, got, want.String())
		}
		if again, err := ports.CompactJSON(got); err != nil || again != got {
			t.Fatalf("compacting %q again gives %q, %v", got, again, err)
		}
	})
}

// refusal says by which rule a text is refused, empty for none.
func refusal(text string) string {
	switch {
	case !json.Valid([]byte(text)):
		return "not JSON"
	case !utf8.ValidString(text):
		return "not UTF-8"
	case hasLoneSurrogate(text):
		return "half a surrogate pair"
	case hasDuplicate(text):
		return "a duplicate member"
	}
	return ""
}

// hasLoneSurrogate takes valid JSON, in which a backslash stands nowhere but in an escape.
func hasLoneSurrogate(text string) bool {
	unit := func(i int) (uint64, bool) {
		if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(text[i+2:i+6], 16, 16)
		return n, err == nil
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		n, ok := unit(i)
		if !ok {
			i++
			continue
		}
		i += 5
		if n < 0xd800 || n > 0xdfff {
			continue
		}
		low, ok := unit(i + 1)
		if n >= 0xdc00 || !ok || low < 0xdc00 || low > 0xdfff {
			return true
		}
		i += 6
	}
	return false
}

func hasDuplicate(text string) bool {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	type frame struct {
		names map[string]bool // nil in an array
		value bool            // the next token of an object is a value
	}
	var stack []frame
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return false
		}
		if err != nil {
			panic(err)
		}
		if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if len(stack) > 0 && stack[len(stack)-1].names != nil {
			top := &stack[len(stack)-1]
			if !top.value {
				name := token.(string)
				if top.names[name] {
					return true
				}
				top.names[name], top.value = true, true
				continue
			}
			top.value = false
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, frame{names: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, frame{})
		}
	}
}

type inner struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

type base struct {
	Base string `json:"base"`
}

type target struct {
	base
	Text    string           `json:"text"`
	Count   int              `json:"count,omitempty"`
	Small   uint8            `json:"small"`
	Ratio   float64          `json:"ratio"`
	Flag    *bool            `json:"flag"`
	Raw     json.RawMessage  `json:"raw"`
	Any     any              `json:"any"`
	Items   []inner          `json:"items"`
	Ptr     *inner           `json:"ptr"`
	Map     map[string]inner `json:"map"`
	Bytes   []byte           `json:"bytes"`
	Skipped string           `json:"-"`
	Plain   string
	hidden  string
}

func TestDecodeJSONFillsTheTarget(t *testing.T) {
	t.Parallel()
	const text = ` {"base":"b","text":"t","count":3,"small":255,"ratio":0.5,"flag":true,"raw":{"X":[1, 2],"Y":null},"any":null,
		"items":[{"name":"a","count":1},{"count":2}],"ptr":null,"map":{"Any Name":{"name":"m"}},"bytes":"AQI=","Plain":"p"} `
	var got target
	if err := ports.DecodeJSON([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	switch {
	case got.Base != "b", got.Text != "t", got.Count != 3, got.Small != 255, got.Ratio != 0.5, got.Flag == nil || !*got.Flag,
		string(got.Raw) != `{"X":[1, 2],"Y":null}`, got.Any != nil, len(got.Items) != 2 || got.Items[0].Name != "a" || got.Items[1].Count != 2,
		got.Ptr != nil, got.Map["Any Name"].Name != "m", string(got.Bytes) != "\x01\x02", got.Plain != "p", got.hidden != "":
		t.Errorf("decoded %+v", got)
	}
}

func TestDecodeJSONTellsNullFromAbsenceInRawMembers(t *testing.T) {
	t.Parallel()
	var got target
	if err := ports.DecodeJSON([]byte(`{}`), &got); err != nil || got.Raw != nil {
		t.Errorf("absent: %q, %v; want nil", got.Raw, err)
	}
	if err := ports.DecodeJSON([]byte(`{"raw":null}`), &got); err != nil || string(got.Raw) != "null" {
		t.Errorf("null: %q, %v; want the text null", got.Raw, err)
	}
}

func TestDecodeJSONRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"a case variant", `{"Text":"x"}`, `the member "Text" is unknown: allowed are Plain, any, base, bytes, count, `},
		{"a case variant by a folding letter", `{"it\u0065m\u017f":[]}`, `is unknown`},
		{"an unknown member", `{"texts":"x"}`, `the member "texts" is unknown`},
		{"an unknown member in a list", `{"items":[{"name":"a"},{"Name":"b"}]}`, `the member "items[1].Name" is unknown: allowed are count, name`},
		{"an unknown member behind a pointer", `{"ptr":{"x":1}}`, `the member "ptr.x" is unknown`},
		{"an unknown member in a map", `{"map":{"k":{"x":1}}}`, `the member "map.k.x" is unknown`},
		{"a member of a skipped field", `{"-":"x"}`, `the member "-" is unknown`},
		{"a member of an untagged name's variant", `{"plain":"x"}`, `the member "plain" is unknown`},
		{"a member of an unexported field", `{"hidden":"x"}`, `the member "hidden" is unknown`},
		{"an empty name", `{"":"x"}`, `the member "" is unknown`},
		{"a long name", `{"` + strings.Repeat("é", 100) + `":1}`, strings.Repeat("é", 32) + "…"},
		{"a duplicate", `{"text":"x","t\u0065xt":"y"}`, `a member stands twice`},
		{"a duplicate inside a raw member", `{"raw":{"a":1,"a":2}}`, `a member stands twice`},
		{"a trailing value", `{} {}`, `something follows`},
		{"null for the whole", `null`, `the value is null: an object is wanted`},
		{"null for a string", `{"text":null}`, `the member "text" is null: a string is wanted`},
		{"null for a number", `{"count": null }`, `the member "count" is null: a whole number (int) is wanted`},
		{"null for a list", `{"items":null}`, `the member "items" is null: an array is wanted`},
		{"null in a list", `{"items":[null]}`, `the member "items[0]" is null: an object is wanted`},
		{"null for bytes", `{"bytes":null}`, `the member "bytes" is null: an array is wanted`},
		{"null for a map", `{"map":null}`, `the member "map" is null: an object is wanted`},
		{"a list for an object", `[]`, `the value is of the type array: an object is wanted`},
		{"a number for a string", `{"text":12345}`, `the member "text" is of the type number: a string is wanted`},
		{"a string for a number", `{"count":"hunter2"}`, `the member "count" is of the type string: a whole number (int) is wanted`},
		{"a fraction for a whole number", `{"count":1.5}`, `the member "count" is of the type number: a whole number (int) is wanted`},
		{"a number out of range", `{"small":256}`, `the member "small" is of the type number: a whole number (uint8) is wanted`},
		{"an object for a list", `{"items":{}}`, `the member "items" is of the type object: an array is wanted`},
		{"a string for a flag", `{"flag":"hunter2"}`, `the member "flag" is of the type string: true or false is wanted`},
		{"a string in a list", `{"items":[{"count":"hunter2"}]}`, `the member "items.count" is of the type string`},
		{"an object for a number", `{"ratio":{}}`, `the member "ratio" is of the type object: a number is wanted`},
		{"bad base64", `{"bytes":"hunter2"}`, `cannot be decoded`},
	} {
		var into target
		err := ports.DecodeJSON([]byte(tc.text), &into)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %s gives %v, want an error with %q", tc.name, tc.text, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error %q holds a value", tc.name, err)
		}
	}
}

func TestDecodeJSONAllowUnknown(t *testing.T) {
	t.Parallel()
	var got inner
	if err := ports.DecodeJSON([]byte(`{"name":"a","later":{"x":1},"count":2}`), &got, ports.AllowUnknown); err != nil || got != (inner{"a", 2}) {
		t.Errorf("decoded %+v, %v; want the known members", got, err)
	}
	for _, text := range []string{`{"name":"a","NAME":"b"}`, `{"Name":"b"}`, `{"later":1,"later":2}`, `{"name":null}`} {
		if err := ports.DecodeJSON([]byte(text), &got, ports.AllowUnknown); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{
		`{"text":"t","count":3}`, `{"Text":"x"}`, `{"items":[{"name":null}]}`, `{"raw":{"a":1}}`, `null`, `[]`, `{"map":{"a":{}}}`, `{"any":[null]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got target
		if ports.DecodeJSON(text, &got) != nil {
			return
		}
		if rule := refusal(string(text)); rule != "" {
			t.Fatalf("%q is accepted, but it is %s", text, rule)
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		var want target
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("%q is accepted; encoding/json says %v", text, err)
		}
		if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); got.Flag == nil && got.Ptr == nil && g != w {
			t.Fatalf("%q gives %s, encoding/json gives %s", text, g, w)
		}
	})
}

func TestDecodeJSONAsStored(t *testing.T) {
	t.Parallel()
	var got struct {
		Data json.RawMessage `json:"data"`
	}
	for _, data := range []string{`{"a":1,"a":2}`, `"\ud800"`, `[1e999]`} {
		if err := ports.DecodeJSON([]byte(`{"data":`+data+`}`), &got, ports.AsStored); err != nil || string(got.Data) != data {
			t.Errorf("%s: got %s, %v", data, got.Data, err)
		}
	}
	for _, text := range []string{`{"data":1} x`, `{"data":"` + "\xff" + `"}`, `{"data":}`, `{"DATA":1}`, ``} {
		if err := ports.DecodeJSON([]byte(text), &got, ports.AsStored); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
