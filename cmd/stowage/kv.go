package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func kvCommand(a *app) *cobra.Command {
	return group("kv", "Work with a key-value store",
		`Work with a key-value store: the one in a data directory (--dir), or one of a configuration (--config
and --store). Without either it is kv/default in the state directory. Any number of processes may use
a store at the same time, unless it is opened with --single.

Keys are 1 to 512 bytes of A-Z a-z 0-9 - _ : and dot; values are up to 24,576 bytes.`,
		`  stowage kv put greeting hello --ttl 1h
  stowage kv get greeting
  stowage kv scan --prefix gree -o json`,
		kvGetCommand(a),
		kvPutCommand(a),
		kvDeleteCommand(a),
		kvExistsCommand(a),
		kvScanCommand(a),
	)
}

// kvTarget is the store that a command works on.
type kvTarget struct {
	app      *app
	cmd      *cobra.Command
	dir      string
	config   string
	store    string
	stateDir string
	single   bool
}

func kvFlags(a *app, cmd *cobra.Command) *kvTarget {
	t := &kvTarget{app: a, cmd: cmd}
	flags := cmd.Flags()
	flags.StringVar(&t.dir, "dir", "", "data directory of the store")
	flags.StringVar(&t.config, "config", "", "configuration that names the store")
	flags.StringVar(&t.store, "store", "default", "with --config: the NAME of [kv.NAME]")
	flags.StringVar(&t.stateDir, "state-dir", "", "state directory (default $"+envStateDir+", else "+defaultStateDir+")")
	flags.BoolVar(&t.single, "single", false, "with --dir: keep other processes out")
	return t
}

// with opens the store, lends it to fn and closes it. A store that is not there yet is made only if
// create is set; otherwise it is NOT_FOUND, and nothing is made.
func (t *kvTarget) with(ctx context.Context, create bool, fn func(ports.Kv) error) error {
	store, err := t.open(ctx, create)
	if err != nil {
		return err
	}
	return errors.Join(fn(store), store.Close())
}

func (t *kvTarget) open(ctx context.Context, create bool) (ports.KvStore, error) {
	if _, err := oneOf(t.cmd, "dir", "config"); err != nil {
		return nil, err
	}
	if t.config == "" && t.cmd.Flags().Changed("store") {
		return nil, usagef("--store goes with --config")
	}
	if t.config != "" {
		if t.single {
			return nil, usagef("--single goes with --dir: a configuration sets the mode itself")
		}
		return openConfiguredKv(ctx, t.app, t.config, t.stateDir, t.store, create)
	}
	if t.cmd.Flags().Changed("dir") && t.dir == "" {
		return nil, usagef("--dir is empty: name the data directory")
	}
	return openKvDir(ctx, t.app, firstOf(t.dir, defaultKvDir(stateDir(t.app, t.stateDir))), t.single, create)
}

// kvEntry is an entry as -o json prints it: the value in base64, times in milliseconds since 1970.
type kvEntry struct {
	Key       string          `json:"key"`
	Value     []byte          `json:"value"`
	Version   types.KvVersion `json:"version"`
	ExpiresAt *int64          `json:"expiresAt,omitempty"`
}

func wireEntry(e types.KvEntry) kvEntry {
	wire := kvEntry{Key: e.Key, Value: e.Value, Version: e.Version}
	if wire.Value == nil {
		wire.Value = []byte{}
	}
	if !e.ExpiresAt.IsZero() {
		at := e.ExpiresAt.UnixMilli()
		wire.ExpiresAt = &at
	}
	return wire
}

func kvGetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Write the value of a key to standard output",
		Long: `Write exactly the bytes of the value to standard output, without a line end. -o json gives the value
in base64 with its version, for --if-version, and the millisecond at which it expires.

A missing key, and a store that is not there, give exit code 3; nothing is created.`,
		Example: `  stowage kv get greeting
  stowage kv get greeting --dir /srv/app/kv -o json`,
		Args: cobra.ExactArgs(1),
	}
	t := kvFlags(a, cmd)
	output := outputFlag(cmd, formatRaw, formatJSON, formatJSONL)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.with(cmd.Context(), false, func(kv ports.Kv) error {
			entry, found, err := kv.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !found {
				return missingKey("kv.get", args[0])
			}
			if output.value != formatRaw {
				return emit(a.out, output.value, data{whole: wireEntry(entry)})
			}
			if _, err := a.out.Write(entry.Value); err != nil {
				return fmt.Errorf("write the value: %w", err)
			}
			return nil
		})
	}
	return cmd
}

func missingKey(op, key string) error {
	return ports.Errorf(ports.CodeNotFound, op, "there is no live entry with the key %q", key)
}

