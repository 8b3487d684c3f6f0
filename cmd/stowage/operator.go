package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// operatorClient steers the pipelines of a daemon.
type operatorClient interface {
	operatorControl
	Pipelines(ctx context.Context) ([]types.PipelineStatus, error)
	Pipeline(ctx context.Context, id types.PipelineID) (types.PipelineStatus, error)
	EventBinding(ctx context.Context, id types.PipelineID) (eventBinding, error)
	PostEvents(ctx context.Context, id types.PipelineID, events ...[]byte) error
	ResourceKinds(ctx context.Context) ([]types.ResourceKind, error)
	ListResources(ctx context.Context, kind types.ResourceKind, opts types.ResourceListOptions) (types.ResourcePage, error)
	GetResource(ctx context.Context, kind types.ResourceKind, id string) (types.Resource, bool, error)
	PutResource(ctx context.Context, kind types.ResourceKind, id string, value []byte, expected uint64) (uint64, error)
	DeleteResource(ctx context.Context, kind types.ResourceKind, id string, expected uint64) error
}

// operation is a command of an operator that talks to the daemon.
func operation(a *app, cmd *cobra.Command, run func(client operatorClient, args []string) error) *cobra.Command {
	r := reachFlags(a, cmd, false, true)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		token, err := r.adminToken()
		if err != nil {
			return err
		}
		client, err := newOperatorClient(r.address(), token)
		if err != nil {
			return err
		}
		return run(client, args)
	}
	return cmd
}

// checkpointItem is the checkpoint of a pipeline, in the form of the HTTP API.
type checkpointItem struct {
	Pipeline   types.PipelineID `json:"pipeline"`
	Checkpoint types.Checkpoint `json:"checkpoint"`
}

// letterItem is a dead letter in its place, in the form of the HTTP API.
type letterItem struct {
	Position int64             `json:"position"`
	Letter   *types.DeadLetter `json:"letter,omitempty"`
	MatchID  types.MatchID     `json:"match_id,omitempty"`
	Error    *ports.WireError  `json:"error,omitempty"`
}

func newLetterItem(l types.StoredLetter) letterItem {
	if l.Err != nil {
		wire := ports.NewWireError(l.Err)
		return letterItem{Position: l.Position, MatchID: l.Letter.MatchID, Error: &wire}
	}
	return letterItem{Position: l.Position, Letter: &l.Letter}
}

// resourceItem is a resource in the form of the HTTP API; its value is compact.
type resourceItem struct {
	Kind    types.ResourceKind `json:"kind"`
	ID      string             `json:"id"`
	Version uint64             `json:"version"`
	Value   json.RawMessage    `json:"value,omitempty"`
}

// moment prints a time for a person.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
