package storagetest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// The names that cases use; [fix.dump] looks at no others where the port wants to be told a name.
var (
	dumpPipelines = []types.PipelineID{"p", "p.", "q"}
	dumpMonitors  = []types.MonitorID{"m", "m.", "n"}
)

// last is the greatest cursor that there can be.
var last = types.Cursor{Primary: math.MaxInt64, Secondary: math.MaxInt64}

// dump is the state of the store as its readers show it, one line a record, in the order of an
// export.
func (f *fix) dump() []string {
	f.Helper()
	records, err := readAll(f.ctx, f.s, dumpPipelines, dumpMonitors)
	require.NoError(f, err, "reading the whole store")
	return linesOf(records)
}

// wantState asserts that the store is as it was.
func (f *fix) wantState(before []string, what string) {
	f.Helper()
	require.Equal(f, before, f.dump(), "%s: want the store as it was", what)
}

// readAll reads every record of the pipelines and monitors, and whatever needs no name.
func readAll(ctx context.Context, s ports.Storage, pipelines []types.PipelineID, monitors []types.MonitorID) ([]types.Record, error) {
	var records []types.Record
	add := func(r types.Record) { records = append(records, r) }

	kinds, err := s.ResourceKinds(ctx)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		for after := ""; ; {
			page, err := s.ListResources(ctx, kind, types.ResourceListOptions{After: after})
			if err != nil {
				return nil, err
			}
			for _, r := range page.Resources {
				add(types.Record{Resource: &r})
			}
			if after = page.Next; after == "" {
				break
			}
		}
	}
	checkpoints, err := s.ListCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range checkpoints {
		add(types.Record{Pipeline: c.Pipeline, Checkpoint: &c.Checkpoint})
	}
	counts, err := s.CountDeadLetters(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range counts {
		letters, err := readLetters(ctx, s, c.Pipeline)
		if err != nil {
			return nil, err
		}
		if int64(len(letters)) != c.Count {
			return nil, fmt.Errorf("the pipeline %s counts %d letters and lists %d", c.Pipeline, c.Count, len(letters))
		}
		for _, l := range letters {
			add(types.Record{Pipeline: c.Pipeline, DeadLetter: &l.Letter})
		}
	}
	pauses, err := s.ListPauses(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range pauses {
		add(types.Record{Pause: &p})
	}
	for _, p := range pipelines {
		deliveries, err := s.Delivered(ctx, p, types.Cursor{}, last)
		if err != nil {
			return nil, err
		}
		for _, d := range deliveries {
			add(types.Record{Pipeline: p, Delivery: &d})
		}
	}
	for _, p := range pipelines {
		for _, m := range monitors {
			hits, err := s.Hits(ctx, p, m, math.MinInt64)
			if err != nil {
				return nil, err
			}
			for _, h := range hits {
				add(types.Record{Pipeline: p, GateHit: &h})
			}
		}
	}
	for _, p := range pipelines {
		for _, m := range monitors {
			meta, found, err := s.GateMeta(ctx, p, m)
			if err != nil {
				return nil, err
			}
			if found {
				add(types.Record{Pipeline: p, GateMeta: &types.MonitorMeta{Monitor: m, Meta: meta}})
			}
		}
	}
	return records, nil
}

// readLetters pages through the letters of a pipeline by position.
func readLetters(ctx context.Context, s ports.Storage, pipeline types.PipelineID) ([]types.StoredLetter, error) {
	var all []types.StoredLetter
	for after := int64(0); ; {
		page, err := s.ListDeadLetters(ctx, pipeline, types.LetterQuery{After: after, Take: ports.MaxPageLimit})
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			if l.Position <= after {
				return nil, fmt.Errorf("the letter %s of %s has the position %d after %d: want them to grow", l.Letter.MatchID, pipeline, l.Position, after)
			}
			after = l.Position
		}
		all = append(all, page...)
		if len(page) < ports.MaxPageLimit {
			return all, nil
		}
	}
}

// export is the state of the store as its archiver gives it.
func export(ctx context.Context, from ports.Archiver) ([]types.Record, error) {
	var records []types.Record
	err := from.Export(ctx, func(r types.Record) error {
		records = append(records, r)
		return nil
	})
	return records, err
}

func linesOf(records []types.Record) []string {
	var lines []string
	for _, r := range records {
		lines = append(lines, line(r))
	}
	return lines
}

