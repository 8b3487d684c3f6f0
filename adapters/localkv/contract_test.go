package localkv

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/kvtest"
)

var (
	_ ports.KvStore       = (*Store)(nil)
	_ ports.Backuper      = (*Store)(nil)
	_ ports.HealthChecker = (*Store)(nil)
	_ ports.Meter         = (*Store)(nil)
)

func TestMultiProcessStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, harness(MultiProcess))
}

func TestSingleProcessStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, harness(SingleProcess))
}
