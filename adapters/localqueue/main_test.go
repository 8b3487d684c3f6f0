package localqueue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/types"
)

// childEnv makes the test binary a child process, which takes commands from its standard input
// instead of running tests.
const childEnv = "STOWAGE_LOCALQUEUE_CHILD"

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
	c := commands{out: out}
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
	out   io.Writer
	owner *Owner
	held  *os.File
}

func (c *commands) run(command []string) (string, error) {
	ctx := context.Background()
	args := command[1:]
	quiet := slog.New(slog.DiscardHandler)
	switch command[0] {
	case "own": // own STATEDIR: be its owner, with dead letters from "work" to "dead"
		var err error
		c.owner, err = OpenOwner(ctx, OwnerOptions{StateDir: args[0], Log: quiet, Queues: map[string]QueueOptions{
			"work":   {MaxReceives: 1, DeadLetterQueue: "dead"},
			"quakes": {},
		}})
		return "", err
	case "close":
		return "", c.owner.Close()
	case "hold": // hold FILE: keep it open, without a lock
		var err error
		c.held, err = os.Open(args[0])
		return "", err
	case "lock": // lock FILE: keep a lock on it as the original's engine does
		var err error
		c.held, err = lockFile(args[0])
		return "", err
	case "send": // send QUEUE TEXT
		return "", c.send(ctx, args[0], args[1])
	case "load": // load QUEUE PRODUCERS CONSUMERS: until killed, naming what is sent, and what is acked before and after
		producers, err := strconv.Atoi(args[1])
		if err != nil {
			return "", err
		}
		consumers, err := strconv.Atoi(args[2])
		if err != nil {
			return "", err
		}
		return "", c.load(ctx, args[0], producers, consumers)
	case "bury": // bury STAGE: kill this process at a stage of a dead-lettering from "work"
		return "", c.bury(ctx, args[0])
	case "migrate": // migrate STATEDIR ID STAGE: kill this process at a stage of a migration
		_, err := Migrate(ctx, MigrateOptions{StateDir: args[0], ID: args[1], Log: quiet, reached: func(s stage) {
			if strings.ReplaceAll(string(s), " ", "_") == args[2] {
				killSelf()
			}
		}})
		return "", err
	}
	return "", fmt.Errorf("unknown command %q", command[0])
}

func killSelf() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

func (c *commands) send(ctx context.Context, id, text string) error {
	q, err := c.owner.Queue(ctx, id)
	if err != nil {
		return err
	}
	return q.Send(ctx, types.Text(text), types.SendOptions{})
}

func (c *commands) load(ctx context.Context, id string, producers, consumers int) error {
	q, err := c.owner.Queue(ctx, id)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for p := range producers {
		go func() {
			for i := 0; ; i++ {
				text := fmt.Sprintf("%d-%d", p, i)
				if err := q.Send(ctx, types.Text(text), types.SendOptions{}); err != nil {
					failed <- err
					return
				}
				// One write a line, so that lines of several workers do not mix.
				if _, err := c.out.Write([]byte("sent " + text + "\n")); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	for range consumers {
		go func() {
			for {
				if err := c.consume(ctx, q); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

// consume acks every second message that it receives.
func (c *commands) consume(ctx context.Context, q interface {
	Receive(context.Context, types.ReceiveOptions) ([]types.Message, error)
	Ack(context.Context, string) error
}) error {
	messages, err := q.Receive(ctx, types.ReceiveOptions{Max: 10, Wait: time.Second, Lease: 12 * time.Hour})
	for i, m := range messages {
		if i%2 == 0 {
			if _, err := c.out.Write([]byte("acking " + m.Payload.Data + "\n")); err != nil {
				return err
			}
			if err := q.Ack(ctx, m.Receipt); err != nil {
				return err
			}
			if _, err := c.out.Write([]byte("acked " + m.Payload.Data + "\n")); err != nil {
				return err
			}
		}
	}
	return err
}

// bury sends a message to "work", receives it as often as it may be, and lets the process be killed
// at a stage of the next receive, which moves it to "dead".
func (c *commands) bury(ctx context.Context, at string) error {
	work, err := c.owner.open(ctx, "test", "work")
	if err != nil {
		return err
	}
	work.deadLetters = killingSink{work.deadLetters, at}
	if err := work.Send(ctx, types.Text("spent"), types.SendOptions{}); err != nil {
		return err
	}
	for range 2 {
		messages, err := work.Receive(ctx, types.ReceiveOptions{})
		if err != nil {
			return err
		}
		for _, m := range messages {
			if err := work.Nack(ctx, m.Receipt, types.NackOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// killingSink kills the process before or after a step of a dead-lettering.
type killingSink struct {
	DeadLetterSink
	at string
}

func (k killingSink) Stage(ctx context.Context, letters []DeadLetter) error {
	k.reach("before_stage")
	err := k.DeadLetterSink.Stage(ctx, letters)
	k.reach("after_stage")
	return err
}

func (k killingSink) Reveal(ctx context.Context, letters []DeadLetter) error {
	k.reach("before_reveal")
	err := k.DeadLetterSink.Reveal(ctx, letters)
	k.reach("after_reveal")
	return err
}

func (k killingSink) reach(at string) {
	if k.at == at {
		killSelf()
	}
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

// send gives a command without waiting for its end.
func (c *child) send(format string, args ...any) {
	c.t.Helper()
	_, err := fmt.Fprintf(c.in, format+"\n", args...)
	require.NoError(c.t, err)
}

// do gives a command and waits for its end.
func (c *child) do(format string, args ...any) {
	c.t.Helper()
	c.send(format, args...)
	line, err := c.out.ReadString('\n')
	if err != nil {
		_ = c.cmd.Wait() // for the rest of the error output
		require.NoError(c.t, err, "the child has ended: %s", c.stderr.String())
	}
	require.True(c.t, strings.HasPrefix(line, "ok"), "the child said %q", line)
}

// dies waits for a child that kills itself.
func (c *child) dies() {
	c.t.Helper()
	rest, err := io.ReadAll(c.out)
	require.NoError(c.t, err)
	require.Empty(c.t, string(rest))
	err = c.cmd.Wait()
	require.ErrorContains(c.t, err, "signal: killed", c.stderr.String())
}
