package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPagesAreSentOnce(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("stowage.toml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("expected.txt")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "stowage.toml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), file, &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("want\n%sgot\n%s", want, out.String())
	}
	// The same readings once more lie within the cooldown: the gate remembers, across the restart.
	out.Reset()
	if err := run(t.Context(), file, &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "" {
		t.Errorf("the cooldown is forgotten: %s", out.String())
	}
}
