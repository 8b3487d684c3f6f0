package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// storageClient works on the storage of a daemon as a whole.
type storageClient interface {
	BackupStorage(ctx context.Context, path string) error
	VerifyStorage(ctx context.Context) error
	ExportStorage(ctx context.Context, w io.Writer) (int64, error)
}

func storageCommand(a *app) *cobra.Command {
	return group("storage", "Carry a storage from one place to another",
		`Carry everything that a storage holds from one place to another, as JSON Lines: resources, checkpoints,
dead letters, pauses, deliveries, and what gates remember. What is imported is what was exported, byte
for byte, whichever modules the two storages are of.`,
		`  stowage storage export --out storage.jsonl
  stowage storage import --config stowage.toml storage.jsonl`,
		storageExportCommand(a),
		storageImportCommand(a),
	)
}

// storageTarget is the storage that a command works on.
type storageTarget struct {
	app    *app
	cmd    *cobra.Command
	reach  *reach
	config string
	file   string // of a command that has the flag
}

func storageFlags(a *app, cmd *cobra.Command, r *reach) *storageTarget {
	t := &storageTarget{app: a, cmd: cmd, reach: r}
	cmd.Flags().StringVar(&t.config, "config", "", "configuration that names the storage (default: none, the built-in storage of the state directory)")
	return t
}

func (t *storageTarget) fileFlag() {
	t.cmd.Flags().StringVar(&t.file, "file", "", "database file of the storage, in place of a configuration")
}

// check refuses flags that do not go together.
func (t *storageTarget) check() error {
	for _, other := range []string{"config", "state-dir", "server"} {
		if t.cmd.Flags().Lookup(other) == nil {
			continue
		}
		if _, err := oneOf(t.cmd, "file", other); err != nil {
			return err
		}
	}
	if t.cmd.Flags().Changed("file") && t.file == "" {
		return usagef("--file is empty: name the database file of the storage")
	}
	return nil
}

// remote reports whether the daemon is to do it, whoever has the storage.
func (t *storageTarget) remote() bool { return t.cmd.Flags().Changed("server") }

// load reads the configuration of the storage. From then on tokens are looked up in its state directory.
func (t *storageTarget) load() (*config.Config, error) {
	cfg, err := loadConfig(t.app, t.cmd, t.config, t.reach.stateDir)
	if err != nil {
		return nil, err
	}
	t.reach.stateDir = cfg.StateDir
	return cfg, nil
}

// path is the database of the storage, which has to be there.
func (t *storageTarget) path(ctx context.Context) (string, error) {
	cfg, err := t.load()
	if err != nil {
		return "", err
	}
	path, err := storagePath(ctx, cfg)
	if err != nil {
		return "", err
	}
	return path, checkStorageFile(path)
}

// with opens the storage, lends it to fn and closes it. One that is not there yet is made only if
// create is set; otherwise it is NOT_FOUND, and nothing is made.
func (t *storageTarget) with(ctx context.Context, create bool, fn func(ports.Storage) error) error {
	if t.file != "" {
		if !create {
			if err := checkStorageFile(t.file); err != nil {
				return err
			}
		}
		return withStorageFile(ctx, t.app, t.file, fn)
	}
	cfg, err := t.load()
	if err != nil {
		return err
	}
	path, err := storagePath(ctx, cfg)
	if err == nil && !create {
		err = checkStorageFile(path)
	}
	if err != nil {
		return err
	}
	return withConfiguredStorage(ctx, t.app, cfg, fn)
}

// withAdmin asks the daemon. The token is looked up where the configuration has its state.
func (t *storageTarget) withAdmin(fn func(adminClient) error) error {
	if t.config != "" {
		if _, err := t.load(); err != nil {
			return err
		}
	}
	return t.reach.withAdmin(fn)
}

// checkStorageFile refuses what opening would take for the place of a new storage.
func checkStorageFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return ports.Errorf(ports.CodeNotFound, "storage.open", "there is no storage at %s: name its state directory with --state-dir, or its configuration with --config", absolute(path))
	}
	return err
}

func archiverOf(op string, storage ports.Storage) (ports.Archiver, error) {
	archiver, ok := storage.(ports.Archiver)
	if !ok {
		return nil, ports.Errorf(ports.CodeBackendFailed, op, "the module of the storage can neither give out nor take in all that it holds").WithReason(ports.ReasonUnsupported)
	}
	return archiver, nil
}

func storageExportCommand(a *app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write everything that a storage holds, as JSON Lines",
		Long: `Write everything that a storage holds, as it is at one instant, as JSON Lines: a line that names the
format, a line for each record, and a line that counts them, so that an export which was cut off is
refused by import. With --out the file gets its name when it is whole and on the disk; it is readable
for its owner only, and one that exists is never overwritten: the exit code is 4 then.

The storage is the built-in one of the state directory, that of a configuration, or the database file
of --file; it is opened, which brings a file of an older version up, and must not be in use. That of a
daemon is exported by the daemon, with --server and the admin token. A storage that is not there is not
made; the exit code is 3.`,
		Example: `  stowage storage export --out storage.jsonl
  stowage storage export --server http://127.0.0.1:7420 | gzip > storage.jsonl.gz
  stowage storage export --config stowage.toml --out -`,
		Args: cobra.NoArgs,
	}
	t := storageFlags(a, cmd, reachFlags(a, cmd, false, true))
	t.fileFlag()
	cmd.Flags().StringVar(&out, "out", "-", "file to write, or - for standard output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := t.check(); err != nil {
			return err
		}
		ctx := cmd.Context()
		if out == "-" {
			_, err := t.export(ctx, a.out)
			return err
		}
		var records int64
		err := writeAside(out, func(w io.Writer) (err error) {
			records, err = t.export(ctx, w)
			return err
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "wrote %d records to %s\n", records, printable(absolute(out)))
		return err
	}
	return cmd
}

