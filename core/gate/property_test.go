package gate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/core/gate"
	"github.com/stowage-go/stowage/types"
)

const month = 30 * 24 * time.Hour

// match is one that is offered.
type match struct {
	event types.Event
	key   string
}

func keyOf(event []byte) string {
	var e struct{ Key string }
	if json.Unmarshal(event, &e) != nil {
		return "no key"
	}
	return e.Key
}

// reference is the simplest gate: it keeps all matches for ever.
type reference struct {
	cfg    gate.Config
	groups map[string]*past
	order  []string // the keys, by their last emission
}

type past struct {
	matches []counted
	now     int64
	last    *int64
}

type counted struct {
	ts   int64
	id   string
	used bool
}

func (r *reference) offer(m match) *types.Emission {
	threshold := max(r.cfg.Threshold, 1)
	window, cooldown := r.cfg.Window.Milliseconds(), r.cfg.Cooldown.Milliseconds()
	horizon := max(window, cooldown)
	if threshold == 1 && cooldown == 0 {
		return &types.Emission{Key: m.key, Hits: 1, FirstTS: m.event.TS, LastTS: m.event.TS}
	}
	k := r.groups[m.key]
	if k == nil {
		k = &past{}
		r.groups[m.key] = k
	}
	ts, there := m.event.TS, k.last != nil || len(k.matches) > 0
	if there && ts <= k.now-horizon-month.Milliseconds() {
		*k = past{}
		r.order = slices.DeleteFunc(r.order, func(key string) bool { return key == m.key })
		there = false
	}
	switch {
	case threshold == 1 && window == 0:
		k.matches = nil // each stands for itself
		if there && ts-k.now < cooldown {
			return nil
		}
		k.now = ts
	case there && ts <= k.now-window:
		return nil
	case m.event.ID != "" && slices.ContainsFunc(k.matches, func(c counted) bool { return c.id == m.event.ID }):
		return nil // it is given again
	case !there || ts > k.now:
		k.now = ts
	}
	k.matches = append(k.matches, counted{ts: ts, id: m.event.ID})
	emission := &types.Emission{Key: m.key}
	for _, c := range k.matches {
		if c.used || c.ts <= k.now-window && window > 0 {
			continue
		}
		if emission.Hits == 0 {
			emission.FirstTS, emission.LastTS = c.ts, c.ts
		}
		emission.Hits++
		emission.FirstTS, emission.LastTS = min(emission.FirstTS, c.ts), max(emission.LastTS, c.ts)
	}
	if emission.Hits < uint64(threshold) || k.last != nil && k.now-*k.last < cooldown {
		return nil
	}
	for i := range k.matches {
		k.matches[i].used = true
	}
	now := k.now
	k.last = &now
	r.order = append(slices.DeleteFunc(r.order, func(key string) bool { return key == m.key }), m.key)
	// What emitted long before is forgotten.
	for r.order[0] != m.key {
		old := r.groups[r.order[0]]
		age := now - *old.last
		if age < 2*horizon || age >= 2*horizon+month.Milliseconds() {
			break
		}
		old.last = nil
		for i := range old.matches {
			old.matches[i].used = false
		}
		if threshold == 1 && window == 0 {
			*old = past{}
		} else {
			old.now = 0
			kept := old.matches[:0]
			for _, c := range old.matches {
				old.now = max(old.now, c.ts)
			}
			old.matches = append(kept, old.matches...)
		}
		r.order = r.order[1:]
	}
	return emission
}

func drawConfig(t *rapid.T) gate.Config {
	return gate.Config{
		Threshold: rapid.IntRange(0, 4).Draw(t, "threshold"),
		Window:    time.Duration(rapid.IntRange(1, 20).Draw(t, "window")) * time.Millisecond,
		Cooldown:  time.Duration(rapid.SampledFrom([]int{0, 0, 3, 10, 30}).Draw(t, "cooldown")) * time.Millisecond,
	}
}

// drawMatches gives matches whose times mostly grow, stand still or go back a little, and sometimes leap. Some
// have an ID, and are given again.
func drawMatches(t *rapid.T, most int) []match {
	matches := make([]match, rapid.IntRange(1, most).Draw(t, "matches"))
	cursor, index, ts := types.Cursor{}, uint64(0), int64(100*month/time.Millisecond)
	for i := range matches {
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0:
			index++
		case 1:
			cursor, index = types.Cursor{Primary: cursor.Primary, Secondary: cursor.Secondary + 1}, 0
		default:
			cursor, index = types.Cursor{Primary: cursor.Primary + uint64(rapid.IntRange(1, 9).Draw(t, "primary"))}, 0
		}
		switch rapid.IntRange(0, 39).Draw(t, "time") {
		case 0:
			ts += 2 * month.Milliseconds()
		case 1:
			ts -= 2 * month.Milliseconds()
		case 2:
			ts -= int64(rapid.IntRange(5, 60).Draw(t, "back"))
		default:
			ts += int64(rapid.IntRange(-3, 5).Draw(t, "on"))
		}
		if i > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0 {
			matches[i] = matches[i-rapid.IntRange(1, min(i, 12)).Draw(t, "which")]
			if matches[i].event.ID != "" {
				matches[i].event.Cursor, matches[i].event.Index = cursor, index
				continue
			}
		}
		key := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key")
		matches[i] = match{types.Event{Cursor: cursor, Index: index, TS: ts, Data: json.RawMessage(fmt.Sprintf(`{"key":%q,"n":%d}`, key, i))}, key}
		if rapid.Bool().Draw(t, "identified") {
			matches[i].event.ID = fmt.Sprint("message ", i)
		}
	}
	return matches
}

