package adminhttp

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Options are what a handler is made of.
type Options struct {
	// Owner has the queues. Required.
	Owner ports.QueueOwner
	// Queues serves POST /v1/queues/<id>, the queue protocol. Required.
	Queues http.Handler
	// AdminToken is asked for each request, so that a token that was made anew counts at once.
	// Required; an error of its own refuses the request.
	AdminToken func() (string, error)
	// ReadToken is asked like AdminToken; what it returns lets in whoever only reads. Nil where there
	// is no such token.
	ReadToken func() (string, error)
	// Storage holds the resources that are served. Whether it can be backed up, verified and exported
	// is asked of the value ([ports.Backuper], [ports.Archiver]). Nil where the daemon has no storage:
	// the paths that need one answer 501 then.
	Storage ports.Storage
	// StorageModule is the name of the storage's module, for /statusz.
	StorageModule string
	// Control works on checkpoints, dead letters and pauses. Required with Storage, and nil without.
	Control Control
	// Pipelines runs the pipelines. Nil where the daemon runs none: their paths answer 501 then, and a
	// resource of the kind "pipeline" is one like any other.
	Pipelines Pipelines
	// EventToken is asked for the token with which events may be posted to a pipeline that there is; it
	// may make one. Nil: only the admin token does.
	EventToken func(types.PipelineID) (string, error)
	// Metrics serves GET /metrics, to anyone: what it shows must hold no secret and no content. Nil where
	// there are none: the path is 404 then.
	Metrics http.Handler
	// Endpoint is the base of the URL under which applications reach this server, such as
	// http://127.0.0.1:7420; bindings are made from it. Required.
	Endpoint string
	// Checks decide whether the process is ready.
	Checks []Check
	// CheckTimeout is how long all of them together may take, and each part of /statusz; zero means 5
	// seconds.
	CheckTimeout time.Duration
	// Abort is closed when a process that stops waits no longer for an export: one that is not whole by
	// then is cut off, so that it does not keep the storage open. Nil: never.
	Abort <-chan struct{}
	// Version is told by /readyz and /statusz; empty leaves it out.
	Version string
	// Clock is the daemon's; nil means the system's.
	Clock ports.Clock
	// StartedAt is when the daemon was started, for /statusz; zero means when the handler was made.
	StartedAt time.Time
	// Log takes one line for each failed request; nil drops them.
	Log *slog.Logger
}

// Check is one condition of being ready.
type Check struct {
	// Name is shown to anyone, so it holds no secret.
	Name string
	// Run returns nil if all is well. Of an error only code and reason are shown; the rest is logged.
	Run func(context.Context) error
}

func (o Options) check() (Options, error) {
	missing := func(what string) error {
		return ports.Errorf(ports.CodeInvalidConfig, "admin.new", "the options have no %s", what)
	}
	switch {
	case o.Owner == nil:
		return o, missing("Owner")
	case o.Queues == nil:
		return o, missing("Queues")
	case o.AdminToken == nil:
		return o, missing("AdminToken")
	case o.Storage != nil && o.Control == nil:
		return o, missing("Control, which goes with the Storage")
	case o.Storage == nil && o.Control != nil:
		return o, missing("Storage, which goes with the Control")
	}
	endpoint, err := checkBase("admin.new", o.Endpoint)
	if err != nil {
		return o, err
	}
	o.Endpoint = endpoint
	if o.CheckTimeout == 0 {
		o.CheckTimeout = 5 * time.Second
	}
	if o.Clock == nil {
		o.Clock = ports.SystemClock()
	}
	if o.StartedAt.IsZero() {
		o.StartedAt = o.Clock.Now()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// checkBase checks the base URL of a server and takes a slash off its end.
func checkBase(op, base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(base, "#") {
		return "", ports.Errorf(ports.CodeInvalidConfig, op, "the server's address is no plain http or https URL: give one like http://127.0.0.1:7420")
	}
	return strings.TrimSuffix(base, "/"), nil
}
