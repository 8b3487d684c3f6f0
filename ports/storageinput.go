package ports

import (
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/stowage-go/stowage/types"
)

// Limits of what a storage takes.
const (
	MaxIDBytes        = 256
	MaxPauseIDBytes   = 2*MaxIDBytes + 1
	MaxJSONBytes      = 1 << 20 // of a resource's value, and of an event
	MaxReasonBytes    = 4096    // of a dead letter
	MaxAuxBytes       = 64 << 10
	MaxResourceBatch  = 1000
	MaxPageLimit      = 1000
	MaxProgressItems  = 10_000
	MaxStoredInteger  = math.MaxInt64 // of a cursor's parts, a version, an index
	DefaultDepth      = 10_000        // of a delivery journal
	maxCheckpointYear = 9999
)

// CheckID checks an id of a storage: 1 to 256 bytes of A-Z a-z 0-9 - _ : and dot, the first a letter, a
// digit or an underscore. what names it in the error: "pipeline", "match id".
func CheckID[S ~string](op, what string, id S) error {
	if id == "" || len(id) > MaxIDBytes {
		return invalid(op, "the %s has %d bytes: give 1 to %d", what, len(id), MaxIDBytes)
	}
	for i := range len(id) {
		c := id[i]
		if isAlphanumeric(c) || c == '_' || i > 0 && (c == '-' || c == ':' || c == '.') {
			continue
		}
		return invalid(op, "the %s %q has the byte %s at offset %d: use A-Z a-z 0-9 - _ : and dot, and start with a letter, a digit or an underscore", what, string(id), quoteByte(c), i)
	}
	return nil
}

// CheckPipeline checks the id of a pipeline.
func CheckPipeline(op string, id types.PipelineID) error { return CheckID(op, "pipeline", id) }

// CheckMatchID checks the id of a match.
func CheckMatchID(op string, id types.MatchID) error { return CheckID(op, "match id", id) }

// CheckCursor checks a cursor: no part is above 2^63-1 (R245).
func CheckCursor(op string, c types.Cursor) error {
	if c.Primary > MaxStoredInteger || c.Secondary > MaxStoredInteger {
		return invalid(op, "the cursor is %v: its parts are at most %d", c, uint64(MaxStoredInteger))
	}
	return nil
}

// CheckPrimary checks the primary part of a cursor.
func CheckPrimary(op string, primary uint64) error {
	return CheckCursor(op, types.Cursor{Primary: primary})
}

// compactJSON checks a JSON value and returns it without insignificant white space, as a copy.
func compactJSON(op, what string, value []byte) (json.RawMessage, error) {
	if len(value) > MaxJSONBytes {
		return nil, invalid(op, "the %s has %d bytes: at most %d are allowed", what, len(value), MaxJSONBytes)
	}
	text, err := CompactJSON(string(value))
	if err != nil {
		return nil, invalid(op, "the %s is not valid JSON: %w", what, err)
	}
	return json.RawMessage(text), nil
}

// CheckResourceKey checks kind and id of a resource.
func CheckResourceKey(op string, kind types.ResourceKind, id string) error {
	if err := CheckID(op, "kind", kind); err != nil {
		return err
	}
	return CheckID(op, "resource id", id)
}

// CheckResource checks a put. The key is checked first, then the version expected, then the value.
func CheckResource(op string, kind types.ResourceKind, id string, value []byte, expected uint64) error {
	if err := CheckResourceKey(op, kind, id); err != nil {
		return err
	}
	if expected >= MaxStoredInteger {
		return invalid(op, "the expected version is %d: it is below %d", expected, uint64(MaxStoredInteger))
	}
	_, err := compactJSON(op, "value", value) // which is kept as it is
	return err
}

// CheckResourceDelete checks a delete.
func CheckResourceDelete(op string, kind types.ResourceKind, id string, expected uint64) error {
	if err := CheckResourceKey(op, kind, id); err != nil {
		return err
	}
	if expected == 0 || expected > MaxStoredInteger {
		return invalid(op, "the expected version is %d: give the version that is to be deleted, 1 or above", expected)
	}
	return nil
}

