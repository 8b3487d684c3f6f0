package localqueue

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// step is one operation under the writer. What it changes in the index is undone when the operation
// or its transaction fails.
type step struct {
	*sqlitefile.Tx
	q   *Queue
	x   *index
	at  time.Time // on the queue's clock
	now int64     // the same in milliseconds since the epoch

	plain   int64 // plain messages added
	mark    key   // at the start
	changes []change
}

// change is what a message was before it was changed.
type change struct {
	before  known
	existed bool
}

func (q *Queue) begin(tx *sqlitefile.Tx) *step {
	at := q.clock.Now()
	s := &step{Tx: tx, q: q, x: q.index, at: at, now: at.UnixMilli(), mark: q.index.mark}
	s.x.rows.advance(s.now)
	tx.OnUndo(s.undo)
	tx.OnCommit(q.publish)
	return s
}

// undo brings the index back. Rows that were set aside stay so: that they cannot be decoded is true
// of what is stored.
func (s *step) undo() {
	s.x.plain -= s.plain
	s.x.mark = s.mark
	s.x.forget()
	for _, c := range slices.Backward(s.changes) {
		_, aside := s.x.undecodable[c.before.id]
		if c.existed && !aside {
			s.x.rows.put(c.before, s.now)
		} else {
			s.x.rows.remove(c.before.id)
		}
	}
}

// put makes the message known as k.
func (s *step) put(k known) {
	s.note(k.id)
	s.x.rows.put(k, s.now)
}

// remove makes the message unknown.
func (s *step) remove(id int64) {
	s.note(id)
	s.x.rows.remove(id)
}

func (s *step) note(id int64) {
	if before := s.x.rows.get(id); before != nil {
		s.changes = append(s.changes, change{*before, true})
	} else {
		s.changes = append(s.changes, change{before: known{id: id}})
	}
}

// addPlain counts plain messages in or out.
func (s *step) addPlain(n int64) {
	s.plain += n
	s.x.plain += n
}

// setAside takes a row out of the queue that cannot be decoded.
func (s *step) setAside(id int64, problem error) {
	if _, ok := s.x.undecodable[id]; ok {
		return
	}
	if s.x.rows.get(id) != nil {
		s.x.rows.remove(id)
	} else {
		s.x.plain--
	}
	s.x.undecodable[id] = struct{}{}
	s.q.log.Error("a stored row cannot be decoded and is set aside", "id", id, "reason", problem.Error())
}

func (s *step) send(p types.Payload, delay int64) error {
	if delay == 0 {
		if _, err := s.Exec(sqlSend, string(p.Type), p.Data, s.now); err != nil {
			return err
		}
		s.addPlain(1)
		return nil
	}
	if _, err := s.Exec(sqlSendLater, string(p.Type), p.Data, s.now, s.now+delay); err != nil {
		return err
	}
	s.put(known{id: s.LastInsertID(), enqueued: s.now, visible: s.now + delay})
	return nil
}

// maxSpent bounds the dead letters that one step takes, and with it the time that it holds others up.
const maxSpent = 64

// claim takes up to check.Max due messages in the order of (enqueued_at, id). Those that were
// received too often go into spent instead.
func (s *step) claim(check ports.ReceiveCheck, messages *[]types.Message, spent *[]DeadLetter) error {
	for len(*messages) < check.Max && len(*spent) < maxSpent {
		id, plain, found, err := s.next(check.Max - len(*messages))
		if err != nil || !found {
			return err
		}
		row, there, problem, err := read(s.Conn, id)
		switch {
		case err != nil:
			return err
		case !there:
			s.lost(id, plain)
		case problem != nil:
			s.setAside(id, problem)
		case row.attempt >= s.q.maxReceives:
			s.take(row, id, plain, stagedVisible)
			s.x.moving[id] = struct{}{}
			s.OnUndo(func() { delete(s.x.moving, id) })
			*spent = append(*spent, DeadLetter{ID: id, Payload: row.payload, Attempt: row.attempt, EnqueuedAt: timeOf(row.enqueued)})
		default:
			uuid := s.q.uuids.next()
			if _, err := s.Exec(sqlClaim, s.now+check.LeaseMillis, uuid, id); err != nil {
				return err
			}
			s.take(row, id, plain, s.now+check.LeaseMillis)
			*messages = append(*messages, types.Message{
				Payload:    row.payload,
				Receipt:    ports.FormatReceipt(id, uuid),
				Attempt:    row.attempt + 1,
				EnqueuedAt: timeOf(row.enqueued),
			})
		}
		if plain {
			s.x.mark, s.x.ahead = s.x.ahead[0], s.x.ahead[1:]
		}
	}
	return nil
}

// take hides a message that was due until a time.
func (s *step) take(row stored, id int64, plain bool, until int64) {
	if plain {
		s.addPlain(-1)
	}
	s.put(known{id: id, enqueued: row.enqueued, visible: until, receipt: true})
}

// lost corrects the index when a row that it counts is not there: somebody else wrote to the file.
func (s *step) lost(id int64, plain bool) {
	s.q.log.Error("a message has vanished from the file: something else writes to it", "id", id)
	if plain {
		s.x.plain--
	} else {
		s.x.rows.remove(id)
	}
}

