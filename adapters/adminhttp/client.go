package adminhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// maxAnswer bounds an answer in bytes: a list of a hundred thousand queues stays below it.
const maxAnswer = 64 << 20

// ClientOptions refine a client. The zero value is useful.
type ClientOptions struct {
	// Timeout is how long a call may take; zero means 30 seconds. The caller's context may end it
	// earlier.
	Timeout time.Duration
	// Transport carries the requests in place of the client's own, which uses HTTP/1.1, no proxy, and
	// a new connection for each.
	Transport http.RoundTripper
}

// Client administers a daemon: its queues and its storage, and, as a [Control], its pipelines. Each
// call sends one request and never repeats it.
//
// Errors are those that the daemon gave, with these of the client's own: BACKEND_FAILED with
// [ports.ReasonUnavailable] if nothing was sent, or if what failed was a question and nothing can
// have been done; OUTCOME_UNKNOWN if a change was sent and no answer of this API came back.
type Client struct {
	base      string
	token     string
	timeout   time.Duration
	transport http.RoundTripper
}

// NewClient makes a client for the daemon at a base URL such as http://127.0.0.1:7420. It does not
// connect. The token may be empty where only [Client.Live] and [Client.Ready] are called.
func NewClient(base, token string, options ClientOptions) (*Client, error) {
	const op = "admin.connect"
	base, err := checkBase(op, base)
	if err != nil {
		return nil, err
	}
	if token != "" {
		if err := ports.CheckBearer(op, token); err != nil {
			return nil, ports.Errorf(ports.CodeInvalidConfig, op, "the admin token cannot be used: %w", err)
		}
	}
	c := &Client{base, token, options.Timeout, options.Transport}
	if c.timeout == 0 {
		c.timeout = 30 * time.Second
	}
	if c.transport == nil {
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		c.transport = &http.Transport{
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			DisableKeepAlives:      true, // net/http repeats requests on connections that it has kept
			DisableCompression:     true,
			MaxResponseHeaderBytes: 32 << 10,
			Protocols:              &protocols,
		}
	}
	return c, nil
}

// List returns all queues, ordered by id, those that cannot be opened included.
func (c *Client) List(ctx context.Context) ([]types.QueueInfo, error) {
	var list struct {
		Queues *[]queueInfo `json:"queues"`
	}
	if err := c.call(ctx, call{op: "admin.listQueues", path: "/v1/queues", answer: &list, check: func() bool { return list.Queues != nil }}); err != nil {
		return nil, err
	}
	queues := make([]types.QueueInfo, len(*list.Queues))
	for i, info := range *list.Queues {
		queues[i] = info.queueInfo()
	}
	return queues, nil
}

// Get returns one queue.
func (c *Client) Get(ctx context.Context, id string) (types.QueueInfo, error) {
	var info queueInfo
	err := c.queueCall(ctx, id, "", call{op: "admin.getQueue", answer: &info, check: func() bool { return info.ID == id }})
	if err != nil {
		return types.QueueInfo{}, err
	}
	return info.queueInfo(), nil
}

func (q queueInfo) queueInfo() types.QueueInfo {
	info := types.QueueInfo{ID: q.ID}
	switch {
	case q.Error != nil:
		info.Err = q.Error.Err()
	case !q.OK:
		info.Err = ports.Errorf(ports.CodeBackendFailed, "admin.listQueues", "the daemon says that the queue %q is not well, and not why", q.ID)
	}
	return info
}

// Create makes a queue. One that exists is ALREADY_EXISTS.
func (c *Client) Create(ctx context.Context, id string) error {
	return c.queueCall(ctx, id, "", call{op: "admin.createQueue", method: http.MethodPut, status: http.StatusCreated, answer: &queueInfo{}})
}

// Delete removes a queue with its messages and its token. A missing one is NOT_FOUND.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.queueCall(ctx, id, "", call{op: "admin.deleteQueue", method: http.MethodDelete, status: http.StatusNoContent})
}

