package adminhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// resourceChunk is how many resources are asked of the storage at a time, so that a page in memory
// stays near maxPage, whatever the values weigh.
const resourceChunk = 16

type kindList struct {
	Kinds []types.ResourceKind `json:"kinds"`
}

type resourceVersion struct {
	Kind    types.ResourceKind `json:"kind"`
	ID      string             `json:"id"`
	Version uint64             `json:"version"`
}

// listedResource has the value compact; that of one resource comes byte for byte.
type listedResource struct {
	resourceVersion
	Value json.RawMessage `json:"value"`
}

type resourceList struct {
	Resources []listedResource `json:"resources"`
	Next      string           `json:"next,omitempty"`
}

func (h *Handler) listKinds(w http.ResponseWriter, r *http.Request) error {
	kinds, err := h.Storage.ResourceKinds(r.Context())
	if err != nil {
		return err
	}
	return h.answer(w, http.StatusOK, kindList{append([]types.ResourceKind{}, kinds...)})
}

// listResources ends a page early where its values weigh more than maxPage. One resource always comes.
func (h *Handler) listResources(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.listResources"
	query := r.URL.Query()
	kind := types.ResourceKind(r.PathValue("kind"))
	limit, err := number(op, query, "limit", ports.MaxPageLimit)
	if err != nil {
		return err
	}
	if limit == 0 {
		return ports.Errorf(ports.CodeInvalidInput, op, "the limit is 0: give 1 to %d", ports.MaxPageLimit)
	}
	options := types.ResourceListOptions{After: query.Get("after"), Limit: limit}
	if _, err := ports.CheckResourceList(op, kind, options); err != nil {
		return err
	}
	answer := resourceList{Resources: []listedResource{}}
	for size := 0; ; {
		options.Limit = min(resourceChunk, limit-len(answer.Resources))
		page, err := h.Storage.ListResources(r.Context(), kind, options)
		if err != nil {
			return err
		}
		for _, resource := range page.Resources {
			size += len(resource.Value)
			if size > h.pageBytes && len(answer.Resources) > 0 {
				answer.Next = options.After
				return h.answer(w, http.StatusOK, answer)
			}
			answer.Resources = append(answer.Resources, listedResource{resourceVersion{kind, resource.ID, resource.Version}, resource.Value})
			options.After = resource.ID
		}
		if page.Next == "" || len(answer.Resources) == limit {
			answer.Next = page.Next
			return h.answer(w, http.StatusOK, answer)
		}
		options.After = page.Next
	}
}

// resourceKey takes kind and id out of the path.
func resourceKey(op string, r *http.Request) (types.ResourceKind, string, error) {
	kind, id := types.ResourceKind(r.PathValue("kind")), r.PathValue("id")
	return kind, id, ports.CheckResourceKey(op, kind, id)
}

func (h *Handler) getResource(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.getResource"
	kind, id, err := resourceKey(op, r)
	if err != nil {
		return err
	}
	if err := takesNo(op, r, "If-Match"); err != nil {
		return err
	}
	known, err := parseTags(op, r.Header, "If-None-Match")
	if err != nil {
		return err
	}
	resource, found, err := h.Storage.GetResource(r.Context(), kind, id)
	if err != nil {
		return err
	}
	if !found {
		return ports.Errorf(ports.CodeNotFound, op, "there is no resource %s/%s: GET /v1/resources/%s has those that there are", kind, id, kind)
	}
	tag := formatTag(resource.Version)
	w.Header().Set("ETag", tag)
	if known.matches(tag) {
		return h.write(w, http.StatusNotModified, nil)
	}
	return h.write(w, http.StatusOK, resource.Value)
}

