package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/localkv"
	"github.com/stowage-go/stowage/adapters/localqueue"
	"github.com/stowage-go/stowage/adapters/sqlite"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// sources parses the Go files below folders of the repository, by path. Inside a released module the
// other modules are not there.
func sources(t *testing.T, tests bool, folders ...string) map[string]*ast.File {
	t.Helper()
	root := filepath.FromSlash("../..")
	if _, err := os.Stat(filepath.Join(root, "go.work")); err != nil {
		t.Skip("the sources of the other modules are in the repository only; the test runs there")
	}
	files := map[string]*ast.File{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") != tests {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			name, relErr := filepath.Rel(root, path)
			require.NoError(t, relErr)
			files[filepath.ToSlash(name)] = file
			return err
		})
		require.NoError(t, err)
	}
	require.NotEmpty(t, files)
	return files
}

var (
	production  = []string{"types", "ports", "core", "adapters", "cmd", "docs/examples"}
	everyModule = append([]string{"testkit"}, production...)
)

// Each format has one reader and writer, and the handshake of all is in one place (R020, R045, R087):
// SQL that names a table of theirs stands nowhere else. The test kit is left out, whose payloads and
// receipts try to be SQL.
func TestEachFormatIsReadAndWrittenInOnePlace(t *testing.T) {
	t.Parallel()
	places := map[string]string{"meta": "adapters/sqlitefile/", "kv": "adapters/localkv/", "messages": "adapters/localqueue/"}
	for _, table := range []string{"resources", "checkpoints", "dead_letters", "delivery_journal", "pauses", "gate_hits", "gate_meta"} {
		places[table] = "adapters/sqlite/"
	}
	tables := strings.Join(slices.Sorted(maps.Keys(places)), "|")
	names := regexp.MustCompile(`\b(?:FROM|INTO|UPDATE|TABLE(?: IF NOT EXISTS)?|ON)\s+(` + tables + `)\b\s*(?:$|[(;,]|WHERE|SET|INDEXED|ORDER|VALUES)`)
	found := map[string]int{}
	for path, file := range sources(t, false, production...) {
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			for _, match := range names.FindAllStringSubmatch(text, -1) {
				table := match[1]
				found[table]++
				assert.True(t, strings.HasPrefix(path, places[table]), "%s names the table %s: only %s may", path, table, places[table])
			}
			return true
		})
	}
	for table := range places {
		assert.Positive(t, found[table], "the statements of the table %s are not recognized any more", table)
	}
}

// Adapters return the errors of ports and have none of their own (R006), and a configuration is
// reached through the factory alone: no exported type carries its keys (R007).
func TestAdaptersExportNeitherErrorsNorConfigurations(t *testing.T) {
	t.Parallel()
	configured := false
	for path, file := range sources(t, false, "adapters") {
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				assert.False(t, d.Recv != nil && (d.Name.Name == "Error" || d.Name.Name == "Unwrap"), "%s has an error type of its own", path)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					typ, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					body, ok := typ.Type.(*ast.StructType)
					if !ok {
						continue
					}
					for _, field := range body.Fields.List {
						if field.Tag == nil || !strings.Contains(field.Tag.Value, "toml:") {
							continue
						}
						configured = true
						assert.False(t, typ.Name.IsExported(), "%s exports the configuration %s", path, typ.Name)
					}
				}
			}
		}
	}
	assert.True(t, configured, "the configurations are not recognized any more")
}

// The methods of the memory adapter stand in the order of the port (R010).
func TestMemoryFollowsTheOrderOfThePort(t *testing.T) {
	t.Parallel()
	ports, memory := sources(t, false, "ports"), sources(t, false, "adapters/memory")
	for name, file := range map[string]string{"Kv": "kv.go", "Queue": "queue.go", "Storage": "storage.go"} {
		var got []string
		want := methodsOf(ports["ports/"+file], name)
		for _, declaration := range memory["adapters/memory/"+file].Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.IsExported() {
				got = append(got, f.Name.Name)
			}
		}
		require.Greater(t, len(want), 3, name)
		require.GreaterOrEqual(t, len(got), len(want), name)
		assert.Equal(t, want, got[:len(want)], "%s: what is beyond the port comes after it", name)
	}
}

