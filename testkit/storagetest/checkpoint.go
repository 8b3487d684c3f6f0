package storagetest

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

// instants are times that a store may be tempted to round or move.
var instants = []time.Time{
	{},
	time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC),
	time.Date(2026, 3, 4, 5, 6, 7, 1, time.UTC),
	time.Date(2026, 3, 4, 5, 6, 7, 100_000_000, time.UTC),
	time.Unix(0, 0).UTC(),
	time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
	time.Date(0, 1, 1, 0, 0, 0, 1, time.UTC),
	time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
}

var checkpointCases = []testCase{
	{name: "a missing checkpoint is no error", run: func(f *fix) {
		f.wantNoCheckpoint("p")
		found, err := f.s.DeleteCheckpoint(f.ctx, "p")
		require.NoError(f, err)
		require.False(f, found)
		all, err := f.s.ListCheckpoints(f.ctx)
		require.NoError(f, err)
		require.Empty(f, all)
	}},
	{name: "a checkpoint comes back as it was", run: func(f *fix) {
		f.save("p", aCheckpoint(7, 8))
		f.wantCheckpoint("p", aCheckpoint(7, 8))
		f.save("q", types.Checkpoint{})
		f.wantCheckpoint("q", types.Checkpoint{})
	}},
	{name: "a cursor comes back to the last digit", run: func(f *fix) {
		for _, n := range []uint64{0, 1, 1<<31 - 1, 1 << 31, 1 << 32, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64} {
			for _, c := range []types.Cursor{at(n, 0), at(0, n), at(n, n)} {
				f.save("p", types.Checkpoint{Cursor: c})
				f.wantCheckpoint("p", types.Checkpoint{Cursor: c})
			}
		}
	}},
	{name: "a module that is none, empty, or any text is kept", run: func(f *fix) {
		for _, module := range []*string{nil, new(""), new("ndjson"), new("a name with \"quotes\", a\nline, <&> and \x00\u2028"), new(strings.Repeat("é", 128)), new("null"), nil} {
			f.save("p", types.Checkpoint{Module: module})
			f.wantCheckpoint("p", types.Checkpoint{Module: module})
		}
	}},
	{name: "a time comes back in UTC, to the nanosecond", run: func(f *fix) {
		for _, instant := range instants {
			f.save("p", types.Checkpoint{UpdatedAt: instant})
			f.wantCheckpoint("p", types.Checkpoint{UpdatedAt: instant})
		}
		want := types.Checkpoint{UpdatedAt: instants[1]}
		f.save("p", types.Checkpoint{UpdatedAt: instants[1].In(time.FixedZone("east", 5*3600+1800))})
		f.wantCheckpoint("p", want)
		now := time.Now() // with a reading of the monotonic clock
		f.apply("p", types.Progress{Checkpoint: &types.Checkpoint{UpdatedAt: now}})
		f.wantCheckpoint("p", types.Checkpoint{UpdatedAt: now.UTC().Round(0)})
	}},
	{name: "a save replaces all of an earlier one, also by one that lies before it", run: func(f *fix) {
		f.save("p", aCheckpoint(100, 5))
		f.save("p", types.Checkpoint{Cursor: at(3, 0), Module: new("webhook")})
		f.wantCheckpoint("p", types.Checkpoint{Cursor: at(3, 0), Module: new("webhook")})
		f.save("p", types.Checkpoint{})
		f.wantCheckpoint("p", types.Checkpoint{})
	}},
	{name: "a deletion reports whether there was one", run: func(f *fix) {
		f.save("p", aCheckpoint(1, 1))
		f.save("q", aCheckpoint(2, 2))
		for _, want := range []bool{true, false} {
			found, err := f.s.DeleteCheckpoint(f.ctx, "p")
			require.NoError(f, err)
			require.Equal(f, want, found)
		}
		f.wantNoCheckpoint("p")
		f.wantCheckpoint("q", aCheckpoint(2, 2))
		f.save("p", aCheckpoint(3, 3))
		f.wantCheckpoint("p", aCheckpoint(3, 3))
	}},
	{name: "all checkpoints are listed, ordered by pipeline", run: func(f *fix) {
		want := []types.PipelineCheckpoint{}
		for i, p := range []types.PipelineID{"A", "Z", "_", "a", "a-", "a.b", "b"} {
			want = append(want, types.PipelineCheckpoint{Pipeline: p, Checkpoint: aCheckpoint(uint64(i), 0)})
		}
		for _, v := range slices.Backward(want) {
			f.save(v.Pipeline, v.Checkpoint)
		}
		got, err := f.s.ListCheckpoints(f.ctx)
		require.NoError(f, err)
		require.Equal(f, want, got)
	}},
	{name: "a checkpoint touches nothing else", run: func(f *fix) {
		f.fill()
		before := f.dump()
		f.save("p.", aCheckpoint(9, 9))
		_, err := f.s.DeleteCheckpoint(f.ctx, "p.")
		require.NoError(f, err)
		f.wantState(before, "a checkpoint saved and deleted")
	}},
}
