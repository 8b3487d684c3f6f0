package sourcetest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/sourcetest"
	"github.com/stowage-go/stowage/types"
)

// harness is that of the model, whose sources are wrapped.
func harness(wrap func(ports.Source) ports.Source) sourcetest.Harness {
	return sourcetest.Harness{
		New: func(testing.TB) sourcetest.Stream {
			stream := model.NewStream(fixture.NewClock(fixture.Epoch()))
			return sourcetest.Stream{
				Open:      func(_ testing.TB, from *types.Cursor) ports.Source { return wrap(stream.Open(from)) },
				Append:    func(_ testing.TB, payloads ...string) { stream.Append(payloads...) },
				AppendBad: func(_ testing.TB, text string) { stream.Append(`{"` + text) },
			}
		},
		Accepts: true,
	}
}

func TestModelKeepsTheContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, harness(func(s ports.Source) ports.Source { return s }))
}

func TestFlakyWithoutFaultsKeepsTheContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, harness(func(s ports.Source) ports.Source {
		return flaky.NewSource(s, flaky.New(fixture.NewClock(fixture.Epoch()), 1))
	}))
}

// plain is a source that accepts nothing.
type plain struct{ ports.Source }

func TestSourcesOfOtherCapabilitiesKeepTheContract(t *testing.T) {
	t.Parallel()
	t.Run("accepts nothing", func(t *testing.T) {
		t.Parallel()
		h := harness(func(s ports.Source) ports.Source { return plain{s} })
		h.Accepts = false
		sourcetest.Run(t, h)
	})
	t.Run("has no other way in", func(t *testing.T) {
		t.Parallel()
		h := harness(func(s ports.Source) ports.Source { return s })
		withAppend := h.New
		h.New = func(t testing.TB) sourcetest.Stream {
			stream := withAppend(t)
			stream.Append, stream.AppendBad = nil, nil
			return stream
		}
		sourcetest.Run(t, h)
	})
	t.Run("ends", func(t *testing.T) {
		t.Parallel()
		sourcetest.Run(t, sourcetest.Harness{
			New: func(testing.TB) sourcetest.Stream {
				// A copy that has ended for each source.
				var all []string
				return sourcetest.Stream{
					Open: func(_ testing.TB, from *types.Cursor) ports.Source {
						stream := model.NewStream(fixture.NewClock(fixture.Epoch()))
						stream.Append(all...)
						stream.End()
						return plain{stream.Open(from)}
					},
					Append: func(_ testing.TB, payloads ...string) { all = append(all, payloads...) },
				}
			},
			Ends: true,
		})
	})
	t.Run("has several events at a cursor", func(t *testing.T) {
		t.Parallel()
		h := harness(nil)
		h.Accepts = false
		h.New = func(testing.TB) sourcetest.Stream {
			stream := model.NewStream(fixture.NewClock(fixture.Epoch()))
			n := uint64(0)
			return sourcetest.Stream{
				Open: func(_ testing.TB, from *types.Cursor) ports.Source { return plain{stream.Open(from)} },
				Append: func(t testing.TB, payloads ...string) {
					var events []types.Event
					for _, p := range payloads {
						compact, err := ports.CompactJSON(p)
						if err != nil {
							t.Fatal(err)
						}
						// Of what comes together, up to three share a cursor; what comes later has another.
						cursor := types.Cursor{Primary: 1 + n, Secondary: 2}
						if k := len(events); k%3 != 0 {
							cursor = events[k-1].Cursor
						}
						events = append(events, types.Event{Cursor: cursor, Index: n, Data: []byte(compact)})
						n++
					}
					stream.Add(events...)
				},
			}
		}
		sourcetest.Run(t, h)
	})
	t.Run("lends in any order", func(t *testing.T) {
		t.Parallel()
		h := harness(nil)
		h.New = func(testing.TB) sourcetest.Stream {
			pool := &pool{queue: model.NewStream(fixture.NewClock(fixture.Epoch()))}
			return sourcetest.Stream{Open: pool.open, Append: pool.append}
		}
		h.Accepts, h.Unordered, h.Lends = false, true, true
		sourcetest.Run(t, h)
	})
}

// pool is a place that lends events out: each has an id of its own, and a new cursor each time it is
// lent.
type pool struct {
	queue *model.Stream
	made  int
	next  uint64
}

func (p *pool) append(_ testing.TB, payloads ...string) {
	for _, payload := range payloads {
		compact, err := ports.CompactJSON(payload)
		if err != nil {
			panic(err)
		}
		p.made++
		p.add(types.Event{ID: fmt.Sprintf("id-%d", p.made), Data: []byte(compact)})
	}
}

func (p *pool) add(e types.Event) {
	p.next++
	e.Cursor = types.Cursor{Primary: p.next}
	p.queue.Add(e)
}

func (p *pool) open(_ testing.TB, _ *types.Cursor) ports.Source {
	var behind *types.Cursor
	if p.next > 0 {
		behind = &types.Cursor{Primary: p.next}
	}
	p.giveBack()
	return &lender{Source: p.queue.Open(behind), pool: p}
}

// giveBack adds again what is not settled, which whoever opens a source then reads.
func (p *pool) giveBack() {
	source := p.queue.Open(nil)
	open := map[string]types.Event{}
	var ids []string
	for p.next > 0 {
		events, err := source.Read(context.Background(), 1)
		if err != nil {
			panic(err)
		}
		if _, known := open[events[0].ID]; !known {
			ids = append(ids, events[0].ID)
		}
		open[events[0].ID] = events[0]
		if events[0].Cursor.Primary == p.next {
			break
		}
	}
	settled := p.queue.Settled()
	for _, id := range ids {
		if e := open[id]; settled == nil || e.Cursor.Compare(*settled) > 0 {
			p.add(e)
		}
	}
}

type lender struct {
	ports.Source
	pool *pool
}

func (l *lender) Unordered() bool { return true }
