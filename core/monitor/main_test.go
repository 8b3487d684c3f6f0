package monitor_test

import (
	"bufio"
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/core/monitor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quake is an event of the quickstart.
const quake = `{"id":"us2000crl8","time":1517365017350,"mag":4.7,"place":"232km ENE of Raoul Island, New Zealand","type":"earthquake","net":"us","lon":-175.7709,"lat":-28.3222,"depth_km":10}`

// quakeFields declares its members.
func quakeFields() map[string]string {
	return map[string]string{
		"id": "string", "time": "number", "mag": "number", "place": "string", "type": "string", "net": "string",
		"lon": "number", "lat": "number", "depth_km": "number",
	}
}

// quakes are the lines of the quickstart's file.
func quakes(t testing.TB) [][]byte {
	t.Helper()
	text, err := os.ReadFile("../../docs/examples/quickstart/earthquakes.ndjson")
	require.NoError(t, err)
	var lines [][]byte
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		lines = append(lines, bytes.Clone(scanner.Bytes()))
	}
	return lines
}

func rule(t testing.TB, when string, fields map[string]string) *monitor.Rule {
	t.Helper()
	r, err := monitor.Compile(when, fields)
	require.NoError(t, err, when)
	return r
}

func value(t testing.TB, expr string) *monitor.Value {
	t.Helper()
	v, err := monitor.CompileValue(expr, nil)
	require.NoError(t, err, expr)
	return v
}

func read(t testing.TB, event string, exprs ...monitor.Expression) monitor.Env {
	t.Helper()
	env, err := monitor.NewReader(exprs...).Read([]byte(event))
	require.NoError(t, err)
	return env
}

// match compiles an expression and holds it against an event.
func match(t testing.TB, when, event string) (bool, error) {
	t.Helper()
	r := rule(t, when, nil)
	return r.Match(read(t, event, r))
}
