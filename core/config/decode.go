package config

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stowage-go/stowage/ports"
)

// section is the part of a document that belongs to a module.
type section struct {
	doc    *document
	at     path
	values map[string]any
	beside []string // the keys of the same table that are not the module's
}

// NoConfig is the configuration of a module of which nothing is configured.
func NoConfig() ports.ModuleConfig { return section{} }

// Locate finds where the key stands that a module's message about its configuration names first: in its
// file, or in the JSON of a pipeline. It reports false if it names none, or if the configuration was not
// read from either.
func Locate(module ports.ModuleConfig, message string) (at Position, key string, ok bool) {
	s, isSection := module.(section)
	if !isSection || s.doc == nil {
		return Position{}, "", false
	}
	for _, word := range strings.FieldsFunc(message, func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if _, named := s.values[word]; named {
			full := s.at.child(word)
			return s.doc.position(full), full.String(), true
		}
	}
	return Position{}, "", false
}

// Decode implements ports.ModuleConfig. The target is a pointer to a struct whose fields bear toml
// tags: strings, booleans, numbers, types with UnmarshalText (ports.Duration), time.Time, any,
// structs, pointers, slices and maps with string keys. In JSON a time is a string in the form of RFC 3339.
func (s section) Decode(into any) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() || target.Elem().Kind() != reflect.Struct {
		return ports.Errorf(ports.CodeInvalidConfig, op, "the module decodes its configuration into a %T: it has to be a pointer to a struct", into)
	}
	if s.values == nil {
		return nil
	}
	return s.doc.decodeStruct(s.at, s.values, target.Elem(), s.beside...)
}

// decode fills the target with a value of the document. Keys are visited in the order of the file, so
// that the first fault is the one that is reported.
func (d *document) decode(at path, value any, target reflect.Value) error {
	if target.Kind() == reflect.Pointer {
		if target.IsNil() {
			target.Set(reflect.New(target.Type().Elem()))
		}
		return d.decode(at, value, target.Elem())
	}
	if given := reflect.ValueOf(value); given.Type().AssignableTo(target.Type()) && target.Kind() != reflect.Map {
		target.Set(given)
		return nil
	}
	if text, ok := target.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return d.decodeText(at, value, text, target.Type())
	}
	switch target.Kind() {
	case reflect.Struct:
		return d.decodeStruct(at, value, target)
	case reflect.Map:
		return d.decodeMap(at, value, target)
	case reflect.Slice:
		return d.decodeSlice(at, value, target)
	}
	if !setScalar(value, target) {
		return d.wrongType(at, value, target.Type())
	}
	return nil
}

func (d *document) decodeText(at path, value any, target encoding.TextUnmarshaler, t reflect.Type) error {
	text, ok := value.(string)
	if !ok {
		return d.wrongType(at, value, t)
	}
	if err := target.UnmarshalText([]byte(text)); err != nil {
		return d.refuse(at, "the key %s: %w", at, err)
	}
	return nil
}

// decodeStruct fills a struct. The keys named beside are those that somebody else has taken from the
// same table.
func (d *document) decodeStruct(at path, value any, target reflect.Value, beside ...string) error {
	table, ok := value.(map[string]any)
	if !ok {
		return d.wrongType(at, value, target.Type())
	}
	fields := map[string]reflect.Value{}
	tomlFields(target, fields)
	for _, name := range d.keys(at, table) {
		field, known := fields[name]
		if !known {
			return d.refuse(at.child(name), "the key %q is unknown %s: %s%s", shorten(name), d.place(at), allowed(fields, beside), d.hint(at, name, table[name]))
		}
		if err := d.decode(at.child(name), table[name], field); err != nil {
			return err
		}
	}
	return nil
}

// tomlFields collects the fields of a struct by the names of their keys.
func tomlFields(target reflect.Value, fields map[string]reflect.Value) {
	for i := range target.NumField() {
		field := target.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
		switch {
		case name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
			tomlFields(target.Field(i), fields)
		case name == "-" || !field.IsExported():
		case name != "":
			fields[name] = target.Field(i)
		default:
			fields[field.Name] = target.Field(i)
		}
	}
}

