package monitor_test

import (
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/monitor"
	"github.com/stowage-go/stowage/ports"
)

// The counts were made by other means than this package.
func TestEarthquakesThatAreFound(t *testing.T) {
	t.Parallel()
	lines := quakes(t)
	require.Len(t, lines, 1707)
	for when, want := range map[string]int{
		``:                                      1707,
		`mag >= 4.5`:                            85,
		`event.mag >= 4.5`:                      85,
		`(mag ?? 0) >= 4.5`:                     85,
		`type != "earthquake"`:                  28,
		`type == "quarry blast"`:                13,
		`net == "us"`:                           168,
		`net in ["nc", "ci"]`:                   756,
		`net == "us" and mag < 4.5`:             84,
		`place matches "CA$"`:                   747,
		`place contains "Alaska"`:               313,
		`place matches '^\\d+km N of'`:          77,
		`place startsWith "1"`:                  529,
		`lower(place) contains "japan"`:         4,
		`depth_km > 100 and mag >= 4`:           30,
		`depth_km < 0`:                          43,
		`time % 1000 == 0`:                      18,
		`len(split(place, ", ")) == 2`:          1689,
		`time < millis("2018-02-01T00:00:00Z")`: 198,
		`type(mag) == "int"`:                    69,
		`mag < 0`:                               44,
		`"mag" in event`:                        1707,
		`lat >= 32 and lat <= 42 and lon >= -125 and lon <= -114`: 1014,
		`any([net, type], # == "us")`:                             168,
	} {
		for _, fields := range []map[string]string{nil, quakeFields()} {
			r := rule(t, when, fields)
			reader := monitor.NewReader(r)
			found := 0
			for _, line := range lines {
				env, err := reader.Read(line)
				require.NoError(t, err)
				picked, err := r.Match(env)
				require.NoError(t, err, when)
				if picked {
					found++
				}
			}
			assert.Equal(t, want, found, when)
		}
	}
}

func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	const event = `{"net":"us","flag":true,"none":null,"geo":{"lat":1}}`
	for when, want := range map[string]string{
		`mag >= 4.5`:                   "the expression fails at column 5: invalid operation: null >= number; a member may be missing: guard it, as in (NAME ?? 0) >= 1 or NAME != nil and NAME >= 1",
		`mag + 1 > 2`:                  "the expression fails at column 5: invalid operation: null + number",
		`none >= 4.5`:                  "null >= number",
		`mag`:                          "it gives null where true or false is wanted",
		`not mag`:                      "a value is null, not bool",
		`mag and flag`:                 "a value is null, not bool",
		`far.away == 1`:                "there is no member to take from null",
		`geo.lat.x == 1`:               "there is no member to take from a number",
		`any(list, # == 1)`:            "an array is wanted, and here is null",
		`any(net, # == 1)`:             "an array is wanted, and here is a text",
		`net > 3`:                      "invalid operation: string > number",
		`lower(mag) == "x"`:            "interface conversion: a value is null, not string",
		`len(mag) == 1`:                "invalid argument for len (type null)",
		`int(net) == 1`:                "int() was given a text that is no whole number",
		`net[9] == 1`:                  "an index is beyond the end of an array or a text",
		`millis(mag) == 1`:             "a time is null",
		`1 % (len(net) - 2) == 0`:      "integer divide by zero",
		`mag == 4.5`:                   "",
		`mag != nil and mag >= 4.5`:    "",
		`(mag ?? 0) >= 4.5`:            "",
		`"mag" in event`:               "",
		`mag in [1, 2]`:                "",
		`mag in event`:                 "",
		`mag contains "x"`:             "",
		`mag matches "x"`:              "",
		`geo?.lon != nil`:              "",
		`far?.away?.still != nil`:      "",
		`event.far?.away != nil`:       "",
		`mag == nil ? false : mag > 4`: "",
	} {
		picked, err := match(t, when, event)
		assert.False(t, picked, when)
		if want == "" {
			assert.NoError(t, err, when)
			continue
		}
		require.ErrorIs(t, err, ports.ErrInvalidInput, when)
		assert.ErrorContains(t, err, "monitor.match: INVALID_INPUT: the expression fails", when)
		assert.ErrorContains(t, err, want, when)
	}
}

