package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// numbered is an event that says who made it, and which of his it is.
type numbered struct {
	Producer int `json:"producer"`
	N        int `json:"n"`
}

// tally is what a producer has had confirmed, and how often it sent something again.
type tally struct {
	mu        sync.Mutex
	confirmed map[numbered]bool
	repeats   map[numbered]int // sends beyond the first whose outcome nobody knew
}

func newTally() *tally { return &tally{confirmed: map[numbered]bool{}, repeats: map[numbered]int{}} }

func (y *tally) confirm(events []numbered, repeats int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, e := range events {
		y.confirmed[e] = true
		if repeats > 0 {
			y.repeats[e] = repeats
		}
	}
}

// check wants every confirmed event among the matches, none that was not sent, as often as it was sent at
// most, and each match no more than once beside what a kill may bring back.
func (y *tally) check(t *testing.T, lane string, got []types.SinkEvent, batch, kills int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	wrong := &violations{t: t, lane: lane}
	defer wrong.report()
	ids := map[numbered]map[types.MatchID]bool{}
	times := map[types.MatchID]int{}
	for _, e := range got {
		var n numbered
		if err := json.Unmarshal(e.Origin().Event, &n); err != nil {
			wrong.add("%s is no event of it: %v", e.Origin().ID, err)
			continue
		}
		if !y.confirmed[n] {
			wrong.add("%s, %+v, was never sent", e.Origin().ID, n)
			continue
		}
		if ids[n] == nil {
			ids[n] = map[types.MatchID]bool{}
		}
		ids[n][e.Origin().ID] = true
		times[e.Origin().ID]++
	}
	stored := 0
	for n := range y.confirmed {
		stored += len(ids[n])
		switch {
		case len(ids[n]) == 0:
			wrong.add("%+v was confirmed and never came out", n)
		case len(ids[n]) > 1+y.repeats[n]:
			wrong.add("%+v came out as %d matches: %v; it was sent again %d times", n, len(ids[n]), slices.Sorted(maps.Keys(ids[n])), y.repeats[n])
		}
	}
	twice := len(got) - len(times)
	t.Logf("%s: %d confirmed, %d of them sent again without an answer, %d matches; %d came twice, %.3f %%", lane, len(y.confirmed), len(y.repeats), stored, twice, 100*float64(twice)/float64(max(len(times), 1)))
	assert.NotEmpty(t, y.confirmed)
	assert.LessOrEqual(t, twice, batch*kills, "%s: what came twice", lane)
}

// untilDone repeats a call, each time with whatever daemon there is, until it succeeds, and says how often
// it failed. The daemon is up in the end, unless the test has failed.
func (v *victim) untilDone(call func() error) (failures int, done bool) {
	for call() != nil {
		if v.t.Context().Err() != nil {
			return failures, false
		}
		failures++
		pause(v.t.Context(), 5*time.Millisecond)
	}
	return failures, true
}

// The stream of what is posted.

const postStreamID types.PipelineID = "posted"

type postStream struct {
	*victim
	random *rand.Rand
	tally  *tally
	marked *types.Cursor // what was read before the mark was sent; nil before that
}

func (s *postStream) config() string {
	s.tally = newTally()
	return fmt.Sprintf(`
[[pipeline]]
id = %q
source = { module = "http" }
[[pipeline.monitor]]
id = "all"
sinks = ["file"]
[[pipeline.sink]]
id = "file"
module = "ndjson"
path = "posted.ndjson"
`, postStreamID)
}

// feed posts from several producers. Each goes on with a batch until it is accepted.
func (s *postStream) feed(ctx context.Context) error {
	token, err := loadEventToken(s.stateDir(), postStreamID)
	if err != nil {
		return err
	}
	seeds := []uint64{s.random.Uint64(), s.random.Uint64(), s.random.Uint64()}
	var producers sync.WaitGroup
	for p, seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 0))
		producers.Go(func() {
			for n := 0; ctx.Err() == nil; {
				batch := make([]numbered, 1+random.IntN(20))
				lines := make([][]byte, len(batch))
				for i := range batch {
					batch[i] = numbered{p, n}
					lines[i] = fmt.Appendf(nil, `{"producer":%d,"n":%d}`, p, n)
					n++
				}
				failures, done := s.untilDone(func() error {
					client, err := newOperatorClient(s.daemon().address, token)
					if err != nil {
						return err
					}
					return client.PostEvents(context.Background(), postStreamID, lines...)
				})
				if !done {
					return
				}
				s.tally.confirm(batch, failures)
				pause(ctx, time.Duration(random.IntN(50))*time.Millisecond)
			}
		})
	}
	producers.Wait()
	return nil
}

