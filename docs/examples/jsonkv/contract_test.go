package jsonkv_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/jsonkv"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/kvtest"
)

var _ ports.KvStore = (*jsonkv.Store)(nil)

func TestContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, kvtest.Harness{
		Open: func(t testing.TB, clock ports.Clock) kvtest.Store {
			path := filepath.Join(t.TempDir(), "kv.json")
			open := func(t testing.TB) ports.KvStore {
				store, err := jsonkv.Open(path, clock)
				require.NoError(t, err)
				return store
			}
			return kvtest.Store{
				Kv:     open(t),
				Reopen: open,
				Second: func(testing.TB) (ports.KvStore, error) { return jsonkv.Open(path, clock) },
			}
		},
		Clocked: true,
		Durable: true,
	})
}
