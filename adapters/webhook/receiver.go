package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// MaxBodyBytes is the largest body that a receiver takes. An event has at most 1 MiB, and what stands
// around it is small.
const MaxBodyBytes = 2 << 20

// Delivery is what a receiver got, checked.
type Delivery struct {
	// ID is the match id. Deliveries of the same id are the same match.
	ID string
	// Timestamp is when the request was made, to the second.
	Timestamp time.Time
	Event     types.SinkEvent
	// Traceparent is the W3C trace context of the request, empty where there is none.
	Traceparent string
	// Body is the body as it came.
	Body []byte
}

// ReceiverOptions make a receiver. Handle is required.
type ReceiverOptions struct {
	// Secret is what [ParseSecrets] takes. Empty: signatures are not asked for.
	Secret string
	// Handle takes a delivery. Nil says that it has it for good. After an error the sink delivers it
	// again. It may be called from many goroutines.
	Handle func(context.Context, Delivery) error
	// Clock tells the time; default ports.SystemClock.
	Clock ports.Clock
	// Tolerance is how far the time of a request may lie from now; default [DefaultTolerance].
	Tolerance time.Duration
}

// receiver is the http.Handler of [NewReceiver].
type receiver struct {
	secrets Secrets
	options ReceiverOptions
}

// NewReceiver makes a handler of what the sink sends. It answers 204 once Handle has returned nil, and
// 500, without its error, where that failed. What is no delivery gets 405, 415, 413, 401 for a
// signature that is missing or wrong, or 400, with a line that says what was found, and is not handled.
// The path is left to the mux, and deadlines to the server.
//
// It panics without Handle and on a Secret that ParseSecrets refuses: ask that beforehand for one that
// a user gives.
func NewReceiver(options ReceiverOptions) http.Handler {
	if options.Handle == nil {
		panic("webhook: NewReceiver needs a function that handles deliveries")
	}
	r := &receiver{options: options}
	if options.Secret != "" {
		secrets, err := ParseSecrets(options.Secret)
		if err != nil {
			panic("webhook: NewReceiver: " + err.Error())
		}
		r.secrets = secrets
	}
	if r.options.Clock == nil {
		r.options.Clock = ports.SystemClock()
	}
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a webhook is delivered by POST", http.StatusMethodNotAllowed)
		return
	}
	if media, _, err := mime.ParseMediaType(request.Header.Get("Content-Type")); err != nil || media != contentType {
		http.Error(w, "the content type of a webhook is "+contentType, http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, MaxBodyBytes))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "the body did not arrive whole", http.StatusBadRequest)
		return
	}
	if len(r.secrets) > 0 {
		if err := Verify(request.Header, body, r.secrets, r.options.Clock.Now(), r.options.Tolerance); err != nil {
			http.Error(w, message(err), http.StatusUnauthorized)
			return
		}
	}
	delivery, err := parseDelivery(request.Header, body)
	if err != nil {
		http.Error(w, message(err), http.StatusBadRequest)
		return
	}
	if err := r.options.Handle(request.Context(), delivery); err != nil {
		http.Error(w, "the delivery could not be handled", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// parseDelivery reads what was found to be signed.
func parseDelivery(header http.Header, body []byte) (Delivery, error) {
	const op = "webhook.receive"
	refuse := func(format string, args ...any) (Delivery, error) {
		return Delivery{}, ports.Errorf(ports.CodeInvalidInput, op, format, args...)
	}
	id, at, err := identity(header)
	if err != nil {
		return refuse("the request is no webhook: %w", err)
	}
	var tagged struct {
		Type      string          `json:"type"`
		Timestamp string          `json:"timestamp"`
		Data      json.RawMessage `json:"data"`
	}
	if err := ports.DecodeJSON(body, &tagged, ports.AllowUnknown); err != nil {
		return refuse("the body is no webhook: %w", err)
	}
	if tagged.Type == "" || len(tagged.Data) == 0 {
		return refuse("the body is no webhook: it has no type, or no data")
	}
	delivery := Delivery{ID: id, Timestamp: at, Body: body}
	if err := json.Unmarshal(body, &delivery.Event); err != nil {
		return refuse("the body is no event: %w", err)
	}
	if origin := delivery.Event.Origin(); string(origin.ID) != id {
		return refuse("the header webhook-id names another match than the body")
	}
	if trace := header.Values("Traceparent"); len(trace) == 1 && ports.IsTraceparent(trace[0]) {
		delivery.Traceparent = trace[0]
	}
	return delivery, nil
}

// message is what an error says, without its code.
func message(err error) string {
	var e *ports.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}
