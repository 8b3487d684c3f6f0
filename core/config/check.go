package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	// MaxThreshold is the largest threshold of a gate.
	MaxThreshold = 10_000
	// MaxSpan is the longest window and cooldown of a gate, and the longest pause of a retry: 10 years
	// of 365 days.
	MaxSpan = 10 * 365 * 24 * time.Hour
	// MaxAttempts is the most attempts of a delivery.
	MaxAttempts = 100

	// reservedID marks the dead letters of what a source gave that was no event.
	reservedID = "_source"
)

// fieldTypes are the types that fields may have.
var fieldTypes = []string{"number", "string", "bool", "object", "array", "any"}

// origin is where a pipeline was read, so that a fault names the very key; the zero value stands for one
// that a program has made.
type origin struct {
	doc *document
	at  path
}

func (o origin) position(key path) Position {
	if o.doc == nil {
		return Position{Path: key.String()}
	}
	return o.doc.position(slices.Concat(o.at, key))
}

func (o origin) refuse(key path, format string, args ...any) error {
	return Refuse(fault(o.position(key), slices.Concat(o.at, key).String(), format, args...))
}

// Check refuses a pipeline that [Parse] would refuse, as INVALID_CONFIG with a [Fault]: for one that a
// program has made. Which modules there are, and what an expression says, is not asked.
func (p Pipeline) Check() error {
	if err := ports.CheckPipeline(op, p.ID); err != nil {
		return p.origin.refuse(path{"id"}, "the id of the pipeline cannot be used: %w", err)
	}
	if err := p.checkSource(); err != nil {
		return err
	}
	if err := p.checkFields(); err != nil {
		return err
	}
	if err := p.checkSinks(); err != nil {
		return err
	}
	seen := map[types.MonitorID]Position{}
	for i, m := range p.Monitors {
		at := path{"monitor"}.item(i)
		if err := checkID(p.origin, at, "monitor", m.ID, seen); err != nil {
			return err
		}
		if m.Gate != nil {
			if err := p.origin.checkGate(at.child("gate"), *m.Gate); err != nil {
				return err
			}
		}
		if err := p.checkTargets(at, m); err != nil {
			return err
		}
	}
	return nil
}

// checkSource checks that what needs a source has one, and the other way round.
func (p Pipeline) checkSource() error {
	switch {
	case p.Source != nil && len(p.Monitors) == 0:
		return p.origin.refuse(path{"source"}, "the pipeline has a source but no monitor, so that it would deliver nothing: add a monitor, one without the key when to pick every event")
	case p.Source != nil:
		return nil
	case len(p.Monitors) > 0:
		return p.origin.refuse(path{"monitor"}.item(0), "the pipeline has a monitor but no source: add a source")
	case p.EventTime != "":
		return p.origin.refuse(path{"event_time"}, "the pipeline has an event_time but no source: add a source, or leave it out; a pipeline without a source has sinks only")
	case len(p.Fields) > 0:
		return p.origin.refuse(path{"fields"}, "the pipeline has fields but no source: add a source, or leave them out; a pipeline without a source has sinks only")
	}
	return nil
}

func (p Pipeline) checkFields() error {
	for _, name := range slices.Sorted(maps.Keys(p.Fields)) {
		at := path{"fields", name}
		switch {
		case name == "":
			return p.origin.refuse(at, "a field has no name: name a member of the events")
		case name == "event":
			return p.origin.refuse(at, `a field cannot be called event: in an expression that is the whole event, and a member of that name is event["event"]`)
		case !slices.Contains(fieldTypes, p.Fields[name]):
			return p.origin.refuse(at, "the type %q of the field %s is unknown: allowed are %s", shorten(p.Fields[name]), at[1:], strings.Join(fieldTypes, ", "))
		}
	}
	return nil
}

func (p Pipeline) checkSinks() error {
	seen := map[types.SinkID]Position{}
	for i, s := range p.Sinks {
		at := path{"sink"}.item(i)
		if err := checkID(p.origin, at, "sink", s.ID, seen); err != nil {
			return err
		}
		if err := p.origin.checkRetry(at.child("retry"), s.Retry); err != nil {
			return err
		}
	}
	return nil
}

