package config_test

import (
	"fmt"

	"github.com/stowage-go/stowage/core/config"
)

func ExampleParse() {
	_, err := config.Parse("stowage.toml", []byte(`
[queue.orders]
module = "localqueue"
max_receives = 5
`))
	fmt.Println(err)
	// Output: config: INVALID_CONFIG: stowage.toml:4: the key "max_receives" is unknown in [queue.orders]: allowed are config, module; the keys of a module stand in [queue.orders.config]
}
