package sqlitefile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sqlite3 "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
)

func TestVerifyFileRefusesAStoreThatAnotherProcessHasOpen(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"owner", "sharer", "file owner"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			o := itemOptions(t.TempDir())
			cmd, lines := start(t, role, filepath.Dir(o.Path))
			require.True(t, lines.Scan())
			err := VerifyFile(t.Context(), o)
			require.ErrorIs(t, err, ports.ErrInUse)
			require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
			assert.Contains(t, err.Error(), fmt.Sprintf("process %d", cmd.Process.Pid))
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait() // killed
			require.NoError(t, VerifyFile(t.Context(), o), "a lock file that is left behind is no owner")
		})
	}
}

func TestVerifyFileRefusesAStoreThatThisProcessHasOpen(t *testing.T) {
	t.Parallel()
	for _, owns := range []Ownership{ExclusiveDirectory, SharedDirectory, ExclusiveFile} {
		o := itemOptions(t.TempDir())
		o.Ownership = owns
		f := open(t, o)
		require.NoError(t, insert(f, "one"))
		o.Ownership = ExclusiveDirectory // it does not count
		err := VerifyFile(t.Context(), o)
		require.ErrorIs(t, err, ports.ErrInUse)
		assert.Contains(t, err.Error(), o.Path)
		require.NoError(t, insert(f, "two"), "the one who has it notices nothing")
		require.NoError(t, f.Close())
		before := tree(t, filepath.Dir(o.Path))
		require.NoError(t, VerifyFile(t.Context(), o))
		assert.Equal(t, before, tree(t, filepath.Dir(o.Path)))
	}
}

func TestVerifyFileMakesNoLockFile(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Ownership = ExclusiveFile
	require.NoError(t, open(t, o).Close())
	require.NoError(t, os.Remove(lockFile(o.Path)))
	require.NoError(t, VerifyFile(t.Context(), o))
	assert.NoFileExists(t, lockFile(o.Path))
}

// Without a lock file nothing keeps an owner by lock file out; what is its own is left alone.
func TestVerifyFileTakesNothingFromAnOwnerWhoComesMeanwhile(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Ownership = ExclusiveFile
	require.NoError(t, open(t, o).Close())
	require.NoError(t, os.Remove(lockFile(o.Path)))
	looker, err := newFile(o)
	require.NoError(t, err)
	release, err := looker.claim()
	require.NoError(t, err)
	var owner *File
	require.NoError(t, looker.inspect(func(*File, *sqlite3.SQLiteConn) error {
		owner = open(t, o)
		return nil
	}, true))
	require.NoError(t, release())
	assert.FileExists(t, o.Path+"-wal")
	assert.FileExists(t, o.Path+"-shm")
	require.NoError(t, owner.HealthCheck(t.Context()))
	require.NoError(t, insert(owner, "one"))
	require.NoError(t, owner.Close())
	assert.Equal(t, []string{"one"}, names(t, open(t, o)))
}

// While a store is checked nobody opens it, whichever way.
func TestAStoreThatIsCheckedCannotBeOpened(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Ownership = ExclusiveFile
	require.NoError(t, open(t, o).Close())
	looker, err := newFile(o)
	require.NoError(t, err)
	release, err := looker.claim()
	require.NoError(t, err)
	for _, o.Ownership = range []Ownership{ExclusiveDirectory, ExclusiveFile} {
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, ports.ErrInUse)
	}
	require.NoError(t, release())
	require.NoError(t, open(t, o).Close())
}

func TestVerifyFileTakesEveryVersionThatHasSteps(t *testing.T) {
	t.Parallel()
	steps := []string{"CREATE TABLE a (x)", "CREATE TABLE b (x)", "CREATE TABLE c (x)"}
	for version := range len(steps) + 2 {
		o := itemOptions(t.TempDir())
		raw(t, o.Path, "PRAGMA journal_mode = WAL", fmt.Sprint("PRAGMA user_version = ", version))
		if version > 0 {
			raw(t, o.Path, steps[:min(version, len(steps))]...)
		}
		o.Schema = Versioned(steps...)
		before := tree(t, filepath.Dir(o.Path))
		err := VerifyFile(t.Context(), o)
		if version == 0 || version > len(steps) {
			require.ErrorIs(t, err, ports.ErrUnsupported, version)
		} else {
			require.NoError(t, err, version)
		}
		assert.Equal(t, before, tree(t, filepath.Dir(o.Path)), "an older file is not migrated")
	}
}

func TestVerifyFileFindsWhatHasLostItsStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content string
		want    error
	}{
		"no bytes":       {"", ports.ErrUnsupported},
		"a few":          {strings.Repeat("SQLite", 20), ports.ErrCorrupt},
		"not a database": {strings.Repeat("SQLite", 2000), ports.ErrCorrupt},
	} {
		for _, schema := range []Schema{itemSchema, Versioned("CREATE TABLE a (x)")} {
			o := itemOptions(t.TempDir())
			o.Schema = schema
			require.NoError(t, os.WriteFile(o.Path, []byte(c.content), 0o600))
			before := tree(t, filepath.Dir(o.Path))
			require.ErrorIs(t, VerifyFile(t.Context(), o), c.want, name)
			assert.Equal(t, before, tree(t, filepath.Dir(o.Path)))
		}
	}
}

func TestBackupKeepsOffThePlacesOfOtherStores(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	require.NoError(t, insert(f, "one"))
	for _, suffix := range []string{"-wal", "-journal"} {
		target := filepath.Join(t.TempDir(), "copy")
		require.NoError(t, os.WriteFile(target+suffix, []byte("rows"), 0o600))
		require.ErrorIs(t, f.Backup(t.Context(), target), ports.ErrAlreadyExists)
		assert.Len(t, tree(t, filepath.Dir(target)), 1)
	}

	// An owner holds its lock file before there is a database.
	o := itemOptions(t.TempDir())
	o.Ownership = ExclusiveFile
	looker, err := newFile(o)
	require.NoError(t, err)
	lock, err := looker.own()
	require.NoError(t, err)
	err = f.Backup(t.Context(), o.Path)
	require.ErrorIs(t, err, ports.ErrInUse)
	assert.Contains(t, err.Error(), lockFile(o.Path))
	assert.NoFileExists(t, o.Path)
	require.NoError(t, lock.release())
	require.NoError(t, f.Backup(t.Context(), o.Path), "a lock file that nobody holds is no owner")
	assert.Equal(t, []string{"one"}, names(t, open(t, o)))
}
