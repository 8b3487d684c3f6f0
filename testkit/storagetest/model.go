package storagetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// RunModel compares random histories on a store of the harness with the same ones on model.Storage:
// every call must give the same result, and after every call that may change something the two must
// hold the same records. Histories close and open the store where it is durable. Several of them share
// a store, each with names of its own, which keeps a run on a store with a file within seconds. [Run]
// includes it.
func RunModel(t *testing.T, h Harness) {
	t.Helper()
	runHistories(t, h, false)
}

// RunFaulty is [RunModel] on a store whose calls fail at random: before their effect, after it, and,
// where the harness can (Store.FailAt), in the middle of it. After a call that failed the store must
// hold what it held before, or all of what the call was to change, as a step that is taken again
// relies on. [Run] includes it.
func RunFaulty(t *testing.T, h Harness) {
	t.Helper()
	runHistories(t, h, true)
}

const (
	modelDepth  = 5  // of the journals, so that histories prune
	sharedStore = 16 // histories that share a store
)

var errFault = errors.New("an injected fault")

func runHistories(t *testing.T, h Harness, faulty bool) {
	t.Helper()
	f := newFix(t, h, modelDepth)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		if n++; n%sharedStore == 0 {
			closeStorage(t, f.s)
			f.store = h.Open(t, modelDepth)
			f.s = f.store.Storage
		}
		m := &machine{f: f, prefix: fmt.Sprintf("h%06d.", n), want: model.NewStorage(modelDepth), positions: map[string]int64{}, highest: map[types.PipelineID]int64{}}
		if faulty {
			seed := rapid.Uint64().Draw(r, "seed of the faults")
			m.faults = flaky.New(fixture.NewClock(fixture.Epoch()), seed,
				flaky.Fault{Chance: 0.15, Err: errFault}, flaky.Fault{Chance: 0.15, Err: errFault, AfterEffect: true})
		}
		m.wrap()
		r.Repeat(map[string]func(*rapid.T){
			"resource put":    m.putResource,
			"resource batch":  m.putResources,
			"resource delete": m.deleteResource,
			"resource read":   m.readResources,
			"checkpoint":      m.checkpoint,
			"letter record":   m.recordLetter,
			"letter change":   m.changeLetters,
			"letter read":     m.readLetters,
			"pause":           m.pause,
			"delivery":        m.deliver,
			"delivery read":   m.delivered,
			"hit":             m.hits,
			"gate meta":       m.gateMeta,
			"apply":           m.apply,
			"apply more":      m.apply,
			"reopen":          m.reopen,
			"":                m.compare,
		})
		m.compareReaders(r)
		m.leave(r)
	})
}

// leave removes what takes long to read from a store that other histories share.
func (m *machine) leave(r *rapid.T) {
	var ids []types.MatchID
	for _, id := range modelIDs {
		ids = append(ids, types.MatchID(id))
	}
	for _, p := range m.pipelines() {
		require.NoError(r, m.f.s.Apply(m.f.ctx, p, types.Progress{Settled: ids, HitsFrom: new(uint64)}))
	}
}

// machine drives a store and the model side by side.
type machine struct {
	f      *fix
	prefix string // of every name of the history
	faults *flaky.Faults
	got    ports.Storage // f.s, or a flaky form of it
	want   *model.Storage

	changed   bool             // since the last comparison
	positions map[string]int64 // of the letters that are there
	highest   map[types.PipelineID]int64
}

func (m *machine) wrap() {
	m.got = m.f.s
	if m.faults != nil {
		m.got = flaky.NewStorage(m.f.s, m.faults)
	}
}

// side is one of the two stores in a step. Calls go to the Storage; sure never fails by design.
type side struct {
	ports.Storage
	sure ports.Storage
}

// position of a letter, which each store gives by itself; 0 if there is none.
func (s side) position(ctx context.Context, r *rapid.T, p types.PipelineID, id types.MatchID) int64 {
	l, _, err := s.sure.GetDeadLetter(ctx, p, id)
	require.NoError(r, err)
	return l.Position
}

