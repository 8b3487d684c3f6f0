package pipeline

import (
	"context"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/gate"
	"github.com/stowage-go/stowage/core/monitor"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// rules are the monitors of a pipeline, compiled, with their gates as they stand.
type rules struct {
	reader *monitor.Reader
	time   *monitor.Value // nil: the source's
	list   []*rule
}

type rule struct {
	id       types.MonitorID
	when     *monitor.Rule
	gate     *gate.Gate     // nil: none
	floor    uint64         // that was given last; below 0 there is no hit
	key      *monitor.Value // nil: one group
	keys     *monitor.Reader
	sinks    []types.SinkID
	counters *monitorCounters
}

// compile makes the rules of a configuration that was found good, with gates that have counted nothing.
func compile(p config.Pipeline, c *counters) (*rules, error) {
	r := &rules{}
	var expressions []monitor.Expression
	if p.EventTime != "" {
		value, err := monitor.CompileValue(p.EventTime, p.Fields)
		if err != nil {
			return nil, err
		}
		r.time = value
		expressions = append(expressions, value)
	}
	for _, m := range p.Monitors {
		when := m.When
		if when == "" {
			when = "true"
		}
		compiled, err := monitor.Compile(when, p.Fields)
		if err != nil {
			return nil, err
		}
		expressions = append(expressions, compiled)
		one := &rule{id: m.ID, when: compiled, sinks: m.Sinks, counters: c.monitor(m.ID)}
		if m.Gate != nil {
			one.gate, err = gate.New(m.ID, gate.Config{Threshold: m.Gate.Threshold, Window: m.Gate.Window, Cooldown: m.Gate.Cooldown})
			if err != nil {
				return nil, err
			}
			if m.Gate.Key != "" {
				if one.key, err = monitor.CompileValue(m.Gate.Key, p.Fields); err != nil {
					return nil, err
				}
				one.keys = monitor.NewReader(one.key)
				expressions = append(expressions, one.key)
			}
		}
		r.list = append(r.list, one)
	}
	r.reader = monitor.NewReader(expressions...)
	return r, nil
}

// restore gives each gate what the journal has of it, up to the checkpoint.
func (r *rules) restore(ctx context.Context, journal ports.GateJournal, pipeline types.PipelineID, upTo *types.Cursor, now int64) error {
	for _, one := range r.list {
		if one.gate == nil {
			continue
		}
		meta, _, err := journal.GateMeta(ctx, pipeline, one.id)
		if err != nil {
			return err
		}
		hits, err := journal.Hits(ctx, pipeline, one.id, one.gate.Since(now))
		if err != nil {
			return err
		}
		if err := one.gate.Restore(hits, meta, upTo, one.groupOf); err != nil {
			return err
		}
	}
	return nil
}

// groupOf is the group of a counted event. It was counted, so the expression has given one before,
// unless it was changed since: then the event counts for no group that has a name.
func (r *rule) groupOf(event []byte) string {
	if r.key == nil {
		return ""
	}
	env, err := r.keys.Read(event)
	if err != nil {
		return ""
	}
	key, err := r.key.Text(env)
	if err != nil {
		return ""
	}
	return key
}

// verdict is what the expressions say of one event, before the gates.
type verdict struct {
	ts      int64
	timeErr error
	picked  []pick // for each rule
}

type pick struct {
	matched bool
	key     string
	err     error
}

// judge evaluates all expressions on an event. It changes nothing.
func (r *rules) judge(event types.Event) verdict {
	v := verdict{ts: event.TS, picked: make([]pick, len(r.list))}
	env, err := r.reader.Read(event.Data)
	if err != nil {
		for i := range v.picked {
			v.picked[i].err = err
		}
		return v
	}
	if r.time != nil {
		ts, err := r.time.Millis(env)
		if err != nil {
			v.timeErr = err
		} else {
			v.ts = ts
		}
	}
	for i, one := range r.list {
		p := &v.picked[i]
		p.matched, p.err = one.when.Match(env)
		if p.err == nil && p.matched && one.key != nil {
			p.key, p.err = one.key.Text(env)
		}
		p.matched = p.matched && p.err == nil
	}
	return v
}

// floors are those that moved since the last call: for each gate the lowest primary whose hits it may
// still ask for, once all up to the primary last is passed.
func (r *rules) floors(last uint64) []types.MonitorFloor {
	var moved []types.MonitorFloor
	for _, one := range r.list {
		if one.gate == nil {
			continue
		}
		floor := last // and no higher: of the same primary more may come
		if oldest, ok := one.gate.Oldest(); ok {
			floor = min(oldest, last)
		}
		if floor != one.floor {
			one.floor = floor
			moved = append(moved, types.MonitorFloor{Monitor: one.id, Primary: floor})
		}
	}
	return moved
}

// gated reports whether there is a gate.
func (r *rules) gated() bool {
	for _, one := range r.list {
		if one.gate != nil {
			return true
		}
	}
	return false
}

// metas are those that changed since the last call.
func (r *rules) metas() []types.MonitorMeta {
	var changed []types.MonitorMeta
	for _, one := range r.list {
		if one.gate == nil {
			continue
		}
		if meta, ok := one.gate.TakeMeta(); ok {
			changed = append(changed, types.MonitorMeta{Monitor: one.id, Meta: meta})
		}
	}
	return changed
}
