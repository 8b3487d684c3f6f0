package ndjson_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/stowage-go/stowage/adapters/ndjson"
	"github.com/stowage-go/stowage/types"
)

// A source goes on behind the cursor of what was dealt with last.
func ExampleSource() {
	root, err := os.MkdirTemp("", "ndjson")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	path := filepath.Join(root, "quakes.ndjson")
	if err := os.WriteFile(path, []byte("{\"mag\": 4.5}\n{\"mag\": 1.2}\nno JSON\n{\"mag\": 6.0}\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	var last *types.Cursor
	for {
		source, err := ndjson.OpenSource(ctx, ndjson.SourceOptions{Pipeline: "quakes", Path: path, StateDir: root, Once: true}, last)
		if err != nil {
			log.Fatal(err)
		}
		events, err := source.Read(ctx, 2)
		if err := source.Close(); err != nil {
			log.Fatal(err)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, e := range events {
			if e.Err != nil {
				fmt.Println(e.Cursor, "is no event")
			} else {
				fmt.Println(e.Cursor, string(e.Data))
			}
			last = &e.Cursor
		}
	}
	// Output:
	// 0/0 {"mag":4.5}
	// 13/0 {"mag":1.2}
	// 26/0 is no event
	// 34/0 {"mag":6.0}
}

func ExamplePrinter() {
	sink := ndjson.NewPrinter(os.Stdout)
	err := sink.Deliver(context.Background(), types.SinkEvent{Match: &types.Match{
		ID: "m1", Pipeline: "quakes", Monitor: "strong", Cursor: types.Cursor{Primary: 13}, TS: 1_772_366_400_000, Event: []byte(`{"mag":4.5}`),
	}})
	if err != nil {
		log.Fatal(err)
	}
	// Output: {"type":"match","data":{"match_id":"m1","pipeline":"quakes","monitor":"strong","cursor":{"primary":13,"secondary":0},"event_index":0,"event_ts":1772366400000,"event":{"mag":4.5}}}
}