// look makes one call that changes nothing on both stores, and compares what it comes to.
func (m *machine) look(r *rapid.T, what string, call func(side) (string, error)) {
	got, err := call(side{m.got, m.f.s})
	if m.faults != nil && errors.Is(err, errFault) {
		return
	}
	want, wantErr := call(side{m.want, m.want})
	m.sameOutcome(r, what, want, got, wantErr, err)
}

// step makes one call that may change something.
func (m *machine) step(r *rapid.T, what string, call func(side) (string, error)) {
	m.changed = true
	var before []types.Record
	failAt := 0
	if m.faults != nil {
		before = m.wanted(r)
		if m.f.store.FailAt != nil {
			failAt = rapid.IntRange(0, 8).Draw(r, "fail at")
			m.f.store.FailAt(failAt)
		}
	}
	got, err := call(side{m.got, m.f.s})
	if failAt > 0 {
		m.f.store.FailAt(0)
	}
	want, wantErr := call(side{m.want, m.want})
	if err != nil && !sameCode(wantErr, err) && (errors.Is(err, errFault) || failAt > 0) {
		m.afterFault(r, what, err, before)
		return
	}
	m.sameOutcome(r, what, want, got, wantErr, err)
}

func (m *machine) sameOutcome(r *rapid.T, what, want, got string, wantErr, err error) {
	if wantErr != nil {
		require.Error(r, err, "%s: want %v", what, wantErr)
		require.True(r, sameCode(wantErr, err), "%s: want the error %v, got %v", what, wantErr, err)
		return
	}
	require.NoError(r, err, what)
	require.Equal(r, want, got, what)
}

// afterFault brings the model to where the store is: with the step or without it.
func (m *machine) afterFault(r *rapid.T, what string, err error, before []types.Record) {
	now := m.state(r)
	if slices.Equal(linesOf(before), now) {
		m.want = model.NewStorage(modelDepth)
		_, err := m.want.Import(m.f.ctx, sequence(before, nil))
		require.NoError(r, err)
		return
	}
	require.ErrorIs(r, err, errFault, "%s: an error of the store itself says that nothing was changed", what)
	require.Equal(r, linesOf(m.wanted(r)), now, "%s failed: want the store without the step, or with all of it", what)
}

// sameCode reports whether two errors are of the same code and reason, versions of a conflict included.
func sameCode(want, got error) bool {
	var w, g *ports.Error
	if !errors.As(want, &w) || !errors.As(got, &g) {
		return false
	}
	var wc, gc *ports.VersionConflictError
	if errors.As(want, &wc) && (!errors.As(got, &gc) || wc.Expected != gc.Expected || wc.Actual != gc.Actual) {
		return false
	}
	return w.Code == g.Code && w.Reason == g.Reason && w.Op == g.Op
}

func (m *machine) wanted(r *rapid.T) []types.Record {
	records, err := export(m.f.ctx, m.want)
	require.NoError(r, err)
	return records
}

// state is what the store holds of this history.
func (m *machine) state(r *rapid.T) []string {
	archiver, ok := m.f.s.(ports.Archiver)
	if !ok {
		return m.readable(r)
	}
	records, err := export(m.f.ctx, archiver)
	require.NoError(r, err)
	return linesOf(slices.DeleteFunc(records, m.foreign))
}

func (m *machine) readable(r *rapid.T) []string {
	records, err := readAll(m.f.ctx, m.f.s, m.pipelines(), modelMonitors)
	require.NoError(r, err)
	return linesOf(slices.DeleteFunc(records, m.foreign))
}

// foreign says that a record is of another history.
func (m *machine) foreign(r types.Record) bool {
	switch {
	case r.Resource != nil:
		return !strings.HasPrefix(string(r.Resource.Kind), m.prefix)
	case r.Pause != nil:
		return !strings.HasPrefix(r.Pause.ID, m.prefix)
	}
	return !strings.HasPrefix(string(r.Pipeline), m.prefix)
}

