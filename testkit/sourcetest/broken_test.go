package sourcetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/sourcetest"
	"github.com/stowage-go/stowage/types"
)

// brokenVariable names the broken source that a child process runs the suite on.
const brokenVariable = "STOWAGE_SOURCETEST_BROKEN"

// opener opens a source of a stream, behind the cursor unless that is nil.
type opener func(stream *model.Stream, from *types.Cursor) ports.Source

// brokenSources are sources with one fault each, and the case of the suite that must see it.
var brokenSources = map[string]struct {
	mustFail string
	open     opener
}{
	"reverses a batch": {"order/events come in the order in which they were added", reads(func(events []types.Event) []types.Event {
		slices.Reverse(events)
		return events
	})},
	"gives more than it was asked for": {"order/a read gives no more than it is asked for", changes(func(s *altered) {
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			return s.Source.Read(ctx, min(limit+1, ports.MaxReadEvents))
		}
	})},
	"takes any limit": {"input/a read of none, of less, or of more than 10,000 is refused, and no event is lost", changes(func(s *altered) {
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			return s.Source.Read(ctx, min(max(limit, 1), ports.MaxReadEvents))
		}
	})},
	"waits to fill up": {"order/a read does not wait to fill up", changes(func(s *altered) {
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			var all []types.Event
			for len(all) < limit {
				events, err := s.Source.Read(ctx, limit-len(all))
				if err != nil {
					return nil, err
				}
				all = append(all, events...)
			}
			return all, nil
		}
	})},
	"stops after a hundred events": {"order/many events are read by reads of any size", changes(func(s *altered) {
		n := 0
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			events, err := s.Source.Read(ctx, limit)
			if n += len(events); n > 100 {
				return nil, io.EOF
			}
			return events, err
		}
	})},
	"keeps white space": {"event/data is the event as compact JSON, to the last digit", eachEvent(func(e *types.Event) { e.Data = append([]byte(" "), e.Data...) })},
	"loses digits": {"event/data is the event as compact JSON, to the last digit", eachEvent(func(e *types.Event) {
		e.Data = bytes.ReplaceAll(e.Data, []byte("9007199254740993"), []byte("9007199254740992"))
	})},
	"cuts large events": {"event/the largest event comes through whole, with others around it", eachEvent(func(e *types.Event) {
		if len(e.Data) > 64<<10 {
			e.Data = []byte(`""`)
		}
	})},
	"has one identity for the same content": {"event/each event has an identity of its own", eachEvent(func(e *types.Event) { e.ID = string(e.Data) })},
	"reads into one buffer": {"event/data is the reader's own", changes(func(s *altered) {
		var buffer []byte
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			events, err := s.Source.Read(ctx, limit)
			buffer = buffer[:0]
			for i, e := range events {
				buffer = append(buffer, e.Data...)
				events[i].Data = buffer[len(buffer)-len(e.Data):]
			}
			return events, err
		}
	})},
	"packs events side by side": {"event/data is the reader's own", reads(func(events []types.Event) []types.Event {
		var all []byte
		for _, e := range events {
			all = append(all, e.Data...)
		}
		for i, e := range events {
			events[i].Data, all = all[:len(e.Data)], all[len(e.Data):]
		}
		return events
	})},
	"stops at what is no event": {"event/what is no event comes in its place, and stops nothing", changes(func(s *altered) {
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			events, err := s.Source.Read(ctx, limit)
			for _, e := range events {
				if e.Err != nil {
					return nil, e.Err
				}
			}
			return events, err
		}
	})},
	"passes over what is no event": {"event/what is no event comes in its place, and stops nothing", changes(func(s *altered) {
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			for {
				events, err := s.Source.Read(ctx, limit)
				events = slices.DeleteFunc(events, func(e types.Event) bool { return e.Err != nil })
				if err != nil || len(events) > 0 {
					return events, err
				}
			}
		}
	})},
	"shows what is no event": {"event/what is no event comes in its place, and stops nothing", eachEvent(func(e *types.Event) {
		if e.Err != nil {
			e.Err = fmt.Errorf("%w: %s", e.Err, "canary-of-the-suite")
		}
	})},
	"begins at the cursor": {"cursor/an ordered source behind each cursor gives exactly the rest", func(stream *model.Stream, from *types.Cursor) ports.Source {
		if from != nil {
			from = &types.Cursor{Primary: from.Primary - 1}
		}
		return stream.Open(from)
	}},
	"skips one behind the cursor": {"cursor/an ordered source behind each cursor gives exactly the rest", func(stream *model.Stream, from *types.Cursor) ports.Source {
		if from != nil {
			from = &types.Cursor{Primary: from.Primary + 1}
		}
		return stream.Open(from)
	}},
	"counts identities from its start": {"cursor/identities are the same when a source is opened anew", changes(func(s *altered) {
		n := 0
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			events, err := s.Source.Read(ctx, limit)
			for i := range events {
				n++
				events[i].ID = fmt.Sprint(n)
			}
			return events, err
		}
	})},
	"forgets more than was settled": {"cursor/a source that settled up to a cursor gives exactly the rest behind it", func(stream *model.Stream, from *types.Cursor) ports.Source {
		if settled := stream.Settled(); settled != nil && from != nil {
			from = &types.Cursor{Primary: max(from.Primary, settled.Primary+1)}
		}
		return stream.Open(from)
	}},
	"refuses to settle again": {"cursor/settling again, and on while reading, loses nothing behind it", changes(func(s *altered) {
		var last types.Cursor
		s.settle = func(ctx context.Context, through types.Cursor) error {
			if through == last {
				return errors.New("settled already")
			}
			last = through
			return s.Source.Settle(ctx, through)
		}
	})},
	"says that it is unordered": {"cursor/unordered is said by those that are", func(stream *model.Stream, from *types.Cursor) ports.Source {
		return saysUnordered{stream.Open(from)}
	}},
	"does not wake": {"wait/a read of an empty stream waits, and an event wakes it", changes(func(s *altered) {
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			events, err := s.Source.Read(expired, limit)
			if errors.Is(err, context.Canceled) { // it has none
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return events, err
		}
	})},
	"takes the end of what there is for the end": {"wait/a read behind the last event waits, and events wake it each time", changes(func(s *altered) {
		last := s.stream
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			last.End()
			return s.Source.Read(ctx, limit)
		}
	})},
	"loses what comes while nobody waits": {"wait/a read whose context ends loses no event", changes(func(s *altered) {
		var mu sync.Mutex
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			type result struct {
				events []types.Event
				err    error
			}
			done := make(chan result, 1)
			go func() {
				mu.Lock()
				defer mu.Unlock()
				events, err := s.Source.Read(context.Background(), limit)
				done <- result{events, err}
			}()
			select {
			case r := <-done:
				return r.events, r.err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})},
	"makes the context's error its own": {"wait/a read whose deadline passes says so", changes(func(s *altered) {
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			events, err := s.Source.Read(ctx, limit)
			if err != nil && ctx.Err() != nil {
				err = ports.Errorf(ports.CodeBackendFailed, "source.read", "gave up: %w", err)
			}
			return events, err
		}
	})},
	"settles when nobody reads": {"wait/settling goes on beside a read that waits", changes(func(s *altered) {
		var mu sync.Mutex
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			mu.Lock()
			defer mu.Unlock()
			return s.Source.Read(ctx, limit)
		}
		s.settle = func(ctx context.Context, through types.Cursor) error {
			mu.Lock()
			defer mu.Unlock()
			return s.Source.Settle(ctx, through)
		}
	})},
	"leaves a read waiting when it is closed": {"life/closing ends a read that waits", changes(func(s *altered) { s.close = func() error { return nil } })},
	"is closed once only": {"life/a closed source gives no more events", changes(func(s *altered) {
		closed := false
		s.close = func() error {
			if closed {
				return errors.New("closed already")
			}
			closed = true
			return s.Source.Close()
		}
	})},
	"accepts the good ones": {"accept/one that breaks a rule refuses all", changes(func(s *altered) {
		s.accept = func(ctx context.Context, events []types.Event) (bad error) {
			for _, e := range events {
				bad = errors.Join(bad, s.Source.Accept(ctx, []types.Event{e}))
			}
			return bad
		}
	})},
	"believes in the cursors of others": {"accept/what was accepted comes out in order, with its time and trace", changes(func(s *altered) {
		s.accept = func(_ context.Context, events []types.Event) error {
			for _, e := range events {
				e.Err = nil
				s.stream.Add(e)
			}
			return nil
		}
	})},
	"stamps events by itself": {"accept/what was accepted comes out in order, with its time and trace", changes(func(s *altered) {
		s.accept = func(ctx context.Context, events []types.Event) error {
			events = slices.Clone(events)
			for i := range events {
				events[i].TS = 1
			}
			return s.Source.Accept(ctx, events)
		}
	})},
	"accepts for one who has gone": {"accept/accepting for a context that has ended leaves nothing behind", changes(func(s *altered) {
		s.accept = func(ctx context.Context, events []types.Event) error {
			return errors.Join(s.Source.Accept(context.WithoutCancel(ctx), events), ctx.Err())
		}
	})},
	"accepts one by one": {"accept/what many hand over stays together, each in its order", changes(func(s *altered) {
		s.accept = func(ctx context.Context, events []types.Event) error {
			for _, e := range events {
				if err := s.Source.Accept(ctx, []types.Event{e}); err != nil {
					return err
				}
				runtime.Gosched()
			}
			return nil
		}
	})},
	"keeps what it accepts in memory": {"accept/what was accepted is there when the source is opened anew", changes(func(s *altered) {
		s.accept = func(ctx context.Context, events []types.Event) error {
			if _, err := ports.CheckEvents("source.accept", events); err != nil {
				return err
			}
			s.held.Add(events...)
			return nil
		}
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) { return s.own.Read(ctx, limit) }
	})},
}

