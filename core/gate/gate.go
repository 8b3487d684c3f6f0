package gate

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	opNew     = "gate.new"
	opRestore = "gate.restore"

	// maxHits is how many hits, of all groups together, are counted.
	maxHits = 32_768

	// wrongClock is, beside the window or the cooldown, how far the time of a group has to go back to
	// be taken for corrected.
	wrongClock = 30 * 24 * time.Hour
)

// Gate holds the matches of one monitor back. One goroutine uses it at a time.
type Gate struct {
	monitor   types.MonitorID
	cfg       Config
	threshold int
	window    int64 // milliseconds
	cooldown  int64

	groups map[uint64]*group
	// journal has the hits in their order: those that are counted, and those between them.
	journal deque
	counted map[identity]struct{} // of those hits that count and are of an event with an ID
	emitted emissions
	lastTS  *int64 // of the event that was let through last
	changed bool   // the meta

	mostHits, mostEmissions int
}

// group is what was counted of one key.
type group struct {
	hash uint64
	now  int64 // the highest time of all below
	// fresh are the hits since the last emission, used those that it stands for, as long as they are
	// within the window. Both are ordered by time.
	fresh, used []*hit
	last        *emission
}

// hit is a match that was counted.
type hit struct {
	at place
	ts int64
	id uint64 // what is known of the event's ID
	of *group // nil once it counts no longer
}

// identity is the hit's, as long as it counts.
func (h *hit) identity() identity { return identity{h.of.hash, h.ts, h.id} }

// New makes a gate without a past. A configuration that cannot be used is INVALID_CONFIG.
func New(monitor types.MonitorID, cfg Config) (*Gate, error) {
	if err := cfg.Check(opNew); err != nil {
		return nil, err
	}
	return &Gate{
		monitor: monitor, cfg: cfg, threshold: cfg.threshold(),
		window: cfg.Window.Milliseconds(), cooldown: cfg.Cooldown.Milliseconds(),
		groups: make(map[uint64]*group), counted: make(map[identity]struct{}),
		mostHits: maxHits, mostEmissions: maxEmissions,
	}, nil
}

// Since is the time, in milliseconds since the epoch, from which on Restore wants the hits of the
// journal. It wants all or none: the times are those of the events, which need not be near to now.
func (g *Gate) Since(now int64) int64 {
	if g.cfg.counts() {
		return math.MinInt64
	}
	return math.MaxInt64
}

// Restore takes what the journal has, in place of what the gate has. It is called before the first
// Offer. key gives the group of the event of a hit, as it is given to Offer. What came after the cursor
// upTo, the checkpoint, is ignored: it comes again. Without a checkpoint all is ignored. Emissions that
// are ignored are out of the meta that TakeMeta gives next: where the events that come are others, or
// are told apart in another way by now, no later restart may find them.
//
// The journal may have lost the hits below what Oldest gave at or before the checkpoint. The meta is the
// one that TakeMeta gave last at or before the checkpoint. One that cannot be decoded is
// BACKEND_FAILED/undecodable, and leaves the gate without a past.
//
// A change of the condition or of the key takes effect with what there is: hits that the journal lost
// because the window was shorter are missing, and emissions of another key count for nothing.
func (g *Gate) Restore(hits []types.GateHit, meta types.GateMeta, upTo *types.Cursor, key func(event []byte) string) error {
	g.groups, g.counted = make(map[uint64]*group), make(map[identity]struct{})
	g.journal, g.emitted, g.lastTS, g.changed = deque{}, emissions{}, nil, false
	if upTo == nil {
		g.changed = meta.Aux != nil || meta.LastEmitTS != nil
		return nil
	}
	if !g.cfg.remembers() {
		return nil
	}
	list, err := decode(meta.Aux)
	if err != nil {
		return ports.Errorf(ports.CodeBackendFailed, opRestore, "the stored state of the gate of monitor %s cannot be read: %w; run the version of stowage that wrote it, or give the monitor another id, under which it begins anew", g.monitor, err).
			WithReason(ports.ReasonUndecodable)
	}
	if meta.LastEmitTS != nil {
		ts := *meta.LastEmitTS
		g.lastTS = &ts
	}
	emitted := make(map[uint64]*emission, len(list))
	for _, e := range list {
		if e.at.cursor.Compare(*upTo) <= 0 {
			g.emitted.push(e)
			emitted[e.hash] = e
		}
	}
	g.changed = g.emitted.count < len(list)
	if g.cfg.counts() {
		for _, h := range g.latest(hits, *upTo) {
			g.replay(h, hashKey(key(h.Event)), emitted)
		}
	}
	for _, e := range emitted {
		g.adopt(e)
	}
	return nil
}