func TestFailuresHoldNoValueOfTheEvent(t *testing.T) {
	t.Parallel()
	const event = `{"secret":"hunter2","list":["hunter2"],"object":{"hunter2":1},"n":77777777}`
	for _, when := range []string{
		`int(secret) == 1`, `float(secret) == 1`, `millis(secret) == 1`, `n[secret] == 1`, `list[secret] == 1`, `secret[secret] == 1`,
		`secret.x == 1`, `secret and true`, `secret`, `-secret == 1`, `secret > n`, `max(list, n) == 1`, `mean(list) == 1`, `secret in n`,
		`list[n] == 1`, `first(list).x == 1`, `object[n] == 1`, `string(list) == "x"`, `secret[n:secret] == ""`, `n[secret:] == ""`, `sum(list) == 1`,
		`bitand(secret, n) == 1`, `bitshl(n, -n) == 1`, `trim(n) == ""`, `split(secret, n)[0] == ""`, `{secret: 1}[n] == 1`, `abs(secret) > 1`, `round(list) > 1`,
		`any(object, # == 1)`, `get(list, secret) == 1`, `indexOf(list, secret) == 1`, `find(list, # > n) == 1`,
	} {
		r := rule(t, when, nil)
		_, err := r.Match(read(t, event, r))
		require.Error(t, err, when)
		assert.NotContains(t, err.Error(), "hunter2", when)
		assert.NotContains(t, err.Error(), "77777777", when)
		assert.NotContains(t, err.Error(), "interface {}", when)
	}
}

func TestExpressionsThatAreRefused(t *testing.T) {
	t.Parallel()
	typed := quakeFields()
	typed["ok"], typed["geo"], typed["tags"], typed["other"] = "bool", "object", "array", "any"
	for _, tc := range []struct {
		when   string
		fields map[string]string
		want   string
	}{
		{`mag >=`, nil, "the expression has a fault at column 6: unexpected token EOF"},
		{"mag > 1 and\n  mag > > 2", nil, "the expression has a fault at line 2, column 9: unexpected token"},
		{`mag`, typed, "the expression has a wrong result at column 1: it gives a number where true or false is wanted; compare it with something"},
		{`1`, nil, "it gives a number where true or false is wanted"},
		{`[1]`, nil, "it gives an array where true or false is wanted"},
		{`mgg >= 4.5`, typed, "the expression has an unknown name at column 1: mgg; fields has depth_km, geo, id, lat, lon, mag, net, ok, other, place, tags, time, type: use one of these, or declare it there; event is the whole event"},
		{`mag >= 4.5 and any(tags, # == nett)`, typed, "an unknown name at column 31: nett"},
		{`mag >= "4.5"`, typed, "the expression has a wrong type at column 5: invalid operation: >= (mismatched types number and string); correct it, or the type in fields"},
		{`net > 3`, typed, "wrong type at column 5"},
		{`net == 3`, typed, "wrong type at column 5: invalid operation: == (mismatched types string and number)"},
		{`mag contains "x"`, typed, "wrong type at column 5"},
		{`ok + 1 > 2`, typed, "wrong type at column 4"},
		{`not net`, typed, "wrong type at column 1"},
		{`net.x == 1`, typed, "wrong type at column 5: type string has no field x"},
		{`any(geo, true)`, typed, "wrong type at column 5: builtin any takes only array"},
		{`geo > 1`, typed, "mismatched types object and number"},
		{`lower(mag) == "x"`, typed, "wrong type at column 7: cannot use number as argument (type string) to call lower"},
		{`mag >= 4.5`, map[string]string{"mag": "float"}, `the field "mag" has the unknown type "float": give number, string, bool, object, array or any`},
		{`event == 1`, map[string]string{"event": "any"}, `the field "event" cannot be declared`},

		{`now() > 1`, nil, "the expression has a function that is not allowed at column 1: now() is not allowed, because an event has to be judged in the same way whenever it is read"},
		{`date(place) == nil`, nil, "date() is not allowed"},
		{`mag > 1 and date("2020-01-01").Year() == 2020`, nil, "at column 32: what is called is no function"},
		{`timezone("UTC") == nil`, nil, "timezone() is not allowed"},
		{`duration("1h") == nil`, nil, "duration() is not allowed"},
		{`keys(event)[0] == "a"`, nil, "keys() is not allowed, because the members of an object have no order"},
		{`values(event)[0] == "a"`, nil, "values() is not allowed"},
		{`toPairs(event)[0] == "a"`, nil, "toPairs() is not allowed"},
		{`repeat(place, 1000000) == "x"`, nil, "repeat() is not allowed, because its result may be very large"},
		{`replace(place, "", place) == "x"`, nil, "replace() is not allowed"},
		{`join(list, place) == "x"`, nil, "join() is not allowed"},
		{`toJSON(event) == "x"`, nil, "toJSON() is not allowed"},
		{`concat(list, list) == list`, nil, "concat() is not allowed"},
		{`flatten(list) == list`, nil, "flatten() is not allowed"},
		{`fromJSON(place) == 1`, nil, "fromJSON() is not known here; use one of abs, all, any"},
		{`sort(list)[0] == 1`, nil, "sort() is not known here"},
		{`uniq(list)[0] == 1`, nil, "uniq() is not known here"},
		{`sortBy(list, #)[0] == 1`, nil, "sortBy() is not known here"},
		{`groupBy(list, #)[1] == 1`, nil, "groupBy() is not known here"},
		{`reduce(list, #acc + #, 0) == 1`, nil, "reduce() is not known here"},
		{`rand() > 1`, nil, "rand() is not known here"},
		{`mag | rand() > 1`, nil, "at column 7: rand() is not known here"},
		{`event.run()`, nil, "what is called is no function"},
		{`$env.mag > 1`, nil, "a name that is not allowed at column 1: $env; event is the whole event"},
		{`let event = 1; event == 1`, nil, "let event; choose another name"},
		{`b"x" == place`, nil, "b\"…\" is not allowed"},
		{`mag in 1..1000000000`, nil, "a range at column 9: a .. b is not allowed; compare instead"},
		{`place matches net`, nil, "a pattern that is computed at column 15"},
		{`trim(place, net) == ""`, nil, "characters that are computed at column 13"},
		{`place matches "("`, nil, "a faulty pattern at column 15: error parsing regexp: missing closing )"},
		{`place matches "(a{30}){30}"`, nil, "a pattern that is too large at column 15"},
		{`place matches "a{999}"`, nil, "and 500 are allowed"},
		{`int(1, 2) == 1`, nil, "int() takes one value, and is given 2"},
		{`millis() == 1`, nil, "millis() takes one value, and is given 0"},
		{`any(a, any(b, any(c, any(d, true))))`, nil, "loops that are nested too deep at column 22: 3 are allowed within each other"},
		{strings.Repeat("true and ", 600) + "true", nil, "the expression is too large: more than 1000 operators, names and values"},
		{`mag == "` + strings.Repeat("x", 9000) + `"`, nil, "the expression has 9009 bytes: at most 8192 are allowed"},
	} {
		_, err := monitor.Compile(tc.when, tc.fields)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, tc.when)
		assert.ErrorContains(t, err, "monitor.compile: INVALID_CONFIG: ", tc.when)
		assert.ErrorContains(t, err, tc.want, tc.when)
		assert.NotContains(t, err.Error(), "\n", tc.when)
	}
	for expr, want := range map[string]string{
		"":     "the expression is empty",
		"[1]":  "it gives an array or an object where a single value is wanted",
		"tags": "it gives an array or an object",
		"zone": "an unknown name at column 1: zone",
	} {
		_, err := monitor.CompileValue(expr, typed)
		require.ErrorIs(t, err, ports.ErrInvalidConfig, expr)
		assert.ErrorContains(t, err, want, expr)
	}
}

