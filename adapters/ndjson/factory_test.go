package ndjson

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// config is a module's part of a configuration, as strict as that of a catalog.
type config map[string]any

func (c config) Decode(into any) error {
	text, err := toml.Marshal(map[string]any(c))
	if err != nil {
		return err
	}
	if err := toml.NewDecoder(strings.NewReader(string(text))).DisallowUnknownFields().Decode(into); err != nil {
		return ports.Errorf(ports.CodeInvalidConfig, "decode", "%w", err)
	}
	return nil
}

// example is the part of stowage.toml that the modules of this package appear in.
type example struct {
	StateDir  string `toml:"state_dir"`
	Pipelines []struct {
		ID       string   `toml:"id"`
		Source   config   `toml:"source"`
		Monitors []config `toml:"monitor"`
		Sinks    []config `toml:"sink"`
	} `toml:"pipeline"`
}

// module takes the module's name, and what its pipeline says, out of a part.
func (c config) module() (string, config) {
	rest := config{}
	for key, value := range c {
		if key != "module" && key != "id" && key != "retry" {
			rest[key] = value
		}
	}
	return c["module"].(string), rest
}

func TestExamplesOpen(t *testing.T) {
	t.Parallel()
	for name, info := range map[string]ports.ModuleInfo{
		"source ndjson": SourceModule().ModuleInfo, "sink ndjson": SinkModule().ModuleInfo, "sink stdout": StdoutModule().ModuleInfo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.True(t, strings.HasSuffix(name, " "+info.Name))
			require.NotEmpty(t, info.Description)
			var all example
			require.NoError(t, toml.NewDecoder(strings.NewReader(info.Example)).DisallowUnknownFields().Decode(&all))
			require.Len(t, all.Pipelines, 1)
			pipeline := all.Pipelines[0]
			used := map[string]bool{}
			env := fixture.Env(t, pipeline.ID, fixture.NewClock(fixture.Epoch()))

			module, keys := pipeline.Source.module()
			used["source "+module] = true
			require.Equal(t, SourceName, module)
			require.NoError(t, SourceModule().Check(env, keys))
			source, err := SourceModule().Open(t.Context(), env, keys, nil, nil)
			require.NoError(t, err)
			require.NoDirExists(t, env.StateDir)
			require.NoError(t, source.Close())
			for _, part := range pipeline.Sinks {
				module, keys := part.module()
				used["sink "+module] = true
				factory := map[string]ports.SinkModule{SinkName: SinkModule(), StdoutName: StdoutModule()}[module]
				env.Name = pipeline.ID + "/" + part["id"].(string)
				require.NoError(t, factory.Check(env, keys))
				sink, err := factory.Open(t.Context(), env, keys, nil)
				require.NoError(t, err)
				require.NoError(t, sink.(io.Closer).Close())
			}
			require.True(t, used[name], "an example uses its module")
		})
	}
}

func TestSourceModuleReadsItsKeys(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "quakes", fixture.NewClock(fixture.Epoch()))
	o, err := sourceOptions(env, config{"path": "in/../feed"})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(env.StateDir, "feed"), o.Path)
	require.Equal(t, types.PipelineID("quakes"), o.Pipeline)
	require.Equal(t, env.StateDir, o.StateDir)
	require.False(t, o.Once)
	require.Equal(t, DefaultPoll, o.Poll)
	o, err = sourceOptions(env, config{"path": "/x/../feed", "follow": false, "poll": "3s"})
	require.NoError(t, err)
	require.Equal(t, "/feed", o.Path)
	require.True(t, o.Once)
	require.Equal(t, 3*time.Second, o.Poll)
}

