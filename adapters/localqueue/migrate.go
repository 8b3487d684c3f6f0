package localqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stowage-go/stowage/ports"
)

// MigrateOptions say which queue is to be moved. StateDir and ID are required.
type MigrateOptions struct {
	StateDir string
	ID       string
	// Reverse moves the queue back to where older clients open it.
	Reverse bool
	// DryRun checks everything, returns the plan, and touches nothing.
	DryRun bool
	// BackupDir is the directory that the backup becomes; it must not exist, but its parent must.
	// Default: <StateDir>/queue-backups/<ID>-<time>.
	BackupDir string
	// Log takes each step; default slog.Default.
	Log *slog.Logger

	reached func(stage) // for tests that end the process at a stage
}

// Plan is what a migration does, or has done.
type Plan struct {
	ID      string `json:"id"`
	Reverse bool   `json:"reverse"`
	DryRun  bool   `json:"dryRun"`
	// AlreadyDone says that the queue is where it is to go, and nothing was left to do.
	AlreadyDone bool       `json:"alreadyDone"`
	From        string     `json:"from"`
	To          string     `json:"to"`
	Backup      string     `json:"backup,omitempty"`
	Files       []PlanFile `json:"files"`
	Steps       []PlanStep `json:"steps"`
}

// PlanFile is one file of the queue's directory. All of them move together: a database without its
// log loses messages (R019).
type PlanFile struct {
	Name   string `json:"name"` // relative to the directory
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// PlanStep is one step, in the order in which they are taken.
type PlanStep struct {
	Action string `json:"action"` // "backup" or "move"
	From   string `json:"from"`
	To     string `json:"to"`
}

// stage is a point of a migration at which a crash has to be harmless.
type stage string

const (
	stageBackupHalf stage = "backup half written"
	stageBackupFull stage = "backup written under its temporary name"
	stageBackedUp   stage = "backup complete"
	stageMoved      stage = "moved, not yet durable"
)

const (
	partialPrefix = ".stowage-partial-"
	backupTime    = "20060102T150405.000Z"
)

// Migrate moves a queue from the layout of older clients, <StateDir>/queue/<ID>, to that of the owner,
// <StateDir>/queue-owned/<ID>, or back (R148 to R159). It makes a verified backup of every file first,
// rewrites no byte of any, and renames the directory, so that a crash leaves it in one of the two
// places; it may be run again after one.
//
// All clients, and the owner of the state directory, must have been stopped. A directory that somebody
// holds is refused (BINDING_SETUP_FAILED, reason in_use); whoever only starts afterwards cannot be
// seen. A queue that is in neither place is NOT_FOUND, one in both ALREADY_EXISTS, and nothing was
// touched.
func Migrate(ctx context.Context, o MigrateOptions) (Plan, error) {
	const op = "queue.migrate"
	if err := ctx.Err(); err != nil {
		return Plan{}, err
	}
	m, err := newMigration(op, o)
	if err != nil {
		return Plan{}, err
	}
	err = m.run(ctx)
	return m.plan, errors.Join(err, m.unlock())
}

type migration struct {
	op    string
	o     MigrateOptions
	plan  Plan
	locks []*directoryLock
}

func newMigration(op string, o MigrateOptions) (*migration, error) {
	if err := ports.CheckQueueID(op, o.ID); err != nil {
		return nil, err
	}
	if o.StateDir == "" {
		return nil, ports.Errorf(ports.CodeInvalidInput, op, "the state directory is empty: name one")
	}
	for _, dir := range []*string{&o.StateDir, &o.BackupDir} {
		if *dir == "" {
			continue
		}
		path, err := filepath.Abs(*dir)
		if err != nil {
			return nil, ports.Errorf(ports.CodeInvalidInput, op, "the directory %q cannot be made absolute: %w", *dir, err)
		}
		*dir = path
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.reached == nil {
		o.reached = func(stage) {}
	}
	m := &migration{op: op, o: o}
	from, to := legacyName, ownedName
	if o.Reverse {
		from, to = to, from
	}
	m.plan = Plan{
		ID:      o.ID,
		Reverse: o.Reverse,
		DryRun:  o.DryRun,
		From:    filepath.Join(o.StateDir, from, o.ID),
		To:      filepath.Join(o.StateDir, to, o.ID),
		Backup:  o.BackupDir,
		Files:   []PlanFile{},
		Steps:   []PlanStep{},
	}
	if m.plan.Backup == "" {
		m.plan.Backup = filepath.Join(o.StateDir, backupsName, o.ID+"-"+time.Now().UTC().Format(backupTime))
	}
	return m, nil
}

func (m *migration) unlock() error {
	var errs []error
	for _, l := range m.locks {
		errs = append(errs, l.release())
	}
	return errors.Join(errs...)
}

func (m *migration) lock(what, dir string) error {
	l, err := lockDirectory(m.op, what, dir)
	if err == nil {
		m.locks = append(m.locks, l)
	}
	return err
}

func (m *migration) run(ctx context.Context) error {
	if err := m.check(); err != nil || m.plan.AlreadyDone {
		return err
	}
	if err := m.survey(); err != nil {
		return err
	}
	m.plan.Steps = []PlanStep{{"backup", m.plan.From, m.plan.Backup}, {"move", m.plan.From, m.plan.To}}
	if m.o.DryRun {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.backUp(ctx); err != nil {
		return err
	}
	m.o.Log.Info("the queue was backed up", "queue", m.o.ID, "backup", m.plan.Backup, "files", len(m.plan.Files))
	if err := m.move(); err != nil {
		return err
	}
	m.o.Log.Info("the queue was moved", "queue", m.o.ID, "from", m.plan.From, "to", m.plan.To)
	return nil
}

// check takes the locks and looks at both places. The locks come before anything in the directories
// is opened: closing a file drops the locks that this process may have on it.
func (m *migration) check() error {
	owned := filepath.Join(m.o.StateDir, ownedName)
	switch there, err := exists(owned); {
	case err != nil:
		return setupError(m.op, "the directory of queues %s cannot be looked at: %w", owned, err)
	case there:
		if err := m.lock("the owner's directory of queues", owned); err != nil {
			return err
		}
	}
	source, err := exists(m.plan.From)
	if err != nil {
		return setupError(m.op, "the queue's directory %s cannot be looked at: %w", m.plan.From, err)
	}
	target, err := exists(m.plan.To)
	if err != nil {
		return setupError(m.op, "the queue's new directory %s cannot be looked at: %w", m.plan.To, err)
	}
	switch {
	case source && target:
		return ports.Errorf(ports.CodeAlreadyExists, m.op, "queue %q is in %s and in %s: decide which one is to stay, and move the other away; nothing was done", m.o.ID, m.plan.From, m.plan.To)
	case target:
		m.plan.AlreadyDone, m.plan.Backup = true, ""
		if m.o.DryRun {
			return nil
		}
		return m.settle() // a crash may have come before this
	case !source:
		return ports.Errorf(ports.CodeNotFound, m.op, "queue %q is neither in %s nor in %s", m.o.ID, m.plan.From, m.plan.To)
	}
	if info, err := os.Lstat(m.plan.From); err != nil || !info.IsDir() {
		return setupError(m.op, "%s is not a directory: put the directory itself there; nothing was done", m.plan.From)
	}
	if err := m.lock("the queue's directory", m.plan.From); err != nil {
		return err
	}
	if names := usersOf(m.plan.From); len(names) > 0 {
		return inUseError(m.op, "the queue's directory", m.plan.From)
	}
	return m.checkPlaces()
}

// checkPlaces makes sure that the move can be one rename, and that the backup is out of its way.
func (m *migration) checkPlaces() error {
	from, err := fileIDOf(m.plan.From, false)
	if err != nil {
		return setupError(m.op, "the queue's directory %s cannot be looked at: %w", m.plan.From, err)
	}
	parent := filepath.Dir(m.plan.To)
	if there, err := exists(parent); err == nil && !there {
		parent = m.o.StateDir
	}
	to, err := fileIDOf(parent, true)
	if err != nil {
		return setupError(m.op, "the directory %s cannot be looked at: %w", parent, err)
	}
	if from.device != to.device {
		return m.crossesDevices()
	}
	for _, dir := range []string{m.plan.From, m.plan.To} {
		if m.plan.Backup == dir || strings.HasPrefix(m.plan.Backup, dir+string(filepath.Separator)) {
			return ports.Errorf(ports.CodeInvalidInput, m.op, "the backup %s would lie in %s: name another directory", m.plan.Backup, dir)
		}
	}
	if there, err := exists(m.plan.Backup); err != nil || there {
		return ports.Errorf(ports.CodeAlreadyExists, m.op, "the backup directory %s is there already, or cannot be looked at: name another one; nothing was done", m.plan.Backup)
	}
	return nil
}

func (m *migration) crossesDevices() error {
	return setupError(m.op, "%s and %s are on different file systems, so that the queue cannot be moved in one step: make them one file system; nothing was moved", m.plan.From, m.plan.To)
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// survey lists and hashes what is in the directory, and refuses what somebody holds a lock on.
func (m *migration) survey() error {
	err := filepath.WalkDir(m.plan.From, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return setupError(m.op, "%s is a %s, which cannot be backed up: move it out of the queue's directory; nothing was done", path, kindOf(d.Type()))
		}
		if strings.HasSuffix(path, "-tshm") {
			m.o.Log.Warn("a coordination file of the Turso engine is in the queue's directory: make sure that no such process uses it", "path", path)
		}
		file, err := m.surveyFile(path)
		m.plan.Files = append(m.plan.Files, file)
		return err
	})
	var known *ports.Error
	if err != nil && !errors.As(err, &known) {
		return setupError(m.op, "the queue's directory %s cannot be read: %w", m.plan.From, err)
	}
	return err
}

func (m *migration) surveyFile(path string) (f PlanFile, err error) {
	name, err := filepath.Rel(m.plan.From, path)
	if err != nil {
		return PlanFile{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return PlanFile{}, err
	}
	defer func() { err = errors.Join(err, unlock(file)) }()
	if err := m.checkLocks(file); err != nil {
		return PlanFile{}, err
	}
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	return PlanFile{Name: name, Bytes: n, SHA256: hex.EncodeToString(hash.Sum(nil))}, err
}

// checkLocks refuses a file on which another process has a lock of either kind, as every client of
// the original has while it is running.
func (m *migration) checkLocks(file *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock); err != nil {
		return fmt.Errorf("asking for locks on %s: %w", file.Name(), err)
	}
	held := lock.Type != unix.F_UNLCK
	if !held {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		held = errors.Is(err, unix.EWOULDBLOCK)
	}
	if held {
		return inUseError(m.op, "the file", file.Name())
	}
	return nil
}

// backUp copies every file, reads each copy back, and gives the whole its name at the end.
func (m *migration) backUp(ctx context.Context) error {
	parent := filepath.Dir(m.plan.Backup)
	// Below the state directory this queue's lock is on it too. Elsewhere a queue of the same id may be
	// backed up at the same time, from another state directory.
	name := m.o.ID
	if m.o.BackupDir != "" {
		name = filepath.Base(m.o.BackupDir)
	}
	partial := filepath.Join(parent, partialPrefix+name)
	err := m.backUpInto(ctx, parent, partial)
	if err == nil {
		return nil
	}
	if cleanErr := os.RemoveAll(partial); cleanErr != nil {
		err = errors.Join(err, cleanErr)
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	return setupError(m.op, "the backup %s cannot be written: %w; nothing was moved", m.plan.Backup, err)
}

func (m *migration) backUpInto(ctx context.Context, parent, partial string) error {
	if m.o.BackupDir == "" {
		if _, err := makeDirectory(parent); err != nil {
			return err
		}
	}
	// What an interrupted run has left.
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.Mkdir(partial, 0o700); err != nil {
		return err
	}
	for _, f := range m.plan.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.copyFile(f, partial); err != nil {
			return err
		}
		m.o.reached(stageBackupHalf)
	}
	if err := filepath.WalkDir(partial, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncDirectory(path)
	}); err != nil {
		return err
	}
	m.o.reached(stageBackupFull)
	if err := os.Rename(partial, m.plan.Backup); err != nil {
		return err
	}
	if err := syncDirectory(parent); err != nil {
		return err
	}
	m.o.reached(stageBackedUp)
	return nil
}

func (m *migration) copyFile(f PlanFile, dir string) (err error) {
	target := filepath.Join(dir, f.Name)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	in, err := os.Open(filepath.Join(m.plan.From, f.Name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(target, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, out); err != nil {
		return err
	}
	if hex.EncodeToString(hash.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("the copy of %s differs from it: it has changed, or the disk is at fault", f.Name)
	}
	return nil
}

func (m *migration) move() error {
	parent := filepath.Dir(m.plan.To)
	made, err := makeDirectory(parent)
	if err != nil {
		return setupError(m.op, "the directory %s cannot be made: %w; nothing was moved", parent, err)
	}
	if made && !m.o.Reverse {
		if err := m.lock("the owner's directory of queues", parent); err != nil {
			return err
		}
	}
	err = os.Rename(m.plan.From, m.plan.To)
	if errors.Is(err, unix.EXDEV) {
		return m.crossesDevices()
	}
	if err != nil {
		return setupError(m.op, "%s cannot be moved to %s: %w; nothing was moved", m.plan.From, m.plan.To, err)
	}
	m.o.reached(stageMoved)
	return m.settle()
}

// settle makes the move durable.
func (m *migration) settle() error {
	for _, dir := range []string{filepath.Dir(m.plan.To), filepath.Dir(m.plan.From)} {
		if err := syncDirectory(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return setupError(m.op, "the move to %s is done but cannot be made durable: %w", m.plan.To, err)
		}
	}
	return nil
}
