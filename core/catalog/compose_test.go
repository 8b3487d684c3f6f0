package catalog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
)

func TestComposeRefusesBeforeAnythingIsOpened(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		line       int
		want       []string
	}{
		{"an unknown module", "[kv.a]\n\nmodule = 'fiels'\n", 3, []string{`the module "fiels" of [kv.a] is unknown`, "known are files, plain"}},
		{"an unknown queue module", "[queue.a]\nmodule = 'x'\n", 2, []string{"known are hotel, house, single"}},
		{"a queue module for a kv", "[kv.a]\nmodule = 'house'\n", 2, []string{"known are files, plain", "of another kind"}},
		{"a kv module for a queue", "[queue.a]\nmodule = 'plain'\n", 2, []string{"known are hotel, house, single", "of another kind"}},
		{"a case variant", "[kv.a]\nmodule = 'Files'\n", 2, []string{"is unknown"}},
		{"an unknown key of a module", "[kv.a]\nmodule = 'files'\n[kv.a.config]\npaht = 'x'\n", 4, []string{`"paht" is unknown in [kv.a.config]: allowed are path, refuse, second`}},
		{"a wrong type", "[queue.a]\nmodule = 'house'\nconfig.path = 5\n", 3, []string{"the key queue.a.config.path is a whole number: a string is wanted"}},
		{"a key for a module without keys", "[kv.a]\nmodule = 'plain'\nconfig.path = 'x'\n", 3, []string{"no keys are allowed there"}},
		{"what the module refuses", "\n[kv.a]\nmodule = 'files'\nconfig.refuse = true\n", 4, []string{"[kv.a.config]: refuse is set"}},
		{"a relative path of a module", "[kv.a]\nmodule = 'files'\nconfig.path = 'relative'\n", 3, []string{"not absolute"}},
		{"a path below a file", "[kv.a]\nmodule = 'files'\nconfig.path = '/dev/null/x'\n", 3, []string{`the path "/dev/null/x" cannot be used`}},
		{"the first of two faults in the file", "[queue.a]\nmodule = 'house'\nconfig.x = 1\n[kv.a]\nmodule = 'plain'\nconfig.x = 1\n", 3, []string{"queue.a.config"}},
		{"one path for two stores", "[kv.a]\nmodule = 'files'\nconfig.path = 'x'\n[kv.b]\nmodule = 'files'\nconfig.path = 'x'\n", 4,
			[]string{"[kv.b] and [kv.a] (stowage.toml:3) share one path"}},
		{"one path for two kinds", "[kv.a]\nmodule = 'files'\n[queue.a]\nmodule = 'house'\n", 3, []string{"[queue.a] and [kv.a]"}},
		{"one path in another form", "[kv.a]\nmodule = 'files'\nconfig.path = 'x'\n[kv.b]\nmodule = 'files'\nconfig.path = './y/..//x/.'\n", 4, []string{"share one path"}},
		{"one of two paths", "[kv.a]\nmodule = 'files'\nconfig.second = 'x'\n[kv.b]\nmodule = 'files'\nconfig.second = 'x'\n", 4, []string{"share one path"}},
	} {
		r := &recorder{}
		stateDir := filepath.Join(t.TempDir(), "state")
		comp, err := newCatalog(t, r).Compose(parse(t, stateDir, "[kv.first]\nmodule = 'files'\n"+tc.text), catalog.Options{})
		var fault *config.Fault
		if !assert.ErrorIs(t, err, ports.ErrInvalidConfig, tc.name) || !assert.ErrorAs(t, err, &fault, tc.name) {
			continue
		}
		assert.Nil(t, comp, tc.name)
		// Two lines stand before the text of the case.
		assert.Equal(t, config.Position{File: "stowage.toml", Line: tc.line + 2}, fault.At, "%s: %v", tc.name, err)
		for _, want := range tc.want {
			assert.Contains(t, err.Error(), want, tc.name)
		}
		assert.Empty(t, r.seen(), "%s: something was opened", tc.name)
		assert.NoDirExists(t, stateDir, tc.name)
	}
}

func TestComposeWithoutModules(t *testing.T) {
	t.Parallel()
	_, err := catalog.New().Compose(parse(t, t.TempDir(), "[kv.a]\nmodule = 'm'\n"), catalog.Options{})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorContains(t, err, "there are none")
}

func TestComposeOfStoresWithoutAFile(t *testing.T) {
	t.Parallel()
	cfg, err := config.Default(t.TempDir())
	require.NoError(t, err)
	cfg.Kv["a"] = config.Store{Module: "plain"}
	comp, err := newCatalog(t, &recorder{}).Compose(cfg, catalog.Options{})
	require.NoError(t, err)
	_, err = comp.Kv(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, comp.Close(t.Context()))

	cfg.Kv["b"] = config.Store{Module: "files", Config: config.NoConfig()}
	cfg.Queue["b"] = config.Store{Module: "single"}
	_, err = newCatalog(t, &recorder{}).Compose(cfg, catalog.Options{})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorContains(t, err, "INVALID_CONFIG: [queue.b] and [kv.b] share one path")
}

