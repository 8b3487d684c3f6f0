package metrics

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// flights are the readings that are under way, at most one of each part: scrapes at the same time share
// it, and a part that hangs holds up one goroutine, however often it is scraped.
type flights struct {
	timeout time.Duration
	mu      sync.Mutex
	running map[string]*flight
}

type flight struct {
	done  chan struct{}
	value any
	err   error
}

// read returns what the reading of a part gives, its own or one that is under way. It waits until ctx
// ends, also for a part that does not look at its context.
func read[T any](ctx context.Context, f *flights, part string, reading func(context.Context) (T, error)) (T, error) {
	var none T
	f.mu.Lock()
	current, found := f.running[part]
	if !found {
		current = &flight{done: make(chan struct{})}
		f.running[part] = current
		go f.fly(part, current, func(ctx context.Context) (any, error) { return reading(ctx) }) //nolint:gosec // others than this scrape may wait for it
	}
	f.mu.Unlock()
	var err error
	select {
	case <-current.done:
		err = current.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return none, fmt.Errorf("it was not read within %v: %w", f.timeout, context.DeadlineExceeded)
	case err != nil:
		return none, err
	}
	return current.value.(T), nil //nolint:forcetypeassert // a part has one type
}

// fly reads a part. The context is its own: others than the scrape that began may wait for it.
func (f *flights) fly(part string, current *flight, reading func(context.Context) (any, error)) {
	defer func() {
		// A fault in a figure is no reason to end the daemon.
		if p := recover(); p != nil {
			current.err = fmt.Errorf("its reading panicked: %v", p)
		}
		f.mu.Lock()
		delete(f.running, part)
		f.mu.Unlock()
		close(current.done)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	current.value, current.err = reading(ctx)
}
