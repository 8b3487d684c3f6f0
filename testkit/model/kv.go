package model

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Kv is a ports.KvStore.
type Kv struct {
	clock ports.Clock

	mu      sync.Mutex
	closed  bool
	entries []entry // in no order; one a key
}

type entry struct {
	key       string
	value     []byte
	version   string
	expiresAt *int64
}

// NewKv makes an empty store.
func NewKv(clock ports.Clock) *Kv { return &Kv{clock: clock} }

// begin locks the store for one step and drops what has expired. The caller unlocks, unless there is
// an error.
func (m *Kv) begin(ctx context.Context, op string) (now int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return 0, ports.Errorf(ports.CodeStoreClosed, op, "the model store is closed")
	}
	now = m.clock.Now().UnixMilli()
	m.entries = slices.DeleteFunc(m.entries, func(e entry) bool { return e.expiresAt != nil && *e.expiresAt <= now })
	return now, nil
}

func (m *Kv) index(key string) int {
	return slices.IndexFunc(m.entries, func(e entry) bool { return e.key == key })
}

// Get implements ports.Kv.
func (m *Kv) Get(ctx context.Context, key string) (types.KvEntry, bool, error) {
	const op = "kv.get"
	if err := ports.CheckKey(op, key); err != nil {
		return types.KvEntry{}, false, err
	}
	if _, err := m.begin(ctx, op); err != nil {
		return types.KvEntry{}, false, err
	}
	defer m.mu.Unlock()
	i := m.index(key)
	if i < 0 {
		return types.KvEntry{}, false, nil
	}
	return m.entries[i].export(), true, nil
}

// Exists implements ports.Kv.
func (m *Kv) Exists(ctx context.Context, key string) (bool, error) {
	const op = "kv.exists"
	if err := ports.CheckKey(op, key); err != nil {
		return false, err
	}
	if _, err := m.begin(ctx, op); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	return m.index(key) >= 0, nil
}

// Put implements ports.Kv.
func (m *Kv) Put(ctx context.Context, key string, value []byte, opts types.PutOptions) (types.PutResult, error) {
	const op = "kv.put"
	check, err := ports.CheckPut(op, key, value, opts, m.clock.Now())
	if err != nil {
		return types.PutResult{}, err
	}
	now, err := m.begin(ctx, op)
	if err != nil {
		return types.PutResult{}, err
	}
	defer m.mu.Unlock()
	i := m.index(key)
	if opts.If.Absent() && i >= 0 || check.Version != nil && !m.holds(i, *check.Version, now) {
		return types.PutResult{}, nil
	}
	if i >= 0 {
		m.entries = slices.Delete(m.entries, i, i+1)
	}
	e := entry{key, bytes.Clone(value), strings.ReplaceAll(uuid.NewString(), "-", ""), check.ExpiresAt}
	m.entries = append(m.entries, e)
	return types.PutResult{Applied: true, Version: e.export().Version}, nil
}

// Delete implements ports.Kv.
func (m *Kv) Delete(ctx context.Context, key string, cond types.Condition) (bool, error) {
	const op = "kv.delete"
	version, err := ports.CheckDelete(op, key, cond)
	if err != nil {
		return false, err
	}
	now, err := m.begin(ctx, op)
	if err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	i := m.index(key)
	if version != nil && !m.holds(i, *version, now) {
		return false, nil
	}
	if i >= 0 {
		m.entries = slices.Delete(m.entries, i, i+1)
	}
	return true, nil
}

func (m *Kv) holds(i int, version ports.VersionToken, now int64) bool {
	return i >= 0 && !version.Expired(now) && m.entries[i].version == version.Backend
}

// ScanPrefix implements ports.Kv.
func (m *Kv) ScanPrefix(ctx context.Context, prefix string, opts types.ScanOptions) (types.KvPage, error) {
	const op = "kv.scan"
	check, err := ports.CheckScan(op, prefix, opts)
	if err != nil {
		return types.KvPage{}, err
	}
	if _, err := m.begin(ctx, op); err != nil {
		return types.KvPage{}, err
	}
	defer m.mu.Unlock()
	slices.SortFunc(m.entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	var page types.KvPage
	for _, e := range m.entries {
		if !strings.HasPrefix(e.key, prefix) || e.key <= check.After {
			continue
		}
		if len(page.Entries) == check.Limit {
			page.Cursor = ports.EncodeCursor(prefix, page.Entries[check.Limit-1].Key)
			break
		}
		page.Entries = append(page.Entries, e.export())
	}
	return page, nil
}

// Close makes every later call STORE_CLOSED.
func (m *Kv) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (e entry) export() types.KvEntry {
	out := types.KvEntry{
		Key:     e.key,
		Value:   bytes.Clone(e.value),
		Version: ports.EncodeVersion(e.key, ports.VersionToken{Backend: e.version, ExpiresAtMillis: e.expiresAt}),
	}
	if e.expiresAt != nil {
		out.ExpiresAt = time.UnixMilli(*e.expiresAt)
	}
	return out
}
