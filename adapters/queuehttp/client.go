package queuehttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Client is a queue behind an owner. Each call sends exactly one request, or none if the input is
// refused; none is ever repeated (R130).
//
// Errors are the ones that the owner's queue returned, with these of its own:
//   - QUEUE_OPERATION_FAILED with [ports.ReasonUnavailable]: nothing was sent, or not all of it, so
//     that nothing can have been done.
//   - OUTCOME_UNKNOWN: the request was sent, and no answer of the protocol came back. It may or may
//     not have been done (R131). After a receive, messages may have been claimed; they come back when
//     their leases end. Stats and Peek change nothing and may simply be asked again.
//
// When the caller's context ends, calls that change nothing, Receive among them, return its error.
// Others do so if the request was not sent, and OUTCOME_UNKNOWN, which wraps the context's error, if
// it was.
type Client struct {
	endpoint  string
	token     func() (string, error)
	transport http.RoundTripper
	timeout   time.Duration
	own       *http.Transport // nil if the transport was given

	closing context.Context // ends with Close
	close   context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// NewClient makes a client for the queue of a binding. It does not connect. A binding that cannot be
// used is BINDING_SETUP_FAILED.
func NewClient(binding Binding, options Options) (*Client, error) {
	const op = "queue.bind"
	if problem := checkEndpoint(binding.Endpoint); problem != "" {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op, "%s", problem)
	}
	if options.Timeout < 0 {
		return nil, ports.Errorf(ports.CodeInvalidConfig, op, "the timeout is %v: give one above 0, or none for %v", options.Timeout, DefaultTimeout)
	}
	c := &Client{
		endpoint:  binding.Endpoint,
		token:     options.Token,
		transport: options.Transport,
		timeout:   options.Timeout,
	}
	if c.token == nil {
		if err := ports.CheckBearer(op, binding.Token); err != nil {
			return nil, ports.Errorf(ports.CodeBindingSetupFailed, op, "the binding cannot be used: %w", err)
		}
		c.token = func() (string, error) { return binding.Token, nil }
	}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	if c.transport == nil {
		c.own = newTransport()
		c.transport = c.own
	}
	c.closing, c.close = context.WithCancel(context.Background())
	return c, nil
}

// newTransport makes a transport that keeps connections for less time than [NewServer] does, so that
// a request rarely meets one that is just being closed.
func newTransport() *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        30 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 32 << 10,
		Protocols:              &protocols,
	}
}

// Close wakes receives that wait, lets other calls finish, and closes the connections. Later calls
// give STORE_CLOSED.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.running.Wait()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

// Send implements [ports.Queue].
func (c *Client) Send(ctx context.Context, payload types.Payload, opts types.SendOptions) error {
	op := portOp(opSend)
	wire, err := checkMessage(op, payload)
	if err != nil {
		return err
	}
	delay, err := ports.CheckDelay(op, opts.Delay)
	if err != nil {
		return err
	}
	return c.call(ctx, call{op: op, request: sendRequest{opSend, &wire, optionalSeconds(delay)}})
}

// checkMessage checks a payload and gives it its form on the wire.
func checkMessage(op string, payload types.Payload) (message, error) {
	stored, err := ports.CheckPayload(op, payload)
	if err != nil {
		return message{}, err
	}
	return encodePayload(stored)
}

// optionalSeconds leaves out a delay of zero, which is the default.
func optionalSeconds(millis int64) json.RawMessage {
	if millis == 0 {
		return nil
	}
	return ports.FormatSeconds(millis)
}

// SendBatch implements [ports.Queue]. Messages that break a rule are rejected here and not sent.
// With the error OUTCOME_UNKNOWN there are outcomes too: unknown for every message that was sent.
func (c *Client) SendBatch(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	op := portOp(opSendBatch)
	if err := ports.CheckBatch(op, len(payloads)); err != nil {
		return nil, err
	}
	outcomes := make([]types.SendOutcome, len(payloads))
	var messages []message
	for i, p := range payloads {
		wire, err := checkMessage(op, p)
		if err != nil {
			outcomes[i] = types.SendOutcome{Status: types.StatusRejected, Err: err}
			continue
		}
		messages = append(messages, wire)
	}
	if len(messages) == 0 {
		return outcomes, c.state(ctx, op)
	}
	var answer resultsAnswer
	err := c.call(ctx, call{op: op, request: sendBatchRequest{opSendBatch, messages}, answer: &answer, check: func() string {
		return countMatters(len(answer.Results), len(messages))
	}})
	if err != nil && !errors.Is(err, ports.ErrOutcomeUnknown) {
		return nil, err
	}
	next := 0
	for i := range outcomes {
		switch {
		case outcomes[i].Status != "":
		case err != nil:
			outcomes[i] = types.SendOutcome{Status: types.StatusUnknown, Err: err}
		default:
			outcomes[i] = sendOutcome(op, answer.Results[next])
			next++
		}
	}
	return outcomes, err
}

