package adminhttp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/adminhttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func TestALifeOfAResource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/resources/rule/a:b.c-d_1"
	_, _, body := r.do(t, "GET", "/v1/resources", "")
	assert.Equal(t, `{"kinds":[]}`, body)
	_, _, body = r.do(t, "GET", "/v1/resources/rule", "")
	assert.Equal(t, `{"resources":[]}`, body)
	status, _, body := r.do(t, "GET", path, "")
	refused(t, 404, ports.CodeNotFound, status, body)

	const first, second = " {\n\t\"b\": 1.50, \"a\" : \"<&>é\\u00e9\"}\n", `null`
	status, header, body := r.do(t, "PUT", path, first)
	assert.Equal(t, 201, status)
	assert.Equal(t, `{"kind":"rule","id":"a:b.c-d_1","version":1}`, body)
	assert.Equal(t, `"1"`, header.Get("ETag"))
	status, header, body = r.do(t, "GET", path, "")
	assert.Equal(t, 200, status)
	assert.Equal(t, first, body)
	assert.Equal(t, `"1"`, header.Get("ETag"))
	assert.Equal(t, "application/json", header.Get("Content-Type"))
	assert.Equal(t, "no-store", header.Get("Cache-Control"))
	status, header, body = r.do(t, "HEAD", path, "")
	assert.Equal(t, 200, status)
	assert.Empty(t, body)
	assert.Equal(t, `"1"`, header.Get("ETag"))
	assert.Equal(t, fmt.Sprint(len(first)), header.Get("Content-Length"))

	status, header, body = r.do(t, "PUT", "/v1/resources/rule/a%3Ab%2Ec-d_1", second, with("If-Match", `"1"`))
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"kind":"rule","id":"a:b.c-d_1","version":2}`, body)
	assert.Equal(t, `"2"`, header.Get("ETag"))

	status, _, _ = r.do(t, "PUT", "/v1/resources/other/x", first)
	assert.Equal(t, 201, status)
	_, _, body = r.do(t, "GET", "/v1/resources", "")
	assert.Equal(t, `{"kinds":["other","rule"]}`, body)
	_, _, body = r.do(t, "GET", "/v1/resources/other", "")
	assert.Equal(t, `{"resources":[{"kind":"other","id":"x","version":1,"value":{"b":1.50,"a":"<&>é\u00e9"}}]}`, body)

	status, _, body = r.do(t, "DELETE", path, "", with("If-Match", `"2"`))
	assert.Equal(t, 204, status)
	assert.Empty(t, body)
	status, _, body = r.do(t, "GET", path, "")
	refused(t, 404, ports.CodeNotFound, status, body)
}

func TestConditionsOfResources(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/resources/rule/x"
	for range 3 { // it stands at version 3
		resource, _, err := r.storage.GetResource(t.Context(), "rule", "x")
		require.NoError(t, err)
		_, err = r.storage.PutResource(t.Context(), "rule", "x", []byte("1"), resource.Version)
		require.NoError(t, err)
	}
	for _, c := range []struct {
		method, path, name string
		values             []string
		status             int
		code               ports.Code // empty for a success
	}{
		{"GET", path, "If-None-Match", []string{`"3"`}, 304, ""},
		{"GET", path, "If-None-Match", []string{`W/"3"`}, 304, ""},
		{"GET", path, "If-None-Match", []string{`"1", W/"x,y" ,"3"`}, 304, ""},
		{"GET", path, "If-None-Match", []string{`"1"`, `"3"`}, 304, ""},
		{"GET", path, "If-None-Match", []string{`*`}, 304, ""},
		{"HEAD", path, "If-None-Match", []string{`"3"`}, 304, ""},
		{"GET", path, "If-None-Match", []string{`"2"`}, 200, ""},
		{"GET", path, "If-None-Match", []string{`"03"`}, 200, ""},
		{"GET", path, "If-None-Match", []string{`3`}, 400, ports.CodeInvalidInput},
		{"GET", path, "If-None-Match", []string{``}, 400, ports.CodeInvalidInput},
		{"GET", path, "If-Match", []string{`"3"`}, 400, ports.CodeInvalidInput},
		{"GET", "/v1/resources/rule/y", "If-None-Match", []string{`*`}, 404, ports.CodeNotFound},

		{"PUT", path, "If-None-Match", []string{`*`}, 412, ports.CodeAlreadyExists},
		{"PUT", path, "X-Nothing", nil, 409, ports.CodeAlreadyExists},
		{"PUT", path, "If-None-Match", []string{`"1"`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-None-Match", []string{`*, "1"`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`"2"`}, 412, ports.CodeVersionConflict},
		{"PUT", path, "If-Match", []string{`"1","2"`}, 412, ports.CodeVersionConflict},
		{"PUT", path, "If-Match", []string{`W/"3"`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`"3", W/"3"`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`"03"`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`"0"`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`"-3"`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`"9223372036854775808"`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`"9223372036854775807"`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`3`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`"3" "4"`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`"3`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`, ,`}, 400, ports.CodeInvalidInput},
		{"PUT", path, "If-Match", []string{`*`, `*`}, 400, ports.CodeInvalidInput},
		{"PUT", "/v1/resources/rule/y", "If-Match", []string{`"3"`}, 412, ports.CodeNotFound},
		{"PUT", "/v1/resources/rule/y", "If-Match", []string{`*`}, 412, ports.CodeNotFound},
		{"PUT", "/v1/resources/rule/y", "If-Match", []string{`"1","3"`}, 412, ports.CodeNotFound},
		{"PUT", path, "If-Match", []string{`"3"`}, 200, ""},
		{"PUT", path, "If-Match", []string{`"3", ,"4"`}, 200, ""},
		{"PUT", path, "If-Match", []string{`"4"`, `"5"`}, 200, ""},
		{"PUT", path, "If-Match", []string{` * `}, 200, ""},
		{"PUT", "/v1/resources/rule/new", "If-None-Match", []string{`*`}, 201, ""},

		{"DELETE", path, "X-Nothing", nil, 428, ports.CodeInvalidInput},
		{"DELETE", "/v1/resources/rule/y", "X-Nothing", nil, 428, ports.CodeInvalidInput},
		{"DELETE", path, "If-None-Match", []string{`*`}, 400, ports.CodeInvalidInput},
		{"DELETE", path, "If-Match", []string{`"3"`}, 412, ports.CodeVersionConflict},
		{"DELETE", path, "If-Match", []string{`W/"7"`}, 400, ports.CodeInvalidInput},
		{"DELETE", "/v1/resources/rule/y", "If-Match", []string{`"3"`}, 412, ports.CodeNotFound},
		{"DELETE", "/v1/resources/rule/y", "If-Match", []string{`*`}, 412, ports.CodeNotFound},
		{"DELETE", path, "If-Match", []string{`"8", "7"`}, 204, ""},
		{"DELETE", "/v1/resources/rule/new", "If-Match", []string{`*`}, 204, ""},
	} {
		body := ""
		if c.method == "PUT" {
			body = "2"
		}
		status, header, text := r.do(t, c.method, c.path, body, with(c.name, c.values...))
		t.Logf("%s %s %s: %q", c.method, c.path, c.name, c.values)
		if c.code != "" {
			refused(t, c.status, c.code, status, text)
			continue
		}
		assert.Equal(t, c.status, status, text)
		if status == 304 {
			assert.Equal(t, `"3"`, header.Get("ETag"))
			assert.Empty(t, text)
		}
	}
	status, _, body := r.do(t, "PUT", path, "1", with("If-Match", "*"), with("If-None-Match", "*"))
	refused(t, 400, ports.CodeInvalidInput, status, body)
	kinds, err := r.storage.ResourceKinds(t.Context())
	require.NoError(t, err)
	assert.Empty(t, kinds, "both have been deleted, and nothing else was created")
}

