package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
)

// storedFile is a store that is kept in a file, opened for as long as a command works on it.
type storedFile interface {
	ports.Backuper
	io.Closer
}

// fileTarget is the store that a backup or a verification works on.
type fileTarget struct {
	app     *app
	kvDir   string
	queue   string
	storage *storageTarget
	reach   *reach // the daemon that has the queue or the storage, if one has it
}

func fileFlags(a *app, cmd *cobra.Command) *fileTarget {
	t := &fileTarget{app: a, reach: reachFlags(a, cmd, false, true)}
	t.storage = storageFlags(a, cmd, t.reach)
	flags := cmd.Flags()
	flags.Bool("storage", false, "the storage of the configuration, or the built-in one")
	flags.StringVar(&t.kvDir, "kv-dir", "", "data directory of a key-value store")
	flags.StringVar(&t.queue, "queue", "", "name of a queue of the state directory")
	return t
}

// chosen is the flag that chooses what to work on, empty if none does.
func (t *fileTarget) chosen(cmd *cobra.Command, more ...string) (string, error) {
	flag, err := oneOf(cmd, append(more, "kv-dir", "queue", "storage")...)
	if err != nil {
		return "", err
	}
	if on, err := cmd.Flags().GetBool("storage"); flag == "storage" && !on {
		return "", errors.Join(usagef("--storage is switched off: leave it out"), err)
	}
	if flag != "storage" && cmd.Flags().Changed("config") {
		return "", usagef("--config goes with --storage")
	}
	return flag, nil
}

// open opens the store that the flag names. It makes none.
func (t *fileTarget) open(ctx context.Context, flag string) (storedFile, error) {
	if flag == "kv-dir" {
		if t.kvDir == "" {
			return nil, usagef("--kv-dir is empty: name the data directory")
		}
		return openKvFile(ctx, t.app, t.kvDir)
	}
	path, err := t.queuePath()
	if err != nil {
		return nil, err
	}
	return openQueueFile(ctx, t.app, path)
}

// queuePath is the database of the queue, which has to be there.
func (t *fileTarget) queuePath() (string, error) {
	if err := ports.CheckQueueID("queue", t.queue); err != nil {
		return "", err
	}
	path := queueDatabase(t.reach.state(), t.queue)
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", ports.Errorf(ports.CodeNotFound, "queue.open", "there is no queue at %s: name the state directory with --state-dir", absolute(path))
	}
	return path, err
}

func (t *fileTarget) verifyQueue(ctx context.Context) error {
	path, err := t.queuePath()
	if err != nil {
		return err
	}
	err = verifyStored(ctx, path, queueFormat)
	if !errors.Is(err, ports.ErrInUse) {
		return err
	}
	return t.reach.withAdmin(func(daemon adminClient) error { return daemon.Verify(ctx, t.queue) })
}

// backupQueue copies a queue itself while nobody has it, and otherwise asks the daemon that has it.
func (t *fileTarget) backupQueue(ctx context.Context, to string) error {
	err := t.with(ctx, "queue", func(store ports.Backuper) error { return store.Backup(ctx, to) })
	if !errors.Is(err, ports.ErrInUse) {
		return err
	}
	return t.reach.withAdmin(func(daemon adminClient) error { return daemon.Backup(ctx, t.queue, absolute(to)) })
}

// backupStorage copies a storage itself while nobody has it, and otherwise, or when a daemon is named,
// has the daemon do it.
func (t *fileTarget) backupStorage(ctx context.Context, to string) error {
	if !t.storage.remote() {
		err := t.storage.with(ctx, false, func(storage ports.Storage) error {
			store, ok := storage.(ports.Backuper)
			if !ok {
				return ports.Errorf(ports.CodeBackendFailed, "backup", "the module of the storage cannot be backed up: export it").WithReason(ports.ReasonUnsupported)
			}
			return store.Backup(ctx, to)
		})
		if !errors.Is(err, ports.ErrInUse) {
			return err
		}
	}
	return t.storage.withAdmin(func(daemon adminClient) error { return daemon.BackupStorage(ctx, absolute(to)) })
}

// verifyStorage leaves a storage that nobody has as it is.
func (t *fileTarget) verifyStorage(ctx context.Context) error {
	if !t.storage.remote() {
		path, err := t.storage.path(ctx)
		if err != nil {
			return err
		}
		if err := verifyStored(ctx, path, storageFormat); !errors.Is(err, ports.ErrInUse) {
			return err
		}
	}
	return t.storage.withAdmin(func(daemon adminClient) error { return daemon.VerifyStorage(ctx) })
}

// verifyKv leaves a store that nobody has as it is, and goes through its engine if somebody has it.
func (t *fileTarget) verifyKv(ctx context.Context) error {
	if t.kvDir == "" {
		return usagef("--kv-dir is empty: name the data directory")
	}
	if err := checkKvFile(t.kvDir); err != nil {
		return err
	}
	err := verifyStored(ctx, filepath.Join(t.kvDir, kvFile), kvFormat)
	if !errors.Is(err, ports.ErrInUse) {
		return err
	}
	return t.with(ctx, "kv-dir", func(store ports.Backuper) error { return store.Verify(ctx) })
}