// CheckResourceBatch checks the records of a batch. A record that comes twice is ALREADY_EXISTS.
func CheckResourceBatch(op string, resources []types.Resource) error {
	if n := len(resources); n < 1 || n > MaxResourceBatch {
		return invalid(op, "the batch has %d resources: give 1 to %d", n, MaxResourceBatch)
	}
	type key struct {
		kind types.ResourceKind
		id   string
	}
	seen := make(map[key]bool, len(resources))
	for _, r := range resources {
		if err := CheckResource(op, r.Kind, r.ID, r.Value, 0); err != nil {
			return err
		}
		if r.Version > 1 {
			return invalid(op, "the resource %s/%s has the version %d: one that is created gets 1", r.Kind, r.ID, r.Version)
		}
	}
	for _, r := range resources {
		if k := (key{r.Kind, r.ID}); seen[k] {
			return Errorf(CodeAlreadyExists, op, "the resource %s/%s comes twice in the batch; nothing was stored", r.Kind, r.ID)
		} else {
			seen[k] = true
		}
	}
	return nil
}

// CheckResourceList checks the options of a list and returns its limit.
func CheckResourceList(op string, kind types.ResourceKind, opts types.ResourceListOptions) (int, error) {
	if err := CheckID(op, "kind", kind); err != nil {
		return 0, err
	}
	if opts.After != "" {
		if err := CheckID(op, "resource id", opts.After); err != nil {
			return 0, err
		}
	}
	if opts.Limit < 0 || opts.Limit > MaxPageLimit {
		return 0, invalid(op, "the limit is %d: give 1 to %d", opts.Limit, MaxPageLimit)
	}
	if opts.Limit == 0 {
		return MaxPageLimit, nil
	}
	return opts.Limit, nil
}

// CheckCheckpoint checks a checkpoint and returns it as it is stored: a copy, its time in UTC.
func CheckCheckpoint(op string, pipeline types.PipelineID, c types.Checkpoint) (types.Checkpoint, error) {
	if err := CheckPipeline(op, pipeline); err != nil {
		return types.Checkpoint{}, err
	}
	if err := CheckCursor(op, c.Cursor); err != nil {
		return types.Checkpoint{}, err
	}
	if c.Module != nil {
		module := *c.Module
		if len(module) > MaxIDBytes || !utf8.ValidString(module) {
			return types.Checkpoint{}, invalid(op, "the module of the checkpoint has %d bytes: give at most %d of valid UTF-8", len(module), MaxIDBytes)
		}
		c.Module = &module
	}
	c.UpdatedAt = c.UpdatedAt.UTC().Round(0)
	if year := c.UpdatedAt.Year(); year < 0 || year > maxCheckpointYear {
		return types.Checkpoint{}, invalid(op, "the time of the checkpoint is in the year %d: give 0 to %d", year, maxCheckpointYear)
	}
	return c, nil
}

// CheckDeadLetter checks a letter and returns it as it is stored: a copy, its event compact.
func CheckDeadLetter(op string, pipeline types.PipelineID, l types.DeadLetter) (types.DeadLetter, error) {
	if err := CheckPipeline(op, pipeline); err != nil {
		return types.DeadLetter{}, err
	}
	return checkLetter(op, l)
}

func checkLetter(op string, l types.DeadLetter) (types.DeadLetter, error) {
	if err := CheckMatchID(op, l.MatchID); err != nil {
		return types.DeadLetter{}, err
	}
	if err := CheckID(op, "monitor", l.Monitor); err != nil {
		return types.DeadLetter{}, err
	}
	if err := CheckID(op, "sink", l.Sink); err != nil {
		return types.DeadLetter{}, err
	}
	if err := CheckCursor(op, l.Cursor); err != nil {
		return types.DeadLetter{}, err
	}
	if l.Attempts > MaxStoredInteger {
		return types.DeadLetter{}, invalid(op, "the attempts of the dead letter %q are %d: at most %d", l.MatchID, l.Attempts, uint64(MaxStoredInteger))
	}
	if len(l.Reason) > MaxReasonBytes || !utf8.ValidString(l.Reason) {
		return types.DeadLetter{}, invalid(op, "the reason of the dead letter %q has %d bytes: give at most %d of valid UTF-8", l.MatchID, len(l.Reason), MaxReasonBytes)
	}
	if l.Payload == nil {
		return l, nil
	}
	payload, err := checkSinkEvent(op, *l.Payload)
	l.Payload = &payload
	return l, err
}

