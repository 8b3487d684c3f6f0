package adminhttp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
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

func newClient(t *testing.T, base, token string, options adminhttp.ClientOptions) *adminhttp.Client {
	t.Helper()
	client, err := adminhttp.NewClient(base, token, options)
	require.NoError(t, err)
	return client
}

func TestClient(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) { o.Owner = discardingOwner{o.Owner.(*model.Owner)} })
	ctx := t.Context()
	client := newClient(t, r.server.URL+"/", adminToken, adminhttp.ClientOptions{})
	require.NoError(t, client.Live(ctx))
	ready, err := client.Ready(ctx)
	require.NoError(t, err)
	assert.Equal(t, adminhttp.Readiness{Ready: true, Version: "v1.2.3"}, ready)

	require.NoError(t, client.Create(ctx, "new"))
	require.ErrorIs(t, client.Create(ctx, "new"), ports.ErrAlreadyExists)
	require.ErrorIs(t, client.Create(ctx, "../new"), ports.ErrInvalidInput)
	r.owner.Block("blocked")
	queues, err := client.List(ctx)
	require.NoError(t, err)
	require.Len(t, queues, 3)
	assert.Equal(t, "blocked", queues[0].ID)
	require.ErrorIs(t, queues[0].Err, ports.ErrBindingSetupFailed)
	assert.Equal(t, []types.QueueInfo{{ID: "new"}, {ID: "orders"}}, queues[1:])
	info, err := client.Get(ctx, "orders")
	require.NoError(t, err)
	assert.Equal(t, types.QueueInfo{ID: "orders"}, info)

	token, err := r.owner.Token(ctx, "new")
	require.NoError(t, err)
	binding, err := client.Binding(ctx, "new")
	require.NoError(t, err)
	assert.Equal(t, types.QueueBinding{Endpoint: base + "/v1/queues/new", Token: token}, binding)
	rotated, err := client.Rotate(ctx, "new", 90*time.Minute)
	require.NoError(t, err)
	assert.NotEqual(t, token, rotated.Token)
	require.NoError(t, r.owner.Authenticate(ctx, "new", token), "it overlaps")
	_, err = client.Rotate(ctx, "new", 8*24*time.Hour)
	require.ErrorIs(t, err, ports.ErrInvalidInput)

	q, err := r.owner.Queue(ctx, "new")
	require.NoError(t, err)
	require.NoError(t, q.Send(ctx, fixture.JSON(1), types.SendOptions{}))
	r.clock.Advance(1500 * time.Millisecond)
	stats, err := client.Stats(ctx, "new")
	require.NoError(t, err)
	assert.Equal(t, types.QueueStats{Total: 1, Visible: 1, OldestAge: 1500 * time.Millisecond}, stats)
	require.NoError(t, client.Discard(ctx, "new", 7))
	require.ErrorIs(t, client.Discard(ctx, "new", 9), ports.ErrNotFound)

	require.NoError(t, client.Delete(ctx, "new"))
	require.ErrorIs(t, client.Delete(ctx, "new"), ports.ErrNotFound)
	_, err = client.Get(ctx, "new")
	require.ErrorIs(t, err, ports.ErrNotFound)

	_, err = newClient(t, r.server.URL, "another-token", adminhttp.ClientOptions{}).List(ctx)
	require.ErrorIs(t, err, ports.ErrAuthenticationFailed)
	assert.NotContains(t, err.Error(), "another-token")
}

