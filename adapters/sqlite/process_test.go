package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// childEnv makes the test binary a process that takes steps on the storage at the path that it names,
// until it is killed.
const childEnv = "STOWAGE_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		fmt.Fprintln(os.Stderr, takeSteps(context.Background(), path, os.Stdout))
		os.Exit(1)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

const (
	stepPipelines = 4
	stepDepth     = 20
	stepLetters   = 7 // how many letters stay
)

func stepPipeline(p int) types.PipelineID { return types.PipelineID(fmt.Sprintf("pipeline-%d", p)) }

// step is the nth step of a pipeline. It adds to every category and takes from those that it can.
func step(n int) types.Progress {
	checkpoint := fixture.Checkpoint(n)
	before := uint64(max(0, n-10))
	progress := types.Progress{
		Checkpoint:  &checkpoint,
		Deliveries:  []types.Delivery{fixture.Delivery(n)},
		DeadLetters: []types.DeadLetter{fixture.DeadLetter(n)},
		Hits:        []types.GateHit{{Monitor: "strong", Cursor: fixture.Cursor(n), TS: int64(n), Event: fixture.Event(n)}},
		HitsBefore:  &before,
		Metas:       []types.MonitorMeta{{Monitor: "strong", Meta: stepMeta(n)}},
	}
	if n > stepLetters {
		progress.Settled = []types.MatchID{fixture.MatchID(n - stepLetters)}
	}
	return progress
}

func stepMeta(n int) types.GateMeta {
	ts := int64(n)
	return types.GateMeta{LastEmitTS: &ts, Aux: []byte(strconv.Itoa(n))}
}

// takeSteps goes on where each pipeline is, and names each step that was stored.
func takeSteps(ctx context.Context, path string, out io.Writer) error {
	s, err := Open(ctx, Options{Path: path, JournalDepth: stepDepth, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for p := range stepPipelines {
		go func() {
			checkpoint, _, err := s.LoadCheckpoint(ctx, stepPipeline(p))
			for n := int(checkpoint.Cursor.Primary) + 1; err == nil; n++ {
				if err = s.Apply(ctx, stepPipeline(p), step(n)); err == nil {
					// One write a line, so that lines of several pipelines do not mix.
					_, err = fmt.Fprintf(out, "%d %d\n", p, n)
				}
			}
			failed <- err
		}()
	}
	return errors.Join(<-failed, s.Close())
}

// child is a process that takes steps.
type child struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr strings.Builder
}

// childLimit ends a child that hangs, so that the test fails rather than waits.
const childLimit = 2 * time.Minute

func startChild(t *testing.T, path string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), childLimit)
	t.Cleanup(cancel)
	c := &child{cmd: exec.CommandContext(ctx, os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"="+path)
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewReader(out)
	require.NoError(t, c.cmd.Start())
	return c
}

// note reads one line into the last step of each pipeline. It reports false at the end of the output.
func (c *child) note(t *testing.T, last []int) bool {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if errors.Is(err, io.EOF) {
		return false // of a killed process; half a line was not said
	}
	require.NoError(t, err)
	var p, n int
	_, err = fmt.Sscanf(line, "%d %d\n", &p, &n)
	require.NoError(t, err, "the child said %q: %s", line, c.stderr.String())
	require.Equal(t, last[p]+1, n, "steps of pipeline %d", p)
	last[p] = n
	return true
}

// end kills the child and notes the rest of what it has said.
func (c *child) end(t *testing.T, last []int) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Kill())
	for c.note(t, last) {
	}
	_ = c.cmd.Wait() // reports the kill
	require.Empty(t, c.stderr.String())
}

// killsEnv says how many kills the soak makes; make soak sets it.
const killsEnv = "STOWAGE_KILLS"

// A storage that is killed at any moment has each step whole or not at all, and every step that was
// confirmed.
func TestKilledStorageHasEachStepWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	kills := 25
	if text := os.Getenv(killsEnv); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		require.NoError(t, err, killsEnv)
	}
	path := filepath.Join(t.TempDir(), "storage.sqlite")
	last := make([]int, stepPipelines)
	unsaid, steps := 0, 0
	for range kills {
		c := startChild(t, path)
		for range 1 + rand.IntN(60) {
			if !c.note(t, last) {
				break
			}
		}
		// The kill comes at any moment of a step, not right after one was said.
		moment := time.NewTimer(rand.N(3 * time.Millisecond))
		<-moment.C
		c.end(t, last)

		s := open(t, Options{Path: path, JournalDepth: stepDepth}) // at once: the kill has freed the lock
		steps = 0
		for p := range last {
			n := requireStep(t, s, stepPipeline(p))
			require.GreaterOrEqual(t, n, last[p], "a step of pipeline %d was confirmed and is gone", p)
			require.LessOrEqual(t, n, last[p]+1, "pipeline %d", p)
			unsaid += n - last[p]
			last[p] = n
			steps += n
		}
		requireIndexMatchesFile(t, s)
		require.NoError(t, s.Close())
	}
	s := open(t, Options{Path: path, JournalDepth: stepDepth})
	require.NoError(t, s.Verify(t.Context()))
	t.Logf("%d kills, %d steps, %d of them stored and not confirmed", kills, steps, unsaid)
}

// requireStep finds out how far a pipeline is, and requires that everything else is as far.
func requireStep(t *testing.T, s *Storage, pipeline types.PipelineID) int {
	t.Helper()
	ctx := t.Context()
	checkpoint, found, err := s.LoadCheckpoint(ctx, pipeline)
	require.NoError(t, err)
	n := int(checkpoint.Cursor.Primary)
	var want struct {
		deliveries []types.Delivery
		letters    []types.DeadLetter
		hits       []types.GateHit
	}
	for i := max(1, n-stepDepth); i <= n; i++ {
		want.deliveries = append(want.deliveries, fixture.Delivery(i))
		if i > n-stepLetters {
			want.letters = append(want.letters, fixture.DeadLetter(i))
		}
		if i >= n-10 {
			want.hits = append(want.hits, step(i).Hits...)
		}
	}
	deliveries, err := s.Delivered(ctx, pipeline, types.Cursor{}, fixture.Cursor(1<<40))
	require.NoError(t, err)
	require.Equal(t, want.deliveries, deliveries)
	stored, err := s.ListDeadLetters(ctx, pipeline, types.LetterQuery{Take: 1000})
	require.NoError(t, err)
	var letters []types.DeadLetter
	for _, l := range stored {
		require.NoError(t, l.Err)
		letters = append(letters, l.Letter)
	}
	require.Equal(t, want.letters, letters)
	hits, err := s.Hits(ctx, pipeline, "strong", 0)
	require.NoError(t, err)
	require.Equal(t, want.hits, hits)
	meta, metaFound, err := s.GateMeta(ctx, pipeline, "strong")
	require.NoError(t, err)
	require.Equal(t, found, metaFound)
	if found {
		require.Equal(t, fixture.Checkpoint(n), checkpoint)
		require.Equal(t, stepMeta(n), meta)
	}
	return n
}

func TestASecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "storage.sqlite")
	c := startChild(t, path)
	last := make([]int, stepPipelines)
	require.True(t, c.note(t, last), "the child has the storage open")
	_, err := Open(t.Context(), Options{Path: path, Log: fixture.Logger(t)})
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	require.ErrorIs(t, err, ports.ErrInUse)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, strconv.Itoa(c.cmd.Process.Pid), "the holder is named")
	c.end(t, last)
	require.NoError(t, open(t, Options{Path: path}).Close())
}
