package monitor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/monitor"
	"github.com/stowage-go/stowage/ports"
)

// patience is far above what an evaluation takes on a machine that others use too.
const patience = time.Minute

// largest gives an event of almost 1 MiB.
func largest(prefix, part, suffix string) string {
	return prefix + strings.TrimSuffix(strings.Repeat(part, (1<<20-len(prefix)-len(suffix)-8)/len(part)), ",") + suffix
}

func TestCostIsBoundedWhateverComes(t *testing.T) {
	t.Parallel()
	numbers := largest(`{"a":[`, "1,", `]}`)
	text := largest(`{"s":"`, "ab", `"}`)
	both := largest(`{"s":"`+strings.Repeat("a", 1<<19)+`","a":[`, "1,", `]}`)
	texts := largest(`{"a":[`, `"`+strings.Repeat("a", 1000)+`",`, `]}`)
	alike := `{"s":"` + strings.Repeat("a", 600_000) + `","t":"` + strings.Repeat("a", 200_000) + "b" + strings.Repeat("a", 200_000) + `"}`
	deep := `{"d":` + strings.Repeat(`[`, 8000) + strings.Repeat(`]`, 8000) + `}`
	wide := largest(`{"a":[`, `{"b":[1,2]},`, `]}`)
	doubling := `let s0 = s; ` + each(60, "let s%d = s%d + s%d; ")
	sharing := `let a0 = [event]; ` + each(60, "let a%d = [a%d, a%d]; ")
	chain := func(part, by string, n int) string { return strings.TrimSuffix(strings.Repeat(part+by, n), by) }
	for name, tc := range map[string]struct {
		when, event string
		cost        bool // it ends because it costs too much
	}{
		"one loop over everything":         {`any(a, # > 3)`, numbers, false},
		"a sum of everything":              {`sum(map(a, # + 1)) > 3`, numbers, false},
		"three loops":                      {`all(a, none(a, one(a, # > 3)))`, numbers, true},
		"loops of loops that are short":    {`any(a, any(.b, # > 3))`, wide, false},
		"lists of lists":                   {`len(map(a, map(a, #))) == 1`, numbers, true},
		"text searched in a loop":          {`any(a, s contains "b")`, both, true},
		"text lowered in a loop":           {`any(a, lower(s) == "x")`, both, true},
		"text measured in a loop":          {`any(a, len(s) == 1)`, both, true},
		"text compared in a loop":          {`let t = s + "x"; any(a, s > t)`, both, true},
		"text looked up in a loop":         {`any(a, s in ["x", "y"])`, both, true},
		"text as a name in a loop":         {`any(a, event[s] == 1)`, both, true},
		"text made in a loop":              {`any(a, (s + "x") == "x")`, both, true},
		"text matched in a loop":           {`any(a, s matches "(a|aa)+b$")`, both, true},
		"lists searched in a loop":         {`any(a, 2 in a)`, numbers, true},
		"lists compared in a loop":         {`any(a, a != a)`, numbers, true},
		"lists of texts searched":          {`any(a, # + "b" in a)`, texts, true},
		"the largest of a list in a loop":  {`any(a, max(a) == 2)`, numbers, true},
		"a long list that is written out":  {`any(a, # in [` + chain("7", ",", 400) + `])`, numbers, true},
		"a long text that is written out":  {`any(a, "` + strings.Repeat("x", 4000) + `" < s)`, both, true},
		"a text trimmed":                   {`trim(s, "abc") == ""`, text, false},
		"a text trimmed in a loop":         {`any(a, trim(s, "ab") == "x")`, both, true},
		"a text trimmed of much":           {`trim(s, "` + strings.Repeat("x", 4000) + `éab") == ""`, text, true},
		"texts that are sought in others":  {`indexOf(s, t) + lastIndexOf(s, t) + len(split(s, t)) == 0 or s contains t or hasPrefix(s, t) or hasSuffix(s, t) or trimPrefix(s, t) + trimSuffix(s, t) == t`, alike, false},
		"a pattern that goes back":         {`s matches "(a|b|ab)*(ab|b|a)*c$"`, text, false},
		"a pattern with many states":       {`s matches "(a?){60}a{60}c"`, text, true},
		"splitting again and again":        {chain(`len(split(s, "")) == 1`, " or ", 100), text, true},
		"comparing what was split":         {`let p = split(s, "b"); ` + chain("p != p", " or ", 100), text, true},
		"counting again and again":         {chain(`sum(a) == 1`, " or ", 100), numbers, true},
		"splitting":                        {`len(split(s, "")) > 1`, text, false},
		"a text that doubles":              {doubling + `s60 == "x"`, text, true},
		"a value that holds itself often":  {sharing + `a60 == a59`, numbers, true},
		"a short one that does":            {sharing + `a60 == a59`, `{}`, true},
		"comparing all with itself, often": {chain(`event != event`, " or ", 200), numbers, true},
		"comparing all with itself":        {`event == event`, numbers, false},
		"the deepest value":                {`d == d and max(d) == nil`, deep, false},
		"many members":                     {`event == event and "x" not in event`, many(60_000), false},
	} {
		r := rule(t, tc.when, nil)
		begin := time.Now()
		env, err := monitor.NewReader(r).Read([]byte(tc.event))
		require.NoError(t, err, name)
		decoded := time.Since(begin)
		begin = time.Now()
		_, err = r.Match(env)
		took := time.Since(begin)
		t.Logf("%-34s read in %s, matched in %s", name, decoded.Round(time.Millisecond), took.Round(time.Millisecond))
		assert.Less(t, took, patience, name)
		if tc.cost {
			require.ErrorIs(t, err, ports.ErrInvalidInput, name)
			assert.ErrorContains(t, err, "it would take more steps than one event may cost", name)
		} else {
			assert.NoError(t, err, name)
		}
	}
}

