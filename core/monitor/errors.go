package monitor

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/file"

	"github.com/stowage-go/stowage/ports"
)

const (
	opCompile = "monitor.compile"
	opMatch   = "monitor.match"
	opValue   = "monitor.value"
	opRead    = "monitor.read"
)

// place says where in the expression an offset, in characters, is.
func place(text string, offset int) string {
	line, column := 1, 1
	for _, r := range text {
		if offset <= 0 {
			break
		}
		offset--
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	if strings.Contains(strings.TrimSpace(text), "\n") {
		return fmt.Sprintf("line %d, column %d", line, column)
	}
	return fmt.Sprintf("column %d", column)
}

// refuse makes the error of an expression that cannot be used.
func refuse(text string, offset int, what, why, todo string) error {
	return ports.Errorf(ports.CodeInvalidConfig, opCompile, "the expression has %s at %s: %s; %s", what, place(text, offset), why, todo)
}

// refuseWhole is refuse for what has no single place.
func refuseWhole(format string, args ...any) error {
	return ports.Errorf(ports.CodeInvalidConfig, opCompile, format, args...)
}

// words gives the types of Go the names that a reader of JSON knows.
var words = strings.NewReplacer(
	"map[string]interface {}", "object", "map[string]any", "object",
	"[]interface {}", "array", "[]any", "array",
	"interface {}", "a value",
	"<nil>", "null", " is nil,", " is null,", "float64", "number", "uint8", "byte",
)

var wordInt = regexp.MustCompile(`\bint\b`)

func plain(message string) string {
	return wordInt.ReplaceAllString(words.Replace(message), "number")
}

// syntaxError words what the parser, or the compiler, has found.
func syntaxError(text string, err error) error {
	const todo = "correct it; the section Expressions of the configuration's documentation has examples"
	var found *file.Error
	if !errors.As(err, &found) {
		return refuseWhole("the expression cannot be compiled: %s; %s", firstLine(err.Error()), todo)
	}
	if strings.Contains(found.Message, "exceeds maximum allowed nodes") {
		return refuseWhole("the expression is too large: more than %d operators, names and values; make it shorter, or two monitors of it", maxNodes)
	}
	return refuse(text, found.From, "a fault", plain(found.Message), todo)
}

// typeError words what the type check has found.
func typeError(text string, err error, known string) error {
	var found *file.Error
	if !errors.As(err, &found) {
		return refuseWhole("the expression cannot be used: %s; correct it", plain(firstLine(err.Error())))
	}
	if name, unknown := strings.CutPrefix(found.Message, "unknown name "); unknown {
		return refuse(text, found.From, "an unknown name", name, "fields has "+known+": use one of these, or declare it there; event is the whole event")
	}
	return refuse(text, found.From, "a wrong type", plain(found.Message), "correct it, or the type in fields")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// callError is a failure of a function of this package. It holds no value of an event.
type callError string

func (e callError) Error() string { return string(e) }

const errCost = callError("it would take more steps than one event may cost")

// harmless are the beginnings of those messages of the machine that hold types and positions, and no
// value of an event.
var harmless = []string{
	"invalid operation: ", `operator "in" not defined on `, "invalid argument for ",
	"interface conversion: ", "runtime error: ", "invalid number of arguments", "cannot use ",
}

// failure words a failure of an evaluation.
func (p *program) failure(op string, err error) error {
	const guard = "; a member may be missing: guard it, as in (NAME ?? 0) >= 1 or NAME != nil and NAME >= 1"
	at, message := "", "it cannot be computed from this event"
	var found *file.Error
	if errors.As(err, &found) {
		at = " at " + place(p.text, found.From)
	}
	var call callError
	var machine runtime.Error
	switch {
	case errors.As(err, &call):
		message = string(call)
	case found == nil:
	case found.Message == "memory budget exceeded":
		message = string(errCost)
	case strings.HasPrefix(found.Message, "cannot fetch "):
		message = "there is no member to take" // the message has its name, which may come from the event
		if from := strings.LastIndex(found.Message, " from "); from > 0 {
			message += " from " + article(plain(found.Message[from+len(" from "):]))
		}
	case strings.HasPrefix(found.Message, "index out of range: "):
		message = "an index is beyond the end of an array or a text" // the index may come from the event
	case strings.HasPrefix(found.Message, "invalid operation: negative shift"):
		message = "a number is shifted by less than nothing"
	case errors.As(err, &machine), hasAnyPrefix(found.Message, harmless):
		message = plain(strings.TrimPrefix(found.Message, "runtime error: "))
	}
	if strings.Contains(message, "null") {
		message += guard
	}
	return ports.Errorf(ports.CodeInvalidInput, op, "the expression fails%s: %s", at, message)
}

func article(noun string) string {
	switch {
	case noun == "null":
		return noun
	case noun != "" && strings.ContainsRune("aeiou", rune(noun[0])):
		return "an " + noun
	}
	return "a " + noun
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// shorten keeps a name that goes into a message short.
func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}
