package storagetest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/types"
)

func (f *fix) wantPauses(want ...types.Pause) {
	f.Helper()
	got, err := f.s.ListPauses(f.ctx)
	require.NoError(f, err)
	if len(want) == 0 {
		require.Empty(f, got)
		return
	}
	require.Equal(f, want, got)
}

func (f *fix) resume(target types.PauseTarget, id string) {
	f.Helper()
	require.NoError(f, f.s.Resume(f.ctx, types.Pause{Target: target, ID: id}), "resume of %s %s", target, id)
}

var pauseCases = []testCase{
	{name: "nothing is paused at first, and a resume of nothing is no fault", run: func(f *fix) {
		f.wantPaused("pipeline", "p", false)
		f.wantPauses()
		f.resume("pipeline", "p")
		f.wantPauses()
	}},
	{name: "pause and resume may be repeated", run: func(f *fix) {
		for range 3 {
			f.pause("pipeline", "p")
			f.wantPaused("pipeline", "p", true)
		}
		f.wantPauses(types.PipelineOf("p"))
		for range 3 {
			f.resume("pipeline", "p")
			f.wantPaused("pipeline", "p", false)
		}
		f.wantPauses()
		f.pause("pipeline", "p")
		f.wantPauses(types.PipelineOf("p"))
	}},
	{name: "target and id together are the key", run: func(f *fix) {
		f.pause("monitor", "p/a")
		f.wantPaused("monitor", "p/a", true)
		for _, other := range []types.Pause{{Target: "sink", ID: "p/a"}, {Target: "monitor", ID: "p"}, {Target: "monitor", ID: "a"}, {Target: "monitor", ID: "p/A"}, {Target: "Monitor", ID: "p/a"}, {Target: "pipeline", ID: "p"}} {
			f.wantPaused(other.Target, other.ID, false)
			f.resume(other.Target, other.ID)
		}
		f.wantPauses(types.MonitorOf("p", "a"))
		f.pause("sink", "p/a")
		f.resume("monitor", "p/a")
		f.wantPauses(types.SinkOf("p", "a"))
	}},
	{name: "a target that the engine does not know is kept", run: func(f *fix) {
		f.pause("of.another:release", "a/b/c")
		f.wantPaused("of.another:release", "a/b/c", true)
		f.wantPauses(types.Pause{Target: "of.another:release", ID: "a/b/c"})
	}},
	{name: "all pauses are listed, ordered by target, then id", run: func(f *fix) {
		want := []types.Pause{
			{Target: "Sink", ID: "a"}, {Target: "monitor", ID: "A/b"}, {Target: "monitor", ID: "a"}, {Target: "monitor", ID: "a-"}, {Target: "monitor", ID: "a.b"},
			{Target: "monitor", ID: "a/b"}, {Target: "monitor", ID: "a0"}, {Target: "pipeline", ID: "a"}, {Target: "sink", ID: "a"},
		}
		for _, v := range slices.Backward(want) {
			f.pause(v.Target, v.ID)
		}
		f.wantPauses(want...)
	}},
}
