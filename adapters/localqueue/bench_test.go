package localqueue

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// sizes are the backlogs of the benchmarks.
var sizes = []int{100, 100_000, 1_000_000}

// state is what the messages of a backlog are.
type state string

const (
	due     state = "due"     // sent and never received
	leased  state = "leased"  // received, their leases running
	expired state = "expired" // received, their leases over
)

// fill writes a backlog of n small messages into a new queue in dir, beneath the port: what sending
// and receiving them would have left there at the time now.
func fill(tb testing.TB, dir string, n int, of state, now time.Time) {
	tb.Helper()
	file := openRaw(tb, dir)
	sent := now.Add(-time.Duration(n) * time.Millisecond).UnixMilli() // one a millisecond
	visible, attempt := "?1 + i", 0
	switch of {
	case leased:
		visible, attempt = "?1 + i + 3600000 + ?2", 1
	case expired:
		visible, attempt = "?1 + i + 1", 1
	}
	err := file.Write(tb.Context(), "fill", func(tx *sqlitefile.Tx) error {
		_, err := tx.Exec(fmt.Sprintf(`WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i + 1 < ?2)
INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt, receipt_handle)
SELECT 'json', '{"n":' || i || '}', ?1 + i, %s, %d, CASE %[2]d WHEN 1 THEN '6f1c9a52-8d3e-4b7a-9c01-' || printf('%%012x', i) END FROM c`, visible, attempt), sent, n)
		return err
	})
	require.NoError(tb, err)
	require.NoError(tb, file.Close())
}

// openRaw opens the file of a queue beneath the port, to look at rows or to plant odd ones.
func openRaw(tb testing.TB, dir string) *sqlitefile.File {
	tb.Helper()
	file, err := sqlitefile.Open(tb.Context(), sqlitefile.Options{
		Path:    filepath.Join(dir, databaseName),
		Schema:  schema(),
		Kind:    kind,
		Failure: "QUEUE_OPERATION_FAILED",
		Log:     fixture.Logger(tb),
	})
	require.NoError(tb, err)
	return file
}

func openQueue(tb testing.TB, o Options) *Queue {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	if o.Log == nil {
		o.Log = fixture.Logger(tb)
	}
	q, err := Open(context.WithoutCancel(tb.Context()), o)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, q.Close()) })
	return q
}

func BenchmarkSend(b *testing.B) {
	for _, producers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			q := openQueue(b, Options{})
			inParallel(b, producers, func(i int) error {
				return q.Send(b.Context(), fixture.JSON(i), types.SendOptions{})
			})
		})
	}
}

// BenchmarkSendAlone is what BenchmarkSend is measured against: each send a transaction of its own,
// on one connection.
func BenchmarkSendAlone(b *testing.B) {
	file := openRaw(b, b.TempDir())
	for b.Loop() {
		err := file.Write(b.Context(), "send", func(tx *sqlitefile.Tx) error {
			_, err := tx.Exec(sqlSend, "json", `{"n":1}`, time.Now().UnixMilli())
			return err
		})
		require.NoError(b, err)
	}
	require.NoError(b, file.Close())
}

func BenchmarkSendBatch(b *testing.B) {
	q := openQueue(b, Options{})
	batch := make([]types.Payload, 10)
	for i := range batch {
		batch[i] = fixture.JSON(i)
	}
	inParallel(b, 8, func(int) error {
		_, err := q.SendBatch(b.Context(), batch)
		return err
	})
	b.ReportMetric(float64(b.N)*10/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkSendBulk stores 500 messages, as one bulk and as the batches that it stands for.
func BenchmarkSendBulk(b *testing.B) {
	payloads := make([]types.Payload, 500)
	for i := range payloads {
		payloads[i] = fixture.JSON(i)
	}
	for _, c := range []struct {
		name string
		send func(*Queue) error
	}{
		{"one bulk", func(q *Queue) error {
			_, err := q.SendBulk(b.Context(), payloads)
			return err
		}},
		{"50 batches", func(q *Queue) error {
			for batch := range slices.Chunk(payloads, ports.MaxBatch) {
				if _, err := q.SendBatch(b.Context(), batch); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := openQueue(b, Options{})
			for b.Loop() {
				require.NoError(b, c.send(q))
			}
			b.ReportMetric(float64(b.N)*float64(len(payloads))/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkReceive receives one message and acks it, while a backlog waits.
func BenchmarkReceive(b *testing.B) {
	for _, of := range []state{due, leased, expired} {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("backlog=%d/%s", size, of), func(b *testing.B) {
				dir := b.TempDir()
				fill(b, dir, size, of, time.Now())
				q := openQueue(b, Options{Dir: dir, Durability: sqlitefile.DurabilityNormal})
				for b.Loop() {
					// One goes and one comes, so that the backlog stays.
					require.NoError(b, q.Send(b.Context(), fixture.JSON(1), types.SendOptions{}))
					messages, err := q.Receive(b.Context(), types.ReceiveOptions{Max: 1})
					require.NoError(b, err)
					require.NoError(b, q.Ack(b.Context(), messages[0].Receipt))
				}
			})
		}
	}
}

func BenchmarkStats(b *testing.B) {
	for _, of := range []state{due, leased} {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("backlog=%d/%s", size, of), func(b *testing.B) {
				dir := b.TempDir()
				fill(b, dir, size, of, time.Now())
				q := openQueue(b, Options{Dir: dir})
				for b.Loop() {
					_, err := q.Stats(b.Context())
					require.NoError(b, err)
				}
			})
		}
	}
}

// BenchmarkOpen fills the index in memory.
func BenchmarkOpen(b *testing.B) {
	for _, of := range []state{due, leased} {
		b.Run(fmt.Sprintf("backlog=1000000/%s", of), func(b *testing.B) {
			dir := b.TempDir()
			fill(b, dir, 1_000_000, of, time.Now())
			for b.Loop() {
				q, err := Open(b.Context(), Options{Dir: dir, Log: fixture.Logger(b)})
				require.NoError(b, err)
				require.NoError(b, q.Close())
			}
		})
	}
}

// BenchmarkFlow has producers and consumers at work at the same time: a message is sent, received
// and acked.
func BenchmarkFlow(b *testing.B) {
	for _, workers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("producers=%d/consumers=%d", workers, workers), func(b *testing.B) {
			q := openQueue(b, Options{})
			var acked atomic.Int64
			done := make(chan error, workers)
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			for range workers {
				go func() {
					for {
						messages, err := q.Receive(ctx, types.ReceiveOptions{Max: 10, Wait: 20 * time.Second})
						if ctx.Err() != nil {
							done <- nil
							return
						}
						for _, m := range messages {
							if err == nil {
								err = q.Ack(context.WithoutCancel(ctx), m.Receipt)
							}
							if acked.Add(1) == int64(b.N) {
								stop()
							}
						}
						if err != nil {
							done <- err
							return
						}
					}
				}()
			}
			inParallel(b, workers, func(i int) error { return q.Send(b.Context(), fixture.JSON(i), types.SendOptions{}) })
			for range workers {
				require.NoError(b, <-done)
			}
		})
	}
}

// inParallel shares b.N calls among workers.
func inParallel(b *testing.B, workers int, call func(i int) error) {
	b.Helper()
	var next atomic.Int64
	failed := make(chan error, workers)
	b.ResetTimer()
	for range workers {
		go func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					failed <- nil
					return
				}
				if err := call(int(i)); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	for range workers {
		require.NoError(b, <-failed)
	}
}
