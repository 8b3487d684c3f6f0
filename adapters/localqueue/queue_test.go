package localqueue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

func texts(messages []types.Message) []string {
	var list []string
	for _, m := range messages {
		list = append(list, m.Payload.Data)
	}
	return list
}

// The columns hold what the format says, to the millisecond (R080 to R082, R088, R090).
func TestColumnsAreThoseOfTheFormat(t *testing.T) {
	t.Parallel()
	clock := fixture.NewClock(fixture.Epoch())
	q := openQueue(t, Options{Clock: clock})
	at := clock.Now().UnixMilli()
	send(t, q, "plain")
	require.NoError(t, q.Send(t.Context(), types.Text("delayed"), types.SendOptions{Delay: 1500 * time.Millisecond}))
	require.Equal(t, []storedRow{{1, at, at, 0, ""}, {2, at, at + 1500, 0, ""}}, storedRows(t, q))

	messages := receiveOne(t, q)
	id, delivery, ok := ports.ParseReceipt(messages[0].Receipt)
	require.True(t, ok)
	require.EqualValues(t, 1, id)
	require.Equal(t, storedRow{1, at, at + 30_000, 1, delivery}, storedRows(t, q)[0])

	clock.Advance(time.Second)
	require.NoError(t, q.Nack(t.Context(), messages[0].Receipt, types.NackOptions{}))
	require.Equal(t, storedRow{1, at, at + 1000, 1, delivery}, storedRows(t, q)[0], "a nack keeps attempt and receipt")
	again := receiveOne(t, q)
	require.NotEqual(t, messages[0].Receipt, again[0].Receipt)
	require.NoError(t, q.Renew(t.Context(), again[0].Receipt, types.RenewOptions{Lease: time.Minute}))
	_, delivery, _ = ports.ParseReceipt(again[0].Receipt)
	require.Equal(t, storedRow{1, at, at + 61_000, 2, delivery}, storedRows(t, q)[0])
	require.NoError(t, q.Nack(t.Context(), again[0].Receipt, types.NackOptions{Delay: time.Hour}))
	require.Equal(t, storedRow{1, at, at + 3_601_000, 2, ""}, storedRows(t, q)[0], "a nack with delay ends the receipt")
}

// A clock that was set back between two lives of a queue neither reorders nor hides (R111).
func TestClockThatStepsBackAcrossARestart(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Millisecond, time.Hour, trustedAhead} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			clock := fixture.NewClock(fixture.Epoch())
			q := openQueue(t, Options{Dir: dir, Clock: clock})
			send(t, q, "leased")
			messages, err := q.Receive(t.Context(), types.ReceiveOptions{Lease: time.Minute})
			require.NoError(t, err)
			require.Len(t, messages, 1)
			send(t, q, "old")
			require.NoError(t, q.Close())

			clock.Set(fixture.Epoch().Add(-step))
			q = openQueue(t, Options{Dir: dir, Clock: clock})
			send(t, q, "new")
			messages, err = q.Receive(t.Context(), types.ReceiveOptions{Max: 10, Lease: time.Hour})
			require.NoError(t, err)
			require.Equal(t, []string{"old", "new"}, texts(messages), "both are due, in order")
			clock.Advance(time.Minute)
			require.Equal(t, []string{"leased"}, texts(receiveOne(t, q)), "the lease ends after its own time")
			requireIndexMatchesFile(t, q)
		})
	}
}

// With all its messages leased, a queue still knows what its clock had shown.
func TestLeasedMessagesShowTheClockToo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := fixture.NewClock(fixture.Epoch())
	q := openQueue(t, Options{Dir: dir, Clock: clock})
	send(t, q, "leased")
	receiveOne(t, q)
	require.NoError(t, q.Close())
	clock.Set(fixture.Epoch().Add(-time.Hour))
	q = openQueue(t, Options{Dir: dir, Clock: clock})
	send(t, q, "new")
	clock.Advance(ports.DefaultLease)
	messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Equal(t, []string{"leased", "new"}, texts(messages))
}

func TestRowsFarInTheFutureAreNotBelieved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	far := fixture.Epoch().Add(trustedAhead + time.Millisecond).UnixMilli()
	plant(t, dir,
		planted{"'text'", "'far'", fmt.Sprint(far), fmt.Sprint(far), "0", "NULL"},
		planted{"'text'", "'end'", "9223372036854775807", "9223372036854775807", "0", "NULL"},
		planted{"'text'", "'beginning'", "-9223372036854775808", "-9223372036854775808", "0", "NULL"},
	)
	clock := fixture.NewClock(fixture.Epoch())
	q := openQueue(t, Options{Dir: dir, Clock: clock})
	send(t, q, "now")
	messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Equal(t, []string{"beginning", "now"}, texts(messages))
	require.Equal(t, fixture.Epoch().UnixMilli(), messages[1].EnqueuedAt.UnixMilli())
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, [3]int64{0, 2, 2}, [3]int64{stats.Visible, stats.InFlight, stats.Delayed})
	require.EqualValues(t, 1<<63-1, stats.OldestAge, "it saturates")
	for _, m := range messages {
		require.NoError(t, q.Ack(t.Context(), m.Receipt))
	}
	clock.Advance(trustedAhead + time.Millisecond)
	require.Equal(t, []string{"far"}, texts(receiveOne(t, q)), "its time has come")
	requireIndexMatchesFile(t, q)
}