// expired is a context that has ended.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// altered is a source of the model of which some calls are others.
type altered struct {
	*model.Source
	stream *model.Stream
	held   *model.Stream // a stream of its own, and its source
	own    *model.Source
	read   func(context.Context, int) ([]types.Event, error)
	settle func(context.Context, types.Cursor) error
	accept func(context.Context, []types.Event) error
	close  func() error
}

func changes(change func(*altered)) opener {
	return func(stream *model.Stream, from *types.Cursor) ports.Source {
		s := &altered{Source: stream.Open(from), stream: stream, held: model.NewStream(fixture.NewClock(fixture.Epoch()))}
		s.own = s.held.Open(nil)
		s.read, s.settle, s.accept, s.close = s.Source.Read, s.Source.Settle, s.Source.Accept, s.Source.Close
		change(s)
		return s
	}
}

func reads(change func([]types.Event) []types.Event) opener {
	return changes(func(s *altered) {
		s.read = func(ctx context.Context, limit int) ([]types.Event, error) {
			events, err := s.Source.Read(ctx, limit)
			return change(events), err
		}
	})
}

func eachEvent(change func(*types.Event)) opener {
	return reads(func(events []types.Event) []types.Event {
		for i := range events {
			change(&events[i])
		}
		return events
	})
}

