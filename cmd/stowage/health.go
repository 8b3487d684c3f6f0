package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
)

// healthEvery is how long to wait before a daemon that is not ready is asked again.
const healthEvery = 100 * time.Millisecond

// readiness is the answer of /readyz.
type readiness struct {
	Ready   bool      `json:"ready"`
	Version string    `json:"version,omitempty"`
	Failing []failing `json:"failing,omitempty"`
}

type failing struct {
	Check  string       `json:"check"`
	Code   ports.Code   `json:"code"`
	Reason ports.Reason `json:"reason,omitempty"`
}

func healthCommand(a *app) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the daemon whether it is ready",
		Long: `Ask the daemon whether it is ready, and exit with 0 if so and with 6 if it is not or does not answer.
With --wait it is asked again until it is ready or the time is over. No token is needed.`,
		Example: `  stowage health
  stowage serve & stowage health --wait 10s`,
		Args: cobra.NoArgs,
	}
	r := reachFlags(a, cmd, false, false)
	output := outputFlag(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for it to be ready")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		state, err := waitReady(cmd.Context(), r.address(), wait)
		if err != nil {
			return err
		}
		printed := emit(a.out, output.value, data{
			whole: state,
			table: func(t *table) {
				if state.Ready {
					t.row("ready")
				}
				for _, f := range state.Failing {
					t.row("not ready", f.Check, string(f.Code), string(f.Reason))
				}
			},
		})
		if !state.Ready {
			return errors.Join(&quietError{exitUnavailable}, printed)
		}
		return printed
	}
	return cmd
}

// waitReady asks until the daemon is ready or the time is over, and returns the last answer.
func waitReady(ctx context.Context, server string, wait time.Duration) (readiness, error) {
	until := time.Now().Add(wait)
	for {
		state, err := askReady(ctx, server)
		again := err == nil && !state.Ready || errors.Is(err, ports.ErrUnavailable)
		if !again || !time.Now().Before(until) {
			return state, err
		}
		select {
		case <-ctx.Done():
			return readiness{}, context.Cause(ctx)
		case <-time.After(healthEvery):
		}
	}
}
