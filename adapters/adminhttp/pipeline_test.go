package adminhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/adminhttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// record stores letters of the fixture's pipeline.
func (r *rig) record(t *testing.T, letters ...types.DeadLetter) {
	t.Helper()
	for _, l := range letters {
		require.NoError(t, r.storage.RecordDeadLetter(t.Context(), fixture.Pipeline, l))
	}
}

// The checkpoint over HTTP has the very text that storages keep (R186).
func TestACheckpointHasOneForm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	module, odd := "ndjson", `<&>"é `
	for name, checkpoint := range map[string]types.Checkpoint{
		"plain":   {},
		"whole":   {Cursor: types.Cursor{Primary: 7, Secondary: 3}, Module: &module, UpdatedAt: fixture.Epoch().Add(123456789)},
		"largest": {Cursor: types.Cursor{Primary: ports.MaxStoredInteger, Secondary: 1<<53 + 1}, Module: &odd, UpdatedAt: fixture.Epoch()},
	} {
		require.NoError(t, r.storage.SaveCheckpoint(t.Context(), types.PipelineID(name), checkpoint))
		want, err := ports.EncodeCheckpoint(checkpoint)
		require.NoError(t, err)
		status, _, body := r.do(t, "GET", "/v1/checkpoints/"+name, "")
		assert.Equal(t, 200, status)
		assert.Equal(t, `{"pipeline":"`+name+`","checkpoint":`+want+`}`, body)
		_, _, body = r.do(t, "GET", "/v1/checkpoints", "")
		assert.Contains(t, body, `{"pipeline":"`+name+`","checkpoint":`+want+`}`)
	}
	_, _, body := r.do(t, "GET", "/v1/checkpoints/whole", "")
	assert.Equal(t, `{"pipeline":"whole","checkpoint":{"cursor":{"primary":7,"secondary":3},"module":"ndjson","updated_at":"2026-03-01T12:00:00.123456789Z"}}`, body)
}

func TestCheckpointsAreSetAndDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	status, _, body := r.do(t, "GET", "/v1/checkpoints", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"checkpoints":[]}`, body)
	status, _, body = r.do(t, "GET", "/v1/checkpoints/quakes", "")
	refused(t, 404, ports.CodeNotFound, status, body)

	status, _, body = r.do(t, "PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":9223372036854775807,"secondary":9007199254740993},"module":"ndjson"}`)
	assert.Equal(t, 200, status)
	want := `{"pipeline":"quakes","checkpoint":{"cursor":{"primary":9223372036854775807,"secondary":9007199254740993},"module":"ndjson","updated_at":"2026-03-01T12:00:00Z"}}`
	assert.Equal(t, want, body)
	for _, bad := range []string{`{"cursor":{"primary":1,"secondary":0}}`, `{"cursor":{"primary":1,"secondary":0},"module":"other"}`, `{"cursor":{"primary":1,"secondary":0},"module":null,"override":false}`} {
		status, _, body = r.do(t, "PUT", "/v1/checkpoints/quakes", bad)
		refused(t, 409, ports.CodeCheckpointProvenance, status, body)
	}
	_, _, body = r.do(t, "GET", "/v1/checkpoints", "")
	assert.Equal(t, `{"checkpoints":[`+want+`]}`, body)
	status, _, body = r.do(t, "PUT", "/v1/checkpoints/quakes", `{"override":true,"cursor":{"secondary":0,"primary":1}}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"pipeline":"quakes","checkpoint":{"cursor":{"primary":1,"secondary":0},"updated_at":"2026-03-01T12:00:00Z"}}`, body)

	status, _, body = r.do(t, "DELETE", "/v1/checkpoints/quakes", "")
	assert.Equal(t, 204, status)
	assert.Empty(t, body)
	status, _, body = r.do(t, "DELETE", "/v1/checkpoints/quakes", "{}")
	refused(t, 404, ports.CodeNotFound, status, body)
}

