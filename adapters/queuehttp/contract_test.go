package queuehttp_test

import (
	"testing"

	"github.com/stowage-go/stowage/adapters/queuehttp"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/queuetest"
)

var (
	_ ports.QueueStore    = (*queuehttp.Client)(nil)
	_ ports.HealthChecker = (*queuehttp.Client)(nil)
)

func TestContract(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, queuetest.Harness{
		Open: func(t testing.TB, clock ports.Clock) queuetest.Store {
			return overLoopback(t, model.NewOwner(clock, "orders"))
		},
		Clocked:        true,
		Durable:        true,
		MultiHandle:    true,
		Remote:         true,
		CanCheckHealth: true,
	})
}
