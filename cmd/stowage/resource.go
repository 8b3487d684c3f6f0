package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func resourceCommand(a *app) *cobra.Command {
	return group("resource", "Work with versioned resources",
		`Work with the versioned resources of the daemon: JSON records, each with a kind, an id and a version. A
change names the version that it replaces, so that nobody overwrites what he has not seen.`,
		`  stowage resource put settings limits '{"max":5}'
  stowage resource get settings limits
  stowage resource apply -f resources.jsonl`,
		resourceListCommand(a),
		resourceGetCommand(a),
		resourcePutCommand(a),
		resourceDeleteCommand(a),
		resourceApplyCommand(a),
	)
}

func resourceListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [KIND]",
		Short: "List the resources of a kind, or the kinds",
		Long: `List the resources of a kind, ordered by id; without a kind, list the kinds. -o jsonl prints one
resource a line, in the form that "resource apply" reads.`,
		Example: `  stowage resource list
  stowage resource list settings -o jsonl > settings.jsonl`,
		Args: cobra.MaximumNArgs(1),
	}
	output := outputFlag(cmd)
	return operation(a, cmd, func(client operatorClient, args []string) error {
		if len(args) == 0 {
			return listKinds(cmd.Context(), a, client, output.value)
		}
		items := []resourceItem{}
		var opts types.ResourceListOptions
		for {
			page, err := client.ListResources(cmd.Context(), types.ResourceKind(args[0]), opts)
			if err != nil {
				return err
			}
			for _, r := range page.Resources {
				items = append(items, resourceItem(r))
			}
			if page.Next == "" {
				break
			}
			opts.After = page.Next
		}
		return emit(a.out, output.value, data{
			whole: struct {
				Resources []resourceItem `json:"resources"`
			}{items},
			items: anySlice(items),
			table: func(t *table) {
				t.row("KIND", "ID", "VERSION", "BYTES")
				for _, r := range items {
					t.row(string(r.Kind), r.ID, strconv.FormatUint(r.Version, 10), strconv.Itoa(len(r.Value)))
				}
			},
		})
	})
}

func listKinds(ctx context.Context, a *app, client operatorClient, format string) error {
	kinds, err := client.ResourceKinds(ctx)
	if err != nil {
		return err
	}
	if kinds == nil {
		kinds = []types.ResourceKind{}
	}
	return emit(a.out, format, data{
		whole: struct {
			Kinds []types.ResourceKind `json:"kinds"`
		}{kinds},
		items: anySlice(kinds),
		table: func(t *table) {
			t.row("KIND")
			for _, kind := range kinds {
				t.row(string(kind))
			}
		},
	})
}

func resourceGetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get KIND ID",
		Short: "Write the value of a resource to standard output",
		Long: `Write exactly the bytes of the value to standard output. -o json gives it with its version. A resource
that is not there gives exit code 3.`,
		Example: `  stowage resource get settings limits
  stowage resource get settings limits -o json`,
		Args: cobra.ExactArgs(2),
	}
	output := outputFlag(cmd, formatRaw, formatJSON, formatJSONL)
	return operation(a, cmd, func(client operatorClient, args []string) error {
		r, found, err := client.GetResource(cmd.Context(), types.ResourceKind(args[0]), args[1])
		if err != nil {
			return err
		}
		if !found {
			return ports.Errorf(ports.CodeNotFound, "resource.get", "there is no resource %s/%s: \"stowage resource list %s\" shows those that there are", args[0], args[1], args[0])
		}
		if output.value != formatRaw {
			return emit(a.out, output.value, data{whole: resourceItem(r)})
		}
		if _, err := a.out.Write(r.Value); err != nil {
			return fmt.Errorf("write the value: %w", err)
		}
		return nil
	})
}

