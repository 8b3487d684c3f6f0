package storagetest_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/storagetest"
	"github.com/stowage-go/stowage/types"
)

// brokenVariable names the broken store that a child process runs the suite on.
const brokenVariable = "STOWAGE_STORAGETEST_BROKEN"

// brokenStores are stores with one fault each, and the case of the suite that must see it.
var brokenStores = map[string]struct {
	mustFail string
	broken   func(*model.Storage) ports.Storage
}{
	"overwrites what a creation finds": {"resource/creating a record that is there is refused and leaves it alone", func(s *model.Storage) ports.Storage { return overwrites{s} }},
	"overwrites in a race":             {"race/of racing creations one wins", func(s *model.Storage) ports.Storage { return overwrites{s} }},
	"creates a batch one by one":       {"resource/a batch with one that is there stores nothing, wherever it stands", func(s *model.Storage) ports.Storage { return batchLoop{s} }},
	"compacts the value of a resource": {"resource/a value comes back byte for byte", func(s *model.Storage) ports.Storage { return compacts{s} }},
	"gives a next page at the end":     {"resource/a next page is there only if records remain", func(s *model.Storage) ports.Storage { return alwaysNext{s} }},
	"keeps a local time":               {"checkpoint/a time comes back in UTC, to the nanosecond", func(s *model.Storage) ports.Storage { return localTime{s} }},
	"never lets a checkpoint go back":  {"checkpoint/a save replaces all of an earlier one, also by one that lies before it", func(s *model.Storage) ports.Storage { return forwardOnly{s} }},
	"moves a letter recorded again":    {"letter/a letter recorded again keeps its place, and its content is replaced", func(s *model.Storage) ports.Storage { return moves{s} }},
	"creates by an update":             {"letter/an update replaces the content in place, and creates nothing", func(s *model.Storage) ports.Storage { return upserts{s} }},
	"deletes newer letters too":        {"letter/all letters through a position are deleted, and no newer ones", func(s *model.Storage) ports.Storage { return deletesAll{s} }},
	"counts a letter named twice":      {"letter/many letters are deleted, and counted once each", func(s *model.Storage) ports.Storage { return countsIDs{s} }},
	"includes a window's start only":   {"journal/a window includes both of its ends", func(s *model.Storage) ports.Storage { return halfOpen{s} }},
	"moves a match back":               {"journal/a known match moves to the newer of its cursors only", func(s *model.Storage) ports.Storage { return newJournal(s, lastWins) }},
	"prunes from a cursor that went back": {"journal/what is behind the depth already is forgotten at once", func(s *model.Storage) ports.Storage {
		return newJournal(s, prunesFromThisCall)
	}},
	"prunes one too many": {"journal/what lies more than the depth below the highest primary is forgotten", func(s *model.Storage) ports.Storage {
		return newJournal(s, exclusive)
	}},
	"forgets what the checkpoint is not past": {"journal/what the checkpoint is not past is kept, however deep it lies", func(s *model.Storage) ports.Storage {
		return &journalFrom{s, func(_, _ *uint64) *uint64 { return nil }, nil}
	}},
	"keeps what the checkpoint was not past once": {"journal/without a word on the checkpoint the depth alone counts", func(s *model.Storage) ports.Storage {
		return &journalFrom{s, func(last, from *uint64) *uint64 { return cmp.Or(from, last) }, nil}
	}},
	"gives the counts in any order":     {"journalcount/the entries of each journal are counted, ordered by pipeline", func(s *model.Storage) ports.Storage { return reversesCounts{s} }},
	"excludes since":                    {"gate/since is inclusive", func(s *model.Storage) ports.Storage { return afterSince{s} }},
	"takes an empty aux for none":       {"gate/a meta comes back as it was: nil is not zero, nor empty", func(s *model.Storage) ports.Storage { return noEmptyAux{s} }},
	"applies part by part":              {"model", func(s *model.Storage) ports.Storage { return mixesParts{s, 0} }},
	"mixes racing steps":                {"race/racing steps of one pipeline are never mixed", func(s *model.Storage) ports.Storage { return mixesParts{s, time.Microsecond} }},
	"appends after it has deleted":      {"apply/hits before a primary are removed after new ones were appended", func(s *model.Storage) ports.Storage { return deletesFirst{s} }},
	"ignores the floor of a monitor":    {"apply/the hits of a monitor below its floor are removed, and no others", func(s *model.Storage) ports.Storage { return ignoresFloors{s} }},
	"prunes all at a monitor's floor":   {"apply/the hits of a monitor below its floor are removed, and no others", func(s *model.Storage) ports.Storage { return widensFloors{s} }},
	"stores the good parts":             {"apply/a bad part stops all of them", func(s *model.Storage) ports.Storage { return goodParts{s} }},
	"keeps a step by halves on a fault": {"faulty", func(s *model.Storage) ports.Storage { return &halves{Storage: s} }},
	"shares the memory of a checkpoint": {"value/what a caller handed in stays the caller's", func(s *model.Storage) ports.Storage { return &shares{Storage: s} }},
	"hands out its own memory":          {"value/what a store hands out is the caller's own", func(s *model.Storage) ports.Storage { return &handsOut{Storage: s} }},
	"ignores a context":                 {"life/a call whose context was cancelled leaves nothing behind", func(s *model.Storage) ports.Storage { return ignoresContext{s} }},
	"writes after quiesce":              {"quiesce/it waits for a call that is under way, until its own context ends", func(s *model.Storage) ports.Storage { return neverQuiet{s} }},
	"answers after it was closed":       {"life/a closed store says so", func(s *model.Storage) ports.Storage { return &staysOpen{Storage: s} }},
	"exports letters by id":             {"archive/an export orders every category by the bytes of its key", func(s *model.Storage) ports.Storage { return sortsLetters{s} }},
	"imports until the first error":     {"archive/an error of the sequence is returned, and nothing is stored", func(s *model.Storage) ports.Storage { return importsSome{s} }},
	"takes cursors of 64 bits":          {"input/a number above 2^63-1 is refused everywhere", func(s *model.Storage) ports.Storage { return clampsCursor{s} }},
	"takes an id with a slash":          {"input/a bad id is refused everywhere", func(s *model.Storage) ports.Storage { return anyPause{s} }},
}

