package main

import (
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

// Every command tells what it does, at length, and shows how.
func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Name() == "help" || sub.Name() == "completion" {
				continue // cobra's own
			}
			path := sub.CommandPath()
			assert.NotEmpty(t, sub.Short, "%s: Short", path)
			assert.NotEmpty(t, sub.Long, "%s: Long", path)
			assert.Contains(t, sub.Example, "stowage ", "%s: Example", path)
			assert.NotNil(t, sub.RunE, "%s: RunE", path)
			if !sub.HasSubCommands() {
				assert.NotNil(t, sub.Args, "%s: Args", path)
			}
			check(sub)
		}
	}
	check(newRoot(&app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}))
}
