package localkv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/types"
)

// childEnv makes the test binary a child process, which takes commands from its standard input
// instead of running tests.
const childEnv = "STOWAGE_LOCALKV_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := serveCommands(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	err := errors.Join(goleak.Find(), os.RemoveAll(turso.dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// serveCommands answers each line with one that starts with "ok", and ends at the first error.
func serveCommands(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	c := commands{lines: lines, out: out}
	for lines.Scan() {
		answer, err := c.run(strings.Fields(lines.Text()))
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		if _, err := fmt.Fprintln(out, strings.TrimSpace("ok "+answer)); err != nil {
			return err
		}
	}
	return lines.Err()
}

type commands struct {
	lines *bufio.Scanner
	out   io.Writer
	store *Store
}

func (c *commands) run(command []string) (string, error) {
	ctx := context.Background()
	args := command[1:]
	switch command[0] {
	case "open": // open DIR MODE
		mode, err := ParseMode("test", args[1])
		if err != nil {
			return "", err
		}
		c.store, err = Open(ctx, Options{Dir: args[0], Mode: mode, Log: slog.New(slog.DiscardHandler)})
		return "", err
	case "close":
		return "", c.store.Close()
	case "put": // put KEY VALUE
		_, err := c.store.Put(ctx, args[0], []byte(args[1]), types.PutOptions{})
		return "", err
	case "absent": // absent KEY VALUE: whether it applied
		result, err := c.store.Put(ctx, args[0], []byte(args[1]), types.PutOptions{If: types.IfAbsent()})
		return strconv.FormatBool(result.Applied), err
	case "count": // count KEY N: raise a counter N times
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return "", err
		}
		for range n {
			if err := increment(ctx, c.store, args[0]); err != nil {
				return "", err
			}
		}
		return "", nil
	case "hold": // hold DIR: keep the write lock until the next line
		return "", c.hold(ctx, args[0])
	case "flood": // flood PREFIX WORKERS: put until killed, and name each key that is stored
		workers, err := strconv.Atoi(args[1])
		if err != nil {
			return "", err
		}
		return "", c.flood(ctx, args[0], workers)
	}
	return "", fmt.Errorf("unknown command %q", command[0])
}

// increment adds one to a counter by compare-and-set.
func increment(ctx context.Context, store *Store, key string) error {
	for {
		entry, found, err := store.Get(ctx, key)
		if err != nil {
			return err
		}
		n, cond := 0, types.IfAbsent()
		if found {
			cond = types.IfVersion(entry.Version)
			if n, err = strconv.Atoi(string(entry.Value)); err != nil {
				return err
			}
		}
		result, err := store.Put(ctx, key, strconv.AppendInt(nil, int64(n+1), 10), types.PutOptions{If: cond})
		if err != nil || result.Applied {
			return err
		}
	}
}

func (c *commands) hold(ctx context.Context, dir string) (err error) {
	file, err := openRaw(ctx, dir, sqlitefile.SharedDirectory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return file.Write(ctx, "hold", func(*sqlitefile.Tx) error {
		if _, err := fmt.Fprintln(c.out, "ok held"); err != nil {
			return err
		}
		if !c.lines.Scan() {
			return errors.New("the input ended before the lock was released")
		}
		return nil
	})
}

func (c *commands) flood(ctx context.Context, prefix string, workers int) error {
	failed := make(chan error)
	for w := range workers {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%s%d:%d", prefix, w, i)
				if _, err := c.store.Put(ctx, key, []byte(key), types.PutOptions{}); err != nil {
					failed <- err
					return
				}
				// One write a line, so that lines of several workers do not mix.
				if _, err := c.out.Write([]byte(key + "\n")); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

// openRaw opens the file of a store beneath the port, to look at rows or to plant odd ones. It is
// the same package that the store uses, so the rule that nothing else opens the file is kept.
func openRaw(ctx context.Context, dir string, ownership sqlitefile.Ownership) (*sqlitefile.File, error) {
	return sqlitefile.Open(ctx, sqlitefile.Options{
		Path:      filepath.Join(dir, databaseName),
		Schema:    schema(),
		Kind:      "local KV",
		Failure:   "KV_OPERATION_FAILED",
		Ownership: ownership,
		Log:       slog.New(slog.DiscardHandler),
	})
}

// child is a process of its own.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr strings.Builder
}

// childLimit ends a child that hangs, so that the test fails rather than waits.
const childLimit = 2 * time.Minute

func startChild(t *testing.T) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), childLimit)
	c := &child{t: t, cmd: exec.CommandContext(ctx, os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"=1")
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.in, c.out = in, bufio.NewReader(out)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()   // the child ends at the end of its input;
		_ = c.cmd.Wait() // one that a test has killed reports that here
		cancel()
	})
	return c
}

func startChildren(t *testing.T, n int) []*child {
	t.Helper()
	children := make([]*child, n)
	for i := range children {
		children[i] = startChild(t)
	}
	return children
}

// send gives a command without waiting for its end.
func (c *child) send(format string, args ...any) {
	c.t.Helper()
	_, err := fmt.Fprintf(c.in, format+"\n", args...)
	require.NoError(c.t, err)
}

// answer waits for the end of a command and returns what follows the "ok".
func (c *child) answer() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		_ = c.cmd.Wait() // for the rest of the error output
		require.NoError(c.t, err, "the child has ended: %s", c.stderr.String())
	}
	answer, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "ok")
	require.True(c.t, ok, "the child said %q", line)
	return strings.TrimSpace(answer)
}

func (c *child) do(format string, args ...any) string {
	c.t.Helper()
	c.send(format, args...)
	return c.answer()
}
