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
// sidecars, mode 0600, checked as Verify does and synced before it gets its name. A path that exists
// is ALREADY_EXISTS. Writers go on meanwhile; the log grows until the copy is done. If ctx ends,
// nothing is left behind.
func (f *File) Backup(ctx context.Context, path string) (err error) {
	const op = "backup"
	path, err = filepath.Abs(path)
	if err != nil {
		return ports.Errorf(ports.CodeInvalidInput, op, "the path %q cannot be made absolute: %w", path, err)
	}
	besides := idOf(filepath.Dir(path)) == idOf(filepath.Dir(f.path)) // by whatever name
	if besides && strings.HasPrefix(filepath.Base(path), filepath.Base(f.path)) {
		return ports.Errorf(ports.CodeInvalidInput, op, "%s would lie among the files of the store itself: choose another name", path)
	}
	if _, err := os.Lstat(path); err == nil {
		return ports.Errorf(ports.CodeAlreadyExists, op, "%s exists: a backup never overwrites, choose another name", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir() {
		return ports.Errorf(ports.CodeInvalidInput, op, "%s cannot be written: there is no directory %s, make it first", path, filepath.Dir(path))
	}
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
func (f *File) aside(ctx context.Context, op string, fn func(*Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	err := f.refusal(op)
	if err == nil {
		f.asides.Add(1)
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	defer f.asides.Done()
	c, err := f.connect(false)
	if err != nil {
		return f.engineError(op, err)
	}
	return errors.Join(f.engineError(op, fn(c)), c.close())
}

// VerifyFile checks a store or a backup that nobody has open, as Verify does, and changes nothing: a
// missing file is NOT_FOUND, one in use is BINDING_SETUP_FAILED with reason in use. Of the options,
// Path, Schema, Kind and Failure count.
func VerifyFile(ctx context.Context, o Options) (err error) {
	const op = "verify"
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := newFile(o)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(f.path); errors.Is(err, os.ErrNotExist) {
		return ports.Errorf(ports.CodeNotFound, op, "%s %s: there is no such file", o.Kind, f.path)
	}
	if err := f.checkKind(); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return f.engineError(op, err)
	}
	f.owned = &ownership{file: dir, path: dir.Name()}
	defer func() { err = errors.Join(err, f.owned.release()) }()
	if !f.owned.alone() {
		return f.inUse(dir.Name())
	}
	return f.lookError(f.inspect((*File).verify, true))
}

// verifyCopy checks a copy that nobody else has open.
func (f *File) verifyCopy(path string) error {
	return (&File{o: f.o, path: path}).inspect((*File).verify, true)
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
	return f.o.Schema.check(f, db)
}
