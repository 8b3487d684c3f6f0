package sqlitefile

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMetricsCountCommitsByTheirSizeAndTime(t *testing.T) {
	t.Parallel()
	f := open(t, itemOptions(t.TempDir()))
	fresh := f.Metrics()
	assert.Zero(t, fresh.Commits+fresh.Operations+fresh.BatchSize.Count()+fresh.Commit.Count())
	assert.Len(t, fresh.BatchSize.Counts, len(fresh.BatchSize.Bounds)+1)
	assert.Len(t, fresh.Commit.Counts, len(fresh.Commit.Bounds)+1)
	assert.IsIncreasing(t, fresh.BatchSize.Bounds)
	assert.IsIncreasing(t, fresh.Commit.Bounds)

	require.NoError(t, insert(f, "alone"))
	release := hold(t, f)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { assert.NoError(t, insert(f, fmt.Sprint(i))) })
	}
	wg.Go(func() {
		assert.Error(t, f.Write(t.Context(), "fails", func(*Tx) error { return errors.New("no") }))
	})
	waiting(f, 51)
	release()
	wg.Wait()

	m := f.Metrics()
	assert.Equal(t, uint64(2), m.Commits, "the operation that held the others up changed nothing")
	assert.Equal(t, uint64(51), m.Operations)
	assert.Equal(t, []uint64{1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, m.BatchSize.Counts)
	assert.InDelta(t, 51, m.BatchSize.Sum, 0)
	assert.Equal(t, uint64(2), m.Commit.Count())
	assert.Positive(t, m.Commit.Sum)

	m.BatchSize.Counts[0], m.Commit.Bounds[0] = 99, 99
	again := f.Metrics()
	assert.Equal(t, uint64(1), again.BatchSize.Counts[0], "what was handed out is the caller's own")
	assert.Less(t, again.Commit.Bounds[0], 1.0)
}

func TestMetricsCountTheLargestBatch(t *testing.T) {
	t.Parallel()
	var m meter
	m.count(maxBatch, 0)
	m.count(1, 1<<40)
	assert.Equal(t, uint64(1), m.sizes[len(batchBounds)-1])
	assert.Equal(t, uint64(1), m.times[0])
	assert.Equal(t, uint64(1), m.times[len(commitBounds)], "what took longer than the last bound")
}

func TestMetricsHaveTheSizesOfTheFiles(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	f := open(t, o)
	sizes := func() [2]int64 { return [2]int64{sizeOf(o.Path + "-wal"), sizeOf(o.Path)} }
	measured := func() [2]int64 { m := f.Metrics(); return [2]int64{m.WALBytes, m.DataBytes} }
	assert.Equal(t, sizes(), measured())
	require.NoError(t, insert(f, "one"))
	assert.Positive(t, measured()[0])
	assert.Equal(t, sizes(), measured())

	// A log that is copied grows the database.
	body := make([]byte, 1<<20)
	before := measured()[1]
	for i := range 2 * checkpointBytes >> 20 {
		require.NoError(t, f.Write(t.Context(), "insert", func(tx *Tx) error {
			_, err := tx.Exec(insertRow, fmt.Sprint("big", i), body)
			return err
		}))
	}
	f.checkpoints.wg.Wait()
	require.NoError(t, insert(f, "last"))
	assert.Greater(t, measured()[1], before)
	assert.Equal(t, sizes(), measured())

	require.NoError(t, f.Close())
	assert.Equal(t, uint64(2*checkpointBytes>>20+2), f.Metrics().Commits, "the counts stay after the close")
	assert.Zero(t, open(t, o).Metrics().Commits, "and begin anew with the next open")
	_, err := os.Stat(o.Path)
	require.NoError(t, err)
}

func TestMetricsOfAStoreInMemoryHaveNoSizes(t *testing.T) {
	t.Parallel()
	o := itemOptions(t.TempDir())
	o.Path = InMemory
	f := open(t, o)
	require.NoError(t, insert(f, "one"))
	m := f.Metrics()
	assert.Equal(t, uint64(1), m.Commits)
	assert.Zero(t, m.WALBytes+m.DataBytes)
}
