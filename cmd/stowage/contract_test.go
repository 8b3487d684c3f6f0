package main

import (
	"testing"

	"github.com/stowage-go/stowage/adapters/localkv"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/queuetest"
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
