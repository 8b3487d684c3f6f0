package localqueue

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// storedRow is a row as it stands in the file.
type storedRow struct {
	id, enqueued, visible, attempt int64
	receipt                        string
}

func storedRows(t *testing.T, q *Queue) []storedRow {
	t.Helper()
	var rows []storedRow
	require.NoError(t, q.file.Read(t.Context(), "look", func(c *sqlitefile.Conn) error {
		return c.Query("SELECT id, enqueued_at, visible_at, attempt, receipt_handle FROM messages ORDER BY enqueued_at, id", func(r sqlitefile.Row) error {
			rows = append(rows, storedRow{r.Int64(0), r.Int64(1), r.Int64(2), r.Int64(3), r.Text(4)})
			return nil
		})
	}))
	return rows
}

// requireIndexMatchesFile asserts that what the queue knows is what the file holds.
func requireIndexMatchesFile(t *testing.T, q *Queue) {
	t.Helper()
	stored := storedRows(t, q)
	require.NoError(t, q.stepOne(t.Context(), "look", func(s *step) error {
		x := s.x
		visible, inFlight, delayed, plain := 0, 0, 0, 0
		for _, row := range stored {
			k := x.rows.get(row.id)
			switch {
			case row.visible <= s.now:
				visible++
			case row.receipt != "":
				inFlight++
			default:
				delayed++
			}
			if k == nil {
				plain++
				require.Equal(t, row.enqueued, row.visible, "row %d is not plain, and unknown", row.id)
				require.True(t, row.visible > x.mark.visible || row.visible == x.mark.visible && row.id > x.mark.id, "plain row %d lies before the mark", row.id)
				continue
			}
			require.Equal(t, [3]int64{row.id, row.enqueued, row.visible}, [3]int64{k.id, k.enqueued, k.visible})
			require.Equal(t, row.receipt != "", k.receipt, "receipt of row %d", row.id)
			require.Equal(t, row.visible > s.now, k.hidden, "row %d", row.id)
		}
		require.EqualValues(t, plain, x.plain)
		require.Equal(t, len(stored)-plain, x.rows.len())
		require.EqualValues(t, visible, x.visible())
		require.Equal(t, inFlight, x.rows.inFlight)
		require.Equal(t, delayed, x.rows.hidden.len()-x.rows.inFlight)
		for _, h := range []*heap{&x.rows.due, &x.rows.hidden, &x.rows.aged} {
			for place := range h.slots {
				require.EqualValues(t, place, *h.place(h.at(uint32(place))))
				require.False(t, place > 0 && h.less(h.at(uint32(place)), h.at(uint32(place-1)/2)))
			}
		}
		return nil
	}))
}

var errPlanned = errors.New("a planned failure")

// A random history of operations, in which every fourth fails: by itself after it has done its work,
// or with its whole transaction. What the queue knows is what the file holds after each, and what is
// received is always the least of (enqueued_at, id) that is due.
func TestIndexMatchesFileAfterEveryStepAndFailure(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			clock := fixture.NewClock(fixture.Epoch())
			dir := t.TempDir()
			open := func() *Queue {
				return openQueue(t, Options{Dir: dir, Clock: clock, Durability: sqlitefile.DurabilityNormal})
			}
			q := open()
			var receipts []string
			for range 300 {
				fail := func(s *step) error {
					switch random.IntN(8) {
					case 0:
						return errPlanned
					case 1:
						_, err := s.Exec("ROLLBACK") // ends the transaction with everyone in it
						return err
					}
					return nil
				}
				receipt := "1:6f1c9a52-8d3e-4b7a-9c01-000000000000"
				if len(receipts) > 0 {
					receipt = receipts[random.IntN(len(receipts))]
				}
				var err error
				switch random.IntN(12) {
				case 0, 1, 2:
					n := random.IntN(4)
					err = q.step(t.Context(), "send", func(s *step) error {
						for range n {
							if err := s.send(fixture.JSON(1), int64(random.IntN(2)*random.IntN(3000))); err != nil {
								return err
							}
						}
						return fail(s)
					})
				case 3, 4, 5:
					rows := storedRows(t, q)
					var messages []types.Message
					var now int64
					check := ports.ReceiveCheck{Max: 1 + random.IntN(10), LeaseMillis: int64(1000 + random.IntN(4000))}
					err = q.step(t.Context(), "receive", func(s *step) error {
						now = s.now
						messages = nil
						var spent []DeadLetter
						if err := s.claim(check, &messages, &spent); err != nil {
							return err
						}
						return fail(s)
					})
					rows = slices.DeleteFunc(rows, func(r storedRow) bool { return r.visible > now })
					slices.SortFunc(rows, func(a, b storedRow) int {
						return cmp.Or(cmp.Compare(a.enqueued, b.enqueued), cmp.Compare(a.id, b.id))
					})
					require.Len(t, messages, min(check.Max, len(rows)))
					for i, m := range messages {
						id, _, _ := ports.ParseReceipt(m.Receipt)
						require.Equal(t, rows[i].id, id, "the order of the queue")
						require.Equal(t, rows[i].attempt+1, m.Attempt)
						if err == nil {
							receipts = append(receipts, m.Receipt)
						}
					}
				case 6, 7:
					err = q.step(t.Context(), "ack", func(s *step) error {
						if _, err := s.ack("ack", receipt); err != nil {
							return err
						}
						return fail(s)
					})
				case 8, 9:
					after, keep := int64(random.IntN(3)*1500), random.IntN(2) == 0
					err = q.step(t.Context(), "move", func(s *step) error {
						if _, err := s.move("move", receipt, after, keep || after == 0); err != nil {
							return err
						}
						return fail(s)
					})
				case 10:
					if random.IntN(20) == 0 {
						err = q.step(t.Context(), "purge", func(s *step) error { return errors.Join(s.purge(), fail(s)) })
					}
					if random.IntN(5) == 0 {
						require.NoError(t, q.Close())
						q = open()
					}
				case 11:
					clock.Advance(time.Duration(random.IntN(2000)) * time.Millisecond)
					_, err = q.Peek(t.Context(), types.PeekOptions{Max: 5})
				}
				if err != nil && !errors.Is(err, errPlanned) {
					require.ErrorContains(t, err, "the transaction ended inside the operation")
				}
				requireIndexMatchesFile(t, q)
			}
		})
	}
}

