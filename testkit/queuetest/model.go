package queuetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// RunModel compares random histories on a queue of the harness with the same ones on model.Queue:
// every call must give the same result. Histories move the clock, also back, and close and open the
// queue where it is durable. All histories share one queue, and one model, and begin by purging both, which keeps a
// run on a queue with a file within seconds. [Run] includes it.
func RunModel(t *testing.T, h Harness) {
	t.Helper()
	if !h.Clocked {
		t.Skip("the harness does not claim Clocked: its queues live by a clock that no test can move")
	}
	f := newFix(t, h)
	want := model.NewQueue(f.clock)
	rapid.Check(t, func(r *rapid.T) {
		require.NoError(r, f.q.Purge(f.ctx))
		require.NoError(r, want.Purge(f.ctx))
		m := &machine{f: f, want: want}
		r.Repeat(map[string]func(*rapid.T){
			"":             m.compare,
			"send":         m.send,
			"sendBatch":    m.sendBatch,
			"receive":      m.receive,
			"receiveAgain": m.receive,
			"ack":          m.ack,
			"ackBatch":     m.ackBatch,
			"nack":         m.nack,
			"renew":        m.renew,
			"release":      m.release,
			"purge":        m.purge,
			"clock":        m.moveClock,
			"reopen":       m.reopen,
		})
	})
}

// machine drives a queue and the model side by side.
type machine struct {
	f        *fix
	want     *model.Queue
	receipts []receiptPair
	sent     int
}

// receiptPair is the receipt of one delivery as each of the two names it.
type receiptPair struct{ got, want string }

var neverIssued = []receiptPair{
	{"", ""}, {"x", "x"}, {"1:", "1:"}, {"01:00000000-0000-4000-8000-000000000000", "01:00000000-0000-4000-8000-000000000000"},
	{"-1:00000000-0000-4000-8000-000000000000", "-1:00000000-0000-4000-8000-000000000000"},
}

func (m *machine) drawReceipt(r *rapid.T) receiptPair {
	if len(m.receipts) == 0 || rapid.IntRange(0, 9).Draw(r, "never issued") == 0 {
		return rapid.SampledFrom(neverIssued).Draw(r, "receipt")
	}
	// The latest are the likeliest to be current.
	back := rapid.IntRange(0, min(len(m.receipts)-1, 8)).Draw(r, "receipt")
	return m.receipts[len(m.receipts)-1-back]
}

func (m *machine) drawPayload(r *rapid.T) types.Payload {
	m.sent++
	return rapid.SampledFrom([]types.Payload{
		types.Text(string(rune('a' + m.sent%26))), types.JSON([]byte(` {"n" : [1 , 2]} `)), types.Text(""),
		types.JSON([]byte(`"` + string(rune('a'+m.sent%26)) + `"`)), types.JSON([]byte(`{"a":1,"a":2}`)), types.Text("\xff"), {},
	}).Draw(r, "payload")
}

func drawDelay(r *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{
		0, 0, 1, time.Millisecond, 3 * time.Millisecond, time.Second, 5 * time.Second, -1, 13 * time.Hour,
	}).Draw(r, "delay")
}

func drawLease(r *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{
		0, time.Second, time.Second + 1, 3 * time.Second, time.Minute, time.Millisecond, -1,
	}).Draw(r, "lease")
}

func (m *machine) send(r *rapid.T) {
	payload, delay := m.drawPayload(r), drawDelay(r)
	sameError(r, m.want.Send(m.f.ctx, payload, types.SendOptions{Delay: delay}),
		m.f.q.Send(m.f.ctx, payload, types.SendOptions{Delay: delay}))
}

func (m *machine) sendBatch(r *rapid.T) {
	n := rapid.SampledFrom([]int{0, 1, 2, 3, 3, 10, 11}).Draw(r, "size")
	payloads := make([]types.Payload, n)
	for i := range payloads {
		payloads[i] = m.drawPayload(r)
	}
	got, err := m.f.q.SendBatch(m.f.ctx, payloads)
	want, wantErr := m.want.SendBatch(m.f.ctx, payloads)
	sameError(r, wantErr, err)
	require.Len(r, got, len(want))
	for i := range want {
		require.Equal(r, want[i].Status, got[i].Status, "outcome %d", i)
		sameError(r, want[i].Err, got[i].Err)
	}
}

func (m *machine) receive(r *rapid.T) {
	opts := types.ReceiveOptions{Max: rapid.SampledFrom([]int{0, 1, 2, 3, 10, 11}).Draw(r, "max"), Lease: drawLease(r)}
	got, err := m.f.q.Receive(m.f.ctx, opts)
	want, wantErr := m.want.Receive(m.f.ctx, opts)
	sameError(r, wantErr, err)
	require.Equal(r, textsOf(want), textsOf(got), "messages received")
	for i := range want {
		require.Equal(r, want[i].Payload, got[i].Payload)
		require.Equal(r, want[i].Attempt, got[i].Attempt, "attempt")
		require.Equal(r, want[i].EnqueuedAt.UnixNano(), got[i].EnqueuedAt.UnixNano(), "enqueued at")
		m.receipts = append(m.receipts, receiptPair{got[i].Receipt, want[i].Receipt})
	}
}

