package control_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

func TestNewRefusesWhatItCannotDoWithout(t *testing.T) {
	t.Parallel()
	_, err := control.New(control.Options{Sinks: &resolver{}})
	require.ErrorIs(t, err, ports.ErrInvalidInput)
	_, err = control.New(control.Options{Storage: model.NewStorage(0)})
	require.ErrorIs(t, err, ports.ErrInvalidInput)

	h, err := control.New(control.Options{Storage: model.NewStorage(0), Sinks: &resolver{}})
	require.NoError(t, err, "a clock and a log are there by default")
	_, err = h.SetCheckpoint(t.Context(), fixture.Pipeline, types.CheckpointChange{})
	require.NoError(t, err)
}

// What breaks a rule is refused before the storage is touched.
func TestInputIsCheckedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	const bad, good = types.PipelineID("no/slash"), fixture.Pipeline
	huge := types.Cursor{Primary: ports.MaxStoredInteger + 1}
	second := func(_ any, err error) error { return err }
	for name, call := range map[string]func() error{
		"set checkpoint, pipeline": func() error { return second(w.SetCheckpoint(ctx, bad, types.CheckpointChange{})) },
		"set checkpoint, cursor":   func() error { return second(w.SetCheckpoint(ctx, good, types.CheckpointChange{Cursor: huge})) },
		"delete checkpoint":        func() error { return second(w.DeleteCheckpoint(ctx, bad)) },
		"letter, pipeline":         func() error { return second(w.Letter(ctx, bad, "m")) },
		"letter, match":            func() error { return second(w.Letter(ctx, good, "")) },
		"letters, pipeline":        func() error { return second(w.Letters(ctx, bad, types.LetterFilter{}, types.LetterQuery{Take: 1})) },
		"letters, skip": func() error {
			return second(w.Letters(ctx, good, types.LetterFilter{}, types.LetterQuery{Skip: -1, Take: 1}))
		},
		"letters, take": func() error {
			return second(w.Letters(ctx, good, types.LetterFilter{Sink: "a"}, types.LetterQuery{Take: 1001}))
		},
		"letters, filter by monitor": func() error {
			return second(w.Letters(ctx, good, types.LetterFilter{Monitor: "a b"}, types.LetterQuery{Take: 1}))
		},
		"preview, filter by sink": func() error { return second(w.PreviewLetters(ctx, good, types.LetterFilter{Sink: "a b"})) },
		"replay, pipeline":        func() error { return w.ReplayLetter(ctx, bad, "m") },
		"replay, match":           func() error { return w.ReplayLetter(ctx, good, "a b") },
		"discard, pipeline":       func() error { return w.DiscardLetter(ctx, bad, "m") },
		"discard, match":          func() error { return w.DiscardLetter(ctx, good, "a b") },
		"replay many, pipeline":   func() error { return second(w.ReplayLetters(ctx, bad, types.LetterSelection{})) },
		"replay many, through":    func() error { return second(w.ReplayLetters(ctx, good, types.LetterSelection{Through: -1})) },
		"discard many, filter": func() error {
			return second(w.DiscardLetters(ctx, good, types.LetterSelection{Filter: types.LetterFilter{Sink: "/"}}))
		},
		"discard many, through":       func() error { return second(w.DiscardLetters(ctx, good, types.LetterSelection{Through: -1})) },
		"pause, target":               func() error { return w.Pause(ctx, types.Pause{Target: "queue", ID: "orders"}) },
		"pause, id of a pipeline":     func() error { return w.Pause(ctx, types.Pause{Target: types.PausePipeline, ID: "a/b"}) },
		"pause, id of a sink":         func() error { return w.Pause(ctx, types.Pause{Target: types.PauseSink, ID: "a"}) },
		"pause, id of a monitor":      func() error { return w.Pause(ctx, types.Pause{Target: types.PauseMonitor, ID: "a/b/c"}) },
		"pause, character":            func() error { return w.Pause(ctx, types.Pause{Target: types.PausePipeline, ID: "a b"}) },
		"pause, empty":                func() error { return w.Pause(ctx, types.Pause{Target: types.PausePipeline}) },
		"resume, id that none can be": func() error { return w.Resume(ctx, types.Pause{Target: "pipeline", ID: "a b"}) },
	} {
		require.ErrorIs(t, call(), ports.ErrInvalidInput, name)
	}
	require.Zero(t, w.faults.Calls(""), "calls that the storage saw")
}

func TestPausesAreKeptUntilTheyAreResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	pauses := []types.Pause{
		types.MonitorOf(fixture.Pipeline, fixture.Monitor), types.PipelineOf("volcanoes"), types.SinkOf(fixture.Pipeline, fixture.Sink),
	}
	for range 2 {
		for _, p := range pauses {
			require.NoError(t, w.Pause(ctx, p))
		}
	}
	successor := w.handle(t, w.store)
	listed, err := successor.Pauses(ctx)
	require.NoError(t, err)
	require.Equal(t, pauses, listed, "ordered, each once, and there for the next handle too")

	for range 2 {
		require.NoError(t, successor.Resume(ctx, pauses[1]))
	}
	listed, err = w.Pauses(ctx)
	require.NoError(t, err)
	require.Equal(t, []types.Pause{pauses[0], pauses[2]}, listed)
}

func TestPauseNamesTheTargetsThatThereAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.Pause(t.Context(), types.Pause{Target: "gate", ID: "a/b"})
	for _, want := range []string{`"gate"`, "pipeline", "monitor", "sink"} {
		require.ErrorContains(t, err, want)
	}
}

// A pause that another program left behind can be taken away.
func TestResumeTakesAnyPauseThatIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := types.Pause{Target: "network", ID: "main"}
	require.NoError(t, w.store.Pause(t.Context(), foreign))
	require.NoError(t, w.Resume(t.Context(), foreign))
	require.Empty(t, w.everything(t))
}
