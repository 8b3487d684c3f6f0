package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Storage is a storage in one file. It implements [ports.Storage], [ports.Archiver], [ports.Backuper],
// [ports.HealthChecker], [ports.JournalCounter] and [ports.Meter].
type Storage struct {
	file  *sqlitefile.File
	depth int64
	calls *fence

	letters   letterIndex // touched under the writer only, as is
	lettersAt int64       // the data version that it was counted at; 0: not yet

	// beforeStatement makes tests fail or wait at a statement that writes; nil otherwise.
	beforeStatement func(statement string) error

	closed   atomic.Bool
	closing  sync.Once
	closeErr error
}

const kind = "storage"

// Open opens the storage at a path, or makes a new one. A file of an older schema version is brought up
// in one transaction, with its data (R247, R248); one of a version that this build does not know, or of
// another program, is BINDING_SETUP_FAILED and left as it was (R249), as is one that somebody else has
// open, with the reason in use (R259). Bad options are INVALID_CONFIG.
func Open(ctx context.Context, options Options) (*Storage, error) {
	const op = "storage.open"
	options, err := options.check(op)
	if err != nil {
		return nil, err
	}
	file, err := sqlitefile.Open(ctx, sqlitefile.Options{
		Path:        options.Path,
		Schema:      Schema(),
		Kind:        kind,
		Failure:     ports.CodeBackendFailed,
		Ownership:   sqlitefile.ExclusiveFile,
		Durability:  options.Durability,
		BusyTimeout: options.BusyTimeout,
		CacheBytes:  options.CacheBytes,
		Log:         options.Log,
	})
	if err != nil {
		return nil, err
	}
	s := &Storage{file: file, depth: options.JournalDepth, calls: newFence()}
	if err := s.loadLetters(ctx, op); err != nil {
		return nil, errors.Join(setupError(err), file.Close())
	}
	return s, nil
}

// setupError makes the failure of an operation that of an open.
func setupError(err error) error {
	var failed *ports.Error
	if !errors.As(err, &failed) || failed.Code != ports.CodeBackendFailed {
		return err
	}
	setup := *failed
	setup.Code = ports.CodeBindingSetupFailed
	return &setup
}

// Path is the absolute path of the database file, or sqlitefile.InMemory.
func (s *Storage) Path() string { return s.file.Path() }

// call is the way of every call to the file (R253): the fence knows of it until it has really ended.
func (s *Storage) call(run func() error) error {
	e := s.calls.enter()
	defer s.calls.leave(e)
	return run()
}

// read runs fn beside the writer, one instant a statement.
func (s *Storage) read(ctx context.Context, op string, fn func(*sqlitefile.Conn) error) error {
	return s.call(func() error { return s.file.Read(ctx, op, fn) })
}

// snapshot is read with one instant for all statements.
func (s *Storage) snapshot(ctx context.Context, op string, fn func(*sqlitefile.Conn) error) error {
	return s.call(func() error { return s.file.Snapshot(ctx, op, fn) })
}

// write runs fn as one step under the writer: all of it is stored, or nothing.
func (s *Storage) write(ctx context.Context, op string, fn func(transaction) error) error {
	return s.call(func() error {
		return s.file.Write(ctx, op, func(tx *sqlitefile.Tx) error { return fn(transaction{tx, s}) })
	})
}

// writeOne is write for an fn of at most one statement that changes something.
func (s *Storage) writeOne(ctx context.Context, op string, fn func(transaction) error) error {
	return s.call(func() error {
		return s.file.WriteOne(ctx, op, func(tx *sqlitefile.Tx) error { return fn(transaction{tx, s}) })
	})
}

