package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/flaky"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// openSource opens a source of the queue "orders"; the test closes it.
func openSource(t testing.TB, queue ports.Queue, from *types.Cursor, config string) ports.Source {
	t.Helper()
	env := fixture.Env(t, "orders", ports.SystemClock())
	source, err := pipeline.QueueSourceModule().Open(t.Context(), env, keys("queue = \"orders\"\n"+config), from, queues{"orders": queue})
	require.NoError(t, err)
	t.Cleanup(func() { source.Close() }) // what it says is the matter of the tests that close it
	return source
}

// realQueue lives by the time of the bubble that it is made in.
func realQueue() *model.Queue { return model.NewQueue(ports.SystemClock()) }

// fill sends so many messages, numbered.
func fill(t testing.TB, queue ports.BulkSender, n int) {
	t.Helper()
	payloads := make([]types.Payload, n)
	for i := range payloads {
		payloads[i] = fixture.JSON(i)
	}
	for part := range slices.Chunk(payloads, ports.MaxBulk) {
		_, err := queue.SendBulk(t.Context(), part)
		require.NoError(t, err)
	}
}

func read(t testing.TB, source ports.Source, limit int) []types.Event {
	t.Helper()
	events, err := source.Read(t.Context(), limit)
	require.NoError(t, err)
	return events
}

func counts(t testing.TB, queue ports.Queue) (visible, inFlight int64) {
	t.Helper()
	stats, err := queue.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, stats.Delayed)
	return stats.Visible, stats.InFlight
}

func requireCounts(t testing.TB, queue ports.Queue, visible, inFlight int64) {
	t.Helper()
	gotVisible, gotInFlight := counts(t, queue)
	require.Equal(t, [2]int64{visible, inFlight}, [2]int64{gotVisible, gotInFlight}, "visible and in flight")
}

func TestQueueSourceMakesEventsOfMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		queue := realQueue()
		sent := time.Now().UnixMilli()
		want := []types.Event{}
		for i, c := range []struct {
			payload types.Payload
			data    string
			trace   string
		}{
			{types.JSON([]byte(` { "mag" : 4.50 } `)), `{"mag":4.50}`, ""},
			{types.JSON([]byte(`[1]`)), `[1]`, ""},
			{types.Text("a <b> \"c\"\n"), `"a <b> \"c\"\n"`, ""},
			{types.Text(""), `""`, ""},
			{types.JSON([]byte(`{"traceparent":"` + trace + `","a":1}`)), `{"traceparent":"` + trace + `","a":1}`, trace},
			{types.JSON([]byte(`{"traceparent":"other"}`)), `{"traceparent":"other"}`, ""},
			{types.JSON([]byte(`{"traceparent":1}`)), `{"traceparent":1}`, ""},
			{types.JSON([]byte(`{"Traceparent":"` + trace + `","a":"traceparent"}`)), `{"Traceparent":"` + trace + `","a":"traceparent"}`, ""},
			{types.JSON([]byte(`["traceparent"]`)), `["traceparent"]`, ""},
			{types.JSON([]byte(`{"a":{"traceparent":"` + trace + `"}}`)), `{"a":{"traceparent":"` + trace + `"}}`, ""},
			{types.Text(`{"traceparent":"` + trace + `"}`), `"{\"traceparent\":\"` + trace + `\"}"`, ""},
		} {
			require.NoError(t, queue.Send(t.Context(), c.payload, types.SendOptions{}))
			want = append(want, types.Event{
				Cursor: types.Cursor{Primary: uint64(8 + i)}, ID: fmt.Sprintf("%d-%d", i+1, sent), TS: sent,
				Data: json.RawMessage(c.data), Traceparent: c.trace,
			})
		}
		pass(time.Minute)
		source := openSource(t, queue, &types.Cursor{Primary: 7, Secondary: 3}, "")
		require.Equal(t, want, read(t, source, 100))
		require.True(t, source.(ports.Unordered).Unordered())

		require.NoError(t, source.Close())
		again := read(t, openSource(t, queue, nil, ""), 1)
		require.Equal(t, want[0].ID, again[0].ID, "the same event bears its ID again")
		require.Equal(t, types.Cursor{Primary: 1}, again[0].Cursor)
	})
}

func TestQueueSourceReadsInOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sent, limit, want int }{
		{1, 1, 1}, {9, 100, 9}, {10, 10, 10}, {10, 100, 10}, {25, 7, 7}, {25, 13, 13}, {25, 1000, 25}, {600, 500, 500}, {1000, 10_000, 1000},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.limit, c.sent), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				queue := realQueue()
				fill(t, queue, c.sent)
				events := read(t, openSource(t, queue, nil, ""), c.limit)
				require.Len(t, events, c.want)
				for i, e := range events {
					require.Equal(t, uint64(i+1), e.Cursor.Primary)
					require.JSONEq(t, fmt.Sprintf(`{"n":%d}`, i), string(e.Data))
				}
				requireCounts(t, queue, int64(c.sent-c.want), int64(c.want))
			})
		})
	}
}

func TestQueueSourceWaitsForMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queue := realQueue()
		source := openSource(t, queue, nil, "")
		for _, after := range []time.Duration{0, time.Second, ports.MaxWait, time.Hour} {
			started := time.Now()
			go func() {
				pass(after)
				fill(t, queue, 1)
			}()
			require.Len(t, read(t, source, 10), 1)
			require.Equal(t, after, time.Since(started))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := source.Read(ctx, 10)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = source.Read(ctx, 10)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fill(t, queue, 1)
		require.Len(t, read(t, source, 10), 1, "nothing was lost")
	})
}

func TestQueueSourceKeepsWhatItHas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queue := realQueue()
		fill(t, queue, 30)
		source := openSource(t, queue, nil, `lease = "1s"`)
		events := read(t, source, 30)
		for range 40 {
			pass(500 * time.Millisecond)
			requireCounts(t, queue, 0, 30)
		}
		require.NoError(t, source.Settle(t.Context(), events[9].Cursor))
		requireCounts(t, queue, 0, 20)
		require.NoError(t, source.Settle(t.Context(), events[9].Cursor), "again")
		pass(20 * time.Second)
		requireCounts(t, queue, 0, 20)
		require.NoError(t, source.Settle(t.Context(), types.Cursor{Primary: 1000}))
		requireCounts(t, queue, 0, 0)
		require.NoError(t, source.Settle(t.Context(), types.Cursor{Primary: 1001}), "nothing is left")
	})
}

// endlessQueue delivers one message after the other. A renewal takes 10 milliseconds; one that comes when
// the lease has ended fails the test.
type endlessQueue struct {
	ports.Queue // of which the source uses what follows

	t       *testing.T
	mu      sync.Mutex
	last    int64
	leased  map[string]time.Time // by receipt; when
	renewed int
}

func (q *endlessQueue) Receive(_ context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	messages := make([]types.Message, opts.Max)
	for i := range messages {
		q.last++
		messages[i] = types.Message{Payload: types.Text("m"), Receipt: ports.FormatReceipt(q.last, "00000000-0000-4000-8000-000000000000"), EnqueuedAt: time.Now()}
		q.leased[messages[i].Receipt] = time.Now()
	}
	return messages, nil
}

func (q *endlessQueue) Renew(_ context.Context, receipt string, opts types.RenewOptions) error {
	pass(10 * time.Millisecond)
	q.mu.Lock()
	defer q.mu.Unlock()
	if age := time.Since(q.leased[receipt]); age >= opts.Lease {
		q.t.Errorf("the receipt %s is renewed %v after its lease of %v began", receipt, age, opts.Lease)
	}
	q.leased[receipt] = time.Now()
	q.renewed++
	return nil
}

func (q *endlessQueue) AckBatch(_ context.Context, receipts []string) ([]types.AckOutcome, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range receipts {
		delete(q.leased, r)
	}
	return make([]types.AckOutcome, len(receipts)), nil
}

func (q *endlessQueue) renewals() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.renewed
}

// A renewal may take its time, and there may be many: they go beside each other.
func TestQueueSourceRenewsTenThousand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many, lease = 10_000, 30 * time.Second
		queue := &endlessQueue{t: t, leased: map[string]time.Time{}}
		source := openSource(t, queue, nil, "")
		events := read(t, source, many)
		require.Len(t, events, many)
		pass(2*lease - 2*time.Second)
		queue.mu.Lock()
		for receipt, since := range queue.leased {
			require.Less(t, time.Since(since), lease, receipt)
		}
		queue.mu.Unlock()
		renewed := queue.renewals()
		require.GreaterOrEqual(t, renewed, 2*many)
		require.LessOrEqual(t, renewed, 5*many, "no more often than needed")
		require.NoError(t, source.Settle(t.Context(), events[many-1].Cursor))
		require.Empty(t, queue.leased)
		pass(time.Hour)
		require.Equal(t, renewed, queue.renewals(), "nothing is left to renew")
	})
}

