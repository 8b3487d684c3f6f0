package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func checkpointCommand(a *app) *cobra.Command {
	return group("checkpoint", "See and set how far pipelines have come",
		`See and set the checkpoints of the daemon's pipelines. A checkpoint is the cursor up to which every
event was dealt with: delivered, recorded as a dead letter, or passed over.`,
		`  stowage checkpoint list
  stowage checkpoint show earthquakes -o json
  stowage checkpoint set earthquakes 0 0 --module ndjson`,
		checkpointListCommand(a),
		checkpointShowCommand(a),
		checkpointSetCommand(a),
		checkpointDeleteCommand(a),
	)
}

func checkpointListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the checkpoints of all pipelines",
		Long:    `List the checkpoints of all pipelines, ordered by pipeline.`,
		Example: `  stowage checkpoint list -o json`,
		Args:    cobra.NoArgs,
	}
	output := outputFlag(cmd)
	return operation(a, cmd, func(client operatorClient, _ []string) error {
		list, err := client.Checkpoints(cmd.Context())
		if err != nil {
			return err
		}
		items := make([]checkpointItem, len(list))
		for i, c := range list {
			items[i] = checkpointItem(c)
		}
		return emit(a.out, output.value, data{
			whole: struct {
				Checkpoints []checkpointItem `json:"checkpoints"`
			}{items},
			items: anySlice(items),
			table: func(t *table) { checkpointTable(t, items...) },
		})
	})
}

func checkpointTable(t *table, items ...checkpointItem) {
	t.row("PIPELINE", "PRIMARY", "SECONDARY", "MODULE", "UPDATED")
	for _, c := range items {
		module := "-"
		if c.Checkpoint.Module != nil {
			module = *c.Checkpoint.Module
		}
		cursor := c.Checkpoint.Cursor
		t.row(string(c.Pipeline), strconv.FormatUint(cursor.Primary, 10), strconv.FormatUint(cursor.Secondary, 10), module, moment(c.Checkpoint.UpdatedAt))
	}
}

func checkpointShowCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show PIPELINE",
		Short:   "Show the checkpoint of a pipeline",
		Long:    `Show the checkpoint of a pipeline. One that has none yet gives exit code 3.`,
		Example: `  stowage checkpoint show earthquakes`,
		Args:    cobra.ExactArgs(1),
	}
	output := outputFlag(cmd)
	return operation(a, cmd, func(client operatorClient, args []string) error {
		pipeline := types.PipelineID(args[0])
		checkpoint, found, err := client.Checkpoint(cmd.Context(), pipeline)
		if err != nil {
			return err
		}
		if !found {
			return missingCheckpoint("checkpoint.show", pipeline)
		}
		return emitCheckpoint(a, output.value, pipeline, checkpoint)
	})
}

func missingCheckpoint(op string, pipeline types.PipelineID) error {
	return ports.Errorf(ports.CodeNotFound, op, "the pipeline %q has no checkpoint: \"stowage checkpoint list\" shows those that there are", pipeline)
}

func emitCheckpoint(a *app, format string, pipeline types.PipelineID, checkpoint types.Checkpoint) error {
	item := checkpointItem{pipeline, checkpoint}
	return emit(a.out, format, data{whole: item, table: func(t *table) { checkpointTable(t, item) }})
}

func checkpointSetCommand(a *app) *cobra.Command {
	var module string
	var override bool
	cmd := &cobra.Command{
		Use:   "set PIPELINE PRIMARY SECONDARY",
		Short: "Set the checkpoint of a pipeline",
		Long: `Set the checkpoint of a pipeline. What lies behind the cursor comes next: a lower cursor makes events
come again, a higher one leaves events out for good.

A cursor means something to the source module that counts it. Where a module has written the checkpoint
that is there, --module has to name it, or --override says that the change is meant all the same;
otherwise the exit code is 4, and nothing is changed.`,
		Example: `  stowage checkpoint set earthquakes 1048576 0 --module ndjson
  stowage checkpoint set earthquakes 0 0 --override`,
		Args: cobra.ExactArgs(3),
	}
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&module, "module", "", "the source module whose position the cursor is")
	cmd.Flags().BoolVar(&override, "override", false, "set it whoever wrote the checkpoint that is there")
	return operation(a, cmd, func(client operatorClient, args []string) error {
		cursor, err := parseCursor(args[1], args[2])
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("module") && module == "" {
			return usagef("--module is empty: name the source module, or leave it out")
		}
		change := types.CheckpointChange{Cursor: cursor, Override: override}
		if cmd.Flags().Changed("module") {
			change.Module = &module
		}
		pipeline := types.PipelineID(args[0])
		checkpoint, err := client.SetCheckpoint(cmd.Context(), pipeline, change)
		if err != nil {
			return err
		}
		return emitCheckpoint(a, output.value, pipeline, checkpoint)
	})
}

func parseCursor(primary, secondary string) (types.Cursor, error) {
	var parts [2]uint64
	for i, text := range []string{primary, secondary} {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return types.Cursor{}, usagef("%q is no part of a cursor: give a whole number from 0 to %d", text, uint64(ports.MaxStoredInteger))
		}
		parts[i] = n
	}
	return types.Cursor{Primary: parts[0], Secondary: parts[1]}, nil
}

func checkpointDeleteCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete PIPELINE",
		Short: "Delete the checkpoint of a pipeline",
		Long: `Delete the checkpoint of a pipeline, which starts from the beginning of its source then. One that has
none gives exit code 3. On a terminal the command asks first; elsewhere it wants --yes.`,
		Example: `  stowage checkpoint delete earthquakes --yes`,
		Args:    cobra.ExactArgs(1),
	}
	yes := yesFlag(cmd)
	return operation(a, cmd, func(client operatorClient, args []string) error {
		pipeline := types.PipelineID(args[0])
		if err := ports.CheckPipeline("checkpoint.delete", pipeline); err != nil {
			return err
		}
		if err := a.confirm(cmd.Context(), *yes, fmt.Sprintf("Delete the checkpoint of %s, so that it starts from the beginning?", pipeline)); err != nil {
			return err
		}
		found, err := client.DeleteCheckpoint(cmd.Context(), pipeline)
		if err == nil && !found {
			err = missingCheckpoint("checkpoint.delete", pipeline)
		}
		return err
	})
}
