package queuetest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// bulk is the queue as one that sends in bulk; it ends a case where the harness does not claim that, and
// sees to it that the queue is as claimed.
func (f *fix) bulk() (ports.BulkSender, bool) {
	f.Helper()
	q, ok := f.q.(ports.BulkSender)
	require.Equal(f, f.h.CanSendBulk, ok, "the queue is a ports.BulkSender: want what the harness claims")
	return q, ok
}

var bulkCases = []testCase{
	{name: "a bulk goes in, visible at once and in order", run: func(f *fix) {
		q, ok := f.bulk()
		if !ok {
			return
		}
		payloads := make([]types.Payload, ports.MaxBulk)
		for i := range payloads {
			payloads[i] = fixture.JSON(i)
		}
		f.send("before")
		outcomes, err := q.SendBulk(f.ctx, payloads)
		require.NoError(f, err)
		require.Len(f, outcomes, len(payloads))
		for i, o := range outcomes {
			require.Equal(f, types.SendOutcome{Status: types.StatusSent}, o, "outcome %d", i)
		}
		f.send("after")
		messages := f.drain()
		require.Len(f, messages, len(payloads)+2)
		require.Equal(f, types.Text("before"), messages[0].Payload)
		for i, m := range messages[1 : len(messages)-1] {
			require.Equal(f, payloads[i], m.Payload)
			require.Equal(f, messages[1].EnqueuedAt, m.EnqueuedAt)
			require.Equal(f, int64(1), m.Attempt)
		}
		require.Equal(f, types.Text("after"), messages[len(messages)-1].Payload)
	}},
	{name: "a bulk is what a batch is", run: func(f *fix) {
		q, ok := f.bulk()
		if !ok {
			return
		}
		payloads := []types.Payload{
			types.Text("1"), fixture.TextOfSize(ports.MaxPayloadBytes + 1), types.JSON([]byte(` { "b" : 1.0 } `)), types.JSON([]byte("{")),
			types.Text("\xff"), {Type: "xml", Data: "<x/>"}, types.JSON([]byte(`{"a":1,"a":2}`)), types.Text(""), fixture.TextOfSize(ports.MaxPayloadBytes),
		}
		want, err := f.q.SendBatch(f.ctx, payloads)
		require.NoError(f, err)
		asBatch := f.drain()
		got, err := q.SendBulk(f.ctx, payloads)
		require.NoError(f, err)
		asBulk := f.drain()
		require.Len(f, got, len(want))
		for i := range want {
			require.Equal(f, want[i].Status, got[i].Status, "outcome %d", i)
			if want[i].Err == nil {
				require.NoError(f, got[i].Err, "outcome %d", i)
				continue
			}
			f.wantInvalid(got[i].Err, "outcome %d", i)
		}
		require.Len(f, asBulk, 4)
		for i := range asBatch {
			require.Equal(f, asBatch[i].Payload, asBulk[i].Payload, "message %d", i)
		}
	}},
	{name: "bulks hold 1 to 1000", run: func(f *fix) {
		q, ok := f.bulk()
		if !ok {
			return
		}
		for _, n := range []int{0, ports.MaxBulk + 1} {
			payloads := make([]types.Payload, n)
			for i := range payloads {
				payloads[i] = types.Text("x")
			}
			outcomes, err := q.SendBulk(f.ctx, payloads)
			f.wantInvalid(err, "a bulk of %d messages", n)
			require.Empty(f, outcomes)
		}
		_, err := q.SendBulk(f.ctx, nil)
		f.wantInvalid(err, "a bulk of nil")
		outcomes, err := q.SendBulk(f.ctx, []types.Payload{types.JSON(nil), types.JSON([]byte("["))})
		require.NoError(f, err, "a bulk of which nothing is good")
		require.Len(f, outcomes, 2)
		f.counts(0, 0, 0)
		_, err = q.SendBulk(f.ctx, []types.Payload{types.Text("1")})
		require.NoError(f, err)
		f.one("1")
	}},
	{name: "a bulk is there whole or not at all, and others do not come between", run: func(f *fix) {
		q, ok := f.bulk()
		if !ok {
			return
		}
		const senders, size = 4, 100
		var sending sync.WaitGroup
		errs := make([]error, senders)
		for s := range senders {
			payloads := make([]types.Payload, size)
			for i := range payloads {
				payloads[i] = types.Text(fmt.Sprintf("%d-%d", s, i))
			}
			sending.Go(func() { _, errs[s] = q.SendBulk(f.ctx, payloads) })
		}
		done := make(chan struct{})
		go func() { sending.Wait(); close(done) }()
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			default:
			}
			require.Zero(f, f.stats().Total%size, "a part of a bulk is there")
		}
		for _, err := range errs {
			require.NoError(f, err)
		}
		messages := f.drain()
		require.Len(f, messages, senders*size)
		for i, m := range messages {
			sender, _, _ := strings.Cut(messages[i-i%size].Payload.Data, "-")
			require.Equal(f, types.Text(fmt.Sprintf("%s-%d", sender, i%size)), m.Payload, "message %d", i)
		}
	}},
	{name: "a bulk wakes whoever waits", moves: true, run: func(f *fix) {
		q, ok := f.bulk()
		if !ok {
			return
		}
		p := f.poll(longest)
		_, err := q.SendBulk(f.ctx, []types.Payload{types.JSON(nil), types.Text("1")})
		require.NoError(f, err)
		require.Equal(f, []string{"1"}, textsOf(p.messages()))
	}},
	{name: "a bulk whose context was cancelled leaves nothing behind", run: func(f *fix) {
		q, ok := f.bulk()
		if !ok {
			return
		}
		outcomes, err := q.SendBulk(fixture.Cancelled(f), []types.Payload{types.Text("late")})
		require.ErrorIs(f, err, context.Canceled)
		require.Empty(f, outcomes)
		f.counts(0, 0, 0)
	}},
}
