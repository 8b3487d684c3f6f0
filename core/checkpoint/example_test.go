package checkpoint_test

import (
	"context"
	"fmt"

	"github.com/stowage-go/stowage/core/checkpoint"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// A pipeline begins each cursor in the order of its stream, says that it is done once its outcome is
// stored, and tells the writer what is safe.
func Example() {
	ctx := context.Background()
	storage := model.NewStorage(0)
	writer, err := checkpoint.New(storage, checkpoint.Options{Pipeline: "earthquakes"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, found, err := writer.Start(ctx, storage)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("goes on behind a checkpoint:", found)

	var tracker checkpoint.Tracker
	for n := range uint64(4) {
		if err := tracker.Begin(types.Cursor{Primary: n}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, n := range []uint64{1, 3, 0} { // 2 is still being delivered
		if err := tracker.Done(types.Cursor{Primary: n}); err != nil {
			fmt.Println(err)
			return
		}
		if safe, known := tracker.Safe(); known {
			writer.Advance(safe)
		}
	}

	if err := writer.Stop(ctx); err != nil {
		fmt.Println(err)
		return
	}
	stored, _, err := storage.LoadCheckpoint(ctx, "earthquakes")
	fmt.Println("stored:", stored.Cursor, err)
	// Output:
	// goes on behind a checkpoint: false
	// stored: 1/0 <nil>
}
