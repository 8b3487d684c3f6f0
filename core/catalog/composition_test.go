package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const stores = `
[kv.a]
module = "files"
[kv.b]
module = "plain"
[queue.solo]
module = "single"
[queue.orders]
module = "house"
[queue.refunds]
module = "house"
[queue.guests]
module = "hotel"
`

func TestStoresAreOpenedWhenAskedForAndOnce(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	comp := compose(t, r, stores)
	assert.Equal(t, []string{"kv.a", "kv.b", "queue.guests", "queue.orders", "queue.refunds", "queue.solo"}, comp.Names())
	assert.Empty(t, r.seen())

	kv, err := comp.Kv(t.Context(), "a")
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "k", []byte("v"), types.PutOptions{})
	require.NoError(t, err)
	again, err := comp.Kv(t.Context(), "a")
	require.NoError(t, err)
	assert.Same(t, kv, again)
	_, isChecker := kv.(ports.HealthChecker)
	assert.True(t, isChecker, "the store of the module comes back unwrapped")

	queue, err := comp.Queue(t.Context(), "orders")
	require.NoError(t, err)
	require.NoError(t, queue.Send(t.Context(), types.Text("x"), types.SendOptions{}))
	owner, err := comp.Owner(t.Context())
	require.NoError(t, err)
	same, err := owner.Queue(t.Context(), "orders")
	require.NoError(t, err)
	assert.Same(t, queue, same, "the composition and the owner share a queue")
	list, err := owner.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []types.QueueInfo{{ID: "orders"}, {ID: "refunds"}}, list)

	_, err = comp.Queue(t.Context(), "solo")
	require.NoError(t, err)
	_, err = comp.Queue(t.Context(), "guests")
	require.NoError(t, err)
	assert.Equal(t, []string{"open a", "open house", "open solo", "open hotel"}, r.seen(), "kv.b was not asked for")
}

func TestUnknownStoresAreNotFound(t *testing.T) {
	t.Parallel()
	comp := compose(t, &recorder{}, stores)
	_, err := comp.Kv(t.Context(), "orders")
	require.ErrorIs(t, err, ports.ErrNotFound)
	require.ErrorContains(t, err, `no kv "orders" is configured: there are a, b`)
	_, err = comp.Queue(t.Context(), "a")
	require.ErrorIs(t, err, ports.ErrNotFound)
	require.ErrorContains(t, err, "there are guests, orders, refunds, solo")
	_, err = compose(t, &recorder{}, "").Kv(t.Context(), "a")
	require.ErrorIs(t, err, ports.ErrNotFound)
	require.ErrorContains(t, err, "add [kv.NAME]")
}

func TestManyCallersOpenAStoreOnce(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	comp := compose(t, r, stores)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			_, err := comp.Kv(t.Context(), "a")
			assert.NoError(t, err)
			_, err = comp.Queue(t.Context(), "refunds")
			assert.NoError(t, err)
			assert.Len(t, comp.HealthCheck(t.Context()), 5)
		})
	}
	wg.Wait()
	assert.ElementsMatch(t, []string{"open a", "open house"}, r.seen())
}

func TestAFailedOpenIsTriedAgain(t *testing.T) {
	t.Parallel()
	broken := ports.Errorf(ports.CodeBindingSetupFailed, "kv.open", "the file is damaged").WithReason(ports.ReasonCorrupt)
	r := &recorder{openErr: map[string]error{"a": broken, "house": io.ErrUnexpectedEOF}}
	comp := compose(t, r, stores)
	_, err := comp.Kv(t.Context(), "a")
	require.ErrorIs(t, err, ports.ErrCorrupt)
	require.ErrorContains(t, err, "opening kv.a: kv.open: BINDING_SETUP_FAILED/corrupt: the file is damaged")
	_, err = comp.Queue(t.Context(), "orders")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = comp.Kv(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, comp.Close(t.Context()))
	assert.Equal(t, []string{"open a", "open house", "open a", "close a"}, r.seen())
}

func TestAnEndedContextEndsTheWaitForAnOpen(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	r := &recorder{openBlock: map[string]chan struct{}{"a": block}}
	comp := compose(t, r, stores)
	opening, cancelOpening := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := comp.Kv(opening, "a")
		first <- err
	}()
	require.Eventually(t, func() bool { return len(r.seen()) == 1 }, eventually, tick)

	waiting, cancelWaiting := context.WithCancel(t.Context())
	cancelWaiting()
	_, err := comp.Kv(waiting, "a")
	require.ErrorIs(t, err, context.Canceled, "a second caller waits no longer than its own context")

	cancelOpening()
	require.ErrorIs(t, <-first, context.Canceled)
	close(block)
	_, err = comp.Kv(t.Context(), "a")
	require.NoError(t, err, "the next call opens the store")
}