var errQueueDown = ports.Errorf(ports.CodeQueueOperationFailed, "test.queue", "the disk is away").WithReason(ports.ReasonUnavailable)

func TestQueueSourceBearsFailingRenewals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queue := realQueue()
		fill(t, queue, 20)
		faults := flaky.New(ports.SystemClock(), 1, flaky.Fault{Op: flaky.QueueRenew, Err: errQueueDown})
		var log strings.Builder
		env := ports.Env{Name: "orders", Clock: ports.SystemClock(), Log: slog.New(slog.NewTextHandler(&log, nil))}
		source, err := pipeline.QueueSourceModule().Open(t.Context(), env, keys(`queue = "orders"`), nil, queues{"orders": flaky.NewQueue(queue, faults)})
		require.NoError(t, err)
		read(t, source, 20)
		pass(25 * time.Second)
		faults.Clear()
		pass(time.Hour)
		requireCounts(t, queue, 0, 20)
		faults.Add(flaky.Fault{Op: flaky.QueueRenew, Limit: 50, Err: errQueueDown})
		pass(time.Hour)
		requireCounts(t, queue, 0, 20)
		require.NoError(t, source.Close())
		require.Equal(t, 2, strings.Count(log.String(), "does not take renewals"), "said once each time:\n%s", &log)
	})
}

// A message whose lease has ended is somebody else's: the source lets go of it, and goes on with the rest.
func TestQueueSourceLetsGoOfWhatOthersHave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queue := realQueue()
		fill(t, queue, 20)
		faults := flaky.New(ports.SystemClock(), 1, flaky.Fault{Op: flaky.QueueRenew, Err: errQueueDown})
		source := openSource(t, flaky.NewQueue(queue, faults), nil, "")
		events := read(t, source, 20)
		pass(30 * time.Second)
		others, err := queue.Receive(t.Context(), types.ReceiveOptions{Max: 5, Lease: time.Hour})
		require.NoError(t, err)
		require.Len(t, others, 5)
		faults.Clear()
		pass(5 * time.Minute)
		requireCounts(t, queue, 0, 20)
		require.NoError(t, source.Settle(t.Context(), events[19].Cursor))
		requireCounts(t, queue, 0, 5)
		for _, m := range others {
			require.NoError(t, queue.Ack(t.Context(), m.Receipt))
		}
		requireCounts(t, queue, 0, 0)
	})
}

// The same where it shows at the ack.
func TestQueueSourceAcksNothingOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queue := realQueue()
		fill(t, queue, 3)
		faults := flaky.New(ports.SystemClock(), 1, flaky.Fault{Op: flaky.QueueRenew, Err: errQueueDown})
		source := openSource(t, flaky.NewQueue(queue, faults), nil, "")
		events := read(t, source, 3)
		pass(30 * time.Second)
		others, err := queue.Receive(t.Context(), types.ReceiveOptions{Max: 1, Lease: time.Hour})
		require.NoError(t, err)
		require.Len(t, others, 1)
		require.NoError(t, source.Settle(t.Context(), events[2].Cursor))
		requireCounts(t, queue, 0, 1)
		require.NoError(t, source.Close())
		requireCounts(t, queue, 0, 1)
	})
}

func TestQueueSourceAcksLaterWhatFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queue := realQueue()
		fill(t, queue, 30)
		faults := flaky.New(ports.SystemClock(), 1)
		source := openSource(t, flaky.NewQueue(queue, faults), nil, "")
		events := read(t, source, 30)

		faults.Add(flaky.Fault{Op: flaky.QueueAckBatch, Limit: 1, Err: errQueueDown})
		require.ErrorIs(t, source.Settle(t.Context(), events[9].Cursor), errQueueDown)
		requireCounts(t, queue, 0, 30)
		require.NoError(t, source.Settle(t.Context(), events[10].Cursor), "the next one covers it")
		requireCounts(t, queue, 0, 19)

		faults.Add(flaky.Fault{Op: flaky.QueueAckBatch, Limit: 2, Err: errQueueDown, AfterEffect: true})
		require.ErrorIs(t, source.Settle(t.Context(), events[19].Cursor), errQueueDown)
		pass(10 * time.Second)
		requireCounts(t, queue, 0, 10)
		calls := faults.Calls(flaky.QueueAckBatch)
		pass(time.Hour)
		require.Equal(t, calls, faults.Calls(flaky.QueueAckBatch), "what was acked is not acked again")

		require.ErrorIs(t, source.Settle(fixture.Cancelled(t), events[24].Cursor), context.Canceled)
		pass(10 * time.Second)
		requireCounts(t, queue, 0, 5)

		faults.Add(flaky.Fault{Op: flaky.QueueAckBatch, Err: errQueueDown})
		require.ErrorIs(t, source.Settle(t.Context(), events[29].Cursor), errQueueDown)
		pass(time.Hour)
		requireCounts(t, queue, 5, 0)
		calls = faults.Calls(flaky.QueueAckBatch)
		require.Less(t, calls, 40, "tried until the lease ended: it comes again")
		again := read(t, source, 30)
		require.Equal(t, events[25].ID, again[0].ID)
		require.Greater(t, again[0].Cursor.Primary, events[29].Cursor.Primary)
		faults.Clear()
		require.NoError(t, source.Settle(t.Context(), again[4].Cursor))
		requireCounts(t, queue, 0, 0)
	})
}

// plainQueue is a queue without anything beyond the port.
type plainQueue struct{ ports.Queue }

// hangingAcks does not answer an ack before its context ends.
type hangingAcks struct{ *model.Queue }

func (q hangingAcks) AckBatch(ctx context.Context, _ []string) ([]types.AckOutcome, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestQueueSourceRenewsBesideAcksThatHang(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]time.Duration{
		"those of a settle":        time.Hour,
		"those it tries by itself": time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				queue := realQueue()
				fill(t, queue, 2)
				source := openSource(t, hangingAcks{queue}, nil, `lease = "30s"`)
				events := read(t, source, 10)
				require.Len(t, events, 2)
				ctx, cancel := context.WithTimeout(t.Context(), given)
				defer cancel()
				settled := make(chan error, 1)
				go func() { settled <- source.Settle(ctx, events[0].Cursor) }()
				pass(10 * time.Minute)
				requireCounts(t, queue, 1, 1) // the lease of what is settled has ended, that of the other goes on
				cancel()
				require.Error(t, <-settled)
				require.NoError(t, source.Close())
			})
		})
	}
}

func TestQueueSourceGivesBackWhatIsNotSettled(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]func(ports.Queue) ports.Queue{
		"by release": func(q ports.Queue) ports.Queue { return q },
		"by nacks":   func(q ports.Queue) ports.Queue { return plainQueue{q} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				queue := realQueue()
				fill(t, queue, 700)
				faults := flaky.New(ports.SystemClock(), 1)
				source := openSource(t, plain(flaky.NewQueue(queue, faults)), nil, "")
				events := read(t, source, 700)
				require.NoError(t, source.Settle(t.Context(), events[99].Cursor))
				faults.Add(flaky.Fault{Op: flaky.QueueAckBatch, Limit: 10, Err: errQueueDown})
				require.ErrorIs(t, source.Settle(t.Context(), events[199].Cursor), errQueueDown)
				require.NoError(t, source.Close())
				requireCounts(t, queue, 500, 0)
				require.NoError(t, source.Close())

				_, err := source.Read(t.Context(), 1)
				require.ErrorIs(t, err, ports.ErrStoreClosed)
				require.ErrorIs(t, source.Settle(t.Context(), events[299].Cursor), ports.ErrStoreClosed)
				pass(time.Hour)
				requireCounts(t, queue, 500, 0)
				next := read(t, openSource(t, queue, &events[199].Cursor, ""), 500)
				for i, e := range next {
					require.Equal(t, events[200+i].ID, e.ID)
				}
			})
		})
	}
}

