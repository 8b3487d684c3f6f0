package ndjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// BenchmarkRead reads lines of 170 bytes from a file.
func BenchmarkRead(b *testing.B) {
	const lines = 200_000
	var text bytes.Buffer
	for i := range lines {
		l := fmt.Sprintf(`{"id":"us%010d","time":%d,"mag":%d.%d,"place":"%d km SE of Somewhere","lat":-12.3456,"lon":98.7654,"depth":33.1,"felt":null,"tsunami":false,`, i, 1_772_366_400_000+i, i%9, i%10, i%300)
		fmt.Fprintf(&text, "%s\"pad\":\"%0*d\"}\n", l, 170-len(l)-len(`"pad":""}`), i)
	}
	path := filepath.Join(b.TempDir(), "feed")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len() / lines))
	b.ReportAllocs()
	var s *Source
	b.ResetTimer()
	for n := 0; n < b.N; {
		if s == nil {
			var err error
			s, err = OpenSource(b.Context(), SourceOptions{Pipeline: "p", Path: path, StateDir: b.TempDir(), Once: true, Log: slog.New(slog.DiscardHandler)}, nil)
			if err != nil {
				b.Fatal(err)
			}
		}
		events, err := s.Read(b.Context(), 1000)
		n += len(events)
		if errors.Is(err, io.EOF) {
			err, s = s.Close(), nil
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if s != nil {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// BenchmarkDeliver appends batches of matches with events of 170 bytes.
func BenchmarkDeliver(b *testing.B) {
	for _, fsync := range []Fsync{FsyncAlways, FsyncNever} {
		for _, size := range []int{1, 100, ports.MaxBatchEvents} {
			b.Run(fmt.Sprintf("fsync=%v/batch=%d", fsync, size), func(b *testing.B) {
				s, err := OpenSink(b.Context(), SinkOptions{Path: filepath.Join(b.TempDir(), "out"), Fsync: fsync})
				if err != nil {
					b.Fatal(err)
				}
				batch := make([]types.SinkEvent, size)
				for i := range batch {
					batch[i] = matchOf(i)
					batch[i].Match.Event = fmt.Appendf(nil, `{"pad":"%0160d"}`, i)
				}
				b.ResetTimer()
				for n := 0; n < b.N; n += size {
					for _, err := range s.DeliverBatch(b.Context(), batch) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
