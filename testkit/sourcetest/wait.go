package sourcetest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

var waitCases = []testCase{
	{name: "a read of an empty stream waits, and an event wakes it", applies: follows, run: func(f *fix) {
		f.open(nil)
		r := f.start(10)
		r.pending()
		f.add(numbered(0, 1)...)
		got := r.wait()
		require.NoError(f, got.err)
		f.wantData(numbered(0, 1), got.events, false)
	}},
	{name: "a read behind the last event waits, and events wake it each time", applies: follows, run: func(f *fix) {
		f.add(numbered(0, 3)...)
		f.open(nil)
		all := f.readAll(3, 10)
		for n := 3; n < 8; n++ {
			r := f.start(10)
			r.pending()
			f.add(numbered(n, 1)...)
			got := r.wait()
			require.NoError(f, got.err)
			require.Positive(f, got.events[0].Cursor.Compare(all[n-1].Cursor), "cursors grow")
			all = append(all, got.events...)
		}
		f.wantData(numbered(0, 8), all, false)
	}},
	{name: "a read whose context ends loses no event", applies: follows, run: func(f *fix) {
		f.open(nil)
		for n := range 3 {
			r := f.start(10)
			r.pending()
			r.cancel()
			got := r.wait()
			f.wantContext(context.Canceled, got.err)
			require.Empty(f, got.events)
			f.add(numbered(n, 1)...)
			f.wantData(numbered(n, 1), f.readAll(1, 10), false)
		}
	}},
	{name: "a read whose deadline passes says so", applies: follows, run: func(f *fix) {
		ctx, cancel := context.WithTimeout(f.ctx, time.Millisecond)
		defer cancel()
		f.open(nil)
		events, err := f.s.Read(ctx, 10)
		f.wantContext(context.DeadlineExceeded, err)
		require.Empty(f, events)
		f.add(numbered(0, 1)...)
		f.wantData(numbered(0, 1), f.readAll(1, 10), false)
	}},
	{name: "a read whose context has ended loses no event", run: func(f *fix) {
		f.add(numbered(0, 5)...)
		f.open(nil)
		var all []types.Event
		for range 3 {
			events, err := f.s.Read(fixture.Cancelled(f), 1) // what it has it may return
			if err != nil {
				f.wantContext(context.Canceled, err)
				require.Empty(f, events)
			}
			all = append(all, events...)
		}
		for len(all) < 5 {
			all = append(all, f.read(10)...)
		}
		f.checkBatch(all, 5)
		f.wantData(numbered(0, 5), all, false)
	}},
	{name: "contexts that end at any moment lose no event, and double none", applies: follows, run: func(f *fix) {
		const many = 60
		f.open(nil)
		var all []types.Event
		short := 20 * time.Microsecond
		for n := 0; len(all) < many; {
			if n < many {
				f.add(numbered(n, 1)...)
				n++
			}
			ctx, cancel := context.WithTimeout(f.ctx, short)
			events, err := f.s.Read(ctx, 2)
			cancel()
			f.tick()
			if errors.Is(err, context.DeadlineExceeded) {
				short = min(short*5/4, 100*time.Millisecond) // a slow source gets there as well
				continue
			}
			require.NoError(f, err)
			f.checkBatch(events, 2)
			all = append(all, events...)
			short = max(short/2, 20*time.Microsecond)
		}
		f.wantData(numbered(0, many), all, false)
		f.checkBatch(all, many)
	}},
	{name: "settling goes on beside a read that waits", applies: follows, run: func(f *fix) {
		f.add(numbered(0, 3)...)
		f.open(nil)
		all := f.readAll(3, 10)
		r := f.start(10)
		r.pending()
		settled := make(chan error, 1)
		s := f.s
		go func() { settled <- s.Settle(f.ctx, all[2].Cursor) }()
		limit := time.NewTimer(f.h.Patience)
		defer limit.Stop()
		select {
		case err := <-settled:
			require.NoError(f, err)
		case <-limit.C:
			require.Fail(f, "settling goes on waiting", "want it not to wait for the Read beside it; %v have passed", f.h.Patience)
		}
		f.add(numbered(3, 1)...)
		got := r.wait()
		require.NoError(f, got.err)
		f.wantData(numbered(3, 1), got.events, false)
	}},
}

var lifeCases = []testCase{
	{name: "closing ends a read that waits", applies: follows, run: func(f *fix) {
		f.add(numbered(0, 1)...)
		f.open(nil)
		f.readAll(1, 10)
		r := f.start(10)
		r.pending()
		s := f.s
		f.close()
		got := r.wait()
		require.ErrorIs(f, got.err, ports.ErrStoreClosed)
		require.Empty(f, got.events)
		require.NoError(f, s.Close(), "closing again")
	}},
	{name: "a closed source gives no more events", run: func(f *fix) {
		f.add(numbered(0, 4)...)
		f.open(nil)
		all := f.read(1)
		s := f.s
		f.close()
		for range 2 {
			events, err := s.Read(f.ctx, 10)
			require.ErrorIs(f, err, ports.ErrStoreClosed)
			require.Empty(f, events)
			require.NoError(f, s.Close(), "closing again")
		}
		f.open(nil)
		f.wantSame(all, f.readAll(4, 10)[:len(all)])
	}},
	{name: "a source that is closed before it was read loses nothing", run: func(f *fix) {
		f.open(nil)
		f.close()
		f.add(numbered(0, 2)...)
		f.open(nil)
		f.close()
		f.open(nil)
		f.wantData(numbered(0, 2), f.readAll(2, 10), false)
	}},
	{name: "settling when the context has ended says so, or settles", run: func(f *fix) {
		f.add(numbered(0, 3)...)
		f.open(nil)
		all := f.readAll(3, 10)
		i := lastOf(all, 0)
		if err := f.s.Settle(fixture.Cancelled(f), all[i].Cursor); err != nil {
			f.wantContext(context.Canceled, err)
		}
		f.settle(all[i]) // a later one covers the same
		f.reopen(&all[i].Cursor)
		f.wantSame(all[i+1:], f.readAll(len(all)-i-1, 10))
	}},
}
