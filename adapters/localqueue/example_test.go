package localqueue_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/stowage-go/stowage/adapters/localqueue"
	"github.com/stowage-go/stowage/types"
)

// A message is received, worked on and acked. One that nobody can work on ends up with the dead
// letters instead of coming back for ever.
func Example() {
	state, err := os.MkdirTemp("", "localqueue")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state)

	ctx := context.Background()
	owner, err := localqueue.OpenOwner(ctx, localqueue.OwnerOptions{
		StateDir: state,
		Queues:   map[string]localqueue.QueueOptions{"orders": {MaxReceives: 2, DeadLetterQueue: "orders-dead"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer owner.Close()
	orders, err := owner.Queue(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	for _, order := range []string{`{"item":"tea"}`, `{"item":"?"}`} {
		if err := orders.Send(ctx, types.JSON([]byte(order)), types.SendOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	for range 3 {
		messages, err := orders.Receive(ctx, types.ReceiveOptions{Max: 10})
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range messages {
			fmt.Println("attempt", m.Attempt, m.Payload.Data)
			if m.Payload.Data == `{"item":"?"}` {
				err = orders.Nack(ctx, m.Receipt, types.NackOptions{})
			} else {
				err = orders.Ack(ctx, m.Receipt)
			}
			if err != nil {
				log.Fatal(err)
			}
		}
	}
	dead, err := owner.Queue(ctx, "orders-dead")
	if err != nil {
		log.Fatal(err)
	}
	letters, err := dead.Peek(ctx, types.PeekOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("given up after", letters[0].Attempt, letters[0].Payload.Data)
	// Output:
	// attempt 1 {"item":"tea"}
	// attempt 1 {"item":"?"}
	// attempt 2 {"item":"?"}
	// given up after 2 {"item":"?"}
}
