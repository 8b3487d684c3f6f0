package queuetest

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

var longest = types.ReceiveOptions{Max: 10, Wait: ports.MaxWait}

var waitCases = []testCase{
	{name: "a receive does not wait when something is due", run: func(f *fix) {
		f.send("m")
		require.Equal(f, []string{"m"}, textsOf(f.receive(longest)))
	}},
	{name: "a receive without a wait does not wait", run: func(f *fix) {
		f.sendDelayed("m", time.Second)
		f.none()
	}},
	{name: "a wait that brings nothing ends with an empty list", moves: true, run: func(f *fix) {
		p := f.poll(types.ReceiveOptions{Wait: 5 * time.Second})
		f.clock.Advance(5*time.Second - 1)
		p.pending()
		f.clock.Advance(1)
		require.Empty(f, p.messages())
	}},
	{name: "the longest wait", moves: true, run: func(f *fix) {
		f.sendDelayed("m", 20*time.Second+time.Millisecond)
		p := f.poll(longest)
		f.clock.Advance(20 * time.Second)
		require.Empty(f, p.messages())
	}},
	{name: "a send wakes", moves: true, run: func(f *fix) {
		p := f.poll(longest)
		f.clock.Advance(3 * time.Second)
		p.pending()
		f.send("m")
		messages := p.messages()
		require.Equal(f, []string{"m"}, textsOf(messages))
		f.counts(0, 1, 0)
		f.clock.Advance(30*time.Second - 1) // the lease starts with the delivery, not with the wait
		f.none()
		f.ack(messages[0])
	}},
	{name: "a batch wakes", moves: true, run: func(f *fix) {
		p := f.poll(longest)
		_, err := f.q.SendBatch(f.ctx, []types.Payload{types.JSON(nil), types.Text("1"), types.Text("2")})
		require.NoError(f, err)
		require.Equal(f, []string{"1", "2"}, textsOf(p.messages()))
	}},
	{name: "a nack wakes", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.one("m")
		p := f.poll(longest)
		f.nack(m, 0)
		require.Equal(f, []string{"m"}, textsOf(p.messages()))
	}},
	{name: "the end of a lease wakes, at its very millisecond", moves: true, run: func(f *fix) {
		f.send("m")
		f.oneLeased("m", 5*time.Second)
		p := f.poll(longest)
		f.clock.Advance(5*time.Second - 1)
		p.pending()
		f.clock.Advance(1)
		messages := p.messages()
		require.Equal(f, []string{"m"}, textsOf(messages))
		require.Equal(f, int64(2), messages[0].Attempt)
	}},
	{name: "the end of a delay wakes, at its very millisecond", moves: true, run: func(f *fix) {
		f.sendDelayed("later", 10*time.Second)
		f.sendDelayed("m", 5*time.Second)
		p := f.poll(longest)
		f.clock.Advance(5*time.Second - 1)
		p.pending()
		f.clock.Advance(1)
		require.Equal(f, []string{"m"}, textsOf(p.messages()))
	}},
	{name: "the end of a nack's delay wakes", moves: true, run: func(f *fix) {
		f.send("m")
		f.nack(f.one("m"), 5*time.Second)
		p := f.poll(longest)
		f.clock.Advance(5*time.Second - 1)
		p.pending()
		f.clock.Advance(1)
		require.Equal(f, []string{"m"}, textsOf(p.messages()))
	}},
	{name: "a delay that starts during the wait wakes when it ends", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.oneLeased("m", time.Hour)
		p := f.poll(longest)
		f.nack(m, 5*time.Second)
		f.sendDelayed("n", 8*time.Second)
		p.ends(5*time.Second, "m")
		p = f.poll(longest)
		p.ends(3*time.Second, "n")
	}},
	{name: "a lease that is renewed during the wait ends later", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.oneLeased("m", 5*time.Second)
		p := f.poll(longest)
		f.clock.Advance(4 * time.Second)
		p.pending()
		f.renew(m, 10*time.Second)
		f.clock.Advance(9 * time.Second)
		p.pending()
		f.counts(0, 1, 0)
		p.ends(time.Second, "m")
	}},
	{name: "a lease that is made shorter during the wait ends sooner", moves: true, run: func(f *fix) {
		f.send("m")
		m := f.oneLeased("m", time.Hour)
		p := f.poll(longest)
		f.renew(m, 2*time.Second)
		p.ends(2*time.Second, "m")
	}},
	{name: "an ack, a purge and a refused send wake nobody", moves: true, run: func(f *fix) {
		f.send("1", "2")
		m := f.one("1")
		f.one("2")
		p := f.poll(types.ReceiveOptions{Wait: 5 * time.Second})
		f.ack(m)
		require.NoError(f, f.q.Purge(f.ctx))
		require.Error(f, f.q.Send(f.ctx, types.JSON(nil), types.SendOptions{}))
		p.ends(5 * time.Second)
	}},
	{name: "one message wakes one of many", moves: true, run: func(f *fix) {
		polls := []*poll{f.poll(longest), f.poll(longest), f.poll(longest), f.poll(longest)}
		f.send("m")
		winner := make(chan int, len(polls))
		for i, p := range polls {
			go func() {
				result := <-p.done
				p.done <- result
				winner <- i
			}()
		}
		limit := time.NewTimer(patience)
		defer limit.Stop()
		first := -1
		select {
		case first = <-winner:
		case <-limit.C:
			require.Fail(f, "no receive has ended", "want one to end; %v have passed", patience)
		}
		require.Equal(f, []string{"m"}, textsOf(polls[first].messages()))
		f.settle()
		f.counts(0, 1, 0)
		for i, p := range polls {
			if i != first {
				p.cancel()
				require.ErrorIs(f, p.result().err, context.Canceled, "the others go on waiting")
			}
		}
	}},
	{name: "as many messages wake as many", moves: true, run: func(f *fix) {
		const many = 4
		var polls []*poll
		for range many {
			polls = append(polls, f.poll(types.ReceiveOptions{Wait: ports.MaxWait}))
		}
		f.send("1", "2", "3", "4")
		got := map[string]bool{}
		for _, p := range polls {
			for _, m := range p.messages() {
				got[m.Payload.Data] = true
			}
		}
		require.Len(f, got, many)
	}},
	{name: "the messages of one batch wake as many", moves: true, run: func(f *fix) {
		first := f.poll(types.ReceiveOptions{Wait: ports.MaxWait})
		second := f.poll(types.ReceiveOptions{Wait: ports.MaxWait})
		_, err := f.q.SendBatch(f.ctx, []types.Payload{types.Text("m"), types.Text("m")})
		require.NoError(f, err)
		require.Len(f, first.messages(), 1)
		require.Len(f, second.messages(), 1)
	}},
	{name: "close wakes with STORE_CLOSED", moves: true, run: func(f *fix) {
		p := f.poll(longest)
		closeQueue(f, f.q)
		require.ErrorIs(f, p.result().err, ports.ErrStoreClosed)
		f.q = f.h.Open(f, f.clock).Queue // for the clean-up
	}},
	{name: "a wait whose context ends claims nothing", moves: true, run: func(f *fix) {
		p := f.poll(longest)
		p.cancel()
		require.ErrorIs(f, p.result().err, context.Canceled)
		f.counts(0, 0, 0)
		f.send("m")
		m := f.receive(longest) // over a network the message may first have to come back
		require.Equal(f, []string{"m"}, textsOf(m))
		if !f.h.Remote {
			require.Equal(f, int64(1), m[0].Attempt)
		}
	}},
	{name: "a wait whose deadline passes claims nothing", moves: true, run: func(f *fix) {
		ctx, cancel := context.WithTimeout(f.ctx, time.Millisecond)
		defer cancel()
		_, err := f.q.Receive(ctx, longest)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		f.counts(0, 0, 0)
	}},
	{name: "a wait is no busy loop", moves: true, run: func(f *fix) { f.checkIdle() }},
	{name: "a clock that steps back does not lengthen a wait", moves: true, run: func(f *fix) {
		f.send("m")
		f.oneLeased("m", 5*time.Second)
		p := f.poll(longest)
		f.clock.Set(f.clock.Now().Add(-time.Hour))
		f.settle() // the queue sees the step: the suite's clock has no monotonic reading that would tell later
		f.clock.Advance(5*time.Second - 1)
		p.pending()
		p.ends(time.Millisecond, "m")
		p = f.poll(types.ReceiveOptions{Wait: 5 * time.Second})
		f.clock.Set(f.clock.Now().Add(-time.Hour))
		p.ends(5 * time.Second)
	}},
}

