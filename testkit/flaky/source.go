package flaky

import (
	"context"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Source is a ports.Source that fails as its Faults say. A call that fails returns no result, also when
// it had its effect: the events of a read that failed come again from a source that is opened anew.
type Source struct {
	inner  ports.Source
	faults *Faults
}

// NewSource wraps a source. The wrapper is a ports.Unordered or a ports.Acceptor if the source is: ask
// it with a type assertion, as one would ask the source.
func NewSource(inner ports.Source, faults *Faults) ports.Source {
	s := &Source{inner, faults}
	unordered, isUnordered := inner.(ports.Unordered)
	acceptor, accepts := inner.(ports.Acceptor)
	switch {
	case isUnordered && accepts:
		return struct {
			*Source
			flakyUnordered
			flakyAcceptor
		}{s, flakyUnordered{unordered}, flakyAcceptor{acceptor, faults}}
	case isUnordered:
		return struct {
			*Source
			flakyUnordered
		}{s, flakyUnordered{unordered}}
	case accepts:
		return struct {
			*Source
			flakyAcceptor
		}{s, flakyAcceptor{acceptor, faults}}
	}
	return s
}

// Read implements ports.Source.
func (s *Source) Read(ctx context.Context, limit int) ([]types.Event, error) {
	return result(ctx, s.faults.around, SourceRead, func(ctx context.Context) ([]types.Event, error) { return s.inner.Read(ctx, limit) })
}

// Settle implements ports.Source.
func (s *Source) Settle(ctx context.Context, through types.Cursor) error {
	return s.faults.around(ctx, SourceSettle, func(ctx context.Context) error { return s.inner.Settle(ctx, through) })
}

// Close closes the source within, unless the faults have halted.
func (s *Source) Close() error { return s.faults.close(s.inner.Close) }

// flakyUnordered never fails.
type flakyUnordered struct{ inner ports.Unordered }

// Unordered implements ports.Unordered.
func (u flakyUnordered) Unordered() bool { return u.inner.Unordered() }

type flakyAcceptor struct {
	inner  ports.Acceptor
	faults *Faults
}

// Accept implements ports.Acceptor.
func (a flakyAcceptor) Accept(ctx context.Context, events []types.Event) error {
	return a.faults.around(ctx, SourceAccept, func(ctx context.Context) error { return a.inner.Accept(ctx, events) })
}
