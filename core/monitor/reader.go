package monitor

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/stowage-go/stowage/ports"
)

// Env is an event as expressions see it. It is not changed by them, and may be used by many goroutines.
// It shares no memory with the event.
type Env struct{ names map[string]any }

// Reader decodes events, and of them only what its expressions use. It may be used by many goroutines.
type Reader struct {
	names map[string]string // by themselves
	whole bool
}

// NewReader makes a reader for the expressions. Nil ones are passed over.
func NewReader(exprs ...Expression) *Reader {
	r := &Reader{names: make(map[string]string)}
	for _, expr := range exprs {
		if expr == nil {
			continue
		}
		p := expr.compiled()
		if p == nil {
			continue
		}
		r.whole = r.whole || p.whole
		for _, name := range p.names {
			r.names[name] = name
		}
	}
	return r
}

// Read decodes an event, which is valid compact JSON, as [ports.CompactJSON] gives it. Of other text it
// makes an error, INVALID_INPUT, or an Env of what it took it for. The top-level members of an object
// are names; event is the whole, and the only name of what is no object.
//
// A whole number that fits 64 bits is exact. Any other number is the nearest float64, and one beyond
// its range infinite.
func (r *Reader) Read(data []byte) (Env, error) {
	d := decoder{data: data}
	if r.whole {
		return r.readWhole(&d)
	}
	if len(r.names) == 0 || d.next() != '{' {
		return Env{}, nil
	}
	names := make(map[string]any, len(r.names))
	err := d.object(func(name []byte) (bool, error) {
		known, ok := r.names[string(name)]
		if !ok {
			return true, d.skip()
		}
		value, err := d.value(1)
		names[known] = value
		return len(names) < len(r.names), err
	})
	if err != nil {
		return Env{}, ports.Errorf(ports.CodeInvalidInput, opRead, "the event cannot be decoded: %w (at byte %d)", err, d.pos)
	}
	return Env{names}, nil
}

func (r *Reader) readWhole(d *decoder) (Env, error) {
	event, err := d.value(0)
	if err != nil {
		return Env{}, ports.Errorf(ports.CodeInvalidInput, opRead, "the event cannot be decoded: %w (at byte %d)", err, d.pos)
	}
	names := make(map[string]any, len(r.names)+1)
	if members, ok := event.(map[string]any); ok {
		for name := range r.names {
			if value, ok := members[name]; ok {
				names[name] = value
			}
		}
	}
	names[eventName] = event
	return Env{names}, nil
}

var errMalformed = errors.New("it is not valid JSON")

// decoder steps through JSON whose form has been checked, and stays within it if it has not.
type decoder struct {
	data []byte
	pos  int
}

// next passes over white space and returns the byte that follows, 0 at the end.
func (d *decoder) next() byte {
	for ; d.pos < len(d.data); d.pos++ {
		switch c := d.data[d.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// object calls member for each member of the object at the position, which stands before its value
// then; it reports whether to go on.
func (d *decoder) object(member func(name []byte) (bool, error)) error {
	d.pos++
	if d.next() == '}' {
		d.pos++
		return nil
	}
	for {
		if d.next() != '"' {
			return errMalformed
		}
		raw, escaped, err := d.quoted()
		if err != nil {
			return err
		}
		name := raw[1 : len(raw)-1]
		if escaped {
			text, err := unescape(raw)
			if err != nil {
				return err
			}
			name = []byte(text)
		}
		if d.next() != ':' {
			return errMalformed
		}
		d.pos++
		d.next()
		if more, err := member(name); err != nil || !more {
			return err
		}
		switch d.next() {
		case ',':
			d.pos++
		case '}':
			d.pos++
			return nil
		default:
			return errMalformed
		}
	}
}

// value decodes the value at the position.
func (d *decoder) value(depth int) (any, error) {
	if depth > ports.MaxJSONDepth {
		return nil, errors.New("it is nested too deep")
	}
	switch c := d.next(); c {
	case '{':
		members := make(map[string]any)
		err := d.object(func(name []byte) (bool, error) {
			key := string(name)
			value, err := d.value(depth + 1)
			members[key] = value
			return true, err
		})
		return members, err
	case '[':
		return d.array(depth)
	case '"':
		raw, escaped, err := d.quoted()
		if err != nil {
			return nil, err
		}
		if escaped {
			return unescape(raw)
		}
		return string(raw[1 : len(raw)-1]), nil
	case 't', 'f', 'n':
		return d.word()
	default:
		return d.number()
	}
}

func (d *decoder) array(depth int) (any, error) {
	d.pos++
	items := []any{}
	if d.next() == ']' {
		d.pos++
		return items, nil
	}
	for {
		item, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		switch d.next() {
		case ',':
			d.pos++
		case ']':
			d.pos++
			return items, nil
		default:
			return nil, errMalformed
		}
	}
}

func (d *decoder) word() (any, error) {
	rest := d.data[d.pos:]
	switch {
	case bytes.HasPrefix(rest, []byte("true")):
		d.pos += 4
		return true, nil
	case bytes.HasPrefix(rest, []byte("false")):
		d.pos += 5
		return false, nil
	case bytes.HasPrefix(rest, []byte("null")):
		d.pos += 4
		return nil, nil //nolint:nilnil // null is a value
	}
	return nil, errMalformed
}

func (d *decoder) number() (any, error) {
	from, whole := d.pos, true
scan:
	for ; d.pos < len(d.data); d.pos++ {
		switch c := d.data[d.pos]; {
		case '0' <= c && c <= '9', c == '-':
		case c == '.', c == 'e', c == 'E', c == '+':
			whole = false
		default:
			break scan
		}
	}
	text := d.data[from:d.pos]
	if whole {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return int(n), nil
		}
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // beyond the range n is infinite
		return nil, errMalformed
	}
	return n, nil
}

// quoted passes over the string at the position and returns it with its quotes, and whether it has
// escapes.
func (d *decoder) quoted() (raw []byte, escaped bool, err error) {
	from := d.pos
	for d.pos++; d.pos < len(d.data); d.pos++ {
		switch d.data[d.pos] {
		case '\\':
			escaped = true
			d.pos++
		case '"':
			d.pos++
			return d.data[from:d.pos], escaped, nil
		}
	}
	d.pos = len(d.data)
	return nil, false, errMalformed
}

func unescape(raw []byte) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return "", errMalformed
	}
	return text, nil
}

// skip passes over the value at the position.
func (d *decoder) skip() error {
	depth := 0
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case '"':
			if _, _, err := d.quoted(); err != nil {
				return err
			}
			if depth == 0 {
				return nil
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return nil // the end of what the value stands in
			}
			if depth--; depth == 0 {
				d.pos++
				return nil
			}
		case ',':
			if depth == 0 {
				return nil
			}
		}
		d.pos++
	}
	return nil
}
