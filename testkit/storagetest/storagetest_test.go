package storagetest_test

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/storagetest"
)

func modelHarness() storagetest.Harness {
	return storagetest.Harness{
		Open: func(_ testing.TB, depth int64) storagetest.Store {
			return storagetest.Store{
				Storage: model.NewStorage(depth),
				Reopen:  func(testing.TB) ports.Storage { return model.NewStorage(depth) },
			}
		},
		CanArchive:         true,
		CanCountDeliveries: true,
	}
}

func TestModelKeepsTheContract(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, modelHarness())
}

func TestFlakyWithoutFaultsKeepsTheContract(t *testing.T) {
	t.Parallel()
	h := modelHarness()
	h.CanCountDeliveries = false
	h.Open = func(_ testing.TB, depth int64) storagetest.Store {
		return storagetest.Store{Storage: flaky.NewStorage(model.NewStorage(depth), flaky.New(fixture.NewClock(fixture.Epoch()), 1))}
	}
	storagetest.Run(t, h)
}

// plain hides what a storage can do beyond the port.
type plain struct{ ports.Storage }

// durable is a place whose records outlast the handles on it.
type durable struct{ *model.Storage }

// Close leaves the model open for the next handle.
func (durable) Close() error { return nil }

func TestStoresOfOtherCapabilitiesKeepTheContract(t *testing.T) {
	t.Parallel()
	t.Run("no archiver", func(t *testing.T) {
		t.Parallel()
		storagetest.Run(t, storagetest.Harness{Open: func(_ testing.TB, depth int64) storagetest.Store {
			return storagetest.Store{Storage: plain{model.NewStorage(depth)}}
		}})
	})
	t.Run("the histories of a durable store", func(t *testing.T) {
		t.Parallel()
		h := storagetest.Harness{
			Open: func(_ testing.TB, depth int64) storagetest.Store {
				place := durable{model.NewStorage(depth)}
				return storagetest.Store{Storage: place, Reopen: func(testing.TB) ports.Storage { return place }}
			},
			Durable:            true,
			CanArchive:         true,
			CanCountDeliveries: true,
		}
		storagetest.RunModel(t, h)
		storagetest.RunFaulty(t, h)
	})
}
