package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stowage-go/stowage/ports"
)

// parseJSON refuses what is not one JSON object in which every key stands once. Numbers that are written
// without fraction and exponent are int64, as those of TOML are.
func parseJSON(text []byte) (*document, error) {
	d := &document{json: true}
	if len(text) > maxFileBytes {
		return nil, d.refuse(nil, "the pipeline has %d bytes: at most %d are allowed", len(text), maxFileBytes)
	}
	var members map[string]json.RawMessage // which makes sure that it is an object
	if err := ports.DecodeJSON(text, &members); err != nil {
		return nil, d.refuse(nil, "the pipeline is not a JSON object: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&d.values); err != nil {
		return nil, d.refuse(nil, "the pipeline cannot be read: %w", err)
	}
	if _, at, problem := convert(d.values); problem != "" {
		return nil, d.refuse(at, "the key %s is %s", at, problem)
	}
	return d, nil
}

// convert gives numbers the types that they have in TOML, those inside of tables and lists in their
// place. What TOML cannot write is a problem, and where it is.
func convert(value any) (converted any, at path, problem string) {
	switch given := value.(type) {
	case nil:
		return nil, nil, "null: leave it out"
	case json.Number:
		converted, problem = number(given)
		return converted, nil, problem
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if given[name], at, problem = convert(given[name]); problem != "" {
				return nil, slices.Insert(at, 0, name), problem
			}
		}
	case []any:
		for i := range given {
			if given[i], at, problem = convert(given[i]); problem != "" {
				return nil, slices.Insert(at, 0, index(i)), problem
			}
		}
	}
	return value, nil, ""
}

func number(given json.Number) (converted any, problem string) {
	if !strings.ContainsAny(given.String(), ".eE") {
		n, err := strconv.ParseInt(given.String(), 10, 64)
		if err != nil {
			return nil, "a whole number that does not fit into 64 bits"
		}
		return n, ""
	}
	n, err := strconv.ParseFloat(given.String(), 64)
	if err != nil {
		return nil, "a number that is too large"
	}
	return n, ""
}

// present is the path as far as the text of a JSON document has it.
func (d *document) present(at path) path {
	var value any = d.values
	for depth, name := range at {
		switch given := value.(type) {
		case map[string]any:
			inner, ok := given[name]
			if !ok {
				return at[:depth]
			}
			value = inner
		case []any:
			i, err := strconv.Atoi(strings.Trim(name, "[]"))
			if err != nil || i >= len(given) {
				return at[:depth]
			}
			value = given[i]
		default:
			return at[:depth]
		}
	}
	return at
}

// index is the step of a path to an element of a list.
func index(i int) string { return "[" + strconv.Itoa(i) + "]" }
