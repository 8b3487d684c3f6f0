package catalog_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// withFiles adds to the modules of withStorage sources that follow a file or have a directory of their
// own, and a sink that appends to a file.
func withFiles(t *testing.T) *catalog.Catalog {
	t.Helper()
	c := withStorage(t, &recorder{})
	type keys struct {
		Path string `toml:"path"`
	}
	check := func(_ ports.Env, section ports.ModuleConfig) error { return section.Decode(&keys{}) }
	places := func(own bool) func(ports.Env, ports.ModuleConfig) ([]ports.Place, error) {
		return func(env ports.Env, section ports.ModuleConfig) ([]ports.Place, error) {
			var set keys
			err := section.Decode(&set)
			if set.Path == "relative" {
				return []ports.Place{{Path: set.Path}}, nil
			}
			if !filepath.IsAbs(set.Path) {
				set.Path = filepath.Join(env.StateDir, set.Path)
			}
			return []ports.Place{{Path: set.Path, Own: own}}, err
		}
	}
	open := func(_ context.Context, env ports.Env, _ ports.ModuleConfig, from *types.Cursor, _ ports.QueueResolver) (ports.Source, error) {
		return &listSource{&recorder{}, env.Name, from}, nil
	}
	require.NoError(t, c.RegisterSource(ports.SourceModule{ModuleInfo: infoOf("source", "follow"), Check: check, Reads: places(false), Open: open}))
	require.NoError(t, c.RegisterSource(ports.SourceModule{ModuleInfo: infoOf("source", "journal"), Check: check, Reads: places(true), Open: open}))
	require.NoError(t, c.RegisterSink(ports.SinkModule{ModuleInfo: infoOf("sink", "append"), Check: check, Writes: places(false),
		Open: func(context.Context, ports.Env, ports.ModuleConfig, ports.QueueResolver) (ports.Sink, error) {
			return plainSink{}, nil
		}}))
	return c
}

// lines writes pipelines as a configuration: for each its id, its source, and its sinks, as "module path". One
// without sinks gets a queue.
func lines(pipelines ...[]string) string {
	var text strings.Builder
	part := func(spec string) string {
		module, path, _ := strings.Cut(spec, " ")
		key := map[bool]string{true: "queue", false: "path"}[module == "queue"]
		return "module = '" + module + "'\n" + key + " = '" + path + "'\n"
	}
	for _, p := range pipelines {
		text.WriteString("[[pipeline]]\nid = '" + p[0] + "'\n[pipeline.source]\n" + part(p[1]))
		sinks := p[2:]
		if len(sinks) == 0 {
			sinks = []string{"queue spare"}
		}
		for i, sink := range sinks {
			name := string(rune('a' + i))
			text.WriteString("[[pipeline.monitor]]\nid = 'm" + name + "'\nsinks = ['" + name + "']\n[[pipeline.sink]]\nid = '" + name + "'\n" + part(sink))
		}
	}
	return text.String()
}

