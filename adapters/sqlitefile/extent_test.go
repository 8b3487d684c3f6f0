package sqlitefile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
)

// A file that loses its end while the store is open takes what is written to a place that cannot be
// read again: no success is reported from then on.
func TestAStoreWhoseFilesAreCutOffNeverReportsSuccess(t *testing.T) {
	t.Parallel()
	for _, owns := range []Ownership{ExclusiveDirectory, ExclusiveFile} {
		for _, suffix := range []string{"-wal", ""} {
			for _, left := range []int64{0, 4096} {
				for _, first := range []string{"write", "health"} {
					o := itemOptions(t.TempDir())
					o.Ownership = owns
					f := open(t, o)
					require.NoError(t, insert(f, "before"))
					require.NoError(t, f.HealthCheck(t.Context()))
					require.NoError(t, os.Truncate(o.Path+suffix, left))
					what := map[string]string{"-wal": "its log was cut off", "": "its file was cut off"}[suffix]
					if first == "health" {
						require.ErrorContains(t, f.HealthCheck(t.Context()), what)
					}
					for range 2 {
						err := insert(f, "after")
						require.ErrorIs(t, err, ports.ErrStoreReplaced)
						require.ErrorContains(t, err, what)
					}
					require.ErrorIs(t, f.HealthCheck(t.Context()), ports.ErrStoreReplaced)
				}
			}
		}
	}
}

// Another program may copy the log and cut it off, or vacuum: nothing is lost then.
func TestAStoreThatAnotherProgramHasMadeShorterGoesOn(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	f := open(t, o)
	for i := range 200 {
		require.NoError(t, insert(f, fmt.Sprint(i)+strings.Repeat("n", 4000)))
	}
	for i, statement := range []string{
		"PRAGMA wal_checkpoint(TRUNCATE)",
		"DELETE FROM item",
		"VACUUM",
		"PRAGMA wal_checkpoint(TRUNCATE)",
		"PRAGMA wal_checkpoint(TRUNCATE)",
	} {
		other, err := dial(o.Path, modeOpen, o.BusyTimeout)
		require.NoError(t, err)
		_, err = other.Exec(statement, nil)
		require.NoError(t, err, statement)
		require.NoError(t, other.Close())
		require.NoError(t, f.HealthCheck(t.Context()), statement)
		require.NoError(t, insert(f, fmt.Sprint(i)))
	}
	require.NoError(t, f.Verify(t.Context()))
	assert.Len(t, names(t, f), 4)
}

// A log that the store itself makes shorter is none that was cut off.
func TestALogThatIsBegunAnewIsWhole(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Durability = DurabilityNormal
	f := open(t, o)
	text := strings.Repeat("n", 1<<20)
	for i := range 80 {
		require.NoError(t, insert(f, fmt.Sprint(i)+text))
		require.NoError(t, f.HealthCheck(t.Context()))
	}
	require.NotZero(t, f.Stats().Checkpoints)
}

// Files that lie beside one store are no place for another.
func TestTheNamesOfTheFilesOfAStoreAreTaken(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Ownership = ExclusiveFile
	f := open(t, o)
	require.NoError(t, insert(f, "one"))
	elsewhere := itemOptions(t.TempDir())
	backed := open(t, elsewhere)
	for _, suffix := range sidecars {
		other := o
		other.Path += suffix
		_, err := Open(t.Context(), other)
		require.ErrorIs(t, err, ports.ErrUnsupported, suffix)
		require.ErrorContains(t, err, o.Path)
		require.ErrorIs(t, backed.Backup(t.Context(), other.Path), ports.ErrInvalidInput, suffix)
		require.NoError(t, f.HealthCheck(t.Context()))
	}
	require.NoError(t, insert(f, "two"))

	// The other way round, the store is no lock file.
	other := itemOptions(t.TempDir())
	require.NoError(t, os.WriteFile(other.Path+".lock", []byte("rows of somebody"), 0o600))
	other.Ownership = ExclusiveFile
	_, err := Open(t.Context(), other)
	require.ErrorIs(t, err, ports.ErrUnsupported)
	require.ErrorContains(t, err, "no lock file")
	require.NoFileExists(t, other.Path)
}

func TestAPathThatTheEngineCannotOpenIsBadConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for len(dir) < maxPathBytes-200 {
		dir = filepath.Join(dir, strings.Repeat("d", 100))
	}
	o := itemOptions(t.TempDir())
	o.Path = filepath.Join(dir, strings.Repeat("f", maxPathBytes-len(dir)-1))
	f := open(t, o)
	require.NoError(t, insert(f, "one"))
	require.NoError(t, f.Close())
	o.Path += "f"
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorContains(t, err, "at most")
}
