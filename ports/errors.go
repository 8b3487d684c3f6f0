package ports

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Code names a kind of failure. It is stable, and the same in every adapter and over HTTP.
type Code string

// The codes. [Codes] has what each stands for.
const (
	CodeInvalidInput         Code = "INVALID_INPUT"
	CodeNotFound             Code = "NOT_FOUND"
	CodeAlreadyExists        Code = "ALREADY_EXISTS"
	CodeVersionConflict      Code = "VERSION_CONFLICT"
	CodeInvalidConfig        Code = "INVALID_CONFIG"
	CodeBindingSetupFailed   Code = "BINDING_SETUP_FAILED"
	CodeBackendFailed        Code = "BACKEND_FAILED"
	CodeKvOperationFailed    Code = "KV_OPERATION_FAILED"
	CodeQueueOperationFailed Code = "QUEUE_OPERATION_FAILED"
	CodeStoreClosed          Code = "STORE_CLOSED"
	CodeStoreReplaced        Code = "STORE_REPLACED"
	CodeOutcomeUnknown       Code = "OUTCOME_UNKNOWN"
	CodeAuthenticationFailed Code = "AUTHENTICATION_FAILED"
	CodeCheckpointProvenance Code = "CHECKPOINT_PROVENANCE"
)

// Class is what a retry policy asks of an error.
type Class string

// The classes. A transient failure may succeed when the same call is made again; a permanent one
// will not.
const (
	Transient Class = "transient"
	Permanent Class = "permanent"
)

// CodeInfo is one row of the table of codes.
type CodeInfo struct {
	Code    Code
	Status  int   // HTTP status, unless a Reason overrides it
	Class   Class // default class, unless a Reason overrides it
	Meaning string
}

// Codes is the one table of codes, in the order in which they are documented.
var Codes = []CodeInfo{
	{CodeInvalidInput, http.StatusBadRequest, Permanent, "the input breaks a rule; nothing was touched"},
	{CodeNotFound, http.StatusNotFound, Permanent, "there is no such record, queue or file"},
	{CodeAlreadyExists, http.StatusConflict, Permanent, "there is one already, and it was left alone"},
	{CodeVersionConflict, http.StatusConflict, Permanent, "the record has another version than expected"},
	{CodeInvalidConfig, http.StatusInternalServerError, Permanent, "the configuration cannot be used"},
	{CodeBindingSetupFailed, http.StatusInternalServerError, Permanent, "the store cannot be opened; nothing was changed"},
	{CodeBackendFailed, http.StatusBadGateway, Transient, "the backend failed; the operation was not done"},
	{CodeKvOperationFailed, http.StatusBadGateway, Transient, "the key-value store failed; the operation was not done"},
	{CodeQueueOperationFailed, http.StatusBadGateway, Transient, "the queue failed or the receipt is stale; the operation was not done"},
	{CodeStoreClosed, http.StatusServiceUnavailable, Transient, "the store or handle is closed; the operation was not done"},
	{CodeStoreReplaced, http.StatusInternalServerError, Permanent, "the store's file was deleted, moved or replaced under it"},
	{CodeOutcomeUnknown, http.StatusBadGateway, Transient, "the connection failed; the operation may or may not have been done"},
	{CodeAuthenticationFailed, http.StatusUnauthorized, Permanent, "the token is missing or wrong, or there is no such queue"},
	{CodeCheckpointProvenance, http.StatusConflict, Permanent, "another module wrote the checkpoint"},
}

// Reason narrows a code down where a caller or an operator would act differently.
type Reason string

