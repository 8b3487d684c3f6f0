package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// TestSoakPipelineMemory sends ten million events through a pipeline, or half a million if there is less
// than a minute, and looks at the memory of the daemon each second: it stays as it is.
func TestSoakPipelineMemory(t *testing.T) {
	events := 10_000_000
	if soakLength(t) < time.Minute {
		events = 500_000
	}
	dir := t.TempDir()
	state := filepath.Join(dir, defaultStateDir)
	require.NoError(t, os.MkdirAll(state, 0o700))
	require.NoError(t, writeNumbers(filepath.Join(state, "numbers.ndjson"), events))
	file := filepath.Join(dir, "stowage.toml")
	require.NoError(t, os.WriteFile(file, []byte(`
[queue.picked]
module = "localqueue"
[[pipeline]]
id = "numbers"
source = { module = "ndjson", path = "numbers.ndjson" }
fields = { n = "number" }
[[pipeline.monitor]]
id = "hundredth"
when = "n % 100 == 0"
sinks = ["queue"]
[[pipeline.sink]]
id = "queue"
module = "queue"
queue = "picked"
`), 0o600))
	p, err := startProcess(dir, filepath.Join(dir, "daemon.log"), cleanEnvironment(), "--config", file)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.end(os.Kill)) })
	d := testDaemon{p, dir}
	token, err := d.reach().adminToken()
	require.NoError(t, err)
	client, err := newOperatorClient(d.address, token)
	require.NoError(t, err)

	type sample struct {
		events   uint64
		resident int64
		heap     int64
	}
	var samples []sample
	var status types.PipelineStatus
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			require.NoError(t, t.Context().Err())
		}
		status, err = client.Pipeline(t.Context(), "numbers")
		require.NoError(t, err)
		require.NotEqual(t, types.PipelineFailed, status.State, status.Error)
		samples = append(samples, sample{status.Events, memoryField(t, d.cmd.Process.Pid, "VmRSS:"), heapInUse(t, d.address)})
		done = status.Events >= uint64(events) && status.Pending == 0
	}
	took := time.Since(began)
	require.Equal(t, uint64(events), status.Events)
	require.Equal(t, uint64(events/100), status.Sinks[0].Delivered)
	stats, err := d.queue(t, "picked").Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(events/100), stats.Total)

	var resident, heap []int64
	for i, s := range samples {
		if i%max(len(samples)/20, 1) == 0 || i == len(samples)-1 {
			t.Logf("%9d events: %3d MiB resident, %3d MiB of heap", s.events, s.resident>>20, s.heap>>20)
		}
		if s.events >= uint64(events/10) { // warm by then
			resident, heap = append(resident, s.resident), append(heap, s.heap)
		}
	}
	t.Logf("%d events in %v: %.0f a second; resident %d MiB in the middle, %d MiB at most; heap %d and %d MiB", events, took.Round(time.Second), float64(events)/took.Seconds(),
		median(resident)>>20, slices.Max(resident)>>20, median(heap)>>20, slices.Max(heap)>>20)
	const slack = 8 << 20 // of the garbage collector, where there is little
	assert.LessOrEqual(t, slices.Max(resident), median(resident)*13/10+slack, "resident memory grows")
	assert.Less(t, slices.Max(resident), int64(150<<20), "resident memory")
}

// writeNumbers writes lines with the numbers from 1 to count.
func writeNumbers(path string, count int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	var line []byte
	for n := 1; n <= count && err == nil; n++ {
		line = append(strconv.AppendInt(append(line[:0], `{"n":`...), int64(n), 10), "}\n"...)
		_, err = w.Write(line)
	}
	return errors.Join(err, w.Flush(), f.Close())
}

func median(values []int64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// memoryField is a field of the memory of a process, in bytes.
func memoryField(t *testing.T, pid int, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this system has no /proc to read the memory of a process from")
	}
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	require.Fail(t, "the status of the process has no "+field)
	return 0
}

// heapInUse is what the daemon says of its heap, in bytes.
func heapInUse(t *testing.T, address string) int64 {
	t.Helper()
	answer, err := http.Get(address + "/metrics")
	require.NoError(t, err)
	defer answer.Body.Close()
	const name = "go_memstats_heap_inuse_bytes "
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name); ok {
			bytes, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			return int64(bytes)
		}
	}
	require.NoError(t, lines.Err())
	require.Fail(t, "the metrics have no "+name)
	return 0
}
