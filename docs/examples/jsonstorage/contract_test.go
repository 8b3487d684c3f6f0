package jsonstorage_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/jsonstorage"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/storagetest"
)

var _ ports.Storage = (*jsonstorage.Storage)(nil)

func TestContract(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Harness{
		Open: func(t testing.TB, depth int64) storagetest.Store {
			path := filepath.Join(t.TempDir(), "storage.json")
			open := func(t testing.TB) ports.Storage {
				store, err := jsonstorage.Open(path, depth)
				require.NoError(t, err)
				return store
			}
			return storagetest.Store{
				Storage: open(t),
				Reopen:  open,
				Second: func(testing.TB) (ports.Storage, error) {
					return jsonstorage.Open(path, depth)
				},
			}
		},
		Durable: true,
	})
}
