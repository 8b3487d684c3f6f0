package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const wholePipeline = `[[pipeline]]
id = "quakes"
source = { module = "file", text = "quakes.ndjson", count = 3 }
event_time = "time"
fields = { mag = "number", net = "string" }

[[pipeline.monitor]]
id = "strong"
when = '''
  mag >= 4.5
'''
gate = { threshold = 3, window = "1h", cooldown = "24h",
	key = "net" }
sinks = ["alerts", "log"]

[[pipeline.monitor]]
id = "all"
sinks = ["log"]

[[pipeline.sink]]
id = "alerts"
module = "hook"
retry = { attempts = 5, min = "1s", max = "1m" }
text = "http://127.0.0.1:9000"

[[pipeline.sink]]
id = "log"
module = "file"
`

const wholeJSON = `{
	"source": {"module": "file", "text": "quakes.ndjson", "count": 3},
	"event_time": "time",
	"fields": {"mag": "number", "net": "string"},
	"monitor": [
		{"id": "strong", "when": "\n  mag >= 4.5\n",
		 "gate": {"threshold": 3, "window": "1h", "cooldown": "24h", "key": "net"}, "sinks": ["alerts", "log"]},
		{"id": "all", "sinks": ["log"]}
	],
	"sink": [
		{"id": "alerts", "module": "hook", "retry": {"attempts": 5, "min": "1s", "max": "1m"}, "text": "http://127.0.0.1:9000"},
		{"id": "log", "module": "file"}
	]
}`

func TestParseAWholePipeline(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("stowage.toml", []byte(wholePipeline))
	require.NoError(t, err)
	require.Len(t, c.Pipelines, 1)
	fromJSON, err := config.ParsePipeline("quakes", []byte(wholeJSON))
	require.NoError(t, err)
	for form, p := range map[string]config.Pipeline{"TOML": c.Pipelines[0], "JSON": fromJSON} {
		assert.EqualValues(t, "quakes", p.ID, form)
		assert.Equal(t, "file", p.Source.Module, form)
		var source struct {
			Text  string `toml:"text"`
			Count int    `toml:"count"`
		}
		require.NoError(t, p.Source.Config.Decode(&source), "the module sees its own keys only")
		assert.Equal(t, "quakes.ndjson", source.Text, form)
		assert.Equal(t, 3, source.Count, form)
		assert.Equal(t, "time", p.EventTime, form)
		assert.Equal(t, map[string]string{"mag": "number", "net": "string"}, p.Fields, form)

		require.Len(t, p.Monitors, 2, form)
		strong, all := p.Monitors[0], p.Monitors[1]
		assert.EqualValues(t, "strong", strong.ID, form)
		assert.Equal(t, "mag >= 4.5", strings.TrimSpace(strong.When), form)
		assert.Equal(t, []types.SinkID{"alerts", "log"}, strong.Sinks, form)
		gate := *strong.Gate
		gate.At, gate.KeyAt = config.Position{}, config.Position{}
		assert.Equal(t, config.Gate{Threshold: 3, Window: time.Hour, Cooldown: 24 * time.Hour, Key: "net"}, gate, form)
		assert.Empty(t, all.When, form)
		assert.Nil(t, all.Gate, form)

		require.Len(t, p.Sinks, 2, form)
		assert.Equal(t, config.Retry{Attempts: 5, Min: time.Second, Max: time.Minute}, p.Sinks[0].Retry, form)
		assert.Equal(t, "hook", p.Sinks[0].Module, form)
		assert.Zero(t, p.Sinks[1].Retry, form)
		require.NoError(t, p.Check(), form)
	}

	at := func(positions ...config.Position) (text []string) {
		for _, p := range positions {
			text = append(text, p.String())
		}
		return text
	}
	positions := func(p config.Pipeline) []string {
		m := p.Monitors[0]
		return at(p.At, p.Source.At, p.Source.ModuleAt, p.EventTimeAt, p.FieldsAt, m.At, m.WhenAt, m.Gate.At, m.Gate.KeyAt,
			p.Monitors[1].WhenAt, p.Sinks[1].At, p.Sinks[1].ModuleAt)
	}
	var lines []string
	for _, line := range []string{"1", "3", "3", "4", "5", "7", "9", "12", "13", "16", "26", "28"} {
		lines = append(lines, "stowage.toml:"+line)
	}
	assert.Equal(t, lines, positions(c.Pipelines[0]))
	assert.Equal(t, []string{"", "source", "source.module", "event_time", "fields", "monitor[0]", "monitor[0].when", "monitor[0].gate",
		"monitor[0].gate.key", "monitor[1]", "sink[1]", "sink[1].module"}, positions(fromJSON))
}

