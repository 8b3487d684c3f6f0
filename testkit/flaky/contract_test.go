package flaky_test

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/queuetest"
	"github.com/stowage-go/stowage/testkit/storagetest"
)

var (
	_ ports.KvStore    = (*flaky.Kv)(nil)
	_ ports.QueueStore = (*flaky.Queue)(nil)
	_ ports.Storage    = (*flaky.Storage)(nil)
	_ ports.Archiver   = (*flaky.Storage)(nil)
	_ ports.Source     = (*flaky.Source)(nil)
	_ ports.Sink       = (*flaky.Sink)(nil)
)

func TestKvWithoutFaultsKeepsTheContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, kvHarness())
}

func TestQueueWithoutFaultsKeepsTheContract(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, queueHarness())
}

func TestStorageWithoutFaultsKeepsTheContract(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storageHarness())
}
