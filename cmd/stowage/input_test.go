package main

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnInterruptEndsTheWaitForInput(t *testing.T) {
	t.Parallel()
	silent, theirs, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(theirs.Close(), silent.Close())) })
	ctx, cancel := context.WithCancelCause(t.Context())
	input := stoppable(ctx, silent)
	_, err = theirs.WriteString("typed")
	require.NoError(t, err)
	got := make([]byte, 16)
	n, err := input.Read(got)
	require.NoError(t, err)
	assert.Equal(t, "typed", string(got[:n]))
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	_, err = input.Read(got)
	require.ErrorIs(t, err, interrupted)
}

func TestInputEndsAsItsSourceDoes(t *testing.T) {
	t.Parallel()
	from, to, err := os.Pipe()
	require.NoError(t, err)
	_, err = to.WriteString("all of it")
	require.NoError(t, err)
	require.NoError(t, to.Close())
	got, err := io.ReadAll(stoppable(t.Context(), from))
	require.NoError(t, err)
	assert.Equal(t, "all of it", string(got))
	require.NoError(t, from.Close())
}
