package localqueue

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func openOwner(t *testing.T, o OwnerOptions) *Owner {
	t.Helper()
	if o.StateDir == "" {
		o.StateDir = t.TempDir()
	}
	if o.Log == nil {
		o.Log = fixture.Logger(t)
	}
	owner, err := OpenOwner(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, owner.Close()) })
	return owner
}

func queueOf(t *testing.T, owner *Owner, id string) *Queue {
	t.Helper()
	q, err := owner.open(t.Context(), "test", id)
	require.NoError(t, err)
	return q
}

// Every send that returned is there after the owner was killed under load, in order and once; what
// was acked does not come back.
func TestKilledOwnerLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	const enough = 400 // lines until the kill
	state := t.TempDir()
	want := map[string]string{} // what the child said of each message last
	owner := startChild(t)
	owner.do("own %s", state)
	owner.send("load quakes 4 2")
	for range enough {
		note(t, owner, want)
	}
	require.NoError(t, owner.cmd.Process.Kill())
	for note(t, owner, want) {
	}

	q := queueOf(t, openOwner(t, OwnerOptions{StateDir: state}), "quakes")
	requireIndexMatchesFile(t, q)
	stored := map[string]int{}
	for {
		peeked, err := q.Peek(t.Context(), types.PeekOptions{})
		require.NoError(t, err)
		if len(peeked) == 0 {
			break
		}
		for _, p := range peeked {
			stored[p.Payload.Data]++
			require.NoError(t, q.stepOne(t.Context(), "test", func(s *step) error {
				_, err := s.Exec(sqlRemove, p.ID)
				s.forgetRow(p.ID)
				return err
			}))
		}
	}
	for text, last := range want {
		switch last {
		case "sent":
			require.Equal(t, 1, stored[text], "%s was sent", text)
		case "acked":
			require.Zero(t, stored[text], "%s was acked", text)
		}
	}
	for text, n := range stored {
		require.Equal(t, 1, n, text)
	}
}

// note reads one line of a child under load, and reports false at the end of its output. That a message
// was sent may be told after that it was received.
func note(t *testing.T, c *child, last map[string]string) bool {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err == io.EOF {
		return false
	}
	require.NoError(t, err)
	what, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	if last[text] == "" || what != "sent" {
		last[text] = what
	}
	return true
}

// A kill at any step of a dead-lettering leaves the message in one place, and it ends up with the
// dead letters.
func TestKillDuringDeadLetteringNeitherLosesNorDoubles(t *testing.T) {
	t.Parallel()
	for at, moved := range map[string]bool{"before_stage": false, "after_stage": false, "before_reveal": true, "after_reveal": true} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			c := startChild(t)
			c.do("own %s", state)
			c.send("bury %s", at)
			c.dies()

			owner := openOwner(t, OwnerOptions{StateDir: state, Queues: map[string]QueueOptions{"work": {MaxReceives: 1, DeadLetterQueue: "dead"}}})
			work, dead := queueOf(t, owner, "work"), queueOf(t, owner, "dead")
			total := map[bool][2]int64{false: {1, 0}, true: {0, 1}}[moved]
			require.Equal(t, total, totals(t, work, dead))
			requireIndexMatchesFile(t, work)
			requireIndexMatchesFile(t, dead)

			none, err := work.Receive(t.Context(), types.ReceiveOptions{})
			require.NoError(t, err)
			require.Empty(t, none)
			require.Equal(t, [2]int64{0, 1}, totals(t, work, dead))
			messages, err := dead.Receive(t.Context(), types.ReceiveOptions{Max: 10})
			require.NoError(t, err)
			require.Len(t, messages, 1)
			require.Equal(t, types.Text("spent"), messages[0].Payload)
			require.EqualValues(t, 2, messages[0].Attempt, "the count goes on")
		})
	}
}

func totals(t *testing.T, queues ...*Queue) (list [2]int64) {
	t.Helper()
	for i, q := range queues {
		stats, err := q.Stats(t.Context())
		require.NoError(t, err)
		list[i] = stats.Total
	}
	return list
}

func TestSecondOwnerFailsAtOnceAndNamesTheFirst(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	first := startChild(t)
	first.do("own %s", state)
	_, err := OpenOwner(t.Context(), OwnerOptions{StateDir: state, Log: fixture.Logger(t)})
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	require.ErrorIs(t, err, ports.ErrInUse)
	require.ErrorContains(t, err, state)
	require.ErrorContains(t, err, fmt.Sprintf("process %d", first.cmd.Process.Pid))

	_, err = Migrate(t.Context(), MigrateOptions{StateDir: state, ID: "work", Reverse: true, Log: fixture.Logger(t)})
	require.ErrorIs(t, err, ports.ErrInUse)

	require.NoError(t, first.cmd.Process.Kill())
	_, err = io.ReadAll(first.out)
	require.NoError(t, err)
	_ = first.cmd.Wait()
	queueOf(t, openOwner(t, OwnerOptions{StateDir: state}), "work") // a kill frees the lock
}

func TestSecondOwnerInTheSameProcessFails(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	_, err := OpenOwner(t.Context(), OwnerOptions{StateDir: owner.o.StateDir, Log: fixture.Logger(t)})
	require.ErrorIs(t, err, ports.ErrInUse)
	require.NoError(t, owner.Create(t.Context(), "q"))
	_, err = Open(t.Context(), Options{Dir: owner.dir + "/q", Log: fixture.Logger(t)})
	require.ErrorIs(t, err, ports.ErrInUse)
}