// compare holds all records against those of the model, and positions against the earlier ones.
func (m *machine) compare(r *rapid.T) {
	if !m.changed {
		return
	}
	m.changed = false
	require.Equal(r, linesOf(m.wanted(r)), m.state(r), "the records of the store")
	for _, p := range m.pipelines() {
		letters, err := readLetters(m.f.ctx, m.f.s, p)
		require.NoError(r, err)
		there := map[string]int64{}
		highest := m.highest[p]
		for _, l := range letters {
			key := string(p) + " " + string(l.Letter.MatchID)
			if old := m.positions[key]; l.Position != old {
				require.Greater(r, l.Position, highest, "the position of the letter %s, which was %d: want it kept, or one never given before", key, old)
			}
			there[key] = l.Position
			m.highest[p] = max(m.highest[p], l.Position)
		}
		for key := range m.positions {
			if strings.HasPrefix(key, string(p)+" ") {
				delete(m.positions, key)
			}
		}
		maps.Copy(m.positions, there)
	}
}

// compareReaders holds what the readers give against the model.
func (m *machine) compareReaders(r *rapid.T) {
	require.Equal(r, linesOf(m.wanted(r)), m.readable(r), "what the readers give")
}

// What histories draw from: few names and numbers, so that calls meet.
var (
	modelIDs      = []string{"a", "a-", "a.", "B", "b"}
	modelMonitors = []types.MonitorID{"m", "n"}
	modelJSON     = []string{`null`, ` {"b": 1.50, "a": [ ]} `, `{"n":9007199254740993}`, "\"\\u00e9 <&>\"", "[1,\t2]"}
)

func (m *machine) pipelines() []types.PipelineID {
	return []types.PipelineID{types.PipelineID(m.prefix + "p"), types.PipelineID(m.prefix + "q")}
}

func (m *machine) pipeline(r *rapid.T) types.PipelineID {
	return rapid.SampledFrom(m.pipelines()).Draw(r, "pipeline")
}

func (m *machine) kind(r *rapid.T) types.ResourceKind {
	return types.ResourceKind(m.prefix + rapid.SampledFrom([]string{"k", "l"}).Draw(r, "kind"))
}

// seldom is true one time in a hundred, since one bad part spoils a whole step.
func seldom(r *rapid.T, what string) bool { return rapid.IntRange(0, 99).Draw(r, what) == 50 }

// drawID draws an id, and now and then a bad one.
func drawID[S ~string](r *rapid.T) S {
	if seldom(r, "bad id") {
		return S(rapid.SampledFrom([]string{"", "-", "a b"}).Draw(r, "id"))
	}
	return S(rapid.SampledFrom(modelIDs).Draw(r, "id"))
}

func drawMonitor(r *rapid.T) types.MonitorID {
	return rapid.SampledFrom(modelMonitors).Draw(r, "monitor")
}

func drawCursor(r *rapid.T) types.Cursor {
	if seldom(r, "odd cursor") {
		odd := rapid.SampledFrom([]uint64{1<<53 + 1, math.MaxInt64, 1 << 63}).Draw(r, "primary")
		return at(odd, 0)
	}
	return at(rapid.Uint64Range(0, 14).Draw(r, "primary"), rapid.Uint64Range(0, 2).Draw(r, "secondary"))
}

func drawJSON(r *rapid.T) []byte {
	if seldom(r, "bad JSON") {
		return []byte(`{"a":1,"a":2}`)
	}
	return []byte(rapid.SampledFrom(modelJSON).Draw(r, "JSON"))
}

func drawList[T any](r *rapid.T, what string, draw func(*rapid.T) T) []T {
	list := make([]T, rapid.IntRange(0, 3).Draw(r, what))
	for i := range list {
		list[i] = draw(r)
	}
	return list
}

func drawOptional[T any](r *rapid.T, what string, draw func(*rapid.T) T) *T {
	if !rapid.Bool().Draw(r, what) {
		return nil
	}
	return new(draw(r))
}

func drawCheckpoint(r *rapid.T) types.Checkpoint {
	return types.Checkpoint{
		Cursor:    drawCursor(r),
		Module:    drawOptional(r, "module", func(r *rapid.T) string { return rapid.SampledFrom([]string{"", "ndjson"}).Draw(r, "name") }),
		UpdatedAt: rapid.SampledFrom(instants).Draw(r, "time").In(time.FixedZone("east", 3600)),
	}
}

