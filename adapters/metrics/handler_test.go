package metrics

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
)

func TestHandlerShowsTheProcessToo(t *testing.T) {
	t.Parallel()
	handler, err := New(fixedOptions(t))
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	answer, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, answer.StatusCode)
	assert.True(t, strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain; version=0.0.4"), answer.Header)
	for _, want := range []string{"\ngo_goroutines ", "\nprocess_start_time_seconds ", "\nstowage_start_time_seconds ", `stowage_pipeline_matches_total{monitor="strong",pipeline="earthquakes"} 85`} {
		assert.Contains(t, string(body), want)
	}
}

func TestTwoHandlersDoNotMeet(t *testing.T) {
	t.Parallel()
	for range 2 {
		_, err := New(fixedOptions(t))
		require.NoError(t, err)
	}
}

func TestHandlerSpeaksOpenMetrics(t *testing.T) {
	t.Parallel()
	handler, err := New(fixedOptions(t))
	require.NoError(t, err)
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	assert.Contains(t, answer.Header().Get("Content-Type"), "application/openmetrics-text")
	assert.True(t, strings.HasSuffix(answer.Body.String(), "# EOF\n"))
}

func TestHandlerReadsOnly(t *testing.T) {
	t.Parallel()
	handler, err := New(Options{})
	require.NoError(t, err)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, answer.Code)
	assert.Equal(t, "GET, HEAD", answer.Header().Get("Allow"))
}

func TestBadOptionsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Timeout: -time.Second})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
}

func TestFailuresAreLogged(t *testing.T) {
	t.Parallel()
	log := new(lines)
	failures{log.logger()}.Println("error gathering metrics:", fmt.Errorf("boom"))
	assert.Contains(t, log.take(), "boom")
}
