package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/localkv"
	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// Each module's example is a configuration from which a store, a source or a sink can be opened (R264).
func TestStoresOpenFromTheExamples(t *testing.T) {
	t.Parallel()
	for _, m := range append(newCatalog().Modules(), catalog.Module{ModuleInfo: ports.ModuleInfo{Name: "config init", Example: exampleConfig()}}) {
		t.Run(string(m.Kind)+" "+m.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if m.Name == "queuehttp" { // its example names a file that an operator puts there
				write(t, filepath.Join(dir, "stowage-data", "queue-tokens", "orders"), "a-token-of-somebody-else", 0o600)
			}
			stores := compose(t, dir, m.Example, ports.SystemClock())
			cfg, err := config.Parse(filepath.Join(dir, "stowage.toml"), []byte(m.Example))
			require.NoError(t, err)
			require.True(t, len(stores.Names()) > 0 || len(cfg.Pipelines) > 0, "it configures something")
			if cfg.Storage != nil {
				storage, err := stores.Storage(t.Context())
				require.NoError(t, err)
				require.NoError(t, storage.Pause(t.Context(), types.PipelineOf("quakes")))
			}
			for _, p := range cfg.Pipelines {
				if p.Source != nil {
					source, err := stores.OpenSource(t.Context(), p, nil)
					require.NoError(t, err)
					require.NoError(t, source.Close())
				}
				for _, s := range p.Sinks {
					sink, err := stores.OpenSink(t.Context(), p.ID, s)
					require.NoError(t, err)
					if s.Module == "webhook" || s.Module == "stdout" {
						continue // a test says nothing to the world
					}
					require.NoError(t, sink.Deliver(t.Context(), *fixture.DeadLetter(1).Payload))
					if closer, ok := sink.(io.Closer); ok {
						require.NoError(t, closer.Close())
					}
				}
			}
			for name := range cfg.Kv {
				kv, err := stores.Kv(t.Context(), name)
				require.NoError(t, err)
				_, err = kv.Put(t.Context(), "k", []byte("v"), types.PutOptions{})
				require.NoError(t, err)
			}
			for name, store := range cfg.Queue {
				q, err := stores.Queue(t.Context(), name)
				require.NoError(t, err)
				if store.Module != "queuehttp" {
					require.NoError(t, q.Send(t.Context(), types.Text("v"), types.SendOptions{}))
				}
			}
		})
	}
}

// A store that another process has open is backed up and verified beside it, unless that process
// wants it for itself.
func TestBackupAndVerifyBesideAnOwner(t *testing.T) {
	t.Parallel()
	stowage, err := exec.LookPath("stowage")
	require.NoError(t, err)
	for _, test := range []struct {
		mode localkv.Mode
		want int
	}{
		{localkv.MultiProcess, exitDone},
		{localkv.SingleProcess, exitUnavailable},
	} {
		t.Run(test.mode.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store, err := localkv.Open(t.Context(), localkv.Options{Dir: filepath.Join(dir, "kv"), Mode: test.mode, Log: fixture.Logger(t)})
			require.NoError(t, err)
			defer func() { require.NoError(t, store.Close()) }()
			_, err = store.Put(t.Context(), "k", []byte("v"), types.PutOptions{})
			require.NoError(t, err)
			for _, args := range [][]string{
				{"verify", "--kv-dir", "kv"},
				{"backup", "--kv-dir", "kv", "--to", "copy"},
				{"kv", "get", "k", "--dir", "kv"},
			} {
				cmd := exec.CommandContext(t.Context(), stowage, args...)
				cmd.Dir, cmd.Env = dir, cleanEnvironment()
				output, err := cmd.CombinedOutput()
				if test.want == exitDone {
					require.NoError(t, err, "%v: %s", args, output)
					continue
				}
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit, "%v: %s", args, output)
				require.Equal(t, test.want, exit.ExitCode(), "%v: %s", args, output)
			}
			// The owner goes on.
			_, err = store.Put(t.Context(), "k", []byte("w"), types.PutOptions{})
			require.NoError(t, err)
		})
	}
}

