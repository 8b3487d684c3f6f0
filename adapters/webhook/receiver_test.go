package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func TestReceiverGetsWhatTheSinkDelivers(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"", otherSecret} {
		clock := fixture.NewClock(fixture.Epoch().Add(time.Millisecond))
		var fail error
		var got []Delivery
		server := serve(t, NewReceiver(ReceiverOptions{Secret: secret, Clock: clock, Handle: func(_ context.Context, d Delivery) error {
			got = append(got, d)
			return fail
		}}).ServeHTTP)
		options := Options{URL: server.URL, Clock: clock}
		if secret != "" {
			options.Secrets = parse(t, publishedSecret+" "+secret)
		}
		sink := newSink(t, options)
		event := matchEvent(1)
		event.Traceparent = traceparent
		emission := types.Emission{Match: fixture.Match(2), Hits: 2}
		require.NoError(t, sink.Deliver(t.Context(), event))
		require.NoError(t, sink.Deliver(t.Context(), types.SinkEvent{Emission: &emission}))
		require.Len(t, got, 2)
		require.Equal(t, "match-000001", got[0].ID)
		require.True(t, fixture.Epoch().Equal(got[0].Timestamp), got[0].Timestamp)
		require.Equal(t, types.SinkEvent{Match: event.Match}, got[0].Event)
		require.Equal(t, traceparent, got[0].Traceparent)
		require.Equal(t, types.SinkEvent{Emission: &emission}, got[1].Event)
		require.Empty(t, got[1].Traceparent)
		require.Contains(t, string(got[1].Body), `"type":"emission"`)

		fail = errors.New("the s3cret place is full")
		err := sink.Deliver(t.Context(), event)
		require.ErrorContains(t, err, "500")
		require.True(t, ports.IsTransient(err))
	}
}

func TestReceiverRefuses(t *testing.T) {
	t.Parallel()
	at := fixture.Epoch()
	const good = `{"type":"match","timestamp":"2026-03-01T12:00:01.000Z","data":{"match_id":"m1","event":{"a":1}}}`
	type change func(*http.Request)
	sign := func(id, body string) change {
		return func(r *http.Request) {
			r.Header = signed(id, at.Unix(), parse(t, otherSecret).Sign(id, at, []byte(body)))
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
		}
	}
	for name, c := range map[string]struct {
		body   string
		change change
		status int
	}{
		"good":                   {good, sign("m1", good), http.StatusNoContent},
		"another method":         {good, func(r *http.Request) { r.Method = http.MethodPut }, http.StatusMethodNotAllowed},
		"another content type":   {good, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
		"no content type":        {good, func(r *http.Request) { r.Header.Del("Content-Type") }, http.StatusUnsupportedMediaType},
		"too large":              {strings.Repeat(" ", MaxBodyBytes+1), nil, http.StatusRequestEntityTooLarge},
		"not signed":             {good, nil, http.StatusUnauthorized},
		"another body":           {good, sign("m1", good+" "), http.StatusUnauthorized},
		"bad and not signed":     {"{", nil, http.StatusUnauthorized},
		"no JSON":                {"{", sign("m1", "{"), http.StatusBadRequest},
		"a bare match":           {`{"match_id":"m1","event":1}`, sign("m1", `{"match_id":"m1","event":1}`), http.StatusBadRequest},
		"an unknown type":        {`{"type":"x","data":{}}`, sign("m1", `{"type":"x","data":{}}`), http.StatusBadRequest},
		"data that is no object": {`{"type":"match","data":1}`, sign("m1", `{"type":"match","data":1}`), http.StatusBadRequest},
		"data that is null":      {`{"type":"emission","data":null}`, sign("m1", `{"type":"emission","data":null}`), http.StatusBadRequest},
		"another id":             {good, sign("m2", good), http.StatusBadRequest},
	} {
		handled := 0
		handler := NewReceiver(ReceiverOptions{
			Secret: otherSecret, Clock: fixture.NewClock(at),
			Handle: func(context.Context, Delivery) error { handled++; return nil },
		})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		if c.change != nil {
			c.change(r)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, "%s: %s", name, w.Body)
		if c.status == http.StatusNoContent {
			require.Equal(t, 1, handled, name)
			continue
		}
		require.Zero(t, handled, name)
		require.NotEmpty(t, w.Body.String(), name)
		if c.status == http.StatusMethodNotAllowed {
			require.Equal(t, http.MethodPost, w.Header().Get("Allow"))
		}
	}
}

func TestReceiverWantsItsParts(t *testing.T) {
	t.Parallel()
	handle := func(context.Context, Delivery) error { return nil }
	require.PanicsWithValue(t, "webhook: NewReceiver needs a function that handles deliveries", func() { NewReceiver(ReceiverOptions{}) })
	require.Panics(t, func() { NewReceiver(ReceiverOptions{Secret: "whsec_", Handle: handle}) })
}
