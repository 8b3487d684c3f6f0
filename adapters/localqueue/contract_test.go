package localqueue

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/queuetest"
)

var (
	_ ports.QueueStore      = (*Queue)(nil)
	_ ports.BulkSender      = (*Queue)(nil)
	_ ports.Releaser        = (*Queue)(nil)
	_ ports.Discarder       = (*Queue)(nil)
	_ ports.HealthChecker   = (*Queue)(nil)
	_ ports.Backuper        = (*Queue)(nil)
	_ ports.Meter           = (*Queue)(nil)
	_ ports.QueueOwnerStore = (*Owner)(nil)
	_ ports.HealthChecker   = (*Owner)(nil)
	_ DeadLetterSink        = queueSink{}
)

func TestContract(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, harness())
}
