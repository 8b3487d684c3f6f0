package ports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxJSONDepth is how deep arrays and objects of a payload may be nested. It stays below what
// encoding/json decodes, by more than the depth of any envelope that a payload travels in.
const MaxJSONDepth = 9_000

// maxDecodeDepth is how deep encoding/json decodes.
const maxDecodeDepth = 10_000

// What a request holds around its payloads is small: beyond these limits it would only cost memory,
// many times its own size.
const (
	maxOuterEntries = 64 // of an object or array
	outerDepth      = 2  // that is the request itself, or stands directly in it
)

// CompactJSON returns the one JSON value in text without insignificant white space, every other byte
// as it was. It refuses what encoding/json lets pass: duplicate members, invalid UTF-8, escapes that
// are no character (a lone surrogate), and anything after the value (R109). The error gives an
// offset and never the content.
func CompactJSON(text string) (string, error) {
	s := jsonScanner{text: text, maxDepth: MaxJSONDepth}
	if err := s.scan(); err != nil {
		return "", err
	}
	if s.compacted == nil {
		return s.text[s.start:s.end], nil
	}
	return string(s.compacted), nil
}

// jsonScanner checks a JSON text in one pass without recursion. As long as nothing has to be left
// out, the compact form is a part of the text and costs no copy.
type jsonScanner struct {
	text      string
	maxDepth  int
	maxOuter  int // entries of an object or array down to outerDepth, 0 for no limit
	pos       int
	start     int // of the value
	end       int // of the value
	kept      int // text before it is in compacted
	compacted []byte
	stack     []jsonFrame
}

type jsonFrame struct {
	object bool
	commas int
	names  jsonNames
}

// jsonNames is the set of member names of one object: a list while it is short.
type jsonNames struct {
	few  []string
	many map[string]struct{}
}

// add reports false if the name is there already.
func (n *jsonNames) add(name string) bool {
	if n.many == nil && len(n.few) < 16 {
		if slices.Contains(n.few, name) {
			return false
		}
		if n.few == nil {
			n.few = make([]string, 0, 8) // growing from one would cost as much as the rest of the scan
		}
		n.few = append(n.few, name)
		return true
	}
	if n.many == nil {
		n.many = make(map[string]struct{}, 64)
		for _, name := range n.few {
			n.many[name] = struct{}{}
		}
	}
	if _, ok := n.many[name]; ok {
		return false
	}
	n.many[name] = struct{}{}
	return true
}

func (s *jsonScanner) scan() error {
	s.skip()
	s.start, s.kept = s.pos, s.pos
	for {
		open, err := s.value()
		if err != nil {
			return err
		}
		if open {
			continue
		}
		// A value has ended: go on after it, and close what it closes.
		for {
			if len(s.stack) == 0 {
				s.end = s.pos
				if s.compacted != nil {
					s.compacted = append(s.compacted, s.text[s.kept:s.pos]...)
				}
				s.skip()
				if s.pos < len(s.text) {
					return s.fail("something follows the value")
				}
				return nil
			}
			s.space()
			frame := &s.stack[len(s.stack)-1]
			switch c := s.peek(); {
			case c == ',':
				frame.commas++
				if s.maxOuter > 0 && len(s.stack) <= outerDepth && frame.commas >= s.maxOuter {
					return s.fail(fmt.Sprintf("an object or array has more than %d entries", s.maxOuter))
				}
				s.pos++
				s.space()
				if frame.object {
					if err := s.member(frame); err != nil {
						return err
					}
				}
			case c == '}' && frame.object, c == ']' && !frame.object:
				s.pos++
				s.stack = s.stack[:len(s.stack)-1]
				continue
			default:
				return s.fail("a comma or the closing bracket is missing")
			}
			break
		}
	}
}

// value scans a scalar or an empty container whole, or opens a container and reports true.
func (s *jsonScanner) value() (open bool, err error) {
	switch c := s.peek(); {
	case c == '{' || c == '[':
		if len(s.stack) == s.maxDepth {
			return false, s.fail(fmt.Sprintf("arrays and objects are nested deeper than %d", s.maxDepth))
		}
		s.pos++
		s.space()
		if s.peek() == c+2 { // ']' and '}' stand two after their partners
			s.pos++
			return false, nil
		}
		s.stack = append(s.stack, jsonFrame{object: c == '{'})
		if c == '{' {
			return true, s.member(&s.stack[len(s.stack)-1])
		}
		return true, nil
	case c == '"':
		_, err := s.str()
		return false, err
	case c == '-' || isDigit(c):
		return false, s.number()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(s.text[s.pos:], word) {
			s.pos += len(word)
			return false, nil
		}
	}
	return false, s.fail("what stands here is no JSON value")
}