func kvPutCommand(a *app) *cobra.Command {
	var file, version string
	var ttl time.Duration
	var absent bool
	cmd := &cobra.Command{
		Use:   "put KEY [VALUE | -]",
		Short: "Store a value under a key",
		Long: `Store a value under a key: an argument, the bytes of a file with --file, or those of standard input
with "-". A put without --ttl clears an earlier one.

--if-absent stores only if the key has no live entry; --if-version only if the live entry is still the
one whose version "kv get -o json" showed. If the condition does not hold, nothing is changed and the
exit code is 4. The version of the stored value is printed.`,
		Example: `  stowage kv put greeting hello --ttl 1h
  stowage kv put lock "$HOSTNAME" --if-absent --ttl 30s
  gzip -c state.json | stowage kv put state -`,
		Args: cobra.RangeArgs(1, 2),
	}
	t := kvFlags(a, cmd)
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&file, "file", "", "store the bytes of this file")
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "how long the value lives (default for ever)")
	cmd.Flags().BoolVar(&absent, "if-absent", false, "only if the key has no live entry")
	cmd.Flags().StringVar(&version, "if-version", "", "only if the live entry has this version")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		condition, err := conditionOf(cmd, absent, version)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("ttl") && ttl <= 0 {
			return usagef("--ttl is %v: give a duration above 0, like 30s, or leave it out", ttl)
		}
		value, err := valueOf(a, cmd, args, file)
		if err != nil {
			return err
		}
		options := types.PutOptions{TTL: ttl, If: condition}
		// What is wrong with the input is found before a store is made for it.
		if _, err := ports.CheckPut("kv.put", args[0], value, options, time.Now()); err != nil {
			return err
		}
		return t.with(cmd.Context(), true, func(kv ports.Kv) error {
			result, err := kv.Put(cmd.Context(), args[0], value, options)
			if err != nil {
				return err
			}
			if !result.Applied {
				return unmet("kv.put", args[0], absent)
			}
			return emit(a.out, output.value, data{
				whole: struct {
					Key     string          `json:"key"`
					Version types.KvVersion `json:"version"`
				}{args[0], result.Version},
				table: func(t *table) { t.row(string(result.Version)) },
			})
		})
	}
	return cmd
}

func conditionOf(cmd *cobra.Command, absent bool, version string) (types.Condition, error) {
	given := cmd.Flags().Changed("if-version")
	switch {
	case absent && given:
		return types.Condition{}, usagef("--if-absent and --if-version exclude each other: give one of them")
	case absent:
		return types.IfAbsent(), nil
	case given:
		return types.IfVersion(types.KvVersion(version)), nil
	}
	return types.Always(), nil
}

func unmet(op, key string, absent bool) error {
	if absent {
		return ports.Errorf(ports.CodeAlreadyExists, op, "the key %q has a live entry, and was left alone", key)
	}
	return exitf(exitPrecondition, "the live entry of the key %q is gone or has another version: nothing was changed; read it again and repeat", key)
}

func valueOf(a *app, cmd *cobra.Command, args []string, file string) ([]byte, error) {
	named := cmd.Flags().Changed("file")
	switch {
	case named && len(args) == 2:
		return nil, usagef("a value and --file exclude each other: give one of them")
	case !named && len(args) == 1:
		return nil, usagef("there is no value: give it as an argument, with --file, or on standard input with \"-\"")
	case named:
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the value: %w", err)
		}
		defer f.Close()
		return readValue(f)
	case args[1] == "-":
		return readValue(a.input(cmd.Context()))
	}
	return []byte(args[1]), nil
}

// readValue reads no more than it takes to see that a value is too large.
func readValue(r io.Reader) ([]byte, error) {
	value, err := io.ReadAll(io.LimitReader(r, ports.MaxValueBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the value: %w", err)
	}
	if len(value) > ports.MaxValueBytes {
		return nil, ports.Errorf(ports.CodeInvalidInput, "kv.put", "the value has more than %d bytes, which is the most that one can have", ports.MaxValueBytes)
	}
	return value, nil
}

func kvDeleteCommand(a *app) *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "delete KEY",
		Short: "Remove a key",
		Long: `Remove a key, whether or not it is there. With --if-version it is removed only if its live entry is
still the one of that version; otherwise nothing is changed and the exit code is 4.`,
		Example: `  stowage kv delete greeting`,
		Args:    cobra.ExactArgs(1),
	}
	t := kvFlags(a, cmd)
	cmd.Flags().StringVar(&version, "if-version", "", "only if the live entry has this version")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		condition, err := conditionOf(cmd, false, version)
		if err != nil {
			return err
		}
		return t.with(cmd.Context(), false, func(kv ports.Kv) error {
			held, err := kv.Delete(cmd.Context(), args[0], condition)
			if err == nil && !held {
				return unmet("kv.delete", args[0], false)
			}
			return err
		})
	}
	return cmd
}

func kvExistsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "exists KEY",
		Short:   "Tell by the exit code whether a key is there",
		Long:    `Exit with 0 if the key has a live entry, with 3 if it has none or the store is not there.`,
		Example: `  stowage kv exists greeting && echo yes`,
		Args:    cobra.ExactArgs(1),
	}
	t := kvFlags(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.with(cmd.Context(), false, func(kv ports.Kv) error {
			found, err := kv.Exists(cmd.Context(), args[0])
			if err == nil && !found {
				return &quietError{exitNotFound}
			}
			return err
		})
	}
	return cmd
}

