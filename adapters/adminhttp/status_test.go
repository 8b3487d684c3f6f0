package adminhttp_test

import (
	"context"
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

func TestStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) {
		o.Checks = []adminhttp.Check{{Name: "disk", Run: func(context.Context) error {
			return ports.Errorf(ports.CodeBackendFailed, "disk.health", "no space").WithReason(ports.ReasonDiskFull)
		}}}
	})
	fill(t, r.storage)
	r.owner.Block("blocked")
	q, err := r.owner.Queue(t.Context(), "orders")
	require.NoError(t, err)
	require.NoError(t, q.Send(t.Context(), fixture.JSON(1), types.SendOptions{}))
	r.clock.Advance(90 * time.Second)
	status, _, body := r.do(t, "GET", "/statusz", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"version":"v1.2.3","startedAt":1772366340000,"uptimeMillis":150000,"ready":false,"failing":[{"check":"disk","code":"BACKEND_FAILED","reason":"disk_full"}],`+
		`"storage":{"module":"model","checkpoints":{"count":1},"deadletters":{"pipelines":[{"pipeline":"earthquakes","count":2}]},"pauses":{"count":1}},`+
		`"queues":{"count":2,"queues":[{"id":"blocked","error":{"code":"BINDING_SETUP_FAILED","message":"the queue \"blocked\" is blocked: move its legacy directory away","retryable":false,"httpStatusCode":500,"context":{"op":"owner.queue"}}},`+
		`{"id":"orders","stats":{"total":1,"visible":1,"inFlight":0,"delayed":0,"undecodable":0,"oldestAgeMillis":90000}}]},`+
		`"pipelines":{"pipelines":[{"id":"quakes","state":"failed","lag_seconds":1.5,"pending":2,"error":"the file is gone"},{"id":"tides","state":"idle","lag_seconds":0,"pending":0}]}}`, body)

	got, err := newClient(t, r.server.URL, readToken, adminhttp.ClientOptions{}).Status(t.Context())
	require.NoError(t, err)
	require.Len(t, got.Queues, 2)
	require.ErrorIs(t, got.Queues[0].Err, ports.ErrBindingSetupFailed)
	got.Queues[0].Err = nil
	assert.Equal(t, adminhttp.Status{
		Readiness: adminhttp.Readiness{Version: "v1.2.3", Failing: []adminhttp.FailingCheck{{Name: "disk", Code: ports.CodeBackendFailed, Reason: ports.ReasonDiskFull}}},
		StartedAt: fixture.Epoch().Add(-time.Minute), Uptime: 150 * time.Second,
		Storage:    &adminhttp.StorageStatus{Module: "model", Checkpoints: 1, Letters: []types.LetterCount{{Pipeline: fixture.Pipeline, Count: 2}}, Pauses: 1},
		QueueCount: 2,
		Pipelines: []adminhttp.PipelineStatus{
			{ID: "quakes", State: types.PipelineFailed, Lag: 1500 * time.Millisecond, Pending: 2, Error: "the file is gone"},
			{ID: "tides", State: types.PipelineIdle},
		},
		Queues: []adminhttp.QueueStatus{{ID: "blocked"}, {ID: "orders", Stats: types.QueueStats{Total: 1, Visible: 1, OldestAge: 90 * time.Second}}},
	}, got)
}

func TestAPartOfTheStatusThatFailsHasItsErrorInItsPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, r.owner.Close())
	r.control.fail = ports.Errorf(ports.CodeStoreReplaced, "storage.listPauses", "the file was replaced")
	r.engine.fail = r.control.fail
	status, _, body := r.do(t, "GET", "/statusz", "")
	assert.Equal(t, 200, status)
	assert.Contains(t, body, `"pipelines":{"error":{"code":"STORE_REPLACED"`)
	assert.Contains(t, body, `"checkpoints":{"error":{"code":"STORE_REPLACED"`)
	assert.Contains(t, body, `"deadletters":{"error":{"code":"STORE_REPLACED"`)
	assert.Contains(t, body, `"pauses":{"error":{"code":"STORE_REPLACED"`)
	assert.Contains(t, body, `"queues":{"error":{"code":"STORE_CLOSED"`)
	got, err := newClient(t, r.server.URL, readToken, adminhttp.ClientOptions{}).Status(t.Context())
	require.NoError(t, err)
	assert.True(t, got.Ready)
	for _, err := range []error{got.Storage.CheckpointsErr, got.Storage.LettersErr, got.Storage.PausesErr, got.PipelinesErr} {
		require.ErrorIs(t, err, ports.ErrStoreReplaced)
	}
	require.ErrorIs(t, got.QueuesErr, ports.ErrStoreClosed)
}

// stuck is a storage side and an owner that do not answer; those of one kind do not even hear that
// nobody waits any more.
type stuck struct {
	*control
	over chan struct{}
}

func (s stuck) Pauses(ctx context.Context) ([]types.Pause, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (s stuck) LetterCounts(context.Context) ([]types.LetterCount, error) {
	<-s.over
	return nil, nil
}

type stuckOwner struct {
	*model.Owner
	over chan struct{}
}

func (o stuckOwner) Queue(ctx context.Context, id string) (ports.Queue, error) {
	if id == "orders" {
		<-o.over
	}
	return o.Owner.Queue(ctx, id)
}

func TestAPartOfTheStatusThatDoesNotEndIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	r := newRig(t, func(o *adminhttp.Options) {
		o.CheckTimeout = 500 * time.Millisecond
		o.Control = stuck{o.Control.(*control), over}
		o.Owner = stuckOwner{o.Owner.(*model.Owner), over}
	})
	defer close(over)
	require.NoError(t, r.owner.Create(t.Context(), "zeal"))
	got, err := newClient(t, r.server.URL, readToken, adminhttp.ClientOptions{}).Status(t.Context())
	require.NoError(t, err)
	require.NoError(t, got.Storage.CheckpointsErr)
	for _, err := range []error{got.Storage.LettersErr, got.Storage.PausesErr, got.Queues[0].Err} {
		require.ErrorIs(t, err, ports.ErrBackendFailed)
		require.ErrorContains(t, err, "did not end within 500ms")
	}
	require.NoError(t, got.Queues[1].Err)
}
