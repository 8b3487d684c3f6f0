package gate_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/gate"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func TestCheckRefusesWhatIsNoCondition(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg  gate.Config
		want string
	}{
		"negative threshold":     {gate.Config{Threshold: -1}, "the threshold -1 is out of range: give 1 to 10000"},
		"huge threshold":         {gate.Config{Threshold: 10_001, Window: time.Hour}, "the threshold 10001 is out of range"},
		"negative window":        {gate.Config{Window: -time.Hour}, "the window -1h0m0s is no length of time"},
		"window below a tick":    {gate.Config{Window: time.Microsecond}, "give a whole number of milliseconds"},
		"negative cooldown":      {gate.Config{Cooldown: -1}, "the cooldown -1ns is no length of time"},
		"threshold, no window":   {gate.Config{Threshold: 2, Cooldown: time.Hour}, "a threshold of 2 has no window"},
		"cooldown below a tick":  {gate.Config{Cooldown: 1500 * time.Microsecond}, "give a whole number of milliseconds"},
		"the zero configuration": {gate.Config{}, ""},
		"the highest threshold":  {gate.Config{Threshold: gate.MaxThreshold, Window: time.Millisecond}, ""},
		"the longest window":     {gate.Config{Threshold: 2, Window: math.MaxInt64 - math.MaxInt64%time.Millisecond}, ""},
	} {
		err := tc.cfg.Check("catalog.compose")
		if tc.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, ports.ErrInvalidConfig, name)
		assert.ErrorContains(t, err, "catalog.compose: INVALID_CONFIG: ", name)
		assert.ErrorContains(t, err, tc.want, name)
		_, err = gate.New("strong", tc.cfg)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, name)
	}
}

func TestThresholdWithinTheWindow(t *testing.T) {
	t.Parallel()
	g := newGate(t, gate.Config{Threshold: 3, Window: 10 * time.Millisecond}, nil)
	for i, step := range []struct {
		ts   int64
		want *types.Emission
	}{
		{100, nil},
		{105, nil},
		{110, nil}, // 100 has left the window, which is 10 ms and not one more
		{114, &types.Emission{Hits: 3, FirstTS: 105, LastTS: 114}},
		{114, nil}, // what was let through is used up
		{115, nil},
		{113, &types.Emission{Hits: 3, FirstTS: 113, LastTS: 115}}, // the time may go back a little
		{105, nil}, // too late: it does not count
		{116, nil},
		{117, nil},
		{118, &types.Emission{Hits: 3, FirstTS: 116, LastTS: 118}},
	} {
		_, emission := g.Offer(event(i, step.ts, ""), "")
		require.Equal(t, step.want, emission, "step %d", i)
	}
}

func TestMatchesDuringACooldownCount(t *testing.T) {
	t.Parallel()
	g := newGate(t, gate.Config{Threshold: 1, Window: time.Hour, Cooldown: 10 * time.Millisecond}, nil)
	for i, step := range []struct {
		ts   int64
		want *types.Emission
	}{
		{100, &types.Emission{Hits: 1, FirstTS: 100, LastTS: 100}},
		{103, nil},
		{109, nil},
		{110, &types.Emission{Hits: 3, FirstTS: 103, LastTS: 110}},
		{119, nil},
		{130, &types.Emission{Hits: 2, FirstTS: 119, LastTS: 130}},
	} {
		_, emission := g.Offer(event(i, step.ts, ""), "")
		require.Equal(t, step.want, emission, "step %d", i)
	}
}

func TestGroupsAreCountedForThemselves(t *testing.T) {
	t.Parallel()
	g := newGate(t, gate.Config{Threshold: 2, Window: time.Hour, Cooldown: time.Hour}, nil)
	_, emission := g.Offer(event(1, 1, "a"), "a")
	require.Nil(t, emission)
	_, emission = g.Offer(event(2, 2, "b"), "b")
	require.Nil(t, emission)
	_, emission = g.Offer(event(3, 3, "a"), "a")
	require.Equal(t, &types.Emission{Key: "a", Hits: 2, FirstTS: 1, LastTS: 3}, emission)
	_, emission = g.Offer(event(4, 4, "b"), "b")
	require.Equal(t, &types.Emission{Key: "b", Hits: 2, FirstTS: 2, LastTS: 4}, emission)
}

