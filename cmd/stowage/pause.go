package main

import (
	"github.com/spf13/cobra"

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

` + pauseTargets,
		Example: `  stowage pause pipeline earthquakes
  stowage pause sink earthquakes/alerts`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTarget,
	}
	return operation(a, cmd, func(client operatorClient, args []string) error {
		return client.Pause(cmd.Context(), pauseOf(args))
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
		return client.Resume(cmd.Context(), pauseOf(args))
	})
}

func pauseOf(args []string) types.Pause {
	return types.Pause{Target: types.PauseTarget(args[0]), ID: args[1]}
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
