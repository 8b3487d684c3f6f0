package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
)

const full = `state_dir = "/var/lib/stowage"

[http]
listen = "[::1]:0"

[kv.default]
module = "plain"

[kv."dotted.name"]
module = "plain"

[kv."dotted.name".config]
text = "t"

[queue.orders]
module = "lease"
config = { count = 5, pause = "1h30m" }

[queue.refunds]
module = "lease"
config.count = 6
`

func TestParse(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("dir/stowage.toml", []byte(full))
	require.NoError(t, err)
	assert.Equal(t, "dir/stowage.toml", c.File)
	assert.Equal(t, "/var/lib/stowage", c.StateDir)
	assert.Equal(t, "[::1]:0", c.HTTP.Listen)
	require.Len(t, c.Kv, 2)
	require.Len(t, c.Queue, 2)
	orders := c.Queue["orders"]
	assert.Equal(t, "lease", orders.Module)
	assert.Equal(t, config.Position{File: "dir/stowage.toml", Line: 15}, orders.At)
	assert.Equal(t, "dir/stowage.toml:16", orders.ModuleAt.String())

	for name, want := range map[string]int{"orders": 5, "refunds": 6} {
		var got struct {
			Count int            `toml:"count"`
			Pause ports.Duration `toml:"pause"`
		}
		require.NoError(t, c.Queue[name].Config.Decode(&got))
		assert.Equal(t, want, got.Count)
	}
	var text struct {
		Text string `toml:"text"`
	}
	require.NoError(t, c.Kv["dotted.name"].Config.Decode(&text))
	assert.Equal(t, "t", text.Text)
}

func TestParseStorageAndPipelines(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("stowage.toml", []byte(`
[storage]
module = "sqlite"
[storage.config]
count = 1

[[pipeline]]
id = "quakes"
[[pipeline.sink]]
id = "alerts"
module = "queue"
count = 2
[[pipeline.sink]]
id = "log"
module = "file"

[[pipeline]]
id = "other"
`))
	require.NoError(t, err)
	require.NotNil(t, c.Storage)
	assert.Equal(t, "sqlite", c.Storage.Module)
	assert.Equal(t, 3, c.Storage.ModuleAt.Line)
	var storage, sink struct {
		Count int `toml:"count"`
	}
	require.NoError(t, c.Storage.Config.Decode(&storage))
	assert.Equal(t, 1, storage.Count)

	require.Len(t, c.Pipelines, 2)
	quakes := c.Pipelines[0]
	assert.EqualValues(t, "quakes", quakes.ID)
	require.Len(t, quakes.Sinks, 2)
	assert.EqualValues(t, "alerts", quakes.Sinks[0].ID)
	assert.Equal(t, "queue", quakes.Sinks[0].Module)
	require.NoError(t, quakes.Sinks[0].Config.Decode(&sink), "the module sees its own keys only")
	assert.Equal(t, 2, sink.Count)
	err = quakes.Sinks[0].Config.Decode(&struct{}{})
	require.ErrorContains(t, err, "stowage.toml:12:")
	require.NoError(t, quakes.Sinks[1].Config.Decode(&struct{}{}))
	assert.EqualValues(t, "other", c.Pipelines[1].ID)
	assert.Empty(t, c.Pipelines[1].Sinks)
}

func TestParseFillsInDefaults(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("/etc/stowage/stowage.toml", nil)
	require.NoError(t, err)
	assert.Equal(t, config.DefaultListen, c.HTTP.Listen)
	assert.Equal(t, "/etc/stowage/stowage-data", c.StateDir)
	assert.Nil(t, c.Storage)
	assert.Empty(t, c.Kv)
	assert.Empty(t, c.Queue)
	assert.Empty(t, c.Pipelines)
}

func TestRelativeStateDirStartsAtTheFile(t *testing.T) {
	t.Parallel()
	cwd, err := os.Getwd()
	require.NoError(t, err)
	for _, tc := range []struct{ file, dir, want string }{
		{"/etc/stowage/stowage.toml", "data", "/etc/stowage/data"},
		{"/etc/stowage/stowage.toml", "../data", "/etc/data"},
		{"/etc/stowage/stowage.toml", "/data/", "/data"},
		{"stowage.toml", "data", filepath.Join(cwd, "data")},
		{"sub/stowage.toml", "data", filepath.Join(cwd, "sub", "data")},
	} {
		c, err := config.Parse(tc.file, []byte("state_dir = '"+tc.dir+"'\n"))
		require.NoError(t, err)
		assert.Equal(t, tc.want, c.StateDir, "%s in %s", tc.dir, tc.file)
	}
}

