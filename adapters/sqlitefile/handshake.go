package sqlitefile

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/stowage-go/stowage/ports"
)

// isFresh reports whether there is no store yet: no file, or one without a byte.
func isFresh(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// prepare looks at what is there before anything is written, and makes a new store where there is
// none. The caller owns the place.
func (f *File) prepare() error {
	if isFresh(f.path) {
		// A log without its database holds somebody's rows: a new database would throw them away.
		for _, suffix := range []string{"-wal", "-journal"} {
			if _, err := os.Lstat(f.path + suffix); err == nil {
				return f.refuse("the database is missing or empty, but its log %s is there: restore the database file beside it, or move the log away", f.path+suffix)
			}
		}
		return f.create()
	}
	return f.look()
}

func (f *File) refuse(format string, args ...any) error {
	return ports.Errorf(ports.CodeBindingSetupFailed, "open", "%s %s: %s; nothing was changed", f.o.Kind, f.path, fmt.Sprintf(format, args...)).
		WithReason(ports.ReasonUnsupported)
}

// create makes the store under another name and moves it to its own, so that it is whole from its
// first moment, whenever the process ends. What an earlier attempt left is ours to take away.
func (f *File) create() (err error) {
	temp := filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+".new")
	if err := removeAll(temp); err != nil {
		return f.setupError(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(f.setupError(err), removeAll(temp))
		}
	}()
	// SQLite would make it with a mode that others can read (R034).
	file, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	fresh := &File{o: f.o, path: temp, medium: f.medium}
	conn, err := fresh.connect(false)
	if err != nil {
		return err
	}
	if err := errors.Join(conn.fillWhole(f.o), conn.close()); err != nil {
		return err
	}
	if err := os.Rename(temp, f.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.path))
}

