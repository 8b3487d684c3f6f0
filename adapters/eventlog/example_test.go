package eventlog_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/stowage-go/stowage/adapters/eventlog"
	"github.com/stowage-go/stowage/types"
)

// What was accepted is read from the log, also by the next opener, until it is settled.
func Example() {
	root, err := os.MkdirTemp("", "eventlog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)

	ctx := context.Background()
	options := eventlog.Options{Dir: filepath.Join(root, "orders")}
	events, err := eventlog.Open(ctx, options)
	if err != nil {
		log.Fatal(err)
	}
	err = events.Accept(ctx, []types.Event{
		{Data: []byte(`{"order": 1, "total": 20}`)},
		{Data: []byte(`{"order": 2, "total": 1500}`)},
	})
	if err != nil {
		log.Fatal(err)
	}
	read, err := events.Read(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(read[0].Data))
	if err := events.Close(); err != nil {
		log.Fatal(err)
	}

	options.From = &read[0].Cursor // the checkpoint
	events, err = eventlog.Open(ctx, options)
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	read, err = events.Read(ctx, 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(read[0].Data))
	// Output:
	// {"order":1,"total":20}
	// {"order":2,"total":1500}
}
