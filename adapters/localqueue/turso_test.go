package localqueue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// fixtureRow is a row of testdata/turso/expected.json, which describes the queue beside it that the
// Turso engine wrote, and whose writer was killed.
type fixtureRow struct {
	ID                int64   `json:"id"`
	PayloadType       string  `json:"payloadType"`
	PayloadData       *string `json:"payloadData"`
	PayloadDataBytes  int     `json:"payloadDataBytes"`
	PayloadDataSha256 string  `json:"payloadDataSha256"`
	EnqueuedAt        int64   `json:"enqueuedAt"`
	VisibleAt         int64   `json:"visibleAt"`
	Attempt           int64   `json:"attempt"`
	ReceiptHandle     *string `json:"receiptHandle"`
}

func (r fixtureRow) requirePayload(t *testing.T, p types.Payload) {
	t.Helper()
	require.Equal(t, r.PayloadType, string(p.Type))
	if r.PayloadData != nil {
		require.Equal(t, *r.PayloadData, p.Data)
		return
	}
	require.Len(t, p.Data, r.PayloadDataBytes)
	sum := sha256.Sum256([]byte(p.Data))
	require.Equal(t, r.PayloadDataSha256, hex.EncodeToString(sum[:]))
}

type tursoFixture struct {
	T0         int64        `json:"t0"`
	Messages   []fixtureRow `json:"messages"`
	Sequence   int64        `json:"sequence"` // the highest id ever used
	FifoDueIDs []int64      `json:"fifoDueIds"`
}

func tursoQueue(t *testing.T) (dir string, f tursoFixture) {
	t.Helper()
	text, err := os.ReadFile("testdata/turso/expected.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &f))
	require.NotEmpty(t, f.Messages)
	dir = t.TempDir()
	for _, name := range []string{databaseName, databaseName + "-wal"} {
		copyFile(t, filepath.Join("testdata/turso/queue-crash", name), filepath.Join(dir, name))
	}
	return dir, f
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o600))
}

// later is a time at which all messages of the fixture are due that can be.
func (f tursoFixture) later() *fixture.Clock {
	return fixture.NewClock(time.UnixMilli(f.T0).Add(time.Hour))
}

func TestQueueThatTursoWroteIsReadWhole(t *testing.T) {
	t.Parallel()
	dir, f := tursoQueue(t)
	q := openQueue(t, Options{Dir: dir, Clock: f.later()})
	requireIndexMatchesFile(t, q)
	for _, want := range f.Messages {
		var row stored
		require.NoError(t, q.stepOne(t.Context(), "look", func(s *step) error {
			var problem, err error
			var found bool
			row, found, problem, err = read(s.Conn, want.ID)
			require.True(t, found, "row %d", want.ID)
			require.NoError(t, problem, "row %d", want.ID)
			return err
		}))
		want.requirePayload(t, row.payload)
		receipt := ""
		if want.ReceiptHandle != nil {
			receipt = *want.ReceiptHandle
		}
		require.Equal(t, stored{row.payload, want.EnqueuedAt, want.VisibleAt, want.Attempt, receipt}, row)
	}
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, types.QueueStats{
		Total: 13, Visible: int64(len(f.FifoDueIDs)), InFlight: 1, Delayed: 1,
		OldestAge: time.Hour + time.Second, // row 13, enqueued by a clock that ran behind
	}, stats)
	require.NoError(t, q.Verify(t.Context()))
}

func TestQueueThatTursoWroteGoesOn(t *testing.T) {
	t.Parallel()
	dir, f := tursoQueue(t)
	clock := f.later()
	q := openQueue(t, Options{Dir: dir, Clock: clock})
	byID := map[int64]fixtureRow{}
	for _, row := range f.Messages {
		byID[row.ID] = row
	}
	// A receipt that the original handed out works, also after its lease.
	require.NoError(t, q.Renew(t.Context(), ports.FormatReceipt(8, *byID[8].ReceiptHandle), types.RenewOptions{}))
	require.NoError(t, q.Send(t.Context(), types.Text("new"), types.SendOptions{}))

	var ids []int64
	for {
		messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 3})
		require.NoError(t, err)
		if len(messages) == 0 {
			break
		}
		for _, m := range messages {
			id, _, ok := ports.ParseReceipt(m.Receipt)
			require.True(t, ok)
			ids = append(ids, id)
			if want, known := byID[id]; known {
				want.requirePayload(t, m.Payload)
				require.Equal(t, want.Attempt+1, m.Attempt)
				require.Equal(t, want.EnqueuedAt, m.EnqueuedAt.UnixMilli())
			}
			require.NoError(t, q.Ack(t.Context(), m.Receipt))
		}
	}
	require.Equal(t, append(f.FifoDueIDs, f.Sequence+1), ids, "the order of the queue, and an id that was never used")
	clock.Advance(ports.DefaultLease)
	messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.Len(t, messages, 1, "the message in flight, after its new lease; the delayed one stays")
	requireIndexMatchesFile(t, q)
}