// line says everything about a record, so that two records are equal if their lines are, and a
// difference can be read.
func line(r types.Record) string {
	switch {
	case r.Resource != nil:
		return fmt.Sprintf("resource %s/%s v%d %q", r.Resource.Kind, r.Resource.ID, r.Resource.Version, r.Resource.Value)
	case r.Checkpoint != nil:
		c := r.Checkpoint
		return fmt.Sprintf("checkpoint %s: %v module %s at %s", r.Pipeline, c.Cursor, quoted(c.Module), c.UpdatedAt.UTC().Format(time.RFC3339Nano))
	case r.DeadLetter != nil:
		l := r.DeadLetter
		return fmt.Sprintf("letter %s/%s: %s %s %v attempts %d reason %q payload %s", r.Pipeline, l.MatchID, l.Monitor, l.Sink, l.Cursor, l.Attempts, l.Reason, payload(l.Payload))
	case r.Pause != nil:
		return fmt.Sprintf("pause %s %s", r.Pause.Target, r.Pause.ID)
	case r.Delivery != nil:
		return fmt.Sprintf("delivery %s: %v %s", r.Pipeline, r.Delivery.Cursor, r.Delivery.MatchID)
	case r.GateHit != nil:
		h := r.GateHit
		return fmt.Sprintf("hit %s/%s: %v #%d ts %d %q", r.Pipeline, h.Monitor, h.Cursor, h.Index, h.TS, h.Event)
	case r.GateMeta != nil:
		m := r.GateMeta.Meta
		ts, aux := "none", "none"
		if m.LastEmitTS != nil {
			ts = strconv.FormatInt(*m.LastEmitTS, 10)
		}
		if m.Aux != nil {
			aux = fmt.Sprintf("%q", m.Aux)
		}
		return fmt.Sprintf("meta %s/%s: last %s aux %s", r.Pipeline, r.GateMeta.Monitor, ts, aux)
	}
	return "a record of no category"
}

func quoted(s *string) string {
	if s == nil {
		return "none"
	}
	return strconv.Quote(*s)
}

func payload(e *types.SinkEvent) string {
	switch {
	case e == nil:
		return "none"
	case e.Match != nil && e.Emission == nil:
		return "match " + match(*e.Match)
	case e.Emission != nil && e.Match == nil:
		m := e.Emission
		return fmt.Sprintf("emission key %q hits %d from %d to %d of %s", m.Key, m.Hits, m.FirstTS, m.LastTS, match(m.Match))
	}
	return "of neither or both types"
}

func match(m types.Match) string {
	return fmt.Sprintf("%q %q %q %v #%d ts %d %q", m.ID, m.Pipeline, m.Monitor, m.Cursor, m.Index, m.TS, m.Event)
}

// inExportOrder reports where a list of records breaks the order of an export, -1 for nowhere. The
// order of dead letters within a pipeline is that of their arrival, which records do not tell.
func inExportOrder(records []types.Record) int {
	for i := 1; i < len(records); i++ {
		if compareRecords(records[i-1], records[i]) > 0 {
			return i
		}
	}
	return -1
}

func compareRecords(a, b types.Record) int {
	if c := cmp.Compare(category(a), category(b)); c != 0 {
		return c
	}
	switch {
	case a.Resource != nil:
		return cmp.Or(cmp.Compare(a.Resource.Kind, b.Resource.Kind), cmp.Compare(a.Resource.ID, b.Resource.ID))
	case a.Pause != nil:
		return cmp.Or(cmp.Compare(a.Pause.Target, b.Pause.Target), cmp.Compare(a.Pause.ID, b.Pause.ID))
	}
	if c := cmp.Compare(a.Pipeline, b.Pipeline); c != 0 {
		return c
	}
	switch {
	case a.Delivery != nil:
		return cmp.Or(a.Delivery.Cursor.Compare(b.Delivery.Cursor), cmp.Compare(a.Delivery.MatchID, b.Delivery.MatchID))
	case a.GateHit != nil:
		g, h := a.GateHit, b.GateHit
		return cmp.Or(cmp.Compare(g.Monitor, h.Monitor), g.Cursor.Compare(h.Cursor), cmp.Compare(g.Index, h.Index))
	case a.GateMeta != nil:
		return cmp.Compare(a.GateMeta.Monitor, b.GateMeta.Monitor)
	}
	return 0
}

// category is the place of the record's category in an export.
func category(r types.Record) int {
	return slices.Index([]bool{
		r.Resource != nil, r.Checkpoint != nil, r.DeadLetter != nil, r.Pause != nil,
		r.Delivery != nil, r.GateHit != nil, r.GateMeta != nil,
	}, true)
}
