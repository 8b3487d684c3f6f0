package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	maxRedirects   = 5
	maxAnswerBytes = 64 << 10
	// maxPlace is how many bytes of a URL stand in an error.
	maxPlace = 512
	// drainTime is how long the rest of an answer is waited for, so that its connection can be used
	// again. The head has told the outcome by then.
	drainTime = 500 * time.Millisecond
	// idleTime is below what the usual servers keep a connection for (5 seconds and more), so that a
	// request rarely meets one that is just being closed: it would not be repeated.
	idleTime = 4 * time.Second
	// maxRetryAfter bounds how long a receiver can make its events wait.
	maxRetryAfter = time.Hour
)

// Sink delivers events by POST. It implements ports.Sink and io.Closer, and may be used by many
// goroutines.
//
// Its errors, beside those of the context:
//   - INVALID_INPUT: the event has no JSON form.
//   - BACKEND_FAILED with [ports.ReasonUnavailable]: no connection, or it ended before the body was begun.
//     Transient.
//   - OUTCOME_UNKNOWN: the connection ended, or the time ran out, before an answer. Transient.
//   - BACKEND_FAILED with [ports.ReasonRateLimited] and its time: the answer bears a Retry-After.
//   - BACKEND_FAILED, transient or permanent: the answer was any other but 2xx.
//   - BACKEND_FAILED, permanent: the name leads to an address that is not allowed.
//   - STORE_CLOSED: the sink is closed.
type Sink struct {
	target    *url.URL
	secrets   Secrets
	header    http.Header
	timeout   time.Duration
	clock     ports.Clock
	transport *http.Transport

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// NewSink makes a sink. It connects to nothing. Options that cannot be used are INVALID_CONFIG.
func NewSink(options Options) (*Sink, error) {
	target, err := options.target()
	if err != nil {
		return nil, err
	}
	s := &Sink{
		target:    target,
		secrets:   options.Secrets,
		header:    options.Header.Clone(),
		timeout:   options.Timeout,
		clock:     options.Clock,
		transport: newTransport(options),
	}
	if s.header == nil {
		s.header = http.Header{}
	}
	if s.header.Get("User-Agent") == "" {
		s.header.Set("User-Agent", userAgent)
	}
	s.header.Set("Content-Type", contentType)
	if s.timeout == 0 {
		s.timeout = DefaultTimeout
	}
	if s.clock == nil {
		s.clock = ports.SystemClock()
	}
	return s, nil
}

func newTransport(options Options) *http.Transport {
	dialer := &net.Dialer{KeepAlive: 15 * time.Second}
	if !options.AllowPrivate {
		dialer.Control = refusePrivate
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // behind one, the address that is connected to says nothing
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: options.RootCAs, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        idleTime,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 32 << 10,
		Protocols:              &protocols,
	}
}

// Deliver implements ports.Sink.
func (s *Sink) Deliver(ctx context.Context, event types.SinkEvent) error {
	const op = "sink.deliver"
	body, err := encode(event)
	if err != nil {
		return ports.Errorf(ports.CodeInvalidInput, op, "the event has no form in which it can be delivered: %w", err)
	}
	if err := s.begin(op); err != nil {
		return err
	}
	defer s.running.Done()
	if err := ctx.Err(); err != nil {
		return err
	}
	// The time runs on the machine's clock, as connections do.
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()

	at := s.clock.Now()
	header := s.header.Clone()
	header.Set(headerID, string(event.Origin().ID))
	header.Set(headerTimestamp, strconv.FormatInt(at.Unix(), 10))
	if len(s.secrets) > 0 {
		header.Set(headerSignature, s.secrets.Sign(string(event.Origin().ID), at, body))
	}
	if ports.IsTraceparent(event.Traceparent) {
		header.Set("Traceparent", event.Traceparent)
	}

	target := s.target
	for range maxRedirects + 1 {
		status, answered, err := s.post(limited, target, header, body)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return s.failure(op, target, err, limited.Err() != nil)
		}
		if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
			return s.outcome(op, target, status, answered)
		}
		if target, err = s.follow(op, target, status, answered); err != nil {
			return err
		}
	}
	return permanent(op, "%s redirects more than %d times: give the sink the url at which it ends", place(s.target), maxRedirects)
}

