package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/localkv"
	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// Each module's example is a configuration from which a store can be opened.
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
			require.NotEmpty(t, stores.Names())
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
