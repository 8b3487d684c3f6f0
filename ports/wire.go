package ports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stowage-go/stowage/types"
)

// What the HTTP adapters have in common is here, because no adapter imports another: the form of an
// error, of a binding and of counts, how a body is read and an answer written.

// Deadlines and limits of a request, unless an adapter says otherwise.
const (
	DefaultBodyTimeout  = 30 * time.Second // from the head of a request to the end of its body
	DefaultWriteTimeout = 30 * time.Second // for the whole answer, counted from its first byte

	maxWireMessage = 4096 // bytes of an error's message that are taken from the other side
	maxBearer      = 1024 // bytes of a token
)

// ServiceQueueHTTP is the service that the binding of a queue behind an owner names.
const ServiceQueueHTTP = "local-queue-http"

// WireBinding is the JSON form of a [types.QueueBinding]. It shows the token: print one only where
// that is asked for.
type WireBinding struct {
	Service  string `json:"service"`
	Endpoint string `json:"endpoint"`
	Token    string `json:"token"`
}

// NewWireBinding gives a binding its JSON form.
func NewWireBinding(b types.QueueBinding) WireBinding {
	return WireBinding{ServiceQueueHTTP, b.Endpoint, b.Token}
}

// WireStats is the JSON form of [types.QueueStats].
type WireStats struct {
	Total           int64 `json:"total"`
	Visible         int64 `json:"visible"`
	InFlight        int64 `json:"inFlight"`
	Delayed         int64 `json:"delayed"`
	Undecodable     int64 `json:"undecodable"`
	OldestAgeMillis int64 `json:"oldestAgeMillis"`
}

// NewWireStats gives counts their JSON form.
func NewWireStats(s types.QueueStats) WireStats {
	return WireStats{s.Total, s.Visible, s.InFlight, s.Delayed, s.Undecodable, s.OldestAge.Milliseconds()}
}

// Stats is the way back.
func (w WireStats) Stats() types.QueueStats {
	return types.QueueStats{
		Total:       w.Total,
		Visible:     w.Visible,
		InFlight:    w.InFlight,
		Delayed:     w.Delayed,
		Undecodable: w.Undecodable,
		OldestAge:   time.Duration(w.OldestAgeMillis) * time.Millisecond,
	}
}

// WireError is the form of an error over HTTP.
type WireError struct {
	Code           Code        `json:"code"`
	Message        string      `json:"message"`
	Retryable      bool        `json:"retryable"`
	HTTPStatusCode int         `json:"httpStatusCode"`
	Context        WireContext `json:"context,omitzero"`
}

// WireContext is what a client needs, beyond the code, to rebuild the same error.
type WireContext struct {
	Reason Reason `json:"reason,omitempty"`
	Op     string `json:"op,omitempty"`
	// The record and both versions of a VERSION_CONFLICT.
	Key      string `json:"key,omitempty"`
	Expected uint64 `json:"expected,omitempty"`
	Actual   uint64 `json:"actual,omitempty"`
}

// WithStatus gives an error an HTTP status that its code alone does not have, such as 405 or 413. In
// every other respect the error stays what it is.
func WithStatus(err *Error, status int) error { return &statusError{err, status} }

type statusError struct {
	err    *Error
	status int
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// NewWireError gives an error its form over HTTP. One that is no *Error, which only a fault of a
// program can bring about, is reported without its text.
func NewWireError(err error) WireError {
	var e *Error
	if !errors.As(err, &e) {
		e = Errorf(CodeBackendFailed, "", "the server failed in a way that it has no name for: its log has more")
	}
	wire := WireError{
		Code:           e.Code,
		Message:        e.Message,
		Retryable:      e.Retryable(),
		HTTPStatusCode: e.Status(),
		Context:        WireContext{Reason: e.Reason, Op: e.Op},
	}
	var status *statusError
	if errors.As(err, &status) {
		wire.HTTPStatusCode = status.status
	}
	var conflict *VersionConflictError
	if errors.As(err, &conflict) {
		wire.Context.Key, wire.Context.Expected, wire.Context.Actual = conflict.Key, conflict.Expected, conflict.Actual
	}
	return wire
}

// Err rebuilds the error: the code, reason, class and operation that it had where it arose.
func (w WireError) Err() error {
	if w.Code == CodeVersionConflict && w.Context.Key != "" {
		return &VersionConflictError{w.Context.Op, w.Context.Key, w.Context.Expected, w.Context.Actual}
	}
	e := &Error{Code: w.Code, Reason: w.Context.Reason, Op: w.Context.Op, Message: w.Message}
	if len(e.Message) > maxWireMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxWireMessage], "") + "…"
	}
	if e.Retryable() != w.Retryable {
		e.Class = Permanent
		if w.Retryable {
			e.Class = Transient
		}
	}
	return e
}