func resourcePutCommand(a *app) *cobra.Command {
	var file string
	var version uint64
	cmd := &cobra.Command{
		Use:   "put KIND ID [VALUE]",
		Short: "Create a resource, or replace the value of a version",
		Long: `Create a resource; with --if-version replace the value of the resource that has this version. The value
is any JSON, as an argument or from a file, and is kept byte for byte. The new version is printed.

A resource that is there already, and one of another version, is left alone; the exit code is 4. With
--if-version, one that is not there gives 3.`,
		Example: `  stowage resource put settings limits '{"max":5}'
  stowage resource put settings limits '{"max":6}' --if-version 1
  stowage resource put settings limits --file limits.json --if-version 2`,
		Args: cobra.RangeArgs(2, 3),
	}
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&file, "file", "", "take the value from this file, or from standard input for -")
	cmd.Flags().Uint64Var(&version, "if-version", 0, "replace the value of this version")
	return operation(a, cmd, func(client operatorClient, args []string) error {
		if cmd.Flags().Changed("if-version") && version == 0 {
			return usagef("--if-version is 0: versions start at 1, and a resource is created without the flag")
		}
		var value []byte
		switch {
		case (len(args) == 3) == (file != ""):
			return usagef("give the value either as an argument or with --file")
		case file != "":
			var err error
			if value, err = a.readAll(cmd.Context(), file, ports.MaxJSONBytes); err != nil {
				return err
			}
		default:
			value = []byte(args[2])
		}
		kind, id := types.ResourceKind(args[0]), args[1]
		if err := ports.CheckResource("resource.put", kind, id, value, version); err != nil {
			return err
		}
		stored, err := client.PutResource(cmd.Context(), kind, id, value, version)
		if err != nil {
			return err
		}
		return emit(a.out, output.value, data{
			whole: resourceItem{Kind: kind, ID: id, Version: stored},
			table: func(t *table) { t.row(fmt.Sprintf("%s/%s has version %d", kind, id, stored)) },
		})
	})
}

// readAll reads a file, or standard input, of at most limit bytes.
func (a *app) readAll(ctx context.Context, path string, limit int64) ([]byte, error) {
	from := a.input(ctx)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the value: %w", err)
		}
		defer f.Close()
		from = f
	}
	value, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the value from %s: %w", path, err)
	}
	return value, nil
}

func resourceDeleteCommand(a *app) *cobra.Command {
	var version uint64
	cmd := &cobra.Command{
		Use:   "delete KIND ID",
		Short: "Delete a resource",
		Long: `Delete a resource of the version that --if-version names; without the flag, the version that is there
when the command runs, after a question on a terminal or with --yes elsewhere.`,
		Example: `  stowage resource delete settings limits --if-version 3
  stowage resource delete settings limits --yes`,
		Args: cobra.ExactArgs(2),
	}
	yes := yesFlag(cmd)
	cmd.Flags().Uint64Var(&version, "if-version", 0, "delete it only if it has this version")
	return operation(a, cmd, func(client operatorClient, args []string) error {
		kind, id := types.ResourceKind(args[0]), args[1]
		if err := ports.CheckResourceKey("resource.delete", kind, id); err != nil {
			return err
		}
		if cmd.Flags().Changed("if-version") {
			return client.DeleteResource(cmd.Context(), kind, id, version)
		}
		r, found, err := client.GetResource(cmd.Context(), kind, id)
		if err != nil {
			return err
		}
		if !found {
			return ports.Errorf(ports.CodeNotFound, "resource.delete", "there is no resource %s/%s", kind, id)
		}
		if err := a.confirm(cmd.Context(), *yes, fmt.Sprintf("Delete the resource %s/%s of version %d?", kind, id, r.Version)); err != nil {
			return err
		}
		return client.DeleteResource(cmd.Context(), kind, id, r.Version)
	})
}

