package adminhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/adminhttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// filedStorage is kept in a file.
type filedStorage struct{ *model.Storage }

func (filedStorage) Backup(ctx context.Context, path string) error {
	return filedQueue{}.Backup(ctx, path)
}
func (filedStorage) Verify(context.Context) error {
	return ports.Errorf(ports.CodeBackendFailed, "storage.verify", "the file is damaged").WithReason(ports.ReasonCorrupt)
}

// plainStorage has nothing beyond the port.
type plainStorage struct{ ports.Storage }

func TestAStorageInAFileIsBackedUpAndVerified(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) { o.Storage = filedStorage{o.Storage.(*model.Storage)} })
	status, _, body := r.do(t, "POST", "/v1/storage/backup", `{"path":"/new"}`)
	assert.Equal(t, 201, status)
	assert.Equal(t, `{"path":"/new"}`, body)
	status, _, body = r.do(t, "POST", "/v1/storage/backup", `{"path":"/old"}`)
	refused(t, 409, ports.CodeAlreadyExists, status, body)
	for _, bad := range []string{`{"path":"relative"}`, `{"path":""}`, `{}`, ``, `{"path":"/new","x":1}`, `{"path":"/new","path":"/new"}`} {
		status, _, body = r.do(t, "POST", "/v1/storage/backup", bad)
		refused(t, 400, ports.CodeInvalidInput, status, body)
	}
	status, _, body = r.do(t, "POST", "/v1/storage/verify", "")
	refused(t, 500, ports.CodeBackendFailed, status, body)
	status, _, body = r.do(t, "POST", "/v1/storage/verify", `{"x":1}`)
	refused(t, 400, ports.CodeInvalidInput, status, body)

	plain := newRig(t, func(o *adminhttp.Options) { o.Storage = plainStorage{o.Storage} })
	for _, request := range []struct{ method, path, body string }{{"POST", "/backup", `{"path":"/new"}`}, {"POST", "/verify", ""}, {"GET", "/export", ""}} {
		status, _, body = plain.do(t, request.method, "/v1/storage"+request.path, request.body)
		refused(t, 501, ports.CodeBackendFailed, status, body)
		assert.Contains(t, body, `"reason":"unsupported"`)
	}
}

func TestWithoutAStorageItsPathsSaySo(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) { o.Storage, o.Control = nil, nil })
	for _, request := range []struct{ method, path string }{
		{"GET", "/v1/checkpoints"}, {"GET", "/v1/checkpoints/p"}, {"PUT", "/v1/checkpoints/p"}, {"DELETE", "/v1/checkpoints/p"}, {"GET", "/v1/deadletters"}, {"GET", "/v1/deadletters/p"},
		{"POST", "/v1/deadletters/p"}, {"GET", "/v1/deadletters/p/m"}, {"DELETE", "/v1/deadletters/p/m"}, {"POST", "/v1/deadletters/p/m/replay"}, {"GET", "/v1/pauses"},
		{"PUT", "/v1/pauses/pipeline/p"}, {"DELETE", "/v1/pauses/pipeline/p"}, {"GET", "/v1/resources"}, {"GET", "/v1/resources/k"}, {"GET", "/v1/resources/k/i"}, {"PUT", "/v1/resources/k/i"},
		{"DELETE", "/v1/resources/k/i"}, {"POST", "/v1/storage/backup"}, {"POST", "/v1/storage/verify"}, {"GET", "/v1/storage/export"},
	} {
		status, _, body := r.do(t, request.method, request.path, "")
		refused(t, 501, ports.CodeBackendFailed, status, body)
		assert.Contains(t, body, `"reason":"unsupported"`)
	}
	status, _, body := r.do(t, "GET", "/statusz", "")
	assert.Equal(t, 200, status)
	assert.NotContains(t, body, "storage")
}

// fill puts a record of every category into a storage.
func fill(t *testing.T, s ports.Storage) {
	t.Helper()
	checkpoint := types.Checkpoint{Cursor: fixture.Cursor(7), UpdatedAt: fixture.Epoch()}
	_, err := s.PutResource(t.Context(), fixture.Kind, "x", []byte(" {\"a\" : 1}\n"), 0)
	require.NoError(t, err)
	require.NoError(t, s.Pause(t.Context(), types.SinkOf(fixture.Pipeline, fixture.Sink)))
	require.NoError(t, s.Apply(t.Context(), fixture.Pipeline, types.Progress{
		Checkpoint:  &checkpoint,
		Deliveries:  []types.Delivery{{Cursor: fixture.Cursor(6), MatchID: fixture.MatchID(6)}},
		DeadLetters: []types.DeadLetter{fixture.DeadLetter(1), fixture.DeadLetter(2)},
		Hits:        []types.GateHit{{Monitor: fixture.Monitor, Cursor: fixture.Cursor(5), Event: fixture.Event(5)}},
		Metas:       []types.MonitorMeta{{Monitor: fixture.Monitor, Meta: types.GateMeta{Aux: []byte{}}}},
	}))
}

