package control_test

import (
	"bytes"
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// crowd is a storage of very many letters, which it makes when it is asked for them: so the memory that
// a test sees is that of the handle.
type crowd struct {
	ports.Storage
	left    []bool // by position
	count   int64
	pages   int
	biggest int // of the pages
	steps   int // calls that remove letters
	atPage  func(n int)
	event   []byte
}

func newCrowd(n int) *crowd {
	c := &crowd{left: make([]bool, n+1), count: int64(n), event: []byte(`{"text":"` + strings.Repeat("e", 500) + `"}`)}
	for i := 1; i <= n; i++ {
		c.left[i] = true
	}
	return c
}

func (c *crowd) letter(position int) types.StoredLetter {
	l := fixture.DeadLetter(position)
	l.Payload.Match.Event = bytes.Clone(c.event) // memory of its own, as from a disk
	return types.StoredLetter{Position: int64(position), Letter: l}
}

func (c *crowd) CountDeadLetters(context.Context) ([]types.LetterCount, error) {
	return []types.LetterCount{{Pipeline: fixture.Pipeline, Count: c.count}}, nil
}

func (c *crowd) ListDeadLetters(ctx context.Context, _ types.PipelineID, q types.LetterQuery) ([]types.StoredLetter, error) {
	c.pages++
	if c.atPage != nil {
		c.atPage(c.pages)
	}
	var page []types.StoredLetter
	for i := int(q.After) + 1; i < len(c.left) && len(page) < q.Take; i++ {
		switch {
		case !c.left[i]:
		case q.Skip > 0:
			q.Skip--
		default:
			page = append(page, c.letter(i))
		}
	}
	c.biggest = max(c.biggest, len(page))
	return page, ctx.Err()
}

func (c *crowd) position(id types.MatchID) int {
	n, err := strconv.Atoi(strings.TrimPrefix(string(id), "match-"))
	mustDo(err)
	return n
}

func (c *crowd) GetDeadLetter(_ context.Context, _ types.PipelineID, id types.MatchID) (types.StoredLetter, bool, error) {
	n := c.position(id)
	if !c.left[n] {
		return types.StoredLetter{}, false, nil
	}
	return c.letter(n), true, nil
}

func (c *crowd) remove(ids []types.MatchID) (n int64) {
	c.steps++
	for _, id := range ids {
		if at := c.position(id); c.left[at] {
			c.left[at] = false
			n++
		}
	}
	c.count -= n
	return n
}

func (c *crowd) DeleteDeadLetters(_ context.Context, _ types.PipelineID, ids []types.MatchID) (int64, error) {
	return c.remove(ids), nil
}

func (c *crowd) Apply(_ context.Context, _ types.PipelineID, p types.Progress) error {
	c.remove(p.Settled)
	return nil
}

// Two hundred thousand letters of half a kilobyte are replayed and discarded a page at a time: what is in
// memory at any time is a small part of them.
func TestVeryManyLettersNeedLittleMemory(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	const letters, bound = 200_000, 32 << 20
	for name, discard := range map[string]bool{"replay": false, "discard": true} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // as above
			c := newCrowd(letters)
			w := newWorldOver(t, func(ports.Storage) control.Storage { return c })
			c.Storage = w.store
			taken := 0
			w.resolver.sinks[fixture.Sink] = sinkFunc(func(context.Context, types.SinkEvent) error { taken++; return nil })
			start, most := heap(), uint64(0)
			c.atPage = func(n int) {
				if n%40 == 0 {
					most = max(most, heap())
				}
			}
			filter := types.LetterFilter{Sink: fixture.Sink}
			act := w.ReplayLetters
			if discard {
				act = w.DiscardLetters
			}
			result, err := act(t.Context(), fixture.Pipeline, types.LetterSelection{Filter: filter})
			require.NoError(t, err)
			require.Equal(t, types.BulkResult{Done: letters}, result)
			require.Zero(t, c.count)
			require.LessOrEqual(t, c.biggest, ports.MaxPageLimit)
			require.NotZero(t, most)
			require.Less(t, most, start+bound, "bytes of the heap, %d at the start", start)
			if discard {
				require.Equal(t, letters/ports.MaxPageLimit, c.steps)
				return
			}
			require.Equal(t, letters, taken)
		})
	}
}

type sinkFunc func(context.Context, types.SinkEvent) error

func (f sinkFunc) Deliver(ctx context.Context, event types.SinkEvent) error { return f(ctx, event) }

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
