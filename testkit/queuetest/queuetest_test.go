package queuetest_test

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/queuetest"
)

func TestModelKeepsTheContract(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, queuetest.Harness{
		Open: func(_ testing.TB, clock ports.Clock) queuetest.Store {
			return queuetest.Store{
				Queue:  model.NewQueue(clock),
				Reopen: func(testing.TB) ports.QueueStore { return model.NewQueue(clock) },
			}
		},
		Clocked:     true,
		CanSendBulk: true,
		CanRelease:  true,
	})
}
