package control_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

type printer struct{}

func (printer) Deliver(_ context.Context, event types.SinkEvent) error {
	fmt.Println("delivered", event.Origin().ID, string(event.Origin().Event))
	return nil
}

// sinks is a resolver that knows one sink. The engine of core/pipeline is one for all of its pipelines.
type sinks struct{}

func (sinks) Sink(context.Context, types.PipelineID, types.SinkID) (ports.Sink, error) {
	return printer{}, nil
}

// An operator replays what a sink gave up on. A program hands in the storage and the sinks of its
// configuration.
func ExampleHandle_ReplayLetters() {
	ctx := context.Background()
	storage := model.NewStorage(0)
	for n := range 3 {
		if err := storage.RecordDeadLetter(ctx, "earthquakes", fixture.DeadLetter(n)); err != nil {
			panic(err)
		}
	}
	handle, err := control.New(control.Options{
		Storage: storage,
		Sinks:   sinks{},
	})
	if err != nil {
		panic(err)
	}

	if err := handle.Pause(ctx, types.SinkOf("earthquakes", "alerts")); err != nil {
		panic(err)
	}
	err = handle.ReplayLetter(ctx, "earthquakes", "match-000001")
	fmt.Println("paused:", errors.Is(err, ports.ErrPaused))
	if err := handle.Resume(ctx, types.SinkOf("earthquakes", "alerts")); err != nil {
		panic(err)
	}

	preview, err := handle.PreviewLetters(ctx, "earthquakes", types.LetterFilter{Reason: "503"})
	if err != nil {
		panic(err)
	}
	result, err := handle.ReplayLetters(ctx, "earthquakes", types.LetterSelection{
		Filter:  types.LetterFilter{Reason: "503"},
		Through: preview.Through, // what has arrived since is not touched
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("replayed", result.Done, "of", preview.Count)
	// Output:
	// paused: true
	// delivered match-000000 {"n":0,"mag":4.5}
	// delivered match-000001 {"n":1,"mag":4.5}
	// delivered match-000002 {"n":2,"mag":4.5}
	// replayed 3 of 3
}