func TestAnExportIsAnArchive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fill(t, r.storage)
	var want bytes.Buffer
	records, err := ports.WriteArchive(t.Context(), &want, r.storage)
	require.NoError(t, err)
	status, header, body := r.do(t, "GET", "/v1/storage/export", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, "application/x-ndjson", header.Get("Content-Type"))
	assert.Equal(t, want.String(), body)
	status, header, body = r.do(t, "HEAD", "/v1/storage/export", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, "application/x-ndjson", header.Get("Content-Type"))
	assert.Empty(t, body)

	var got bytes.Buffer
	client := newClient(t, r.server.URL, adminToken, adminhttp.ClientOptions{})
	n, err := client.ExportStorage(t.Context(), &got)
	require.NoError(t, err)
	assert.Equal(t, records, n)
	assert.Equal(t, want.String(), got.String())
	other := model.NewStorage(0)
	imported, err := other.Import(t.Context(), ports.ReadArchive(&got))
	require.NoError(t, err)
	assert.Equal(t, records, imported)

	empty := newClient(t, newRig(t).server.URL, adminToken, adminhttp.ClientOptions{})
	n, err = empty.ExportStorage(t.Context(), &got)
	require.NoError(t, err)
	assert.Zero(t, n)
}

// exporting is a storage whose export is a function.
type exporting struct {
	*model.Storage
	export func(context.Context, func(types.Record) error) error
}

func (s exporting) Export(ctx context.Context, yield func(types.Record) error) error {
	return s.export(ctx, yield)
}

// newExporting serves a storage whose export is a function, as it is: what is held against the document
// is kept back until it is whole.
func newExporting(t *testing.T, export func(context.Context, func(types.Record) error) error, change ...func(*adminhttp.Options)) (*rig, *httptest.Server) {
	t.Helper()
	r := newRig(t, append(change, func(o *adminhttp.Options) { o.Storage = exporting{o.Storage.(*model.Storage), export} })...)
	server := httptest.NewServer(r.handler)
	t.Cleanup(server.Close)
	return r, server
}

// record is one of about 64 KiB.
func record(n int) types.Record {
	l := heavy(n, 64<<10)
	return types.Record{Pipeline: fixture.Pipeline, DeadLetter: &l}
}

func TestAnExportThatFailsBeforeItsFirstByteIsAnError(t *testing.T) {
	t.Parallel()
	failure := ports.Errorf(ports.CodeBackendFailed, "storage.export", "a record cannot be decoded").WithReason(ports.ReasonUndecodable)
	_, server := newExporting(t, func(_ context.Context, yield func(types.Record) error) error { return failure })
	var got bytes.Buffer
	_, err := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{}).ExportStorage(t.Context(), &got)
	require.ErrorIs(t, err, ports.ErrUndecodable)
	assert.Empty(t, got.String())
}

func TestAnExportThatFailsInTheMiddleIsKnownForWhatItIs(t *testing.T) {
	t.Parallel()
	r, server := newExporting(t, func(_ context.Context, yield func(types.Record) error) error {
		for n := range 20 {
			if err := yield(record(n)); err != nil {
				return err
			}
		}
		return errors.New("the disk is gone")
	})
	var got bytes.Buffer
	_, err := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{}).ExportStorage(t.Context(), &got)
	require.ErrorIs(t, err, ports.ErrBackendFailed)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.NotEmpty(t, got.String())
	var last error
	for _, err := range ports.ReadArchive(&got) {
		last = err
	}
	require.ErrorIs(t, last, ports.ErrInvalidInput, "what came is no archive")
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "the disk is gone") }, time.Minute, time.Millisecond)
}

