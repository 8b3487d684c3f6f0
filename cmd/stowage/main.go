package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	// A write to a closed pipe becomes an error like any other, so that a message which could not be
	// written is given back rather than lost with the process.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], &app{
		in:     os.Stdin,
		out:    os.Stdout,
		err:    os.Stderr,
		getenv: os.Getenv,
	}))
}

// app is what a command may touch of the process that it runs in.
type app struct {
	in     *os.File
	out    *os.File
	err    *os.File
	getenv func(string) string
}

// run runs one command line and returns its exit code.
func run(args []string, a *app) int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if !outputClosed(err, a.out.Name()) {
		report(a.err, err)
	}
	return exitCode(err)
}

// echo is how soon after a signal another one is taken for the same: a process group and a parent
// that passes signals on, such as make, both deliver it.
const echo = 500 * time.Millisecond

// interruptible is ctx, ended by the first SIGINT or SIGTERM. A second one ends the process at once.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				if first.IsZero() {
					first = time.Now()
					cancel(&interruption{s})
				} else if time.Since(first) > echo {
					os.Exit(exitFailed)
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// interruption is why the context of a command ended.
type interruption struct{ signal os.Signal }

func (i *interruption) Error() string { return "stopped by " + i.signal.String() }

// outputClosed reports whether a command failed because its reader had enough, as head(1) has, which
// is no news to anybody.
func outputClosed(err error, name string) bool {
	var path *fs.PathError
	return errors.As(err, &path) && path.Path == name && errors.Is(path, syscall.EPIPE)
}

// report writes the one line that says what failed.
func report(w io.Writer, err error) {
	var quiet *quietError
	if err == nil || errors.As(err, &quiet) {
		return
	}
	fmt.Fprintf(w, "error: %s%s\n", oneLine(describe(err)), usageHint(err))
}
