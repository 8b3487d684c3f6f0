package model_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

var (
	_ ports.KvStore         = (*model.Kv)(nil)
	_ ports.QueueStore      = (*model.Queue)(nil)
	_ ports.BulkSender      = (*model.Queue)(nil)
	_ ports.Releaser        = (*model.Queue)(nil)
	_ ports.QueueOwnerStore = (*model.Owner)(nil)
)

func newOwner(t *testing.T, ids ...string) (*model.Owner, *fixture.Clock) {
	t.Helper()
	clock := fixture.NewClock(fixture.Epoch())
	owner := model.NewOwner(clock, ids...)
	t.Cleanup(func() { require.NoError(t, owner.Close()) })
	return owner, clock
}

func queueOf(t *testing.T, owner *model.Owner, id string) ports.Queue {
	t.Helper()
	queue, err := owner.Queue(t.Context(), id)
	require.NoError(t, err)
	return queue
}

func TestOwnerCreatesAndLists(t *testing.T) {
	t.Parallel()
	owner, _ := newOwner(t, "b")
	require.NoError(t, owner.Create(t.Context(), "a"))
	require.ErrorIs(t, owner.Create(t.Context(), "a"), ports.ErrAlreadyExists)
	for _, id := range []string{"", ".", "..", "../x", "a/b", "-a", "a\x00", strings.Repeat("a", 129)} {
		require.ErrorIs(t, owner.Create(t.Context(), id), ports.ErrInvalidInput, "%q", id)
	}
	infos, err := owner.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []types.QueueInfo{{ID: "a"}, {ID: "b"}}, infos)
	require.Panics(t, func() { model.NewOwner(ports.SystemClock(), "../x") })
}

func TestOwnerSharesHandles(t *testing.T) {
	t.Parallel()
	owner, _ := newOwner(t, "q", "other")
	require.Same(t, queueOf(t, owner, "q"), queueOf(t, owner, "q"))
	require.NotSame(t, queueOf(t, owner, "q"), queueOf(t, owner, "other"))
	_, err := owner.Queue(t.Context(), "missing")
	require.ErrorIs(t, err, ports.ErrNotFound)
}

func TestOwnerRevokesTheHandlesOfADeletedQueue(t *testing.T) {
	t.Parallel()
	owner, clock := newOwner(t, "q")
	handle := queueOf(t, owner, "q")
	require.NoError(t, handle.Send(t.Context(), types.Text("m"), types.SendOptions{Delay: time.Hour}))
	polled := make(chan error, 1)
	go func() {
		_, err := handle.Receive(t.Context(), types.ReceiveOptions{Wait: ports.MaxWait})
		polled <- err
	}()
	clock.BlockUntilTimers(1)

	require.NoError(t, owner.Delete(t.Context(), "q"))
	require.ErrorIs(t, <-polled, ports.ErrRevoked)
	require.ErrorIs(t, owner.Delete(t.Context(), "q"), ports.ErrNotFound)
	require.NoError(t, owner.Create(t.Context(), "q"))
	_, err := handle.Stats(t.Context())
	require.ErrorIs(t, err, ports.ErrRevoked, "also when there is a new queue of that name")
	stats, err := queueOf(t, owner, "q").Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, types.QueueStats{}, stats)
}

func TestOwnerKeepsBlockedQueuesShut(t *testing.T) {
	t.Parallel()
	owner, _ := newOwner(t, "q")
	owner.Block("q")
	owner.Block("legacy")
	for _, id := range []string{"q", "legacy"} {
		_, err := owner.Queue(t.Context(), id)
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
		require.ErrorIs(t, owner.Create(t.Context(), id), ports.ErrAlreadyExists)
		require.ErrorIs(t, owner.Delete(t.Context(), id), ports.ErrBindingSetupFailed)
	}
	infos, err := owner.List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 2)
	for _, info := range infos {
		require.ErrorIs(t, info.Err, ports.ErrBindingSetupFailed)
	}
}

