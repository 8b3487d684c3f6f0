package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// childStop is how long a receiver may take to end before it is killed.
const childStop = receiverStop + 5*time.Second

// receiverChild is a receiver in a process of its own, which can be stopped and started again. It ends
// with this process, whatever ends this one.
type receiverChild struct {
	listen     string // where it listens; once it has chosen a port, that one
	secretFile string
	log        io.Writer          // takes what it gets, as JSON lines
	took       func(receivedItem) // told of each request

	turn    sync.Mutex // of whoever starts it
	mu      sync.Mutex // of listen and running
	running *runningChild
}

type runningChild struct {
	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{} // closed when it has ended, and all it said was read
}

// start starts the receiver, unless it runs, and returns once it takes requests.
func (c *receiverChild) start() error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.pid() != 0 {
		return nil
	}
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	cmd := exec.Command(path, "receiver", "--listen", c.address(), "--secret-file", c.secretFile, "--with-parent", "-o", formatJSONL) //nolint:gosec,noctx // this very program, which is stopped behind the context of the run
	cmd.Args[0] = os.Args[0]
	// In a group of its own, so that a Ctrl-C on the terminal does not end it before the daemon has
	// delivered what is under way.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	said := bufio.NewReader(stderr)
	first, readErr := said.ReadString('\n')
	address, ready := strings.CutPrefix(strings.TrimSpace(first), receiverReady+"http://")
	child := &runningChild{cmd, stdin, make(chan struct{})}
	c.mu.Lock()
	c.running = child
	if ready {
		c.listen = address
	}
	c.mu.Unlock()
	go c.follow(child, stdout, said)
	if !ready {
		err := errors.Join(readErr, stdin.Close())
		<-child.done
		return childFailure(cmd, first, err)
	}
	return nil
}

// childFailure is the error of a receiver that has ended instead of saying where it is.
func childFailure(cmd *exec.Cmd, said string, err error) error {
	reason, found := strings.CutPrefix(strings.TrimSpace(said), "error: ")
	code := cmd.ProcessState.ExitCode()
	if !found || code <= 0 {
		return exitf(exitFailed, "the receiver did not start: it said %q and ended with %v (%w)", said, cmd.ProcessState, err)
	}
	reason = strings.ReplaceAll(reason, "--listen", "--receiver-listen")
	if code == exitUnavailable {
		reason += ", or make run ARGS='--receiver-listen HOST:PORT'"
	}
	return exitf(code, "the receiver did not start: %s", reason)
}

// follow passes on what a receiver says until it ends.
func (c *receiverChild) follow(child *runningChild, stdout, stderr io.Reader) {
	var errs sync.WaitGroup
	errs.Go(func() { _, _ = io.Copy(c.log, stderr) })
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		_, _ = fmt.Fprintf(c.log, "%s\n", lines.Bytes())
		var item receivedItem
		if json.Unmarshal(lines.Bytes(), &item) == nil {
			c.took(item)
		}
	}
	_, _ = io.Copy(io.Discard, stdout) // behind a line that is too long
	errs.Wait()
	_ = child.cmd.Wait() // how it ended is its own affair: whoever stops it may kill it
	_ = child.stdin.Close()
	c.mu.Lock()
	if c.running == child {
		c.running = nil
	}
	c.mu.Unlock()
	close(child.done)
}

// stop ends the receiver, if it runs, and waits for that.
func (c *receiverChild) stop() error {
	c.mu.Lock()
	child := c.running
	c.mu.Unlock()
	if child == nil {
		return nil
	}
	if err := child.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the receiver: %w", err)
	}
	select {
	case <-child.done:
		return nil
	case <-time.After(childStop):
	}
	err := child.cmd.Process.Kill()
	<-child.done
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the receiver: %w", err)
	}
	return nil
}

// pid is the process of the receiver, 0 where none runs.
func (c *receiverChild) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return 0
	}
	return c.running.cmd.Process.Pid
}

// address is the host and port of the receiver, as of its last start.
func (c *receiverChild) address() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listen
}