// begin takes a place among the deliveries that Close waits for.
func (s *Sink) begin(op string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ports.Errorf(ports.CodeStoreClosed, op, "the sink of %s is closed; nothing was delivered", place(s.target))
	}
	s.running.Add(1)
	return nil
}

// Close waits for the deliveries that are under way, each of which ends with its time at the latest, and
// closes the connections. Later deliveries give STORE_CLOSED. Closing again does nothing.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	s.transport.CloseIdleConnections()
	return nil
}

// envelope is the body of a request.
type envelope struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp,omitempty"`
	Data      any    `json:"data"`
}

// encode makes the body: the tagged form of the event with its time in the form that Standard Webhooks
// asks for. The trace context stands in its header.
func encode(event types.SinkEvent) ([]byte, error) {
	var e envelope
	switch {
	case (event.Match == nil) == (event.Emission == nil):
		return nil, errors.New("it holds not exactly one of a match and an emission")
	case event.Match != nil:
		e.Type, e.Data = "match", event.Match
	default:
		e.Type, e.Data = "emission", event.Emission
	}
	origin := event.Origin()
	if err := ports.CheckMatchID("sink.deliver", origin.ID); err != nil {
		return nil, err
	}
	// A time beyond four digits of a year has no form by RFC 3339.
	if at := time.UnixMilli(origin.TS).UTC(); at.Year() >= 0 && at.Year() <= 9999 {
		e.Timestamp = at.Format("2006-01-02T15:04:05.000Z07:00")
	}
	return ports.EncodeJSON(e)
}

var (
	errUnsent = errors.New("nothing was sent")
	// errMaybeSent is in the failures of requests that may have arrived.
	errMaybeSent = errors.New("the request may have arrived")
)

// post makes one request and returns the head of its answer. RoundTrip by itself follows no redirect.
func (s *Sink) post(ctx context.Context, target *url.URL, header http.Header, body []byte) (int, http.Header, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := &requestBody{rest: bytes.NewReader(body)}
	request := (&http.Request{
		Method: http.MethodPost,
		URL:    target,
		Host:   target.Host,
		Header: header,
		// Without GetBody the transport has no way to send the request again, whatever its headers say.
		Body:          sent,
		ContentLength: int64(len(body)),
	}).WithContext(ctx)
	response, err := s.transport.RoundTrip(request)
	switch {
	case err == nil:
		drain(response, cancel)
		return response.StatusCode, response.Header, nil
	case sent.cut():
		return 0, nil, err
	}
	return 0, nil, fmt.Errorf("%w: %w", errMaybeSent, err)
}

// requestBody knows whether the transport has taken any of it.
type requestBody struct {
	mu    sync.Mutex
	rest  *bytes.Reader
	taken bool
	ended bool
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, errUnsent
	}
	n, err := b.rest.Read(p)
	b.taken = b.taken || n > 0
	return n, err
}

// Close implements io.Closer.
func (b *requestBody) Close() error { return nil }

// cut lets no more of the body out, and reports whether none of it was: the receiver then cannot have got
// a whole request, whatever the transport still does.
func (b *requestBody) cut() (unsent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return !b.taken
}

// drain reads the rest of an answer, within bounds, so that its connection can be used again.
func drain(response *http.Response, cancel context.CancelFunc) {
	if response.StatusCode != http.StatusSwitchingProtocols {
		late := time.AfterFunc(drainTime, cancel)
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswerBytes)) // what fails here only costs the connection
		late.Stop()
	}
	_ = response.Body.Close()
}