// durableBroken are those whose fault shows in a store that claims to be durable.
var durableBroken = map[string]func(*model.Storage) ports.Storage{
	"keeps nothing": func(*model.Storage) ports.Storage { return model.NewStorage(0) },
}

type overwrites struct{ *model.Storage }

func (o overwrites) PutResource(ctx context.Context, kind types.ResourceKind, id string, value []byte, expected uint64) (uint64, error) {
	version, err := o.Storage.PutResource(ctx, kind, id, value, expected)
	for expected == 0 && errors.Is(err, ports.ErrAlreadyExists) {
		r, _, getErr := o.GetResource(ctx, kind, id)
		if getErr != nil {
			return 0, getErr
		}
		if version, putErr := o.Storage.PutResource(ctx, kind, id, value, r.Version); putErr == nil {
			return version, nil
		}
	}
	return version, err
}

type batchLoop struct{ *model.Storage }

func (b batchLoop) PutResources(ctx context.Context, resources []types.Resource) error {
	if err := ports.CheckResourceBatch("storage.putResources", resources); err != nil {
		return err
	}
	for _, r := range resources {
		if err := b.Storage.PutResources(ctx, []types.Resource{r}); err != nil {
			return err
		}
	}
	return nil
}

type compacts struct{ *model.Storage }

func (c compacts) PutResource(ctx context.Context, kind types.ResourceKind, id string, value []byte, expected uint64) (uint64, error) {
	if text, err := ports.CompactJSON(string(value)); err == nil {
		value = []byte(text)
	}
	return c.Storage.PutResource(ctx, kind, id, value, expected)
}

type alwaysNext struct{ *model.Storage }

func (a alwaysNext) ListResources(ctx context.Context, kind types.ResourceKind, opts types.ResourceListOptions) (types.ResourcePage, error) {
	page, err := a.Storage.ListResources(ctx, kind, opts)
	if n := len(page.Resources); n > 0 {
		page.Next = page.Resources[n-1].ID
	}
	return page, err
}