// fill stores records of every category.
func fill(t *testing.T, storage ports.Storage) {
	t.Helper()
	ctx := t.Context()
	value := []byte("{\"name\": \"Z\u00fcrich \\u003c\", \"n\": 1.50,\n \"big\": 123456789012345678901234567890}")
	_, err := storage.PutResource(ctx, "pipeline", "quakes", []byte("null"), 0)
	require.NoError(t, err)
	_, err = storage.PutResource(ctx, "pipeline", "quakes", value, 1)
	require.NoError(t, err)
	require.NoError(t, storage.Pause(ctx, types.SinkOf("quakes", "alerts")))
	require.NoError(t, storage.Pause(ctx, types.PipelineOf("quakes")))
	for i, pipeline := range []types.PipelineID{"quakes", "weather"} {
		checkpoint := fixture.Checkpoint(7 + i)
		bare, emission := fixture.DeadLetter(2), fixture.DeadLetter(3)
		bare.Payload = nil
		emission.Payload = &types.SinkEvent{Emission: &types.Emission{Match: fixture.Match(3), Key: "ё", Hits: 2, FirstTS: 1, LastTS: 2}}
		meta := fixture.GateMeta(1)
		meta.Aux = []byte{0, 255, '\n'}
		require.NoError(t, storage.Apply(ctx, pipeline, types.Progress{
			Checkpoint:  &checkpoint,
			Deliveries:  []types.Delivery{fixture.Delivery(5), fixture.Delivery(4)},
			DeadLetters: []types.DeadLetter{fixture.DeadLetter(9), bare, emission},
			Hits:        []types.GateHit{fixture.GateHit(2), fixture.GateHit(1)},
			Metas:       []types.MonitorMeta{{Monitor: "strong", Meta: meta}, {Monitor: "weak", Meta: types.GateMeta{Aux: []byte{}}}, {Monitor: "idle"}},
		}))
	}
}

// Everything goes from one backend into another and comes out as it was.
func TestExportsAreTheSameInEveryBackend(t *testing.T) {
	t.Parallel()
	open := func(module, keys string) ports.Storage {
		storage, err := compose(t, t.TempDir(), storageText(module, keys, 0), ports.SystemClock()).Storage(t.Context())
		require.NoError(t, err)
		return storage
	}
	export := func(from ports.Storage) string {
		var text strings.Builder
		_, err := ports.WriteArchive(t.Context(), &text, from.(ports.Archiver))
		require.NoError(t, err)
		return text.String()
	}
	first := open("sqlite", "")
	fill(t, first)
	want := export(first)
	require.Equal(t, 1+2+2*(1+3+2+2+3), strings.Count(want, "\n")-2, "records\n%s", want)
	for _, to := range []struct{ module, keys string }{{"memory", ""}, {"sqlite", `path = ":memory:"`}, {"sqlite", ""}} {
		storage := open(to.module, to.keys)
		var counts archiveCounts
		n, err := storage.(ports.Archiver).Import(t.Context(), counts.counting(ports.ReadArchive(strings.NewReader(want))))
		require.NoError(t, err)
		assert.Equal(t, want, export(storage), "%s %s", to.module, to.keys)
		assert.Equal(t, archiveCounts{Records: n, Resources: 1, Checkpoints: 2, DeadLetters: 6, Pauses: 2, Deliveries: 4, GateHits: 4, GateMetas: 6}, counts)
	}
}

// An export that fails in the middle leaves no file, and one that meets a file on its way leaves it
// alone.
func TestWriteAsideLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "export")
	names := func() (names []string) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	half := errors.New("half done")
	err := writeAside(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "text")
		require.NoError(t, err)
		return half
	})
	require.ErrorIs(t, err, half)
	assert.Empty(t, names())

	err = writeAside(path, func(io.Writer) error { return os.WriteFile(path, []byte("of somebody else"), 0o600) })
	require.ErrorIs(t, err, ports.ErrAlreadyExists)
	assert.Equal(t, []string{"export"}, names())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "of somebody else", string(text))
}