func drawLetter(r *rapid.T) types.DeadLetter {
	l := types.DeadLetter{
		MatchID: drawID[types.MatchID](r), Monitor: drawMonitor(r), Sink: "s", Cursor: drawCursor(r),
		Attempts: rapid.Uint64Range(0, 3).Draw(r, "attempts"), Reason: rapid.SampledFrom([]string{"", "503", "é\n"}).Draw(r, "reason"),
	}
	switch rapid.IntRange(0, 2).Draw(r, "payload") {
	case 1:
		l = withMatch(l, string(drawJSON(r)))
	case 2:
		l = withEmission(l, string(drawJSON(r)))
	}
	return l
}

func drawDelivery(r *rapid.T) types.Delivery {
	return types.Delivery{Cursor: drawCursor(r), MatchID: drawID[types.MatchID](r)}
}

func drawHit(r *rapid.T) types.GateHit {
	return types.GateHit{
		Monitor: drawMonitor(r), Cursor: drawCursor(r), Index: rapid.Uint64Range(0, 1).Draw(r, "index"),
		TS: rapid.Int64Range(-2, 5).Draw(r, "ts"), Event: drawJSON(r),
	}
}

func drawMeta(r *rapid.T) types.GateMeta {
	return types.GateMeta{
		LastEmitTS: drawOptional(r, "last", func(r *rapid.T) int64 { return rapid.Int64Range(-1, 1).Draw(r, "ts") }),
		Aux:        rapid.SampledFrom([][]byte{nil, {}, []byte("\x00aux")}).Draw(r, "aux"),
	}
}

func drawPrimary(r *rapid.T) uint64 { return drawCursor(r).Primary }

// expected draws the version of a record, or in one of four cases any.
func (m *machine) expected(r *rapid.T, kind types.ResourceKind, id string) uint64 {
	if rapid.IntRange(0, 3).Draw(r, "any version") == 3 {
		return rapid.Uint64Range(0, 3).Draw(r, "expected")
	}
	for _, record := range m.wanted(r) {
		if res := record.Resource; res != nil && res.Kind == kind && res.ID == id {
			return res.Version
		}
	}
	return 0
}

func (m *machine) putResource(r *rapid.T) {
	kind, id, value := m.kind(r), drawID[string](r), drawJSON(r)
	expected := m.expected(r, kind, id)
	m.step(r, "put of a resource", func(s side) (string, error) {
		version, err := s.PutResource(m.f.ctx, kind, id, value, expected)
		return fmt.Sprint(version), err
	})
}

func (m *machine) putResources(r *rapid.T) {
	batch := drawList(r, "resources", func(r *rapid.T) types.Resource {
		return types.Resource{Kind: m.kind(r), ID: drawID[string](r), Value: drawJSON(r)}
	})
	m.step(r, "put of a batch", func(s side) (string, error) { return "", s.PutResources(m.f.ctx, batch) })
}

func (m *machine) deleteResource(r *rapid.T) {
	kind, id := m.kind(r), drawID[string](r)
	expected := m.expected(r, kind, id)
	m.step(r, "deletion of a resource", func(s side) (string, error) { return "", s.DeleteResource(m.f.ctx, kind, id, expected) })
}

func (m *machine) readResources(r *rapid.T) {
	kind, id := m.kind(r), drawID[string](r)
	limit := rapid.SampledFrom([]int{0, 1, 2, 3, 1001}).Draw(r, "limit")
	m.look(r, "get of a resource", func(s side) (string, error) {
		res, found, err := s.GetResource(m.f.ctx, kind, id)
		return fmt.Sprint(found, line(types.Record{Resource: &res})), err
	})
	m.look(r, "list of resources", func(s side) (string, error) {
		page, err := s.ListResources(m.f.ctx, kind, types.ResourceListOptions{After: id, Limit: limit})
		var text strings.Builder
		for _, res := range page.Resources {
			fmt.Fprintln(&text, line(types.Record{Resource: &res}))
		}
		return text.String() + page.Next, err
	})
}