// DecodeWireError rebuilds the error of an answer with the status. It reports false for a body that
// is not an error of this protocol, such as the page of a proxy.
func DecodeWireError(status int, body []byte) (error, bool) {
	var wire WireError
	if DecodeJSON(body, &wire, AllowUnknown) != nil || !isCode(wire.Code) {
		return nil, false //nolint:nilerr // that it is none of ours is the answer
	}
	if status < 400 || wire.HTTPStatusCode != 0 && wire.HTTPStatusCode != status {
		return nil, false
	}
	return wire.Err(), true
}

func isCode(code Code) bool {
	for i := range len(code) {
		if c := code[i]; !('A' <= c && c <= 'Z' || c == '_' || '0' <= c && c <= '9') {
			return false
		}
	}
	return code != "" && len(code) <= 64
}

// EncodeJSON encodes v as an answer or a request carries it: without escapes for HTML and without a
// line end. A json.RawMessage goes in compact and otherwise byte for byte.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// WriteJSON writes a whole answer and returns once the connection has taken it; an empty body goes
// without a content type. A success does not say that the other side has read it, an error says that
// it has not.
func WriteJSON(w http.ResponseWriter, status int, body []byte, timeout time.Duration) error {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if len(body) > 0 {
		header.Set("Content-Type", "application/json")
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set the deadline of an answer: %w", err)
	}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		return fmt.Errorf("write an answer: %w", err)
	}
	if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("write an answer: %w", err)
	}
	// The deadline would otherwise hold for whatever the connection carries next.
	if err := control.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("clear the deadline of an answer: %w", err)
	}
	return nil
}

// WriteError answers with an error and logs it in one line, without any of the request's content: a
// failure of the server as a warning; a refusal, and what a store says that is being closed, at debug
// level.
func WriteError(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	wire := NewWireError(err)
	level := slog.LevelDebug
	if wire.HTTPStatusCode >= 500 && wire.Code != CodeStoreClosed {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("method", truncate(r.Method)), slog.String("path", truncate(r.URL.Path)),
		slog.String("op", wire.Context.Op), slog.Int("status", wire.HTTPStatusCode),
		slog.String("code", string(wire.Code)), slog.String("reason", string(wire.Context.Reason)),
		slog.String("message", wire.Message),
	}
	var e *Error
	if !errors.As(err, &e) {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	log.LogAttrs(r.Context(), level, "request failed", attrs...)

	body, encodeErr := EncodeJSON(wire)
	if encodeErr != nil {
		log.Error("an error could not be encoded", "error", encodeErr)
		body = nil
	}
	if wire.HTTPStatusCode == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if writeErr := WriteJSON(w, wire.HTTPStatusCode, body, DefaultWriteTimeout); writeErr != nil {
		log.Debug("the answer did not reach its receiver", "error", writeErr)
	}
}

// lingerTimeout is how long a refused request may go on sending. A connection that is closed while data
// arrives is reset, and a reset takes the answer away from a client that has not read it yet.
const lingerTimeout = time.Second

// Refuse is [WriteError] for a request whose body has not been read, and will not be: what still
// arrives is dropped, and the connection is closed after the answer.
func Refuse(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			log.Debug("the deadline of a refused request could not be set", "error", err)
		}
	}
	WriteError(w, r, log, err)
}

// BearerToken returns the token of the one Authorization header, empty if there is none that can be
// one.
func BearerToken(h http.Header) string {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, token, found := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if !found || !strings.EqualFold(scheme, "Bearer") || CheckBearer("", token) != nil {
		return ""
	}
	return token
}

// CheckBearer checks that a token can travel in an Authorization header: 1 to 1,024 of A-Z a-z 0-9
// and - . _ ~ + / with = at the end. The error does not show it.
func CheckBearer(op, token string) error {
	body := strings.TrimRight(token, "=")
	if body == "" || len(token) > maxBearer {
		return invalid(op, "the token has %d characters: give 1 to %d", len(token), maxBearer)
	}
	for i := range len(body) {
		if c := body[i]; !isAlphanumeric(c) && strings.IndexByte("-._~+/", c) < 0 {
			return invalid(op, "the token has a character that none can have, at offset %d", i)
		}
	}
	return nil
}

