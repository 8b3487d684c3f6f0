package queuetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// handles are the handles that racers use in turn: two where the harness can have them.
func (f *fix) handles() []ports.Queue {
	f.Helper()
	if !f.h.MultiHandle {
		return []ports.Queue{f.q}
	}
	second, err := f.store.Second(f)
	require.NoError(f, err)
	f.Cleanup(func() { closeQueue(f, second) })
	return []ports.Queue{f.q, second}
}

// together runs n callers at one instant and fails the test with the first error of any.
func (f *fix) together(n int, call func(q ports.Queue, i int) error) {
	f.Helper()
	handles := f.handles()
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = call(handles[i%len(handles)], i)
		})
	}
	close(start)
	wg.Wait()
	require.NoError(f, errors.Join(errs...))
}

// tally counts deliveries by text.
type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (t *tally) add(messages []types.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = map[string]int{}
	}
	for _, m := range messages {
		t.seen[m.Payload.Data]++
	}
}

// wantOnce asserts that each of n numbered messages was delivered once.
func (t *tally) wantOnce(f *fix, n int) {
	f.Helper()
	require.Len(f, t.seen, n, "messages delivered")
	for text, times := range t.seen {
		require.Equal(f, 1, times, "deliveries of %q", text)
	}
}

func (f *fix) sendNumbered(n int) {
	f.Helper()
	for i := 0; i < n; i += 10 {
		var payloads []types.Payload
		for j := i; j < min(i+10, n); j++ {
			payloads = append(payloads, types.Text(strconv.Itoa(j)))
		}
		_, err := f.q.SendBatch(f.ctx, payloads)
		require.NoError(f, err)
	}
}

