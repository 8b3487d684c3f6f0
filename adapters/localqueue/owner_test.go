package localqueue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// block puts a legacy directory in the way of a queue.
func block(t *testing.T, owner *Owner, id string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(owner.legacy, id), 0o700))
}

func unblock(t *testing.T, owner *Owner, id string) {
	t.Helper()
	require.NoError(t, os.Remove(filepath.Join(owner.legacy, id)))
}

func listOf(t *testing.T, owner *Owner) map[string]error {
	t.Helper()
	infos, err := owner.List(t.Context())
	require.NoError(t, err)
	list := map[string]error{}
	last := ""
	for _, info := range infos {
		require.Less(t, last, info.ID, "ordered by id")
		last = info.ID
		list[info.ID] = info.Err
	}
	return list
}

func TestOwnerKeepsQueuesBelowTheStateDirectory(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "deep", "state")
	owner := openOwner(t, OwnerOptions{StateDir: state, Queues: map[string]QueueOptions{"configured": {MaxReceives: 3, DeadLetterQueue: "graves"}}})
	require.NoError(t, owner.Create(t.Context(), "made"))
	require.ErrorIs(t, owner.Create(t.Context(), "made"), ports.ErrAlreadyExists)
	require.ErrorIs(t, owner.Create(t.Context(), "configured"), ports.ErrAlreadyExists)
	require.Equal(t, map[string]error{"configured": nil, "graves": nil, "made": nil}, listOf(t, owner))
	first, err := owner.Queue(t.Context(), "made")
	require.NoError(t, err)
	second, err := owner.Queue(t.Context(), "made")
	require.NoError(t, err)
	require.Same(t, first, second, "handles are shared")
	for path, mode := range map[string]os.FileMode{
		"":                                   os.ModeDir | 0o700,
		"queue-owned":                        os.ModeDir | 0o700,
		"queue-owned/made":                   os.ModeDir | 0o700,
		"queue-owned/made/localqueue.sqlite": 0o600,
		"queue-credentials":                  os.ModeDir | 0o700,
		"queue-credentials/made":             0o600,
	} {
		info, err := os.Stat(filepath.Join(state, path))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), path)
	}
	_, err = owner.Queue(t.Context(), "other")
	require.ErrorIs(t, err, ports.ErrNotFound)
	require.ErrorIs(t, owner.Delete(t.Context(), "other"), ports.ErrNotFound)
	_, err = owner.Token(t.Context(), "other")
	require.ErrorIs(t, err, ports.ErrNotFound)
	_, err = owner.Rotate(t.Context(), "other", 0)
	require.ErrorIs(t, err, ports.ErrNotFound)
}

func TestOwnerRefusesIdsThatAreNoNames(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	for _, id := range []string{"", ".", "..", "../x", "a/b", ".hidden", "-x", "a\x00b", "a b", string(make([]byte, 129))} {
		require.ErrorIs(t, owner.Create(t.Context(), id), ports.ErrInvalidInput, "%q", id)
		require.ErrorIs(t, owner.Delete(t.Context(), id), ports.ErrInvalidInput, "%q", id)
		_, err := owner.Queue(t.Context(), id)
		require.ErrorIs(t, err, ports.ErrInvalidInput, "%q", id)
		require.ErrorIs(t, owner.Authenticate(t.Context(), id, "x"), ports.ErrAuthenticationFailed, "%q", id)
		_, err = Migrate(t.Context(), MigrateOptions{StateDir: owner.o.StateDir, ID: id})
		require.ErrorIs(t, err, ports.ErrInvalidInput, "%q", id)
	}
	require.Empty(t, listOf(t, owner))
}

func TestQueuesAndTokensSurviveARestart(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "q"))
	send(t, queueOf(t, owner, "q"), "kept")
	token, err := owner.Token(t.Context(), "q")
	require.NoError(t, err)
	require.NoError(t, owner.Close())
	require.NoError(t, owner.Close(), "closing again does nothing")

	owner = openOwner(t, owner.o)
	require.NoError(t, owner.Authenticate(t.Context(), "q", token))
	require.Equal(t, types.Text("kept"), receiveOne(t, queueOf(t, owner, "q"))[0].Payload)
}

