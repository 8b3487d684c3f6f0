package sqlite

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// dataVersion tells whether another program has changed the file since the last time.
const dataVersion = "PRAGMA data_version"

// loadLetters fills the index of the letters.
func (s *Storage) loadLetters(ctx context.Context, op string) error {
	return s.letterStep(ctx, op, func(transaction) error { return nil })
}

// letterStep is writeOne with an index of the letters that is true.
func (s *Storage) letterStep(ctx context.Context, op string, fn func(transaction) error) error {
	return s.writeOne(ctx, op, func(tx transaction) error {
		if err := tx.followLetters(); err != nil {
			return err
		}
		return fn(tx)
	})
}

// followLetters counts the letters anew if another program has changed the file, such as an operator
// who has deleted a row that cannot be read. Whatever needs the index in a transaction begins with it,
// so that there is nothing yet that could be undone.
func (tx transaction) followLetters() error {
	var version int64
	err := tx.Query(dataVersion, func(r sqlitefile.Row) error {
		version = r.Int64(0)
		return nil
	})
	if err != nil || version == tx.s.lettersAt {
		return err
	}
	letters := make(letterIndex)
	err = tx.Query(countBlocks, func(r sqlitefile.Row) error {
		// Letters of a pipeline whose name is no text can be asked for by nobody; Verify reports them.
		if pipeline, ok := r.Value(0).(string); ok {
			letters.change(types.PipelineID(pipeline), r.Int64(1), r.Int64(2))
		}
		return nil
	})
	if err != nil {
		return err
	}
	tx.s.letters, tx.s.lettersAt = letters, version
	return nil
}

// changeLetters keeps the index in step with the transaction.
func (tx transaction) changeLetters(pipeline types.PipelineID, block, n int64) {
	letters := tx.s.letters
	letters.change(pipeline, block, n)
	tx.OnUndo(func() { letters.change(pipeline, block, -n) })
}

// encodedLetter is a letter as it is stored.
type encodedLetter struct {
	id    types.MatchID
	entry string
}

func encodeLetter(op string, letter types.DeadLetter) (encodedLetter, error) {
	entry, err := encode(op, "dead letter", encodeEntry, letter)
	return encodedLetter{letter.MatchID, entry}, err
}

// checkedLetter checks and encodes a letter.
func checkedLetter(op string, pipeline types.PipelineID, letter types.DeadLetter) (encodedLetter, error) {
	letter, err := ports.CheckDeadLetter(op, pipeline, letter)
	if err != nil {
		return encodedLetter{}, err
	}
	return encodeLetter(op, letter)
}

// RecordDeadLetter implements [ports.DeadLetterStore].
func (s *Storage) RecordDeadLetter(ctx context.Context, pipeline types.PipelineID, letter types.DeadLetter) error {
	const op = "storage.recordDeadLetter"
	encoded, err := checkedLetter(op, pipeline, letter)
	if err != nil {
		return err
	}
	return s.letterStep(ctx, op, func(tx transaction) error { return tx.recordLetter(pipeline, encoded) })
}

// recordLetter changes something with one statement: where the first has found the letter, there is no
// second.
func (tx transaction) recordLetter(pipeline types.PipelineID, letter encodedLetter) error {
	changed, err := tx.Exec(updateLetter, string(pipeline), string(letter.id), letter.entry)
	if err != nil || changed > 0 {
		return err
	}
	return tx.insertLetter(pipeline, letter)
}

func (tx transaction) insertLetter(pipeline types.PipelineID, letter encodedLetter) error {
	if _, err := tx.Exec(insertLetter, string(pipeline), letter.entry); err != nil {
		return err
	}
	tx.changeLetters(pipeline, blockOf(tx.LastInsertID()), 1)
	return nil
}

// mostOffset is how many letters are passed over by walking.
const mostOffset = 1 << blockBits