var raceCases = []testCase{
	{name: "six receivers share 30 messages without a double delivery", run: func(f *fix) {
		f.sendNumbered(30)
		var got tally
		f.together(6, func(q ports.Queue, i int) error {
			for {
				messages, err := q.Receive(f.ctx, types.ReceiveOptions{Max: 1 + i})
				if err != nil || len(messages) == 0 {
					return err
				}
				got.add(messages)
			}
		})
		got.wantOnce(f, 30)
		f.counts(0, 30, 0)
	}},
	{name: "senders, receivers and ackers at once lose nothing and double nothing", run: func(f *fix) {
		const senders, receivers, each = 4, 4, 15
		var got tally
		var acked atomic.Int64
		f.together(senders+receivers, func(q ports.Queue, i int) error {
			if i < senders {
				for j := range each {
					if err := q.Send(f.ctx, types.Text(fmt.Sprintf("%d.%d", i, j)), types.SendOptions{}); err != nil {
						return err
					}
				}
				return nil
			}
			for acked.Load() < senders*each {
				messages, err := q.Receive(f.ctx, types.ReceiveOptions{Max: 3})
				if err != nil {
					return err
				}
				got.add(messages)
				for _, m := range messages {
					if err := q.Ack(f.ctx, m.Receipt); err != nil {
						return err
					}
					acked.Add(1)
				}
			}
			return nil
		})
		got.wantOnce(f, senders*each)
		f.counts(0, 0, 0)
	}},
	{name: "the messages of one sender stay in order among those of others", run: func(f *fix) {
		const senders, each = 4, 12
		f.together(senders, func(q ports.Queue, i int) error {
			for j := range each {
				if err := q.Send(f.ctx, types.Text(fmt.Sprintf("%d.%02d", i, j)), types.SendOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
		last := map[string]string{}
		for _, m := range f.drain() {
			sender := m.Payload.Data[:1]
			require.Less(f, last[sender], m.Payload.Data, "of one sender: want the order of sending")
			last[sender] = m.Payload.Data
		}
		require.Len(f, last, senders)
	}},
	{name: "receivers that wait get each message once", moves: true, run: func(f *fix) {
		const receivers = 6
		var got tally
		var polls []*poll
		for range receivers {
			polls = append(polls, f.poll(types.ReceiveOptions{Max: 1, Wait: ports.MaxWait}))
		}
		f.together(receivers, func(q ports.Queue, i int) error {
			return q.Send(f.ctx, types.Text(strconv.Itoa(i)), types.SendOptions{})
		})
		for _, p := range polls {
			got.add(p.messages())
		}
		got.wantOnce(f, receivers)
	}},
	{name: "of racing uses of one receipt each takes effect as if alone", run: func(f *fix) {
		f.send("m", "other")
		m := f.one("m")
		f.together(8, func(q ports.Queue, _ int) error { return q.Ack(f.ctx, m.Receipt) })
		f.counts(1, 0, 0)
		f.one("other")
	}},
	{name: "a purge beside senders and receivers leaves the queue whole", run: func(f *fix) {
		f.together(6, func(q ports.Queue, i int) error {
			for range 10 {
				var err error
				switch i % 3 {
				case 0:
					err = q.Send(f.ctx, types.Text("m"), types.SendOptions{})
				case 1:
					_, err = q.Receive(f.ctx, types.ReceiveOptions{Max: 10})
				default:
					err = q.Purge(f.ctx)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		stats := f.stats()
		require.LessOrEqual(f, stats.Total, int64(20))
		require.NoError(f, f.q.Purge(f.ctx))
		f.send("last")
		f.one("last")
		f.counts(0, 1, 0)
	}},
	{name: "a recorded history of claims is linearizable", run: func(f *fix) { f.checkHistory() }},
}

// step is one call in a recorded history of one message.
type step struct {
	op      string // receive, ack, nack
	receipt string
}

type stepResult struct {
	receipt string // of a receive; empty for none
	stale   bool
}

// claimState is one message as a sequential machine, in a time that stands still.
type claimState struct {
	gone    bool
	visible bool
	receipt string // of the latest delivery
}

var claims = porcupine.Model{
	Init: func() any { return claimState{visible: true} },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(claimState), input.(step), output.(stepResult)
		if in.op == "receive" {
			due := now.visible && !now.gone
			if out.receipt == "" {
				return !due, now
			}
			return due, claimState{receipt: out.receipt}
		}
		current := now.receipt == in.receipt
		switch {
		case out.stale:
			return !now.gone && !current, now
		case now.gone:
			return true, now
		case in.op == "ack":
			return current, claimState{gone: true}
		default:
			return current, claimState{visible: true, receipt: now.receipt}
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// checkHistory lets callers fight for one message: they receive it, give it back, use their receipts
// once more when those are stale, and in the end ack it.
func (f *fix) checkHistory() {
	f.Helper()
	const callers, rounds = 5, 12
	f.send("m")
	var ticks atomic.Int64
	histories := make([][]porcupine.Operation, callers)
	f.together(callers, func(q ports.Queue, c int) error {
		call := func(in step) (stepResult, error) {
			op := porcupine.Operation{ClientId: c, Input: in, Call: ticks.Add(1)}
			var out stepResult
			var err error
			switch in.op {
			case "receive":
				var messages []types.Message
				messages, err = q.Receive(f.ctx, types.ReceiveOptions{})
				if len(messages) > 0 {
					out.receipt = messages[0].Receipt
				}
			case "ack":
				err = q.Ack(f.ctx, in.receipt)
			default:
				err = q.Nack(f.ctx, in.receipt, types.NackOptions{})
			}
			if errors.Is(err, ports.ErrStaleReceipt) {
				out.stale, err = true, nil
			}
			op.Output, op.Return = out, ticks.Add(1)
			histories[c] = append(histories[c], op)
			return out, err
		}
		old := ""
		for round := range rounds {
			out, err := call(step{op: "receive"})
			if err != nil {
				return err
			}
			use := step{op: "nack", receipt: out.receipt}
			switch {
			case out.receipt == "" && old == "":
				continue
			case out.receipt == "":
				use.receipt = old
			case round > rounds-3:
				use.op = "ack"
			}
			old = use.receipt
			if _, err := call(use); err != nil {
				return err
			}
		}
		return nil
	})
	var history []porcupine.Operation
	for _, h := range histories {
		history = append(history, h...)
	}
	result := porcupine.CheckOperationsTimeout(claims, history, 20*time.Second)
	require.NotEqual(f, porcupine.Illegal, result, "the history of claims is not linearizable: %+v", history)
}