// What the original decodes is delivered, also what a send would refuse.
func TestOddButDecodableRowsAreDelivered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := fixture.TextOfSize(2 * ports.MaxPayloadBytes).Data
	plant(t, dir,
		planted{"'json'", `'{"a":1,"a":2}'`, "1", "1", "0", "NULL"},
		planted{"'json'", `' { "spaced" : [ 1 ] } '`, "2", "2", "0", "NULL"},
		planted{"'text'", "'" + long + "'", "3", "3", "0", "NULL"},
		planted{"'text'", "'often'", "4", "4", "4294967294", "'no uuid'"},
		planted{"'text'", "12", "5", "5", "0", "NULL"}, // a TEXT column turns a number into text
	)
	q := openQueue(t, Options{Dir: dir})
	messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Equal(t, []string{`{"a":1,"a":2}`, `{"spaced":[1]}`, long, "often", "12"}, texts(messages))
	require.EqualValues(t, 1<<32-1, messages[3].Attempt)
	require.NoError(t, q.Nack(t.Context(), messages[3].Receipt, types.NackOptions{}))
	require.Empty(t, receiveOne(t, q), "its count is at its end")
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, stats.Undecodable)
}

func TestDiscardRemovesUndecodableRowsOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ids := plant(t, dir, undecodableRows()...)
	q := openQueue(t, Options{Dir: dir})
	send(t, q, "good")
	for i, id := range ids {
		stats, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, len(ids)-i, stats.Undecodable)
		for _, want := range []bool{true, false} {
			removed, err := q.Discard(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, want, removed)
		}
	}
	_, err := q.Discard(t.Context(), ids[len(ids)-1]+1)
	require.ErrorIs(t, err, ports.ErrInvalidInput)
	require.Equal(t, []string{"good"}, texts(receiveOne(t, q)))
	requireIndexMatchesFile(t, q)
}

// A row behind the head is found when it is its turn, or by a discard of its id.
func TestUndecodableRowBehindOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := planted{"'text'", "'good'", "1", "1", "0", "NULL"}
	bad := planted{"'xml'", "'bad'", "1", "1", "0", "NULL"}
	ids := plant(t, dir, good, bad, good, bad, good)
	q := openQueue(t, Options{Dir: dir})
	removed, err := q.Discard(t.Context(), ids[3])
	require.NoError(t, err)
	require.True(t, removed)
	messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Len(t, messages, 3)
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, [3]int64{3, 3, 1}, [3]int64{stats.Total, stats.InFlight, stats.Undecodable})
	require.NoError(t, q.Purge(t.Context()))
	stats, err = q.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, stats)
}

// With the disk full every operation that writes fails with the right reason and leaves nothing, and
// goes on once there is room.
func TestFullDiskLosesNothingAndIsOverWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	q := openQueue(t, Options{})
	for i := range 50 {
		send(t, q, strconv.Itoa(i))
	}
	limit := func(pages int) {
		require.NoError(t, q.stepOne(t.Context(), "test", func(s *step) error {
			return s.Query("PRAGMA max_page_count = "+strconv.Itoa(pages), func(sqlitefile.Row) error { return nil })
		}))
	}
	limit(1) // as many as there are
	payload := fixture.TextOfSize(ports.MaxPayloadBytes)
	err := q.Send(t.Context(), payload, types.SendOptions{})
	require.ErrorIs(t, err, ports.ErrDiskFull)
	require.ErrorIs(t, err, ports.ErrQueueOperationFailed)
	require.NotContains(t, err.Error(), "ttt")
	_, err = q.SendBatch(t.Context(), []types.Payload{types.Text("small"), payload})
	require.ErrorIs(t, err, ports.ErrDiskFull)
	require.Error(t, q.HealthCheck(t.Context()))
	requireIndexMatchesFile(t, q)
	require.Len(t, storedRows(t, q), 50, "a batch is stored whole or not at all")

	limit(1 << 30)
	require.NoError(t, q.Send(t.Context(), payload, types.SendOptions{}))
	require.NoError(t, q.HealthCheck(t.Context()))
	messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Len(t, messages, 10)
	requireIndexMatchesFile(t, q)
}

