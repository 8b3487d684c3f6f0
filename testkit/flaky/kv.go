package flaky

import (
	"context"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Kv is a ports.KvStore that fails as its Faults say. A call that fails returns no result, also when
// it had its effect.
type Kv struct {
	inner  ports.KvStore
	faults *Faults
}

// NewKv wraps a store.
func NewKv(inner ports.KvStore, faults *Faults) *Kv { return &Kv{inner, faults} }

// Get implements ports.Kv.
func (k *Kv) Get(ctx context.Context, key string) (types.KvEntry, bool, error) {
	return lookup(ctx, k.faults.around, KvGet, func(ctx context.Context) (types.KvEntry, bool, error) { return k.inner.Get(ctx, key) })
}

// Exists implements ports.Kv.
func (k *Kv) Exists(ctx context.Context, key string) (bool, error) {
	return result(ctx, k.faults.around, KvExists, func(ctx context.Context) (bool, error) { return k.inner.Exists(ctx, key) })
}

// Put implements ports.Kv.
func (k *Kv) Put(ctx context.Context, key string, value []byte, opts types.PutOptions) (types.PutResult, error) {
	return result(ctx, k.faults.around, KvPut, func(ctx context.Context) (types.PutResult, error) { return k.inner.Put(ctx, key, value, opts) })
}

// Delete implements ports.Kv.
func (k *Kv) Delete(ctx context.Context, key string, cond types.Condition) (bool, error) {
	return result(ctx, k.faults.around, KvDelete, func(ctx context.Context) (bool, error) { return k.inner.Delete(ctx, key, cond) })
}

// ScanPrefix implements ports.Kv.
func (k *Kv) ScanPrefix(ctx context.Context, prefix string, opts types.ScanOptions) (types.KvPage, error) {
	return result(ctx, k.faults.around, KvScan, func(ctx context.Context) (types.KvPage, error) { return k.inner.ScanPrefix(ctx, prefix, opts) })
}

// Close closes the store within, unless the faults have halted.
func (k *Kv) Close() error { return k.faults.close(k.inner.Close) }
