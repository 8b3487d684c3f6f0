package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const rootLong = `Stowage keeps the durable state of services: work queues that a daemon owns and serves over HTTP, a
storage for what pipelines and their operators must not lose, and key-value stores in a directory.

Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 not found, 4 precondition not met, 5 not
allowed, 6 unavailable or in use, 7 outcome unknown, 8 partly done.

Environment:
  STOWAGE_SERVER       address of the daemon, instead of http://127.0.0.1:7420
  STOWAGE_STATE_DIR    state directory, instead of ./stowage-data
  STOWAGE_TOKEN        token of a queue, instead of the one in the state directory
  STOWAGE_ADMIN_TOKEN  admin token, instead of the one in the state directory`

// newRoot makes the tree of commands.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "stowage",
		Short: "Durable queues and key-value stores for services",
		Long:  rootLong,
		Example: `  stowage serve
  stowage queue create orders
  stowage queue send orders '{"id":1}'
  stowage queue receive orders --max 10 --wait 20s --ack -o jsonl`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.AddCommand(
		serveCommand(a),
		quickstartCommand(a),
		receiverCommand(a),
		healthCommand(a),
		queueCommand(a),
		kvCommand(a),
		pipelineCommand(a),
		checkpointCommand(a),
		deadLetterCommand(a),
		pauseCommand(a),
		resumeCommand(a),
		pausesCommand(a),
		resourceCommand(a),
		storageCommand(a),
		backupCommand(a),
		verifyCommand(a),
		modulesCommand(a),
		configCommand(a),
		versionCommand(a),
	)
	root.InitDefaultCompletionCmd()
	mendCompletion(root)
	root.InitDefaultHelpCmd()
	markErrors(root)
	return root
}

// mendCompletion gives cobra's own command what the others have: an example, and an error for a shell
// that it does not know.
func mendCompletion(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Example = "  stowage completion bash > /etc/bash_completion.d/stowage"
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 {
					return cmd.Help()
				}
				return usagef("there is no completion for the shell %q: stowage completion --help lists those that there are", args[0])
			}
		}
	}
}

// group is a command that only holds others. An unknown one below it is an error, where cobra would
// show the help and call it a success.
func group(use, short, long, example string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Long:    long,
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			message := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				message += "; did you mean " + strings.Join(near, " or ") + "?"
			}
			return usagef("%s", message)
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(commands...)
	return cmd
}

// markErrors tells the errors of commands that ran from those of the command line.
func markErrors(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := run(cmd, args); err != nil {
				return &ranError{err}
			}
			return nil
		}
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{cmd, err}
			}
			return nil
		}
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd, err} })
	for _, sub := range cmd.Commands() {
		markErrors(sub)
	}
}

// usageError is an error of the command line of cmd.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usageHint points to the help that fits an error of the command line.
func usageHint(err error) string {
	var usage *usageError
	if !errors.As(err, &usage) {
		return ""
	}
	return fmt.Sprintf("; see \"%s --help\"", usage.cmd.CommandPath())
}

// oneOf refuses a command line that sets more than one of the flags, and returns the one it sets.
func oneOf(cmd *cobra.Command, names ...string) (string, error) {
	var set []string
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			set = append(set, "--"+name)
		}
	}
	if len(set) > 1 {
		return "", usagef("%s exclude each other: give one of them", strings.Join(slices.Sorted(slices.Values(set)), " and "))
	}
	if len(set) == 0 {
		return "", nil
	}
	return strings.TrimPrefix(set[0], "--"), nil
}
