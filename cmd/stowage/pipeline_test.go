package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// A file of 2,500 events goes in three batches. Wherever it stops, the report says what is in and where to
// go on, and going on from there makes it whole.
func TestPostedEventsStopWhereTheReportSays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events")
	var text strings.Builder
	for i := range 2500 {
		text.WriteString("\n" + strconv.Itoa(i) + "\n")
	}
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	closed := ports.Errorf(ports.CodeStoreClosed, "test", "it is not running now")
	unknown := ports.Errorf(ports.CodeOutcomeUnknown, "test", "the connection broke")
	for _, c := range []struct {
		fails   int // the call that fails
		err     error
		in      int
		stopped int
		code    int
	}{
		{0, nil, 2500, 0, exitDone},
		{1, closed, 0, 2, exitUnavailable},
		{2, closed, 1000, 2002, exitPartly},
		{3, unknown, 2000, 4002, exitUnknown},
	} {
		var got []string
		calls := 0
		run := func(from int, fails int) (*eventPoster, error) {
			f, err := os.Open(path)
			require.NoError(t, err)
			defer f.Close()
			calls = 0
			p := &eventPoster{lines: newLineReader(t.Context(), f), from: from, post: func(_ context.Context, events [][]byte) error {
				if calls++; calls == fails {
					return c.err
				}
				for _, e := range events {
					got = append(got, string(e))
				}
				return nil
			}}
			return p, p.run(t.Context())
		}
		p, err := run(1, c.fails)
		require.ErrorIs(t, err, c.err)
		assert.Equal(t, c.in, p.accepted)
		assert.Equal(t, c.stopped, p.stopped)
		out, openErr := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, openErr)
		err = p.report(&app{out: out}, formatTable, err)
		require.NoError(t, out.Close())
		if err != nil {
			err = &ranError{err}
		}
		assert.Equal(t, c.code, exitCode(err))
		if c.stopped > 0 {
			_, err = run(c.stopped, 0)
			require.NoError(t, err)
		}
		require.Len(t, got, 2500)
		for i, e := range got {
			require.Equal(t, strconv.Itoa(i), e)
		}
	}
}

func TestAPostThatIsInterruptedSaysWhereItWas(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events")
	require.NoError(t, os.WriteFile(path, []byte("1\n2\n"), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	p := &eventPoster{lines: newLineReader(t.Context(), f), from: 1, post: func(context.Context, [][]byte) error { return nil }}
	require.ErrorIs(t, p.run(ctx), stopped)
	assert.Zero(t, p.accepted)
	assert.Equal(t, 1, p.stopped)
}

func TestLagsArePrintedForPeople(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{0: "0s", 0.04: "0s", 0.34: "300ms", 12.345: "12.3s", 3723.4: "1h2m3s"} {
		assert.Equal(t, want, lagOf(types.PipelineStatus{LagSeconds: seconds}))
	}
}

// A sink that waits for its receiver says until when, beside what it was told.
func TestAPipelineShowsUntilWhenASinkWaits(t *testing.T) {
	t.Parallel()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	failed := fixture.Epoch()
	require.NoError(t, showPipeline(&app{out: out}, types.PipelineStatus{
		ID: "tides", State: types.PipelineRunning, Sinks: []types.SinkStatus{
			{ID: "alerts", Module: "webhook", Pending: 3, LastError: "429 Too Many Requests", LastErrorAt: failed, WaitingUntil: failed.Add(time.Hour)},
			{ID: "log", Module: "stdout", LastError: "a full disk", LastErrorAt: failed},
		},
	}))
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	assert.Contains(t, string(text), "  tried again at 2026-03-01T13:00:00Z; 2026-03-01T12:00:00Z 429 Too Many Requests\n")
	assert.Contains(t, string(text), "  2026-03-01T12:00:00Z a full disk\n")
}
