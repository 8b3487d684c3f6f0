package sqlitefile

import (
	"slices"
	"sync"
	"time"

	"github.com/stowage-go/stowage/types"
)

var (
	// batchBounds are the bounds of batch sizes, in operations, up to maxBatch.
	batchBounds = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, maxBatch}
	// commitBounds are those of the time of a commit, in seconds: from a sync that the disk's cache
	// answers to a disk that is stuck.
	commitBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
)

// meter counts for [File.Metrics]. Its lock is held for moments, by one writer at a time.
type meter struct {
	mu      sync.Mutex
	commits uint64
	applied uint64
	sizes   [12]uint64 // one for each bound and one above
	times   [15]uint64
	spent   time.Duration
	log     int64
	data    int64
}

// count notes a commit of so many operations.
func (m *meter) count(applied int, took time.Duration) {
	size, _ := slices.BinarySearch(batchBounds, float64(applied))
	slot, _ := slices.BinarySearch(commitBounds, took.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits++
	m.applied += uint64(applied)
	m.sizes[size]++
	m.times[slot]++
	m.spent += took
}

func (m *meter) logBytes(size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = size
}

func (m *meter) dataBytes(size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = size
}

// Metrics implements [ports.Meter]. Sizes are those after the latest commit and the latest copy of the
// log by this process; a store in memory has none.
func (f *File) Metrics() types.StoreMetrics {
	m := &f.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	return types.StoreMetrics{
		Commits:    m.commits,
		Operations: m.applied,
		BatchSize:  types.Histogram{Bounds: slices.Clone(batchBounds), Counts: slices.Clone(m.sizes[:]), Sum: float64(m.applied)},
		Commit:     types.Histogram{Bounds: slices.Clone(commitBounds), Counts: slices.Clone(m.times[:]), Sum: m.spent.Seconds()},
		WALBytes:   m.log,
		DataBytes:  m.data,
	}
}