func TestQueueSourceEndsReadsWhenItCloses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queue := realQueue()
		source := openSource(t, queue, nil, "")
		ended := make(chan error, 1)
		go func() {
			_, err := source.Read(t.Context(), 10)
			ended <- err
		}()
		synctest.Wait()
		require.NoError(t, source.Close())
		require.ErrorIs(t, <-ended, ports.ErrStoreClosed)
	})
}

// A receive that claims messages while the source is being closed gives them back.
func TestQueueSourceLosesNothingWhenItClosesInAReceive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queue := realQueue()
		fill(t, queue, 5)
		hold := make(chan struct{})
		faults := flaky.New(ports.SystemClock(), 1, flaky.Fault{Op: flaky.QueueReceive, Hold: hold})
		source := openSource(t, flaky.NewQueue(queue, faults), nil, "")
		ended := make(chan error, 1)
		go func() {
			_, err := source.Read(t.Context(), 10)
			ended <- err
		}()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- source.Close() }()
		synctest.Wait()
		close(hold)
		require.ErrorIs(t, <-ended, ports.ErrStoreClosed)
		require.NoError(t, <-closed)
		requireCounts(t, queue, 5, 0)
	})
}

func TestQueueSourceClosesInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, op := range []flaky.Op{flaky.QueueRelease, flaky.QueueReceive} {
			queue := realQueue()
			fill(t, queue, 5)
			faults := flaky.New(ports.SystemClock(), 1)
			source := openSource(t, flaky.NewQueue(queue, faults), nil, "")
			read(t, source, 5)
			hold := make(chan struct{})
			var reading sync.WaitGroup
			if op == flaky.QueueReceive {
				faults.Add(flaky.Fault{Op: op, Hold: hold}) // a disk that is stuck
				reading.Go(func() { source.Read(t.Context(), 5) })
			} else {
				faults.Add(flaky.Fault{Op: op, Delay: time.Hour})
			}
			synctest.Wait()
			started := time.Now()
			err := source.Close()
			require.ErrorContains(t, err, "its lease of 30s ends", op)
			require.Equal(t, 5*time.Second, time.Since(started), op)
			close(hold)
			reading.Wait()
			pass(30 * time.Second)
			requireCounts(t, queue, 5, 0)
		}
	})
}

func TestQueueSourceReportsAQueueThatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, err := pipeline.QueueSourceModule().Open(t.Context(), fixture.Env(t, "orders", ports.SystemClock()), keys(`queue = "orders"`), nil, queues{})
		require.NoError(t, err, "opening looks nothing up")
		_, err = source.Read(t.Context(), 1)
		require.ErrorIs(t, err, ports.ErrNotFound)
		require.NoError(t, source.Settle(t.Context(), types.Cursor{Primary: 1}))
		require.NoError(t, source.Close())

		owner := model.NewOwner(ports.SystemClock(), "orders")
		queue, err := owner.Queue(t.Context(), "orders")
		require.NoError(t, err)
		require.NoError(t, queue.Send(t.Context(), types.Text("m"), types.SendOptions{}))
		source = openSource(t, queue, nil, "")
		events := read(t, source, 1)
		go func() {
			pass(time.Minute)
			if err := owner.Delete(context.WithoutCancel(t.Context()), "orders"); err != nil {
				t.Error(err)
			}
		}()
		_, err = source.Read(t.Context(), 1)
		require.ErrorIs(t, err, ports.ErrRevoked)
		require.ErrorIs(t, source.Settle(t.Context(), events[0].Cursor), ports.ErrRevoked)
		require.ErrorIs(t, source.Close(), ports.ErrRevoked)
	})
}

// foreign is a queue whose receipts have a form of their own.
type foreign struct{ ports.Queue }

func (f foreign) Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	messages, err := f.Queue.Receive(ctx, opts)
	for i := range messages {
		messages[i].Receipt = "foreign/" + messages[i].Receipt
	}
	return messages, err
}

func (f foreign) AckBatch(ctx context.Context, receipts []string) ([]types.AckOutcome, error) {
	own := make([]string, len(receipts))
	for i, r := range receipts {
		own[i] = strings.TrimPrefix(r, "foreign/")
	}
	return f.Queue.AckBatch(ctx, own)
}