func TestAGateAlonePassesEachMatch(t *testing.T) {
	t.Parallel()
	p, err := config.ParsePipeline("p", []byte(`{"source":{"module":"m"},"fields":{},
		"monitor":[{"id":"a","gate":{},"sinks":["s"]}],"sink":[{"id":"s","module":"m"}]}`))
	require.NoError(t, err)
	assert.Equal(t, 1, p.Monitors[0].Gate.Threshold)
	assert.Nil(t, p.Fields, "no fields are all fields")
}

// Both forms have the same rules: each case is written in TOML and in JSON, and told by the same words.
func TestPipelinesAreRefusedInBothForms(t *testing.T) {
	t.Parallel()
	const (
		head   = "[[pipeline]]\nid = 'p'\n"
		source = head + "source = { module = 'm' }\n"
		sink   = "[[pipeline.sink]]\nid = 's'\nmodule = 'm'\n"
		tail   = "[[pipeline.sink]]\nid = 's'\nmodule = 'm'\n[[pipeline.sink]]\nid = 't'\nmodule = 'm'\n"

		jsonSource = `"source":{"module":"m"}`
		jsonSinks  = `"sink":[{"id":"s","module":"m"},{"id":"t","module":"m"}]`
	)
	monitor := func(keys string) string { return source + "[[pipeline.monitor]]\n" + keys + "\n" + tail }
	jsonMonitor := func(members string) string {
		return `{` + jsonSource + `,"monitor":[{` + members + `}],` + jsonSinks + `}`
	}
	retry := func(keys string) string { return head + sink + "retry = " + keys + "\n" }
	jsonRetry := func(value string) string { return `{"sink":[{"id":"s","module":"m","retry":` + value + `}]}` }
	for _, tc := range []struct {
		name       string
		toml       string
		line       int
		json       string
		key        string // in JSON
		want, also string // also: in both, empty for none
	}{
		{"a source without a module", head + "source = { path = 'x' }\n", 3, `{"source":{"path":"x"}}`, "source", "has no module", ""},
		{"an empty module", head + "source = { module = '' }\n", 3, `{"source":{"module":""}}`, "source.module", "is empty", ""},
		{"a module that is a number", head + "source = { module = 1 }\n", 3, `{"source":{"module":1}}`, "source.module", "is a whole number: a string is wanted", ""},
		{"a source that is a string", head + "source = 'm'\n", 3, `{"source":"m"}`, "source", "is a string", ""},
		{"a source without a monitor", source + tail, 3, `{` + jsonSource + `,` + jsonSinks + `}`, "source", "has a source but no monitor", ""},
		{"a monitor without a source", head + "[[pipeline.monitor]]\nid = 'a'\nsinks = ['s']\n" + tail, 3, `{"monitor":[{"id":"a","sinks":["s"]}],` + jsonSinks + `}`, "monitor[0]", "a monitor but no source", ""},
		{"an event time without a source", head + "event_time = 'x'\n" + tail, 3, `{"event_time":"x",` + jsonSinks + `}`, "event_time", "has sinks only", ""},
		{"fields without a source", head + "fields = { x = 'any' }\n" + tail, 3, `{"fields":{"x":"any"},` + jsonSinks + `}`, "fields", "has sinks only", ""},

		{"an unknown type", source + "fields = { b = 'any', a = 'integer' }\n[[pipeline.monitor]]\nid = 'a'\nsinks = ['s']\n" + tail, 4,
			`{"fields":{"b":"any","a":"integer"},` + jsonMonitor(`"id":"a","sinks":["s"]`)[1:], "fields.a", `the type "integer" of the field a is unknown: allowed are number, string, bool, object, array, any`, ""},
		{"a field with the name of the event", source + "fields = { event = 'any' }\n[[pipeline.monitor]]\nid = 'a'\nsinks = ['s']\n" + tail, 4,
			`{"fields":{"event":"any"},` + jsonMonitor(`"id":"a","sinks":["s"]`)[1:], "fields.event", "the whole event", ""},
		{"a field without a name", source + "fields = { '' = 'any' }\n[[pipeline.monitor]]\nid = 'a'\nsinks = ['s']\n" + tail, 4,
			`{"fields":{"":"any"},` + jsonMonitor(`"id":"a","sinks":["s"]`)[1:], `fields.""`, "has no name", ""},
		{"a type that is a number", source + "fields = { a = 1 }\n", 4, `{` + jsonSource + `,"fields":{"a":1}}`, "fields.a", "is a whole number: a string is wanted", ""},

		{"a monitor without an id", monitor("sinks = ['s']"), 4, jsonMonitor(`"sinks":["s"]`), "monitor[0]", "a monitor has no id", ""},
		{"a monitor with a bad id", monitor("sinks = ['s']\nid = 'a b'"), 6, jsonMonitor(`"id":"a b","sinks":["s"]`), "monitor[0].id", "the id of a monitor cannot be used", ""},
		{"a monitor with a reserved id", monitor("id = '_source'\nsinks = ['s']"), 5, jsonMonitor(`"id":"_source","sinks":["s"]`), "monitor[0].id", `cannot be "_source"`, "use another one"},
		{"two monitors of one id", monitor("id = 'a'\nsinks = ['s']\n[[pipeline.monitor]]\nid = 'a'\nsinks = ['s']"), 8,
			jsonMonitor(`"id":"a","sinks":["s"]},{"id":"a","sinks":["s"]`), "monitor[1].id", `a monitor with the id "a" stands at `, " already: give each of a pipeline its own"},
		{"an unknown key of a monitor", monitor("id = 'a'\nif = 'x'"), 6, jsonMonitor(`"id":"a","if":"x"`), "monitor[0].if", "allowed are gate, id, sinks, when", ""},
		{"a sink's key of a monitor", monitor("id = 'a'\nretry = {}"), 6, jsonMonitor(`"id":"a","retry":{}`), "monitor[0].retry", "retry belongs in a", ""},
		{"a pipeline's key of a monitor", monitor("id = 'a'\nevent_time = 'x'"), 6, jsonMonitor(`"id":"a","event_time":"x"`), "monitor[0].event_time", "event_time belongs", ""},
		{"a gate's key of a monitor", monitor("id = 'a'\nwindow = '1h'"), 6, jsonMonitor(`"id":"a","window":"1h"`), "monitor[0].window", "window belongs in the gate of a", ""},

		{"a monitor without sinks", monitor("id = 'a'"), 4, jsonMonitor(`"id":"a"`), "monitor[0]", `the monitor "a" has no sinks`, "there are s, t"},
		{"a monitor with an empty list of sinks", monitor("id = 'a'\nsinks = []"), 6, jsonMonitor(`"id":"a","sinks":[]`), "monitor[0].sinks", "has no sinks", ""},
		{"a monitor of a sink that is not there", monitor("id = 'a'\nsinks = [\n's',\n'mail']"), 8, jsonMonitor(`"id":"a","sinks":["s","mail"]`), "monitor[0].sinks[1]",
			`names the sink "mail", which the pipeline does not have: there are s, t`, ""},
		{"a monitor where there are no sinks", source + "[[pipeline.monitor]]\nid = 'a'\nsinks = ['s']\n", 6, `{` + jsonSource + `,"monitor":[{"id":"a","sinks":["s"]}]}`, "monitor[0].sinks[0]", "there are none; add a sink", ""},
		{"a sink named twice", monitor("id = 'a'\nsinks = ['s', 't',\n's']"), 7, jsonMonitor(`"id":"a","sinks":["s","t","s"]`), "monitor[0].sinks[2]", `names the sink "s" twice`, ""},
		{"one sink as a string", monitor("id = 'a'\nsinks = 's'"), 6, jsonMonitor(`"id":"a","sinks":"s"`), "monitor[0].sinks", "is a string", ""},

		{"a threshold of 0", monitor("id = 'a'\nsinks = ['s']\ngate = { threshold = 0 }"), 7, jsonMonitor(`"id":"a","sinks":["s"],"gate":{"threshold":0}`), "monitor[0].gate.threshold", "the threshold of a gate is 0: give 1 to 10000", ""},
		{"a large threshold", monitor("id = 'a'\nsinks = ['s']\ngate = { threshold = 10001 }"), 7, jsonMonitor(`"id":"a","sinks":["s"],"gate":{"threshold":10001}`), "monitor[0].gate.threshold", "give 1 to 10000", ""},
		{"a threshold with a fraction", monitor("id = 'a'\ngate = { threshold = 1.5 }"), 6, jsonMonitor(`"id":"a","gate":{"threshold":1.5}`), "monitor[0].gate.threshold", "a number with a fraction: a whole number is wanted", ""},
		{"a negative window", monitor("id = 'a'\nsinks = ['s']\ngate.threshold = 2\ngate.window = '-1s'"), 8, jsonMonitor(`"id":"a","sinks":["s"],"gate":{"threshold":2,"window":"-1s"}`), "monitor[0].gate.window", "the window of a gate is -1s: give 0s to 87600h0m0s, which is 10 years", ""},
		{"a long cooldown", monitor("id = 'a'\nsinks = ['s']\ngate.cooldown = '87600h0m1s'"), 7, jsonMonitor(`"id":"a","sinks":["s"],"gate":{"cooldown":"87600h0m1s"}`), "monitor[0].gate.cooldown", "the cooldown of a gate is 87600h0m1s", ""},
		{"a fine cooldown", monitor("id = 'a'\nsinks = ['s']\ngate.cooldown = '1500us'"), 7, jsonMonitor(`"id":"a","sinks":["s"],"gate":{"cooldown":"1500us"}`), "monitor[0].gate.cooldown", "the cooldown of a gate is 1.5ms: give whole milliseconds", ""},
		{"no window", monitor("id = 'a'\nsinks = ['s']\ngate.threshold = 2"), 7, jsonMonitor(`"id":"a","sinks":["s"],"gate":{"threshold":2}`), "monitor[0].gate", "counts 2 matches but has no window", ""},
		{"a window of 0", monitor("id = 'a'\nsinks = ['s']\ngate.threshold = 2\ngate.window = '0s'"), 8, jsonMonitor(`"id":"a","sinks":["s"],"gate":{"threshold":2,"window":"0s"}`), "monitor[0].gate.window", "has no window", ""},
		{"a number for a window", monitor("id = 'a'\ngate = { window = 60 }"), 6, jsonMonitor(`"id":"a","gate":{"window":60}`), "monitor[0].gate.window", `a duration like "30s" or "1h30m" is wanted`, ""},
		{"an unknown key of a gate", monitor("id = 'a'\ngate = { when = 'x' }"), 6, jsonMonitor(`"id":"a","gate":{"when":"x"}`), "monitor[0].gate.when", "allowed are cooldown, key, threshold, window; when belongs in a", ""},

		{"a sink with a reserved id", head + "[[pipeline.sink]]\nmodule = 'm'\nid = '_source'\n", 5, `{"sink":[{"module":"m","id":"_source"}]}`, "sink[0].id", `the id of a sink cannot be "_source"`, ""},
		{"two sinks of one id", head + sink + sink, 7, `{"sink":[{"id":"s","module":"m"},{"id":"s","module":"m"}]}`, "sink[1].id", `a sink with the id "s" stands at `, " already"},
		{"no attempts", retry("{ attempts = 0 }"), 6, jsonRetry(`{"attempts":0}`), "sink[0].retry.attempts", "the attempts of a retry are 0: give 1 to 100", ""},
		{"many attempts", retry("{ attempts = 101 }"), 6, jsonRetry(`{"attempts":101}`), "sink[0].retry.attempts", "give 1 to 100", ""},
		{"a pause of 0", retry("{ min = '0s' }"), 6, jsonRetry(`{"min":"0s"}`), "sink[0].retry.min", "the min of a retry is 0s: give a duration above 0s", ""},
		{"a negative pause", retry("{ max = '-1s' }"), 6, jsonRetry(`{"max":"-1s"}`), "sink[0].retry.max", "the max of a retry is -1s", ""},
		{"a long pause", retry("{ max = '100000h' }"), 6, jsonRetry(`{"max":"100000h"}`), "sink[0].retry.max", "up to 87600h", ""},
		{"pauses the wrong way round", retry("{ min = '2s', max = '1s' }"), 6, jsonRetry(`{"min":"2s","max":"1s"}`), "sink[0].retry.max", "the max of a retry is 1s, below its min of 2s", ""},
		{"an unknown key of a retry", retry("{ tries = 2 }"), 6, jsonRetry(`{"tries":2}`), "sink[0].retry.tries", "allowed are attempts, max, min", ""},
		{"a retry that is a number", retry("3"), 6, jsonRetry(`3`), "sink[0].retry", "is a whole number", ""},
	} {
		for form, refused := range map[string]struct {
			parse func() error
			at    config.Position
			key   string
		}{
			"TOML": {func() error { _, err := config.Parse("f", []byte(tc.toml)); return err }, config.Position{File: "f", Line: tc.line}, "pipeline[0]."},
			"JSON": {func() error { _, err := config.ParsePipeline("p", []byte(tc.json)); return err }, config.Position{Path: tc.key}, ""},
		} {
			err := refused.parse()
			var fault *config.Fault
			if !assert.ErrorIs(t, err, ports.ErrInvalidConfig, "%s in %s", tc.name, form) || !assert.ErrorAs(t, err, &fault) {
				continue
			}
			assert.Equal(t, refused.at, fault.At, "%s in %s: %v", tc.name, form, err)
			assert.True(t, strings.HasPrefix(fault.Key, refused.key), "%s in %s: %s", tc.name, form, fault.Key)
			assert.Contains(t, err.Error(), fault.At.String()+": ", "%s in %s", tc.name, form)
			assert.Contains(t, err.Error(), tc.want, "%s in %s", tc.name, form)
			assert.Contains(t, err.Error(), tc.also, "%s in %s", tc.name, form)
		}
	}
}