// latest gives those hits, up to a cursor, that may count, in their order.
func (g *Gate) latest(hits []types.GateHit, upTo types.Cursor) []types.GateHit {
	kept := make([]types.GateHit, 0, len(hits))
	for _, h := range hits {
		if h.Monitor == g.monitor && h.Cursor.Compare(upTo) <= 0 {
			kept = append(kept, h)
		}
	}
	inOrder := func(a, b types.GateHit) int {
		switch p, q := placeOf(a), placeOf(b); {
		case p.after(q):
			return 1
		case q.after(p):
			return -1
		}
		return 0
	}
	slices.SortStableFunc(kept, inOrder)
	kept = slices.CompactFunc(kept, func(a, b types.GateHit) bool { return inOrder(a, b) == 0 })
	return kept[max(0, len(kept)-g.mostHits):]
}

// replay counts a hit of the journal. emitted has the emissions that are not adopted yet.
func (g *Gate) replay(h types.GateHit, hash uint64, emitted map[uint64]*emission) {
	at := placeOf(h)
	_, id := unpack(h.Index)
	if e := emitted[hash]; e != nil && at.after(e.at) {
		g.adopt(e)
		delete(emitted, hash)
	}
	k := g.group(hash)
	if g.late(k, h.TS) {
		// It was counted, so its group began anew with it.
		g.restart(k)
	}
	g.count(k, at, h.TS, id)
}

// placeOf is where the event of a hit stood.
func placeOf(h types.GateHit) place {
	index, _ := unpack(h.Index)
	return place{h.Cursor, index}
}

// adopt makes an emission that was stored the last of its group.
func (g *Gate) adopt(e *emission) {
	k := g.group(e.hash)
	k.used, k.fresh = merge(k.used, k.fresh), nil
	k.now = e.now
	k.last = e
	g.expire(k)
}

// Offer counts a match: an event that the monitor picked, and the key of its group. hit is what the
// journal has to keep, nil for nothing; it shares the memory of the event's data. emit is what is let
// through, nil for nothing; its Match is left empty. A match that was counted already, by the ID of its
// event, is neither.
func (g *Gate) Offer(e types.Event, key string) (hit *types.GateHit, emit *types.Emission) {
	if !g.cfg.remembers() {
		return nil, &types.Emission{Key: key, Hits: 1, FirstTS: e.TS, LastTS: e.TS}
	}
	at := place{e.Cursor, e.Index}
	k := g.group(hashKey(key))
	if k.there() && e.TS <= minus(minus(k.now, g.cfg.horizon()), wrongClock.Milliseconds()) {
		g.restart(k)
	}
	if !g.cfg.counts() {
		emit = &types.Emission{Key: key, Hits: 1, FirstTS: e.TS, LastTS: e.TS}
		if k.last != nil && minus(e.TS, k.last.now) < g.cooldown {
			return nil, nil
		}
		k.now = e.TS
		g.remember(k, at, e.TS)
		return nil, emit
	}
	id := hashID(e)
	if g.late(k, e.TS) || g.has(identity{k.hash, e.TS, id}) {
		return nil, nil
	}
	g.count(k, at, e.TS, id)
	hit = &types.GateHit{Monitor: g.monitor, Cursor: e.Cursor, Index: pack(e.Index, id), TS: e.TS, Event: e.Data}
	if len(k.fresh) < g.threshold || k.last != nil && minus(k.now, k.last.now) < g.cooldown {
		return hit, nil
	}
	emit = &types.Emission{Key: key, Hits: uint64(len(k.fresh)), FirstTS: k.fresh[0].ts, LastTS: k.fresh[len(k.fresh)-1].ts}
	k.used, k.fresh = merge(k.used, k.fresh), nil
	g.remember(k, at, e.TS)
	return hit, emit
}