func TestDefaultAndFlags(t *testing.T) {
	t.Parallel()
	cwd, err := os.Getwd()
	require.NoError(t, err)
	c, err := config.Default("data")
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(cwd, "data"), c.StateDir, "a relative flag starts at the working directory")
	assert.Equal(t, config.DefaultListen, c.HTTP.Listen)
	require.NoError(t, c.SetListen(":0"))
	assert.Equal(t, ":0", c.HTTP.Listen)
	for _, err := range []error{c.SetListen("7420"), c.SetStateDir(""), c.SetStateDir("a\x00b")} {
		require.ErrorIs(t, err, ports.ErrInvalidConfig)
	}
	assert.Equal(t, ":0", c.HTTP.Listen, "a refused value changes nothing")
	assert.Equal(t, filepath.Join(cwd, "data"), c.StateDir)
	_, err = config.Default("")
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
}

func TestParseSaysWhatIsWrongAndWhere(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		line       int
		key        string
		want       []string
	}{
		{"an unknown key at the top", "\n\nstatedir = 'x'\n", 3, "statedir", []string{`"statedir" is unknown at the top`, "allowed are http, kv, pipeline, queue, state_dir, storage"}},
		{"a case variant", "State_Dir = 'x'", 1, "State_Dir", []string{"allowed are"}},
		{"an unknown table", "[store]\nmodule = 'sqlite'\n", 1, "store", []string{"allowed are http, kv, pipeline, queue, state_dir, storage"}},
		{"an unknown list of tables", "# a\n[[pipelines]]\nid = 'x'\n", 2, "pipelines", []string{"allowed are"}},
		{"a storage without a module", "\n[storage.config]\npath = 'x'\n", 2, "storage", []string{"[storage] has no module"}},
		{"a module's key in the storage", "[storage]\nmodule = 'm'\npath = 'x'\n", 3, "storage.path", []string{"allowed are config, module", "the keys of a module stand in [storage.config]"}},
		{"a named storage", "[storage.main]\nmodule = 'm'\n", 1, "storage.main", []string{"allowed are config, module"}},
		{"a list of storages", "[[storage]]\nmodule = 'm'\n", 1, "storage", []string{"is a list: a table is wanted"}},
		{"one pipeline as a table", "[pipeline]\nid = 'x'\n", 1, "pipeline", []string{"is a table: a list is wanted"}},
		{"a pipeline without an id", "\n[[pipeline]]\n", 2, "pipeline[0]", []string{"has no id"}},
		{"a pipeline with a bad id", "[[pipeline]]\nid = 'a b'\n", 2, "pipeline[0].id", []string{"cannot be used"}},
		{"two pipelines of one id", "[[pipeline]]\nid = 'x'\n[[pipeline]]\nid = 'x'\n", 4, "pipeline[1].id", []string{"stands at stowage.toml:2 already"}},
		{"an unknown key of a pipeline", "[[pipeline]]\nid = 'x'\nsinks = 1\n", 3, "pipeline[0].sinks", []string{"allowed are event_time, fields, id, monitor, sink, source; sinks belongs in a [[pipeline.monitor]]"}},
		{"a sink without an id", "[[pipeline]]\nid = 'x'\n[[pipeline.sink]]\nmodule = 'm'\n", 3, "pipeline[0].sink[0]", []string{"has no id"}},
		{"a sink with a bad id", "[[pipeline]]\nid = 'x'\n[[pipeline.sink]]\nid = ''\nmodule = 'm'\n", 4, "pipeline[0].sink[0].id", []string{"cannot be used"}},
		{"a sink with a number for an id", "[[pipeline]]\nid = 'x'\n[[pipeline.sink]]\nid = 1\n", 4, "pipeline[0].sink[0].id", []string{"is a whole number: a string is wanted"}},
		{"a sink without a module", "[[pipeline]]\nid = 'x'\n[[pipeline.sink]]\nid = 's'\n", 3, "pipeline[0].sink[0]", []string{"has no module"}},
		{"two sinks of one id", "[[pipeline]]\nid = 'x'\nsink = [{id='s', module='m'},\n{id='s', module='m'}]\n", 4, "pipeline[0].sink[1].id", []string{"stands at stowage.toml:3 already"}},
		{"an unknown key of a table", "[http]\nlisten = ':1'\nport = 1\n", 3, "http.port", []string{`"port" is unknown in [http]`, "allowed are listen"}},
		{"a key that slipped into a table", "[http]\nstate_dir = 'x'\n", 2, "http.state_dir", []string{"allowed are listen", "state_dir belongs at the top, before the first [table]"}},
		{"a key above its table", "listen = ':1'\n", 1, "listen", []string{"listen belongs in [http]"}},
		{"a table in a table", "[http.kv.default]\nmodule = 'x'\n", 1, "http.kv", []string{"kv belongs at the top"}},
		{"a module's key in the store", "[queue.orders]\nmodule = 'm'\nmax_receives = 5\n", 3, "queue.orders.max_receives",
			[]string{"in [queue.orders]", "allowed are config, module", "the keys of a module stand in [queue.orders.config]"}},
		{"an unquoted dot", "[queue.orders.v2]\nmodule = 'm'\n", 1, "queue.orders.v2", []string{`[queue."orders.v2"]`}},
		{"an inline unknown key", "kv = { a = { module = 'm',\n modul = 'x' } }\n", 2, "kv.a.modul", []string{"allowed are config, module"}},
		{"a dotted unknown key", "http.lisen = ':1'\n", 1, "http.lisen", []string{"allowed are listen"}},
		{"the first of two faults", "[kv.a]\nmodul = 'm'\n[http]\nport = 1\n", 2, "kv.a.modul", []string{"unknown"}},

		{"a number for a string", "state_dir = 5\n", 1, "state_dir", []string{"the key state_dir is a whole number: a string is wanted"}},
		{"a string for a table", "# x\nhttp = ':1'\n", 2, "http", []string{"is a string: a table is wanted"}},
		{"a list for a table", "[[http]]\nlisten = ':1'\n", 1, "http", []string{"is a list: a table is wanted"}},
		{"a string for a store", "[kv]\ndefault = 'localkv'\n", 2, "kv.default", []string{"is a string: a table is wanted"}},
		{"a list of stores", "[[kv.default]]\nmodule = 'm'\n", 1, "kv.default", []string{"is a list: a table is wanted"}},
		{"a date for a string", "[kv.a]\nmodule = 2026-01-01\n", 2, "kv.a.module", []string{"is a date or time: a string is wanted"}},
		{"a fraction", "[kv.a]\nmodule = 1.5\n", 2, "kv.a.module", []string{"a number with a fraction"}},
		{"a boolean for a config", "[kv.a]\nmodule = 'm'\nconfig = true\n", 3, "kv.a.config", []string{"is a boolean: a table is wanted"}},

		{"no module", "\n[kv.a]\n", 2, "kv.a", []string{"[kv.a] has no module", `module = "NAME"`}},
		{"no module but a config", "\n[queue.a.config]\nx = 1\n", 2, "queue.a", []string{"[queue.a] has no module"}},
		{"an empty module", "[queue.a]\nmodule = ''\n", 2, "queue.a.module", []string{"is empty"}},
		{"a store name with a slash", "[kv.'a/b']\nmodule = 'm'\n", 1, `kv."a/b"`, []string{`[kv."a/b"] cannot be used`}},
		{"an empty store name", "[queue.'']\nmodule = 'm'\n", 1, `queue.""`, []string{"cannot be used"}},
		{"a store name that climbs", "[queue.'..']\nmodule = 'm'\n", 1, `queue.".."`, []string{"cannot be used"}},
		{"a long store name", "[queue." + strings.Repeat("q", 129) + "]\nmodule = 'm'\n", 1, "queue." + strings.Repeat("q", 129), []string{"1 to 128 bytes"}},

		{"an empty state directory", "state_dir = ''\n", 1, "state_dir", []string{"is empty"}},
		{"a NUL in the state directory", `state_dir = "a\u0000b"`, 1, "state_dir", []string{"NUL"}},
		{"a listen address without a port", "[http]\nlisten = '127.0.0.1'\n", 2, "http.listen", []string{`"127.0.0.1"`, "write host:port"}},
		{"a bare port", "[http]\nlisten = '7420'\n", 2, "http.listen", []string{"write host:port"}},
		{"a listen address of a URL", "[http]\nlisten = 'http://127.0.0.1:7420'\n", 2, "http.listen", []string{"write host:port"}},
		{"an IPv6 address without brackets", "[http]\nlisten = '::1:7420'\n", 2, "http.listen", []string{"write host:port"}},
		{"a space in the host", "[http]\nlisten = ' 127.0.0.1:7420'\n", 2, "http.listen", []string{"write host:port"}},
		{"a named port", "[http]\nlisten = '127.0.0.1:http'\n", 2, "http.listen", []string{"0 to 65535"}},
		{"a large port", "[http]\nlisten = '127.0.0.1:65536'\n", 2, "http.listen", []string{"0 to 65535"}},
		{"a padded port", "[http]\nlisten = '127.0.0.1:07420'\n", 2, "http.listen", []string{"0 to 65535"}},
		{"an empty port", "[http]\nlisten = '127.0.0.1:'\n", 2, "http.listen", []string{"0 to 65535"}},

		{"a repeated key", "state_dir = 'a'\n\nstate_dir = 'b'\n", 3, "state_dir", []string{"already defined", "column 1"}},
		{"a repeated table", "[http]\n[kv.a]\nmodule = 'm'\n[http]\n", 4, "http", []string{"already exists"}},
		{"a repeated store", "[kv.a]\nmodule = 'm'\n[kv.a]\nmodule = 'n'\n", 3, "kv.a", []string{"already exists"}},
		{"a table over a value", "http = { }\n[http.x]\n", 2, "http.x", []string{"already exists"}},
		{"an unfinished string", "state_dir = \"a\n", 1, "", []string{"basic strings cannot have new lines"}},
		{"a missing value", "a = 1\nstate_dir =\n", 2, "", []string{"start of value"}},
		{"no TOML at all", "{\"state_dir\": \"x\"}\n", 1, "", []string{"invalid character at start of key"}},
		{"invalid UTF-8", "a = 1\nstate_dir = \"\xff\"\n", 2, "", []string{"UTF-8"}},
		{"a NUL", "\x00", 1, "", []string{"invalid character"}},
	} {
		c, err := config.Parse("stowage.toml", []byte(tc.text))
		var fault *config.Fault
		if !assert.ErrorIs(t, err, ports.ErrInvalidConfig, tc.name) || !assert.ErrorAs(t, err, &fault, tc.name) {
			continue
		}
		assert.Nil(t, c, tc.name)
		assert.Equal(t, config.Position{File: "stowage.toml", Line: tc.line}, fault.At, "%s: %v", tc.name, err)
		assert.Equal(t, tc.key, fault.Key, tc.name)
		assert.Contains(t, err.Error(), fault.At.String()+": ", tc.name)
		for _, want := range tc.want {
			assert.Contains(t, err.Error(), want, tc.name)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "odd name?#%.toml")
	require.NoError(t, os.WriteFile(file, []byte("state_dir = 'd'\r\n\r\n[kv.a]\r\nmodul = 'm'\r\n"), 0o600))
	_, err := config.Load(file)
	require.ErrorContains(t, err, file+":4: ")

	require.NoError(t, os.WriteFile(file, []byte("state_dir = 'd'\r\n"), 0o600))
	c, err := config.Load(file)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "d"), c.StateDir)
	assert.NoDirExists(t, c.StateDir, "reading a configuration creates nothing")

	_, err = config.Load(filepath.Join(dir, "missing.toml"))
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "stowage config init")

	_, err = config.Load(dir)
	require.ErrorIs(t, err, ports.ErrInvalidConfig)

	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("# padding\n", 200_000)), 0o600))
	_, err = config.Load(file)
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorContains(t, err, "it is some other file")
}

