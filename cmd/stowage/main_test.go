package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// noRaceDelay keeps a binary with the race detector from sleeping a second at its end, in case another
// goroutine has still to report: the tests run it hundreds of times.
const noRaceDelay = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stowage": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	quakes, err := filepath.Abs(filepath.FromSlash("../../docs/examples/quickstart/earthquakes.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("QUAKES", quakes)
			env.Setenv("GORACE", noRaceDelay)
			env.Values[daemonKey] = new(*process)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"address":    addressCommand,
			"cut":        cutCommand,
			"daemon":     daemonCommand,
			"distinct":   distinctCommand,
			"eventually": eventuallyCommand,
			"exits":      exitsCommand,
			"lastword":   lastWordCommand,
			"payloads":   payloadsCommand,
			"poke":       pokeCommand,
			"readline":   readLineCommand,
			"receipts":   receiptsCommand,
			"same":       sameCommand,
		},
	})
}

const daemonKey = "daemon"

// process is a daemon that a test runs as a process of its own.
type process struct {
	cmd     *exec.Cmd
	address string
	done    chan struct{}
	err     error // of Wait, once done is closed
}

// startProcess starts "stowage serve" on a free port and returns once it is ready. Its log goes to
// the file log.
func startProcess(dir, log string, env []string, args ...string) (*process, error) {
	path, err := exec.LookPath("stowage")
	if err != nil {
		return nil, err
	}
	stderr, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd := exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	out := bufio.NewReader(stdout)
	first, readErr := out.ReadString('\n')
	go func() {
		defer close(p.done)
		_, copyErr := io.Copy(io.Discard, out)
		p.err = errors.Join(cmd.Wait(), copyErr)
	}()
	if readErr != nil {
		<-p.done
		text, _ := os.ReadFile(log)
		return nil, fmt.Errorf("the daemon did not start: %w\n%s", p.err, text)
	}
	address, ok := strings.CutPrefix(strings.TrimSpace(first), "stowage is ready at ")
	if !ok {
		return nil, errors.Join(fmt.Errorf("the daemon said %q", first), p.end(os.Kill))
	}
	p.address = address
	return p, nil
}

// end sends a signal and waits. The daemon's own error, as of being killed, is in p.err.
func (p *process) end(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(time.Minute):
		return errors.New("the daemon did not end within a minute")
	}
}

// daemonCommand is "daemon start [FLAG...]", "daemon kill" (SIGKILL), or "daemon stop" (SIGTERM, and
// the exit code has to be 0). A start sets STOWAGE_SERVER.
func daemonCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: daemon start [FLAG...] | kill | stop")
	}
	running := ts.Value(daemonKey).(**process)
	switch args[0] {
	case "start":
		env := []string{"GORACE=" + noRaceDelay, "PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TMPDIR=" + ts.Getenv("TMPDIR")}
		for _, name := range []string{envStateDir, envToken, envAdminToken} {
			if value := ts.Getenv(name); value != "" {
				env = append(env, name+"="+value)
			}
		}
		p, err := startProcess(ts.MkAbs("."), ts.MkAbs("daemon.log"), env, args[1:]...)
		ts.Check(err)
		*running = p
		ts.Setenv(envServer, p.address)
		ts.Defer(func() { _ = p.end(os.Kill) })
	case "kill":
		ts.Check((*running).end(syscall.SIGKILL))
	case "stop":
		ts.Check((*running).end(syscall.SIGTERM))
		if err := (*running).err; err != nil {
			ts.Fatalf("the daemon ended with %v\n%s", err, ts.ReadFile("daemon.log"))
		}
	default:
		ts.Fatalf("daemon %s: no such thing", args[0])
	}
}

// distinctCommand is "distinct N MAX REGEXP FILE": the file has N different matches of the expression,
// and MAX altogether at most. After a kill what was being sent may come again, and nothing else may.
func distinctCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: distinct N MAX REGEXP FILE")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	most, err := strconv.Atoi(args[1])
	ts.Check(err)
	expression, err := regexp.Compile(args[2])
	ts.Check(err)
	all := expression.FindAllString(ts.ReadFile(args[3]), -1)
	different := slices.Compact(slices.Sorted(slices.Values(all)))
	if len(different) != want || len(all) > most {
		ts.Fatalf("%s: want %d different matches of %s in %d at most, got %d in %d", args[3], want, args[2], most, len(different), len(all))
	}
}

