package localqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// The engine of the original implementation, as a package of node.
const (
	tursoPackages  = "@tursodatabase/database@0.7.2 @tursodatabase/database-common@0.7.2"
	installLimit   = 2 * time.Minute
	requireTurso   = "STOWAGE_REQUIRE_TURSO" // set it to fail rather than skip without the engine
	tursoScript    = "queue.mjs"
	scriptDeadline = time.Minute
)

// turso is the folder in which the engine is installed, once for all tests. TestMain removes it.
var turso struct {
	once    sync.Once
	dir     string
	missing error // why the engine is not there
}

// runTurso runs the script on a queue that nobody has open, with the real engine, and returns what
// it prints. Without node, or with no way to fetch the engine, the test is skipped.
func runTurso(t *testing.T, args ...string) []byte {
	t.Helper()
	turso.once.Do(func() { turso.dir, turso.missing = installTurso() })
	if turso.missing != nil {
		if os.Getenv(requireTurso) != "" {
			t.Fatalf("the Turso engine is not here: %v", turso.missing)
		}
		t.Skipf("the Turso engine is not here, so what it reads and writes cannot be compared: %v", turso.missing)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join(turso.dir, tursoScript)}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s", args, stderr.String())
	return out
}

func installTurso() (dir string, err error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%s is not installed", program)
		}
	}
	if dir, err = os.MkdirTemp("", "stowage-turso-"); err != nil {
		return "", err
	}
	// A package.json keeps npm from looking for one in the folders above, and a script finds the
	// packages beside itself.
	script, err := os.ReadFile(filepath.Join("testdata/turso", tursoScript))
	if err == nil {
		err = errors.Join(
			os.WriteFile(filepath.Join(dir, tursoScript), script, 0o600),
			os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o600),
		)
	}
	if err != nil {
		return dir, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installLimit)
	defer cancel()
	args := append([]string{"install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"},
		strings.Fields(tursoPackages)...)
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("npm could not install it: %w: %s", err, out)
	}
	return dir, nil
}

// tursoRow is a row as the script prints it: every column as text, and the storage classes.
type tursoRow struct {
	ID       string  `json:"id"`
	Kind     string  `json:"kind"`
	Data     string  `json:"data"`
	Enqueued string  `json:"enqueued"`
	Visible  string  `json:"visible"`
	Attempt  string  `json:"attempt"`
	Receipt  *string `json:"receipt"`
	Types    string  `json:"types"`
}

const tursoColumns = `CAST(id AS TEXT), payload_type, payload_data, CAST(enqueued_at AS TEXT), CAST(visible_at AS TEXT), CAST(attempt AS TEXT), receipt_handle,
typeof(payload_type) || ',' || typeof(payload_data) || ',' || typeof(enqueued_at) || ',' || typeof(visible_at) || ',' || typeof(attempt) || ',' || typeof(receipt_handle)`

// tursoRows are all rows of a queue that is closed, as Turso reads them.
func tursoRows(t *testing.T, dir string) []tursoRow {
	t.Helper()
	var rows []tursoRow
	require.NoError(t, json.Unmarshal(runTurso(t, "read", filepath.Join(dir, databaseName)), &rows))
	return rows
}

// ourRows are the same rows as this engine reads them.
func ourRows(t *testing.T, dir string) []tursoRow {
	t.Helper()
	file := openRaw(t, dir)
	defer func() { require.NoError(t, file.Close()) }()
	rows := []tursoRow{}
	require.NoError(t, file.Read(t.Context(), "look", func(c *sqlitefile.Conn) error {
		return c.Query("SELECT "+tursoColumns+" FROM messages ORDER BY id", func(r sqlitefile.Row) error {
			row := tursoRow{r.Text(0), r.Text(1), r.Text(2), r.Text(3), r.Text(4), r.Text(5), nil, r.Text(7)}
			if receipt, ok := r.Value(6).(string); ok {
				row.Receipt = &receipt
			}
			rows = append(rows, row)
			return nil
		})
	}))
	return rows
}

// requireSameRows asserts that both engines read the same, row by row: one is up to 64 KiB long.
func requireSameRows(t *testing.T, dir string) {
	t.Helper()
	ours, theirs := ourRows(t, dir), tursoRows(t, dir)
	require.Len(t, theirs, len(ours))
	for i := range ours {
		require.True(t, reflect.DeepEqual(ours[i], theirs[i]), "row %s: we read %.300q, Turso reads %.300q", ours[i].ID, fmt.Sprint(ours[i]), fmt.Sprint(theirs[i]))
	}
}

func TestTursoReadsAndContinuesOurQueue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := fixture.NewClock(fixture.Epoch())
	q, err := Open(t.Context(), Options{Dir: dir, Clock: clock, Log: fixture.Logger(t)})
	require.NoError(t, err)
	for i := range 200 {
		require.NoError(t, q.Send(t.Context(), fixture.TextOfSize(i*i%3000), types.SendOptions{}))
		clock.Advance(time.Millisecond)
	}
	for _, p := range []types.Payload{
		types.JSON([]byte(`{"big":9007199254740993,"s":"<&>\u0000é"}`)), types.Text(""), types.Text("nul\x00inside 🚀"), fixture.TextOfSize(ports.MaxPayloadBytes),
	} {
		require.NoError(t, q.Send(t.Context(), p, types.SendOptions{Delay: time.Duration(len(p.Data)) * time.Second % time.Hour}))
	}
	messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
	require.NoError(t, err)
	require.NoError(t, q.Ack(t.Context(), messages[0].Receipt))
	require.NoError(t, q.Nack(t.Context(), messages[1].Receipt, types.NackOptions{}))
	require.NoError(t, q.Nack(t.Context(), messages[2].Receipt, types.NackOptions{Delay: time.Hour}))
	require.NoError(t, q.Close())
	requireSameRows(t, dir)

	// Turso does what the original does: it sends one message and receives the two that are next.
	at := strconv.FormatInt(clock.Now().UnixMilli(), 10)
	var claimed []tursoRow
	require.NoError(t, json.Unmarshal(runTurso(t, "work", filepath.Join(dir, databaseName), at), &claimed))
	require.Len(t, claimed, 2)

	q = openQueue(t, Options{Dir: dir, Clock: clock})
	requireIndexMatchesFile(t, q)
	require.NoError(t, q.Verify(t.Context()))
	for _, row := range claimed {
		id, err := strconv.ParseInt(row.ID, 10, 64)
		require.NoError(t, err)
		require.NoError(t, q.Ack(t.Context(), ports.FormatReceipt(id, *row.Receipt)), "a receipt of the original works")
	}
	var last types.Message
	for {
		messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
		require.NoError(t, err)
		if len(messages) == 0 {
			break
		}
		last = messages[len(messages)-1]
	}
	require.Equal(t, types.Text("from the other engine"), last.Payload)
	require.NoError(t, q.Close())
	requireSameRows(t, dir)
}

func TestTursoReadsAQueueWhoseOwnerWasKilled(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	owner := startChild(t)
	owner.do("own %s", state)
	owner.send("load quakes 2 0")
	want := map[string]string{}
	for range 100 {
		note(t, owner, want)
	}
	require.NoError(t, owner.cmd.Process.Kill())
	for note(t, owner, want) {
	}
	dir := filepath.Join(state, ownedName, "quakes")
	require.FileExists(t, filepath.Join(dir, databaseName+"-wal"), "the rows are still in the log")
	read := map[string]bool{}
	for _, row := range tursoRows(t, dir) {
		read[row.Data] = true
	}
	for text := range want {
		require.True(t, read[text], text)
	}
}
