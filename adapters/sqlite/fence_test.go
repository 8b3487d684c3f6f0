package sqlite

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// blocked makes a storage whose first statement waits until it is let go, and begins a call with it.
func blocked(t *testing.T, ctx context.Context) (s *Storage, letGo func(), result chan error) {
	t.Helper()
	s = open(t, Options{})
	begun, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.beforeStatement = func(string) error {
		once.Do(func() {
			close(begun)
			<-gate
		})
		return nil
	}
	result = make(chan error, 1)
	go func() { result <- s.Pause(ctx, types.PipelineOf("slow")) }()
	<-begun
	letGo = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(letGo)
	return s, letGo, result
}

func TestQuiesceWaitsForACallWhoseCallerGaveUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, letGo, result := blocked(t, ctx)
	cancel() // the call goes on (R254)

	quiesced := make(chan error, 1)
	go func() { quiesced <- s.Quiesce(t.Context()) }()
	// A wait that has begun is seen by the next: it seals what it waits for.
	require.Eventually(t, func() bool {
		s.calls.mu.Lock()
		defer s.calls.mu.Unlock()
		return s.calls.current.before != nil
	}, time.Minute, time.Millisecond)
	select {
	case err := <-quiesced:
		t.Fatalf("it returned while the call was running: %v", err)
	default:
	}

	// What begins later is held up by nobody, and a reader may go on and end (R256).
	paused, err := s.Paused(t.Context(), types.PipelineOf("slow"))
	require.NoError(t, err)
	require.False(t, paused)
	ended, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, s.Quiesce(ended), context.Canceled)

	letGo()
	require.NoError(t, <-quiesced)
	require.NoError(t, <-result, "it had begun, so it has its true outcome")
	paused, err = s.Paused(t.Context(), types.PipelineOf("slow"))
	require.NoError(t, err)
	require.True(t, paused, "nothing is written after it: it was written before")
	require.NoError(t, s.Quiesce(t.Context()))
}

func TestQuiesceIsNotHeldUpByLaterCalls(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	require.NoError(t, s.Quiesce(t.Context()))
	inside, gate := make(chan struct{}), make(chan struct{})
	f := s.calls
	first := f.enter()
	waited := make(chan error, 1)
	go func() { waited <- f.wait(t.Context()) }()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return first.sealed
	}, time.Minute, time.Millisecond)
	done := make(chan error, 1)
	go func() {
		done <- s.read(t.Context(), "test", func(*sqlitefile.Conn) error {
			close(inside)
			<-gate
			return nil
		})
	}()
	<-inside
	f.leave(first)
	require.NoError(t, <-waited, "the later call is still running")
	close(gate)
	require.NoError(t, <-done)
}

func TestAWaitThatGivesUpLeavesTheFenceWhole(t *testing.T) {
	t.Parallel()
	f := newFence()
	old := f.enter()
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		young := f.enter()
		cancel()
		require.ErrorIs(t, f.wait(ctx), context.Canceled)
		f.leave(young)
	}
	f.leave(old)
	require.NoError(t, f.wait(t.Context()))
	require.Nil(t, f.current.before, "what has ended is forgotten")
}

func TestAfterCloseEveryCallSaysSo(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Quiesce(t.Context()), ports.ErrStoreClosed)
	_, err := s.CountDeadLetters(t.Context())
	require.ErrorIs(t, err, ports.ErrStoreClosed)
	require.ErrorIs(t, s.Apply(t.Context(), "p", types.Progress{}), ports.ErrStoreClosed)
}