func TestAConflictHasBothVersionsOnTheWire(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.storage.PutResource(t.Context(), "rule", "x", []byte("1"), 0)
	require.NoError(t, err)
	for _, tags := range []string{`"7"`, `"7","8"`} {
		status, _, body := r.do(t, "PUT", "/v1/resources/rule/x", "2", with("If-Match", tags))
		assert.Equal(t, 412, status)
		var wire ports.WireError
		require.NoError(t, ports.DecodeJSON([]byte(body), &wire))
		assert.Equal(t, 412, wire.HTTPStatusCode)
		assert.EqualValues(t, 7, wire.Context.Expected)
		assert.EqualValues(t, 1, wire.Context.Actual)
		assert.Contains(t, wire.Context.Key, "rule/x")
	}
}

func TestValuesThatCannotBeStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/resources/rule/x"
	for body, want := range map[string]int{
		`{"a":1,"a":2}`: 400, `{} x`: 400, `{`: 400, ` `: 400, "\"\xff\"": 400, `"\ud800"`: 400,
		`"` + strings.Repeat("x", ports.MaxJSONBytes-1) + `"`: 413, strings.Repeat(" ", 2*ports.MaxJSONBytes) + "1": 413,
	} {
		status, _, text := r.do(t, "PUT", path, body)
		refused(t, want, ports.CodeInvalidInput, status, text)
	}
	status, _, text := r.do(t, "PUT", path, "", with("Content-Type", "application/json"))
	refused(t, 400, ports.CodeInvalidInput, status, text)
	for _, change := range []func(*testing.T) (int, string){
		func(t *testing.T) (int, string) {
			s, _, b := r.do(t, "PUT", path, "1", with("Content-Type", "text/plain"))
			return s, b
		},
		func(t *testing.T) (int, string) {
			s, _, b := r.do(t, "PUT", path, "1", with("Content-Type"))
			return s, b
		},
	} {
		status, text := change(t)
		refused(t, 415, ports.CodeInvalidInput, status, text)
	}
	for _, bad := range []string{"/v1/resources/rule/-x", "/v1/resources/-/x", "/v1/resources/rule/a%2Fb", "/v1/resources/rule/" + strings.Repeat("x", 257), path + "?version=1"} {
		status, _, text := r.do(t, "PUT", bad, "1")
		refused(t, 400, ports.CodeInvalidInput, status, text)
	}
	status, _, text = r.do(t, "GET", path, "")
	refused(t, 404, ports.CodeNotFound, status, text)
	largest := `"` + strings.Repeat("x", ports.MaxJSONBytes-2) + `"`
	status, _, _ = r.do(t, "PUT", path, largest)
	assert.Equal(t, 201, status)
	_, _, text = r.do(t, "GET", path, "")
	assert.Len(t, text, len(largest))
	status, _, text = r.do(t, "DELETE", path, `{"x":1}`, with("If-Match", `"1"`))
	refused(t, 400, ports.CodeInvalidInput, status, text)
}

func TestResourcesAreListedInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 50 {
		_, err := r.storage.PutResource(t.Context(), "rule", fmt.Sprintf("r%02d", i), fmt.Appendf(nil, " %d ", i), 0)
		require.NoError(t, err)
	}
	_, _, body := r.do(t, "GET", "/v1/resources/rule?limit=2", "")
	assert.Equal(t, `{"resources":[{"kind":"rule","id":"r00","version":1,"value":0},{"kind":"rule","id":"r01","version":1,"value":1}],"next":"r01"}`, body)
	_, _, body = r.do(t, "GET", "/v1/resources/rule?after=r48&limit=1", "")
	assert.Equal(t, `{"resources":[{"kind":"rule","id":"r49","version":1,"value":49}]}`, body)
	_, _, body = r.do(t, "GET", "/v1/resources/rule?after=r48x", "")
	assert.Contains(t, body, `"id":"r49"`)
	for _, limit := range []int{1, 15, 16, 17, 32, 49, 50, 51, 1000} {
		_, _, body = r.do(t, "GET", fmt.Sprintf("/v1/resources/rule?limit=%d", limit), "")
		assert.Equal(t, min(limit, 50), strings.Count(body, `"id"`), limit)
		assert.Equal(t, limit < 50, strings.Contains(body, `"next"`), limit)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "limit=", "after=", "after=-", "after=a&after=b", "skip=1"} {
		status, _, body := r.do(t, "GET", "/v1/resources/rule?"+bad, "")
		refused(t, 400, ports.CodeInvalidInput, status, body)
	}
}