func TestWithoutConditionNothingIsKept(t *testing.T) {
	t.Parallel()
	g := newGate(t, gate.Config{Window: time.Hour}, nil)
	for i := range 10 {
		hit, emission := g.Offer(event(i, int64(-i), "a"), "a")
		require.Nil(t, hit)
		require.Equal(t, &types.Emission{Key: "a", Hits: 1, FirstTS: int64(-i), LastTS: int64(-i)}, emission)
	}
	_, changed := g.TakeMeta()
	require.False(t, changed)
	_, held := g.Oldest()
	require.False(t, held)
	require.Equal(t, int64(math.MaxInt64), g.Since(0), "no hits are wanted")
}

func TestHitIsWhatTheJournalKeeps(t *testing.T) {
	t.Parallel()
	g := newGate(t, gate.Config{Threshold: 2, Window: time.Hour}, nil)
	e := types.Event{Cursor: types.Cursor{Primary: 7, Secondary: 8}, Index: 9, TS: 10, Data: []byte(`{"a":1}`)}
	hit, _ := g.Offer(e, "")
	require.Equal(t, &types.GateHit{Monitor: "strong", Cursor: e.Cursor, Index: 9, TS: 10, Event: e.Data}, hit)
	oldest, held := g.Oldest()
	require.True(t, held)
	require.Equal(t, uint64(7), oldest)
	require.Equal(t, int64(math.MinInt64), g.Since(0), "all hits are wanted: times are those of the events")
}

func TestOldestGoesOnWithTheWindow(t *testing.T) {
	t.Parallel()
	g := newGate(t, gate.Config{Threshold: 100, Window: 10 * time.Millisecond}, nil)
	for i := range 100 {
		g.Offer(event(i, int64(i), ""), "")
		oldest, held := g.Oldest()
		require.True(t, held)
		require.Equal(t, uint64(max(0, i-9)), oldest)
	}
	_, hits, _ := gate.Sizes(g)
	require.LessOrEqual(t, hits, 11)
}

func TestOneEventFromTheFarFutureSilencesNothing(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]gate.Config{
		"threshold": {Threshold: 2, Window: time.Hour, Cooldown: time.Hour},
		"cooldown":  {Cooldown: time.Hour},
	} {
		g := newGate(t, cfg, nil)
		now := int64(1_500_000_000_000)
		g.Offer(event(1, now*1000, ""), "") // in microseconds, by mistake
		g.Offer(event(2, now*1000, ""), "")
		emitted := 0
		for i := range 10 {
			if _, emission := g.Offer(event(3+i, now+int64(i), ""), ""); emission != nil {
				emitted++
			}
		}
		require.Equal(t, 1, emitted, name)
	}
}

func TestTimesAtTheEndsOfTheRange(t *testing.T) {
	t.Parallel()
	for _, cfg := range []gate.Config{{Threshold: 2, Window: time.Hour, Cooldown: time.Hour}, {Cooldown: time.Hour}} {
		g := newGate(t, cfg, nil)
		for i, ts := range []int64{math.MinInt64, math.MaxInt64, math.MinInt64, math.MinInt64, 0, math.MaxInt64, math.MaxInt64} {
			g.Offer(event(i, ts, ""), "")
		}
	}
}

// again is the event i with the ID of one that was given before, and its time.
func again(i int, ts int64, id string) types.Event {
	e := event(i, ts, "")
	e.ID = id
	return e
}

func TestAMatchThatIsGivenAgainCountsOnce(t *testing.T) {
	t.Parallel()
	const index = 7
	for name, offered := range map[string][]struct {
		id, key string
		ts      int64
		hits    uint64
	}{
		"within the window": {
			{"a", "", 10, 0}, {"a", "", 10, 0}, {"a", "", 10, 0}, {"b", "", 11, 0}, {"a", "", 10, 0}, {"c", "", 12, 3},
		},
		"after the emission": {
			{"a", "", 10, 0}, {"b", "", 11, 0}, {"c", "", 12, 3}, {"c", "", 12, 0}, {"a", "", 10, 0}, {"b", "", 11, 0},
			{"d", "", 13, 0}, {"e", "", 13, 0}, {"d", "", 13, 0}, {"f", "", 13, 3},
		},
		"when it has left the window": {
			{"a", "", 10, 0}, {"b", "", 11, 0}, {"z", "", 110, 0}, {"a", "", 10, 0}, {"b", "", 11, 0}, {"y", "", 110, 3},
		},
		"in a group of its own": {
			{"a", "k", 10, 0}, {"b", "l", 10, 0}, {"a", "k", 10, 0}, {"c", "k", 11, 0}, {"b", "l", 10, 0}, {"c", "k", 11, 0},
			{"d", "k", 12, 3}, {"e", "l", 12, 0}, {"f", "l", 12, 3},
		},
		"without an ID there is nothing to know": {
			{"", "", 10, 0}, {"", "", 10, 0}, {"", "", 10, 3},
		},
		"others of the same time": {
			{"a", "", 10, 0}, {"b", "", 10, 0}, {"c", "", 10, 3},
		},
	} {
		for _, restarts := range []bool{false, true} {
			cfg := gate.Config{Threshold: 3, Window: 100 * time.Millisecond}
			g := newGate(t, cfg, nil)
			var hits []types.GateHit
			var meta types.GateMeta
			for i, o := range offered {
				e := again(i, o.ts, o.id)
				e.Index = index
				e.Data = fmt.Appendf(nil, `{"key":%q}`, o.key)
				hit, emission := g.Offer(e, o.key)
				if o.hits == 0 {
					require.Nil(t, emission, "%s: match %d, restarts %v", name, i, restarts)
				} else {
					require.NotNil(t, emission, "%s: match %d, restarts %v", name, i, restarts)
					require.Equal(t, o.hits, emission.Hits, name)
				}
				if hit != nil {
					require.LessOrEqual(t, hit.Index, uint64(math.MaxInt64))
					hits = append(hits, *hit)
				}
				if taken, changed := g.TakeMeta(); changed {
					meta = taken
				}
				if restarts {
					g = newGate(t, cfg, nil)
					require.NoError(t, g.Restore(hits, meta, &e.Cursor, keyOf))
				}
			}
		}
	}
}