// methodsOf are the methods of an interface of the file, those of embedded ones in their place.
func methodsOf(file *ast.File, name string) (methods []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		typ, ok := n.(*ast.TypeSpec)
		if !ok || typ.Name.Name != name {
			return true
		}
		for _, field := range typ.Type.(*ast.InterfaceType).Methods.List {
			if embedded, ok := field.Type.(*ast.Ident); ok && len(field.Names) == 0 {
				methods = append(methods, methodsOf(file, embedded.Name)...)
				continue
			}
			methods = append(methods, field.Names[0].Name)
		}
		return false
	})
	return methods
}

// Tests wait for conditions and move clocks; none sleeps (R281).
func TestNoTestSleeps(t *testing.T) {
	t.Parallel()
	files := sources(t, true, everyModule...)
	maps.Copy(files, sources(t, false, "testkit"))
	for path, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && call.Sel.Name == "Sleep" {
				pkg, ok := call.X.(*ast.Ident)
				assert.False(t, ok && pkg.Name == "time", "%s sleeps", path)
			}
			return true
		})
	}
}

// Whatever stands on a command line is seen by every user of the machine, so no flag and no argument
// takes a token: a flag may name the file of one (R146).
func TestNoFlagTakesAToken(t *testing.T) {
	t.Parallel()
	flags := regexp.MustCompile(`(?m)^ +(?:-\w, )?--[\w-]*(?:token|secret|password|credential)[\w-]*`)
	seen := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, flag := range flags.FindAllString(cmd.LocalFlags().FlagUsages(), -1) {
			seen++
			assert.True(t, strings.HasSuffix(flag, "-file"), "%s %s", cmd.CommandPath(), flag)
		}
		assert.NotRegexp(t, `(?i)\btoken\b`, strings.TrimPrefix(cmd.Use, cmd.Name()), cmd.CommandPath())
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRoot(&app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}))
	assert.Positive(t, seen)
}

// The ordinary tools of SQLite read a store that nobody has open any more (R015).
func TestStandardToolsReadClosedStores(t *testing.T) {
	t.Parallel()
	query := standardTool(t)
	dir := t.TempDir()
	kv, err := localkv.Open(t.Context(), localkv.Options{Dir: filepath.Join(dir, "kv"), Log: fixture.Logger(t)})
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "key", []byte("value"), types.PutOptions{})
	require.NoError(t, err)
	require.NoError(t, kv.Close())
	queue, err := localqueue.Open(t.Context(), localqueue.Options{Dir: filepath.Join(dir, "queue"), Log: fixture.Logger(t)})
	require.NoError(t, err)
	require.NoError(t, queue.Send(t.Context(), types.Text("message"), types.SendOptions{}))
	require.NoError(t, queue.Close())
	storage, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "storage.sqlite"), Log: fixture.Logger(t)})
	require.NoError(t, err)
	require.NoError(t, storage.Pause(t.Context(), types.PipelineOf("quakes")))
	require.NoError(t, storage.Close())

	for path, want := range map[string]map[string]string{
		"kv/localkv.sqlite": {
			"SELECT value FROM meta WHERE key = 'format'": "localkv.v2", "SELECT CAST(value AS TEXT) FROM kv": "value", "PRAGMA integrity_check": "ok",
		},
		"queue/localqueue.sqlite": {
			"SELECT value FROM meta WHERE key = 'format'": "localqueue.v1", "SELECT payload_data FROM messages": "message", "PRAGMA integrity_check": "ok",
		},
		"storage.sqlite": {
			"PRAGMA user_version": "5", "SELECT id FROM pauses WHERE target = 'pipeline'": "quakes", "PRAGMA integrity_check": "ok",
		},
	} {
		got := map[string]string{}
		for statement := range want {
			got[statement] = query(filepath.Join(dir, path), statement)
		}
		assert.True(t, reflect.DeepEqual(want, got), "%s: want %q, got %q", path, want, got)
	}
}

// standardTool is the sqlite3 shell, or Python's module of that name.
func standardTool(t *testing.T) func(path, statement string) string {
	t.Helper()
	command := []string{"sqlite3"}
	if _, err := exec.LookPath("sqlite3"); err != nil {
		command = []string{"python3", "-c", "import sqlite3, sys\nprint(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone()[0])"}
		if err := exec.CommandContext(t.Context(), "python3", "-c", "import sqlite3").Run(); err != nil {
			t.Skip("neither the sqlite3 shell nor Python is installed, so there is no other tool to read a store with")
		}
	}
	return func(path, statement string) string {
		output, err := exec.CommandContext(t.Context(), command[0], append(command[1:], path, statement)...).CombinedOutput()
		require.NoError(t, err, "%s", output)
		return strings.TrimSpace(string(output))
	}
}
