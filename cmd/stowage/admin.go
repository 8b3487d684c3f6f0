package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// adminClient manages the queues of a daemon, and its storage as a whole.
type adminClient interface {
	storageClient
	Create(ctx context.Context, id string) error
	List(ctx context.Context) ([]types.QueueInfo, error)
	Delete(ctx context.Context, id string) error
	Binding(ctx context.Context, id string) (types.QueueBinding, error)
	Rotate(ctx context.Context, id string, overlap time.Duration) (types.QueueBinding, error)
	Discard(ctx context.Context, id string, row int64) error
	Backup(ctx context.Context, id, path string) error
	Verify(ctx context.Context, id string) error
}

// withAdmin runs fn with a client that manages queues.
func (r *reach) withAdmin(fn func(adminClient) error) error {
	token, err := r.adminToken()
	if err != nil {
		return err
	}
	client, err := newAdminClient(r.address(), token)
	if err != nil {
		return err
	}
	return fn(client)
}

func queueCreateCommand(a *app) *cobra.Command {
	var ifMissing bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a queue and its token",
		Long: `Create a queue and the token that its users need. One that exists already is left alone, and the exit
code is 4; with --if-missing that is a success.

A name is 1 to 128 bytes of A-Z a-z 0-9 - _ and dot, and starts with a letter or a digit.`,
		Example: `  stowage queue create orders`,
		Args:    cobra.ExactArgs(1),
	}
	r := reachFlags(a, cmd, false, true)
	output := outputFlag(cmd)
	cmd.Flags().BoolVar(&ifMissing, "if-missing", false, "succeed if the queue exists already")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id := args[0]
		if err := ports.CheckQueueID("queue.create", id); err != nil {
			return err
		}
		return r.withAdmin(func(client adminClient) error {
			verb := "created"
			if err := client.Create(cmd.Context(), id); err != nil {
				if !ifMissing || !errors.Is(err, ports.ErrAlreadyExists) {
					return err
				}
				verb = "exists"
			}
			return emit(a.out, output.value, data{
				whole: struct {
					ID      string `json:"id"`
					Created bool   `json:"created"`
				}{id, verb == "created"},
				table: func(t *table) { t.row(verb + " " + id) },
			})
		})
	}
	return cmd
}

// queueItem is a queue of a listing, in the form of the protocol.
type queueItem struct {
	ID    string           `json:"id"`
	OK    bool             `json:"ok"`
	Error *ports.WireError `json:"error,omitempty"`
}

func queueListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the queues of the daemon",
		Long: `List the queues of the daemon, ordered by name. One that cannot be opened is listed with the reason,
for instance a legacy directory that has to be migrated first.`,
		Example: `  stowage queue list -o json`,
		Args:    cobra.NoArgs,
	}
	r := reachFlags(a, cmd, false, true)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return r.withAdmin(func(client adminClient) error {
			queues, err := client.List(cmd.Context())
			if err != nil {
				return err
			}
			items := make([]queueItem, len(queues))
			for i, q := range queues {
				items[i] = queueItem{ID: q.ID, OK: q.Err == nil}
				if q.Err != nil {
					wire := ports.NewWireError(q.Err)
					items[i].Error = &wire
				}
			}
			return emit(a.out, output.value, data{
				whole: struct {
					Queues []queueItem `json:"queues"`
				}{items},
				items: anySlice(items),
				table: func(t *table) {
					t.row("QUEUE", "STATE")
					for _, q := range queues {
						state := "ready"
						if q.Err != nil {
							state = oneLine(describe(q.Err))
						}
						t.row(q.ID, state)
					}
				},
			})
		})
	}
	return cmd
}

func queueDeleteCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a queue with its messages and its token",
		Long: `Delete a queue with all its messages and its token, once the operations that are running on it have
finished. There is no way back. On a terminal the command asks first; elsewhere it wants --yes.`,
		Example: `  stowage queue delete orders --yes`,
		Args:    cobra.ExactArgs(1),
	}
	r := reachFlags(a, cmd, false, true)
	yes := yesFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := ports.CheckQueueID("queue.delete", args[0]); err != nil {
			return err
		}
		return r.withAdmin(func(client adminClient) error {
			if err := a.confirm(cmd.Context(), *yes, fmt.Sprintf("Delete the queue %s with all its messages?", args[0])); err != nil {
				return err
			}
			return client.Delete(cmd.Context(), args[0])
		})
	}
	return cmd
}

func queueDiscardCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "discard NAME ID",
		Short: "Remove a row that cannot be decoded",
		Long: `Remove one row that cannot be decoded, by the id that "queue peek" shows. Such a row blocks nothing: it
is set aside and kept until it is discarded or the queue is purged. A message that can be decoded is
refused: receive and ack it.`,
		Example: `  stowage queue discard orders 17`,
		Args:    cobra.ExactArgs(2),
	}
	r := reachFlags(a, cmd, false, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := ports.CheckQueueID("queue.discard", args[0]); err != nil {
			return err
		}
		row, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return usagef("%q is no id of a row: take it from \"stowage queue peek\"", args[1])
		}
		return r.withAdmin(func(client adminClient) error {
			return client.Discard(cmd.Context(), args[0], row)
		})
	}
	return cmd
}

func queueBindingCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "binding NAME",
		Short: "Print the binding of a queue, token included",
		Long: `Print what an application needs to use a queue: the endpoint and the token. Treat the output as a
secret. -o json prints the binding in the form that clients read.`,
		Example: `  stowage queue binding orders -o json`,
		Args:    cobra.ExactArgs(1),
	}
	r := reachFlags(a, cmd, false, true)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := ports.CheckQueueID("queue.binding", args[0]); err != nil {
			return err
		}
		return r.withAdmin(func(client adminClient) error {
			binding, err := client.Binding(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return emitBinding(a, output.value, binding)
		})
	}
	return cmd
}

func emitBinding(a *app, format string, binding types.QueueBinding) error {
	return emit(a.out, format, data{
		whole: ports.NewWireBinding(binding),
		table: func(t *table) {
			t.row("SERVICE", "ENDPOINT", "TOKEN")
			t.row(ports.ServiceQueueHTTP, binding.Endpoint, binding.Token)
		},
	})
}

func queueRotateCommand(a *app) *cobra.Command {
	var overlap time.Duration
	cmd := &cobra.Command{
		Use:   "rotate-token NAME",
		Short: "Give a queue a new token, and print the binding",
		Long: `Give a queue a new token without a restart, and print the new binding. The old token works on for
--overlap, so that applications can be moved one by one; with 0 it ends at once. Treat the output as a
secret.`,
		Example: `  stowage queue rotate-token orders --overlap 1h -o json`,
		Args:    cobra.ExactArgs(1),
	}
	r := reachFlags(a, cmd, false, true)
	output := outputFlag(cmd)
	cmd.Flags().DurationVar(&overlap, "overlap", 0, "how long the old token works on, up to 168h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		const op = "queue.rotate"
		if err := ports.CheckQueueID(op, args[0]); err != nil {
			return err
		}
		if err := ports.CheckOverlap(op, overlap); err != nil {
			return err
		}
		return r.withAdmin(func(client adminClient) error {
			binding, err := client.Rotate(cmd.Context(), args[0], overlap)
			if err != nil {
				return err
			}
			return emitBinding(a, output.value, binding)
		})
	}
	return cmd
}
