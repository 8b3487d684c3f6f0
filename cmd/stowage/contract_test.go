package main

import (
	"testing"

	"github.com/stowage-go/stowage/adapters/localkv"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/queuetest"
	"github.com/stowage-go/stowage/testkit/storagetest"
)

func TestKvMemoryContract(t *testing.T) { t.Parallel(); kvtest.Run(t, kvMemory()) }
func TestKvMultiProcessContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, kvLocal(localkv.MultiProcess))
}
func TestKvSingleProcessContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, kvLocal(localkv.SingleProcess))
}
func TestQueueMemoryContract(t *testing.T) { t.Parallel(); queuetest.Run(t, queueMemory()) }
func TestQueueLocalContract(t *testing.T)  { t.Parallel(); queuetest.Run(t, queueLocal()) }
func TestQueueHTTPContract(t *testing.T)   { t.Parallel(); queuetest.Run(t, queueHTTP()) }

// One suite for every storage, through the catalog (R275).
func TestStorageMemoryContract(t *testing.T)   { t.Parallel(); storagetest.Run(t, storageMemory()) }
func TestStorageFileContract(t *testing.T)     { t.Parallel(); storagetest.Run(t, storageFile()) }
func TestStorageInMemoryContract(t *testing.T) { t.Parallel(); storagetest.Run(t, storageInMemory()) }
