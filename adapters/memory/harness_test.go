package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kvHarness opens stores as a catalog does, by the factory.
func kvHarness() kvtest.Harness {
	return kvtest.Harness{
		Open: func(t testing.TB, clock ports.Clock) kvtest.Store {
			env := fixture.Env(t, "default", clock)
			open := func(t testing.TB) ports.KvStore {
				store, err := KvModule().Open(t.Context(), env, fixture.NoConfig{})
				require.NoError(t, err)
				return store
			}
			return kvtest.Store{Kv: open(t), Reopen: open}
		},
		Clocked: true,
	}
}

// queueHarness opens queues as a catalog does, by the factory.
func queueHarness() queuetest.Harness {
	return queuetest.Harness{
		Open: func(t testing.TB, clock ports.Clock) queuetest.Store {
			env := fixture.Env(t, "orders", clock)
			open := func(t testing.TB) ports.QueueStore {
				queue, err := QueueModule().Open(t.Context(), env, fixture.NoConfig{})
				require.NoError(t, err)
				return queue
			}
			return queuetest.Store{Queue: open(t), Reopen: open}
		},
		Clocked:    true,
		CanRelease: true,
	}
}
