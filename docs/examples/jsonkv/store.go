package jsonkv

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Store is a ports.KvStore.
type Store struct {
	path  string
	clock ports.Clock
	lock  *os.File

	mu      sync.Mutex
	closed  bool
	entries map[string]entry // never changed in place: a change makes a new map, writes it, and swaps it in
}

type entry struct {
	Value           []byte `json:"value"`
	Version         string `json:"version"`
	ExpiresAtMillis *int64 `json:"expiresAtMillis,omitempty"`
}

func (e entry) expired(now int64) bool { return e.ExpiresAtMillis != nil && *e.ExpiresAtMillis <= now }

// Open opens the store at path, made if missing. One that is open already is ErrInUse.
func Open(path string, clock ports.Clock) (*Store, error) {
	const op = "kv.open"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op, "make the directory of %s: %w", path, err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, ports.Errorf(ports.CodeBindingSetupFailed, op, "open the lock of %s: %w", path, err)
	}
	s := &Store{path: path, clock: clock, lock: lock, entries: map[string]entry{}}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(ports.Errorf(ports.CodeBindingSetupFailed, op,
			"%s is open already, here or in another process; close it there: %w", path, err).WithReason(ports.ReasonInUse), lock.Close())
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &s.entries)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(ports.Errorf(ports.CodeBindingSetupFailed, op, "read %s, which was left as it is: %w", path, err), lock.Close())
	}
	return s, nil
}

// begin locks the store for one step. The caller unlocks, unless there is an error.
func (s *Store) begin(ctx context.Context, op string) (now int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, ports.Errorf(ports.CodeStoreClosed, op, "%s is closed", s.path)
	}
	return s.clock.Now().UnixMilli(), nil
}

// replace writes the entries, without those that have expired, and makes them the store's.
func (s *Store) replace(op string, entries map[string]entry, now int64) error {
	maps.DeleteFunc(entries, func(_ string, e entry) bool { return e.expired(now) })
	text, err := json.MarshalIndent(entries, "", "  ")
	if err == nil {
		err = os.WriteFile(s.path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(s.path+".new", s.path)
	}
	if err != nil {
		return ports.Errorf(ports.CodeKvOperationFailed, op, "write %s, which is as it was: %w", s.path, err)
	}
	s.entries = entries
	return nil
}

// Get implements ports.Kv.
func (s *Store) Get(ctx context.Context, key string) (types.KvEntry, bool, error) {
	const op = "kv.get"
	if err := ports.CheckKey(op, key); err != nil {
		return types.KvEntry{}, false, err
	}
	now, err := s.begin(ctx, op)
	if err != nil {
		return types.KvEntry{}, false, err
	}
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	if !ok || e.expired(now) {
		return types.KvEntry{}, false, nil
	}
	return e.export(key), true, nil
}

// Exists implements ports.Kv.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	const op = "kv.exists"
	if err := ports.CheckKey(op, key); err != nil {
		return false, err
	}
	now, err := s.begin(ctx, op)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	return ok && !e.expired(now), nil
}

// Put implements ports.Kv.
func (s *Store) Put(ctx context.Context, key string, value []byte, opts types.PutOptions) (types.PutResult, error) {
	const op = "kv.put"
	check, err := ports.CheckPut(op, key, value, opts, s.clock.Now())
	if err != nil {
		return types.PutResult{}, err
	}
	now, err := s.begin(ctx, op)
	if err != nil {
		return types.PutResult{}, err
	}
	defer s.mu.Unlock()
	old, ok := s.entries[key]
	live := ok && !old.expired(now)
	if opts.If.Absent() && live || check.Version != nil && !(live && old.is(*check.Version, now)) {
		return types.PutResult{}, nil
	}
	e := entry{bytes.Clone(value), rand.Text(), check.ExpiresAt}
	entries := maps.Clone(s.entries)
	entries[key] = e
	if err := s.replace(op, entries, now); err != nil {
		return types.PutResult{}, err
	}
	return types.PutResult{Applied: true, Version: e.export(key).Version}, nil
}

// Delete implements ports.Kv.
func (s *Store) Delete(ctx context.Context, key string, cond types.Condition) (bool, error) {
	const op = "kv.delete"
	version, err := ports.CheckDelete(op, key, cond)
	if err != nil {
		return false, err
	}
	now, err := s.begin(ctx, op)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	old, ok := s.entries[key]
	if version != nil && !(ok && !old.expired(now) && old.is(*version, now)) {
		return false, nil
	}
	entries := maps.Clone(s.entries)
	delete(entries, key)
	return true, s.replace(op, entries, now)
}

// ScanPrefix implements ports.Kv.
func (s *Store) ScanPrefix(ctx context.Context, prefix string, opts types.ScanOptions) (types.KvPage, error) {
	const op = "kv.scan"
	check, err := ports.CheckScan(op, prefix, opts)
	if err != nil {
		return types.KvPage{}, err
	}
	now, err := s.begin(ctx, op)
	if err != nil {
		return types.KvPage{}, err
	}
	defer s.mu.Unlock()
	var page types.KvPage
	for _, key := range slices.Sorted(maps.Keys(s.entries)) {
		e := s.entries[key]
		if !strings.HasPrefix(key, prefix) || key <= check.After || e.expired(now) {
			continue
		}
		if len(page.Entries) == check.Limit {
			page.Cursor = ports.EncodeCursor(prefix, page.Entries[check.Limit-1].Key)
			break
		}
		page.Entries = append(page.Entries, e.export(key))
	}
	return page, nil
}

// Close gives the file free. It may be called again.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.lock.Close()
}

// is reports whether the version was handed out for e, and has not run out.
func (e entry) is(version ports.VersionToken, now int64) bool {
	return version.Backend == e.Version && !version.Expired(now)
}

func (e entry) export(key string) types.KvEntry {
	out := types.KvEntry{
		Key:     key,
		Value:   bytes.Clone(e.Value),
		Version: ports.EncodeVersion(key, ports.VersionToken{Backend: e.Version, ExpiresAtMillis: e.ExpiresAtMillis}),
	}
	if e.ExpiresAtMillis != nil {
		out.ExpiresAt = time.UnixMilli(*e.ExpiresAtMillis)
	}
	return out
}
