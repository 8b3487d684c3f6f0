package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
)

type shared struct {
	Level string `toml:"level"`
}

type settings struct {
	shared
	Text     string            `toml:"text"`
	Count    int               `toml:"count,omitempty"`
	Small    int8              `toml:"small"`
	Port     uint16            `toml:"port"`
	Big      uint64            `toml:"big"`
	Ratio    float64           `toml:"ratio"`
	Flag     *bool             `toml:"flag"`
	Pause    ports.Duration    `toml:"pause"`
	Since    time.Time         `toml:"since"`
	Any      any               `toml:"any"`
	Names    []string          `toml:"names"`
	Nested   nested            `toml:"nested"`
	Pointer  *nested           `toml:"pointer"`
	List     []nested          `toml:"list"`
	Labels   map[string]string `toml:"labels"`
	Skipped  string            `toml:"-"`
	Channel  chan int          `toml:"channel"`
	internal string
}

type nested struct {
	A int `toml:"a"`
	B int `toml:"b"`
}

func moduleConfig(t *testing.T, text string) ports.ModuleConfig {
	t.Helper()
	c, err := config.Parse("stowage.toml", []byte("[kv.default]\nmodule = 'm'\n"+text))
	require.NoError(t, err)
	return c.Kv["default"].Config
}

func TestDecodeFillsEveryType(t *testing.T) {
	t.Parallel()
	yes := true
	got := settings{Nested: nested{B: 7}, Pointer: &nested{B: 8}, Labels: map[string]string{"kept": "1"}, Skipped: "s", internal: "i"}
	require.NoError(t, moduleConfig(t, `
[kv.default.config]
text = "t"
level = "l"
count = -5
small = -128
port = 65535
big = 9223372036854775807
ratio = 2
flag = true
pause = "1m"
since = 2026-03-01T12:00:00Z
any = [1, "x"]
names = ["a", "b"]
nested.a = 1
pointer = { a = 2 }
labels = { "odd key" = "2" }
[[kv.default.config.list]]
a = 3
[[kv.default.config.list]]
b = 4
`).Decode(&got))
	assert.Equal(t, settings{
		shared: shared{"l"}, Text: "t", Count: -5, Small: -128, Port: 65535, Big: 1<<63 - 1, Ratio: 2, Flag: &yes,
		Pause: ports.Duration(time.Minute), Since: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Any: []any{int64(1), "x"},
		Names: []string{"a", "b"}, Nested: nested{1, 7}, Pointer: &nested{2, 8}, List: []nested{{A: 3}, {B: 4}},
		Labels: map[string]string{"kept": "1", "odd key": "2"}, Skipped: "s", internal: "i",
	}, got)
}

func TestDecodeKeepsDefaultsOfMissingKeys(t *testing.T) {
	t.Parallel()
	for name, section := range map[string]ports.ModuleConfig{
		"no section":       moduleConfig(t, ""),
		"an empty section": moduleConfig(t, "[kv.default.config]\n"),
		"no configuration": config.NoConfig(),
	} {
		got := settings{Text: "default", Count: 3}
		require.NoError(t, section.Decode(&got), name)
		assert.Equal(t, settings{Text: "default", Count: 3}, got, name)
	}
}

func TestDecodeSaysWhatIsWrongAndWhere(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		line       int
		key, want  string
	}{
		{"an unknown key", "text = 'x'\ntexts = 'x'", 2, "texts", `the key "texts" is unknown in [kv.default.config]: allowed are any, big, channel, count, flag, labels, level, list`},
		{"a case variant", "Text = 'x'", 1, "Text", "is unknown"},
		{"a skipped field", "Skipped = 'x'", 1, "Skipped", "is unknown"},
		{"an unexported field", "internal = 'x'", 1, "internal", "is unknown"},
		{"an unknown nested key", "[kv.default.config.nested]\n\nc = 1", 3, "nested.c", "in [kv.default.config.nested]: allowed are a, b"},
		{"an unknown inline key", "nested = { a = 1, c = 1 }", 1, "nested.c", "allowed are a, b"},
		{"an unknown key of a list", "[[kv.default.config.list]]\na = 1\n[[kv.default.config.list]]\nc = 1", 4, "list[1].c", "in [kv.default.config.list[1]]: allowed are a, b"},
		{"an unknown key of an inline list", "list = [\n  { a = 1 },\n  { c = 1 },\n]", 3, "list[1].c", "allowed are a, b"},
		{"a wrong element", "names = [\n  'a',\n  7,\n]", 3, "names[1]", "is a whole number: a string is wanted"},
		{"a string for a number", "count = 'hunter2'", 1, "count", "the key kv.default.config.count is a string: a whole number is wanted"},
		{"a fraction for a number", "count = 1.5", 1, "count", "is a number with a fraction: a whole number is wanted"},
		{"too small", "small = -129", 1, "small", "a whole number of 8 bits is wanted"},
		{"too large", "port = 65536", 1, "port", "a whole number from 0 to 65535 is wanted"},
		{"negative", "big = -1", 1, "big", "a whole number from 0 is wanted"},
		{"a string for a flag", "flag = 'hunter2'", 1, "flag", "true or false is wanted"},
		{"a number for a duration", "pause = 30", 1, "pause", `is a whole number: a duration like "30s" or "1h30m" is wanted`},
		{"a bad duration", "pause = '30'", 1, "pause", `the key kv.default.config.pause: "30" is not a duration`},
		{"a local date", "since = 2026-03-01", 1, "since", "is a date or time: a date with time and zone is wanted"},
		{"a number for a date", "since = 1", 1, "since", "a date with time and zone is wanted"},
		{"a scalar for a list", "names = 'hunter2'", 1, "names", "is a string: a list is wanted"},
		{"a scalar for a table", "nested = 1", 1, "nested", "a table is wanted"},
		{"a list for a map", "labels = []", 1, "labels", "is a list: a table is wanted"},
		{"a wrong value in a map", "[kv.default.config.labels]\n'odd key' = 1", 2, `labels."odd key"`, `the key kv.default.config.labels."odd key" is a whole number`},
		{"a field that TOML cannot fill", "channel = 1", 1, "channel", "chan int"},
	} {
		text := "[kv.default.config]\n" + tc.text + "\n"
		line := tc.line + 3
		var into settings
		err := moduleConfig(t, text).Decode(&into)
		var fault *config.Fault
		if !assert.ErrorIs(t, err, ports.ErrInvalidConfig, tc.name) || !assert.ErrorAs(t, err, &fault, tc.name) {
			continue
		}
		assert.Equal(t, config.Position{File: "stowage.toml", Line: line}, fault.At, "%s: %v", tc.name, err)
		assert.Equal(t, "kv.default.config."+tc.key, fault.Key, tc.name)
		assert.Contains(t, err.Error(), tc.want, tc.name)
		assert.NotContains(t, err.Error(), "hunter2", tc.name)
	}
}

func TestDecodeOfAModuleWithoutKeys(t *testing.T) {
	t.Parallel()
	err := moduleConfig(t, "[kv.default.config]\nx = 1\n").Decode(&struct{}{})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorContains(t, err, "stowage.toml:4: ")
	require.ErrorContains(t, err, "no keys are allowed there")
}

func TestDecodeWantsAPointerToAStruct(t *testing.T) {
	t.Parallel()
	var number int
	for _, into := range []any{nil, settings{}, &number, (*settings)(nil)} {
		for _, section := range []ports.ModuleConfig{config.NoConfig(), moduleConfig(t, "")} {
			require.ErrorIs(t, section.Decode(into), ports.ErrInvalidConfig)
		}
	}
}