// checkSinkEvent checks what a payload holds and returns a copy. Names in it are those of the pipeline
// that made it, which may have been an older one: only what would harm a store is refused.
func checkSinkEvent(op string, e types.SinkEvent) (types.SinkEvent, error) {
	if (e.Match == nil) == (e.Emission == nil) {
		return types.SinkEvent{}, invalid(op, "the payload holds neither or both of a match and an emission: give one")
	}
	if e.Match != nil {
		match, err := checkMatch(op, *e.Match)
		return types.SinkEvent{Match: &match}, err
	}
	emission := *e.Emission
	match, err := checkMatch(op, emission.Match)
	if err != nil {
		return types.SinkEvent{}, err
	}
	emission.Match = match
	if len(emission.Key) > MaxJSONBytes || !utf8.ValidString(emission.Key) {
		return types.SinkEvent{}, invalid(op, "the key of the emission has %d bytes: give at most %d of valid UTF-8", len(emission.Key), MaxJSONBytes)
	}
	return types.SinkEvent{Emission: &emission}, nil
}

func checkMatch(op string, m types.Match) (types.Match, error) {
	if err := CheckCursor(op, m.Cursor); err != nil {
		return types.Match{}, err
	}
	for _, name := range [...]string{string(m.ID), string(m.Pipeline), string(m.Monitor)} {
		if len(name) > MaxIDBytes || !utf8.ValidString(name) {
			return types.Match{}, invalid(op, "a name in the payload has %d bytes: give at most %d of valid UTF-8", len(name), MaxIDBytes)
		}
	}
	event, err := compactJSON(op, "event", m.Event)
	m.Event = event
	return m, err
}

// CheckLetterQuery checks the choice of a page.
func CheckLetterQuery(op string, pipeline types.PipelineID, q types.LetterQuery) error {
	if err := CheckPipeline(op, pipeline); err != nil {
		return err
	}
	if q.After < 0 || q.Skip < 0 {
		return invalid(op, "the page starts after position %d and skips %d: give 0 or above", q.After, q.Skip)
	}
	if q.Take < 0 || q.Take > MaxPageLimit {
		return invalid(op, "the page takes %d letters: give 0 to %d", q.Take, MaxPageLimit)
	}
	return nil
}

// CheckMatchIDs checks the ids of a bulk deletion.
func CheckMatchIDs(op string, pipeline types.PipelineID, ids []types.MatchID) error {
	if err := CheckPipeline(op, pipeline); err != nil {
		return err
	}
	return checkMatchIDs(op, ids)
}

func checkMatchIDs(op string, ids []types.MatchID) error {
	if err := checkItems(op, "match ids", len(ids)); err != nil {
		return err
	}
	for _, id := range ids {
		if err := CheckMatchID(op, id); err != nil {
			return err
		}
	}
	return nil
}

func checkItems(op, what string, n int) error {
	if n > MaxProgressItems {
		return invalid(op, "there are %d %s in one call: at most %d are allowed", n, what, MaxProgressItems)
	}
	return nil
}

// CheckPause checks a pause.
func CheckPause(op string, p types.Pause) error {
	if err := CheckID(op, "pause target", p.Target); err != nil {
		return err
	}
	if len(p.ID) > MaxPauseIDBytes {
		return invalid(op, "the id of the pause has %d bytes: give 1 to %d", len(p.ID), MaxPauseIDBytes)
	}
	for part := range strings.SplitSeq(p.ID, "/") {
		if err := CheckID(op, "pause id", part); err != nil {
			return err
		}
	}
	return nil
}

// CheckDeliveries checks entries of the delivery journal.
func CheckDeliveries(op string, pipeline types.PipelineID, deliveries []types.Delivery) error {
	if err := CheckPipeline(op, pipeline); err != nil {
		return err
	}
	return checkDeliveries(op, deliveries)
}

func checkDeliveries(op string, deliveries []types.Delivery) error {
	if err := checkItems(op, "deliveries", len(deliveries)); err != nil {
		return err
	}
	for _, d := range deliveries {
		if err := CheckMatchID(op, d.MatchID); err != nil {
			return err
		}
		if err := CheckCursor(op, d.Cursor); err != nil {
			return err
		}
	}
	return nil
}

