package adminhttp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/stowage-go/stowage/adapters/adminhttp"
	"github.com/stowage-go/stowage/ports"
)

// document is the API's description, parsed.
var document = sync.OnceValue(func() map[string]any {
	var doc map[string]any
	if err := yaml.Unmarshal(adminhttp.OpenAPI(), &doc); err != nil {
		panic("openapi.yaml: " + err.Error())
	}
	return doc
})

var httpMethods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// at follows keys, and references on the way.
func at(node any, keys ...string) any {
	for _, key := range keys {
		m, _ := follow(node).(map[string]any)
		node = m[key]
	}
	return follow(node)
}

func follow(node any) any {
	if m, ok := node.(map[string]any); ok {
		if ref, ok := m["$ref"].(string); ok {
			return at(document(), strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return node
}

// pattern is the pattern of a path for net/http's mux. OpenAPI has no word for the one parameter in which
// a slash may stand as it is.
func pattern(path string) string {
	return strings.Replace(path, "/v1/pauses/{target}/{id}", "/v1/pauses/{target}/{id...}", 1)
}

// checked passes requests on and holds every answer against the document.
func checked(t testing.TB, next http.Handler) http.Handler {
	t.Helper()
	patterns := http.NewServeMux()
	for path := range at(document(), "paths").(map[string]any) {
		patterns.HandleFunc(pattern(path), func(http.ResponseWriter, *http.Request) {})
	}
	patterns.HandleFunc("/v1/pauses/{target}", func(http.ResponseWriter, *http.Request) {}) // the mux would redirect
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("openapi.yaml", document()))
	var mu sync.Mutex // of the compiler
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := httptest.NewRecorder()
		_, path := patterns.Handler(r)
		path = strings.ReplaceAll(path, "...}", "}")
		if at(document(), "paths", path) == nil {
			path = ""
		}
		next.ServeHTTP(got, r)
		mu.Lock()
		problem := conforms(compiler, path, r.Method, got)
		mu.Unlock()
		assert.NoError(t, problem, "%s %s answered %d %s", r.Method, r.URL.Path, got.Code, got.Body)
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(got.Code)
		_, err := w.Write(got.Body.Bytes())
		if r.Method != http.MethodHead && got.Code != http.StatusNoContent && got.Code != http.StatusNotModified {
			assert.NoError(t, err)
		}
	})
}

func conforms(compiler *jsonschema.Compiler, path, method string, got *httptest.ResponseRecorder) error {
	if path == "" {
		return conformsTo(compiler, "#/components/schemas/Error", "application/json", got)
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	item := at(document(), "paths", path).(map[string]any)
	method = strings.ToLower(method)
	if item[method] == nil { // the answer of a method that is not there is the same at every path
		if got.Code != http.StatusMethodNotAllowed && got.Code != http.StatusUnauthorized {
			return fmt.Errorf("the document has no %s", method)
		}
		return conformsTo(compiler, "#/components/schemas/Error", "application/json", got)
	}
	responses := at(item, method, "responses").(map[string]any)
	response := responses[strconv.Itoa(got.Code)]
	if response == nil {
		response = responses["default"]
	}
	if response == nil {
		return fmt.Errorf("the document has no answer %d", got.Code)
	}
	content, _ := at(response, "content").(map[string]any)
	if content == nil {
		if got.Body.Len() > 0 {
			return fmt.Errorf("the document has no body for %d", got.Code)
		}
		return nil
	}
	for media := range content {
		schema := at(content, media, "schema").(map[string]any)
		url := "schema-of-" + strings.NewReplacer("/", "-", "{", "", "}", "").Replace(path) + "-" + method + "-" + strconv.Itoa(got.Code)
		// A reference in it is to the document.
		text, err := json.Marshal(schema)
		if err != nil {
			return err
		}
		rebased, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.ReplaceAll(string(text), `"$ref":"#/`, `"$ref":"openapi.yaml#/`)))
		if err != nil {
			return err
		}
		var known *jsonschema.ResourceExistsError
		if err := compiler.AddResource(url, rebased); err != nil && !errors.As(err, &known) {
			return err
		}
		return conformsTo(compiler, url, media, got)
	}
	return fmt.Errorf("the document has no content for %d", got.Code)
}

