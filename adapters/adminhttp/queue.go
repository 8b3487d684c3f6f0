package adminhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

type queueInfo struct {
	ID    string           `json:"id"`
	OK    bool             `json:"ok"`
	Error *ports.WireError `json:"error,omitempty"`
}

type queueList struct {
	Queues []queueInfo `json:"queues"`
}

type rotateRequest struct {
	OverlapSeconds json.RawMessage `json:"overlapSeconds,omitempty"`
}

type backupRequest struct {
	Path string `json:"path"`
}

// maxPath is the longest path that a system takes, in bytes.
const maxPath = 4096

func (b backupRequest) check(op string) error {
	switch {
	case len(b.Path) > maxPath:
		return ports.Errorf(ports.CodeInvalidInput, op, "the path of the backup has %d bytes: give at most %d", len(b.Path), maxPath)
	case !filepath.IsAbs(b.Path):
		return ports.Errorf(ports.CodeInvalidInput, op, "the path of the backup is %q: give an absolute one of the daemon's machine", b.Path)
	case strings.ContainsRune(b.Path, 0):
		return ports.Errorf(ports.CodeInvalidInput, op, "the path of the backup %q has a zero byte in it, as none can: give another one", b.Path)
	}
	return nil
}

func newQueueInfo(q types.QueueInfo) queueInfo {
	info := queueInfo{ID: q.ID, OK: q.Err == nil}
	if q.Err != nil {
		wire := ports.NewWireError(q.Err)
		info.Error = &wire
	}
	return info
}

// queueID takes the id out of the path.
func queueID(op string, r *http.Request) (string, error) {
	id := r.PathValue("id")
	return id, ports.CheckQueueID(op, id)
}

func (h *Handler) list(w http.ResponseWriter, r *http.Request) error {
	queues, err := h.Owner.List(r.Context())
	if err != nil {
		return err
	}
	list := queueList{Queues: make([]queueInfo, len(queues))}
	for i, q := range queues {
		list.Queues[i] = newQueueInfo(q)
	}
	return h.answer(w, http.StatusOK, list)
}

func (h *Handler) get(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.getQueue"
	id, err := queueID(op, r)
	if err != nil {
		return err
	}
	queues, err := h.Owner.List(r.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(queues, func(q types.QueueInfo) bool { return q.ID == id })
	if i < 0 {
		return ports.Errorf(ports.CodeNotFound, op, "there is no queue %q: GET /v1/queues has those that there are", id)
	}
	return h.answer(w, http.StatusOK, newQueueInfo(queues[i]))
}

func (h *Handler) create(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.createQueue"
	id, err := queueID(op, r)
	if err != nil {
		return err
	}
	if err := body(op, w, r, &struct{}{}); err != nil {
		return err
	}
	if err := h.Owner.Create(r.Context(), id); err != nil {
		return err
	}
	return h.answer(w, http.StatusCreated, queueInfo{ID: id, OK: true})
}

func (h *Handler) delete(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.deleteQueue"
	id, err := queueID(op, r)
	if err != nil {
		return err
	}
	if err := body(op, w, r, &struct{}{}); err != nil {
		return err
	}
	if err := h.Owner.Delete(r.Context(), id); err != nil {
		return err
	}
	return h.answer(w, http.StatusNoContent, nil)
}

func (h *Handler) rotate(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.rotateToken"
	id, err := queueID(op, r)
	if err != nil {
		return err
	}
	var request rotateRequest
	if err := body(op, w, r, &request); err != nil {
		return err
	}
	var overlap time.Duration
	if request.OverlapSeconds != nil {
		if overlap, err = ports.ParseSeconds(op, "overlapSeconds", request.OverlapSeconds); err != nil {
			return err
		}
	}
	if err := ports.CheckOverlap(op, overlap); err != nil {
		return err
	}
	token, err := h.Owner.Rotate(r.Context(), id, overlap)
	if err != nil {
		return err
	}
	return h.answerBinding(w, id, token)
}

func (h *Handler) binding(w http.ResponseWriter, r *http.Request) error {
	id, err := queueID("admin.getBinding", r)
	if err != nil {
		return err
	}
	token, err := h.Owner.Token(r.Context(), id)
	if err != nil {
		return err
	}
	return h.answerBinding(w, id, token)
}

func (h *Handler) answerBinding(w http.ResponseWriter, id, token string) error {
	endpoint := h.Endpoint + "/v1/queues/" + url.PathEscape(id)
	return h.answer(w, http.StatusOK, ports.NewWireBinding(types.QueueBinding{Endpoint: endpoint, Token: token}))
}

func (h *Handler) stats(w http.ResponseWriter, r *http.Request) error {
	q, err := h.queue(r.Context(), "admin.getStats", r)
	if err != nil {
		return err
	}
	stats, err := q.Stats(r.Context())
	if err != nil {
		return err
	}
	return h.answer(w, http.StatusOK, ports.NewWireStats(stats))
}

func (h *Handler) queue(ctx context.Context, op string, r *http.Request) (ports.Queue, error) {
	id, err := queueID(op, r)
	if err != nil {
		return nil, err
	}
	return h.Owner.Queue(ctx, id)
}

func (h *Handler) discard(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.discardRow"
	text := r.PathValue("row")
	row, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(row, 10) != text {
		return ports.Errorf(ports.CodeInvalidInput, op, "the id of a row is a whole number: peek shows those of rows that cannot be decoded")
	}
	if err := body(op, w, r, &struct{}{}); err != nil {
		return err
	}
	q, err := h.queue(r.Context(), op, r)
	if err != nil {
		return err
	}
	discarder, ok := q.(ports.Discarder)
	if !ok {
		return unsupported(op, "the queue keeps no rows that cannot be decoded")
	}
	found, err := discarder.Discard(r.Context(), row)
	if err != nil {
		return err
	}
	if !found {
		return ports.Errorf(ports.CodeNotFound, op, "the queue has no row %d that cannot be decoded", row)
	}
	return h.answer(w, http.StatusNoContent, nil)
}

// backup copies the queue into a file of the daemon's machine. It ends when the operator goes away,
// and leaves nothing then.
func (h *Handler) backup(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.backupQueue"
	var request backupRequest
	if err := body(op, w, r, &request); err != nil {
		return err
	}
	if err := request.check(op); err != nil {
		return err
	}
	store, err := h.stored(op, r)
	if err != nil {
		return err
	}
	if err := store.Backup(r.Context(), request.Path); err != nil {
		return err
	}
	return h.answer(w, http.StatusCreated, request)
}

func (h *Handler) verify(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.verifyQueue"
	if err := body(op, w, r, &struct{}{}); err != nil {
		return err
	}
	store, err := h.stored(op, r)
	if err != nil {
		return err
	}
	if err := store.Verify(r.Context()); err != nil {
		return err
	}
	return h.answer(w, http.StatusNoContent, nil)
}

// stored is the queue of the path, if it is kept in a file.
func (h *Handler) stored(op string, r *http.Request) (ports.Backuper, error) {
	q, err := h.queue(r.Context(), op, r)
	if err != nil {
		return nil, err
	}
	store, ok := q.(ports.Backuper)
	if !ok {
		return nil, unsupported(op, "the queue is not kept in a file")
	}
	return store, nil
}

func unsupported(op, what string) error {
	return ports.WithStatus(ports.Errorf(ports.CodeQueueOperationFailed, op, "%s", what).WithReason(ports.ReasonUnsupported), http.StatusNotImplemented)
}
