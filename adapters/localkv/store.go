package localkv

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Store is a key-value store in one file. It implements [ports.Kv], [ports.Backuper],
// [ports.HealthChecker] and [ports.Meter].
type Store struct {
	file    *sqlitefile.File
	clock   ports.Clock
	log     *slog.Logger
	expired *reaper

	foreignKey sync.Once // guards one warning
	closing    sync.Once
	closeErr   error
}

// Open opens the store of a data directory, or makes a new one. A file that is no store of this
// format is BINDING_SETUP_FAILED and left as it was (R022 to R024, R039). In single-process mode a
// directory that anybody else has open, and in multi-process mode one that is open in single-process
// mode, gives [ports.ErrInUse].
func Open(ctx context.Context, options Options) (*Store, error) {
	const op = "kv.open"
	options, err := options.check(op)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op, "the data directory %q cannot be made absolute: %w", options.Dir, err)
	}
	ownership := sqlitefile.SharedDirectory
	if options.Mode == SingleProcess {
		ownership = sqlitefile.ExclusiveDirectory
	}
	file, err := sqlitefile.Open(ctx, sqlitefile.Options{
		Path:       filepath.Join(dir, databaseName),
		Schema:     schema(),
		Kind:       "local KV",
		Failure:    ports.CodeKvOperationFailed,
		Ownership:  ownership,
		Durability: options.Durability,
		PageSize:   pageSize,
		CacheBytes: options.CacheBytes,
		Log:        options.Log,
	})
	if err != nil {
		return nil, err
	}
	return &Store{
		file:    file,
		clock:   options.Clock,
		log:     options.Log,
		expired: startReaper(file, options.Log),
	}, nil
}

// Path is the absolute path of the database file.
func (s *Store) Path() string { return s.file.Path() }

// Get implements [ports.Kv]. An expired row that it meets is removed in the background.
func (s *Store) Get(ctx context.Context, key string) (types.KvEntry, bool, error) {
	const op = "kv.get"
	if err := ports.CheckKey(op, key); err != nil {
		return types.KvEntry{}, false, err
	}
	now := s.now()
	var (
		row   storedRow
		found bool
	)
	err := s.file.Read(ctx, op, func(c *sqlitefile.Conn) error {
		return c.Query(selectEntry, func(r sqlitefile.Row) (err error) {
			found = true
			row, err = s.decode(op, key, r.Value(0), r.Value(1), r.Value(2))
			return err
		}, key)
	})
	if err != nil || !found {
		return types.KvEntry{}, false, err
	}
	if row.expired(now) {
		s.expired.offer(key, expiredRow{row.version, now})
		return types.KvEntry{}, false, nil
	}
	return row.entry(key), true, nil
}

// Exists implements [ports.Kv]. It looks at the expiry only, so it answers for a row whose value
// cannot be read.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	const op = "kv.exists"
	if err := ports.CheckKey(op, key); err != nil {
		return false, err
	}
	now := s.now()
	var (
		expires *int64
		version any
		found   bool
	)
	err := s.file.Read(ctx, op, func(c *sqlitefile.Conn) error {
		return c.Query(selectExpiry, func(r sqlitefile.Row) (err error) {
			found = true
			version = r.Value(1)
			expires, err = s.decodeExpiry(op, key, r.Value(0))
			return err
		}, key)
	})
	if err != nil || !found {
		return false, err
	}
	if expires == nil || *expires > now {
		return true, nil
	}
	if version, ok := version.(string); ok {
		s.expired.offer(key, expiredRow{version, now})
	}
	return false, nil
}

// Put implements [ports.Kv].
func (s *Store) Put(ctx context.Context, key string, value []byte, opts types.PutOptions) (types.PutResult, error) {
	const op = "kv.put"
	check, err := ports.CheckPut(op, key, value, opts, s.clock.Now())
	if err != nil {
		return types.PutResult{}, err
	}
	if check.Version != nil && check.Version.Expired(s.now()) {
		return types.PutResult{}, s.notice(ctx, op)
	}
	version, err := newVersion()
	if err != nil {
		return types.PutResult{}, ports.Errorf(ports.CodeKvOperationFailed, op, "no random version for key %q: %w", key, err)
	}
	if value == nil {
		value = []byte{}
	}
	var changed int64
	err = s.file.WriteOne(ctx, op, func(tx *sqlitefile.Tx) (err error) {
		// The condition is judged by the time at which it is, not by that of the call, which may
		// have waited for a lock.
		switch {
		case check.Version != nil:
			changed, err = tx.Exec(updateIfVersion, key, value, check.ExpiresAt, version, check.Version.Backend, s.now())
		case opts.If.Absent():
			changed, err = tx.Exec(upsertIfAbsent, key, value, check.ExpiresAt, version, s.now())
		default:
			changed, err = tx.Exec(upsert, key, value, check.ExpiresAt, version)
		}
		return err
	})
	if err != nil || changed == 0 {
		return types.PutResult{}, err
	}
	token := ports.VersionToken{Backend: version, ExpiresAtMillis: check.ExpiresAt}
	return types.PutResult{Applied: true, Version: ports.EncodeVersion(key, token)}, nil
}

// Delete implements [ports.Kv].
func (s *Store) Delete(ctx context.Context, key string, cond types.Condition) (bool, error) {
	const op = "kv.delete"
	version, err := ports.CheckDelete(op, key, cond)
	if err != nil {
		return false, err
	}
	if version == nil {
		err := s.file.WriteOne(ctx, op, func(tx *sqlitefile.Tx) error {
			_, err := tx.Exec(deleteKey, key)
			return err
		})
		return err == nil, err
	}
	if version.Expired(s.now()) {
		return false, s.notice(ctx, op)
	}
	var changed int64
	err = s.file.WriteOne(ctx, op, func(tx *sqlitefile.Tx) (err error) {
		changed, err = tx.Exec(deleteIfVersion, key, version.Backend, s.now())
		return err
	})
	return err == nil && changed == 1, err
}