func (m *machine) ack(r *rapid.T) {
	receipt := m.drawReceipt(r)
	sameError(r, m.want.Ack(m.f.ctx, receipt.want), m.f.q.Ack(m.f.ctx, receipt.got))
}

func (m *machine) ackBatch(r *rapid.T) {
	n := rapid.SampledFrom([]int{0, 1, 2, 3, 11}).Draw(r, "size")
	got, want := make([]string, n), make([]string, n)
	for i := range n {
		receipt := m.drawReceipt(r)
		got[i], want[i] = receipt.got, receipt.want
	}
	outcomes, err := m.f.q.AckBatch(m.f.ctx, got)
	wantOutcomes, wantErr := m.want.AckBatch(m.f.ctx, want)
	sameError(r, wantErr, err)
	require.Len(r, outcomes, len(wantOutcomes))
	for i := range wantOutcomes {
		require.Equal(r, wantOutcomes[i].Status, outcomes[i].Status, "outcome %d", i)
		sameError(r, wantOutcomes[i].Err, outcomes[i].Err)
	}
}

func (m *machine) nack(r *rapid.T) {
	receipt, delay := m.drawReceipt(r), drawDelay(r)
	sameError(r, m.want.Nack(m.f.ctx, receipt.want, types.NackOptions{Delay: delay}),
		m.f.q.Nack(m.f.ctx, receipt.got, types.NackOptions{Delay: delay}))
}

func (m *machine) renew(r *rapid.T) {
	receipt, lease := m.drawReceipt(r), drawLease(r)
	sameError(r, m.want.Renew(m.f.ctx, receipt.want, types.RenewOptions{Lease: lease}),
		m.f.q.Renew(m.f.ctx, receipt.got, types.RenewOptions{Lease: lease}))
}

func (m *machine) release(r *rapid.T) {
	q, ok := m.f.q.(ports.Releaser)
	if !ok {
		return
	}
	receipt := m.drawReceipt(r)
	sameError(r, m.want.Release(m.f.ctx, []string{receipt.want}), q.Release(m.f.ctx, []string{receipt.got}))
}

func (m *machine) purge(r *rapid.T) {
	if rapid.IntRange(0, 4).Draw(r, "purge") > 0 {
		return // seldom, or there is never much in the queue
	}
	sameError(r, m.want.Purge(m.f.ctx), m.f.q.Purge(m.f.ctx))
}

func (m *machine) moveClock(r *rapid.T) {
	by := rapid.SampledFrom([]time.Duration{
		1, time.Millisecond, 2 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, time.Minute,
		-time.Millisecond, -time.Second, -time.Hour,
	}).Draw(r, "by")
	if by < 0 && m.f.h.Durable {
		// What a reopened queue takes for the time depends on what it holds; that has cases of its
		// own. Here both must have the same time.
		return
	}
	m.f.clock.Set(m.f.clock.Now().Add(by))
}

func (m *machine) reopen(r *rapid.T) {
	// Opening a file takes as long as many operations: do it seldom.
	if m.f.h.Durable && rapid.IntRange(0, 5).Draw(r, "reopen") == 0 {
		m.f.reopen()
	}
}

// compare holds the whole of the queue, as far as the port shows it, against the model.
func (m *machine) compare(r *rapid.T) {
	got, err := m.f.q.Stats(m.f.ctx)
	want, wantErr := m.want.Stats(m.f.ctx)
	sameError(r, wantErr, err)
	require.Equal(r, want, got, "stats")

	peeked, err := m.f.q.Peek(m.f.ctx, types.PeekOptions{})
	wantPeeked, wantErr := m.want.Peek(m.f.ctx, types.PeekOptions{})
	sameError(r, wantErr, err)
	require.Len(r, peeked, len(wantPeeked), "peek")
	for i, w := range wantPeeked {
		g := peeked[i]
		require.Equal(r, w.EnqueuedAt.UnixNano(), g.EnqueuedAt.UnixNano(), "peek %d: enqueued at", i)
		require.Equal(r, w.VisibleAt.UnixNano(), g.VisibleAt.UnixNano(), "peek %d: visible at", i)
		g.ID, g.EnqueuedAt, g.VisibleAt = w.ID, w.EnqueuedAt, w.VisibleAt
		require.Equal(r, w, g, "peek %d", i)
	}
}

// sameError asks for the same code and reason, or for success of both.
func sameError(r *rapid.T, want, got error) {
	if want == nil {
		require.NoError(r, got)
		return
	}
	var e *ports.Error
	require.ErrorAs(r, want, &e)
	require.ErrorIs(r, got, &ports.Error{Code: e.Code, Reason: e.Reason})
}
