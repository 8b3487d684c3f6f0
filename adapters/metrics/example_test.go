package metrics_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/stowage-go/stowage/adapters/metrics"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// A service shows how full its queue is.
func Example() {
	owner := model.NewOwner(ports.SystemClock(), "orders") // in production: localqueue.OpenOwner
	queue, err := owner.Queue(context.Background(), "orders")
	if err != nil {
		log.Fatal(err)
	}
	if err := queue.Send(context.Background(), types.Text("one"), types.SendOptions{}); err != nil {
		log.Fatal(err)
	}

	handler, err := metrics.New(metrics.Options{Owner: owner, Version: "v1.0.0"})
	if err != nil {
		log.Fatal(err)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "stowage_queue_messages") {
			fmt.Print(line)
		}
	}
	// Output:
	// stowage_queue_messages{queue="orders",state="delayed"} 0
	// stowage_queue_messages{queue="orders",state="in_flight"} 0
	// stowage_queue_messages{queue="orders",state="visible"} 1
}
