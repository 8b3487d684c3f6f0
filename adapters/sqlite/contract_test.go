package sqlite

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/storagetest"
)

var (
	_ ports.Storage        = (*Storage)(nil)
	_ ports.Archiver       = (*Storage)(nil)
	_ ports.Backuper       = (*Storage)(nil)
	_ ports.HealthChecker  = (*Storage)(nil)
	_ ports.JournalCounter = (*Storage)(nil)
	_ ports.Meter          = (*Storage)(nil)
)

func TestStorageInAFileKeepsTheContract(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, fileHarness())
}

func TestStorageInMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, memoryHarness())
}