func TestMisplacedKeysOfPipelinesAreShownTheirPlace(t *testing.T) {
	t.Parallel()
	const sink = "[[pipeline]]\nid = 'p'\n[[pipeline.sink]]\nid = 's'\nmodule = 'm'\n"
	for name, tc := range map[string]struct{ text, want string }{
		"a pipeline's key at the top":   {"event_time = 'x'\n", "event_time belongs in a [[pipeline]], above its first [[pipeline.monitor]] and [[pipeline.sink]]"},
		"a list of monitors at the top": {"[[monitor]]\nid = 'x'\n", "monitor belongs in a [[pipeline]]"},
		"a store's key of a pipeline":   {"[[pipeline]]\nid = 'p'\nmodule = 'm'\n", "module belongs in [storage], [kv.NAME], [queue.NAME], [[pipeline.sink]] or the source of a [[pipeline]]"},
		"a monitor's key of a pipeline": {"[[pipeline]]\nid = 'p'\nwhen = 'x'\n", "when belongs in a [[pipeline.monitor]]"},
		"a retry at a kv":               {"[kv.a]\nmodule = 'm'\nretry = { max = '1s' }\n", `a name with a dot in it is quoted, [kv."a.retry"]`},
	} {
		_, err := config.Parse("f", []byte(tc.text))
		require.ErrorContains(t, err, tc.want, name)
	}
	for name, tc := range map[string]struct{ keys, want string }{
		"a monitor's key":         {"when = 'x'", "the key \"when\" is unknown in [pipeline[0].sink[0]]: allowed are id, module, nested, retry, url; when belongs in a [[pipeline.monitor]]"},
		"a retry's key":           {"attempts = 3", "attempts belongs in the retry of a [[pipeline.sink]]"},
		"a config":                {"config = { url = 'x' }", "the keys of a source's or sink's module stand beside module"},
		"a key that is no key":    {"uri = 'x'", "allowed are id, module, nested, retry, url"},
		"a key inside the module": {"nested = { when = 'x' }", "in [pipeline[0].sink[0].nested]: allowed are a, b"},
	} {
		c, err := config.Parse("f", []byte(sink+tc.keys+"\n"))
		require.NoError(t, err, name)
		var into struct {
			URL    string `toml:"url"`
			Nested nested `toml:"nested"`
		}
		err = c.Pipelines[0].Sinks[0].Config.Decode(&into)
		require.ErrorContains(t, err, "f:6: ", name)
		require.ErrorContains(t, err, tc.want, name)
		if name == "a key inside the module" {
			assert.NotContains(t, err.Error(), "belongs", name)
		}
	}
	for name, tc := range map[string]struct{ text, want string }{
		"the id":          {`{"id":"p"}`, `the key "id" is unknown at the top: allowed are event_time, fields, monitor, sink, source; the id of the resource is that of the pipeline`},
		"a monitor's key": {`{"when":"x"}`, "when belongs in an object of the array monitor"},
		"a file's key":    {`{"state_dir":"x"}`, "allowed are event_time, fields, monitor, sink, source"},
	} {
		_, err := config.ParsePipeline("p", []byte(tc.text))
		require.ErrorContains(t, err, tc.want, name)
	}
}

