package queuehttp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// PathPrefix is what the path of every queue starts with; its id follows.
const PathPrefix = "/v1/queues/"

// releaseTimeout is how long the handler tries to give back what it claimed for nobody.
const releaseTimeout = 5 * time.Second

// Handler serves the queues of an owner at POST /v1/queues/<id>.
func Handler(owner ports.QueueOwner, options HandlerOptions) http.Handler {
	return &handler{owner: owner, HandlerOptions: options.withDefaults()}
}

type handler struct {
	HandlerOptions
	owner ports.QueueOwner
	gate  gate
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const op = "queue.request"
	id, ok := strings.CutPrefix(r.URL.Path, PathPrefix)
	if !ok || id == "" || strings.Contains(id, "/") {
		ports.Refuse(w, r, h.Log, ports.Errorf(ports.CodeNotFound, op, "there is nothing at this path: queues are at %s<id>", PathPrefix))
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		ports.Refuse(w, r, h.Log, ports.WithStatus(ports.Errorf(ports.CodeInvalidInput, op, "the method is not POST"), http.StatusMethodNotAllowed))
		return
	}
	if err := h.authenticate(r, id); err != nil {
		ports.Refuse(w, r, h.Log, err)
		return
	}
	v := &visit{gate: &h.gate, id: id}
	defer v.leave()
	if large := r.ContentLength < 0 || r.ContentLength > largeBody && r.ContentLength <= maxBody; large {
		if err := v.enter(r.Context(), h.BodyTimeout); err != nil {
			ports.Refuse(w, r, h.Log, err)
			return
		}
	}
	body, err := ports.ReadBody(op, w, r, ports.BodyOptions{Limit: maxBody, Timeout: h.BodyTimeout})
	if err != nil {
		ports.Refuse(w, r, h.Log, err)
		return
	}
	answer, err := h.run(r.Context(), v, body)
	if err != nil {
		answer.undo(h)
		h.fail(w, r, err)
		return
	}
	text, err := ports.EncodeJSON(answer.body)
	if err != nil {
		answer.undo(h)
		h.fail(w, r, err)
		return
	}
	// A client that is gone by now shall not keep the messages until their leases end.
	if err := r.Context().Err(); err != nil && len(answer.receipts) > 0 {
		answer.undo(h)
		h.fail(w, r, err)
		return
	}
	if err := ports.WriteJSON(w, http.StatusOK, text, h.WriteTimeout); err != nil {
		h.Log.Debug("the answer did not reach its receiver", "queue", id, "error", err)
		answer.undo(h)
	}
}

// authenticate gives one and the same error for a missing token, a wrong one, and a queue that is
// not there.
func (h *handler) authenticate(r *http.Request, id string) error {
	token := ports.BearerToken(r.Header)
	if token == "" || ports.CheckQueueID("", id) != nil {
		return unauthenticated()
	}
	err := h.owner.Authenticate(r.Context(), id, token)
	switch {
	case err == nil, errors.Is(err, ports.ErrStoreClosed), ports.IsTransient(err):
		return err
	case !errors.Is(err, ports.ErrAuthenticationFailed) && r.Context().Err() == nil:
		// Such as a credential file with too loose a mode: for the operator, not for whoever asks.
		h.Log.Warn("a token could not be checked", "queue", id, "error", err)
	}
	return unauthenticated()
}

func unauthenticated() error {
	return ports.Errorf(ports.CodeAuthenticationFailed, "queue.authenticate", "the token is missing or wrong, or there is no such queue: take both from \"stowage queue binding\"")
}

// fail answers with an error. To a client that has left nobody listens; its own context's error is
// then no failure of the server.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		ports.WriteError(w, r, h.Log, err)
		return
	}
	h.Log.Debug("the client left before it was answered", "path", r.URL.Path, "error", err)
	gone := ports.Errorf(ports.CodeStoreClosed, "queue.request", "the request was given up before it was done: nothing is held for it")
	ports.WriteError(w, r, slog.New(slog.DiscardHandler), gone)
}

// answer is what an operation returned, and what it has claimed.
type answer struct {
	body     any
	queue    ports.Queue
	receipts []string
}