func (t *fileTarget) with(ctx context.Context, flag string, fn func(ports.Backuper) error) error {
	store, err := t.open(ctx, flag)
	if err != nil {
		return err
	}
	return errors.Join(fn(store), store.Close())
}

func backupCommand(a *app) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "backup {--kv-dir DIR | --queue NAME | --storage} --to FILE",
		Short: "Copy a store into one file",
		Long: `Write a consistent, verified copy of a store to one file without sidecars, readable for its owner only.
A file that exists is never overwritten; the exit code is 4 then.

The store may be in use meanwhile. A queue and a storage that a daemon has are copied by the daemon, to
the same path on its machine, and the admin token is needed; with --server the storage is the daemon's
in any case. A key-value store that a process has for itself cannot be copied: the exit code is 6 then.
To restore, put the file under its original name, localkv.sqlite, localqueue.sqlite or storage.sqlite,
into an empty data directory.`,
		Example: `  stowage backup --kv-dir stowage-data/kv/default --to kv-backup.sqlite
  stowage backup --queue orders --to orders-backup.sqlite
  stowage backup --storage --config stowage.toml --to storage-backup.sqlite`,
		Args: cobra.NoArgs,
	}
	t := fileFlags(a, cmd)
	cmd.Flags().StringVar(&to, "to", "", "the file to write")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flag, err := t.chosen(cmd)
		if err != nil {
			return err
		}
		if flag == "" {
			return usagef("there is nothing to copy: give --kv-dir, --queue or --storage")
		}
		if to == "" {
			return usagef("there is nowhere to copy to: give --to FILE")
		}
		switch flag {
		case "queue":
			err = t.backupQueue(cmd.Context(), to)
		case "storage":
			err = t.backupStorage(cmd.Context(), to)
		default:
			err = t.with(cmd.Context(), flag, func(store ports.Backuper) error { return store.Backup(cmd.Context(), to) })
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "wrote and verified %s\n", printable(absolute(to)))
		return err
	}
	return cmd
}

func verifyCommand(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "verify {--kv-dir DIR | --queue NAME | --storage | --file FILE}",
		Short: "Check a store or a backup for damage",
		Long: `Read every page of a store, or of a backup, and check that it is whole and of a format that this
version knows. What is wrong is said, and the exit code is 1.

Nothing is changed. A store may be in use meanwhile; a queue and a storage that a daemon has are checked
by the daemon, and the admin token is needed; with --server the storage is the daemon's in any case. The
daemon checks that every record of its storage can be decoded, too. A file must not be in use.`,
		Example: `  stowage verify --kv-dir stowage-data/kv/default
  stowage verify --storage
  stowage verify --file orders-backup.sqlite`,
		Args: cobra.NoArgs,
	}
	t := fileFlags(a, cmd)
	cmd.Flags().StringVar(&file, "file", "", "a file that backup wrote")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flag, err := t.chosen(cmd, "file")
		if err != nil {
			return err
		}
		switch flag {
		case "":
			return usagef("there is nothing to check: give --kv-dir, --queue, --storage or --file")
		case "file":
			err = verifyFile(cmd.Context(), file)
		case "queue":
			err = t.verifyQueue(cmd.Context())
		case "storage":
			err = t.verifyStorage(cmd.Context())
		default:
			err = t.verifyKv(cmd.Context())
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.out, "no damage was found")
		return err
	}
	return cmd
}

func verifyFile(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("check a backup: %w", err)
	}
	if !info.Mode().IsRegular() {
		return usagef("%s is no plain file: for a store give its directory with --kv-dir, its name with --queue, or --storage", path)
	}
	if info.Size() == 0 {
		return exitf(exitFailed, "%s is empty: it is no backup", path)
	}
	versioned, err := hasSchemaVersion(path)
	if err != nil {
		return err
	}
	if versioned {
		return verifyStored(ctx, path, storageFormat)
	}
	return verifyStored(ctx, path, kvFormat, queueFormat)
}

// hasSchemaVersion reports whether the header of a database says that it is of a schema version, as
// only that of a storage does.
func hasSchemaVersion(path string) (bool, error) {
	const at, size = 60, 4 // in the header of SQLite, big-endian
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("check a backup: %w", err)
	}
	header := make([]byte, at+size)
	_, err = io.ReadFull(f, header)
	if err = errors.Join(err, f.Close()); errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil // too short for a database, as the check itself will say
	}
	if err != nil {
		return false, fmt.Errorf("check a backup: %w", err)
	}
	return bytes.HasPrefix(header, []byte("SQLite format 3\x00")) && !bytes.Equal(header[at:], make([]byte, size)), nil
}
