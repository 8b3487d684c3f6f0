package localqueue

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// DeadLetter is a message that was received as often as its queue allows.
type DeadLetter struct {
	ID         int64 // of its row; not used again by the queue
	Payload    types.Payload
	Attempt    int64 // how often it was received
	EnqueuedAt time.Time
}

// DeadLetterSink takes dead letters over from a queue, which is another file, so that no transaction
// spans both. The queue calls Stage, deletes its messages, and calls Reveal. A crash at any point
// neither loses nor doubles a letter if the sink keeps staged letters hidden, and settles what a crash
// left staged before either side is used again: a letter whose message is gone from its queue is
// revealed, one whose message is still there is dropped. See docs/adr/0002.
type DeadLetterSink interface {
	// Stage stores letters durably, hidden from everyone. Staging one that is staged does nothing.
	Stage(ctx context.Context, letters []DeadLetter) error
	// Reveal makes staged letters visible. One that is not staged is passed over.
	Reveal(ctx context.Context, letters []DeadLetter) error
}

// Origin says where a staged letter comes from: the row of a queue of the same owner.
type Origin struct {
	Queue string
	ID    int64
}

// String is the form in which the receipt_handle of a staged copy keeps it. No receipt looks like it.
func (o Origin) String() string { return o.Queue + "/" + strconv.FormatInt(o.ID, 10) }

func parseOrigin(s string) (Origin, bool) {
	queue, number, _ := strings.Cut(s, "/")
	id, err := strconv.ParseInt(number, 10, 64)
	o := Origin{queue, id}
	return o, err == nil && ports.CheckQueueID("", queue) == nil && o.String() == s
}

const (
	// stagedVisible is the visible_at of a staged copy, which no lease or delay reaches.
	stagedVisible = math.MaxInt64
	// deadLetterRetry is how long a message rests whose dead-lettering has failed.
	deadLetterRetry = 30 * time.Second
)

// bury hands messages to the dead letters, which the claim has taken out of the queue's sight.
func (q *Queue) bury(ctx context.Context, letters []DeadLetter) {
	if err := q.deadLetters.Stage(ctx, letters); err != nil {
		q.giveBack(ctx, letters, err)
		return
	}
	err := q.step(ctx, "queue.receive", func(s *step) error { return s.deleteMoved(letters) })
	if err != nil {
		q.giveBack(ctx, letters, err)
		return
	}
	for _, letter := range letters {
		q.log.Info("a message was received too often and moved to the dead letters", "id", letter.ID, "attempt", letter.Attempt)
	}
	q.reveal(ctx, letters)
}

// reveal keeps letters in mind that could not be revealed, for the next receive.
func (q *Queue) reveal(ctx context.Context, letters []DeadLetter) {
	if err := q.deadLetters.Reveal(ctx, letters); err != nil {
		q.log.Error("dead letters are stored but stay hidden; the next receive tries again", "count", len(letters), "error", err)
		q.gate.Lock()
		q.unrevealed = append(q.unrevealed, letters...)
		q.gate.Unlock()
	}
}

// revealRest tries again what an earlier reveal could not do.
func (q *Queue) revealRest(ctx context.Context) {
	q.gate.Lock()
	rest := q.unrevealed
	q.unrevealed = nil
	q.gate.Unlock()
	if len(rest) > 0 {
		q.reveal(context.WithoutCancel(ctx), rest)
	}
}

// deleteMoved removes the messages that were handed over. A purge in between has done so already.
func (s *step) deleteMoved(letters []DeadLetter) error {
	for _, letter := range letters {
		id := letter.ID
		if _, moving := s.x.moving[id]; !moving {
			continue
		}
		if _, err := s.Exec(sqlRemove, id); err != nil {
			return err
		}
		s.remove(id)
		s.endMove(id)
	}
	return nil
}

func (s *step) endMove(id int64) {
	delete(s.x.moving, id)
	s.OnUndo(func() { s.x.moving[id] = struct{}{} })
}

// giveBack returns messages to the queue whose hand-over has failed. They rest for a while, so that
// they hold up nobody; what is stored has not changed.
func (q *Queue) giveBack(ctx context.Context, letters []DeadLetter, cause error) {
	q.log.Error("messages were received too often, but the dead letters do not take them; they stay in the queue",
		"count", len(letters), "retryAfter", deadLetterRetry.String(), "error", cause)
	err := q.step(ctx, "queue.receive", func(s *step) error {
		for _, letter := range letters {
			if _, moving := s.x.moving[letter.ID]; moving {
				s.endMove(letter.ID)
				s.put(known{id: letter.ID, enqueued: letter.EnqueuedAt.UnixMilli(), visible: s.now + deadLetterRetry.Milliseconds(), receipt: true})
			}
		}
		return nil
	})
	if err != nil {
		q.log.Error("messages that the dead letters do not take stay hidden until the queue is opened again", "count", len(letters), "error", err)
	}
}

// queueSink makes a queue the dead letters of another one of the same owner.
type queueSink struct {
	source string
	// target finds the queue, or says why it cannot take anything.
	target func(context.Context) (*Queue, error)
}