func TestParsePipelineIsStrictJSON(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"no JSON":                 {"[[pipeline]]", "the pipeline is not a JSON object"},
		"nothing":                 {"", "not a JSON object"},
		"an array":                {"[]", "an object is wanted"},
		"null":                    {"null", "an object is wanted"},
		"trailing bytes":          {"{} {}", "something follows"},
		"a duplicate":             {`{"sink":[],"sink":[]}`, "a member stands twice"},
		"a duplicate of a module": {`{"sink":[{"id":"s","module":"m","a":1,"a":2}]}`, "a member stands twice"},
		"a case variant":          {`{"Sink":[]}`, `the key "Sink" is unknown`},
		"invalid UTF-8":           {"{\"event_time\":\"\xff\"}", "UTF-8"},
		"null for a key":          {`{"event_time":null}`, "event_time: the key event_time is null: leave it out"},
		"null in a list":          {`{"sink":[{"id":"s","module":"m","list":[{"a":1},null]}]}`, "the key sink[0].list[1] is null"},
		"a large number":          {`{"sink":[{"id":"s","module":"m","n":9223372036854775808}]}`, "the key sink[0].n is a whole number that does not fit into 64 bits"},
		"a huge number":           {`{"sink":[{"id":"s","module":"m","n":1e999}]}`, "the key sink[0].n is a number that is too large"},
		"an array for a table":    {`{"source":[]}`, "the key source is an array: an object is wanted"},
		"a table for a list":      {`{"monitor":{"id":"a"}}`, "the key monitor is an object: an array is wanted"},
		"a long text":             {`{"event_time":"` + strings.Repeat("x", 1<<20) + `"}`, "at most 1048576 are allowed"},
	} {
		_, err := config.ParsePipeline("p", []byte(tc.text))
		require.ErrorIs(t, err, ports.ErrInvalidConfig, name)
		require.ErrorContains(t, err, tc.want, name)
		assert.Less(t, len(err.Error()), 1000, name)
	}
	_, err := config.ParsePipeline("p", []byte(`{"`+strings.Repeat("k", 1<<19)+`":1}`))
	require.ErrorContains(t, err, "is unknown at the top")
	assert.Less(t, len(err.Error()), 2000, "a key without end does not fill the message")
	_, err = config.ParsePipeline("a b", []byte(`{}`))
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.ErrorContains(t, err, "the id of the pipeline cannot be used")
	p, err := config.ParsePipeline("p", []byte(`{}`))
	require.NoError(t, err, "a pipeline may be empty, as in a file")
	assert.EqualValues(t, "p", p.ID)
}