// settled sends one event more, which marks the end: what was accepted before it is read before it.
func (s *postStream) settled(ctx context.Context, client operatorClient) (bool, string) {
	status, rest, text := rests(ctx, client, postStreamID)
	if !rest || status.Read == nil {
		return false, text
	}
	if s.marked == nil {
		if err := client.PostEvents(ctx, postStreamID, []byte(`{"producer":-1,"n":0}`)); err != nil {
			return false, err.Error()
		}
		s.tally.confirm([]numbered{{Producer: -1}}, 0)
		s.marked = status.Read
		return false, text
	}
	return status.Read.Compare(*s.marked) > 0, text
}

func (s *postStream) check(t *testing.T) {
	s.tally.check(t, "posted", s.matchesOf(t, "posted.ndjson"), ndjsonBatch, len(s.deaths))
}

// The stream of a queue.

const (
	jobStreamID types.PipelineID = "jobs"
	jobQueue    string           = "jobs"
)

type jobStream struct {
	*victim
	random *rand.Rand
	tally  *tally
}

func (s *jobStream) config() string {
	s.tally = newTally()
	return fmt.Sprintf(`
[queue.%s]
module = "localqueue"
[[pipeline]]
id = %q
source = { module = "queue", queue = %[1]q, lease = "2s" }
[[pipeline.monitor]]
id = "all"
sinks = ["file"]
[[pipeline.sink]]
id = "file"
module = "ndjson"
path = "jobs-done.ndjson"
`, jobQueue, jobStreamID)
}

func (s *jobStream) feed(ctx context.Context) error {
	seeds := []uint64{s.random.Uint64(), s.random.Uint64()}
	var producers sync.WaitGroup
	for p, seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 0))
		producers.Go(func() {
			for n := 0; ctx.Err() == nil; {
				batch := make([]numbered, 1+random.IntN(ports.MaxBatch))
				payloads := make([]types.Payload, len(batch))
				for i := range batch {
					batch[i] = numbered{p, n}
					payloads[i] = types.JSON(fmt.Appendf(nil, `{"producer":%d,"n":%d}`, p, n))
					n++
				}
				failures, done := s.untilDone(func() error { return s.send(payloads) })
				if !done {
					return
				}
				s.tally.confirm(batch, failures)
				pause(ctx, time.Duration(random.IntN(30))*time.Millisecond)
			}
		})
	}
	producers.Wait()
	return nil
}

func (s *jobStream) send(payloads []types.Payload) error {
	queue, err := s.daemon().reach().openQueue(jobQueue)
	if err != nil {
		return err
	}
	outcomes, err := queue.SendBatch(context.Background(), payloads)
	err = errors.Join(err, queue.Close())
	for _, o := range outcomes {
		err = errors.Join(err, o.Err)
	}
	return err
}

func (s *jobStream) settled(ctx context.Context, client operatorClient) (bool, string) {
	_, rest, text := rests(ctx, client, jobStreamID)
	stats, err := s.stats(ctx)
	if err != nil {
		return false, err.Error()
	}
	return rest && stats.Total == 0, fmt.Sprintf("%s, %+v", text, stats)
}

func (s *jobStream) stats(ctx context.Context) (types.QueueStats, error) {
	queue, err := s.daemon().reach().openQueue(jobQueue)
	if err != nil {
		return types.QueueStats{}, err
	}
	stats, err := queue.Stats(ctx)
	return stats, errors.Join(err, queue.Close())
}

func (s *jobStream) checkEmpty(t *testing.T) {
	stats, err := s.stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats.Total, "the queue ends empty")
	assert.Zero(t, stats.Undecodable)
}

func (s *jobStream) check(t *testing.T) {
	s.tally.check(t, "jobs", s.matchesOf(t, "jobs-done.ndjson"), ndjsonBatch, len(s.deaths))
}
