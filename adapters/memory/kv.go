package memory

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Kv is a ports.KvStore in a map.
type Kv struct {
	clock ports.Clock

	mu      sync.Mutex
	entries map[string]entry
	closed  bool
}

// entry is one stored value. Its bytes are never changed, only replaced.
type entry struct {
	value     string
	version   string
	expiresAt *int64 // milliseconds since the epoch; nil means never
}

// NewKv makes an empty store.
func NewKv(clock ports.Clock) *Kv {
	return &Kv{clock: clock, entries: map[string]entry{}}
}

// Get returns the live entry of key, and whether there is one.
func (s *Kv) Get(ctx context.Context, key string) (types.KvEntry, bool, error) {
	const op = "kv.get"
	if err := ports.CheckKey(op, key); err != nil {
		return types.KvEntry{}, false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return types.KvEntry{}, false, err
	}
	defer s.mu.Unlock()
	e, ok := s.live(key, s.now())
	if !ok {
		return types.KvEntry{}, false, nil
	}
	return e.entry(key), true, nil
}

// Exists reports whether key has a live entry.
func (s *Kv) Exists(ctx context.Context, key string) (bool, error) {
	const op = "kv.exists"
	if err := ports.CheckKey(op, key); err != nil {
		return false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	_, ok := s.live(key, s.now())
	return ok, nil
}

// Put stores value under key if the condition holds.
func (s *Kv) Put(ctx context.Context, key string, value []byte, opts types.PutOptions) (types.PutResult, error) {
	const op = "kv.put"
	check, err := ports.CheckPut(op, key, value, opts, s.clock.Now())
	if err != nil {
		return types.PutResult{}, err
	}
	if err := s.lock(ctx, op); err != nil {
		return types.PutResult{}, err
	}
	defer s.mu.Unlock()
	now := s.now()
	old, exists := s.live(key, now)
	switch {
	case opts.If.Absent() && exists:
		return types.PutResult{}, nil
	case check.Version != nil && !(exists && old.is(*check.Version, now)):
		return types.PutResult{}, nil
	}
	e := entry{
		value:     string(value),
		version:   strings.ReplaceAll(uuid.NewString(), "-", ""),
		expiresAt: check.ExpiresAt,
	}
	s.entries[key] = e
	return types.PutResult{Applied: true, Version: e.token(key)}, nil
}

// Delete removes key if the condition holds, and reports whether it held.
func (s *Kv) Delete(ctx context.Context, key string, cond types.Condition) (bool, error) {
	const op = "kv.delete"
	version, err := ports.CheckDelete(op, key, cond)
	if err != nil {
		return false, err
	}
	if err := s.lock(ctx, op); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	now := s.now()
	old, exists := s.live(key, now)
	if version != nil && !(exists && old.is(*version, now)) {
		return false, nil
	}
	delete(s.entries, key)
	return true, nil
}

// ScanPrefix returns the live entries whose key starts with prefix, in the order of their keys.
func (s *Kv) ScanPrefix(ctx context.Context, prefix string, opts types.ScanOptions) (types.KvPage, error) {
	const op = "kv.scan"
	check, err := ports.CheckScan(op, prefix, opts)
	if err != nil {
		return types.KvPage{}, err
	}
	if err := s.lock(ctx, op); err != nil {
		return types.KvPage{}, err
	}
	defer s.mu.Unlock()
	now := s.now()
	keys := slices.Sorted(maps.Keys(s.entries))
	keys = slices.DeleteFunc(keys, func(key string) bool {
		return !strings.HasPrefix(key, prefix) || key <= check.After || s.entries[key].expired(now)
	})
	var page types.KvPage
	for _, key := range keys[:min(len(keys), check.Limit)] {
		page.Entries = append(page.Entries, s.entries[key].entry(key))
	}
	if len(keys) > check.Limit {
		page.Cursor = ports.EncodeCursor(prefix, keys[check.Limit-1])
	}
	return page, nil
}

// Close drops everything. Later calls give STORE_CLOSED; closing again does nothing.
func (s *Kv) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.entries = nil
	return nil
}

// lock begins a step. The caller unlocks, unless there is an error.
func (s *Kv) lock(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ports.Errorf(ports.CodeStoreClosed, op, "the store in memory is closed: open a new one")
	}
	return nil
}

func (s *Kv) now() int64 { return s.clock.Now().UnixMilli() }

// live returns the entry of key, after dropping one that has expired.
func (s *Kv) live(key string, now int64) (entry, bool) {
	e, ok := s.entries[key]
	if ok && e.expired(now) {
		delete(s.entries, key)
		return entry{}, false
	}
	return e, ok
}

func (e entry) expired(now int64) bool { return e.expiresAt != nil && *e.expiresAt <= now }

func (e entry) is(version ports.VersionToken, now int64) bool {
	return version.Backend == e.version && !version.Expired(now)
}

func (e entry) token(key string) types.KvVersion {
	return ports.EncodeVersion(key, ports.VersionToken{Backend: e.version, ExpiresAtMillis: e.expiresAt})
}

func (e entry) entry(key string) types.KvEntry {
	out := types.KvEntry{Key: key, Value: []byte(e.value), Version: e.token(key)}
	if e.expiresAt != nil {
		out.ExpiresAt = time.UnixMilli(*e.expiresAt)
	}
	return out
}
