package memory

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/queuetest"
)

var (
	_ ports.KvStore    = (*Kv)(nil)
	_ ports.QueueStore = (*Queue)(nil)
	_ ports.Releaser   = (*Queue)(nil)
)

func TestKvContract(t *testing.T)    { t.Parallel(); kvtest.Run(t, kvHarness()) }
func TestQueueContract(t *testing.T) { t.Parallel(); queuetest.Run(t, queueHarness()) }