func newGate(t require.TestingT, cfg gate.Config, bounds []int) *gate.Gate {
	g, err := gate.New("strong", cfg)
	require.NoError(t, err)
	if bounds != nil {
		gate.Bound(g, bounds[0], bounds[1])
	}
	return g
}

// offerAll gives the emission of each match, nil for those without.
func offerAll(g *gate.Gate, matches []match) []*types.Emission {
	emissions := make([]*types.Emission, len(matches))
	for i, m := range matches {
		_, emissions[i] = g.Offer(m.event, m.key)
	}
	return emissions
}

func TestGateEmitsWhatTheSimplestOneDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		if max(cfg.Threshold, 1) == 1 && rapid.Bool().Draw(t, "no window") {
			cfg.Window = 0
		}
		matches := drawMatches(t, 120)
		simplest := &reference{cfg: cfg, groups: map[string]*past{}}
		want := make([]*types.Emission, len(matches))
		for i, m := range matches {
			want[i] = simplest.offer(m)
		}
		got := offerAll(newGate(t, cfg, nil), matches)
		for i := range matches {
			require.Equal(t, want[i], got[i], "the emission of match %d of %+v", i, times(matches[:i+1]))
		}
	})
}

func times(matches []match) []string {
	list := make([]string, len(matches))
	for i, m := range matches {
		list[i] = fmt.Sprintf("%s:%d", m.key, m.event.TS)
	}
	return list
}

// disk is what the storage has of a gate.
type disk struct {
	hits       map[types.Cursor]map[uint64]types.GateHit
	meta       types.GateMeta
	checkpoint *types.Cursor
}

func (d *disk) list() []types.GateHit {
	var all []types.GateHit
	for _, byIndex := range d.hits { // in any order: the gate sorts them
		for _, h := range byIndex {
			all = append(all, h)
		}
	}
	return all
}

// step is what came of one match.
type step struct {
	hit    *types.GateHit
	meta   *types.GateMeta
	oldest uint64
	held   bool
}

// A gate that is stopped anywhere, and begins again from what the storage has, emits the same.
func restartShowsNothing(t *rapid.T, bounds []int) {
	cfg := drawConfig(t)
	matches := drawMatches(t, 80)
	want := offerAll(newGate(t, cfg, bounds), matches)
	stored := disk{hits: map[types.Cursor]map[uint64]types.GateHit{}}
	done := 0 // the matches that the checkpoint covers
	for life := 0; done < len(matches); life++ {
		g := newGate(t, cfg, bounds)
		require.NoError(t, g.Restore(stored.list(), stored.meta, stored.checkpoint, keyOf))

		// It offers some matches, and the events up to some of them are dealt with.
		stop := rapid.IntRange(done, len(matches)).Draw(t, "stop")
		if life > 20 {
			stop = len(matches)
		}
		steps := make([]step, 0, stop-done)
		for i := done; i < stop; i++ {
			m := matches[i]
			hit, emission := g.Offer(m.event, m.key)
			require.Equal(t, want[i], emission, "life %d: the emission of match %d of %v", life, i, times(matches[:i+1]))
			s := step{hit: hit}
			if meta, changed := g.TakeMeta(); changed {
				s.meta = &meta
			}
			s.oldest, s.held = g.Oldest()
			steps = append(steps, s)
		}
		settled := rapid.IntRange(done, stop).Draw(t, "settled")
		for settled > done && settled < len(matches) && matches[settled].event.Cursor == matches[settled-1].event.Cursor {
			settled-- // a checkpoint covers all events of its cursor
		}
		for i, s := range steps {
			ahead := done+i >= settled
			if s.hit != nil && (!ahead || rapid.Bool().Draw(t, "ahead")) {
				byIndex := stored.hits[s.hit.Cursor]
				if byIndex == nil {
					byIndex = map[uint64]types.GateHit{}
					stored.hits[s.hit.Cursor] = byIndex
				}
				if _, there := byIndex[s.hit.Index]; !there {
					byIndex[s.hit.Index] = *s.hit
				}
			}
			if s.meta != nil && !ahead {
				stored.meta = *s.meta
			}
		}
		if settled > done {
			cursor := matches[settled-1].event.Cursor
			stored.checkpoint = &cursor
			last := steps[settled-1-done]
			if rapid.Bool().Draw(t, "prune") {
				for c := range stored.hits {
					if c.Compare(cursor) <= 0 && (!last.held || c.Primary < last.oldest) {
						delete(stored.hits, c)
					}
				}
			}
		}
		done = settled
		if stop == len(matches) && settled == stop {
			return
		}
		if life > 20 {
			return
		}
	}
}

func TestRestartShowsNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { restartShowsNothing(t, nil) })
}

func TestRestartShowsNothingAtTheBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		restartShowsNothing(t, []int{rapid.IntRange(4, 9).Draw(t, "hits"), rapid.IntRange(1, 3).Draw(t, "emissions")})
	})
}
