package main

import (
	"context"
	"io"
	"sync"
)

// input is standard input, which ends with ctx.
func (a *app) input(ctx context.Context) io.Reader { return stoppable(ctx, a.in) }

// stoppable reads from r until ctx ends. A read of a terminal or a pipe cannot be called off by
// itself, and an interrupt has to end the wait for somebody who types nothing.
func stoppable(ctx context.Context, r io.Reader) io.Reader {
	from, to := io.Pipe()
	context.AfterFunc(ctx, func() { to.CloseWithError(context.Cause(ctx)) })
	start := sync.OnceFunc(func() {
		go func() {
			_, err := io.Copy(to, r)
			to.CloseWithError(err) // nil is the end of the input
		}()
	})
	return readerFunc(func(p []byte) (int, error) {
		start()
		return from.Read(p)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