// What a gate knows of matches that may be given again goes with their hits.
func TestTheKnownAreThoseThatCount(t *testing.T) {
	t.Parallel()
	g := newGate(t, gate.Config{Threshold: 3, Window: time.Hour}, []int{100, 10})
	for i := range 1000 {
		g.Offer(again(i, int64(i), fmt.Sprint(i)), "")
	}
	require.Equal(t, 100, gate.Known(g))
	g.Offer(again(1000, 10*time.Hour.Milliseconds(), "later"), "")
	require.Equal(t, 1, gate.Known(g))
	g.Offer(again(1001, 10*time.Hour.Milliseconds()-2*month.Milliseconds(), "the clock was wrong"), "")
	require.Equal(t, 1, gate.Known(g))

	// An index that leaves no room for it: as if there were no ID.
	e := again(1002, 10*time.Hour.Milliseconds()-2*month.Milliseconds(), "far")
	e.Index = 1 << 14
	hit, _ := g.Offer(e, "")
	require.EqualValues(t, 1<<14, hit.Index)
	require.Equal(t, 1, gate.Known(g))
}

func TestAtMostSoManyHitsCount(t *testing.T) {
	t.Parallel()
	const most = 32_768
	g := newGate(t, gate.Config{Threshold: 10, Window: time.Hour}, nil)
	for i := range 9 {
		g.Offer(event(i, 0, "slow"), "slow")
	}
	for i := range most - 1 {
		key := fmt.Sprint(i / 9) // each group stays below the threshold
		g.Offer(event(9+i, 0, key), key)
	}
	groups, hits, _ := gate.Sizes(g)
	require.Equal(t, most, hits)
	require.LessOrEqual(t, groups, most/9+2)
	oldest, _ := g.Oldest()
	require.Equal(t, uint64(8), oldest, "eight of nine have gone")
	_, emission := g.Offer(event(9+most, 0, "slow"), "slow")
	require.Nil(t, emission, "with this one, the ninth has gone too")
}

func TestTheGroupThatEmittedLongestAgoIsForgottenFirst(t *testing.T) {
	t.Parallel()
	const most = 1_500
	g := newGate(t, gate.Config{Threshold: 2, Window: time.Hour, Cooldown: time.Hour}, nil)
	n := 0
	offer := func(key string) *types.Emission {
		n++
		_, emission := g.Offer(event(n, 1, key), key)
		return emission
	}
	for i := range most {
		key := fmt.Sprint(i)
		require.Nil(t, offer(key))
		require.NotNil(t, offer(key))
	}
	require.Nil(t, offer("0"), "all are in their cooldown")
	require.Nil(t, offer("one more"))
	require.NotNil(t, offer("one more"))
	_, _, emissions := gate.Sizes(g)
	require.Equal(t, most, emissions)

	emission := offer("0")
	require.NotNil(t, emission, "the first was forgotten: it has no cooldown")
	require.Equal(t, uint64(4), emission.Hits, "and what it had used up counts again")
	require.Nil(t, offer("2"), "the others are in their cooldown still")

	meta, changed := g.TakeMeta()
	require.True(t, changed)
	require.Len(t, meta.Aux, 60_016)
	require.LessOrEqual(t, len(meta.Aux), ports.MaxAuxBytes)
}