func (h *Handler) putResource(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.putResource"
	kind, id, err := resourceKey(op, r)
	if err != nil {
		return err
	}
	match, err := parseMatch(op, r.Header)
	if err != nil {
		return err
	}
	none, err := parseTags(op, r.Header, "If-None-Match")
	switch {
	case err != nil:
		return err
	case none.given && !none.any:
		return ports.Errorf(ports.CodeInvalidInput, op, "If-None-Match names versions: a put takes If-None-Match: * to create, or If-Match to update")
	case none.given && match.given:
		return ports.Errorf(ports.CodeInvalidInput, op, "If-None-Match creates and If-Match updates: give one of them")
	}
	value, err := ports.ReadBody(op, w, r, ports.BodyOptions{Limit: ports.MaxJSONBytes})
	if err != nil {
		return err
	}
	if err := ports.CheckResource(op, kind, id, value, 0); err != nil {
		return err
	}
	if err := h.checkPipeline(r.Context(), op, kind, id, value); err != nil {
		return err
	}
	status := http.StatusCreated
	var version uint64
	put := func(expected uint64) (err error) {
		version, err = h.Storage.PutResource(r.Context(), kind, id, value, expected)
		return err
	}
	if match.given {
		status = http.StatusOK
		err = h.expecting(r.Context(), op, kind, id, match, put)
	} else {
		err = put(0)
	}
	if match.given || none.given {
		err = preconditionFailed(err)
	}
	if err != nil {
		return err
	}
	h.refresh(r.Context(), kind, id)
	w.Header().Set("ETag", formatTag(version))
	return h.answer(w, status, resourceVersion{kind, id, version})
}

func (h *Handler) deleteResource(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.deleteResource"
	kind, id, err := resourceKey(op, r)
	if err != nil {
		return err
	}
	if err := takesNo(op, r, "If-None-Match"); err != nil {
		return err
	}
	match, err := parseMatch(op, r.Header)
	if err != nil {
		return err
	}
	if !match.given {
		return ports.WithStatus(ports.Errorf(ports.CodeInvalidInput, op, `the request to delete %s/%s has no If-Match: give the version that is to be deleted, as in If-Match: "3", or * for any`, kind, id), http.StatusPreconditionRequired)
	}
	if err := body(op, w, r, &struct{}{}); err != nil {
		return err
	}
	err = h.expecting(r.Context(), op, kind, id, match, func(expected uint64) error {
		return h.Storage.DeleteResource(r.Context(), kind, id, expected)
	})
	if err := preconditionFailed(err); err != nil {
		return err
	}
	h.refresh(r.Context(), kind, id)
	return h.answer(w, http.StatusNoContent, nil)
}

// expecting runs a change with the version that it is to find. Where several will do, that is the one
// that is there; if it changes in between, somebody else got on, and the new one is looked at.
func (h *Handler) expecting(ctx context.Context, op string, kind types.ResourceKind, id string, match versionMatch, change func(expected uint64) error) error {
	if len(match.versions) == 1 {
		return change(match.versions[0])
	}
	for {
		resource, found, err := h.Storage.GetResource(ctx, kind, id)
		switch {
		case err != nil:
			return err
		case !found:
			return ports.Errorf(ports.CodeNotFound, op, "there is no resource %s/%s", kind, id)
		case !match.any && !slices.Contains(match.versions, resource.Version):
			return &ports.VersionConflictError{Op: op, Key: string(kind) + "/" + id, Expected: match.versions[0], Actual: resource.Version}
		}
		if err := change(resource.Version); !errors.Is(err, ports.ErrVersionConflict) {
			return err
		}
	}
}

// preconditionFailed gives the errors of a condition that the request made the status of one.
func preconditionFailed(err error) error {
	var e *ports.Error
	if !errors.As(err, &e) || e.Code != ports.CodeVersionConflict && e.Code != ports.CodeAlreadyExists && e.Code != ports.CodeNotFound {
		return err
	}
	failed := *e
	failed.Err = err // which has the versions
	return ports.WithStatus(&failed, http.StatusPreconditionFailed)
}

// takesNo refuses a condition that the method does not have, rather than to pass it over.
func takesNo(op string, r *http.Request, name string) error {
	if len(r.Header.Values(name)) > 0 {
		return ports.Errorf(ports.CodeInvalidInput, op, "a %s takes no %s", r.Method, name)
	}
	return nil
}