func (m *machine) checkpoint(r *rapid.T) {
	p := m.pipeline(r)
	switch rapid.IntRange(0, 3).Draw(r, "what") {
	case 0:
		m.step(r, "deletion of a checkpoint", func(s side) (string, error) {
			found, err := s.DeleteCheckpoint(m.f.ctx, p)
			return fmt.Sprint(found), err
		})
	case 1:
		m.look(r, "load of a checkpoint", func(s side) (string, error) {
			c, found, err := s.LoadCheckpoint(m.f.ctx, p)
			return fmt.Sprint(found, line(types.Record{Checkpoint: &c})), err
		})
	default:
		c := drawCheckpoint(r)
		m.step(r, "save of a checkpoint", func(s side) (string, error) { return "", s.SaveCheckpoint(m.f.ctx, p, c) })
	}
}

func (m *machine) recordLetter(r *rapid.T) {
	p, l := m.pipeline(r), drawLetter(r)
	m.step(r, "record of a letter", func(s side) (string, error) { return "", s.RecordDeadLetter(m.f.ctx, p, l) })
}

func (m *machine) changeLetters(r *rapid.T) {
	p := m.pipeline(r)
	switch rapid.IntRange(0, 3).Draw(r, "what") {
	case 0:
		l := drawLetter(r)
		m.step(r, "update of a letter", func(s side) (string, error) {
			found, err := s.UpdateDeadLetter(m.f.ctx, p, l)
			return fmt.Sprint(found), err
		})
	case 1:
		id := drawID[types.MatchID](r)
		m.step(r, "deletion of a letter", func(s side) (string, error) {
			found, err := s.DeleteDeadLetter(m.f.ctx, p, id)
			return fmt.Sprint(found), err
		})
	case 2:
		ids := drawList(r, "ids", drawID[types.MatchID])
		m.step(r, "deletion of letters", func(s side) (string, error) {
			n, err := s.DeleteDeadLetters(m.f.ctx, p, ids)
			return fmt.Sprint(n), err
		})
	case 3:
		id := types.MatchID(rapid.SampledFrom(modelIDs).Draw(r, "through"))
		m.step(r, "deletion of letters through a position", func(s side) (string, error) {
			n, err := s.DeleteAllDeadLetters(m.f.ctx, p, s.position(m.f.ctx, r, p, id))
			return fmt.Sprint(n), err
		})
	}
}

func (m *machine) readLetters(r *rapid.T) {
	p, id := m.pipeline(r), types.MatchID(rapid.SampledFrom(modelIDs).Draw(r, "after"))
	q := types.LetterQuery{Skip: rapid.IntRange(0, 3).Draw(r, "skip"), Take: rapid.SampledFrom([]int{0, 1, 2, 1000, 1001}).Draw(r, "take")}
	m.look(r, "list of letters", func(s side) (string, error) {
		q := q
		q.After = s.position(m.f.ctx, r, p, id)
		letters, err := s.ListDeadLetters(m.f.ctx, p, q)
		var text strings.Builder
		for _, l := range letters {
			fmt.Fprintln(&text, line(types.Record{DeadLetter: &l.Letter}), l.Err)
		}
		return text.String(), err
	})
	m.look(r, "get of a letter", func(s side) (string, error) {
		l, found, err := s.GetDeadLetter(m.f.ctx, p, id)
		return fmt.Sprint(found, line(types.Record{DeadLetter: &l.Letter})), err
	})
}

func (m *machine) pause(r *rapid.T) {
	pause := types.Pause{
		Target: rapid.SampledFrom([]types.PauseTarget{types.PausePipeline, types.PauseSink, "-"}).Draw(r, "target"),
		ID:     m.prefix + rapid.SampledFrom([]string{"p", "p/a", "p.a"}).Draw(r, "id"),
	}
	switch rapid.IntRange(0, 2).Draw(r, "what") {
	case 0:
		m.step(r, "resume", func(s side) (string, error) { return "", s.Resume(m.f.ctx, pause) })
	case 1:
		m.look(r, "paused", func(s side) (string, error) {
			paused, err := s.Paused(m.f.ctx, pause)
			return fmt.Sprint(paused), err
		})
	default:
		m.step(r, "pause", func(s side) (string, error) { return "", s.Pause(m.f.ctx, pause) })
	}
}