func TestSinkModuleReadsItsKeys(t *testing.T) {
	t.Parallel()
	env := fixture.Env(t, "quakes/file", fixture.NewClock(fixture.Epoch()))
	o, err := sinkOptions(env, config{"path": "out"})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(env.StateDir, "out"), o.Path)
	require.Equal(t, FsyncAlways, o.Fsync)
	for _, want := range []Fsync{FsyncAlways, FsyncInterval, FsyncNever} {
		o, err = sinkOptions(env, config{"path": "out", "fsync": want.String(), "interval": "5s"})
		require.NoError(t, err)
		require.Equal(t, want, o.Fsync)
		require.Equal(t, 5*time.Second, o.Interval)
	}
}

func TestModulesRefuseBadConfiguration(t *testing.T) {
	t.Parallel()
	type module struct {
		check func(ports.Env, ports.ModuleConfig) error
		open  func(ports.Env, ports.ModuleConfig) (any, error)
	}
	source := module{SourceModule().Check, func(e ports.Env, c ports.ModuleConfig) (any, error) {
		return orNil(SourceModule().Open(t.Context(), e, c, nil, nil))
	}}
	sink := module{SinkModule().Check, func(e ports.Env, c ports.ModuleConfig) (any, error) {
		return orNil(SinkModule().Open(t.Context(), e, c, nil))
	}}
	stdout := module{StdoutModule().Check, func(e ports.Env, c ports.ModuleConfig) (any, error) {
		return orNil(StdoutModule().Open(t.Context(), e, c, nil))
	}}
	for i, test := range []struct {
		module module
		config config
	}{
		{source, config{}},
		{source, config{"path": ""}},
		{source, config{"path": "x\x00"}},
		{source, config{"path": "x/"}},
		{source, config{"path": 1}},
		{source, config{"paht": "x"}},
		{source, config{"path": "x", "follow": "yes"}},
		{source, config{"path": "x", "poll": "0s"}},
		{source, config{"path": "x", "poll": "-1s"}},
		{source, config{"path": "x", "poll": "1us"}},
		{source, config{"path": "x", "poll": "soon"}},
		{sink, config{}},
		{sink, config{"path": ""}},
		{sink, config{"path": "x\x00"}},
		{sink, config{"path": "dir/"}},
		{sink, config{"path": "x", "fsync": "sometimes"}},
		{sink, config{"path": "x", "interval": "0s"}},
		{sink, config{"path": "x", "interval": "-1s"}},
		{sink, config{"path": "x", "mode": "0600"}},
		{stdout, config{"path": "x"}},
	} {
		env := fixture.Env(t, "p", fixture.NewClock(fixture.Epoch()))
		message := fmt.Sprint(i, test.config)
		require.ErrorIs(t, test.module.check(env, test.config), ports.ErrInvalidConfig, message)
		got, err := test.module.open(env, test.config)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, message)
		require.Nil(t, got)
		require.NoDirExists(t, env.StateDir)
	}
}

// orNil keeps a nil interface nil.
func orNil[T any](value T, err error) (any, error) {
	if any(value) == nil {
		return nil, err
	}
	return value, err
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, o := range []SourceOptions{
		{},
		{Pipeline: "p", Path: filepath.Join(dir, "x")},
		{Pipeline: "p", StateDir: dir},
		{Pipeline: "a/b", Path: filepath.Join(dir, "x"), StateDir: dir},
		{Pipeline: "p", Path: filepath.Join(dir, "x"), StateDir: dir, Poll: -1},
	} {
		s, err := OpenSource(t.Context(), o, nil)
		require.ErrorIs(t, err, ports.ErrInvalidConfig)
		require.Nil(t, s)
	}
	for _, o := range []SinkOptions{
		{},
		{Path: filepath.Join(dir, "x"), Fsync: 3},
		{Path: filepath.Join(dir, "x"), Fsync: -1},
		{Path: filepath.Join(dir, "x"), Interval: -1},
	} {
		s, err := OpenSink(t.Context(), o)
		require.ErrorIs(t, err, ports.ErrInvalidConfig)
		require.Nil(t, s)
	}
	require.NoFileExists(t, filepath.Join(dir, "x"))
}