// The configuration of a pipeline may hold the secret of a webhook, which would let a reader sign.
func TestTheReadOnlyTokenShowsNoConfigurationOfPipelines(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const secret = "whsec_hunter2"
	value := []byte(`{"sink":[{"id":"w","module":"webhook","url":"https://example.com","secret":"` + secret + `"}]}`)
	_, err := r.storage.PutResource(t.Context(), types.PipelineKind, "signed", value, 0)
	require.NoError(t, err)
	_, err = r.storage.PutResource(t.Context(), "dashboard", "quakes", []byte("1"), 0)
	require.NoError(t, err)
	for _, path := range []string{"/v1/resources/pipeline", "/v1/resources/pipeline/signed", "/v1/resources/pipelin%65/signed"} {
		status, _, body := r.do(t, "GET", path, "", reading)
		refused(t, 403, ports.CodeAuthenticationFailed, status, body)
		assert.NotContains(t, body, secret)
		status, _, body = r.do(t, "GET", path, "")
		assert.Equal(t, 200, status, path)
		assert.Contains(t, body, secret)
	}
	for _, path := range []string{"/v1/resources", "/v1/resources/dashboard", "/v1/resources/dashboard/quakes"} {
		status, _, _ := r.do(t, "GET", path, "", reading)
		assert.Equal(t, 200, status, path)
	}
}

func TestAPageOfHeavyResourcesEndsEarlyAndGoingOnReachesAll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handler.SetPageBytes(155_000)
	assert.Equal(t, 16<<20, adminhttp.MaxPage, "as the document says")
	value := []byte(`"` + strings.Repeat("x", 10_000) + `"`)
	for i := range 40 {
		_, err := r.storage.PutResource(t.Context(), fixture.Kind, fmt.Sprintf("r%02d", i), value, 0)
		require.NoError(t, err)
	}
	client := newClient(t, r.server.URL, adminToken, adminhttp.ClientOptions{})
	var sizes []int
	var ids []string
	for after := ""; ; {
		page, err := client.ListResources(t.Context(), fixture.Kind, types.ResourceListOptions{After: after})
		require.NoError(t, err)
		sizes = append(sizes, len(page.Resources))
		for _, resource := range page.Resources {
			ids = append(ids, resource.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	assert.Equal(t, []int{15, 15, 10}, sizes)
	assert.Len(t, ids, 40)
	assert.IsIncreasing(t, ids)
}

// racing changes a resource behind the back of whoever has just read it.
type racing struct {
	ports.Storage
	left atomic.Int64
}

func (s *racing) GetResource(ctx context.Context, kind types.ResourceKind, id string) (types.Resource, bool, error) {
	resource, found, err := s.Storage.GetResource(ctx, kind, id)
	if err == nil && found && s.left.Add(-1) >= 0 {
		_, err = s.PutResource(ctx, kind, id, []byte("0"), resource.Version)
	}
	return resource, found, err
}

func TestAnyVersionIsAnyVersionWhoeverElseWrites(t *testing.T) {
	t.Parallel()
	var store *racing
	r := newRig(t, func(o *adminhttp.Options) { store = &racing{Storage: o.Storage}; o.Storage = store })
	_, err := r.storage.PutResource(t.Context(), "rule", "x", []byte("1"), 0)
	require.NoError(t, err)
	store.left.Store(3)
	status, header, _ := r.do(t, "PUT", "/v1/resources/rule/x", "2", with("If-Match", "*"))
	assert.Equal(t, 200, status)
	assert.Equal(t, `"5"`, header.Get("ETag"))
	store.left.Store(1)
	status, _, body := r.do(t, "DELETE", "/v1/resources/rule/x", "", with("If-Match", `"5","4"`))
	refused(t, 412, ports.CodeVersionConflict, status, body)

	// Writers that say * all get through, each once.
	store.left.Store(0)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			status, _, body := r.do(t, "PUT", "/v1/resources/rule/x", "3", with("If-Match", "*"))
			assert.Equal(t, 200, status, body)
		})
	}
	group.Wait()
	resource, _, err := r.storage.GetResource(t.Context(), "rule", "x")
	require.NoError(t, err)
	assert.EqualValues(t, 14, resource.Version)
}