// Rows that another writer left in any order and state come out in the order of (enqueued_at, id).
func TestOddlyWrittenRowsKeepTheOrder(t *testing.T) {
	t.Parallel()
	now := fixture.Epoch().UnixMilli()
	random := rand.New(rand.NewPCG(7, 7))
	var rows []planted
	for range 500 {
		enqueued := now - int64(random.IntN(50))
		visible := enqueued
		switch random.IntN(4) {
		case 0:
			visible = now - int64(random.IntN(60))
		case 1:
			visible = now + 1 + int64(random.IntN(1000))
		}
		attempt, receipt := 0, "NULL"
		if random.IntN(3) == 0 {
			attempt, receipt = 1, "'6f1c9a52-8d3e-4b7a-9c01-0123456789ab'"
		}
		rows = append(rows, planted{"'text'", "'t'", fmt.Sprint(enqueued), fmt.Sprint(visible), fmt.Sprint(attempt), receipt})
	}
	dir := t.TempDir()
	plant(t, dir, rows...)
	clock := fixture.NewClock(fixture.Epoch())
	q := openQueue(t, Options{Dir: dir, Clock: clock})
	requireIndexMatchesFile(t, q)

	want := storedRows(t, q)
	want = slices.DeleteFunc(want, func(r storedRow) bool { return r.visible > now })
	for len(want) > 0 {
		n := 1 + random.IntN(10)
		messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: n})
		require.NoError(t, err)
		require.Len(t, messages, min(n, len(want)))
		for _, m := range messages {
			id, _, _ := ports.ParseReceipt(m.Receipt)
			require.Equal(t, want[0].id, id)
			want = want[1:]
		}
		requireIndexMatchesFile(t, q)
	}
}

// No send gives an id below 1, and somebody else's insert may.
func TestRowsOfAnyIDAreDelivered(t *testing.T) {
	t.Parallel()
	for name, visible := range map[string]int64{"as never received": 1, "as nacked": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []int64{math.MinInt64, math.MinInt64 + 1, -5, 0, 7}
			dir := t.TempDir()
			file := openRaw(t, dir)
			require.NoError(t, file.Write(t.Context(), "plant", func(tx *sqlitefile.Tx) error {
				for _, id := range want {
					if _, err := tx.Exec("INSERT INTO messages (id, payload_type, payload_data, enqueued_at, visible_at) VALUES (?1, 'text', 't', 1, ?2)", id, visible); err != nil {
						return err
					}
				}
				return nil
			}))
			require.NoError(t, file.Close())
			q := openQueue(t, Options{Dir: dir})
			stats, err := q.Stats(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, len(want), stats.Visible)
			for _, id := range want {
				messages, err := q.Receive(t.Context(), types.ReceiveOptions{})
				require.NoError(t, err)
				require.Len(t, messages, 1)
				got, _, ok := ports.ParseReceipt(messages[0].Receipt)
				require.True(t, ok)
				require.Equal(t, id, got)
				require.NoError(t, q.Ack(t.Context(), messages[0].Receipt))
			}
			stats, err = q.Stats(t.Context())
			require.NoError(t, err)
			require.Zero(t, stats)
		})
	}
}