func resourceApplyCommand(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Bring resources to the state that a file describes",
		Long: `Bring resources to the state that a file describes: JSON Lines, each {"kind","id","value"}; a version,
as "resource list -o jsonl" prints it, may stand there and has to be the current one then. A resource
that is not there is created, one with another value is updated, one with the same value is left alone.
What the file does not name is not touched.

All lines are checked before the first is applied. They are applied one after the other; the first that
fails ends the command, which says what was done before. It may be repeated.`,
		Example: `  stowage resource apply -f resources.jsonl
  stowage resource list settings -o jsonl | stowage resource apply -f - --server http://127.0.0.1:7421`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "JSON Lines, or - for standard input")
	return operation(a, cmd, func(client operatorClient, _ []string) error {
		if file == "" {
			return usagef("nothing says what to apply: give -f FILE, or -f - for standard input")
		}
		text, err := a.readAll(cmd.Context(), file, maxApply)
		if err != nil {
			return err
		}
		wanted, err := parseResources(text)
		if err != nil {
			return err
		}
		done := []appliedItem{}
		for _, r := range wanted {
			item, err := applyResource(cmd.Context(), client, r)
			if err != nil {
				return errors.Join(fmt.Errorf("%s/%s: %w", r.Kind, r.ID, err), emitApplied(a, output.value, done))
			}
			done = append(done, item)
		}
		return emitApplied(a, output.value, done)
	})
}

// maxApply bounds the file of an apply, which is held in memory.
const maxApply = 256 << 20

// parseResources reads and checks all lines.
func parseResources(text []byte) ([]resourceItem, error) {
	if len(text) > maxApply {
		return nil, usagef("the file has more than %d bytes: apply it in parts", maxApply)
	}
	type key struct {
		kind types.ResourceKind
		id   string
	}
	var list []resourceItem
	lines := map[key]int{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var r resourceItem
		err := ports.DecodeJSON(line, &r)
		if err == nil {
			err = ports.CheckResource("resource.apply", r.Kind, r.ID, r.Value, 0)
		}
		if err == nil && r.Version > ports.MaxStoredInteger {
			err = fmt.Errorf("the version is %d: it is at most %d", r.Version, uint64(ports.MaxStoredInteger))
		}
		if err != nil {
			return nil, ports.Errorf(ports.CodeInvalidInput, "resource.apply", "line %d: %w; nothing was applied", number, err)
		}
		if earlier, twice := lines[key{r.Kind, r.ID}]; twice {
			return nil, ports.Errorf(ports.CodeInvalidInput, "resource.apply", "line %d: %s/%s stands in line %d already; nothing was applied", number, r.Kind, r.ID, earlier)
		}
		lines[key{r.Kind, r.ID}] = number
		list = append(list, r)
	}
	return list, nil
}

type appliedItem struct {
	Kind    types.ResourceKind `json:"kind"`
	ID      string             `json:"id"`
	Version uint64             `json:"version"`
	Result  string             `json:"result"` // created, updated, unchanged
}

func applyResource(ctx context.Context, client operatorClient, wanted resourceItem) (appliedItem, error) {
	item := appliedItem{Kind: wanted.Kind, ID: wanted.ID}
	current, found, err := client.GetResource(ctx, wanted.Kind, wanted.ID)
	if err != nil {
		return item, err
	}
	item.Version, item.Result = current.Version, "unchanged"
	same := found && sameJSON(current.Value, wanted.Value)
	switch {
	case found && wanted.Version != 0 && wanted.Version != current.Version && !same:
		return item, &ports.VersionConflictError{Op: "resource.apply", Key: string(wanted.Kind) + "/" + wanted.ID, Expected: wanted.Version, Actual: current.Version}
	case same:
		return item, nil
	}
	item.Result = "updated"
	if !found {
		item.Result = "created"
	}
	item.Version, err = client.PutResource(ctx, wanted.Kind, wanted.ID, wanted.Value, current.Version)
	return item, err
}

// sameJSON compares values without their white space, which a line of a file cannot keep.
func sameJSON(a, b json.RawMessage) bool {
	x, errX := ports.CompactJSON(string(a))
	y, errY := ports.CompactJSON(string(b))
	return errX == nil && errY == nil && x == y
}

func emitApplied(a *app, format string, done []appliedItem) error {
	return emit(a.out, format, data{
		whole: struct {
			Resources []appliedItem `json:"resources"`
		}{done},
		items: anySlice(done),
		table: func(t *table) {
			t.row("KIND", "ID", "VERSION", "RESULT")
			for _, item := range done {
				t.row(string(item.Kind), item.ID, strconv.FormatUint(item.Version, 10), item.Result)
			}
		},
	})
}