// CheckDelivered checks the bounds of a window.
func CheckDelivered(op string, pipeline types.PipelineID, from, to types.Cursor) error {
	if err := CheckPipeline(op, pipeline); err != nil {
		return err
	}
	if err := CheckCursor(op, from); err != nil {
		return err
	}
	return CheckCursor(op, to)
}

// CheckHits checks gate hits and returns them as they are stored: copies, their events compact.
func CheckHits(op string, pipeline types.PipelineID, hits []types.GateHit) ([]types.GateHit, error) {
	if err := CheckPipeline(op, pipeline); err != nil {
		return nil, err
	}
	return checkHits(op, hits)
}

func checkHits(op string, hits []types.GateHit) ([]types.GateHit, error) {
	if err := checkItems(op, "gate hits", len(hits)); err != nil {
		return nil, err
	}
	stored := make([]types.GateHit, len(hits))
	for i, h := range hits {
		if err := CheckID(op, "monitor", h.Monitor); err != nil {
			return nil, err
		}
		if err := CheckCursor(op, h.Cursor); err != nil {
			return nil, err
		}
		if h.Index > MaxStoredInteger {
			return nil, invalid(op, "the event index is %d: it is at most %d", h.Index, uint64(MaxStoredInteger))
		}
		event, err := compactJSON(op, "event", h.Event)
		if err != nil {
			return nil, err
		}
		h.Event = event
		stored[i] = h
	}
	return stored, nil
}

func checkFloors(op string, floors []types.MonitorFloor) error {
	if err := checkItems(op, "floors of gate hits", len(floors)); err != nil {
		return err
	}
	for _, f := range floors {
		if err := CheckID(op, "monitor", f.Monitor); err != nil {
			return err
		}
		if err := CheckPrimary(op, f.Primary); err != nil {
			return err
		}
	}
	return nil
}

// CheckMonitor checks the ids of a pipeline and of a monitor of it.
func CheckMonitor(op string, pipeline types.PipelineID, monitor types.MonitorID) error {
	if err := CheckPipeline(op, pipeline); err != nil {
		return err
	}
	return CheckID(op, "monitor", monitor)
}

// CheckGateMeta checks a meta and returns a copy.
func CheckGateMeta(op string, pipeline types.PipelineID, monitor types.MonitorID, m types.GateMeta) (types.GateMeta, error) {
	if err := CheckMonitor(op, pipeline, monitor); err != nil {
		return types.GateMeta{}, err
	}
	if len(m.Aux) > MaxAuxBytes {
		return types.GateMeta{}, invalid(op, "the aux of the gate has %d bytes: at most %d are allowed", len(m.Aux), MaxAuxBytes)
	}
	return m.Clone(), nil
}

// CheckProgress checks a step and returns it as it is stored: a deep copy.
func CheckProgress(op string, pipeline types.PipelineID, p types.Progress) (types.Progress, error) {
	none := types.Progress{}
	if err := CheckPipeline(op, pipeline); err != nil {
		return none, err
	}
	if p.Checkpoint != nil {
		checkpoint, err := CheckCheckpoint(op, pipeline, *p.Checkpoint)
		if err != nil {
			return none, err
		}
		p.Checkpoint = &checkpoint
	}
	if err := checkDeliveries(op, p.Deliveries); err != nil {
		return none, err
	}
	p.Deliveries = append([]types.Delivery(nil), p.Deliveries...)
	if err := checkMatchIDs(op, p.Settled); err != nil {
		return none, err
	}
	p.Settled = append([]types.MatchID(nil), p.Settled...)
	if err := checkItems(op, "dead letters", len(p.DeadLetters)); err != nil {
		return none, err
	}
	letters := make([]types.DeadLetter, len(p.DeadLetters))
	for i, l := range p.DeadLetters {
		letter, err := checkLetter(op, l)
		if err != nil {
			return none, err
		}
		letters[i] = letter
	}
	p.DeadLetters = letters
	for _, primary := range []**uint64{&p.JournalFrom, &p.HitsFrom, &p.HitsBefore} {
		if *primary != nil {
			value := **primary
			if err := CheckPrimary(op, value); err != nil {
				return none, err
			}
			*primary = &value
		}
	}
	hits, err := checkHits(op, p.Hits)
	if err != nil {
		return none, err
	}
	p.Hits = hits
	if err := checkFloors(op, p.HitsBeforeOf); err != nil {
		return none, err
	}
	p.HitsBeforeOf = append([]types.MonitorFloor(nil), p.HitsBeforeOf...)
	if err := checkItems(op, "gate metas", len(p.Metas)); err != nil {
		return none, err
	}
	metas := make([]types.MonitorMeta, len(p.Metas))
	for i, m := range p.Metas {
		meta, err := CheckGateMeta(op, pipeline, m.Monitor, m.Meta)
		if err != nil {
			return none, err
		}
		metas[i] = types.MonitorMeta{Monitor: m.Monitor, Meta: meta}
	}
	p.Metas = metas
	return p, nil
}

