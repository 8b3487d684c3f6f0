package queuehttp_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/stowage-go/stowage/adapters/queuehttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// An owner serves its queues, and an application sends to one and receives from it. It needs the
// binding and nothing else.
func Example() {
	ctx := context.Background()
	owner := model.NewOwner(ports.SystemClock(), "orders") // in production: localqueue.OpenOwner
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := queuehttp.NewServer(queuehttp.Handler(owner, queuehttp.HandlerOptions{}), nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	token, err := owner.Token(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	queue, err := queuehttp.NewClient(queuehttp.Binding{Endpoint: "http://" + listener.Addr().String() + queuehttp.PathPrefix + "orders", Token: token}, queuehttp.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := queue.Send(ctx, types.JSON([]byte(`{"order":7}`)), types.SendOptions{}); err != nil {
		log.Fatal(err)
	}
	messages, err := queue.Receive(ctx, types.ReceiveOptions{Max: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		fmt.Println(m.Payload.Data, m.Attempt)
		if err := queue.Ack(ctx, m.Receipt); err != nil {
			log.Fatal(err)
		}
	}

	// To stop: the owner first, then the server.
	for _, stop := range []func() error{queue.Close, owner.Close, func() error { return server.Shutdown(ctx) }} {
		if err := stop(); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(<-served)
	// Output:
	// {"order":7} 1
	// http: Server closed
}

func ExampleParseBinding() {
	binding, err := queuehttp.ParseBinding([]byte(`{"service":"local-queue-http","endpoint":"http://127.0.0.1:7420/v1/queues/orders","token":"s3cret"}`))
	fmt.Println(binding, err)

	_, err = queuehttp.ParseBinding([]byte(`{"service":"local-queue","queuePath":"/var/lib/orders"}`))
	fmt.Println(err)
	// Output:
	// http://127.0.0.1:7420/v1/queues/orders (token hidden) <nil>
	// queue.bind: BINDING_SETUP_FAILED/unsupported: the binding is of the service "local-queue", which opens the files of a queue: only their owner does that now; migrate the queue with "stowage queue migrate" and use the binding of "stowage queue binding"
}