// ListDeadLetters implements [ports.DeadLetterStore]. A page that skips far is found by the index, and
// is therefore read under the writer.
func (s *Storage) ListDeadLetters(ctx context.Context, pipeline types.PipelineID, query types.LetterQuery) ([]types.StoredLetter, error) {
	const op = "storage.listDeadLetters"
	if err := ports.CheckLetterQuery(op, pipeline, query); err != nil {
		return nil, err
	}
	after := query.After
	if after == 0 {
		after = math.MinInt64
	}
	var rows []letterRow
	var err error
	if query.Skip <= mostOffset {
		err = s.read(ctx, op, func(c *sqlitefile.Conn) error {
			rows, err = letterRows(c, selectLetters, string(pipeline), after, query.Take, query.Skip)
			return err
		})
	} else {
		err = s.letterStep(ctx, op, func(tx transaction) error {
			from, rest, found, err := tx.seekLetter(pipeline, after, int64(query.Skip))
			if err != nil || !found {
				return err
			}
			rows, err = letterRows(tx.Conn, selectLetters, string(pipeline), from, query.Take, rest)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	letters := make([]types.StoredLetter, len(rows))
	for i, row := range rows {
		letters[i] = s.letter(op, string(pipeline), row)
	}
	return letters, nil
}

// seekLetter finds the page that starts skip letters behind a position: it starts rest letters, less
// than a block, behind the position from.
func (tx transaction) seekLetter(pipeline types.PipelineID, after, skip int64) (from, rest int64, found bool, err error) {
	var passed int64
	if after > 0 {
		block := blockOf(after)
		passed = tx.s.letters.before(pipeline, block)
		err := tx.Query(countLettersWithin, func(r sqlitefile.Row) error {
			passed += r.Int64(0)
			return nil
		}, string(pipeline), block<<blockBits, after)
		if err != nil {
			return 0, 0, false, err
		}
	}
	block, rest, found := tx.s.letters.seek(pipeline, passed, skip)
	return block<<blockBits - 1, rest, found, nil
}

// letterRow is a row of dead_letters that was not decoded yet.
type letterRow struct {
	seq   int64
	entry any
}

func letterRows(c *sqlitefile.Conn, query string, args ...any) (rows []letterRow, err error) {
	err = c.Query(query, func(r sqlitefile.Row) error {
		rows = append(rows, letterRow{r.Int64(0), r.Value(1)}) // seq is the rowid, an integer always
		return nil
	}, args...)
	return rows, err
}

// letter decodes a row. What is wrong with it stands in it.
func (s *Storage) letter(op, pipeline string, row letterRow) types.StoredLetter {
	letter := types.StoredLetter{Position: row.seq}
	columns := columns{row: sqlitefile.Row{row.entry}}
	text, err := columns.text(0, "entry"), columns.err
	if err == nil {
		letter.Letter, err = decodeEntry(text)
	}
	if err == nil && row.seq < 1 {
		letter.Letter = types.DeadLetter{MatchID: letter.Letter.MatchID}
		err = errors.New("its seq is not above 0")
	}
	if err != nil {
		letter.Err = s.undecodable(op, "dead_letters", key(pipeline, row.seq), err)
	}
	return letter
}

// GetDeadLetter implements [ports.DeadLetterStore]. Of a letter that an older file holds twice it
// returns the first.
func (s *Storage) GetDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (types.StoredLetter, bool, error) {
	const op = "storage.getDeadLetter"
	if err := ports.CheckMatchIDs(op, pipeline, []types.MatchID{id}); err != nil {
		return types.StoredLetter{}, false, err
	}
	var rows []letterRow
	err := s.read(ctx, op, func(c *sqlitefile.Conn) (err error) {
		rows, err = letterRows(c, selectLetter, string(pipeline), string(id))
		return err
	})
	if err != nil || len(rows) == 0 {
		return types.StoredLetter{}, false, err
	}
	return s.letter(op, string(pipeline), rows[0]), true, nil
}

// CountDeadLetters implements [ports.DeadLetterStore], from the index.
func (s *Storage) CountDeadLetters(ctx context.Context) (counts []types.LetterCount, err error) {
	const op = "storage.countDeadLetters"
	err = s.letterStep(ctx, op, func(tx transaction) error {
		counts = tx.s.letters.counts()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// UpdateDeadLetter implements [ports.DeadLetterStore].
func (s *Storage) UpdateDeadLetter(ctx context.Context, pipeline types.PipelineID, letter types.DeadLetter) (bool, error) {
	const op = "storage.updateDeadLetter"
	encoded, err := checkedLetter(op, pipeline, letter)
	if err != nil {
		return false, err
	}
	changed, err := s.execOne(ctx, op, updateLetter, string(pipeline), string(encoded.id), encoded.entry)
	return changed > 0, err
}

// DeleteDeadLetter implements [ports.DeadLetterStore].
func (s *Storage) DeleteDeadLetter(ctx context.Context, pipeline types.PipelineID, id types.MatchID) (bool, error) {
	const op = "storage.deleteDeadLetter"
	if err := ports.CheckMatchIDs(op, pipeline, []types.MatchID{id}); err != nil {
		return false, err
	}
	var changed int64
	err := s.letterStep(ctx, op, func(tx transaction) (err error) {
		changed, err = tx.deleteLetter(pipeline, id)
		return err
	})
	return err == nil && changed > 0, err
}

// DeleteDeadLetters implements [ports.DeadLetterStore].
func (s *Storage) DeleteDeadLetters(ctx context.Context, pipeline types.PipelineID, ids []types.MatchID) (changed int64, err error) {
	const op = "storage.deleteDeadLetters"
	if err := ports.CheckMatchIDs(op, pipeline, ids); err != nil {
		return 0, err
	}
	ids = slices.Clone(ids)
	err = s.write(ctx, op, func(tx transaction) (err error) {
		if err := tx.followLetters(); err != nil {
			return err
		}
		changed, err = tx.deleteLetters(pipeline, ids)
		return err
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

func (tx transaction) deleteLetters(pipeline types.PipelineID, ids []types.MatchID) (total int64, err error) {
	for _, id := range ids {
		changed, err := tx.deleteLetter(pipeline, id)
		if err != nil {
			return 0, err
		}
		total += changed
	}
	return total, nil
}

func (tx transaction) deleteLetter(pipeline types.PipelineID, id types.MatchID) (int64, error) {
	var blocks []int64
	err := tx.Query(selectSeqs, func(r sqlitefile.Row) error {
		blocks = append(blocks, blockOf(r.Int64(0)))
		return nil
	}, string(pipeline), string(id))
	if err != nil || len(blocks) == 0 {
		return 0, err
	}
	changed, err := tx.Exec(deleteLetter, string(pipeline), string(id))
	if err != nil {
		return 0, err
	}
	for _, block := range blocks {
		tx.changeLetters(pipeline, block, -1)
	}
	return changed, nil
}

// DeleteAllDeadLetters implements [ports.DeadLetterStore].
func (s *Storage) DeleteAllDeadLetters(ctx context.Context, pipeline types.PipelineID, through int64) (changed int64, err error) {
	const op = "storage.deleteAllDeadLetters"
	if err := ports.CheckPipeline(op, pipeline); err != nil {
		return 0, err
	}
	err = s.letterStep(ctx, op, func(tx transaction) (err error) {
		changed, err = tx.deleteLettersThrough(pipeline, through)
		return err
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

func (tx transaction) deleteLettersThrough(pipeline types.PipelineID, through int64) (int64, error) {
	changed, err := tx.Exec(deleteLettersThrough, string(pipeline), through)
	if err != nil {
		return 0, err
	}
	left := changed
	for _, block := range tx.s.letters.upTo(pipeline, blockOf(through)) {
		n := min(block.count, left) // all of it, unless it is the one that through lies in
		if n > 0 {
			tx.changeLetters(pipeline, block.key, -n)
		}
		left -= n
	}
	return changed, nil
}