type localTime struct{ *model.Storage }

func (l localTime) LoadCheckpoint(ctx context.Context, p types.PipelineID) (types.Checkpoint, bool, error) {
	c, found, err := l.Storage.LoadCheckpoint(ctx, p)
	c.UpdatedAt = c.UpdatedAt.Truncate(time.Microsecond)
	return c, found, err
}

type forwardOnly struct{ *model.Storage }

func (f forwardOnly) SaveCheckpoint(ctx context.Context, p types.PipelineID, c types.Checkpoint) error {
	old, found, err := f.LoadCheckpoint(ctx, p)
	if err == nil && found && c.Cursor.Compare(old.Cursor) < 0 {
		return nil
	}
	return f.Storage.SaveCheckpoint(ctx, p, c)
}

type moves struct{ *model.Storage }

func (m moves) RecordDeadLetter(ctx context.Context, p types.PipelineID, l types.DeadLetter) error {
	return m.Apply(ctx, p, types.Progress{Settled: []types.MatchID{l.MatchID}, DeadLetters: []types.DeadLetter{l}})
}

type upserts struct{ *model.Storage }

func (u upserts) UpdateDeadLetter(ctx context.Context, p types.PipelineID, l types.DeadLetter) (bool, error) {
	found, err := u.Storage.UpdateDeadLetter(ctx, p, l)
	if err == nil && !found {
		err = u.RecordDeadLetter(ctx, p, l)
	}
	return found, err
}

type deletesAll struct{ *model.Storage }

func (d deletesAll) DeleteAllDeadLetters(ctx context.Context, p types.PipelineID, through int64) (int64, error) {
	if through > 0 {
		through = math.MaxInt64
	}
	return d.Storage.DeleteAllDeadLetters(ctx, p, through)
}

type countsIDs struct{ *model.Storage }

func (c countsIDs) DeleteDeadLetters(ctx context.Context, p types.PipelineID, ids []types.MatchID) (int64, error) {
	n, err := c.Storage.DeleteDeadLetters(ctx, p, ids)
	if n > 0 {
		n = int64(len(ids))
	}
	return n, err
}

type halfOpen struct{ *model.Storage }

func (h halfOpen) Delivered(ctx context.Context, p types.PipelineID, from, to types.Cursor) ([]types.Delivery, error) {
	deliveries, err := h.Storage.Delivered(ctx, p, from, to)
	return slices.DeleteFunc(deliveries, func(d types.Delivery) bool { return d.Cursor == to && to.Secondary < 10 }), err
}

// journal keeps deliveries of its own, by a rule that is wrong in one way.
type journal struct {
	*model.Storage
	rule    func(kept map[types.MatchID]types.Cursor, recorded []types.Delivery)
	entries map[types.PipelineID]map[types.MatchID]types.Cursor
}

func newJournal(s *model.Storage, rule func(map[types.MatchID]types.Cursor, []types.Delivery)) ports.Storage {
	return &journal{s, rule, map[types.PipelineID]map[types.MatchID]types.Cursor{}}
}

func (j *journal) RecordDeliveries(ctx context.Context, p types.PipelineID, recorded []types.Delivery) error {
	if err := ports.CheckDeliveries("storage.recordDeliveries", p, recorded); err != nil {
		return err
	}
	if j.entries[p] == nil {
		j.entries[p] = map[types.MatchID]types.Cursor{}
	}
	j.rule(j.entries[p], recorded)
	return nil
}

func (j *journal) Delivered(_ context.Context, p types.PipelineID, from, to types.Cursor) ([]types.Delivery, error) {
	var window []types.Delivery
	for id, cursor := range j.entries[p] {
		if cursor.Compare(from) >= 0 && cursor.Compare(to) <= 0 {
			window = append(window, types.Delivery{Cursor: cursor, MatchID: id})
		}
	}
	slices.SortFunc(window, func(a, b types.Delivery) int {
		if c := a.Cursor.Compare(b.Cursor); c != 0 {
			return c
		}
		return bytes.Compare([]byte(a.MatchID), []byte(b.MatchID))
	})
	return window, nil
}