// next finds the message that is next in the order of the queue, if any is due. A plain one is the
// first of s.x.ahead.
func (s *step) next(want int) (id int64, plain, found bool, err error) {
	due := s.x.rows.due.top()
	// What the walk has still to see was enqueued no earlier than where it stands, so that a message
	// which was enqueued before that needs no walk.
	if len(s.x.ahead) == 0 && (due == nil || due.enqueued >= s.x.seen.visible) {
		if err := s.walk(want); err != nil {
			return 0, false, false, err
		}
	}
	switch {
	case len(s.x.ahead) > 0 && (due == nil || s.x.ahead[0].before(due)):
		return s.x.ahead[0].id, true, true, nil
	case due != nil:
		return due.id, false, true, nil
	}
	return 0, false, false, nil
}

const (
	leastWalk = 32
	mostWalk  = 4096
)

// walk makes sure that the next n plain messages, or all that there are, stand in s.x.ahead. What it
// has passed it does not visit again; each write puts one entry before it at most, so that the cost
// of walking is part of that of writing.
func (s *step) walk(n int) error {
	x := s.x
	limit := max(n, leastWalk)
	for len(x.ahead) < n && int64(len(x.ahead)) < x.plain {
		passed := 0
		pass := func(row sqlitefile.Row) error {
			passed++
			s.pass(row)
			return nil
		}
		if err := s.Query(sqlWalkTies, pass, x.seen.visible, x.seen.enqueued, x.seen.id, limit); err != nil {
			return err
		}
		if passed < limit {
			if err := s.Query(sqlWalkOn, pass, x.seen.visible, x.seen.enqueued, s.now, limit-passed); err != nil {
				return err
			}
		}
		if missing := x.plain - int64(len(x.ahead)); passed < limit && missing > 0 {
			s.q.log.Error("messages have vanished from the file: something else writes to it", "missing", missing)
			x.plain -= missing
		}
		limit = min(limit*4, mostWalk)
	}
	if len(x.ahead) == 0 {
		x.mark = x.seen
	}
	return nil
}

// pass takes the walk over one entry of the database's index.
func (s *step) pass(row sqlitefile.Row) {
	id, plain := row.Int64(0), row.Int64(3) == 1
	s.x.seen = keyAt(row.Value(1), row.Value(2), id)
	if !plain || s.x.rows.get(id) != nil {
		return
	}
	_, aside := s.x.undecodable[id]
	if !aside {
		s.x.ahead = append(s.x.ahead, s.x.seen)
	}
}

// ack removes the message of the receipt. stale says that the receipt is not the current one.
func (s *step) ack(op, receipt string) (stale, err error) {
	id, delivery, ok := ports.ParseReceipt(receipt)
	if !ok {
		return nil, nil
	}
	if _, moving := s.x.moving[id]; moving {
		return staleError(op, id), nil
	}
	changed, err := s.Exec(sqlAck, id, delivery)
	if err != nil {
		return nil, err
	}
	if changed == 0 {
		return s.judge(op, id)
	}
	s.forgetRow(id)
	return nil, nil
}

// judge tells a receipt that is stale from one whose message is gone (R101, R102).
func (s *step) judge(op string, id int64) (stale, err error) {
	err = s.Query(sqlExists, func(sqlitefile.Row) error {
		stale = staleError(op, id)
		return nil
	}, id)
	return stale, err
}

func staleError(op string, id int64) error {
	return ports.Errorf(ports.CodeQueueOperationFailed, op,
		"the receipt of message %d is stale: the message was delivered or delayed again since; drop this delivery", id).
		WithReason(ports.ReasonStaleReceipt)
}

// forgetRow takes a row out of the index that has been deleted.
func (s *step) forgetRow(id int64) {
	if s.x.rows.get(id) != nil {
		s.remove(id)
		return
	}
	if _, ok := s.x.undecodable[id]; ok {
		delete(s.x.undecodable, id)
		s.OnUndo(func() { s.x.undecodable[id] = struct{}{} })
		return
	}
	s.leavePlain()
}

// leavePlain counts a plain message out that was changed behind the walk's back: one that somebody
// else's delivery left with visible_at = enqueued_at.
func (s *step) leavePlain() {
	s.addPlain(-1)
	s.x.forget()
}

// move makes the message of the receipt visible after some milliseconds. The receipt is kept or
// ended.
func (s *step) move(op, receipt string, after int64, keep bool) (stale, err error) {
	id, delivery, ok := ports.ParseReceipt(receipt)
	if !ok {
		return nil, nil
	}
	if _, moving := s.x.moving[id]; moving {
		return staleError(op, id), nil
	}
	statement := sqlDelay
	if keep {
		statement = sqlShow
	}
	changed, err := s.Exec(statement, s.now+after, id, delivery)
	if err != nil {
		return nil, err
	}
	if changed == 0 {
		return s.judge(op, id)
	}
	moved := known{id: id, visible: s.now + after, receipt: keep}
	if before := s.x.rows.get(id); before != nil {
		moved.enqueued = before.enqueued
	} else if _, aside := s.x.undecodable[id]; aside {
		return nil, nil
	} else {
		row, _, _, err := read(s.Conn, id)
		if err != nil {
			return nil, err
		}
		moved.enqueued = row.enqueued
		s.leavePlain()
	}
	s.put(moved)
	return nil, nil
}