func TestModuleKeysOfJSON(t *testing.T) {
	t.Parallel()
	p, err := config.ParsePipeline("p", []byte(`{"sink":[{"id":"s","module":"m","text":"t","count":-5,"big":9223372036854775807,"ratio":2,
		"flag":true,"pause":"1m","since":"2026-03-01T12:00:00Z","any":[1,2.5,"x",{"a":-0}],"names":["a"],"nested":{"a":1},"list":[{"a":3},{"b":4}],
		"labels":{"odd key":"2"}}]}`))
	require.NoError(t, err)
	yes := true
	var got settings
	require.NoError(t, p.Sinks[0].Config.Decode(&got))
	assert.Equal(t, settings{
		Text: "t", Count: -5, Big: 1<<63 - 1, Ratio: 2, Flag: &yes, Pause: ports.Duration(time.Minute),
		Since: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Any: []any{int64(1), 2.5, "x", map[string]any{"a": int64(0)}},
		Names: []string{"a"}, Nested: nested{A: 1}, List: []nested{{A: 3}, {B: 4}}, Labels: map[string]string{"odd key": "2"},
	}, got)

	for keys, want := range map[string]string{
		`"texts":"hunter2"`:         `sink[0].texts: the key "texts" is unknown in sink[0]: allowed are any, big, channel, count, flag, id, labels`,
		`"count":"hunter2"`:         `sink[0].count: the key sink[0].count is a string: a whole number is wanted`,
		`"count":1.0`:               `is a number with a fraction: a whole number is wanted`,
		`"nested":{"c":"hunter2"}`:  `sink[0].nested.c: the key "c" is unknown in sink[0].nested: allowed are a, b`,
		`"list":[{"a":1},{"c":1}]`:  `sink[0].list[1].c: the key "c" is unknown in sink[0].list[1]`,
		`"names":["hunter2",7]`:     `sink[0].names[1]: the key sink[0].names[1] is a whole number`,
		`"labels":{"odd key":1}`:    `sink[0].labels."odd key": `,
		`"nested":["hunter2"]`:      `is an array: an object is wanted`,
		`"since":"hunter2 is then"`: `sink[0].since: the key sink[0].since: `,
	} {
		p, err := config.ParsePipeline("p", []byte(`{"sink":[{"id":"s","module":"m",`+keys+`}]}`))
		require.NoError(t, err, keys)
		err = p.Sinks[0].Config.Decode(new(settings))
		require.ErrorIs(t, err, ports.ErrInvalidConfig, keys)
		require.ErrorContains(t, err, want, keys)
		if !strings.Contains(keys, "since") {
			assert.NotContains(t, err.Error(), "hunter2", keys)
		}
	}
}