func TestLegacyDirectoryBlocksItsQueue(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "both"))
	require.NoError(t, owner.Create(t.Context(), "owned"))
	token, err := owner.Token(t.Context(), "both")
	require.NoError(t, err)
	require.NoError(t, owner.Close())
	block(t, owner, "both")
	block(t, owner, "legacy")

	owner = openOwner(t, owner.o)
	list := listOf(t, owner)
	require.Len(t, list, 3)
	require.NoError(t, list["owned"])
	for _, id := range []string{"both", "legacy"} {
		require.ErrorIs(t, list[id], ports.ErrBindingSetupFailed, id)
		require.ErrorContains(t, list[id], filepath.Join(owner.legacy, id))
		_, err := owner.Queue(t.Context(), id)
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed, id)
		require.ErrorIs(t, owner.Create(t.Context(), id), ports.ErrBindingSetupFailed, id)
		require.ErrorIs(t, owner.Delete(t.Context(), id), ports.ErrBindingSetupFailed, id)
	}
	require.NoError(t, owner.Authenticate(t.Context(), "both", token), "who has the token may be told what blocks the queue")
	require.ErrorIs(t, owner.Authenticate(t.Context(), "both", "wrong"), ports.ErrAuthenticationFailed)
	require.NoDirExists(t, filepath.Join(owner.dir, "legacy"), "nothing is made for a blocked queue")
	block(t, owner, "appears")
	_, err = owner.Queue(t.Context(), "appears")
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)

	unblock(t, owner, "both")
	_, err = owner.Queue(t.Context(), "both")
	require.NoError(t, err, "a queue that was blocked opens without a restart")
	require.NoError(t, listOf(t, owner)["both"])
}

func TestBrokenQueueDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "good"))
	require.NoError(t, owner.Close())
	broken := filepath.Join(owner.dir, "broken")
	require.NoError(t, os.Mkdir(broken, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(broken, databaseName), []byte("this is no database, but it is long enough"), 0o600))
	require.NoError(t, os.Symlink(broken, filepath.Join(owner.dir, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(owner.dir, "note"), []byte("of an operator"), 0o600))

	owner = openOwner(t, owner.o)
	list := listOf(t, owner)
	require.Len(t, list, 3)
	require.NoError(t, list["good"])
	require.ErrorIs(t, list["broken"], ports.ErrBindingSetupFailed)
	require.ErrorIs(t, list["link"], ports.ErrBindingSetupFailed)
	require.ErrorContains(t, list["link"], "symbolic link")
	require.ErrorIs(t, owner.Delete(t.Context(), "broken"), ports.ErrBindingSetupFailed, "what it is, is not known")
	require.ErrorIs(t, owner.Create(t.Context(), "note"), ports.ErrAlreadyExists)
	send(t, queueOf(t, owner, "good"), "works")

	require.NoError(t, os.Remove(filepath.Join(broken, databaseName)))
	send(t, queueOf(t, owner, "broken"), "mended")
}

// Delete waits for the operation that is running, revokes, and removes, in this order (R117).
func TestDeleteWaitsThenRevokesThenRemoves(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "q"))
	old := queueOf(t, owner, "q")
	require.NoError(t, old.enter("test")) // an operation that is running
	deleted := make(chan error, 1)
	go func() { deleted <- owner.Delete(context.WithoutCancel(t.Context()), "q") }()
	<-old.done
	require.ErrorIs(t, old.Send(t.Context(), types.Text("late"), types.SendOptions{}), ports.ErrRevoked)
	select {
	case err := <-deleted:
		require.Fail(t, "the delete did not wait", "%v", err)
	default:
	}
	require.DirExists(t, filepath.Join(owner.dir, "q"))
	old.leave()
	require.NoError(t, <-deleted)
	require.NoDirExists(t, filepath.Join(owner.dir, "q"))
	require.NoFileExists(t, owner.credentials.path("q"))
	require.Empty(t, listOf(t, owner))

	require.NoError(t, owner.Create(t.Context(), "q"))
	require.ErrorIs(t, old.Send(t.Context(), types.Text("late"), types.SendOptions{}), ports.ErrRevoked, "also when there is one of that id again")
	fresh := queueOf(t, owner, "q")
	send(t, fresh, "new")
	require.Equal(t, types.Text("new"), receiveOne(t, fresh)[0].Payload)
}