func (s *step) purge() error {
	if _, err := s.Exec(sqlPurge); err != nil {
		return err
	}
	s.q.index = newIndex()
	s.OnUndo(func() { s.q.index = s.x })
	return nil
}

func (s *step) stats() (types.QueueStats, error) {
	x := s.x
	oldest := x.rows.oldest()
	if x.plain > 0 && (len(x.ahead) > 0 || oldest >= x.seen.visible) {
		if err := s.walk(1); err != nil {
			return types.QueueStats{}, err
		}
		if len(x.ahead) > 0 {
			oldest = min(oldest, x.ahead[0].enqueued)
		}
	}
	stats := types.QueueStats{
		Visible:     x.visible(),
		InFlight:    int64(x.rows.inFlight),
		Delayed:     int64(x.rows.hidden.len() - x.rows.inFlight),
		Undecodable: int64(len(x.undecodable)),
	}
	stats.Total = stats.Visible + stats.InFlight + stats.Delayed
	if stats.Total > 0 {
		stats.OldestAge = age(oldest, s.now)
	}
	return stats, nil
}

// peek reads up to most messages: those that are due, those that are hidden, rows set aside.
func (s *step) peek(most int) ([]types.PeekedMessage, error) {
	list := make([]types.PeekedMessage, 0, most)
	for whole := false; !whole; {
		messages, err := s.ordered(most)
		if err != nil {
			return nil, err
		}
		whole, list = true, list[:0]
		for _, m := range messages {
			row, found, problem, err := read(s.Conn, m.id)
			switch {
			case err != nil:
				return nil, err
			case !found:
				s.lost(m.id, m.plain)
			case problem != nil:
				s.setAside(m.id, problem)
			default:
				list = append(list, peeked(m.id, row, m.state))
				continue
			}
			s.x.skip(m.id)
			whole = false // another message takes its place
		}
	}
	aside := slices.Sorted(maps.Keys(s.x.undecodable))
	for _, id := range aside[:min(len(aside), most-len(list))] {
		row, _, _, err := read(s.Conn, id)
		if err != nil {
			return nil, err
		}
		row.payload = types.Payload{}
		list = append(list, peeked(id, row, types.StateUndecodable))
	}
	return list, nil
}

func peeked(id int64, row stored, state types.MessageState) types.PeekedMessage {
	return types.PeekedMessage{
		ID:         id,
		Payload:    row.payload,
		State:      state,
		Attempt:    row.attempt,
		EnqueuedAt: timeOf(row.enqueued),
		VisibleAt:  timeOf(row.visible),
	}
}

type orderedMessage struct {
	id    int64
	state types.MessageState
	plain bool
}

// ordered lists up to most messages: those that are due in the order of delivery, then those that
// are hidden in the order of becoming due.
func (s *step) ordered(most int) ([]orderedMessage, error) {
	if err := s.walk(most); err != nil {
		return nil, err
	}
	var list []orderedMessage
	plain, due := s.x.ahead, s.x.rows.due.first(most)
	for len(list) < most && len(plain)+len(due) > 0 {
		if len(due) == 0 || len(plain) > 0 && plain[0].before(&due[0]) {
			list = append(list, orderedMessage{plain[0].id, types.StateVisible, true})
			plain = plain[1:]
		} else {
			list = append(list, orderedMessage{due[0].id, types.StateVisible, false})
			due = due[1:]
		}
	}
	for _, k := range s.x.rows.hidden.first(most - len(list)) {
		state := types.StateDelayed
		if k.receipt {
			state = types.StateInFlight
		}
		list = append(list, orderedMessage{k.id, state, false})
	}
	return list, nil
}

// discard removes a row that cannot be decoded, and reports whether there was one.
func (s *step) discard(op string, id int64) (bool, error) {
	if _, staged := s.x.staged[id]; staged {
		return false, nil // no message of this queue yet
	}
	_, found, problem, err := read(s.Conn, id)
	if err != nil {
		return false, err
	}
	_, aside := s.x.undecodable[id]
	switch {
	case !found && aside:
		delete(s.x.undecodable, id)
		return false, nil
	case !found:
		return false, nil
	case !aside && problem == nil:
		return false, ports.Errorf(ports.CodeInvalidInput, op, "message %d can be decoded: receive and ack it instead", id)
	case !aside:
		s.setAside(id, problem)
		s.x.forget()
	}
	if _, err := s.Exec(sqlRemove, id); err != nil {
		return false, err
	}
	s.forgetRow(id)
	return true, nil
}

// age is the time from a stored instant until now, 0 for one in the future.
func age(then, now int64) time.Duration {
	millis := uint64(now) - uint64(then)
	switch {
	case then >= now:
		return 0
	case millis > uint64(math.MaxInt64/time.Millisecond):
		return math.MaxInt64
	}
	return time.Duration(millis) * time.Millisecond
}
