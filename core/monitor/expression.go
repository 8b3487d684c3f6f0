package monitor

import (
	"reflect"
	"strings"

	"github.com/expr-lang/expr/vm"

	"github.com/stowage-go/stowage/ports"
)

// Expression is a [*Rule] or a [*Value]. A nil one uses nothing of an event.
type Expression interface {
	compiled() *program
}

// Rule picks events. It may be used by many goroutines. A nil Rule picks every event.
type Rule struct{ program *program }

// Value is computed from an event. It may be used by many goroutines.
type Value struct{ program *program }

func (r *Rule) compiled() *program {
	if r == nil {
		return nil
	}
	return r.program
}

func (v *Value) compiled() *program {
	if v == nil {
		return nil
	}
	return v.program
}

// Compile compiles the expression of a monitor, whose result is true or false. An empty one picks every
// event. With fields, which maps the names of top-level members to their types (number, string, bool,
// object, array or any), names that are not among them and uses that do not fit the types are refused;
// with none, any name may be used, and types are met when events come. What is refused is
// INVALID_CONFIG: it says what the expression has, where, and what to do.
func Compile(when string, fields map[string]string) (*Rule, error) {
	if strings.TrimSpace(when) == "" {
		when = "true"
	}
	p, err := compile(when, declared(fields), reflect.Bool)
	if err != nil {
		return nil, err
	}
	return &Rule{p}, nil
}

// CompileValue compiles the expression of a value, the key of a gate or the time of an event. It refuses
// what [Compile] does, an empty expression, and one that is known to give an array or an object.
func CompileValue(expr string, fields map[string]string) (*Value, error) {
	p, err := compile(expr, declared(fields), reflect.Invalid)
	if err != nil {
		return nil, err
	}
	switch p.result { //nolint:exhaustive // the others are single values
	case reflect.Slice, reflect.Map:
		return nil, refuse(expr, 0, "a wrong result", "it gives an array or an object where a single value is wanted", "take a member of it")
	}
	return &Value{p}, nil
}

// declared makes no difference between no fields and none declared.
func declared(fields map[string]string) map[string]string {
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// Match reports whether the rule picks the event. It is an error, INVALID_INPUT, if the event has not
// what the expression needs, as where a member that is missing is compared by order, or if the
// evaluation would cost too much.
func (r *Rule) Match(env Env) (bool, error) {
	if r == nil {
		return true, nil
	}
	out, err := r.program.run(env)
	if err != nil {
		return false, r.program.failure(opMatch, err)
	}
	picked, ok := out.(bool)
	if !ok {
		return false, r.program.failure(opMatch, callError("it gives "+article(kindOf(out))+" where true or false is wanted"))
	}
	return picked, nil
}

// Text is the value as a text, as a gate groups by it: a text as it is, a number, true and false in
// their JSON form, and an empty text for null and for what is missing. Anything else is an error,
// INVALID_INPUT. Of a nil Value it is empty.
//
// A number is written as it was understood, not as it stands in the event: 2.0 is "2", and one that
// float64 cannot hold is the nearest one that it can.
func (v *Value) Text(env Env) (string, error) {
	if v == nil {
		return "", nil
	}
	out, err := v.program.run(env)
	if err != nil {
		return "", v.program.failure(opValue, err)
	}
	text, err := toText(out)
	if err != nil {
		return "", v.program.failure(opValue, err)
	}
	return text.(string), nil
}

// Millis is the value as a time, in milliseconds since the epoch: a number is that, its fraction left
// out, and a text is a time of RFC 3339. Anything else, null and what is missing too, is an error,
// INVALID_INPUT.
func (v *Value) Millis(env Env) (int64, error) {
	if v == nil {
		return 0, ports.Errorf(ports.CodeInvalidInput, opValue, "there is no expression that gives a time")
	}
	out, err := v.program.run(env)
	if err != nil {
		return 0, v.program.failure(opValue, err)
	}
	millis, err := toMillis(out)
	if err != nil {
		return 0, v.program.failure(opValue, err)
	}
	return int64(millis.(int)), nil
}

// run evaluates the expression. The machine turns what panics into errors.
func (p *program) run(env Env) (any, error) {
	names := env.names
	if names == nil {
		names = noNames
	}
	machine := vm.VM{MemoryBudget: maxMemory}
	return machine.Run(p.code, names)
}

// noNames is never written to.
var noNames = map[string]any{}
