package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const pauseTargets = `TARGET is pipeline, monitor or sink. The ID of a pipeline is its name; that of a monitor or a sink is
PIPELINE/NAME. Only the form of a name is checked: a pause may be there before what it is for.`

func pauseCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause TARGET ID",
		Short: "Pause a pipeline, a monitor or a sink",
		Long: `Pause a pipeline, a monitor or a sink of the daemon. The pause is stored before the command returns,
survives restarts, and holds for replays of dead letters too. One that is there already is no failure.
The command says so where the daemon has nothing of that name now.

` + pauseTargets,
		Example: `  stowage pause pipeline earthquakes
  stowage pause sink earthquakes/alerts`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTarget,
	}
	return operation(a, cmd, func(client operatorClient, args []string) error {
		pause := pauseOf(args)
		if err := client.Pause(cmd.Context(), pause); err != nil {
			return err
		}
		return sayPaused(cmd.Context(), a, client, pause, "is paused")
	})
}

func resumeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume TARGET ID",
		Short: "End a pause",
		Long: `End a pause. That there is none is no failure.

` + pauseTargets,
		Example:           `  stowage resume sink earthquakes/alerts`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTarget,
	}
	return operation(a, cmd, func(client operatorClient, args []string) error {
		pause := pauseOf(args)
		if err := client.Resume(cmd.Context(), pause); err != nil {
			return err
		}
		return sayPaused(cmd.Context(), a, client, pause, "is not paused")
	})
}

func pauseOf(args []string) types.Pause {
	return types.Pause{Target: types.PauseTarget(args[0]), ID: args[1]}
}

// sayPaused prints what is paused now, or is not, and warns where the daemon has nothing of that name. What
// it was asked for is done by then, so that a daemon which cannot tell is no failure.
func sayPaused(ctx context.Context, a *app, client operatorClient, pause types.Pause, state string) error {
	if _, err := fmt.Fprintf(a.out, "%s %s %s\n", pause.Target, printable(pause.ID), state); err != nil {
		return fmt.Errorf("write what was done: %w", err)
	}
	pipelines, err := client.Pipelines(ctx)
	switch {
	case errors.Is(err, ports.ErrNotFound): // it runs no pipelines itself
	case err != nil:
		fmt.Fprintf(a.err, "warning: whether there is a %s %s could not be looked up: %s\n", pause.Target, printable(pause.ID), oneLine(describe(err)))
	case !hasTarget(pipelines, pause):
		fmt.Fprintf(a.err, "warning: the daemon has no %s %s now: \"stowage pipeline list\" and \"stowage pipeline show ID\" show what it has\n", pause.Target, printable(pause.ID))
	}
	return nil
}

// hasTarget reports whether one of the pipelines is, or has, what a pause is for.
func hasTarget(pipelines []types.PipelineStatus, pause types.Pause) bool {
	for _, p := range pipelines {
		if pause.Target == types.PausePipeline && string(p.ID) == pause.ID {
			return true
		}
		name, ok := strings.CutPrefix(pause.ID, string(p.ID)+"/")
		if !ok {
			continue
		}
		switch pause.Target {
		case types.PauseMonitor:
			return slices.ContainsFunc(p.Monitors, func(m types.MonitorStatus) bool { return string(m.ID) == name })
		case types.PauseSink:
			return slices.ContainsFunc(p.Sinks, func(s types.SinkStatus) bool { return string(s.ID) == name })
		}
	}
	return false
}

func completeTarget(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{string(types.PausePipeline), string(types.PauseMonitor), string(types.PauseSink)}, cobra.ShellCompDirectiveNoFileComp
}

func pausesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pauses",
		Short:   "List what is paused",
		Long:    `List what is paused in the daemon, ordered by target and id.`,
		Example: `  stowage pauses -o json`,
		Args:    cobra.NoArgs,
	}
	output := outputFlag(cmd)
	return operation(a, cmd, func(client operatorClient, _ []string) error {
		pauses, err := client.Pauses(cmd.Context())
		if err != nil {
			return err
		}
		if pauses == nil {
			pauses = []types.Pause{}
		}
		return emit(a.out, output.value, data{
			whole: struct {
				Pauses []types.Pause `json:"pauses"`
			}{pauses},
			items: anySlice(pauses),
			table: func(t *table) {
				t.row("TARGET", "ID")
				for _, p := range pauses {
					t.row(string(p.Target), p.ID)
				}
			},
		})
	})
}