func TestDeclaredNumbersMayBeWholeOrNot(t *testing.T) {
	t.Parallel()
	for _, when := range []string{
		`mag >= 4`, `mag == 4.7`, `time % 1000 == 350`, `time % 1000 == 350 and mag >= 4.5`, `abs(lon) > 100`, `bitand(time, 1) == 0`, `mag in [4, 4.7]`,
		`mag != nil and (mag ?? 0) >= 4.5`, `max(mag, 3) == 4.7`, `let m = round(mag); m == 5`, `(mag > 4 ? 1 : mag) == 1`, `string(depth_km) == "10"`, `millis(time) == time`,
	} {
		r := rule(t, when, quakeFields())
		picked, err := r.Match(read(t, quake, r))
		require.NoError(t, err, when)
		assert.True(t, picked, when)
	}
}

func TestValuesAreComparedByWhatTheyAre(t *testing.T) {
	t.Parallel()
	const event = `{"a":4.5,"b":1,"big":9007199254740993,"max":9223372036854775807,"over":9223372036854775808,"huge":1e400,"neg":-9223372036854775808,"list":[1,2.5],"len":3,"count":2,"int":7,"type":"x","any":true,"s":"é","deep":{"a":[1,{"b":null}]},"deep2":{"a":[1,{"b":null}]}}`
	for when, want := range map[string]bool{
		`(a > 4 ? a : 1) == 1`:       false,
		`(a > 9 ? a : 1) == 1`:       true,
		`(a > 4 ? 1 : a) == 1`:       true,
		`(a > 9 ? 1 : a) == 1`:       false,
		`max(1, a) == 4.5`:           true,
		`max(1, a) == 2`:             false,
		`sum(list) == 3.5`:           true,
		`sum(list) == 3`:             false,
		`sum(map(list, # * 2)) == 7`: true,
		`b == 1.0`:                   true,
		`big == 9007199254740993`:    true,
		`big == 9007199254740992`:    false,
		`max == 9223372036854775807`: true,
		`neg < 0 and neg + 1 < 0`:    true,
		`over > max - 1000`:          true,
		`type(over) == "float"`:      true,
		`huge > 1e308`:               true,
		`len == 3 and count == 2 and int == 7 and type == "x" and any`: true, // members may have the names of functions
		`int(a) == 4 and float(b) == 1 and len(type) == 1`:             true,
		`s == "\u00e9" and len(s) == 1`:                                true,
		`deep == deep2`:                                                true,
		`deep == event`:                                                false,
		`findIndex(list, # == 9) == 1`:                                 false,
		`count(list, # > 1) == 1 and one(list, # > 1) and none(list, # > 9) and all(list, # > 0)`: true,
		`filter(list, # > 1)[0] == 2.5`:                                       true,
		`any(list, let x = #; x == 2.5)`:                                      true,
		`map(list, #index)[1] == 1`:                                           true,
		`any([[1], [2, 3]], any(#, # == 3))`:                                  true,
		`get(event, "a") == 4.5 and get(event, "zip") == nil`:                 true,
		`event["a"] == a`:                                                     true,
		`"a" in event and not ("zip" in event)`:                               true,
		`2.5 in list and "x" not in list`:                                     true,
		`a in [1, 4.5, nil] and nil in [1, nil]`:                              true,
		`-1 in [1, -1] and b in list`:                                         true,
		`{"x": 4}[type] == 4`:                                                 true,
		`"a" + "b" == "ab" and a + b == 5.5`:                                  true,
		`string(a) == "4.5" and string(nil) == "" and string(true) == "true"`: true,
		`millis("1970-01-01T00:00:01.5Z") == 1500 and millis(1.9) == 1`:       true,
		`if a > 4 { b == 1 } else { false }`:                                  true,
		`list | filter(# > 1) | len() == 1`:                                   true,
	} {
		picked, err := match(t, when, event)
		if when == `findIndex(list, # == 9) == 1` {
			assert.NoError(t, err, when)
		}
		require.NoError(t, err, when)
		assert.Equal(t, want, picked, when)
	}
}

