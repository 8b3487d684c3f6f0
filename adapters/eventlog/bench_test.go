package eventlog

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

var quake = types.Event{Data: []byte(`{"id":"us7000n1b2","mag":4.6,"place":"71 km ESE of Kokopo, Papua New Guinea","time":1724927318123,"depth":49.2}`)}

// One event a call, from so many callers; syncs share what waits.
func BenchmarkAccept(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			log := open(b, Options{Dir: b.TempDir(), MaxBytes: 1 << 40, Log: slog.New(slog.DiscardHandler)})
			b.ReportAllocs()
			work := make(chan struct{}, callers)
			failed := make(chan error, callers)
			for range callers {
				go func() {
					var err error
					for range work {
						if err == nil {
							err = log.Accept(b.Context(), []types.Event{quake})
						}
					}
					failed <- err
				}()
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			for range callers {
				require.NoError(b, <-failed)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// A thousand events a call, as in a body of NDJSON.
func BenchmarkAcceptThousand(b *testing.B) {
	log := open(b, Options{Dir: b.TempDir(), MaxBytes: 1 << 40, Log: slog.New(slog.DiscardHandler)})
	events := make([]types.Event, 1000)
	for i := range events {
		events[i] = quake
	}
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, log.Accept(b.Context(), events))
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkRead(b *testing.B) {
	log := open(b, Options{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	events := make([]types.Event, ports.MaxReadEvents)
	for i := range events {
		events[i] = quake
	}
	const rounds = 20
	for range rounds {
		require.NoError(b, log.Accept(b.Context(), events))
	}
	b.ReportAllocs()
	left := 0
	for b.Loop() {
		if left == 0 {
			b.StopTimer()
			log = reopen(b, log, nil)
			left = rounds * len(events)
			b.StartTimer()
		}
		got, err := log.Read(b.Context(), 1000)
		if err != nil {
			b.Fatal(err)
		}
		left -= len(got)
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
}