// checkID checks the id of a monitor or sink at a path, and that it is the first of that id.
func checkID[S ~string](o origin, at path, what string, id S, seen map[S]Position) error {
	key := at.child("id")
	if id == "" && o.position(key) == o.position(at) {
		return o.refuse(at, "a %s has no id: add %s", what, o.doc.entry("id", `"NAME"`))
	}
	if err := ports.CheckID(op, what, id); err != nil {
		return o.refuse(key, "the id of a %s cannot be used: %w", what, err)
	}
	if id == reservedID {
		return o.refuse(key, "the id of a %s cannot be %q: dead letters of what a source could not read have it; use another one", what, id)
	}
	if earlier, twice := seen[id]; twice {
		return o.refuse(key, "a %s with the id %q stands at %v already: give each of a pipeline its own", what, id, earlier)
	}
	seen[id] = o.position(key)
	return nil
}

// checkTargets checks the sinks of a monitor.
func (p Pipeline) checkTargets(at path, m Monitor) error {
	var known []string
	for _, s := range p.Sinks {
		known = append(known, string(s.ID))
	}
	there := "there are none; add a sink"
	if len(known) > 0 {
		there = "there are " + strings.Join(known, ", ")
	}
	if len(m.Sinks) == 0 {
		return p.origin.refuse(at.child("sinks"), "the monitor %q has no sinks: name those of the pipeline that get its matches; %s", m.ID, there)
	}
	for i, id := range m.Sinks {
		key := at.child("sinks").item(i)
		switch {
		case !slices.Contains(known, string(id)):
			return p.origin.refuse(key, "the monitor %q names the sink %q, which the pipeline does not have: %s", m.ID, shorten(string(id)), there)
		case slices.Contains(m.Sinks[:i], id):
			return p.origin.refuse(key, "the monitor %q names the sink %q twice: leave one out", m.ID, id)
		}
	}
	return nil
}

func (o origin) checkGate(at path, g Gate) error {
	if g.Threshold < 1 || g.Threshold > MaxThreshold {
		return o.refuse(at.child("threshold"), "the threshold of a gate is %d: give 1 to %d", g.Threshold, MaxThreshold)
	}
	for _, span := range []struct {
		name  string
		given time.Duration
	}{{"window", g.Window}, {"cooldown", g.Cooldown}} {
		if span.given < 0 || span.given > MaxSpan {
			return o.refuse(at.child(span.name), "the %s of a gate is %v: give 0s to %v, which is 10 years", span.name, span.given, MaxSpan)
		}
		if span.given%time.Millisecond != 0 { // the times of events are no finer
			return o.refuse(at.child(span.name), "the %s of a gate is %v: give whole milliseconds", span.name, span.given)
		}
	}
	if g.Threshold > 1 && g.Window == 0 {
		return o.refuse(at.child("window"), `the gate counts %d matches but has no window: add one, like %s`, g.Threshold, o.doc.entry("window", `"1h"`))
	}
	return nil
}

func (o origin) checkRetry(at path, r Retry) error {
	switch {
	case r.Attempts < 0 || r.Attempts > MaxAttempts:
		return o.refuse(at.child("attempts"), "%s", badAttempts(r.Attempts))
	case r.Min < 0 || r.Min > MaxSpan:
		return o.refuse(at.child("min"), "%s", badPause("min", r.Min))
	case r.Max < 0 || r.Max > MaxSpan:
		return o.refuse(at.child("max"), "%s", badPause("max", r.Max))
	case r.Max > 0 && r.Max < r.Min:
		return o.refuse(at.child("max"), "the max of a retry is %v, below its min of %v: give one that is not below", r.Max, r.Min)
	}
	return nil
}

func badAttempts(n int) string {
	return fmt.Sprintf("the attempts of a retry are %d: give 1 to %d, or leave them out", n, MaxAttempts)
}

func badPause(name string, given time.Duration) string {
	return fmt.Sprintf("the %s of a retry is %v: give a duration above 0s, up to %v, or leave it out", name, given, MaxSpan)
}
