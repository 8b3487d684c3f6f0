package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/webhook"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

const receiverSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

// hookRig is a receiver that is served, and what it printed.
type hookRig struct {
	url string

	mu    sync.Mutex
	items []receivedItem
}

func newHookRig(t *testing.T, secret string, change func(*hookReceiver)) *hookRig {
	t.Helper()
	rig := &hookRig{}
	r := &hookReceiver{known: newRecent(receiverKnown), print: func(i receivedItem) {
		rig.mu.Lock()
		defer rig.mu.Unlock()
		rig.items = append(rig.items, i)
	}}
	if change != nil {
		change(r)
	}
	require.NoError(t, r.accept(secret))
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	rig.url = server.URL
	return rig
}

func (r *hookRig) printed() []receivedItem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]receivedItem(nil), r.items...)
}

func (r *hookRig) deliver(t *testing.T, secret string, event types.SinkEvent) error {
	t.Helper()
	options := webhook.Options{URL: r.url + "/alerts", AllowPrivate: true}
	if secret != "" {
		secrets, err := webhook.ParseSecrets(secret)
		require.NoError(t, err)
		options.Secrets = secrets
	}
	sink, err := webhook.NewSink(options)
	require.NoError(t, err)
	return sink.Deliver(t.Context(), event)
}

func TestAReceiverPrintsWhatItGets(t *testing.T) {
	t.Parallel()
	r := newHookRig(t, receiverSecret, nil)
	match := *fixture.DeadLetter(1).Payload
	emission := types.SinkEvent{Emission: &types.Emission{Match: fixture.Match(2), Key: "us", Hits: 3, FirstTS: 1, LastTS: 2}}
	require.NoError(t, r.deliver(t, receiverSecret, match))
	require.NoError(t, r.deliver(t, receiverSecret, emission))
	require.NoError(t, r.deliver(t, receiverSecret, match))
	items := r.printed()
	require.Len(t, items, 3)
	assert.Equal(t, []bool{false, false, true}, []bool{items[0].Again, items[1].Again, items[2].Again})
	assert.Equal(t, match.Match.ID, items[0].ID)
	assert.Equal(t, "match", items[0].Type)
	assert.JSONEq(t, string(match.Match.Event), string(items[0].Event))
	assert.Contains(t, items[1].line(), "  204  earthquakes/strong  match-000002  3 hits  us  {")
	assert.Contains(t, items[2].line(), "  again  {")

	err := r.deliver(t, "", match)
	require.Error(t, err)
	assert.False(t, ports.IsTransient(err), "a signature that is missing will not come")
	err = r.deliver(t, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", match)
	require.Error(t, err)
	items = r.printed()
	require.Len(t, items, 5)
	assert.Equal(t, http.StatusUnauthorized, items[4].Status)
	assert.Contains(t, items[4].line(), "  401  refused: ")
	assert.Empty(t, items[4].ID)
	require.ErrorIs(t, (&hookReceiver{}).accept("nonsense"), ports.ErrInvalidConfig)
}

func TestAReceiverFailsAsItIsTold(t *testing.T) {
	t.Parallel()
	match := *fixture.DeadLetter(1).Payload
	third := newHookRig(t, "", func(r *hookReceiver) { r.failEvery = 3 })
	var failed []int
	for i := range 9 {
		if err := third.deliver(t, "", match); err != nil {
			assert.True(t, ports.IsTransient(err))
			failed = append(failed, i+1)
		}
	}
	assert.Equal(t, []int{3, 6, 9}, failed)
	assert.Len(t, third.printed(), 9)

	always := newHookRig(t, "", func(r *hookReceiver) { r.status = 410 })
	err := always.deliver(t, "", match)
	require.Error(t, err)
	assert.False(t, ports.IsTransient(err))
	assert.Equal(t, 410, always.printed()[0].Status)
	gone := newHookRig(t, "", func(r *hookReceiver) { r.status, r.failEvery = 429, 2 })
	require.NoError(t, gone.deliver(t, "", match))
	require.Error(t, gone.deliver(t, "", match))
}

func TestARecentSetForgetsTheOldest(t *testing.T) {
	t.Parallel()
	r := newRecent(2)
	var known []bool
	for id := range strings.SplitSeq("a b a c a b b", " ") {
		known = append(known, r.add(id))
	}
	assert.Equal(t, []bool{false, false, true, false, false, false, true}, known)
	assert.Len(t, r.ids, 2)
}