// BodyOptions bound the body of a request.
type BodyOptions struct {
	Limit   int64         // bytes
	Timeout time.Duration // from now on, zero means [DefaultBodyTimeout]
	// Optional lets a request go without a body; it reads as an empty object.
	Optional bool
	// Types are the content types that the request may have; none means application/json alone.
	Types []string
}

// ReadBody reads the body of a request: 415 for another content type, 413 beyond the limit, 408 when it
// does not arrive in time, all of them INVALID_INPUT. What is in it is not looked at.
func ReadBody(op string, w http.ResponseWriter, r *http.Request, options BodyOptions) ([]byte, error) {
	if options.Optional && r.ContentLength == 0 {
		return []byte("{}"), nil
	}
	if err := checkContent(op, r.Header, options.Types); err != nil {
		return nil, err
	}
	tooLarge := WithStatus(Errorf(CodeInvalidInput, op, "the request has more than %d bytes", options.Limit), http.StatusRequestEntityTooLarge)
	if r.ContentLength > options.Limit {
		return nil, tooLarge
	}
	timeout := options.Timeout
	if timeout == 0 {
		timeout = DefaultBodyTimeout
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("set the deadline of a request: %w", err)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, options.Limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		late := Errorf(CodeInvalidInput, op, "the request did not arrive within %v", timeout)
		late.Class = Transient
		return nil, WithStatus(late, http.StatusRequestTimeout)
	case err != nil:
		return nil, invalid(op, "the request ended early")
	}
	// Clear the deadline: the server goes on reading to notice that a waiting client has gone, and
	// must not take the deadline for that.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("clear the deadline of a request: %w", err)
	}
	if options.Optional && len(body) == 0 {
		return []byte("{}"), nil
	}
	return body, nil
}

func checkContent(op string, h http.Header, allowed []string) error {
	if len(allowed) == 0 {
		allowed = []string{"application/json"}
	}
	wanted := strings.Join(allowed, " or ")
	unsupported := func(format string, args ...any) error {
		return WithStatus(Errorf(CodeInvalidInput, op, format, args...), http.StatusUnsupportedMediaType)
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unsupported("the content encoding is %q: send the request as it is", truncate(encoding))
	}
	given := h.Values("Content-Type")
	if len(given) != 1 {
		return unsupported("the request has %d content types: send one, %s", len(given), wanted)
	}
	media, params, err := mime.ParseMediaType(given[0])
	if err != nil || !slices.Contains(allowed, media) {
		return unsupported("the content type is %q: send %s", truncate(given[0]), wanted)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return unsupported("the character set is %q: send utf-8", truncate(charset))
	}
	return nil
}

// DecodeBody decodes a body that [ReadBody] returned by the rules of [DecodeJSON]. The object itself,
// and each object and array directly in it, has at most 64 entries, so that no request takes many
// times its own size in memory.
func DecodeBody(op string, body []byte, into any, options ...DecodeOption) error {
	if err := DecodeJSON(body, into, append(slices.Clip(options), asRequest)...); err != nil {
		return invalid(op, "the request is not what the protocol has: %w", err)
	}
	return nil
}

// maxSeconds keeps a number of seconds far away from the end of time.Duration; what a duration may
// be is checked afterwards.
const maxSeconds = 1e9

// ParseSeconds reads a number of seconds, in whole milliseconds. The limits of the duration are left
// to whoever uses it.
func ParseSeconds(op, name string, raw json.RawMessage) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if !isJSONNumber(raw) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, invalid(op, "%q is no number: give seconds, such as 30 or 0.25", name)
	}
	if math.Abs(seconds) > maxSeconds {
		return 0, invalid(op, "%q is out of range: give seconds, such as 30 or 0.25", name)
	}
	millis := math.Round(seconds * 1000)
	if math.Abs(seconds*1000-millis) > 1e-6 {
		return 0, invalid(op, "%q is finer than a millisecond: give seconds with at most three decimals", name)
	}
	return time.Duration(millis) * time.Millisecond, nil
}

func isJSONNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || isDigit(raw[0]))
}

// FormatSeconds writes whole milliseconds as a number of seconds that [ParseSeconds] reads back.
func FormatSeconds(millis int64) json.RawMessage {
	text := strconv.FormatInt(millis/1000, 10)
	if rest := millis % 1000; rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", rest), "0")
	}
	return json.RawMessage(text)
}
