package types

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// What is stored by the hundred thousand, and read by the page, is decoded in one walk here. Member
// names are exact, where encoding/json takes other spellings; of a name that comes twice the first
// counts, as it does for the engine that finds letters by a member; others are passed over.

var errNoObject = errors.New("it is not a JSON object")

// object has a place for each member that is wanted: *string, *uint64, *int64, *json.RawMessage (which
// gets a part of the text), or an object of its own.
type object map[string]any

// decode fills the places with what the object in text has. Text is valid JSON; if it is not, an error
// or a wrong value comes of it, never a panic.
func (o object) decode(text []byte) error {
	w := walker{text: text}
	if w.next() != '{' {
		return errNoObject
	}
	w.pos++
	if w.next() == '}' {
		return nil
	}
	seen := make([]string, 0, len(o))
	var wrong error // the first; the others are decoded all the same
	for {
		w.next()
		name, err := w.name()
		if err != nil {
			return err
		}
		if w.next() != ':' {
			return errNoObject
		}
		w.pos++
		w.next()
		value, err := w.value()
		if err != nil {
			return err
		}
		if into, ok := o[name]; ok && !slices.Contains(seen, name) {
			seen = append(seen, name)
			if err := decodeInto(into, value); err != nil && wrong == nil {
				wrong = fmt.Errorf("the member %q is of another type", name)
			}
		}
		switch w.next() {
		case ',':
			w.pos++
		case '}':
			return wrong
		default:
			return errNoObject
		}
	}
}

var errOtherType = errors.New("it is of another type")

// decodeInto decodes a value; null is as if the member were not there.
func decodeInto(into any, value []byte) (err error) {
	if raw, ok := into.(*json.RawMessage); ok {
		*raw = value
		return nil
	}
	if string(value) == "null" {
		return nil
	}
	switch into := into.(type) {
	case *string:
		*into, err = decodeString(value)
	case *uint64:
		*into, err = strconv.ParseUint(string(value), 10, 64)
	case *int64:
		*into, err = strconv.ParseInt(string(value), 10, 64)
	case object:
		err = into.decode(value)
	default:
		err = errOtherType
	}
	return err
}

func decodeString(value []byte) (string, error) {
	if len(value) < 2 || value[0] != '"' {
		return "", errOtherType
	}
	if bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value) {
		return string(value[1 : len(value)-1]), nil
	}
	var text string
	err := json.Unmarshal(value, &text)
	return text, err
}

// walker steps through JSON whose form has been checked, and stays within it if it has not.
type walker struct {
	text []byte
	pos  int
}

// next passes over white space and returns the byte that follows, 0 at the end.
func (w *walker) next() byte {
	for ; w.pos < len(w.text); w.pos++ {
		switch c := w.text[w.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// name reads the name of a member.
func (w *walker) name() (string, error) {
	from := w.pos
	if w.next() != '"' || !w.passString() {
		return "", errNoObject
	}
	return decodeString(w.text[from:w.pos])
}

// value returns the text of the value that begins here.
func (w *walker) value() ([]byte, error) {
	from, depth := w.pos, 0
	for w.pos < len(w.text) {
		switch w.text[w.pos] {
		case '"':
			if !w.passString() {
				return nil, errNoObject
			}
			if depth == 0 {
				return w.text[from:w.pos], nil
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return w.scalar(from)
			}
			if depth--; depth == 0 {
				w.pos++
				return w.text[from:w.pos], nil
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return w.scalar(from)
			}
		}
		w.pos++
	}
	return nil, errNoObject
}

// scalar is a number or a word that has just ended.
func (w *walker) scalar(from int) ([]byte, error) {
	if w.pos == from {
		return nil, errNoObject
	}
	return w.text[from:w.pos], nil
}

// passString passes over a string that begins here.
func (w *walker) passString() bool {
	for w.pos++; w.pos < len(w.text); w.pos++ {
		switch w.text[w.pos] {
		case '\\':
			w.pos++
		case '"':
			w.pos++
			return true
		}
	}
	return false
}