// ends moves the clock forward by d, and asserts that the receive then ends with the messages of the
// texts. A receive that was woken in between may be looking at the queue at the instant at which the
// clock moves, and then starts its timer too late; one more move, by d again, makes good for that.
func (p *poll) ends(d time.Duration, texts ...string) {
	p.f.Helper()
	p.pending()
	p.f.settle()
	p.f.clock.Advance(d)
	nudge := time.NewTimer(patience / 5)
	defer nudge.Stop()
	select {
	case result := <-p.done:
		p.done <- result
	case <-nudge.C:
		p.f.clock.Advance(d)
	}
	require.Equal(p.f, append([]string{}, texts...), textsOf(p.messages()))
}

// settle lets goroutines that have something to do go first.
func (f *fix) settle() {
	f.Helper()
	for range 3 {
		f.stats() // through the same lock, writer or server as whoever is waiting
		for range 100 {
			runtime.Gosched()
		}
	}
}

// countingClock counts how often it is asked.
type countingClock struct {
	*fixture.Clock
	asked atomic.Int64
}

func (c *countingClock) Now() time.Time {
	c.asked.Add(1)
	return c.Clock.Now()
}

func (c *countingClock) NewTimer(d time.Duration) ports.Timer {
	c.asked.Add(1)
	return c.Clock.NewTimer(d)
}

// checkIdle asserts that a waiting receive does not look at the clock while that stands still, nor
// in a loop when a message becomes due within the current millisecond.
func (f *fix) checkIdle() {
	f.Helper()
	clock := &countingClock{Clock: f.clock}
	q := f.h.Open(f, clock).Queue
	defer func() { closeQueue(f, q) }()
	f.clock.Advance(300 * time.Microsecond)
	require.NoError(f, q.Send(f.ctx, types.Text("m"), types.SendOptions{Delay: 2 * time.Millisecond}))

	w := &fix{T: f.T, h: f.h, clock: f.clock, q: q, ctx: f.ctx}
	p := w.poll(longest)
	before := clock.asked.Load()
	// Many small steps, in which one that looks every so often would give itself away, and the last
	// ones within the millisecond before the message is due.
	steps := []time.Duration{0, time.Millisecond}
	steps = append(steps, slices.Repeat([]time.Duration{5 * time.Microsecond}, 100)...)
	steps = append(steps, 150*time.Microsecond, 40*time.Microsecond)
	for _, step := range steps {
		f.clock.Advance(step)
		for range 200 {
			runtime.Gosched()
		}
		p.pending()
	}
	require.Less(f, clock.asked.Load()-before, int64(40), "looks at the clock during a wait in which nothing happened")
	f.clock.Advance(10 * time.Microsecond)
	require.Equal(f, []string{"m"}, textsOf(p.messages()))
}

var _ testing.TB = (*fix)(nil)