func (d *document) decodeMap(at path, value any, target reflect.Value) error {
	table, ok := value.(map[string]any)
	if !ok || target.Type().Key().Kind() != reflect.String {
		return d.wrongType(at, value, target.Type())
	}
	if target.IsNil() {
		target.Set(reflect.MakeMap(target.Type()))
	}
	for _, name := range d.keys(at, table) {
		item := reflect.New(target.Type().Elem()).Elem()
		if err := d.decode(at.child(name), table[name], item); err != nil {
			return err
		}
		target.SetMapIndex(reflect.ValueOf(name).Convert(target.Type().Key()), item)
	}
	return nil
}

func (d *document) decodeSlice(at path, value any, target reflect.Value) error {
	list, ok := value.([]any)
	if !ok {
		return d.wrongType(at, value, target.Type())
	}
	items := reflect.MakeSlice(target.Type(), len(list), len(list))
	for i := range list {
		if err := d.decode(at.item(i), list[i], items.Index(i)); err != nil {
			return err
		}
	}
	target.Set(items)
	return nil
}

// setScalar reports false if the value does not fit.
func setScalar(value any, target reflect.Value) bool {
	switch given := value.(type) {
	case string:
		if target.Kind() == reflect.String {
			target.SetString(given)
			return true
		}
	case bool:
		if target.Kind() == reflect.Bool {
			target.SetBool(given)
			return true
		}
	case int64:
		switch {
		case target.CanInt() && !target.OverflowInt(given):
			target.SetInt(given)
			return true
		case target.CanUint() && given >= 0 && !target.OverflowUint(uint64(given)):
			target.SetUint(uint64(given))
			return true
		case target.CanFloat():
			target.SetFloat(float64(given))
			return true
		}
	case float64:
		if target.CanFloat() && !target.OverflowFloat(given) {
			target.SetFloat(given)
			return true
		}
	}
	return false
}

// keys of a table in the order of the file; those of JSON in that of their names.
func (d *document) keys(at path, table map[string]any) []string {
	if d.json {
		return slices.Sorted(maps.Keys(table))
	}
	lines := make(map[string]int, len(table))
	for name := range table {
		lines[name] = d.position(at.child(name)).Line
	}
	return slices.SortedFunc(maps.Keys(table), func(a, b string) int {
		return cmp.Or(cmp.Compare(lines[a], lines[b]), cmp.Compare(a, b))
	})
}

func (d *document) wrongType(at path, value any, t reflect.Type) error {
	return d.refuse(at, "the key %s is %s: %s is wanted", at, d.spell(foundType(value)), d.spell(wantedType(t)))
}

// spell says the name of a type as the language of the document does.
func (d *document) spell(name string) string {
	if spelled, differs := map[string]string{"a table": "an object", "a list": "an array"}[name]; differs && d.json {
		return spelled
	}
	return name
}

func (d *document) refuse(at path, format string, args ...any) error {
	return Refuse(fault(d.position(at), at.String(), format, args...))
}

func fault(at Position, key, format string, args ...any) *Fault {
	e := ports.Errorf(ports.CodeInvalidConfig, op, format, args...)
	return &Fault{At: at, Key: key, Problem: e.Message, Err: e.Err}
}

func allowed(fields map[string]reflect.Value, beside []string) string {
	names := slices.AppendSeq(slices.Clone(beside), maps.Keys(fields))
	if len(names) == 0 {
		return "no keys are allowed there"
	}
	slices.Sort(names)
	return "allowed are " + strings.Join(names, ", ")
}

func foundType(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "a whole number"
	case float64:
		return "a number with a fraction"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}

func wantedType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[ports.Duration]():
		return `a duration like "30s" or "1h30m"`
	case reflect.TypeFor[time.Time]():
		return "a date with time and zone"
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch kind := t.Kind(); kind {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint64:
		return "a whole number from 0"
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<t.Bits()-1)
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a table"
	}
	return "nothing that a configuration can write (the module's field is of type " + t.String() + ")"
}
