package sqlitefile

import (
	"database/sql/driver"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
)

// migrationSteps make, change and fill: what is left of half of one could not be missed.
func migrationSteps() []string {
	return []string{
		"CREATE TABLE a (x INTEGER PRIMARY KEY, y TEXT); INSERT INTO a VALUES (1, 'one'), (2, 'two')",
		"CREATE TABLE b (x INTEGER PRIMARY KEY); INSERT INTO b SELECT x FROM a; UPDATE a SET y = y || '!'",
		"CREATE INDEX a_y ON a (y); ALTER TABLE a ADD COLUMN z DEFAULT 0; DELETE FROM b WHERE x = 1",
		"DROP TABLE b; CREATE TABLE c (x); INSERT INTO c VALUES (zeroblob(100000)); UPDATE a SET z = x",
	}
}

func migrationOptions(dir string) Options {
	o := itemOptions(dir)
	o.Ownership = ExclusiveFile
	o.CacheBytes = 64 << 10 // so that a large step reaches the log before it is committed
	return o
}

// endlessStep changes more than the cache holds, and then does not come to its end.
const endlessStep = `CREATE TABLE endless (x);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO endless SELECT zeroblob(1000) FROM n;
UPDATE a SET y = 'lost';
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`

// contents is everything that a database says: its version, its objects and its rows.
func contents(t *testing.T, path string) (list []string) {
	t.Helper()
	db, err := dial(path, modeOpen, defaultBusyTimeout)
	require.NoError(t, err)
	c := &Conn{file: &File{path: path, medium: disk{}}, db: db, stmts: map[string]driver.Stmt{}}
	query := func(query string) (rows []Row) {
		require.NoError(t, c.Query(query, func(r Row) error { rows = append(rows, append(Row{}, r...)); return nil }))
		return rows
	}
	list = append(list, fmt.Sprint("version ", query("PRAGMA user_version")))
	for _, object := range query("SELECT type, name, sql FROM sqlite_schema ORDER BY name") {
		list = append(list, fmt.Sprint(object))
		if object.Text(0) == "table" {
			list = append(list, fmt.Sprint(query("SELECT * FROM "+object.Text(1)))) //nolint:unqueryvet // whatever the columns are
		}
	}
	require.NoError(t, c.close())
	return list
}

// atVersion makes a store that has taken so many steps.
func atVersion(t *testing.T, o Options, version int) {
	t.Helper()
	if version == 0 {
		return
	}
	o.Schema = Versioned(migrationSteps()[:version]...)
	require.NoError(t, open(t, o).Close())
	// Rows of its own, which the steps have to carry along.
	raw(t, o.Path, "INSERT INTO a (x, y) VALUES (7, 'own')")
}

// R246 to R248, R251, R252: from every version, with a fault at the end of every pending step.
func TestAMigrationThatFailsLeavesTheStoreAsItWas(t *testing.T) {
	t.Parallel()
	steps := migrationSteps()
	for from := range len(steps) + 1 {
		for fault := from; fault < len(steps); fault++ {
			t.Run(fmt.Sprintf("from %d, step %d", from, fault+1), func(t *testing.T) {
				t.Parallel()
				o := migrationOptions(t.TempDir())
				atVersion(t, o, from)
				faulty := migrationSteps()
				faulty[fault] += "; INSERT INTO a VALUES ('no integer', 'fails', 0, 0, 0)"
				o.Schema = Versioned(faulty...)
				before := tree(t, filepath.Dir(o.Path))
				for range 2 {
					_, err := Open(t.Context(), o)
					require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
					assert.Contains(t, err.Error(), o.Path)
					assert.Equal(t, before, tree(t, filepath.Dir(o.Path)), "not a byte of the failed steps")
				}
				o.Schema = Versioned(steps...)
				require.NoError(t, open(t, o).Close())
				assert.Equal(t, migrated(t, from), contents(t, o.Path), "the next attempt takes all of them")
			})
		}
	}
}

// migrated is what a store holds after all steps, taken one open at a time.
func migrated(t *testing.T, from int) []string {
	t.Helper()
	o := migrationOptions(t.TempDir())
	atVersion(t, o, from)
	for version := max(from, 1); version <= len(migrationSteps()); version++ {
		o.Schema = Versioned(migrationSteps()[:version]...)
		require.NoError(t, open(t, o).Close())
	}
	return contents(t, o.Path)
}

func TestAKillDuringAMigrationLeavesTheStoreAsItWas(t *testing.T) {
	t.Parallel()
	for from := range len(migrationSteps()) + 1 {
		t.Run(strconv.Itoa(from), func(t *testing.T) {
			t.Parallel()
			o := migrationOptions(t.TempDir())
			atVersion(t, o, from)
			log, before := o.Path+"-wal", []string(nil)
			if from == 0 {
				// A new store is made under another name until it is whole.
				log = filepath.Join(filepath.Dir(o.Path), ".item.sqlite.new-wal")
			} else {
				before = contents(t, o.Path)
			}
			cmd, _ := start(t, "migrator", filepath.Dir(o.Path))
			killWhen(t, cmd, func() bool {
				info, err := os.Stat(log)
				return err == nil && info.Size() > 1<<20
			})
			o.Schema = Versioned(migrationSteps()...)
			if from == 0 {
				require.NoFileExists(t, o.Path)
				require.ErrorIs(t, VerifyFile(t.Context(), o), ports.ErrNotFound)
			} else {
				require.NoError(t, VerifyFile(t.Context(), o))
				assert.Equal(t, before, contents(t, o.Path))
			}
			require.NoError(t, open(t, o).Close())
			assert.Equal(t, migrated(t, from), contents(t, o.Path))
			assert.Len(t, tree(t, filepath.Dir(o.Path)), 2, "the store and its lock file")
		})
	}
}

// killWhen ends a process at a moment that it is waited for.
func killWhen(t *testing.T, cmd *exec.Cmd, reached func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !reached() {
		if time.Now().After(deadline) {
			assert.NoError(t, cmd.Process.Kill())
			t.Fatal("the process did not get there within a minute")
		}
		runtime.Gosched()
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
}