func countMatters(got, want int) string {
	if got != want {
		return fmt.Sprintf("it has %d results for %d inputs", got, want)
	}
	return ""
}

func sendOutcome(op string, r result) types.SendOutcome {
	switch status := types.SendStatus(r.Status); {
	case status == types.StatusSent && r.Code == "":
		return types.SendOutcome{Status: status}
	case (status == types.StatusRejected || status == types.StatusUnknown) && r.Code != "":
		return types.SendOutcome{Status: status, Err: r.err(op)}
	}
	return types.SendOutcome{Status: types.StatusUnknown, Err: oddResult(op)}
}

func ackOutcome(op string, r result) types.AckOutcome {
	switch status := types.AckStatus(r.Status); {
	case status == types.AckDone && r.Code == "":
		return types.AckOutcome{Status: status}
	case (status == types.AckRejected || status == types.AckUnknown) && r.Code != "":
		return types.AckOutcome{Status: status, Err: r.err(op)}
	}
	return types.AckOutcome{Status: types.AckUnknown, Err: oddResult(op)}
}

func oddResult(op string) error {
	return ports.Errorf(ports.CodeOutcomeUnknown, op, "the answer has a result that the protocol does not know: what became of this input is unknown")
}

// Receive implements [ports.Queue].
func (c *Client) Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	op := portOp(opReceive)
	check, err := ports.CheckReceive(op, opts)
	if err != nil {
		return nil, err
	}
	maxMessages, err := ports.EncodeJSON(check.Max)
	if err != nil {
		return nil, err
	}
	var answer receiveAnswer
	var messages []types.Message
	err = c.call(ctx, call{
		op:      op,
		request: receiveRequest{opReceive, maxMessages, ports.FormatSeconds(check.LeaseMillis), optionalSeconds(roundUp(check.Wait))},
		answer:  &answer,
		wait:    check.Wait,
		passive: true,
		check: func() (problem string) {
			messages, problem = deliveries(op, answer.Messages, check.Max)
			return problem
		},
	})
	if err != nil {
		return nil, err
	}
	return messages, nil
}

func deliveries(op string, wire []delivery, most int) ([]types.Message, string) {
	if wire == nil || len(wire) > most {
		return nil, fmt.Sprintf("it has %d messages where at most %d were asked for", len(wire), most)
	}
	messages := make([]types.Message, len(wire))
	for i, d := range wire {
		payload, err := checkPayload(op, d.Payload)
		if err != nil || d.ReceiptHandle == "" || d.Attempt < 1 {
			return nil, "it has a message that the protocol does not allow"
		}
		messages[i] = types.Message{Payload: payload, Receipt: d.ReceiptHandle, Attempt: d.Attempt, EnqueuedAt: time.UnixMilli(d.EnqueuedAt).UTC()}
	}
	return messages, ""
}

// checkPayload reads a payload of an answer, which has already been found to be valid JSON.
func checkPayload(op string, m message) (types.Payload, error) {
	if m.Type != string(types.PayloadJSON) && m.Type != string(types.PayloadText) {
		return types.Payload{}, ports.Errorf(ports.CodeInvalidInput, op, "the type of a payload is unknown")
	}
	return m.payload(op)
}

// Ack implements [ports.Queue].
func (c *Client) Ack(ctx context.Context, receipt string) error {
	return c.call(ctx, call{op: portOp(opAck), request: receiptRequest{opAck, &receipt}})
}

// AckBatch implements [ports.Queue]. With the error OUTCOME_UNKNOWN there are outcomes too: unknown
// for every receipt.
func (c *Client) AckBatch(ctx context.Context, receipts []string) ([]types.AckOutcome, error) {
	op := portOp(opAckBatch)
	if err := ports.CheckBatch(op, len(receipts)); err != nil {
		return nil, err
	}
	var answer resultsAnswer
	err := c.call(ctx, call{op: op, request: ackBatchRequest{opAckBatch, receipts}, answer: &answer, check: func() string {
		return countMatters(len(answer.Results), len(receipts))
	}})
	if err != nil && !errors.Is(err, ports.ErrOutcomeUnknown) {
		return nil, err
	}
	outcomes := make([]types.AckOutcome, len(receipts))
	for i := range outcomes {
		if err != nil {
			outcomes[i] = types.AckOutcome{Status: types.AckUnknown, Err: err}
			continue
		}
		outcomes[i] = ackOutcome(op, answer.Results[i])
	}
	return outcomes, err
}