func lastWins(kept map[types.MatchID]types.Cursor, recorded []types.Delivery) {
	for _, d := range recorded {
		kept[d.MatchID] = d.Cursor
	}
}

func record(kept map[types.MatchID]types.Cursor, recorded []types.Delivery) (highest uint64) {
	for _, d := range recorded {
		if d.Cursor.Compare(kept[d.MatchID]) >= 0 {
			kept[d.MatchID] = d.Cursor
		}
	}
	for _, cursor := range kept {
		highest = max(highest, cursor.Primary)
	}
	return highest
}

func prune(kept map[types.MatchID]types.Cursor, floor uint64) {
	for id, cursor := range kept {
		if cursor.Primary < floor {
			delete(kept, id)
		}
	}
}

func prunesFromThisCall(kept map[types.MatchID]types.Cursor, recorded []types.Delivery) {
	record(kept, recorded)
	highest := uint64(0)
	for _, d := range recorded {
		highest = max(highest, d.Cursor.Primary)
	}
	prune(kept, ports.JournalFloor(highest, 10))
}

func exclusive(kept map[types.MatchID]types.Cursor, recorded []types.Delivery) {
	prune(kept, ports.JournalFloor(record(kept, recorded), 10)+1)
}

type afterSince struct{ *model.Storage }

func (a afterSince) Hits(ctx context.Context, p types.PipelineID, m types.MonitorID, since int64) ([]types.GateHit, error) {
	if since < math.MaxInt64 {
		since++
	}
	return a.Storage.Hits(ctx, p, m, since)
}

type noEmptyAux struct{ *model.Storage }

func (n noEmptyAux) GateMeta(ctx context.Context, p types.PipelineID, m types.MonitorID) (types.GateMeta, bool, error) {
	meta, found, err := n.Storage.GateMeta(ctx, p, m)
	if len(meta.Aux) == 0 {
		meta.Aux = nil
	}
	return meta, found, err
}

// mixesParts does a step part by part, and loses hits that a later part of the same step deletes.
type mixesParts struct {
	*model.Storage
	pause time.Duration
}

func (m mixesParts) Apply(ctx context.Context, p types.PipelineID, progress types.Progress) error {
	if _, err := ports.CheckProgress("storage.apply", p, progress); err != nil {
		return err
	}
	for _, part := range []types.Progress{
		{HitsFrom: progress.HitsFrom, Hits: progress.Hits, HitsBefore: progress.HitsBefore, HitsBeforeOf: progress.HitsBeforeOf},
		{DeadLetters: progress.DeadLetters},
		{Settled: progress.Settled}, // in the wrong order
		{Deliveries: progress.Deliveries, Metas: progress.Metas},
		{Checkpoint: progress.Checkpoint},
	} {
		if err := m.Storage.Apply(ctx, p, part); err != nil {
			return err
		}
		if m.pause > 0 {
			<-time.After(m.pause)
		}
	}
	return nil
}

type deletesFirst struct{ *model.Storage }

func (d deletesFirst) Apply(ctx context.Context, p types.PipelineID, progress types.Progress) error {
	if progress.HitsBefore != nil {
		if err := d.DeleteHitsBefore(ctx, p, *progress.HitsBefore); err != nil {
			return err
		}
		progress.HitsBefore = nil
	}
	return d.Storage.Apply(ctx, p, progress)
}

type ignoresFloors struct{ *model.Storage }

func (i ignoresFloors) Apply(ctx context.Context, p types.PipelineID, progress types.Progress) error {
	if _, err := ports.CheckProgress("storage.apply", p, progress); err != nil {
		return err
	}
	progress.HitsBeforeOf = nil
	return i.Storage.Apply(ctx, p, progress)
}

// widensFloors removes the hits of all monitors below the floor of one.
type widensFloors struct{ *model.Storage }

func (w widensFloors) Apply(ctx context.Context, p types.PipelineID, progress types.Progress) error {
	if err := w.Storage.Apply(ctx, p, progress); err != nil {
		return err
	}
	for _, f := range progress.HitsBeforeOf {
		if err := w.DeleteHitsBefore(ctx, p, f.Primary); err != nil {
			return err
		}
	}
	return nil
}

