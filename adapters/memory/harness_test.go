package memory

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/queuetest"
	"github.com/stowage-go/stowage/testkit/storagetest"
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

// journalDepth is a configuration that sets journal_depth, and nothing else.
type journalDepth int64

// Decode fills the field that is tagged with the key.
func (d journalDepth) Decode(into any) error {
	set := reflect.ValueOf(into).Elem()
	for i := range set.NumField() {
		if set.Type().Field(i).Tag.Get("toml") == "journal_depth" {
			set.Field(i).SetInt(int64(d))
		}
	}
	return nil
}

// storageHarness opens storages as a catalog does, by the factory.
func storageHarness() storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB, depth int64) storagetest.Store {
			env := fixture.Env(t, "storage", ports.SystemClock())
			var config ports.ModuleConfig = fixture.NoConfig{}
			if depth != 0 {
				config = journalDepth(depth)
			}
			open := func(t testing.TB) ports.Storage {
				storage, err := StorageModule().Open(t.Context(), env, config)
				require.NoError(t, err)
				return storage
			}
			return storagetest.Store{Storage: open(t), Reopen: open}
		},
		CanArchive:         true,
		CanCountDeliveries: true,
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
		Clocked:     true,
		CanSendBulk: true,
		CanRelease:  true,
	}
}
