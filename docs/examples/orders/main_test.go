package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stowage-go/stowage/adapters/memory"
	"github.com/stowage-go/stowage/ports"
)

const firstRun = `order 1: 2 tea, 2 sold so far
order 2: 1 coffee, 1 sold so far
order 3: 3 tea, 5 sold so far
`

// configured puts the service's own stowage.toml, with some words replaced, into a folder of its own.
func configured(t *testing.T, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile("stowage.toml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "stowage.toml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func output(t *testing.T, file string) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), file, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTotalsSurviveARestart(t *testing.T) {
	t.Parallel()
	file := configured(t)
	if got := output(t, file); got != firstRun {
		t.Errorf("first run: want\n%sgot\n%s", firstRun, got)
	}
	want := "order 3: 3 tea, 10 sold so far\n"
	if got := output(t, file); !strings.HasSuffix(got, want) {
		t.Errorf("second run: want it to end in\n%sgot\n%s", want, got)
	}
}

func TestAnotherAdapterIsALineOfConfiguration(t *testing.T) {
	t.Parallel()
	file := configured(t, "localkv", "memory", "localqueue", "memory")
	for range 2 {
		if got := output(t, file); got != firstRun {
			t.Errorf("memory forgets: want\n%sgot\n%s", firstRun, got)
		}
	}
}

func TestAddLosesNothing(t *testing.T) {
	t.Parallel()
	kv := memory.NewKv(ports.SystemClock())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 25 {
				if _, err := add(context.Background(), kv, "total:tea", 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if sum, err := add(t.Context(), kv, "total:tea", 0); sum != 200 || err != nil {
		t.Errorf("want 200 and no error, got %d and %v", sum, err)
	}
}
