package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

var batchCases = []testCase{
	{name: "a batch of ten goes in, visible at once and in order", run: func(f *fix) {
		var payloads []types.Payload
		for i := range 10 {
			payloads = append(payloads, fixture.JSON(i))
		}
		outcomes, err := f.q.SendBatch(f.ctx, payloads)
		require.NoError(f, err)
		require.Len(f, outcomes, 10)
		for _, o := range outcomes {
			require.Equal(f, types.SendOutcome{Status: types.StatusSent}, o)
		}
		messages := f.receive(types.ReceiveOptions{Max: 10})
		require.Len(f, messages, 10)
		for i, m := range messages {
			require.Equal(f, payloads[i], m.Payload)
			require.Equal(f, messages[0].EnqueuedAt, m.EnqueuedAt)
		}
	}},
	{name: "ten of the largest messages go in", run: func(f *fix) {
		payloads := make([]types.Payload, 10)
		for i := range payloads {
			payloads[i] = fixture.TextOfSize(ports.MaxPayloadBytes)
		}
		outcomes, err := f.q.SendBatch(f.ctx, payloads)
		require.NoError(f, err)
		for _, o := range outcomes {
			require.Equal(f, types.SendOutcome{Status: types.StatusSent}, o)
		}
		messages := f.receive(types.ReceiveOptions{Max: 10})
		require.Len(f, messages, 10)
		require.Equal(f, payloads[9], messages[9].Payload)
	}},
	{name: "a message that breaks a rule is rejected alone", run: func(f *fix) {
		outcomes, err := f.q.SendBatch(f.ctx, []types.Payload{
			types.Text("1"), fixture.TextOfSize(ports.MaxPayloadBytes + 1), types.JSON([]byte("2")), types.JSON([]byte("{")),
			types.Text("\xff"), {Type: "xml", Data: "<x/>"}, types.JSON([]byte(`{"a":1,"a":2}`)), types.Text(""),
		})
		require.NoError(f, err)
		good := []bool{true, false, true, false, false, false, false, true}
		require.Len(f, outcomes, len(good))
		for i, o := range outcomes {
			if good[i] {
				require.Equal(f, types.SendOutcome{Status: types.StatusSent}, o, "outcome %d", i)
				continue
			}
			require.Equal(f, types.StatusRejected, o.Status, "outcome %d", i)
			f.wantInvalid(o.Err, "outcome %d", i)
		}
		require.Equal(f, []string{"1", "2", ""}, textsOf(f.drain()))
	}},
	{name: "a batch of which nothing is good stores nothing", run: func(f *fix) {
		outcomes, err := f.q.SendBatch(f.ctx, []types.Payload{types.JSON(nil), types.JSON([]byte("["))})
		require.NoError(f, err)
		require.Len(f, outcomes, 2)
		for _, o := range outcomes {
			require.Equal(f, types.StatusRejected, o.Status)
			f.wantInvalid(o.Err, "a batch of bad messages")
		}
		f.counts(0, 0, 0)
	}},
	{name: "acks of a batch have one outcome each, in order", moves: true, run: func(f *fix) {
		f.send("stale", "acked", "done")
		stale := f.oneLeased("stale", time.Second)
		f.clock.Advance(time.Second)
		f.oneLeased("stale", time.Hour)
		acked, done := f.one("acked"), f.one("done")
		f.ack(acked)
		outcomes, err := f.q.AckBatch(f.ctx, []string{
			done.Receipt, stale.Receipt, acked.Receipt, "never issued", "", done.Receipt,
			ports.FormatReceipt(1<<40, "00000000-0000-4000-8000-000000000000"),
		})
		require.NoError(f, err)
		require.Len(f, outcomes, 7)
		for i, o := range outcomes {
			if i == 1 {
				require.Equal(f, types.AckRejected, o.Status)
				f.wantStaleError(o.Err, stale.Receipt, "ackBatch")
				continue
			}
			require.Equal(f, types.AckOutcome{Status: types.AckDone}, o, "outcome %d", i)
		}
		f.counts(0, 1, 0)
	}},
	{name: "ten acks at once", run: func(f *fix) {
		for range 10 {
			f.send("m")
		}
		var receipts []string
		for _, m := range f.receive(types.ReceiveOptions{Max: 10}) {
			receipts = append(receipts, m.Receipt)
		}
		outcomes, err := f.q.AckBatch(f.ctx, receipts)
		require.NoError(f, err)
		require.Len(f, outcomes, 10)
		f.counts(0, 0, 0)
	}},
}
