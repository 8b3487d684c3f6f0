package localkv

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stowage-go/stowage/types"
)

const benchKeys = 20_000

func benchKey(i int) string { return fmt.Sprintf("bench:%08d", i) }

// filled opens a store of benchKeys entries of 100 bytes.
func filled(b *testing.B, mode Mode) *Store {
	b.Helper()
	store := open(b, Options{Dir: b.TempDir(), Mode: mode, Log: slog.New(slog.DiscardHandler)})
	value := []byte(strings.Repeat("v", 100))
	const writers = 64 // so that the filling shares its syncs
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < benchKeys; i += writers {
				if _, err := store.Put(b.Context(), benchKey(i), value, types.PutOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return store
}

// share runs b.N operations on so many goroutines.
func share(b *testing.B, goroutines int, operation func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := operation(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

func BenchmarkGet(b *testing.B) {
	store := filled(b, MultiProcess)
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			share(b, goroutines, func(int) error {
				_, _, err := store.Get(b.Context(), benchKey(rand.IntN(benchKeys)))
				return err
			})
		})
	}
}

func BenchmarkExists(b *testing.B) {
	store := filled(b, MultiProcess)
	share(b, 1, func(int) error {
		_, err := store.Exists(b.Context(), benchKey(rand.IntN(benchKeys)))
		return err
	})
}

func BenchmarkPut(b *testing.B) {
	value := []byte(strings.Repeat("w", 100))
	for _, mode := range []Mode{MultiProcess, SingleProcess} {
		store := filled(b, mode)
		for _, goroutines := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("mode=%v/goroutines=%d", mode, goroutines), func(b *testing.B) {
				share(b, goroutines, func(int) error {
					_, err := store.Put(b.Context(), benchKey(rand.IntN(benchKeys)), value, types.PutOptions{})
					return err
				})
			})
		}
	}
}

func BenchmarkPutIfVersion(b *testing.B) {
	store := filled(b, MultiProcess)
	version := put(b, store, "cas", "0", types.PutOptions{})
	share(b, 1, func(int) error {
		result, err := store.Put(b.Context(), "cas", nil, types.PutOptions{If: types.IfVersion(version)})
		if err == nil && !result.Applied {
			err = fmt.Errorf("version %s did not apply", version)
		}
		version = result.Version
		return err
	})
}

func BenchmarkScan(b *testing.B) {
	store := filled(b, MultiProcess)
	for _, limit := range []int{10, 1000} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			var cursor types.KvCursor
			share(b, 1, func(int) error {
				page, err := store.ScanPrefix(b.Context(), "bench:", types.ScanOptions{Limit: limit, Cursor: cursor})
				cursor = page.Cursor
				return err
			})
			b.ReportMetric(float64(b.N*limit)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

func BenchmarkNewVersion(b *testing.B) {
	for b.Loop() {
		if _, err := newVersion(); err != nil {
			b.Fatal(err)
		}
	}
}