// Rotate makes a new token, and lets the old one work for the overlap, 0 to 7 days.
func (c *Client) Rotate(ctx context.Context, id string, overlap time.Duration) (types.QueueBinding, error) {
	const op = "admin.rotateToken"
	if err := ports.CheckOverlap(op, overlap); err != nil {
		return types.QueueBinding{}, err
	}
	millis := int64((overlap + time.Millisecond - 1) / time.Millisecond)
	return c.bindingCall(ctx, id, "/token", call{op: op, method: http.MethodPost, request: rotateRequest{ports.FormatSeconds(millis)}})
}

// Binding returns what an application needs to reach the queue.
func (c *Client) Binding(ctx context.Context, id string) (types.QueueBinding, error) {
	return c.bindingCall(ctx, id, "/binding", call{op: "admin.getBinding"})
}

func (c *Client) bindingCall(ctx context.Context, id, below string, call call) (types.QueueBinding, error) {
	var wire ports.WireBinding
	call.answer = &wire
	call.check = func() bool { return wire.Service == ports.ServiceQueueHTTP && wire.Endpoint != "" && wire.Token != "" }
	if err := c.queueCall(ctx, id, below, call); err != nil {
		return types.QueueBinding{}, err
	}
	return types.QueueBinding{Endpoint: wire.Endpoint, Token: wire.Token}, nil
}

// Stats counts the messages of a queue.
func (c *Client) Stats(ctx context.Context, id string) (types.QueueStats, error) {
	var answer struct { // pointers, because a count that is not there is not zero
		Total           *int64 `json:"total"`
		Visible         *int64 `json:"visible"`
		InFlight        *int64 `json:"inFlight"`
		Delayed         *int64 `json:"delayed"`
		Undecodable     *int64 `json:"undecodable"`
		OldestAgeMillis *int64 `json:"oldestAgeMillis"`
	}
	err := c.queueCall(ctx, id, "/stats", call{op: "admin.getStats", answer: &answer, check: func() bool {
		return answer.Total != nil && answer.Visible != nil && answer.InFlight != nil && answer.Delayed != nil && answer.Undecodable != nil && answer.OldestAgeMillis != nil
	}})
	if err != nil {
		return types.QueueStats{}, err
	}
	return ports.WireStats{
		Total: *answer.Total, Visible: *answer.Visible, InFlight: *answer.InFlight, Delayed: *answer.Delayed,
		Undecodable: *answer.Undecodable, OldestAgeMillis: *answer.OldestAgeMillis,
	}.Stats(), nil
}

// Discard removes a row that cannot be decoded. One that is not there is NOT_FOUND, and so is a
// missing queue.
func (c *Client) Discard(ctx context.Context, id string, row int64) error {
	return c.queueCall(ctx, id, "/undecodable/"+strconv.FormatInt(row, 10), call{op: "admin.discardRow", method: http.MethodDelete, status: http.StatusNoContent})
}

// Backup makes the daemon copy a queue, while it is in use, to an absolute path of its machine. A path
// that exists is ALREADY_EXISTS. It takes as long as it takes: only ctx ends it, and then no file is
// left behind.
func (c *Client) Backup(ctx context.Context, id, path string) error {
	return c.queueCall(ctx, id, "/backup", call{op: "admin.backupQueue", method: http.MethodPost, request: backupRequest{path}, status: http.StatusCreated, long: true})
}

// Verify makes the daemon check the whole file of a queue. What is wrong is the error; like Backup it
// takes as long as it takes.
func (c *Client) Verify(ctx context.Context, id string) error {
	return c.queueCall(ctx, id, "/verify", call{op: "admin.verifyQueue", method: http.MethodPost, status: http.StatusNoContent, long: true})
}

// Live returns nil if the daemon's process answers.
func (c *Client) Live(ctx context.Context) error {
	_, err := c.send(ctx, call{op: "admin.live", path: "/livez"})
	return err
}