// Stage implements DeadLetterSink.
func (k queueSink) Stage(ctx context.Context, letters []DeadLetter) error {
	target, err := k.target(ctx)
	if err != nil {
		return err
	}
	return target.stage(ctx, k.source, letters)
}

// Reveal implements DeadLetterSink.
func (k queueSink) Reveal(ctx context.Context, letters []DeadLetter) error {
	target, err := k.target(ctx)
	if err != nil {
		return err
	}
	return target.revealStaged(ctx, k.source, letters)
}

// stage stores copies that nobody sees. They keep when the message was enqueued and how often it was
// received.
func (q *Queue) stage(ctx context.Context, source string, letters []DeadLetter) error {
	const op = "queue.stage"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	return q.step(ctx, op, func(s *step) error {
		for _, letter := range letters {
			origin := Origin{source, letter.ID}
			staged, err := s.isStaged(origin, letter)
			if err != nil {
				return err
			}
			if staged {
				continue
			}
			if _, err := s.Exec(sqlStage, string(letter.Payload.Type), letter.Payload.Data, letter.EnqueuedAt.UnixMilli(),
				int64(stagedVisible), letter.Attempt, origin.String()); err != nil {
				return err
			}
			id := s.LastInsertID()
			s.x.staged[id] = origin
			s.OnUndo(func() { delete(s.x.staged, id) })
		}
		return nil
	})
}

// isStaged reports whether the letter is staged already. A copy of another one under the same origin
// is of an earlier queue of that id, which is gone, so that it can be revealed.
func (s *step) isStaged(origin Origin, letter DeadLetter) (bool, error) {
	id, staged := s.stagedID(origin)
	if !staged {
		return false, nil
	}
	row, _, _, err := read(s.Conn, id)
	if err != nil {
		return false, err
	}
	if row.enqueued == letter.EnqueuedAt.UnixMilli() && row.attempt == letter.Attempt {
		return true, nil
	}
	return false, s.reveal(id, row.enqueued)
}

// stagedID finds the copy of a letter. There are never more than a few.
func (s *step) stagedID(origin Origin) (int64, bool) {
	for id, other := range s.x.staged {
		if other == origin {
			return id, true
		}
	}
	return 0, false
}

func (q *Queue) revealStaged(ctx context.Context, source string, letters []DeadLetter) error {
	const op = "queue.reveal"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	return q.step(ctx, op, func(s *step) error {
		for _, letter := range letters {
			id, staged := s.stagedID(Origin{source, letter.ID})
			if !staged {
				continue
			}
			if err := s.reveal(id, letter.EnqueuedAt.UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *step) reveal(id, enqueued int64) error {
	if _, err := s.Exec(sqlReveal, s.now, id); err != nil {
		return err
	}
	s.endStage(id)
	s.put(known{id: id, enqueued: enqueued, visible: s.now})
	return nil
}

func (s *step) endStage(id int64) {
	origin := s.x.staged[id]
	delete(s.x.staged, id)
	s.OnUndo(func() { s.x.staged[id] = origin })
}

// settle decides what becomes of the copies that a crash left staged: revealed if the message is gone
// from its queue, dropped if it is there. stands asks the queue of origin; its error leaves a copy as
// it is. A copy must not be settled while its queue of origin may be handing over: source names the
// one queue that is meant, or is empty for all.
func (q *Queue) settle(ctx context.Context, source string, stands func(origin Origin, enqueued, attempt int64) (bool, error)) error {
	const op = "queue.settle"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	copies := make(map[int64]stored)
	err := q.step(ctx, op, func(s *step) error {
		for id, origin := range s.x.staged {
			if source != "" && source != origin.Queue {
				continue
			}
			row, _, _, err := read(s.Conn, id)
			if err != nil {
				return err
			}
			copies[id] = row
		}
		return nil
	})
	if err != nil {
		return err
	}
	drop := make(map[int64]bool)
	for id, row := range copies {
		origin, _ := parseOrigin(row.receipt)
		there, err := stands(origin, row.enqueued, row.attempt)
		if err != nil {
			q.log.Warn("a staged dead letter waits for its queue of origin", "id", id, "origin", origin.String(), "error", err)
			continue
		}
		drop[id] = there
	}
	return q.step(ctx, op, func(s *step) error {
		for id, there := range drop {
			if !there {
				if err := s.reveal(id, copies[id].enqueued); err != nil {
					return err
				}
				continue
			}
			if _, err := s.Exec(sqlRemove, id); err != nil {
				return err
			}
			s.endStage(id)
		}
		return nil
	})
}

// stands reports whether the queue has the message still.
func (q *Queue) stands(ctx context.Context, id, enqueued, attempt int64) (there bool, err error) {
	const op = "queue.settle"
	if err := q.enter(op); err != nil {
		return false, err
	}
	defer q.leave()
	err = q.file.Read(ctx, op, func(c *sqlitefile.Conn) error {
		row, found, _, err := read(c, id)
		there = found && row.enqueued == enqueued && row.attempt == attempt
		return err
	})
	return there, err
}