func (s *jsonScanner) member(frame *jsonFrame) error {
	if s.peek() != '"' {
		return s.fail("a member name is missing")
	}
	at := s.pos
	name, err := s.str()
	if err != nil {
		return err
	}
	if !frame.names.add(name) {
		s.pos = at
		return s.fail("a member stands twice in one object")
	}
	s.space()
	if s.peek() != ':' {
		return s.fail("a colon is missing")
	}
	s.pos++
	s.space()
	return nil
}

// str scans a string and returns it unescaped.
func (s *jsonScanner) str() (string, error) {
	s.pos++
	from := s.pos
	var unescaped []byte
	escaped := false
	for {
		if s.pos >= len(s.text) {
			return "", s.fail("a string does not end")
		}
		switch c := s.text[s.pos]; {
		case c == '"':
			raw := s.text[from:s.pos]
			s.pos++
			if escaped {
				return string(append(unescaped, raw...)), nil
			}
			return raw, nil
		case c == '\\':
			unescaped = append(unescaped, s.text[from:s.pos]...)
			escaped = true
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			unescaped = utf8.AppendRune(unescaped, r)
			from = s.pos
		case c < 0x20:
			return "", s.fail("a control character stands in a string: escape it")
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, size := utf8.DecodeRuneInString(s.text[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return "", s.fail("a byte is not valid UTF-8")
			}
			s.pos += size
		}
	}
}

func (s *jsonScanner) escape() (rune, error) {
	if s.pos+1 >= len(s.text) {
		return 0, s.fail("a string does not end")
	}
	const letters, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	c := s.text[s.pos+1]
	if i := strings.IndexByte(letters, c); i >= 0 {
		s.pos += 2
		return rune(meanings[i]), nil
	}
	if c != 'u' {
		return 0, s.fail("an escape is unknown")
	}
	first, ok := s.hex(s.pos)
	if !ok {
		return 0, s.fail(`\u wants four hexadecimal digits`)
	}
	if !utf16.IsSurrogate(first) {
		s.pos += 6
		return first, nil
	}
	second, _ := s.hex(s.pos + 6)
	r := utf16.DecodeRune(first, second)
	if r == utf8.RuneError {
		return 0, s.fail("an escape is half of a surrogate pair")
	}
	s.pos += 12
	return r, nil
}

// hex reads the escape \uXXXX that starts at an offset.
func (s *jsonScanner) hex(at int) (rune, bool) {
	if at+6 > len(s.text) || s.text[at] != '\\' || s.text[at+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s.text[at+2 : at+6]) {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func (s *jsonScanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return s.fail("a number wants a digit")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.fail("a number wants a digit after the point")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return s.fail("a number wants a digit in the exponent")
		}
	}
	return nil
}

func (s *jsonScanner) digits() bool {
	from := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.pos > from
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// peek returns the byte at the position, 0 at the end.
func (s *jsonScanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func (s *jsonScanner) skip() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// space skips white space inside the value and leaves it out of the compact form.
func (s *jsonScanner) space() {
	from := s.pos
	s.skip()
	if s.pos > from {
		if s.compacted == nil {
			s.compacted = make([]byte, 0, len(s.text))
		}
		s.compacted = append(s.compacted, s.text[s.kept:from]...)
		s.kept = s.pos
	}
}

func (s *jsonScanner) fail(what string) error {
	return fmt.Errorf("%s (at byte %d)", what, s.pos)
}

// DecodeOption changes what DecodeJSON accepts.
type DecodeOption int

const (
	// AllowUnknown lets members pass that the target does not have.
	AllowUnknown DecodeOption = iota + 1
	// AsStored accepts any valid JSON in valid UTF-8, duplicate members and escapes of half a
	// surrogate pair included: an answer embeds payloads as they are stored, and another engine may
	// have stored what this one refuses.
	AsStored

	// asRequest limits what stands around payloads.
	asRequest
)

// DecodeJSON decodes text into the value that into points at, as a protocol wants it: what
// [CompactJSON] refuses is refused, a member must bear the exact name of a field, unknown members
// are refused unless allowed, and null stands only where a pointer, any or a json.RawMessage takes
// it. A json.RawMessage, and what decodes itself, is handed its text unseen. The error names the
// member, and never holds a value.
func DecodeJSON(text []byte, into any, options ...DecodeOption) error {
	s := jsonScanner{text: string(text), maxDepth: maxDecodeDepth}
	if slices.Contains(options, asRequest) {
		s.maxOuter = maxOuterEntries
	}
	if slices.Contains(options, AsStored) {
		if !utf8.Valid(text) || !json.Valid(text) {
			return errors.New("it is not valid JSON")
		}
	} else if err := s.scan(); err != nil {
		return err
	}
	c := memberCheck{allowUnknown: slices.Contains(options, AllowUnknown)}
	if err := c.check(text, reflect.TypeOf(into).Elem(), ""); err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		var wrong *json.UnmarshalTypeError
		if !errors.As(err, &wrong) {
			return errors.New("the value cannot be decoded")
		}
		found, _, _ := strings.Cut(wrong.Value, " ") // what follows is the value itself
		return fmt.Errorf("%s is of the type %s: %s is wanted", nameMember(wrong.Field), found, wantedJSON(wrong.Type))
	}
	return nil
}

// memberCheck holds the member names of every object against the struct that it fills, and nulls
// against their targets; encoding/json by itself takes case variants, and null for anything.
type memberCheck struct {
	allowUnknown bool
}

var (
	rawMessage      = reflect.TypeFor[json.RawMessage]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

// check takes valid JSON. Where text and type do not fit it leaves the verdict to Unmarshal.
func (c memberCheck) check(text []byte, t reflect.Type, path string) error {
	null := string(bytes.TrimSpace(text)) == "null"
	for t.Kind() == reflect.Pointer {
		if null {
			return nil
		}
		t = t.Elem()
	}
	switch kind := t.Kind(); {
	case t == rawMessage, kind == reflect.Interface, reflect.PointerTo(t).Implements(jsonUnmarshaler):
		return nil
	case null:
		return fmt.Errorf("%s is null: %s is wanted", nameMember(path), wantedJSON(t))
	case (kind == reflect.Slice || kind == reflect.Array) && t.Elem().Kind() != reflect.Uint8:
		var items []json.RawMessage
		if json.Unmarshal(text, &items) != nil {
			return nil //nolint:nilerr // decoding says what is wrong
		}
		for i, item := range items {
			if err := c.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case kind == reflect.Map:
		return c.members(text, path, func(string) (reflect.Type, error) { return t.Elem(), nil })
	case kind == reflect.Struct:
		fields := jsonFields(t)
		return c.members(text, path, func(name string) (reflect.Type, error) {
			field, known := fields[name]
			if known || c.allowUnknown && !hasFold(fields, name) { // a case variant would fill the field
				return field, nil
			}
			return nil, fmt.Errorf("the member %q is unknown: allowed are %s", join(path, truncate(name)), strings.Join(sortedKeys(fields), ", "))
		})
	}
	return nil
}

// members checks the members of an object, in the order of their names, against the types that
// typeOf gives; a nil type takes anything.
func (c memberCheck) members(text []byte, path string, typeOf func(name string) (reflect.Type, error)) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return nil //nolint:nilerr // decoding says what is wrong
	}
	for _, name := range sortedKeys(members) {
		t, err := typeOf(name)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		if err := c.check(members[name], t, join(path, truncate(name))); err != nil {
			return err
		}
	}
	return nil
}

// jsonFields are the fields of a struct by the names that encoding/json gives them.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for field := range t.Fields() {
		tag := field.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-" || !field.IsExported() && !field.Anonymous:
		case name != "":
			fields[name] = field.Type
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			for name, inner := range jsonFields(field.Type) {
				if _, outer := fields[name]; !outer {
					fields[name] = inner
				}
			}
		default:
			fields[field.Name] = field.Type
		}
	}
	return fields
}

func wantedJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number (%s)", t.Kind())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "another type"
}

func nameMember(path string) string {
	if path == "" {
		return "the value"
	}
	return fmt.Sprintf("the member %q", path)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func hasFold(fields map[string]reflect.Type, name string) bool {
	for field := range fields {
		if strings.EqualFold(field, name) {
			return true
		}
	}
	return false
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

func truncate(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