// Readiness is what a daemon says of itself.
type Readiness struct {
	Ready   bool
	Version string
	Failing []FailingCheck
}

// FailingCheck is one condition that is not met; the daemon's log has more.
type FailingCheck struct {
	Name   string
	Code   ports.Code
	Reason ports.Reason
}

// Ready asks whether the daemon is ready. One that says that it is not is no error.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	var wire struct {
		Ready   *bool     `json:"ready"`
		Version string    `json:"version"`
		Failing []failing `json:"failing"`
	}
	err := c.call(ctx, call{op: "admin.ready", path: "/readyz", also: http.StatusServiceUnavailable, answer: &wire, check: func() bool { return wire.Ready != nil }})
	if err != nil {
		return Readiness{}, err
	}
	r := Readiness{Ready: *wire.Ready, Version: wire.Version}
	for _, f := range wire.Failing {
		r.Failing = append(r.Failing, FailingCheck{f.Check, f.Code, f.Reason})
	}
	return r, nil
}

// call is one request.
type call struct {
	op       string
	method   string // empty means GET
	path     string // with the query
	header   http.Header
	request  any    // nil for none
	raw      []byte // a request as it is, in place of request
	question bool   // it changes nothing, whatever the method
	status   int    // of a success, 0 means 200
	also     int    // another status whose body is an answer, not an error
	answer   any    // nil if none is expected
	partial  any    // takes what an error says beside that it is one; nil if nothing is expected
	check    func() bool
	options  []ports.DecodeOption // of the answer
	long     bool                 // only the caller's context ends it
	stream   io.Writer            // takes the body of a success, in place of the response
}

// queueCall is a call below the path of a queue.
func (c *Client) queueCall(ctx context.Context, id, below string, call call) error {
	if err := ports.CheckQueueID(call.op, id); err != nil {
		return err
	}
	call.path = "/v1/queues/" + url.PathEscape(id) + below
	return c.call(ctx, call)
}

func (c *Client) call(ctx context.Context, call call) error {
	response, err := c.send(ctx, call)
	if err != nil || call.answer == nil {
		return err
	}
	if !isMedia(response.header, "application/json") {
		return c.foreign(call, errors.New("the answer is not application/json"))
	}
	if err := ports.DecodeJSON(response.body, call.answer, append(call.options, ports.AllowUnknown)...); err != nil {
		return c.foreign(call, fmt.Errorf("the answer is not one of this API: %w", err))
	}
	if call.check != nil && !call.check() {
		return c.foreign(call, errors.New("the answer is not one of this API: something is missing from it"))
	}
	return nil
}

type response struct {
	header http.Header
	body   []byte
}

func isMedia(header http.Header, want string) bool {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err == nil && media == want
}

