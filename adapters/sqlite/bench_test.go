package sqlite

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

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

// What an operator does with letters costs the same whether there are 200 of them or 200,000.
func BenchmarkLetters(b *testing.B) {
	for _, n := range []int{200, 10_000, 200_000} {
		path := filepath.Join(b.TempDir(), "storage.sqlite")
		s := open(b, Options{Path: path})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		plantLetters(b, path, n, 1)
		s = open(b, Options{Path: path, Log: slog.New(slog.DiscardHandler)})
		page := func(query types.LetterQuery) func(int) error {
			query.Take = 100
			return func(int) error {
				letters, err := s.ListDeadLetters(b.Context(), "p0", query)
				if err == nil && len(letters) != 100 {
					err = fmt.Errorf("%d letters", len(letters))
				}
				return err
			}
		}
		id := func() types.MatchID { return fixture.MatchID(1 + rand.IntN(n)) }
		next := n
		for _, bench := range []struct {
			name      string
			operation func(int) error
		}{
			{"page=front", page(types.LetterQuery{})},
			{"page=middle", page(types.LetterQuery{Skip: n/2 - 50})},
			{"page=end", page(types.LetterQuery{Skip: n - 100})},
			{"page=after", page(types.LetterQuery{After: int64(n - 100)})},
			{"get", func(int) error {
				_, found, err := s.GetDeadLetter(b.Context(), "p0", id())
				if err == nil && !found {
					err = fmt.Errorf("a letter is gone")
				}
				return err
			}},
			{"count", func(int) error {
				_, err := s.CountDeadLetters(b.Context())
				return err
			}},
			{"update", func(i int) error {
				letter := fixture.DeadLetter(i)
				letter.MatchID = id()
				_, err := s.UpdateDeadLetter(b.Context(), "p0", letter)
				return err
			}},
			{"record", func(int) error {
				next++
				return s.RecordDeadLetter(b.Context(), "p0", fixture.DeadLetter(next))
			}},
			// A letter is put back after each, so that there are always as many; both are counted.
			{"discard+record", func(int) error {
				id := fixture.MatchID(next)
				if _, err := s.DeleteDeadLetter(b.Context(), "p0", id); err != nil {
					return err
				}
				return s.RecordDeadLetter(b.Context(), "p0", fixture.DeadLetter(next))
			}},
		} {
			b.Run(fmt.Sprintf("letters=%d/%s", n, bench.name), func(b *testing.B) { share(b, 1, bench.operation) })
		}
		b.Run(fmt.Sprintf("letters=%d/open", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				s = open(b, Options{Path: path, Log: slog.New(slog.DiscardHandler)})
			}
		})
	}
}

// BenchmarkCountDeliveries counts full journals, as each scrape of the metrics does.
func BenchmarkCountDeliveries(b *testing.B) {
	const pipelines, batch, batches = 8, 8192, 4
	s := open(b, Options{Log: slog.New(slog.DiscardHandler), JournalDepth: 1 << 40})
	for p := range pipelines {
		for i := range batches {
			deliveries := make([]types.Delivery, batch)
			for j := range deliveries {
				deliveries[j] = fixture.Delivery(i*batch + j)
			}
			if err := s.RecordDeliveries(b.Context(), stepPipeline(p), deliveries); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run(fmt.Sprintf("entries=%d", pipelines*batch*batches), func(b *testing.B) {
		for b.Loop() {
			counts, err := s.CountDeliveries(b.Context())
			if err != nil || len(counts) != pipelines || counts[0].Count != batch*batches {
				b.Fatal(counts, err)
			}
		}
	})
}

// A step of a pipeline as it is taken, against the same rows written one statement a transaction, which
// is what a store without Apply would do, and against one transaction a step with nobody sharing it.
func BenchmarkApply(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers=%d/as=apply", callers), func(b *testing.B) {
			s := open(b, Options{Log: slog.New(slog.DiscardHandler)})
			share(b, callers, func(i int) error { return s.Apply(b.Context(), stepPipeline(i%callers), step(i)) })
		})
		b.Run(fmt.Sprintf("callers=%d/as=transaction", callers), func(b *testing.B) {
			s := open(b, Options{Log: slog.New(slog.DiscardHandler)})
			var alone sync.Mutex // so that no two steps share a commit
			share(b, callers, func(i int) error {
				alone.Lock()
				defer alone.Unlock()
				return s.Apply(b.Context(), stepPipeline(i%callers), step(i))
			})
		})
	}
	b.Run("callers=1/as=calls", func(b *testing.B) {
		s := open(b, Options{Log: slog.New(slog.DiscardHandler)})
		ctx := b.Context()
		share(b, 1, func(i int) error {
			p, pipeline := step(i), stepPipeline(0)
			err := s.SaveCheckpoint(ctx, pipeline, *p.Checkpoint)
			if err == nil {
				err = s.RecordDeliveries(ctx, pipeline, p.Deliveries)
			}
			if err == nil {
				_, err = s.DeleteDeadLetters(ctx, pipeline, p.Settled)
			}
			if err == nil {
				err = s.RecordDeadLetter(ctx, pipeline, p.DeadLetters[0])
			}
			if err == nil {
				err = s.AppendHits(ctx, pipeline, p.Hits)
			}
			if err == nil {
				err = s.DeleteHitsBefore(ctx, pipeline, *p.HitsBefore)
			}
			if err == nil {
				err = s.SetGateMeta(ctx, pipeline, p.Metas[0].Monitor, p.Metas[0].Meta)
			}
			return err
		})
	})
	b.Run("callers=64/as=apply/in=memory", func(b *testing.B) {
		s := open(b, Options{Path: sqlitefile.InMemory, Log: slog.New(slog.DiscardHandler)})
		share(b, 64, func(i int) error { return s.Apply(b.Context(), stepPipeline(i%64), step(i)) })
	})
}

func BenchmarkResource(b *testing.B) {
	s := open(b, Options{Log: slog.New(slog.DiscardHandler)})
	value := []byte(`{"when":"mag >= 4.5","sinks":["alerts"]}`)
	var resources []types.Resource
	for i := range 1000 {
		resources = append(resources, types.Resource{Kind: "monitor", ID: fmt.Sprintf("m%04d", i), Value: value})
	}
	if err := s.PutResources(b.Context(), resources); err != nil {
		b.Fatal(err)
	}
	b.Run("get", func(b *testing.B) {
		share(b, 1, func(i int) error {
			_, _, err := s.GetResource(b.Context(), "monitor", resources[i%1000].ID)
			return err
		})
	})
	b.Run("list=100", func(b *testing.B) {
		share(b, 1, func(int) error {
			_, err := s.ListResources(b.Context(), "monitor", types.ResourceListOptions{After: "m0500", Limit: 100})
			return err
		})
	})
	version := uint64(1)
	b.Run("put", func(b *testing.B) {
		share(b, 1, func(int) (err error) {
			version, err = s.PutResource(b.Context(), "monitor", "m0000", value, version)
			return err
		})
	})
}