// follow is where a redirect leads, if it may be followed.
func (s *Sink) follow(op string, from *url.URL, status int, answered http.Header) (*url.URL, error) {
	to, err := from.Parse(answered.Get("Location"))
	if err != nil || answered.Get("Location") == "" {
		return nil, permanent(op, "%s answered %s without saying where to: look at the receiver", place(from), text(status))
	}
	to.Scheme = strings.ToLower(to.Scheme)
	if to.Scheme != s.target.Scheme || !strings.EqualFold(to.Hostname(), s.target.Hostname()) || port(to) != port(s.target) || to.User != nil {
		return nil, permanent(op, "%s answered %s to another place, and events go to no other host, port or scheme: if the receiver has moved there, give the sink its new url", place(from), text(status))
	}
	to.Fragment, to.RawFragment = "", ""
	return to, nil
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// outcome is what a status means. Of the answer only Retry-After is looked at.
func (s *Sink) outcome(op string, target *url.URL, status int, answered http.Header) error {
	at := place(target)
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		err := ports.Errorf(ports.CodeBackendFailed, op, "%s answered %s", at, text(status))
		if pause := retryAfter(answered.Get("Retry-After"), s.clock.Now()); pause > 0 {
			return err.WithRetryAfter(pause)
		}
		return err
	case status == http.StatusGone:
		return permanent(op, "%s answered %s: the receiver wants no more events; remove the sink, or give it another url", at, text(status))
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return permanent(op, "%s answered %s: see whether the secret of the sink is the receiver's, and which headers it wants", at, text(status))
	case status >= 300 && status < 400:
		return permanent(op, "%s answered %s, which would make another request than a POST of it: give the sink the url at which it ends", at, text(status))
	}
	return permanent(op, "%s answered %s: it does not take this event; see whether the url is a webhook of the receiver, and what its log says", at, text(status))
}

// retryAfter is the pause that a header asks for, in seconds or as a date; 0 where it asks none, or in no
// form that is known.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if digits := strings.Trim(text, "0123456789"); text != "" && digits == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter // so many digits are a number still
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// failure is the error of a request that got no answer.
func (s *Sink) failure(op string, target *url.URL, err error, late bool) error {
	if errors.Is(err, errNotPublic) {
		var dial *net.OpError // which says more than the dialer's hook does
		if errors.As(err, &dial) {
			err = dial.Err
		}
		return permanent(op, "nothing was sent to %s: %w; set allow_private = true if that is meant", place(target), err)
	}
	cause := cause(err)
	if late {
		cause = fmt.Errorf("no answer within %v", s.timeout)
	}
	if errors.Is(err, errMaybeSent) {
		return ports.Errorf(ports.CodeOutcomeUnknown, op, "%s may or may not have got the event: %w", place(target), cause)
	}
	return ports.Errorf(ports.CodeBackendFailed, op, "nothing was sent to %s: %w", place(target), cause).WithReason(ports.ReasonUnavailable)
}

// cause is what a transport says about a failure, without anything that came from the receiver or stands
// in the request.
func cause(err error) error {
	var operation *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var name *net.DNSError
	switch {
	case errors.As(err, &certificate):
		return fmt.Errorf("its certificate does not verify: %w", certificate.Err)
	case errors.As(err, &name):
		return name
	case errors.As(err, &operation) && operation.Op != "dial":
		return fmt.Errorf("%s: %w", operation.Op, operation.Err) // the port on this side would make each failure another one
	case operation != nil:
		return operation
	case errors.As(err, &record):
		return errors.New("it does not speak TLS: see whether its scheme is http, not https")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection was closed without an answer")
	}
	return errors.New("the connection failed, or what came back is no answer by HTTP/1")
}

func permanent(op, format string, args ...any) error {
	return ports.Errorf(ports.CodeBackendFailed, op, format, args...).WithClass(ports.Permanent)
}

// place is a URL as errors show it: without its query, which may hold a secret, and cut where it is long,
// because a receiver redirects to any path.
func place(u *url.URL) string {
	text := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	if len(text) > maxPlace {
		return strings.ToValidUTF8(text[:maxPlace], "") + "…"
	}
	return text
}

// text is a status with its name.
func text(status int) string {
	if name := http.StatusText(status); name != "" {
		return fmt.Sprintf("%d %s", status, name)
	}
	return strconv.Itoa(status)
}
