package adminhttp

import (
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"errors"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/stowage-go/stowage/ports"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI is the description of this API and of the queue protocol, OpenAPI 3.1 in YAML.
func OpenAPI() []byte { return slices.Clone(openAPI) }

// maxBody bounds the body of an administrative request in bytes.
const maxBody = 64 << 10

// Handler serves the operator's side, and passes the queue protocol on.
type Handler struct {
	Options
	mux *http.ServeMux
}

// New makes a handler. Options that lack something are INVALID_CONFIG.
func New(options Options) (*Handler, error) {
	options, err := options.check()
	if err != nil {
		return nil, err
	}
	h := &Handler{options, http.NewServeMux()}
	for pattern, methods := range h.routes() {
		h.mux.HandleFunc(pattern, h.dispatch(methods))
	}
	h.mux.HandleFunc("/", h.notFound)
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

// route is what one method of a path does.
type route struct {
	run func(http.ResponseWriter, *http.Request) error
	// open says that no admin token is needed.
	open bool
}

// routes is everything that is served, by path and method. A GET serves HEAD too.
func (h *Handler) routes() map[string]map[string]route {
	queues := func(w http.ResponseWriter, r *http.Request) error {
		h.Queues.ServeHTTP(w, r)
		return nil
	}
	return map[string]map[string]route{
		"/livez":        {http.MethodGet: {h.live, true}},
		"/readyz":       {http.MethodGet: {h.ready, true}},
		"/openapi.yaml": {http.MethodGet: {h.describe, true}},
		"/v1/queues":    {http.MethodGet: {h.list, false}},
		"/v1/queues/{id}": {
			http.MethodGet:    {h.get, false},
			http.MethodPut:    {h.create, false},
			http.MethodPost:   {queues, true}, // it has tokens of its own
			http.MethodDelete: {h.delete, false},
		},
		"/v1/queues/{id}/token":             {http.MethodPost: {h.rotate, false}},
		"/v1/queues/{id}/binding":           {http.MethodGet: {h.binding, false}},
		"/v1/queues/{id}/stats":             {http.MethodGet: {h.stats, false}},
		"/v1/queues/{id}/backup":            {http.MethodPost: {h.backup, false}},
		"/v1/queues/{id}/verify":            {http.MethodPost: {h.verify, false}},
		"/v1/queues/{id}/undecodable/{row}": {http.MethodDelete: {h.discard, false}},
	}
}

// dispatch picks the route of the method. Where all of a path is for the operator, the token comes
// before the question which methods there are.
func (h *Handler) dispatch(methods map[string]route) http.HandlerFunc {
	closed := true
	allowed := slices.Collect(maps.Keys(methods))
	for method, route := range methods {
		closed = closed && !route.open
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
		if !route.open && (known || closed) {
			if err := h.authenticate(r); err != nil {
				ports.Refuse(w, r, h.Log, err)
				return
			}
		}
		if !known {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			ports.Refuse(w, r, h.Log, ports.WithStatus(
				ports.Errorf(ports.CodeInvalidInput, "admin.request", "the method is none of %s", strings.Join(allowed, ", ")), http.StatusMethodNotAllowed))
			return
		}
		if err := route.run(w, r); err != nil {
			ports.Refuse(w, r, h.Log, err)
		}
	}
}

func (h *Handler) authenticate(r *http.Request) error {
	want, err := h.AdminToken()
	if err != nil {
		h.Log.Error("the admin token cannot be read: every administrative request is refused", "error", err)
	}
	got := ports.BearerToken(r.Header)
	if err != nil || want == "" || !sameToken(got, want) {
		return ports.Errorf(ports.CodeAuthenticationFailed, "admin.authenticate", "the admin token is missing or wrong: it is in a file in the daemon's state directory")
	}
	return nil
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
	if err := ports.WriteJSON(w, status, text, ports.DefaultWriteTimeout); err != nil {
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
