package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/testkit/fixture"
)

func TestAStorageCountsItsCommitsAndNotItsLooks(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	opened := s.Metrics()
	_, err := s.CountDeadLetters(t.Context())
	require.NoError(t, err)
	_, err = s.CountDeliveries(t.Context())
	require.NoError(t, err)
	require.Equal(t, opened, s.Metrics(), "a scrape is no commit")
	require.NoError(t, s.RecordDeadLetter(t.Context(), "p", fixture.DeadLetter(1)))
	require.Equal(t, opened.Commits+1, s.Metrics().Commits)
	require.Greater(t, s.Metrics().WALBytes, opened.WALBytes)
}