func TestLocateFindsKeysInBothForms(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("f", []byte(wholePipeline))
	require.NoError(t, err)
	p, err := config.ParsePipeline("quakes", []byte(wholeJSON))
	require.NoError(t, err)
	const message = "the key count, 3, is odd: leave text alone"

	at, key, ok := config.Locate(c.Pipelines[0].Source.Config, message)
	require.True(t, ok)
	assert.Equal(t, config.Position{File: "f", Line: 3}, at)
	assert.Equal(t, "pipeline[0].source.count", key)
	at, key, ok = config.Locate(p.Source.Config, message)
	require.True(t, ok)
	assert.Equal(t, config.Position{Path: "source.count"}, at)
	assert.Equal(t, "source.count", key)

	for _, none := range []ports.ModuleConfig{p.Sinks[1].Config, config.NoConfig(), nil} {
		_, _, ok = config.Locate(none, message)
		assert.False(t, ok)
	}
	_, _, ok = config.Locate(p.Source.Config, "the module is odd")
	assert.False(t, ok, "module is no key of the module")
}

// A program may make a pipeline without a text.
func TestCheckOfAPipelineThatAProgramMakes(t *testing.T) {
	t.Parallel()
	whole := func() config.Pipeline {
		return config.Pipeline{
			ID:       "p",
			Source:   &config.Source{Store: config.Store{Module: "m"}},
			Fields:   map[string]string{"mag": "number"},
			Monitors: []config.Monitor{{ID: "a", Gate: &config.Gate{Threshold: 2, Window: time.Hour}, Sinks: []types.SinkID{"s"}}},
			Sinks:    []config.Sink{{ID: "s", Store: config.Store{Module: "m"}, Retry: config.Retry{Min: time.Hour}}},
		}
	}
	require.NoError(t, whole().Check())
	for want, change := range map[string]func(*config.Pipeline){
		"id: the id of the pipeline cannot be used":                func(p *config.Pipeline) { p.ID = "" },
		"source: the pipeline has a source but no monitor":         func(p *config.Pipeline) { p.Monitors = nil },
		"monitor[0]: the pipeline has a monitor but no source":     func(p *config.Pipeline) { p.Source = nil },
		`fields.mag: the type "" of the field mag`:                 func(p *config.Pipeline) { p.Fields["mag"] = "" },
		"monitor[0].id: the id of a monitor cannot be used":        func(p *config.Pipeline) { p.Monitors[0].ID = "" },
		"monitor[0].gate.threshold: the threshold of a gate is 0":  func(p *config.Pipeline) { p.Monitors[0].Gate.Threshold = 0 },
		"monitor[0].gate.window: the gate counts 2 matches":        func(p *config.Pipeline) { p.Monitors[0].Gate.Window = 0 },
		`monitor[0].sinks[0]: the monitor "a" names the sink "s"`:  func(p *config.Pipeline) { p.Sinks[0].ID = "t" },
		"monitor[0].sinks: the monitor \"a\" has no sinks":         func(p *config.Pipeline) { p.Monitors[0].Sinks = nil },
		"sink[0].retry.max: the max of a retry is 1m0s, below its": func(p *config.Pipeline) { p.Sinks[0].Retry.Max = time.Minute },
		`sink[1].id: a sink with the id "s" stands at sink[0].id`:  func(p *config.Pipeline) { p.Sinks = append(p.Sinks, p.Sinks[0]) },
	} {
		p := whole()
		change(&p)
		err := p.Check()
		require.ErrorIs(t, err, ports.ErrInvalidConfig, want)
		require.ErrorContains(t, err, "INVALID_CONFIG: "+want)
	}
}