func TestCloseGoesBackInTheOrderOfTheStart(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	comp := compose(t, r, stores)
	for _, start := range []func() error{
		func() error { _, err := comp.Queue(t.Context(), "solo"); return err },
		func() error { _, err := comp.Kv(t.Context(), "b"); return err },
		func() error { _, err := comp.Owner(t.Context()); return err },
		func() error { _, err := comp.Queue(t.Context(), "guests"); return err },
		func() error { _, err := comp.Kv(t.Context(), "a"); return err },
		func() error { _, err := comp.Kv(t.Context(), "b"); return err },
	} {
		require.NoError(t, start())
	}
	require.NoError(t, comp.Close(t.Context()))
	require.NoError(t, comp.Close(t.Context()), "a second Close changes nothing")
	assert.Equal(t, []string{
		"open solo", "open b", "open house", "open hotel", "open a",
		"close a", "close hotel", "close house", "close b", "close solo",
	}, r.seen())
}

func TestCloseReportsEveryFailureAndClosesTheRest(t *testing.T) {
	t.Parallel()
	errA, errSolo := errors.New("a cannot be closed"), errors.New("solo cannot be closed")
	r := &recorder{closeErr: map[string]error{"a": errA, "solo": errSolo}}
	comp := compose(t, r, stores)
	for _, name := range []string{"a", "b"} {
		_, err := comp.Kv(t.Context(), name)
		require.NoError(t, err)
	}
	_, err := comp.Queue(t.Context(), "solo")
	require.NoError(t, err)
	err = comp.Close(t.Context())
	require.ErrorIs(t, err, errA)
	require.ErrorIs(t, err, errSolo)
	require.ErrorContains(t, err, "closing kv.a: a cannot be closed\nclosing queue.solo: solo cannot be closed")
	assert.Equal(t, []string{"close solo", "close b", "close a"}, r.seen()[3:])
}

func TestAfterCloseEverythingIsClosed(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	comp := compose(t, r, stores)
	kv, err := comp.Kv(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, comp.Close(t.Context()))
	_, _, err = kv.Get(t.Context(), "k")
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	for _, name := range []string{"a", "b"} {
		_, err = comp.Kv(t.Context(), name)
		require.ErrorIs(t, err, ports.ErrStoreClosed)
	}
	_, err = comp.Queue(t.Context(), "orders")
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	_, err = comp.Owner(t.Context())
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	health := comp.HealthCheck(t.Context())
	assert.Len(t, health, 5)
	for name, err := range health {
		assert.ErrorIs(t, err, ports.ErrStoreClosed, name)
	}
	assert.Equal(t, []string{"open a", "close a"}, r.seen())
}

func TestCloseGivesUpOnAStoreThatIsBeingOpened(t *testing.T) {
	t.Parallel()
	r := &recorder{openBlock: map[string]chan struct{}{"a": make(chan struct{})}}
	comp := compose(t, r, stores)
	opening := make(chan error, 1)
	go func() {
		_, err := comp.Kv(t.Context(), "a")
		opening <- err
	}()
	require.Eventually(t, func() bool { return len(r.seen()) == 1 }, eventually, tick)
	require.NoError(t, comp.Close(t.Context()))
	require.ErrorIs(t, <-opening, ports.ErrStoreClosed)
	assert.Equal(t, []string{"open a"}, r.seen())
}

func TestCloseGoesOnWhenItsContextHasEnded(t *testing.T) {
	t.Parallel()
	checking, finish := make(chan struct{}), make(chan struct{})
	r := &recorder{health: map[string]func(context.Context) error{"a": func(context.Context) error {
		close(checking)
		<-finish
		return nil
	}}}
	comp := compose(t, r, stores)
	_, err := comp.Kv(t.Context(), "a")
	require.NoError(t, err)
	go comp.HealthCheck(t.Context())
	<-checking // the store cannot be closed before this check has ended

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, comp.Close(ended), context.Canceled)
	assert.NotContains(t, r.seen(), "close a")
	close(finish)
	require.NoError(t, comp.Close(t.Context()))
	assert.Equal(t, []string{"open a", "close a"}, r.seen())
}

func TestHealthCheck(t *testing.T) {
	t.Parallel()
	full := ports.Errorf(ports.CodeKvOperationFailed, "kv.health", "the disk is full").WithReason(ports.ReasonDiskFull)
	r := &recorder{health: map[string]func(context.Context) error{
		"a":     func(context.Context) error { return full },
		"house": func(context.Context) error { return nil },
	}}
	comp := compose(t, r, stores)
	wantNames := []string{"kv.a", "kv.b", "owner.hotel", "owner.house", "queue.solo"}
	healthy := comp.HealthCheck(t.Context())
	assert.Len(t, healthy, len(wantNames))
	for _, name := range wantNames {
		err, listed := healthy[name]
		assert.True(t, listed, name)
		assert.NoError(t, err, "%s is not open yet", name)
	}
	assert.Empty(t, r.seen(), "a health check opens nothing")

	_, err := comp.Kv(t.Context(), "a")
	require.NoError(t, err)
	_, err = comp.Queue(t.Context(), "solo") // cannot tell
	require.NoError(t, err)
	_, err = comp.Owner(t.Context())
	require.NoError(t, err)
	health := comp.HealthCheck(t.Context())
	require.ErrorIs(t, health["kv.a"], ports.ErrDiskFull)
	delete(health, "kv.a")
	for name, err := range health {
		assert.NoError(t, err, name)
	}
}