func TestEmissionsThatMatterNoLongerAreForgotten(t *testing.T) {
	t.Parallel()
	g := newGate(t, gate.Config{Cooldown: time.Hour}, nil)
	for i := range 1_000 {
		key := fmt.Sprint(i)
		_, emission := g.Offer(event(i, int64(i)*time.Minute.Milliseconds(), key), key)
		require.NotNil(t, emission)
	}
	groups, _, emissions := gate.Sizes(g)
	require.Equal(t, 120, emissions, "those of two hours")
	require.Equal(t, 120, groups)
}

func TestMetaIsTakenOncePerChange(t *testing.T) {
	t.Parallel()
	g := newGate(t, gate.Config{Threshold: 2, Window: time.Hour}, nil)
	_, changed := g.TakeMeta()
	require.False(t, changed)
	g.Offer(event(1, 10, ""), "")
	_, changed = g.TakeMeta()
	require.False(t, changed, "a hit alone is in the journal")
	g.Offer(event(2, 9, ""), "")
	meta, changed := g.TakeMeta()
	require.True(t, changed)
	require.Equal(t, int64(9), *meta.LastEmitTS, "the time of the event that was let through")
	_, changed = g.TakeMeta()
	require.False(t, changed)
}

func TestRestoreIgnoresWhatCameAfterTheCheckpoint(t *testing.T) {
	t.Parallel()
	cfg := gate.Config{Threshold: 2, Window: time.Hour, Cooldown: time.Hour}
	g := newGate(t, cfg, nil)
	var hits []types.GateHit
	for i := range 4 {
		hit, _ := g.Offer(event(i, int64(i), "a"), "a")
		hits = append(hits, *hit)
	}
	meta, _ := g.TakeMeta()
	other := hits[0]
	other.Monitor = "another"

	again := newGate(t, cfg, nil)
	require.NoError(t, again.Restore(append(hits, other, hits[0]), meta, cursor(0), keyOf))
	_, emission := again.Offer(event(1, 1, "a"), "a")
	require.Equal(t, &types.Emission{Key: "a", Hits: 2, FirstTS: 0, LastTS: 1}, emission)

	require.NoError(t, again.Restore(hits, meta, nil, keyOf))
	_, emission = again.Offer(event(0, 0, "a"), "a")
	require.Nil(t, emission, "without a checkpoint everything comes again")
	_, emission = again.Offer(event(1, 1, "a"), "a")
	require.NotNil(t, emission)
}

// The stored meta may be ahead of a checkpoint that was set back or deleted. What comes then may be other
// events, at the same places: a later restart must not take the old emissions for theirs.
func TestTheMetaForgetsWhatCameAfterTheCheckpoint(t *testing.T) {
	t.Parallel()
	cfg := gate.Config{Cooldown: time.Hour}
	for name, upTo := range map[string]*types.Cursor{"set back": cursor(1), "deleted": nil} {
		g := newGate(t, cfg, nil)
		g.Offer(event(1, 0, "a"), "a")
		g.Offer(event(2, 1, "b"), "b")
		meta, _ := g.TakeMeta()

		again := newGate(t, cfg, nil)
		require.NoError(t, again.Restore(nil, meta, upTo, keyOf), name)
		taken, changed := again.TakeMeta()
		require.True(t, changed, name)

		third := newGate(t, cfg, nil)
		require.NoError(t, third.Restore(nil, taken, cursor(5), keyOf), name)
		_, changed = third.TakeMeta()
		require.False(t, changed, "%s: nothing was ignored", name)
		_, emission := third.Offer(event(6, 2, "b"), "b")
		require.NotNil(t, emission, "%s: b has not emitted by now", name)
		_, emission = third.Offer(event(7, 3, "a"), "a")
		require.Equal(t, upTo == nil, emission != nil, "%s: a has, up to the checkpoint", name)
	}
}

func TestRestoreRefusesStateThatItCannotRead(t *testing.T) {
	t.Parallel()
	g := newGate(t, gate.Config{Cooldown: time.Hour}, nil)
	err := g.Restore(nil, types.GateMeta{Aux: []byte("garbage")}, cursor(1), keyOf)
	require.ErrorIs(t, err, ports.ErrBackendFailed)
	require.ErrorIs(t, err, ports.ErrUndecodable)
	assert.EqualError(t, err, "gate.restore: BACKEND_FAILED/undecodable: the stored state of the gate of monitor strong cannot be read: it is not the state of a gate; run the version of stowage that wrote it, or give the monitor another id, under which it begins anew")
}
