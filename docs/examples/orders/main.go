// Command orders is a small service on Stowage's ports: it takes orders through a durable queue and
// keeps a total for each item. Which adapters stand behind the ports is decided by stowage.toml.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stowage-go/stowage/adapters/localkv"
	"github.com/stowage-go/stowage/adapters/localqueue"
	"github.com/stowage-go/stowage/adapters/memory"
	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

type order struct {
	ID    int    `json:"id"`
	Item  string `json:"item"`
	Count int    `json:"count"`
}

func main() {
	if err := run(context.Background(), "stowage.toml", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

// run sends three orders and handles all that are due.
func run(ctx context.Context, file string, out io.Writer) (err error) {
	cfg, err := config.Load(file)
	if err != nil {
		return err
	}
	modules := catalog.New()
	err = errors.Join(modules.RegisterKv(localkv.Module()), modules.RegisterQueue(localqueue.Module()),
		modules.RegisterKv(memory.KvModule()), modules.RegisterQueue(memory.QueueModule()))
	if err != nil {
		return err
	}
	stores, err := modules.Compose(cfg, catalog.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close(context.WithoutCancel(ctx))) }()
	queue, err := stores.Queue(ctx, "orders")
	if err != nil {
		return err
	}
	totals, err := stores.Kv(ctx, "totals")
	if err != nil {
		return err
	}
	for _, o := range []order{{1, "tea", 2}, {2, "coffee", 1}, {3, "tea", 3}} {
		payload, err := types.MarshalPayload(o)
		if err != nil {
			return err
		}
		if err := queue.Send(ctx, payload, types.SendOptions{}); err != nil {
			return err
		}
	}
	return handle(ctx, queue, totals, out)
}

// handle counts each order, then acks it. Delivery is at least once: after a crash between the two,
// the order comes again and is counted again.
func handle(ctx context.Context, queue ports.Queue, totals ports.Kv, out io.Writer) error {
	for {
		messages, err := queue.Receive(ctx, types.ReceiveOptions{Max: 10})
		if err != nil || len(messages) == 0 {
			return err
		}
		for _, message := range messages {
			var o order
			if err := json.Unmarshal([]byte(message.Payload.Data), &o); err != nil {
				return err
			}
			total, err := add(ctx, totals, "total:"+o.Item, o.Count)
			if err != nil {
				return err
			}
			if err := queue.Ack(ctx, message.Receipt); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(out, "order %d: %d %s, %d sold so far\n", o.ID, o.Count, o.Item, total); err != nil {
				return err
			}
		}
	}
}
