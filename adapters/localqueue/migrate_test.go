package localqueue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// legacyQueue is a state directory with a queue in the layout of older clients: the one that Turso
// wrote and whose writer was killed, with its rows still in the log.
func legacyQueue(t *testing.T) (state, dir string) {
	t.Helper()
	state = t.TempDir()
	dir = filepath.Join(state, "queue", "orders")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{databaseName, databaseName + "-wal"} {
		copyFile(t, filepath.Join("testdata/turso/queue-crash", name), filepath.Join(dir, name))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, databaseName+"-shm"), []byte("shared memory"), 0o600))
	return state, dir
}

// contents maps the files of a tree to the hashes of what is in them.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || !d.Type().IsRegular() {
			list[name] = d.Type().String()
			return err
		}
		content, err := os.ReadFile(path)
		sum := sha256.Sum256(content)
		list[name] = hex.EncodeToString(sum[:])
		return err
	})
	require.NoError(t, err)
	return list
}

func migrate(t *testing.T, o MigrateOptions) (Plan, error) {
	t.Helper()
	o.ID = "orders"
	o.Log = fixture.Logger(t)
	return Migrate(t.Context(), o)
}

func TestMigrateMovesEveryFileAndRewritesNone(t *testing.T) {
	t.Parallel()
	state, legacy := legacyQueue(t)
	before := contents(t, legacy)
	plan, err := migrate(t, MigrateOptions{StateDir: state})
	require.NoError(t, err)
	owned := filepath.Join(state, "queue-owned", "orders")
	require.NoDirExists(t, legacy)
	require.Equal(t, before, contents(t, owned))
	require.Equal(t, before, contents(t, plan.Backup))
	require.Len(t, plan.Files, 3)
	for _, f := range plan.Files {
		require.Equal(t, before[f.Name], f.SHA256)
	}
	backups, err := os.ReadDir(filepath.Dir(plan.Backup))
	require.NoError(t, err)
	require.Len(t, backups, 1)

	again, err := migrate(t, MigrateOptions{StateDir: state})
	require.NoError(t, err, "it may be run again")
	require.True(t, again.AlreadyDone)
	require.Empty(t, again.Steps)

	// The owner opens what was moved, with a token of its own (R155).
	owner := openOwner(t, OwnerOptions{StateDir: state})
	stats, err := queueOf(t, owner, "orders").Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 13, stats.Total)
	_, err = owner.Token(t.Context(), "orders")
	require.NoError(t, err)
}

func TestMigrateBackAndForth(t *testing.T) {
	t.Parallel()
	state, legacy := legacyQueue(t)
	before := contents(t, legacy)
	backup := filepath.Join(t.TempDir(), "backup")
	_, err := migrate(t, MigrateOptions{StateDir: state, BackupDir: backup})
	require.NoError(t, err)
	require.Equal(t, before, contents(t, backup))
	require.NoDirExists(t, filepath.Join(state, backupsName))
	plan, err := migrate(t, MigrateOptions{StateDir: state, Reverse: true})
	require.NoError(t, err)
	require.True(t, plan.Reverse)
	require.Equal(t, before, contents(t, legacy))
	require.NoDirExists(t, filepath.Join(state, "queue-owned", "orders"))
	plan, err = migrate(t, MigrateOptions{StateDir: state, Reverse: true})
	require.NoError(t, err)
	require.True(t, plan.AlreadyDone)
}

func TestMigrateDryRunGivesThePlanAndTouchesNothing(t *testing.T) {
	t.Parallel()
	state, _ := legacyQueue(t)
	before := contents(t, state)
	plan, err := migrate(t, MigrateOptions{StateDir: state, DryRun: true, BackupDir: filepath.Join(state, "b")})
	require.NoError(t, err)
	require.Equal(t, before, contents(t, state))
	text, err := json.MarshalIndent(plan, "", "  ")
	require.NoError(t, err)
	golden := strings.ReplaceAll(string(text), state, "STATE")
	want, err := os.ReadFile("testdata/plan.json")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(want)), golden)
}