func removeAll(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// setPageSize sets the page size of a database in which nothing was written yet.
func (c *Conn) setPageSize(bytes int) error {
	return c.run("PRAGMA page_size = " + strconv.Itoa(bytes))
}

// fill makes the tables of a database that has none.
func (c *Conn) fill(o Options) error {
	if err := c.setPageSize(o.PageSize); err != nil {
		return err
	}
	if err := c.switchToWAL(o.BusyTimeout); err != nil {
		return err
	}
	return c.bringUp(o.Schema)
}

// fillWhole is fill with all of it in the database file. Closing would copy the log too, but says
// nothing of a disk that is full: the log would be left behind when the file moves to its name.
func (c *Conn) fillWhole(o Options) error {
	if err := c.fill(o); err != nil {
		return err
	}
	frames, copied, err := c.copyLog()
	if err == nil && copied != frames {
		err = fmt.Errorf("%d of %d pages of the new store could be copied", copied, frames)
	}
	return err
}

// bringUp makes what the schema has and the database lacks, in one transaction.
func (c *Conn) bringUp(s Schema) error {
	if s.marker == "" {
		return c.migrate(s.steps)
	}
	statements := append([]string{MetaDDL}, s.ddl...)
	objects, err := scalar[int64](c.db, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	if objects > 0 {
		// The marker was found. IF NOT EXISTS takes no lock where there is nothing to make, so that an
		// open does not wait for another process that writes.
		for _, statement := range statements {
			if err := c.run(statement); err != nil {
				return err
			}
		}
		return nil
	}
	if err := c.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, statement := range statements {
		if err := c.run(statement); err != nil {
			return errors.Join(err, c.run("ROLLBACK"))
		}
	}
	if _, err := c.db.Exec("INSERT OR IGNORE INTO meta (key, value) VALUES ('format', ?1)", []driver.Value{s.marker}); err != nil {
		return errors.Join(err, c.run("ROLLBACK"))
	}
	return c.commit()
}

// migrate takes the pending steps in one transaction, with the version inside it (R248).
func (c *Conn) migrate(steps []string) error {
	if err := c.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	version, err := scalar[int64](c.db, "PRAGMA user_version")
	if err != nil {
		return errors.Join(err, c.run("ROLLBACK"))
	}
	if version < 0 || version > int64(len(steps)) { // somebody has raised it since it was looked at
		return errors.Join(fmt.Errorf("found schema version %d, this build supports 0 to %d", version, len(steps)), c.run("ROLLBACK"))
	}
	pending := steps[version:]
	if len(pending) > 0 {
		pending = append(pending[:len(pending):len(pending)], "PRAGMA user_version = "+strconv.Itoa(len(steps)))
	}
	for _, step := range pending {
		if err := c.run(step); err != nil {
			return errors.Join(err, c.run("ROLLBACK"))
		}
	}
	return c.commit()
}

func (c *Conn) commit() error {
	err := c.run("COMMIT")
	if err != nil && !c.db.AutoCommit() {
		err = errors.Join(err, c.run("ROLLBACK"))
	}
	return err
}

// run executes statements outside the cache of prepared ones.
func (c *Conn) run(statements string) error {
	_, err := c.db.Exec(statements, nil)
	return err
}

// switchToWAL sets the journal mode. The engine does not wait for other connections here, whatever
// its busy timeout is, so this does.
//
// A database that comes in another mode, such as a backup, is switched without a journal on the disk:
// a kill would leave one behind, and others who open the store at this moment would take it for an
// unfinished one. The switch writes a few bytes of one sector, which need none.
func (c *Conn) switchToWAL(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		mode, err := scalar[string](c.db, "PRAGMA journal_mode")
		if err == nil && mode != "wal" {
			_, err = scalar[string](c.db, "PRAGMA journal_mode = MEMORY")
		}
		if err == nil {
			mode, err = scalar[string](c.db, "PRAGMA journal_mode = WAL")
		}
		if err == nil && mode == "wal" {
			return nil
		}
		if err == nil {
			return fmt.Errorf("the journal mode stays %q: this file system has no shared memory for WAL", mode)
		}
		if !isBusy(err) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// look decides whether the file is a store of this schema, through a connection that cannot write. A
// refused file keeps its bytes, and what the look has made beside it is taken away again.
func (f *File) look() error {
	if _, err := os.Stat(f.path + "-journal"); err == nil {
		return f.refuse("an unfinished rollback journal lies beside it: open it once with the program that wrote it")
	}
	return f.lookError(f.inspect(f.o.Schema.check, false))
}

// inspect reads through a connection that cannot write. If it fails, or is told to tidy, what the
// engine has made beside the file meanwhile is taken away again.
func (f *File) inspect(read func(*File, *sqlite3.SQLiteConn) error, tidy bool) error {
	// The engine takes a file that is shorter than the smallest page for an empty one.
	if info, err := os.Stat(f.path); err == nil && info.Size() > 0 && info.Size() < minPageSize {
		return sqlite3.Error{Code: sqlite3.ErrNotADB}
	}
	before := map[string]bool{}
	for _, suffix := range []string{"-wal", "-shm"} {
		_, err := os.Lstat(f.path + suffix)
		before[suffix] = err == nil
	}
	db, err := dial(f.path, modeLook, f.o.BusyTimeout)
	if err == nil {
		err = errors.Join(read(f, db), db.Close())
	}
	// A shared place may be in use by others who know the format: then what lies there is theirs.
	if err != nil || tidy {
		for suffix, there := range before {
			if !there && f.unwatched() {
				err = errors.Join(err, removeTrace(f.path, suffix))
			}
		}
	}
	return err
}

// removeTrace takes a sidecar away that a look has made: the shared memory, and a log without rows.
func removeTrace(path, suffix string) error {
	info, err := os.Lstat(path + suffix)
	if errors.Is(err, os.ErrNotExist) || err == nil && suffix == "-wal" && info.Size() > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Remove(path + suffix)
}

func (f *File) lookError(err error) error {
	if err == nil {
		return nil
	}
	var engine sqlite3.Error
	if errors.As(err, &engine) {
		switch engine.Code {
		case sqlite3.ErrNotADB:
			return ports.Errorf(ports.CodeBindingSetupFailed, "open", "%s %s: the file is not a SQLite database: %w; nothing was changed: move it away or restore it from a backup", f.o.Kind, f.path, err).WithReason(ports.ReasonCorrupt)
		case sqlite3.ErrCorrupt:
			return ports.Errorf(ports.CodeBindingSetupFailed, "open", "%s %s: the database is damaged: %w; nothing was changed: restore it from a backup", f.o.Kind, f.path, err).WithReason(ports.ReasonCorrupt)
		}
	}
	return f.setupError(err)
}

// isEmpty reports whether nothing was ever made in the database.
func isEmpty(db *sqlite3.SQLiteConn) (bool, error) {
	for _, query := range []string{"SELECT count(*) FROM sqlite_schema", "PRAGMA user_version", "PRAGMA application_id"} {
		if n, err := scalar[int64](db, query); err != nil || n != 0 {
			return false, err
		}
	}
	return true, nil
}

// check reads what the database says of itself. An empty one is a new store: there is nothing in it
// to lose.
func (s Schema) check(f *File, db *sqlite3.SQLiteConn) error {
	empty, err := isEmpty(db)
	if err != nil {
		return err
	}
	version, err := scalar[int64](db, "PRAGMA user_version")
	if err != nil {
		return err
	}
	encoding, err := scalar[string](db, "PRAGMA encoding")
	if err != nil {
		return err
	}
	switch {
	case encoding != "UTF-8":
		return f.refuse("its text is encoded in %s, not UTF-8", encoding)
	case empty:
		return nil
	case s.marker != "":
		return s.checkMarker(f, db)
	case version == 0:
		return f.refuse("the database has tables and no schema version: it is another program's")
	case version < 0 || version > int64(len(s.steps)):
		return f.refuse("found schema version %d, this build supports 0 to %d", version, len(s.steps))
	}
	return s.checkTables(f, db, version)
}

// checkTables refuses a database that counts its versions as this schema does, and lacks a column or an
// index that the steps taken so far have made: it is another program's, or one has changed it.
func (s Schema) checkTables(f *File, db *sqlite3.SQLiteConn, version int64) error {
	want, err := s.partsOf(version)
	if err != nil {
		return err
	}
	found, err := parts(db)
	if err != nil {
		return err
	}
	for _, part := range want {
		if !slices.Contains(found, part) {
			return f.refuse("found schema version %d without the %s: it is another program's, or one has changed it", version, part)
		}
	}
	return nil
}

// partsOf lists what the first steps make, by making it in memory.
func (s Schema) partsOf(version int64) (names []string, err error) {
	db, err := dial(InMemory, modeMemory, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, step := range s.steps[:version] {
		if _, err := db.Exec(step, nil); err != nil {
			return nil, err
		}
	}
	return parts(db)
}

// parts lists the columns of all tables, and the indexes that have a name of their own.
func parts(db *sqlite3.SQLiteConn) ([]string, error) {
	text, err := scalar[string](db, `SELECT coalesce(group_concat(part, char(10)), '') FROM (
SELECT 'column ' || t.name || '.' || c.name AS part FROM sqlite_schema AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table'
UNION ALL SELECT 'index ' || name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL)`)
	return strings.Split(text, "\n"), err
}

func (s Schema) checkMarker(f *File, db *sqlite3.SQLiteConn) error {
	columns, err := scalar[int64](db, "SELECT count(*) FROM sqlite_schema AS t, pragma_table_info('meta') AS c WHERE t.type = 'table' AND t.name = 'meta' AND c.name IN ('key', 'value')")
	if err != nil {
		return err
	}
	if columns != 2 {
		return f.refuse("found a database without a format marker, this build supports %q: it is another program's", s.marker)
	}
	found, err := scalar[driver.Value](db, "SELECT value FROM meta WHERE key = 'format'")
	if errors.Is(err, io.EOF) {
		return f.refuse("found a database whose meta table has no format row, this build supports %q", s.marker)
	}
	if err != nil {
		return err
	}
	text, ok := found.(string)
	if !ok {
		return f.refuse("found a format marker that is not text, this build supports %q", s.marker)
	}
	if text != s.marker {
		return f.refuse("found the format %q, this build supports %q: use the version of the program that wrote it", shorten(text), s.marker)
	}
	return nil
}

func shorten(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// scalar returns the first column of the first row; io.EOF if there is none.
func scalar[T any](db *sqlite3.SQLiteConn, query string) (value T, err error) {
	rows, err := db.Query(query, nil)
	if err != nil {
		return value, err
	}
	row := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(row); err != nil {
		return value, errors.Join(err, rows.Close())
	}
	value, ok := row[0].(T)
	if !ok && row[0] != nil {
		err = fmt.Errorf("%s: found a %T", query, row[0])
	}
	return value, errors.Join(err, rows.Close())
}