func TestClientOfPipelines(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	client := newClient(t, r.server.URL, adminToken, adminhttp.ClientOptions{})

	_, found, err := client.Checkpoint(ctx, "quakes")
	require.NoError(t, err)
	assert.False(t, found)
	found, err = client.DeleteCheckpoint(ctx, "quakes")
	require.NoError(t, err)
	assert.False(t, found)
	module := fixture.Module
	want := types.Checkpoint{Cursor: types.Cursor{Primary: ports.MaxStoredInteger, Secondary: 3}, Module: &module, UpdatedAt: fixture.Epoch()}
	set, err := client.SetCheckpoint(ctx, "quakes", types.CheckpointChange{Cursor: want.Cursor, Module: &module})
	require.NoError(t, err)
	assert.Equal(t, want, set)
	_, err = client.SetCheckpoint(ctx, "quakes", types.CheckpointChange{})
	require.ErrorIs(t, err, ports.ErrCheckpointProvenance)
	got, found, err := client.Checkpoint(ctx, "quakes")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, want, got)
	all, err := client.Checkpoints(ctx)
	require.NoError(t, err)
	assert.Equal(t, []types.PipelineCheckpoint{{Pipeline: "quakes", Checkpoint: want}}, all)
	_, err = client.SetCheckpoint(ctx, "quakes", types.CheckpointChange{Override: true})
	require.NoError(t, err)
	found, err = client.DeleteCheckpoint(ctx, "quakes")
	require.NoError(t, err)
	assert.True(t, found)

	bare := fixture.DeadLetter(2)
	bare.Payload, bare.Reason = nil, "50% & more?"
	emission := fixture.DeadLetter(3)
	emission.Payload = &types.SinkEvent{Emission: &types.Emission{Match: fixture.Match(3), Key: "k", Hits: 2, FirstTS: 1, LastTS: 2}}
	emission.Payload.Emission.Match.Event = []byte(`{"exact":1.50,"<&>":"é"}`)
	r.record(t, fixture.DeadLetter(1), bare, emission)
	r.control.broken = map[types.MatchID]error{}
	counts, err := client.LetterCounts(ctx)
	require.NoError(t, err)
	assert.Equal(t, []types.LetterCount{{Pipeline: fixture.Pipeline, Count: 3}}, counts)
	stored := []types.StoredLetter{{Position: 1, Letter: fixture.DeadLetter(1)}, {Position: 2, Letter: bare}, {Position: 3, Letter: emission}}
	page, err := client.Letters(ctx, fixture.Pipeline, types.LetterFilter{}, types.LetterQuery{Take: 10})
	require.NoError(t, err)
	assert.Equal(t, types.LetterPage{Letters: stored, Total: 3, Through: 3}, page)
	page, err = client.Letters(ctx, fixture.Pipeline, types.LetterFilter{Monitor: fixture.Monitor, Sink: fixture.Sink, Reason: "% & more?"}, types.LetterQuery{Take: 1000})
	require.NoError(t, err)
	assert.Equal(t, types.LetterPage{Letters: stored[1:2], Total: 1, Through: 3}, page)
	page, err = client.Letters(ctx, fixture.Pipeline, types.LetterFilter{}, types.LetterQuery{Skip: 1})
	require.NoError(t, err)
	assert.Equal(t, types.LetterPage{Letters: []types.StoredLetter{}, Total: 3, Through: 3}, page)
	page, err = client.Letters(ctx, fixture.Pipeline, types.LetterFilter{}, types.LetterQuery{After: 1, Take: 10})
	require.NoError(t, err)
	assert.Equal(t, types.LetterPage{Letters: stored[1:]}, page, "behind a position nothing is counted")
	letter, err := client.Letter(ctx, fixture.Pipeline, fixture.MatchID(3))
	require.NoError(t, err)
	assert.Equal(t, stored[2], letter)
	_, err = client.Letter(ctx, fixture.Pipeline, "missing")
	require.ErrorIs(t, err, ports.ErrNotFound)

	preview, err := client.PreviewLetters(ctx, fixture.Pipeline, types.LetterFilter{Reason: "503"})
	require.NoError(t, err)
	assert.Equal(t, types.LetterPreview{Count: 2, Through: 3}, preview)
	require.ErrorIs(t, client.ReplayLetter(ctx, fixture.Pipeline, fixture.MatchID(2)), ports.ErrNoPayload)
	require.ErrorIs(t, client.ReplayLetter(ctx, fixture.Pipeline, fixture.MatchID(2)), ports.ErrInvalidInput)
	result, err := client.ReplayLetters(ctx, fixture.Pipeline, types.LetterSelection{Through: 2})
	require.NoError(t, err)
	assert.EqualValues(t, 1, result.Done)
	assert.EqualValues(t, 1, result.Failed)
	require.Len(t, result.Failures, 1)
	assert.Equal(t, fixture.MatchID(2), result.Failures[0].MatchID)
	require.ErrorIs(t, result.Failures[0].Err, ports.ErrNoPayload)
	require.NoError(t, client.ReplayLetter(ctx, fixture.Pipeline, fixture.MatchID(3)))
	require.ErrorIs(t, client.DiscardLetter(ctx, fixture.Pipeline, fixture.MatchID(3)), ports.ErrNotFound)
	r.record(t, fixture.DeadLetter(4), fixture.DeadLetter(5))
	require.NoError(t, client.DiscardLetter(ctx, fixture.Pipeline, fixture.MatchID(4)))
	result, err = client.DiscardLetters(ctx, fixture.Pipeline, types.LetterSelection{Filter: types.LetterFilter{Sink: fixture.Sink}})
	require.NoError(t, err)
	assert.Equal(t, types.BulkResult{Done: 2}, result)

	pauses, err := client.Pauses(ctx)
	require.NoError(t, err)
	assert.Empty(t, pauses)
	for _, p := range []types.Pause{types.PipelineOf("p"), types.MonitorOf("p", "m"), types.SinkOf("p", "s:1")} {
		require.NoError(t, client.Pause(ctx, p))
	}
	pauses, err = client.Pauses(ctx)
	require.NoError(t, err)
	assert.Equal(t, []types.Pause{types.MonitorOf("p", "m"), types.PipelineOf("p"), types.SinkOf("p", "s:1")}, pauses)
	require.NoError(t, client.Resume(ctx, types.SinkOf("p", "s:1")))
	require.NoError(t, client.Resume(ctx, types.SinkOf("p", "s:1")))
	require.ErrorIs(t, client.Pause(ctx, types.Pause{Target: "house", ID: "x"}), ports.ErrInvalidInput)

	_, err = newClient(t, r.server.URL, readToken, adminhttp.ClientOptions{}).DeleteCheckpoint(ctx, "quakes")
	require.ErrorIs(t, err, ports.ErrAuthenticationFailed)
}