// CheckRecord checks a record of an import and returns it as it is stored.
func CheckRecord(op string, r types.Record) (types.Record, error) {
	none := types.Record{}
	stored := types.Record{Pipeline: r.Pipeline}
	set := 0
	for _, there := range [...]bool{r.Resource != nil, r.Checkpoint != nil, r.DeadLetter != nil, r.Pause != nil, r.Delivery != nil, r.GateHit != nil, r.GateMeta != nil} {
		if there {
			set++
		}
	}
	if set != 1 {
		return none, invalid(op, "a record is of %d categories: give one", set)
	}
	var err error
	switch {
	case r.Resource != nil:
		res := *r.Resource
		if err := CheckResource(op, res.Kind, res.ID, res.Value, 0); err != nil {
			return none, err
		}
		if res.Version < 1 || res.Version > MaxStoredInteger {
			return none, invalid(op, "the resource %s/%s has the version %d: give 1 to %d", res.Kind, res.ID, res.Version, uint64(MaxStoredInteger))
		}
		res.Value = append(json.RawMessage(nil), res.Value...)
		stored.Resource, stored.Pipeline = &res, ""
	case r.Checkpoint != nil:
		var c types.Checkpoint
		c, err = CheckCheckpoint(op, r.Pipeline, *r.Checkpoint)
		stored.Checkpoint = &c
	case r.DeadLetter != nil:
		var l types.DeadLetter
		l, err = CheckDeadLetter(op, r.Pipeline, *r.DeadLetter)
		stored.DeadLetter = &l
	case r.Pause != nil:
		p := *r.Pause
		err = CheckPause(op, p)
		stored.Pause, stored.Pipeline = &p, ""
	case r.Delivery != nil:
		d := *r.Delivery
		err = CheckDeliveries(op, r.Pipeline, []types.Delivery{d})
		stored.Delivery = &d
	case r.GateHit != nil:
		var hits []types.GateHit
		if hits, err = CheckHits(op, r.Pipeline, []types.GateHit{*r.GateHit}); err == nil {
			stored.GateHit = &hits[0]
		}
	case r.GateMeta != nil:
		m := *r.GateMeta
		m.Meta, err = CheckGateMeta(op, r.Pipeline, m.Monitor, m.Meta)
		stored.GateMeta = &m
	}
	if err != nil {
		return none, err
	}
	return stored, nil
}

// CheckDepth checks the depth of a delivery journal and fills in its default.
func CheckDepth(op string, depth int64) (int64, error) {
	if depth < 0 {
		return 0, Errorf(CodeInvalidConfig, op, "journal_depth is %d: give 1 or above", depth)
	}
	if depth == 0 {
		return DefaultDepth, nil
	}
	return depth, nil
}

// JournalFloor is the lowest primary that a journal of the depth keeps.
func JournalFloor(highest uint64, depth int64) uint64 {
	if highest < uint64(depth) {
		return 0
	}
	return highest - uint64(depth)
}

// JournalFloorFrom is the lowest primary that a journal of the depth keeps after a step: that of
// [JournalFloor], or the JournalFrom of its [types.Progress] where that is lower.
func JournalFloorFrom(highest uint64, depth int64, from *uint64) uint64 {
	floor := JournalFloor(highest, depth)
	if from != nil {
		floor = min(floor, *from)
	}
	return floor
}
