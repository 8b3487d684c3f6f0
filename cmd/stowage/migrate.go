package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
)

func queueMigrateCommand(a *app) *cobra.Command {
	var options migrationOptions
	var state string
	cmd := &cobra.Command{
		Use:   "migrate NAME",
		Short: "Move a queue between file access and the daemon, offline",
		Long: `Move the directory of a queue from <state-dir>/queue/NAME, where earlier applications open its files
themselves, to <state-dir>/queue-owned/NAME, where the daemon owns it; with --reverse back. No row is
rewritten. Every file is copied to a backup first and checked; then the directory is renamed, so that a
crash leaves it in one of the two places, whole. It may be run again.

Stop the daemon, every producer, consumer and observer, and whatever restarts them, before: a directory
that somebody holds is refused with exit code 6, but nobody can see what only starts afterwards. The
plan is shown, and the command asks on a terminal; elsewhere it wants --yes. See
docs/operating/upgrade.md.`,
		Example: `  stowage queue migrate orders --state-dir /var/lib/stowage --dry-run
  stowage queue migrate orders --state-dir /var/lib/stowage --backup-dir /backup/orders --yes
  stowage queue migrate orders --reverse --dry-run -o json`,
		Args: cobra.ExactArgs(1),
	}
	output := outputFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&state, "state-dir", "", "state directory (default $"+envStateDir+", else "+defaultStateDir+")")
	flags.BoolVar(&options.Reverse, "reverse", false, "move the queue back to where earlier applications open it")
	flags.BoolVar(&options.DryRun, "dry-run", false, "check everything, show the plan, and change nothing")
	flags.StringVar(&options.BackupDir, "backup-dir", "", "directory that the backup becomes; it must not exist (default <state-dir>/queue-backups/NAME-<time>)")
	yes := yesFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options.ID, options.StateDir, options.Log = args[0], stateDir(a, state), warnings(a)
		if !options.DryRun && !*yes {
			plan := options
			plan.DryRun = true
			planned, err := migrate(cmd.Context(), plan)
			if err != nil {
				return err
			}
			if !planned.AlreadyDone {
				if err := emitPlan(a.err, formatTable, planned); err != nil {
					return err
				}
				if err := a.confirm(cmd.Context(), false, "Is everything stopped that may use the queue, and shall it be moved?"); err != nil {
					return err
				}
			}
		}
		done, err := migrate(cmd.Context(), options)
		if err != nil {
			return err
		}
		return emitPlan(a.out, output.value, done)
	}
	return cmd
}

func emitPlan(w io.Writer, format string, plan migrationPlan) error {
	return emit(w, format, data{
		whole: plan,
		table: func(t *table) {
			if plan.AlreadyDone {
				t.row(fmt.Sprintf("queue %s is in %s already: nothing to do", plan.ID, plan.To))
				return
			}
			t.row("STEP", "FROM", "TO")
			for _, step := range plan.Steps {
				t.row(step.Action, step.From, step.To)
			}
			t.row("")
			t.row("FILE", "BYTES", "SHA-256")
			for _, file := range plan.Files {
				t.row(file.Name, strconv.FormatInt(file.Bytes, 10), file.SHA256)
			}
			t.row("")
			if plan.DryRun {
				t.row("nothing was changed")
			} else {
				t.row("done")
			}
		},
	})
}
