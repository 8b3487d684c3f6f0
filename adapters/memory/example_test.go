package memory_test

import (
	"context"
	"fmt"

	"github.com/stowage-go/stowage/adapters/memory"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func ExampleStorage() {
	ctx := context.Background()
	storage, err := memory.NewStorage(memory.StorageOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = storage.Close() }()

	// One step of a pipeline, as a whole: match m1 was delivered, and the stream is dealt with up to 7/0.
	at := types.Cursor{Primary: 7}
	err = storage.Apply(ctx, "quakes", types.Progress{
		Checkpoint: &types.Checkpoint{Cursor: at},
		Deliveries: []types.Delivery{{Cursor: at, MatchID: "m1"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	checkpoint, found, err := storage.LoadCheckpoint(ctx, "quakes")
	fmt.Println(checkpoint.Cursor, found, err)
	// Output: 7/0 true <nil>
}

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
