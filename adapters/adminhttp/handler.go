package adminhttp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"errors"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI is the description of this API and of the queue protocol, OpenAPI 3.1 in YAML.
func OpenAPI() []byte { return slices.Clone(openAPI) }

const (
	// maxBody bounds the body of an administrative request in bytes, that of a resource aside.
	maxBody = 64 << 10
	// maxPage bounds what a page of letters or resources holds, in bytes.
	maxPage = 16 << 20
	// slowest is how many bytes a second a client has to take of a large answer.
	slowest = 64 << 10
)

// Handler serves the operator's side, and passes the queue protocol on.
type Handler struct {
	Options
	mux        *http.ServeMux
	pageBytes  int     // maxPage, but for tests
	eventGates []*gate // which requests with events pass as they grow
}

// New makes a handler. Options that lack something are INVALID_CONFIG.
func New(options Options) (*Handler, error) {
	options, err := options.check()
	if err != nil {
		return nil, err
	}
	h := &Handler{options, http.NewServeMux(), maxPage, []*gate{newGate(usualEvents, usualPlaces), newGate(largeEvents, largePlaces)}}
	for pattern, methods := range h.routes() {
		h.mux.HandleFunc(pattern, h.dispatch(methods))
	}
	h.mux.HandleFunc("/", h.notFound)
	h.mux.HandleFunc("/v1/pauses/{target}", h.notFound) // the mux would redirect from here
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The mux would answer by itself, without a body of this API: redirect from a path that is not
	// clean, which can make a client send its token and request again, and refuse "*" and CONNECT.
	if p := r.URL.EscapedPath(); r.Method == http.MethodConnect || !strings.HasPrefix(p, "/") || strings.TrimSuffix(p, "/") != strings.TrimSuffix(path.Clean(p), "/") {
		h.notFound(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

func (h *Handler) notFound(w http.ResponseWriter, r *http.Request) {
	ports.Refuse(w, r, h.Log, ports.Errorf(ports.CodeNotFound, "admin.request", "there is nothing at this path: see /openapi.yaml"))
}

// access says whose request a route serves.
type access int

const (
	operators access = iota // with the admin token
	readers                 // with the read-only token too
	producers               // with the token of the pipeline
	anyone                  // without a token of this package
)

// route is what one method of a path does.
type route struct {
	run    func(http.ResponseWriter, *http.Request) error
	access access
	query  []string // the names of the parameters that it takes
}

func (r route) forReaders(query ...string) route {
	r.access, r.query = readers, query
	return r
}

func (r route) forProducers() route {
	r.access = producers
	return r
}

// routes is everything that is served, by path and method. A GET serves HEAD too.
func (h *Handler) routes() map[string]map[string]route {
	queues := func(w http.ResponseWriter, r *http.Request) error {
		h.Queues.ServeHTTP(w, r)
		return nil
	}
	do := func(run func(http.ResponseWriter, *http.Request) error) route { return route{run: run} }
	// What needs a storage says so where there is none.
	stored := func(run func(http.ResponseWriter, *http.Request) error) route {
		if h.Storage == nil {
			run = withoutStorage
		}
		return route{run: run}
	}
	// So does what needs pipelines.
	running := func(run func(http.ResponseWriter, *http.Request) error) route {
		if h.Pipelines == nil {
			run = withoutPipelines
		}
		return route{run: run}
	}
	return map[string]map[string]route{
		"/livez":        {http.MethodGet: {run: h.live, access: anyone}},
		"/readyz":       {http.MethodGet: {run: h.ready, access: anyone}},
		"/openapi.yaml": {http.MethodGet: {run: h.describe, access: anyone}},
		"/statusz":      {http.MethodGet: do(h.status).forReaders()},
		"/metrics":      {http.MethodGet: {run: h.metrics, access: anyone}},
		"/v1/queues":    {http.MethodGet: do(h.list).forReaders()},
		"/v1/queues/{id}": {
			http.MethodGet:    do(h.get).forReaders(),
			http.MethodPut:    do(h.create),
			http.MethodPost:   {run: queues, access: anyone}, // it has tokens of its own
			http.MethodDelete: do(h.delete),
		},
		"/v1/queues/{id}/token":             {http.MethodPost: do(h.rotate)},
		"/v1/queues/{id}/binding":           {http.MethodGet: do(h.binding)},
		"/v1/queues/{id}/stats":             {http.MethodGet: do(h.stats).forReaders()},
		"/v1/queues/{id}/backup":            {http.MethodPost: do(h.backup)},
		"/v1/queues/{id}/verify":            {http.MethodPost: do(h.verify)},
		"/v1/queues/{id}/undecodable/{row}": {http.MethodDelete: do(h.discard)},
		"/v1/pipelines":                     {http.MethodGet: running(h.listPipelines).forReaders()},
		"/v1/pipelines/{pipeline}":          {http.MethodGet: running(h.getPipeline).forReaders()},
		"/v1/pipelines/{pipeline}/binding":  {http.MethodGet: running(h.eventBinding)},
		"/v1/pipelines/{pipeline}/events":   {http.MethodPost: running(h.postEvents).forProducers()},
		"/v1/checkpoints":                   {http.MethodGet: stored(h.listCheckpoints).forReaders()},
		"/v1/checkpoints/{pipeline}": {
			http.MethodGet:    stored(h.getCheckpoint).forReaders(),
			http.MethodPut:    stored(h.setCheckpoint),
			http.MethodDelete: stored(h.deleteCheckpoint),
		},
		"/v1/deadletters": {http.MethodGet: stored(h.countLetters).forReaders()},
		"/v1/deadletters/{pipeline}": {
			http.MethodGet:  stored(h.listLetters).forReaders("after", "skip", "take", "monitor", "sink", "reason"),
			http.MethodPost: stored(h.actOnLetters),
		},
		"/v1/deadletters/{pipeline}/{match}": {
			http.MethodGet:    stored(h.getLetter).forReaders(),
			http.MethodDelete: stored(h.discardLetter),
		},
		"/v1/deadletters/{pipeline}/{match}/replay": {http.MethodPost: stored(h.replayLetter)},
		"/v1/pauses": {http.MethodGet: stored(h.listPauses).forReaders()},
		"/v1/pauses/{target}/{id...}": {
			http.MethodPut:    stored(h.pause),
			http.MethodDelete: stored(h.resume),
		},
		"/v1/resources":        {http.MethodGet: stored(h.listKinds).forReaders()},
		"/v1/resources/{kind}": {http.MethodGet: stored(h.listResources).forReaders("after", "limit")},
		"/v1/resources/{kind}/{id}": {
			http.MethodGet:    stored(h.getResource).forReaders(),
			http.MethodPut:    stored(h.putResource),
			http.MethodDelete: stored(h.deleteResource),
		},
		"/v1/storage/backup": {http.MethodPost: stored(h.backupStorage)},
		"/v1/storage/verify": {http.MethodPost: stored(h.verifyStorage)},
		"/v1/storage/export": {http.MethodGet: stored(h.exportStorage)},
	}
}

// dispatch picks the route of the method. Where all of a path is for the operator, the token comes
// before the question which methods there are.
func (h *Handler) dispatch(methods map[string]route) http.HandlerFunc {
	closed := true
	allowed := slices.Collect(maps.Keys(methods))
	for method, route := range methods {
		closed = closed && route.access < producers
		if method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	slices.Sort(allowed)
	return func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		route, known := methods[method]
		var err error
		switch {
		case known && route.access == producers:
			err = h.authenticateEvents(r)
		case route.access < producers && (known || closed):
			err = h.authenticate(r, !known || route.access == readers && !mayHoldSecrets(r))
		}
		if err != nil {
			ports.Refuse(w, r, h.Log, err)
			return
		}
		if !known {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			ports.Refuse(w, r, h.Log, ports.WithStatus(
				ports.Errorf(ports.CodeInvalidInput, "admin.request", "this path takes no %s: use %s", r.Method, strings.Join(allowed, ", ")), http.StatusMethodNotAllowed))
			return
		}
		if err = route.checkQuery(r); err == nil {
			err = route.run(w, r)
		}
		if err != nil {
			ports.Refuse(w, r, h.Log, ended(r, err))
		}
	}
}

// mayHoldSecrets reports whether a request is about the configuration of pipelines, in which the secrets
// of webhooks and the values of their headers may stand. Those who only read are not shown it.
func mayHoldSecrets(r *http.Request) bool {
	return types.ResourceKind(r.PathValue("kind")) == types.PipelineKind
}

// ended gives the error of a request whose context has ended a name of this API. What was asked has
// not been done then; an action on many letters says by itself what that means for it.
func ended(r *http.Request, err error) error {
	if r.Context().Err() == nil || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var named *ports.Error
	if errors.As(err, &named) {
		return err
	}
	return ports.Errorf(ports.CodeStoreClosed, "admin.request", "the request was ended before it was done, because the client has gone or the daemon stops: %w", err)
}

// authenticate wants the admin token, or, where a reader will do, the read-only token.
func (h *Handler) authenticate(r *http.Request, reader bool) error {
	const op = "admin.authenticate"
	got := ports.BearerToken(r.Header)
	isAdmin := h.isToken("admin", h.AdminToken, got)
	isReader := h.ReadToken != nil && h.isToken("read-only", h.ReadToken, got)
	switch {
	case isAdmin, isReader && reader:
		return nil
	case isReader:
		return ports.WithStatus(ports.Errorf(ports.CodeAuthenticationFailed, op, "the read-only token does not do for this: use the admin token, which is in a file in the daemon's state directory"), http.StatusForbidden)
	}
	return ports.Errorf(ports.CodeAuthenticationFailed, op, "the admin token is missing or wrong: it is in a file in the daemon's state directory")
}

func (h *Handler) isToken(which string, source func() (string, error), got string) bool {
	want, err := source()
	if err != nil {
		h.Log.Error("a token cannot be read: every request that comes with it is refused", "token", which, "error", err)
		want = ""
	}
	return sameToken(got, want) && want != ""
}

// sameToken compares in a time that tells nothing about either token.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// answer writes a JSON answer. One that does not reach its receiver is logged, and no error of the
// request: that has been done.
func (h *Handler) answer(w http.ResponseWriter, status int, body any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = ports.EncodeJSON(body); err != nil {
			return err
		}
	}
	return h.write(w, status, text)
}

// write writes an answer that is JSON already. One of many megabytes has more time.
func (h *Handler) write(w http.ResponseWriter, status int, text []byte) error {
	timeout := ports.DefaultWriteTimeout + time.Duration(len(text)/slowest)*time.Second
	if err := ports.WriteJSON(w, status, text, timeout); err != nil {
		h.Log.Debug("the answer did not reach its receiver", "error", err)
	}
	return nil
}

// body reads the body of a request, which may be left out.
func body(op string, w http.ResponseWriter, r *http.Request, into any) error {
	text, err := ports.ReadBody(op, w, r, ports.BodyOptions{Limit: maxBody, Optional: true})
	if err != nil {
		return err
	}
	return ports.DecodeBody(op, text, into)
}

func (h *Handler) describe(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	if _, err := w.Write(openAPI); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		h.Log.Debug("the answer did not reach its receiver", "error", err)
	}
	return nil
}
