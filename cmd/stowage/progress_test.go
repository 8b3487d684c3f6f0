package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProgressIsDrawnNowAndThen(t *testing.T) {
	t.Parallel()
	var w strings.Builder
	now := time.Unix(0, 0)
	p := &progress{w: &w, now: func() time.Time { return now }, total: 200}
	p.update(50, "1 sent")
	p.update(60, "2 sent") // too soon
	now = now.Add(progressEvery)
	p.update(400, "3 sent") // more than there should be
	p.clear()
	p.clear()
	assert.Equal(t, "\r\x1b[K[=======                       ]  25%  1 sent"+
		"\r\x1b[K[==============================] 100%  3 sent"+
		"\r\x1b[K", w.String())
}

func TestProgressIsForTerminalsOnly(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	p := newProgress(f, 10)
	require.Nil(t, p)
	p.update(1, "nothing")
	p.clear()
}
