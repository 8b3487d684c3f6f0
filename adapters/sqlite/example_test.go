package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/stowage-go/stowage/adapters/sqlite"
	"github.com/stowage-go/stowage/types"
)

// One step of a pipeline is stored as a whole: how far it has come, what it delivered, and what a sink
// gave up on.
func Example() {
	root, err := os.MkdirTemp("", "sqlite")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)

	ctx := context.Background()
	storage, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(root, "storage.sqlite")})
	if err != nil {
		log.Fatal(err)
	}
	defer storage.Close()

	here := types.Cursor{Primary: 7}
	err = storage.Apply(ctx, "quakes", types.Progress{
		Checkpoint:  &types.Checkpoint{Cursor: here},
		Deliveries:  []types.Delivery{{Cursor: here, MatchID: "quake-1"}},
		DeadLetters: []types.DeadLetter{{MatchID: "quake-2", Monitor: "strong", Sink: "alerts", Cursor: here, Reason: "503"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	checkpoint, _, err := storage.LoadCheckpoint(ctx, "quakes")
	if err != nil {
		log.Fatal(err)
	}
	letters, err := storage.ListDeadLetters(ctx, "quakes", types.LetterQuery{Take: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(checkpoint.Cursor, letters[0].Position, letters[0].Letter.MatchID)
	// Output:
	// 7/0 1 quake-2
}