func (s *altered) Read(ctx context.Context, limit int) ([]types.Event, error) {
	return s.read(ctx, limit)
}

func (s *altered) Settle(ctx context.Context, through types.Cursor) error {
	return s.settle(ctx, through)
}

func (s *altered) Accept(ctx context.Context, events []types.Event) error {
	return s.accept(ctx, events)
}

func (s *altered) Close() error { return s.close() }

type saysUnordered struct{ *model.Source }

func (saysUnordered) Unordered() bool { return true }

// TestSuiteOnABrokenSource is what the child processes of TestSuiteSeesBrokenSources run.
func TestSuiteOnABrokenSource(t *testing.T) {
	source, ok := brokenSources[os.Getenv(brokenVariable)]
	if !ok {
		t.Skip("runs in the child processes of TestSuiteSeesBrokenSources only")
	}
	h := harness(nil)
	h.Patience = 300 * time.Millisecond
	h.New = func(testing.TB) sourcetest.Stream {
		stream := model.NewStream(fixture.NewClock(fixture.Epoch()))
		return sourcetest.Stream{
			Open:      func(_ testing.TB, from *types.Cursor) ports.Source { return source.open(stream, from) },
			Append:    func(_ testing.TB, payloads ...string) { stream.Append(payloads...) },
			AppendBad: func(_ testing.TB, text string) { stream.Append(`{"` + text) },
		}
	}
	sourcetest.Run(t, h)
}

func TestSuiteSeesBrokenSources(t *testing.T) {
	t.Parallel()
	for name, source := range brokenSources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSuiteOnABrokenSource$/"+quoteCase(source.mustFail))
			child.Env = append(os.Environ(), brokenVariable+"="+name)
			var output bytes.Buffer
			child.Stdout, child.Stderr = &output, &output
			var exit *exec.ExitError
			require.ErrorAs(t, child.Run(), &exit, "want the suite to fail, got:\n%s", output.String())
			require.Contains(t, output.String(), "--- FAIL: TestSuiteOnABrokenSource/", "want a case of the suite to fail, got:\n%s", output.String())
		})
	}
}

// quoteCase turns the name of a case into the pattern that matches it: go test shows white space as an
// underscore, and splits patterns at slashes.
func quoteCase(name string) string {
	pattern := strings.ReplaceAll(name, " ", "_")
	return "^" + strings.ReplaceAll(pattern, "/", "$/^") + "$"
}
