package adminhttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/stowage-go/stowage/adapters/adminhttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
)

// A daemon serves its operator, and a command line tool asks it.
func Example() {
	dir, err := os.MkdirTemp("", "stowage-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			log.Fatal(err)
		}
	}()
	tokenFile := filepath.Join(dir, "admin-token")
	owner := model.NewOwner(ports.SystemClock()) // in production: localqueue.OpenOwner
	handler, err := adminhttp.New(adminhttp.Options{
		Owner:      owner,
		Queues:     http.NotFoundHandler(), // in production: queuehttp.Handler(owner, …)
		AdminToken: func() (string, error) { return adminhttp.LoadToken(tokenFile) },
		Endpoint:   "http://127.0.0.1:7420",
	})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()

	token, err := adminhttp.LoadToken(tokenFile)
	if err != nil {
		log.Fatal(err)
	}
	client, err := adminhttp.NewClient(server.URL, token, adminhttp.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := client.Create(ctx, "orders"); err != nil {
		log.Fatal(err)
	}
	binding, err := client.Binding(ctx, "orders")
	fmt.Println(binding, err)
	fmt.Println(client.Create(ctx, "orders"))
	// Output:
	// http://127.0.0.1:7420/v1/queues/orders (token hidden) <nil>
	// owner.create: ALREADY_EXISTS: there is a queue "orders" already
}
