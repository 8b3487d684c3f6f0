package queuetest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

var inputCases = []testCase{
	{name: "a payload is one of two types", run: func(f *fix) {
		for _, typ := range []types.PayloadType{"", "JSON", "Text", "xml", "json "} {
			f.wantRefused(types.Payload{Type: typ, Data: "1"})
		}
	}},
	{name: "text of 0 to 65536 bytes passes", run: func(f *fix) {
		for _, size := range []int{0, 1, 65_535, 65_536} {
			f.wantKept(fixture.TextOfSize(size), fixture.TextOfSize(size).Data)
		}
		f.wantKept(types.Text(strings.Repeat("€", 65_536/3)), strings.Repeat("€", 65_536/3))
	}},
	{name: "JSON of up to 65536 bytes passes", run: func(f *fix) {
		for _, size := range []int{2, 65_535, 65_536} {
			f.wantKept(fixture.JSONOfSize(size), fixture.JSONOfSize(size).Data)
		}
	}},
	{name: "payloads of 65537 bytes are refused", run: func(f *fix) {
		f.wantRefused(fixture.TextOfSize(65_537))
		f.wantRefused(fixture.JSONOfSize(65_537))
		f.wantRefused(fixture.TextOfSize(1 << 20))
		f.wantRefused(types.Text(strings.Repeat("€", 65_536/3+1)))
	}},
	{name: "JSON is measured as it is stored", run: func(f *fix) {
		compact := fixture.JSONOfSize(65_534).Data
		f.wantKept(types.JSON([]byte(" \n [\t"+strings.Repeat(" ", 70_000)+compact+"\r\n ] ")), "["+compact+"]")
		f.wantRefused(types.JSON([]byte("[" + compact + ",1]")))
		// An escape keeps its six bytes.
		f.wantRefused(types.JSON([]byte(`"` + strings.Repeat(`\u0041`, 65_536/6+1) + `"`)))
	}},
	{name: "receive: 1 to 10 messages, 0 is 1", run: func(f *fix) {
		f.send("a", "b")
		for _, most := range []int{-1, 11, -1 << 31, 1 << 31} {
			_, err := f.q.Receive(f.ctx, types.ReceiveOptions{Max: most})
			f.wantInvalid(err, "max %d", most)
		}
		f.counts(2, 0, 0)
		require.Len(f, f.receive(types.ReceiveOptions{}), 1)
		require.Len(f, f.receive(types.ReceiveOptions{Max: 1}), 1)
		f.none()
		for range 11 {
			f.send("x")
		}
		require.Len(f, f.receive(types.ReceiveOptions{Max: 10}), 10)
	}},
	{name: "receive: leases of 1 s to 12 h, 0 is 30 s", run: func(f *fix) {
		f.send("a", "b", "c")
		for _, lease := range []time.Duration{-1, 1, time.Second - 1, 12*time.Hour + 1, -1 << 63} {
			_, err := f.q.Receive(f.ctx, types.ReceiveOptions{Lease: lease})
			f.wantInvalid(err, "lease %v", lease)
		}
		f.counts(3, 0, 0)
		for _, lease := range []time.Duration{time.Second, 12 * time.Hour, 0} {
			require.Len(f, f.receive(types.ReceiveOptions{Lease: lease}), 1, "lease %v", lease)
		}
	}},
	{name: "receive: waits of 0 to 20 s", run: func(f *fix) {
		f.send("a", "b")
		for _, wait := range []time.Duration{-1, 20*time.Second + 1, -1 << 63} {
			_, err := f.q.Receive(f.ctx, types.ReceiveOptions{Wait: wait})
			f.wantInvalid(err, "wait %v", wait)
		}
		f.counts(2, 0, 0)
		for _, wait := range []time.Duration{0, 20 * time.Second} {
			require.Len(f, f.receive(types.ReceiveOptions{Wait: wait}), 1, "wait %v", wait)
		}
	}},
	{name: "delays of 0 to 12 h", run: func(f *fix) {
		f.send("m")
		m := f.one("m")
		for _, delay := range []time.Duration{-1, 12*time.Hour + 1, -1 << 63} {
			f.wantInvalid(f.q.Send(f.ctx, types.Text("x"), types.SendOptions{Delay: delay}), "send with delay %v", delay)
			f.wantInvalid(f.q.Nack(f.ctx, m.Receipt, types.NackOptions{Delay: delay}), "nack with delay %v", delay)
			f.wantInvalid(f.q.Nack(f.ctx, "never issued", types.NackOptions{Delay: delay}), "nack with delay %v", delay)
		}
		f.counts(0, 1, 0)
		f.sendDelayed("later", 12*time.Hour)
		f.nack(m, 12*time.Hour)
		f.counts(0, 0, 2)
	}},
	{name: "renewals of 1 s to 12 h, 0 is 30 s", run: func(f *fix) {
		f.send("m")
		m := f.one("m")
		for _, lease := range []time.Duration{-1, 1, time.Second - 1, 12*time.Hour + 1} {
			f.wantInvalid(f.q.Renew(f.ctx, m.Receipt, types.RenewOptions{Lease: lease}), "renew for %v", lease)
			f.wantInvalid(f.q.Renew(f.ctx, "never issued", types.RenewOptions{Lease: lease}), "renew for %v", lease)
		}
		for _, lease := range []time.Duration{time.Second, 12 * time.Hour, 0} {
			f.renew(m, lease)
		}
		f.counts(0, 1, 0)
	}},
	{name: "batches hold 1 to 10", run: func(f *fix) {
		f.send("m")
		m := f.one("m")
		for _, n := range []int{0, 11} {
			payloads, receipts := make([]types.Payload, n), make([]string, n)
			for i := range n {
				payloads[i], receipts[i] = types.Text("x"), m.Receipt
			}
			outcomes, err := f.q.SendBatch(f.ctx, payloads)
			f.wantInvalid(err, "a batch of %d messages", n)
			require.Empty(f, outcomes)
			acks, err := f.q.AckBatch(f.ctx, receipts)
			f.wantInvalid(err, "a batch of %d receipts", n)
			require.Empty(f, acks)
		}
		_, err := f.q.SendBatch(f.ctx, nil)
		f.wantInvalid(err, "a batch of nil")
		f.counts(0, 1, 0)
	}},
	{name: "peek: 1 to 10 messages, 0 is 10", run: func(f *fix) {
		for range 11 {
			f.send("x")
		}
		for _, most := range []int{-1, 11} {
			_, err := f.q.Peek(f.ctx, types.PeekOptions{Max: most})
			f.wantInvalid(err, "max %d", most)
		}
		require.Len(f, f.peek(0), 10)
		require.Len(f, f.peek(1), 1)
		require.Len(f, f.peek(10), 10)
	}},
	{name: "an error holds no payload", run: func(f *fix) {
		const secret = "canary-of-the-suite"
		for _, p := range []types.Payload{
			types.Text(strings.Repeat(secret, 5000)), types.Text(secret + "\xff"), types.JSON([]byte(`{"a":` + secret)),
			types.JSON([]byte(`{"` + secret + `":1,"` + secret + `":2}`)),
		} {
			err := f.q.Send(f.ctx, p, types.SendOptions{})
			f.wantInvalid(err, "a bad payload")
			require.NotContains(f, err.Error(), secret)
		}
	}},
}