func TestClientOfResources(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	client := newClient(t, r.server.URL, adminToken, adminhttp.ClientOptions{})
	_, found, err := client.GetResource(ctx, "rule", "x")
	require.NoError(t, err)
	assert.False(t, found)
	value := []byte(" {\"a\" : 1.50}\n")
	version, err := client.PutResource(ctx, "rule", "x", value, 0)
	require.NoError(t, err)
	assert.EqualValues(t, 1, version)
	_, err = client.PutResource(ctx, "rule", "x", value, 0)
	require.ErrorIs(t, err, ports.ErrAlreadyExists)
	version, err = client.PutResource(ctx, "rule", "x", value, 1)
	require.NoError(t, err)
	assert.EqualValues(t, 2, version)
	_, err = client.PutResource(ctx, "rule", "x", value, 1)
	var conflict *ports.VersionConflictError
	require.ErrorAs(t, err, &conflict)
	assert.EqualValues(t, 1, conflict.Expected)
	assert.EqualValues(t, 2, conflict.Actual)
	_, err = client.PutResource(ctx, "rule", "y", value, 1)
	require.ErrorIs(t, err, ports.ErrNotFound)
	got, found, err := client.GetResource(ctx, "rule", "x")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, types.Resource{Kind: "rule", ID: "x", Version: 2, Value: value}, got)
	page, err := client.ListResources(ctx, "rule", types.ResourceListOptions{Limit: 1})
	require.NoError(t, err)
	assert.Equal(t, types.ResourcePage{Resources: []types.Resource{{Kind: "rule", ID: "x", Version: 2, Value: []byte(`{"a":1.50}`)}}}, page)
	kinds, err := client.ResourceKinds(ctx)
	require.NoError(t, err)
	assert.Equal(t, []types.ResourceKind{"rule"}, kinds)
	require.ErrorAs(t, client.DeleteResource(ctx, "rule", "x", 1), &conflict)
	require.NoError(t, client.DeleteResource(ctx, "rule", "x", 2))
	require.ErrorIs(t, client.DeleteResource(ctx, "rule", "x", 2), ports.ErrNotFound)

	require.ErrorIs(t, client.BackupStorage(ctx, "/new"), ports.ErrUnsupported)
	require.ErrorIs(t, client.VerifyStorage(ctx), ports.ErrUnsupported)
}