// execOne runs one statement as a step of its own and returns how many rows it changed.
func (s *Storage) execOne(ctx context.Context, op, statement string, args ...any) (changed int64, err error) {
	err = s.writeOne(ctx, op, func(tx transaction) (err error) {
		changed, err = tx.Exec(statement, args...)
		return err
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

// transaction is what a step writes through.
type transaction struct {
	*sqlitefile.Tx
	s *Storage
}

// Exec runs a statement that changes something.
func (tx transaction) Exec(statement string, args ...any) (int64, error) {
	if before := tx.s.beforeStatement; before != nil {
		if err := before(statement); err != nil {
			return 0, err
		}
	}
	return tx.Tx.Exec(statement, args...)
}

// Apply implements [ports.Storage]: one transaction, whatever the step holds.
func (s *Storage) Apply(ctx context.Context, pipeline types.PipelineID, progress types.Progress) error {
	const op = "storage.apply"
	p, err := ports.CheckProgress(op, pipeline, progress)
	if err != nil {
		return err
	}
	var checkpoint string
	if p.Checkpoint != nil {
		if checkpoint, err = encode(op, "checkpoint", ports.EncodeCheckpoint, *p.Checkpoint); err != nil {
			return err
		}
	}
	letters := make([]encodedLetter, len(p.DeadLetters))
	for i, letter := range p.DeadLetters {
		if letters[i], err = encodeLetter(op, letter); err != nil {
			return err
		}
	}
	return s.write(ctx, op, func(tx transaction) error {
		if len(p.Settled)+len(letters) > 0 {
			if err := tx.followLetters(); err != nil {
				return err
			}
		}
		if p.Checkpoint != nil {
			if _, err := tx.Exec(upsertCheckpoint, string(pipeline), checkpoint); err != nil {
				return err
			}
		}
		if err := tx.recordDeliveries(op, pipeline, p.Deliveries, p.JournalFrom); err != nil {
			return err
		}
		if _, err := tx.deleteLetters(pipeline, p.Settled); err != nil {
			return err
		}
		for _, letter := range letters {
			if err := tx.recordLetter(pipeline, letter); err != nil {
				return err
			}
		}
		if p.HitsFrom != nil {
			if _, err := tx.Exec(deleteHitsFrom, string(pipeline), int64(*p.HitsFrom)); err != nil {
				return err
			}
		}
		if err := tx.appendHits(pipeline, p.Hits); err != nil {
			return err
		}
		if p.HitsBefore != nil {
			if _, err := tx.Exec(deleteHitsBefore, string(pipeline), int64(*p.HitsBefore)); err != nil {
				return err
			}
		}
		for _, f := range p.HitsBeforeOf {
			if _, err := tx.Exec(deleteHitsBeforeOf, string(pipeline), string(f.Monitor), int64(f.Primary)); err != nil {
				return err
			}
		}
		for _, m := range p.Metas {
			if err := tx.setMeta(upsertMeta, pipeline, m.Monitor, m.Meta); err != nil {
				return err
			}
		}
		return nil
	})
}

// encode makes the JSON of a record, before any transaction is opened (R179).
func encode[T any](op, what string, encoder func(T) (string, error), record T) (string, error) {
	text, err := encoder(record)
	if err != nil {
		return "", ports.Errorf(ports.CodeInvalidInput, op, "the %s cannot be encoded as JSON: %w", what, err)
	}
	return text, nil
}

// Quiesce implements [ports.Storage]. A call whose context ends after it has begun waits for its true
// outcome, so that its caller is as far as the call is.
func (s *Storage) Quiesce(ctx context.Context) error {
	const op = "storage.quiesce"
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return ports.Errorf(ports.CodeStoreClosed, op, "%s %s is closed; nothing was done", kind, s.file.Path())
	}
	return s.calls.wait(ctx)
}

// Backup implements [ports.Backuper].
func (s *Storage) Backup(ctx context.Context, path string) error {
	return s.call(func() error { return s.file.Backup(ctx, path) })
}

// Verify implements [ports.Backuper]. It checks that every record can be decoded, too.
func (s *Storage) Verify(ctx context.Context) error {
	if err := s.call(func() error { return s.file.Verify(ctx) }); err != nil {
		return err
	}
	return s.export(ctx, "storage.verify", s.everyLetter, func(types.Record) error { return nil })
}

// Metrics implements [ports.Meter].
func (s *Storage) Metrics() types.StoreMetrics { return s.file.Metrics() }

// HealthCheck implements [ports.HealthChecker].
func (s *Storage) HealthCheck(ctx context.Context) error {
	return s.call(func() error { return s.file.HealthCheck(ctx) })
}

// Close implements [ports.Storage]. Later calls return the result of the first.
func (s *Storage) Close() error {
	s.closed.Store(true)
	s.closing.Do(func() { s.closeErr = s.file.Close() })
	return s.closeErr
}