func TestQueueSourceTakesReceiptsOfAnyForm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queue := realQueue()
		fill(t, queue, 100)
		source := openSource(t, foreign{queue}, nil, "")
		events := read(t, source, 50)
		require.Len(t, events, 50)
		for i, e := range events {
			require.JSONEq(t, fmt.Sprintf(`{"n":%d}`, i), string(e.Data), "the order of the queue")
			require.True(t, strings.HasPrefix(e.ID, fmt.Sprintf("foreign/%d:", i+1)), e.ID)
		}
		require.NoError(t, source.Settle(t.Context(), events[49].Cursor))
		requireCounts(t, queue, 50, 0)
	})
}

// An error beside messages does not take them away: it comes with the next call.
func TestQueueSourceKeepsMessagesBesideAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queue := realQueue()
		fill(t, queue, 100)
		faults := flaky.New(ports.SystemClock(), 1, flaky.Fault{Op: flaky.QueueReceive, Nth: 3, Err: errQueueDown})
		source := openSource(t, flaky.NewQueue(queue, faults), nil, "")
		events := read(t, source, 100)
		require.Len(t, events, 80, "one of the receives beside each other failed")
		faults.Add(flaky.Fault{Op: flaky.QueueReceive, Nth: 1, Err: errQueueDown})
		_, err := source.Read(t.Context(), 100)
		require.ErrorIs(t, err, errQueueDown)
		require.Len(t, read(t, source, 100), 20)
	})
}

func TestQueueSourceChecksItsInput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source := openSource(t, realQueue(), nil, "")
		for _, limit := range []int{-1, 0, ports.MaxReadEvents + 1} {
			_, err := source.Read(t.Context(), limit)
			require.ErrorIs(t, err, ports.ErrInvalidInput)
		}
		_, err := source.Read(fixture.Cancelled(t), 1)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ports.ErrStoreClosed)
	})
}

func TestQueueSourceRefusesConfigurations(t *testing.T) {
	t.Parallel()
	module := pipeline.QueueSourceModule()
	for name, c := range map[string]struct {
		config ports.ModuleConfig
		queues ports.QueueResolver
		says   string
	}{
		"the key is missing":       {fixture.NoConfig{}, queues{}, `queue = "orders"`},
		"no name of a queue":       {keys(`queue = "../orders"`), queues{}, "the key queue names no queue"},
		"an unknown key":           {keys("queue = \"orders\"\nqueues = 1"), queues{}, ""},
		"no lease":                 {keys("queue = \"orders\"\nlease = \"0s\""), queues{}, "the lease is 0s"},
		"too short":                {keys("queue = \"orders\"\nlease = \"999ms\""), queues{}, "give 1s to 12h0m0s"},
		"too long":                 {keys("queue = \"orders\"\nlease = \"12h1ms\""), queues{}, "give 1s to 12h0m0s"},
		"a program without queues": {keys(`queue = "orders"`), nil, `the queue "orders" cannot be found`},
	} {
		env := fixture.Env(t, "orders", ports.SystemClock())
		source, err := module.Open(t.Context(), env, c.config, nil, c.queues)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, name)
		require.Nil(t, source, name)
		require.ErrorContains(t, err, c.says, name)
		if c.queues != nil {
			require.EqualError(t, module.Check(env, c.config), err.Error(), name)
		}
	}
	_, err := module.Open(t.Context(), fixture.Env(t, "orders", ports.SystemClock()), keys(`queue = "orders"`), &types.Cursor{Primary: ports.MaxStoredInteger}, queues{})
	require.ErrorIs(t, err, ports.ErrUndecodable)
}

func TestTheExampleOfTheQueueSourceWorks(t *testing.T) {
	t.Parallel()
	module := pipeline.QueueSourceModule()
	require.Equal(t, pipeline.QueueSourceName, module.Name)
	require.NotEmpty(t, module.Description)
	var example struct {
		Queue    map[string]any
		Pipeline []struct {
			ID     string
			Source map[string]any
		}
	}
	require.NoError(t, toml.Unmarshal([]byte(module.Example), &example))
	settings := example.Pipeline[0].Source
	require.Equal(t, pipeline.QueueSourceName, settings["module"])
	require.Contains(t, example.Queue, settings["queue"])
	delete(settings, "module")
	text, err := toml.Marshal(settings)
	require.NoError(t, err)
	require.NoError(t, module.Check(fixture.Env(t, "orders", ports.SystemClock()), keys(text)))
}