func TestTextOfAValue(t *testing.T) {
	t.Parallel()
	const event = `{"s":"a \"b\"","empty":"","i":12,"f":2.50,"w":2.0,"e":1e21,"m":-9223372036854775808,"t":true,"n":null,"l":[1],"o":{},"inf":1e999}`
	for expr, want := range map[string]string{
		"s": `a "b"`, "empty": "", "i": "12", "f": "2.5", "w": "2", "e": "1e+21", "m": "-9223372036854775808", "t": "true", "n": "", "missing": "",
		`s + "/" + string(i)`: `a "b"/12`, `s[0]`: "97",
	} {
		v := value(t, expr)
		got, err := v.Text(read(t, event, v))
		require.NoError(t, err, expr)
		assert.Equal(t, want, got, expr)
	}
	for expr, want := range map[string]string{
		"l": "and here is an array", "o": "and here is an object", "inf": "a number is infinite", "missing.x": "no member to take from null",
	} {
		v := value(t, expr)
		_, err := v.Text(read(t, event, v))
		require.ErrorIs(t, err, ports.ErrInvalidInput, expr)
		assert.ErrorContains(t, err, want, expr)
	}
}

func TestTimeOfAnEvent(t *testing.T) {
	t.Parallel()
	const event = `{"ms":1517365017350,"f":1517365017350.9,"neg":-1.5,"z":"2018-01-31T02:16:57.350Z","zone":"2018-01-31T03:16:57.350+01:00","whole":"2018-01-31T02:16:57Z","s":1517365017,"bad":"yesterday","t":true,"n":null,"huge":1e300,"inf":1e999}`
	for expr, want := range map[string]int64{
		"ms": 1517365017350, "f": 1517365017350, "neg": -2, "z": 1517365017350, "zone": 1517365017350, "whole": 1517365017000, "s * 1000": 1517365017000, "event.ms": 1517365017350,
	} {
		v := value(t, expr)
		got, err := v.Millis(read(t, event, v))
		require.NoError(t, err, expr)
		assert.Equal(t, want, got, expr)
	}
	for expr, want := range map[string]string{
		"bad": "not of the form 2006-01-02T15:04:05Z", "t": "a time is a bool", "n": "a time is null", "missing": "a time is null", "huge": "not within 64 bits", "inf": "not within 64 bits",
	} {
		v := value(t, expr)
		_, err := v.Millis(read(t, event, v))
		require.ErrorIs(t, err, ports.ErrInvalidInput, expr)
		assert.ErrorContains(t, err, want, expr)
	}
}

