package sinktest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/sinktest"
	"github.com/stowage-go/stowage/types"
)

// brokenVariable names the broken sink that a child process runs the suite on.
const brokenVariable = "STOWAGE_SINKTEST_BROKEN"

// brokenSinks are sinks with one fault each, and the case of the suite that must see it.
var brokenSinks = map[string]struct {
	mustFail string
	change   func(*altered)
}{
	"takes an event of no type": {"input/an event of no type, and one of both, is refused without effect", func(s *altered) {
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			if e.Origin() == nil {
				return nil
			}
			return s.BatchSink.Deliver(ctx, e)
		}
	}},
	"prefers the match": {"input/an event of no type, and one of both, is refused without effect", func(s *altered) {
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			if e.Match != nil {
				e.Emission = nil
			}
			return s.BatchSink.Deliver(ctx, e)
		}
	}},
	"refuses a batch with an event of no type": {"input/an event of no type in a batch is refused alone", func(s *altered) {
		s.batch = func(ctx context.Context, events []types.SinkEvent) []error {
			for _, e := range events {
				if err := ports.CheckSinkEvent("sink.deliverBatch", e); err != nil {
					return slices.Repeat([]error{err}, len(events))
				}
			}
			return s.BatchSink.DeliverBatch(ctx, events)
		}
	}},
	"loses the trace": {"deliver/a match arrives with all that it has", eachEvent(func(e *types.SinkEvent) { e.Traceparent = "" })},
	"loses what is 0 or below": {"deliver/a match arrives with all that it has", eachEvent(func(e *types.SinkEvent) {
		if origin := e.Origin(); origin != nil {
			origin.TS = max(origin.TS, 0)
		}
	})},
	"makes emissions matches": {"deliver/an emission arrives with all that it has", eachEvent(func(e *types.SinkEvent) {
		if e.Emission != nil {
			e.Match, e.Emission = &e.Emission.Match, nil
		}
	})},
	"escapes what HTML needs": {"deliver/an event arrives byte for byte", eachEvent(func(e *types.SinkEvent) {
		if origin := e.Origin(); origin != nil {
			var text bytes.Buffer
			json.HTMLEscape(&text, origin.Event)
			origin.Event = text.Bytes()
		}
	})},
	"cuts large events": {"deliver/the largest event arrives whole, with others around it", eachEvent(func(e *types.SinkEvent) {
		if origin := e.Origin(); origin != nil && len(origin.Event) > 64<<10 {
			origin.Event = []byte(`""`)
		}
	})},
	"makes a match id of its own": {"deliver/an event that is delivered again bears its match id again", func(s *altered) {
		n := 0
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			e = e.Clone()
			n++
			e.Origin().ID += types.MatchID(strings.Repeat("x", n))
			return s.BatchSink.Deliver(ctx, e)
		}
	}},
	"uses the caller's memory as its own": {"deliver/the event stays the caller's", func(s *altered) {
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			err := s.BatchSink.Deliver(ctx, e)
			if origin := e.Origin(); origin != nil {
				clear(origin.Event)
			}
			return err
		}
	}},
	"keeps the caller's memory": {"deliver/the event stays the caller's", func(s *altered) {
		var kept []types.SinkEvent
		s.deliver = func(_ context.Context, e types.SinkEvent) error {
			kept = append(kept, e)
			return nil
		}
		s.received = func() []types.SinkEvent { return kept }
	}},
	"keeps the memory of batches": {"batch/the events of a batch stay the caller's", func(s *altered) {
		var kept []types.SinkEvent
		s.batch = func(_ context.Context, events []types.SinkEvent) []error {
			kept = append(kept, events...)
			return make([]error, len(events))
		}
		s.received = func() []types.SinkEvent { return kept }
	}},
	"loses one of two at the same time": {"deliver/many deliver at the same time", func(s *altered) {
		var busy sync.Mutex
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			if !busy.TryLock() {
				return nil
			}
			defer busy.Unlock()
			for range 100 {
				runtime.Gosched()
			}
			return s.BatchSink.Deliver(ctx, e)
		}
	}},
	"ignores the context": {"deliver/a delivery whose context has ended is not made", func(s *altered) {
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			return s.BatchSink.Deliver(context.WithoutCancel(ctx), e)
		}
	}},
	"takes a context that has ended for a failure": {"deliver/a delivery whose context has ended is not made", func(s *altered) {
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			err := s.BatchSink.Deliver(ctx, e)
			if ctx.Err() != nil {
				err = ports.Errorf(ports.CodeBackendFailed, "sink.deliver", "no answer")
			}
			return err
		}
	}},
	"gives up at a transient failure": {"failure/a transient failure goes away", failsWith(func(err *ports.Error) error { return err.WithClass(ports.Permanent) })},
	"forgets the pause": {"failure/a receiver that asks for a pause is left alone for that time", failsWith(func(err *ports.Error) error {
		return ports.Errorf(err.Code, err.Op, "%s", err.Message)
	})},
	"tries on after a permanent failure": {"failure/a permanent failure says so", failsWith(func(err *ports.Error) error { return err.WithClass(ports.Transient) })},
	"has an effect and fails": {"failure/a transient failure goes away", func(s *altered) {
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			err := s.BatchSink.Deliver(ctx, e)
			if err != nil {
				s.late = append(s.late, e)
			}
			return err
		}
		s.received = func() []types.SinkEvent { return append(s.Received(), s.late...) }
	}},
	"shows the payload": {"failure/a permanent failure says so", func(s *altered) {
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			err := s.BatchSink.Deliver(ctx, e)
			var failed *ports.Error
			if errors.As(err, &failed) && e.Match != nil {
				shown := *failed
				shown.Message += string(e.Match.Event)
				return &shown
			}
			return err
		}
	}},
	"fails for good after one failure": {"failure/a receiver that fails for one match takes the others", func(s *altered) {
		var failed error
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			if failed == nil {
				failed = s.BatchSink.Deliver(ctx, e)
			}
			return failed
		}
	}},
	"takes batches of any size": {"batch/the most events of a batch are 1 to 1000, and always the same", func(s *altered) { s.most = 1 << 30 }},
	"reverses a batch": {"batch/a batch of any size arrives in order, with all that it has", func(s *altered) {
		s.batch = func(ctx context.Context, events []types.SinkEvent) []error {
			events = slices.Clone(events)
			slices.Reverse(events)
			outcomes := s.BatchSink.DeliverBatch(ctx, events)
			slices.Reverse(outcomes)
			return outcomes
		}
	}},
	"has one outcome a batch": {"batch/a batch of any size arrives in order, with all that it has", func(s *altered) {
		s.batch = func(ctx context.Context, events []types.SinkEvent) []error {
			return []error{errors.Join(s.BatchSink.DeliverBatch(ctx, events)...)}
		}
	}},
	"gives up a batch at a permanent failure": {"batch/a permanent failure in a batch is that of its event alone", func(s *altered) {
		s.batch = func(ctx context.Context, events []types.SinkEvent) []error {
			outcomes := make([]error, len(events))
			for i, e := range events {
				if i > 0 && outcomes[i-1] != nil {
					outcomes[i] = outcomes[i-1]
					continue
				}
				outcomes[i] = s.BatchSink.Deliver(ctx, e)
			}
			return outcomes
		}
	}},
	"delivers what it says has failed": {"batch/a transient failure in a batch says what has arrived, and the rest can follow", func(s *altered) {
		s.batch = func(ctx context.Context, events []types.SinkEvent) []error {
			outcomes := make([]error, len(events))
			for i, e := range events {
				outcomes[i] = s.BatchSink.Deliver(ctx, e)
			}
			if all := errors.Join(outcomes...); all != nil {
				return slices.Repeat([]error{all}, len(events))
			}
			return outcomes
		}
	}},
	"has the outcomes of other events": {"batch/a receiver that asks for a pause in a batch has what came before", func(s *altered) {
		s.batch = func(ctx context.Context, events []types.SinkEvent) []error {
			outcomes := s.BatchSink.DeliverBatch(ctx, events)
			slices.Reverse(outcomes)
			return outcomes
		}
	}},
	"takes what comes after it was closed": {"life/a closed sink takes nothing", func(s *altered) { s.close = func() error { return nil } }},
	"is closed once only": {"life/a closed sink takes nothing", func(s *altered) {
		closed := false
		s.close = func() error {
			if closed {
				return errors.New("closed already")
			}
			closed = true
			return s.BatchSink.Close()
		}
	}},
	"drops what is under way when it is closed": {"life/closing beside deliveries loses none that was taken", func(s *altered) {
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			for range 1_000 {
				runtime.Gosched() // so that the sink is closed in the meantime
			}
			if err := s.BatchSink.Deliver(ctx, e); !errors.Is(err, ports.ErrStoreClosed) {
				return err
			}
			return nil
		}
	}},
}