// errPageFull ends the query of a page.
var errPageFull = errors.New("the page is full")

// ScanPrefix implements [ports.Kv]. It removes nothing (R050). A row whose key breaks the rules of
// keys, and which therefore came from elsewhere and cannot be read or deleted here, is passed over.
func (s *Store) ScanPrefix(ctx context.Context, prefix string, opts types.ScanOptions) (types.KvPage, error) {
	const op = "kv.scan"
	check, err := ports.CheckScan(op, prefix, opts)
	if err != nil {
		return types.KvPage{}, err
	}
	query, from := selectRange, prefix
	if check.After != "" {
		query, from = selectRangeAfter, check.After
	}
	var page types.KvPage
	add := func(r sqlitefile.Row) error {
		key, ok := r.Value(0).(string)
		if !ok || ports.CheckKey(op, key) != nil {
			s.foreignKey.Do(func() {
				s.log.Warn("a stored key breaks the rules of keys: scans pass over it", "path", s.file.Path(), "key", key)
			})
			return nil //nolint:nilerr // a key of somebody else's ends no scan
		}
		if len(page.Entries) == check.Limit {
			page.Cursor = ports.EncodeCursor(prefix, page.Entries[check.Limit-1].Key)
			return errPageFull
		}
		row, err := s.decode(op, key, r.Value(1), r.Value(2), r.Value(3))
		if err != nil {
			return err
		}
		page.Entries = append(page.Entries, row.entry(key))
		return nil
	}
	err = s.file.Read(ctx, op, func(c *sqlitefile.Conn) error {
		return c.Query(query, add, from, successor(prefix), s.now())
	})
	if err != nil && !errors.Is(err, errPageFull) {
		return types.KvPage{}, err
	}
	return page, nil
}

// successor is the least key above all that start with prefix. The last byte of a valid prefix is
// ASCII and can be raised. Keys of other storage classes sort outside the range (R064).
func successor(prefix string) string {
	last := len(prefix) - 1
	return prefix[:last] + string(rune(prefix[last]+1))
}

// Backup implements [ports.Backuper].
func (s *Store) Backup(ctx context.Context, path string) error { return s.file.Backup(ctx, path) }

// Verify implements [ports.Backuper].
func (s *Store) Verify(ctx context.Context) error { return s.file.Verify(ctx) }

// Metrics implements [ports.Meter].
func (s *Store) Metrics() types.StoreMetrics { return s.file.Metrics() }

// HealthCheck implements [ports.HealthChecker].
func (s *Store) HealthCheck(ctx context.Context) error { return s.file.HealthCheck(ctx) }

// Close waits for running operations, tries to remove the expired rows that reads have met, and
// closes the file. Later calls return the result of the first.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.expired.close()
		s.closeErr = s.file.Close()
	})
	return s.closeErr
}

func (s *Store) now() int64 { return s.clock.Now().UnixMilli() }

// notice finds out whether the store is closed or the context has ended, for an operation whose
// answer is known without a look at the data.
func (s *Store) notice(ctx context.Context, op string) error {
	return s.file.Read(ctx, op, func(*sqlitefile.Conn) error { return nil })
}

// newVersion makes the 32 hexadecimal digits of a random UUID.
func newVersion() (string, error) {
	id, err := uuid.NewRandom()
	return hex.EncodeToString(id[:]), err
}

// storedRow is a row whose columns have the storage classes of the format.
type storedRow struct {
	value   []byte
	expires *int64
	version string
}

func (r storedRow) expired(now int64) bool { return r.expires != nil && *r.expires <= now }

func (r storedRow) entry(key string) types.KvEntry {
	entry := types.KvEntry{
		Key:     key,
		Value:   r.value,
		Version: ports.EncodeVersion(key, ports.VersionToken{Backend: r.version, ExpiresAtMillis: r.expires}),
	}
	if r.expires != nil {
		entry.ExpiresAt = time.UnixMilli(*r.expires)
	}
	return entry
}

func (s *Store) decode(op, key string, value, expires, version any) (row storedRow, err error) {
	var ok bool
	if row.value, ok = value.([]byte); !ok {
		return row, s.undecodable(op, key, "value", value, "BLOB")
	}
	if row.value == nil {
		row.value = []byte{}
	}
	if row.expires, err = s.decodeExpiry(op, key, expires); err != nil {
		return row, err
	}
	if row.version, ok = version.(string); !ok {
		return row, s.undecodable(op, key, "version", version, "TEXT")
	}
	return row, nil
}

func (s *Store) decodeExpiry(op, key string, expires any) (*int64, error) {
	switch expires := expires.(type) {
	case nil:
		return nil, nil
	case int64:
		return &expires, nil
	}
	return nil, s.undecodable(op, key, "expires_at", expires, "INTEGER or NULL")
}

func (s *Store) undecodable(op, key, column string, found any, wanted string) error {
	return ports.Errorf(ports.CodeKvOperationFailed, op,
		"the row of key %q in %s cannot be read: its %s is of storage class %s, not %s; overwrite or delete the key",
		key, s.file.Path(), column, sqlitefile.StorageClass(found), wanted).
		WithReason(ports.ReasonUndecodable)
}