func kvScanCommand(a *app) *cobra.Command {
	var prefix, cursor string
	var limit int
	cmd := &cobra.Command{
		Use:   "scan [--prefix PREFIX]",
		Short: "List entries, all or those whose keys start with a prefix",
		Long: `List the live entries, all or those whose keys start with a prefix, in the order of the bytes of the
keys. If more remain, the cursor for the next page is printed: on standard error, or as "cursor" with -o json.
Values are in base64 in JSON; the table shows those that are text.`,
		Example: `  stowage kv scan
  stowage kv scan --prefix user:
  stowage kv scan --prefix user: --limit 100 -o json`,
		Args: cobra.NoArgs,
	}
	t := kvFlags(a, cmd)
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&prefix, "prefix", "", "what the keys start with (default: list all)")
	cmd.Flags().IntVar(&limit, "limit", ports.MaxScanLimit, "the most entries to list, 1 to 1000")
	cmd.Flags().StringVar(&cursor, "cursor", "", "go on where the scan before ended")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit == 0 {
			return usagef("--limit is 0: give 1 to %d", ports.MaxScanLimit)
		}
		return t.with(cmd.Context(), false, func(kv ports.Kv) error {
			options := types.ScanOptions{Limit: limit, Cursor: types.KvCursor(cursor)}
			scan := kv.ScanPrefix
			if !cmd.Flags().Changed("prefix") {
				scan = func(ctx context.Context, _ string, opts types.ScanOptions) (types.KvPage, error) {
					return scanAll(ctx, kv, opts)
				}
			}
			page, err := scan(cmd.Context(), prefix, options)
			if err != nil {
				return err
			}
			wire := make([]kvEntry, len(page.Entries))
			for i, e := range page.Entries {
				wire[i] = wireEntry(e)
			}
			if page.Cursor != "" && output.value != formatJSON {
				fmt.Fprintf(a.err, "more entries remain: --cursor %s\n", page.Cursor)
			}
			return emit(a.out, output.value, data{
				whole: struct {
					Entries []kvEntry      `json:"entries"`
					Cursor  types.KvCursor `json:"cursor,omitempty"`
				}{wire, page.Cursor},
				items: anySlice(wire),
				table: func(t *table) {
					t.row("KEY", "EXPIRES", "VALUE")
					for _, e := range page.Entries {
						expires := "never"
						if !e.ExpiresAt.IsZero() {
							expires = timestamp(e.ExpiresAt)
						}
						t.row(e.Key, expires, preview(e.Value))
					}
				},
			})
		})
	}
	return cmd
}

// firstBytes are the bytes that a key can start with, in their order.
const firstBytes = "-.0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

// scanAll scans a whole store, prefix by prefix. Its cursor is the first byte of the keys to go on with
// and the cursor of the scan of that byte, empty for its beginning.
func scanAll(ctx context.Context, kv ports.Kv, opts types.ScanOptions) (types.KvPage, error) {
	const op = "kv.scan"
	if _, err := ports.CheckScan(op, firstBytes[:1], types.ScanOptions{Limit: opts.Limit}); err != nil {
		return types.KvPage{}, err
	}
	at, inner := 0, types.KvCursor("")
	if opts.Cursor != "" {
		first, rest, ok := strings.Cut(string(opts.Cursor), "/")
		if at = strings.Index(firstBytes, first); !ok || len(first) != 1 || at < 0 {
			return types.KvPage{}, ports.Errorf(ports.CodeInvalidInput, op, "the cursor is not one of a scan without a prefix: pass on the one that the page before printed")
		}
		inner = types.KvCursor(rest)
	}
	var all types.KvPage
	for ; at < len(firstBytes); at, inner = at+1, "" {
		first := firstBytes[at : at+1]
		// With the page full, one entry more tells whether any remain.
		room := opts.Limit - len(all.Entries)
		page, err := kv.ScanPrefix(ctx, first, types.ScanOptions{Limit: max(room, 1), Cursor: inner})
		if err != nil {
			return types.KvPage{}, err
		}
		if room == 0 && len(page.Entries) > 0 {
			all.Cursor = types.KvCursor(first + "/")
			return all, nil
		}
		all.Entries = append(all.Entries, page.Entries...)
		if page.Cursor != "" {
			all.Cursor = types.KvCursor(first+"/") + page.Cursor
			return all, nil
		}
	}
	return all, nil
}

// preview shows a value that is text, and the size of any other.
func preview(value []byte) string {
	text := string(value)
	if !utf8.ValidString(text) {
		return fmt.Sprintf("(%d bytes)", len(value))
	}
	for _, r := range text {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' && r != '\r' {
			return fmt.Sprintf("(%d bytes)", len(value))
		}
	}
	return text
}
