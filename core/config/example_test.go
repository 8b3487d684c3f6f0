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

func ExampleParsePipeline() {
	_, err := config.ParsePipeline("earthquakes", []byte(`{
		"source": {"module": "ndjson", "path": "earthquakes.ndjson"},
		"monitor": [{"id": "strong", "when": "mag >= 4.5", "sinks": ["mail"]}],
		"sink": [{"id": "alerts", "module": "webhook", "url": "http://127.0.0.1:9000/alerts"}]
	}`))
	fmt.Println(err)
	// Output: config: INVALID_CONFIG: monitor[0].sinks[0]: the monitor "strong" names the sink "mail", which the pipeline does not have: there are alerts
}