func TestMigrateRefusesWhatIsHeld(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(t *testing.T, c *child, state, dir string){
		"an owner of the state directory": func(t *testing.T, c *child, state, dir string) {
			c.do("own %s", state)
		},
		"a process with a file open": func(t *testing.T, c *child, state, dir string) {
			c.do("hold %s", filepath.Join(dir, databaseName+"-wal"))
		},
		"a process in the directory": func(t *testing.T, c *child, state, dir string) {
			c.do("hold %s", dir)
		},
		"a client's lock": func(t *testing.T, c *child, state, dir string) {
			c.do("lock %s", filepath.Join(dir, databaseName))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, dir := legacyQueue(t)
			c := startChild(t)
			hold(t, c, state, dir)
			before := contents(t, state)
			for _, dry := range []bool{true, false} {
				_, err := migrate(t, MigrateOptions{StateDir: state, DryRun: dry})
				require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
				require.ErrorIs(t, err, ports.ErrInUse)
				require.ErrorContains(t, err, "process ")
				require.Equal(t, before, contents(t, state))
			}
		})
	}
}

// Whoever holds a lock is found without /proc too.
func TestMigrateSeesLocksOnFiles(t *testing.T) {
	t.Parallel()
	state, dir := legacyQueue(t)
	c := startChild(t)
	c.do("lock %s", filepath.Join(dir, databaseName))
	m, err := newMigration("test", MigrateOptions{StateDir: state, ID: "orders"})
	require.NoError(t, err)
	require.ErrorIs(t, m.survey(), ports.ErrInUse)
}

func TestMigrateRefusesAQueueThatThisProcessHasOpen(t *testing.T) {
	t.Parallel()
	state, dir := legacyQueue(t)
	q := openQueue(t, Options{Dir: dir})
	_, err := migrate(t, MigrateOptions{StateDir: state})
	require.ErrorIs(t, err, ports.ErrInUse)
	send(t, q, "goes on")
}

func TestMigrateRefusesWhatItCannotDoWhole(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plant func(t *testing.T, state, dir string) MigrateOptions
		want  error
	}{
		"a queue in neither place": {func(t *testing.T, state, dir string) MigrateOptions {
			require.NoError(t, os.RemoveAll(dir))
			return MigrateOptions{}
		}, ports.ErrNotFound},
		"a state directory that is not there": {func(t *testing.T, state, dir string) MigrateOptions {
			return MigrateOptions{StateDir: filepath.Join(state, "elsewhere")}
		}, ports.ErrNotFound},
		"a destination that exists": {func(t *testing.T, state, dir string) MigrateOptions {
			require.NoError(t, os.MkdirAll(filepath.Join(state, ownedName, "orders"), 0o700))
			return MigrateOptions{}
		}, ports.ErrAlreadyExists},
		"a backup that exists": {func(t *testing.T, state, dir string) MigrateOptions {
			return MigrateOptions{BackupDir: t.TempDir()}
		}, ports.ErrAlreadyExists},
		"a backup inside the queue": {func(t *testing.T, state, dir string) MigrateOptions {
			return MigrateOptions{BackupDir: filepath.Join(dir, "backup")}
		}, ports.ErrInvalidInput},
		"a backup without a parent": {func(t *testing.T, state, dir string) MigrateOptions {
			return MigrateOptions{BackupDir: filepath.Join(state, "no", "where")}
		}, ports.ErrBindingSetupFailed},
		"a link in the queue": {func(t *testing.T, state, dir string) MigrateOptions {
			require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
			return MigrateOptions{}
		}, ports.ErrBindingSetupFailed},
		"a pipe in the queue": {func(t *testing.T, state, dir string) MigrateOptions {
			require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
			return MigrateOptions{}
		}, ports.ErrBindingSetupFailed},
		"a link in its place": {func(t *testing.T, state, dir string) MigrateOptions {
			require.NoError(t, os.Rename(dir, dir+"-moved"))
			require.NoError(t, os.Symlink(dir+"-moved", dir))
			return MigrateOptions{}
		}, ports.ErrBindingSetupFailed},
		"no state directory": {func(t *testing.T, state, dir string) MigrateOptions {
			return MigrateOptions{StateDir: "-"}
		}, ports.ErrInvalidInput},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, dir := legacyQueue(t)
			o := test.plant(t, state, dir)
			switch o.StateDir {
			case "":
				o.StateDir = state
			case "-":
				o.StateDir = ""
			}
			before := contents(t, state)
			_, err := migrate(t, o)
			require.ErrorIs(t, err, test.want)
			require.Equal(t, before, contents(t, state))
		})
	}
}