func TestPlacesOfPipelines(t *testing.T) {
	t.Parallel()
	type p = []string
	for name, tc := range map[string]struct {
		pipelines []p
		at        string // the key at which it is refused; empty: it is not
		want      []string
	}{
		"files of their own":                  {pipelines: []p{{"one", "follow in", "append out"}, {"two", "follow in2", "append out2"}}},
		"two that follow one file":            {pipelines: []p{{"one", "follow in", "append out"}, {"two", "follow in", "append out2"}}},
		"one that follows what another wrote": {pipelines: []p{{"one", "follow in", "append out"}, {"two", "follow out", "append out2"}}},
		"two queues":                          {pipelines: []p{{"one", "queue orders", "queue results"}}},
		"many that send to one queue":         {pipelines: []p{{"one", "follow in", "queue orders", "queue orders"}, {"two", "follow in", "queue orders"}}},
		"a chain of queues":                   {pipelines: []p{{"one", "queue orders", "queue results"}, {"two", "queue results", "queue orders"}}},
		"a file beside a directory":           {pipelines: []p{{"one", "journal log", "append log.out"}}},

		"its own file":             {[]p{{"one", "follow in", "append in"}}, "sink.one/a", []string{"would feed itself", "[source.one]"}},
		"its own file by a link":   {[]p{{"one", "follow in", "append link"}}, "sink.one/a", []string{"would feed itself", `link" (which is `}},
		"its own file, hard":       {[]p{{"one", "follow in", "append hard"}}, "sink.one/a", []string{"would feed itself"}},
		"its own file, spelled":    {[]p{{"one", "follow in", "append ./x/../in"}}, "sink.one/a", []string{"would feed itself"}},
		"its own queue":            {[]p{{"one", "queue orders", "queue results", "queue orders"}}, "sink.one/b", []string{`queue is "orders" at both ends`}},
		"two sinks of a pipeline":  {[]p{{"one", "follow in", "append out", "append out"}}, "sink.one/b", []string{"to which [sink.one/a] (stowage.toml:", "a file of its own"}},
		"sinks of two pipelines":   {[]p{{"one", "follow in", "append out"}, {"two", "follow in", "append out"}}, "sink.two/a", []string{"to which [sink.one/a] (stowage.toml:"}},
		"one log for two":          {[]p{{"one", "journal log"}, {"two", "journal log"}}, "source.two", []string{"meets", "of [source.one]"}},
		"a file inside of a log":   {[]p{{"one", "journal log"}, {"two", "follow in", "append log/x"}}, "sink.two/a", []string{"of [source.one]"}},
		"a log around a file":      {[]p{{"one", "follow d/in", "append out"}, {"two", "journal d"}}, "source.two", []string{"of [source.one]"}},
		"the file of a store":      {[]p{{"one", "follow disk"}}, "source.one", []string{"meets", "of [storage]", "a place outside"}},
		"the log of a store":       {[]p{{"one", "follow disk-wal"}}, "source.one", []string{"of [storage]"}},
		"a link to a store":        {[]p{{"one", "follow tostore", "append out"}}, "source.one", []string{"of [storage]"}},
		"inside of a store":        {[]p{{"one", "follow in", "append kv/out"}}, "sink.one/a", []string{"of [kv.a]"}},
		"a log around a store":     {[]p{{"one", "journal ."}}, "source.one", []string{"of [storage]"}},
		"what the program keeps":   {[]p{{"one", "follow in", "append kept/out"}}, "sink.one/a", []string{"state of its own"}},
		"a path that is not whole": {[]p{{"one", "follow relative"}}, "source.one", []string{"not absolute"}},
		"a path below a file":      {[]p{{"one", "follow /dev/null/x"}}, "source.one", []string{"cannot be used"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "in"), nil, 0o600))
			require.NoError(t, os.Symlink("in", filepath.Join(dir, "link")))
			require.NoError(t, os.Link(filepath.Join(dir, "in"), filepath.Join(dir, "hard")))
			require.NoError(t, os.Symlink("disk", filepath.Join(dir, "tostore")))
			text := "[storage]\nmodule = 'disk'\nconfig.path = 'disk'\n[kv.a]\nmodule = 'files'\nconfig.path = 'kv'\n"
			options := catalog.Options{Reserved: []string{"kept"}}
			refused := func(err error) {
				var fault *config.Fault
				require.ErrorIs(t, err, ports.ErrInvalidConfig)
				require.ErrorAs(t, err, &fault)
				for _, want := range tc.want {
					require.ErrorContains(t, err, want)
				}
				require.Contains(t, err.Error(), "["+tc.at+"]")
			}
			cfg := parse(t, dir, text+lines(tc.pipelines...))
			comp, err := withFiles(t).Compose(cfg, options)
			if tc.at == "" {
				require.NoError(t, err)
				for _, p := range comp.Pipelines() {
					require.NoError(t, comp.CheckPipeline(p), "a pipeline does not stand in its own way")
				}
				require.NoError(t, comp.Close(t.Context()))
			} else {
				refused(err)
			}

			// The same, of pipelines that are not in the file, one after the other.
			comp, err = withFiles(t).Compose(parse(t, dir, text), options)
			require.NoError(t, err)
			for i, p := range cfg.Pipelines {
				err := comp.CheckPipeline(p, cfg.Pipelines[:i]...)
				if tc.at != "" && i == len(cfg.Pipelines)-1 {
					refused(err)
				} else {
					require.NoError(t, err)
				}
			}
			require.NoError(t, comp.Close(t.Context()))
		})
	}
}

// What the pipelines of the file use is not for those of resources, which need not be told.
func TestPlacesOfTheFileAreTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	comp, err := withFiles(t).Compose(parse(t, dir, lines([]string{"one", "follow in", "append out"})), catalog.Options{})
	require.NoError(t, err)
	second := func(out string) config.Pipeline {
		p, err := config.ParsePipeline("two", []byte(`{"source":{"module":"follow","path":"in"},"monitor":[{"id":"m","sinks":["s"]}],"sink":[{"id":"s","module":"append","path":"`+out+`"}]}`))
		require.NoError(t, err)
		return p
	}
	require.NoError(t, comp.CheckPipeline(second("out2")))
	err = comp.CheckPipeline(second("out"))
	var fault *config.Fault
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, config.Position{Path: "sink[0].path"}, fault.At)
	require.ErrorContains(t, err, "[sink.one/a] (stowage.toml:")
	require.NoError(t, comp.CheckPipeline(second("out2"), second("out2")), "its earlier self")
	require.NoError(t, comp.Close(t.Context()))
}