func TestHealthCheckEndsWithItsContext(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	checking := make(chan struct{}, 1)
	r := &recorder{health: map[string]func(context.Context) error{"a": func(context.Context) error {
		checking <- struct{}{}
		<-release
		return nil
	}}}
	comp := compose(t, r, stores)
	_, err := comp.Kv(t.Context(), "a")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-checking
		cancel()
	}()
	health := comp.HealthCheck(ctx)
	require.ErrorIs(t, health["kv.a"], context.Canceled)
	require.ErrorContains(t, health["kv.a"], "kv.a did not answer the health check")
	close(release)
	require.NoError(t, comp.Close(t.Context()))
}

func TestModuleThatReturnsNothing(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	require.NoError(t, c.RegisterKv(ports.KvModule{ModuleInfo: info("m"), Open: noKv}))
	require.NoError(t, c.RegisterQueue(ports.QueueModule{ModuleInfo: info("m"), OpenOwner: noOwner}))
	comp, err := c.Compose(parse(t, t.TempDir(), "[kv.a]\nmodule = 'm'\n"), catalog.Options{})
	require.NoError(t, err)
	_, err = comp.Kv(t.Context(), "a")
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	_, err = comp.Owner(t.Context())
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	require.NoError(t, comp.Close(t.Context()))
}

func TestQueuesOfOneOwnerAreCheckedTogether(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	var asked [][]string
	for _, name := range []string{"house", "hotel"} {
		require.NoError(t, c.RegisterQueue(ports.QueueModule{
			ModuleInfo: infoOf("queue", name),
			Check: func(_ ports.Env, queues map[string]ports.ModuleConfig) error {
				asked = append(asked, slices.Sorted(maps.Keys(queues)))
				if name == "hotel" {
					return errors.New("c and d do not go together")
				}
				return nil
			},
			OpenOwner: func(context.Context, ports.Env, map[string]ports.ModuleConfig) (ports.QueueOwnerStore, error) {
				return nil, errors.New("opened")
			},
		}))
	}
	var text strings.Builder
	for _, queue := range []string{"a house", "c hotel", "b house", "d hotel"} {
		fmt.Fprintf(&text, "[queue.%s]\nmodule = %q\n", queue[:1], queue[2:])
	}
	_, err := c.Compose(parse(t, t.TempDir(), text.String()), catalog.Options{})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorContains(t, err, "stowage.toml:3")
	require.ErrorContains(t, err, "c and d do not go together")
	assert.Equal(t, [][]string{{"a", "b"}, {"c", "d"}}, asked)
}

func TestModulesGetTheSharedEnvironment(t *testing.T) {
	t.Parallel()
	stateDir := t.TempDir()
	var got ports.Env
	c := catalog.New()
	require.NoError(t, c.RegisterKv(ports.KvModule{ModuleInfo: info("m"),
		Open: func(_ context.Context, env ports.Env, _ ports.ModuleConfig) (ports.KvStore, error) {
			got = env
			return nil, io.EOF
		}}))
	comp, err := c.Compose(parse(t, stateDir, "[kv.a]\nmodule = 'm'\n"), catalog.Options{})
	require.NoError(t, err)
	_, err = comp.Kv(t.Context(), "a")
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, comp.Close(t.Context()))
	assert.Equal(t, "a", got.Name)
	assert.Equal(t, stateDir, got.StateDir)
	require.NotNil(t, got.Clock)
	require.NotNil(t, got.Log)
}

// TestCloseBesideCalls closes a composition while others open its stores: each call gets a store or
// STORE_CLOSED, and what was opened is closed.
func TestCloseBesideCalls(t *testing.T) {
	t.Parallel()
	for range 50 {
		r := &recorder{}
		comp := compose(t, r, stores)
		var wg sync.WaitGroup
		closed := func(err error) {
			if err != nil {
				assert.ErrorIs(t, err, ports.ErrStoreClosed)
			}
		}
		wg.Go(func() { _, err := comp.Kv(t.Context(), "a"); closed(err) })
		wg.Go(func() { _, err := comp.Kv(t.Context(), "b"); closed(err) })
		wg.Go(func() { _, err := comp.Queue(t.Context(), "solo"); closed(err) })
		wg.Go(func() { _, err := comp.Queue(t.Context(), "orders"); closed(err) })
		wg.Go(func() { comp.HealthCheck(t.Context()) })
		for range 2 {
			wg.Go(func() { assert.NoError(t, comp.Close(t.Context())) })
		}
		wg.Wait()
		counts := map[string]int{}
		for _, event := range r.seen() {
			counts[event]++
		}
		for _, name := range []string{"a", "b", "solo", "house"} {
			assert.Equal(t, counts["open "+name], counts["close "+name], "%s was opened and closed: %v", name, r.seen())
		}
	}
}