func TestMigrateRefusesToCrossFileSystems(t *testing.T) {
	t.Parallel()
	other, err := os.MkdirTemp("/dev/shm", "stowage-") //nolint:usetesting // it has to be on another file system
	if err != nil {
		t.Skipf("there is no second file system to cross to: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(other)) })
	state, dir := legacyQueue(t)
	if here, err := fileIDOf(state, true); err != nil || sameDevice(t, other, here) {
		t.Skip("there is no second file system to cross to: /dev/shm is on that of the test's directory")
	}
	require.NoError(t, os.Symlink(other, filepath.Join(state, ownedName)))
	before := contents(t, dir)
	for _, dry := range []bool{true, false} {
		_, err := migrate(t, MigrateOptions{StateDir: state, DryRun: dry})
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
		require.ErrorContains(t, err, "different file systems")
		require.Equal(t, before, contents(t, dir))
	}
}

func sameDevice(t *testing.T, path string, id fileID) bool {
	t.Helper()
	other, err := fileIDOf(path, true)
	require.NoError(t, err)
	return other.device == id.device
}

// A kill at any stage leaves the queue whole in one of the two places, and running it again finishes.
func TestKilledMigrationIsFinishedByRunningItAgain(t *testing.T) {
	t.Parallel()
	for _, at := range []stage{stageBackupHalf, stageBackupFull, stageBackedUp, stageMoved} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			state, legacy := legacyQueue(t)
			before := contents(t, legacy)
			owned := filepath.Join(state, ownedName, "orders")
			c := startChild(t)
			c.send("migrate %s orders %s", state, strings.ReplaceAll(string(at), " ", "_"))
			c.dies()
			if at == stageMoved {
				require.NoDirExists(t, legacy)
				require.Equal(t, before, contents(t, owned))
			} else {
				require.NoDirExists(t, owned)
				require.Equal(t, before, contents(t, legacy))
			}

			_, err := migrate(t, MigrateOptions{StateDir: state})
			require.NoError(t, err)
			require.Equal(t, before, contents(t, owned))
			require.NoDirExists(t, legacy)
			backups, err := os.ReadDir(filepath.Join(state, backupsName))
			require.NoError(t, err)
			require.NotEmpty(t, backups)
			for _, b := range backups {
				require.Equal(t, before, contents(t, filepath.Join(state, backupsName, b.Name())), "every backup that has a name is whole")
			}
		})
	}
}

func TestMigrateStopsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	state, _ := legacyQueue(t)
	before := contents(t, state)
	_, err := Migrate(fixture.Cancelled(t), MigrateOptions{StateDir: state, ID: "orders"})
	require.ErrorContains(t, err, "canceled")
	require.Equal(t, before, contents(t, state))
}

// A queue that was in use goes back to the older layout and forth again with all that it holds.
func TestMigrateKeepsAQueueThatTheOwnerUsed(t *testing.T) {
	t.Parallel()
	owner := openOwner(t, OwnerOptions{Queues: map[string]QueueOptions{"orders": {}}})
	send(t, queueOf(t, owner, "orders"), "one", "two")
	_, err := migrate(t, MigrateOptions{StateDir: owner.o.StateDir, Reverse: true})
	require.ErrorIs(t, err, ports.ErrInUse)
	require.NoError(t, owner.Close())
	for _, reverse := range []bool{true, false} {
		_, err := migrate(t, MigrateOptions{StateDir: owner.o.StateDir, Reverse: reverse})
		require.NoError(t, err)
	}
	owner = openOwner(t, owner.o)
	require.Equal(t, types.Text("one"), receiveOne(t, queueOf(t, owner, "orders"))[0].Payload)
}

func TestMigrationsOfOneIDBackUpBesideEachOther(t *testing.T) {
	t.Parallel()
	backups := t.TempDir()
	first, from := legacyQueue(t)
	want := contents(t, from)
	second, _ := legacyQueue(t)
	ran := false
	_, err := migrate(t, MigrateOptions{StateDir: first, BackupDir: filepath.Join(backups, "first"), reached: func(at stage) {
		if at != stageBackupHalf || ran {
			return
		}
		ran = true
		_, err := migrate(t, MigrateOptions{StateDir: second, BackupDir: filepath.Join(backups, "second")})
		require.NoError(t, err)
	}})
	require.NoError(t, err)
	require.True(t, ran)
	for _, name := range []string{"first", "second"} {
		require.Equal(t, want, contents(t, filepath.Join(backups, name)))
	}
	entries, err := os.ReadDir(backups)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