// exitsCommand is "exits CODE COMMAND [ARG...]": it runs a command of stowage, which has to end with
// the code. Standard output and standard error are for stdout and stderr, as after exec.
func exitsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE ARG...")
	}
	err := ts.Exec("stowage", args[1:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("stowage %s: want exit code %s, got %d\n%s%s", strings.Join(args[1:], " "), args[0], code, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// eventuallyCommand is "eventually stdout REGEXP COMMAND [ARG...]": it runs a command until its standard
// output matches, for a minute at most.
func eventuallyCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || args[0] != "stdout" {
		ts.Fatalf("usage: eventually stdout REGEXP COMMAND ARG...")
	}
	want, err := regexp.Compile(args[1])
	ts.Check(err)
	for until := time.Now().Add(time.Minute); ; {
		err := ts.Exec(args[2], args[3:]...)
		got := ts.ReadFile("stdout")
		if err == nil && want.MatchString(got) {
			return
		}
		if time.Now().After(until) {
			ts.Fatalf("%s: want %s, got %v\n%s", strings.Join(args[2:], " "), args[1], err, got)
		}
	}
}

// payloadsCommand is "payloads IN OUT": it appends the data of the received messages of IN, JSON
// lines, to OUT, one a line.
func payloadsCommand(ts *testscript.TestScript, neg bool, args []string) {
	eachDelivery(ts, neg, args, func(d delivery) []byte { return d.Payload.Data })
}

// receiptsCommand is "receipts IN OUT": it does the same with their receipt handles.
func receiptsCommand(ts *testscript.TestScript, neg bool, args []string) {
	eachDelivery(ts, neg, args, func(d delivery) []byte { return []byte(d.ReceiptHandle) })
}

func eachDelivery(ts *testscript.TestScript, neg bool, args []string, part func(delivery) []byte) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: payloads|receipts IN OUT")
	}
	out, err := os.OpenFile(ts.MkAbs(args[1]), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	ts.Check(err)
	defer out.Close()
	for l := range bytes.Lines([]byte(ts.ReadFile(args[0]))) {
		var d delivery
		ts.Check(json.Unmarshal(l, &d))
		_, err := fmt.Fprintf(out, "%s\n", part(d))
		ts.Check(err)
	}
}

// sameCommand is "same A B": like cmp, for files that are too large to show.
func sameCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same A B")
	}
	if a, b := ts.ReadFile(args[0]), ts.ReadFile(args[1]); (a == b) == neg {
		ts.Fatalf("%s has %d lines, %s %d; same: %v", args[0], strings.Count(a, "\n"), args[1], strings.Count(b, "\n"), a == b)
	}
}

// readLineCommand is "readline FILE N NAME": it sets the variable to line N of the file.
func readLineCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: readline FILE N NAME")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	lines := strings.Split(ts.ReadFile(args[0]), "\n")
	if n < 1 || n > len(lines) {
		ts.Fatalf("%s has %d lines, not %d", args[0], len(lines), n)
	}
	ts.Setenv(args[2], lines[n-1])
}

// lastWordCommand is "lastword FILE NAME": it sets the variable to the last word of the file.
func lastWordCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lastword FILE NAME")
	}
	words := strings.Fields(ts.ReadFile(args[0]))
	if len(words) == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
	ts.Setenv(args[1], words[len(words)-1])
}

// addressCommand is "address NAME": it sets the variable to the host:port of the daemon.
func addressCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: address NAME")
	}
	ts.Setenv(args[0], strings.TrimPrefix(ts.Getenv(envServer), "http://"))
}

// cutCommand is "cut FILE SIZE": it takes away what lies beyond the first bytes.
func cutCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cut FILE SIZE")
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

// pokeCommand is "poke FILE OFFSET N": it puts a number there, in four bytes, the highest first.
func pokeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: poke FILE OFFSET N")
	}
	offset, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	n, err := strconv.ParseUint(args[2], 10, 32)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteAt(binary.BigEndian.AppendUint32(nil, uint32(n)), offset)
	ts.Check(errors.Join(err, f.Close()))
}
