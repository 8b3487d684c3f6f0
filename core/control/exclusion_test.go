package control

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever leaves the line does not open another one.
func TestATurnIsOneForAll(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	turns := newTurns()
	release, err := turns.take(t.Context(), "earthquakes")
	require.NoError(t, err)
	for range 50 {
		_, err := turns.take(ended, "earthquakes")
		require.ErrorIs(t, err, context.Canceled)
	}
	release()
	release, err = turns.take(t.Context(), "earthquakes")
	require.NoError(t, err)
	release()
	require.Empty(t, turns.pipelines, "nothing is kept of those who left")
}

func TestClaimsAreForgottenWhenTheyAreReleased(t *testing.T) {
	t.Parallel()
	claims := newClaims()
	require.True(t, claims.claim("earthquakes", "a"))
	require.True(t, claims.claim("earthquakes", "b"))
	require.False(t, claims.claim("earthquakes", "a"))
	require.False(t, claims.claimAll("earthquakes"))
	claims.release("earthquakes", "a", "b")
	require.True(t, claims.claimAll("earthquakes"))
	require.False(t, claims.claim("earthquakes", "a"))
	claims.release("earthquakes") // of whoever could claim nothing
	require.False(t, claims.claim("earthquakes", "a"))
	claims.releaseAll("earthquakes")
	require.Empty(t, claims.pipelines)
}