func (m *machine) deliver(r *rapid.T) {
	p, deliveries := m.pipeline(r), drawList(r, "deliveries", drawDelivery)
	m.step(r, "record of deliveries", func(s side) (string, error) { return "", s.RecordDeliveries(m.f.ctx, p, deliveries) })
}

func (m *machine) delivered(r *rapid.T) {
	p, from, to := m.pipeline(r), drawCursor(r), drawCursor(r)
	m.look(r, "window of deliveries", func(s side) (string, error) {
		deliveries, err := s.Delivered(m.f.ctx, p, from, to)
		return fmt.Sprint(deliveries), err
	})
}

func (m *machine) hits(r *rapid.T) {
	p := m.pipeline(r)
	switch rapid.IntRange(0, 4).Draw(r, "what") {
	case 0:
		primary := drawPrimary(r)
		m.step(r, "deletion of hits before a primary", func(s side) (string, error) { return "", s.DeleteHitsBefore(m.f.ctx, p, primary) })
	case 1:
		primary := drawPrimary(r)
		m.step(r, "deletion of hits from a primary", func(s side) (string, error) { return "", s.DeleteHitsFrom(m.f.ctx, p, primary) })
	case 2:
		monitor, since := drawMonitor(r), rapid.Int64Range(-3, 6).Draw(r, "since")
		m.look(r, "hits since", func(s side) (string, error) {
			hits, err := s.Hits(m.f.ctx, p, monitor, since)
			var text strings.Builder
			for _, h := range hits {
				fmt.Fprintln(&text, line(types.Record{GateHit: &h}))
			}
			return text.String(), err
		})
	default:
		hits := drawList(r, "hits", drawHit)
		m.step(r, "append of hits", func(s side) (string, error) { return "", s.AppendHits(m.f.ctx, p, hits) })
	}
}

func (m *machine) gateMeta(r *rapid.T) {
	p, monitor, meta := m.pipeline(r), drawMonitor(r), drawMeta(r)
	m.step(r, "set of a meta", func(s side) (string, error) { return "", s.SetGateMeta(m.f.ctx, p, monitor, meta) })
	m.look(r, "get of a meta", func(s side) (string, error) {
		meta, found, err := s.GateMeta(m.f.ctx, p, monitor)
		return fmt.Sprint(found, line(types.Record{GateMeta: &types.MonitorMeta{Meta: meta}})), err
	})
}

func (m *machine) apply(r *rapid.T) {
	p := m.pipeline(r)
	progress := types.Progress{
		Checkpoint:  drawOptional(r, "checkpoint", drawCheckpoint),
		Deliveries:  drawList(r, "deliveries", drawDelivery),
		JournalFrom: drawOptional(r, "journal from", drawPrimary),
		Settled:     drawList(r, "settled", drawID[types.MatchID]),
		DeadLetters: drawList(r, "letters", drawLetter),
		HitsFrom:    drawOptional(r, "hits from", drawPrimary),
		Hits:        drawList(r, "hits", drawHit),
		HitsBefore:  drawOptional(r, "hits before", drawPrimary),
		HitsBeforeOf: drawList(r, "floors", func(r *rapid.T) types.MonitorFloor {
			return types.MonitorFloor{Monitor: drawMonitor(r), Primary: drawPrimary(r)}
		}),
		Metas: drawList(r, "metas", func(r *rapid.T) types.MonitorMeta {
			return types.MonitorMeta{Monitor: drawMonitor(r), Meta: drawMeta(r)}
		}),
	}
	m.step(r, "apply", func(s side) (string, error) { return "", s.Apply(m.f.ctx, p, progress) })
}

func (m *machine) reopen(r *rapid.T) {
	// Opening a file takes as long as many operations: do it seldom.
	if !m.f.h.Durable || rapid.IntRange(0, 3).Draw(r, "reopen") > 0 {
		return
	}
	m.f.reopen()
	m.wrap()
}
