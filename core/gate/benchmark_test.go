package gate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/gate"
	"github.com/stowage-go/stowage/types"
)

func BenchmarkOffer(b *testing.B) {
	keys := make([]string, 1_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("station-%d", i)
	}
	e := types.Event{Data: []byte(`{"key":"station"}`)}
	for name, tc := range map[string]struct {
		cfg  gate.Config
		keys []string
	}{
		"threshold/keys=1000": {gate.Config{Threshold: 5, Window: time.Minute, Cooldown: time.Minute}, keys},
		"cooldown/keys=1000":  {gate.Config{Cooldown: time.Minute}, keys},
		"threshold/keys=1":    {gate.Config{Threshold: 5, Window: time.Minute, Cooldown: time.Minute}, keys[:1]},
		"full/keys=1":         {gate.Config{Threshold: 10_000, Window: time.Hour, Cooldown: time.Hour}, keys[:1]},
		"none":                {gate.Config{}, keys},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			g := newGate(b, tc.cfg, nil)
			emitted := 0
			for i := 0; b.Loop(); i++ {
				e.Cursor.Primary, e.TS = uint64(i), int64(i)*3
				if _, emission := g.Offer(e, tc.keys[i%len(tc.keys)]); emission != nil {
					emitted++
				}
				g.Oldest()
				g.TakeMeta()
			}
			b.ReportMetric(float64(emitted)/float64(b.N), "emissions/op")
		})
	}
}

func BenchmarkRestore(b *testing.B) {
	cfg := gate.Config{Threshold: 1_000, Window: time.Hour}
	g := newGate(b, cfg, nil)
	var hits []types.GateHit
	for i := range 32_768 {
		key := fmt.Sprint(i % 1_000)
		hit, _ := g.Offer(event(i, int64(i), key), key)
		hits = append(hits, *hit)
	}
	meta, _ := g.TakeMeta()
	for b.Loop() {
		require.NoError(b, g.Restore(hits, meta, cursor(len(hits)), func(event []byte) string { return string(event) }))
	}
}
