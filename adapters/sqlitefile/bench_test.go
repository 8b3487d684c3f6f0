package sqlitefile

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// BenchmarkWrite measures durable inserts of 200 bytes by concurrent callers. "single" is what it is
// paired against in the same run: one statement a transaction on one connection, synchronous FULL.
func BenchmarkWrite(b *testing.B) {
	body := make([]byte, 200)
	b.Run("single/producers=1", func(b *testing.B) {
		f := openBench(b)
		conn := f.writer
		b.ResetTimer()
		for i := range b.N {
			if _, err := conn.Exec(insertRow, fmt.Sprint(i), body); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, producers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("group/producers=%d", producers), func(b *testing.B) {
			f := openBench(b)
			b.ResetTimer()
			share(b, producers, func(i int) error {
				return f.WriteOne(context.Background(), "insert", func(tx *Tx) error {
					_, err := tx.Exec(insertRow, fmt.Sprint(i), body)
					return err
				})
			})
			b.ReportMetric(float64(f.Stats().Operations)/float64(max(1, f.Stats().Commits)), "ops/commit")
		})
	}
}

// BenchmarkRead measures point reads beside nothing, by the way that adapters use.
func BenchmarkRead(b *testing.B) {
	f := openBench(b)
	const rows = 10_000
	err := f.Write(context.Background(), "fill", func(tx *Tx) error {
		for i := range rows {
			if _, err := tx.Exec(insertRow, fmt.Sprint(i), make([]byte, 200)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for i := range b.N {
		err := f.Read(context.Background(), "get", func(c *Conn) error {
			return c.Query("SELECT body FROM item WHERE id = ?1", func(Row) error { return nil }, 1+i*7919%rows)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func openBench(b *testing.B) *File {
	b.Helper()
	f, err := Open(context.Background(), itemOptions(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := f.Close(); err != nil {
			b.Error(err)
		}
	})
	return f
}

// share spreads b.N calls over goroutines.
func share(b *testing.B, goroutines int, call func(i int) error) {
	b.Helper()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < b.N; i += goroutines {
				if err := call(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
