package localqueue

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A process that is being started has a copy of every descriptor until it executes.
func TestReleasedLockIsFreeWhileAChildHasACopyOfIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := lockDirectory("test", "the directory", dir)
	require.NoError(t, err)
	child, err := unix.Dup(int(first.file.Fd()))
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(child)) }()
	require.NoError(t, first.release())
	second, err := lockDirectory("test", "the directory", dir)
	require.NoError(t, err)
	require.NoError(t, second.release())
}