func TestNilExpressions(t *testing.T) {
	t.Parallel()
	var r *monitor.Rule
	var v *monitor.Value
	env := read(t, quake, r, v, nil)
	picked, err := r.Match(env)
	require.NoError(t, err)
	assert.True(t, picked)
	text, err := v.Text(env)
	require.NoError(t, err)
	assert.Empty(t, text)
	_, err = v.Millis(env)
	require.ErrorIs(t, err, ports.ErrInvalidInput)
}

func TestOneEventServesManyGoroutines(t *testing.T) {
	t.Parallel()
	rules := []*monitor.Rule{
		rule(t, `mag >= 4.5`, nil), rule(t, `any([1, 2, 3], # < mag) and event.net == "us"`, nil), rule(t, `place matches "Zealand$" and event == event`, nil),
		rule(t, `net in ["us", "ci"] and len(filter(split(place, " "), # != "of")) > 2`, nil),
	}
	key := value(t, `net + "/" + string(mag)`)
	reader := monitor.NewReader(rules[0], rules[1], rules[2], rules[3], key)
	env, err := reader.Read([]byte(quake))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				own, err := reader.Read([]byte(quake))
				assert.NoError(t, err)
				for _, e := range []monitor.Env{env, own} {
					for _, r := range rules {
						picked, err := r.Match(e)
						assert.NoError(t, err)
						assert.True(t, picked)
					}
					text, err := key.Text(e)
					assert.NoError(t, err)
					assert.Equal(t, "us/4.7", text)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		`mag >= 4.5`, `(mag ?? 0) >= 4.5`, `"mag" in event`, `any(tags, # == "b")`, `place matches "CA$"`, `let x = mag * 2; x > 8 ? true : false`, `if mag > 4 { true } else { false }`,
		`geo?.lat?.x`, `tags[1:2] == [1]`, `{"a": mag}["a"] == 1`, `tags | map(# + 1) | sum() > 3`, `not (mag in [1, -2, nil])`, `b"x"`, `::len(tags)`, `$env["x"]`, `all(tags, {let y = #; y != 1})`,
	} {
		f.Add(seed, `{"mag":4.5,"tags":["a",1,null],"geo":{"lat":{"x":true}},"place":"X, CA"}`)
	}
	fields := map[string]string{"mag": "number", "tags": "array", "geo": "object", "place": "string"}
	f.Fuzz(func(t *testing.T, text, event string) {
		compact, err := ports.CompactJSON(event)
		if err != nil {
			return
		}
		var exprs []monitor.Expression
		for _, declared := range []map[string]string{nil, fields} {
			if r, err := monitor.Compile(text, declared); err == nil {
				exprs = append(exprs, r)
			} else {
				require.ErrorIs(t, err, ports.ErrInvalidConfig)
			}
			if v, err := monitor.CompileValue(text, declared); err == nil {
				exprs = append(exprs, v)
			}
		}
		env, err := monitor.NewReader(exprs...).Read([]byte(compact))
		require.NoError(t, err)
		all, err := monitor.NewReader(append(exprs, value(t, "event"))...).Read([]byte(compact))
		require.NoError(t, err)
		for _, e := range exprs {
			switch e := e.(type) {
			case *monitor.Rule:
				picked, err := e.Match(env)
				again, errAgain := e.Match(all)
				require.Equal(t, picked, again, "what is decoded is what is used")
				require.Equal(t, err, errAgain)
			case *monitor.Value:
				text, err := e.Text(env)
				again, errAgain := e.Text(all)
				require.Equal(t, text, again)
				require.Equal(t, err, errAgain)
				_, _ = e.Millis(env)
			}
		}
	})
}

func TestTheLargestWholeNumbers(t *testing.T) {
	t.Parallel()
	v := value(t, "n")
	for text, want := range map[string]int64{"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64, "-0": 0} {
		got, err := v.Millis(read(t, `{"n":`+text+`}`, v))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}