// Nack implements [ports.Queue].
func (c *Client) Nack(ctx context.Context, receipt string, opts types.NackOptions) error {
	op := portOp(opNack)
	delay, err := ports.CheckDelay(op, opts.Delay)
	if err != nil {
		return err
	}
	return c.call(ctx, call{op: op, request: nackRequest{opNack, &receipt, optionalSeconds(delay)}})
}

// Renew implements [ports.Queue].
func (c *Client) Renew(ctx context.Context, receipt string, opts types.RenewOptions) error {
	op := portOp(opRenew)
	lease, err := ports.CheckLease(op, opts.Lease)
	if err != nil {
		return err
	}
	return c.call(ctx, call{op: op, request: renewRequest{opRenew, &receipt, ports.FormatSeconds(lease)}})
}

// Purge implements [ports.Queue].
func (c *Client) Purge(ctx context.Context) error {
	return c.call(ctx, call{op: portOp(opPurge), request: headRequest{opPurge}})
}

// Stats implements [ports.Queue].
func (c *Client) Stats(ctx context.Context) (types.QueueStats, error) {
	var answer struct { // pointers, because a count that is not there is not zero
		Total           *int64 `json:"total"`
		Visible         *int64 `json:"visible"`
		InFlight        *int64 `json:"inFlight"`
		Delayed         *int64 `json:"delayed"`
		Undecodable     *int64 `json:"undecodable"`
		OldestAgeMillis *int64 `json:"oldestAgeMillis"`
	}
	err := c.call(ctx, call{op: portOp(opStats), request: headRequest{opStats}, answer: &answer, passive: true, check: func() string {
		if slices.Contains([]*int64{answer.Total, answer.Visible, answer.InFlight, answer.Delayed, answer.Undecodable, answer.OldestAgeMillis}, nil) {
			return "a count is missing"
		}
		return ""
	}})
	if err != nil {
		return types.QueueStats{}, err
	}
	return ports.WireStats{
		Total: *answer.Total, Visible: *answer.Visible, InFlight: *answer.InFlight, Delayed: *answer.Delayed,
		Undecodable: *answer.Undecodable, OldestAgeMillis: *answer.OldestAgeMillis,
	}.Stats(), nil
}

// Peek implements [ports.Queue].
func (c *Client) Peek(ctx context.Context, opts types.PeekOptions) ([]types.PeekedMessage, error) {
	op := portOp(opPeek)
	most, err := ports.CheckPeek(op, opts)
	if err != nil {
		return nil, err
	}
	maxMessages, err := ports.EncodeJSON(most)
	if err != nil {
		return nil, err
	}
	var answer peekAnswer
	var messages []types.PeekedMessage
	err = c.call(ctx, call{op: op, request: peekRequest{opPeek, maxMessages}, answer: &answer, passive: true, check: func() (problem string) {
		messages, problem = peekedMessages(op, answer.Messages, most)
		return problem
	}})
	if err != nil {
		return nil, err
	}
	return messages, nil
}

func peekedMessages(op string, wire []peeked, most int) ([]types.PeekedMessage, string) {
	if wire == nil || len(wire) > most {
		return nil, fmt.Sprintf("it has %d messages where at most %d were asked for", len(wire), most)
	}
	messages := make([]types.PeekedMessage, len(wire))
	for i, p := range wire {
		m := types.PeekedMessage{
			ID:         p.ID,
			State:      types.MessageState(p.State),
			Attempt:    p.Attempt,
			EnqueuedAt: time.UnixMilli(p.EnqueuedAt).UTC(),
			VisibleAt:  time.UnixMilli(p.VisibleAt).UTC(),
		}
		if p.Payload != nil {
			payload, err := checkPayload(op, *p.Payload)
			if err != nil {
				return nil, "it has a message that the protocol does not allow"
			}
			m.Payload = payload
		}
		messages[i] = m
	}
	return messages, ""
}

// HealthCheck asks the queue for its counts.
func (c *Client) HealthCheck(ctx context.Context) error {
	_, err := c.Stats(ctx)
	return err
}

// call is one request.
type call struct {
	op      string
	request any
	answer  any           // nil for an operation that returns nothing
	check   func() string // says what is wrong with the answer, or nothing
	wait    time.Duration // how long the server may take beyond the timeout
	passive bool          // nothing is lost when the caller gives up
}

// state says whether a call may begin.
func (c *Client) state(ctx context.Context, op string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return closedError(op)
	}
	return ctx.Err()
}

func closedError(op string) error {
	return ports.Errorf(ports.CodeStoreClosed, op, "the client is closed: open another one")
}

// begin counts a call in, unless the client is closed.
func (c *Client) begin(op string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return closedError(op)
	}
	c.running.Add(1)
	return nil
}

var (
	errClosing = errors.New("the client is being closed")
	errTimeout = errors.New("no answer in time")
)

