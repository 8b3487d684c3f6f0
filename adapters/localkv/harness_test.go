package localkv

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/kvtest"
)

// harness makes stores the way a catalog does.
func harness(mode Mode) kvtest.Harness {
	return kvtest.Harness{
		Open: func(t testing.TB, clock ports.Clock) kvtest.Store {
			env := fixture.Env(t, "contract", clock)
			second := func(t testing.TB) (ports.KvStore, error) {
				t.Helper()
				return Module().Open(t.Context(), env, config{"mode": mode.String()})
			}
			reopen := func(t testing.TB) ports.KvStore {
				t.Helper()
				store, err := second(t)
				require.NoError(t, err)
				return store
			}
			return kvtest.Store{Kv: reopen(t), Reopen: reopen, Second: second}
		},
		Clocked:        true,
		Durable:        true,
		MultiHandle:    mode == MultiProcess,
		CanBackup:      true,
		CanCheckHealth: true,
	}
}
