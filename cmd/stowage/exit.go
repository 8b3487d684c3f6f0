package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/stowage-go/stowage/ports"
)

// The exit codes. They are part of the command's interface: docs/errors.md and docs/operating list
// them too.
const (
	exitDone         = 0
	exitFailed       = 1 // the operation failed and was not done
	exitUsage        = 2 // the command line, an input or the configuration breaks a rule
	exitNotFound     = 3
	exitPrecondition = 4 // a condition, version or receipt does not hold, or there is one already
	exitDenied       = 5 // the token is missing or wrong, or the file system forbids it
	exitUnavailable  = 6 // nothing answers, or somebody else holds the store
	exitUnknown      = 7 // the operation may or may not have been done
	exitPartly       = 8 // a part of the input was done
)

var exitCodes = map[ports.Code]int{
	ports.CodeInvalidInput:         exitUsage,
	ports.CodeNotFound:             exitNotFound,
	ports.CodeAlreadyExists:        exitPrecondition,
	ports.CodeVersionConflict:      exitPrecondition,
	ports.CodeInvalidConfig:        exitUsage,
	ports.CodeBindingSetupFailed:   exitFailed,
	ports.CodeBackendFailed:        exitFailed,
	ports.CodeKvOperationFailed:    exitFailed,
	ports.CodeQueueOperationFailed: exitFailed,
	ports.CodeStoreClosed:          exitUnavailable,
	ports.CodeStoreReplaced:        exitFailed,
	ports.CodeOutcomeUnknown:       exitUnknown,
	ports.CodeAuthenticationFailed: exitDenied,
	ports.CodeCheckpointProvenance: exitPrecondition,
}

// exitReasons overrides exitCodes where a script would act differently.
var exitReasons = map[ports.Reason]int{
	ports.ReasonStaleReceipt: exitPrecondition,
	ports.ReasonInUse:        exitUnavailable,
	ports.ReasonReadOnly:     exitDenied,
	ports.ReasonBusy:         exitUnavailable,
	ports.ReasonUnavailable:  exitUnavailable,
	ports.ReasonNoPayload:    exitPrecondition,
	ports.ReasonPaused:       exitPrecondition,
}

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exitf(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

func usagef(format string, args ...any) error { return exitf(exitUsage, format, args...) }

// quietError carries an exit code whose reason has been printed already, or needs no words.
type quietError struct{ code int }

func (e *quietError) Error() string { return "exit code " + strconv.Itoa(e.code) }

// ranError is the error of a command that was begun. What comes from cobra itself is not one: it is
// about the command line.
type ranError struct{ err error }

func (e *ranError) Error() string { return e.err.Error() }
func (e *ranError) Unwrap() error { return e.err }

func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	var quiet *quietError
	if errors.As(err, &quiet) {
		return quiet.code
	}
	var own *exitError
	if errors.As(err, &own) {
		return own.code
	}
	var ran *ranError
	if !errors.As(err, &ran) {
		return exitUsage
	}
	var e *ports.Error
	if errors.As(err, &e) {
		if e.Code == ports.CodeInvalidConfig && errors.Is(err, fs.ErrPermission) {
			return exitDenied // nothing is wrong with the configuration
		}
		if code, ok := exitReasons[e.Reason]; ok {
			return code
		}
		if code, ok := exitCodes[e.Code]; ok {
			return code
		}
		return exitFailed
	}
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return exitDenied
	case errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	}
	return exitFailed
}

// describe gives an error its words: of an error of a port the message and the code, since the
// operation is what the user has just typed.
func describe(err error) string {
	var ran *ranError
	if errors.As(err, &ran) {
		err = ran.err
	}
	var e *ports.Error
	if !errors.As(err, &e) {
		var stopped *interruption
		switch {
		case errors.As(err, &stopped):
			return stopped.Error()
		case errors.Is(err, context.Canceled):
			return "stopped before it was done"
		}
		return err.Error()
	}
	text, inner := err.Error(), e.Error()
	code := string(e.Code)
	if e.Reason != "" {
		code += "/" + string(e.Reason)
	}
	message := e.Message
	if message == "" {
		message = "no details were given"
	}
	message += " (" + code + ")"
	if strings.Contains(text, inner) {
		return strings.Replace(text, inner, message, 1)
	}
	return message
}

// oneLine keeps an error on its line, and keeps control characters of a path or an answer away from
// the terminal.
func oneLine(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	return printable(text)
}

// printable escapes what a terminal would obey or could not show.
func printable(text string) string {
	if strings.IndexFunc(text, hidden) < 0 && strings.ToValidUTF8(text, "") == text {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		if r == unicode.ReplacementChar && !strings.HasPrefix(text[i:], string(unicode.ReplacementChar)) {
			fmt.Fprintf(&b, `\x%02x`, text[i])
			continue
		}
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

func hidden(r rune) bool { return !unicode.IsPrint(r) && r != unicode.ReplacementChar }