// each makes n declarations, each of the one before it.
func each(n int, format string) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, format, i+1, i, i)
	}
	return text.String()
}

func many(n int) string {
	var text strings.Builder
	text.WriteString(`{"0":0`)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&text, `,"%d":%d`, i, i)
	}
	return text.String() + "}"
}

func TestCompilingIsBounded(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]string{
		"brackets":     strings.Repeat("(", 4000) + "true" + strings.Repeat(")", 4000),
		"open":         strings.Repeat("(", 8000),
		"lists":        strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + " == 1",
		"objects":      strings.Repeat(`{"a":`, 1600),
		"not":          strings.Repeat("not ", 900) + "true",
		"signs":        strings.Repeat("-", 900) + "1 > 0",
		"conditions":   strings.Repeat("if a {", 1000) + "true",
		"choices":      strings.Repeat("a ? ", 900) + "true" + strings.Repeat(" : b", 900),
		"members":      "a" + strings.Repeat(".a", 400) + " == 1",
		"calls":        strings.Repeat("abs(", 900) + "1" + strings.Repeat(")", 900) + " > 0",
		"pipes":        "a" + strings.Repeat(" | abs()", 900) + " > 0",
		"declarations": strings.Repeat("let a = 1; ", 700) + "true",
		"powers":       "2" + strings.Repeat(" ** 2", 400) + " > 0",
		"pattern":      `s matches "` + strings.Repeat("(a{9}", 800) + strings.Repeat(")", 800) + `"`,
		"classes":      `s matches "` + strings.Repeat(`\\pL`, 1500) + `"`,
		"text":         `"` + strings.Repeat("\\u0000", 1300) + `" == s`,
		"not text":     strings.Repeat("\xff", 8000),
	} {
		begin := time.Now()
		r, err := monitor.Compile(when, nil)
		assert.Less(t, time.Since(begin), patience, name)
		if err != nil {
			require.ErrorIs(t, err, ports.ErrInvalidConfig, name)
			continue
		}
		_, _ = r.Match(read(t, `{"a":1,"s":"x"}`, r))
	}
}