func conformsTo(compiler *jsonschema.Compiler, location, media string, got *httptest.ResponseRecorder) error {
	if strings.HasPrefix(location, "#") {
		location = "openapi.yaml" + location
	}
	schema, err := compiler.Compile(location)
	if err != nil {
		return err
	}
	gotMedia, _, err := mime.ParseMediaType(got.Header().Get("Content-Type"))
	if err != nil || gotMedia != media {
		return fmt.Errorf("the content type is %q, in the document %q", got.Header().Get("Content-Type"), media)
	}
	var value any = got.Body.String()
	if media == "application/json" {
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(got.Body.Bytes())); err != nil {
			return err
		}
	}
	return schema.Validate(value)
}

func TestTheDocumentAndTheHandlerServeTheSame(t *testing.T) {
	t.Parallel()
	inDocument := map[string][]string{}
	for path, item := range at(document(), "paths").(map[string]any) {
		for _, method := range httpMethods {
			if item.(map[string]any)[method] != nil {
				inDocument[pattern(path)] = append(inDocument[pattern(path)], strings.ToUpper(method))
			}
		}
	}
	served := newRig(t).handler.Routes()
	for path := range served {
		slices.Sort(served[path])
		slices.Sort(inDocument[path])
	}
	assert.Equal(t, inDocument, served)
}

func TestTheDocumentIsSound(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "3.1.0", at(document(), "openapi"))
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("openapi.yaml", document()))
	for name := range at(document(), "components", "schemas").(map[string]any) {
		_, err := compiler.Compile("openapi.yaml#/components/schemas/" + name)
		assert.NoError(t, err, name)
	}
	used := map[string]bool{}
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			if ref, ok := node["$ref"].(string); ok {
				used[ref] = true
				assert.NotNil(t, follow(node), "%s: %s leads nowhere", path, ref)
			}
			for key, value := range node {
				walk(path+"/"+key, value)
			}
		case []any:
			for i, value := range node {
				walk(path+"/"+strconv.Itoa(i), value)
			}
		}
	}
	walk("", document())
	for kind, components := range at(document(), "components").(map[string]any) {
		if kind == "securitySchemes" {
			continue
		}
		for name := range components.(map[string]any) {
			assert.True(t, used["#/components/"+kind+"/"+name], "%s %s is used nowhere", kind, name)
		}
	}

	ids := map[string]bool{}
	for path, item := range at(document(), "paths").(map[string]any) {
		declared := map[string]bool{}
		parameters, _ := item.(map[string]any)["parameters"].([]any)
		for _, parameter := range parameters {
			declared[at(parameter, "name").(string)] = true
		}
		for part := range strings.SplitSeq(path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				assert.True(t, declared[strings.TrimSuffix(name, "}")], "%s: %s is not declared", path, part)
			}
		}
		for _, method := range httpMethods {
			operation, ok := item.(map[string]any)[method].(map[string]any)
			if !ok {
				continue
			}
			id, _ := operation["operationId"].(string)
			assert.NotEmpty(t, id)
			assert.False(t, ids[id], "%s stands twice", id)
			ids[id] = true
			assert.NotEmpty(t, operation["summary"], id)
			assert.NotEmpty(t, operation["tags"], id)
			assert.NotNil(t, operation["security"], "%s: say whether it wants a token", id)
			for code, response := range operation["responses"].(map[string]any) {
				assert.NotEmpty(t, at(response, "description"), "%s %s", id, code)
			}
		}
	}
}

func TestTheDocumentHasEveryCodeAndReason(t *testing.T) {
	t.Parallel()
	var codes []any
	for _, info := range ports.Codes {
		codes = append(codes, string(info.Code))
	}
	assert.Equal(t, codes, at(document(), "components", "schemas", "Code", "enum"))
	reasons := at(document(), "components", "schemas", "ErrorContext", "properties", "reason", "enum")
	for _, reason := range []ports.Reason{
		ports.ReasonStaleReceipt, ports.ReasonInUse, ports.ReasonDiskFull, ports.ReasonReadOnly, ports.ReasonCorrupt,
		ports.ReasonBusy, ports.ReasonUnsupported, ports.ReasonUnavailable, ports.ReasonRevoked, ports.ReasonUndecodable,
		ports.ReasonNoPayload, ports.ReasonPaused, ports.ReasonRateLimited,
	} {
		assert.Contains(t, reasons, string(reason))
	}
}
