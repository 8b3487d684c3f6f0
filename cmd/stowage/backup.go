package main

import (
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
	app   *app
	kvDir string
	queue string
	reach *reach // the daemon that has the queue, if one has it
}

func fileFlags(a *app, cmd *cobra.Command) *fileTarget {
	t := &fileTarget{app: a, reach: reachFlags(a, cmd, false, true)}
	flags := cmd.Flags()
	flags.StringVar(&t.kvDir, "kv-dir", "", "data directory of a key-value store")
	flags.StringVar(&t.queue, "queue", "", "name of a queue of the state directory")
	return t
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
		Use:   "backup {--kv-dir DIR | --queue NAME} --to FILE",
		Short: "Copy a store into one file",
		Long: `Write a consistent, verified copy of a store to one file without sidecars, readable for its owner only.
A file that exists is never overwritten; the exit code is 4 then.

The store may be in use meanwhile. A queue that a daemon has is copied by the daemon, to the same path on
its machine, and the admin token is needed. A key-value store that a process has for itself cannot be
copied: the exit code is 6 then. To restore, put the file under its original name, localkv.sqlite or
localqueue.sqlite, into an empty data directory.`,
		Example: `  stowage backup --kv-dir stowage-data/kv/default --to kv-backup.sqlite
  stowage backup --queue orders --to orders-backup.sqlite`,
		Args: cobra.NoArgs,
	}
	t := fileFlags(a, cmd)
	cmd.Flags().StringVar(&to, "to", "", "the file to write")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flag, err := oneOf(cmd, "kv-dir", "queue")
		if err != nil {
			return err
		}
		if flag == "" {
			return usagef("there is nothing to copy: give --kv-dir or --queue")
		}
		if to == "" {
			return usagef("there is nowhere to copy to: give --to FILE")
		}
		if flag == "queue" {
			err = t.backupQueue(cmd.Context(), to)
		} else {
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
		Use:   "verify {--kv-dir DIR | --queue NAME | --file FILE}",
		Short: "Check a store or a backup for damage",
		Long: `Read every page of a store, or of a backup, and check that it is whole and of a format that this
version knows. What is wrong is said, and the exit code is 1.

Nothing is changed. A store may be in use meanwhile; a queue that a daemon has is checked by the daemon,
and the admin token is needed. A file must not be in use.`,
		Example: `  stowage verify --kv-dir stowage-data/kv/default
  stowage verify --file orders-backup.sqlite`,
		Args: cobra.NoArgs,
	}
	t := fileFlags(a, cmd)
	cmd.Flags().StringVar(&file, "file", "", "a file that backup wrote")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flag, err := oneOf(cmd, "kv-dir", "queue", "file")
		if err != nil {
			return err
		}
		switch flag {
		case "":
			return usagef("there is nothing to check: give --kv-dir, --queue or --file")
		case "file":
			err = verifyFile(cmd.Context(), file)
		case "queue":
			err = t.verifyQueue(cmd.Context())
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
		return usagef("%s is no plain file: for a store give its directory with --kv-dir, or its name with --queue", path)
	}
	if info.Size() == 0 {
		return exitf(exitFailed, "%s is empty: it is no backup", path)
	}
	return verifyStored(ctx, path, kvFormat, queueFormat)
}
