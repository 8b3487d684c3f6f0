package ndjson

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// stream is a writer that a test can make fail or stop.
type stream struct {
	mu      sync.Mutex
	text    bytes.Buffer
	fault   error
	blocked chan struct{} // closed: go on
	entered chan struct{}
}

func (s *stream) Write(text []byte) (int, error) {
	if s.blocked != nil {
		s.entered <- struct{}{}
		<-s.blocked
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		n, _ := s.text.Write(text[:len(text)/2])
		return n, s.fault
	}
	return s.text.Write(text)
}

func (s *stream) fail(fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestAPrinterPrintsLines(t *testing.T) {
	t.Parallel()
	out := &stream{}
	p := NewPrinter(out)
	require.NoError(t, p.Deliver(t.Context(), matchOf(1)))
	for _, err := range p.DeliverBatch(t.Context(), []types.SinkEvent{matchOf(2), matchOf(3)}) {
		require.NoError(t, err)
	}
	require.Equal(t, []types.SinkEvent{matchOf(1), matchOf(2), matchOf(3)}, received(t, out.String()))
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Deliver(t.Context(), matchOf(4)), ports.ErrStoreClosed)
}

func TestAStreamWithoutAReaderIsAPermanentFailure(t *testing.T) {
	t.Parallel()
	for fault, permanent := range map[error]bool{
		syscall.EPIPE: true, io.ErrClosedPipe: true, os.ErrClosed: true,
		syscall.EIO: false, syscall.ENOSPC: false, io.ErrShortWrite: false,
	} {
		out := &stream{fault: fault}
		err := NewPrinter(out).Deliver(t.Context(), matchOf(1))
		require.ErrorIs(t, err, fault)
		require.ErrorIs(t, err, ports.ErrBackendFailed)
		require.Equal(t, !permanent, ports.IsTransient(err), fault)
	}
}

func TestALineThatBrokeOffDoesNotMergeWithTheNext(t *testing.T) {
	t.Parallel()
	out := &stream{fault: syscall.EIO}
	p := NewPrinter(out)
	require.Error(t, p.Deliver(t.Context(), matchOf(1)))
	torn := out.String()
	require.NotEmpty(t, torn)
	out.fail(nil)
	require.NoError(t, p.Deliver(t.Context(), matchOf(1)))
	require.NoError(t, p.Deliver(t.Context(), matchOf(2)))
	require.Equal(t, []types.SinkEvent{matchOf(1), matchOf(2)}, received(t, out.String()[len(torn)+1:]))
}

func TestAStreamThatTakesNothingHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	out := &stream{blocked: make(chan struct{}), entered: make(chan struct{}, 1)}
	p := NewPrinter(out)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- p.Deliver(ctx, matchOf(1)) }()
	<-out.entered
	go func() { second <- p.Deliver(ctx, matchOf(2)) }()
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	require.ErrorIs(t, <-second, context.Canceled)
	require.NoError(t, p.Close())
	close(out.blocked)
	p.turn <- struct{}{} // the write has ended
	require.Equal(t, []types.SinkEvent{matchOf(1)}, received(t, out.String()))
}

func TestTheStandardOutputMayLoseItsReader(t *testing.T) {
	t.Parallel()
	p := start(t, "print")
	require.Len(t, received(t, p.mustLine(t)+"\n"), 1)
	require.NoError(t, p.closeOutput())
	err := p.cmd.Wait()
	require.NoError(t, err, "the process lives on, and says %s", p.stderr.String())
	require.Contains(t, p.stderr.String(), "BACKEND_FAILED")
	require.Contains(t, p.stderr.String(), "permanent")
}
