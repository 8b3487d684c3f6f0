package pipeline_test

import (
	"context"
	"fmt"

	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// A sink that hands events to a queue, found by the name of its pipeline and its own.
func ExampleSinks() {
	ctx := context.Background()
	orders := model.NewQueue(fixture.NewClock(fixture.Epoch()))
	module := pipeline.QueueSinkModule()
	alerts, err := module.Open(ctx, ports.Env{Name: "alerts"}, keys(`queue = "orders"`), queues{"orders": orders})
	if err != nil {
		panic(err)
	}
	sinks := pipeline.NewSinks(map[types.PipelineID]map[types.SinkID]ports.Sink{"earthquakes": {"alerts": alerts}})

	sink, err := sinks.Sink(ctx, "earthquakes", "alerts")
	if err != nil {
		panic(err)
	}
	match := types.Match{ID: "m1", Pipeline: "earthquakes", Monitor: "strong", Event: []byte(`{"mag":5.1}`)}
	if err := sink.Deliver(ctx, types.SinkEvent{Match: &match}); err != nil {
		panic(err)
	}
	messages, err := orders.Receive(ctx, types.ReceiveOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(messages[0].Payload.Data)

	_, err = sinks.Sink(ctx, "earthquakes", "mail")
	fmt.Println(err)
	// Output:
	// {"type":"match","data":{"match_id":"m1","pipeline":"earthquakes","monitor":"strong","cursor":{"primary":0,"secondary":0},"event_index":0,"event_ts":0,"event":{"mag":5.1}}}
	// pipeline.sink: NOT_FOUND: the pipeline "earthquakes" has no sink "mail" in the configuration: there are alerts
}
