package catalog_test

import (
	"context"
	"fmt"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// A program registers the modules that it ships, its own included, and opens what a configuration
// names.
func Example() {
	modules := catalog.New()
	err := modules.RegisterKv(ports.KvModule{
		ModuleInfo: ports.ModuleInfo{
			Name:        "scratch",
			Description: "key-value store that is gone with the process",
			Example:     "[kv.default]\nmodule = \"scratch\"\n",
		},
		Open: func(_ context.Context, env ports.Env, _ ports.ModuleConfig) (ports.KvStore, error) {
			return model.NewKv(env.Clock), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	cfg, err := config.Parse("stowage.toml", []byte("[kv.sessions]\nmodule = \"scratch\"\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	stores, err := modules.Compose(cfg, catalog.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sessions, err := stores.Kv(ctx, "sessions")
	if err != nil {
		fmt.Println(err)
		return
	}
	put, err := sessions.Put(ctx, "user:1", []byte("ada"), types.PutOptions{})
	fmt.Println(put.Applied, err)
	fmt.Println(stores.Close(ctx))
	// Output:
	// true <nil>
	// <nil>
}