// send sends a request and returns the answer to it, if it is a success.
func (c *Client) send(ctx context.Context, call call) (response, error) {
	if err := ctx.Err(); err != nil {
		return response{}, err
	}
	if call.method == "" {
		call.method = http.MethodGet
	}
	var body io.Reader
	if call.request != nil {
		text, err := ports.EncodeJSON(call.request)
		if err != nil {
			return response{}, ports.Errorf(ports.CodeBackendFailed, call.op, "the request could not be encoded: %w", err)
		}
		body = bytes.NewReader(text)
	}
	if call.raw != nil {
		body = bytes.NewReader(call.raw)
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	if call.long {
		cancel()
		limited, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(traced, call.method, c.base+call.path, body)
	if err != nil {
		return response{}, ports.Errorf(ports.CodeBackendFailed, call.op, "the request could not be made: %w", err)
	}
	if call.header != nil {
		request.Header = call.header
	}
	request.GetBody = nil // no transport has a way to send the request again
	if body != nil && request.Header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	request.Header.Set("User-Agent", "stowage")

	want := call.status
	if want == 0 {
		want = http.StatusOK
	}
	// RoundTrip by itself follows no redirect.
	got, err := c.transport.RoundTrip(request)
	var text []byte
	switch {
	case err != nil:
	case call.stream != nil && got.StatusCode == want && isMedia(got.Header, ndjson):
		to := &errorWriter{to: call.stream}
		switch err := passOn(got, to); {
		case to.err != nil:
			return response{}, to.err
		case err != nil:
			return response{}, c.cutOff(ctx, call, err)
		}
	default:
		text, err = readAnswer(got)
	}
	if err != nil {
		return response{}, c.failure(ctx, limited, call, connected.Load(), err)
	}
	if got.StatusCode == want || got.StatusCode == call.also && call.also != 0 {
		return response{got.Header, text}, nil
	}
	if err, ok := ports.DecodeWireError(got.StatusCode, text); ok {
		if call.partial == nil {
			return response{}, err
		}
		if wrong := ports.DecodeJSON(text, call.partial, ports.AllowUnknown); wrong != nil {
			return response{}, c.foreign(call, wrong)
		}
		return response{}, err
	}
	return response{}, c.foreign(call, fmt.Errorf("the answer is status %d without an error of this API", got.StatusCode))
}

func readAnswer(r *http.Response) ([]byte, error) {
	if r.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, which obeys no context
		return nil, errors.Join(errors.New("the answer is to go on in another protocol"), r.Body.Close())
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer+1))
	if closeErr := r.Body.Close(); err == nil {
		err = closeErr
	}
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return body, err
}

// passOn copies the body of an answer.
func passOn(r *http.Response, to io.Writer) error {
	_, err := io.Copy(to, r.Body)
	if closeErr := r.Body.Close(); err == nil {
		err = closeErr
	}
	return err
}

// errorWriter keeps its own error, which is none of the connection.
type errorWriter struct {
	to  io.Writer
	err error
}

func (e *errorWriter) Write(p []byte) (int, error) {
	n, err := e.to.Write(p)
	if err != nil {
		e.err = err
	}
	return n, err
}

// cutOff is the error of an answer of which a part has been passed on.
func (c *Client) cutOff(ctx context.Context, call call, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return ports.Errorf(ports.CodeBackendFailed, call.op, "the answer of %s was cut off, and what came of it is not whole: %w; the daemon's log says more", c.base, err)
}

// absent reports whether the error says that the record is not there. That the path is not there, as
// with an older daemon, is another matter.
func absent(err error, op string) bool {
	var e *ports.Error
	return errors.As(err, &e) && e.Code == ports.CodeNotFound && e.Op == op
}

// foreign is the error of a request that something else than a daemon seems to have answered.
func (c *Client) foreign(call call, cause error) error {
	if call.changes() {
		return ports.Errorf(ports.CodeOutcomeUnknown, call.op, "the request was sent to %s, and may or may not have been done: %w; is this a stowage daemon?", c.base, cause)
	}
	return ports.Errorf(ports.CodeBackendFailed, call.op, "asked %s: %w; is this a stowage daemon?", c.base, cause)
}

func (call call) changes() bool {
	return call.method != "" && call.method != http.MethodGet && !call.question
}

// failure is the error of a request without an answer.
func (c *Client) failure(ctx, limited context.Context, call call, connected bool, err error) error {
	sent := connected && call.changes()
	switch {
	case ctx.Err() != nil && !sent:
		return ctx.Err()
	case ctx.Err() != nil:
		err = ctx.Err()
	case limited.Err() != nil:
		// What the transport says is the context's error, which is not the caller's.
		err = fmt.Errorf("no answer within %v", c.timeout)
	}
	if sent {
		return ports.Errorf(ports.CodeOutcomeUnknown, call.op, "the request was sent to %s, and may or may not have been done: %w", c.base, err)
	}
	return ports.Errorf(ports.CodeBackendFailed, call.op, "no answer from %s, and nothing was done: %w; is the daemon running?", c.base, err).
		WithReason(ports.ReasonUnavailable)
}
