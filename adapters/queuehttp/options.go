package queuehttp

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/stowage-go/stowage/ports"
)

// HandlerOptions refine a handler. The zero value is useful.
type HandlerOptions struct {
	// BodyTimeout is how long the body of a request may take to arrive; zero means 30 seconds.
	BodyTimeout time.Duration
	// WriteTimeout is how long an answer may take to be written. It starts with the answer, after a
	// wait. Zero means 30 seconds.
	WriteTimeout time.Duration
	// Log takes one line for each failed request; nil drops them.
	Log *slog.Logger
}

func (o HandlerOptions) withDefaults() HandlerOptions {
	if o.BodyTimeout == 0 {
		o.BodyTimeout = ports.DefaultBodyTimeout
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = ports.DefaultWriteTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// DefaultTimeout is how long a client waits for an answer, beyond the wait that a receive asks for.
const DefaultTimeout = 30 * time.Second

// Options refine a client. The zero value is useful.
type Options struct {
	// Timeout is how long a call may take, beyond the wait that a receive asks for; zero means 30
	// seconds. The caller's context may end it earlier.
	Timeout time.Duration
	// Token, if set, is asked before each request and used in place of the binding's, so that a
	// rotated token is picked up without a restart. Its error is returned before anything is sent.
	Token func() (string, error)
	// Transport carries the requests in place of the client's own, which uses HTTP/1.1, no proxy,
	// and keeps connections. It must not repeat a request on its own: net/http's does not, for the
	// requests of this package.
	Transport http.RoundTripper
}
