package sqlitefile

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/stowage-go/stowage/ports"
)

// Backup writes a consistent copy of the store to path while it is in use: one compact file without
// sidecars, mode 0600, checked as Verify does and synced before it gets its name. A path that exists,
// or beside which the log of another store lies, is ALREADY_EXISTS; one whose lock file an open store
// holds is in use. Writers go on meanwhile, and the log grows until the copy is done; a store in
// memory does nothing else meanwhile. If ctx ends, nothing is left behind.
func (f *File) Backup(ctx context.Context, path string) (err error) {
	const op = "backup"
	path, err = filepath.Abs(path)
	if err != nil {
		return ports.Errorf(ports.CodeInvalidInput, op, "the path %q cannot be made absolute: %w", path, err)
	}
	besides := !f.inMemory() && idOf(filepath.Dir(path)) == idOf(filepath.Dir(f.path)) // by whatever name
	if besides && strings.HasPrefix(filepath.Base(path), filepath.Base(f.path)) {
		return ports.Errorf(ports.CodeInvalidInput, op, "%s would lie among the files of the store itself: choose another name", path)
	}
	if owner := ownerOf(path); owner != "" {
		return ports.Errorf(ports.CodeInvalidInput, op, "%s would lie among the files of the store %s: choose another name", path, owner)
	}
	if _, err := os.Lstat(path); err == nil {
		return ports.Errorf(ports.CodeAlreadyExists, op, "%s exists: a backup never overwrites, choose another name", path)
	}
	// The engine would take a log for that of the copy.
	for _, suffix := range []string{"-wal", "-journal"} {
		if _, err := os.Lstat(path + suffix); err == nil {
			return ports.Errorf(ports.CodeAlreadyExists, op, "%s%s exists: it is the log of another store, choose another name", path, suffix)
		}
	}
	if info, err := os.Stat(filepath.Dir(path)); errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir() {
		return ports.Errorf(ports.CodeInvalidInput, op, "%s cannot be written: there is no directory %s, make it first", path, filepath.Dir(path))
	}
	// Whoever holds the lock of that place is about to make a store there.
	lock, err := f.ownLockFile(path, os.O_RDONLY)
	if errors.Is(err, ports.ErrInUse) {
		return ports.Errorf(f.o.Failure, op, "%s is the place of a store that is open, choose another name: %w", path, err).WithReason(ports.ReasonInUse)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	temp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d-%d.partial", filepath.Base(path), os.Getpid(), time.Now().UnixNano()))
	file, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return f.backupError(path, err)
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			err = errors.Join(f.backupError(path, err), removeAll(temp))
		}
	}()
	err = f.aside(ctx, op, func(c *Conn) error {
		// On a connection that nobody shares, an interrupt ends this statement and nothing else.
		_, err := c.db.ExecContext(ctx, "VACUUM INTO ?1", []driver.NamedValue{{Ordinal: 1, Value: temp}})
		return err
	})
	if err != nil {
		return err
	}
	if err := f.verifyCopy(temp); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := renameNew(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func (f *File) backupError(path string, err error) error {
	if errors.Is(err, os.ErrExist) {
		return ports.Errorf(ports.CodeAlreadyExists, "backup", "%s exists: a backup never overwrites, choose another name", path)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	reason, advice := diagnose(err)
	var known *ports.Error
	if errors.As(err, &known) {
		return err
	}
	return ports.Errorf(f.o.Failure, "backup", "%s %s to %s: %w; %s", f.o.Kind, f.path, path, err, advice).WithReason(reason)
}

// Verify checks the whole file as the engine sees it, and its format. It reads every page.
func (f *File) Verify(ctx context.Context) error {
	return f.aside(ctx, "verify", func(c *Conn) error {
		return f.verify(c.db)
	})
}

// aside lends a connection of its own to something that takes long, so that reads go on meanwhile.
func (f *File) aside(ctx context.Context, op string, fn func(*Conn) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	err = f.refusal(op)
	if err == nil {
		f.asides.Add(1)
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	defer f.asides.Done()
	c, done, err := f.medium.aside(ctx, f, op)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return f.engineError(op, fn(c))
}

// VerifyFile checks a store or a backup that nobody has open, as Verify does, and changes nothing: a
// missing file is NOT_FOUND; one in use, by whichever kind of ownership, is BINDING_SETUP_FAILED with
// reason in use. A [Versioned] schema takes any version from 1 to the number of its steps; an older
// file is not migrated. Of the options, Path, Schema, Kind and Failure count. A store in memory is
// only seen by the File that has it: see Verify.
func VerifyFile(ctx context.Context, o Options) (err error) {
	const op = "verify"
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := newFile(o)
	if err != nil {
		return err
	}
	if f.inMemory() {
		return ports.Errorf(ports.CodeNotFound, op, "%s %s: a store in memory has no file", o.Kind, f.path)
	}
	if _, err := os.Lstat(f.path); errors.Is(err, os.ErrNotExist) {
		return ports.Errorf(ports.CodeNotFound, op, "%s %s: there is no such file", o.Kind, f.path)
	}
	if err := f.checkKind(); err != nil {
		return err
	}
	release, err := f.claim()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return f.lookError(f.inspect((*File).verify, true))
}

// verifyCopy checks a copy that nobody else has open.
func (f *File) verifyCopy(path string) error {
	return (&File{o: f.o, path: path, medium: f.medium}).inspect((*File).verify, true)
}

// EngineVersion is the version of the SQLite library that is built in.
func EngineVersion() string {
	version, _, _ := sqlite3.Version()
	return version
}

func (f *File) verify(db *sqlite3.SQLiteConn) error {
	rows, err := db.Query("PRAGMA integrity_check(10)", nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	row := make([]driver.Value, 1)
	var found []string
	for {
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if text, _ := row[0].(string); text != "ok" {
			found = append(found, text)
		}
	}
	if len(found) > 0 {
		return ports.Errorf(f.o.Failure, "verify", "%s %s is damaged: %s; restore it from a backup", f.o.Kind, f.path, strings.Join(found, "; ")).WithReason(ports.ReasonCorrupt)
	}
	if err := f.o.Schema.check(f, db); err != nil {
		return err
	}
	// An open takes an empty database for a new store; one that is there to be checked has lost its own.
	empty, err := isEmpty(db)
	if err == nil && empty {
		return f.refuse("it is empty: no store was ever made in it, or all of it is lost")
	}
	return err
}