type goodParts struct{ *model.Storage }

func (g goodParts) Apply(ctx context.Context, p types.PipelineID, progress types.Progress) error {
	err := g.Storage.Apply(ctx, p, progress)
	if err != nil && progress.Checkpoint != nil {
		return errors.Join(err, g.SaveCheckpoint(ctx, p, *progress.Checkpoint))
	}
	return err
}

var errTorn = &ports.Error{Code: ports.CodeBackendFailed, Op: "storage.apply", Message: "the disk is full"}

// halves has done the first part of a step when a fault within it is due.
type halves struct {
	*model.Storage
	due bool
}

func (h *halves) failAt(n int) { h.due = n > 0 }

func (h *halves) Apply(ctx context.Context, p types.PipelineID, progress types.Progress) error {
	if !h.due || progress.Checkpoint == nil {
		return h.Storage.Apply(ctx, p, progress)
	}
	return errors.Join(errTorn, h.SaveCheckpoint(ctx, p, *progress.Checkpoint))
}

type shares struct {
	*model.Storage
	last *types.Checkpoint
}

func (s *shares) SaveCheckpoint(ctx context.Context, p types.PipelineID, c types.Checkpoint) error {
	s.last = &c
	return s.Storage.SaveCheckpoint(ctx, p, c)
}

func (s *shares) ListCheckpoints(ctx context.Context) ([]types.PipelineCheckpoint, error) {
	list, err := s.Storage.ListCheckpoints(ctx)
	if s.last != nil && len(list) > 0 {
		list[0].Checkpoint.Module = s.last.Module
	}
	return list, err
}

type handsOut struct {
	*model.Storage
	hits []types.GateHit
}

func (h *handsOut) Hits(ctx context.Context, p types.PipelineID, m types.MonitorID, since int64) ([]types.GateHit, error) {
	hits, err := h.Storage.Hits(ctx, p, m, since)
	if p != "p" || m != "m" {
		return hits, err
	}
	if h.hits == nil {
		h.hits = hits
	}
	return h.hits, err
}

type ignoresContext struct{ *model.Storage }

func (i ignoresContext) Apply(ctx context.Context, p types.PipelineID, progress types.Progress) error {
	return i.Storage.Apply(context.WithoutCancel(ctx), p, progress)
}

type neverQuiet struct{ *model.Storage }

func (neverQuiet) Quiesce(ctx context.Context) error { return ctx.Err() }

type staysOpen struct{ *model.Storage }

func (*staysOpen) Close() error { return nil }

type sortsLetters struct{ *model.Storage }

func (s sortsLetters) Export(ctx context.Context, yield func(types.Record) error) error {
	var letters []types.Record
	return s.Storage.Export(ctx, func(r types.Record) error {
		if r.DeadLetter != nil {
			letters = append(letters, r)
			return nil
		}
		slices.SortStableFunc(letters, func(a, b types.Record) int {
			return strings.Compare(string(a.Pipeline)+" "+string(a.DeadLetter.MatchID), string(b.Pipeline)+" "+string(b.DeadLetter.MatchID))
		})
		for _, l := range letters {
			if err := yield(l); err != nil {
				return err
			}
		}
		letters = nil
		return yield(r)
	})
}

type importsSome struct{ *model.Storage }

func (i importsSome) Import(ctx context.Context, records iter.Seq2[types.Record, error]) (int64, error) {
	var broken error
	n, err := i.Storage.Import(ctx, func(yield func(types.Record, error) bool) {
		for r, err := range records {
			if broken = err; err != nil || !yield(r, nil) {
				return
			}
		}
	})
	if broken != nil {
		return 0, broken
	}
	return n, err
}

type clampsCursor struct{ *model.Storage }

func (c clampsCursor) DeleteHitsBefore(ctx context.Context, p types.PipelineID, primary uint64) error {
	return c.Storage.DeleteHitsBefore(ctx, p, min(primary, math.MaxInt64))
}

type anyPause struct{ *model.Storage }

