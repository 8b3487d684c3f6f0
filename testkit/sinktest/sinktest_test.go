package sinktest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/sinktest"
	"github.com/stowage-go/stowage/types"
)

// pause is what the receiver of the model asks for.
const pause = 7 * time.Second

// failWith makes a model sink fail.
func failWith(s *model.Sink) func(testing.TB, sinktest.Failure, ...types.MatchID) {
	return func(_ testing.TB, how sinktest.Failure, only ...types.MatchID) {
		failed := ports.Errorf(ports.CodeBackendFailed, "sink.deliver", "the receiver fails: %s", how)
		switch how {
		case sinktest.Works:
			s.Fail(nil)
			return
		case sinktest.Permanent:
			failed = failed.WithClass(ports.Permanent)
		case sinktest.RateLimited:
			failed = failed.WithRetryAfter(pause)
		}
		s.Fail(func(e types.SinkEvent) error {
			if len(only) > 0 && !slices.Contains(only, e.Origin().ID) {
				return nil
			}
			return failed
		})
	}
}

// harness is that of the model, whose sinks are wrapped.
func harness(wrap func(*model.BatchSink) ports.Sink) sinktest.Harness {
	return sinktest.Harness{
		Open: func(testing.TB) sinktest.Sink {
			s := model.NewBatchSink(20)
			return sinktest.Sink{
				Sink:     wrap(s),
				Received: func(testing.TB) []types.SinkEvent { return s.Received() },
				Fail:     failWith(s.Sink),
			}
		},
		Batches:  true,
		Closes:   true,
		Fails:    []sinktest.Failure{sinktest.Transient, sinktest.Permanent, sinktest.RateLimited},
		FailsOne: true,
		Pause:    pause,
	}
}

func TestModelKeepsTheContract(t *testing.T) {
	t.Parallel()
	t.Run("batches", func(t *testing.T) {
		t.Parallel()
		sinktest.Run(t, harness(func(s *model.BatchSink) ports.Sink { return s }))
	})
	t.Run("one by one", func(t *testing.T) {
		t.Parallel()
		h := harness(func(s *model.BatchSink) ports.Sink { return s.Sink })
		h.Batches = false
		sinktest.Run(t, h)
	})
}

func TestFlakyWithoutFaultsKeepsTheContract(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, harness(func(s *model.BatchSink) ports.Sink {
		return flaky.NewSink(s, flaky.New(fixture.NewClock(fixture.Epoch()), 1))
	}))
}

// plain is a sink without any ability.
type plain struct{ ports.Sink }

func TestSinksOfOtherCapabilitiesKeepTheContract(t *testing.T) {
	t.Parallel()
	t.Run("no failures", func(t *testing.T) {
		t.Parallel()
		sinktest.Run(t, sinktest.Harness{Open: func(testing.TB) sinktest.Sink {
			s := model.NewSink()
			return sinktest.Sink{Sink: plain{s}, Received: func(testing.TB) []types.SinkEvent { return s.Received() }}
		}})
	})
	t.Run("batches of one", func(t *testing.T) {
		t.Parallel()
		h := harness(nil)
		h.Open = func(testing.TB) sinktest.Sink {
			s := model.NewBatchSink(1)
			return sinktest.Sink{Sink: s, Received: func(testing.TB) []types.SinkEvent { return s.Received() }, Fail: failWith(s.Sink)}
		}
		sinktest.Run(t, h)
	})
}
