package memory_test

import (
	"context"
	"fmt"

	"github.com/stowage-go/stowage/adapters/memory"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func ExampleKv() {
	ctx := context.Background()
	store := memory.NewKv(ports.SystemClock())
	defer func() { _ = store.Close() }()

	first, err := store.Put(ctx, "leader", []byte("a"), types.PutOptions{If: types.IfAbsent()})
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := store.Put(ctx, "leader", []byte("b"), types.PutOptions{If: types.IfAbsent()})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.Applied, second.Applied)
	// Output: true false
}

func ExampleQueue() {
	ctx := context.Background()
	queue := memory.NewQueue(ports.SystemClock())
	defer func() { _ = queue.Close() }()

	if err := queue.Send(ctx, types.JSON([]byte(`{"mag": 6.1}`)), types.SendOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	messages, err := queue.Receive(ctx, types.ReceiveOptions{Max: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range messages {
		fmt.Println(m.Payload.Data, "attempt", m.Attempt)
		if err := queue.Ack(ctx, m.Receipt); err != nil {
			fmt.Println(err)
		}
	}
	// Output: {"mag":6.1} attempt 1
}