// A client checks as a store does, and asks for nothing that the rules forbid.
func TestInputThatBreaksARuleIsNotSent(t *testing.T) {
	t.Parallel()
	client := newClient(t, "http://127.0.0.1:1", adminToken, adminhttp.ClientOptions{})
	ctx := t.Context()
	for i, call := range []func() error{
		func() error { _, _, err := client.Checkpoint(ctx, "-"); return err },
		func() error { _, err := client.DeleteCheckpoint(ctx, ""); return err },
		func() error {
			_, err := client.SetCheckpoint(ctx, "p", types.CheckpointChange{Cursor: types.Cursor{Primary: 1 << 63}})
			return err
		},
		func() error {
			_, err := client.Letters(ctx, "p", types.LetterFilter{}, types.LetterQuery{Skip: -1, Take: 1})
			return err
		},
		func() error {
			_, err := client.Letters(ctx, "p", types.LetterFilter{}, types.LetterQuery{Take: 1001})
			return err
		},
		func() error {
			_, err := client.Letters(ctx, "p", types.LetterFilter{Sink: "a/b"}, types.LetterQuery{Take: 1})
			return err
		},
		func() error { _, err := client.Letter(ctx, "p", "a/b"); return err },
		func() error { return client.DiscardLetter(ctx, "a/b", "m") },
		func() error { return client.ReplayLetter(ctx, "p", "") },
		func() error {
			_, err := client.PreviewLetters(ctx, "p", types.LetterFilter{Reason: "\xff"})
			return err
		},
		func() error {
			_, err := client.DiscardLetters(ctx, "p", types.LetterSelection{Through: -1})
			return err
		},
		func() error { _, err := client.ReplayLetters(ctx, "-", types.LetterSelection{}); return err },
		func() error { return client.Pause(ctx, types.Pause{Target: "sink", ID: "../x"}) },
		func() error { return client.Resume(ctx, types.Pause{Target: "sink"}) },
		func() error { _, _, err := client.GetResource(ctx, "k", ".."); return err },
		func() error { _, err := client.PutResource(ctx, "k", "i", []byte("{"), 0); return err },
		func() error { return client.DeleteResource(ctx, "k", "i", 0) },
		func() error {
			_, err := client.ListResources(ctx, "k", types.ResourceListOptions{Limit: -1})
			return err
		},
	} {
		require.ErrorIs(t, call(), ports.ErrInvalidInput, i)
	}
}

// An older daemon knows nothing of checkpoints, which does not say that there are none.
func TestAPathThatIsNotThereIsNoRecordThatIsNotThere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		ports.Refuse(w, q, fixture.Logger(t), ports.Errorf(ports.CodeNotFound, "admin.request", "there is nothing at this path"))
	}))
	t.Cleanup(server.Close)
	client := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{})
	_, _, err := client.Checkpoint(t.Context(), "p")
	require.ErrorIs(t, err, ports.ErrNotFound)
	_, err = client.DeleteCheckpoint(t.Context(), "p")
	require.ErrorIs(t, err, ports.ErrNotFound)
	_, _, err = client.GetResource(t.Context(), "k", "i")
	require.ErrorIs(t, err, ports.ErrNotFound)
}