func TestDeleteAndCloseWakeLongPolls(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Owner) error{
		"delete": func(o *Owner) error { return o.Delete(context.Background(), "q") },
		"close":  (*Owner).Close,
	} {
		deleted := name == "delete"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := fixture.NewClock(fixture.Epoch())
			owner := openOwner(t, OwnerOptions{Clock: clock})
			require.NoError(t, owner.Create(t.Context(), "q"))
			q := queueOf(t, owner, "q")
			errs := make(chan error)
			const polls = 5
			for range polls {
				go func() {
					_, err := q.Receive(context.Background(), types.ReceiveOptions{Wait: ports.MaxWait})
					errs <- err
				}()
			}
			clock.BlockUntilTimers(polls)
			require.NoError(t, end(owner))
			for range polls {
				err := <-errs
				require.ErrorIs(t, err, ports.ErrStoreClosed)
				require.Equal(t, deleted, errors.Is(err, ports.ErrRevoked))
				require.Equal(t, !deleted, ports.IsTransient(err), "a stop of the owner passes, a deletion does not")
			}
			require.Zero(t, clock.Timers())
		})
	}
}

func TestDeleteUnderLoadLosesNoOutcome(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	for range 5 {
		require.NoError(t, owner.Create(t.Context(), "q"))
		q := queueOf(t, owner, "q")
		var workers sync.WaitGroup
		started := make(chan struct{}, 64)
		for range 4 {
			workers.Go(func() {
				for {
					err := q.Send(context.Background(), types.Text("x"), types.SendOptions{})
					if err != nil {
						if !errors.Is(err, ports.ErrRevoked) {
							t.Errorf("want ErrRevoked, got %v", err)
						}
						return
					}
					select {
					case started <- struct{}{}:
					default:
					}
				}
			})
		}
		<-started
		require.NoError(t, owner.Delete(t.Context(), "q"))
		workers.Wait()
	}
	require.Empty(t, listOf(t, owner))
	entries, err := os.ReadDir(owner.dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// A file system that takes no writes concerns every queue, also those that could not be opened on it;
// once it does, they are well without anybody using them.
func TestHealthOfAQueueThatCouldNotBeOpenedForWantOfSpace(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "q"))
	send(t, queueOf(t, owner, "q"), "kept")
	e := owner.entries["q"]
	full := ports.Errorf(ports.CodeBindingSetupFailed, "open", "full").WithReason(ports.ReasonDiskFull)
	require.NoError(t, e.queue.shut(owner.revoked("q")))
	owner.set(e, nil, full)
	dir := filepath.Join(owner.dir, "q")
	require.NoError(t, os.Rename(dir, dir+"-aside"))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	require.Error(t, owner.HealthCheck(t.Context()))

	owner.set(e, nil, full)
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Rename(dir+"-aside", dir))
	require.NoError(t, owner.HealthCheck(t.Context()))
	queue, err := owner.state(e)
	require.NoError(t, err)
	require.NotNil(t, queue)
	stats, err := queue.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), stats.Total)
}

// A queue whose directory was removed under the owner can be deleted and made again without a restart;
// one that was moved away with all others cannot.
func TestDeleteOfAQueueWhoseDirectoryIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner := openOwner(t, OwnerOptions{StateDir: dir})
	for _, id := range []string{"q", "kept"} {
		require.NoError(t, owner.Create(t.Context(), id))
	}
	token, err := owner.Token(t.Context(), "q")
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, ownedName, "q")))
	require.Error(t, owner.HealthCheck(t.Context()))

	require.NoError(t, owner.Delete(t.Context(), "q"))
	require.NoError(t, owner.HealthCheck(t.Context()))
	require.ErrorIs(t, owner.Authenticate(t.Context(), "q", token), ports.ErrAuthenticationFailed)
	require.NoError(t, owner.Create(t.Context(), "q"))
	queue, err := owner.Queue(t.Context(), "q")
	require.NoError(t, err)
	require.NoError(t, queue.Send(t.Context(), types.Text("x"), types.SendOptions{}))

	token, err = owner.Token(t.Context(), "kept")
	require.NoError(t, err)
	owned := filepath.Join(dir, ownedName)
	require.NoError(t, os.Rename(owned, owned+"-moved"))
	require.ErrorIs(t, owner.Delete(t.Context(), "kept"), ports.ErrBindingSetupFailed)
	require.NoError(t, os.Rename(owned+"-moved", owned))
	require.NoError(t, owner.Authenticate(t.Context(), "kept", token))
}