// The reasons.
const (
	ReasonStaleReceipt Reason = "stale_receipt" // another delivery of the message has been made
	ReasonInUse        Reason = "in_use"        // another owner holds the store
	ReasonDiskFull     Reason = "disk_full"     // no space, quota or page limit left
	ReasonReadOnly     Reason = "read_only"     // the file, directory or file system cannot be written
	ReasonCorrupt      Reason = "corrupt"       // the file is damaged
	ReasonBusy         Reason = "busy"          // the write lock, or a place for a large request, was not free in time
	ReasonUnsupported  Reason = "unsupported"   // the format or version is not one that this build knows
	ReasonUnavailable  Reason = "unavailable"   // nothing answered, and nothing was sent
	ReasonRevoked      Reason = "revoked"       // the queue behind the handle was deleted
	ReasonUndecodable  Reason = "undecodable"   // a stored record cannot be read
	ReasonNoPayload    Reason = "no_payload"    // a dead letter of an older file has nothing to replay
	ReasonPaused       Reason = "paused"        // an operator has paused what the request needs
	ReasonRateLimited  Reason = "rate_limited"  // the receiver asks for a pause
)

type reasonInfo struct {
	status int
	class  Class
}

var reasons = map[Reason]reasonInfo{
	ReasonStaleReceipt: {http.StatusConflict, Permanent},
	ReasonInUse:        {http.StatusConflict, Permanent},
	ReasonDiskFull:     {http.StatusInsufficientStorage, Transient},
	ReasonReadOnly:     {http.StatusInternalServerError, Permanent},
	ReasonCorrupt:      {http.StatusInternalServerError, Permanent},
	ReasonBusy:         {http.StatusServiceUnavailable, Transient},
	ReasonUnsupported:  {http.StatusInternalServerError, Permanent},
	ReasonUnavailable:  {http.StatusServiceUnavailable, Transient},
	ReasonRevoked:      {http.StatusServiceUnavailable, Permanent},
	ReasonUndecodable:  {http.StatusInternalServerError, Permanent},
	ReasonNoPayload:    {http.StatusConflict, Permanent},
	ReasonPaused:       {http.StatusConflict, Transient},
	ReasonRateLimited:  {http.StatusTooManyRequests, Transient},
}

// Error is the error of every adapter. Message says what was attempted, on which path or key, what
// was found and what to do; it never holds a secret or a payload.
type Error struct {
	Code    Code
	Reason  Reason // empty for most
	Op      string // the operation: "kv.put", "queue.receive", …
	Message string
	Class   Class // empty means the default of Reason, then of Code
	Err     error // the cause, if any
	// RetryAfter is how long whoever failed asks to be left alone; 0 if it asked nothing.
	RetryAfter time.Duration
}

// Sentinels for errors.Is. One with a Reason matches only errors with that reason; one without a
// code matches that reason under any code.
var (
	ErrInvalidInput         = &Error{Code: CodeInvalidInput}
	ErrNotFound             = &Error{Code: CodeNotFound}
	ErrAlreadyExists        = &Error{Code: CodeAlreadyExists}
	ErrVersionConflict      = &Error{Code: CodeVersionConflict}
	ErrInvalidConfig        = &Error{Code: CodeInvalidConfig}
	ErrBindingSetupFailed   = &Error{Code: CodeBindingSetupFailed}
	ErrBackendFailed        = &Error{Code: CodeBackendFailed}
	ErrKvOperationFailed    = &Error{Code: CodeKvOperationFailed}
	ErrQueueOperationFailed = &Error{Code: CodeQueueOperationFailed}
	ErrStoreClosed          = &Error{Code: CodeStoreClosed}
	ErrStoreReplaced        = &Error{Code: CodeStoreReplaced}
	ErrOutcomeUnknown       = &Error{Code: CodeOutcomeUnknown}
	ErrAuthenticationFailed = &Error{Code: CodeAuthenticationFailed}
	ErrCheckpointProvenance = &Error{Code: CodeCheckpointProvenance}

	ErrStaleReceipt = &Error{Code: CodeQueueOperationFailed, Reason: ReasonStaleReceipt}
	ErrRevoked      = &Error{Code: CodeStoreClosed, Reason: ReasonRevoked}
	ErrInUse        = &Error{Reason: ReasonInUse}
	ErrDiskFull     = &Error{Reason: ReasonDiskFull}
	ErrReadOnly     = &Error{Reason: ReasonReadOnly}
	ErrCorrupt      = &Error{Reason: ReasonCorrupt}
	ErrBusy         = &Error{Reason: ReasonBusy}
	ErrUnsupported  = &Error{Reason: ReasonUnsupported}
	ErrUnavailable  = &Error{Reason: ReasonUnavailable}
	ErrUndecodable  = &Error{Reason: ReasonUndecodable}
	ErrNoPayload    = &Error{Reason: ReasonNoPayload}
	ErrPaused       = &Error{Reason: ReasonPaused}
	ErrRateLimited  = &Error{Reason: ReasonRateLimited}
)

