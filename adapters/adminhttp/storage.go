package adminhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stowage-go/stowage/ports"
)

const (
	// ndjson is the media type of an archive.
	ndjson = "application/x-ndjson"
	// exportChunk is what a client has to take within the time of one write.
	exportChunk = 64 << 10
)

// withoutStorage answers for all that needs a storage, where there is none.
func withoutStorage(http.ResponseWriter, *http.Request) error {
	return storageUnsupported("admin.request", "the daemon has no storage: its configuration can give it one, in [storage]")
}

func storageUnsupported(op, what string) error {
	return ports.WithStatus(ports.Errorf(ports.CodeBackendFailed, op, "%s", what).WithReason(ports.ReasonUnsupported), http.StatusNotImplemented)
}

// backupStorage copies the storage into a file of the daemon's machine. It ends when the operator goes
// away, and leaves nothing then.
func (h *Handler) backupStorage(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.backupStorage"
	var request backupRequest
	if err := body(op, w, r, &request); err != nil {
		return err
	}
	if err := request.check(op); err != nil {
		return err
	}
	store, err := h.storageFile(op)
	if err != nil {
		return err
	}
	if err := store.Backup(r.Context(), request.Path); err != nil {
		return err
	}
	return h.answer(w, http.StatusCreated, request)
}

func (h *Handler) verifyStorage(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.verifyStorage"
	if err := body(op, w, r, &struct{}{}); err != nil {
		return err
	}
	store, err := h.storageFile(op)
	if err != nil {
		return err
	}
	if err := store.Verify(r.Context()); err != nil {
		return err
	}
	return h.answer(w, http.StatusNoContent, nil)
}

func (h *Handler) storageFile(op string) (ports.Backuper, error) {
	store, ok := h.Storage.(ports.Backuper)
	if !ok {
		return nil, storageUnsupported(op, "the storage is not kept in a file, so there is none to copy or to check: an export has all that it holds")
	}
	return store, nil
}

// exportStorage writes an archive while it is made. If that fails in the middle, the connection is cut
// off: the status has been sent by then, and only an end that is missing tells.
func (h *Handler) exportStorage(w http.ResponseWriter, r *http.Request) error {
	const op = "admin.exportStorage"
	archiver, ok := h.Storage.(ports.Archiver)
	if !ok {
		return storageUnsupported(op, "the storage cannot be exported")
	}
	out := &exportWriter{to: w, control: http.NewResponseController(w)}
	var err error
	if r.Method == http.MethodHead {
		err = out.begin()
	} else {
		err = h.writeArchive(r.Context(), out, archiver)
	}
	if err == nil {
		err = out.end()
	}
	if err == nil || !out.begun {
		return err
	}
	h.Log.Warn("an export of the storage was cut off", "bytes", out.written, "error", err)
	panic(http.ErrAbortHandler) // the one way to make net/http cut an answer off
}

// writeArchive writes the archive, and gives up when the process waits for it no longer.
func (h *Handler) writeArchive(ctx context.Context, out *exportWriter, from ports.Archiver) error {
	select {
	case <-h.Abort:
		return errAborted
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-h.Abort:
			cancel(errAborted)
			out.abort()
		case <-done:
		}
	}()
	_, err := ports.WriteArchive(ctx, out, from)
	close(done)
	<-watched
	if errors.Is(context.Cause(ctx), errAborted) && err != nil {
		err = errAborted
	}
	cancel(nil)
	return err
}

// errAborted is what an export that is given up ends with.
var errAborted = ports.Errorf(ports.CodeStoreClosed, "admin.exportStorage", "the daemon stops, and the export was not whole yet: repeat it when the daemon runs again")

// exportWriter gives each chunk the time that a whole answer has otherwise, so that an export may take
// long, and a client that takes nothing ends it.
type exportWriter struct {
	to      http.ResponseWriter
	control *http.ResponseController
	begun   bool
	written int64

	mu      sync.Mutex
	aborted bool
}

func (e *exportWriter) begin() error {
	if err := e.allow(ports.DefaultWriteTimeout); err != nil {
		return err
	}
	header := e.to.Header()
	header.Set("Content-Type", ndjson)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	e.begun = true
	e.to.WriteHeader(http.StatusOK)
	return nil
}

// Write writes in chunks.
func (e *exportWriter) Write(p []byte) (int, error) {
	if !e.begun {
		if err := e.begin(); err != nil {
			return 0, err
		}
	}
	for n := 0; n < len(p); {
		if err := e.allow(ports.DefaultWriteTimeout); err != nil {
			return n, err
		}
		m, err := e.to.Write(p[n:min(n+exportChunk, len(p))])
		n += m
		e.written += int64(m)
		if err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// end brings out what is buffered, and leaves the connection without a deadline, as it was.
func (e *exportWriter) end() error {
	if err := e.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("write an answer: %w", err)
	}
	return e.allow(0)
}

// abort ends a write that waits for the client, and those that follow.
func (e *exportWriter) abort() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.aborted = true
	// An error means that the connection is gone, or has no deadlines; either way the context has ended.
	_ = e.control.SetWriteDeadline(time.Now())
}

// allow sets the deadline of the writes that follow; none for zero.
func (e *exportWriter) allow(timeout time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.aborted {
		return errAborted
	}
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	if err := e.control.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set the deadline of an answer: %w", err)
	}
	return nil
}
