package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A feed goes on wherever it was stopped, in the middle of a line too, and the file is the text.
func TestAFeedGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, `{"n":%d}`+"\n", i)
	}
	whole := text.String()
	for _, had := range []int{0, 1, 7, 8, 9, 100, len(whole) - 1, len(whole)} {
		path := filepath.Join(t.TempDir(), "live")
		if had > 0 {
			require.NoError(t, os.WriteFile(path, []byte(whole[:had]), 0o600))
		}
		f, err := newFeeder([]byte(whole), path)
		require.NoError(t, err)
		assert.Equal(t, strings.Count(whole[:had], "\n"), f.count())
		require.NoError(t, f.run(t.Context(), 0))
		assert.Equal(t, 40, f.count())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, whole, string(got), "from byte %d", had)
	}
}

func TestAFeedThatIsStoppedLeavesWholeLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "live")
	f, err := newFeeder([]byte(strings.Repeat("{}\n", 1000)), path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.run(ctx, 500) }()
	require.Eventually(t, func() bool { return f.count() > 0 }, waitFor, tick)
	cancel()
	require.NoError(t, <-done)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, f.count(), strings.Count(string(got), "\n"))
	assert.True(t, strings.HasSuffix(string(got), "}\n"))
	assert.Less(t, f.count(), 1000)
}

func TestAFeedLeavesAForeignFileAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "live")
	require.NoError(t, os.WriteFile(path, []byte("{}\nx"), 0o600))
	_, err := newFeeder([]byte("{}\n{}\n"), path)
	require.ErrorContains(t, err, "something else")
	require.NoError(t, os.WriteFile(path, []byte("{}\n{}\nmore\n"), 0o600))
	f, err := newFeeder([]byte("{}\n{}\n"), path)
	require.NoError(t, err, "somebody has added to it")
	assert.Equal(t, 2, f.count())
	require.NoError(t, f.run(t.Context(), 0))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "{}\n{}\nmore\n", string(got))
}