// TakeMeta returns the meta to store, and whether it changed since the last call. It is that of the event
// that was offered last: it may be stored with a checkpoint at that event or after it, and has to be
// stored with one.
func (g *Gate) TakeMeta() (types.GateMeta, bool) {
	if !g.changed {
		return types.GateMeta{}, false
	}
	g.changed = false
	meta := types.GateMeta{Aux: g.emitted.encode()}
	if g.lastTS != nil {
		ts := *g.lastTS
		meta.LastEmitTS = &ts
	}
	return meta, true
}

// Oldest is the primary of the oldest hit that may still count, and whether there is one. Hits of this
// monitor below it will not be wanted again, nor any if there is none, once the checkpoint is at the
// event that was offered last, or after it.
func (g *Gate) Oldest() (uint64, bool) {
	for !g.journal.empty() && g.journal.front().of == nil {
		g.journal.pop()
	}
	if g.journal.empty() {
		return 0, false
	}
	return g.journal.front().at.cursor.Primary, true
}

func (g *Gate) group(hash uint64) *group {
	k := g.groups[hash]
	if k == nil {
		k = &group{hash: hash}
		g.groups[hash] = k
	}
	return k
}

// late reports whether a match is so old that it does not count.
func (g *Gate) late(k *group, ts int64) bool {
	return k.there() && ts <= minus(k.now, g.window)
}

// has reports whether a match is counted that is given again. One that is not late was counted, if it was,
// within the window: so its hit is there.
func (g *Gate) has(match identity) bool {
	if match.id == 0 {
		return false
	}
	_, there := g.counted[match]
	return there
}

// count adds a hit to its group, and lets go of what counts no longer.
func (g *Gate) count(k *group, at place, ts int64, id uint64) {
	if !k.there() || ts > k.now {
		k.now = ts
	}
	h := &hit{at, ts, id, k}
	if id != 0 {
		g.counted[h.identity()] = struct{}{}
	}
	k.fresh = insert(k.fresh, h)
	g.expire(k)
	g.journal.push(h)
	if g.journal.len() > g.mostHits {
		g.forget(g.journal.pop())
	}
}

// lose notes that a hit counts no longer.
func (g *Gate) lose(h *hit) {
	if h.id != 0 {
		delete(g.counted, h.identity())
	}
	h.of = nil
}

// forget lets go of the oldest hit of all.
func (g *Gate) forget(h *hit) {
	k := h.of
	if k == nil {
		return
	}
	g.lose(h)
	k.fresh, k.used = without(k.fresh, h), without(k.used, h)
	g.settle(k)
}

// settle finds the time of a group after it has lost something, and lets go of it if it has nothing.
func (g *Gate) settle(k *group) {
	if !k.there() {
		delete(g.groups, k.hash)
		return
	}
	k.now = math.MinInt64
	for _, list := range [...][]*hit{k.fresh, k.used} {
		if len(list) > 0 {
			k.now = max(k.now, list[len(list)-1].ts)
		}
	}
	if k.last != nil {
		k.now = max(k.now, k.last.now)
	}
}

// restart lets a group begin anew.
func (g *Gate) restart(k *group) {
	for _, list := range [...][]*hit{k.fresh, k.used} {
		for _, h := range list {
			g.lose(h)
		}
	}
	k.fresh, k.used = nil, nil
	if k.last != nil {
		g.emitted.remove(k.last)
		k.last = nil
		g.changed = true
	}
}

