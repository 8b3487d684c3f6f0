package ndjson

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// stdoutTurn is shared by all sinks of the standard output, so that lines of several do not mix.
var stdoutTurn = make(chan struct{}, 1)

// Printer writes events to a stream, one JSON object a line. It is a [ports.BatchSink]: a batch is one
// write.
//
// A stream whose reader is gone is a permanent failure, since no reader comes back to it: the events
// become dead letters, which can be replayed to another stream. Every other failure is transient. When
// a context ends while the stream takes nothing, the call returns, and the line may still come out.
type Printer struct {
	out  io.Writer
	turn chan struct{} // holds a token while a write is under way

	mu     sync.Mutex
	closed bool

	torn bool      // the last write broke off; whoever has the turn may touch it
	own  io.Closer // out, where it belongs to the printer
}

// NewPrinter makes a printer. The stream stays the caller's: closing the printer does not close it.
func NewPrinter(out io.Writer) *Printer {
	return &Printer{out: out, turn: make(chan struct{}, 1)}
}

// openStdout makes the printer of a configuration. It writes to a descriptor of its own: a write to
// the descriptor 1 itself would end the process when the reader is gone.
func openStdout() (*Printer, error) {
	const op = "sink.open"
	syscall.ForkLock.RLock()
	fd, err := syscall.Dup(int(os.Stdout.Fd()))
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fileError(ports.CodeBindingSetupFailed, op, "the standard output cannot be written: %w", err)
	}
	file := os.NewFile(uintptr(fd), "stdout")
	return &Printer{out: file, turn: stdoutTurn, own: file}, nil
}

// MaxBatch is 1000.
func (p *Printer) MaxBatch() int { return ports.MaxBatchEvents }

// Deliver prints one event.
func (p *Printer) Deliver(ctx context.Context, event types.SinkEvent) error {
	return p.DeliverBatch(ctx, []types.SinkEvent{event})[0]
}

// DeliverBatch prints events, all that can be encoded or none.
func (p *Printer) DeliverBatch(ctx context.Context, events []types.SinkEvent) []error {
	text, outcomes := encode(ctx, events)
	if len(text) == 0 {
		return outcomes
	}
	return share(outcomes, p.print(ctx, text))
}

func (p *Printer) print(ctx context.Context, text []byte) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.isClosed() {
		<-p.turn
		return closed(opDeliver, "the printer")
	}
	// A terminal that is stopped takes nothing for as long as it likes: the write may outlive the call.
	wrote := make(chan error, 1)
	go func() {
		defer func() { <-p.turn }()
		wrote <- p.write(text)
	}()
	select {
	case err := <-wrote:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Printer) write(text []byte) error {
	if p.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := p.out.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err == nil {
		p.torn = false
		return nil
	}
	if n > 0 {
		p.torn = text[n-1] != '\n'
	}
	e := fileError(ports.CodeBackendFailed, opDeliver, "the stream takes no line: %w", err)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) {
		return e.WithClass(ports.Permanent)
	}
	return e
}

func (p *Printer) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Close ends the printer. It waits for no write. Closing again does nothing.
func (p *Printer) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	if p.own == nil {
		return nil
	}
	if err := p.own.Close(); err != nil {
		return fileError(ports.CodeBackendFailed, "sink.close", "the standard output cannot be closed: %w", err)
	}
	return nil
}