// What a store has from another engine, and would not take today, is no reason not to show a page.
func TestLettersAndResourcesAreShownAsTheyAreStored(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		answer := `{"resources":[{"kind":"k","id":"i","version":1,"value":{"a":1,"a":2}}]}`
		if q.URL.Path == "/v1/deadletters/p" {
			answer = `{"letters":[{"position":7,"letter":{"match_id":"m","monitor":"o","sink":"s","cursor":{"primary":1,"secondary":0},"attempts":1,"reason":"","payload":{"event":{"a":1,"a":2}}}},` +
				`{"position":8,"letter":{"match_id":"n","attempts":"many"}}],"total":2,"through":8,"more":true}`
		}
		assert.NoError(t, ports.WriteJSON(w, 200, []byte(answer), time.Minute))
	}))
	t.Cleanup(server.Close)
	client := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{})
	page, err := client.Letters(t.Context(), "p", types.LetterFilter{}, types.LetterQuery{Take: 2})
	require.NoError(t, err)
	require.Len(t, page.Letters, 2)
	require.NoError(t, page.Letters[0].Err)
	assert.Equal(t, `{"a":1,"a":2}`, string(page.Letters[0].Letter.Payload.Match.Event))
	require.ErrorIs(t, page.Letters[1].Err, ports.ErrUndecodable)
	assert.EqualValues(t, 8, page.Letters[1].Position)
	assert.EqualValues(t, "n", page.Letters[1].Letter.MatchID)
	resources, err := client.ListResources(t.Context(), "k", types.ResourceListOptions{})
	require.NoError(t, err)
	assert.Equal(t, `{"a":1,"a":2}`, string(resources.Resources[0].Value))
}

// Long actions outlive the timeout of the client.
func TestLongCallsHaveTheCallersTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.record(t, fixture.DeadLetter(1), fixture.DeadLetter(2))
	r.control.deliver = func(context.Context, types.SinkEvent) error {
		timer := time.NewTimer(300 * time.Millisecond)
		<-timer.C
		return nil
	}
	client := newClient(t, r.server.URL, adminToken, adminhttp.ClientOptions{Timeout: 100 * time.Millisecond})
	require.NoError(t, client.ReplayLetter(t.Context(), fixture.Pipeline, fixture.MatchID(1)))
	result, err := client.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.NoError(t, err)
	assert.EqualValues(t, 1, result.Done)
}

func TestADaemonThatIsNotReadyIsNoError(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *adminhttp.Options) {
		o.Checks = []adminhttp.Check{{Name: "queues", Run: func(context.Context) error {
			return ports.Errorf(ports.CodeStoreReplaced, "queue.health", "gone").WithReason(ports.ReasonCorrupt)
		}}}
	})
	ready, err := newClient(t, r.server.URL, "", adminhttp.ClientOptions{}).Ready(t.Context())
	require.NoError(t, err)
	assert.Equal(t, adminhttp.Readiness{Version: "v1.2.3", Failing: []adminhttp.FailingCheck{{Name: "queues", Code: ports.CodeStoreReplaced, Reason: ports.ReasonCorrupt}}}, ready)
}

