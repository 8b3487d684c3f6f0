package config

import (
	"errors"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is a parsed file that knows on which line each key stands, or a parsed JSON text, in which a
// key is found by its path.
type document struct {
	file   string
	json   bool
	values map[string]any
	lines  map[string]int // by path; see path.id; nil for JSON
	breaks []int          // offsets of the line breaks
}

// path leads from the top of a document to a value: names of keys, and "[0]" for an element of a
// list.
type path []string

func (p path) child(name string) path { return append(slices.Clip(p), name) }
func (p path) item(i int) path        { return p.child(index(i)) }
func (p path) id() string             { return strings.Join(p, "\x00") }

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// String spells the path as TOML does.
func (p path) String() string {
	var text strings.Builder
	for i, name := range p {
		switch {
		case strings.HasPrefix(name, "["):
			text.WriteString(name)
			continue
		case i > 0:
			text.WriteByte('.')
		}
		if !bareKey.MatchString(name) {
			name = strconv.Quote(shorten(name))
		}
		text.WriteString(shorten(name))
	}
	return text.String()
}

// shorten keeps a key that is far beyond all that are allowed from filling a message.
func shorten(name string) string {
	const most = 300
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// place says for a message in which table something stands.
func (d *document) place(at path) string {
	if len(at) == 0 {
		return "at the top"
	}
	return "in " + d.name(at)
}

// name names a table for a message.
func (d *document) name(at path) string {
	switch {
	case !d.json:
		return "[" + at.String() + "]"
	case len(at) == 0:
		return "the pipeline"
	}
	return at.String()
}

// entry writes a key with a value, for a message that asks for one. Without a document it does so as TOML
// does.
func (d *document) entry(key, value string) string {
	if d != nil && d.json {
		return strconv.Quote(key) + ": " + value
	}
	return key + " = " + value
}

// parseDocument refuses what is not TOML, repeated keys and tables included.
func parseDocument(file string, data []byte) (*document, error) {
	d := &document{file: file, lines: map[string]int{}}
	if err := toml.Unmarshal(data, &d.values); err != nil {
		var syntax *toml.DecodeError
		if !errors.As(err, &syntax) {
			return nil, Refuse(&Fault{At: Position{File: file, Line: 1}, Problem: "the file is not TOML: " + err.Error()})
		}
		line, column := syntax.Position()
		problem := strings.TrimPrefix(syntax.Error(), "toml: ") + " (column " + strconv.Itoa(column) + ")"
		return nil, Refuse(&Fault{At: Position{File: file, Line: line}, Key: path(syntax.Key()).String(), Problem: problem})
	}
	for at, c := range data {
		if c == '\n' {
			d.breaks = append(d.breaks, at)
		}
	}
	d.index(data)
	return d, nil
}

// index notes the lines of all keys of a document that was found good.
func (d *document) index(data []byte) {
	var parser unstable.Parser
	parser.Reset(data)
	elements := map[string]int{} // of each list of tables so far
	var table path
	for parser.NextExpression() {
		expression := parser.Expression()
		if expression.Kind == unstable.KeyValue {
			d.keyValue(table, expression)
			continue
		}
		table = nil
		for keys := expression.Key(); keys.Next(); {
			table = table.child(string(keys.Node().Data))
			d.note(table, keys.Node().Raw)
			list := table.id()
			if expression.Kind == unstable.ArrayTable && keys.IsLast() {
				elements[list]++
			}
			if n := elements[list]; n > 0 {
				table = table.item(n - 1)
				d.note(table, keys.Node().Raw)
			}
		}
	}
}

func (d *document) keyValue(table path, node *unstable.Node) {
	at := table
	for keys := node.Key(); keys.Next(); {
		at = at.child(string(keys.Node().Data))
		d.note(at, keys.Node().Raw)
	}
	d.value(at, node.Value())
}

func (d *document) value(at path, node *unstable.Node) {
	children := node.Children()
	switch node.Kind {
	case unstable.InlineTable:
		for children.Next() {
			d.keyValue(at, children.Node())
		}
	case unstable.Array:
		for i := 0; children.Next(); i++ {
			item := at.item(i)
			if raw := children.Node().Raw; raw.Length > 0 {
				d.note(item, raw)
			}
			d.value(item, children.Node())
		}
	}
}

// note keeps the first line at which a key is named.
func (d *document) note(at path, raw unstable.Range) {
	if _, ok := d.lines[at.id()]; !ok {
		d.lines[at.id()] = sort.SearchInts(d.breaks, int(raw.Offset)) + 1
	}
}

// position of the value at a path, or of what holds it.
func (d *document) position(at path) Position {
	if d.json {
		return Position{Path: d.present(at).String()}
	}
	for ; len(at) > 0; at = at[:len(at)-1] {
		if line, ok := d.lines[at.id()]; ok {
			return Position{File: d.file, Line: line}
		}
	}
	return Position{File: d.file, Line: 1}
}