// wantRefused asserts that a payload is refused, alone and in a batch, and that nothing is stored.
func (f *fix) wantRefused(p types.Payload) {
	f.Helper()
	show := p.Data[:min(len(p.Data), 40)]
	f.wantInvalid(f.q.Send(f.ctx, p, types.SendOptions{}), "send of the %s payload %q", p.Type, show)
	outcomes, err := f.q.SendBatch(f.ctx, []types.Payload{p})
	require.NoError(f, err, "a batch with the %s payload %q", p.Type, show)
	require.Len(f, outcomes, 1)
	require.Equal(f, types.StatusRejected, outcomes[0].Status, "a batch with the %s payload %q", p.Type, show)
	f.wantInvalid(outcomes[0].Err, "a batch with the %s payload %q", p.Type, show)
	f.counts(0, 0, 0)
}

// wantKept asserts that a payload, sent alone and in a batch, comes back with the data want.
func (f *fix) wantKept(p types.Payload, want string) {
	f.Helper()
	f.sendPayload(p)
	outcomes, err := f.q.SendBatch(f.ctx, []types.Payload{p})
	require.NoError(f, err)
	require.Equal(f, []types.SendOutcome{{Status: types.StatusSent}}, outcomes)
	peeked := f.peek(2)
	messages := f.receive(types.ReceiveOptions{Max: 10})
	require.Len(f, messages, 2)
	require.Len(f, peeked, 2)
	for i, m := range messages {
		require.Equal(f, types.Payload{Type: p.Type, Data: want}, m.Payload)
		require.Equal(f, m.Payload, peeked[i].Payload, "what peek shows")
		f.ack(m)
	}
}
