package storagetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// patience is how long the suite waits, on the machine's clock, for something that must come.
const patience = 10 * time.Second

// within waits for a result that must come.
func within[T any](f *fix, results <-chan T, what string) T {
	f.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case result := <-results:
		return result
	case <-limit.C:
		require.FailNow(f, what+" goes on waiting", "want it to end; %v have passed", patience)
		panic("not reached")
	}
}

// heldExport starts an export that stays in its yield until it is released. It returns once the
// yield was called.
func (f *fix) heldExport() (release func(), ended <-chan error) {
	f.Helper()
	archiver := f.archiver()
	inside, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		done <- archiver.Export(f.ctx, func(types.Record) error {
			if first {
				first = false
				close(inside)
				<-gate
			}
			return nil
		})
	}()
	release = sync.OnceFunc(func() { close(gate) })
	f.Cleanup(release)
	within(f, inside, "an export")
	return release, done
}

var quiesceCases = []testCase{
	{name: "of an idle store it returns at once, and calls go on", run: func(f *fix) {
		require.NoError(f, f.s.Quiesce(f.ctx))
		f.fill()
		before := f.dump()
		require.NoError(f, f.s.Quiesce(f.ctx))
		f.wantState(before, "quiesce")
		f.save("p", aCheckpoint(7, 7))
	}},
	{name: "it may be called by many at the same time", run: func(f *fix) {
		errs := make(chan error, 16)
		for range cap(errs) {
			go func() { errs <- f.s.Quiesce(f.ctx) }()
		}
		for range cap(errs) {
			require.NoError(f, within(f, errs, "quiesce"))
		}
	}},
	{name: "it waits for calls whose callers gave up: nothing is written after it", run: func(f *fix) {
		const rounds, callers = 8, 8
		for round := range rounds {
			ctx, cancel := context.WithCancel(f.ctx)
			var wg sync.WaitGroup
			errs := make([]error, callers)
			begun := make(chan struct{}, callers)
			for c := range callers {
				wg.Go(func() {
					p := types.PipelineID([]string{"p", "q"}[c%2])
					for i := 0; errs[c] == nil; i++ {
						errs[c] = f.s.Apply(ctx, p, types.Progress{
							Checkpoint:  new(aCheckpoint(uint64(i), uint64(round))),
							DeadLetters: []types.DeadLetter{letter(types.MatchID(fmt.Sprintf("l%d", c)))},
							Deliveries:  []types.Delivery{delivery(uint64(i), 0, types.MatchID(fmt.Sprintf("d%d", c)))},
						})
						if i == 0 {
							begun <- struct{}{}
						}
					}
				})
			}
			for range callers {
				<-begun
			}
			cancel()
			// A call that begins from here on finds its context ended, and leaves nothing behind.
			require.NoError(f, f.s.Quiesce(f.ctx))
			after := f.dump()
			wg.Wait()
			f.wantState(after, "calls whose callers gave up before quiesce")
			for _, err := range errs {
				require.True(f, gaveUp(err), "want the context's error, got %v", err)
			}
		}
	}},
	{name: "it does not wait for calls that begin later, however many they are", run: func(f *fix) {
		const callers = 4
		var stop atomic.Bool
		var wg sync.WaitGroup
		errs := make([]error, callers)
		counts := make([]atomic.Int64, callers)
		for c := range callers {
			wg.Go(func() {
				p := types.PipelineID(fmt.Sprintf("c%d", c))
				for i := uint64(0); !stop.Load() && errs[c] == nil; i++ {
					errs[c] = f.s.SaveCheckpoint(f.ctx, p, aCheckpoint(i, 0))
					counts[c].Add(1)
				}
			})
		}
		done := make(chan error, 1)
		go func() {
			for range 20 {
				if err := f.s.Quiesce(f.ctx); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		err := within(f, done, "quiesce beside writers")
		stop.Store(true)
		wg.Wait()
		require.NoError(f, err)
		for c := range callers {
			require.NoError(f, errs[c], "calls go on beside quiesce")
		}
	}},
	{name: "it waits for a call that is under way, until its own context ends", run: func(f *fix) {
		f.archiver()
		f.fill()
		release, ended := f.heldExport()
		ctx, cancel := context.WithTimeout(f.ctx, 20*time.Millisecond)
		defer cancel()
		given := make(chan error, 1)
		go func() { given <- f.s.Quiesce(ctx) }()
		err := within(f, given, "quiesce whose context has ended")
		require.ErrorIs(f, err, context.DeadlineExceeded, "an export is under way: want quiesce to wait for it")

		var released atomic.Bool
		waited := make(chan bool, 1)
		failed := make(chan error, 1)
		go func() {
			failed <- f.s.Quiesce(f.ctx)
			waited <- released.Load()
		}()
		released.Store(true)
		release()
		require.NoError(f, within(f, failed, "quiesce"))
		require.True(f, within(f, waited, "quiesce"))
		require.NoError(f, within(f, ended, "the export"))
		f.save("p", aCheckpoint(7, 7))
		require.NoError(f, f.s.Quiesce(f.ctx), "one that was given up has left nothing behind")
	}},
}