func TestDeadLettersAreListed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, _, body := r.do(t, "GET", "/v1/deadletters", "")
	assert.Equal(t, `{"pipelines":[]}`, body)
	_, _, body = r.do(t, "GET", "/v1/deadletters/earthquakes", "")
	assert.Equal(t, `{"letters":[],"total":0,"through":0}`, body)

	bare := fixture.DeadLetter(2)
	bare.Payload, bare.Sink, bare.Reason = nil, "mail", "it said 50% & more"
	r.record(t, fixture.DeadLetter(1), bare, fixture.DeadLetter(3), fixture.DeadLetter(4))
	r.control.broken = map[types.MatchID]error{fixture.MatchID(4): errors.New("the member \"sink\" is of the type number")}
	_, _, body = r.do(t, "GET", "/v1/deadletters", "")
	assert.Equal(t, `{"pipelines":[{"pipeline":"earthquakes","count":4}]}`, body)

	one := `{"position":1,"letter":{"match_id":"match-000001","monitor":"strong","sink":"alerts","cursor":{"primary":1,"secondary":0},"attempts":3,"reason":"the receiver answered 503",` +
		`"payload":{"type":"match","data":{"match_id":"match-000001","pipeline":"earthquakes","monitor":"strong","cursor":{"primary":1,"secondary":0},"event_index":0,"event_ts":1772366401000,"event":{"n":1,"mag":4.5}}}}}`
	two := `{"position":2,"letter":{"match_id":"match-000002","monitor":"strong","sink":"mail","cursor":{"primary":2,"secondary":0},"attempts":3,"reason":"it said 50% & more"}}`
	four := `{"position":4,"match_id":"match-000004","error":{"code":"BACKEND_FAILED","message":"the member \"sink\" is of the type number","retryable":false,"httpStatusCode":500,"context":{"reason":"undecodable","op":"admin.OP"}}}`
	_, _, body = r.do(t, "GET", "/v1/deadletters/earthquakes?take=2", "")
	assert.Equal(t, `{"letters":[`+one+`,`+two+`],"total":4,"through":4}`, body)
	_, _, body = r.do(t, "GET", "/v1/deadletters/earthquakes?skip=3", "")
	assert.Equal(t, `{"letters":[`+strings.ReplaceAll(four, "OP", "listLetters")+`],"total":4,"through":4}`, body)
	for _, query := range []string{"sink=mail", "reason=" + url.QueryEscape("50% & m"), "monitor=strong&sink=mail&reason=50%25&skip=0&take=1000"} {
		_, _, body = r.do(t, "GET", "/v1/deadletters/earthquakes?"+query, "")
		assert.Equal(t, `{"letters":[`+two+`],"total":1,"through":4}`, body, query)
	}
	_, _, body = r.do(t, "GET", "/v1/deadletters/earthquakes?take=0", "")
	assert.Equal(t, `{"letters":[],"total":4,"through":4}`, body)

	_, _, body = r.do(t, "GET", "/v1/deadletters/earthquakes/match-000002", "")
	assert.Equal(t, two, body)
	status, _, body := r.do(t, "GET", "/v1/deadletters/earthquakes/match-000004", "")
	assert.Equal(t, 200, status)
	assert.Equal(t, strings.ReplaceAll(four, "OP", "getLetter"), body)
	status, _, body = r.do(t, "GET", "/v1/deadletters/earthquakes/match-000005", "")
	refused(t, 404, ports.CodeNotFound, status, body)
}

func TestAPageHasAHundredLettersUnlessItIsAskedForMore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for n := range 101 {
		r.record(t, fixture.DeadLetter(n))
	}
	_, _, body := r.do(t, "GET", "/v1/deadletters/earthquakes", "")
	assert.Equal(t, 100, strings.Count(body, `"position"`))
	_, _, body = r.do(t, "GET", "/v1/deadletters/earthquakes?take=101", "")
	assert.Equal(t, 101, strings.Count(body, `"position"`))
}

// heavy is a letter whose event has so many bytes.
func heavy(n, size int) types.DeadLetter {
	l := fixture.DeadLetter(n)
	l.Payload.Match.Event = fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, n, strings.Repeat("x", size-20))
	return l
}

