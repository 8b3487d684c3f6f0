package localkv_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/stowage-go/stowage/adapters/localkv"
	"github.com/stowage-go/stowage/types"
)

// A value is changed by whoever read it last: the version of a read makes the write conditional.
func Example() {
	root, err := os.MkdirTemp("", "localkv")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)

	ctx := context.Background()
	store, err := localkv.Open(ctx, localkv.Options{Dir: filepath.Join(root, "settings")})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	if _, err := store.Put(ctx, "greeting", []byte("hello"), types.PutOptions{}); err != nil {
		log.Fatal(err)
	}
	entry, _, err := store.Get(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	for _, value := range []string{"good morning", "good evening"} {
		result, err := store.Put(ctx, "greeting", []byte(value), types.PutOptions{If: types.IfVersion(entry.Version)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(value, result.Applied)
	}
	// Output:
	// good morning true
	// good evening false
}