// export writes the archive of the storage and returns how many records it has.
func (t *storageTarget) export(ctx context.Context, w io.Writer) (records int64, err error) {
	if t.remote() {
		err := t.withAdmin(func(daemon adminClient) error {
			records, err = daemon.ExportStorage(ctx, w)
			return err
		})
		return records, err
	}
	err = t.with(ctx, false, func(storage ports.Storage) error {
		archiver, err := archiverOf("storage.export", storage)
		if err != nil {
			return err
		}
		records, err = ports.WriteArchive(ctx, w, archiver)
		return err
	})
	if errors.Is(err, ports.ErrInUse) {
		err = fmt.Errorf("the daemon that has the storage exports it, if you add --server %s: %w", t.reach.address(), err)
	}
	return records, err
}

// writeAside writes a file under another name, syncs it, and gives it its name, which must be free.
// If anything fails nothing is left behind.
func writeAside(path string, write func(io.Writer) error) (err error) {
	exists := func() error {
		return ports.Errorf(ports.CodeAlreadyExists, "storage.export", "%s exists, and was left alone: choose another name", path)
	}
	if path == "" {
		return usagef("the name of the file is empty")
	}
	if _, err := os.Lstat(path); err == nil {
		return exists()
	}
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d.partial", filepath.Base(path), os.Getpid(), time.Now().UnixNano()))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(temp, path) // which, unlike a rename, leaves alone what is there by now
	}
	if errors.Is(err, os.ErrExist) {
		err = exists()
	}
	if err = errors.Join(err, os.Remove(temp)); err != nil {
		return err
	}
	return syncDirectory(dir)
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// archiveCounts says how many records of each category were taken in.
type archiveCounts struct {
	Records     int64 `json:"records"`
	Resources   int64 `json:"resources"`
	Checkpoints int64 `json:"checkpoints"`
	DeadLetters int64 `json:"deadLetters"`
	Pauses      int64 `json:"pauses"`
	Deliveries  int64 `json:"deliveries"`
	GateHits    int64 `json:"gateHits"`
	GateMetas   int64 `json:"gateMetas"`
}

// counting counts the records of a sequence while they are drawn.
func (c *archiveCounts) counting(records iter.Seq2[types.Record, error]) iter.Seq2[types.Record, error] {
	return func(yield func(types.Record, error) bool) {
		*c = archiveCounts{}
		for record, err := range records {
			if err == nil {
				c.add(record)
			}
			if !yield(record, err) {
				return
			}
		}
	}
}

func (c *archiveCounts) add(r types.Record) {
	c.Records++
	switch {
	case r.Resource != nil:
		c.Resources++
	case r.Checkpoint != nil:
		c.Checkpoints++
	case r.DeadLetter != nil:
		c.DeadLetters++
	case r.Pause != nil:
		c.Pauses++
	case r.Delivery != nil:
		c.Deliveries++
	case r.GateHit != nil:
		c.GateHits++
	case r.GateMeta != nil:
		c.GateMetas++
	}
}

func storageImportCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Take what export wrote into an empty storage",
		Long: `Take everything that "storage export" wrote, from FILE or for "-" from standard input, into a storage
that is empty; it is made if it is not there. All of it is stored in one step, or nothing: an archive
that was cut off or changed is refused with exit code 2, a storage that holds anything with 4.

The storage is the built-in one of the state directory, that of a configuration, or the database file
of --file. It must not be in use: stop the daemon first.`,
		Example: `  stowage storage import storage.jsonl
  gzip -d < storage.jsonl.gz | stowage storage import --config stowage.toml -`,
		Args: cobra.ExactArgs(1),
	}
	r := &reach{app: a}
	t := storageFlags(a, cmd, r)
	t.fileFlag()
	cmd.Flags().StringVar(&r.stateDir, "state-dir", "", "state directory (default $"+envStateDir+", else "+defaultStateDir+")")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := t.check(); err != nil {
			return err
		}
		archive, err := openArchive(cmd.Context(), a, args[0])
		if err != nil {
			return err
		}
		defer archive.Close() //nolint:errcheck // it was only read
		counts, err := t.importFrom(cmd.Context(), archive)
		if err != nil {
			return err
		}
		return emit(a.out, output.value, data{
			whole: counts,
			table: func(t *table) {
				t.row("CATEGORY", "RECORDS")
				t.row("resources", count(counts.Resources))
				t.row("checkpoints", count(counts.Checkpoints))
				t.row("dead letters", count(counts.DeadLetters))
				t.row("pauses", count(counts.Pauses))
				t.row("deliveries", count(counts.Deliveries))
				t.row("gate hits", count(counts.GateHits))
				t.row("gate metas", count(counts.GateMetas))
				t.row("total", count(counts.Records))
			},
		})
	}
	return cmd
}

// openArchive opens the file before any storage is made for it.
func openArchive(ctx context.Context, a *app, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(a.input(ctx)), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(usagef("%s is a directory: give a file that \"stowage storage export\" wrote", path), f.Close())
	}
	return f, nil
}

func (t *storageTarget) importFrom(ctx context.Context, archive io.Reader) (archiveCounts, error) {
	var counts archiveCounts
	err := t.with(ctx, true, func(storage ports.Storage) error {
		archiver, err := archiverOf("storage.import", storage)
		if err != nil {
			return err
		}
		_, err = archiver.Import(ctx, counts.counting(ports.ReadArchive(archive)))
		return err
	})
	if errors.Is(err, ports.ErrInUse) {
		err = fmt.Errorf("an import has the storage for itself, stop the daemon first: %w", err)
	}
	return counts, err
}
