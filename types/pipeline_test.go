package types_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stowage-go/stowage/types"
)

func TestPipelineStatusHasAStableForm(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		status types.PipelineStatus
		want   string
	}{
		"all that there is": {
			types.PipelineStatus{
				ID: "quakes", State: types.PipelineFailed, Origin: types.OriginResource, Version: 3, Error: "no file", RetryAt: at, Restarts: 2,
				Source: "ndjson", Read: &types.Cursor{Primary: 9, Secondary: 1}, Checkpoint: &types.Cursor{Primary: 8},
				LagSeconds: 1.5, Pending: 4, Events: 10, BadEvents: 1,
				Monitors: []types.MonitorStatus{{ID: "strong", Paused: true, Matches: 5, Emissions: 2, Errors: 1, LastError: "no mag"}},
				Sinks: []types.SinkStatus{{
					ID: "alerts", Module: "webhook", Paused: true, Pending: 1, Delivered: 2, DeadLettered: 3, Duplicates: 4, Retries: 5,
					LastError: "status 503", LastErrorAt: at, Latency: types.Histogram{Bounds: []float64{0.1, 1}, Counts: []uint64{1, 0, 2}, Sum: 2.5},
				}},
			},
			`{"id":"quakes","state":"failed","origin":"resource","version":3,"error":"no file","retry_at":"2026-03-01T12:00:00Z","restarts":2,` +
				`"source":"ndjson","read":{"primary":9,"secondary":1},"checkpoint":{"primary":8,"secondary":0},"lag_seconds":1.5,"pending":4,"events":10,"bad_events":1,` +
				`"monitors":[{"id":"strong","paused":true,"matches":5,"emissions":2,"errors":1,"last_error":"no mag"}],` +
				`"sinks":[{"id":"alerts","module":"webhook","paused":true,"pending":1,"delivered":2,"dead_lettered":3,"duplicates":4,"retries":5,` +
				`"last_error":"status 503","last_error_at":"2026-03-01T12:00:00Z","latency":{"bounds":[0.1,1],"counts":[1,0,2],"sum":2.5}}]}`,
		},
		"what stands still": {
			types.PipelineStatus{ID: "q", State: types.PipelineIdle, Origin: types.OriginFile, Monitors: []types.MonitorStatus{}, Sinks: []types.SinkStatus{}},
			`{"id":"q","state":"idle","origin":"file","restarts":0,"lag_seconds":0,"pending":0,"events":0,"bad_events":0,"monitors":[],"sinks":[]}`,
		},
	} {
		text, err := json.Marshal(tc.status)
		if err != nil {
			t.Fatal(name, err)
		}
		if string(text) != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, text, tc.want)
		}
		var back types.PipelineStatus
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, tc.status) {
			t.Errorf("%s came back as %+v, with the error %v", name, back, err)
		}
	}
}

func TestAHistogramCountsAllItsBuckets(t *testing.T) {
	t.Parallel()
	for want, h := range map[uint64]types.Histogram{
		0:           {},
		6:           {Bounds: []float64{1, 2}, Counts: []uint64{1, 2, 3}},
		1<<63 + 100: {Bounds: []float64{1}, Counts: []uint64{1 << 63, 100}},
	} {
		if got := h.Count(); got != want {
			t.Errorf("%+v: got %d, want %d", h, got, want)
		}
	}
}