func TestAPageOfHeavyLettersEndsEarlyAndGoingOnReachesAll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handler.SetPageBytes(160_000)
	const letters, size = 36, 10_000
	for n := range letters {
		r.record(t, heavy(n, size))
	}
	client := newClient(t, r.server.URL, readToken, adminhttp.ClientOptions{})
	var seen []int64
	pages := 0
	for {
		page, err := client.Letters(t.Context(), fixture.Pipeline, types.LetterFilter{}, types.LetterQuery{Skip: len(seen), Take: 1000})
		require.NoError(t, err)
		require.EqualValues(t, letters, page.Total)
		if len(page.Letters) == 0 {
			break
		}
		assert.LessOrEqual(t, len(page.Letters), 16, "and a letter has more around its event")
		for _, l := range page.Letters {
			seen = append(seen, l.Position)
		}
		pages++
	}
	assert.Equal(t, 3, pages)
	assert.Len(t, seen, letters)
	assert.IsIncreasing(t, seen)
}

func TestOneLetterIsReplayedOrDiscarded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bare := fixture.DeadLetter(2)
	bare.Payload = nil
	r.record(t, fixture.DeadLetter(1), bare, fixture.DeadLetter(3))
	status, _, body := r.do(t, "POST", "/v1/deadletters/earthquakes/match-000001/replay", "")
	assert.Equal(t, 204, status)
	assert.Empty(t, body)
	require.Len(t, r.control.delivered, 1)
	assert.Equal(t, fixture.MatchID(1), r.control.delivered[0].Origin().ID)
	status, _, body = r.do(t, "POST", "/v1/deadletters/earthquakes/match-000001/replay", "{}")
	refused(t, 404, ports.CodeNotFound, status, body)
	status, _, body = r.do(t, "POST", "/v1/deadletters/earthquakes/match-000002/replay", "")
	refused(t, 409, ports.CodeInvalidInput, status, body)
	assert.Contains(t, body, `"reason":"no_payload"`)
	r.control.deliver = func(context.Context, types.SinkEvent) error {
		return ports.Errorf(ports.CodeInvalidInput, "control.replayLetter", "the sink is paused").WithReason(ports.ReasonPaused)
	}
	status, _, body = r.do(t, "POST", "/v1/deadletters/earthquakes/match-000003/replay", "")
	refused(t, 409, ports.CodeInvalidInput, status, body)
	assert.Contains(t, body, `"reason":"paused"`)

	status, _, _ = r.do(t, "DELETE", "/v1/deadletters/earthquakes/match-000002", "")
	assert.Equal(t, 204, status)
	status, _, body = r.do(t, "DELETE", "/v1/deadletters/earthquakes/match-000002", "")
	refused(t, 404, ports.CodeNotFound, status, body)
	_, _, body = r.do(t, "GET", "/v1/deadletters", "")
	assert.Equal(t, `{"pipelines":[{"pipeline":"earthquakes","count":1}]}`, body)
}

func TestManyLettersAreCountedReplayedAndDiscarded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bare, mail := fixture.DeadLetter(2), fixture.DeadLetter(3)
	bare.Payload = nil
	mail.Sink = "mail"
	r.record(t, fixture.DeadLetter(1), bare, mail)
	const path = "/v1/deadletters/earthquakes"
	_, _, body := r.do(t, "POST", path, `{"action":"preview"}`)
	assert.Equal(t, `{"count":3,"through":3}`, body)
	_, _, body = r.do(t, "POST", path, `{"action":"preview","sink":"alerts","monitor":"strong","reason":"503"}`)
	assert.Equal(t, `{"count":2,"through":3}`, body)

	r.record(t, fixture.DeadLetter(4)) // it arrives after the look
	status, _, body := r.do(t, "POST", path, `{"action":"replay","sink":"alerts","through":3}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"done":1,"failed":1,"failures":[{"match_id":"match-000002","error":{"code":"INVALID_INPUT","message":"the letter \"match-000002\" has nothing to replay","retryable":false,"httpStatusCode":409,"context":{"reason":"no_payload","op":"control.replayLetter"}}}]}`, body)
	_, _, body = r.do(t, "POST", path, `{"action":"discard","sink":"mail"}`)
	assert.Equal(t, `{"done":1,"failed":0,"failures":[]}`, body)
	_, _, body = r.do(t, "POST", path, `{"action":"preview"}`)
	assert.Equal(t, `{"count":2,"through":4}`, body)
	_, _, body = r.do(t, "POST", path, `{"action":"discard"}`)
	assert.Equal(t, `{"done":2,"failed":0,"failures":[]}`, body)
}

func TestAnActionThatTheStorageEndsSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.record(t, fixture.DeadLetter(1), fixture.DeadLetter(2))
	r.control.deliver = func(_ context.Context, e types.SinkEvent) error {
		if e.Origin().ID == fixture.MatchID(2) {
			return ports.Errorf(ports.CodeBackendFailed, "storage.deleteDeadLetter", "the disk is full").WithReason(ports.ReasonDiskFull)
		}
		return nil
	}
	status, _, body := r.do(t, "POST", "/v1/deadletters/earthquakes", `{"action":"replay"}`)
	assert.Equal(t, 507, status)
	assert.Equal(t, `{"code":"BACKEND_FAILED","message":"the replay came to an end after 1 letters that are done and 0 that stay: the disk is full","retryable":true,"httpStatusCode":507,"context":{"reason":"disk_full","op":"storage.deleteDeadLetter"},"done":1,"failed":0,"failures":[]}`, body)

	bare := fixture.DeadLetter(3)
	bare.Payload = nil
	r = newRig(t)
	r.record(t, bare, fixture.DeadLetter(1), fixture.DeadLetter(2))
	r.control.deliver = func(_ context.Context, e types.SinkEvent) error {
		if e.Origin().ID == fixture.MatchID(2) {
			return ports.Errorf(ports.CodeStoreClosed, "control.replayLetters", "the process stops")
		}
		return nil
	}
	client := newClient(t, r.server.URL, adminToken, adminhttp.ClientOptions{})
	result, err := client.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{})
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.True(t, ports.IsTransient(err))
	assert.EqualValues(t, 1, result.Done)
	assert.EqualValues(t, 1, result.Failed)
	require.Len(t, result.Failures, 1)
	require.ErrorIs(t, result.Failures[0].Err, ports.ErrNoPayload)
	assert.Contains(t, r.log.String(), "an action on dead letters ended in the middle")

	result, err = client.ReplayLetters(t.Context(), fixture.Pipeline, types.LetterSelection{Filter: types.LetterFilter{Sink: fixture.Sink}, Through: 99})
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	assert.Zero(t, result.Done)
}

// What a client that has gone was promised is nothing; what is not begun is not done.
func TestABulkActionEndsWhenItsClientGoesAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.record(t, fixture.DeadLetter(1), fixture.DeadLetter(2), fixture.DeadLetter(3))
	delivering, ended := make(chan struct{}, 3), make(chan struct{})
	r.control.deliver = func(ctx context.Context, e types.SinkEvent) error {
		if e.Origin().ID == fixture.MatchID(1) {
			return nil
		}
		delivering <- struct{}{}
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-delivering; cancel() }()
	_, err := newClient(t, r.server.URL, adminToken, adminhttp.ClientOptions{}).ReplayLetters(ctx, fixture.Pipeline, types.LetterSelection{})
	require.ErrorIs(t, err, ports.ErrOutcomeUnknown)
	require.ErrorIs(t, err, context.Canceled)
	<-ended
	counts, err := r.storage.CountDeadLetters(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []types.LetterCount{{Pipeline: fixture.Pipeline, Count: 2}}, counts)
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "was ended after 1 of them") }, time.Minute, time.Millisecond)
}