func TestOwnerAuthenticatesPerQueue(t *testing.T) {
	t.Parallel()
	owner, _ := newOwner(t, "q", "other")
	token, err := owner.Token(t.Context(), "q")
	require.NoError(t, err)
	require.NoError(t, owner.Authenticate(t.Context(), "q", token))
	wrong := owner.Authenticate(t.Context(), "other", token)
	unknown := owner.Authenticate(t.Context(), "missing", token)
	require.ErrorIs(t, wrong, ports.ErrAuthenticationFailed)
	require.Equal(t, wrong, unknown, "a wrong token and an unknown queue look the same")
	require.ErrorIs(t, owner.Authenticate(t.Context(), "q", ""), ports.ErrAuthenticationFailed)
	require.NotContains(t, wrong.Error(), token)
	_, err = owner.Token(t.Context(), "missing")
	require.ErrorIs(t, err, ports.ErrNotFound)
}

func TestOwnerRotatesWithAnOverlap(t *testing.T) {
	t.Parallel()
	owner, clock := newOwner(t, "q")
	first, err := owner.Token(t.Context(), "q")
	require.NoError(t, err)
	second, err := owner.Rotate(t.Context(), "q", time.Hour)
	require.NoError(t, err)
	current, err := owner.Token(t.Context(), "q")
	require.NoError(t, err)
	require.Equal(t, second, current)
	clock.Advance(time.Hour - time.Millisecond)
	require.NoError(t, owner.Authenticate(t.Context(), "q", first))
	clock.Advance(time.Millisecond)
	require.ErrorIs(t, owner.Authenticate(t.Context(), "q", first), ports.ErrAuthenticationFailed)
	require.NoError(t, owner.Authenticate(t.Context(), "q", second))

	third, err := owner.Rotate(t.Context(), "q", 0)
	require.NoError(t, err)
	require.ErrorIs(t, owner.Authenticate(t.Context(), "q", second), ports.ErrAuthenticationFailed)
	require.NoError(t, owner.Authenticate(t.Context(), "q", third))
	for _, overlap := range []time.Duration{-1, ports.MaxRotationOverlap + 1} {
		_, err = owner.Rotate(t.Context(), "q", overlap)
		require.ErrorIs(t, err, ports.ErrInvalidInput)
	}
	_, err = owner.Rotate(t.Context(), "missing", 0)
	require.ErrorIs(t, err, ports.ErrNotFound)
}

func TestAClosedOwnerSaysSo(t *testing.T) {
	t.Parallel()
	owner, _ := newOwner(t, "q")
	handle := queueOf(t, owner, "q")
	require.NoError(t, owner.Close())
	_, err := handle.Stats(t.Context())
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.NotErrorIs(t, err, ports.ErrRevoked, "a stop of the owner passes")
	for name, call := range ownerCalls(owner) {
		require.ErrorIs(t, call(t.Context()), ports.ErrStoreClosed, name)
	}
}

func TestAnOwnerHonoursContexts(t *testing.T) {
	t.Parallel()
	owner, _ := newOwner(t, "q")
	for name, call := range ownerCalls(owner) {
		require.ErrorIs(t, call(fixture.Cancelled(t)), context.Canceled, name)
	}
	infos, err := owner.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []types.QueueInfo{{ID: "q"}}, infos)
}

func ownerCalls(owner *model.Owner) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"create":       func(ctx context.Context) error { return owner.Create(ctx, "new") },
		"queue":        func(ctx context.Context) error { _, err := owner.Queue(ctx, "q"); return err },
		"list":         func(ctx context.Context) error { _, err := owner.List(ctx); return err },
		"delete":       func(ctx context.Context) error { return owner.Delete(ctx, "q") },
		"authenticate": func(ctx context.Context) error { return owner.Authenticate(ctx, "q", "x") },
		"token":        func(ctx context.Context) error { _, err := owner.Token(ctx, "q"); return err },
		"rotate":       func(ctx context.Context) error { _, err := owner.Rotate(ctx, "q", 0); return err },
	}
}
