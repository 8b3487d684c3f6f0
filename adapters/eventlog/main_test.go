package eventlog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// childEnv makes the test binary a child process, which does one thing with one directory instead of
// running tests: hold it open, or flood it with events.
const childEnv = "STOWAGE_EVENTLOG_CHILD"

func TestMain(m *testing.M) {
	if order := strings.Fields(os.Getenv(childEnv)); len(order) > 0 {
		if err := serve(order[0], order[1], order[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func serve(order, round, dir string) error {
	if order == "limit" {
		return fillUp(dir)
	}
	log, err := Open(context.Background(), Options{Dir: dir, SegmentBytes: 64 << 10})
	if err != nil {
		return err
	}
	fmt.Println("open")
	if order == "hold" {
		_, err := io.Copy(io.Discard, os.Stdin)
		return errors.Join(err, log.Close())
	}
	return flood(log, round)
}

const floodWriters = 8

// flood accepts events until the process is killed, and names each that was acknowledged.
func flood(log *Log, round string) error {
	failed := make(chan error)
	for w := range floodWriters {
		go func() {
			for i := 0; ; i++ {
				var events []types.Event
				for n := range i%3 + 1 {
					events = append(events, types.Event{Data: fmt.Appendf(nil, `"%s.%d.%d %d %d %s"`, round, w, i, n, i%3+1, strings.Repeat("x", i%700))})
				}
				err := log.Accept(context.Background(), events)
				if err == nil {
					// One write a line, so that lines of several writers do not mix.
					_, err = fmt.Fprintf(os.Stdout, "%s.%d.%d\n", round, w, i)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

// fileLimit is how large a file of the child "limit" may become.
const fileLimit = 100_000

// fillUp accepts events until the disk is full, which a limit of the process stands for, and then some
// more with more room.
func fillUp(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	log, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: fileLimit, Max: old.Max}); err != nil {
		return err
	}
	next := 0
	for full := 0; full < 5; next++ { // each further attempt meets a full disk again
		switch err := log.Accept(context.Background(), numbered(next, 7)); {
		case errors.Is(err, ports.ErrDiskFull) && ports.IsTransient(err):
			full++
		case err != nil:
			return fmt.Errorf("want disk_full: %w", err)
		default:
			fmt.Println(next)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := log.Accept(context.Background(), numbered(next, 7)); err != nil {
		return err
	}
	fmt.Println(next)
	return log.Close()
}

// child is a process of its own.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr strings.Builder
}

// childLimit ends a child that hangs, so that the test fails rather than waits.
const childLimit = 2 * time.Minute

func startChild(t *testing.T, order string, round int, dir string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), childLimit)
	c := &child{cmd: exec.CommandContext(ctx, os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{order, strconv.Itoa(round), dir}, " "))
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.in, c.out = in, bufio.NewScanner(out)
	require.NoError(t, c.cmd.Start())
	wait := sync.OnceFunc(func() { _ = c.cmd.Wait() }) // one that a test has killed reports that here
	t.Cleanup(func() {
		_ = in.Close()
		wait()
		cancel()
	})
	return c
}

// line returns the next line that the child prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	require.True(t, c.out.Scan(), "the child has ended: %s", c.stderr.String())
	return c.out.Text()
}
