package memory

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/queuetest"
	"github.com/stowage-go/stowage/testkit/storagetest"
)

var (
	_ ports.Storage        = (*Storage)(nil)
	_ ports.Archiver       = (*Storage)(nil)
	_ ports.JournalCounter = (*Storage)(nil)
	_ ports.KvStore        = (*Kv)(nil)
	_ ports.QueueStore     = (*Queue)(nil)
	_ ports.BulkSender     = (*Queue)(nil)
	_ ports.Releaser       = (*Queue)(nil)
)

func TestStorageContract(t *testing.T) { t.Parallel(); storagetest.Run(t, storageHarness()) }
func TestKvContract(t *testing.T)      { t.Parallel(); kvtest.Run(t, kvHarness()) }
func TestQueueContract(t *testing.T)   { t.Parallel(); queuetest.Run(t, queueHarness()) }
