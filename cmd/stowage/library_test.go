package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/localkv"
	"github.com/stowage-go/stowage/adapters/queuehttp"
	"github.com/stowage-go/stowage/adapters/sqlite"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// README.md shows the functions below as they stand here.

func takeLead(ctx context.Context, dir string) (mine bool, err error) {
	store, err := localkv.Open(ctx, localkv.Options{Dir: dir})
	if err != nil {
		return false, err
	}
	defer store.Close()

	// Of all the processes that try this, one wins, until the entry expires.
	result, err := store.Put(ctx, "leader", []byte("me"), types.PutOptions{
		If:  types.IfAbsent(),
		TTL: 30 * time.Second,
	})
	return result.Applied, err
}

func work(ctx context.Context, binding []byte, handle func(types.Payload) error) error {
	to, err := queuehttp.ParseBinding(binding) // what "stowage queue binding orders -o json" prints
	if err != nil {
		return err
	}
	queue, err := queuehttp.NewClient(to, queuehttp.Options{})
	if err != nil {
		return err
	}
	defer queue.Close()

	for {
		messages, err := queue.Receive(ctx, types.ReceiveOptions{Max: 10, Wait: 20 * time.Second})
		if err != nil {
			return err
		}
		for _, m := range messages {
			if handle(m.Payload) != nil {
				continue // the message comes back when its lease ends
			}
			if err := queue.Ack(ctx, m.Receipt); err != nil {
				return err
			}
		}
	}
}

func step(ctx context.Context, store ports.Storage, done types.Delivery, failed types.DeadLetter) error {
	return store.Apply(ctx, "quakes", types.Progress{
		Checkpoint:  &types.Checkpoint{Cursor: done.Cursor},
		Deliveries:  []types.Delivery{done},
		DeadLetters: []types.DeadLetter{failed},
	})
}

func TestReadmeShowsTheseFunctions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.FromSlash("../../README.md"))
	require.NoError(t, err)
	source, err := os.ReadFile("library_test.go")
	require.NoError(t, err)
	for _, name := range []string{"takeLead", "work", "step"} {
		_, code, ok := strings.Cut(string(source), "\nfunc "+name+"(")
		require.True(t, ok, name)
		code, _, ok = strings.Cut(code, "\n}\n")
		require.True(t, ok, name)
		assert.Contains(t, string(page), "```go\nfunc "+name+"("+code+"\n}\n```\n", "README.md shows %s", name)
	}
}

func TestOneTakesTheLead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine, err := takeLead(t.Context(), dir)
	require.NoError(t, err)
	assert.True(t, mine)
	mine, err = takeLead(t.Context(), dir)
	require.NoError(t, err)
	assert.False(t, mine)
}

func TestAStepIsStored(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "state.sqlite")})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	require.NoError(t, step(t.Context(), store, fixture.Delivery(7), fixture.DeadLetter(6)))
	checkpoint, found, err := store.LoadCheckpoint(t.Context(), "quakes")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, fixture.Delivery(7).Cursor, checkpoint.Cursor)
	letter, found, err := store.GetDeadLetter(t.Context(), "quakes", fixture.MatchID(6))
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, fixture.DeadLetter(6), letter.Letter)
}

func TestWorkHandlesWhatWasSent(t *testing.T) {
	t.Parallel()
	d := launch(t, t.TempDir())
	d.create(t, "orders")
	q := d.queue(t, "orders")
	for _, text := range []string{"a", "b", "c"} {
		require.NoError(t, q.Send(t.Context(), types.Text(text), types.SendOptions{}))
	}
	var binding []byte
	require.NoError(t, d.reach().withAdmin(func(c adminClient) error {
		got, err := c.Binding(t.Context(), "orders")
		if err != nil {
			return err
		}
		binding, err = ports.EncodeJSON(ports.NewWireBinding(got))
		return err
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var handled []string
	err := work(ctx, binding, func(p types.Payload) error {
		if handled = append(handled, p.Data); len(handled) == 3 {
			cancel() // with the third not acked
		}
		return nil
	})
	require.Error(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, handled)
}
