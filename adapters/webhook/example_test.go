package webhook_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/stowage-go/stowage/adapters/webhook"
	"github.com/stowage-go/stowage/types"
)

// A receiver, and a sink that delivers to it. Both know the secret.
func ExampleNewReceiver() {
	const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	server := httptest.NewServer(webhook.NewReceiver(webhook.ReceiverOptions{
		Secret: secret,
		Handle: func(_ context.Context, d webhook.Delivery) error {
			fmt.Printf("%s: %s\n", d.ID, d.Event.Origin().Event)
			return nil
		},
	}))
	defer server.Close()

	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		log.Fatal(err)
	}
	sink, err := webhook.NewSink(webhook.Options{URL: server.URL, Secrets: secrets, AllowPrivate: true})
	if err != nil {
		log.Fatal(err)
	}
	match := types.Match{ID: "m1", Pipeline: "earthquakes", Monitor: "strong", Event: []byte(`{"mag":5.1}`)}
	if err := sink.Deliver(context.Background(), types.SinkEvent{Match: &match}); err != nil {
		log.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: m1: {"mag":5.1}
}