// TestOnePathForTwoStores builds a tree of real files and links, and asks whether two paths in it are
// one place.
func TestOnePathForTwoStores(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	require.NoError(t, os.MkdirAll(at("real/inner"), 0o700))
	require.NoError(t, os.WriteFile(at("file"), nil, 0o600))
	require.NoError(t, os.Link(at("file"), at("hard")))
	for link, target := range map[string]string{
		"link":     "real",
		"absolute": at("real"),
		"chain":    "link",
		"dangling": "later/store",
		"up":       "real/inner/..",
		"loop":     "loop",
	} {
		require.NoError(t, os.Symlink(target, at(link)))
	}
	for _, tc := range []struct {
		a, b    string
		same    bool
		problem string
	}{
		{a: "real", b: "real", same: true},
		{a: "real", b: "link", same: true},
		{a: "real", b: "absolute", same: true},
		{a: "link", b: "chain", same: true},
		{a: "real", b: "up", same: true},
		{a: "real/new/deep", b: "chain/new/deep", same: true},
		{a: "later/store", b: "dangling", same: true},
		{a: "later/store/x", b: "dangling/x", same: true},
		{a: "new", b: "real/../new", same: true},
		{a: "real", b: "link/inner/..", same: true},
		{a: "later/x", b: "dangling/../x", same: true},
		{a: "file", b: "hard", same: true},
		{a: "real", b: "real/inner"},
		{a: "link", b: "real/new"},
		{a: "new", b: "newer"},
		{a: "new", b: "NEW"},
		{a: "file", b: "real"},
		{a: "real", b: "loop", problem: "symbolic links"},
		{a: "real", b: "file/x", problem: "not a directory"},
	} {
		for _, pair := range [][2]string{{tc.a, tc.b}, {tc.b, tc.a}} {
			// Not joined: that would take ".." away before the links are followed.
			text := "[kv.a]\nmodule = 'files'\nconfig.path = '" + root + "/" + pair[0] + "'\n[kv.b]\nmodule = 'files'\nconfig.path = '" + root + "/" + pair[1] + "'\n"
			comp, err := newCatalog(t, &recorder{}).Compose(parse(t, root, text), catalog.Options{})
			switch {
			case tc.problem != "":
				assert.ErrorContains(t, err, tc.problem, "%v", pair)
			case tc.same:
				assert.ErrorContains(t, err, "share one path", "%v", pair)
			case assert.NoError(t, err, "%v", pair):
				assert.NoError(t, comp.Close(t.Context()))
			}
		}
	}
	assert.NoDirExists(t, at("later"))
	assert.NoDirExists(t, at("new"))
}

func TestSharedPathsAreShownWhereTheyLead(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(root, "real"), 0o700))
	require.NoError(t, os.Symlink("real", filepath.Join(root, "link")))
	_, err = newCatalog(t, &recorder{}).Compose(parse(t, root,
		"[kv.a]\nmodule = 'files'\nconfig.path = 'real'\n[kv.b]\nmodule = 'files'\nconfig.path = 'link'\n"), catalog.Options{})
	require.ErrorContains(t, err, `"`+root+`/link" (which is "`+root+`/real") and "`+root+`/real": give each store its own`)
}

func TestOwnerModuleIsTheFirstOrTheNamedOne(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "house", "house": "house", "hotel": "hotel"} {
		r := &recorder{}
		comp, err := newCatalog(t, r).Compose(parse(t, t.TempDir(), ""), catalog.Options{OwnerModule: name})
		require.NoError(t, err)
		_, err = comp.Owner(t.Context())
		require.NoError(t, err)
		require.NoError(t, comp.Close(t.Context()))
		assert.Equal(t, []string{"open " + want, "close " + want}, r.seen())
	}
	for _, name := range []string{"single", "missing"} {
		_, err := newCatalog(t, &recorder{}).Compose(parse(t, t.TempDir(), ""), catalog.Options{OwnerModule: name})
		require.ErrorIs(t, err, ports.ErrInvalidInput, name)
	}
	comp, err := catalog.New().Compose(parse(t, t.TempDir(), ""), catalog.Options{})
	require.NoError(t, err)
	_, err = comp.Owner(t.Context())
	require.ErrorIs(t, err, ports.ErrNotFound)
	require.NoError(t, comp.Close(t.Context()))
}

// TestExamplesOpen is what a program does with the examples of all its modules: each one parses, and
// every store in it opens.
func TestExamplesOpen(t *testing.T) {
	t.Parallel()
	modules := newCatalog(t, &recorder{})
	for _, module := range modules.Modules() {
		comp, err := modules.Compose(parse(t, t.TempDir(), module.Example), catalog.Options{})
		require.NoError(t, err, module.Name)
		require.NotEmpty(t, comp.Names(), module.Name)
		for _, id := range comp.Names() {
			kind, name, _ := strings.Cut(id, ".")
			assert.Equal(t, string(module.Kind), kind)
			if module.Kind == catalog.KindKv {
				_, err = comp.Kv(t.Context(), name)
			} else {
				_, err = comp.Queue(t.Context(), name)
			}
			assert.NoError(t, err, "%s of the module %s", id, module.Name)
		}
		require.NoError(t, comp.Close(t.Context()), module.Name)
	}
}