func TestPauses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, _, body := r.do(t, "GET", "/v1/pauses", "")
	assert.Equal(t, `{"pauses":[]}`, body)
	for _, path := range []string{"/v1/pauses/pipeline/quakes", "/v1/pauses/monitor/quakes/strong", "/v1/pauses/sink/quakes%2Falerts", "/v1/pauses/sink/quakes/alerts"} {
		for range 2 {
			status, _, body := r.do(t, "PUT", path, "")
			assert.Equal(t, 204, status, body)
		}
	}
	_, _, body = r.do(t, "GET", "/v1/pauses", "")
	assert.Equal(t, `{"pauses":[{"target":"monitor","id":"quakes/strong"},{"target":"pipeline","id":"quakes"},{"target":"sink","id":"quakes/alerts"}]}`, body)
	for _, path := range []string{
		"/v1/pauses/pipelines/quakes", "/v1/pauses/pipeline/quakes/strong", "/v1/pauses/monitor/quakes", "/v1/pauses/sink/a/b/c", "/v1/pauses/sink/a/-b", "/v1/pauses/sink/",
		"/v1/pauses/pipeline/%20", "/v1/pauses/pipeline/quakes?x=1", "/v1/pauses/sink/quakes/",
	} {
		status, _, body := r.do(t, "PUT", path, "")
		refused(t, 400, ports.CodeInvalidInput, status, body)
	}
	require.NoError(t, r.storage.Pause(t.Context(), types.Pause{Target: "house", ID: "a/b/c"}))
	for _, path := range []string{"/v1/pauses/house/a/b/c", "/v1/pauses/sink/quakes/alerts", "/v1/pauses/sink/quakes/alerts", "/v1/pauses/monitor/quakes%2fstrong", "/v1/pauses/pipeline/quakes"} {
		status, _, body := r.do(t, "DELETE", path, "")
		assert.Equal(t, 204, status, body)
	}
	_, _, body = r.do(t, "GET", "/v1/pauses", "")
	assert.Equal(t, `{"pauses":[]}`, body)
}

