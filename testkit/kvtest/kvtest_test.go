package kvtest_test

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/model"
)

func TestModelKeepsTheContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, kvtest.Harness{
		Open: func(_ testing.TB, clock ports.Clock) kvtest.Store {
			return kvtest.Store{
				Kv:     model.NewKv(clock),
				Reopen: func(testing.TB) ports.KvStore { return model.NewKv(clock) },
			}
		},
		Clocked: true,
	})
}