func TestInterruptedDeleteIsFinishedByTheNextStart(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	for _, id := range []string{"gone", "again", "a-b"} {
		require.NoError(t, owner.Create(t.Context(), id))
	}
	require.NoError(t, owner.Close())
	for _, id := range []string{"gone", "again", "a-b"} {
		_, err := owner.moveAside("test", id)
		require.NoError(t, err)
	}
	// A queue of that id was made after the crash of an earlier delete.
	require.NoError(t, os.Mkdir(filepath.Join(owner.dir, "again"), 0o700))

	owner = openOwner(t, owner.o)
	require.Equal(t, map[string]error{"again": nil}, listOf(t, owner))
	entries, err := os.ReadDir(owner.dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoFileExists(t, owner.credentials.path("gone"))
	require.NoFileExists(t, owner.credentials.path("a-b"))
	require.FileExists(t, owner.credentials.path("again"))
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, os.Mkdir(owner.credentials.path("q"), 0o700)) // no token can be put there
	require.ErrorIs(t, owner.Create(t.Context(), "q"), ports.ErrBindingSetupFailed)
	require.NoDirExists(t, filepath.Join(owner.dir, "q"))
	require.Empty(t, listOf(t, owner))
	require.NoError(t, os.Remove(owner.credentials.path("q")))
	require.NoError(t, owner.Create(t.Context(), "q"))
}

func TestRacingCreatesHaveOneWinner(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	errs := make(chan error)
	const racers = 8
	for range racers {
		go func() { errs <- owner.Create(context.Background(), "q") }()
	}
	won := 0
	for range racers {
		if err := <-errs; err == nil {
			won++
		} else {
			require.ErrorIs(t, err, ports.ErrAlreadyExists)
		}
	}
	require.Equal(t, 1, won)
}

func TestClosedOwnerRefusesEverything(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "q"))
	require.NoError(t, owner.HealthCheck(t.Context()))
	require.NoError(t, owner.Close())
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"create":       func() error { return owner.Create(ctx, "x") },
		"queue":        func() error { _, err := owner.Queue(ctx, "q"); return err },
		"list":         func() error { _, err := owner.List(ctx); return err },
		"delete":       func() error { return owner.Delete(ctx, "q") },
		"authenticate": func() error { return owner.Authenticate(ctx, "q", "x") },
		"token":        func() error { _, err := owner.Token(ctx, "q"); return err },
		"rotate":       func() error { _, err := owner.Rotate(ctx, "q", 0); return err },
		"health":       func() error { return owner.HealthCheck(ctx) },
	} {
		require.ErrorIs(t, call(), ports.ErrStoreClosed, name)
	}
}

func TestOwnerHonoursContexts(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "q"))
	ctx := fixture.Cancelled(t)
	require.ErrorIs(t, owner.Create(ctx, "x"), context.Canceled)
	require.ErrorIs(t, owner.Delete(ctx, "q"), context.Canceled)
	_, err := owner.Queue(ctx, "q")
	require.ErrorIs(t, err, context.Canceled)
	_, err = OpenOwner(ctx, OwnerOptions{StateDir: filepath.Join(t.TempDir(), "s")})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, map[string]error{"q": nil}, listOf(t, owner))
}

func TestOwnerRefusesConfigurationsThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, queues := range map[string]map[string]QueueOptions{
		"no dead letters":         {"q": {MaxReceives: 3}},
		"no limit":                {"q": {DeadLetterQueue: "dead"}},
		"negative limit":          {"q": {MaxReceives: -1, DeadLetterQueue: "dead"}},
		"endless limit":           {"q": {MaxReceives: maxMaxReceives + 1, DeadLetterQueue: "dead"}},
		"its own dead letters":    {"q": {MaxReceives: 3, DeadLetterQueue: "q"}},
		"a circle":                {"q": {MaxReceives: 3, DeadLetterQueue: "r"}, "r": {MaxReceives: 4, DeadLetterQueue: "q"}},
		"a limit that is too low": {"q": {MaxReceives: 3, DeadLetterQueue: "r"}, "r": {MaxReceives: 3, DeadLetterQueue: "s"}},
		"a bad id":                {"../q": {}},
		"a bad id of a target":    {"q": {MaxReceives: 3, DeadLetterQueue: "../q"}},
		"a tiny cache":            {"q": {CacheBytes: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := filepath.Join(t.TempDir(), "state")
			_, err := OpenOwner(t.Context(), OwnerOptions{StateDir: state, Queues: queues, Log: fixture.Logger(t)})
			require.ErrorIs(t, err, ports.ErrInvalidConfig)
			require.NoDirExists(t, state, "nothing is touched")
		})
	}
	_, err := OpenOwner(t.Context(), OwnerOptions{})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
}

func TestManyQueuesAreOpenedAtOnce(t *testing.T) {
	t.Parallel()
	queues := map[string]QueueOptions{}
	for i := range 40 {
		queues[fmt.Sprintf("q%02d", i)] = QueueOptions{}
	}
	owner := openOwner(t, OwnerOptions{Queues: queues})
	for id, err := range listOf(t, owner) {
		require.NoError(t, err, id)
	}
	require.Len(t, listOf(t, owner), 40)
}

// cancelling is a clock that ends a context when it is looked at for the nth time.
type cancelling struct {
	ports.Clock
	left   atomic.Int32
	cancel context.CancelFunc
}

func (c *cancelling) Now() time.Time {
	if c.left.Add(-1) == 0 {
		c.cancel()
	}
	return c.Clock.Now()
}

// At whatever moment the caller gives up, the queue is opened for the owner or not at all.
func TestQueueOpenedForACallerWhoGaveUpIsTheOwners(t *testing.T) {
	t.Parallel()
	opened := 0
	for n := range int32(10) {
		state := t.TempDir()
		file := filepath.Join(state, ownedName, "q", databaseName)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte("no database"), 0o600))
		clock := &cancelling{Clock: ports.SystemClock()}
		owner := openOwner(t, OwnerOptions{StateDir: state, Clock: clock})
		require.NoError(t, os.Remove(file))

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		clock.cancel = cancel
		clock.left.Store(n + 1)
		_, err := owner.Queue(ctx, "q")
		clock.left.Store(0)
		if err == nil {
			opened++
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
		q, err := owner.Queue(t.Context(), "q")
		require.NoError(t, err)
		require.NoError(t, q.Send(t.Context(), types.Text("t"), types.SendOptions{}))
	}
	require.NotZero(t, opened)
}

func TestListSaysWhichQueuesNeedAnOperator(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{})
	require.NoError(t, owner.Create(t.Context(), "well"))
	require.NoError(t, owner.Create(t.Context(), "replaced"))
	file := queueOf(t, owner, "replaced").file.Path()
	require.NoError(t, os.Rename(file, file+".moved"))
	list := listOf(t, owner)
	require.NoError(t, list["well"])
	require.ErrorIs(t, list["replaced"], ports.ErrStoreReplaced)
}

func TestQueuesOfAnOwnerCountWhatTheyDo(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{StateDir: t.TempDir()})
	require.NoError(t, owner.Create(t.Context(), "orders"))
	queue, err := owner.Queue(t.Context(), "orders")
	require.NoError(t, err)
	meter, ok := queue.(ports.Meter)
	require.True(t, ok)
	before := meter.Metrics()
	require.NoError(t, queue.Send(t.Context(), types.Text("one"), types.SendOptions{}))
	after := meter.Metrics()
	require.Equal(t, before.Commits+1, after.Commits)
	require.Equal(t, before.Operations+1, after.Operations)
	require.Positive(t, after.WALBytes)
	_, err = queue.Receive(t.Context(), types.ReceiveOptions{Max: 1})
	require.NoError(t, err)
	claimed := meter.Metrics().Commits
	_, err = queue.Receive(t.Context(), types.ReceiveOptions{Max: 1})
	require.NoError(t, err)
	require.Equal(t, claimed, meter.Metrics().Commits, "a receive that finds nothing is no commit")
}