// A receive that fails after it has claimed some has claimed none (R096).
func TestReceiveThatFailsOrPanicsUndoesItsClaims(t *testing.T) {
	t.Parallel()
	q := openQueue(t, Options{})
	send(t, q, "1", "2", "3")
	before := storedRows(t, q)
	for _, fail := range []func(*step) error{
		func(*step) error { return errPlanned },
		func(s *step) error { _, err := s.Exec("ROLLBACK"); return err },
		func(*step) error { panic(errPlanned) },
	} {
		func() {
			defer func() {
				if r := recover(); r != nil && !errors.Is(r.(error), errPlanned) {
					panic(r)
				}
			}()
			err := q.step(t.Context(), "test", func(s *step) error {
				var messages []types.Message
				var spent []DeadLetter
				if err := s.claim(ports.ReceiveCheck{Max: 2, LeaseMillis: 1000}, &messages, &spent); err != nil {
					return err
				}
				require.Len(t, messages, 2)
				return fail(s)
			})
			require.Error(t, err)
		}()
		require.Equal(t, before, storedRows(t, q))
		requireIndexMatchesFile(t, q)
	}
	messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "3"}, texts(messages))
	require.EqualValues(t, 1, messages[0].Attempt)
}

func TestQueueWhoseFileIsTakenAwayStopsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q := openQueue(t, Options{Dir: dir})
	send(t, q, "here")
	require.NoError(t, os.Rename(q.file.Path(), q.file.Path()+".moved"))
	require.ErrorIs(t, q.Send(t.Context(), types.Text("x"), types.SendOptions{}), ports.ErrStoreReplaced)
	_, err := q.Receive(t.Context(), types.ReceiveOptions{Wait: time.Second})
	require.ErrorIs(t, err, ports.ErrStoreReplaced)
	require.ErrorIs(t, q.HealthCheck(t.Context()), ports.ErrStoreReplaced)
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	q := openQueue(t, Options{Dir: filepath.Join(t.TempDir(), "new")})
	send(t, q, "x")
	entries, err := os.ReadDir(filepath.Dir(q.file.Path()))
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode(), e.Name())
	}
}

// A queue in which somebody else deletes rows goes on, and says so.
func TestVanishedRowsDoNotStopTheQueue(t *testing.T) {
	t.Parallel()
	q := openQueue(t, Options{})
	send(t, q, "1", "2", "3", "4", "5")
	messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 2})
	require.NoError(t, err)
	require.NoError(t, q.Nack(t.Context(), messages[0].Receipt, types.NackOptions{}))
	require.NoError(t, q.stepOne(t.Context(), "test", func(s *step) error {
		_, err := s.Exec("DELETE FROM messages WHERE id IN (1, 3, 5)")
		return err
	}))
	left, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Equal(t, []string{"4"}, texts(left))
	none, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Empty(t, none)
	requireIndexMatchesFile(t, q)
}

// Waiting receives are served in the order in which they came, and none waits while a message is due.
func TestWaitingReceivesAreServedInOrder(t *testing.T) {
	t.Parallel()
	clock := fixture.NewClock(fixture.Epoch())
	q := openQueue(t, Options{Clock: clock})
	const polls = 8
	got := make([]chan string, polls)
	for i := range polls {
		got[i] = make(chan string, 1)
		go func() {
			messages, err := q.Receive(context.WithoutCancel(t.Context()), types.ReceiveOptions{Wait: ports.MaxWait})
			if err != nil || len(messages) != 1 {
				got[i] <- fmt.Sprint(len(messages), err)
				return
			}
			got[i] <- messages[0].Payload.Data
		}()
		clock.BlockUntilTimers(i + 1)
	}
	for i := range polls {
		send(t, q, strconv.Itoa(i))
		require.Equal(t, strconv.Itoa(i), <-got[i])
	}
}

// A batch wakes as many as it has messages, and a place that is given up passes its call on.
func TestCallsAreNotLost(t *testing.T) {
	t.Parallel()
	for range 50 {
		clock := fixture.NewClock(fixture.Epoch())
		q := openQueue(t, Options{Clock: clock, Durability: sqlitefile.DurabilityNormal})
		const polls = 6
		results := make(chan int, polls)
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		for i := range polls {
			ctx := ctx
			if i >= 3 {
				ctx = context.WithoutCancel(ctx)
			}
			go func() {
				messages, err := q.Receive(ctx, types.ReceiveOptions{Wait: ports.MaxWait})
				if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ports.ErrStoreClosed) {
					t.Error(err)
				}
				results <- len(messages)
			}()
			clock.BlockUntilTimers(i + 1)
		}
		go cancel() // three give up while three messages come
		outcomes, err := q.SendBatch(t.Context(), []types.Payload{fixture.JSON(1), fixture.JSON(2), fixture.JSON(3)})
		require.NoError(t, err)
		require.Len(t, outcomes, 3)
		received, ended := 0, 0
		for received < 3 {
			received += <-results
			ended++
			require.Less(t, ended, polls+1)
		}
		require.Equal(t, 3, received)
		require.NoError(t, q.Close()) // wakes who is left
		for ; ended < polls; ended++ {
			<-results
		}
	}
}