// Errorf makes an error with a formatted message; its %w operands become its cause.
func Errorf(code Code, op, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	cause := errors.Unwrap(err)
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		cause = errors.Join(several.Unwrap()...)
	}
	return &Error{Code: code, Op: op, Message: err.Error(), Err: cause}
}

// WithReason returns a copy of e with the reason.
func (e *Error) WithReason(reason Reason) *Error {
	c := *e
	c.Reason = reason
	return &c
}

// WithClass returns a copy of e with a class of its own.
func (e *Error) WithClass(class Class) *Error {
	c := *e
	c.Class = class
	return &c
}

// WithRetryAfter returns a copy of e that asks for a pause; its reason is rate_limited.
func (e *Error) WithRetryAfter(pause time.Duration) *Error {
	c := e.WithReason(ReasonRateLimited)
	c.RetryAfter = pause
	return c
}

// RetryAfter is the pause that an error asks for, and whether it asks for one.
func RetryAfter(err error) (time.Duration, bool) {
	var e *Error
	if !errors.As(err, &e) || e.Reason != ReasonRateLimited {
		return 0, false
	}
	return max(e.RetryAfter, 0), true
}

// Error gives the operation, the code and the message.
func (e *Error) Error() string {
	head := string(e.Code)
	if e.Reason != "" {
		head += "/" + string(e.Reason)
	}
	if e.Op != "" {
		head = e.Op + ": " + head
	}
	if e.Message == "" {
		return head
	}
	return head + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is match by code and reason; see the sentinels.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	if !ok || t.Op != "" || t.Message != "" || t.Err != nil {
		return false
	}
	return (t.Code == "" || t.Code == e.Code) && (t.Reason == "" || t.Reason == e.Reason)
}

// Retryable reports whether the class is transient.
func (e *Error) Retryable() bool {
	if e.Class != "" {
		return e.Class == Transient
	}
	// A reason that this build does not know, as from a newer server, changes nothing.
	if info, ok := reasons[e.Reason]; ok {
		return info.class == Transient
	}
	return infoOf(e.Code).Class == Transient
}

// Status is the HTTP status under which the error is reported.
func (e *Error) Status() int {
	if info, ok := reasons[e.Reason]; ok && e.Code != CodeAuthenticationFailed {
		return info.status
	}
	return infoOf(e.Code).Status
}

func infoOf(code Code) CodeInfo {
	for _, info := range Codes {
		if info.Code == code {
			return info
		}
	}
	return CodeInfo{Code: code, Status: http.StatusInternalServerError, Class: Permanent}
}

// VersionConflictError is the error of a write that expected another version (R163).
type VersionConflictError struct {
	Op       string
	Key      string
	Expected uint64
	Actual   uint64
}

// Error names the record and both versions.
func (e *VersionConflictError) Error() string {
	return e.asError().Error()
}

// Is matches [ErrVersionConflict].
func (e *VersionConflictError) Is(target error) bool { return e.asError().Is(target) }

// As lets errors.As take e as an [*Error], so that one handler serves all errors of a port.
func (e *VersionConflictError) As(target any) bool {
	t, ok := target.(**Error)
	if ok {
		*t = e.asError()
	}
	return ok
}

func (e *VersionConflictError) asError() *Error {
	return Errorf(CodeVersionConflict, e.Op, "%s: expected version %d, found %d; read it again and repeat", e.Key, e.Expected, e.Actual)
}

// IsTransient reports whether the same call may succeed later. A context's own error is not: its
// caller gave up.
func IsTransient(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var e *Error
	return errors.As(err, &e) && e.Retryable()
}
