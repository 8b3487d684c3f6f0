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
func (k *Kv) Get(ctx context.Context, key string) (entry types.KvEntry, found bool, err error) {
	err = k.faults.around(ctx, KvGet, func() (err error) {
		entry, found, err = k.inner.Get(ctx, key)
		return err
	})
	if err != nil {
		return types.KvEntry{}, false, err
	}
	return entry, found, nil
}

// Exists implements ports.Kv.
func (k *Kv) Exists(ctx context.Context, key string) (bool, error) {
	return result(ctx, k.faults, KvExists, func() (bool, error) { return k.inner.Exists(ctx, key) })
}

// Put implements ports.Kv.
func (k *Kv) Put(ctx context.Context, key string, value []byte, opts types.PutOptions) (types.PutResult, error) {
	return result(ctx, k.faults, KvPut, func() (types.PutResult, error) { return k.inner.Put(ctx, key, value, opts) })
}

// Delete implements ports.Kv.
func (k *Kv) Delete(ctx context.Context, key string, cond types.Condition) (bool, error) {
	return result(ctx, k.faults, KvDelete, func() (bool, error) { return k.inner.Delete(ctx, key, cond) })
}

// ScanPrefix implements ports.Kv.
func (k *Kv) ScanPrefix(ctx context.Context, prefix string, opts types.ScanOptions) (types.KvPage, error) {
	return result(ctx, k.faults, KvScan, func() (types.KvPage, error) { return k.inner.ScanPrefix(ctx, prefix, opts) })
}

// Close closes the store within.
func (k *Kv) Close() error { return k.inner.Close() }

// result makes a call that returns a value under the faults.
func result[T any](ctx context.Context, faults *Faults, op Op, call func() (T, error)) (T, error) {
	var value, none T
	err := faults.around(ctx, op, func() (err error) {
		value, err = call()
		return err
	})
	if err != nil {
		return none, err
	}
	return value, nil
}
