package adminhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// ResourceKinds returns the kinds that have a record, ordered, as [ports.ResourceStore] has it.
func (c *Client) ResourceKinds(ctx context.Context) ([]types.ResourceKind, error) {
	var list struct {
		Kinds *[]types.ResourceKind `json:"kinds"`
	}
	if err := c.call(ctx, call{op: "admin.listKinds", path: "/v1/resources", answer: &list, check: func() bool { return list.Kinds != nil }}); err != nil {
		return nil, err
	}
	return *list.Kinds, nil
}

// ListResources returns a page of the records of a kind, as [ports.ResourceStore] has it, but for two
// things: values come without insignificant white space (GetResource has them byte for byte), and a
// page may end before its limit, at 16 MiB of values; go on as long as it has a Next.
func (c *Client) ListResources(ctx context.Context, kind types.ResourceKind, opts types.ResourceListOptions) (types.ResourcePage, error) {
	const op = "admin.listResources"
	limit, err := ports.CheckResourceList(op, kind, opts)
	if err != nil {
		return types.ResourcePage{}, err
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if opts.After != "" {
		query.Set("after", opts.After)
	}
	var list struct {
		Resources *[]listedResource `json:"resources"`
		Next      string            `json:"next"`
	}
	err = c.call(ctx, call{
		op: op, path: "/v1/resources/" + url.PathEscape(string(kind)) + "?" + query.Encode(),
		answer: &list, options: asStored, check: func() bool { return list.Resources != nil },
	})
	if err != nil {
		return types.ResourcePage{}, err
	}
	page := types.ResourcePage{Next: list.Next}
	for _, r := range *list.Resources {
		page.Resources = append(page.Resources, types.Resource{Kind: r.Kind, ID: r.ID, Version: r.Version, Value: r.Value})
	}
	return page, nil
}

// GetResource returns the record, byte for byte, and whether there is one.
func (c *Client) GetResource(ctx context.Context, kind types.ResourceKind, id string) (types.Resource, bool, error) {
	const op = "admin.getResource"
	if err := ports.CheckResourceKey(op, kind, id); err != nil {
		return types.Resource{}, false, err
	}
	call := call{op: op, path: resourcePath(kind, id)}
	got, err := c.send(ctx, call)
	if absent(err, op) {
		return types.Resource{}, false, nil
	}
	if err != nil {
		return types.Resource{}, false, err
	}
	version, ok := parseTag(got.header.Get("ETag"))
	if !ok || !isMedia(got.header, "application/json") {
		return types.Resource{}, false, c.foreign(call, errors.New("the answer is not application/json with the ETag of a version"))
	}
	return types.Resource{Kind: kind, ID: id, Version: version, Value: got.body}, true, nil
}

func resourcePath(kind types.ResourceKind, id string) string {
	return "/v1/resources/" + url.PathEscape(string(kind)) + "/" + url.PathEscape(id)
}

// PutResource creates (expected 0) or updates a record and returns its new version, as
// [ports.ResourceStore] has it.
func (c *Client) PutResource(ctx context.Context, kind types.ResourceKind, id string, value []byte, expected uint64) (uint64, error) {
	const op = "admin.putResource"
	if err := ports.CheckResource(op, kind, id, value, expected); err != nil {
		return 0, err
	}
	var answer resourceVersion
	call := call{
		op: op, method: http.MethodPut, path: resourcePath(kind, id), raw: value,
		header: http.Header{"If-Match": {formatTag(expected)}}, answer: &answer,
		check: func() bool { return answer.Kind == kind && answer.ID == id && answer.Version == expected+1 },
	}
	if expected == 0 {
		call.header, call.status = http.Header{"If-None-Match": {"*"}}, http.StatusCreated
	}
	if err := c.call(ctx, call); err != nil {
		return 0, err
	}
	return answer.Version, nil
}

// DeleteResource removes the record of the version expected, as [ports.ResourceStore] has it.
func (c *Client) DeleteResource(ctx context.Context, kind types.ResourceKind, id string, expected uint64) error {
	const op = "admin.deleteResource"
	if err := ports.CheckResourceDelete(op, kind, id, expected); err != nil {
		return err
	}
	return c.call(ctx, call{
		op: op, method: http.MethodDelete, path: resourcePath(kind, id),
		header: http.Header{"If-Match": {formatTag(expected)}}, status: http.StatusNoContent,
	})
}

// BackupStorage makes the daemon copy its storage, while it is in use, to an absolute path of its
// machine. A path that exists is ALREADY_EXISTS. It takes as long as it takes: only ctx ends it, and
// then no file is left behind.
func (c *Client) BackupStorage(ctx context.Context, path string) error {
	return c.call(ctx, call{op: "admin.backupStorage", method: http.MethodPost, path: "/v1/storage/backup", request: backupRequest{path}, status: http.StatusCreated, long: true})
}

// VerifyStorage makes the daemon check the whole file of its storage. What is wrong is the error; like
// BackupStorage it takes as long as it takes.
func (c *Client) VerifyStorage(ctx context.Context) error {
	return c.call(ctx, call{op: "admin.verifyStorage", method: http.MethodPost, path: "/v1/storage/verify", status: http.StatusNoContent, long: true})
}

// ExportStorage writes an archive of the storage, in the form of [ports.WriteArchive], and returns the
// number of its records. What was written counts only if there is no error: an archive that was cut
// off is one. It takes as long as it takes: only ctx ends it. An error of w is returned as it is.
func (c *Client) ExportStorage(ctx context.Context, w io.Writer) (int64, error) {
	archive := &archiveEnd{to: w}
	call := call{op: "admin.exportStorage", path: "/v1/storage/export", long: true, stream: archive}
	got, err := c.send(ctx, call)
	if err != nil {
		return 0, err
	}
	if !isMedia(got.header, ndjson) {
		return 0, c.foreign(call, errors.New("the answer is not "+ndjson))
	}
	records, whole := archive.records()
	if !whole {
		return 0, c.foreign(call, errors.New("the archive has no end that counts its records right: it was cut off"))
	}
	return records, nil
}

// archiveEnd passes an archive on, counts its lines and keeps its end. What the records hold is looked
// at by whoever reads them.
type archiveEnd struct {
	to    io.Writer
	lines int64
	tail  []byte
}

// maxTail holds the line that ends an archive, and the end of the line before it.
const maxTail = 256

func (a *archiveEnd) Write(p []byte) (int, error) {
	a.lines += int64(bytes.Count(p, []byte("\n")))
	a.tail = append(a.tail, p[max(0, len(p)-maxTail):]...)
	a.tail = a.tail[max(0, len(a.tail)-maxTail):]
	return a.to.Write(p)
}

// records reads the last line. The first one names the format; the records are between them.
func (a *archiveEnd) records() (int64, bool) {
	text, ended := bytes.CutSuffix(a.tail, []byte("\n"))
	var last struct {
		End *struct {
			Records *int64 `json:"records"`
		} `json:"end"`
	}
	err := ports.DecodeJSON(text[bytes.LastIndexByte(text, '\n')+1:], &last, ports.AllowUnknown)
	if !ended || err != nil || last.End == nil || last.End.Records == nil {
		return 0, false
	}
	return *last.End.Records, *last.End.Records == a.lines-2
}

// Status is what a daemon says of itself and of what it holds.
type Status struct {
	Readiness
	StartedAt time.Time
	Uptime    time.Duration
	Storage   *StorageStatus // nil where the daemon has no storage
	// QueueCount counts all queues. Queues has those of the first thousand ids. Neither is there with
	// a QueuesErr.
	QueueCount int
	Queues     []QueueStatus
	QueuesErr  error
	// Pipelines are nil where the daemon runs none, and with a PipelinesErr.
	Pipelines    []PipelineStatus
	PipelinesErr error
}

// PipelineStatus is a pipeline in short; [Client.Pipeline] has all of it.
type PipelineStatus struct {
	ID    types.PipelineID
	State types.PipelineState
	// Lag is how long ago the oldest event was read that is not dealt with, Pending the number of those.
	Lag     time.Duration
	Pending uint64
	Error   string
}

// StorageStatus says what a storage holds. What could not be found out has an error in its place.
type StorageStatus struct {
	Module         string
	Checkpoints    int
	CheckpointsErr error
	Letters        []types.LetterCount
	LettersErr     error
	Pauses         int
	PausesErr      error
}

// QueueStatus has the counts of a queue, or the error that it gave instead.
type QueueStatus struct {
	ID    string
	Stats types.QueueStats
	Err   error
}

// Status asks a daemon for its status. Parts of it that fail are no error of the call.
func (c *Client) Status(ctx context.Context) (Status, error) {
	const op = "admin.status"
	var wire struct {
		Version      string         `json:"version"`
		StartedAt    *int64         `json:"startedAt"`
		UptimeMillis int64          `json:"uptimeMillis"`
		Ready        *bool          `json:"ready"`
		Failing      []failing      `json:"failing"`
		Storage      *storageStatus `json:"storage"`
		Queues       *queuesStatus  `json:"queues"`

		Pipelines *pipelinesStatus `json:"pipelines"`
	}
	err := c.call(ctx, call{op: op, path: "/statusz", answer: &wire, check: func() bool { return wire.StartedAt != nil && wire.Ready != nil && wire.Queues != nil }})
	if err != nil {
		return Status{}, err
	}
	status := Status{
		Readiness: Readiness{Ready: *wire.Ready, Version: wire.Version},
		StartedAt: time.UnixMilli(*wire.StartedAt).UTC(),
		Uptime:    time.Duration(wire.UptimeMillis) * time.Millisecond,
	}
	for _, f := range wire.Failing {
		status.Failing = append(status.Failing, FailingCheck{f.Check, f.Code, f.Reason})
	}
	if s := wire.Storage; s != nil {
		status.Storage = &StorageStatus{Module: s.Module}
		status.Storage.Checkpoints, status.Storage.CheckpointsErr = valueOr(s.Checkpoints.Count, s.Checkpoints.Error)
		status.Storage.Pauses, status.Storage.PausesErr = valueOr(s.Pauses.Count, s.Pauses.Error)
		letters, err := valueOr(s.DeadLetters.Pipelines, s.DeadLetters.Error)
		status.Storage.LettersErr = err
		if err == nil {
			status.Storage.Letters = letterCountsOf(letters)
		}
	}
	if wire.Pipelines != nil {
		var list []pipelineStatus
		list, status.PipelinesErr = valueOr(wire.Pipelines.Pipelines, wire.Pipelines.Error)
		for _, p := range list {
			lag := time.Duration(p.LagSeconds * float64(time.Second))
			status.Pipelines = append(status.Pipelines, PipelineStatus{p.ID, p.State, lag, p.Pending, p.Error})
		}
	}
	status.QueueCount, status.QueuesErr = valueOr(wire.Queues.Count, wire.Queues.Error)
	if wire.Queues.Queues != nil {
		for _, q := range *wire.Queues.Queues {
			stats, err := valueOr(q.Stats, q.Error)
			status.Queues = append(status.Queues, QueueStatus{q.ID, stats.Stats(), err})
		}
	}
	return status, nil
}

// valueOr is a part of a status: its value, or the error in its place.
func valueOr[T any](value *T, wire *ports.WireError) (T, error) {
	var none T
	switch {
	case wire != nil:
		return none, wire.Err()
	case value == nil:
		return none, ports.Errorf(ports.CodeBackendFailed, "admin.status", "the daemon says nothing of this")
	}
	return *value, nil
}