// altered is a sink of the model of which some calls are others.
type altered struct {
	*model.BatchSink
	most     int
	late     []types.SinkEvent
	deliver  func(context.Context, types.SinkEvent) error
	batch    func(context.Context, []types.SinkEvent) []error
	close    func() error
	received func() []types.SinkEvent
}

func eachEvent(change func(*types.SinkEvent)) func(*altered) {
	return func(s *altered) {
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			e = e.Clone()
			change(&e)
			return s.BatchSink.Deliver(ctx, e)
		}
	}
}

func failsWith(change func(*ports.Error) error) func(*altered) {
	return func(s *altered) {
		s.deliver = func(ctx context.Context, e types.SinkEvent) error {
			err := s.BatchSink.Deliver(ctx, e)
			var failed *ports.Error
			if errors.As(err, &failed) {
				return change(failed)
			}
			return err
		}
	}
}

func (s *altered) Deliver(ctx context.Context, e types.SinkEvent) error { return s.deliver(ctx, e) }

func (s *altered) MaxBatch() int { return s.most }

func (s *altered) DeliverBatch(ctx context.Context, events []types.SinkEvent) []error {
	return s.batch(ctx, events)
}

func (s *altered) Close() error { return s.close() }

// TestSuiteOnABrokenSink is what the child processes of TestSuiteSeesBrokenSinks run.
func TestSuiteOnABrokenSink(t *testing.T) {
	sink, ok := brokenSinks[os.Getenv(brokenVariable)]
	if !ok {
		t.Skip("runs in the child processes of TestSuiteSeesBrokenSinks only")
	}
	h := harness(nil)
	h.Open = func(testing.TB) sinktest.Sink {
		inner := model.NewBatchSink(20)
		s := &altered{BatchSink: inner, most: inner.MaxBatch(), deliver: inner.Deliver, batch: inner.DeliverBatch, close: inner.Close, received: inner.Received}
		sink.change(s)
		return sinktest.Sink{Sink: s, Received: func(testing.TB) []types.SinkEvent { return s.received() }, Fail: failWith(inner.Sink)}
	}
	sinktest.Run(t, h)
}

func TestSuiteSeesBrokenSinks(t *testing.T) {
	t.Parallel()
	for name, sink := range brokenSinks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSuiteOnABrokenSink$/"+quoteCase(sink.mustFail))
			child.Env = append(os.Environ(), brokenVariable+"="+name)
			var output bytes.Buffer
			child.Stdout, child.Stderr = &output, &output
			var exit *exec.ExitError
			require.ErrorAs(t, child.Run(), &exit, "want the suite to fail, got:\n%s", output.String())
			require.Contains(t, output.String(), "--- FAIL: TestSuiteOnABrokenSink/", "want a case of the suite to fail, got:\n%s", output.String())
		})
	}
}

// quoteCase turns the name of a case into the pattern that matches it: go test shows white space as an
// underscore, and splits patterns at slashes.
func quoteCase(name string) string {
	pattern := strings.ReplaceAll(name, " ", "_")
	return "^" + strings.ReplaceAll(pattern, "/", "$/^") + "$"
}