func TestAPipelineIsCheckedBeforeItIsStoredAndRunAfterwards(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client := newClient(t, r.server.URL, adminToken, adminhttp.ClientOptions{})
	status, _, body := r.do(t, "PUT", "/v1/resources/pipeline/floods", `{"bad":1}`)
	refused(t, 400, ports.CodeInvalidInput, status, body)
	assert.Contains(t, body, `the pipeline \"floods\" has no source`)
	_, err := client.PutResource(t.Context(), types.PipelineKind, "tides", []byte(`{}`), 0)
	require.ErrorIs(t, err, ports.ErrAlreadyExists)
	require.ErrorContains(t, err, "configuration file")
	kinds, err := r.storage.ResourceKinds(t.Context())
	require.NoError(t, err)
	assert.Empty(t, kinds)
	_, refreshed := r.engine.state()
	assert.Empty(t, refreshed, "nothing was changed")

	status, _, _ = r.do(t, "PUT", "/v1/resources/rule/floods", `{"bad":1}`)
	assert.Equal(t, 201, status, "other kinds are not the engine's affair")
	_, err = client.PutResource(t.Context(), types.PipelineKind, "floods", []byte(`{"good":1}`), 0)
	require.NoError(t, err)
	_, err = client.PutResource(t.Context(), types.PipelineKind, "floods", []byte(`{"good":2}`), 7)
	require.ErrorIs(t, err, ports.ErrVersionConflict)
	_, refreshed = r.engine.state()
	assert.Equal(t, []types.PipelineID{"floods"}, refreshed)

	r.engine.refresh = func(context.Context) error { return errors.New("the disk is full") }
	status, _, body = r.do(t, "PUT", "/v1/resources/pipeline/floods", `{"good":3}`, with("If-Match", "*"))
	assert.Equal(t, 200, status, "it has been stored: %s", body)
	assert.Contains(t, r.log.String(), "the disk is full")
	require.NoError(t, client.DeleteResource(t.Context(), types.PipelineKind, "floods", 2))
	_, refreshed = r.engine.state()
	assert.Equal(t, []types.PipelineID{"floods", "floods", "floods"}, refreshed)
}

func TestAReplacementGoesOnWithoutItsClient(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	begun, gone, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	r.engine.refresh = func(ctx context.Context) error {
		close(begun)
		<-gone
		ended <- ctx.Err()
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := newClient(t, r.server.URL, adminToken, adminhttp.ClientOptions{}).PutResource(ctx, types.PipelineKind, "floods", []byte(`{}`), 0)
		done <- err
	}()
	<-begun
	cancel()
	require.ErrorIs(t, <-done, ports.ErrOutcomeUnknown)
	close(gone)
	require.NoError(t, <-ended)
}