// undo gives back what was claimed for a receiver that will never see it.
func (a answer) undo(h *handler) {
	if len(a.receipts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	if err := release(ctx, a.queue, a.receipts); err != nil {
		h.Log.Warn("messages whose receiver had gone could not be released: they come back when their leases end", "count", len(a.receipts), "error", err)
	}
}

func release(ctx context.Context, q ports.Queue, receipts []string) error {
	if r, ok := q.(ports.Releaser); ok {
		return r.Release(ctx, receipts)
	}
	var failures []error
	for _, receipt := range receipts {
		if err := q.Nack(ctx, receipt, types.NackOptions{}); err != nil && !errors.Is(err, ports.ErrStaleReceipt) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

type operation func(ctx context.Context, q ports.Queue) (answer, error)

// operations parse the request of an operation, and return what is to be done once it is found good.
var operations = map[string]func(op string, body []byte) (operation, error){
	opSend:      parseSend,
	opSendBatch: parseSendBatch,
	opReceive:   parseReceive,
	opAck:       parseAck,
	opAckBatch:  parseAckBatch,
	opNack:      parseNack,
	opRenew:     parseRenew,
	opPurge:     parsePurge,
	opStats:     parseStats,
	opPeek:      parsePeek,
}

func (h *handler) run(ctx context.Context, v *visit, body []byte) (answer, error) {
	const op = "queue.request"
	var head headRequest
	if err := ports.DecodeBody(op, body, &head, ports.AllowUnknown); err != nil {
		return answer{}, err
	}
	parse, ok := operations[head.Operation]
	if !ok {
		return answer{}, ports.Errorf(ports.CodeInvalidInput, op, "the operation is %.64q: use send, sendBatch, receive, ack, ackBatch, nack, renew, purge, stats or peek", head.Operation)
	}
	do, err := parse(portOp(head.Operation), body)
	if err != nil {
		return answer{}, err
	}
	if head.Operation == opPeek { // which can show the same messages to any number of clients
		if err := v.enter(ctx, h.BodyTimeout); err != nil {
			return answer{}, err
		}
	}
	q, err := h.owner.Queue(ctx, v.id)
	if errors.Is(err, ports.ErrNotFound) { // deleted since the token was found good
		return answer{}, unauthenticated()
	}
	if err != nil {
		return answer{}, err
	}
	a, err := do(ctx, q)
	a.queue = q
	return a, err
}

// done is the answer of an operation that returns nothing.
func done(err error) (answer, error) { return answer{body: struct{}{}}, err }

func parseSend(op string, body []byte) (operation, error) {
	var request sendRequest
	if err := ports.DecodeBody(op, body, &request); err != nil {
		return nil, err
	}
	if request.Message == nil {
		return nil, missing(op, "message")
	}
	payload, err := request.Message.payload(op)
	if err != nil {
		return nil, err
	}
	delay, err := seconds(op, "delaySeconds", request.DelaySeconds)
	return func(ctx context.Context, q ports.Queue) (answer, error) {
		return done(q.Send(ctx, payload, types.SendOptions{Delay: delay}))
	}, err
}

func parseSendBatch(op string, body []byte) (operation, error) {
	var request sendBatchRequest
	if err := ports.DecodeBody(op, body, &request); err != nil {
		return nil, err
	}
	if err := ports.CheckBatch(op, len(request.Messages)); err != nil {
		return nil, err
	}
	outcomes := make([]types.SendOutcome, len(request.Messages))
	var payloads []types.Payload
	for i, m := range request.Messages {
		payload, err := m.payload(op)
		if err != nil {
			outcomes[i] = types.SendOutcome{Status: types.StatusRejected, Err: err}
			continue
		}
		payloads = append(payloads, payload)
	}
	return func(ctx context.Context, q ports.Queue) (answer, error) {
		if len(payloads) > 0 {
			sent, err := q.SendBatch(ctx, payloads)
			if err != nil {
				return answer{}, err
			}
			if !merge(outcomes, sent) {
				return answer{}, ports.Errorf(ports.CodeOutcomeUnknown, op, "the queue got %d messages and returned %d outcomes: what became of the batch is unknown", len(payloads), len(sent))
			}
		}
		results := make([]result, len(outcomes))
		for i, o := range outcomes {
			results[i] = newResult(string(o.Status), o.Err)
		}
		return answer{body: resultsAnswer{results}}, nil
	}, nil
}

// merge puts the outcomes of what was sent into the places that are still empty, and reports whether
// there was one for each.
func merge(outcomes, sent []types.SendOutcome) bool {
	for i := range outcomes {
		if outcomes[i].Status != "" {
			continue
		}
		if len(sent) == 0 {
			return false
		}
		outcomes[i], sent = sent[0], sent[1:]
	}
	return len(sent) == 0
}

func parseReceive(op string, body []byte) (operation, error) {
	var request receiveRequest
	if err := ports.DecodeBody(op, body, &request); err != nil {
		return nil, err
	}
	var options types.ReceiveOptions
	var err error
	if options.Max, err = count(op, "maxMessages", request.MaxMessages); err != nil {
		return nil, err
	}
	if options.Lease, err = lease(op, request.LeaseSeconds); err != nil {
		return nil, err
	}
	if options.Wait, err = seconds(op, "waitSeconds", request.WaitSeconds); err != nil {
		return nil, err
	}
	return func(ctx context.Context, q ports.Queue) (answer, error) {
		messages, err := q.Receive(ctx, options)
		if err != nil {
			return answer{}, err
		}
		a := answer{receipts: make([]string, len(messages))}
		deliveries := make([]delivery, len(messages))
		for i, m := range messages {
			a.receipts[i] = m.Receipt
		}
		for i, m := range messages {
			payload, err := encodePayload(m.Payload)
			if err != nil {
				return a, err
			}
			deliveries[i] = delivery{payload, m.Receipt, m.Attempt, m.EnqueuedAt.UnixMilli()}
		}
		a.body = receiveAnswer{deliveries}
		return a, nil
	}, nil
}

func parseAck(op string, body []byte) (operation, error) {
	var request receiptRequest
	if err := ports.DecodeBody(op, body, &request); err != nil {
		return nil, err
	}
	if request.ReceiptHandle == nil {
		return nil, missing(op, "receiptHandle")
	}
	return func(ctx context.Context, q ports.Queue) (answer, error) {
		return done(q.Ack(ctx, *request.ReceiptHandle))
	}, nil
}

func parseAckBatch(op string, body []byte) (operation, error) {
	var request ackBatchRequest
	if err := ports.DecodeBody(op, body, &request); err != nil {
		return nil, err
	}
	if err := ports.CheckBatch(op, len(request.ReceiptHandles)); err != nil {
		return nil, err
	}
	return func(ctx context.Context, q ports.Queue) (answer, error) {
		outcomes, err := q.AckBatch(ctx, request.ReceiptHandles)
		if err != nil {
			return answer{}, err
		}
		results := make([]result, len(outcomes))
		for i, o := range outcomes {
			results[i] = newResult(string(o.Status), o.Err)
		}
		return answer{body: resultsAnswer{results}}, nil
	}, nil
}

func parseNack(op string, body []byte) (operation, error) {
	var request nackRequest
	if err := ports.DecodeBody(op, body, &request); err != nil {
		return nil, err
	}
	if request.ReceiptHandle == nil {
		return nil, missing(op, "receiptHandle")
	}
	delay, err := seconds(op, "delaySeconds", request.DelaySeconds)
	return func(ctx context.Context, q ports.Queue) (answer, error) {
		return done(q.Nack(ctx, *request.ReceiptHandle, types.NackOptions{Delay: delay}))
	}, err
}

func parseRenew(op string, body []byte) (operation, error) {
	var request renewRequest
	if err := ports.DecodeBody(op, body, &request); err != nil {
		return nil, err
	}
	if request.ReceiptHandle == nil {
		return nil, missing(op, "receiptHandle")
	}
	length, err := lease(op, request.LeaseSeconds)
	return func(ctx context.Context, q ports.Queue) (answer, error) {
		return done(q.Renew(ctx, *request.ReceiptHandle, types.RenewOptions{Lease: length}))
	}, err
}

func parsePurge(op string, body []byte) (operation, error) {
	return func(ctx context.Context, q ports.Queue) (answer, error) {
		return done(q.Purge(ctx))
	}, ports.DecodeBody(op, body, &headRequest{})
}

func parseStats(op string, body []byte) (operation, error) {
	return func(ctx context.Context, q ports.Queue) (answer, error) {
		stats, err := q.Stats(ctx)
		return answer{body: ports.NewWireStats(stats)}, err
	}, ports.DecodeBody(op, body, &headRequest{})
}

func parsePeek(op string, body []byte) (operation, error) {
	var request peekRequest
	if err := ports.DecodeBody(op, body, &request); err != nil {
		return nil, err
	}
	most, err := count(op, "maxMessages", request.MaxMessages)
	return func(ctx context.Context, q ports.Queue) (answer, error) {
		messages, err := q.Peek(ctx, types.PeekOptions{Max: most})
		if err != nil {
			return answer{}, err
		}
		looked := make([]peeked, len(messages))
		for i, m := range messages {
			looked[i] = peeked{m.ID, nil, string(m.State), m.Attempt, m.EnqueuedAt.UnixMilli(), m.VisibleAt.UnixMilli()}
			if m.State == types.StateUndecodable {
				continue
			}
			payload, err := encodePayload(m.Payload)
			if err != nil {
				return answer{}, err
			}
			looked[i].Payload = &payload
		}
		return answer{body: peekAnswer{looked}}, nil
	}, err
}

func missing(op, member string) error {
	return ports.Errorf(ports.CodeInvalidInput, op, "the request has no %q", member)
}