func TestRequestsAboutPipelinesThatAreNotExactAreRefusedWithoutEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	module := "ndjson"
	require.NoError(t, r.storage.SaveCheckpoint(t.Context(), "quakes", types.Checkpoint{Cursor: types.Cursor{Primary: 5}, Module: &module}))
	r.record(t, fixture.DeadLetter(1))
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "/v1/checkpoints/quakes", ``, 400}, {"PUT", "/v1/checkpoints/quakes", `{}`, 400}, {"PUT", "/v1/checkpoints/quakes", `{"cursor":null}`, 400}, {"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":1}}`, 400},
		{"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":1,"secondary":null}}`, 400}, {"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":1,"secondary":0},"module":"ndjson","Override":true}`, 400},
		{"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":1,"secondary":0},"module":"ndjson","override":null}`, 400}, {"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":1,"secondary":0},"module":"ndjson","x":1}`, 400},
		{"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":1,"primary":2,"secondary":0},"module":"ndjson"}`, 400}, {"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":1,"secondary":0},"module":"ndjson"} x`, 400},
		{"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":9223372036854775808,"secondary":0},"module":"ndjson"}`, 400}, {"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":-1,"secondary":0},"module":"ndjson"}`, 400},
		{"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":1.5,"secondary":0},"module":"ndjson"}`, 400}, {"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":"1","secondary":0},"module":"ndjson"}`, 400},
		{"PUT", "/v1/checkpoints/-quakes", `{"cursor":{"primary":1,"secondary":0}}`, 400}, {"PUT", "/v1/checkpoints/a%2Fb", `{"cursor":{"primary":1,"secondary":0}}`, 400}, {"PUT", "/v1/checkpoints/quakes?override=true", `{"cursor":{"primary":1,"secondary":0}}`, 400},
		{"PUT", "/v1/checkpoints/quakes", `{"cursor":{"primary":1,"secondary":0},"module":"` + strings.Repeat("m", 257) + `"}`, 400}, {"PUT", "/v1/checkpoints/quakes", strings.Repeat(" ", 65<<10), 413},
		{"DELETE", "/v1/checkpoints/quakes", `{"force":true}`, 400}, {"DELETE", "/v1/checkpoints/quakes?x=1", ``, 400}, {"GET", "/v1/checkpoints/%20", ``, 400}, {"GET", "/v1/checkpoints?x=1", ``, 400}, {"GET", "/v1/checkpoints/quakes?x", ``, 400},
		{"GET", "/v1/deadletters?take=1", ``, 400}, {"GET", "/v1/deadletters/.x", ``, 400}, {"GET", "/v1/deadletters/earthquakes?skip=-1", ``, 400}, {"GET", "/v1/deadletters/earthquakes?skip=01", ``, 400}, {"GET", "/v1/deadletters/earthquakes?skip=+1", ``, 400},
		{"GET", "/v1/deadletters/earthquakes?skip=99999999999999999999", ``, 400}, {"GET", "/v1/deadletters/earthquakes?take=1001", ``, 400}, {"GET", "/v1/deadletters/earthquakes?take=1&take=1", ``, 400}, {"GET", "/v1/deadletters/earthquakes?Take=1", ``, 400},
		{"GET", "/v1/deadletters/earthquakes?monitor=", ``, 400}, {"GET", "/v1/deadletters/earthquakes?sink", ``, 400}, {"GET", "/v1/deadletters/earthquakes?sink=a/b", ``, 400}, {"GET", "/v1/deadletters/earthquakes?reason=%ff", ``, 400}, {"GET", "/v1/deadletters/earthquakes?reason=%zz", ``, 400},
		{"GET", "/v1/deadletters/earthquakes?skip=1;take=1", ``, 400}, {"GET", "/v1/deadletters/earthquakes?reason=" + strings.Repeat("r", 4097), ``, 400}, {"HEAD", "/v1/deadletters/earthquakes?limit=1", ``, 400},
		{"POST", "/v1/deadletters/earthquakes", ``, 400}, {"POST", "/v1/deadletters/earthquakes", `{"action":"Discard"}`, 400}, {"POST", "/v1/deadletters/earthquakes", `{"Action":"discard"}`, 400}, {"POST", "/v1/deadletters/earthquakes", `{"action":"discard","monitor":""}`, 400},
		{"POST", "/v1/deadletters/earthquakes", `{"action":"discard","sink":null}`, 400}, {"POST", "/v1/deadletters/earthquakes", `{"action":"discard","reason":""}`, 400}, {"POST", "/v1/deadletters/earthquakes", `{"action":"discard","reason":7}`, 400},
		{"POST", "/v1/deadletters/earthquakes", `{"action":"discard","through":0}`, 400}, {"POST", "/v1/deadletters/earthquakes", `{"action":"discard","through":null}`, 400}, {"POST", "/v1/deadletters/earthquakes", `{"action":"discard","through":-1}`, 400},
		{"POST", "/v1/deadletters/earthquakes", `{"action":"discard","through":"1"}`, 400}, {"POST", "/v1/deadletters/earthquakes", `{"action":"discard","through":1.5}`, 400}, {"POST", "/v1/deadletters/earthquakes", `{"action":"preview","through":1}`, 400},
		{"POST", "/v1/deadletters/earthquakes", `{"action":"discard","action":"discard"}`, 400}, {"POST", "/v1/deadletters/earthquakes", `{"action":"discard"}{}`, 400}, {"POST", "/v1/deadletters/earthquakes?sink=mail", `{"action":"discard"}`, 400},
		{"POST", "/v1/deadletters/earthquakes", `{"action":"discard","sink":"a b"}`, 400}, {"POST", "/v1/deadletters/earthquakes", `{"action":"discard","reason":"` + strings.Repeat("r", 4097) + `"}`, 400},
		{"DELETE", "/v1/deadletters/earthquakes/match-000001", `{"x":1}`, 400}, {"DELETE", "/v1/deadletters/earthquakes/-", ``, 400}, {"DELETE", "/v1/deadletters/earthquakes/match-000001?x=1", ``, 400},
		{"POST", "/v1/deadletters/earthquakes/match-000001/replay", `{"x":1}`, 400}, {"POST", "/v1/deadletters/earthquakes/match-000001/replay?x=1", ``, 400}, {"PUT", "/v1/pauses/pipeline/quakes", `{"x":1}`, 400},
		{"GET", "/statusz?x=1", ``, 400}, {"GET", "/v1/queues?x=1", ``, 400}, {"DELETE", "/v1/queues/orders?force=true", ``, 400},
	} {
		status, _, body := r.do(t, c.method, c.path, c.body)
		t.Logf("%s %.60s %.90s", c.method, c.path, c.body)
		if c.method == http.MethodHead {
			assert.Equal(t, c.status, status)
			continue
		}
		refused(t, c.status, ports.CodeInvalidInput, status, body)
	}
	status, _, body := r.do(t, "POST", "/v1/deadletters/earthquakes", `{"action":"discard"}`, with("Content-Type", "text/plain"))
	refused(t, 415, ports.CodeInvalidInput, status, body)

	checkpoints, err := r.storage.ListCheckpoints(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []types.PipelineCheckpoint{{Pipeline: "quakes", Checkpoint: types.Checkpoint{Cursor: types.Cursor{Primary: 5}, Module: &module}}}, checkpoints)
	counts, err := r.storage.CountDeadLetters(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []types.LetterCount{{Pipeline: fixture.Pipeline, Count: 1}}, counts)
	pauses, err := r.storage.ListPauses(t.Context())
	require.NoError(t, err)
	assert.Empty(t, pauses)
	assert.Empty(t, r.control.delivered)
}

func TestPipelinesAreShownAsTheyStand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	quakes := `{"id":"quakes","state":"failed","origin":"resource","version":3,"error":"the file is gone","retry_at":"2026-03-01T12:00:00Z","restarts":2,"source":"http",` +
		`"read":{"primary":7,"secondary":0},"checkpoint":{"primary":5,"secondary":1},"lag_seconds":1.5,"pending":2,"events":9,"bad_events":1,` +
		`"monitors":[{"id":"strong","paused":true,"matches":4,"emissions":3,"errors":1,"last_error":"mag is missing"}],` +
		`"sinks":[{"id":"alerts","module":"webhook","paused":false,"pending":1,"delivered":2,"dead_lettered":1,"duplicates":1,"retries":5,"last_error":"503","last_error_at":"2026-03-01T12:00:00Z","waiting_until":"2026-03-01T13:00:00Z",` +
		`"latency":{"bounds":[0.1],"counts":[1,1],"sum":0.5}}]}`
	status, _, body := r.do(t, "GET", "/v1/pipelines/quakes", "", reading)
	assert.Equal(t, 200, status)
	assert.Equal(t, quakes, body)
	tides := `{"id":"tides","state":"idle","origin":"file","restarts":0,"lag_seconds":0,"pending":0,"events":0,"bad_events":0,"monitors":[],` +
		`"sinks":[{"id":"log","module":"stdout","paused":false,"pending":0,"delivered":0,"dead_lettered":0,"duplicates":0,"retries":0,"latency":{"bounds":[],"counts":[],"sum":0}}]}`
	_, _, body = r.do(t, "GET", "/v1/pipelines", "", reading)
	assert.Equal(t, `{"pipelines":[`+quakes+`,`+tides+`]}`, body)
	status, _, body = r.do(t, "GET", "/v1/pipelines/missing", "", reading)
	refused(t, 404, ports.CodeNotFound, status, body)
	status, _, body = r.do(t, "GET", "/v1/pipelines/quakes/binding", "", reading)
	refused(t, 403, ports.CodeAuthenticationFailed, status, body)

	client := newClient(t, r.server.URL, readToken, adminhttp.ClientOptions{})
	all, err := client.Pipelines(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	one, err := client.Pipeline(t.Context(), "quakes")
	require.NoError(t, err)
	assert.Equal(t, all[0], one)
	assert.Equal(t, r.engine.statuses()[0], one)
	_, err = client.Pipeline(t.Context(), "missing")
	require.ErrorIs(t, err, ports.ErrNotFound)
	_, err = client.Pipeline(t.Context(), "-")
	require.ErrorIs(t, err, ports.ErrInvalidInput)
}