func (c *Client) call(ctx context.Context, call call) error {
	if err := c.begin(call.op); err != nil {
		return err
	}
	defer c.running.Done()
	if err := ctx.Err(); err != nil {
		return err
	}
	token, err := c.token()
	if err != nil {
		return fmt.Errorf("%s: read the token of the queue: %w", call.op, err)
	}
	text, err := ports.EncodeJSON(call.request)
	if err != nil {
		return ports.Errorf(ports.CodeQueueOperationFailed, call.op, "the request could not be encoded: %w", err)
	}

	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(c.timeout+call.wait, func() { cancel(errTimeout) })
	defer limit.Stop()
	if call.wait > 0 {
		stop := context.AfterFunc(c.closing, func() { cancel(errClosing) })
		defer stop()
	}

	body := &requestBody{rest: bytes.NewReader(text)}
	request, err := http.NewRequestWithContext(limited, http.MethodPost, c.endpoint, body)
	if err != nil {
		return ports.Errorf(ports.CodeQueueOperationFailed, call.op, "the request could not be made: %w", err)
	}
	// Without GetBody no transport has a way to send the request again.
	request.GetBody = nil
	request.ContentLength = int64(len(text))
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "stowage")

	// RoundTrip by itself follows no redirect.
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return c.failure(ctx, limited, call, body.cut(), err)
	}
	answer, err := readAnswer(response)
	if err != nil {
		return c.failure(ctx, limited, call, false, err)
	}
	if response.StatusCode != http.StatusOK {
		if err, ok := ports.DecodeWireError(response.StatusCode, answer); ok {
			return err
		}
		return unknown(call.op, fmt.Errorf("the answer is status %d without an error of the protocol; is %s the endpoint of a queue?", response.StatusCode, c.endpoint))
	}
	return decodeAnswer(call, response.Header, answer)
}

func readAnswer(response *http.Response) ([]byte, error) {
	if response.StatusCode == http.StatusSwitchingProtocols { // its body is the connection, which obeys no context
		return nil, errors.Join(errors.New("the answer is to go on in another protocol"), response.Body.Close())
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("the answer has more than %d bytes", maxBody)
	}
	return body, err
}

func decodeAnswer(call call, header http.Header, body []byte) error {
	if media, _, err := mime.ParseMediaType(header.Get("Content-Type")); err != nil || media != "application/json" {
		return unknown(call.op, errors.New("the answer is not application/json"))
	}
	into, options := call.answer, []ports.DecodeOption{ports.AllowUnknown, ports.AsStored}
	if into == nil { // {} and nothing else says that something was done
		into, options = &struct{}{}, nil
	}
	if err := ports.DecodeJSON(body, into, options...); err != nil {
		return unknown(call.op, fmt.Errorf("the answer is not one of the protocol: %w", err))
	}
	if call.check == nil {
		return nil
	}
	if problem := call.check(); problem != "" {
		return unknown(call.op, fmt.Errorf("the answer is not one of the protocol: %s", problem))
	}
	return nil
}

// unknown is the error of a request that was sent and has no answer.
func unknown(op string, cause error) error {
	return ports.Errorf(ports.CodeOutcomeUnknown, op, "the request was sent, and may or may not have been done: %w", cause)
}

// failure is the error of a request without an answer. unsent says that the server cannot have got
// all of it.
func (c *Client) failure(ctx, limited context.Context, call call, unsent bool, err error) error {
	switch cause := context.Cause(limited); {
	case ctx.Err() != nil && (unsent || call.passive):
		return ctx.Err()
	case ctx.Err() != nil:
		return unknown(call.op, ctx.Err())
	case errors.Is(cause, errClosing):
		return closedError(call.op)
	case errors.Is(cause, errTimeout):
		// What the transport says is the context's error, which is not the caller's.
		err = fmt.Errorf("no answer within %v", c.timeout+call.wait)
	}
	if unsent {
		return ports.Errorf(ports.CodeQueueOperationFailed, call.op, "nothing answers at %s, and nothing was sent: %w; is the owner running?", c.endpoint, err).
			WithReason(ports.ReasonUnavailable)
	}
	return unknown(call.op, err)
}

// requestBody knows whether the transport has taken any of it.
type requestBody struct {
	mu    sync.Mutex
	rest  *bytes.Reader
	taken bool
	ended bool
}

var errCut = errors.New("the request was given up")

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, errCut
	}
	n, err := b.rest.Read(p)
	b.taken = b.taken || n > 0
	return n, err
}

// Close implements io.Closer.
func (b *requestBody) Close() error { return nil }

// cut lets no more of the body out, and reports whether none of it was: the server then cannot have
// got a whole request, whatever the transport still does.
func (b *requestBody) cut() (unsent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return !b.taken
}