// calls is every call of the client, and whether it changes something.
var calls = []struct {
	name    string
	changes bool
	call    func(context.Context, *adminhttp.Client) error
}{
	{"list", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.List(ctx); return err }},
	{"get", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Get(ctx, "orders"); return err }},
	{"create", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Create(ctx, "orders") }},
	{"delete", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Delete(ctx, "orders") }},
	{"rotate", true, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Rotate(ctx, "orders", 0); return err }},
	{"binding", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Binding(ctx, "orders"); return err }},
	{"stats", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Stats(ctx, "orders"); return err }},
	{"discard", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Discard(ctx, "orders", 1) }},
	{"backup", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Backup(ctx, "orders", "/orders.backup") }},
	{"verify", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Verify(ctx, "orders") }},
	{"checkpoints", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Checkpoints(ctx); return err }},
	{"checkpoint", false, func(ctx context.Context, c *adminhttp.Client) error { _, _, err := c.Checkpoint(ctx, "p"); return err }},
	{"setCheckpoint", true, func(ctx context.Context, c *adminhttp.Client) error {
		_, err := c.SetCheckpoint(ctx, "p", types.CheckpointChange{})
		return err
	}},
	{"deleteCheckpoint", true, func(ctx context.Context, c *adminhttp.Client) error {
		_, err := c.DeleteCheckpoint(ctx, "p")
		return err
	}},
	{"letterCounts", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.LetterCounts(ctx); return err }},
	{"letters", false, func(ctx context.Context, c *adminhttp.Client) error {
		_, err := c.Letters(ctx, "p", types.LetterFilter{}, types.LetterQuery{Take: 1})
		return err
	}},
	{"letter", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Letter(ctx, "p", "m"); return err }},
	{"replayLetter", true, func(ctx context.Context, c *adminhttp.Client) error { return c.ReplayLetter(ctx, "p", "m") }},
	{"discardLetter", true, func(ctx context.Context, c *adminhttp.Client) error { return c.DiscardLetter(ctx, "p", "m") }},
	{"previewLetters", false, func(ctx context.Context, c *adminhttp.Client) error {
		_, err := c.PreviewLetters(ctx, "p", types.LetterFilter{})
		return err
	}},
	{"replayLetters", true, func(ctx context.Context, c *adminhttp.Client) error {
		_, err := c.ReplayLetters(ctx, "p", types.LetterSelection{})
		return err
	}},
	{"discardLetters", true, func(ctx context.Context, c *adminhttp.Client) error {
		_, err := c.DiscardLetters(ctx, "p", types.LetterSelection{})
		return err
	}},
	{"pauses", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Pauses(ctx); return err }},
	{"pause", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Pause(ctx, types.PipelineOf("p")) }},
	{"resume", true, func(ctx context.Context, c *adminhttp.Client) error { return c.Resume(ctx, types.SinkOf("p", "s")) }},
	{"resourceKinds", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.ResourceKinds(ctx); return err }},
	{"listResources", false, func(ctx context.Context, c *adminhttp.Client) error {
		_, err := c.ListResources(ctx, "k", types.ResourceListOptions{})
		return err
	}},
	{"getResource", false, func(ctx context.Context, c *adminhttp.Client) error {
		_, _, err := c.GetResource(ctx, "k", "i")
		return err
	}},
	{"createResource", true, func(ctx context.Context, c *adminhttp.Client) error {
		_, err := c.PutResource(ctx, "k", "i", []byte("1"), 0)
		return err
	}},
	{"updateResource", true, func(ctx context.Context, c *adminhttp.Client) error {
		_, err := c.PutResource(ctx, "k", "i", []byte("1"), 1)
		return err
	}},
	{"deleteResource", true, func(ctx context.Context, c *adminhttp.Client) error { return c.DeleteResource(ctx, "k", "i", 1) }},
	{"backupStorage", true, func(ctx context.Context, c *adminhttp.Client) error { return c.BackupStorage(ctx, "/storage.backup") }},
	{"verifyStorage", true, func(ctx context.Context, c *adminhttp.Client) error { return c.VerifyStorage(ctx) }},
	{"exportStorage", false, func(ctx context.Context, c *adminhttp.Client) error {
		_, err := c.ExportStorage(ctx, io.Discard)
		return err
	}},
	{"status", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Status(ctx); return err }},
	{"live", false, func(ctx context.Context, c *adminhttp.Client) error { return c.Live(ctx) }},
	{"ready", false, func(ctx context.Context, c *adminhttp.Client) error { _, err := c.Ready(ctx); return err }},
}

func TestADaemonThatDoesNotRunIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	client := newClient(t, "http://"+listener.Addr().String(), adminToken, adminhttp.ClientOptions{})
	for _, c := range calls {
		err := c.call(t.Context(), client)
		require.ErrorIs(t, err, ports.ErrUnavailable, c.name)
		require.ErrorIs(t, err, ports.ErrBackendFailed, c.name)
		require.ErrorIs(t, c.call(fixture.Cancelled(t), client), context.Canceled, c.name)
		assert.NotContains(t, err.Error(), adminToken)
	}
}

func TestAConnectionThatDiesLeavesTheOutcomeOfAChangeUnknown(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, request.Body) // the client may be gone
				requests.Add(1)
			}
			_ = conn.Close()
		}
	}()
	client := newClient(t, "http://"+listener.Addr().String(), adminToken, adminhttp.ClientOptions{})
	for i, c := range calls {
		err := c.call(t.Context(), client)
		if c.changes {
			require.ErrorIs(t, err, ports.ErrOutcomeUnknown, c.name)
		} else {
			require.ErrorIs(t, err, ports.ErrUnavailable, c.name)
		}
		assert.EqualValues(t, i+1, requests.Load(), "one request for each call, never repeated")
	}
}

func TestWhoeverElseAnswersIsNotTakenForADaemon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status      int
		media, body string
	}{
		{200, "text/html", "<html></html>"}, {200, "application/json", "{}"}, {404, "text/html", "<html></html>"}, {302, "text/html", ""}, {502, "application/json", `{"error":"x"}`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.media)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			_, err := io.WriteString(w, c.body)
			assert.NoError(t, err)
		}))
		client := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{})
		for _, call := range calls {
			if call.name == "live" && c.status == 200 {
				continue // it asks for no more
			}
			err := call.call(t.Context(), client)
			if call.changes {
				require.ErrorIs(t, err, ports.ErrOutcomeUnknown, "%s: %d %s", call.name, c.status, c.body)
			} else {
				require.ErrorIs(t, err, ports.ErrBackendFailed, "%s: %d %s", call.name, c.status, c.body)
			}
		}
		server.Close()
	}
}

// The body of such an answer is the connection itself: read like another, it would never end.
func TestAnAnswerInAnotherProtocolIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			t.Cleanup(func() { _ = conn.Close() }) // the client has closed it
			_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
			assert.NoError(t, err)
		}
	}))
	t.Cleanup(server.Close)
	client := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{})
	for _, call := range calls {
		err := call.call(t.Context(), client)
		if call.changes {
			require.ErrorIs(t, err, ports.ErrOutcomeUnknown, call.name)
		} else {
			require.ErrorIs(t, err, ports.ErrBackendFailed, call.name)
		}
	}
}

func TestWhoGivesUpOnAChangeIsToldThatItsOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	arrived := make(chan struct{}, len(calls)+2)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-over }))
	defer server.Close()
	defer close(over)
	client := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{})
	for _, c := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		err := c.call(ctx, client)
		require.ErrorIs(t, err, context.Canceled, c.name)
		if c.changes {
			require.ErrorIs(t, err, ports.ErrOutcomeUnknown, c.name)
		}
	}
	impatient := newClient(t, server.URL, adminToken, adminhttp.ClientOptions{Timeout: time.Second})
	err := impatient.Create(t.Context(), "orders")
	require.ErrorIs(t, err, ports.ErrOutcomeUnknown)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "it is not the caller's")
	err = impatient.Live(t.Context())
	require.ErrorIs(t, err, ports.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

func TestClientsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "127.0.0.1:7420", "ftp://h", "http://", "http://u:p@h", "http://h?token=x", "http://h#x"} {
		_, err := adminhttp.NewClient(address, adminToken, adminhttp.ClientOptions{})
		require.ErrorIs(t, err, ports.ErrInvalidConfig, address)
	}
	_, err := adminhttp.NewClient(base, "two words", adminhttp.ClientOptions{})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	assert.NotContains(t, err.Error(), "two words")
}
