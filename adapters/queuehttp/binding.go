package queuehttp

import (
	"net/url"
	"strings"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// BindingService is the service that a binding of this package names.
const BindingService = ports.ServiceQueueHTTP

// legacyService is the service of bindings to a queue's files.
const legacyService = "local-queue"

// Binding is what an application needs to reach a queue. It hides its token from fmt, slog and
// encoding/json.
type Binding = types.QueueBinding

// ParseBinding reads the JSON form of a binding: {"service":"local-queue-http","endpoint","token"}.
// A binding of another service, or one that is malformed, is BINDING_SETUP_FAILED; so is one to the
// files of a queue, which nothing opens any more (R148, R149). Nothing is opened or created.
func ParseBinding(text []byte) (Binding, error) {
	const op = "queue.bind"
	failed := func(format string, args ...any) (Binding, error) {
		return Binding{}, ports.Errorf(ports.CodeBindingSetupFailed, op, format, args...)
	}
	var head struct {
		Service string `json:"service"`
	}
	if err := ports.DecodeJSON(text, &head, ports.AllowUnknown); err != nil {
		return failed("the binding is malformed: %w", err)
	}
	switch head.Service {
	case BindingService:
	case legacyService:
		return Binding{}, ports.Errorf(ports.CodeBindingSetupFailed, op,
			"the binding is of the service %q, which opens the files of a queue: only their owner does that now; migrate the queue with \"stowage queue migrate\" and use the binding of \"stowage queue binding\"",
			legacyService).WithReason(ports.ReasonUnsupported)
	case "":
		return failed("the binding names no service: a queue behind an owner is %q", BindingService)
	default:
		return Binding{}, ports.Errorf(ports.CodeBindingSetupFailed, op,
			"the binding is of the service %.64q: a queue behind an owner is %q", head.Service, BindingService).WithReason(ports.ReasonUnsupported)
	}
	var wire ports.WireBinding
	if err := ports.DecodeJSON(text, &wire); err != nil {
		return failed("the binding is malformed: %w", err)
	}
	b := Binding{Endpoint: wire.Endpoint, Token: wire.Token}
	if err := checkEndpoint(b.Endpoint); err != "" {
		return failed("%s", err)
	}
	if b.Token == "" {
		return failed("the binding has no token: take it from \"stowage queue binding\"")
	}
	if err := ports.CheckBearer(op, b.Token); err != nil {
		return failed("the binding cannot be used: %w", err)
	}
	return b, nil
}

// checkEndpoint says what is wrong with an endpoint, or nothing. It shows no more of it than scheme
// and host, since a careless one may hold a password.
func checkEndpoint(endpoint string) string {
	u, err := url.Parse(endpoint)
	switch {
	case endpoint == "":
		return "the endpoint is empty: give one like http://127.0.0.1:7420/v1/queues/orders"
	case err != nil:
		return "the endpoint is no URL: give one like http://127.0.0.1:7420/v1/queues/orders"
	case u.Scheme != "http" && u.Scheme != "https":
		return "the endpoint is no http or https URL: give one like http://127.0.0.1:7420/v1/queues/orders"
	case u.Hostname() == "" || u.Opaque != "":
		return "the endpoint names no host: give one like http://127.0.0.1:7420/v1/queues/orders"
	case u.User != nil:
		return "the endpoint at " + u.Host + " holds a user or a password: leave them out, the token is all it takes"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(endpoint, "#"):
		return "the endpoint at " + u.Host + " has a query or a fragment: leave them out"
	}
	return ""
}