// remember notes the emission of a group, and drops those of others that matter no longer, or that are
// too many.
func (g *Gate) remember(k *group, at place, ts int64) {
	if k.last != nil {
		g.emitted.remove(k.last)
	}
	k.last = &emission{hash: k.hash, now: k.now, at: at}
	g.emitted.push(k.last)
	g.lastTS, g.changed = &ts, true

	for e := g.emitted.oldest; e != k.last; e = g.emitted.oldest {
		// Twice the time, since groups may lag behind one another. A step of the time that is out of
		// all proportion proves nothing.
		age := minus(k.now, e.now)
		past := age >= 2*g.cfg.horizon() && age < wrongClock.Milliseconds()+2*g.cfg.horizon()
		if !past && g.emitted.count <= g.mostEmissions {
			return
		}
		g.drop(e)
	}
}

// drop forgets an emission: what it had used up counts again.
func (g *Gate) drop(e *emission) {
	g.emitted.remove(e)
	k := g.group(e.hash)
	k.last = nil
	k.fresh, k.used = merge(k.used, k.fresh), nil
	g.settle(k)
}

// there reports whether the group has a past.
func (k *group) there() bool { return k.last != nil || len(k.fresh) > 0 || len(k.used) > 0 }

// expire lets go of the hits of a group that have left the window.
func (g *Gate) expire(k *group) {
	floor := minus(k.now, g.window)
	for _, list := range [...]*[]*hit{&k.fresh, &k.used} {
		n := 0
		for n < len(*list) && (*list)[n].ts <= floor {
			g.lose((*list)[n])
			(*list)[n] = nil
			n++
		}
		*list = (*list)[n:]
	}
}

// insert adds a hit to a list that is ordered by time, behind those of its time.
func insert(list []*hit, h *hit) []*hit {
	i := len(list)
	if i > 0 && list[i-1].ts > h.ts {
		i = sort.Search(len(list), func(i int) bool { return list[i].ts > h.ts })
	}
	return slices.Insert(list, i, h)
}

func without(list []*hit, h *hit) []*hit {
	if len(list) > 0 && list[0] == h {
		list[0] = nil
		return list[1:]
	}
	for i := sort.Search(len(list), func(i int) bool { return list[i].ts >= h.ts }); i < len(list) && list[i].ts == h.ts; i++ {
		if list[i] == h {
			return slices.Delete(list, i, i+1)
		}
	}
	return list
}

// merge makes one list, ordered by time, of two that are.
func merge(a, b []*hit) []*hit {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	sorted := a[len(a)-1].ts <= b[0].ts
	a = append(a, b...)
	if !sorted {
		slices.SortStableFunc(a, func(x, y *hit) int {
			switch {
			case x.ts < y.ts:
				return -1
			case x.ts > y.ts:
				return 1
			}
			return 0
		})
	}
	return a
}

// minus is a - b, at the ends of the range as near to it as may be.
func minus(a, b int64) int64 {
	switch d := a - b; {
	case b > 0 && d > a:
		return math.MinInt64
	case b < 0 && d < a:
		return math.MaxInt64
	default:
		return d
	}
}

// deque is a queue of hits.
type deque struct {
	hits []*hit
	head int
}

func (d *deque) len() int    { return len(d.hits) - d.head }
func (d *deque) empty() bool { return d.len() == 0 }
func (d *deque) front() *hit { return d.hits[d.head] }
func (d *deque) push(h *hit) { d.hits = append(d.hits, h) }

func (d *deque) pop() *hit {
	h := d.hits[d.head]
	d.hits[d.head] = nil
	if d.head++; d.head > len(d.hits)/2 {
		n := copy(d.hits, d.hits[d.head:])
		clear(d.hits[n:])
		d.hits, d.head = d.hits[:n], 0
	}
	return h
}