func (a anyPause) Paused(ctx context.Context, p types.Pause) (bool, error) {
	paused, err := a.Storage.Paused(ctx, p)
	if errors.Is(err, ports.ErrInvalidInput) {
		return false, nil
	}
	return paused, err
}

// journalFrom changes what a step says about the checkpoint; the rule gets what the step before was given.
type journalFrom struct {
	*model.Storage
	rule func(last, from *uint64) *uint64
	last *uint64
}

func (j *journalFrom) Apply(ctx context.Context, p types.PipelineID, progress types.Progress) error {
	progress.JournalFrom = j.rule(j.last, progress.JournalFrom)
	j.last = progress.JournalFrom
	return j.Storage.Apply(ctx, p, progress)
}

// reversesCounts gives the counts of the journals from the last pipeline to the first.
type reversesCounts struct{ *model.Storage }

func (r reversesCounts) CountDeliveries(ctx context.Context) ([]types.JournalCount, error) {
	counts, err := r.Storage.CountDeliveries(ctx)
	slices.Reverse(counts)
	return counts, err
}

// TestSuiteOnABrokenStore is what the child processes of TestSuiteSeesBrokenStores run.
func TestSuiteOnABrokenStore(t *testing.T) {
	name := os.Getenv(brokenVariable)
	if reopened, ok := durableBroken[name]; ok {
		storagetest.Run(t, storagetest.Harness{
			Open: func(_ testing.TB, depth int64) storagetest.Store {
				s := model.NewStorage(depth)
				return storagetest.Store{Storage: s, Reopen: func(testing.TB) ports.Storage { return reopened(s) }}
			},
			Durable:            true,
			CanArchive:         true,
			CanCountDeliveries: true,
		})
		return
	}
	store, ok := brokenStores[name]
	if !ok {
		t.Skip("runs in the child processes of TestSuiteSeesBrokenStores only")
	}
	storagetest.Run(t, storagetest.Harness{
		Open: func(_ testing.TB, depth int64) storagetest.Store {
			s := storagetest.Store{Storage: store.broken(model.NewStorage(depth))}
			if failing, ok := s.Storage.(interface{ failAt(n int) }); ok {
				s.FailAt = failing.failAt
			}
			return s
		},
		CanArchive:         true,
		CanCountDeliveries: true,
	})
}

func TestSuiteSeesBrokenStores(t *testing.T) {
	t.Parallel()
	for name, store := range brokenStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantFailure(t, name, store.mustFail)
		})
	}
	for name := range durableBroken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantFailure(t, name, "life/durability is as claimed")
			wantFailure(t, name, "model")
		})
	}
}

// wantFailure asserts that one case of the suite fails on a broken store, by an assertion and not by
// an accident.
func wantFailure(t *testing.T, name, testCase string) {
	t.Helper()
	output := failingChild(t, name, testCase)
	require.Contains(t, output, "--- FAIL: TestSuiteOnABrokenStore/", "want a case of the suite to fail, got:\n%s", output)
	require.NotContains(t, output, "panic: test timed out", "want the case to end, got:\n%s", output)
}

// failingChild runs one case of the suite on a broken store in a process of its own, and returns
// what it printed.
func failingChild(t *testing.T, name, testCase string) string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.timeout", "60s", "-rapid.nofailfile", "-rapid.shrinktime", "1s", "-test.run", "^TestSuiteOnABrokenStore$/"+quoteCase(testCase))
	child.Env = append(os.Environ(), brokenVariable+"="+name)
	var output bytes.Buffer
	child.Stdout, child.Stderr = &output, &output
	var exit *exec.ExitError
	require.ErrorAs(t, child.Run(), &exit, "want the suite to fail, got:\n%s", output.String())
	return output.String()
}

// quoteCase turns the name of a case into the pattern that matches it: go test shows white space as
// an underscore, and splits patterns at slashes.
func quoteCase(name string) string {
	pattern := bytes.ReplaceAll([]byte(name), []byte(" "), []byte("_"))
	pattern = bytes.ReplaceAll(pattern, []byte("^"), []byte(`\^`))
	pattern = bytes.ReplaceAll(pattern, []byte("/"), []byte("$/^"))
	return "^" + string(pattern) + "$"
}