func TestAnExportEndsWhenItsClientGoesAway(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	_, server := newExporting(t, func(ctx context.Context, yield func(types.Record) error) error {
		for n := 0; ; n++ {
			if err := yield(record(n)); err != nil {
				ended <- err
				return err
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{}).ExportStorage(ctx, writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }))
	require.ErrorIs(t, err, context.Canceled)
	require.Error(t, <-ended)

	full := errors.New("no space left")
	_, err = newClient(t, server.URL, adminToken, adminhttp.ClientOptions{}).ExportStorage(t.Context(), writerFunc(func([]byte) (int, error) { return 0, full }))
	require.Equal(t, full, err, "the writer's own error comes back")
	require.Error(t, <-ended)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// deadlines is a connection's writer that takes nothing from the third chunk on, and has its deadline
// pass at once.
type deadlines struct {
	*httptest.ResponseRecorder
	set    []time.Time
	writes int
}

func (d *deadlines) SetWriteDeadline(at time.Time) error { d.set = append(d.set, at); return nil }

func (d *deadlines) Write(p []byte) (int, error) {
	if d.writes++; d.writes > 2 {
		return 0, os.ErrDeadlineExceeded
	}
	return d.ResponseRecorder.Write(p)
}

func TestAClientThatTakesNothingEndsAnExport(t *testing.T) {
	t.Parallel()
	r, _ := newExporting(t, func(_ context.Context, yield func(types.Record) error) error {
		for n := 0; ; n++ {
			if err := yield(record(n)); err != nil {
				return err
			}
		}
	})
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/storage/export", nil)
	request.Header.Set("Authorization", "Bearer "+adminToken)
	started := time.Now()
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { r.handler.ServeHTTP(w, request) })
	require.GreaterOrEqual(t, len(w.set), 4, "one for the head, and one for each chunk")
	for _, at := range w.set {
		assert.WithinRange(t, at, started, time.Now().Add(ports.DefaultWriteTimeout))
	}
}

// A client that is slow does not keep the storage of a process that stops open.
func TestAnExportIsCutOffWhenTheProcessWaitsForItNoLonger(t *testing.T) {
	t.Parallel()
	abort, taken, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once sync.Once
	r, server := newExporting(t, func(_ context.Context, yield func(types.Record) error) error {
		for n := 0; ; n++ {
			if err := yield(record(n)); err != nil {
				once.Do(func() { close(ended) })
				return err
			}
		}
	}, func(o *adminhttp.Options) { o.Abort = abort })
	failure := make(chan error, 1)
	go func() {
		stall := sync.OnceFunc(func() { close(taken); <-ended })
		_, err := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{}).ExportStorage(t.Context(), writerFunc(func(p []byte) (int, error) { stall(); return len(p), nil }))
		failure <- err
	}()
	<-taken // and takes no more until the export has ended
	close(abort)
	require.ErrorIs(t, <-failure, ports.ErrBackendFailed)
	require.Eventually(t, func() bool {
		return strings.Contains(r.log.String(), "the daemon stops, and the export was not whole yet")
	}, time.Minute, time.Millisecond)

	status, _, body := r.do(t, "GET", "/v1/storage/export", "")
	refused(t, 503, ports.CodeStoreClosed, status, body)
}

// Something between that hides a cut, as some proxies do, does not make an archive whole.
func TestAnArchiveWithoutItsEndIsNotTaken(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "\n", `{"format":"stowage-storage.v1"}` + "\n", `{"format":"stowage-storage.v1"}` + "\n" + `{"end":{"records":0}}`,
		`{"format":"stowage-storage.v1"}` + "\n" + `{"end":{"records":1}}` + "\n", `{"format":"stowage-storage.v1"}` + "\n" + `{"pause":{"target":"sink","id":"p/s"}}` + "\n" + `{"end":{"records":0}}` + "\n",
		`{"end":{"records":0}}` + "\n", `{"format":"stowage-storage.v1"}` + "\n" + `{"end":{}}` + "\n", strings.Repeat("x", 1000) + "\n",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			_, err := io.WriteString(w, text)
			assert.NoError(t, err)
		}))
		_, err := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{}).ExportStorage(t.Context(), io.Discard)
		require.ErrorIs(t, err, ports.ErrBackendFailed, "%q", text)
		server.Close()
	}
}

func TestTheConnectionGoesOnAfterAnExport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fill(t, r.storage)
	server := httptest.NewServer(r.handler)
	t.Cleanup(server.Close)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	reader := bufio.NewReader(conn)
	for _, path := range []string{"/v1/storage/export", "/v1/pauses", "/v1/storage/export"} {
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, adminToken)
		require.NoError(t, err)
		answer, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, 200, answer.StatusCode)
	}
}