func TestExampleParsesToTheDefaults(t *testing.T) {
	t.Parallel()
	text := config.Example(config.ExampleModules{Storage: "some-storage", Kv: "some-kv", Queue: "some-queue", Source: "some-source", Sink: "some-sink"})
	c, err := config.Parse("/etc/stowage.toml", []byte(text))
	require.NoError(t, err)
	assert.Equal(t, "/etc/stowage-data", c.StateDir)
	assert.Equal(t, config.DefaultListen, c.HTTP.Listen)
	require.NotNil(t, c.Storage)
	assert.Equal(t, "some-storage", c.Storage.Module)
	assert.Equal(t, "some-kv", c.Kv["default"].Module)
	assert.Empty(t, c.Queue)
	assert.Empty(t, c.Pipelines)

	var uncommented []string
	for line := range strings.Lines(text) {
		rest := strings.TrimPrefix(line, "# ")
		for _, start := range []string{"[", "id =", "module =", "source =", "event_time =", "fields =", "when =", "gate =", "sinks =", "retry ="} {
			if strings.HasPrefix(rest, start) {
				line = rest
			}
		}
		uncommented = append(uncommented, line)
	}
	c, err = config.Parse("/etc/stowage.toml", []byte(strings.Join(uncommented, "")))
	require.NoError(t, err)
	assert.Equal(t, "some-queue", c.Queue["orders"].Module)
	require.Len(t, c.Pipelines, 1)
	p := c.Pipelines[0]
	assert.Equal(t, "some-source", p.Source.Module)
	assert.Equal(t, "time", p.EventTime)
	assert.Len(t, p.Fields, 3)
	require.Len(t, p.Monitors, 1)
	assert.Equal(t, 3, p.Monitors[0].Gate.Threshold)
	require.Len(t, p.Sinks, 1)
	assert.Equal(t, "some-sink", p.Sinks[0].Module)
	assert.Equal(t, 5, p.Sinks[0].Retry.Attempts)
}

func TestLinesOfALongFile(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("[kv.a]\nmodule = 'm'\n[kv.a.config]\n")
	for i := range 1000 {
		text.WriteString("key_" + strconv.Itoa(i) + " = ['a', 'b']\n")
	}
	text.WriteString("[kv.b]\n")
	_, err := config.Parse("stowage.toml", []byte(text.String()))
	var fault *config.Fault
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, 1004, fault.At.Line)
}
