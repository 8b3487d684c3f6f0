package localkv

import (
	"context"

	"github.com/stowage-go/stowage/ports"
)

// BindingService is the service that a binding of this package names.
const BindingService = "local-kv"

// binding is the JSON of a binding: {"service":"local-kv","dataDir":"…"}. A key prefix is taken
// from those who send one and has no meaning here, as in the original.
type binding struct {
	Service   string  `json:"service"`
	DataDir   string  `json:"dataDir"`
	KeyPrefix *string `json:"keyPrefix"`
}

// OpenBinding opens the store that a JSON binding names; options.Dir has to be empty. A binding of
// another service, or one that is malformed, is BINDING_SETUP_FAILED before anything is opened or
// made.
func OpenBinding(ctx context.Context, text []byte, options Options) (*Store, error) {
	const op = "kv.open"
	if options.Dir != "" {
		return nil, ports.Errorf(ports.CodeInvalidConfig, op, "both the binding and the options name a data directory: leave Dir empty")
	}
	var head struct {
		Service string `json:"service"`
	}
	if err := ports.DecodeJSON(text, &head, ports.AllowUnknown); err != nil {
		return nil, malformed(op, err)
	}
	if head.Service != BindingService {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op, "the binding is of the service %q: a key-value store in a directory is %q", head.Service, BindingService).
			WithReason(ports.ReasonUnsupported)
	}
	var full binding
	if err := ports.DecodeJSON(text, &full); err != nil {
		return nil, malformed(op, err)
	}
	if full.DataDir == "" {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op, "the binding names no data directory: give it as \"dataDir\"")
	}
	options.Dir = full.DataDir
	return Open(ctx, options)
}

func malformed(op string, err error) error {
	return ports.Errorf(ports.CodeBindingSetupFailed, op,
		"the binding is malformed: %w; a binding is {\"service\":%q,\"dataDir\":\"…\"}", err, BindingService)
}
