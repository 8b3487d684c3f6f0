package monitor

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/builtin"
)

// loops are the functions that run an expression for each value of a list.
var loops = []string{
	"all", "any", "count", "filter", "find", "findIndex", "findLast", "findLastIndex", "map", "none", "one", "sum",
}

// weights says, for each function of the language that may be used, how what it is given is weighed.
// Left out are those that depend on anything but the event (now, date, timezone; keys and values, whose
// order is random), and those whose result may be much larger than what they were given (repeat,
// replace, join, toJSON and others).
var weights = map[string]weight{
	"abs": {}, "ceil": {}, "floor": {}, "round": {}, "type": {}, "first": {}, "last": {}, "get": {flat: 1},
	"bitand": {}, "bitor": {}, "bitxor": {}, "bitnand": {}, "bitnot": {}, "bitshl": {}, "bitshr": {}, "bitushr": {},
	"len": {flat: 1}, "upper": {flat: 1}, "lower": {flat: 1}, "trim": {flat: 1}, "trimPrefix": {flat: 1}, "trimSuffix": {flat: 1},
	"hasPrefix": {flat: 1}, "hasSuffix": {flat: 1}, "indexOf": {flat: 1}, "lastIndexOf": {flat: 1}, "split": {flat: 8},
	"max": {deep: true}, "min": {deep: true}, "mean": {deep: true},
}

// weight says what a step is, of a value that is given to a function.
type weight struct {
	flat int  // a text counts its bytes times this, a list its length; 0: the value is not looked through
	deep bool // all values within count
}

// ours are the functions of this package. Their names in a program end with brackets, so that a member
// of an event may have the name.
var ours = map[string]func(any) (any, error){
	"int": toInt, "float": toFloat, "string": toText, "millis": toMillis,
}

// functions names all functions, for a message.
func functions() string {
	names := slices.Concat(loops, []string{})
	for name := range weights {
		names = append(names, name)
	}
	for name := range ours {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func toInt(v any) (any, error) {
	switch v := v.(type) {
	case int:
		return v, nil
	case uint8:
		return int(v), nil
	case float64:
		// Beyond these bounds the conversion depends on the processor.
		if v > -(1<<63) && v < 1<<63 {
			return int(v), nil
		}
		return nil, callError("int() was given a number that is not within 64 bits")
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			return n, nil
		}
		return nil, callError("int() was given a text that is no whole number")
	}
	return nil, callError("int() wants a number or a text, and was given " + article(kindOf(v)))
}

func toFloat(v any) (any, error) {
	switch v := v.(type) {
	case int:
		return float64(v), nil
	case uint8:
		return float64(v), nil
	case float64:
		return v, nil
	case string:
		if n, err := strconv.ParseFloat(v, 64); err == nil && !math.IsNaN(n) {
			return n, nil
		}
		return nil, callError("float() was given a text that is no number")
	}
	return nil, callError("float() wants a number or a text, and was given " + article(kindOf(v)))
}

// toText gives texts as they are, other single values in JSON form, and null as an empty text.
func toText(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case uint8:
		return strconv.Itoa(int(v)), nil
	case float64:
		text, err := json.Marshal(v)
		if err != nil {
			return nil, callError("a number is infinite, and has no text")
		}
		return string(text), nil
	}
	return nil, callError("a text can be made of a text, a number, true, false or null, and here is " + article(kindOf(v)))
}

// toMillis gives milliseconds since the epoch: a number counts as such, a text is RFC 3339.
func toMillis(v any) (any, error) {
	switch v := v.(type) {
	case int:
		return v, nil
	case float64:
		if v > -(1<<63) && v < 1<<63 {
			return int(math.Floor(v)), nil
		}
		return nil, callError("a time is a number that is not within 64 bits: give milliseconds since the epoch")
	case string:
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			return nil, callError("a time is a text that is not of the form 2006-01-02T15:04:05Z (RFC 3339)")
		}
		return int(t.UnixMilli()), nil
	}
	return nil, callError("a time is " + article(kindOf(v)) + ": give milliseconds since the epoch or a text in RFC 3339")
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case int, float64, uint8:
		return "number"
	case string:
		return "text"
	case []any, []string:
		return "array"
	case map[string]any:
		return "object"
	}
	return "value of another kind"
}

// meter counts the steps of one evaluation.
type meter struct{ steps int }

func (m *meter) add(n int) error {
	m.steps += n
	if m.steps > maxSteps {
		return errCost
	}
	return nil
}

// flatWeight is the weight of a value that is looked through without what lies within.
func flatWeight(v any, factor int) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)/8*factor + len(v)%8*factor/8
	case []any:
		return 1 + len(v)
	case []string:
		return 1 + len(v)
	}
	return 1
}

// deepWeight is the weight of a value with all that lies within. It stops counting at most.
func deepWeight(v any, most int) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) / 8
	case []any:
		for _, item := range v {
			if n > most {
				break
			}
			n += deepWeight(item, most-n)
		}
	case []string: // what split gives
		for _, item := range v {
			n += 1 + len(item)/8
		}
	case map[string]any:
		for name, item := range v {
			if n > most {
				break
			}
			n += 1 + len(name)/8 + deepWeight(item, most-n)
		}
	}
	return n
}

// The names of what a program calls to count its steps. No expression can contain them.
const (
	newMeter  = "the meter()"
	meterName = "the meter"
	countStep = "a step()"
	countFlat = "a flat value()"
	countDeep = "a deep value()"
	countList = "a list()"
	countLoop = "a list of a loop()"
)

// table is all functions that a program may call by name.
func table() map[string]*builtin.Function {
	t := make(map[string]*builtin.Function)
	add := func(name string, signature any, fn func(args ...any) (any, error)) {
		t[name] = &builtin.Function{Name: name, Func: fn, Types: []reflect.Type{reflect.TypeOf(signature).Elem()}}
	}
	results := map[string]any{
		"int": new(func(any) int), "float": new(func(any) float64), "string": new(func(any) string), "millis": new(func(any) int),
	}
	for name, fn := range ours {
		add(name+"()", results[name], func(args ...any) (any, error) { return fn(args[0]) })
	}
	counted := new(func(any, any, int) any)
	add(newMeter, new(func() any), func(...any) (any, error) { return new(meter), nil })
	add(countStep, counted, func(args ...any) (any, error) {
		return args[1], args[0].(*meter).add(args[2].(int))
	})
	add(countFlat, counted, func(args ...any) (any, error) {
		return args[1], args[0].(*meter).add(flatWeight(args[1], args[2].(int)))
	})
	add(countDeep, counted, func(args ...any) (any, error) {
		return args[1], args[0].(*meter).add(deepWeight(args[1], maxSteps))
	})
	add(countList, counted, func(args ...any) (any, error) {
		switch args[1].(type) {
		case []any, []string:
			return args[1], args[0].(*meter).add(deepWeight(args[1], maxSteps))
		}
		return args[1], args[0].(*meter).add(1) // looking up a member does not depend on how many there are
	})
	add(countLoop, counted, func(args ...any) (any, error) {
		switch args[1].(type) {
		case []any, []string:
			return args[1], args[0].(*meter).add(1 + args[2].(int)*flatWeight(args[1], 1))
		}
		return nil, callError("an array is wanted, and here is " + article(kindOf(args[1])))
	})
	return t
}
