package localqueue

import (
	"context"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
)

// index is what the owner knows of its messages without reading them, so that no operation has to
// look at all of them.
//
// The format has one index, by (visible_at, enqueued_at, id). A plain message, one that was sent
// without delay and never received, has visible_at = enqueued_at; in the order of that index plain
// messages stand in the order of the queue, and are walked from a mark. Every other message stands
// in rows, among them those with an id below 1, which no send gives. A receive merges the two.
type index struct {
	plain int64 // number of plain messages; all of them are due and beyond the mark
	mark  key   // no plain message stands at or before it
	ahead []key // plain messages that the walk has seen beyond the mark, in order
	seen  key   // how far the walk has come; the end of ahead, or later

	rows        *rows
	undecodable map[int64]struct{} // rows that are kept and never delivered
	staged      map[int64]Origin   // copies of dead letters that are not revealed yet
	moving      map[int64]struct{} // messages on their way to the dead letters, in rows as hidden
}

// key is a place in the order of the database's index.
type key struct{ visible, enqueued, id int64 }

// keyAt makes the key of an entry that the walk has passed. A time that is no integer sorts between
// or after the integers; the key then is one that lies beyond the entry and before every plain one.
func keyAt(visible, enqueued any, id int64) key {
	k := key{id: id}
	switch v := visible.(type) {
	case int64:
		k.visible = v
	case float64:
		return key{above(v), math.MinInt64, math.MinInt64}
	}
	switch e := enqueued.(type) {
	case int64:
		k.enqueued = e
	case float64:
		k.enqueued, k.id = above(e), math.MinInt64
	default:
		k.enqueued, k.id = math.MaxInt64, math.MaxInt64
	}
	return k
}

// above is the least integer that is not below f.
func above(f float64) int64 {
	switch c := math.Ceil(f); {
	case c >= math.MaxInt64:
		return math.MaxInt64
	case c <= math.MinInt64:
		return math.MinInt64
	default:
		return int64(c)
	}
}

var beginning = key{math.MinInt64, math.MinInt64, math.MinInt64}

func (k key) before(other *known) bool {
	return k.enqueued < other.enqueued || k.enqueued == other.enqueued && k.id < other.id
}

func newIndex() *index {
	return &index{
		mark:        beginning,
		seen:        beginning,
		rows:        newRows(),
		undecodable: make(map[int64]struct{}),
		staged:      make(map[int64]Origin),
		moving:      make(map[int64]struct{}),
	}
}

func (x *index) visible() int64 { return x.plain + int64(x.rows.due.len()) }

// publish tells the line what a commit has brought.
func (q *Queue) publish() {
	if !q.line.empty() {
		q.line.publish(q.index.visible(), q.index.nextDue(q.now()))
	}
}

// nextDue is when the next hidden message becomes due, zero if that is later than anybody waits.
func (x *index) nextDue(now int64) time.Time {
	next := x.rows.hidden.top()
	if next == nil || next.visible-now > 2*ports.MaxWait.Milliseconds() {
		return time.Time{}
	}
	return time.UnixMilli(next.visible)
}

// now is the time on the queue's clock, in milliseconds since the epoch.
func (q *Queue) now() int64 { return q.clock.Now().UnixMilli() }

// forget drops what the walk has seen: it will look again from the mark.
func (x *index) forget() { x.ahead, x.seen = nil, x.mark }

// trustedAhead is how far a stored enqueued_at may lie in the future to be believed. An owner never
// stores one that its clock has not reached, so it shows that the machine's clock has been set back
// since, and the queue goes on from there: otherwise its messages would be hidden, and overtaken by
// new ones, for the length of the step. Clocks are wrong by hours, for instance by a time zone; what
// lies further ahead is taken for a mistake of its writer, and is not due until its time has come.
const trustedAhead = 24 * time.Hour

const manyRows = 100_000

// load fills the index from the database: by scans of its index, and a look at the header of each
// row that is not plain. It sets the clock of the queue to start where its messages say it was.
func (q *Queue) load(ctx context.Context, clock ports.Clock) error {
	wall := clock.Now()
	limit := wall.Add(trustedAhead).UnixMilli()
	latest := wall.UnixMilli()
	x := newIndex()
	// On the writer's connection, whose cache is the only one then.
	err := q.file.Write(ctx, "queue.open", func(tx *sqlitefile.Tx) error {
		c := tx.Conn
		if err := c.Query(sqlAhead, func(row sqlitefile.Row) error {
			latest = row.Int64(0)
			return nil
		}, latest, limit); err != nil {
			return err
		}
		if err := c.Query(sqlCount, func(row sqlitefile.Row) error {
			x.plain = row.Int64(0)
			return nil
		}); err != nil {
			return err
		}
		err := c.Query(sqlScan, func(row sqlitefile.Row) error {
			x.plain--
			id := row.Int64(0)
			if !isInteger(row.Value(1)) || !isInteger(row.Value(2)) || row.Text(3) == "blob" {
				x.undecodable[id] = struct{}{}
				q.log.Error("a stored row cannot be decoded and is set aside", "id", id,
					"reason", "enqueued_at, visible_at or receipt_handle is of a wrong type")
				return nil
			}
			k := known{id: id, enqueued: row.Int64(1), visible: row.Int64(2), receipt: row.Text(3) == "text"}
			if k.enqueued > latest && k.enqueued <= limit {
				latest = k.enqueued
			}
			x.rows.add(k)
			return nil
		}, limit)
		if err != nil {
			return err
		}
		// The walk starts at the first plain message, past what was received before it.
		x.mark = key{latest, math.MinInt64, math.MinInt64}
		if x.plain > 0 {
			if err := c.Query(sqlFirst, func(row sqlitefile.Row) error {
				at := row.Int64(1)
				x.mark = key{at, at, row.Int64(0) - 1}
				return nil
			}); err != nil {
				return err
			}
		}
		return c.Query(sqlStaged, func(row sqlitefile.Row) error {
			if origin, ok := parseOrigin(row.Text(1)); ok {
				x.staged[row.Int64(0)] = origin
			}
			return nil
		}, int64(stagedVisible))
	})
	if err != nil {
		return err
	}
	x.forget()
	x.rows.settle(latest)
	for id := range x.staged {
		x.rows.remove(id)
	}
	if x.rows.len() > manyRows {
		debug.FreeOSMemory() // what the scan has used would stay with the process for long
	}
	if latest > wall.UnixMilli() {
		q.log.Warn("the machine's clock is behind the messages of the queue, which goes on from where they are",
			"behind", time.UnixMilli(latest).Sub(wall).String())
	}
	q.clock = ports.SteadyClock(clock, time.UnixMilli(latest))
	q.index = x
	return nil
}

// skip takes a row out of what the walk has seen that is no message.
func (x *index) skip(id int64) {
	x.ahead = slices.DeleteFunc(x.ahead, func(k key) bool { return k.id == id })
}
